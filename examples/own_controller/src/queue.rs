//! A queue of your own: small packets, as of calls and requests, leave first.

use std::collections::VecDeque;

use cellpace_path::queue::{Drops, Queue, QueueInfo, QueueParams};
use cellpace_path::{ByteCount, DropReason, Packet, Random, Time, params};

/// What `cellpace_path::queue::register` takes.
pub const SMALL_FIRST: QueueInfo = QueueInfo::new::<SmallFirstParams>(
    "small_first",
    "two FIFOs, of which that of small packets is served first",
    "small_first:small=200B",
);

params! {
    /// The parameters, as in `--queue small_first:small=300B,limit=100kB`.
    pub struct SmallFirstParams {
        /// Packets up to this size go first
        small: ByteCount = "200B" in 40..=1500, from "own choice";
        /// Bytes that wait at most
        limit: ByteCount = "2MB" in 1500..=1_000_000_000, from "the default queue";
    }
}

impl QueueParams for SmallFirstParams {
    fn build(&self, _random: Random) -> Box<dyn Queue> {
        Box::new(SmallFirst { params: self.clone(), lines: Default::default(), bytes: 0 })
    }
}

struct SmallFirst {
    params: SmallFirstParams,
    /// Small packets, then the others.
    lines: [VecDeque<Packet>; 2],
    bytes: u64,
}

impl Queue for SmallFirst {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        let size = u64::from(packet.size);
        if self.bytes + size > self.params.limit.0 {
            drops.push((packet, DropReason::Overflow));
            return;
        }
        self.bytes += size;
        self.lines[usize::from(size > self.params.small.0)].push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Drops) -> Option<Packet> {
        let packet = self.lines.iter_mut().find_map(VecDeque::pop_front)?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    fn into_packets(self: Box<Self>) -> Vec<Packet> {
        self.lines.into_iter().flatten().collect()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.lines.iter().map(VecDeque::len).sum()
    }
}
