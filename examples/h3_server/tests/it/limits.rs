//! What strangers cannot make a server do.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellpace_quic::identity::{Identity, Peer, client_config};
use h3_server::{Limits, RequestFigures, Server, ServerView};
use quinn::{RecvStream, SendStream, VarInt};

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

/// A client at an address of this machine that reads at most `window` bytes of a stream.
async fn connect_from(
    from: &str,
    fixture: &Fixture,
    window: u32,
) -> Result<quinn::Connection, String> {
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
    let endpoint = quinn::Endpoint::client(from.parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(config, fixture.to, "localhost").unwrap();
    connecting.await.map_err(|error| error.to_string())
}

async fn connect(fixture: &Fixture, window: u32) -> Result<quinn::Connection, String> {
    connect_from("127.0.0.1:0", fixture, window).await
}

/// GET of a path on a stream of its own, in the frames of HTTP/3.
async fn ask(connection: &quinn::Connection, path: &str) -> (SendStream, RecvStream) {
    let (mut stream, answer) = soon(connection.open_bi()).await.unwrap();
    // GET (17) and https (23) of the static table, authority and path in full.
    let mut block = vec![0x00, 0x00, 0xd1, 0xd7, 0x50, 0x01, b'x', 0x51];
    assert!(path.len() < 127, "a length of one byte");
    block.push(path.len() as u8);
    block.extend(path.as_bytes());
    let mut frame = vec![0x01];
    // A varint of two bytes.
    frame.extend((0x4000 | block.len() as u16).to_be_bytes());
    frame.extend(block);
    soon(stream.write_all(&frame)).await.unwrap();
    stream.finish().unwrap();
    (stream, answer)
}

/// The status of an answer: an index of QPACK's static table, or in full.
async fn status(answer: &mut RecvStream) -> u16 {
    let mut begin = [0; 32];
    let mut read = 0;
    // Frame type, length, two bytes of prefix, the first field.
    while read < 8 {
        let Some(count) = soon(answer.read(&mut begin[read..])).await.unwrap() else { break };
        read += count;
    }
    let fields = if begin[1] < 0x40 { &begin[4..] } else { &begin[5..] };
    // RFC 9204, appendix A.
    match fields[0] {
        0xd9 => 200,
        0xdb => 404,
        0xdc => 503,
        other => panic!("a field that begins with {other:#x}"),
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded_and_room_comes_back() {
    let fixture = start(Limits { connections: 2, ..Limits::default() });
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
    let _asked = ask(&slow, "/large").await;
    let figures = tokio::task::spawn_blocking(move || fixture.requests.recv_timeout(LONG));
    let figures = soon(figures).await.unwrap().unwrap();
    assert!(figures.is_cut && figures.bytes < 20_000_000, "{figures:?}");
    assert_eq!((&*figures.method, &*figures.path), ("GET", "/large"));
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_alone_keep_no_connection_and_requests_do() {
    let idle = Duration::from_millis(700);
    let fixture = start(Limits { idle, ..Limits::default() });
    // Both ping every 100 ms; one asks for something, and takes its time.
    let pinging = soon(connect(&fixture, 1 << 16)).await.unwrap();
    let reading = soon(connect(&fixture, 1 << 16)).await.unwrap();
    let (_asked, mut answer) = ask(&reading, "/large").await;
    let reason = soon(pinging.closed()).await;
    assert!(reason.to_string().contains("nothing was asked for"), "{reason}");
    let mut read = 0;
    for _ in 0..4 {
        tokio::time::sleep(idle / 2).await;
        read += soon(answer.read(&mut [0; 1000])).await.unwrap().unwrap();
    }
    assert!(read > 0 && reading.close_reason().is_none());
}

/// Many connections, as a test may have them on a loopback of its own.
#[tokio::test(flavor = "multi_thread")]
async fn one_network_leaves_places_and_files_to_others() {
    // A quarter is 64 at least.
    let limits = Limits { connections: 80, files: 70, ..Limits::default() };
    let fixture = start(limits);
    let mut held = Vec::new();
    let refused = loop {
        match soon(connect_from("127.0.0.1:0", &fixture, 1 << 16)).await {
            Ok(connection) => held.push(connection),
            Err(error) => break error,
        }
    };
    assert_eq!(held.len(), 64);
    assert!(refused.contains("refused"), "{refused}");
    // All of its files are open, since it reads nothing.
    let mut answers = Vec::new();
    for connection in &held[..8] {
        for _ in 0..8 {
            answers.push(ask(connection, "/large").await);
        }
    }
    for (_, answer) in &mut answers {
        assert_eq!(status(answer).await, 200);
    }
    let (_asked, mut answer) = ask(&held[9], "/large").await;
    assert_eq!(status(&mut answer).await, 503, "its quarter is open");
    let (_asked, mut answer) = ask(&held[9], "/missing").await;
    assert_eq!(status(&mut answer).await, 503, "it cannot be known");
    let other = soon(connect_from("127.0.0.2:0", &fixture, 1 << 16)).await.unwrap();
    let (_asked, mut answer) = ask(&other, "/large").await;
    assert_eq!(status(&mut answer).await, 200);
    let (_asked, mut answer) = ask(&other, "/missing").await;
    assert_eq!(status(&mut answer).await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_for_answers_that_nobody_reads_is_bounded_for_all() {
    // 2 MB for one network: windows get smaller, and then there are none.
    let fixture = start(Limits { memory: 8 << 20, ..Limits::default() });
    let mut held = Vec::new();
    while let Ok(connection) = soon(connect(&fixture, 1 << 16)).await {
        held.push(connection);
        assert!(held.len() <= 11, "each takes 192 kB or more");
    }
    assert!(held.len() >= 4, "{}", held.len());
    assert!(soon(connect_from("127.0.0.2:0", &fixture, 1 << 16)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_given_up_at_once_end_the_connection() {
    let fixture = start(Limits { given_up: 20, ..Limits::default() });
    let connection = soon(connect(&fixture, 1 << 20)).await.unwrap();
    let mut begun = 0;
    soon(async {
        while connection.close_reason().is_none() && begun < 5000 {
            let Ok((mut stream, mut answer)) = connection.open_bi().await else { break };
            // The header never comes.
            let _ = stream.write_all(&[0x01]).await;
            let _ = stream.reset(VarInt::from_u32(0x10c));
            let _ = answer.stop(VarInt::from_u32(0x10c));
            begun += 1;
        }
    })
    .await;
    let reason = soon(connection.closed()).await;
    assert!(reason.to_string().contains("given up"), "{reason}");
    assert!(begun < 5000, "{begun}");
}

/// One first packet from an address that never answers.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_does_not_answer_gets_less_than_it_sent() {
    let fixture = start(Limits::default());
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    // What a client's first packet is, a relay sees: it passes it on, and nothing after it.
    let relay = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let between = Fixture { to: relay.local_addr().unwrap(), ..fixture };
    let to = fixture.to;
    let mut first = [0; 2048];
    let length = tokio::select! {
        connected = connect(&between, 1 << 20) => panic!("{connected:?}"),
        length = soon(relay.recv(&mut first)) => length.unwrap(),
    };
    assert!(length >= 1200, "{length}");
    socket.send_to(&first[..length], to).await.unwrap();
    let mut got = 0;
    let until = tokio::time::Instant::now() + Duration::from_secs(3);
    let mut answer = [0; 2048];
    while let Ok(received) = tokio::time::timeout_at(until, socket.recv(&mut answer)).await {
        got += received.unwrap();
    }
    assert!(got > 0 && got < length, "{got} bytes for {length}");
}
