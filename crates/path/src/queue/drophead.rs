//! First in, first out; when it is full the oldest makes room for the newest.

use cellpace_base::Time;

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, Packet};

/// A FIFO that drops its oldest packets to make room for a new one. Senders learn of the loss
/// one queue's length earlier than from a [`DropTail`](super::DropTail).
#[derive(Debug)]
pub struct DropHead {
    limit: Limit,
    fifo: Fifo,
}

impl DropHead {
    /// An empty queue.
    pub const fn new(limit: Limit) -> Self {
        Self { limit, fifo: Fifo::new() }
    }
}

impl Queue for DropHead {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        // A packet that would not fit into the empty queue must not empty it for nothing.
        if !self.limit.holds(u64::from(packet.size), 1) {
            drops.push((packet, DropReason::Overflow));
            return;
        }
        // One large packet may need the room of several small ones.
        while !self.limit.has_room(&self.fifo, packet.size) {
            let Some(oldest) = self.fifo.pop() else { break };
            drops.push((oldest, DropReason::Overflow));
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Drops) -> Option<Packet> {
        self.fifo.pop()
    }

    fn into_packets(self: Box<Self>) -> Vec<Packet> {
        self.fifo.into_packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::arrive;
    use super::*;

    #[test]
    fn drop_head_drops_the_oldest() {
        let mut queue = DropHead::new(Limit::Packets(2));
        assert_eq!(arrive(&mut queue, Time::ZERO, &[(1, 1500), (2, 1500), (3, 1500)]), [1]);
        assert_eq!(queue.dequeue(Time::ZERO, &mut Drops::new()).unwrap().id, 2);
        assert_eq!(queue.dequeue(Time::ZERO, &mut Drops::new()).unwrap().id, 3);
    }

    #[test]
    fn a_large_packet_pushes_out_as_many_small_ones_as_it_needs() {
        let mut queue = DropHead::new(Limit::Bytes(2000));
        let small = [(1, 500), (2, 500), (3, 500), (4, 500)];
        assert!(arrive(&mut queue, Time::ZERO, &small).is_empty());
        assert_eq!(arrive(&mut queue, Time::ZERO, &[(5, 1200)]), [1, 2, 3]);
        assert_eq!(queue.bytes(), 1700);
    }

    #[test]
    fn a_packet_larger_than_the_queue_is_refused_and_drops_nobody_else() {
        let mut queue = DropHead::new(Limit::Bytes(2000));
        assert_eq!(arrive(&mut queue, Time::ZERO, &[(1, 1500), (2, 2001)]), [2]);
        assert_eq!(queue.packets(), 1);
    }
}
