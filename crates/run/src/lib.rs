//! Unmodified programs with their TCP connections under a controller.
//!
//! The launcher, `cellpace run`, is the program's parent, and the engine with all flows lives in
//! the launcher. The program runs with a library preloaded that does one thing: when a connection
//! is accepted (or opened) that the [`Rules`](cellpace_control::Rules) are for, it hands the TCP socket to the launcher
//! over a control socket and gets one end of a local stream socket pair for it, which takes the
//! TCP socket's place. The application then holds a socket of the kernel, so that poll, epoll,
//! sendfile, fork, exec, dup, passing descriptors and even being killed mean what they always do.
//!
//! This crate is the launcher's side: the [`Broker`], and what it takes to start a program. What
//! both sides share is in `cellpace-control`.

#[cfg(feature = "attach")]
mod attach;
mod broker;
mod connection_log;
mod error;
#[cfg(feature = "attach")]
mod finder;
mod flow_events;
mod flow_series;
mod launch;
mod library;
mod notice;
mod plain_programs;
mod private_folder;
mod program;

#[cfg(feature = "attach")]
pub use attach::{AttachPlan, AttachedArm, Attacher};
pub use broker::{
    AdoptedConnection, Broker, BrokerConfig, ClosedConnection, ConnectionWatcher, PlainReason,
};
pub use connection_log::{
    ConnectionLog, ConnectionSamples, KeptConnections, LoggingCommand, PlainConnections,
};
#[cfg(feature = "attach")]
pub use error::AttacherError;
pub use error::RunError;
pub use flow_events::{EventFlows, EventWriter};
pub use launch::{Finish, Launch, Running};
pub use library::PreloadLibrary;
pub use notice::RunNotice;
pub use program::check_program;
