//! The receiver's memory of a stream: what came out of order, and what nobody has read yet.

use std::ops::Range;

use crate::ranges::RangeSet;

/// Pieces of a stream in a ring that grows to the limit and no further.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// Byte `offset` of the stream is at `offset` modulo the length, which is a power of two.
    ring: Vec<u8>,
    limit: u64,
    consumed: u64,
    held: RangeSet,
}

/// So many holes are remembered at most: beyond that, whoever sends makes holes on purpose.
const MOST_RANGES: usize = 8192;

const FIRST_RING: usize = 1 << 14;

impl Assembly {
    /// Holds at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self { ring: Vec::new(), limit, consumed: 0, held: RangeSet::default() }
    }

    /// The offset up to which bytes are taken.
    pub(crate) fn window(&self) -> u64 {
        self.consumed.saturating_add(self.limit)
    }

    /// Bytes read so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.ring.len() + self.held.len() * size_of::<Range<u64>>()
    }

    /// Takes a piece. Returns whether it was taken: it is not if it goes beyond the window or
    /// makes too many holes.
    pub(crate) fn insert(&mut self, offset: u64, piece: &[u8]) -> bool {
        let Some(end) = offset.checked_add(piece.len() as u64) else { return false };
        if end > self.window() || self.held.len() >= MOST_RANGES {
            return false;
        }
        let start = offset.max(self.consumed);
        if start >= end {
            return true;
        }
        self.grow((end - self.consumed) as usize);
        self.put(start, &piece[(start - offset) as usize..]);
        self.held.insert(start..end);
        true
    }

    /// The bytes that come next, in two parts.
    pub(crate) fn readable(&self) -> (&[u8], &[u8]) {
        match self.held.first() {
            Some(first) if first.start == self.consumed => self.parts(first),
            _ => (&[], &[]),
        }
    }

    /// `count` of the readable bytes were read.
    pub(crate) fn consume(&mut self, count: usize) {
        self.consumed += count as u64;
        self.held.remove_below(self.consumed);
    }

    fn grow(&mut self, needed: usize) {
        if needed <= self.ring.len() {
            return;
        }
        let mut larger = Self { ring: Vec::new(), held: RangeSet::default(), ..*self };
        larger.ring.resize(needed.next_power_of_two().max(FIRST_RING), 0);
        for held in self.held.iter() {
            let (first, second) = self.parts(held);
            larger.put(held.start, first);
            larger.put(held.start + first.len() as u64, second);
        }
        self.ring = larger.ring;
    }

    /// Where a range of the stream is, if no more of it than the ring's length is asked for.
    fn parts(&self, range: &Range<u64>) -> (&[u8], &[u8]) {
        let length = (range.end - range.start) as usize;
        let start = self.index(range.start);
        let first = length.min(self.ring.len() - start);
        (&self.ring[start..start + first], &self.ring[..length - first])
    }

    fn put(&mut self, offset: u64, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        let start = self.index(offset);
        let first = piece.len().min(self.ring.len() - start);
        self.ring[start..start + first].copy_from_slice(&piece[..first]);
        self.ring[..piece.len() - first].copy_from_slice(&piece[first..]);
    }

    fn index(&self, offset: u64) -> usize {
        offset as usize & (self.ring.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(range: Range<u64>) -> Vec<u8> {
        range.map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    fn read(assembly: &mut Assembly, most: usize) -> Vec<u8> {
        let (first, second) = assembly.readable();
        let mut bytes = [first, second].concat();
        bytes.truncate(most);
        assembly.consume(bytes.len());
        bytes
    }

    #[test]
    fn what_lies_beyond_the_window_is_refused() {
        let mut assembly = Assembly::new(100);
        assert!(assembly.insert(90, &content(90..100)));
        assert!(!assembly.insert(91, &content(91..101)));
        assert!(!assembly.insert(u64::MAX, &[1, 2]));
        assert!(assembly.insert(0, &content(0..90)));
        assert_eq!(read(&mut assembly, 50), content(0..50));
        assert_eq!(assembly.window(), 150);
        assert!(assembly.insert(100, &content(100..150)));
        assert_eq!(read(&mut assembly, 500), content(50..150));
    }

    #[test]
    fn holes_are_bounded() {
        let mut assembly = Assembly::new(1 << 24);
        let taken = (0..1 << 20).filter(|hole| assembly.insert(1 + 2 * hole, &[7])).count();
        assert_eq!(taken, MOST_RANGES);
        assert!(assembly.memory() < 1 << 18);
    }

    proptest! {
        /// Whatever comes in whatever order and however often, what is read is the stream.
        #[test]
        fn pieces_become_the_stream(
            limit in 1u64..70_000,
            steps in prop::collection::vec((0u64..90_000, 0u64..3000, 0usize..4000), 1..200),
        ) {
            let mut assembly = Assembly::new(limit);
            let (mut seen, mut base) = (0, 0);
            for (start, length, most) in steps {
                let start = (base + start % (limit + 10)).saturating_sub(5);
                let taken = assembly.insert(start, &content(start..start + length));
                prop_assert_eq!(taken, start + length <= assembly.window());
                let bytes = read(&mut assembly, most);
                prop_assert_eq!(&bytes, &content(seen..seen + bytes.len() as u64));
                seen += bytes.len() as u64;
                base = seen;
                prop_assert!(assembly.memory() <= 2 * limit as usize + FIRST_RING + (1 << 14));
            }
        }
    }
}
