//! Tests of `cellpace-run` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod broker;
mod client;
#[cfg(target_os = "linux")]
mod users;
