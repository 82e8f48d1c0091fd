//! When which flow has something to do, and the acks on their way to it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cellpace_base::Time;
use cellpace_path::Packet;

use crate::transfers::Leg;

/// One timer per flow. Deadlines mostly move later (each ack pushes the retransmission timer
/// back), so an entry stays in the heap and is looked at again when it comes up.
pub(crate) struct Timers {
    pub(crate) heap: BinaryHeap<Reverse<(Time, usize)>>,
    /// The earliest entry of each flow in the heap.
    armed: Vec<Time>,
}

impl Timers {
    pub(crate) fn new(flows: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(flows * 2), armed: vec![Time::MAX; flows] }
    }

    #[inline]
    pub(crate) fn arm(&mut self, flow: usize, deadline: Option<Time>) {
        let Some(deadline) = deadline else { return };
        if deadline < self.armed[flow] {
            self.armed[flow] = deadline;
            // Ties go to the flow with the smaller number, so that a run is the same each time.
            self.heap.push(Reverse((deadline, flow)));
        }
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }

    pub(crate) fn pop(&mut self) -> Option<usize> {
        let Reverse((time, flow)) = self.heap.pop()?;
        // An older entry of the flow may be left in the heap: only the earliest is the armed one.
        if self.armed[flow] == time {
            self.armed[flow] = Time::MAX;
        }
        Some(flow)
    }
}

/// Bytes of a packet that carries nothing but an ack: IPv4, UDP and a small header.
pub(crate) const ACK_BYTES: u32 = 60;

/// The contents of an ack.
#[derive(Clone)]
pub(crate) struct AckMessage {
    pub(crate) generation: u16,
    /// How much of the receiver's log it covers; `None` for a mere report.
    pub(crate) upto: Option<u64>,
    pub(crate) report: Option<Vec<u8>>,
    /// It is no ack, but a packet of a handshake or a request.
    pub(crate) leg: Option<Leg>,
    /// The number below which the server may send to a proxy.
    pub(crate) offer: Option<u64>,
}

impl AckMessage {
    /// Nothing yet, of the connection with this generation.
    pub(crate) const fn of(generation: u16) -> Self {
        Self { generation, upto: None, report: None, leg: None, offer: None }
    }

    /// A packet of a handshake or a request.
    pub(crate) fn leg(leg: Leg) -> Self {
        Self { leg: Some(leg), ..Self::of(0) }
    }

    /// Bytes of its packet.
    pub(crate) fn bytes(&self) -> u32 {
        match self.leg {
            Some(leg) => leg.bytes,
            None => ACK_BYTES + self.report.as_ref().map_or(0, |report| report.len() as u32),
        }
    }

    /// The mere ack that `packet` is, unless it is more.
    fn in_packet(packet: &Packet) -> Option<Self> {
        let generation = u16::try_from(packet.id).ok()?;
        Some(Self { upto: Some(packet.tag), ..Self::of(generation) })
    }
}

/// What acks in flight say. A mere ack has room in its packet; other messages are in slots that are
/// used again.
#[derive(Default)]
pub(crate) struct AckStore {
    pub(crate) slots: Vec<AckMessage>,
    pub(crate) free: Vec<u64>,
}

impl AckStore {
    /// Added to slots in the ids of packets, so that they are no generation.
    const FIRST_SLOT: u64 = 1 << 16;

    /// The packet with the message.
    #[inline]
    pub(crate) fn load(&mut self, packet: Packet, message: AckMessage) -> Packet {
        match message {
            AckMessage { generation, upto: Some(upto), report: None, leg: None, offer: None } => {
                Packet { id: generation.into(), tag: upto, ..packet }
            }
            _ => Packet { id: Self::FIRST_SLOT + self.put(message), ..packet },
        }
    }

    fn put(&mut self, message: AckMessage) -> u64 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = message;
                slot
            }
            None => {
                self.slots.push(message);
                self.slots.len() as u64 - 1
            }
        }
    }

    /// The message of a copy of the packet, which itself is still to be taken.
    pub(crate) fn copy(&self, packet: &Packet) -> AckMessage {
        AckMessage::in_packet(packet)
            .unwrap_or_else(|| self.slots[(packet.id - Self::FIRST_SLOT) as usize].clone())
    }

    /// The message of a packet that has arrived or is lost.
    #[inline]
    pub(crate) fn take(&mut self, packet: &Packet) -> AckMessage {
        if let Some(message) = AckMessage::in_packet(packet) {
            return message;
        }
        let slot = packet.id - Self::FIRST_SLOT;
        self.free.push(slot);
        let message = &mut self.slots[slot as usize];
        // Only the report owns memory: all else may stay in the slot until it is used again.
        AckMessage { report: message.report.take(), ..*message }
    }
}
