//! From what TCP acknowledges in bytes to packets (docs/spec/alcc.md 5).

use std::collections::VecDeque;

/// Packets that there is always room for, once there were any: some hundred bytes.
const KEPT: usize = 16;

/// A packet that was given to TCP.
#[derive(Debug, Clone, Copy)]
struct TcpPacket {
    /// Offset in the stream after its last byte.
    end: u64,
    /// Its number; that of the retransmission if there was one.
    number: u64,
    arrived: bool,
    repeated: bool,
}

/// The packets that TCP has not acknowledged, in the order of the stream. Packets may
/// have any length; boundaries are stored, not computed.
#[derive(Debug, Default)]
pub(crate) struct PacketMap {
    ring: VecDeque<TcpPacket>,
}

impl PacketMap {
    /// A packet was given to TCP that ends at `end`.
    pub(crate) fn push(&mut self, end: u64, number: u64) {
        self.ring.push_back(TcpPacket { end, number, arrived: false, repeated: false });
    }

    /// The bytes of the packet that ends at `end` were sent again as packet `number`.
    pub(crate) fn renumber(&mut self, end: u64, number: u64) {
        if let Ok(at) = self.ring.binary_search_by_key(&end, |piece| piece.end) {
            self.ring[at].number = number;
            self.ring[at].repeated = true;
        }
    }

    /// Everything before `offset` has arrived. Numbers of packets newly known to be there go to
    /// `take`, in the order of the stream, and whether they were sent more than once.
    pub(crate) fn arrived_until(&mut self, offset: u64, mut take: impl FnMut(u64, bool)) {
        while let Some(piece) = self.ring.front()
            && piece.end <= offset
        {
            if !piece.arrived {
                take(piece.number, piece.repeated);
            }
            self.ring.pop_front();
        }
    }

    /// TCP got selective acks of `count` segments that arrived behind `holes` missing ones. Which of them
    /// are missing it does not say: the oldest are taken to be, as on a path that keeps the order
    /// one loss leaves one hole.
    pub(crate) fn arrived_beyond(
        &mut self,
        holes: usize,
        count: usize,
        mut take: impl FnMut(u64, bool),
    ) {
        for piece in self.ring.iter_mut().skip(holes).take(count) {
            if !piece.arrived {
                piece.arrived = true;
                take(piece.number, piece.repeated);
            }
        }
    }

    /// The same where the last of these ends at `highest`, and so what lies between them and the
    /// acknowledged ones is known to be missing.
    pub(crate) fn arrived_up_to(
        &mut self,
        highest: u64,
        count: usize,
        take: impl FnMut(u64, bool),
    ) {
        // Ends grow along the ring, so the highest one is found without a walk.
        let below = self.ring.partition_point(|piece| piece.end <= highest);
        self.arrived_beyond(below.saturating_sub(count), count.min(below), take);
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Gives memory back that a large window needed once, and keeps what a small one needs again.
    pub(crate) fn rest(&mut self) {
        self.ring.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::sequence::SequenceUnwrap;

    fn pieces(sizes: &[u64]) -> PacketMap {
        let mut pieces = PacketMap::default();
        let mut end = 0;
        for (number, size) in sizes.iter().enumerate() {
            end += size;
            pieces.push(end, number as u64);
        }
        pieces
    }

    fn arrived(pieces: &mut PacketMap, offset: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        pieces.arrived_until(offset, |number, _| numbers.push(number));
        numbers
    }

    #[test]
    fn alcc_t1_acks_map_to_whole_packets() {
        let mut ack = SequenceUnwrap::new(1000);
        let mut pieces = pieces(&[1448, 1448, 1448]);
        let offset = ack.advance(3896).unwrap();
        assert_eq!(arrived(&mut pieces, offset), [0, 1]);
        let offset = ack.advance(5000).unwrap();
        assert_eq!(arrived(&mut pieces, offset), [0; 0], "half a packet");
        let offset = ack.advance(5344).unwrap();
        assert_eq!(arrived(&mut pieces, offset), [2]);
        assert_eq!(ack.advance(5344), None, "a repetition");
    }

    #[test]
    fn what_lies_below_the_highest_and_did_not_arrive_is_missing() {
        let mut pieces = pieces(&[1000; 8]);
        let mut up_to = |highest, count| {
            let mut numbers = Vec::new();
            pieces.arrived_up_to(highest, count, |number, _| numbers.push(number));
            numbers
        };
        assert_eq!(up_to(0, 0), [0; 0]);
        assert_eq!(up_to(3000, 1), [2], "two are missing");
        assert_eq!(up_to(4000, 2), [3]);
        assert_eq!(up_to(9000, 20), [0, 1, 4, 5, 6, 7], "more than there are");
    }

    #[test]
    fn what_was_sent_again_is_told_with_its_new_number() {
        let mut pieces = pieces(&[1000, 1000]);
        pieces.renumber(1000, 9);
        let mut found = Vec::new();
        pieces.arrived_until(2000, |number, repeated| found.push((number, repeated)));
        assert_eq!(found, [(9, true), (1, false)]);
    }

    #[test]
    fn alcc_t2_a_short_packet_does_not_shift_the_others() {
        let mut pieces = pieces(&[1448, 500, 1448]);
        assert_eq!(arrived(&mut pieces, 1948), [0, 1]);
        assert_eq!(arrived(&mut pieces, 3395), [0; 0]);
        assert_eq!(arrived(&mut pieces, 3396), [2]);
    }

    #[test]
    fn alcc_t3_sequence_numbers_wrap() {
        let start = (1u64 << 32) - 1000;
        let mut ack = SequenceUnwrap::new(start as u32);
        let mut first = pieces(&[1448]);
        let offset = ack.advance(448).unwrap();
        assert_eq!(offset, 1448);
        assert_eq!(arrived(&mut first, offset), [0]);

        // 10 GiB in packets of 1448 bytes, acked a thousand at a time: two wraps and more.
        let mut ack = SequenceUnwrap::new(start as u32);
        let (mut sent, mut number) = (0u64, 0u64);
        let mut pieces = PacketMap::default();
        while sent < 10 << 30 {
            let expected: Vec<u64> = (number..number + 1000).collect();
            for _ in 0..1000 {
                sent += 1448;
                pieces.push(sent, number);
                number += 1;
            }
            let offset = ack.advance((start + sent) as u32).unwrap();
            assert_eq!(offset, sent);
            assert_eq!(arrived(&mut pieces, offset), expected);
        }
    }

    #[test]
    fn alcc_t4_old_acks_change_nothing() {
        let mut ack = SequenceUnwrap::new(0);
        assert_eq!(ack.advance(2896), Some(2896));
        assert_eq!(ack.advance(1448), None);
        assert_eq!(ack.advance(4344), Some(4344));
    }

    #[test]
    fn what_arrived_behind_a_hole_is_told_once() {
        let mut pieces = pieces(&[1448; 6]);
        let mut numbers = Vec::new();
        pieces.arrived_beyond(1, 2, |number, _| numbers.push(number));
        pieces.arrived_beyond(1, 3, |number, _| numbers.push(number));
        assert_eq!(numbers, [1, 2, 3]);
        pieces.renumber(1448, 6);
        assert_eq!(arrived(&mut pieces, 6 * 1448), [6, 4, 5], "the hole was sent again as 6");
        assert_eq!(pieces.len(), 0);
    }
}
