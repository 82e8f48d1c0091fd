//! Profiles: a stochastic model of a cellular link, small enough to read.
//!
//! A [`LinkProfile`] has about ninety numbers. [`LinkProfile::generate`] makes a trace from them,
//! [`crate::fit::fit`] estimates them from a trace, and the built-in ones come with the library.
//!
//! ```
//! use cellpace_base::Span;
//! use cellpace_path::{fit::fit, profile::builtin, stats::TraceStats};
//!
//! let profile = builtin("umts-driving").expect("a built-in");
//! let trace = profile.generate(1, Span::from_secs(60));
//! assert!(TraceStats::of(&trace).mean_mbps < 8.0);
//! let again = fit(&trace)?.with_about("fitted to a generated trace");
//! assert_eq!(again.to_string().parse(), Ok(again));
//! # Ok::<(), cellpace_path::fit::FitError>(())
//! ```
//!
//! # The model
//!
//! Three layers, from slow to fast:
//!
//! 1. **Radio quality** `z(t)` is a stationary Gaussian process with mean 0 and variance 1: a sum
//!    of six Ornstein-Uhlenbeck processes (AR(1) at ticks of 10 ms) with relaxation times of 0.1
//!    to 30 s, which cover fading, shadowing and the load of the cell, and a damped oscillation
//!    for links whose scheduler or sender hunts periodically. `memory_weight` and `wave_weight`
//!    are their shares of the variance, so the autocorrelation of `z` at lag `t` is
//!    `sum_i w_i exp(-t/tau_i) + w_wave exp(-t/coherence) cos(2 pi t/period)`.
//!    The rate while the link is served is `rate_mbps` at `z`: a table at the normal scores
//!    -3, -2.5 .. 3, linear in between. By construction this is the rate's distribution (a
//!    Gaussian copula): the entry at 0 is the median, the one at 1 the 84th percentile.
//! 2. **Outages** begin at `outage_per_s` per second of service, which depends on the quality:
//!    its worst tenth, up to the lower quartile, up to the median, above. Any gap of more than
//!    100 ms is one. Most (handovers, retransmissions of the radio link) are a single gap, drawn
//!    from `outage_ms`. The share `blackout_share` (tunnels, no coverage) are `blackout_gaps` gaps
//!    in a row, each drawn from `blackout_ms`, with one burst in between. Quality goes on changing
//!    meanwhile.
//! 3. **The scheduler** serves the user in bursts (Verus, section 3): opportunities in the same or
//!    back-to-back milliseconds. At rate `r` a burst has on average
//!    `S = 1 + (burst_mean - 1) (r / median)^burst_exponent` opportunities: `1 + x`, where `x` has
//!    the shape `burst_excess` and mean `S - 1`. The next opportunity of a burst falls in the same
//!    millisecond with probability `burst_same_ms`, else in the next one. Then follows a gap of 2
//!    to 100 ms with the mean that makes the rate come out as `r`, and the shape `gap_*_excess`. A
//!    scheduler makes up for a long gap: what it is behind `r`, it serves within `catch_up_ms` on
//!    top of `r` (and the other way round), so that windows longer than that vary less than
//!    independent gaps and bursts would make them. Outages are not made up for.
//!
//! Shapes and lengths are quantile tables at [`LEVELS`], linear in between. Shapes are relative to
//! their mean. Gaps have one for the slowest fifth of the time and one for the faster half; what
//! lies between them in quality is a blend.
//!
//! # What it leaves out
//!
//! The 10-ms grid of UMTS; memory of more than 30 s; skewed fading (rates that fall faster than
//! they rise); what a base station works off after an outage; a tail of gaps that are long although
//! the rate is high. The fitted profiles reproduce the long-run figures of their source; a single
//! run of some minutes differs from the source as much as another drive would: with a memory of
//! 30 s the mean rate of 13 minutes of `lte-driving` varies by a tenth or more between seeds.

use cellpace_base::Span;

use crate::steps::Steps;

mod builtin;
mod generate;
pub(crate) mod normal;
mod text;

pub use builtin::{NAMES, builtin};
pub use text::ProfileError;

/// Probability levels of the quantile tables.
pub const LEVELS: [f64; 10] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

/// Relaxation times of the parts of the radio quality, in seconds.
pub const MEMORY_S: [f64; 6] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Quantiles at [`LEVELS`] relative to the mean.
pub(crate) type ShapeTable = [f64; LEVELS.len()];

/// Shapes are given for the slowest fifth and the faster half of the time, and belong to the
/// medians of these: normal scores of 10 and 75 %.
pub(crate) const SHAPE_SCORES: [f64; 2] = [-1.281_551_565_5, 0.674_489_750_2];

/// Number of normal scores at which the rate is given.
pub(crate) const SCORES: usize = 13;
/// The lowest of them; the highest is its negative.
pub(crate) const LOWEST_SCORE: f64 = -3.0;
/// From one to the next.
pub(crate) const SCORE_STEP: f64 = 0.5;

/// Upper ends of the quality bands of the outage rate, as normal scores: 10, 25 and 50 %.
pub(crate) const BAND_ENDS: [f64; 3] = [-1.281_551_565_5, -0.674_489_750_2, 0.0];
/// Share of the time in each band.
pub(crate) const BAND_SHARES: [f64; 4] = [0.10, 0.15, 0.25, 0.50];

/// A gap longer than this is an outage in the model, in milliseconds.
pub(crate) const MAX_GAP_MS: u32 = 100;

/// Parameters of the model of one kind of link. See the [module](self) for what they mean;
/// written and read as text of `key = value` lines.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkProfile {
    /// Where the numbers come from, in a line.
    pub(crate) about: String,
    /// The RTT without queues, where it was fitted as well.
    pub(crate) rtt: Option<Steps<Span>>,
    /// The share of packets that the path loses, where it was fitted as well.
    pub(crate) loss: Option<Steps<f64>>,
    /// Rate while served at the normal scores -3, -2.5 .. 3, in Mbit/s, not decreasing.
    pub(crate) rate_mbps: [f64; SCORES],
    /// Shares of the variance of the quality with the relaxation times [`MEMORY_S`].
    pub(crate) memory_weight: [f64; MEMORY_S.len()],
    /// Share of the oscillation.
    pub(crate) wave_weight: f64,
    /// Its period in seconds.
    pub(crate) wave_period_s: f64,
    /// After which time it forgets its phase, in seconds.
    pub(crate) wave_coherence_s: f64,
    /// Outages per second in the four bands of quality.
    pub(crate) outage_per_s: [f64; BAND_SHARES.len()],
    /// Lengths of outages of one gap in milliseconds.
    pub(crate) outage_ms: [f64; LEVELS.len()],
    /// Share of the outages that are blackouts: several gaps with next to nothing between them.
    pub(crate) blackout_share: f64,
    /// How many gaps make a blackout.
    pub(crate) blackout_gaps: [f64; LEVELS.len()],
    /// Lengths of these gaps in milliseconds.
    pub(crate) blackout_ms: [f64; LEVELS.len()],
    /// Mean opportunities per burst at the median rate.
    pub(crate) burst_mean: f64,
    /// How that grows with the rate.
    pub(crate) burst_exponent: f64,
    /// Probability that the next opportunity of a burst is in the same millisecond.
    pub(crate) burst_same_ms: f64,
    /// Shape of the opportunities of a burst behind the first.
    pub(crate) burst_excess: ShapeTable,
    /// In which time the scheduler makes up for what it served too little, in milliseconds.
    pub(crate) catch_up_ms: f64,
    /// Shape of the gap between bursts beyond 2 ms, at low and at high rates.
    pub(crate) gap_excess: [ShapeTable; 2],
}

impl LinkProfile {
    /// Where the numbers come from, in a line.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The same profile with another line about where it comes from. Line breaks become spaces.
    pub fn with_about(mut self, about: &str) -> Self {
        self.about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        self
    }

    /// The same profile with an RTT and a share of loss that were fitted, too.
    #[must_use]
    pub fn with_path(mut self, rtt: Option<Steps<Span>>, loss: Option<Steps<f64>>) -> Self {
        (self.rtt, self.loss) = (rtt, loss);
        self
    }

    /// The RTT without queues, where it was fitted as well.
    pub const fn rtt(&self) -> Option<&Steps<Span>> {
        self.rtt.as_ref()
    }

    /// The share of packets that the path loses, where it was fitted as well.
    pub const fn loss(&self) -> Option<&Steps<f64>> {
        self.loss.as_ref()
    }

    /// Whether the scheduler serves in bursts. What was fitted to a log of rates has none.
    pub fn has_bursts(&self) -> bool {
        self.burst_mean > 1.0
    }

    /// Share of the time without outages in the long run: the renewal theorem in each band of the
    /// quality, as if outages were short against its memory.
    pub fn served_share(&self) -> f64 {
        self.served_shares().iter().zip(BAND_SHARES).map(|(served, share)| served * share).sum()
    }

    /// The same in each band of the quality.
    pub(crate) fn served_shares(&self) -> [f64; BAND_SHARES.len()] {
        let blackout_ms = table_mean(&self.blackout_gaps) * table_mean(&self.blackout_ms);
        let length_ms = (1.0 - self.blackout_share) * table_mean(&self.outage_ms)
            + self.blackout_share * blackout_ms;
        self.outage_per_s.map(|rate| 1.0 / (1.0 + rate * length_ms / 1000.0))
    }
}

/// Mean of the distribution with the quantiles `table` at [`LEVELS`].
pub(crate) fn table_mean(table: &[f64; LEVELS.len()]) -> f64 {
    let pieces = LEVELS.windows(2).zip(table.windows(2));
    pieces.map(|(level, value)| (level[1] - level[0]) * (value[0] + value[1]) / 2.0).sum()
}

/// Mean of the squares of the same.
pub(crate) fn table_square(table: &[f64; LEVELS.len()]) -> f64 {
    // The mean square of a uniform distribution between the two quantiles.
    let piece = |a: f64, b: f64| (a * a + a * b + b * b) / 3.0;
    let pieces = LEVELS.windows(2).zip(table.windows(2));
    pieces.map(|(level, value)| (level[1] - level[0]) * piece(value[0], value[1])).sum()
}

/// Quantile at `level` of the distribution with the quantiles `table` at [`LEVELS`].
pub(crate) fn table_quantile(table: &[f64; LEVELS.len()], level: f64) -> f64 {
    let next = LEVELS.partition_point(|known| *known <= level).clamp(1, LEVELS.len() - 1);
    let part = (level - LEVELS[next - 1]) / (LEVELS[next] - LEVELS[next - 1]);
    table[next - 1] + part * (table[next] - table[next - 1])
}

/// Quantile at `level` of the shape at quality `z`.
pub(crate) fn blend(shapes: &[ShapeTable; 2], z: f64, level: f64) -> f64 {
    // Beyond both scores their own shapes hold: an extrapolated one was never measured.
    let part = ((z - SHAPE_SCORES[0]) / (SHAPE_SCORES[1] - SHAPE_SCORES[0])).clamp(0.0, 1.0);
    let [slow, fast] = [0, 1].map(|which| table_quantile(&shapes[which], level));
    slow + part * (fast - slow)
}

/// Rate at quality `z` from a table at the normal scores.
pub(crate) fn at_score(table: &[f64; SCORES], z: f64) -> f64 {
    let place = ((z - LOWEST_SCORE) / SCORE_STEP).clamp(0.0, (SCORES - 1) as f64);
    let below = (place as usize).min(SCORES - 2);
    table[below] + (place - below as f64) * (table[below + 1] - table[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_linear_between_their_levels() {
        // The uniform distribution on 0..1 in its own quantiles.
        assert!((table_mean(&LEVELS) - 0.5).abs() < 1e-12);
        assert!((table_square(&LEVELS) - 1.0 / 3.0).abs() < 1e-12);
        for level in [0.0, 0.05, 0.1, 0.6, 0.9995, 1.0] {
            assert!((table_quantile(&LEVELS, level) - level).abs() < 1e-12, "{level}");
        }
        let scores: [f64; SCORES] = std::array::from_fn(|i| LOWEST_SCORE + SCORE_STEP * i as f64);
        for z in [-3.0, -1.2, 0.0, 0.3, 3.0] {
            assert!((at_score(&scores, z) - z).abs() < 1e-12, "{z}");
        }
        assert_eq!((at_score(&scores, -9.0), at_score(&scores, 9.0)), (-3.0, 3.0));
    }

    #[test]
    fn shapes_blend_between_slow_and_fast() {
        let shapes = [[2.0; LEVELS.len()], [4.0; LEVELS.len()]];
        assert_eq!((blend(&shapes, -3.0, 0.5), blend(&shapes, 3.0, 0.5)), (2.0, 4.0));
        let middle = (SHAPE_SCORES[0] + SHAPE_SCORES[1]) / 2.0;
        assert!((blend(&shapes, middle, 0.5) - 3.0).abs() < 1e-12);
    }
}
