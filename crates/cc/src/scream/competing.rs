//! The delay target beside flows that fill the buffer.

/// Round trips over which the variance and the mean of the queueing delay are taken.
const VARIANCE: usize = 200;
const MEAN: usize = 50;

/// Loss events per round trip from which the target is more generous.
const LOSS_RATE: f64 = 0.002;
const LOSS_GAIN: f64 = 0.01;

/// The delay target in seconds.
#[derive(Debug, Clone)]
pub(super) struct DelayTarget {
    low: f64,
    high: f64,
    pub(super) now: f64,
    follow: Option<Box<DelayRatios>>,
}

/// The queueing delay as a multiple of the low target, one value a round trip.
#[derive(Debug, Clone)]
struct DelayRatios {
    values: [f64; VARIANCE],
    next: usize,
    filled: usize,
    loss_rate: f64,
}

impl DelayTarget {
    pub(super) fn new(low: f64, high: f64, follows: bool) -> Self {
        let history = || {
            Box::new(DelayRatios { values: [0.0; VARIANCE], next: 0, filled: 0, loss_rate: 0.0 })
        };
        Self { low, high, now: low, follow: follows.then(history) }
    }

    /// A round trip with this queueing delay at its end is over, with a loss or without.
    pub(super) fn on_round(&mut self, queue_delay: f64, has_loss: bool) {
        let Some(history) = &mut self.follow else { return };
        history.push(queue_delay / self.low);
        history.loss_rate += LOSS_GAIN * (f64::from(has_loss) - history.loss_rate);
        let variance = history.variance();
        let wanted = (history.mean(MEAN) + variance.sqrt()) * self.low;
        let target = if history.loss_rate > LOSS_RATE {
            1.5 * wanted
        } else if variance < 0.2 {
            wanted
        } else if wanted < self.low {
            (self.now / 2.0).max(wanted)
        } else {
            0.9 * self.now
        };
        self.now = target.min(self.high).max(self.low);
    }
}

impl DelayRatios {
    fn push(&mut self, value: f64) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % VARIANCE;
        self.filled = (self.filled + 1).min(VARIANCE);
    }

    /// The mean of the last `count` values.
    fn mean(&self, count: usize) -> f64 {
        let count = count.min(self.filled).max(1);
        let last = (1..=count).map(|back| self.values[(self.next + VARIANCE - back) % VARIANCE]);
        last.sum::<f64>() / count as f64
    }

    fn variance(&self) -> f64 {
        let mean = self.mean(VARIANCE);
        let values = &self.values[..self.filled];
        let sum: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        sum / self.filled.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scream_the_target_follows_a_standing_queue_and_comes_back() {
        let mut target = DelayTarget::new(0.06, 0.4, true);
        (0..300).for_each(|_| target.on_round(0.15, false));
        assert!((target.now - 0.15).abs() < 1e-9, "{}", target.now);
        (0..300).for_each(|round| target.on_round(0.15, round % 50 == 0));
        assert!((target.now - 0.225).abs() < 1e-9, "with losses: {}", target.now);
        (0..2000).for_each(|_| target.on_round(0.0, false));
        assert_eq!(target.now, 0.06);
        let mut fixed = DelayTarget::new(0.06, 0.4, false);
        (0..300).for_each(|_| fixed.on_round(0.15, true));
        assert_eq!(fixed.now, 0.06);
    }
}
