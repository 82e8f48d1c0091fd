//! Measuring a path with UDP probes, as the measurements behind the Verus paper (section 3) were
//! made: packets of one size at a fixed interval, or as many as keep the bottleneck's queue from
//! running empty.
//!
//! [`Prober`] asks and [`Responder`] answers; both are engines for `cellpace_udp::Driver` and know
//! neither sockets nor clocks. What was measured is a [`Recording`], from which [`analyse`] makes
//! a [`ProbeDocument`]: delays, bursts, throughput in windows, predictors and delivery opportunities.

#![forbid(unsafe_code)]

mod clock;
mod document;
mod outbox;
mod plan;
mod plausible;
mod prober;
mod recording;
mod responder;
mod sender;
mod session;
mod statistics;
mod summary;
mod trace;
pub mod wire;

pub use clock::{ClockLine, ClockOffset, lower_line};
pub use document::{
    BurstFigures, DelayFigures, DelaySeries, DirectionFigures, EcnFigures, OnOffFigures,
    ProbeDocument, ProbeSettings, Quantiles, RecordedTrace, SCHEMA, WindowFigures, analyse,
    constant_rate_trace,
};
pub use plan::{OnOffStream, Pattern, Plan, PlanError};
pub use prober::{ProbeError, Prober};
pub use recording::{DirectionRecording, ProbeArrival, Recording};
pub use responder::{Responder, ResponderLimits};
pub use session::DirectionProgress;
pub use statistics::{ArrivalBursts, bursts, ks_distance, throughput};
pub use summary::summary;
pub use trace::{Opportunities, opportunities};
