//! Bytes over QUIC with quinn as it is, under one of its own controllers, to be measured from outside:
//!
//!     cellpace conform --client 'quinn_files get $CELLPACE_HOST:$CELLPACE_PORT $CELLPACE_BYTES' \
//!         --paced-client 'quinn_files get $CELLPACE_HOST:$CELLPACE_PORT $CELLPACE_BYTES $CELLPACE_COUNT $CELLPACE_EVERY_MS' \
//!         -- quinn_files serve 0.0.0.0:4433 cubic
//!
//! A client writes a number of eight bytes on a stream, and the server answers with as many bytes. Nobody is
//! authenticated.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "quinn_files serve ADDR:PORT cubic|newreno|bbr
quinn_files get ADDR:PORT BYTES [COUNT EVERY_MS]";

#[tokio::main]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", at, controller] => serve(at.parse()?, controller).await,
        ["get", from, bytes] => get(from.parse()?, bytes.parse()?, 1, 0).await,
        ["get", from, bytes, count, every] => {
            get(from.parse()?, bytes.parse()?, count.parse()?, every.parse()?).await
        }
        _ => Err(USAGE.into()),
    }
}

async fn serve(at: SocketAddr, controller: &str) -> Outcome<()> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
        "cubic" => Arc::new(CubicConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => return Err(format!("`{other}` is no controller of quinn\n{USAGE}").into()),
    };
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    let tls = rustls::ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)?;
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(factory);
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport.into());
    let endpoint = Endpoint::server(config, at)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move { answer(incoming.await?).await });
    }
    Ok(())
}

async fn answer(connection: Connection) -> Outcome<()> {
    const PART: [u8; 1 << 16] = [0; 1 << 16];
    while let Ok((mut sender, mut receiver)) = connection.accept_bi().await {
        let mut number = [0; 8];
        receiver.read_exact(&mut number).await?;
        let mut left = u64::from_be_bytes(number);
        while left > 0 {
            let part = left.min(PART.len() as u64);
            sender.write_all(&PART[..part as usize]).await?;
            left -= part;
        }
        sender.finish()?;
    }
    Ok(())
}

async fn get(from: SocketAddr, bytes: u64, count: u64, every_ms: u64) -> Outcome<()> {
    let provider = Arc::new(ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let connection = endpoint.connect_with(config, from, "localhost")?.await?;
    let mut pace = tokio::time::interval(Duration::from_millis(every_ms.max(1)));
    for _ in 0..count {
        pace.tick().await;
        let (mut sender, mut receiver) = connection.open_bi().await?;
        sender.write_all(&bytes.to_be_bytes()).await?;
        sender.finish()?;
        let mut received = 0;
        while let Some(chunk) = receiver.read_chunk(usize::MAX, true).await? {
            received += chunk.bytes.len() as u64;
        }
        if received != bytes {
            return Err(format!("{received} of {bytes} bytes").into());
        }
    }
    connection.close(0_u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

/// Takes every certificate.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, own, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, own, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
