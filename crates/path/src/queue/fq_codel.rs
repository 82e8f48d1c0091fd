//! FQ-CoDel, RFC 8290: a queue for each flow, served in turn by bytes, each under CoDel; flows
//! that send little go first.

use std::collections::VecDeque;

use cellpace_base::{Args, Kind, Param, Random, Time, format_bytes};

use super::codel::{CodelConfig, Control, INTERVAL, MTU, TARGET};
use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, OPPORTUNITY_BYTES, Packet, PathError};

/// The parameters of FQ-CoDel.
pub const FQ_CODEL_PARAMS: &[Param] = &[
    TARGET,
    INTERVAL,
    MTU,
    Param {
        key: "flows",
        kind: Kind::Integer(1, 65_535),
        default: "1024",
        unit: "",
        help: "queues; flows are hashed onto them",
        source: "RFC 8290 section 5.2.5",
    },
    Param {
        key: "quantum",
        kind: Kind::Bytes(64, 1_000_000),
        default: "1514B",
        unit: "",
        help: "bytes a queue may send before the next has its turn",
        source: "RFC 8290 section 5.2.4",
    },
    Param {
        key: "batch",
        kind: Kind::Integer(1, 65_535),
        default: "64",
        unit: "pkt",
        help: "most packets dropped at once from the longest queue when the limit is passed",
        source: "RFC 8290 section 4.1",
    },
    Param {
        key: "limit",
        kind: Kind::Window,
        default: "10240pkts",
        unit: "",
        help: "hard limit of all queues together, bytes or packets",
        source: "RFC 8290 section 5.2.3",
    },
    Param {
        key: "memory",
        kind: Kind::Bytes(0, 1 << 50),
        default: "32MiB",
        unit: "",
        help: "second hard limit of all queues together, in bytes",
        source: "own choice, as in Linux tc",
    },
];

/// How FQ-CoDel decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCodelConfig {
    codel: CodelConfig,
    flows: u32,
    quantum: i64,
    batch: usize,
    limit: Limit,
    memory: Limit,
}

impl FqCodelConfig {
    pub(super) fn read(rest: &str) -> Result<Self, PathError> {
        let args = Args::parse("fq_codel", rest, FQ_CODEL_PARAMS)?;
        let memory = args.bytes("memory");
        if memory < u64::from(OPPORTUNITY_BYTES) {
            let (what, text) = ("fq_codel: memory".into(), format_bytes(memory));
            return Err(PathError::TooSmall { what, text });
        }
        Ok(Self {
            codel: CodelConfig::of(&args),
            flows: args.integer("flows") as u32,
            quantum: args.bytes("quantum") as i64,
            batch: args.integer("batch") as usize,
            limit: Limit::of(args.window("limit"), "fq_codel: limit")?,
            memory: Limit::Bytes(memory),
        })
    }
}

/// Fair queueing with CoDel in each queue.
#[derive(Debug)]
pub struct FqCodel {
    config: FqCodelConfig,
    /// Secret of the hash, so that no sender can choose its neighbours (RFC 8290 section 4.1).
    perturbation: u64,
    flows: Vec<Flow>,
    /// Queues that became busy lately; served before `old`.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    bytes: u64,
    packets: usize,
}

#[derive(Debug)]
struct Flow {
    fifo: Fifo,
    control: Control,
    /// Bytes it may still send in this turn.
    credit: i64,
    /// Whether it stands in one of the two lists.
    listed: bool,
}

impl FqCodel {
    /// An empty queue. `random` perturbs the hash.
    pub fn new(config: FqCodelConfig, mut random: Random) -> Self {
        let flow = || Flow { fifo: Fifo::new(), control: Control::new(), credit: 0, listed: false };
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
        ((hash * u64::from(self.config.flows)) >> 32) as u32
    }

    fn is_within_limits(&self) -> bool {
        let packets = self.packets as u64;
        self.config.limit.holds(self.bytes, packets)
            && self.config.memory.holds(self.bytes, packets)
    }

    /// RFC 8290 section 4.1: half of the longest queue goes, from its head, so that finding it
    /// is paid for by many packets.
    fn drop_from_fattest(&mut self, drops: &mut Drops) {
        let listed = self.new.iter().chain(&self.old);
        let fattest = listed.copied().max_by_key(|&index| self.flows[index as usize].fifo.bytes());
        let Some(index) = fattest else { return };
        let fifo = &mut self.flows[index as usize].fifo;
        let half = fifo.len().div_ceil(2);
        for _ in 0..half.min(self.config.batch) {
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
        flow.fifo.push(packet);
        if !flow.listed {
            flow.listed = true;
            flow.credit = self.config.quantum;
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
            if flow.credit <= 0 {
                flow.credit += self.config.quantum;
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
                self.flows[index as usize].listed = false;
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.packets
    }
}
