//! Tests of `cellpace-sim` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod bbr3;
mod behaviour;
mod c2tcp_vivace;
mod chains;
mod claims;
mod closed_loops;
mod combinations;
mod common;
mod examples;
mod handovers;
mod host_and_cell;
mod impairments;
mod invariants;
mod known_answers;
mod l4s;
mod pace;
mod radio;
mod sharing;
mod sprout;
mod sprout_second;
mod sprout_traces;
mod stepping;
mod transfers;
mod video;
