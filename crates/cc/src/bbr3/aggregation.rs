//! How much more is acked at once than the bandwidth explains (`extra_acked`): what a link that
//! hands over bundles, or a receiver that delays acks, needs in the window on top.

use crate::Time;
use crate::extremes::WindowedMax;

/// Measures the excess of acked bytes, and remembers the largest of the last rounds.
#[derive(Debug, Clone)]
pub(super) struct Bbr3Aggregation {
    /// The running interval: as long as acks come faster than the bandwidth explains.
    start: Time,
    delivered: f64,
    largest: WindowedMax,
}

/// What one ack brings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bbr3Bundle {
    pub(super) now: Time,
    /// Bytes.
    pub(super) acked: f64,
    /// Estimated bandwidth in bytes per second.
    pub(super) bandwidth: f64,
    /// Most that an excess counts for, in bytes.
    pub(super) limit: f64,
    pub(super) round: u64,
    /// Rounds that count, this one included.
    pub(super) rounds: u64,
}

impl Bbr3Aggregation {
    pub(super) fn new(now: Time, rounds: u64) -> Self {
        Self { start: now, delivered: 0.0, largest: WindowedMax::new(rounds as usize + 2) }
    }

    pub(super) fn on_ack(&mut self, bundle: &Bbr3Bundle) {
        let mut expected = bundle.bandwidth * (bundle.now - self.start).as_secs_f64();
        if self.delivered <= expected {
            self.delivered = 0.0;
            self.start = bundle.now;
            expected = 0.0;
        }
        self.delivered += bundle.acked;
        let extra = (self.delivered - expected).min(bundle.limit).max(0.0);
        self.largest.push(bundle.round, extra as u64, bundle.rounds.saturating_sub(1));
    }

    /// The sender was idle: no ack is late.
    pub(super) fn restart(&mut self, now: Time) {
        self.start = now;
    }

    /// Bytes to add to the window.
    pub(super) fn extra(&self) -> f64 {
        self.largest.extreme().unwrap_or(0) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(ms: u64, acked: f64, round: u64) -> Bbr3Bundle {
        let now = Time::from_millis(ms);
        Bbr3Bundle { now, acked, bandwidth: 1.5e6, limit: 120_000.0, round, rounds: 10 }
    }

    #[test]
    fn bbr3_b11_extra_acked() {
        let mut aggregation = Bbr3Aggregation::new(Time::from_millis(1000), 10);
        let mut seen = Vec::new();
        for (ms, acked) in
            [(1000, 1500.0), (1001, 1500.0), (1011, 30_000.0), (1012, 1500.0), (1040, 1500.0)]
        {
            aggregation.on_ack(&bundle(ms, acked, 1));
            seen.push((aggregation.delivered, aggregation.extra()));
        }
        let expected = [
            (1500.0, 1500.0),
            // The first ack is not explained yet when the second comes: 1500 <= 1500.
            (1500.0, 1500.0),
            (30_000.0, 30_000.0),
            (31_500.0, 30_000.0),
            (1500.0, 30_000.0),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_largest_bundle_is_remembered_for_its_rounds() {
        let mut aggregation = Bbr3Aggregation::new(Time::ZERO, 10);
        aggregation.on_ack(&bundle(100, 30_000.0, 1));
        for round in 2..=10 {
            aggregation.on_ack(&bundle(100 * round, 1500.0, round));
            assert_eq!(aggregation.extra(), 30_000.0, "round {round}");
        }
        aggregation.on_ack(&bundle(1100, 1500.0, 11));
        assert_eq!(aggregation.extra(), 1500.0);
    }

    #[test]
    fn before_the_pipe_is_full_only_this_round_counts() {
        let mut aggregation = Bbr3Aggregation::new(Time::ZERO, 10);
        aggregation.on_ack(&Bbr3Bundle { rounds: 1, ..bundle(100, 30_000.0, 1) });
        aggregation.on_ack(&Bbr3Bundle { rounds: 1, ..bundle(200, 1500.0, 2) });
        assert_eq!(aggregation.extra(), 1500.0);
    }

    #[test]
    fn an_excess_is_bounded() {
        let mut aggregation = Bbr3Aggregation::new(Time::ZERO, 10);
        aggregation.on_ack(&bundle(100, 500_000.0, 1));
        assert_eq!(aggregation.extra(), 120_000.0);
    }
}
