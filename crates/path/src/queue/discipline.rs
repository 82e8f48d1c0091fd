//! What all queues have in common.

use cellpace_base::Time;

use crate::{DropReason, Packet};

/// A queue. Every packet given to it comes out of [`dequeue`](Self::dequeue) once, or is handed
/// to `drops` once with the reason.
pub trait Queue: Send {
    /// A packet arrives.
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops);

    /// The link takes the next packet.
    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet>;

    /// Ends the queue and returns what waits, in the order of arrival: for another queue in its place.
    fn into_packets(self: Box<Self>) -> Vec<Packet>;

    /// Bytes waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> usize;
}

/// Where queues put what they drop.
pub type Drops = Vec<(Packet, DropReason)>;
