//! The hash of a stream that arrives in small pieces.

/// Bytes that are hashed at once: one chunk of BLAKE3 for each lane of the widest instructions. A
/// packet's payload alone would keep one lane busy, and cost a quarter of the receiver's time.
pub(crate) const PIECE: usize = 16 * 1024;

/// BLAKE3 of everything so far.
pub(crate) struct StreamHash {
    hasher: blake3::Hasher,
    /// Less than a piece. Who has whole pieces leaves it empty, and nothing is copied.
    waiting: Vec<u8>,
}

impl StreamHash {
    pub(crate) fn new() -> Self {
        Self { hasher: blake3::Hasher::new(), waiting: Vec::new() }
    }

    /// Adds `bytes` to the stream.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        if !self.waiting.is_empty() {
            let (taken, rest) = bytes.split_at(bytes.len().min(PIECE - self.waiting.len()));
            self.waiting.extend_from_slice(taken);
            if self.waiting.len() < PIECE {
                return;
            }
            self.hasher.update(&self.waiting);
            self.waiting.clear();
            bytes = rest;
        }
        let (whole, rest) = bytes.split_at(bytes.len() / PIECE * PIECE);
        self.hasher.update(whole);
        self.waiting.extend_from_slice(rest);
    }

    /// Returns the hash of the stream, if it ends with `rest` after all that was added.
    pub(crate) fn value(&self, rest: &[u8]) -> [u8; 32] {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.waiting).update(rest);
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_does_not_depend_on_the_pieces() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        for length in [0, 1, 1403, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, bytes.len()] {
            for piece in [1, 1403, PIECE, 3 * PIECE] {
                let mut hash = StreamHash::new();
                bytes[..length].chunks(piece).for_each(|piece| hash.update(piece));
                let all = *blake3::hash(&bytes[..length]).as_bytes();
                assert_eq!(hash.value(&[]), all, "{length}");
                let longer = *blake3::hash(&[&bytes[..length], b"rest"].concat()).as_bytes();
                assert_eq!(hash.value(b"rest"), longer, "{length}");
            }
        }
    }
}
