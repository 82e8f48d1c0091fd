//! PROBE_BW: a cycle of gains around the bandwidth, each for about a base RTT.

use crate::{Random, Span, Time};

/// Window in bandwidth-delay products (ACM Queue 2016).
pub(super) const CWND_GAIN: f64 = 2.0;
/// Pacing gains of the phases (ACM Queue 2016).
const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Rounds in the window of the maximum delivery rate: cycle length + 2 (Linux 4.9).
pub(super) const BW_WINDOW: u64 = GAINS.len() as u64 + 2;
/// Index of the phase with gain below one.
const DOWN_PHASE: usize = 1;

/// Where in the cycle the flow is.
#[derive(Debug, Clone, Copy)]
pub(super) struct GainCycle {
    pub(super) phase: usize,
    pub(super) since: Time,
}

impl GainCycle {
    /// Starts in any phase but the one that drains: there is nothing to drain yet.
    pub(super) fn start(now: Time, random: &mut Random) -> Self {
        let drawn = random.below(GAINS.len() as u64 - 1) as usize;
        Self { phase: if drawn < DOWN_PHASE { drawn } else { drawn + 1 }, since: now }
    }

    /// Goes on to the next phase.
    pub(super) fn advance(&mut self, now: Time) {
        self.phase = (self.phase + 1) % GAINS.len();
        self.since = now;
    }

    /// The pacing gain of this phase.
    pub(super) fn gain(&self) -> f64 {
        GAINS[self.phase]
    }

    /// Whether a phase with the pacing gain `gain` is over, given the base RTT, whether something
    /// was lost, the packets in flight, and `target`: how many packets a gain wants in flight.
    pub(super) fn is_phase_over(
        &self,
        now: Time,
        gain: f64,
        base_rtt: Span,
        has_lost: bool,
        in_flight: u64,
        target: impl Fn(f64) -> u64,
    ) -> bool {
        let full_length = now - self.since > base_rtt;
        if gain > 1.0 {
            // More bandwidth shows only once the extra data is in flight, or is lost.
            return full_length && (has_lost || in_flight >= target(gain));
        }
        full_length || (gain < 1.0 && in_flight <= target(1.0))
    }
}
