//! Virtual time: any number of flows over one modelled bottleneck, event by event. The same
//! scenario with the same seed gives the same run, bit for bit.
//!
//! ```
//! use cellpace_sim::{FlowSpec, Scenario, run};
//!
//! let scenario = Scenario {
//!     flows: vec![FlowSpec::bulk("fixed:cwnd=20pkts".parse()?)],
//!     ..Scenario::default()
//! };
//! let outcome = run(&scenario)?;
//! // 20 packets of 1500 bytes per 40 ms and half a millisecond: just under 6 Mbit/s.
//! assert!((5.7..6.0).contains(&outcome.figures.throughput_mbps));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod cell;
mod chain_spec;
mod connection;
mod document;
mod ends;
mod error;
mod flow;
mod host;
mod links;
mod observer;
mod onoff;
mod path_text;
mod pieces;
mod ping;
mod player;
mod proxy;
mod relay;
mod sampler;
mod scenario;
mod send_jitter;
mod simulation;
mod timers;
mod traffic;
mod transfer_spec;
mod transfer_tally;
mod transfers;
mod two_way;
mod world;

pub use cell::{CellSpec, Scheduler, UserSpec};
pub use cellpace_recovery::{AckPolicy, VideoSpec};
pub use chain_spec::{ChainSpec, MAX_SEGMENTS, ProxySpec, SegmentSpec};
pub use document::read_controller;
pub use ends::{FlowEnds, FlowNote, FlowSample, SenderTotals};
pub use error::SimError;
pub use host::{Bottleneck, HostBuffers, SmallQueue};
pub use observer::{FlowView, Observer};
pub use onoff::OnOffFiles;
pub use path_text::PathText;
pub use ping::PingSpec;
pub use player::PlayerSpec;
pub use scenario::{FlowSpec, Scenario};
pub use simulation::{Outcome, Simulation, run, run_observed};
pub use traffic::FlowTraffic;
pub use transfer_spec::{SizeSpec, TransferPace, TransferSpec};
