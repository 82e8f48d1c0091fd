//! A connection through a proxy: what it holds between its two legs.

use std::collections::VecDeque;

use cellpace_base::{Random, Time};
use cellpace_path::Packet;

use crate::chain_spec::ProxySpec;
use crate::connection::{Connection, EndRules, WrapController};
use crate::pieces::{PACKET_BYTES, PAYLOAD_BYTES, PieceSource};

/// Bytes of headers in each packet, which the next leg has anew.
const HEADER_BYTES: u64 = PACKET_BYTES - PAYLOAD_BYTES;

/// A piece that has arrived.
#[derive(Clone, Copy)]
pub(crate) struct HeldPiece {
    payload: u64,
    /// When the server sent it.
    pub(crate) sent_at: Time,
    /// When it and all before it were there.
    pub(crate) in_order_at: Time,
}

/// The proxy's part of one connection: pieces come over the wired leg and leave in order over the
/// radio leg, whose controller is the proxy's. They have the same numbers on both.
pub(crate) struct Relay {
    pub(crate) flow: usize,
    /// The connection of the flow that it carries.
    pub(crate) generation: u16,
    /// The leg towards the receiver.
    pub(crate) radio: Connection,
    /// Pieces that came before one with a smaller number, which is not there.
    ahead: VecDeque<Option<HeldPiece>>,
    /// Pieces from `released` on that were handed to the radio leg.
    handed: VecDeque<HeldPiece>,
    /// The receiver has acknowledged all pieces below this number.
    released: u64,
    /// How many of `handed` have left for the first time.
    left: usize,
    /// Pieces that it may keep; `u64::MAX`: any number.
    room: u64,
    /// The number below which the server was last told that it may send.
    offered: u64,
    /// Pieces that it keeps.
    pub(crate) held: u64,
}

impl Relay {
    pub(crate) fn new(
        (flow, generation): (usize, u16),
        spec: &ProxySpec,
        ends: EndRules,
        now: Time,
        random: &mut Random,
        connect: &mut WrapController<'_>,
    ) -> Self {
        // It grows for as long as the server sends: only the flow's connection knows the end.
        let source = PieceSource::transfers(true);
        let mut radio = Connection::new(&spec.cc, now, source, ends, generation, random, connect);
        // Arrivals have to be noted in order, so that the flow's transfers end when their data is
        // there.
        radio.note_received();
        let room = spec.room();
        Self {
            flow,
            generation,
            radio,
            ahead: VecDeque::new(),
            handed: VecDeque::new(),
            released: 0,
            left: 0,
            room,
            offered: room,
            held: 0,
        }
    }

    /// A piece came over the wired leg; what is in order now goes to the radio leg.
    pub(crate) fn on_piece(&mut self, now: Time, piece: u64, packet: &Packet) {
        let in_order = self.released + self.handed.len() as u64;
        // A piece below that was handed on already: the server sent it again without need.
        let Some(index) = piece.checked_sub(in_order) else { return };
        let index = index as usize;
        if index >= self.ahead.len() {
            // Bounded by what the proxy has offered; without a limit the run ends by `PacketRoom`.
            self.ahead.resize(index + 1, None);
        }
        if self.ahead[index].is_some() {
            return;
        }
        let payload = u64::from(packet.size).saturating_sub(HEADER_BYTES).max(1);
        self.ahead[index] = Some(HeldPiece { payload, sent_at: packet.sent_at, in_order_at: now });
        self.held += 1;
        while let Some(Some(held)) = self.ahead.front().copied() {
            self.ahead.pop_front();
            self.radio.append_piece(held.payload);
            // The time in the proxy counts from here: before, a gap in front of the piece held it
            // up.
            self.handed.push_back(HeldPiece { in_order_at: now, ..held });
        }
    }

    /// The piece that leaves over the radio leg, if it does so for the first time.
    pub(crate) fn leaves(&mut self, piece: u64) -> Option<HeldPiece> {
        let index = piece.checked_sub(self.released)? as usize;
        // A retransmission: its time in the proxy was counted when it first left.
        if index < self.left {
            return None;
        }
        self.left = index + 1;
        self.handed.get(index).copied()
    }

    /// A piece that was handed to the radio leg, while it is kept.
    pub(crate) fn piece(&self, number: u64) -> Option<HeldPiece> {
        self.handed.get(number.checked_sub(self.released)? as usize).copied()
    }

    /// Lets go of what the receiver has acknowledged. Returns whether the server is to be told
    /// at once that there is room again: for two packets more, or half of the buffer.
    pub(crate) fn release(&mut self) -> bool {
        let below = self.radio.acked_below();
        while self.released < below && self.handed.pop_front().is_some() {
            self.released += 1;
            self.left = self.left.saturating_sub(1);
            self.held -= 1;
        }
        // Not for each packet, as a receiver avoids silly windows (RFC 9293 section 3.8.6.2.2).
        self.limit() - self.offered >= (self.room / 2).clamp(1, 2)
    }

    /// The number below which the server may send from now on.
    pub(crate) fn offer(&mut self) -> u64 {
        self.offered = self.limit();
        self.offered
    }

    fn limit(&self) -> u64 {
        self.released.saturating_add(self.room)
    }

    /// Whether the receiver has acknowledged everything that came.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }
}
