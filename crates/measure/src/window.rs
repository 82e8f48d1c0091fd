//! The part of a run that counts.

use cellpace_base::Time;

/// The part of a run that counts: after `skip`, up to and including `end`. A departure ends the
/// time it took, so it belongs to the interval it ends, like the opportunity it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredWindow {
    /// Figures leave out everything before this time.
    pub skip: Time,
    /// The end of the run.
    pub end: Time,
}

impl MeasuredWindow {
    /// Whether `time` counts.
    pub fn contains(self, time: Time) -> bool {
        self.skip < time && time <= self.end
    }

    /// Its length in seconds.
    pub fn seconds(self) -> f64 {
        (self.end - self.skip).as_secs_f64()
    }
}
