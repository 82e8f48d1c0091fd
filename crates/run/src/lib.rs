//! Unmodified programs with their TCP connections under a controller.
//!
//! The launcher, `cellpace run`, is the program's parent, and the engine with all flows lives in
//! the launcher. The program runs with a library preloaded that does one thing: when a connection
//! is accepted (or opened) that the [`Rules`] are for, it hands the TCP socket to the launcher
//! over a control socket and gets one end of a local stream socket pair for it, which takes the
//! TCP socket's place. The application then holds a socket of the kernel, so that poll, epoll,
//! sendfile, fork, exec, dup, passing descriptors and even being killed mean what they always do.
//!
//! This crate is what both sides share, [`message`], [`FlowName`] and [`Rules`], and with feature
//! `launcher` the launcher's side: the [`Broker`], and what it takes to start a program.

#[cfg(feature = "launcher")]
mod broker;
#[cfg(feature = "launcher")]
mod error;
#[cfg(feature = "launcher")]
mod launch;
#[cfg(feature = "launcher")]
mod library;
pub mod message;
mod name;
#[cfg(feature = "launcher")]
mod program;
mod rules;
pub mod variables;

#[cfg(feature = "launcher")]
pub use broker::{Adopted, Broker, BrokerConfig, Closed, Watch};
#[cfg(feature = "launcher")]
pub use error::RunError;
#[cfg(feature = "launcher")]
pub use launch::{Finish, Launch, Running};
#[cfg(feature = "launcher")]
pub use library::Library;
pub use name::{FlowName, NAME_LEN, Owner};
#[cfg(feature = "launcher")]
pub use program::check_program;
pub use rules::{Direction, Network, Networks, Ports, RuleError, Rules};
