//! What strangers cannot make a server do.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellpace_http3::{Limits, RequestFigures, Server, ServerView};
use cellpace_quic::identity::{Identity, Peer, client_config};
use quinn::VarInt;

/// Only a fault takes as long.
const LONG: Duration = Duration::from_secs(30);

struct View(Mutex<Sender<RequestFigures>>);

impl ServerView for View {
    fn on_request(&self, figures: &RequestFigures) {
        // The test may be over.
        let _ = self.0.lock().unwrap().send(figures.clone());
    }
}

/// A server of a folder with a file of 20 MB.
struct Fixture {
    to: SocketAddr,
    peer: Peer,
    requests: Receiver<RequestFigures>,
    _folder: tempfile::TempDir,
}

fn start(limits: Limits) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("large"), vec![7; 20_000_000]).unwrap();
    let identity = Identity::generate(["localhost".to_owned()]).unwrap();
    let at = "127.0.0.1:0".parse().unwrap();
    let (sender, requests) = channel();
    let view = View(Mutex::new(sender));
    let cc = "cubic".parse().unwrap();
    let server = Server::bind(at, folder.path(), cc, 1, &identity, limits, view).unwrap();
    let to = server.local_address().unwrap();
    tokio::spawn(async move { server.run().await });
    Fixture { to, peer: Peer::Fingerprint(identity.fingerprint()), requests, _folder: folder }
}

async fn connect(fixture: &Fixture, window: u32) -> Result<quinn::Connection, String> {
    let tls = client_config(&fixture.peer, None, b"h3").unwrap();
    let tls: quinn::crypto::rustls::QuicClientConfig = tls.try_into().unwrap();
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    let mut transport = quinn::TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(window));
    if window < 1 << 20 {
        // Goes on saying that it is there.
        transport.keep_alive_interval(Some(Duration::from_millis(100)));
    }
    config.transport_config(Arc::new(transport));
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(config, fixture.to, "localhost").unwrap();
    connecting.await.map_err(|error| error.to_string())
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_room_comes_back() {
    let limits = Limits { connections: 2, connections_per_address: 2, ..Limits::default() };
    let fixture = start(limits);
    // The second one has to show that its address is its own.
    let first = soon(connect(&fixture, 1 << 20)).await.unwrap();
    let second = soon(connect(&fixture, 1 << 20)).await.unwrap();
    let error = soon(connect(&fixture, 1 << 20)).await.unwrap_err();
    assert!(error.contains("refused"), "{error}");
    first.close(VarInt::from_u32(0), b"");
    soon(async {
        while connect(&fixture, 1 << 20).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_without_an_end_closes_the_connection() {
    let fixture = start(Limits::default());
    let connection = soon(connect(&fixture, 1 << 20)).await.unwrap();
    let (mut stream, _answer) = soon(connection.open_bi()).await.unwrap();
    // A frame of headers of 2^30 - 1 bytes.
    stream.write_all(&[0x01, 0xbf, 0xff, 0xff, 0xff]).await.unwrap();
    let mut sent = 0_u64;
    soon(async {
        while stream.write_all(&[0; 1 << 14]).await.is_ok() {
            sent += 1 << 14;
        }
    })
    .await;
    assert!(connection.close_reason().is_some());
    assert!(sent < 200_000_000, "{sent} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_and_who_reads_nothing_is_left() {
    let short = Duration::from_millis(700);
    let fixture = start(Limits { idle: short, patience: short, ..Limits::default() });
    let silent = soon(connect(&fixture, 1 << 20)).await.unwrap();
    soon(silent.closed()).await;
    // It asks for 20 MB and takes 64 kB of them.
    let slow = soon(connect(&fixture, 1 << 16)).await.unwrap();
    let (mut stream, _answer) = soon(slow.open_bi()).await.unwrap();
    let mut request = vec![0x01, 0x00, 0x00, 0x00];
    // GET (17) and https (23) of the static table, authority and path in full.
    request.extend([0xd1, 0xd7, 0x50, 0x01, b'x', 0x51, 0x06]);
    request.extend(b"/large");
    request[1] = (request.len() - 2) as u8;
    stream.write_all(&request).await.unwrap();
    stream.finish().unwrap();
    let figures = tokio::task::spawn_blocking(move || fixture.requests.recv_timeout(LONG));
    let figures = soon(figures).await.unwrap().unwrap();
    assert!(figures.is_cut && figures.bytes < 20_000_000, "{figures:?}");
    assert_eq!(figures.request, "GET /large");
    drop(slow);
}
