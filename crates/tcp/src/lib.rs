//! ALCC: the controllers of [`cellpace_cc`] above unmodified TCP sockets.
//!
//! A flow has two descriptors: the real TCP socket, and one end of a local stream socket pair
//! whose other end belongs to the application. One thread, the [`Engine`], serves all flows: what
//! the application writes it releases into TCP as the flow's controller allows, what TCP receives
//! it passes on. Since the application holds a socket of the kernel, everything that works on
//! sockets (poll, epoll, sendfile, fork, passing it to another process) works as ever.
//!
//! With the client/server driver ([`DriverChoice`]) the two ends of a connection number and
//! acknowledge packets inside the TCP stream: [`cellpace_alcc`].
//!
//! With the kernel driver ([`Steerer`]) there is no data path of ours: the window is set in the
//! kernel, which tells of every ack.
//!
//! The window that counts is the smaller of the controller's and TCP's own.

mod below;
mod engine;
mod error;
mod flow;
mod framer;
mod gate;
mod gated;
mod grip;
mod group;
mod linger;
mod local;
mod lower;
mod pieces;
mod queue;
mod relay;
mod socket;
mod steer;
mod steered;
mod stream;

pub use below::Below;
pub use engine::{Engine, trim_memory};
pub use error::TcpError;
pub use flow::{DriverChoice, FlowHandle, FlowOptions, FlowStats, FramingLimits, Outcome, Share};
pub use grip::Grip;
pub use socket::{granted_send_buffer, unacknowledged};
pub use steer::{Steered, Steerer};
pub use stream::AlccStream;
