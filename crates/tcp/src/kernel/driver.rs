//! The thread that steers connections through the kernel driver.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::Setup;
use cellpace_kernel::{Kernel, KernelError, KernelRecord, RecordKind};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::flow::{FlowServer, SharedFlow};
use crate::kernel::flow::KernelFlow;
use crate::socket::TcpInfo;
use crate::thread::{now, spawn};
use crate::{FlowHandle, FlowOptions, FlowOutcome, RemoteSocket, TcpError};

/// The kernel driver takes us for dead after a second.
const BEAT: Span = Span::from_millis(200);

/// After acks were read, the next ones are read together with what comes in this time: a window
/// that is half a millisecond late costs less than a thread that wakes up for each of them.
const SHORTEST_REST: Span = Span::from_micros(500);

/// Where acks come faster than this (above 50 Mbit/s, with one for two packets),
const FAST: f64 = 2000.0;

/// rests are as long as so many of them take,
const ACKS_IN_REST: f64 = 16.0;

/// up to this,
const LONGEST_REST: Span = Span::from_millis(4);

/// and up to this part of the shortest RTT among them, in which a controller changes little.
const RESTS_IN_RTT: u64 = 16;

/// How long acks are counted for their rate.
const COUNTING: Span = Span::from_millis(20);

/// Where all connections send at their controllers' own times only, acks are read at these times,
/// if they come so often.
const LONGEST_WAIT: Span = Span::from_millis(10);

/// A connection that does not is remembered for so long.
const EAGER: Span = Span::from_millis(100);

/// The kernel need not wake us so long before we wake up by ourselves.
const ROUSE: Span = Span::from_micros(50);

/// Records read in one go; heartbeats and timers come between.
const BATCH: usize = 4096;

/// Figures are as old as this at most, while acks come.
const PUBLISH: Span = Span::from_millis(5);

/// A connection that the kernel driver holds, as it is when it is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelConnection {
    /// Its cookie (`SO_COOKIE`).
    pub cookie: u64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Headers that go with a segment, in bytes.
    pub overhead: u32,
    /// TCP's count of acknowledged bytes: 1 after an active connect, 0 after a passive one, and
    /// more if something was sent since.
    pub acked: u64,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
}

/// Controllers above connections whose data stay in the kernel: windows go in, acks come out. One
/// thread serves all of them, for as long as this lives.
#[derive(Debug)]
pub struct KernelDriver {
    shared: Arc<DriverInbox>,
    slot: (u32, u64),
    name: String,
    /// On this process, if it may have a hold on itself.
    own: Option<RemoteSocket>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its clients share.
#[derive(Debug)]
struct DriverInbox {
    wake: OwnedFd,
    commands: Mutex<Vec<DriverCommand>>,
    /// Cookies of connections that want to be kicked and cannot be.
    unreachable: Mutex<BTreeSet<u64>>,
}

#[derive(Debug)]
enum DriverCommand {
    Add(Box<NewKernelFlow>),
    SetRemote(u64, RemoteSocket),
    Abort(u64),
    Stop,
}

struct NewKernelFlow {
    connection: KernelConnection,
    flow: KernelFlow,
    shared: Arc<SharedFlow>,
    remote: Option<RemoteSocket>,
    /// Keeps the connection from ending before it is under our control, after which its end is
    /// told; none where a program in the kernel has put it there, and it may have ended already.
    socket: Option<OwnedFd>,
}

impl std::fmt::Debug for NewKernelFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKernelFlow")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl KernelDriver {
    /// Takes a place at the kernel driver.
    ///
    /// # Errors
    /// Why there is none for us: not installed, not permitted, another version.
    pub fn open() -> Result<Self, KernelError> {
        Self::open_named(cellpace_kernel::NAME)
    }

    /// The same for a kernel driver that was installed under another name.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_named(name: &str) -> Result<Self, KernelError> {
        let system = |doing| move |source: std::io::Error| KernelError::System { doing, source };
        let kernel = Kernel::open_named(name)?;
        let slot = (kernel.slot() as u32, kernel.owner());
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(|e| system("making an event")(e.into()))?;
        let (commands, unreachable) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(DriverInbox { wake, commands, unreachable });
        let server = DriverThread::new(kernel, shared.clone());
        let thread =
            spawn("cellpace-steer", move || server.run()).map_err(system("starting a thread"))?;
        let own = RemoteSocket::new(rustix::process::getpid(), -1).ok();
        Ok(Self { shared, slot, name: name.to_owned(), own, thread: Some(thread) })
    }

    /// The slot at the kernel driver and its owner, for programs in the kernel that put sockets
    /// under our control.
    pub fn slot(&self) -> (u32, u64) {
        self.slot
    }

    /// Puts a connected TCP socket under the kernel driver, and steers it. Nothing must be on its
    /// way yet. The descriptor is not kept. With a `remote` TCP is told to send whenever the
    /// controller lets it; without, it learns of that with the next ack.
    ///
    /// # Errors
    /// When that is no TCP socket, or the kernel driver is gone. The socket is as it was.
    pub fn take(
        &self,
        socket: impl AsFd,
        remote: Option<RemoteSocket>,
        options: &FlowOptions,
    ) -> Result<FlowHandle, TcpError> {
        self.is_usable()?;
        let socket = socket.as_fd();
        let info = TcpInfo::of(socket).map_err(TcpError::NotTcp)?;
        let options_of = socket2::SockRef::from(&socket);
        let address = |address: socket2::SockAddr| {
            address
                .as_socket()
                .ok_or_else(|| TcpError::NotTcp(std::io::ErrorKind::Unsupported.into()))
        };
        let local = address(options_of.local_addr().map_err(TcpError::NotTcp)?)?;
        let peer = address(options_of.peer_addr().map_err(TcpError::NotTcp)?)?;
        let is_ipv6 = matches!(local.ip().to_canonical(), std::net::IpAddr::V6(_));
        let cookie = cellpace_kernel::select_named(socket, &self.name)
            .map_err(|source| TcpError::Setup { what: "TCP_CONGESTION", source })?;
        let connection = KernelConnection {
            cookie,
            mss: info.mss.max(1),
            overhead: info.overhead(is_ipv6) as u32,
            acked: info.bytes_acked,
            local,
            peer,
        };
        let kept = socket.try_clone_to_owned().map_err(TcpError::NotTcp)?;
        self.start(&connection, options, Some(kept), remote)
    }

    /// The same for a socket of this process, which is told to send by its own descriptor for as
    /// long as that is open.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_own(
        &self,
        socket: impl AsFd,
        options: &FlowOptions,
    ) -> Result<FlowHandle, TcpError> {
        let remote = self.own.as_ref().map(|own| own.on(socket.as_fd().as_raw_fd()));
        self.take(socket, remote, options)
    }

    /// Steers a connection that a program in the kernel has put under our control. If it has closed
    /// since, the flow ends at once.
    ///
    /// # Errors
    /// When the kernel driver is gone.
    pub fn adopt(
        &self,
        connection: &KernelConnection,
        options: &FlowOptions,
    ) -> Result<FlowHandle, TcpError> {
        self.start(connection, options, None, None)
    }

    /// Cookies of connections that should be kicked and cannot be: their controllers have budgets,
    /// they are some RTTs old, and have something to send. In ascending order.
    pub fn unreachable(&self) -> Vec<u64> {
        self.shared.unreachable().iter().copied().collect()
    }

    /// Says where a program has the socket `cookie`, so that TCP is told to send whenever the
    /// controller lets it. When it is not there any more, the connection is unreachable again.
    pub fn set_remote_socket(&self, cookie: u64, remote: RemoteSocket) {
        self.shared.command(DriverCommand::SetRemote(cookie, remote));
    }

    /// Whether anything is connection at all: not any more once the kernel driver was removed, or this
    /// process was stopped for so long that another one has its place.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn is_usable(&self) -> Result<(), TcpError> {
        if self.is_running() {
            return Ok(());
        }
        let source = std::io::Error::from_raw_os_error(libc::ENODEV);
        Err(TcpError::Setup { what: "kernel driver", source })
    }

    fn start(
        &self,
        connection: &KernelConnection,
        options: &FlowOptions,
        socket: Option<OwnedFd>,
        remote: Option<RemoteSocket>,
    ) -> Result<FlowHandle, TcpError> {
        self.is_usable()?;
        let (segment, overhead) = (u64::from(connection.mss), u64::from(connection.overhead));
        let random = Random::seeded(options.seed, 0);
        let setup = Setup { mss: segment + overhead, start: now(), random };
        let controller = options.cc.build(setup);
        let mut flow = KernelFlow::new(controller, now(), segment, overhead, connection.acked);
        flow.can_kick(remote.is_some());
        let shared = Arc::new(SharedFlow::default());
        let new =
            NewKernelFlow { connection: *connection, flow, shared: shared.clone(), remote, socket };
        self.shared.command(DriverCommand::Add(Box::new(new)));
        let (inbox, cookie) = (self.shared.clone(), connection.cookie);
        Ok(FlowHandle { shared, server: Arc::new(KernelFlowServer { inbox, cookie }) })
    }
}

/// The thread that serves a flow, which knows it by its cookie.
#[derive(Debug)]
struct KernelFlowServer {
    inbox: Arc<DriverInbox>,
    cookie: u64,
}

impl FlowServer for KernelFlowServer {
    fn abort(&self, _: &Arc<SharedFlow>) {
        self.inbox.command(DriverCommand::Abort(self.cookie));
    }
}

impl Drop for KernelDriver {
    fn drop(&mut self) {
        self.shared.command(DriverCommand::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl DriverInbox {
    fn commands(&self) -> MutexGuard<'_, Vec<DriverCommand>> {
        // Nothing that panics happens while it is held.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreachable(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // As above.
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, command: DriverCommand) {
        self.commands().push(command);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// A connection in the thread.
struct FlowSlot {
    flow: KernelFlow,
    shared: Arc<SharedFlow>,
    remote: Option<RemoteSocket>,
    /// It is among the unreachable.
    is_unreachable: bool,
    /// When it wants to be called, as it stands in the list of timers.
    timer: Option<Time>,
    published_at: Time,
}

/// The thread's own state.
struct DriverThread {
    kernel: Kernel,
    inbox: Arc<DriverInbox>,
    places: HashMap<u64, FlowSlot>,
    timers: BTreeSet<(Time, u64)>,
    /// Records of the batch at hand.
    records: Vec<KernelRecord>,
    /// Connections of which the batch told.
    touched: Vec<u64>,
    /// Records since then.
    counted: usize,
    counted_from: Time,
    /// How long we rest between reading where acks come fast (else zero), and until when at present.
    rest: Span,
    rest_until: Time,
    /// Until then some connection may want to hear of an ack at once.
    eager_until: Time,
    /// CLOCK_MONOTONIC, in which records have their times, ahead of the engine's time.
    ahead: u64,
}

impl DriverThread {
    fn new(kernel: Kernel, inbox: Arc<DriverInbox>) -> Self {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let nanos = clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64;
        Self {
            kernel,
            inbox,
            places: HashMap::new(),
            timers: BTreeSet::new(),
            records: Vec::new(),
            touched: Vec::new(),
            counted: 0,
            counted_from: now(),
            rest: Span::ZERO,
            rest_until: Time::ZERO,
            eager_until: now() + EAGER,
            ahead: nanos - now().as_nanos(),
        }
    }

    fn run(mut self) {
        let mut beat_at = Time::ZERO;
        loop {
            let time = now();
            if time >= beat_at {
                beat_at = time + BEAT;
                if self.kernel.beat().is_err() {
                    return self.give_up();
                }
            }
            if !self.take_commands() {
                return;
            }
            self.read(time);
            self.serve_timers(now());
            self.wait(beat_at);
        }
    }

    /// The kernel driver was removed, or we were taken for dead: the sockets look after
    /// themselves.
    fn give_up(&mut self) {
        for place in self.places.values() {
            place.shared.end(FlowOutcome::Failed(libc::ENODEV));
        }
        for command in self.inbox.commands().drain(..) {
            if let DriverCommand::Add(new) = command {
                new.shared.end(FlowOutcome::Failed(libc::ENODEV));
            }
        }
    }

    /// Does what was asked for. Returns false when the thread shall end.
    fn take_commands(&mut self) -> bool {
        let commands = std::mem::take(&mut *self.inbox.commands());
        for command in commands {
            match command {
                DriverCommand::Add(new) => self.add(*new),
                DriverCommand::SetRemote(cookie, remote) => self.set_remote(cookie, remote),
                DriverCommand::Abort(cookie) => self.abort(cookie),
                DriverCommand::Stop => return false,
            }
        }
        true
    }

    fn add(&mut self, new: NewKernelFlow) {
        let NewKernelFlow { connection, mut flow, shared, remote, socket } = new;
        // Who closed before this is not told of any more, and would stay for ever.
        if socket.is_none()
            && let Some((control, _)) = flow.news(now(), false)
            && let Ok(false) = self.kernel.renew(connection.cookie, control)
        {
            return shared.end(FlowOutcome::Finished);
        }
        // Its first acks open its window.
        self.eager_until = now() + EAGER;
        let (is_unreachable, timer, published_at) = (false, None, Time::ZERO);
        let place = FlowSlot { flow, shared, remote, is_unreachable, timer, published_at };
        self.places.insert(connection.cookie, place);
        self.serve(connection.cookie, now(), false);
        drop(socket);
    }

    fn set_remote(&mut self, cookie: u64, remote: RemoteSocket) {
        let Some(place) = self.places.get_mut(&cookie) else { return };
        place.remote = Some(remote);
        place.flow.can_kick(true);
        if std::mem::take(&mut place.is_unreachable) {
            self.inbox.unreachable().remove(&cookie);
        }
        self.serve(cookie, now(), false);
    }

    /// Resets a connection. A record reports its release, as with any other.
    fn abort(&self, cookie: u64) {
        let Some(place) = self.places.get(&cookie) else { return };
        if place.remote.as_ref().is_some_and(|remote| remote.reset(cookie).is_ok()) {
            place.shared.end(FlowOutcome::Failed(libc::ECONNABORTED));
        }
    }

    /// Works in the records that wait.
    fn read(&mut self, time: Time) {
        let records = &mut self.records;
        let count = self.kernel.drain(BATCH, |record| records.push(record));
        for at in 0..self.records.len() {
            let record = self.records[at];
            let Some(place) = self.places.get_mut(&record.cookie) else { continue };
            if record.kind == RecordKind::Release {
                self.remove(record.cookie);
                continue;
            }
            let when = Time::from_nanos(record.time_ns.saturating_sub(self.ahead));
            let opened = place.flow.on_record(when.min(time), &record);
            // In slow start a window leaves as it grows: several acks together would make a burst
            // of their packets, all sent with the largest of the windows.
            if opened && self.rest == Span::ZERO {
                self.serve(record.cookie, time, true);
            }
            self.touched.push(record.cookie);
        }
        self.records.clear();
        self.touched.sort_unstable();
        self.touched.dedup();
        let mut shortest_rtt = Span::MAX;
        for at in 0..self.touched.len() {
            let cookie = self.touched[at];
            self.serve(cookie, time, false);
            let Some(place) = self.places.get(&cookie) else { continue };
            shortest_rtt = shortest_rtt.min(place.flow.min_rtt().unwrap_or(shortest_rtt));
            if place.flow.acks_may_wait().is_none_or(|until| until > time + LONGEST_WAIT) {
                self.eager_until = time + EAGER;
            }
        }
        self.touched.clear();
        self.rest_after(time, count, shortest_rtt);
    }

    /// Plans how long to rest after `count` records of connections with RTTs from `shortest_rtt`.
    fn rest_after(&mut self, time: Time, count: usize, shortest_rtt: Span) {
        self.counted += count;
        if time >= self.counted_from + COUNTING {
            let rate = self.counted as f64 / time.since(self.counted_from).as_secs_f64();
            let wanted = if rate > FAST { ACKS_IN_REST / rate } else { 0.0 };
            self.rest = Span::from_secs_f64(wanted);
            (self.counted, self.counted_from) = (0, time);
        }
        if count > 0 && time > self.eager_until {
            // Ended by a controller's time, which is a timer of ours.
            self.rest_until = time + LONGEST_WAIT;
        } else if count > 0 {
            let longest = LONGEST_REST.min(shortest_rtt / RESTS_IN_RTT);
            self.rest_until = time + self.rest.min(longest).max(SHORTEST_REST);
        }
    }

    fn serve_timers(&mut self, time: Time) {
        while let Some(&(due, cookie)) = self.timers.first()
            && due <= time
        {
            self.timers.remove(&(due, cookie));
            if let Some(place) = self.places.get_mut(&cookie) {
                place.timer = None;
                if place.flow.is_behind(time) {
                    place.kick(cookie);
                }
                place.flow.on_timer(time);
                self.serve(cookie, time, false);
            }
        }
    }

    /// Tells the kernel what is new, and TCP to send, `at_once` or with the next ack where that is
    /// near; and notes when the connection wants to be called.
    fn serve(&mut self, cookie: u64, time: Time, at_once: bool) {
        let Some(place) = self.places.get_mut(&cookie) else { return };
        if let Some((control, kick)) = place.flow.news(time, at_once) {
            // With the table full, or the driver gone, TCP goes by RFC 5681.
            let _ = self.kernel.control(cookie, control);
            if kick {
                place.kick(cookie);
            }
        }
        if !place.is_unreachable && place.flow.wants_kick(time) {
            place.is_unreachable = true;
            self.inbox.unreachable().insert(cookie);
        }
        let timer = place.flow.next_deadline();
        if timer != place.timer {
            if let Some(old) = std::mem::replace(&mut place.timer, timer) {
                self.timers.remove(&(old, cookie));
            }
            if let Some(new) = timer {
                self.timers.insert((new, cookie));
            }
        }
        if time >= place.published_at + PUBLISH {
            place.publish(time);
        }
    }

    fn remove(&mut self, cookie: u64) {
        let Some(mut place) = self.places.remove(&cookie) else { return };
        if let Some(timer) = place.timer {
            self.timers.remove(&(timer, cookie));
        }
        if place.is_unreachable {
            self.inbox.unreachable().remove(&cookie);
        }
        place.publish(now());
        place.shared.end(FlowOutcome::Finished);
    }

    fn wait(&self, beat_at: Time) {
        let time = now();
        let timer = self.timers.first().map(|(time, _)| *time);
        let until = timer.unwrap_or(beat_at).min(beat_at);
        if self.rest_until > time {
            let wake_at = self.rest_until.min(until);
            self.kernel.rest_until(self.ahead + (wake_at - ROUSE).as_nanos());
            return self.sleep(&mut [self.for_commands()], wake_at.since(time));
        }
        // A command may have ended a rest early, of which the kernel knows only the end.
        self.kernel.rest_until(0);
        let ring = self.kernel.as_fd();
        self.sleep(
            &mut [self.for_commands(), PollFd::new(&ring, PollFlags::IN)],
            until.since(time),
        );
    }

    fn for_commands(&self) -> PollFd<'_> {
        PollFd::new(&self.inbox.wake, PollFlags::IN)
    }

    /// `fds` begin with what commands come by.
    fn sleep(&self, fds: &mut [PollFd<'_>], most: Span) {
        // Interrupted or not: what is not reported now is reported the next time.
        let _ = poll(fds, Some(&timespec(most)));
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&self.inbox.wake, &mut [0; 8]);
        }
    }
}

impl FlowSlot {
    /// Has TCP send what it may now. Who cannot be reached any more (the program passed the socket
    /// on, or keeps us away) is connection by acks alone, until somebody says where it is.
    fn kick(&mut self, cookie: u64) {
        let Some(remote) = &self.remote else { return };
        let time = now();
        match remote.kick(cookie) {
            Ok(left) => self.flow.on_kicked(time, left),
            Err(_) => {
                self.remote = None;
                self.flow.can_kick(false);
            }
        }
    }

    fn publish(&mut self, time: Time) {
        self.published_at = time;
        let mut state = self.shared.lock();
        state.stats = self.flow.stats();
        while let Some(event) = self.flow.poll_event() {
            state.note(event);
        }
    }
}

fn timespec(span: Span) -> Timespec {
    let nanos = span.as_nanos();
    Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}
