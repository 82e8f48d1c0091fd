//! Modules as controllers. Without the feature `host` there are none.

#![cfg(feature = "host")]
// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod bad_modules;
mod guests;
mod program;
