//! What can go wrong.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use cellpace_alcc::AlccError;

/// Why a connection is not, or no longer, under a controller.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TcpError {
    /// The descriptor is not a connected TCP socket.
    #[error("not a connected TCP socket: {0}")]
    NotTcp(#[source] io::Error),
    /// The process or the system is out of what a flow needs.
    #[error("cannot set up a flow ({what}): {source}")]
    Setup {
        /// What was refused.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// No driver that was chosen takes the connection.
    #[error(transparent)]
    NotPlaced(PlacementReason),
    /// The data was not all taken in time.
    #[error("{left} bytes were not acknowledged in time")]
    TimedOut {
        /// Bytes that the peer has not acknowledged.
        left: u64,
    },
    /// The connection ended with an error.
    #[error("the connection ended: {0}")]
    Ended(#[source] io::Error),
    /// The two ends of a client/server connection did not understand each other.
    #[error("the client/server connection ended: {0}")]
    Alcc(#[source] AlccError),
}

/// Why a connection's controller is not in the kernel, or why it has none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementReason {
    /// Nothing in the kernel is there for this process.
    #[error("{0}")]
    NoKernelDriver(Arc<str>),
    /// An option was given that only the gate has.
    #[error("{0} needs the gate")]
    GateOption(&'static str),
    /// What is in the kernel did not take this connection.
    #[error("the kernel did not take the connection: {0}")]
    Refused(Arc<str>),
    /// The program opens the connection without waiting for it.
    #[error(
        "the program does not wait for the connection to open, and the kernel driver needs it open"
    )]
    NotOpen,
    /// The program already uses its TCP socket.
    #[error("the program already uses its TCP socket")]
    InUse,
}

impl PlacementReason {
    /// Whether it is about one connection rather than about all of a command.
    pub fn is_of_connection(&self) -> bool {
        !matches!(self, Self::NoKernelDriver(_) | Self::GateOption(_))
    }
}
