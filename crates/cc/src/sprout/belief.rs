//! What the receiver believes of the link's rate.

use std::sync::Arc;

use super::model::{HORIZON, ModelSpec, SproutModel};

/// Cumulative packets that will be delivered within 1 to 8 ticks, or more, with the confidence
/// asked for.
pub(super) type Forecast = [u16; HORIZON];

/// The distribution of the link's rate over the grid of a model; its sum is 1.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    model: Arc<SproutModel>,
    p: Vec<f64>,
    next: Vec<f64>,
}

impl Belief {
    /// Anything is possible. Sprout section 3.2
    pub(super) fn uniform(model: Arc<SproutModel>) -> Self {
        let bins = model.grid.len();
        Self { model, p: vec![1.0 / bins as f64; bins], next: vec![0.0; bins] }
    }

    /// Forgets everything; the grid stays.
    pub(super) fn reset(&mut self) {
        let bins = self.p.len();
        self.p.fill(1.0 / bins as f64);
    }

    /// One tick passes. Returns the sum before it was made 1 again.
    pub(super) fn evolve(&mut self) -> f64 {
        self.next.fill(0.0);
        for (row, p) in self.model.rows.iter().zip(&self.p) {
            if *p > 0.0 {
                let to = &mut self.next[row.first..][..row.weights.len()];
                for (to, weight) in to.iter_mut().zip(&row.weights) {
                    *to += p * weight;
                }
            }
        }
        std::mem::swap(&mut self.p, &mut self.next);
        self.normalise()
    }

    /// The link delivered `count` packets in the tick, and would have delivered more if there had
    /// been more. Sprout section 3.2
    pub(super) fn observe(&mut self, count: usize) {
        let model = self.model.clone();
        self.weigh(model.exactly(count));
    }

    /// The link delivered `count` packets in the tick and had no more to deliver for a part of it.
    pub(super) fn observe_at_least(&mut self, count: usize) {
        let model = self.model.clone();
        self.weigh(model.at_least(count));
    }

    fn weigh(&mut self, likelihood: &[f64]) {
        self.p.iter_mut().zip(likelihood).for_each(|(p, likely)| *p *= likely);
        self.normalise();
    }

    fn normalise(&mut self) -> f64 {
        /// Denormal numbers would slow every tick down and mean nothing.
        const NOTHING: f64 = 1e-200;
        let sum: f64 = self.p.iter().sum();
        if !(sum.is_finite() && sum > 0.0) {
            self.reset();
            return sum;
        }
        let factor = 1.0 / sum;
        for p in &mut self.p {
            *p = if *p < NOTHING { 0.0 } else { *p * factor };
        }
        sum
    }

    /// What will be delivered with `1 - confidence` or more. Sprout section 3.3
    pub(super) fn forecast(&self, confidence: f64) -> Forecast {
        let mut least = 0;
        std::array::from_fn(|index| {
            least = self.model.quantile(&self.p, index + 1, confidence, least);
            u16::try_from(least).unwrap_or(u16::MAX)
        })
    }

    /// Whether the rate is likely in the top sixteenth of the grid or above it.
    pub(super) fn leans_on_top(&self) -> bool {
        let from = f64::from(self.model.spec.max_rate) * (15.0 / 16.0);
        self.p[self.model.grid.bin(from)..].iter().sum::<f64>() > 0.5
    }

    pub(super) fn spec(&self) -> &ModelSpec {
        &self.model.spec
    }

    /// Moves to a larger grid. All bins but the last are bins of the larger grid too; what was in
    /// the last, which meant this much or more, is now anywhere above.
    pub(super) fn grow(&mut self, model: Arc<SproutModel>) {
        let top = self.p.len() - 1;
        let bins = model.grid.len();
        if bins <= self.p.len() {
            return;
        }
        let spread = self.p[top] / (bins - top) as f64;
        self.p.resize(bins, 0.0);
        self.p[top..].fill(spread);
        self.next = vec![0.0; bins];
        self.model = model;
    }

    /// Mean rate in packets per second.
    #[cfg(test)]
    pub(super) fn mean(&self) -> f64 {
        self.p.iter().zip(&self.model.grid.rates).map(|(p, rate)| p * rate).sum()
    }

    /// Standard deviation of the rate.
    #[cfg(test)]
    pub(super) fn deviation(&self) -> f64 {
        let mean = self.mean();
        let square = |(p, rate): (&f64, &f64)| p * (rate - mean).powi(2);
        self.p.iter().zip(&self.model.grid.rates).map(square).sum::<f64>().sqrt()
    }

    #[cfg(test)]
    pub(super) fn probability(&self, bin: usize) -> f64 {
        self.p[bin]
    }

    #[cfg(test)]
    pub(super) fn likeliest(&self) -> usize {
        (0..self.p.len()).max_by(|a, b| self.p[*a].total_cmp(&self.p[*b])).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::ModelSpec;
    use super::super::params;
    use super::*;

    fn uniform(rest: &str) -> Belief {
        Belief::uniform(SproutModel::shared(&ModelSpec::new(&params(rest))))
    }

    /// Evolves and observes `ticks` times.
    fn after(mut belief: Belief, ticks: usize, count: usize) -> Belief {
        for _ in 0..ticks {
            belief.evolve();
            belief.observe(count);
        }
        belief
    }

    /// The state after 100 ticks of `count`.
    fn steady(count: usize) -> Belief {
        after(uniform(""), 100, count)
    }

    fn close(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() <= within, "{value} instead of {expected}");
    }

    /// Means are given to half a percent.
    fn mean_is(belief: &Belief, expected: f64) {
        close(belief.mean(), expected, 0.005 * expected);
    }

    #[test]
    fn sprout_t2_one_evolution_of_the_uniform_prior() {
        close(uniform("").evolve(), 0.998259, 1e-5);
    }

    #[test]
    fn sprout_t4_first_ticks() {
        let prior = uniform("");
        mean_is(&prior, 501.946);
        assert_eq!(prior.forecast(0.05), [1, 1, 3, 4, 5, 6, 8, 9]);
        let five = after(prior.clone(), 1, 5);
        mean_is(&five, 299.981);
        close(five.deviation(), 122.28, 0.01);
        assert_eq!(five.likeliest(), 64);
        assert_eq!(five.forecast(0.05), [1, 4, 6, 9, 11, 14, 16, 19]);
        let none = after(prior.clone(), 1, 0);
        mean_is(&none, 45.276);
        close(none.probability(0), 0.2574, 0.0001);
        let mut censored = prior;
        censored.evolve();
        censored.observe_at_least(5);
        mean_is(&censored, 618.906);
    }

    #[test]
    fn sprout_t5_steady_links() {
        let expected = [
            (1, 68.05, [0, 0, 0, 1, 1, 2, 3, 4]),
            (2, 113.18, [0, 1, 2, 2, 4, 5, 6, 7]),
            (5, 258.39, [2, 4, 8, 11, 14, 18, 21, 24]),
            (10, 505.945, [5, 12, 20, 27, 35, 43, 51, 59]),
            (15, 754.89, [9, 20, 33, 45, 57, 70, 82, 95]),
            (20, 953.48, [12, 28, 44, 61, 77, 94, 111, 128]),
        ];
        for (count, mean, forecast) in expected {
            let belief = steady(count);
            mean_is(&belief, mean);
            assert_eq!(belief.forecast(0.05), forecast, "{count} per tick");
        }
        close(steady(10).deviation(), 63.92, 0.01);
        let outage = steady(0);
        close(outage.probability(0), 0.9703, 0.0001);
        assert_eq!(outage.forecast(0.05), [0; HORIZON]);
    }

    #[test]
    fn sprout_t5_joint_tables_and_other_confidences() {
        let expected = [
            (5, [2, 4, 8, 11, 14, 16, 19, 22]),
            (10, [5, 12, 20, 27, 35, 42, 50, 57]),
            (20, [12, 28, 44, 60, 77, 93, 110, 126]),
        ];
        for (count, forecast) in expected {
            let belief = after(uniform("joint=true,outage_row=normalised"), 100, count);
            assert_eq!(belief.forecast(0.05), forecast, "{count} per tick");
        }
        let ten = after(uniform("joint=true,outage_row=normalised"), 100, 10);
        assert_eq!(ten.forecast(0.25), [8, 17, 26, 35, 44, 53, 62, 70]);
        assert_eq!(ten.forecast(0.5), [10, 20, 30, 40, 50, 60, 70, 80]);
    }

    #[test]
    fn sprout_t6_outages_and_what_follows_them() {
        let after_zeros = |ticks| after(steady(10), ticks, 0);
        let one = after_zeros(1);
        mean_is(&one, 413.41);
        assert_eq!(one.forecast(0.05), [4, 9, 15, 21, 27, 33, 39, 44]);
        let three = after_zeros(3);
        mean_is(&three, 209.85);
        assert_eq!(three.forecast(0.05), [1, 2, 4, 6, 8, 10, 12, 14]);
        let five = after_zeros(5);
        mean_is(&five, 42.75);
        close(five.probability(0), 0.289, 0.001);
        assert_eq!(five.forecast(0.05), [0; HORIZON]);
        let ten = after_zeros(10);
        mean_is(&ten, 3.23);
        close(ten.probability(0), 0.898, 0.001);
        let outage = after_zeros(25);
        close(outage.probability(0), 0.970, 0.001);
        let resumed = after(outage.clone(), 1, 10);
        mean_is(&resumed, 129.5);
        assert_eq!(resumed.forecast(0.05), [0, 1, 3, 4, 5, 7, 8, 10]);
        let resumed = after(outage, 5, 10);
        mean_is(&resumed, 321.3);
        assert_eq!(resumed.forecast(0.05), [2, 7, 11, 16, 20, 25, 30, 34]);
    }

    #[test]
    fn sprout_t7_ticks_without_observation_only_widen() {
        let mut belief = steady(10);
        for _ in 0..5 {
            belief.evolve();
        }
        mean_is(&belief, 505.945);
        assert_eq!(belief.forecast(0.05), [5, 11, 18, 25, 32, 39, 46, 53]);
    }

    #[test]
    fn a_quantile_that_is_never_reached_is_the_last_count() {
        // The top bin's tables end below certainty, as counts of 30 and more are left out.
        let belief = after(uniform(""), 100, 29);
        assert_eq!(belief.forecast(0.99)[0], 29);
        assert_eq!(belief.forecast(0.99)[7], 29 * 8);
    }

    #[test]
    fn bursts_beyond_any_rate_leave_a_distribution() {
        for count in [60, 1000, usize::MAX] {
            let exact = after(uniform(""), 10, count);
            assert!((0..257).all(|bin| exact.probability(bin).is_finite()));
            assert!(exact.mean() > 990.0, "{count}: {}", exact.mean());
            let mut censored = after(uniform(""), 10, 0);
            censored.observe_at_least(count);
            assert!(censored.mean().is_finite());
        }
    }

    #[test]
    fn growing_keeps_all_that_is_below_the_top() {
        let mut belief = steady(18);
        let before = belief.clone();
        belief.grow(SproutModel::shared(&before.spec().grown().unwrap()));
        for bin in 0..256 {
            assert_eq!(belief.probability(bin), before.probability(bin));
        }
        let above: f64 = (256..belief.p.len()).map(|bin| belief.probability(bin)).sum();
        close(above, before.probability(256), 1e-12);
        // Nothing distinguishes the new bins.
        assert!(belief.p[256..].iter().all(|p| *p > 0.0 && *p == belief.p[256]));
        // A smaller grid is none to grow to.
        let bins = belief.p.len();
        belief.grow(SproutModel::shared(before.spec()));
        assert_eq!(belief.p.len(), bins);
    }
}
