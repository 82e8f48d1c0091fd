//! A byte queue with a limit.

use std::collections::VecDeque;

/// Bytes in order, never more than a limit, in memory that grows with use.
#[derive(Debug)]
pub(super) struct BoundedQueue {
    bytes: VecDeque<u8>,
    limit: usize,
}

impl BoundedQueue {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn room(&self) -> usize {
        self.limit - self.bytes.len()
    }

    /// Takes as much as there is room for, and says how much.
    pub(super) fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.grow(self.bytes.len() + taken);
        self.bytes.extend(&bytes[..taken]);
        taken
    }

    /// Doubles up to the limit, not beyond.
    fn grow(&mut self, needed: usize) {
        let capacity = self.bytes.capacity();
        if needed > capacity {
            let wanted = needed.max(capacity.saturating_mul(2)).min(self.limit);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }

    pub(super) fn as_slices(&self) -> (&[u8], &[u8]) {
        self.bytes.as_slices()
    }

    /// Drops `count` bytes from the front, or all.
    pub(super) fn consume(&mut self, count: usize) -> usize {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        count
    }

    /// Moves `count` bytes from the front to `out`.
    pub(super) fn move_to(&mut self, out: &mut Vec<u8>, count: usize) {
        let (first, second) = self.bytes.as_slices();
        let cut = count.min(first.len());
        out.extend(&first[..cut]);
        out.extend(&second[..(count - cut).min(second.len())]);
        self.consume(count);
    }

    /// Gives memory back that nothing is in.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn alcc_t5_a_full_queue_takes_what_was_read() {
        let mut ring = BoundedQueue::new(1000);
        assert_eq!(ring.push(&[1; 1001]), 1000);
        assert_eq!(ring.push(&[1]), 0);
        ring.consume(17);
        assert_eq!(ring.push(&[1; 1000]), 17);
        assert_eq!(ring.consume(5000), 1000);
        ring.shrink();
        assert_eq!(ring.memory(), 0);
    }

    proptest! {
        #[test]
        fn alcc_t5_interleavings_preserve_the_stream_within_the_limit(
            steps in prop::collection::vec((1usize..4000, 0usize..4000), 1..200),
        ) {
            let mut ring = BoundedQueue::new(5000);
            let (mut written, mut out) = (0_usize, Vec::new());
            for (push, pull) in steps {
                let bytes: Vec<u8> = (written..written + push).map(|at| (at % 251) as u8).collect();
                written += ring.push(&bytes);
                let count = pull.min(ring.len());
                ring.move_to(&mut out, count);
                prop_assert_eq!(ring.len(), written - out.len());
                prop_assert!(ring.memory() <= 5000);
            }
            prop_assert!(out.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
        }
    }
}
