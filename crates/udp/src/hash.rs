//! The hash of a stream that arrives in small pieces.

/// Bytes that are hashed at once: one chunk of BLAKE3 for each lane of the widest instructions. A
/// packet's payload alone would keep one lane busy, and cost a quarter of the receiver's time.
const PIECE: usize = 16 * 1024;

/// BLAKE3 of everything so far.
pub(crate) struct StreamHash {
    hasher: blake3::Hasher,
    waiting: Vec<u8>,
}

impl StreamHash {
    pub(crate) fn new() -> Self {
        Self { hasher: blake3::Hasher::new(), waiting: Vec::new() }
    }

    /// Adds `bytes` to the stream.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (taken, rest) = bytes.split_at(bytes.len().min(PIECE - self.waiting.len()));
            self.waiting.extend_from_slice(taken);
            bytes = rest;
            if self.waiting.len() == PIECE {
                self.hasher.update(&self.waiting);
                self.waiting.clear();
            }
        }
    }

    pub(crate) fn value(&self) -> [u8; 32] {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.waiting);
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
                assert_eq!(hash.value(), *blake3::hash(&bytes[..length]).as_bytes(), "{length}");
            }
        }
    }
}
