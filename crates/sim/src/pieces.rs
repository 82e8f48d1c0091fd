//! Data in pieces of one packet each.

use std::collections::VecDeque;

use cellpace_path::OPPORTUNITY_BYTES;

/// Full packets, IP header included.
pub(crate) const PACKET_BYTES: u64 = OPPORTUNITY_BYTES as u64;

/// What a full packet of a transfer carries: 1500 bytes less the headers of IPv4 and TCP with
/// timestamps.
pub(crate) const PAYLOAD_BYTES: u64 = 1448;

/// What a full packet of a video carries: 1500 bytes less the headers of IPv4, UDP and twelve of its own.
pub(crate) const FRAME_PAYLOAD_BYTES: u64 = 1460;

/// Pieces that are there, of those numbered from zero: all below a number, and some above it.
#[derive(Default)]
pub(crate) struct PieceSet {
    below: u64,
    /// Which of the pieces from there on are there: far fewer than what has been sent.
    above: VecDeque<bool>,
}

impl PieceSet {
    /// All pieces below this number are there.
    pub(crate) fn below(&self) -> u64 {
        self.below
    }

    /// Adds a piece, which may be there already.
    pub(crate) fn insert(&mut self, piece: u64) {
        let Some(index) = piece.checked_sub(self.below) else { return };
        let index = index as usize;
        if index >= self.above.len() {
            self.above.resize(index + 1, false);
        }
        self.above[index] = true;
        while self.above.front() == Some(&true) {
            self.above.pop_front();
            self.below += 1;
        }
    }
}

/// Data in pieces, numbered from zero, and which of them have arrived.
pub(crate) struct PieceSource {
    next_piece: u64,
    /// `u64::MAX`: endless.
    pieces: u64,
    /// Pieces that do not fill their packet, and the packet's size.
    short: VecDeque<(u64, u64)>,
    /// Those acknowledged; not kept where there is no end.
    done: PieceSet,
    pub(crate) open: bool,
    /// More pieces may follow.
    grows: bool,
    /// The other end has room for the pieces below this number.
    offered: u64,
    /// The other end is a proxy that has not handed on everything.
    held: bool,
}

impl PieceSource {
    fn with(pieces: u64, grows: bool) -> Self {
        let (short, done) = (VecDeque::new(), PieceSet::default());
        let (offered, held) = (u64::MAX, false);
        Self { next_piece: 0, pieces, short, done, open: true, grows, offered, held }
    }

    /// The same to a proxy that has room for so many pieces, and says when it has handed on all.
    pub(crate) fn through_proxy(self, room: u64) -> Self {
        Self { offered: room, held: true, ..self }
    }

    /// Always more.
    pub(crate) fn endless() -> Self {
        Self::with(u64::MAX, false)
    }

    /// A file of `bytes`, headers included.
    pub(crate) fn file(bytes: u64) -> Self {
        let mut source = Self::with(0, false);
        source.append(
            bytes.div_ceil(PACKET_BYTES),
            bytes - (bytes - 1) / PACKET_BYTES * PACKET_BYTES,
        );
        source
    }

    /// Nothing yet, for transfers. If it `grows`, it is never done.
    pub(crate) fn transfers(grows: bool) -> Self {
        Self::with(0, grows)
    }

    /// Adds a transfer of `bytes`, without headers. Returns the number behind its last piece.
    pub(crate) fn append_transfer(&mut self, bytes: u64) -> u64 {
        // An empty transfer still has a packet, by whose arrival it is complete.
        let pieces = bytes.div_ceil(PAYLOAD_BYTES).max(1);
        let last = bytes - (pieces - 1) * PAYLOAD_BYTES;
        self.append(pieces, last + PACKET_BYTES - PAYLOAD_BYTES);
        self.pieces
    }

    /// Adds a frame of `bytes`, without headers, in packets of their own.
    pub(crate) fn append_frame(&mut self, bytes: u64) {
        let pieces = bytes.div_ceil(FRAME_PAYLOAD_BYTES).max(1);
        let last = bytes - (pieces - 1) * FRAME_PAYLOAD_BYTES;
        self.append(pieces, last + PACKET_BYTES - FRAME_PAYLOAD_BYTES);
    }

    /// All pieces below this number have been taken.
    pub(crate) fn taken(&self) -> u64 {
        self.next_piece
    }

    /// Drops what has not been taken.
    pub(crate) fn drop_untaken(&mut self) {
        // The numbers of dropped pieces stay unused, so that acks of later ones still match.
        self.next_piece = self.pieces;
        self.short.clear();
    }

    fn append(&mut self, pieces: u64, last_bytes: u64) {
        self.pieces += pieces;
        if last_bytes < PACKET_BYTES {
            self.short.push_back((self.pieces - 1, last_bytes));
        }
    }

    pub(crate) fn has_more(&self) -> bool {
        self.next_piece < self.pieces.min(self.offered)
    }

    /// Whether there is more than the other end has room for.
    pub(crate) fn is_beyond_offer(&self) -> bool {
        self.offered <= self.next_piece && self.next_piece < self.pieces
    }

    /// The other end has room for all pieces below this number. It never takes room back.
    pub(crate) fn offer(&mut self, below: u64) {
        // Messages may overtake each other, and an older one has a smaller number.
        self.offered = self.offered.max(below);
    }

    /// The proxy has handed on everything.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    /// Whether only a proxy that has not handed on everything keeps it from being done.
    pub(crate) fn is_at_proxy(&self) -> bool {
        self.held && self.is_acked()
    }

    /// All pieces below this number have been acknowledged, where there is an end.
    pub(crate) fn acked_below(&self) -> u64 {
        self.done.below()
    }

    fn is_acked(&self) -> bool {
        !self.grows && self.done.below() == self.pieces
    }

    /// Size of the next packet. When a short piece is sent again it counts as a full one, which
    /// errs on the safe side of the window.
    pub(crate) fn next_bytes(&self, retransmission: bool) -> u64 {
        match self.short.front() {
            Some((piece, bytes)) if *piece == self.next_piece && !retransmission => *bytes,
            _ => PACKET_BYTES,
        }
    }

    pub(crate) fn take(&mut self) -> u64 {
        if self.short.front().is_some_and(|(piece, _)| *piece == self.next_piece) {
            self.short.pop_front();
        }
        self.next_piece += 1;
        self.next_piece - 1
    }

    /// A piece was acknowledged.
    pub(crate) fn arrived(&mut self, piece: u64) {
        // An endless source keeps no account, which would grow for as long as it runs.
        if self.pieces != u64::MAX && piece < self.next_piece {
            self.done.insert(piece);
        }
    }

    /// Whether all has been acknowledged and no more will follow.
    pub(crate) fn is_done(&self) -> bool {
        !self.held && self.is_acked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(source: &mut PieceSource) -> Vec<u64> {
        let next = || {
            let bytes = source.has_more().then(|| source.next_bytes(false))?;
            source.take();
            Some(bytes)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_file_is_done_when_each_of_its_pieces_has_arrived() {
        let mut source = PieceSource::file(2 * PACKET_BYTES + 1);
        assert_eq!(sizes(&mut source), [1500, 1500, 1]);
        for (piece, done_below) in [(2, 0), (2, 0), (0, 1), (0, 1), (7, 1), (1, 3)] {
            assert!(!source.is_done());
            source.arrived(piece);
            assert_eq!(source.done.below(), done_below, "{piece}");
        }
        assert!(source.is_done());
        assert_eq!(sizes(&mut PieceSource::file(3000)), [1500, 1500]);
    }

    #[test]
    fn a_file_larger_than_any_disk_costs_what_is_in_flight() {
        let mut source = PieceSource::file(u64::MAX);
        for piece in 0..100_000 {
            assert_eq!(source.take(), piece);
            if piece >= 20 {
                source.arrived(piece - 20);
            }
        }
        assert!(source.done.above.len() <= 20);
        assert!(source.has_more());
    }

    #[test]
    fn transfers_follow_one_another_in_packets_of_their_own() {
        let mut source = PieceSource::transfers(true);
        assert_eq!(source.append_transfer(2 * 1448 + 100), 3);
        assert_eq!(source.append_transfer(1448), 4);
        assert_eq!(source.append_transfer(1), 5);
        assert_eq!(sizes(&mut source), [1500, 1500, 152, 1500, 53]);
        (0..5).for_each(|piece| source.arrived(piece));
        assert!(!source.is_done(), "another may follow");
        let mut once = PieceSource::transfers(false);
        once.append_transfer(1);
        once.take();
        once.arrived(0);
        assert!(once.is_done());
    }
}
