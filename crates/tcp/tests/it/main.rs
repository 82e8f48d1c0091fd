//! Tests of `cellpace-tcp` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod client_server;
mod engine;
mod kill;
