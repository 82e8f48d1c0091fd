//! FQ-CoDel, RFC 8290: a queue for each flow, served in turn by bytes, each under CoDel; flows
//! that send little go first.

use std::collections::VecDeque;

use cellpace_base::{ByteCount, Random, Time, params};

use super::codel::{CodelParams, CodelState};
use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, Packet};

params! {
    /// The parameters of FQ-CoDel.
    #[derive(Copy, PartialEq)]
    pub(super) struct FqCodelParams {
        /// Queues; flows are hashed onto them
        flows: u64 = "1024" in 1..=65_535, from "RFC 8290 section 5.2.5";
        /// Bytes a queue may send before the next has its turn
        quantum: ByteCount = "1514B" in 64..=1_000_000, from "RFC 8290 section 5.2.4", logarithmic;
        /// Most packets dropped at once from the longest queue when the limit is passed
        batch: u64 = "64" in 1..=65_535, unit "pkt", from "RFC 8290 section 4.1";
        /// Hard limit of all queues together, bytes or packets
        limit: Limit = "10240pkts", from "RFC 8290 section 5.2.3", logarithmic;
        /// Second hard limit of all queues together, in bytes
        memory: ByteCount = "32MiB" in 1500..=1 << 50, from "own choice, as in Linux tc", logarithmic;
    }
    with { codel: CodelParams }
}

/// Fair queueing with CoDel in each queue.
#[derive(Debug)]
pub(super) struct FqCodel {
    config: FqCodelParams,
    /// Secret of the hash, so that no sender can choose its neighbours (RFC 8290 section 4.1).
    perturbation: u64,
    flows: Vec<FlowQueue>,
    /// Queues that became busy lately; served before `old`.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    bytes: u64,
    packets: usize,
}

#[derive(Debug)]
struct FlowQueue {
    fifo: Fifo,
    control: CodelState,
    /// Bytes it may still send in this turn.
    credit: i64,
    /// Whether it stands in one of the two lists.
    listed: bool,
}

impl FqCodel {
    /// An empty queue. `random` perturbs the hash.
    pub(super) fn new(config: FqCodelParams, mut random: Random) -> Self {
        let flow = || FlowQueue {
            fifo: Fifo::new(),
            control: CodelState::new(),
            credit: 0,
            listed: false,
        };
        Self {
            config,
            perturbation: random.bits(),
            flows: (0..config.flows).map(|_| flow()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            packets: 0,
        }
    }

    /// RFC 8290 section 4.1: the queue of a flow number.
    fn queue_of(&self, flow: u32) -> u32 {
        // Multiply, fold, multiply: every bit of the flow number reaches the high bits, which
        // choose the queue.
        let mixed = (u64::from(flow) ^ self.perturbation).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
        // A multiplication in place of a remainder: any number of queues, and no division.
        ((hash * self.config.flows) >> 32) as u32
    }

    fn is_within_limits(&self) -> bool {
        let packets = self.packets as u64;
        self.config.limit.holds(self.bytes, packets) && self.bytes <= self.config.memory.0
    }

    /// RFC 8290 section 4.1: half of the longest queue goes, from its head, so that finding it
    /// is paid for by many packets.
    fn drop_from_fattest(&mut self, drops: &mut Drops) {
        // Only queues in a list hold packets, so the thousand others are not looked at.
        let listed = self.new.iter().chain(&self.old);
        let fattest = listed.copied().max_by_key(|&index| self.flows[index as usize].fifo.bytes());
        let Some(index) = fattest else { return };
        let fifo = &mut self.flows[index as usize].fifo;
        // Rounded up, or a queue of one packet would stay, and the limit with it.
        let half = fifo.len().div_ceil(2);
        for _ in 0..half.min(self.config.batch as usize) {
            let Some(packet) = fifo.pop() else { break };
            self.bytes -= u64::from(packet.size);
            self.packets -= 1;
            drops.push((packet, DropReason::Overflow));
        }
    }

    /// One packet of queue `index` through its CoDel.
    fn serve(&mut self, index: u32, now: Time, drops: &mut Drops) -> Option<Packet> {
        let flow = &mut self.flows[index as usize];
        let (bytes, packets) = (flow.fifo.bytes(), flow.fifo.len());
        let packet = flow.control.dequeue(&self.config.codel, &mut flow.fifo, now, drops);
        self.bytes -= bytes - flow.fifo.bytes();
        self.packets -= packets - flow.fifo.len();
        // Bytes in place of packets, so that flows of small packets get the same share.
        flow.credit -= packet.map_or(0, |packet| i64::from(packet.size));
        packet
    }
}

impl Queue for FqCodel {
    /// RFC 8290 section 4.1.
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        let index = self.queue_of(packet.flow);
        let flow = &mut self.flows[index as usize];
        self.bytes += u64::from(packet.size);
        self.packets += 1;
        // The packet goes in before the limit is checked: the longest queue pays, not the last flow
        // to send.
        flow.fifo.push(packet);
        if !flow.listed {
            flow.listed = true;
            // A queue that becomes busy has one quantum in the new list; more makes it an old one.
            flow.credit = self.config.quantum.0 as i64;
            self.new.push_back(index);
        }
        // Once is enough for the limit in packets; the one in bytes may take more.
        while !self.is_within_limits() {
            self.drop_from_fattest(drops);
        }
    }

    /// RFC 8290 section 4.2.
    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index as usize];
            // Credit may be below zero: a packet is sent whole, and its excess is taken from the
            // next turn.
            if flow.credit <= 0 {
                flow.credit += self.config.quantum.0 as i64;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let packet = self.serve(index, now, drops);
            if packet.is_some() {
                return packet;
            }
            if is_new {
                // By way of the old list, so that a flow of single packets cannot stay in front.
                self.new.pop_front();
                self.old.push_back(index);
            } else {
                self.old.pop_front();
                // Only an empty queue that has been through the old list leaves: its next packet
                // makes it new.
                self.flows[index as usize].listed = false;
            }
        }
    }

    fn into_packets(self: Box<Self>) -> Vec<Packet> {
        let of_flows = self.flows.into_iter().flat_map(|flow| flow.fifo.into_packets());
        let mut packets: Vec<Packet> = of_flows.collect();
        // A queue that takes over has one line, in which they stand as they came.
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
    use std::collections::HashSet;

    use super::*;
    use cellpace_base::ParamSet;

    fn queue(rest: &str, seed: u64) -> FqCodel {
        FqCodel::new(FqCodelParams::parse("fq_codel", rest).unwrap(), Random::seeded(seed, 1))
    }

    /// Lets `count` packets of a flow arrive; the ids and flows of what was dropped.
    fn send(queue: &mut FqCodel, flow: u32, count: u64, size: u32) -> Vec<(u64, u32)> {
        let mut drops = Drops::new();
        for id in 0..count {
            queue.enqueue(Time::ZERO, Packet::new(id, flow, size, Time::ZERO), &mut drops);
        }
        assert!(drops.iter().all(|(_, reason)| *reason == DropReason::Overflow));
        drops.iter().map(|(packet, _)| (packet.id, packet.flow)).collect()
    }

    fn next(queue: &mut FqCodel) -> Packet {
        queue.dequeue(Time::ZERO, &mut Drops::new()).unwrap()
    }

    fn waiting(queue: &FqCodel, flow: u32) -> usize {
        queue.flows[queue.queue_of(flow) as usize].fifo.len()
    }

    #[test]
    fn rfc8290_constants() {
        let config = FqCodelParams::parse("fq_codel", "").unwrap();
        assert_eq!((config.flows, config.quantum.0, config.batch), (1024, 1514, 64));
        assert_eq!(config.limit, Limit::Packets(10_240));
        assert_eq!(config.memory, ByteCount(32 << 20));
    }

    #[test]
    fn rfc8290_a_sparse_flow_is_served_first() {
        let mut queue = queue("", 1);
        send(&mut queue, 1, 100, 1500);
        send(&mut queue, 2, 100, 1500);
        for _ in 0..10 {
            next(&mut queue);
        }
        send(&mut queue, 3, 1, 100);
        assert_eq!(next(&mut queue).flow, 3);
    }

    #[test]
    fn rfc8290_flows_share_bytes_not_packets() {
        let mut queue = queue("", 1);
        send(&mut queue, 1, 1000, 1500);
        send(&mut queue, 2, 3000, 500);
        let mut bytes = [0_u64; 3];
        for _ in 0..2000 {
            let packet = next(&mut queue);
            bytes[packet.flow as usize] += u64::from(packet.size);
        }
        let ratio = bytes[1] as f64 / bytes[2] as f64;
        assert!((0.99..1.01).contains(&ratio), "{bytes:?}");
    }

    #[test]
    fn rfc8290_a_small_quantum_interleaves_small_packets() {
        let mut queue = queue("quantum=300B", 1);
        send(&mut queue, 1, 100, 1500);
        send(&mut queue, 2, 100, 100);
        let first: Vec<u32> = (0..17).map(|_| next(&mut queue).flow).collect();
        // 1500 bytes on credit for the one are fifteen packets of the other.
        assert_eq!(first.iter().filter(|flow| **flow == 1).count(), 2, "{first:?}");
    }

    #[test]
    fn rfc8290_flows_of_single_packets_cannot_stay_in_front() {
        let mut queue = queue("", 1);
        send(&mut queue, 1, 100, 1500);
        let mut served = [0; 4];
        for turn in 0..60 {
            // Two flows take turns, so that one of them always has an empty queue to come from.
            let flow = 2 + turn % 2;
            if waiting(&queue, flow) == 0 {
                send(&mut queue, flow, 1, 1500);
            }
            served[next(&mut queue).flow as usize] += 1;
        }
        assert!(served[1] >= 18, "{served:?}");
    }

    #[test]
    fn rfc8290_overlimit_drops_from_the_head_of_the_fattest() {
        let mut queue = queue("limit=100pkts", 1);
        assert_eq!(send(&mut queue, 1, 80, 1500), []);
        assert_eq!(send(&mut queue, 2, 20, 1500), []);
        // The packet over the limit is of flow 2; half of flow 1 pays for it.
        let dropped = send(&mut queue, 2, 1, 1500);
        assert_eq!(dropped, (0..40).map(|id| (id, 1)).collect::<Vec<_>>());
        assert_eq!(waiting(&queue, 2), 21);
        assert_eq!(queue.packets(), 61);
    }

    #[test]
    fn rfc8290_overlimit_drops_at_most_a_batch() {
        let mut queue = queue("limit=1000pkts", 1);
        assert_eq!(send(&mut queue, 1, 1001, 1500).len(), 64);
        let mut queue = self::queue("limit=1000pkts,batch=1", 1);
        assert_eq!(send(&mut queue, 1, 1001, 1500).len(), 1);
    }

    #[test]
    fn the_fattest_is_so_by_bytes() {
        let mut queue = queue("limit=100pkts", 1);
        send(&mut queue, 1, 70, 100);
        send(&mut queue, 2, 30, 1500);
        let dropped = send(&mut queue, 1, 1, 100);
        assert!(!dropped.is_empty() && dropped.iter().all(|(_, flow)| *flow == 2));
    }

    #[test]
    fn the_memory_limit_holds_whatever_the_sizes() {
        let mut queue = queue("memory=10kB", 1);
        for flow in 0..50 {
            send(&mut queue, flow, 1, 100);
        }
        send(&mut queue, 99, 1, 9_900);
        assert!(queue.bytes() <= 10_000, "{}", queue.bytes());
        // One that is larger than all the memory drops itself.
        assert!(send(&mut queue, 98, 1, 10_001).contains(&(0, 98)));
        assert!(queue.bytes() <= 10_000);
    }

    #[test]
    fn rfc8290_codel_punishes_only_the_flow_that_queues() {
        let mut queue = queue("", 1);
        let mut drops = Drops::new();
        for ms in 0..5_000 {
            let now = Time::from_millis(ms);
            for _ in 0..2 {
                queue.enqueue(now, Packet::new(ms, 1, 1500, now), &mut drops);
            }
            if ms % 20 == 0 {
                queue.enqueue(now, Packet::new(ms, 2, 200, now), &mut drops);
            }
            let sent = queue.dequeue(now, &mut drops).unwrap();
            assert!(sent.flow == 1 || now - sent.enqueued_at < cellpace_base::Span::from_millis(3));
        }
        assert!(drops.len() > 50);
        assert!(drops.iter().all(|(packet, why)| packet.flow == 1 && *why == DropReason::Aqm));
    }

    #[test]
    fn rfc8290_the_hash_spreads_and_depends_on_the_seed() {
        let map = |seed| {
            let queue = queue("", seed);
            (0..1024).map(|flow| queue.queue_of(flow)).collect::<Vec<_>>()
        };
        let (one, two) = (map(1), map(2));
        assert_ne!(one, two);
        assert_eq!(one, map(1));
        for map in [one, two] {
            assert!(map.iter().all(|index| *index < 1024));
            // 1024 balls into 1024 urns leave 1/e of them empty.
            let used = map.iter().collect::<HashSet<_>>().len();
            assert!((600..700).contains(&used), "{used}");
        }
    }

    #[test]
    fn two_flows_in_one_queue_share_it_in_order() {
        let mut queue = queue("flows=1", 1);
        send(&mut queue, 1, 2, 1500);
        send(&mut queue, 2, 2, 1500);
        let order: Vec<(u32, u64)> =
            (0..4).map(|_| next(&mut queue)).map(|p| (p.flow, p.id)).collect();
        assert_eq!(order, [(1, 0), (1, 1), (2, 0), (2, 1)]);
    }
}
