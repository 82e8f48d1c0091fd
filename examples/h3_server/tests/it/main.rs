//! Tests of `h3_server` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod limits;
mod program;
