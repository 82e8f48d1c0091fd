//! How fast delay grows: the draft's Kalman filter, and the trendline of WebRTC.

use std::collections::VecDeque;

use cellpace_base::math::pow;

use super::groups::{Variation, ms_between};
use super::params::FilterKind;
use crate::Time;

/// The estimate m of the growth of delay, in ms.
#[derive(Debug, Clone)]
pub(super) enum Filter {
    Kalman(Kalman),
    Trendline(Trendline),
}

impl Filter {
    pub(super) fn new(kind: FilterKind) -> Self {
        match kind {
            FilterKind::Kalman => Self::Kalman(Kalman::default()),
            FilterKind::Trendline => Self::Trendline(Trendline::default()),
        }
    }

    /// Takes a group, returns m.
    pub(super) fn update(&mut self, variation: &Variation) -> f64 {
        match self {
            Self::Kalman(kalman) => kalman.update(variation.delay_ms, variation.departure_ms),
            Self::Trendline(trendline) => trendline.update(variation),
        }
    }
}

/// Variance of the state's noise (q).
const STATE_NOISE: f64 = 1e-3;
/// Weight of a residual in the variance, at 30 groups a second (chi).
const NOISE_WEIGHT: f64 = 0.01;
/// Groups whose gaps give the frequency.
const GAPS: usize = 60;

/// Section 2, Kalman: m(i) and what is believed of it.
#[derive(Debug, Clone)]
pub(super) struct Kalman {
    pub(super) m: f64,
    pub(super) e: f64,
    pub(super) variance: f64,
    /// The last gain, for tests and plots.
    pub(super) k: f64,
    /// Gaps in departure of the last groups, in ms.
    gaps: VecDeque<f64>,
}

impl Default for Kalman {
    fn default() -> Self {
        Self { m: 0.0, e: 0.1, variance: 50.0, k: 0.0, gaps: VecDeque::new() }
    }
}

impl Kalman {
    pub(super) fn update(&mut self, d: f64, departure_ms: f64) -> f64 {
        let z = d - self.m;
        self.update_variance(z);
        let uncertain = self.e + STATE_NOISE;
        self.k = uncertain / (self.variance + uncertain);
        self.m += self.k * z;
        self.e = (1.0 - self.k) * uncertain;
        self.gaps.push_back(departure_ms.max(0.0));
        if self.gaps.len() > GAPS {
            self.gaps.pop_front();
        }
        self.m
    }

    /// Not before a gap between groups is known, whose frequency weighs the residual.
    fn update_variance(&mut self, z: f64) {
        let Some(gap) = self.gaps.iter().copied().min_by(f64::total_cmp) else { return };
        let a = pow(1.0 - NOISE_WEIGHT, 30.0 * gap / 1000.0);
        // An outlier of either sign counts as three deviations.
        let bound = 3.0 * self.variance.sqrt();
        let residual = z.clamp(-bound, bound);
        self.variance = (a * self.variance + (1.0 - a) * residual * residual).max(1.0);
    }
}

/// Groups in the regression.
const WINDOW: usize = 20;
/// Weight of the past in the smoothed sum.
const SMOOTHING: f64 = 0.9;
/// What makes a slope comparable with the threshold.
const GAIN: f64 = 4.0;
/// Groups from which on the slope counts in full.
const FULL_GROUPS: u64 = 60;

/// Section 2, trendline.
#[derive(Debug, Clone, Default)]
pub(super) struct Trendline {
    groups: u64,
    sum_ms: f64,
    smoothed_ms: f64,
    first: Option<Time>,
    /// Arrival, in ms since the first group, and the smoothed sum.
    points: VecDeque<(f64, f64)>,
    slope: f64,
}

impl Trendline {
    fn update(&mut self, variation: &Variation) -> f64 {
        self.groups += 1;
        self.sum_ms += variation.delay_ms;
        self.smoothed_ms = SMOOTHING * self.smoothed_ms + (1.0 - SMOOTHING) * self.sum_ms;
        let first = *self.first.get_or_insert(variation.received);
        self.points.push_back((ms_between(first, variation.received), self.smoothed_ms));
        if self.points.len() > WINDOW {
            self.points.pop_front();
        }
        if self.points.len() == WINDOW {
            self.slope = slope(&self.points).unwrap_or(self.slope);
        }
        self.slope * self.groups.min(FULL_GROUPS) as f64 * GAIN
    }
}

/// Least squares; `None` where all points are above each other.
fn slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (x / count, y / count);
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), point| {
        let dx = point.0 - x;
        (above + dx * (point.1 - y), below + dx * dx)
    });
    (below > 0.0).then(|| above / below)
}
