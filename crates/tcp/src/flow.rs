//! A flow as its owner sees it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cellpace_base::{Span, Time};
use cellpace_cc::{ControllerSpec, Event, PeerHalf};

use crate::linger::Linger;
use crate::steer::{Command, Inbox};
use crate::{Below, Engine, engine};
use cellpace_alcc::{AlccError, AlccRole};

/// How a connection shall be controlled.
#[derive(Debug, Clone)]
pub struct FlowOptions {
    /// The controller.
    pub cc: ControllerSpec,
    /// Seed of the flow's own random source.
    pub seed: u64,
    /// Bytes that wait for the controller at most, beside what the local socket holds.
    pub queue: usize,
    /// What TCP itself uses below the controller.
    pub below: Below,
    /// Bytes that TCP may hold, sent or not (`SO_SNDBUF`), which bounds what is in flight; `None`:
    /// as many as the kernel thinks right, which grow with the window. The kernel may grant less:
    /// [`FlowStats::send_buffer`].
    pub send_buffer: Option<u32>,
    /// How the controller learns what arrived.
    pub driver: DriverChoice,
    /// Bounds of the client/server driver.
    pub framing: FramingLimits,
    /// Whether flows to the same peer share one controller; not with the client/server driver.
    pub share: Option<Share>,
}

/// How the controller learns what arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// From TCP's own acks; the peer needs to know nothing.
    #[default]
    Gate,
    /// From acks inside the stream: `docs/alcc-wire.md`. The peer must do the same; a listening
    /// end whose peer does not goes on as with [`Gate`](Self::Gate).
    ClientServer {
        /// Which end this is.
        role: AlccRole,
    },
}

impl DriverChoice {
    /// So long a peer that connected may be silent before what is said to it first goes out plain.
    const HELLO_WAIT: Span = Span::from_millis(500);

    /// The client/server driver as it fits who made the connection: who opened it says hello,
    /// and who accepted it answers to one and is plain without.
    pub fn client_server(outgoing: bool) -> Self {
        let role = match outgoing {
            true => AlccRole::Connect,
            false => AlccRole::Listen { wait: Some(Self::HELLO_WAIT) },
        };
        Self::ClientServer { role }
    }
}

/// Bounds of the client/server driver.
#[derive(Debug, Clone, Copy)]
pub struct FramingLimits {
    /// Which controllers of the peer get their receiver's half here.
    pub halves: fn(&PeerHalf) -> bool,
    /// How long a connecting end waits for the answer to its hello; `None`: for ever.
    pub answer_within: Option<Span>,
    /// How long packets may be in flight without a single ack until the peer is given up; `None`:
    /// for as long as TCP bears it. A peer that sleeps for longer than this loses the connection.
    pub ack_within: Option<Span>,
    /// Bytes that wait at most for the application to read them, and so the most that can be on
    /// their way to it.
    pub incoming: usize,
}

impl Default for FramingLimits {
    fn default() -> Self {
        Self {
            halves: is_small_half,
            answer_within: Some(Span::from_secs(10)),
            ack_within: None,
            incoming: 4 << 20,
        }
    }
}

/// Whether a receiver's half that a peer asks for is of ordinary size: the peer chooses, and this
/// end pays in memory and time.
pub(crate) fn is_small_half(half: &PeerHalf) -> bool {
    half.exists() && half.cost().is_ok()
}

/// A flow's part in a controller that all flows of an engine to the same peer address under the
/// same controller string share. Those that have data divide its window; one that has none leaves
/// its part to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The flow's part in relation to those of the others; 0 counts as 1.
    pub weight: u32,
}

impl FlowOptions {
    /// Bytes that wait at most by default: all of it is latency for the application.
    pub const QUEUE: usize = 256 << 10;

    /// The defaults for a controller.
    pub fn new(cc: ControllerSpec) -> Self {
        Self {
            cc,
            seed: 1,
            queue: Self::QUEUE,
            below: Below::default(),
            send_buffer: None,
            driver: DriverChoice::Gate,
            framing: FramingLimits::default(),
            share: None,
        }
    }
}

/// Figures of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FlowStats {
    /// Bytes that TCP took.
    pub sent_bytes: u64,
    /// Bytes that the peer acknowledged.
    pub acked_bytes: u64,
    /// Bytes that came from the peer.
    pub received_bytes: u64,
    /// Bytes that wait in the flow's queue.
    pub queued_bytes: u64,
    /// The controller's window in bytes, headers included; `u64::MAX` where it has none.
    pub cwnd: u64,
    /// TCP's own window in bytes, headers included.
    pub tcp_cwnd: u64,
    /// Bytes in flight, headers included.
    pub in_flight: u64,
    /// Smoothed RTT, as the controller sees it.
    pub srtt: Option<Span>,
    /// Smallest RTT.
    pub min_rtt: Option<Span>,
    /// Segments that TCP sent again.
    pub retransmissions: u64,
    /// How often TCP refused data that the controller allowed.
    pub blocks: u64,
    /// How often TCP was told to send between acks, through the kernel driver.
    pub pushes: u64,
    /// Bytes that TCP may hold, where [`FlowOptions::send_buffer`] chose: as granted.
    pub send_buffer: Option<u64>,
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Both directions ended in order.
    Finished,
    /// With an error, by its number.
    Failed(i32),
    /// The two ends of a framed connection did not understand each other.
    Alcc(AlccError),
}

/// A flow, held by whoever started it. Dropping it does not end the flow.
#[derive(Debug, Clone)]
pub struct FlowHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) server: FlowServer,
}

/// Who serves a flow.
#[derive(Debug, Clone)]
pub(crate) enum FlowServer {
    Engine(Engine),
    /// The thread of a kernel driver; the flow's cookie.
    Kernel(Arc<Inbox>, u64),
}

/// What the engine tells of a flow.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
    /// The TCP socket, where this process has it for as long as the flow lasts.
    pub(crate) tcp: Weak<OwnedFd>,
    pub(crate) linger: Linger,
    /// The owner wants the connection reset.
    pub(crate) aborted: AtomicBool,
    /// Where the flow is in the engine.
    pub(crate) place: AtomicUsize,
}

impl Shared {
    pub(crate) fn of(tcp: &Arc<OwnedFd>) -> Self {
        Self { tcp: Arc::downgrade(tcp), ..Self::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves figures, at worst old ones.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The flow ended; what was said first stays.
    pub(crate) fn end(&self, outcome: Outcome) {
        self.lock().outcome.get_or_insert(outcome);
        self.changed.notify_all();
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }
}

/// Events of a flow that wait to be taken at most: some hundred milliseconds' worth.
const MOST_EVENTS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) stats: FlowStats,
    pub(crate) events: std::collections::VecDeque<(Time, Event)>,
    /// Events that were dropped because nobody took them in time.
    pub(crate) missed_events: u64,
    pub(crate) outcome: Option<Outcome>,
}

impl State {
    /// The controller decided something.
    pub(crate) fn note(&mut self, event: (Time, Event)) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
            self.missed_events += 1;
        }
        self.events.push_back(event);
    }
}

impl FlowHandle {
    /// The figures as of a few milliseconds ago.
    pub fn stats(&self) -> FlowStats {
        self.lock().stats
    }

    /// What the controller decided and when ([`now`](Self::now)), oldest first. The newest 64 events
    /// are kept; [`missed_events`](Self::missed_events) says how many were older.
    pub fn poll_event(&self) -> Option<(Time, Event)> {
        self.lock().events.pop_front()
    }

    /// Events that were dropped, since the beginning, because [`poll_event`](Self::poll_event) was
    /// not called in time.
    pub fn missed_events(&self) -> u64 {
        self.lock().missed_events
    }

    /// The time now, on the clock of events.
    pub fn now() -> Time {
        engine::now()
    }

    /// How the flow ended, once it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.lock().outcome
    }

    /// Waits for the end; `None` if it does not come in time.
    pub fn wait(&self, timeout: Duration) -> Option<Outcome> {
        let guard = self.lock();
        let waited =
            self.shared.changed.wait_timeout_while(guard, timeout, |state| state.outcome.is_none());
        match waited {
            Ok((state, _)) => state.outcome,
            Err(poisoned) => poisoned.into_inner().0.outcome,
        }
    }

    /// Drops what waits and resets the connection, whoever else holds its descriptors; soon after,
    /// [`outcome`](Self::outcome) is `Failed(ECONNABORTED)`. A flow of an engine has been reset when
    /// this returns. One of the kernel driver is reset soon after by the driver's thread, which needs
    /// a [`Grip`](crate::Grip) for that; without one it goes on. Does nothing to a flow that has
    /// ended, nor to one of the process that this one was forked from.
    pub fn abort(&self) {
        match &self.server {
            FlowServer::Engine(engine) => engine.abort(&self.shared),
            FlowServer::Kernel(inbox, cookie) => inbox.command(Command::Abort(*cookie)),
        }
    }

    /// Is to be called before a program reads or sets `SO_LINGER` of a flow's TCP socket, which it
    /// has to do within a second. While a flow holds bytes, the option has a value of ours, so that
    /// the connection is reset if this process is killed; this puts the program's own back.
    pub fn lend_linger(&self) {
        if let Some(tcp) = self.shared.tcp.upgrade() {
            self.shared.linger.lend(tcp.as_fd(), Self::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_a_small_sprout_and_nothing_else() {
        let allowed = |text: &str| is_small_half(&text.parse().unwrap());
        assert!(allowed("sprout"));
        assert!(allowed("sprout:confidence=25%,max_rate=2000"));
        assert!(!allowed("sprout:max_rate=16000"));
        assert!(!allowed("verus"));
    }

    #[test]
    fn events_that_nobody_takes_are_dropped_from_the_oldest_on_and_counted() {
        let mut state = State::default();
        let events: Vec<_> = (0..70).map(|ms| (Time::from_millis(ms), Event::Timeout)).collect();
        events[..64].iter().for_each(|event| state.note(*event));
        assert_eq!((state.events.len(), state.missed_events), (64, 0));
        events[64..].iter().for_each(|event| state.note(*event));
        assert_eq!(state.missed_events, 6);
        assert!(state.events.iter().eq(&events[6..]));
    }
}
