//! What the launcher of a program, `cellpace run`, and the library that it preloads share.
//!
//! In a crate of its own, so that the library is built with nothing that only the launcher needs.

#![forbid(unsafe_code)]

pub mod message;
mod name;
mod rules;
pub mod variables;

pub use name::{FlowName, NAME_LEN, Owner};
pub use rules::{ConnectionDirection, Networks, Ports, RuleError, RuleNetwork, Rules};
