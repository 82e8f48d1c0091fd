//! The rate that the encoder should have.

use cellpace_base::{Span, Time};

use super::params::ScreamParams;
use crate::Frame;

/// The media rate, in bit/s.
#[derive(Debug, Clone)]
pub(super) struct MediaRate {
    min: f64,
    max: f64,
    adjust_gain: f64,
    size_gain: f64,
    /// What headers leave of a full packet.
    payload_share: f64,
    pub(super) target: f64,
    /// rate_adjust_factor and frame_size_dev
    pub(super) adjust: f64,
    pub(super) size_deviation: f64,
    halved_until: Option<Time>,
}

impl MediaRate {
    pub(super) fn new(params: &ScreamParams, mss: f64) -> Self {
        let (min, max) = (params.min_rate.as_bps() as f64, params.max_rate.as_bps() as f64);
        Self {
            min,
            max,
            adjust_gain: params.adjust_gain,
            size_gain: params.size_gain,
            payload_share: mss / (mss + params.packet_overhead as f64),
            target: (10.0 * min).min(max),
            adjust: 0.0,
            size_deviation: 0.0,
            halved_until: None,
        }
    }

    /// A frame is there: how long data has waited for it, and how much larger it is than asked for.
    pub(super) fn on_frame(&mut self, frame: &Frame) {
        let interval = frame.interval.as_secs_f64().max(1e-4);
        let excess = (frame.waiting.as_secs_f64() - interval / 4.0) / interval;
        self.adjust = (self.adjust + excess * self.adjust_gain).clamp(0.0, 0.5);
        let nominal = (self.target * interval / 8.0).max(1.0);
        let larger = ((frame.bytes as f64 - nominal) / nominal).max(0.0);
        let deviation = (1.0 - self.size_gain) * self.size_deviation + self.size_gain * larger;
        self.size_deviation = deviation.min(0.2);
    }

    /// The window as a rate, less headers, small windows, waiting and spread of sizes.
    pub(super) fn update(&mut self, now: Time, window: f64, srtt: Span, ratio: f64) {
        let small = (ratio - 0.1).clamp(0.0, 0.2);
        let divisor = 1.2 + self.adjust + self.size_deviation;
        let rate = 8.0 * window / srtt.as_secs_f64().max(1e-6);
        let halved = self.halved_until.is_some_and(|until| now < until);
        let share = if halved { 0.5 } else { 1.0 };
        let target = rate * (1.0 - small) * self.payload_share / divisor * share;
        self.target = target.min(self.max).max(self.min);
    }

    pub(super) fn halve_until(&mut self, until: Time) {
        self.halved_until = Some(until);
    }

    pub(super) fn is_at_max(&self) -> bool {
        self.target >= self.max
    }

    /// The target as a share of the encoder's largest rate.
    pub(super) fn share_of_max(&self) -> f64 {
        self.target / self.max
    }
}
