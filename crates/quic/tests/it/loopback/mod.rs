//! Downloads over loopback with either library.

pub(crate) use std::net::SocketAddr;
pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use cellpace_quic::Factory;
pub(crate) use cellpace_quic::identity::{Identity, Peer, client_config, server_config};

const ALPN: &[u8] = b"test";

/// A module with the two ends of a download over `$library`.
macro_rules! ends {
    ($module:ident, $library:ident, $proto:ident, $install:ident) => {
        pub(crate) mod $module {
            use super::*;

            pub(crate) use cellpace_quic::$library::attach;

            /// An endpoint on loopback. Without a factory the controller is the library's own.
            pub(crate) fn listen(
                identity: &Identity,
                factory: Option<&Arc<Factory>>,
            ) -> ::$library::Endpoint {
                let tls = server_config(identity, None, ALPN).unwrap();
                let tls: ::$proto::crypto::rustls::QuicServerConfig = tls.try_into().unwrap();
                let mut config = ::$library::ServerConfig::with_crypto(Arc::new(tls));
                let mut transport = ::$library::TransportConfig::default();
                if let Some(factory) = factory {
                    factory.$install(&mut transport);
                }
                config.transport_config(Arc::new(transport));
                ::$library::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap()
            }

            /// Returns how much arrived, or why there is no connection.
            pub(crate) async fn get(to: SocketAddr, peer: &Peer) -> Result<usize, String> {
                let tls = client_config(peer, None, ALPN).unwrap();
                let tls: ::$proto::crypto::rustls::QuicClientConfig = tls.try_into().unwrap();
                let endpoint =
                    ::$library::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
                let config = ::$library::ClientConfig::new(Arc::new(tls));
                let connecting = endpoint.connect_with(config, to, "localhost").unwrap();
                let connection = connecting.await.map_err(|error| error.to_string())?;
                let mut stream = connection.accept_uni().await.unwrap();
                let (mut bytes, mut piece) = (0, vec![0; 1 << 16]);
                while let Some(read) = stream.read(&mut piece).await.unwrap() {
                    bytes += read;
                }
                connection.close(0_u32.into(), b"");
                endpoint.wait_idle().await;
                Ok(bytes)
            }
        }
    };
}

ends!(over_noq, noq, noq_proto, install_noq);
ends!(over_quinn, quinn, quinn_proto, install_quinn);
