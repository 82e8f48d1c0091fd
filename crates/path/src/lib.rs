//! The modelled path from a sender to a receiver: fixed or changing delay, random loss, a queue,
//! and a link whose delivery opportunities come from a trace or a model.
//!
//! The model owns no clock. Its driver (the simulator in virtual time, the emulator in
//! real time) first advances it to now, then gives it new input:
//!
//! ```
//! use cellpace_path::{Packet, Path, PathSpec};
//! use cellpace_base::Time;
//!
//! let spec = PathSpec { trace: Some("constant:12mbit".parse()?), ..PathSpec::default() };
//! let mut path = spec.build(1)?;
//! path.push(Packet::new(0, 0, 1500, Time::ZERO));
//! let mut fates = Vec::new();
//! while let Some(next) = path.next_deadline() {
//!     path.advance(next, &mut fates);
//! }
//! // 1500 bytes at 12 Mbit/s: the first opportunity is after one millisecond.
//! assert_eq!(fates[0].packet.departed_at, Time::from_millis(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod delay;
mod error;
pub mod fit;
pub mod fit_steps;
#[doc(hidden)]
pub mod fuzz;
mod handover;
mod impair;
mod jitter;
mod link;
mod loss;
mod packet;
mod path;
pub mod profile;
pub mod queue;
pub mod radio;
mod rrc;
pub mod schedule;
mod send_jitter;
mod spec;
pub mod stats;
pub mod steps;

// What a queue in another crate needs of it.
pub use cellpace_base::{ByteCount, ParamSet, Random, RegisterError, Time, params};
pub use delay::{Delay, DelaySpec};
pub use error::{FieldError, PathError};
pub use handover::{Handover, HandoverFailure, HandoverPlan, RateFactor, interrupted};
pub use impair::{EcnRule, ImpairSpec};
pub use jitter::JitterSpec;
pub use link::{Link, SharedLink};
pub use loss::{BurstLoss, LossModel, LossSpec};
pub use packet::{DropReason, Fate, Packet, PacketRecord};
pub use path::{Path, PathChange};
pub use queue::{Queue, QueueSpec};
pub use rrc::RrcSpec;
pub use schedule::{Schedule, TraceSpec};
pub use send_jitter::SendJitterSpec;
pub use spec::{DuplexSpec, PATH_FIELDS, PathField, PathSpec};
pub use steps::Steps;

/// Bytes that one delivery opportunity carries: a full packet, IP header included, as in the
/// Mahimahi trace format.
pub const OPPORTUNITY_BYTES: u32 = 1500;
