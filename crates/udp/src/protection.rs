//! Protection of datagrams against damage and forgery: a checksum, or a tag under a key that both
//! sides share.

use cellpace_base::ByteReader;

use crate::wire::{self, CHECKSUM, Ids};

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// The side of a connection that sent a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderSide {
    /// The side that began the connection.
    Initiator,
    /// The side that was listening.
    Responder,
}

impl SenderSide {
    /// The other side.
    pub fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}

/// How the datagrams of an endpoint are protected. By default they have a checksum, which finds
/// damage and stops nobody. With a key they have a tag in its place, which only those who know the
/// key can make: datagrams without the right one are dropped. Neither hides the content.
#[derive(Clone, Default)]
pub struct Protection(Option<Keys>);

/// A key for each direction, so that neither side accepts its own datagrams sent back to it.
#[derive(Clone)]
struct Keys {
    initiator: [u8; 32],
    responder: [u8; 32],
}

impl Protection {
    /// Datagrams of [`Endpoint`](crate::Endpoint) with tags under this secret.
    pub fn transfer(secret: &[u8; 32]) -> Self {
        Self::derived(
            secret,
            [
                "cellpace 2026-11-23 transfer, datagrams of the initiator",
                "cellpace 2026-11-23 transfer, datagrams of the responder",
            ],
        )
    }

    /// Tags under keys that are derived from `secret`, for the initiator and the responder, with
    /// contexts that no other protocol has (`blake3::derive_key`).
    pub fn derived(secret: &[u8; 32], contexts: [&str; 2]) -> Self {
        let [initiator, responder] = contexts.map(|context| blake3::derive_key(context, secret));
        Self(Some(Keys { initiator, responder }))
    }

    /// Returns how many bytes longer a datagram is than the same one with a checksum.
    pub fn extra_bytes(&self) -> usize {
        if self.0.is_some() { TAG_BYTES - CHECKSUM.len() } else { 0 }
    }

    /// Reads the header of a datagram that `sender` made: type and ids, and a reader of what
    /// follows. Returns `None` if the datagram is too short or damaged, or if its tag is wrong.
    pub fn open<'a>(
        &self,
        sender: SenderSide,
        datagram: &'a [u8],
    ) -> Option<(u8, Ids, ByteReader<'a>)> {
        let Some(keys) = &self.0 else { return wire::open(datagram) };
        let (kind, ids, mut reader) = wire::header(datagram)?;
        let claimed: [u8; TAG_BYTES] = reader.array()?;
        let expected = keys.hash(sender, &datagram[..CHECKSUM.start], reader.rest());
        let mut whole = *expected.as_bytes();
        whole[..TAG_BYTES].copy_from_slice(&claimed);
        // Hashes of this type compare in constant time.
        (expected == blake3::Hash::from_bytes(whole)).then_some((kind, ids, reader))
    }

    /// Protects the datagram that `sender` has written as the last `bytes` of `out`, with its
    /// checksum. Returns its length.
    pub fn seal(&self, sender: SenderSide, out: &mut Vec<u8>, bytes: usize) -> usize {
        let Some(keys) = &self.0 else { return bytes };
        let start = out.len() - bytes;
        let (checksum, rest) = (start + CHECKSUM.start, start + CHECKSUM.end);
        let hash = keys.hash(sender, &out[start..checksum], &out[rest..]);
        out.splice(checksum..rest, hash.as_bytes()[..TAG_BYTES].iter().copied());
        out.len() - start
    }
}

impl std::fmt::Debug for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Protection(key)" } else { "Protection(checksum)" })
    }
}

impl Keys {
    /// The hash whose beginning is the tag, of everything but the tag: both connection ids are in
    /// it, of which each side draws one, so that no datagram is good in another connection.
    fn hash(&self, sender: SenderSide, header: &[u8], rest: &[u8]) -> blake3::Hash {
        let key = match sender {
            SenderSide::Initiator => &self.initiator,
            SenderSide::Responder => &self.responder,
        };
        blake3::Hasher::new_keyed(key).update(header).update(rest).finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SenderSide::{Initiator, Responder};

    const IDS: Ids = Ids { to: 7, from: 8 };

    fn ping(protection: &Protection, sender: SenderSide) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let bytes = wire::write_close(&mut out, IDS, wire::CloseCode::Stopped, "why");
        let bytes = protection.seal(sender, &mut out, bytes);
        assert_eq!(out.len(), 6 + bytes);
        out.split_off(6)
    }

    fn read(protection: &Protection, sender: SenderSide, datagram: &[u8]) -> bool {
        let read = protection.open(sender, datagram).and_then(wire::read);
        read.is_some_and(|read| {
            read == (IDS, wire::WirePacket::Close(wire::CloseCode::Stopped, "why"))
        })
    }

    #[test]
    fn a_datagram_is_good_under_its_key_its_side_and_its_protocol_only() {
        let key = Protection::transfer(&[1; 32]);
        let others = [
            Protection::transfer(&[2; 32]),
            Protection::derived(&[1; 32], ["another protocol", "its other side"]),
            Protection::default(),
        ];
        for sender in [Initiator, Responder] {
            let datagram = ping(&key, sender);
            assert!(read(&key, sender, &datagram));
            assert!(!read(&key, sender.other(), &datagram), "reflected");
            for other in &others {
                assert!(!read(other, sender, &datagram), "{other:?}");
                assert!(!read(&key, sender, &ping(other, sender)), "{other:?}");
            }
        }
    }

    #[test]
    fn every_bit_of_a_datagram_counts() {
        let key = Protection::transfer(&[1; 32]);
        let datagram = ping(&key, Initiator);
        assert_eq!(datagram.len(), ping(&Protection::default(), Initiator).len() + 12);
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!read(&key, Initiator, &changed), "bit {bit}");
        }
        for length in 0..datagram.len() {
            assert!(!read(&key, Initiator, &datagram[..length]), "{length} bytes");
        }
        assert!(!read(&key, Initiator, &[&datagram[..], &[0]].concat()), "one more");
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let shown = format!("{:?}", Protection::transfer(&[1; 32]));
        assert_eq!(shown, "Protection(key)");
    }
}
