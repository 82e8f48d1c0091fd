//! First in, first out, with an end.

use std::collections::VecDeque;

use cellpace_base::{Time, Window, parse_window};

use super::{Drops, Queue};
use crate::{DropReason, Packet, PathError};

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Everything.
    None,
    /// This many bytes.
    Bytes(u64),
    /// This many packets.
    Packets(u64),
}

impl Limit {
    /// Reads `2MB` or `100pkts` behind the name of a queue.
    pub(super) fn parse(text: &str, owner: &'static str) -> Result<Self, PathError> {
        let limit = match parse_window(text) {
            Ok(Window::Bytes(bytes)) => Self::Bytes(bytes),
            Ok(Window::Packets(packets)) => Self::Packets(packets),
            Err(source) => return Err(PathError::Quantity { what: owner.into(), source }),
        };
        match limit {
            Self::Bytes(bytes) if bytes < u64::from(crate::OPPORTUNITY_BYTES) => {
                Err(PathError::TooSmall { what: owner.into(), text: text.into() })
            }
            Self::Packets(0) => Err(PathError::TooSmall { what: owner.into(), text: text.into() }),
            limit => Ok(limit),
        }
    }

    /// Whether a queue of `packets` packets and `bytes` bytes is within the limit.
    pub const fn holds(self, bytes: u64, packets: u64) -> bool {
        match self {
            Self::None => true,
            Self::Bytes(limit) => bytes <= limit,
            Self::Packets(limit) => packets <= limit,
        }
    }
}

/// A FIFO that refuses what does not fit any more.
#[derive(Debug)]
pub struct DropTail {
    limit: Limit,
    queue: VecDeque<Packet>,
    bytes: u64,
}

impl DropTail {
    /// An empty queue.
    pub const fn new(limit: Limit) -> Self {
        Self { limit, queue: VecDeque::new(), bytes: 0 }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        let bytes = self.bytes + u64::from(packet.size);
        if !self.limit.holds(bytes, self.queue.len() as u64 + 1) {
            drops.push((packet, DropReason::Overflow));
            return;
        }
        self.bytes = bytes;
        self.queue.push_back(packet);
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Drops) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.queue.len()
    }
}
