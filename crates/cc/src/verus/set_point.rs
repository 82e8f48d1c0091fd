//! The delay set-point (docs/spec/verus.md 7, Eq. 2 to 4).

use cellpace_base::{Span, Time};

use super::params::{AverageStart, BumpOn, SetPointRule, VerusParams};
use super::profile::EWMA;
use crate::{Event, Events};

/// The base delay that stands in until there is a sample, in ms (docs/spec/verus.md 3).
const NO_BASE: f64 = 1000.0;

/// Delay differences up to this, in ms, are none (docs/spec/verus.md 7.4).
const DELAY_TOLERANCE: f64 = 0.0001;

/// Rise of the base delay when draining is futile, in ms (original code).
const BUMP: f64 = 10.0;

/// The set-point and the delays that move it, in ms.
#[derive(Debug, Clone)]
pub(super) struct SetPoint {
    /// The set-point: the profile is read at this delay.
    pub(super) d_est: f64,
    /// Base delay.
    pub(super) d_min: Option<f64>,
    /// Smoothed largest delay per epoch.
    pub(super) d_max_s: Option<f64>,
    /// Smoothed delay; only for the number of epochs per RTT.
    pub(super) d_avg: Option<f64>,
    /// Largest delay acked since the last epoch.
    pub(super) epoch_max: Option<f64>,
    /// Freezes the set-point above R after slow start was left for its delay or a full buffer.
    pub(super) hold: bool,
}

/// What an epoch knows beside the delays.
#[derive(Debug, Clone, Copy)]
pub(super) struct EpochState {
    pub(super) now: Time,
    /// Since when an ack has been due.
    pub(super) quiet_since: Time,
    /// Packets in flight.
    pub(super) in_flight: u64,
    /// Whether the sender had nothing more to send.
    pub(super) app_limited: bool,
}

impl SetPoint {
    /// Nothing is known of the path.
    pub(super) fn new(params: &VerusParams) -> Self {
        Self {
            d_est: 0.0,
            d_min: None,
            d_max_s: None,
            d_avg: (params.average == AverageStart::Zero).then_some(0.0),
            epoch_max: None,
            hold: false,
        }
    }

    pub(super) fn base(&self) -> f64 {
        self.d_min.unwrap_or(NO_BASE)
    }

    /// Takes the delay of an acked packet.
    pub(super) fn take_delay(&mut self, now: Time, delay: f64, events: &mut Events) {
        self.epoch_max = Some(self.epoch_max.map_or(delay, |max| max.max(delay)));
        self.d_avg = Some(self.d_avg.map_or(delay, |avg| EWMA * avg + (1.0 - EWMA) * delay));
        if self.d_min.is_none_or(|min| delay < min) {
            self.set_base(now, delay, events);
        }
    }

    /// Steps 1 to 4 and 8. Returns whether this epoch stays silent to drain the queue.
    pub(super) fn run_epoch(
        &mut self,
        params: &VerusParams,
        epoch: EpochState,
        events: &mut Events,
    ) -> bool {
        let acked = self.epoch_max.take();
        let newest = acked.unwrap_or_else(|| {
            let quiet = epoch.now.since(epoch.quiet_since).as_millis_f64();
            quiet.max(self.d_max_s.unwrap_or(0.0))
        });
        let smoothed = self.d_max_s.unwrap_or(newest);
        let next = params.alpha * smoothed + (1.0 - params.alpha) * newest; // Eq. 2, Verus
        self.d_max_s = Some(next);
        if params.law == SetPointRule::Paper {
            self.move_as_paper(params, epoch, next, next - smoothed); // Eq. 3, Verus
            return false;
        }
        if smoothed / self.base() <= params.r {
            self.nudge(params, epoch, newest - smoothed);
            return false;
        }
        self.fall_as_code(params, epoch, acked, events)
    }

    /// Eq. 4, Verus, first case, in the form of the original code: clamped at the base delay, where
    /// it drains or, with nothing left to drain, lets the base delay rise.
    fn fall_as_code(
        &mut self,
        params: &VerusParams,
        epoch: EpochState,
        acked: Option<f64>,
        events: &mut Events,
    ) -> bool {
        if self.hold {
            return false;
        }
        let base = self.base();
        self.d_est = (self.d_est - params.delta2.as_millis_f64()).max(base);
        if self.d_est > base {
            return false;
        }
        if epoch.in_flight >= 2 {
            return true;
        }
        self.raise_base(params.bump_on, epoch.now, acked, events);
        false
    }

    /// Nothing of this flow is left to drain, and still the delay is above R: the path has become
    /// longer, or others fill its queue. The original takes it for the former in each epoch, with or
    /// without an ack. An outage then adds two seconds to the base delay per second, and R times that is
    /// the queue that the flow allows. So only an ack raises the base, and not above its delay.
    fn raise_base(&mut self, bump_on: BumpOn, now: Time, acked: Option<f64>, events: &mut Events) {
        let base = self.base();
        let raised = base + BUMP;
        let raised = match bump_on {
            BumpOn::Epoch => raised,
            BumpOn::Ack => raised.min(acked.unwrap_or(base)),
        };
        if raised > base {
            self.set_base(now, raised, events);
        }
    }

    /// Eq. 4, Verus, as printed, kept from going negative.
    fn move_as_paper(
        &mut self,
        params: &VerusParams,
        epoch: EpochState,
        smoothed: f64,
        delta: f64,
    ) {
        if smoothed / self.base() > params.r {
            self.d_est = (self.d_est - params.delta2.as_millis_f64()).max(0.0);
        } else {
            self.nudge(params, epoch, delta);
        }
    }

    /// Eq. 4, Verus, second and third case.
    fn nudge(&mut self, params: &VerusParams, epoch: EpochState, delta: f64) {
        if delta > DELAY_TOLERANCE {
            self.d_est = (self.d_est - params.delta1.as_millis_f64()).max(self.base());
        } else if !epoch.app_limited {
            self.d_est += params.delta2.as_millis_f64();
        }
    }

    fn set_base(&mut self, now: Time, base: f64, events: &mut Events) {
        self.d_min = Some(base);
        events.push(now, Event::BaseDelay(Span::from_millis_f64(base)));
    }
}
