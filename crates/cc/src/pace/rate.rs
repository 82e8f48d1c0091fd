//! The rate at which the path delivers: an exponential mean over the acks.

use super::units::{ONE, SECOND, micros};
use crate::{Span, Time};

/// Packets per second, with 16 bits behind the point.
#[derive(Debug, Clone)]
pub(super) struct DeliveryMean {
    rate: u64,
    /// The mean that falls while the rate is held: bursts must not add up to more than arrives.
    running: u64,
    /// Time constant in microseconds.
    memory: u64,
    /// The last ack.
    at: Option<Time>,
}

/// The longest silence that counts: most outages of a cellular link end at the rate from before,
/// so that longer ones say nothing more about it.
const MAX_SILENCE: Span = Span::from_millis(80);
/// 16 million packets per second: more than any path delivers.
const MAX_RATE: u64 = ONE << 24;

impl DeliveryMean {
    /// `memory`: the time constant in microseconds, above 0.
    pub(super) fn new(memory: u64) -> Self {
        Self { rate: 0, running: 0, memory, at: None }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Section 3: each packet adds 1/T, and 1 / (1 + x + x^2 / 2) is left after x = t / T. `hold`:
    /// what arrives is less than what the path could deliver, so the mean does not fall.
    pub(super) fn on_ack(&mut self, now: Time, packets: u64, hold: bool) {
        let Some(at) = self.at.replace(now) else { return };
        let x = micros((now - at).min(MAX_SILENCE)) * ONE / self.memory;
        let kept = ONE * ONE / (ONE + x + x * x / (2 * ONE));
        let before = if hold { self.running } else { self.rate };
        let next = before * kept / ONE + packets.min(ONE << 20) * SECOND / self.memory;
        self.running = next.min(MAX_RATE);
        self.rate = if hold { self.rate.max(self.running) } else { self.running };
    }

    /// Takes a rate that one packet's flight has shown.
    pub(super) fn raise_to(&mut self, rate: u64) {
        self.rate = self.rate.max(rate).min(MAX_RATE);
        self.running = self.running.max(self.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 150 ms.
    const MEMORY: u64 = 150_000;

    /// An ack of one packet every `gap_ms`, from `from_ms` to `to_ms`.
    fn feed(mean: &mut DeliveryMean, from_ms: u64, to_ms: u64, gap_ms: u64) {
        for ms in (from_ms..=to_ms).step_by(gap_ms as usize) {
            mean.on_ack(Time::from_millis(ms), ONE, false);
        }
    }

    fn per_second(mean: &DeliveryMean) -> f64 {
        mean.rate() as f64 / ONE as f64
    }

    #[test]
    fn bursts_while_the_rate_is_held_do_not_add_up() {
        let mut mean = DeliveryMean::new(MEMORY);
        feed(&mut mean, 0, 3000, 10);
        // 100 packets per second, ten at a time, for a minute.
        for burst in 0..600 {
            mean.on_ack(Time::from_millis(3100 + 100 * burst), 10 * ONE, true);
        }
        // After a burst the mean is 10 / T / (1 - 1 / (1 + x + x^2 / 2)), with x = 80 / 150 at most.
        assert!((100.0..166.0).contains(&per_second(&mean)), "{}", per_second(&mean));
    }

    #[test]
    fn pace_t1_the_rate_follows_with_the_time_constant() {
        let mut mean = DeliveryMean::new(MEMORY);
        feed(&mut mean, 0, 3000, 1);
        assert!((per_second(&mean) - 1000.0).abs() < 5.0, "{}", per_second(&mean));
        feed(&mut mean, 3004, 3076, 4);
        let expected = 250.0 + 750.0 * (-0.5_f64).exp();
        assert!((per_second(&mean) - expected).abs() < 6.0, "{} {expected}", per_second(&mean));
    }

    #[test]
    fn pace_t2_a_silence_counts_as_80_ms_at_most() {
        let after = |silence_ms: u64| {
            let mut mean = DeliveryMean::new(MEMORY);
            feed(&mut mean, 0, 3000, 1);
            mean.on_ack(Time::from_millis(3000 + silence_ms), ONE, false);
            mean.rate()
        };
        assert_eq!(after(9000), after(80));
        assert!(after(80) < after(40));
    }

    #[test]
    fn nothing_makes_the_rate_leave_its_range() {
        let mut mean = DeliveryMean::new(10_000);
        for second in 0..100 {
            mean.on_ack(Time::from_secs(second), u64::MAX, true);
            mean.raise_to(u64::MAX / 2);
        }
        assert_eq!(mean.rate(), MAX_RATE);
    }
}
