//! Typed events: what an algorithm decided, for logs and plots.

use std::collections::VecDeque;

use cellpace_base::{Span, Time};

/// What a controller is doing, in terms that several algorithms share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Exponential growth at the start or after a timeout (BBR: STARTUP).
    SlowStart,
    /// The algorithm's normal law.
    Avoidance,
    /// After a loss, until the packets sent before it are accounted for.
    Recovery,
    /// BBR: emptying the queue that STARTUP built.
    Drain,
    /// BBR: the steady cycle of gains.
    ProbeBw,
    /// BBR: looking for the base RTT.
    ProbeRtt,
    /// Copa: alone, or among flows that leave room.
    Default,
    /// Copa: among flows that fill the buffer.
    Competitive,
}

impl Phase {
    /// Returns its name in logs, results and pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::SlowStart => "slow_start",
            Self::Avoidance => "avoidance",
            Self::Recovery => "recovery",
            Self::Drain => "drain",
            Self::ProbeBw => "probe_bw",
            Self::ProbeRtt => "probe_rtt",
            Self::Default => "default",
            Self::Competitive => "competitive",
        }
    }
}

/// Something a controller decided.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Another phase began.
    Phase(Phase),
    /// The window was cut because of loss, a mark or delay.
    Reduced {
        /// Window before, in bytes.
        from: u64,
        /// Window after, in bytes.
        to: u64,
    },
    /// The retransmission timer fired.
    Timeout,
    /// The last reduction was taken back: the loss or timeout was none.
    Undone,
    /// A delay profile was fitted anew.
    ProfileRefit {
        /// Points it was fitted to.
        points: u32,
        /// Nodes of the curve.
        nodes: u32,
    },
    /// The base delay estimate changed.
    BaseDelay(Span),
    /// The algorithm started over.
    Restart,
    /// The path does not carry ECN, so packets leave without it.
    EcnFailed,
}

impl Event {
    /// Returns its name in logs, results and pages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Phase(_) => "phase",
            Self::Reduced { .. } => "reduced",
            Self::Timeout => "timeout",
            Self::Undone => "undone",
            Self::ProfileRefit { .. } => "profile_refit",
            Self::BaseDelay(_) => "base_delay",
            Self::Restart => "restart",
            Self::EcnFailed => "ecn_failed",
        }
    }
}

/// A bounded queue of events for controllers to hold. It takes memory for as many as have waited at
/// once, mostly one or two: when nobody takes the events, the oldest are dropped.
#[derive(Debug, Clone, Default)]
pub struct Events {
    queue: VecDeque<(Time, Event)>,
}

impl Events {
    const CAPACITY: usize = 64;

    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    pub fn push(&mut self, now: Time, event: Event) {
        if self.queue.len() == Self::CAPACITY {
            self.queue.pop_front();
        }
        self.queue.push_back((now, event));
    }

    /// Takes the oldest event.
    pub fn poll(&mut self) -> Option<(Time, Event)> {
        self.queue.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_nobody_takes_do_not_pile_up() {
        let mut events = Events::new();
        for i in 0..1000 {
            events.push(Time::from_millis(i), Event::Timeout);
        }
        let taken: Vec<_> = std::iter::from_fn(|| events.poll()).collect();
        assert_eq!(taken.len(), Events::CAPACITY);
        assert_eq!(taken.last().unwrap().0, Time::from_millis(999));
    }
}
