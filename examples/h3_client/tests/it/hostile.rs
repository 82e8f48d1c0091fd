//! What servers cannot make the client do.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cellpace_quic::identity::{Identity, Peer, server_config};
use h3_client::{Download, Http3Error, get};
use quinn::{Connection, SendStream, VarInt};

/// Only a fault takes as long.
const LONG: Duration = Duration::from_secs(30);

/// A frame of headers with one indexed field of QPACK's static table.
fn headers(indexed: u8) -> Vec<u8> {
    vec![0x01, 0x03, 0x00, 0x00, 0xc0 | indexed]
}

const OK: u8 = 25;
const EARLY_HINTS: u8 = 24;

/// A frame of data.
fn data(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 64);
    [&[0x00, bytes.len() as u8], bytes].concat()
}

/// Serves one connection, whose first request `answer` gets, and fetches from it.
async fn fetch<F>(
    answer: impl FnOnce(Connection, SendStream) -> F + Send + 'static,
) -> (Result<Download, Http3Error>, Vec<u8>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let identity = Identity::generate(["localhost".to_owned()]).unwrap();
    let tls = server_config(&identity, None, b"h3").unwrap();
    let tls: quinn::crypto::rustls::QuicServerConfig = tls.try_into().unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let at: SocketAddr = endpoint.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let mut control = connection.open_uni().await.unwrap();
        // The type of the stream, and SETTINGS without any.
        control.write_all(&[0x00, 0x04, 0x00]).await.unwrap();
        let (stream, _request) = connection.accept_bi().await.unwrap();
        answer(connection.clone(), stream).await;
        let _ = tokio::time::timeout(LONG, connection.closed()).await;
    });
    let url = format!("https://localhost:{}/x", at.port()).replace("localhost", "127.0.0.1");
    let (url, peer) = (url.parse().unwrap(), Peer::Fingerprint(identity.fingerprint()));
    let mut body = Vec::new();
    let fetched = get(&url, &peer, Duration::from_secs(10), &mut body);
    let fetched = tokio::time::timeout(LONG, fetched).await.unwrap();
    serving.abort();
    (fetched, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn interim_responses_are_skipped() {
    let (fetched, body) = fetch(|_, mut stream| async move {
        let early = headers(EARLY_HINTS).repeat(3);
        let answer = [early, headers(OK), data(b"fine\n")].concat();
        stream.write_all(&answer).await.unwrap();
        stream.finish().unwrap();
    })
    .await;
    assert_eq!(fetched.unwrap().bytes, 5);
    assert_eq!(body, b"fine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_and_interim_responses_without_an_end_are_given_up() {
    for begin in [vec![0x01, 0xbf, 0xff, 0xff, 0xff], headers(EARLY_HINTS)] {
        let (fetched, _) = fetch(|_, mut stream| async move {
            let piece = match begin.len() {
                5 if begin[1] == 0xbf => vec![0; 1 << 14],
                _ => begin.repeat(2000),
            };
            stream.write_all(&begin).await.unwrap();
            let mut sent = 0_u64;
            while stream.write_all(&piece).await.is_ok() {
                sent += piece.len() as u64;
                assert!(sent < 100_000_000, "it goes on taking");
            }
        })
        .await;
        assert!(matches!(fetched, Err(Http3Error::Headers)), "{fetched:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_was_cut_short_is_an_error() {
    let (closed, _) = fetch(|connection, mut stream| async move {
        stream.write_all(&[headers(OK), data(b"half of it")].concat()).await.unwrap();
        // What arrives after it was written.
        stream.reset(VarInt::from_u32(0x100)).unwrap();
        drop(connection);
    })
    .await;
    assert!(closed.is_err(), "{closed:?}");
    // A connection that was closed without an error of its own.
    let (closed, _) = fetch(|connection, mut stream| async move {
        stream.write_all(&[headers(OK), data(b"half of it")].concat()).await.unwrap();
        connection.close(VarInt::from_u32(0), b"");
    })
    .await;
    assert!(closed.is_err(), "{closed:?}");
}
