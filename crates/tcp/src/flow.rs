//! A flow as its owner sees it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cellpace_base::{Span, Time};
use cellpace_cc::{ControllerSpec, Event};

/// How a connection shall be controlled.
#[derive(Debug, Clone)]
pub struct FlowOptions {
    /// The controller.
    pub cc: ControllerSpec,
    /// Seed of the flow's own random source.
    pub seed: u64,
    /// Bytes that wait for the controller at most, beside what the local socket holds.
    pub queue: usize,
    /// What TCP itself shall use below the controller (`TCP_CONGESTION`); as it is by default.
    pub below: Option<String>,
}

impl FlowOptions {
    /// Bytes that wait at most by default: all of it is latency for the application.
    pub const QUEUE: usize = 256 << 10;

    /// The defaults for a controller.
    pub fn new(cc: ControllerSpec) -> Self {
        Self { cc, seed: 1, queue: Self::QUEUE, below: None }
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
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Both directions ended in order.
    Finished,
    /// With an error, by its number.
    Failed(i32),
}

/// A flow, held by whoever started it. Dropping it does not end the flow.
#[derive(Debug, Clone)]
pub struct FlowHandle {
    pub(crate) shared: Arc<Shared>,
}

/// What the engine tells of a flow.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves figures, at worst old ones.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn end(&self, outcome: Outcome) {
        self.lock().outcome = Some(outcome);
        self.changed.notify_all();
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) stats: FlowStats,
    pub(crate) events: std::collections::VecDeque<(Time, Event)>,
    pub(crate) outcome: Option<Outcome>,
}

impl FlowHandle {
    /// The figures as of a few milliseconds ago.
    pub fn stats(&self) -> FlowStats {
        self.lock().stats
    }

    /// What the controller decided, oldest first. At most 64 events are kept.
    pub fn poll_event(&self) -> Option<(Time, Event)> {
        self.lock().events.pop_front()
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}
