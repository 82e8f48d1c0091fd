//! Averages of the queueing delay, and how much it varies.

use cellpace_base::{Span, Time};

use super::params::ScreamParams;

/// Whether `after` has passed since `last`; always before the first time.
pub(super) fn is_due(last: Option<Time>, now: Time, after: Span) -> bool {
    last.is_none_or(|last| now.since(last) >= after)
}

/// The queueing delay in seconds.
#[derive(Debug, Clone)]
pub(super) struct QueueDelay {
    gain: f64,
    vrtt: Span,
    /// `None` where variation does not count.
    dev: Option<DevGains>,
    /// Of the newest packet.
    pub(super) current: f64,
    /// qdelay_avg
    pub(super) average: f64,
    /// qdelay_dev_norm and its threshold.
    pub(super) deviation: f64,
    pub(super) threshold: f64,
    last: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct DevGains {
    gain: f64,
    norm: f64,
    min: f64,
}

impl QueueDelay {
    pub(super) fn new(params: &ScreamParams) -> Self {
        let dev = DevGains {
            gain: params.dev_gain,
            norm: params.dev_norm.as_secs_f64(),
            min: params.dev_min,
        };
        Self {
            gain: params.qdelay_gain,
            vrtt: params.vrtt,
            dev: params.stable.then_some(dev),
            current: 0.0,
            average: 0.0,
            deviation: 0.0,
            threshold: 0.1,
            last: None,
        }
    }

    pub(super) fn forget(&mut self) {
        (self.current, self.average, self.last) = (0.0, 0.0, None);
    }

    /// Once per virtual RTT at most. `ratio` is the MSS as a share of the window.
    pub(super) fn update(&mut self, now: Time, srtt: Span, ratio: f64) {
        if !is_due(self.last, now, self.vrtt.min(srtt)) {
            return;
        }
        self.last = Some(now);
        // Slow up, fast down.
        self.average = match self.current < self.average {
            true => self.current,
            false => self.gain * self.current + (1.0 - self.gain) * self.average,
        };
        let Some(dev) = self.dev else { return };
        self.threshold = (0.1 * (1.0 - ratio / 0.1)).max(0.05);
        let excess = (self.current - dev.norm / 4.0) / dev.norm;
        let sample = excess.clamp(0.0, 1.5 * self.threshold);
        self.deviation = (1.0 - dev.gain) * self.deviation + dev.gain * sample;
    }

    /// What the variation of delays leaves of growth: (threshold - deviation) / threshold.
    pub(super) fn steadiness(&self) -> f64 {
        self.dev.map_or(1.0, |dev| self.calm().max(dev.min))
    }

    /// The same down to zero.
    pub(super) fn calm(&self) -> f64 {
        match self.dev {
            Some(_) => ((self.threshold - self.deviation) / self.threshold).max(0.0),
            None => 1.0,
        }
    }
}
