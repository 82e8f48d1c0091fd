//! A flow as its owner sees it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cellpace_alcc::AlccError;
use cellpace_base::{Span, Time};
use cellpace_cc::{Controller, Event, Phase, Profile};

use crate::error::PlacementReason;
use crate::linger::Linger;
use crate::options::DriverKind;
use crate::relay::CongestionControlName;
use crate::thread::now;

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
    /// The congestion control of TCP below the controller; not known through the kernel driver, which
    /// is in its place.
    pub tcp_cc: CongestionControlName,
    /// TCP's own window in bytes, headers included.
    pub tcp_cwnd: u64,
    /// TCP's own slow start threshold likewise; `None` before the first loss, and through the kernel
    /// driver, which does not report it.
    pub tcp_ssthresh: Option<u64>,
    /// Bytes that wait in TCP and have never been sent.
    pub tcp_unsent: u64,
    /// Bytes in flight, headers included.
    pub in_flight: u64,
    /// Smoothed RTT, as the controller sees it.
    pub srtt: Option<Span>,
    /// Smallest RTT.
    pub min_rtt: Option<Span>,
    /// Segments that TCP sent again.
    pub retransmissions: u64,
    /// Payload of a full segment in bytes.
    pub segment_bytes: u64,
    /// How often TCP refused data that the controller allowed.
    pub blocks: u64,
    /// How often TCP was kicked to send between acks, through the kernel driver.
    pub kicks: u64,
    /// The controller's phase, where it has reported one.
    pub phase: Option<Phase>,
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowOutcome {
    /// Both directions ended in order.
    Finished,
    /// With an error, by its number.
    Failed(i32),
    /// The two ends of a client/server connection did not understand each other.
    Alcc(AlccError),
}

/// A flow, held by its owner. Dropping this does not end the flow.
#[derive(Debug, Clone)]
pub struct FlowHandle {
    pub(crate) shared: Arc<SharedFlow>,
    pub(crate) server: Arc<dyn FlowServer>,
    pub(crate) driver: DriverKind,
    pub(crate) controller: Arc<str>,
    /// Why it is not the kernel driver, where that was wished for.
    pub(crate) reason: Option<PlacementReason>,
}

/// The driver that serves a flow, as the flow's owner sees it.
pub(crate) trait FlowServer: std::fmt::Debug + Send + Sync {
    /// Resets the flow's connection: [`FlowHandle::abort`]. What is served later reports that it was
    /// aborted.
    fn abort(&self, shared: &Arc<SharedFlow>) -> io::Result<()>;

    /// Has the figures of a flow renewed soon, although nothing may happen to it.
    fn refresh(&self, shared: &Arc<SharedFlow>);

    /// Has the figures of a flow renewed before they are read, where nothing else renews them.
    fn renew(&self) {}
}

/// What a driver reports of a flow, and its handles ask for.
#[derive(Debug)]
pub(crate) struct SharedFlow {
    pub(crate) state: Mutex<FlowState>,
    pub(crate) changed: Condvar,
    /// The TCP socket, where this process has it for as long as the flow lasts.
    pub(crate) tcp: Weak<OwnedFd>,
    pub(crate) linger: Linger,
    /// The owner wants the connection reset.
    pub(crate) aborted: AtomicBool,
    /// Where the flow is in the engine.
    pub(crate) place: AtomicUsize,
    /// How many look at the controller's values.
    watches: AtomicUsize,
    /// A watch wants the learnt profile, once.
    wants_profile: AtomicBool,
    /// The process that started the flow; a child of `fork` has no part in it.
    process: u32,
}

impl SharedFlow {
    /// Of a new flow; `tcp` is the socket, where this process keeps it.
    pub(crate) fn new(tcp: Weak<OwnedFd>) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            tcp,
            linger: Linger::default(),
            aborted: AtomicBool::new(false),
            place: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            wants_profile: AtomicBool::new(false),
            process: std::process::id(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, FlowState> {
        // A panic elsewhere leaves figures, at worst old ones.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// New figures, what the controller decided since the last ones, and while there is a watch its
    /// internal values.
    pub(crate) fn publish(
        &self,
        now: Time,
        stats: FlowStats,
        controller: Option<&mut dyn Controller>,
    ) {
        let mut state = self.lock();
        let phase = state.stats.phase;
        // Drivers do not know the phase, which events alone report.
        state.stats = FlowStats { phase, ..stats };
        let Some(controller) = controller else { return };
        while let Some(event) = controller.poll_event() {
            state.note(event);
        }
        if self.wants_profile.load(Ordering::Relaxed) {
            self.wants_profile.store(false, Ordering::Relaxed);
            state.profile = controller.profile();
        }
        if self.watches.load(Ordering::Relaxed) > 0 {
            let inspected = state.inspected.get_or_insert_default();
            inspected.at = now;
            inspected.values.clear();
            controller.inspect(&mut |name, value| inspected.values.push((name, value)));
        }
    }

    /// The controller did not go on; the first reason stays.
    pub(crate) fn note_failure(&self, reason: &str) {
        self.lock().failure.get_or_insert_with(|| reason.to_owned());
    }

    /// The flow ended; the first outcome stays.
    pub(crate) fn end(&self, outcome: FlowOutcome) {
        let outcome = match outcome {
            // A thread that serves the flow may meet the reset before it reads the request to abort.
            FlowOutcome::Failed(_) if self.is_aborted() => FlowOutcome::Failed(libc::ECONNABORTED),
            outcome => outcome,
        };
        self.lock().outcome.get_or_insert(outcome);
        self.changed.notify_all();
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }
}

/// Events of a flow that wait to be taken at most: some hundred milliseconds' worth.
const MAX_EVENTS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct FlowState {
    pub(crate) stats: FlowStats,
    /// The newest events, those that were taken among them.
    pub(crate) events: VecDeque<(Time, Event)>,
    /// Events before the oldest of `events`.
    forgotten: u64,
    /// Events that were taken, or dropped because they were not taken in time.
    polled: u64,
    /// Events that were dropped because they were not taken in time.
    pub(crate) missed_events: u64,
    pub(crate) outcome: Option<FlowOutcome>,
    /// Why the controller did not go on.
    failure: Option<String>,
    /// What the controller showed last, while there is a watch.
    inspected: Option<InspectedController>,
    /// What it had learnt when a watch last asked for it.
    profile: Option<Profile>,
}

/// The internal values of a flow's controller.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InspectedController {
    /// When it showed them, on the clock of [`FlowHandle::now`].
    pub at: Time,
    /// Names and values, see [`INSPECTED_VALUES`](cellpace_cc::INSPECTED_VALUES).
    pub values: Vec<(&'static str, f64)>,
}

/// Has a flow's controller show its internal values, for as long as this lives.
#[derive(Debug)]
pub struct FlowWatch {
    shared: Arc<SharedFlow>,
}

impl FlowWatch {
    /// Returns what the controller showed last: some milliseconds ago, or when anything last happened
    /// to the flow. `None` until then, and where the controller shows nothing.
    pub fn values(&self) -> Option<InspectedController> {
        self.shared.lock().inspected.clone()
    }

    /// Returns the events from number `next` on, as far as they are among the newest 64, and sets
    /// `next` to the number of the first one to come. They stay for
    /// [`poll_event`](FlowHandle::poll_event).
    pub fn events_since(&self, next: &mut u64) -> Vec<(Time, Event)> {
        let state = self.shared.lock();
        let skipped = usize::try_from(next.saturating_sub(state.forgotten)).unwrap_or(usize::MAX);
        *next = state.forgotten + state.events.len() as u64;
        state.events.iter().skip(skipped).copied().collect()
    }

    /// Returns what the controller had learnt about delay when this was called before, and has it
    /// shown anew: learning it costs more than values do. `None` until then, and where it learns
    /// nothing.
    pub fn profile(&self) -> Option<Profile> {
        self.shared.wants_profile.store(true, Ordering::Relaxed);
        self.shared.lock().profile.clone()
    }
}

impl Drop for FlowWatch {
    fn drop(&mut self) {
        if self.shared.watches.fetch_sub(1, Ordering::Relaxed) == 1 {
            let mut state = self.shared.lock();
            (state.inspected, state.profile) = (None, None);
        }
    }
}

impl FlowState {
    /// The controller decided something.
    pub(crate) fn note(&mut self, event: (Time, Event)) {
        if let Event::Phase(phase) = event.1 {
            self.stats.phase = Some(phase);
        }
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.forgotten += 1;
            if self.polled < self.forgotten {
                self.missed_events += 1;
                self.polled = self.forgotten;
            }
        }
        self.events.push_back(event);
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        let event = self.events.get(usize::try_from(self.polled - self.forgotten).ok()?)?;
        self.polled += 1;
        Some(*event)
    }
}

impl FlowHandle {
    /// The figures as of a few milliseconds ago; a controller of the kernel's own is asked.
    pub fn stats(&self) -> FlowStats {
        self.server.renew();
        self.lock().stats
    }

    /// What the controller decided and when ([`now`](Self::now)), oldest first. The newest 64 events
    /// are kept; [`missed_events`](Self::missed_events) says how many were older.
    pub fn poll_event(&self) -> Option<(Time, Event)> {
        self.lock().poll_event()
    }

    /// Events that were dropped, since the beginning, because [`poll_event`](Self::poll_event) was
    /// not called in time.
    pub fn missed_events(&self) -> u64 {
        self.lock().missed_events
    }

    /// The time now, on the clock of events.
    pub fn now() -> Time {
        now()
    }

    /// How the flow ended, once it has.
    pub fn outcome(&self) -> Option<FlowOutcome> {
        self.lock().outcome
    }

    /// Waits for the end; `None` if it does not come in time.
    pub fn wait(&self, timeout: Duration) -> Option<FlowOutcome> {
        let guard = self.lock();
        let waited =
            self.shared.changed.wait_timeout_while(guard, timeout, |state| state.outcome.is_none());
        match waited {
            Ok((state, _)) => state.outcome,
            Err(poisoned) => poisoned.into_inner().0.outcome,
        }
    }

    /// Why the flow is plain, or under the kernel driver has CUBIC, although it began under a controller: its
    /// module failed.
    pub fn controller_failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Which driver serves the flow.
    pub fn driver(&self) -> DriverKind {
        self.driver
    }

    /// Which controller the flow has, as its text.
    pub fn controller(&self) -> &Arc<str> {
        &self.controller
    }

    /// Returns why the kernel driver does not serve the flow, where that was wished for.
    pub fn driver_reason(&self) -> Option<&PlacementReason> {
        self.reason.as_ref()
    }

    /// Drops what waits and resets the connection, even where others hold its descriptors; soon after,
    /// [`outcome`](Self::outcome) is `Failed(ECONNABORTED)`. Does nothing to a flow that has ended, nor
    /// to one of the process that this one was forked from.
    ///
    /// # Errors
    /// When the kernel driver serves the flow, no process whose descriptors we may borrow has the
    /// socket, and we lack the privilege to reset it all the same (CAP_NET_ADMIN). The flow continues.
    pub fn abort(&self) -> io::Result<()> {
        // A child of `fork` has the handle, but the connection is its parent's.
        if self.shared.process != std::process::id() {
            return Ok(());
        }
        // Set first: a thread that meets the reset must already see that it was wanted.
        self.shared.aborted.store(true, Ordering::Release);
        let aborted = self.server.abort(&self.shared);
        if aborted.is_err() {
            self.shared.aborted.store(false, Ordering::Release);
        }
        aborted
    }

    /// Looks into the controller: it shows its internal values, every few milliseconds while the flow
    /// is busy, for as long as the watch lives. Without a watch nothing of this costs any time.
    pub fn watch(&self) -> FlowWatch {
        self.shared.watches.fetch_add(1, Ordering::Relaxed);
        self.server.refresh(&self.shared);
        FlowWatch { shared: self.shared.clone() }
    }

    /// Is to be called before a program reads or sets `SO_LINGER` of a flow's TCP socket, which it
    /// has to do within a second. While a flow holds bytes, the option has a value of ours, so that
    /// the connection is reset if this process is killed; this puts the program's own back.
    pub fn lend_linger(&self) {
        if let Some(tcp) = self.shared.tcp.upgrade() {
            self.shared.linger.lend(tcp.as_fd(), Self::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, FlowState> {
        self.shared.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often it is looked into.
    #[derive(Default)]
    struct Inspected(AtomicUsize);

    impl Controller for Inspected {
        fn permit(&self) -> cellpace_cc::Permit {
            cellpace_cc::Permit::Window(0)
        }
        fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
            show("cwnd", self.0.fetch_add(1, Ordering::Relaxed) as f64);
        }
    }

    #[derive(Debug)]
    struct NoServer;

    impl FlowServer for NoServer {
        fn abort(&self, _: &Arc<SharedFlow>) -> io::Result<()> {
            Ok(())
        }
        fn refresh(&self, _: &Arc<SharedFlow>) {}
    }

    #[test]
    fn a_controller_is_looked_into_only_while_somebody_watches() {
        let shared = Arc::new(SharedFlow::new(Weak::new()));
        let flow = FlowHandle {
            shared: shared.clone(),
            server: Arc::new(NoServer),
            driver: DriverKind::Gate,
            controller: "fixed".into(),
            reason: None,
        };
        let mut controller = Inspected::default();
        let mut publish =
            |ms| shared.publish(Time::from_millis(ms), FlowStats::default(), Some(&mut controller));
        publish(1);
        let watch = flow.watch();
        assert_eq!(watch.values(), None, "nothing was published since");
        publish(2);
        let first = InspectedController { at: Time::from_millis(2), values: vec![("cwnd", 0.0)] };
        assert_eq!(watch.values(), Some(first), "it was not asked before");
        let other = flow.watch();
        publish(3);
        drop(watch);
        publish(4);
        assert_eq!(other.values().unwrap().values, [("cwnd", 2.0)], "one looks still");
        drop(other);
        publish(5);
        assert_eq!(controller.0.into_inner(), 3);
    }

    #[test]
    fn events_that_nobody_takes_are_dropped_from_the_oldest_on_and_counted() {
        let mut state = FlowState::default();
        let events: Vec<_> = (0..70).map(|ms| (Time::from_millis(ms), Event::Timeout)).collect();
        events[..64].iter().for_each(|event| state.note(*event));
        assert_eq!((state.events.len(), state.missed_events), (64, 0));
        events[64..].iter().for_each(|event| state.note(*event));
        assert_eq!(state.missed_events, 6);
        assert!(state.events.iter().eq(&events[6..]));
    }

    #[test]
    fn who_watches_sees_events_that_others_take_and_takes_none() {
        let shared = Arc::new(SharedFlow::new(Weak::new()));
        shared.watches.fetch_add(1, Ordering::Relaxed);
        let (watch, mut next) = (FlowWatch { shared: shared.clone() }, 0);
        let note = |range: std::ops::Range<u64>| {
            range.for_each(|ms| shared.lock().note((Time::from_millis(ms), Event::Timeout)));
        };
        note(0..3);
        assert_eq!(watch.events_since(&mut next).len(), 3);
        assert_eq!(watch.events_since(&mut next), []);
        assert_eq!(shared.lock().poll_event(), Some((Time::ZERO, Event::Timeout)));
        note(3..70);
        assert_eq!(shared.lock().missed_events, 5, "the first of the six was taken");
        let seen = watch.events_since(&mut next);
        assert_eq!((seen.len(), seen[0].0), (64, Time::from_millis(6)));
        let polled: Vec<_> = std::iter::from_fn(|| shared.lock().poll_event()).collect();
        assert_eq!(polled, seen);
        note(70..71);
        assert_eq!(shared.lock().poll_event().map(|event| event.0), Some(Time::from_millis(70)));
    }

    #[test]
    fn the_phase_is_that_of_the_last_event_about_it() {
        let shared = SharedFlow::new(Weak::new());
        assert_eq!(shared.lock().stats.phase, None);
        shared.lock().note((Time::ZERO, Event::Phase(Phase::SlowStart)));
        shared.publish(Time::ZERO, FlowStats { acked_bytes: 1, ..FlowStats::default() }, None);
        let stats = shared.lock().stats;
        assert_eq!((stats.phase, stats.acked_bytes), (Some(Phase::SlowStart), 1));
    }
}
