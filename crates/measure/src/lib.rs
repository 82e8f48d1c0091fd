//! From packet records to figures: throughput, utilization, delay percentiles, Jain's index,
//! series for plots, and confidence intervals over repeated runs. It knows samples, not
//! controllers.

#![forbid(unsafe_code)]

mod chain;
mod collector;
mod confidence;
mod events;
mod histogram;
mod jain;
mod player;
mod predict;
mod series;
mod sketch;
mod transfers;
mod video;
mod window;

pub use chain::{ChainFigures, LegFigures, ProxyFigures, SegmentFigures};
pub use collector::{
    Collector, Figures, FlowFigures, FlowSpan, PingFigures, RtoFigures, SenderFigures,
};
pub use confidence::Interval;
pub use events::FlowEvents;
pub use jain::jain_index;
pub use player::PlayerFigures;
pub use predict::{Prediction, autoregression, predictions};
pub use series::{BAND_LEVELS, InspectedSeries, MANY_FLOWS, ProfileSample, Quantiles, Series};
pub use sketch::{DelaySketch, Summary};
pub use transfers::{Spread, Transfer, TransferOutcome, TransferSummary};
pub use video::{VideoFigures, VideoFrame};
pub use window::MeasuredWindow;
