//! Congestion controllers as pure state machines.
//!
//! A [`Controller`] is called for what happens (sent, acked, lost, marked, timed out, blocked, reported) and is
//! asked what may be done (permit, pacing, next deadline). Time and randomness come
//! from outside, so one object runs unchanged in virtual time, over UDP, above TCP and in tests,
//! and the same history always gives the same answers.
//!
//! ```
//! use cellpace_cc::{ControllerSpec, Random, Setup, Time};
//!
//! let spec: ControllerSpec = "fixed:cwnd=20pkts".parse()?;
//! let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
//! let controller = spec.build(setup);
//! assert_eq!(controller.cwnd(), 30_000);
//! # Ok::<(), cellpace_cc::SpecError>(())
//! ```

#![forbid(unsafe_code)]

mod bbr;
mod bbr3;
mod controller;
mod copa;
mod deferred;
mod delay_history;
mod delivery_rate;
#[cfg(test)]
mod drive;
mod epochs;
mod event;
mod extremes;
mod fixed;
mod gcc;
mod inspect;
mod mdi;
mod pace;
mod params;
pub mod policy;
mod prague;
mod registry;
mod rtt;
mod scream;
mod sprout;
mod verus;
mod vivace;
mod window;

pub use cellpace_base::{
    ByteCount, Ecn, ParamSet, Preset, Random, Rate, RegisterError, Span, Time, Window, params,
    words,
};
pub use controller::{
    Ack, AckedPacket, Arrival, Block, Controller, Frame, Loss, LostPacket, Mark, Pacing, Permit,
    Profile, Receiver, SentPacket, Setup, Spurious, Stamp, Timeout,
};
pub use event::{Event, Events, Phase};
pub use inspect::INSPECTED_VALUES;
pub use params::{
    ControllerParams, KernelSettings, MAX_FILE_BYTES, MarkovWalk, PeerCost, ReadFile,
    ReceiverParams,
};
pub use registry::{
    ControllerInfo, ControllerSpec, DEFAULT_CONTROLLER, PeerHalf, SpecError, controllers,
    find_controller, register, registry,
};
pub use rtt::{RtoRule, RttEstimator, RttState};
