//! Percentiles of delays in constant memory.

use cellpace_base::Span;
use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, Resolution};

/// A mergeable sketch of delays: percentiles within 0.1 % (three significant digits, at least
/// one microsecond) unless it is [`coarse`](Self::coarse), mean and maximum exact.
#[derive(Debug, Clone)]
pub struct DelaySketch {
    micros: Histogram,
    sum_nanos: u128,
    max: Span,
}

/// Mean and percentiles of a set of delays, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl DelaySketch {
    /// An empty sketch.
    pub fn new() -> Self {
        Self::with(Resolution::FINE)
    }

    /// An empty sketch for one of very many: percentiles within 1 % or 32 microseconds, mean and
    /// maximum exact. It takes some 2 kB where delays stay below half a second.
    pub fn coarse() -> Self {
        Self::with(Resolution::COARSE)
    }

    fn with(resolution: Resolution) -> Self {
        Self { micros: Histogram::new(resolution), sum_nanos: 0, max: Span::ZERO }
    }

    /// Adds a delay.
    #[inline]
    pub fn record(&mut self, delay: Span) {
        self.micros.add(delay.as_nanos() / 1_000, 1);
        self.sum_nanos += u128::from(delay.as_nanos());
        self.max = self.max.max(delay);
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.micros.merge(&other.micros);
        self.sum_nanos += other.sum_nanos;
        self.max = self.max.max(other.max);
    }

    /// Number of delays.
    pub fn count(&self) -> u64 {
        self.micros.total()
    }

    /// The delay in ms below which a share `quantile` of all lie; 0 when empty.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        let micros = self.micros.value_at(quantile) as f64;
        (micros / 1e3).min(self.max.as_millis_f64())
    }

    /// The distribution: the delays in ms below which 0, 0.5, ..., 100 % of all lie; nothing when
    /// empty.
    pub fn quantiles_ms(&self) -> Vec<f32> {
        if self.count() == 0 {
            return Vec::new();
        }
        (0..=200).map(|step| round(self.quantile_ms(f64::from(step) / 200.0)) as f32).collect()
    }

    /// The usual figures; all zero when empty.
    pub fn summary(&self) -> Summary {
        let count = self.count().max(1) as f64;
        Summary {
            mean: round(self.sum_nanos as f64 / count / 1e6),
            p50: round(self.quantile_ms(0.50)),
            p95: round(self.quantile_ms(0.95)),
            p99: round(self.quantile_ms(0.99)),
            max: round(self.max.as_millis_f64()),
        }
    }
}

/// To whole microseconds: more digits would only pretend.
fn round(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

impl Default for DelaySketch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(sorted: &[u64], quantile: f64) -> f64 {
        let rank = ((sorted.len() as f64 * quantile).ceil() as usize).max(1);
        sorted[rank - 1] as f64 / 1e6
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_percent_of_the_exact_ones(
            mut nanos in prop::collection::vec(1_000_000u64..20_000_000_000, 1..400),
        ) {
            let mut sketch = DelaySketch::new();
            nanos.iter().for_each(|n| sketch.record(Span::from_nanos(*n)));
            nanos.sort_unstable();
            for quantile in [0.5, 0.95, 0.99, 1.0] {
                let (estimate, true_value) = (sketch.quantile_ms(quantile), exact(&nanos, quantile));
                prop_assert!((estimate - true_value).abs() <= 0.01 * true_value, "{estimate} {true_value}");
            }
        }

        #[test]
        fn percentiles_of_coarse_sketches_are_within_one_percent_or_32_us(
            mut nanos in prop::collection::vec(0u64..2_000_000_000, 1..400),
        ) {
            let mut sketch = DelaySketch::coarse();
            nanos.iter().for_each(|n| sketch.record(Span::from_nanos(*n)));
            nanos.sort_unstable();
            for quantile in [0.5, 0.95, 0.99, 1.0] {
                let (estimate, true_value) = (sketch.quantile_ms(quantile), exact(&nanos, quantile));
                let allowed = (0.01 * true_value).max(0.032);
                prop_assert!((estimate - true_value).abs() <= allowed, "{estimate} {true_value}");
            }
        }

        #[test]
        fn merging_is_the_same_as_recording_together(
            a in prop::collection::vec(0u64..10_000_000_000, 0..100),
            b in prop::collection::vec(0u64..10_000_000_000, 0..100),
        ) {
            let sketch = |parts: &[&Vec<u64>]| {
                let mut sketch = DelaySketch::new();
                parts.iter().flat_map(|p| p.iter()).for_each(|n| sketch.record(Span::from_nanos(*n)));
                sketch
            };
            let mut merged = sketch(&[&a]);
            merged.merge(&sketch(&[&b]));
            prop_assert_eq!(merged.summary(), sketch(&[&a, &b]).summary());
        }
    }

    #[test]
    fn an_empty_sketch_says_zero() {
        assert_eq!(DelaySketch::new().summary(), Summary::default());
    }
}
