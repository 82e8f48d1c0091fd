//! What a packet log has of acks.

use cellpace_base::Time;

/// What the sender of a packet knew when an ack told it that the packet had arrived. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketAck {
    /// When the ack came.
    pub at: Time,
    /// What was in flight after it.
    pub in_flight: u64,
    /// The controller's window after it; `None`: it has none.
    pub cwnd: Option<u64>,
    /// What the controller then let leave; `None`: it set no bound.
    pub permit: Option<u64>,
}
