//! What controllers share that decide in fixed epochs and grant budgets: Verus, and the Markov
//! tables that are learnt from it.

use cellpace_base::{Span, Time};

/// Timeout over the last RTT, and the longest timeout, which also counts before the first ack
/// (original code of Verus).
const RTO_FACTOR: u64 = 5;
pub(crate) const RTO_MAX: Span = Span::from_secs(1);

/// Time until a lost packet is given up (original code of Verus).
pub(crate) const GAP_EXPIRY: Span = Span::from_millis(150);

/// Epochs on an absolute grid from the start of a flow: late calls do not shift it, and missed
/// epochs are not made up for.
#[derive(Debug, Clone)]
pub(crate) struct EpochGrid {
    start: Time,
    epoch: Span,
    next: Time,
}

impl EpochGrid {
    /// The first epoch ends one `epoch` after `start`.
    pub(crate) fn new(start: Time, epoch: Span) -> Self {
        Self { start, epoch, next: start + epoch }
    }

    /// When the present epoch ends.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// Whether an epoch has ended by `now`; then the next one is the first to end after `now`.
    pub(crate) fn pass(&mut self, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        let passed = now.since(self.start).as_nanos() / self.epoch.as_nanos().max(1);
        self.next = self.start + self.epoch * passed.saturating_add(1);
        true
    }

    /// Leaves out the epochs that have ended before `now`.
    pub(crate) fn skip_before(&mut self, now: Time) {
        self.pass(Time::from_nanos(now.as_nanos().saturating_sub(1)));
    }

    /// The first end of an epoch from `time` on.
    pub(crate) fn end_from(&self, time: Time) -> Time {
        self.start + self.epoch * self.epochs_in(time.since(self.start))
    }

    /// The epochs that a time takes up, rounded up.
    pub(crate) fn epochs_in(&self, span: Span) -> u64 {
        span.as_nanos().div_ceil(self.epoch.as_nanos().max(1))
    }
}

/// The retransmission timeout (docs/spec/verus.md 4), at least `min`, given the RTT acked last.
pub(crate) fn retransmission_timeout(last_rtt: Option<Span>, min: Span) -> Span {
    last_rtt.map_or(RTO_MAX, |rtt| (rtt * RTO_FACTOR).clamp(min, RTO_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_calls_do_not_shift_the_grid() {
        let ms = Time::from_millis;
        let mut grid = EpochGrid::new(ms(3), Span::from_millis(5));
        let passed = [7, 8, 9, 12, 29, 33].map(|now| (grid.pass(ms(now)), grid.next()));
        let expected = [(false, 8), (true, 13), (false, 13), (false, 13), (true, 33), (true, 38)];
        assert_eq!(passed, expected.map(|(passed, next)| (passed, ms(next))));
        assert_eq!(grid.epochs_in(Span::from_micros(5001)), 2);
    }
}
