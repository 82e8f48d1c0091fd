//! Why a connection cannot go on.

use thiserror::Error;

use crate::frame::FrameError;
use crate::hello::{HelloError, Refusal};

/// Why a connection cannot go on. What arrived before can still be read; the connection
/// beneath should be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AlccError {
    /// The controller's text does not fit into a hello.
    #[error("the controller's text has {0} bytes, and a hello holds 200")]
    TextTooLong(usize),
    /// The other end does not speak this protocol. It has got a hello that it cannot have
    /// understood: connect again, without one.
    #[error("the other end does not speak ALCC's protocol")]
    PlainPeer,
    /// There was no answer to the hello in time.
    #[error("no answer to the hello")]
    NoAnswer,
    /// The hello is none that can be read.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The other end refused.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// We refused the other end.
    #[error("refused the other end: {0}")]
    Refusing(Refusal),
    /// What arrived is no frame, or not the one that has to come next.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// An ack covers a packet that was never sent.
    #[error("an ack covers packet {acked}, and {sent} were sent")]
    AckBeyond {
        /// The packet.
        acked: u64,
        /// How many were sent.
        sent: u64,
    },
    /// An ack takes back what an earlier one reported: its packets, its clock or its window.
    #[error("an ack goes back")]
    AckBack,
    /// More data came than the window allowed.
    #[error("data beyond the window")]
    Overrun,
    /// The stream beneath ended in the middle.
    #[error("the connection ended before the stream did")]
    Truncated,
    /// The other end acknowledged nothing for too long.
    #[error("no ack in time")]
    Silent,
}
