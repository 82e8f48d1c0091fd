//! Copa's answer to heavy loss (spec section 5, step 5).

use crate::{Span, Time};

/// Counts acked and lost packets and reports when too many are lost.
pub(super) struct LossMeter {
    lost: u64,
    total: u64,
    since: Time,
    /// The counts behind the last verdict, as long as it may still be taken back.
    verdict: Option<(u64, u64)>,
}

impl LossMeter {
    /// Section 5: more packets than this make a ratio.
    const ENOUGH: u64 = 20;

    /// Share of packets lost above which the window is cut, in tenths (genericCC).
    const LIMIT: u64 = 3;

    pub(super) fn new(now: Time) -> Self {
        Self { lost: 0, total: 0, since: now, verdict: None }
    }

    /// Counts packets; true when the ratio of a whole interval is above the limit.
    pub(super) fn record(&mut self, now: Time, rtt: Span, lost: u64, acked: u64) -> bool {
        self.lost += lost;
        self.total += lost + acked;
        // Section 5: every two RTTs and more than 20 packets
        if now <= self.since + rtt * 2 || self.total <= Self::ENOUGH {
            return false;
        }
        let counts = (self.lost, self.total);
        *self = Self::new(now);
        self.verdict = Some(counts).filter(|counts| Self::too_many(*counts));
        self.verdict.is_some()
    }

    /// A packet counted as lost arrived after all; true when the last verdict falls with it.
    pub(super) fn acquit(&mut self) -> bool {
        let Some((lost, total)) = self.verdict else {
            self.lost = self.lost.saturating_sub(1);
            return false;
        };
        let counts = (lost.saturating_sub(1), total);
        self.verdict = Some(counts).filter(|counts| Self::too_many(*counts));
        self.verdict.is_none()
    }

    /// The share lost of the interval so far.
    pub(super) fn ratio(&self) -> f64 {
        self.lost as f64 / self.total.max(1) as f64
    }

    fn too_many((lost, total): (u64, u64)) -> bool {
        10 * lost > Self::LIMIT * total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(40);

    fn verdict(lost: u64, total: u64) -> bool {
        let mut meter = LossMeter::new(Time::ZERO);
        let acked = total - lost;
        assert!(!meter.record(Time::from_millis(40), RTT, lost, acked - 1), "one RTT is too early");
        meter.record(Time::from_millis(81), RTT, 0, 1)
    }

    #[test]
    fn copa_t9_loss_meter() {
        assert!(verdict(7, 21));
        assert!(!verdict(6, 21));
        assert!(!verdict(7, 20), "too few to decide");
    }

    #[test]
    fn a_verdict_falls_when_its_losses_arrive_late() {
        let mut meter = LossMeter::new(Time::ZERO);
        assert!(meter.record(Time::from_millis(81), RTT, 8, 14));
        assert!(!meter.acquit(), "7 of 22 are still too many");
        assert!(meter.acquit());
        assert!(!meter.acquit(), "only once");
    }
}
