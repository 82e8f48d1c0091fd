//! One control socket and the thread that serves it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cellpace_control::message::{Answer, Ask, ControlSession, REQUEST_LEN, Token};
use cellpace_control::{FlowName, Owner};
use cellpace_os::descriptors::{receive_with_descriptor, send_with_descriptor};
use cellpace_os::socket::future_peer;
use cellpace_tcp::{RelayEngine, Trials};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_type;
use rustix::net::{SocketType, getpeername, getsockname};

use super::clients::{ClientLimits, ControlClient, ControlClients};
use super::config::BrokerConfig;
use super::connections::{Connections, REAP, Taken};
use super::flow_count::FlowCount;
use super::local_pair::{LocalPair, fill, has_hung_up, has_request};
use super::openings::{Opening, Openings};
use super::watcher::{AdoptedConnection, SharedWatcher};
use crate::RunError;

/// Requests of one client that are served before others' are looked at.
const MAX_IN_A_ROW: usize = 64;

/// One of a broker's threads. Its end does not end the engine's flows.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<WorkerShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct WorkerShared {
    flows: Arc<FlowCount>,
    /// Written to when the thread must poll the flows at once, or end.
    wake: OwnedFd,
    stop: AtomicBool,
    cut: AtomicBool,
}

impl Worker {
    /// Starts the worker of a number, at a control socket with an abstract name.
    pub(super) fn start(
        number: u32,
        name: Vec<u8>,
        token: Token,
        engine: RelayEngine,
        config: BrokerConfig,
        watcher: SharedWatcher,
    ) -> Result<Self, RunError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(WorkerShared {
            flows: Arc::default(),
            wake: eventfd(0, flags).map_err(RunError::system("an event"))?,
            stop: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        });
        let (theirs, (started, has_started)) = (shared.clone(), sync_channel(1));
        let serve = move || {
            // In the thread: what it opens from here on is in its own table.
            let limits = ClientLimits { most: config.most_clients, patience: config.patience };
            let clients = own_descriptors(number).and_then(|()| {
                let clients = ControlClients::listen(&name, token, limits);
                clients.map_err(RunError::system("the control socket"))
            });
            let clients = match clients {
                Ok(clients) => clients,
                Err(error) => return drop(started.send(Err(error))),
            };
            let flows = theirs.flows.clone();
            let trials = Trials::new(&engine, config.trial, &config.options);
            let (workers, recorder) = (config.workers, config.recorder);
            let connections = Connections::new(number, workers, trials, recorder, watcher, flows);
            let openings = Openings::default();
            let _ = started.send(Ok(()));
            WorkerLoop { token, shared: theirs, clients, connections, openings }.serve();
        };
        let thread = std::thread::Builder::new().name("cellpace-control".to_owned());
        let thread = thread.spawn(serve).map_err(RunError::system("starting a thread"))?;
        let gone = |_| RunError::system("starting a thread")(Errno::CANCELED);
        has_started.recv().map_err(gone)??;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Flows that have not ended.
    pub(super) fn open_flows(&self) -> usize {
        self.shared.flows.open()
    }

    /// Has it look after its flows at once.
    pub(super) fn wake(&self) {
        // It cannot fail: the counter is far from full.
        let _ = rustix::io::write(&self.shared.wake, &1_u64.to_ne_bytes());
    }

    /// Waits until there are no flows; returns how many there are then.
    pub(super) fn wait(&self, until: Instant) -> usize {
        self.shared.flows.wait(until)
    }

    /// Has it give all flows up when it wakes.
    pub(super) fn cut(&self) {
        self.shared.cut.store(true, Ordering::Release);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
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

/// State of the thread.
struct WorkerLoop {
    token: Token,
    shared: Arc<WorkerShared>,
    clients: ControlClients,
    connections: Connections,
    openings: Openings,
}

/// What to do after a poll.
#[derive(Default)]
struct Ready {
    wake: bool,
    /// In the order of [`ControlClients::poll_fds`].
    clients: Vec<bool>,
    /// Flows.
    openings: Vec<u64>,
}

impl WorkerLoop {
    fn serve(mut self) {
        let mut reaped = Instant::now();
        loop {
            let ready = self.wait(reaped);
            // First, so that what is asked for from here on wakes us again.
            if ready.wake {
                let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
            }
            if self.shared.stop.load(Ordering::Acquire) {
                return;
            }
            if self.shared.cut.load(Ordering::Acquire) {
                self.connections.cut();
                self.openings.clear();
            }
            let now = Instant::now();
            for flow in ready.openings {
                if let Some(opening) = self.openings.proceed(flow, now) {
                    let Opening { connection, since, tcp, far, part, .. } = opening;
                    // If the engine refuses, both ends are closed: as if the peer had reset it.
                    let _ = self.connections.relay(connection, since, tcp, far, part);
                }
            }
            self.openings.forget_old(now);
            for (client, session) in self.clients.take_ready(&ready.clients, now) {
                if self.answer(&client, &session).is_some() {
                    self.clients.keep(client);
                }
            }
            if ready.wake || now.duration_since(reaped) >= REAP {
                reaped = now;
                self.connections.reap();
            }
        }
    }

    /// Waits for clients and openings, but no longer than until something is due.
    fn wait(&self, reaped: Instant) -> Ready {
        let mut fds = vec![PollFd::new(&self.shared.wake, PollFlags::IN)];
        fds.extend(self.clients.poll_fds());
        let first_opening = fds.len();
        fds.extend(self.openings.poll_fds());
        let reap = (!self.connections.is_empty()).then(|| reaped + REAP);
        let due = [self.clients.due(), reap, self.openings.due()].into_iter().flatten().min();
        // Rounded up, so that it is over after it.
        let timeout = due.map(|due| {
            let left = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ready::default(),
            // Out of memory, which may pass; not in a spin.
            Err(_) => {
                std::thread::sleep(REAP);
                return Ready::default();
            }
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        Ready {
            wake: ready[0],
            clients: ready[1..first_opening].to_vec(),
            openings: self.openings.ready_flows(&ready[first_opening..]),
        }
    }

    /// Serves what a client has asked; `None` for one that is gone or must not be served.
    fn answer(&mut self, client: &ControlClient, session: &ControlSession) -> Option<()> {
        self.answer_one(client, session)?;
        // Those that await no answer may have asked more.
        for _ in 1..MAX_IN_A_ROW {
            if !has_request(&client.socket) {
                break;
            }
            self.answer_one(client, session)?;
        }
        Some(())
    }

    fn answer_one(&mut self, client: &ControlClient, session: &ControlSession) -> Option<()> {
        // One byte more than a request has, to detect messages that are too long.
        let mut bytes = [0; REQUEST_LEN + 1];
        let (count, fd) = receive_with_descriptor(&client.socket, &mut bytes)?;
        let done = match session.asked(&self.token, &bytes[..count])? {
            Ask::Adopt { unawaited: true, outgoing, descriptor, .. } => {
                return self.control_in_place(client, fd, outgoing, descriptor);
            }
            Ask::Adopt { connecting: true, .. } => self.open(&client.socket, fd),
            Ask::Adopt { nonblocking, outgoing, descriptor, .. } => {
                self.adopt(client, fd, nonblocking, outgoing, descriptor)
            }
            Ask::Fetch { flow, linger } => self.lend(&client.socket, flow, &fd, linger),
        };
        if done.is_none() {
            send(&client.socket, Answer::REFUSED, None);
        }
        Some(())
    }

    /// Puts a connection under control that stays with the program, which waits for nothing; `None` if
    /// that cannot be: it stays plain, and the client waits for the answer about the next one.
    fn control_in_place(
        &mut self,
        client: &ControlClient,
        tcp: OwnedFd,
        outgoing: bool,
        descriptor: u32,
    ) -> Option<()> {
        // One that its peer has reset has no addresses any more.
        let Some(addresses) = addresses(tcp.as_fd()) else { return Some(()) };
        let connection = self.next_connection(addresses, outgoing);
        let owner = self.connections.owner(client.process, descriptor);
        if let Err(error) = self.connections.take_in_place(connection, tcp, owner) {
            self.connections.note_refused(&connection, &error);
            return None;
        }
        self.connections.use_number();
        Some(())
    }

    /// Takes a connection over and gives the client its end, or says that it stays with the program under
    /// the kernel driver; `None` if it stays as it was.
    fn adopt(
        &mut self,
        client: &ControlClient,
        tcp: OwnedFd,
        nonblocking: bool,
        outgoing: bool,
        descriptor: u32,
    ) -> Option<()> {
        let connection = self.next_connection(addresses(tcp.as_fd())?, outgoing);
        let (name, token, tcp) = (flow_name(&connection, false), self.token, Arc::new(tcp));
        let pair = || {
            let pair = LocalPair::new(tcp.clone(), &name, &token, nonblocking)?;
            // One that gave up waiting continues with the TCP socket.
            if has_hung_up(&client.socket) { Err(Errno::CANCELED.into()) } else { Ok(pair) }
        };
        let owner = self.connections.owner(client.process, descriptor);
        let taken = match self.connections.take(connection, &tcp, owner, pair) {
            Ok(taken) => taken,
            Err(error) => {
                self.connections.note_refused(&connection, &error);
                return None;
            }
        };
        self.connections.use_number();
        // If it cannot be sent, the program is gone, and with its end the flow ends.
        match taken {
            Taken::Relayed(application) => {
                send(&client.socket, Answer::done(0), Some(application.as_fd()));
            }
            // Who hears that connections stay does not wait for what becomes of the next one.
            Taken::Stays if self.connections.are_alike() => {
                send(&client.socket, Answer::STAYS, None);
            }
            Taken::Stays | Taken::Plain => send(&client.socket, Answer::REFUSED, None),
        }
        Some(())
    }

    /// Takes a connection over that is not there yet; `None` if that cannot be.
    fn open(&mut self, client: &OwnedFd, tcp: OwnedFd) -> Option<()> {
        // There is no way back once the program has its end.
        if self.openings.is_full() || !self.connections.has_room(self.openings.len()) {
            self.connections.note_full();
            return None;
        }
        let addresses = (getsockname(&tcp).ok()?.try_into().ok()?, future_peer(&tcp)?);
        let connection = self.next_connection(addresses, true);
        let part = match self.connections.open(&connection, &tcp) {
            Ok(part) => part?,
            Err(error) => {
                self.connections.note_refused(&connection, &error);
                return None;
            }
        };
        let name = flow_name(&connection, true);
        let LocalPair { application, far, tcp } =
            LocalPair::new(Arc::new(tcp), &name, &self.token, true).ok()?;
        let filler = fill(&application)?;
        if has_hung_up(client) {
            return None;
        }
        self.connections.use_number();
        let since = Instant::now();
        self.openings.insert(Opening { connection, since, tcp, far, filler, part });
        send(client, Answer::done(0), Some(application.as_fd()));
        Some(())
    }

    /// Lends the TCP socket of a flow, in any state, to the holder of the application's end.
    fn lend(&self, client: &OwnedFd, flow: u64, end: &OwnedFd, linger: bool) -> Option<()> {
        let tcp = self.connections.tcp(flow).or_else(|| self.openings.tcp(flow))?;
        if !tcp.belongs_to(end) {
            return None;
        }
        let handle = self.connections.handle(flow);
        if let Some(handle) = handle.filter(|_| linger) {
            handle.lend_linger();
        }
        let queued = handle.map_or(0, |handle| handle.stats().queued_bytes);
        send(client, Answer::done(queued), Some(tcp.tcp.as_fd()));
        Some(())
    }

    fn next_connection(
        &self,
        (local, peer): (SocketAddr, SocketAddr),
        outgoing: bool,
    ) -> AdoptedConnection {
        AdoptedConnection { flow: self.connections.next_number(), outgoing, local, peer }
    }
}

fn flow_name(connection: &AdoptedConnection, not_awaited: bool) -> FlowName {
    let AdoptedConnection { flow, local, peer, .. } = *connection;
    FlowName { flow, owner: Owner::Launcher, not_awaited, local, peer }
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

fn send(client: &OwnedFd, answer: Answer, descriptor: Option<BorrowedFd<'_>>) {
    // A client that does not wait for the answer needs none.
    let _ = send_with_descriptor(client, &answer.encode(), descriptor);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::tests::tcp_pair;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_connected_tcp_sockets_have_both_addresses() {
        let (ours, peer) = tcp_pair();
        let (local, remote) = addresses(ours.as_fd()).unwrap();
        assert_eq!((remote, local), (peer.local_addr().unwrap(), peer.peer_addr().unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(addresses(listener.as_fd()), None);
        let (unix, _other) = UnixStream::pair().unwrap();
        assert_eq!(addresses(unix.as_fd()), None);
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect("127.0.0.1:9").unwrap();
        assert_eq!(addresses(udp.as_fd()), None);
    }
}
