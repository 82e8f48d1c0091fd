//! Tests of `cellpace-preload` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod c_interface;
