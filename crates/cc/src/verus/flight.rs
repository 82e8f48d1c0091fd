//! What Verus knows of its packets in flight.

use cellpace_base::{Span, Time};

use crate::{AckedPacket, SentPacket};

/// Packets in flight, by their numbers, since the flow began or started over.
#[derive(Debug, Clone)]
pub(super) struct Flight {
    /// Packets sent and neither acked nor expired.
    pub(super) in_flight: u64,
    /// The number after the highest sent.
    pub(super) next_number: u64,
    /// Packets below are from before a restart: their acks are dropped.
    pub(super) session_first: u64,
    /// Packets below are accounted for: their acks are not samples.
    pub(super) first_live: u64,
    highest_acked: Option<u64>,
    /// Since when an ack has been due: the last one, or the first packet sent into silence.
    pub(super) quiet_since: Time,
    pub(super) last_rtt: Option<Span>,
    /// Whether any packet was acked.
    pub(super) has_acks: bool,
}

impl Flight {
    /// Nothing is in flight, and packets below `next_number` do not count.
    pub(super) fn new(next_number: u64, now: Time) -> Self {
        Self {
            in_flight: 0,
            next_number,
            session_first: next_number,
            first_live: next_number,
            highest_acked: None,
            quiet_since: now,
            last_rtt: None,
            has_acks: false,
        }
    }

    pub(super) fn on_sent(&mut self, packet: &SentPacket) {
        if self.in_flight == 0 {
            self.quiet_since = packet.now;
        }
        self.in_flight += 1;
        self.next_number = self.next_number.max(packet.number.saturating_add(1));
    }

    /// A packet that was in flight or missing is acked. What silence is counts from here if none
    /// sent later was acked before.
    pub(super) fn note_ack(&mut self, now: Time, packet: &AckedPacket) {
        if self.highest_acked.is_none_or(|highest| packet.number > highest) {
            self.highest_acked = Some(packet.number);
            self.quiet_since = now;
        }
    }

    /// A packet left the path, or is given up.
    pub(super) fn remove_one(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Nothing that was sent is in flight any more.
    pub(super) fn forget(&mut self) {
        self.in_flight = 0;
        self.first_live = self.next_number;
    }

    /// The number of a packet within its session, from 1.
    pub(super) fn count_of(&self, packet: &AckedPacket) -> u64 {
        (packet.number - self.session_first).saturating_add(1)
    }
}
