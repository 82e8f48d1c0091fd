//! What arrives of a stream in any order, handed on in the stream's.

use std::collections::BTreeMap;

use cellpace_base::quota::MemoryTally;

/// Bytes that one stream holds behind a hole at most: a quarter of a second at 2 Gbit/s.
const MAX_HELD: u64 = 1 << 26;
/// What a held piece takes beside its bytes, so that very small pieces are bounded, too.
const COST_OF_A_PIECE: u64 = 128;

/// Holds pieces until what is before them has arrived.
///
/// The QUIC stack can do so itself, but gives up connections whose streams have more than 1024 holes
/// (<https://github.com/quinn-rs/quinn/issues/2809>), as a window of several thousand packets has
/// when a queue overflows. Not as in `cellpace-udp`, where a piece may be refused and comes again: what the
/// stack hands over here was acknowledged.
#[derive(Debug)]
pub(super) struct Reassembly {
    /// The stream's next byte that was not handed on.
    next: u64,
    held: BTreeMap<u64, Vec<u8>>,
    /// What is held, of the memory of all streams.
    memory: MemoryTally,
}

impl Reassembly {
    /// Begins at the stream's first byte; what it holds counts towards `memory`.
    pub(super) const fn new(memory: MemoryTally) -> Self {
        Self { next: 0, held: BTreeMap::new(), memory }
    }

    /// Takes a piece that overlaps none before it; returns whether it is the next and was not held.
    ///
    /// # Errors
    ///
    /// Too much waits for what is missing.
    pub(super) fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<bool, String> {
        if bytes.is_empty() {
            return Ok(false);
        }
        if offset == self.next {
            self.next += bytes.len() as u64;
            return Ok(true);
        }
        let cost = cost_of(bytes);
        if self.memory.bytes() + cost > MAX_HELD {
            return Err(format!("more than {MAX_HELD} bytes wait for byte {}", self.next));
        }
        if !self.memory.add(cost) {
            return Err("all memory for what arrives out of order is in use".to_owned());
        }
        // The piece may be a small part of a large buffer that many packets came in: a copy.
        self.held.insert(offset, bytes.to_vec());
        Ok(false)
    }

    /// The next piece, if it is here.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let entry = self.held.first_entry()?;
        if *entry.key() != self.next {
            return None;
        }
        let bytes = entry.remove();
        self.next += bytes.len() as u64;
        self.memory.subtract(cost_of(&bytes));
        Some(bytes)
    }

    /// Whether something waits for what is missing.
    pub(super) fn has_holes(&self) -> bool {
        !self.held.is_empty()
    }
}

fn cost_of(bytes: &[u8]) -> u64 {
    bytes.len() as u64 + COST_OF_A_PIECE
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::quota::MemoryBudget;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_in_any_order_are_handed_on_in_theirs(
            lengths in prop::collection::vec(1_usize..40, 1..60),
            keys in prop::collection::vec(any::<u32>(), 60),
        ) {
            let mut offset = 0;
            let mut pieces = Vec::new();
            let mut whole = Vec::new();
            for (length, key) in lengths.iter().zip(keys) {
                let bytes: Vec<u8> = (0..*length).map(|at| (at as u64 + offset) as u8).collect();
                whole.extend_from_slice(&bytes);
                pieces.push((key, offset, bytes));
                offset += *length as u64;
            }
            pieces.sort();
            let budget = MemoryBudget::new(u64::MAX);
            let mut reassembly = Reassembly::new(budget.tally());
            let mut got = Vec::new();
            for (_, offset, bytes) in pieces {
                if reassembly.take(offset, &bytes).unwrap() {
                    got.extend_from_slice(&bytes);
                }
                while let Some(bytes) = reassembly.next() {
                    got.extend_from_slice(&bytes);
                }
            }
            prop_assert!(!reassembly.has_holes());
            prop_assert_eq!(got, whole);
            prop_assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn what_waits_is_bounded_however_small_its_pieces() {
        let budget = MemoryBudget::new(u64::MAX);
        let mut reassembly = Reassembly::new(budget.tally());
        let taken = (1..).take_while(|at| reassembly.take(2 * at, b"x").is_ok());
        assert_eq!(taken.count() as u64, MAX_HELD / (COST_OF_A_PIECE + 1));
    }

    #[test]
    fn what_all_streams_hold_is_bounded_and_given_back() {
        let budget = MemoryBudget::new(10_000);
        let mut streams: Vec<_> = (0..8).map(|_| Reassembly::new(budget.tally())).collect();
        let taken = streams.iter_mut().map(|stream| stream.take(7, &[0; 2000]));
        assert_eq!(taken.filter(Result::is_ok).count(), 4, "2128 bytes each");
        let error = streams[0].take(3000, &[0; 2000]).unwrap_err();
        assert!(error.contains("all memory"), "{error}");
        streams.truncate(1);
        assert_eq!(budget.used(), 2128);
        assert_eq!(streams[0].take(0, &[0; 7]), Ok(true));
        assert_eq!(streams[0].next().map(|bytes| bytes.len()), Some(2000));
        assert_eq!(budget.used(), 0);
    }
}
