//! Tests of `own_controller` from outside: its controller in the commands, and the tutorial that shows it.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod commands;
mod tutorial;
