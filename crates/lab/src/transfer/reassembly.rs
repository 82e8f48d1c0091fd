//! What arrives of a stream in any order, handed on in the stream's.

use std::collections::BTreeMap;

/// Bytes that are held behind a hole at most: a quarter of a second at 2 Gbit/s.
const MAX_HELD: usize = 1 << 26;
/// What a held piece takes beside its bytes, so that very small pieces are bounded, too.
const COST_OF_A_PIECE: usize = 128;

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
    cost: usize,
}

impl Reassembly {
    /// Begins at the stream's byte `next`.
    pub(super) const fn starting_at(next: u64) -> Self {
        Self { next, held: BTreeMap::new(), cost: 0 }
    }

    /// Takes a piece that overlaps none before it; returns whether it is the next and was not held.
    ///
    /// # Errors
    ///
    /// Too much waits for what is missing.
    pub(super) fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<bool, String> {
        if offset == self.next {
            self.next += bytes.len() as u64;
            return Ok(true);
        }
        self.cost += bytes.len() + COST_OF_A_PIECE;
        if self.cost > MAX_HELD {
            return Err(format!("more than {MAX_HELD} bytes wait for byte {}", self.next));
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
        self.cost -= bytes.len() + COST_OF_A_PIECE;
        Some(bytes)
    }

    /// Whether something waits for what is missing.
    pub(super) fn has_holes(&self) -> bool {
        !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_in_any_order_are_handed_on_in_theirs(
            lengths in prop::collection::vec(1_usize..40, 1..60),
            keys in prop::collection::vec(any::<u32>(), 60),
        ) {
            let mut offset = 6;
            let mut pieces = Vec::new();
            let mut whole = Vec::new();
            for (length, key) in lengths.iter().zip(keys) {
                let bytes: Vec<u8> = (0..*length).map(|at| (at as u64 + offset) as u8).collect();
                whole.extend_from_slice(&bytes);
                pieces.push((key, offset, bytes));
                offset += *length as u64;
            }
            pieces.sort();
            let mut reassembly = Reassembly::starting_at(6);
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
            prop_assert_eq!(reassembly.cost, 0);
        }
    }

    #[test]
    fn what_waits_is_bounded_however_small_its_pieces() {
        let mut reassembly = Reassembly::starting_at(0);
        let taken = (1..).take_while(|at| reassembly.take(2 * at, b"x").is_ok());
        assert_eq!(taken.count(), MAX_HELD / (COST_OF_A_PIECE + 1));
    }
}
