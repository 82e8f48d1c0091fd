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
//! - A tick in which the sender may have paused only says that the link delivers as much or more
//!   (`observation=censored`); the original takes it for the rate, which makes an estimate that
//!   follows the sender down.
//! - The receiver reports in packets of its own, each tick while something arrived within the last
//!   second; the original needs data in the other direction to carry its reports.
//! - A sender without data says so on its last packet, and the receiver does not take the silence
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

use crate::{ControllerInfo, ReceiverInfo};

use params::Config;

/// The registry's entry.
pub const INFO: ControllerInfo = ControllerInfo {
    name: "sprout",
    summary: "sends what the receiver forecasts to leave the queue within 100 ms",
    params: params::PARAMS,
    check: params::check,
    load: None,
    build: |args, setup| Box::new(sender::Sprout::new(Config::new(args), &setup)),
    receiver: Some(ReceiverInfo {
        build: |args, setup| Box::new(receiver::SproutReceiver::new(Config::new(args), &setup)),
        peer_cost: params::peer_cost,
    }),
};

/// The configuration that a text of parameters means.
#[cfg(test)]
fn config(rest: &str) -> Config {
    Config::new(&crate::drive::args(&INFO, rest))
}

#[cfg(test)]
mod tests;
