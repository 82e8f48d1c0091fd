//! First in, first out, with an end.

use cellpace_base::Time;

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, Packet};

/// A FIFO that refuses what does not fit any more.
#[derive(Debug)]
pub struct DropTail {
    limit: Limit,
    fifo: Fifo,
}

impl DropTail {
    /// An empty queue.
    pub const fn new(limit: Limit) -> Self {
        Self { limit, fifo: Fifo::new() }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        if !self.limit.has_room(&self.fifo, packet.size) {
            drops.push((packet, DropReason::Overflow));
            return;
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
    use super::super::testing::{arrive, packet};
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_the_rest_keeps_its_order() {
        let mut queue = DropTail::new(Limit::Bytes(3000));
        assert_eq!(arrive(&mut queue, Time::ZERO, &[(1, 1500), (2, 1000), (3, 1000)]), [3]);
        // What is left over still takes a smaller packet.
        assert!(arrive(&mut queue, Time::ZERO, &[(4, 500)]).is_empty());
        let mut drops = Drops::new();
        let order: Vec<u64> =
            std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut drops)).map(|p| p.id).collect();
        assert_eq!(order, [1, 2, 4]);
    }

    #[test]
    fn a_limit_in_packets_does_not_look_at_sizes() {
        let mut queue = DropTail::new(Limit::Packets(1));
        let mut drops = Drops::new();
        queue.enqueue(Time::ZERO, packet(1, u32::MAX, Time::ZERO), &mut drops);
        queue.enqueue(Time::ZERO, packet(2, 1, Time::ZERO), &mut drops);
        assert_eq!(drops, [(packet(2, 1, Time::ZERO), DropReason::Overflow)]);
        assert_eq!((queue.bytes(), queue.packets()), (u64::from(u32::MAX), 1));
    }
}
