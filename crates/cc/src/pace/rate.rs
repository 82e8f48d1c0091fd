//! The rate at which the path delivers: an exponential mean over the acks.

use crate::{Span, Time};

/// Packets per second.
#[derive(Debug, Clone)]
pub(super) struct DeliveryMean {
    rate: f64,
    /// Seconds.
    memory: f64,
    /// The last ack.
    at: Option<Time>,
}

/// The longest silence that counts: most outages of a cellular link end at the rate from before,
/// so that longer ones say nothing more about it.
const MAX_SILENCE: Span = Span::from_millis(80);

impl DeliveryMean {
    pub(super) fn new(memory: Span) -> Self {
        Self { rate: 0.0, memory: memory.as_secs_f64(), at: None }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Section 3: each packet adds 1/T, and exp(-t/T) is left after t. `hold`: what arrives is less
    /// than what the path could deliver, so the mean does not fall.
    pub(super) fn on_ack(&mut self, now: Time, packets: f64, hold: bool) {
        let Some(at) = self.at.replace(now) else { return };
        let x = (now - at).min(MAX_SILENCE).as_secs_f64() / self.memory;
        // exp(-x) to a few per mille for the small x that matter.
        let kept = 1.0 / (1.0 + x + x * x / 2.0);
        let next = self.rate * kept + packets / self.memory;
        self.rate = if hold { next.max(self.rate) } else { next };
    }

    /// Takes a rate that one packet's flight has shown.
    pub(super) fn raise_to(&mut self, rate: f64) {
        self.rate = self.rate.max(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(mean: &mut DeliveryMean, from_ms: u64, acks: u64, every_ms: u64) {
        for ack in 0..acks {
            mean.on_ack(Time::from_millis(from_ms + ack * every_ms), 1.0, false);
        }
    }

    #[test]
    fn pace_t1_the_mean_of_a_steady_stream_is_its_rate() {
        let mut mean = DeliveryMean::new(Span::from_millis(150));
        steady(&mut mean, 0, 2000, 1);
        assert!((mean.rate() - 1000.0).abs() < 10.0, "{}", mean.rate());
        // Half a memory after the rate fell to a quarter, exp(-1/2) of the difference is left.
        steady(&mut mean, 2003, 19, 4);
        assert!((mean.rate() - (250.0 + 750.0 * 0.606)).abs() < 20.0, "{}", mean.rate());
    }

    #[test]
    fn pace_t2_an_outage_counts_as_eighty_milliseconds() {
        let mut mean = DeliveryMean::new(Span::from_millis(150));
        steady(&mut mean, 0, 2000, 1);
        let mut long = mean.clone();
        mean.on_ack(Time::from_millis(1999 + 80), 1.0, false);
        long.on_ack(Time::from_millis(1999 + 9000), 1.0, false);
        assert_eq!(mean.rate(), long.rate());
        assert!((580.0..610.0).contains(&mean.rate()), "{}", mean.rate());
    }

    #[test]
    fn a_mean_that_is_held_only_rises() {
        let mut mean = DeliveryMean::new(Span::from_millis(150));
        steady(&mut mean, 0, 2000, 1);
        let before = mean.rate();
        mean.on_ack(Time::from_millis(2050), 1.0, true);
        assert_eq!(mean.rate(), before);
    }
}
