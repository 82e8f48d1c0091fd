//! What can go wrong.

use std::io;

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
