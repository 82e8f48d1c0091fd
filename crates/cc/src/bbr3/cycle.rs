//! The cycle of probing: DOWN, CRUISE, REFILL, UP, once in two to three seconds, or as often as
//! Reno would reach its window again.

use crate::{Random, Span, Time};

/// What the acks of this round answer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum AckPhase {
    #[default]
    Init,
    /// Packets of REFILL, with no extra rate.
    Refilling,
    /// UP has begun, and its first packets are not acked yet.
    ProbeStarting,
    /// Packets of UP are acked.
    ProbeFeedback,
    /// UP is over, and its last packets are not acked yet.
    ProbeStopping,
}

/// Where the flow is in the cycle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cycle {
    since: Time,
    /// Time from `since` after which the next probe is due.
    wait: Span,
    pub(super) rounds_since_up: u64,
    pub(super) ack_phase: AckPhase,
    /// Losses of packets sent from REFILL on say how much the path holds.
    pub(super) sampling: bool,
    /// The last probe ended by losses.
    pub(super) too_high: bool,
    /// The last probe stopped where the one before had met losses, without any of its own.
    pub(super) precautionary: bool,
}

impl Cycle {
    /// Enters DOWN: draws when the next probe is due.
    pub(super) fn start_down(&mut self, now: Time, least_wait: Span, random: &mut Random) {
        self.rounds_since_up = random.below(2);
        self.wait = least_wait + Span::from_secs_f64(random.unit());
        self.since = now;
        self.ack_phase = AckPhase::ProbeStopping;
    }

    /// Enters REFILL.
    pub(super) fn start_refill(&mut self) {
        self.precautionary = false;
        self.ack_phase = AckPhase::Refilling;
    }

    /// Whether the next probe is due by the clock, or after `reno_rounds` rounds.
    pub(super) fn is_time_to_probe(&self, now: Time, reno_rounds: f64) -> bool {
        now > self.since + self.wait || self.rounds_since_up as f64 >= reno_rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_two_to_three_seconds_and_strict() {
        let mut random = Random::seeded(1, 0);
        for _ in 0..100 {
            let mut cycle = Cycle::default();
            let now = Time::from_secs(10);
            cycle.start_down(now, Span::from_secs(2), &mut random);
            assert!((2.0..3.0).contains(&cycle.wait.as_secs_f64()));
            assert!(cycle.rounds_since_up <= 1);
            let due = now + cycle.wait;
            assert!(!cycle.is_time_to_probe(due, 63.0), "not at the moment itself");
            assert!(cycle.is_time_to_probe(due + Span::from_nanos(1), 63.0));
            cycle.rounds_since_up = 10;
            assert!(cycle.is_time_to_probe(now, 10.0) && !cycle.is_time_to_probe(now, 10.5));
        }
    }
}
