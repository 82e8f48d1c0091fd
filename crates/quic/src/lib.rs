//! Every controller of cellpace inside a QUIC library.
//!
//! [`Host`] is what both libraries share: callbacks in, calls of [`cellpace_cc::Controller`] out,
//! with the time as an argument. A skin of some hundred lines fits it to each: `noq` has the complete
//! mapping, `quinn` the reduced one. What neither can
//! carry: reports of a half at the receiver, and so Sprout; the time of arrival at the receiver; whether a
//! packet was sent while the source had run out, until an ack later.
//!
//! Whoever owns a connection runs [`Host::catch_up`] at [`Host::next_deadline`] and wakes the connection
//! where [`Host::take_wake`] says so: without that, controllers that grant budgets starve.

#![forbid(unsafe_code)]

#[cfg(any(feature = "noq", feature = "quinn"))]
mod factory;
mod host;
#[cfg(feature = "noq")]
pub mod noq;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "virtual-time")]
pub mod virtual_time;

#[cfg(any(feature = "noq", feature = "quinn"))]
pub use factory::{Factory, FactoryError, Handle};
pub use host::Host;
