//! Tests of `cellpace-quic` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[cfg(all(feature = "identity", feature = "noq", feature = "quinn"))]
mod attach;
mod host;
#[cfg(all(feature = "identity", feature = "noq", feature = "quinn"))]
mod loopback;
#[cfg(feature = "virtual-time")]
mod virtual_time;
