//! Tests of `cellpace-lab` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod attack;
mod epoch_log;
mod predict;
#[cfg(feature = "parquet")]
mod sweep;
