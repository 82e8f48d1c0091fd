//! DRAIN: empties the queue that STARTUP built.

use super::startup;

/// Pacing gain, the inverse of STARTUP's; the window keeps STARTUP's gain (ACM Queue 2016).
pub(super) const PACING_GAIN: f64 = 1.0 / startup::GAIN;
pub(super) const CWND_GAIN: f64 = startup::GAIN;

/// Whether the queue is empty: no more in flight than fits into the pipe. Both in packets.
pub(super) fn is_over(in_flight: u64, bdp: u64) -> bool {
    in_flight <= bdp
}
