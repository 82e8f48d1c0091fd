//! How much more is acked at once than the bandwidth explains: links that hand over packets in
//! bursts, and receivers that bundle acks, leave a window of two BDP empty in between. Linux 5.1.

use crate::{Span, Time};

/// Measures the excess of acked packets, and remembers the largest of the last rounds.
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    /// The present epoch: as long as acks come faster than the bandwidth explains.
    epoch_at: Time,
    epoch_acked: u64,
    /// The largest excess of the running and of the last half of the window, in packets.
    excess: [u64; 2],
    rounds: u64,
}

/// What one ack brings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bundle {
    pub(super) now: Time,
    pub(super) packets: u64,
    /// Estimated bandwidth in packets per second.
    pub(super) bandwidth: f64,
    /// Congestion window in packets.
    pub(super) cwnd: u64,
    pub(super) round_start: bool,
}

impl Aggregation {
    /// Rounds of one half: a maximum lasts five to ten rounds (Linux 5.1).
    const HALF: u64 = 5;
    /// The excess never counts for more than the bandwidth brings in this time (Linux 5.1).
    const MAX: Span = Span::from_millis(100);
    /// An epoch ends after this many packets (Linux 5.1).
    const MAX_LENGTH: u64 = 1 << 20;

    pub(super) fn new(now: Time) -> Self {
        Self { epoch_at: now, epoch_acked: 0, excess: [0; 2], rounds: 0 }
    }

    pub(super) fn on_ack(&mut self, bundle: &Bundle) {
        if bundle.round_start {
            self.count_round();
        }
        let expected = self.expected(bundle);
        let explained = self.epoch_acked <= expected;
        let expected =
            if explained || self.epoch_acked.saturating_add(bundle.packets) >= Self::MAX_LENGTH {
                self.epoch_at = bundle.now;
                self.epoch_acked = 0;
                0
            } else {
                expected
            };
        self.epoch_acked += bundle.packets.min(Self::MAX_LENGTH);
        // More than a window cannot have been in flight.
        let excess = self.epoch_acked.saturating_sub(expected).min(bundle.cwnd);
        self.excess[0] = self.excess[0].max(excess);
    }

    /// Packets to add to the window at `bandwidth` packets per second.
    pub(super) fn allowance(&self, bandwidth: f64) -> u64 {
        self.excess[0].max(self.excess[1]).min((bandwidth * Self::MAX.as_secs_f64()) as u64)
    }

    /// Packets that the bandwidth explains since the epoch began.
    fn expected(&self, bundle: &Bundle) -> u64 {
        (bundle.bandwidth * (bundle.now - self.epoch_at).as_secs_f64()) as u64
    }

    fn count_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= Self::HALF {
            self.rounds = 0;
            self.excess = [0, self.excess[0]];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 packets per second.
    fn bundle(ms: u64, packets: u64) -> Bundle {
        Bundle {
            now: Time::from_millis(ms),
            packets,
            bandwidth: 1000.0,
            cwnd: 86,
            round_start: false,
        }
    }

    #[test]
    fn acks_at_the_bandwidth_exceed_it_by_one_ack() {
        let mut aggregation = Aggregation::new(Time::ZERO);
        for ms in 1..500 {
            aggregation.on_ack(&bundle(ms, 1));
        }
        assert_eq!(aggregation.allowance(1000.0), 1);
    }

    #[test]
    fn a_burst_after_a_pause_is_excess() {
        let mut aggregation = Aggregation::new(Time::ZERO);
        aggregation.on_ack(&bundle(10, 10));
        // 20 ms of silence, then 30 packets within 10 ms: 30 beyond a new epoch, of which the
        // 10 ms explain ten.
        for ms in 30..=40 {
            aggregation.on_ack(&bundle(ms, 3));
        }
        assert_eq!(aggregation.allowance(1000.0), 33 - 10);
    }

    #[test]
    fn an_epoch_ends_when_the_bandwidth_explains_it() {
        let mut aggregation = Aggregation::new(Time::ZERO);
        aggregation.on_ack(&bundle(10, 10));
        aggregation.on_ack(&bundle(20, 10));
        assert_eq!(aggregation.allowance(1000.0), 10, "two bundles of 10, not 20 at once");
    }

    #[test]
    fn excess_is_bounded_by_the_window_and_by_100_ms() {
        let mut aggregation = Aggregation::new(Time::ZERO);
        aggregation.on_ack(&bundle(10, 500));
        assert_eq!(aggregation.allowance(1000.0), 86);
        assert_eq!(aggregation.allowance(300.0), 30);
        assert_eq!(aggregation.allowance(0.0), 0);
    }

    #[test]
    fn the_maximum_lasts_five_to_ten_rounds() {
        for offset in 0..5 {
            let mut aggregation = Aggregation::new(Time::ZERO);
            let round = |ms| Bundle { round_start: true, ..bundle(ms, 1) };
            (0..offset).for_each(|i| aggregation.on_ack(&round(10 + i)));
            aggregation.on_ack(&bundle(50, 40));
            let mut lasted = 0;
            while aggregation.allowance(1000.0) > 20 {
                lasted += 1;
                aggregation.on_ack(&round(1000 * lasted));
            }
            assert_eq!(lasted, 10 - offset);
        }
    }

    #[test]
    fn absurd_acks_are_survived() {
        let mut aggregation = Aggregation::new(Time::from_secs(9));
        for ms in [0, 1, u64::MAX / 4_000_000] {
            for bandwidth in [0.0, 1e300, f64::INFINITY] {
                let packets = u64::MAX >> 1;
                aggregation.on_ack(&Bundle { packets, bandwidth, ..bundle(ms, 1) });
                assert!(aggregation.allowance(bandwidth) <= 86);
            }
        }
    }
}
