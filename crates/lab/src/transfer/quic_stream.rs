//! The streams of a flow inside QUIC, one after the other.
//!
//! A flow begins with [`MAGIC`] and the number of flows that its sender offers, two bytes in network
//! order; the payload follows, and the BLAKE3 hash of the payload ends it. All of this is cut into
//! streams of [`SEGMENT`] bytes. The first stream that is shorter is the last. A flow that ends
//! without its hash is incomplete: libraries finish streams that a program drops. Made-up bytes are
//! cut by resetting the streams.
//!
//! A single stream would break under heavy loss. noq 1.4 and quinn 0.11 give up connections of which
//! a stream waits in more than 1024 parts behind a hole
//! (<https://github.com/quinn-rs/quinn/issues/2809>), and noq drops data of streams that are read out
//! of order.
//!
//! The receiver answers in a stream of its own with the hash of what it has stored, and closes the
//! connection with it and [`StreamCloseCode::Stored`].
//! No code is 0, with which libraries close connections that a program drops.

use noq::VarInt;

use super::data::SinkError;

/// The protocol, for TLS. Version 1 had no hashes and told success by code 0; version 2 had a single
/// stream.
pub(super) const ALPN: &[u8] = b"cellpace/3";
const MAGIC: &[u8; 4] = b"CPQ3";
/// Bytes of a stream. With packets of 1200 bytes it waits in 437 parts at most, and in some more
/// where packets arrive twice.
pub(super) const SEGMENT: u64 = 1 << 19;
const HEADER: usize = 6;
const HASH: usize = blake3::OUT_LEN;

/// Why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum StreamCloseCode {
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

impl StreamCloseCode {
    /// Why there is no place for what would arrive.
    pub(super) fn of(error: &SinkError) -> Self {
        if error.is_busy { Self::Busy } else { Self::Storage }
    }
}

impl From<StreamCloseCode> for VarInt {
    fn from(code: StreamCloseCode) -> Self {
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
    /// A stream of it is too long.
    #[error("a stream is longer than {SEGMENT} bytes")]
    TooLong,
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
    pub(super) fn code(&self) -> StreamCloseCode {
        match self {
            Self::Header | Self::TooLong | Self::Incomplete | Self::Hash => {
                StreamCloseCode::Protocol
            }
            Self::Storage(_) => StreamCloseCode::Storage,
        }
    }
}

/// Takes the streams of a flow in their order, and hands on its payload.
pub struct QuicStreamReader<W> {
    /// Bytes of the present stream.
    in_segment: u64,
    header: Vec<u8>,
    /// The last bytes so far, at most as many as a hash has: they may be the hash.
    tail: Vec<u8>,
    hash: blake3::Hasher,
    write: W,
}

impl<W: FnMut(&[u8]) -> Result<(), String>> QuicStreamReader<W> {
    /// A flow of which nothing has arrived. `write` takes the payload.
    pub fn new(write: W) -> Self {
        Self {
            in_segment: 0,
            header: Vec::with_capacity(HEADER),
            tail: Vec::with_capacity(HASH),
            hash: blake3::Hasher::new(),
            write,
        }
    }

    /// Takes the next bytes of the present stream.
    ///
    /// # Errors
    /// When it is no stream of this protocol, or the payload cannot be written.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), QuicStreamError> {
        self.in_segment += bytes.len() as u64;
        if self.in_segment > SEGMENT {
            return Err(QuicStreamError::TooLong);
        }
        self.advance(bytes)
    }

    /// The present stream has ended. Returns whether it was the last one.
    pub fn end_stream(&mut self) -> bool {
        // A flow whose length is a multiple of a stream's ends with an empty one, so that the rule
        // has no exception.
        std::mem::take(&mut self.in_segment) < SEGMENT
    }

    /// The number of flows that the sender offers, once it has arrived.
    pub fn offered(&self) -> Option<u16> {
        (self.header.len() == HEADER).then(|| u16::from_be_bytes([self.header[4], self.header[5]]))
    }

    /// Takes the next bytes of the flow.
    fn advance(&mut self, mut bytes: &[u8]) -> Result<(), QuicStreamError> {
        let missing = HEADER - self.header.len();
        if missing > 0 {
            let (first, rest) = bytes.split_at(missing.min(bytes.len()));
            self.header.extend_from_slice(first);
            // As soon as a byte differs: a peer of another protocol is refused at once.
            let known = self.header.len().min(MAGIC.len());
            if self.header[..known] != MAGIC[..known] {
                return Err(QuicStreamError::Header);
            }
            bytes = rest;
        }
        // All but the last bytes are payload.
        let payload = (self.tail.len() + bytes.len()).saturating_sub(HASH);
        // What was held back as a possible hash is payload once more bytes follow.
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

    /// The last stream has ended. Returns the hash of the payload, which is the one that its sender has
    /// computed.
    ///
    /// # Errors
    /// When something is missing, or the hashes differ.
    pub fn finish(self) -> Result<[u8; 32], QuicStreamError> {
        if self.offered().is_none() || self.tail.len() < HASH {
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
    use proptest::prelude::*;

    /// A stream with this payload.
    fn stream(payload: &[u8]) -> Vec<u8> {
        [&header(3)[..], payload, blake3::hash(payload).as_bytes()].concat()
    }

    /// What became of pieces of a stream: what was written, and how it ended.
    fn read(pieces: &[&[u8]]) -> (Vec<u8>, Result<[u8; 32], QuicStreamError>) {
        let mut written = Vec::new();
        let write = |bytes: &[u8]| {
            written.extend_from_slice(bytes);
            Ok(())
        };
        let mut reader = QuicStreamReader::new(write);
        let taken = pieces.iter().try_for_each(|bytes| reader.take(bytes));
        let ended = taken.and_then(|()| reader.finish());
        (written, ended)
    }

    #[test]
    fn no_code_is_the_one_of_a_connection_that_was_dropped() {
        let all = [
            StreamCloseCode::Stored,
            StreamCloseCode::Storage,
            StreamCloseCode::Stopped,
            StreamCloseCode::Cut,
            StreamCloseCode::Busy,
            StreamCloseCode::Protocol,
        ];
        for code in all.map(VarInt::from) {
            assert!(code.into_inner() > 0xffff, "{code}");
        }
    }

    #[test]
    fn a_stream_that_ends_early_is_incomplete_wherever_that_is() {
        let whole = stream(b"forty bytes that nobody would mistake .");
        for end in 0..whole.len() {
            let (_, ended) = read(&[&whole[..end]]);
            let expected = if end < HEADER + HASH {
                QuicStreamError::Incomplete
            } else {
                QuicStreamError::Hash
            };
            assert_eq!(ended, Err(expected), "{end}");
        }
        let (written, ended) = read(&[&whole]);
        assert_eq!(written, b"forty bytes that nobody would mistake .");
        assert_eq!(ended, Ok(blake3::hash(&written).into()));
        let (_, ended) = read(&[&whole[..10], &whole[11..]]);
        assert_eq!(ended, Err(QuicStreamError::Hash), "a byte is missing");
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_byte() {
        for bytes in [&b"GET / HTTP"[..], b"CPQ2\0\x01xx", b"x"] {
            assert_eq!(read(&[bytes]).1, Err(QuicStreamError::Header), "{bytes:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_said_and_what_was_cut_is_all() {
        let mut full = QuicStreamReader::new(|_: &[u8]| Err("disk full".to_owned()));
        let error = full.take(&stream(&[7; 100])).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            (StreamCloseCode::Storage, "disk full".to_owned())
        );
        let mut written = Vec::new();
        let write = |bytes: &[u8]| {
            written.extend_from_slice(bytes);
            Ok(())
        };
        let mut reader = QuicStreamReader::new(write);
        reader.take(&[&header(1)[..], &[5; 50]].concat()).unwrap();
        let hash = reader.cut().unwrap();
        assert_eq!((written, hash), (vec![5; 50], blake3::hash(&[5; 50]).into()));
    }

    #[test]
    fn the_first_short_stream_is_the_last_and_a_long_one_is_refused() {
        let segment = vec![0; SEGMENT as usize - HEADER];
        let mut reader = QuicStreamReader::new(|_: &[u8]| Ok(()));
        reader.take(&header(1)).unwrap();
        reader.take(&segment).unwrap();
        assert!(!reader.end_stream(), "it has all of its bytes");
        assert!(reader.end_stream(), "an empty one");
        reader.take(&segment).unwrap();
        assert!(reader.end_stream());
        reader.take(&segment).unwrap();
        assert_eq!(reader.take(&[0; HEADER + 1]), Err(QuicStreamError::TooLong));
    }

    proptest! {
        #[test]
        fn the_payload_is_the_same_however_the_stream_is_cut(
            payload in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(1_usize..60, 1..80),
            flipped in prop::option::of((any::<prop::sample::Index>(), 1_u8..)),
        ) {
            let mut whole = stream(&payload);
            if let Some((at, bits)) = flipped {
                // Not the header, whose last bytes are a number.
                let at = HEADER + at.index(whole.len() - HEADER);
                whole[at] ^= bits;
            }
            let mut pieces = Vec::new();
            let mut rest = &whole[..];
            for length in cuts.iter().cycle() {
                let (piece, after) = rest.split_at(rest.len().min(*length));
                pieces.push(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
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
