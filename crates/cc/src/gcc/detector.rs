//! Whether the path is over-used: the growth of delay against a threshold that adapts.

use super::params::GccParams;

/// What the detector says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Usage {
    #[default]
    Normal,
    Over,
    Under,
}

/// The threshold stays as it is where the estimate is farther above it, in ms.
const OUTLIER_MS: f64 = 15.0;
/// The longest step of the threshold, in ms.
const MAX_STEP_MS: f64 = 100.0;
/// Bounds of the threshold, in ms.
const MIN_THRESHOLD_MS: f64 = 6.0;
const MAX_THRESHOLD_MS: f64 = 600.0;

/// Section 3.
#[derive(Debug, Clone)]
pub(super) struct Detector {
    /// g, in ms.
    pub(super) threshold_ms: f64,
    up: f64,
    down: f64,
    /// How long over-use has to last, in ms.
    patience_ms: f64,
    /// How long it has lasted, and in how many groups.
    over_ms: f64,
    over_groups: u32,
    /// m of the group before.
    before: f64,
    usage: Usage,
}

impl Detector {
    pub(super) fn new(params: &GccParams) -> Self {
        Self {
            threshold_ms: params.threshold.as_millis_f64(),
            up: params.threshold_up,
            down: params.threshold_down,
            patience_ms: params.overuse_time.as_millis_f64(),
            over_ms: 0.0,
            over_groups: 0,
            before: 0.0,
            usage: Usage::Normal,
        }
    }

    /// Takes the estimate of a group that left `dt` ms after the one before it.
    pub(super) fn update(&mut self, m: f64, dt: f64) -> Usage {
        let dt = dt.max(0.0);
        if m > self.threshold_ms {
            // Nobody knows when within the first gap it began.
            self.over_ms += if self.over_groups == 0 { dt / 2.0 } else { dt };
            self.over_groups += 1;
            let lasts = self.over_ms >= self.patience_ms && self.over_groups > 1;
            if lasts && m >= self.before {
                (self.over_ms, self.over_groups) = (0.0, 0);
                self.usage = Usage::Over;
            }
        } else {
            (self.over_ms, self.over_groups) = (0.0, 0);
            self.usage = if m < -self.threshold_ms { Usage::Under } else { Usage::Normal };
        }
        self.before = m;
        self.adapt(m, dt);
        self.usage
    }

    /// The threshold follows the estimate, so that flows that fill the buffer do not starve this one.
    pub(super) fn adapt(&mut self, m: f64, dt: f64) {
        let above = m.abs() - self.threshold_ms;
        if above > OUTLIER_MS {
            return;
        }
        let speed = if above < 0.0 { self.down } else { self.up };
        let threshold = self.threshold_ms + dt.min(MAX_STEP_MS) * speed * above;
        self.threshold_ms = threshold.clamp(MIN_THRESHOLD_MS, MAX_THRESHOLD_MS);
    }
}
