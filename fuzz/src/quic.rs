//! The stream of a transfer inside QUIC.

use cellpace_base::quota::MemoryBudget;
use cellpace_lab::transfer::QuicStreamReader;

/// What all pieces behind holes may take.
const MEMORY: u64 = 100_000;

/// A stream whose pieces arrive in any order. Each takes two bytes for what lies between it and the
/// piece before in the stream (the QUIC library hands over no byte twice), one for whether it is held
/// up behind the next one, one for its length, and its bytes. Whatever arrives, the memory stays
/// within the budget and is given back, and what is taken for whole has its hash.
pub fn quic_stream(bytes: &[u8]) {
    let budget = MemoryBudget::new(MEMORY);
    let mut written = Vec::new();
    let write = |bytes: &[u8]| {
        written.extend_from_slice(bytes);
        if written.len() > 1 << 16 { Err("full".to_owned()) } else { Ok(()) }
    };
    let mut reader = QuicStreamReader::new(budget.tally(), write);
    let mut pieces = pieces(bytes);
    let mut taken = Ok(());
    while let Some((offset, piece)) = pieces.pop() {
        taken = taken.and_then(|()| reader.take(offset, piece));
        assert!(budget.used() <= MEMORY);
    }
    let is_cut = bytes.first().is_some_and(|first| first & 1 == 1);
    let ended = taken.and_then(|()| if is_cut { reader.cut() } else { reader.finish() });
    if let Ok(hash) = ended {
        assert_eq!(hash, hash_of(&written));
    }
    assert_eq!(budget.used(), 0);
}

/// The pieces with their offsets, the first to arrive at the end.
fn pieces(bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut pieces = Vec::new();
    let (mut rest, mut offset) = (bytes, 0);
    while let [high, low, late, length, more @ ..] = rest {
        let (piece, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        offset += u64::from(u16::from_be_bytes([*high & 3, *low]));
        let at = if late & 1 == 1 { pieces.len() } else { 0 };
        pieces.insert(at, (offset, piece));
        offset += piece.len() as u64;
    }
    pieces
}

fn hash_of(bytes: &[u8]) -> [u8; 32] {
    blake3::hash(bytes).into()
}
