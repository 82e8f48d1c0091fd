//! A packet on its way and what became of it.

use cellpace_base::{Ecn, Span, Time};

/// A packet in the path: a description, not the bytes, which stay with the driver of the model.
/// The path fills in the times as they come to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The owner's handle; the path only carries it.
    pub id: u64,
    /// Bytes of the owner that travel along; the path does not look at them.
    pub tag: u64,
    /// Flow number: queues that are fair among flows and per-flow delays go by it.
    pub flow: u32,
    /// Size in bytes, IP header included.
    pub size: u32,
    /// Its ECN codepoint, which queues on the way may change to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// Whether a queue of this path has set [`Ecn::Ce`] on it.
    pub marked: bool,
    /// When it entered the path.
    pub sent_at: Time,
    /// When it reached the queue (or was dropped on the way there).
    pub enqueued_at: Time,
    /// When the link took it out of the queue.
    pub dequeued_at: Time,
    /// When its last byte left the link.
    pub departed_at: Time,
}

impl Packet {
    /// A packet that enters the path at `now`, without ECN.
    pub const fn new(id: u64, flow: u32, size: u32, now: Time) -> Self {
        Self {
            id,
            tag: 0,
            flow,
            size,
            ecn: Ecn::NotEct,
            marked: false,
            sent_at: now,
            enqueued_at: now,
            dequeued_at: now,
            departed_at: now,
        }
    }

    /// Marks it, if its transport understands that; else the caller drops it (RFC 3168 section
    /// 5). A mark that a queue in front has set stays, and is not counted again.
    pub(crate) fn mark(&mut self) -> bool {
        // By this path only: a mark that a packet brings along says nothing of this path's queue.
        self.marked |= self.ecn.is_capable() && !self.ecn.is_marked();
        if self.ecn.is_capable() {
            self.ecn = Ecn::Ce;
        }
        self.ecn.is_capable()
    }
}

/// Why the model dropped a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// Random loss on the way.
    Random,
    /// The queue was full.
    Overflow,
    /// An AQM dropped it early.
    Aqm,
    /// It waited for a path that was given up in a handover.
    Handover,
    /// It crossed the link and was damaged, so the receiver discards it.
    Corrupt,
}

impl DropReason {
    /// The word for logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Overflow => "overflow",
            Self::Aqm => "aqm",
            Self::Handover => "handover",
            Self::Corrupt => "corrupt",
        }
    }
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It left the link.
    Delivered,
    /// A copy of it left the link. The record of the packet itself follows at once: this one is
    /// not the packet's fate.
    Duplicate,
    /// The model dropped it.
    Dropped(DropReason),
}

impl Fate {
    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Duplicate => "duplicate",
            Self::Dropped(reason) => reason.name(),
        }
    }
}

/// The typed record of one packet's way through the path, written when its fate is known. Logs,
/// measures, captures and plots are all made from these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// The packet with its times; those after a drop repeat the time of the drop.
    pub packet: Packet,
    /// Delivered or dropped.
    pub fate: Fate,
}

impl PacketRecord {
    /// Fixed delay in front of the queue.
    pub fn base_delay(&self) -> Span {
        self.packet.enqueued_at - self.packet.sent_at
    }

    /// From arrival at the queue to leaving the link: the queue delay of every report.
    pub fn queue_delay(&self) -> Span {
        self.packet.departed_at - self.packet.enqueued_at
    }

    /// The part of the queue delay spent at the head of the line, waiting for opportunities.
    pub fn link_wait(&self) -> Span {
        self.packet.departed_at - self.packet.dequeued_at
    }

    /// The whole way.
    pub fn one_way_delay(&self) -> Span {
        self.packet.departed_at - self.packet.sent_at
    }
}
