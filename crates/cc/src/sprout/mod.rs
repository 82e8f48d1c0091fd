//! Sprout (Winstein, Sivaraman, Balakrishnan: Stochastic Forecasts Achieve High Throughput and
//! Low Delay over Cellular Networks, NSDI 2013).
//!
//! The receiver takes the link's rate for a Brownian motion, infers it from the packets that
//! arrive in each tick of 20 ms, and reports how many packets the link will deliver, with 95 %
//! confidence, within the next 1 to 8 ticks. The sender sends what leaves the queue within 100 ms
//! after that forecast. Neither RTT nor loss plays a part.
//!
//! Where the original program and the paper differ, and where either collapses, the choices are:
//!
//! - A tick in which the sender may have paused only means that the link delivers as much or more
//!   (`observation=censored`); the original takes it for the rate, which makes an estimate that
//!   follows the sender down.
//! - The receiver reports in packets of its own, each tick while something arrived within the last
//!   second; the original needs data in the other direction to carry its reports.
//! - A sender without data marks its last packet, and the receiver does not take the silence
//!   for an outage. The original sends empty packets instead.
//! - The sender lets the queue drain by what each tick adds to the forecast, not by the sum; both
//!   sides count the same bytes; packets that come twice count once; the rest of rounding is
//!   carried on; reports that come out of order are dropped.
//! - `max_rate=auto` doubles the grid when the estimate leans on its top. The original ends at
//!   1000 packets per second.

mod belief;
mod model;
mod params;
mod receiver;
mod sender;
mod wire;

use cellpace_base::ParamSet;

use crate::{Controller, ControllerParams, PeerCost, Receiver, ReceiverParams, Setup, Span};

use model::{ModelSpec, SproutModel};
use params::MaxRate;
pub(crate) use params::SproutParams;

impl ControllerParams for SproutParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(sender::Sprout::new(self, &setup))
    }

    fn receiver(&self) -> Option<&dyn ReceiverParams> {
        Some(self)
    }
}

impl ReceiverParams for SproutParams {
    fn build(&self, setup: Setup) -> Box<dyn Receiver> {
        Box::new(receiver::SproutReceiver::new(self, &setup))
    }

    /// The tables of a receiver half that a peer asks for are of ordinary size. The largest that
    /// are allowed are those of `max_rate=2000,sigma=400,joint=true`.
    fn peer_cost(&self) -> Result<PeerCost, String> {
        peer_cost(self)
    }
}

fn peer_cost(params: &SproutParams) -> Result<PeerCost, String> {
    /// In packets per second: 24 Mbit/s.
    const MAX_RATE: u32 = 2000;
    const MAX_SIGMA: f64 = 400.0;
    const MIN_TICK: Span = Span::from_millis(20);
    /// Packets that the fastest link delivers in a tick.
    const MAX_PER_TICK: f64 = 40.0;
    let model = ModelSpec::new(params);
    if model == ModelSpec::new(&SproutParams::defaults()) {
        // All sizes of the automatic grid are computed once, and then there.
        return Ok(PeerCost::Shared);
    }
    if params.max_rate == MaxRate::Auto {
        let others = "tick, sigma, escape, outage_row and joint";
        return Err(format!("max_rate=auto goes with the defaults of {others}"));
    }
    if model.max_rate > MAX_RATE {
        return Err(format!("max_rate={} should be {MAX_RATE} or less, or auto", model.max_rate));
    }
    let per_tick = f64::from(model.max_rate) * model.tick.as_secs_f64();
    if model.tick < MIN_TICK || per_tick > MAX_PER_TICK {
        return Err(format!(
            "tick={} should be {MIN_TICK} or more, and max_rate times tick {MAX_PER_TICK} or less",
            model.tick
        ));
    }
    if model.sigma > MAX_SIGMA {
        return Err(format!("sigma={} should be {MAX_SIGMA} or less", model.sigma));
    }
    SproutModel::peer_cost(&model)
}

/// The parameters that a text means.
#[cfg(test)]
fn params(rest: &str) -> SproutParams {
    SproutParams::parse("sprout", rest).unwrap()
}

#[cfg(test)]
mod tests;
