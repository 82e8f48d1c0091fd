//! The client.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use cellpace_quic::identity::{Peer, client_config};
use http::{Request, StatusCode, header};
use quinn::{IdleTimeout, VarInt};

use crate::{ALPN, Http3Error};

/// A URL of a file: `https://HOST[:PORT]/PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    uri: http::Uri,
    host: String,
    port: u16,
}

/// Why a text is no URL.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no URL of HTTP/3: write https://HOST[:PORT]/PATH")]
pub struct UrlError(String);

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let wrong = || UrlError(text.to_owned());
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("https") {
            return Err(wrong());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host).to_owned();
        let port = uri.port_u16().unwrap_or(443);
        Ok(Self { uri, host, port })
    }
}

/// What a download was like.
#[derive(Debug, Clone)]
pub struct Download {
    /// Bytes of the body.
    pub bytes: u64,
    /// From the request to the last byte.
    pub took: Duration,
    /// From the beginning of the connection to the request.
    pub handshake: Duration,
}

/// How much of a download waits to be read.
const RECEIVE_WINDOW: u32 = 16 << 20;

/// Fetches `url` from `peer` and writes the body to `body` as it comes. Gives up when nothing comes
/// for `silence`. Must be called on a tokio runtime.
///
/// # Errors
/// When there is no connection, the peer is another one, the answer is not 200 or incomplete, or
/// `body` cannot be written.
pub async fn get(
    url: &Url,
    peer: &Peer,
    silence: Duration,
    body: &mut (impl Write + ?Sized),
) -> Result<Download, Http3Error> {
    let began = Instant::now();
    let to = (url.host.as_str(), url.port)
        .to_socket_addrs()
        .map_err(|error| Http3Error::system(url.host.as_str(), error))?
        .next()
        .ok_or_else(|| Http3Error::connection(format!("{}: no address", url.host)))?;
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let endpoint =
        quinn::Endpoint::client(any).map_err(|error| Http3Error::system("a socket", error))?;
    let connecting = endpoint
        .connect_with(configuration(peer, silence)?, to, &url.host)
        .map_err(Http3Error::connection)?;
    let connection = connecting.await.map_err(|error| Http3Error::connection(reason(&error)))?;
    let handshake = began.elapsed();
    let (mut driver, mut requests) = h3::client::new(h3_quinn::Connection::new(connection.clone()))
        .await
        .map_err(Http3Error::connection)?;
    let drive = async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await };
    let fetch = async {
        let result = fetch(url, &mut requests, body).await;
        drop(requests);
        result
    };
    let closed = tokio::spawn(drive);
    let fetched = fetch.await;
    connection.close(VarInt::from_u32(h3::error::Code::H3_NO_ERROR.value() as u32), b"");
    closed.abort();
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    let (bytes, took) = fetched?;
    Ok(Download { bytes, took, handshake })
}

fn configuration(peer: &Peer, silence: Duration) -> Result<quinn::ClientConfig, Http3Error> {
    let tls = client_config(peer, None, ALPN)?;
    let tls: quinn::crypto::rustls::QuicClientConfig =
        tls.try_into().map_err(Http3Error::connection)?;
    let mut transport = quinn::TransportConfig::default();
    transport
        .max_idle_timeout(Some(IdleTimeout::try_from(silence).map_err(Http3Error::connection)?))
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW));
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

async fn fetch(
    url: &Url,
    requests: &mut h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
    body: &mut (impl Write + ?Sized),
) -> Result<(u64, Duration), Http3Error> {
    let began = Instant::now();
    let agent = concat!("cellpace/", env!("CARGO_PKG_VERSION"));
    let request = Request::get(url.uri.clone()).header(header::USER_AGENT, agent).body(());
    let request = request.map_err(Http3Error::connection)?;
    let mut stream = requests.send_request(request).await.map_err(Http3Error::connection)?;
    stream.finish().await.map_err(Http3Error::connection)?;
    let response = stream.recv_response().await.map_err(Http3Error::connection)?;
    if response.status() != StatusCode::OK {
        return Err(Http3Error::Status(response.status()));
    }
    let announced = response.headers().get(header::CONTENT_LENGTH);
    let announced: Option<u64> = announced.and_then(|length| length.to_str().ok()?.parse().ok());
    let mut received = 0;
    while let Some(mut data) = stream.recv_data().await.map_err(Http3Error::connection)? {
        while data.has_remaining() {
            let chunk = data.chunk();
            let written = body.write_all(chunk);
            written.map_err(|error| Http3Error::system("the output", error))?;
            received += chunk.len() as u64;
            let count = chunk.len();
            data.advance(count);
        }
    }
    match announced {
        Some(announced) if announced != received => Err(Http3Error::Length { announced, received }),
        _ => Ok((received, began.elapsed())),
    }
}

/// Why there is no connection, for people.
fn reason(error: &quinn::ConnectionError) -> String {
    match error {
        quinn::ConnectionError::TimedOut => "no answer".to_owned(),
        quinn::ConnectionError::TransportError(error)
            if error.to_string().contains("certificate") =>
        {
            format!("the server is not known: {error}")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_port() {
        let of = |text: &str| text.parse::<Url>().map(|url| (url.host, url.port));
        assert_eq!(of("https://there/a?b").unwrap(), ("there".to_owned(), 443));
        assert_eq!(of("https://[::1]:4433/").unwrap(), ("::1".to_owned(), 4433));
        for text in ["", "there", "http://there/", "https://", "https:///a", "ftp://there/"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
