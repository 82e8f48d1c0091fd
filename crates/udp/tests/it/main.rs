//! Tests of `cellpace-udp` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod common;
mod ecn;
mod faults;
mod hostile;
mod key;
mod wire;
