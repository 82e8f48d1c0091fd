//! Tests of `cellpace-report` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod browser;
mod example;
mod hostile;
mod memory;
mod scripts;
