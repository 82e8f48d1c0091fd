//! What lies between a controller and a wire, whichever wire it is: which packets are in flight,
//! what an ack means, when a packet is lost (RFC 9002 section 6.1), when the retransmission timer
//! fires (RFC 6298) and whether it was right to (RFC 4015), when the pacer lets go; and at the other
//! end which packets have arrived and when that is acknowledged.
//!
//! Sans-I/O: the owner passes the time in and asks for the next deadline.

#![forbid(unsafe_code)]

mod ack_generator;
mod ecn;
mod pacer;
mod sender;
mod sent;
mod shared_window;
mod unbounded;
mod video;

pub use ack_generator::{AckGenerator, AckPolicy};
pub use ecn::{EcnFailure, EcnState};
pub use pacer::Pacer;
pub use sender::PacedSender;
pub use sent::{Arrived, PacketCounts, Sending, Sent};
pub use shared_window::{SharedWindows, WindowMember, WindowWatch};
pub use unbounded::Unbounded;
pub use video::{CapturedFrame, FrameRecord, VideoSource, VideoSpec, permitted_rate};
