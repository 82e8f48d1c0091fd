//! The thread that serves all flows.

#![allow(unsafe_code, reason = "memory that is measured")]

use std::collections::{TryReserveError, VecDeque};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellpace_base::{Span, Time};
use cellpace_recovery::WindowMember;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use crate::flow::{FlowServer, SharedFlow};
use crate::relay::flow::{NextTurn, RelayFlow, WindowsByPeer};
use crate::relay::local_socket::SocketEvents;
use crate::socket::{self, SavedOptions};
use crate::thread::{now, spawn};
use crate::timers::TimerQueue;
use crate::{FlowHandle, FlowOptions, FlowOutcome, TcpError};

/// Serves the flows of a process with one thread, which lives as long as there are flows and a second longer.
///
/// A clone is the same engine. In a child of `fork` the thread does not exist: an engine that is
/// used there starts anew, and the parent's flows stay the parent's.
#[derive(Clone, Default)]
pub struct RelayEngine {
    inner: Arc<Mutex<Option<RunningEngine>>>,
    windows: Arc<WindowsByPeer>,
    /// Flows at once; `None`: as many as there may be.
    most: Option<usize>,
    open: Arc<AtomicUsize>,
}

/// What the thread and its clients share.
struct RunningEngine {
    process: u32,
    wake: Arc<OwnedFd>,
    commands: Vec<EngineCommand>,
}

/// What the thread is asked to do.
enum EngineCommand {
    Add(ServedFlow),
    /// To look after a flow whose owner wants something of it.
    Visit(Arc<SharedFlow>),
}

/// A flow on its way to the thread.
struct ServedFlow {
    relay: Box<RelayFlow>,
    shared: Arc<SharedFlow>,
    _slot: FlowQuota,
}

/// A flow's place among those that there may be at once.
struct FlowQuota(Arc<AtomicUsize>);

impl FlowQuota {
    fn take(open: &Arc<AtomicUsize>, most: Option<usize>) -> Option<Self> {
        let before = open.fetch_add(1, Ordering::Relaxed);
        let slot = Self(open.clone());
        // One too many is dropped here, which counts down again.
        most.is_none_or(|most| before < most).then_some(slot)
    }
}

impl Drop for FlowQuota {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for RelayEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayEngine").finish_non_exhaustive()
    }
}

impl RelayEngine {
    /// An engine without flows, and without a thread until there is one.
    pub fn new() -> Self {
        Self::default()
    }

    /// An engine that takes no more than so many flows at once.
    pub fn limited(most: usize) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// An engine with a thread and flows of its own, which shares nothing with this one but the
    /// limit on flows.
    pub fn sibling(&self) -> Self {
        Self { most: self.most, open: self.open.clone(), ..Self::default() }
    }

    /// Takes over a connected TCP socket. The application reads and writes the other end of the
    /// stream socket pair that `local` is one end of. What is sent before belongs to no window.
    ///
    /// When the application closes its end, what it wrote is still delivered, at the controller's
    /// pace; if the TCP socket's `SO_LINGER` is on with a time of zero, the connection is reset.
    ///
    /// # Errors
    /// When `tcp` is not a connected TCP socket, or a resource is missing: descriptors, memory,
    /// a thread, or room within [`limited`](Self::limited). Both descriptors are given up then, and
    /// the connection is as it was: a caller that continues without a controller keeps `tcp`, too.
    pub fn adopt(
        &self,
        tcp: impl Into<Arc<OwnedFd>>,
        local: OwnedFd,
        options: &FlowOptions,
    ) -> Result<FlowHandle, TcpError> {
        let tcp = tcp.into();
        // Read before anything is tried: a connection that is refused goes on as it was.
        let before = SavedOptions::of(tcp.as_fd());
        let adopted = self.try_adopt(tcp.clone(), local, options);
        if adopted.is_err() {
            before.restore(tcp.as_fd());
        }
        adopted
    }

    /// Whether another flow would be taken now, as far as is known, beside `coming` others
    /// that are still to come.
    pub fn has_room(&self, coming: usize) -> bool {
        let taken = self.open.load(Ordering::Relaxed) + coming;
        self.most.is_none_or(|most| taken < most) && has_memory()
    }

    fn try_adopt(
        &self,
        tcp: Arc<OwnedFd>,
        local: OwnedFd,
        options: &FlowOptions,
    ) -> Result<FlowHandle, TcpError> {
        let refused = |what, source| TcpError::Setup { what, source };
        let slot = FlowQuota::take(&self.open, self.most).ok_or_else(|| {
            refused("flows", io::Error::other("there are as many as there may be"))
        })?;
        if !has_memory() {
            return Err(refused("memory", io::ErrorKind::OutOfMemory.into()));
        }
        let shared = Arc::new(SharedFlow::new(Arc::downgrade(&tcp)));
        let relay = RelayFlow::new(tcp, local, options, &self.windows, shared.clone(), now())?;
        let incoming = ServedFlow { relay: Box::new(relay), shared: shared.clone(), _slot: slot };
        let mut inner = self.lock();
        match &mut *inner {
            Some(running) if running.is_ours() => {
                running.command(EngineCommand::Add(incoming));
            }
            other => *other = Some(self.start(incoming)?),
        }
        let (server, driver) = (Arc::new(self.clone()), options.driver.kind());
        let controller = options.cc.to_string().into();
        Ok(FlowHandle { shared, server, driver, controller, reason: None })
    }

    fn start(&self, first: ServedFlow) -> Result<RunningEngine, TcpError> {
        let setup = |what| move |source: Errno| TcpError::Setup { what, source: source.into() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(setup("epoll"))?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags).map_err(setup("eventfd"))?);
        let data = epoll::EventData::new_u64(WAKE);
        epoll::add(&epoll, &wake, data, epoll::EventFlags::IN).map_err(setup("epoll"))?;
        let server = EngineThread::new(self.inner.clone(), epoll, wake.clone()).map_err(|_| {
            TcpError::Setup { what: "memory", source: io::ErrorKind::OutOfMemory.into() }
        })?;
        spawn("cellpace", move || server.run())
            .map_err(|source| TcpError::Setup { what: "thread", source })?;
        Ok(RunningEngine {
            process: std::process::id(),
            wake,
            commands: vec![EngineCommand::Add(first)],
        })
    }

    fn is_running(&self) -> bool {
        self.lock().as_ref().is_some_and(RunningEngine::is_ours)
    }

    fn lock(&self) -> MutexGuard<'_, Option<RunningEngine>> {
        lock(&self.inner)
    }
}

impl FlowServer for RelayEngine {
    fn abort(&self, shared: &Arc<SharedFlow>) -> io::Result<()> {
        // The thread would do it, too; but the process may end before it is its turn.
        if self.is_running()
            && shared.lock().outcome.is_none()
            && let Some(tcp) = shared.tcp.upgrade()
        {
            socket::reset(tcp.as_fd());
        }
        self.refresh(shared);
        Ok(())
    }

    fn refresh(&self, shared: &Arc<SharedFlow>) {
        if let Some(running) = self.lock().as_mut().filter(|running| running.is_ours()) {
            running.command(EngineCommand::Visit(shared.clone()));
        }
    }
}

impl RunningEngine {
    /// Not in a child of the process that started the thread.
    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    fn command(&mut self, command: EngineCommand) {
        self.commands.push(command);
        // Behind others the thread is woken already.
        if self.commands.len() == 1 {
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

fn lock(inner: &Mutex<Option<RunningEngine>>) -> MutexGuard<'_, Option<RunningEngine>> {
    // Nothing that panics happens while it is held.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether memory is left. Where a small piece cannot be allocated, the program ends: a flow is only
/// taken as long as there is much more than it begins with.
fn has_memory() -> bool {
    const SPARE: usize = 1 << 20;
    // Not by the allocator: the C library's would keep larger pieces from then on rather than
    // give them back, for every flow.
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new pages anywhere, which nothing else is concerned by.
    let spare = unsafe { libc::mmap(std::ptr::null_mut(), SPARE, access, kind, -1, 0) };
    if spare == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the pages are ours, and nothing points to them. They were not touched.
    unsafe { libc::munmap(spare, SPARE) };
    true
}

/// Gives memory that is free back to the system. The C library of GNU keeps what many connections
/// took at once, and does so by itself only where it was the last that was taken. Takes some
/// milliseconds.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator looks after its own locks, and nothing that is in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The event of the descriptor that wakes the thread up.
const WAKE: u64 = u64::MAX;

/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

/// How long the thread stays when its last flow has ended: to start it costs as much as a short flow, and a
/// server with one client at a time would have it started for each connection.
const LINGER: Span = Span::from_secs(1);

/// Bytes read from a socket at a time.
const SCRATCH: usize = 256 << 10;

/// A place for a flow.
struct EngineSlot {
    flow: Option<ServedFlow>,
    /// Counts the flows that were here: events of earlier ones are out of date.
    generation: u32,
    /// When the flow wants to be called, as it stands in the list of timers.
    timer: Option<Time>,
    /// Whether the flow stands in the list of those with more to do.
    again: bool,
    watched: TcpWatch,
}

/// Whether the kernel reports of a flow's TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TcpWatch {
    Always,
    /// Once. There is no other way to have it report nothing: errors cannot be left out.
    Once,
    Not,
}

/// The thread's own state.
struct EngineThread {
    inner: Arc<Mutex<Option<RunningEngine>>>,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    places: Vec<EngineSlot>,
    free: Vec<usize>,
    timers: TimerQueue<usize>,
    again: VecDeque<usize>,
    /// When it was found that there is no flow.
    idle_since: Option<Time>,
    scratch: Vec<u8>,
}

impl EngineThread {
    fn new(
        inner: Arc<Mutex<Option<RunningEngine>>>,
        epoll: OwnedFd,
        wake: Arc<OwnedFd>,
    ) -> Result<Self, TryReserveError> {
        let mut scratch = Vec::new();
        scratch.try_reserve_exact(SCRATCH)?;
        scratch.resize(SCRATCH, 0);
        Ok(Self {
            inner,
            epoll,
            wake,
            places: Vec::new(),
            free: Vec::new(),
            timers: TimerQueue::default(),
            again: VecDeque::new(),
            idle_since: None,
            scratch,
        })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        while self.take_commands() {
            self.serve_timers();
            self.serve_others();
            self.wait(&mut events);
            for event in &events {
                self.on_event(*event);
            }
        }
    }

    /// Does what was asked for. Returns false when the thread is needed no more.
    fn take_commands(&mut self) -> bool {
        let is_over = self.is_over();
        let commands = {
            let mut inner = lock(&self.inner);
            let Some(running) = inner.as_mut() else { return false };
            // A child of `fork` has put an engine of its own in this place.
            if !Arc::ptr_eq(&running.wake, &self.wake) {
                return false;
            }
            if running.commands.is_empty() && is_over {
                // Under the lock: a flow that comes now finds no thread and starts one, and is not
                // lost.
                *inner = None;
                return false;
            }
            mem::take(&mut running.commands)
        };
        for command in commands {
            match command {
                EngineCommand::Add(flow) => self.add(flow),
                EngineCommand::Visit(shared) => self.visit(&shared),
            }
        }
        true
    }

    /// Whether there has been no flow for so long that the thread ends.
    fn is_over(&mut self) -> bool {
        if !self.has_no_flows() {
            return false;
        }
        let now = now();
        now >= *self.idle_since.get_or_insert(now) + LINGER
    }

    fn has_no_flows(&self) -> bool {
        self.free.len() == self.places.len()
    }

    fn visit(&mut self, shared: &Arc<SharedFlow>) {
        let at = shared.place.load(Ordering::Relaxed);
        let flow = self.places.get(at).and_then(|place| place.flow.as_ref());
        // The flow may have ended, and another one be there.
        if flow.is_some_and(|flow| Arc::ptr_eq(&flow.shared, shared)) {
            self.serve(at);
        }
    }

    fn add(&mut self, flow: ServedFlow) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(EngineSlot {
                flow: None,
                generation: 0,
                timer: None,
                again: false,
                watched: TcpWatch::Always,
            });
            self.places.len() - 1
        });
        self.idle_since = None;
        let generation = self.places[at].generation;
        let watched = watch(&self.epoll, flow.relay.tcp(), token(at, generation, TCP))
            .and_then(|()| watch(&self.epoll, flow.relay.local(), token(at, generation, LOCAL)));
        if let Err(error) = watched {
            flow.shared.end(FlowOutcome::Failed(error.raw_os_error()));
            self.free.push(at);
            return;
        }
        flow.shared.place.store(at, Ordering::Relaxed);
        if let Some(member) = flow.relay.member() {
            member.set_token(at);
        }
        self.places[at].flow = Some(flow);
        self.places[at].watched = TcpWatch::Always;
        self.serve(at);
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) {
        // The last flow may have ended since the commands were looked at.
        let busy = !self.again.is_empty() || self.has_no_flows() && self.idle_since.is_none();
        let timeout = if busy { Some(zero()) } else { self.until_timer() };
        events.clear();
        // Interrupted or not: what is not reported now is reported the next time.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref());
    }

    fn until_timer(&self) -> Option<Timespec> {
        let time = match self.idle_since {
            Some(since) => since + LINGER,
            None => self.timers.first()?,
        };
        let nanos = time.since(now()).as_nanos();
        let seconds = i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX);
        Some(Timespec { tv_sec: seconds, tv_nsec: (nanos % 1_000_000_000) as _ })
    }

    fn on_event(&mut self, event: epoll::Event) {
        let (data, flags) = (event.data.u64(), event.flags);
        if data == WAKE {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            return;
        }
        let (at, generation, side) = untoken(data);
        let Some(place) = self.places.get_mut(at) else { return };
        let Some(flow) = place.flow.as_mut().filter(|_| place.generation == generation) else {
            return;
        };
        let report = SocketEvents {
            readable: flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP),
            writable: flags.contains(epoll::EventFlags::OUT),
            error: flags.contains(epoll::EventFlags::ERR),
            hung_up: flags.contains(epoll::EventFlags::HUP),
        };
        match side {
            TCP => {
                flow.relay.on_tcp(report);
                if place.watched == TcpWatch::Once {
                    place.watched = TcpWatch::Not;
                }
            }
            _ => flow.relay.on_local(report),
        }
        self.serve(at);
    }

    fn serve_timers(&mut self) {
        let due = now();
        // Each once at most: commands and events must not wait for a flow that is always due.
        for _ in 0..self.places.len() {
            let Some(at) = self.timers.pop_due(due) else { return };
            self.places[at].timer = None;
            self.serve(at);
        }
    }

    /// Those that had more to do than was their turn.
    fn serve_others(&mut self) {
        for _ in 0..self.again.len() {
            let Some(at) = self.again.pop_front() else { return };
            self.places[at].again = false;
            self.serve(at);
        }
    }

    fn serve(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(flow) = place.flow.as_mut() else { return };
        if place.watched == TcpWatch::Not {
            // Nothing was reported meanwhile, so anything may have happened.
            flow.relay.on_nap();
        }
        let next = flow.relay.turn(&now, &mut self.scratch);
        let watch = flow.relay.member().map(WindowMember::watch);
        match next {
            NextTurn::Wait(timer) => {
                self.timers.set(at, &mut self.places[at].timer, timer);
                self.watch_or_not(at);
            }
            NextTurn::Again => self.serve_again(at),
            NextTurn::Over(outcome) => self.remove(at, outcome),
        }
        if let Some(watch) = watch {
            watch.wake(|place| {
                if place != at {
                    self.serve_again(place);
                }
            });
        }
    }

    /// Has the kernel report of the flow's TCP socket or not, as the flow wants it. A flow that
    /// sends at its own times only is woken up at those, and not by each ack.
    fn watch_or_not(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(flow) = place.flow.as_ref() else { return };
        // Without a time there is nothing that would end it.
        let naps = place.timer.is_some() && flow.relay.naps(now());
        if naps != (place.watched == TcpWatch::Always) {
            return;
        }
        let token = epoll::EventData::new_u64(token(at, place.generation, TCP));
        let flags = if naps { WATCHED | epoll::EventFlags::ONESHOT } else { WATCHED };
        // What happened meanwhile is reported by this. It cannot fail: the socket is registered.
        let _ = epoll::modify(&self.epoll, flow.relay.tcp(), token, flags);
        place.watched = if naps { TcpWatch::Once } else { TcpWatch::Always };
    }

    fn serve_again(&mut self, at: usize) {
        if !mem::replace(&mut self.places[at].again, true) {
            self.again.push_back(at);
        }
    }

    fn remove(&mut self, at: usize, outcome: FlowOutcome) {
        let place = &mut self.places[at];
        self.timers.set(at, &mut place.timer, None);
        // Events of the old flow may still wait in this batch: they must not reach the next one.
        place.generation = place.generation.wrapping_add(1) & GENERATIONS;
        let Some(ServedFlow { relay, shared, _slot }) = place.flow.take() else { return };
        // Duplicates of the descriptors may exist elsewhere; the kernel would continue to report.
        let _ = epoll::delete(&self.epoll, relay.tcp());
        let _ = epoll::delete(&self.epoll, relay.local());
        // Descriptors are closed before the end is reported, for owners that wait for both.
        drop(relay);
        shared.end(outcome);
        self.free.push(at);
    }
}

const TCP: u64 = 0;
const LOCAL: u64 = 1;
const GENERATIONS: u32 = (1 << 31) - 1;

fn token(at: usize, generation: u32, side: u64) -> u64 {
    (at as u64) << 32 | u64::from(generation) << 1 | side
}

fn untoken(token: u64) -> (usize, u32, u64) {
    ((token >> 32) as usize, (token >> 1) as u32 & GENERATIONS, token & 1)
}

fn zero() -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: 0 }
}

const WATCHED: epoll::EventFlags = epoll::EventFlags::IN
    .union(epoll::EventFlags::OUT)
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ET);

fn watch(epoll: &OwnedFd, socket: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
    epoll::add(epoll, socket.as_fd(), epoll::EventData::new_u64(token), WATCHED)
}

/// An error of the engine's own calls, for callers that speak of I/O.
impl From<TcpError> for io::Error {
    fn from(error: TcpError) -> Self {
        Self::other(error)
    }
}
