//! Fair queueing without AQM: a queue for each flow, served by deficit round robin (Shreedhar and
//! Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995); what does not fit
//! is dropped from the end of the longest.

use std::collections::{BTreeMap, VecDeque};

use cellpace_base::{ByteCount, Time, params};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, Packet};

params! {
    /// The parameters of fair queueing.
    #[derive(Copy, PartialEq)]
    pub(super) struct FqParams {
        /// Hard limit of all queues together, bytes or packets
        limit: Limit = "1000pkts", from "own choice, the usual length of a device's queue in Linux",
            logarithmic;
        /// Bytes a queue may send before the next has its turn
        quantum: ByteCount = "1514B" in 64..=1_000_000, from "RFC 8290 section 5.2.4", logarithmic;
    }
}

/// A queue per flow, by its number: no two share one.
#[derive(Debug)]
pub(super) struct Fq {
    params: FqParams,
    /// Those of flows that have packets waiting.
    flows: BTreeMap<u32, FairFlow>,
    /// The same flows in the order of their turns.
    turns: VecDeque<u32>,
    bytes: u64,
    packets: usize,
}

#[derive(Debug, Default)]
struct FairFlow {
    fifo: Fifo,
    /// Bytes it may still send in this turn.
    credit: u64,
    /// Whether its turn has begun, so that it has its quantum.
    in_turn: bool,
}

impl Fq {
    /// An empty queue.
    pub(super) fn new(params: FqParams) -> Self {
        Self { params, flows: BTreeMap::new(), turns: VecDeque::new(), bytes: 0, packets: 0 }
    }

    fn forget(&mut self, flow: u32) {
        self.flows.remove(&flow);
        self.turns.retain(|other| *other != flow);
    }

    /// The newest packet of the longest queue goes.
    fn drop_from_longest(&mut self, drops: &mut Drops) {
        let bytes = |flow: &u32| self.flows.get(flow).map_or(0, |queue| queue.fifo.bytes());
        let Some(longest) = self.turns.iter().copied().max_by_key(bytes) else { return };
        let Some(queue) = self.flows.get_mut(&longest) else { return };
        let Some(packet) = queue.fifo.pop_newest() else { return };
        self.bytes -= u64::from(packet.size);
        self.packets -= 1;
        drops.push((packet, DropReason::Overflow));
        if queue.fifo.is_empty() {
            self.forget(longest);
        }
    }
}

impl Queue for Fq {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        let turns = &mut self.turns;
        let queue = self.flows.entry(packet.flow).or_insert_with(|| {
            turns.push_back(packet.flow);
            FairFlow::default()
        });
        queue.fifo.push(packet);
        self.bytes += u64::from(packet.size);
        self.packets += 1;
        while !self.params.limit.holds(self.bytes, self.packets as u64) {
            // The flow that caused the backlog pays, so that a flow of few packets loses none.
            self.drop_from_longest(drops);
        }
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Drops) -> Option<Packet> {
        loop {
            let flow = *self.turns.front()?;
            let queue = self.flows.get_mut(&flow)?;
            if !queue.in_turn {
                // Credit that was left over adds up, so that a packet larger than the quantum gets
                // through.
                queue.credit += self.params.quantum.0;
                queue.in_turn = true;
            }
            // A queue is forgotten with its last packet, so there is always a front.
            let size = u64::from(queue.fifo.front()?.size);
            if size > queue.credit {
                queue.in_turn = false;
                // Its credit stays for the next turn, but no quantum comes before that.
                self.turns.rotate_left(1);
                continue;
            }
            queue.credit -= size;
            let packet = queue.fifo.pop()?;
            self.bytes -= size;
            self.packets -= 1;
            if queue.fifo.is_empty() {
                // It begins again without credit (DRR, section 3).
                self.turns.pop_front();
                self.flows.remove(&flow);
            }
            return Some(packet);
        }
    }

    fn into_packets(self: Box<Self>) -> Vec<Packet> {
        let Self { mut flows, turns, .. } = *self;
        let queues = turns.iter().filter_map(|flow| flows.remove(flow));
        let mut packets: Vec<Packet> = queues.flat_map(|queue| queue.fifo.into_packets()).collect();
        packets.sort_by_key(|packet| packet.enqueued_at);
        packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::ParamSet;

    fn queue(rest: &str) -> Fq {
        Fq::new(FqParams::parse("fq", rest).unwrap())
    }

    /// Lets `count` packets of a flow arrive; the ids and flows of what was dropped.
    fn send(queue: &mut Fq, flow: u32, count: u64, size: u32) -> Vec<(u64, u32)> {
        let mut drops = Drops::new();
        for id in 0..count {
            queue.enqueue(Time::ZERO, Packet::new(id, flow, size, Time::ZERO), &mut drops);
        }
        drops.iter().map(|(packet, _)| (packet.id, packet.flow)).collect()
    }

    fn served(queue: &mut Fq, count: usize) -> Vec<Packet> {
        (0..count).map_while(|_| queue.dequeue(Time::ZERO, &mut Drops::new())).collect()
    }

    #[test]
    fn flows_share_bytes_not_packets() {
        let mut queue = queue("limit=5000pkts");
        send(&mut queue, 1, 1000, 1500);
        send(&mut queue, 2, 3000, 500);
        let mut bytes = [0_u64; 3];
        for packet in served(&mut queue, 2000) {
            bytes[packet.flow as usize] += u64::from(packet.size);
        }
        let ratio = bytes[1] as f64 / bytes[2] as f64;
        assert!((0.99..1.01).contains(&ratio), "{bytes:?}");
    }

    #[test]
    fn a_packet_larger_than_the_quantum_saves_up_for_it() {
        let mut queue = queue("quantum=500B");
        send(&mut queue, 1, 3, 1500);
        send(&mut queue, 2, 9, 500);
        let flows: Vec<u32> = served(&mut queue, 12).iter().map(|packet| packet.flow).collect();
        assert_eq!(flows, [2, 2, 1, 2, 2, 2, 1, 2, 2, 2, 1, 2]);
    }

    #[test]
    fn the_newest_packet_of_the_longest_makes_room() {
        let mut queue = queue("limit=100pkts");
        assert_eq!(send(&mut queue, 1, 80, 1500), []);
        assert_eq!(send(&mut queue, 2, 21, 1500), [(79, 1)]);
        assert_eq!(send(&mut queue, 1, 2, 1500), [(0, 1), (1, 1)]);
        assert_eq!((queue.packets(), queue.bytes()), (100, 150_000));
        assert_eq!(served(&mut queue, 200).len(), 100);
        assert!(queue.flows.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn a_packet_larger_than_the_limit_drops_itself() {
        let mut queue = queue("limit=2kB");
        assert_eq!(send(&mut queue, 1, 1, 2001), [(0, 1)]);
        assert!(queue.flows.is_empty() && queue.turns.is_empty());
    }
}
