//! A proxy that runs, servers behind it, and clients, all in one process over loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cellpace_proxy::socks5::Target;
use cellpace_proxy::{
    ControlledSide, Metrics, Notice, Proxy, ProxyConfig, ProxyMode, ProxyOutcome, StopUrgency,
};
use cellpace_tcp::ControlOptions;
use prometheus::TextEncoder;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

/// Long enough for everything that shall happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough to see that something does not happen.
pub(crate) const MOMENT: Duration = Duration::from_millis(300);

pub(crate) const SIDES: [ControlledSide; 3] =
    [ControlledSide::Client, ControlledSide::Upstream, ControlledSide::Both];

/// A proxy in a thread of its own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Metrics,
    pub(crate) closed: Arc<Mutex<Vec<String>>>,
    pub(crate) uncontrolled: Arc<Mutex<u64>>,
    stop: watch::Sender<StopUrgency>,
    ended: mpsc::Receiver<ProxyOutcome>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn config(mode: ProxyMode) -> ProxyConfig {
    let flow = ControlOptions::new("cubic".parse().unwrap());
    ProxyConfig::new("127.0.0.1:0".parse().unwrap(), mode, flow)
}

pub(crate) fn forward(to: SocketAddr) -> ProxyConfig {
    config(ProxyMode::Forward(Target::Address(to)))
}

impl Running {
    pub(crate) fn start(config: ProxyConfig) -> Self {
        let proxy = Proxy::bind(config, Vec::new()).unwrap();
        let (address, metrics) = (proxy.addresses()[0], proxy.metrics());
        let (stop, stopped) = watch::channel(StopUrgency::No);
        let (ended_sender, ended) = mpsc::channel();
        let closed = Arc::new(Mutex::new(Vec::new()));
        let log = closed.clone();
        let uncontrolled = Arc::new(Mutex::new(0));
        let plain = uncontrolled.clone();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let report = move |notice: Notice| match notice {
                Notice::Closed(closed) => {
                    let how = closed.how.map_or_else(|e| e.to_string(), |how| how.word().into());
                    log.lock().unwrap().push(format!("{} {how}", closed.client));
                }
                Notice::Uncontrolled(_) => *plain.lock().unwrap() += 1,
                _ => {}
            };
            let ended = runtime.block_on(proxy.run(stopped, report)).unwrap();
            runtime.shutdown_background();
            let _ = ended_sender.send(ended);
        });
        Self { address, metrics, closed, uncontrolled, stop, ended, thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    pub(crate) fn stop(&self, urgency: StopUrgency) {
        self.stop.send_replace(urgency);
    }

    /// How it ended, after it was stopped.
    pub(crate) fn ended(mut self) -> ProxyOutcome {
        let ended = self.ended.recv_timeout(PATIENCE).expect("the proxy does not end");
        self.thread.take().unwrap().join().unwrap();
        ended
    }

    pub(crate) fn metrics_text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.metrics.families()).unwrap()
    }

    /// Waits until a line of the metrics is there.
    pub(crate) fn await_metric(&self, line: &str) {
        let start = Instant::now();
        while !self.metrics_text().lines().any(|found| found == line) {
            assert!(start.elapsed() < PATIENCE, "{line} missing in\n{}", self.metrics_text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(StopUrgency::Now);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Serves each connection in a thread of its own, until the tests end.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), serve.clone());
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Sends back what comes.
pub(crate) fn echo() -> SocketAddr {
    server(|mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// Sends as many bytes as the request asks for, and ends.
pub(crate) fn downloads() -> SocketAddr {
    server(|mut stream| {
        let mut request = [0; 8];
        if stream.read_exact(&mut request).is_err() {
            return;
        }
        let mut made = Made::new(u64::from_le_bytes(request));
        while let Some(chunk) = made.next_chunk() {
            if stream.write_all(chunk).is_err() {
                return;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        // Closed by the client.
        let _ = stream.read(&mut request);
    })
}

/// Hashes what comes, and answers with the hash after the end.
pub(crate) fn uploads() -> SocketAddr {
    server(|mut stream| {
        let hash = hash_of(&mut stream);
        stream.write_all(&hash).unwrap();
    })
}

/// Bytes without a pattern that a fault could repeat.
pub(crate) struct Made {
    left: u64,
    state: u64,
    chunk: Vec<u8>,
}

impl Made {
    pub(crate) fn new(left: u64) -> Self {
        Self { left, state: left | 1, chunk: vec![0; 1 << 16] }
    }

    pub(crate) fn next_chunk(&mut self) -> Option<&[u8]> {
        let count = self.left.min(self.chunk.len() as u64) as usize;
        self.left -= count as u64;
        for word in self.chunk.chunks_exact_mut(8) {
            // Marsaglia's xorshift.
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            word.copy_from_slice(&self.state.to_le_bytes());
        }
        (count > 0).then(|| &self.chunk[..count])
    }

    pub(crate) fn hash(bytes: u64) -> Vec<u8> {
        let mut made = Self::new(bytes);
        let mut hash = Sha256::new();
        while let Some(chunk) = made.next_chunk() {
            hash.update(chunk);
        }
        hash.finalize().to_vec()
    }
}

/// The hash of everything up to the end.
pub(crate) fn hash_of(stream: &mut impl Read) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return hash.finalize().to_vec(),
            count => hash.update(&buffer[..count]),
        }
    }
}

pub(crate) fn download(mut stream: TcpStream, bytes: u64) {
    stream.write_all(&bytes.to_le_bytes()).unwrap();
    assert_eq!(hash_of(&mut stream), Made::hash(bytes), "{bytes} bytes down");
}

pub(crate) fn upload(mut stream: TcpStream, bytes: u64) {
    let mut made = Made::new(bytes);
    while let Some(chunk) = made.next_chunk() {
        stream.write_all(chunk).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut hash = Vec::new();
    stream.read_to_end(&mut hash).unwrap();
    assert_eq!(hash, Made::hash(bytes), "{bytes} bytes up");
}

/// The connection works, there and back.
pub(crate) fn exchange(stream: &mut TcpStream) {
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

/// A close that is a reset.
pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}
