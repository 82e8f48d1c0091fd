//! Every controller of cellpace inside a QUIC library.
//!
//! ```
//! # #[cfg(feature = "quinn")] {
//! use cellpace_quic::Factory;
//!
//! let factory = Factory::new("verus:r=2".parse()?, 1)?;
//! let mut transport = quinn::TransportConfig::default();
//! factory.install_quinn(&mut transport); // install_noq for noq
//!
//! // For each connection; `Control` is kept as long as the connection.
//! fn accepted(connection: &quinn::Connection) -> Option<cellpace_quic::Control> {
//!     cellpace_quic::quinn::attach(connection)
//! }
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The features `noq` and `quinn` bring the libraries. [`Host`] is what both share: callbacks in, calls of
//! [`cellpace_cc::Controller`] out, with the time as an argument. A skin of some hundred lines fits it to each: `noq`
//! has the complete mapping, `quinn` the reduced one. What neither can carry: reports of a half at the receiver, and so
//! Sprout; the time of arrival at the receiver; whether a packet was sent while the source had run out, until an ack
//! later.
//!
//! The owner of a connection runs [`Host::catch_up`] at [`Host::next_deadline`] and wakes the connection where
//! [`Host::take_wake`] says so, as `attach` does: without that, controllers that grant budgets starve.

#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod control;
#[cfg(any(feature = "noq", feature = "quinn", feature = "virtual-time"))]
mod factory;
mod host;
#[cfg(feature = "identity")]
pub mod identity;
#[cfg(any(feature = "noq", feature = "virtual-time"))]
pub mod noq;
#[cfg(any(feature = "quinn", feature = "virtual-time"))]
pub mod quinn;
#[cfg(feature = "virtual-time")]
pub mod virtual_time;

#[cfg(feature = "tokio")]
pub use control::Control;
#[cfg(any(feature = "noq", feature = "quinn", feature = "virtual-time"))]
pub use factory::{Factory, FactoryError, Handle};
pub use host::{Host, HostStats};
