//! The streams of a transfer inside QUIC.

use cellpace_lab::transfer::QuicStreamReader;

/// Streams of a flow in pieces. The first byte says whether the sender cuts the flow. Each piece takes
/// one byte for whether its stream ends behind it, one for its length, and its bytes. Whatever
/// arrives, what is taken for whole has its hash.
pub fn quic_stream(bytes: &[u8]) {
    let Some((cut, mut rest)) = bytes.split_first() else { return };
    let mut written = Vec::new();
    let write = |bytes: &[u8]| {
        written.extend_from_slice(bytes);
        if written.len() > 1 << 16 { Err("full".to_owned()) } else { Ok(()) }
    };
    let mut reader = QuicStreamReader::new(write);
    let mut taken = Ok(());
    while let [end, length, more @ ..] = rest {
        let (piece, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        taken = taken.and_then(|()| reader.take(piece));
        if end & 1 == 1 && reader.end_stream() {
            break;
        }
    }
    let ended = taken.and_then(|()| if cut & 1 == 1 { reader.cut() } else { reader.finish() });
    if let Ok(hash) = ended {
        assert_eq!(hash, <[u8; 32]>::from(blake3::hash(&written)));
    }
}
