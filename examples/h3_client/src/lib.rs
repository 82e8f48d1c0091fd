//! A file over HTTP/3: what a program on quinn and h3 does to fetch one from a peer that it knows.
//!
//! It takes no more than 300 kB of headers (as curl does), skips interim responses (RFC 9114 section
//! 4.1), and tells a body that was cut short from a whole one.

#![forbid(unsafe_code)]

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use cellpace_quic::identity::{IdentityError, Peer, client_config};
use http::{Request, Response, StatusCode, header};
use quinn::{IdleTimeout, VarInt};

/// The name of the protocol in TLS.
const ALPN: &[u8] = b"h3";

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Http3Error {
    /// A certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A file or a socket.
    #[error("{name}: {error}")]
    System {
        /// Which one.
        name: String,
        /// The system's words.
        error: std::io::Error,
    },
    /// There is no connection, or it ended.
    #[error("{0}")]
    Connection(String),
    /// The headers do not end.
    #[error("the server sends more than {MAX_HEADERS} bytes of headers")]
    Headers,
    /// The server answers otherwise than with the file.
    #[error("the server answers {0}")]
    Status(StatusCode),
    /// Fewer or more bytes came than the server has announced.
    #[error("{received} bytes came of {announced}")]
    Length {
        /// The header content-length.
        announced: u64,
        /// What came.
        received: u64,
    },
}

impl Http3Error {
    fn system(name: impl Into<String>, error: std::io::Error) -> Self {
        Self::System { name: name.into(), error }
    }

    fn connection(error: impl Into<Box<dyn std::error::Error>>) -> Self {
        Self::Connection(error.into().to_string())
    }
}

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
/// Bytes until the body, interim responses and the handshake included.
const MAX_HEADERS: u64 = 300_000;
/// Bytes that may come at once until the body.
const HEADER_WINDOW: u32 = 64 << 10;
/// How often is looked at how many came.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
        let result = fetch(url, &connection, &mut requests, body).await;
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
        // Grows when the body begins.
        .receive_window(VarInt::from_u32(HEADER_WINDOW));
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

async fn fetch(
    url: &Url,
    connection: &quinn::Connection,
    requests: &mut h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
    body: &mut (impl Write + ?Sized),
) -> Result<(u64, Duration), Http3Error> {
    let began = Instant::now();
    let agent = concat!("cellpace/", env!("CARGO_PKG_VERSION"));
    let request = Request::get(url.uri.clone()).header(header::USER_AGENT, agent).body(());
    let request = request.map_err(Http3Error::connection)?;
    let mut stream = requests.send_request(request).await.map_err(Http3Error::connection)?;
    stream.finish().await.map_err(Http3Error::connection)?;
    let watched = connection.clone();
    // A task of its own: reading what comes without a pause would never let it run.
    let watch = tokio::spawn(async move {
        too_much(&watched).await;
        let code = VarInt::from_u32(h3::error::Code::H3_EXCESSIVE_LOAD.value() as u32);
        watched.close(code, b"too many headers");
    });
    let response = final_response(&mut stream).await;
    watch.abort();
    if connection.close_reason() == Some(quinn::ConnectionError::LocallyClosed) {
        return Err(Http3Error::Headers);
    }
    let response = response?;
    connection.set_receive_window(VarInt::from_u32(RECEIVE_WINDOW));
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

type Stream = h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// The response after those that only say that there will be one.
async fn final_response(stream: &mut Stream) -> Result<Response<()>, Http3Error> {
    loop {
        let response = stream.recv_response().await.map_err(Http3Error::connection)?;
        if !response.status().is_informational() {
            return Ok(response);
        }
    }
}

/// Returns once more has come than headers may have: the library collects them whatever their size.
async fn too_much(connection: &quinn::Connection) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    while connection.stats().udp_rx.bytes <= MAX_HEADERS {
        look.tick().await;
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
