//! Answers browsers and scrapers, each on a thread of its own.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cellpace_base::quota::ClientNetwork;
use prometheus::proto::MetricFamily;
use rustix::net::{RecvFlags, recv, sockopt};

use crate::access::{LiveToken, is_from_here};
use crate::connections::LiveConnections;
use crate::reply::{EVENTS, JSON, METRICS_TEXT, head, refusal, reply};
use crate::request::{Request, RequestError, read_head};
use crate::stream::LiveStream;
use crate::{metrics, page, stream};

/// Clients that are served at a time; more than the streams, so that there is always one to close.
pub const MAX_CLIENTS: usize = 32;
/// Those among them that get a stream.
pub const MAX_STREAMS: usize = 8;

/// Time for a request to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Time for an answer, or one update, to leave.
const SEND_TIME: Duration = Duration::from_secs(10);
/// Time for a client to close the connection after the answer.
const CLOSE_TIME: Duration = Duration::from_secs(1);
/// Time from one update to the next.
const TICK: Duration = Duration::from_millis(100);
/// Time for clients to get the last figures at the end.
const END_TIME: Duration = Duration::from_secs(1);
/// Pause when no connection can be taken.
const PAUSE: Duration = Duration::from_millis(100);
/// What the kernel holds for one client, at most: some updates.
const SEND_BUFFER: usize = 256 << 10;
/// A thread's stack: it reads 8 kB and writes text.
const STACK: usize = 512 << 10;

/// More figures for `/metrics`.
pub type MoreMetrics = Box<dyn Fn() -> Vec<MetricFamily> + Send + Sync>;

/// Serves the page, its data and figures for Prometheus, until it is [finished](Self::finish).
pub struct LiveServer {
    address: SocketAddr,
    shared: Arc<SharedServer>,
    accepting: Option<JoinHandle<()>>,
}

struct SharedServer {
    listener: TcpListener,
    is_local: bool,
    token: LiveToken,
    connections: LiveConnections,
    more_metrics: Option<MoreMetrics>,
    clients: Mutex<Clients>,
    /// A client is gone.
    gone: Condvar,
    next_client: AtomicU64,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Clients {
    streams: usize,
    /// By number, in the order in which they came.
    open: BTreeMap<u64, OpenClient>,
}

struct OpenClient {
    stream: Arc<TcpStream>,
    network: ClientNetwork,
    /// Whether it has shown the token and gets a stream.
    is_stream: bool,
}

impl Clients {
    /// Closes the client that has been there longest of those without a stream, of the network that has
    /// most of them: who asks at once has its answer before. On one machine all users are one network.
    fn make_room(&mut self) {
        let mut counts: HashMap<ClientNetwork, usize> = HashMap::new();
        let others = || self.open.iter().filter(|(_, client)| !client.is_stream);
        others().for_each(|(_, client)| *counts.entry(client.network).or_default() += 1);
        let of_network = |client: &OpenClient| counts.get(&client.network).copied();
        let most = counts.values().copied().max();
        let oldest = others().find(|(_, client)| of_network(client) == most);
        let Some(number) = oldest.map(|(number, _)| *number) else { return };
        if let Some(client) = self.open.remove(&number) {
            // Wakes its thread, which ends.
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

impl LiveServer {
    /// Listens, and begins to serve what `connections` holds.
    ///
    /// # Errors
    /// When the address cannot be listened at, or the system has no random bytes or no thread.
    pub fn start(
        address: SocketAddr,
        connections: LiveConnections,
        more_metrics: Option<MoreMetrics>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(SharedServer {
            listener,
            is_local: address.ip().is_loopback(),
            token: LiveToken::new()?,
            connections,
            more_metrics,
            clients: Mutex::default(),
            gone: Condvar::new(),
            next_client: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        });
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("cellpace-live".to_owned());
        let accepting = Some(thread.spawn(move || theirs.accept())?);
        let theirs = shared.connections.clone();
        let thread = thread::Builder::new().name("cellpace-history".to_owned()).stack_size(STACK);
        // Without it the charts begin with the first look. It ends with the connections.
        let _ = thread.spawn(move || theirs.keep_history());
        Ok(Self { address, shared, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link to open in a browser; its fragment is the token.
    pub fn link(&self) -> String {
        format!("http://{}/#k={}", self.address, self.shared.token.text())
    }

    /// Sends the last figures to those who look, and closes all connections. Returns within two
    /// seconds, whatever clients do.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        self.shared.connections.end();
        // Wakes the thread that accepts, with an error.
        let _ = rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        self.shared.close_all();
    }
}

impl SharedServer {
    fn accept(self: Arc<Self>) {
        loop {
            let accepted = self.listener.accept();
            if self.is_ending.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok((stream, from)) => self.begin(stream, from),
                // Most likely there are no descriptors left, which may pass.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn begin(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let stream = Arc::new(stream);
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        {
            let mut clients = self.lock();
            if clients.open.len() >= MAX_CLIENTS {
                clients.make_room();
            }
            let network = ClientNetwork::of(from);
            let client = OpenClient { stream: stream.clone(), network, is_stream: false };
            clients.open.insert(number, client);
        }
        let client = Client { server: self.clone(), number, stream };
        let thread = thread::Builder::new().name("cellpace-live".to_owned()).stack_size(STACK);
        // The client is gone, or there is no thread for it: it cannot be told in either case.
        let _ = thread.spawn(move || drop(client.serve()));
    }

    /// Gives clients some time to get the last figures, and then closes their connections.
    fn close_all(&self) {
        let clients = self.lock();
        let waited =
            self.gone.wait_timeout_while(clients, END_TIME, |clients| !clients.open.is_empty());
        let (clients, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for client in clients.open.values() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of a client.
struct Client {
    server: Arc<SharedServer>,
    number: u64,
    stream: Arc<TcpStream>,
}

/// A place among the clients with a stream.
struct StreamPlace(Arc<SharedServer>);

impl Drop for Client {
    fn drop(&mut self) {
        self.server.lock().open.remove(&self.number);
        self.server.gone.notify_all();
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.lock().streams -= 1;
    }
}

impl StreamPlace {
    fn take(server: &Arc<SharedServer>, number: u64) -> Option<Self> {
        let mut clients = server.lock();
        if clients.streams >= MAX_STREAMS {
            return None;
        }
        clients.open.get_mut(&number)?.is_stream = true;
        clients.streams += 1;
        Some(Self(server.clone()))
    }
}

impl Client {
    fn serve(self) -> io::Result<()> {
        let request = match self.read()? {
            Ok(request) => request,
            Err(RequestError::Malformed) => return self.end(&refusal("400 Bad Request")),
            Err(RequestError::Method) => return self.end(&refusal("405 Method Not Allowed")),
            Err(RequestError::TooLong) => {
                return self.end(&refusal("431 Request Header Fields Too Large"));
            }
        };
        if !is_from_here(&request) {
            return self.end(&refusal("403 Forbidden"));
        }
        match request.path.as_str() {
            "/metrics" if self.server.is_local => self.metrics(&request),
            "/metrics" | "/api/state" | "/api/events" if !self.server.token.is_in(&request) => {
                self.end(&refusal("401 Unauthorized"))
            }
            "/metrics" => self.metrics(&request),
            "/api/state" => {
                let state = stream::state(&self.server.connections).to_string();
                self.end(&reply("200 OK", JSON, &state, request.is_head))
            }
            "/api/events" => self.events(&request),
            path => match page::file(path) {
                Some((kind, text)) => self.end(&reply("200 OK", kind, &text, request.is_head)),
                None => self.end(&refusal("404 Not Found")),
            },
        }
    }

    /// Reads the head of a request, for as long as a client may take for it.
    fn read(&self) -> io::Result<Result<Request, RequestError>> {
        let until = Instant::now() + REQUEST_TIME;
        let mut bytes = Vec::new();
        loop {
            let mut part = [0; 1024];
            self.stream.set_read_timeout(Some(left(until)?))?;
            let count = match (&*self.stream).read(&mut part) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            };
            bytes.extend_from_slice(&part[..count]);
            match read_head(&bytes).transpose() {
                Some(request) => return Ok(request),
                None if count == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    }

    fn metrics(&self, request: &Request) -> io::Result<()> {
        let mut families = metrics::families(&self.server.connections);
        families.extend(self.server.more_metrics.iter().flat_map(|more| more()));
        self.end(&reply("200 OK", METRICS_TEXT, &metrics::text(families), request.is_head))
    }

    /// Sends what is new at each tick, until the client is gone or the end has come. A client that
    /// takes nothing stops its own thread, which then goes on with the newest figures.
    fn events(&self, request: &Request) -> io::Result<()> {
        let Some(_place) = StreamPlace::take(&self.server, self.number) else {
            return self.end(&refusal("503 Service Unavailable"));
        };
        sockopt::set_socket_send_buffer_size(&self.stream, SEND_BUFFER)?;
        self.send(head("200 OK", EVENTS, "").as_bytes())?;
        if request.is_head {
            return self.end(&[]);
        }
        let mut stream = LiveStream::new(self.server.connections.clone(), request);
        let mut text = String::new();
        loop {
            let next = Instant::now() + TICK;
            text.clear();
            let is_last = stream.write(&mut text);
            self.send(text.as_bytes())?;
            if is_last {
                drop(stream);
                return self.end(&[]);
            }
            self.server.connections.wait(next);
            if self.is_gone() {
                return Ok(());
            }
        }
    }

    /// Whether the client has closed its end.
    fn is_gone(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match recv(&self.stream, &mut [0; 1][..], flags) {
            Ok((count, _)) => count == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }

    /// Sends all of it within [`SEND_TIME`], or fails.
    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + SEND_TIME;
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(until)?))?;
            match (&*self.stream).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends the rest of the answer, and waits until the client has closed its end: closing with
    /// bytes unread would be a reset, which can overtake the answer.
    fn end(&self, bytes: &[u8]) -> io::Result<()> {
        self.send(bytes)?;
        self.stream.shutdown(Shutdown::Write)?;
        let until = Instant::now() + CLOSE_TIME;
        loop {
            self.stream.set_read_timeout(Some(left(until)?))?;
            if (&*self.stream).read(&mut [0; 1024])? == 0 {
                return Ok(());
            }
        }
    }
}

/// The time left until `until`; an error when there is none.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
