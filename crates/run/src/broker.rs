//! The launcher's end of the control socket: takes TCP sockets over, lends them out again, and
//! notices when flows have ended.

#![allow(unsafe_code, reason = "socket options without a safe wrapper")]

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cellpace_control::message::{Answer, Ask, HELLO_LEN, REQUEST_LEN, Session, Token, read_hello};
use cellpace_control::variables::worker_name;
use cellpace_control::{FlowName, Owner};
use cellpace_tcp::{
    DriverChoice, FlowHandle, FlowOptions, FlowOutcome, FlowStats, KernelDriver, RelayEngine,
    RemoteSocket,
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{
    Timeout, set_socket_timeout, socket_cookie, socket_timeout, socket_type,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, getpeername, getsockname, listen, recv, recvmsg, sendmsg, shutdown,
    socket_with, socketpair,
};
use rustix::process::Pid;

use crate::RunError;

/// How a broker treats its clients and its flows.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// How each connection is controlled; each flow's seed is this one plus its number.
    pub options: FlowOptions,
    /// Whether connections use the client/server driver: what the program opens then says hello,
    /// and what it accepts answers to one and is plain without. In `options` the driver is not
    /// looked at.
    pub framed: bool,
    /// The kernel driver, where it is to be used: connections then stay with the program, and
    /// only their windows are ours. What it cannot take, the engine takes. With one worker only.
    pub steerer: Option<Arc<KernelDriver>>,
    /// Clients that are served at a time; more wait. For root, which serves every user, a new one
    /// takes the oldest place of the user who has most of them.
    pub most_clients: usize,
    /// How long a client may take to send what it wants.
    pub patience: Duration,
    /// Control sockets, each with an engine, threads and a table of descriptors of its own, so
    /// that the limit on descriptors holds for each of them; up to
    /// [`MOST_WORKERS`](cellpace_control::variables::MOST_WORKERS). Flows of different workers share no
    /// controller.
    pub workers: u32,
}

impl BrokerConfig {
    /// The defaults.
    pub fn new(options: FlowOptions) -> Self {
        Self {
            options,
            framed: false,
            steerer: None,
            most_clients: 256,
            patience: Duration::from_secs(1),
            workers: 1,
        }
    }
}

/// A connection that was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopted {
    /// The flow's number, from 1.
    pub flow: u64,
    /// The program opened the connection.
    pub outgoing: bool,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}

/// A flow that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Which connection it was.
    pub connection: Adopted,
    /// From when it was taken over to when its end was noticed.
    pub age: Duration,
    /// Its last figures.
    pub stats: FlowStats,
    /// How it ended, where the engine knows.
    pub outcome: Option<FlowOutcome>,
    /// It had not ended when [`Broker::cut`] was called.
    pub cut: bool,
    /// It was steered through the kernel driver, and its data stayed with the program.
    pub steered: bool,
}

/// Serves the control socket, with one thread, or several, with one each.
#[derive(Debug)]
pub struct Broker {
    name: String,
    token: Token,
    workers: Vec<Worker>,
}

/// One of them.
#[derive(Debug)]
struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Who is told of a broker's flows, on the broker's threads, one call at a time. A closure is told
/// of ends alone.
pub trait Watch: Send {
    /// A connection was taken over.
    fn opened(&mut self, connection: &Adopted, flow: &FlowHandle) {
        let _ = (connection, flow);
    }

    /// A flow has ended.
    fn closed(&mut self, closed: Closed);
}

impl<F: FnMut(Closed) + Send> Watch for F {
    fn closed(&mut self, closed: Closed) {
        self(closed);
    }
}

type Tell = Arc<Mutex<dyn Watch>>;

#[derive(Debug)]
struct Shared {
    /// Flows that have not ended.
    open: Mutex<usize>,
    changed: Condvar,
    /// Written to when the thread shall look after the flows at once, or end.
    wake: OwnedFd,
    stop: AtomicBool,
    cut: AtomicBool,
}

/// How often ends of flows are looked for, while there are flows.
const REAP: Duration = Duration::from_millis(200);

/// How long flows that are cut get to reset their connections.
const ABORT_WAIT: Duration = Duration::from_millis(500);

/// Processes that are remembered before those that have ended are forgotten.
const MOST_GRIPS: usize = 64;

/// Connections that are being opened at a time, at most: each holds a full buffer of the kernel,
/// some 200 kB, and one to nowhere may do so for minutes.
const MOST_OPENINGS: usize = 256;

/// Clients that are accepted before those with a place are served again.
const MAX_ACCEPTED: usize = 256;

/// How long a connection that did not come about is kept, for the program to ask why.
const REMEMBER: Duration = Duration::from_secs(30);
/// How many of them are, at most.
const MOST_REMEMBERED: usize = 64;

impl Broker {
    /// Opens a control socket and serves it. `watch` is told of every flow's beginning and end.
    ///
    /// # Errors
    /// When a socket or a thread cannot be had, or the system allows no second table of
    /// descriptors.
    pub fn start(
        engine: &RelayEngine,
        config: &BrokerConfig,
        watch: impl Watch + 'static,
    ) -> Result<Self, RunError> {
        let token: Token = random()?;
        let name = format!("cellpace-run/{:016x}", u64::from_be_bytes(random()?));
        let tell: Tell = Arc::new(Mutex::new(watch));
        let mut broker = Self { name, token, workers: Vec::new() };
        for number in 0..config.workers {
            let engine = if number == 0 { engine.clone() } else { engine.sibling() };
            let worker = broker.worker(number, engine, config.clone(), tell.clone())?;
            broker.workers.push(worker);
        }
        Ok(broker)
    }

    fn worker(
        &self,
        number: u32,
        engine: RelayEngine,
        config: BrokerConfig,
        watch: Tell,
    ) -> Result<Worker, RunError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(RunError::system("an event"))?;
        let shared = Arc::new(Shared {
            open: Mutex::default(),
            changed: Condvar::new(),
            wake,
            stop: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        });
        let mut name = self.name.clone().into_bytes();
        if number > 0 {
            name.extend(worker_name(number));
        }
        let (token, theirs) = (self.token, shared.clone());
        let (started, whether) = std::sync::mpsc::sync_channel(1);
        let serve = move || {
            // In the thread: what it opens from here on is in its own table.
            let listener = own_descriptors(number).and_then(|()| {
                control_socket(&name).map_err(RunError::system("the control socket"))
            });
            let listener = match listener {
                Ok(listener) => listener,
                Err(error) => return drop(started.send(Err(error))),
            };
            let server = Server {
                engine,
                token,
                listener,
                reserve: reserve(),
                shared: theirs,
                clients: Vec::new(),
                flows: HashMap::new(),
                openings: HashMap::new(),
                failed: VecDeque::new(),
                grips: HashMap::new(),
                user: rustix::process::geteuid().as_raw(),
                // Who knows a flow's number knows whose it is.
                next_flow: u64::from(number) + 1,
                step: u64::from(config.workers),
                config,
                watch,
            };
            let _ = started.send(Ok(()));
            server.serve();
        };
        let thread = std::thread::Builder::new().name("cellpace-control".to_owned());
        let thread = thread.spawn(serve).map_err(RunError::system("starting a thread"))?;
        let gone = |_| RunError::system("starting a thread")(Errno::CANCELED);
        whether.recv().map_err(gone)??;
        Ok(Worker { shared, thread: Some(thread) })
    }

    /// The control socket's abstract name; others' begin with it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many control sockets there are.
    pub fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// What clients must know.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Flows that have not ended.
    pub fn open_flows(&self) -> usize {
        self.workers.iter().map(|worker| *worker.shared.open()).sum()
    }

    /// Waits until all flows have ended; returns how many have not in time.
    pub fn wait(&self, timeout: Duration) -> usize {
        self.workers.iter().for_each(|worker| worker.shared.wake());
        let until = Instant::now() + timeout;
        let waited = self.workers.iter().map(|worker| worker.shared.wait(until));
        waited.sum()
    }

    /// Gives all flows up that have not ended, and tells of them as cut. Those whose data have not
    /// all reached TCP are reset, so that their peers do not take what came for everything; the
    /// others' data are the kernel's business from now on.
    pub fn cut(&self) {
        self.workers.iter().for_each(|one| one.shared.cut.store(true, Ordering::Release));
        self.wait(2 * ABORT_WAIT);
    }
}

/// Ends the thread. The engine's flows go on.
impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, usize> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It cannot fail: the counter is far from full.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits until there are no flows; returns how many there are then.
    fn wait(&self, until: Instant) -> usize {
        let timeout = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.open(), timeout, |open| *open > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn set_open(&self, count: usize) {
        *self.open() = count;
        self.changed.notify_all();
    }
}

fn random<const N: usize>() -> Result<[u8; N], RunError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        RunError::system("random numbers")(std::io::Error::other(error.to_string()))
    })?;
    Ok(bytes)
}

/// Gives all workers but the first a table of descriptors of their own. It begins as a copy; what
/// was open before is only a few. Threads that a worker starts share its table.
fn own_descriptors(number: u32) -> Result<(), RunError> {
    if number == 0 {
        return Ok(());
    }
    let unshared = nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES);
    unshared.map_err(RunError::system("a table of descriptors for a worker"))
}

fn control_socket(name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    listen(&socket, 4096)?;
    Ok(socket)
}

/// A descriptor to give up when there are no others, so that a client can be told so.
fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

struct Server {
    engine: RelayEngine,
    config: BrokerConfig,
    token: Token,
    listener: OwnedFd,
    reserve: Option<File>,
    shared: Arc<Shared>,
    /// Who runs the launcher, and whose clients are served.
    user: u32,
    clients: Vec<Client>,
    flows: HashMap<u64, Flow>,
    openings: HashMap<u64, Opening>,
    failed: VecDeque<Failed>,
    /// Processes with sockets that the kernel driver holds.
    grips: HashMap<Pid, RemoteSocket>,
    next_flow: u64,
    /// From one flow's number to the next one's.
    step: u64,
    watch: Tell,
}

/// A connection to the control socket whose request has not come yet.
struct Client {
    socket: OwnedFd,
    uid: u32,
    /// None where it is in another namespace of processes.
    process: Option<Pid>,
    until: Instant,
    /// Once we have greeted it.
    session: Option<Session>,
}

struct Flow {
    connection: Adopted,
    since: Instant,
    handle: FlowHandle,
    /// None where the program has the TCP socket.
    tcp: Option<Lendable>,
    /// When TCP was last asked whether it is closed.
    asked: Instant,
}

/// A TCP socket, the same as the engine's, that is lent to who has the application's end.
#[derive(Clone)]
struct Lendable {
    tcp: Arc<OwnedFd>,
    /// `SO_COOKIE` of the application's end: the kernel gives it to no other socket.
    end: u64,
}

/// A connection that the program opened, did not wait for, and that is not there yet. The program
/// waits until it can write to its end of the pair, which is full until then.
struct Opening {
    connection: Adopted,
    since: Instant,
    tcp: Lendable,
    far: OwnedFd,
    /// Bytes in the pair that belong to nobody.
    filler: usize,
}

/// A connection that did not come about.
struct Failed {
    flow: u64,
    tcp: Lendable,
    until: Instant,
}

impl Server {
    fn serve(mut self) {
        let mut reaped = Instant::now();
        loop {
            let Ok(ready) = self.wait(reaped) else { return };
            // First, so that what is asked for from here on wakes us again.
            if ready.wake {
                let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
            }
            if self.shared.stop.load(Ordering::Acquire) {
                return;
            }
            if self.shared.cut.load(Ordering::Acquire) {
                self.cut_all();
            }
            let now = Instant::now();
            for flow in ready.openings {
                self.proceed(flow, now);
            }
            while self.failed.front().is_some_and(|failed| failed.until <= now) {
                self.failed.pop_front();
            }
            // Backwards, so that what is removed does not move what is still to be looked at.
            for index in ready.clients.into_iter().rev() {
                let client = self.clients.swap_remove(index);
                match client.session {
                    Some(session) => self.answer(&client, &session),
                    None => self.clients.extend(self.greeted(client)),
                }
            }
            self.clients.retain(|client| client.until > now);
            if ready.listener {
                self.welcome(now);
            }
            if ready.wake || now.duration_since(reaped) >= REAP {
                reaped = now;
                self.reap();
            }
        }
    }

    /// Waits for clients, but no longer than until something is due.
    fn wait(&self, reaped: Instant) -> Result<Ready, Errno> {
        let room = self.serves_all() || self.clients.len() < self.config.most_clients;
        let listening = if room { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = vec![
            PollFd::new(&self.shared.wake, PollFlags::IN),
            PollFd::new(&self.listener, listening),
        ];
        fds.extend(self.clients.iter().map(|client| PollFd::new(&client.socket, PollFlags::IN)));
        let first_opening = fds.len();
        // Of the program's end it is only of interest whether anybody holds it.
        fds.extend(self.openings.values().flat_map(|opening| {
            let far = PollFd::new(&opening.far, PollFlags::empty());
            [PollFd::new(&*opening.tcp.tcp, PollFlags::OUT), far]
        }));
        let reap = (!self.flows.is_empty()).then(|| reaped + REAP);
        let forget = self.failed.front().map(|failed| failed.until);
        let due = self.clients.iter().map(|client| client.until).chain(reap).chain(forget).min();
        // Rounded up, so that it is over after it.
        let timeout = due.map(|due| {
            let left = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            rustix::event::Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            // Out of memory, which may pass; not in a spin.
            Err(_) => {
                std::thread::sleep(REAP);
                return Ok(Ready::default());
            }
        }
        let ready = |index: &usize| !fds[*index].revents().is_empty();
        Ok(Ready {
            wake: ready(&0),
            listener: ready(&1),
            clients: (2..first_opening).filter(ready).map(|index| index - 2).collect(),
            openings: (self.openings.keys().enumerate())
                .map(|(index, flow)| (first_opening + 2 * index, *flow))
                .filter(|(at, _)| ready(at) || ready(&(at + 1)))
                .map(|(_, flow)| flow)
                .collect(),
        })
    }

    /// Servers that root starts give up their privilege.
    fn serves_all(&self) -> bool {
        self.user == 0
    }

    /// Accepts clients, and closes strangers' connections before they have a place.
    fn welcome(&mut self, now: Instant) {
        for _ in 0..MAX_ACCEPTED {
            let is_full = self.clients.len() >= self.config.most_clients;
            if is_full && !self.serves_all() {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE) => return self.turn_away(),
                Err(_) => return,
            };
            let Ok(peer) = getsockopt(&socket, PeerCredentials) else { continue };
            if !self.serves_all() && peer.uid() != self.user {
                continue;
            }
            if is_full && let Some(index) = to_evict(&self.clients) {
                self.clients.swap_remove(index);
            }
            let (uid, process) = (peer.uid(), Pid::from_raw(peer.pid()));
            let until = now + self.config.patience;
            let client = Client { socket, uid, process, until, session: None };
            self.clients.extend(self.greeted(client));
        }
    }

    /// Proves to a client that has sent its nonce that we know the token. One that has not stays as
    /// it is; `None` for one that is not to be served.
    fn greeted(&self, mut client: Client) -> Option<Client> {
        let mut bytes = [0; HELLO_LEN + 1];
        let nonce = match recv(&client.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((count, _)) => read_hello(bytes.get(..count)?)?,
            Err(Errno::AGAIN | Errno::INTR) => return Some(client),
            Err(_) => return None,
        };
        let session = Session { client: nonce, launcher: random().ok()? };
        let greeting = session.greeting(&self.token);
        // Its queue is empty: it cannot fail but for a client that is gone.
        rustix::net::send(&client.socket, &greeting, SendFlags::NOSIGNAL).ok()?;
        client.session = Some(session);
        Some(client)
    }

    /// Out of descriptors: lets the client know at once, so that it goes on without us.
    fn turn_away(&mut self) {
        drop(self.reserve.take());
        drop(accept_with(&self.listener, SocketFlags::CLOEXEC));
        self.reserve = reserve();
        if self.reserve.is_none() {
            // Somebody else took it. Clients wait a moment; the thread must not spin.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Does what a client wants. One that is gone, or not to be served, is merely forgotten.
    fn answer(&mut self, client: &Client, session: &Session) {
        let socket = &client.socket;
        let Some((request, fd)) = receive(socket) else { return };
        let Some(ask) = session.asked(&self.token, &request) else { return };
        let done = match ask {
            Ask::Adopt { connecting: true, .. } => self.open(socket, fd),
            // The program goes on with its own socket.
            Ask::Adopt { outgoing, descriptor, .. }
                if self.steer(client.process, &fd, outgoing, descriptor).is_some() =>
            {
                None
            }
            Ask::Adopt { nonblocking, outgoing, .. } => {
                self.adopt(socket, fd, nonblocking, outgoing)
            }
            Ask::Fetch { flow, linger } => self.lend(socket, flow, &fd, linger),
        };
        if done.is_none() {
            send(socket, Answer::REFUSED, None);
        }
    }

    /// Takes a connection over and gives the client its end; `None` if that cannot be: then the
    /// connection is as it was.
    fn adopt(
        &mut self,
        client: &OwnedFd,
        tcp: OwnedFd,
        nonblocking: bool,
        outgoing: bool,
    ) -> Option<()> {
        let (local, peer) = addresses(tcp.as_fd())?;
        let flow = self.next_flow;
        let name = FlowName { flow, owner: Owner::Launcher, not_awaited: false, local, peer };
        let (application, far) = pair(&name.encode(&self.token)).ok()?;
        let tcp = Lendable { tcp: Arc::new(tcp), end: socket_cookie(&application).ok()? };
        keep_timeouts(&tcp.tcp, &application).ok()?;
        if nonblocking {
            fcntl_setfl(&application, OFlags::RDWR | OFlags::NONBLOCK).ok()?;
        }
        if has_hung_up(client) {
            // It gave up waiting and goes on with the TCP socket.
            return None;
        }
        let connection = Adopted { flow, outgoing, local, peer };
        self.start(connection, Instant::now(), tcp, far)?;
        self.next_flow += self.step;
        // If it cannot be sent, the program is gone, and with its end the flow ends.
        send(client, Answer { done: true, queued: 0 }, Some(application.as_fd()));
        Some(())
    }

    /// Has the kernel driver hold a connection; `None` if that cannot be.
    fn steer(
        &mut self,
        process: Option<Pid>,
        tcp: &OwnedFd,
        outgoing: bool,
        descriptor: u32,
    ) -> Option<()> {
        self.config.steerer.as_ref()?;
        let grip = process.and_then(|process| self.grip(process, descriptor));
        let steerer = self.config.steerer.as_ref()?;
        let (local, peer) = addresses(tcp.as_fd())?;
        let flow = self.next_flow;
        let mut options = self.config.options.clone();
        options.seed = options.seed.wrapping_add(flow - 1);
        let handle = steerer.take(tcp, grip, &options).ok()?;
        self.next_flow += self.step;
        let connection = Adopted { flow, outgoing, local, peer };
        let since = Instant::now();
        self.insert(Flow { connection, since, handle, tcp: None, asked: since });
        Some(())
    }

    /// A hold on a socket that a process keeps; none where the system gives none.
    fn grip(&mut self, pid: Pid, descriptor: u32) -> Option<RemoteSocket> {
        let descriptor = i32::try_from(descriptor).ok()?;
        if let Some(known) = self.grips.get(&pid).filter(|known| known.is_alive()) {
            return Some(known.on(descriptor));
        }
        if self.grips.len() >= MOST_GRIPS {
            self.grips.retain(|_, grip| grip.is_alive());
        }
        let grip = RemoteSocket::new(pid, descriptor).ok()?;
        self.grips.insert(pid, grip.clone());
        Some(grip)
    }

    /// Has the engine serve a connection.
    fn start(
        &mut self,
        connection: Adopted,
        since: Instant,
        tcp: Lendable,
        far: OwnedFd,
    ) -> Option<()> {
        let mut options = self.config.options.clone();
        options.seed = options.seed.wrapping_add(connection.flow - 1);
        options.driver = self.driver(connection.outgoing);
        let handle = self.engine.adopt(tcp.tcp.clone(), far, &options).ok()?;
        let tcp = Some(tcp);
        self.insert(Flow { connection, since, handle, tcp, asked: Instant::now() });
        Some(())
    }

    fn insert(&mut self, flow: Flow) {
        watched(&self.watch).opened(&flow.connection, &flow.handle);
        self.flows.insert(flow.connection.flow, flow);
        self.shared.set_open(self.flows.len());
    }

    /// Takes a connection over that is not there yet; `None` if that cannot be.
    fn open(&mut self, client: &OwnedFd, tcp: OwnedFd) -> Option<()> {
        // There is no way back once the program has its end.
        let coming = self.openings.len();
        if coming >= MOST_OPENINGS || !self.engine.has_room(coming) {
            return None;
        }
        let local = getsockname(&tcp).ok()?.try_into().ok()?;
        let peer = future_peer(&tcp)?;
        let flow = self.next_flow;
        let name = FlowName { flow, owner: Owner::Launcher, not_awaited: true, local, peer };
        let (application, far) = pair(&name.encode(&self.token)).ok()?;
        let tcp = Lendable { tcp: Arc::new(tcp), end: socket_cookie(&application).ok()? };
        keep_timeouts(&tcp.tcp, &application).ok()?;
        fcntl_setfl(&application, OFlags::RDWR | OFlags::NONBLOCK).ok()?;
        let filler = fill(&application)?;
        if has_hung_up(client) {
            return None;
        }
        self.next_flow += self.step;
        let connection = Adopted { flow, outgoing: true, local, peer };
        let opening = Opening { connection, since: Instant::now(), tcp, far, filler };
        self.openings.insert(flow, opening);
        send(client, Answer { done: true, queued: 0 }, Some(application.as_fd()));
        Some(())
    }

    /// Something happened to a connection that was not there yet.
    fn proceed(&mut self, flow: u64, now: Instant) {
        let Some(opening) = self.openings.remove(&flow) else { return };
        if hung_up(&opening.far) {
            // The program gave it up.
            return;
        }
        match tcp_state(&opening.tcp.tcp) {
            Some(TCP_SYN_SENT | TCP_SYN_RECV) => {
                self.openings.insert(flow, opening);
            }
            Some(TCP_CLOSE) | None => self.tell_failed(opening, now),
            Some(_) => {
                let Opening { connection, since, tcp, far, filler } = opening;
                if drain(&far, filler) {
                    // If the engine refuses, both ends are closed: as if the peer had reset it.
                    let _ = self.start(connection, since, tcp, far);
                }
            }
        }
    }

    /// The program's end becomes ready, and the reason is kept for it.
    fn tell_failed(&mut self, opening: Opening, now: Instant) {
        let Opening { connection, tcp, far, filler, .. } = opening;
        // Remembered first: once the end is ready, the program asks.
        self.failed.push_back(Failed { flow: connection.flow, tcp, until: now + REMEMBER });
        if self.failed.len() > MOST_REMEMBERED {
            self.failed.pop_front();
        }
        // As with TCP, nothing can be written from the moment on that it looks as if it could. The
        // hang-up comes last: alone it is not what the program waits for. What is left unread would
        // be an error of its own.
        let _ = shutdown(&far, Shutdown::Read);
        drain(&far, filler);
        let _ = shutdown(&far, Shutdown::Write);
    }

    /// The TCP socket of a flow in whichever state.
    fn tcp(&self, flow: u64) -> Option<&Lendable> {
        let running = self.flows.get(&flow).and_then(|flow| flow.tcp.as_ref());
        let opening = || self.openings.get(&flow).map(|opening| &opening.tcp);
        let failed = || self.failed.iter().find(|failed| failed.flow == flow);
        running.or_else(opening).or_else(|| failed().map(|failed| &failed.tcp))
    }

    fn cut_all(&mut self) {
        for flow in self.flows.values() {
            if flow.handle.stats().queued_bytes > 0 {
                flow.handle.abort();
            }
        }
        let until = Instant::now() + ABORT_WAIT;
        for (_, flow) in self.flows.drain() {
            if flow.handle.stats().queued_bytes > 0 {
                let _ = flow.handle.wait(until.saturating_duration_since(Instant::now()));
            }
            watched(&self.watch).closed(flow.closed(None, true));
        }
        self.openings.clear();
        self.shared.set_open(0);
    }

    fn driver(&self, outgoing: bool) -> DriverChoice {
        if !self.config.framed {
            return DriverChoice::Gate;
        }
        DriverChoice::client_server(outgoing)
    }

    /// Lends the TCP socket of a flow to who has the application's end, and to nobody else:
    /// every process of the program knows the token, and flows' numbers are easily guessed.
    fn lend(&self, client: &OwnedFd, flow: u64, end: &OwnedFd, linger: bool) -> Option<()> {
        let tcp = self.tcp(flow)?;
        if socket_cookie(end) != Ok(tcp.end) {
            return None;
        }
        let running = self.flows.get(&flow);
        if let Some(flow) = running.filter(|_| linger) {
            flow.handle.lend_linger();
        }
        let queued = running.map_or(0, |flow| flow.handle.stats().queued_bytes);
        send(client, Answer { done: true, queued }, Some(tcp.tcp.as_fd()));
        Some(())
    }

    fn reap(&mut self) {
        let now = Instant::now();
        let before = self.flows.len();
        // The engine tells of ends; TCP itself is asked in case it does not, and seldom enough
        // that ten thousand idle flows cost next to nothing.
        let patience = REAP * u32::try_from(before / 500).unwrap_or(u32::MAX).min(1000);
        let Self { flows, watch, .. } = self;
        flows.retain(|_, flow| {
            let outcome = flow.handle.outcome();
            let is_due = outcome.is_none() && now.duration_since(flow.asked) >= patience;
            if is_due {
                flow.asked = now;
            }
            let has_ended = outcome.is_some()
                || is_due && flow.tcp.as_ref().is_some_and(|tcp| is_closed(&tcp.tcp));
            if has_ended {
                watched(watch).closed(flow.closed(outcome, false));
            }
            !has_ended
        });
        if self.flows.len() != before {
            self.shared.set_open(self.flows.len());
        }
    }
}

fn watched(watch: &Tell) -> MutexGuard<'_, dyn Watch + 'static> {
    // Who panicked before has not spoilt the others' reports.
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Ready {
    wake: bool,
    listener: bool,
    clients: Vec<usize>,
    openings: Vec<u64>,
}

impl Flow {
    fn closed(&self, outcome: Option<FlowOutcome>, cut: bool) -> Closed {
        Closed {
            connection: self.connection,
            age: self.since.elapsed(),
            stats: self.handle.stats(),
            outcome,
            cut,
            steered: self.tcp.is_none(),
        }
    }
}

/// Both addresses of a connected TCP socket; `None` for anything else.
fn addresses(socket: BorrowedFd<'_>) -> Option<(SocketAddr, SocketAddr)> {
    if socket_type(socket).ok()? != SocketType::STREAM {
        return None;
    }
    let local = getsockname(socket).ok()?.try_into().ok()?;
    let peer = getpeername(socket).ok()??.try_into().ok()?;
    Some((local, peer))
}

/// A pair of which the second end bears a name.
fn pair(name: &[u8]) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (application, far) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&far, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok((application, far))
}

/// How long reads and writes wait is the program's choice, perhaps made at the listening socket.
fn keep_timeouts(tcp: &OwnedFd, application: &OwnedFd) -> Result<(), Errno> {
    for timeout in [Timeout::Recv, Timeout::Send] {
        if let Some(chosen) = socket_timeout(tcp, timeout)? {
            set_socket_timeout(application, timeout, Some(chosen))?;
        }
    }
    Ok(())
}

/// Reads a request and its descriptor; with more they are all closed.
fn receive(client: &OwnedFd) -> Option<([u8; REQUEST_LEN], OwnedFd)> {
    // One more than a request has, to see what is too long.
    let mut bytes = [0; REQUEST_LEN + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received =
        recvmsg(client, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags).ok()?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let request = bytes.get(..received.bytes)?.try_into().ok()?;
    let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).ok()?;
    Some((request, descriptor))
}

fn send(client: &OwnedFd, answer: Answer, descriptor: Option<BorrowedFd<'_>>) {
    let bytes = answer.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: &[BorrowedFd<'_>] = descriptor.as_slice();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // Whoever does not wait for the answer needs none.
    let _ = sendmsg(client, &[IoSlice::new(&bytes)], &mut ancillary, flags);
}

/// Whom a socket is being connected to.
fn future_peer(tcp: &OwnedFd) -> Option<SocketAddr> {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERNAME);
    let place = storage.as_mut_ptr().cast();
    // More room than the address takes is refused.
    let mut lens = [size_of::<libc::sockaddr_in6>(), size_of::<libc::sockaddr_in>()].into_iter();
    lens.find(|len| {
        let mut len = *len as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which `storage` has room for.
        0 == unsafe { libc::getsockopt(tcp.as_raw_fd(), level, name, place, &mut len) }
    })?;
    // SAFETY: any bytes are valid, and all were set to zero at first.
    let storage = unsafe { storage.assume_init() };
    let place = &raw const storage;
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is, and the storage is large and aligned enough.
            let address = unsafe { *place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { *place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Writes until a socket takes nothing more; returns how much it was.
fn fill(socket: &OwnedFd) -> Option<usize> {
    static NOTHING: [u8; 32 << 10] = [0; 32 << 10];
    /// Far above every limit that a system has.
    const MOST: usize = 1 << 30;
    let mut filled = 0;
    for piece in [NOTHING.len(), 1] {
        while filled < MOST {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(socket, &NOTHING[..piece], flags) {
                Ok(count) => filled += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
    Some(filled)
}

/// Reads away what [`fill`] wrote.
fn drain(far: &OwnedFd, mut filler: usize) -> bool {
    let mut place = [0; 32 << 10];
    while filler > 0 {
        let most = filler.min(place.len());
        match recv(far, &mut place[..most], RecvFlags::DONTWAIT) {
            Ok((count @ 1.., _)) => filler -= count,
            Err(Errno::INTR) => {}
            _ => return false,
        }
    }
    true
}

/// Whether nobody holds the other end.
fn hung_up(far: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(far, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}

fn has_hung_up(client: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(client, PollFlags::RDHUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
}

/// The oldest client of the user who has most places.
fn to_evict(clients: &[Client]) -> Option<usize> {
    let mut places = HashMap::<u32, usize>::new();
    clients.iter().for_each(|client| *places.entry(client.uid).or_default() += 1);
    let oldest = clients.iter().enumerate().max_by_key(|(_, client)| {
        let most = places.get(&client.uid).copied();
        (most, std::cmp::Reverse(client.until))
    });
    oldest.map(|(index, _)| index)
}

/// Whether a TCP connection is over, as TCP itself sees it.
fn is_closed(tcp: &OwnedFd) -> bool {
    matches!(tcp_state(tcp), Some(TCP_CLOSE) | None)
}

const TCP_SYN_SENT: u8 = 2;
const TCP_SYN_RECV: u8 = 3;
const TCP_CLOSE: u8 = 7;

/// The state that TCP is in.
fn tcp_state(tcp: &OwnedFd) -> Option<u8> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `len` bytes, which `info` has room for.
    let result = unsafe {
        libc::getsockopt(tcp.as_raw_fd(), level, name, info.as_mut_ptr().cast(), &mut len)
    };
    // SAFETY: any bytes are a valid `tcp_info`, and all were set to zero at first.
    let info = unsafe { info.assume_init() };
    (result == 0).then_some(info.tcpi_state)
}
