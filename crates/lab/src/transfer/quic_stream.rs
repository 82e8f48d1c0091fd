//! The stream of a flow inside QUIC.
//!
//! It begins with [`MAGIC`] and the number of flows that its sender offers, two bytes in network
//! order; the payload follows, and the BLAKE3 hash of the payload ends it. A stream that ends without
//! its hash is incomplete: libraries finish streams that a program drops. Made-up bytes are cut by
//! resetting the stream.
//!
//! The receiver closes the connection with [`CloseCode::Stored`] and the hash of what it has stored.
//! No code is 0, with which libraries close connections that a program drops.

use cellpace_base::quota::MemoryTally;
use noq::VarInt;

use super::data::SinkError;
use super::reassembly::Reassembly;

/// The protocol, for TLS. Version 1 had no hashes, and told success by code 0.
pub(super) const ALPN: &[u8] = b"cellpace/2";
const MAGIC: &[u8; 4] = b"CPQ2";
const HEADER: usize = 6;
const HASH: usize = blake3::OUT_LEN;

/// Why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum CloseCode {
    /// Everything arrived and is stored; the reason is the hash of it.
    Stored = 0xce11_0001,
    /// It cannot be stored or read.
    Storage = 0xce11_0002,
    /// It was interrupted.
    Stopped = 0xce11_0003,
    /// The stream of made-up bytes ends here.
    Cut = 0xce11_0004,
    /// There is no place or no memory for it now.
    Busy = 0xce11_0005,
    /// What arrived is no stream of this protocol.
    Protocol = 0xce11_0006,
}

impl CloseCode {
    /// Why there is no place for what would arrive.
    pub(super) fn of(error: &SinkError) -> Self {
        if error.is_busy { Self::Busy } else { Self::Storage }
    }
}

impl From<CloseCode> for VarInt {
    fn from(code: CloseCode) -> Self {
        Self::from_u32(code as u32)
    }
}

/// What a stream begins with.
pub(super) fn header(offered: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(MAGIC);
    header[4..].copy_from_slice(&offered.to_be_bytes());
    header
}

/// Why what arrives of a stream cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuicStreamError {
    /// It does not begin as streams of this protocol do.
    #[error("the peer does not send as cellpace does")]
    Header,
    /// There is no memory for what arrived out of order.
    #[error("{0}")]
    Memory(String),
    /// It ended early.
    #[error("the stream ended before all had arrived")]
    Incomplete,
    /// What arrived is not what was sent.
    #[error("the stream has another hash than its sender has computed")]
    Hash,
    /// The payload cannot be written.
    #[error("{0}")]
    Storage(String),
}

impl QuicStreamError {
    pub(super) fn code(&self) -> CloseCode {
        match self {
            Self::Header | Self::Incomplete | Self::Hash => CloseCode::Protocol,
            Self::Memory(_) => CloseCode::Busy,
            Self::Storage(_) => CloseCode::Storage,
        }
    }
}

/// Takes what arrives of a stream in any order, and hands on its payload in order.
pub struct QuicStreamReader<W> {
    reassembly: Reassembly,
    header: Vec<u8>,
    /// The last bytes so far, at most as many as a hash has: they may be the hash.
    tail: Vec<u8>,
    hash: blake3::Hasher,
    write: W,
}

impl<W: FnMut(&[u8]) -> Result<(), String>> QuicStreamReader<W> {
    /// A stream of which nothing has arrived. What waits for what is missing counts towards `memory`;
    /// `write` takes the payload.
    pub fn new(memory: MemoryTally, write: W) -> Self {
        Self {
            reassembly: Reassembly::new(memory),
            header: Vec::with_capacity(HEADER),
            tail: Vec::with_capacity(HASH),
            hash: blake3::Hasher::new(),
            write,
        }
    }

    /// Takes the bytes at an offset of the stream, of which no piece before had any.
    ///
    /// # Errors
    /// When it is no stream of this protocol, there is no memory, or the payload cannot be written.
    pub fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<(), QuicStreamError> {
        if self.reassembly.take(offset, bytes).map_err(QuicStreamError::Memory)? {
            self.advance(bytes)?;
        }
        while let Some(bytes) = self.reassembly.next() {
            self.advance(&bytes)?;
        }
        Ok(())
    }

    /// The number of flows that the sender offers, once it has arrived.
    pub fn offered(&self) -> Option<u16> {
        (self.header.len() == HEADER).then(|| u16::from_be_bytes([self.header[4], self.header[5]]))
    }

    /// Whether something waits for what is missing.
    pub fn has_holes(&self) -> bool {
        self.reassembly.has_holes()
    }

    /// The next bytes of the stream.
    fn advance(&mut self, mut bytes: &[u8]) -> Result<(), QuicStreamError> {
        let missing = HEADER - self.header.len();
        if missing > 0 {
            let (first, rest) = bytes.split_at(missing.min(bytes.len()));
            self.header.extend_from_slice(first);
            let known = self.header.len().min(MAGIC.len());
            if self.header[..known] != MAGIC[..known] {
                return Err(QuicStreamError::Header);
            }
            bytes = rest;
        }
        // All but the last bytes are payload.
        let payload = (self.tail.len() + bytes.len()).saturating_sub(HASH);
        let of_tail = payload.min(self.tail.len());
        let (now, later) = bytes.split_at(payload - of_tail);
        if of_tail > 0 {
            let first: Vec<u8> = self.tail.drain(..of_tail).collect();
            self.keep(&first)?;
        }
        self.keep(now)?;
        self.tail.extend_from_slice(later);
        Ok(())
    }

    fn keep(&mut self, payload: &[u8]) -> Result<(), QuicStreamError> {
        if payload.is_empty() {
            return Ok(());
        }
        self.hash.update(payload);
        (self.write)(payload).map_err(QuicStreamError::Storage)
    }

    /// The stream has ended. Returns the hash of the payload, which is the one that its sender has
    /// computed.
    ///
    /// # Errors
    /// When something is missing, or the hashes differ.
    pub fn finish(self) -> Result<[u8; 32], QuicStreamError> {
        if self.reassembly.has_holes() || self.offered().is_none() || self.tail.len() < HASH {
            return Err(QuicStreamError::Incomplete);
        }
        let hash = self.hash.finalize();
        // `Hash` compares in constant time, which costs nothing.
        match <[u8; HASH]>::try_from(&self.tail[..]).map(blake3::Hash::from_bytes) {
            Ok(sent) if sent == hash => Ok(hash.into()),
            _ => Err(QuicStreamError::Hash),
        }
    }

    /// The sender has cut its made-up bytes: what has arrived is all. Returns its hash.
    ///
    /// # Errors
    /// When the rest cannot be written.
    pub fn cut(mut self) -> Result<[u8; 32], QuicStreamError> {
        let rest = std::mem::take(&mut self.tail);
        self.keep(&rest)?;
        Ok(self.hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::quota::MemoryBudget;
    use proptest::prelude::*;

    /// A stream with this payload.
    fn stream(payload: &[u8]) -> Vec<u8> {
        [&header(3)[..], payload, blake3::hash(payload).as_bytes()].concat()
    }

    /// What became of pieces with their offsets: what was written, and how it ended.
    fn read(pieces: &[(u64, &[u8])]) -> (Vec<u8>, Result<[u8; 32], QuicStreamError>) {
        let mut written = Vec::new();
        let budget = MemoryBudget::new(1 << 20);
        let write = |bytes: &[u8]| {
            written.extend_from_slice(bytes);
            Ok(())
        };
        let mut reader = QuicStreamReader::new(budget.tally(), write);
        let taken = pieces.iter().try_for_each(|(offset, bytes)| reader.take(*offset, bytes));
        let ended = taken.and_then(|()| reader.finish());
        assert_eq!(budget.used(), 0);
        (written, ended)
    }

    #[test]
    fn no_code_is_the_one_of_a_connection_that_was_dropped() {
        let all = [
            CloseCode::Stored,
            CloseCode::Storage,
            CloseCode::Stopped,
            CloseCode::Cut,
            CloseCode::Busy,
            CloseCode::Protocol,
        ];
        for code in all.map(VarInt::from) {
            assert!(code.into_inner() > 0xffff, "{code}");
        }
    }

    #[test]
    fn a_stream_that_ends_early_is_incomplete_wherever_that_is() {
        let whole = stream(b"forty bytes that nobody would mistake .");
        for end in 0..whole.len() {
            let (_, ended) = read(&[(0, &whole[..end])]);
            let expected = if end < HEADER + HASH {
                QuicStreamError::Incomplete
            } else {
                QuicStreamError::Hash
            };
            assert_eq!(ended, Err(expected), "{end}");
        }
        let (written, ended) = read(&[(0, &whole)]);
        assert_eq!(written, b"forty bytes that nobody would mistake .");
        assert_eq!(ended, Ok(blake3::hash(&written).into()));
        let (_, ended) = read(&[(0, &whole[..10]), (11, &whole[11..])]);
        assert_eq!(ended, Err(QuicStreamError::Incomplete), "with a hole");
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_byte() {
        for bytes in [&b"GET / HTTP"[..], b"CPQ1\0\x01xx", b"x"] {
            assert_eq!(read(&[(0, bytes)]).1, Err(QuicStreamError::Header), "{bytes:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_said_and_what_was_cut_is_all() {
        let budget = MemoryBudget::new(1 << 20);
        let mut full =
            QuicStreamReader::new(budget.tally(), |_: &[u8]| Err("disk full".to_owned()));
        let error = full.take(0, &stream(&[7; 100])).unwrap_err();
        assert_eq!((error.code(), error.to_string()), (CloseCode::Storage, "disk full".to_owned()));
        let mut written = Vec::new();
        let write = |bytes: &[u8]| {
            written.extend_from_slice(bytes);
            Ok(())
        };
        let mut reader = QuicStreamReader::new(budget.tally(), write);
        reader.take(0, &[&header(1)[..], &[5; 50]].concat()).unwrap();
        let hash = reader.cut().unwrap();
        assert_eq!((written, hash), (vec![5; 50], blake3::hash(&[5; 50]).into()));
    }

    proptest! {
        #[test]
        fn the_payload_is_the_same_however_the_stream_is_cut_and_in_whatever_order(
            payload in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec((1_usize..60, any::<u32>()), 1..80),
            flipped in prop::option::of((any::<prop::sample::Index>(), 1_u8..)),
        ) {
            let mut whole = stream(&payload);
            if let Some((at, bits)) = flipped {
                // Not the header, whose last bytes are a number.
                let at = HEADER + at.index(whole.len() - HEADER);
                whole[at] ^= bits;
            }
            let mut pieces = Vec::new();
            let mut at = 0;
            let mut cuts = cuts.iter().cycle();
            while at < whole.len() {
                let (length, key) = cuts.next().expect("it has no end");
                let end = (at + length).min(whole.len());
                pieces.push((*key, at as u64, &whole[at..end]));
                at = end;
            }
            pieces.sort();
            let pieces: Vec<_> = pieces.into_iter().map(|(_, at, bytes)| (at, bytes)).collect();
            let (written, ended) = read(&pieces);
            match flipped {
                None => {
                    prop_assert_eq!(ended, Ok(blake3::hash(&payload).into()));
                    prop_assert_eq!(written, payload);
                }
                Some(_) => prop_assert_eq!(ended, Err(QuicStreamError::Hash)),
            }
        }
    }
}
