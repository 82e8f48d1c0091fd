//! Tests of `cellpace-kernel` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod attach;
mod descriptors;
mod driver;
mod laws;
mod mdi;
#[path = "../../../cli/tests/it/program/measured.rs"]
mod measured;
mod native;
mod pins;
mod prompt;
