//! Protection of datagrams: a checksum against damage, or encryption under a key that both sides
//! share.

use cellpace_base::ByteReader;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::wire::{self, CHECKSUM, Ids};

/// Bytes of the tag at the end of an encrypted datagram.
const TAG_BYTES: usize = 16;

/// Bytes of the nonce, in the place of the checksum.
const NONCE_BYTES: usize = 8;

/// Type and both connection ids, in clear text in front of the nonce.
const CLEAR_BYTES: usize = CHECKSUM.start;

/// By how much the nonce is longer than the checksum.
const LONGER: usize = NONCE_BYTES - (CHECKSUM.end - CHECKSUM.start);

/// Bytes by which an encrypted datagram is longer than the same one with a checksum.
const EXTRA_BYTES: usize = LONGER + TAG_BYTES;

/// Bits of the nonce that count datagrams under one key: after 2^23 of them comes the next key, as many
/// as RFC 9001 section 6.6 allows AES-GCM to encrypt.
const KEY_BITS: u32 = 23;

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

/// How the datagrams of an endpoint are protected. With a key they are encrypted, and only those
/// who know the key can make or read them: others are dropped. The default is the plain form: a
/// checksum, which finds damage and stops nobody.
#[derive(Clone, Default)]
pub struct Protection(Option<Roots>);

/// What the keys of connections are derived from, for each direction, so that neither side accepts
/// its own datagrams sent back to it.
#[derive(Clone, Copy)]
struct Roots {
    initiator: [u8; 32],
    responder: [u8; 32],
}

impl Protection {
    /// Encrypted datagrams of [`Endpoint`](crate::Endpoint) under this secret.
    pub fn transfer(secret: &[u8; 32]) -> Self {
        Self::derived(
            secret,
            [
                "cellpace 2026-11-28 transfer, encryption by the initiator",
                "cellpace 2026-11-28 transfer, encryption by the responder",
            ],
        )
    }

    /// Encryption under keys that are derived from `secret`, for the initiator and the responder,
    /// with contexts that no other protocol has (`blake3::derive_key`).
    pub fn derived(secret: &[u8; 32], contexts: [&str; 2]) -> Self {
        let [initiator, responder] = contexts.map(|context| blake3::derive_key(context, secret));
        Self(Some(Roots { initiator, responder }))
    }

    /// Returns how many bytes longer a datagram is than the same one with a checksum.
    pub(crate) fn extra_bytes(&self) -> usize {
        if self.0.is_some() { EXTRA_BYTES } else { 0 }
    }

    /// Returns what protects the datagrams of one endpoint. Its nonces count up from `nonce`: no
    /// other endpoint that may use the same connection ids under the same secret may begin near it.
    pub fn guard(&self, nonce: u64) -> DatagramGuard {
        DatagramGuard(self.0.map(|roots| KeyedGuard {
            initiator: DirectionKeys { root: roots.initiator, last: None },
            responder: DirectionKeys { root: roots.responder, last: None },
            nonce,
        }))
    }
}

impl std::fmt::Debug for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Protection(key)" } else { "Protection(checksum)" })
    }
}

/// Protects the datagrams of one endpoint, and checks those of others; by default with a checksum.
#[derive(Default)]
pub struct DatagramGuard(Option<KeyedGuard>);

struct KeyedGuard {
    initiator: DirectionKeys,
    responder: DirectionKeys,
    /// The nonce of the next datagram that is sent.
    nonce: u64,
}

impl DatagramGuard {
    /// Returns how many bytes longer a datagram is than the same one with a checksum.
    pub fn extra_bytes(&self) -> usize {
        if self.0.is_some() { EXTRA_BYTES } else { 0 }
    }

    /// Reads the header of a datagram that `sender` made: type and ids, and a reader of what
    /// follows, which is decrypted into `clear`. Returns `None` if the datagram is too short,
    /// damaged or not made with the key.
    pub fn open<'a>(
        &mut self,
        sender: SenderSide,
        datagram: &'a [u8],
        clear: &'a mut Vec<u8>,
    ) -> Option<(u8, Ids, ByteReader<'a>)> {
        let Some(guard) = &mut self.0 else { return wire::open(datagram) };
        let (kind, ids, mut reader) = wire::header(datagram)?;
        let nonce = reader.array()?;
        clear.clear();
        clear.extend_from_slice(reader.rest());
        let header = &datagram[..CLEAR_BYTES];
        let key = guard.keys(sender).of_datagram(header, nonce);
        let opened = key.open_in_place(full_nonce(nonce), Aad::from(header), clear).ok()?;
        Some((kind, ids, ByteReader::new(opened)))
    }

    /// Protects the datagram that `sender` has written as the last `bytes` of `out`. Returns its
    /// length.
    pub fn seal(&mut self, sender: SenderSide, out: &mut Vec<u8>, bytes: usize) -> usize {
        let start = out.len() - bytes;
        let Some(guard) = &mut self.0 else {
            wire::seal(&mut out[start..]);
            return bytes;
        };
        let nonce = guard.nonce.to_be_bytes();
        guard.nonce = guard.nonce.wrapping_add(1);
        // The nonce takes the place of the checksum, and is longer.
        let rest = start + CHECKSUM.end..out.len();
        out.extend([0; LONGER]);
        out.copy_within(rest, start + CLEAR_BYTES + NONCE_BYTES);
        let (header, rest) = out[start..].split_at_mut(CLEAR_BYTES);
        let (nonce_field, content) = rest.split_at_mut(NONCE_BYTES);
        nonce_field.copy_from_slice(&nonce);
        let key = guard.keys(sender).of_datagram(header, nonce);
        let tag = key.seal_in_place_separate_tag(full_nonce(nonce), Aad::from(header), content);
        out.extend_from_slice(tag.expect("a datagram is far below 256 GB").as_ref());
        out.len() - start
    }
}

impl std::fmt::Debug for DatagramGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Guard(key)" } else { "Guard(checksum)" })
    }
}

impl KeyedGuard {
    fn keys(&mut self, sender: SenderSide) -> &mut DirectionKeys {
        match sender {
            SenderSide::Initiator => &mut self.initiator,
            SenderSide::Responder => &mut self.responder,
        }
    }
}

/// The keys of one direction. Each connection has its own, so no nonce has to differ from those of
/// other connections, and no datagram is good in another one; and each 2^23 nonces have their own.
struct DirectionKeys {
    root: [u8; 32],
    /// The key that was used last, and what it is for: datagrams come in trains. Strangers choose ids
    /// and nonces, so no more is kept.
    last: Option<(KeyName, LessSafeKey)>,
}

/// What a key is for: both ids, of which each side draws one, and the upper bits of the nonce.
type KeyName = [u8; CLEAR_BYTES - 1 + NONCE_BYTES];

impl DirectionKeys {
    /// Returns the key of a datagram: of the connection whose ids follow the type in `header`.
    fn of_datagram(&mut self, header: &[u8], nonce: [u8; NONCE_BYTES]) -> &LessSafeKey {
        let mut name = [0; size_of::<KeyName>()];
        let (ids, epoch) = name.split_at_mut(CLEAR_BYTES - 1);
        ids.copy_from_slice(&header[1..]);
        epoch.copy_from_slice(&(u64::from_be_bytes(nonce) >> KEY_BITS).to_be_bytes());
        self.last.take_if(|(of, _)| *of != name);
        let (_, key) = self.last.get_or_insert_with(|| (name, derived_key(&self.root, &name)));
        key
    }
}

/// A keyed hash of what a key is for, as a key.
fn derived_key(root: &[u8; 32], name: &KeyName) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, blake3::keyed_hash(root, name).as_bytes());
    LessSafeKey::new(key.expect("32 bytes are what the algorithm takes"))
}

/// The nonce as the algorithm has it: zeros in front.
fn full_nonce(nonce: [u8; NONCE_BYTES]) -> Nonce {
    let mut full = [0; NONCE_LEN];
    full[NONCE_LEN - NONCE_BYTES..].copy_from_slice(&nonce);
    Nonce::assume_unique_for_key(full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use SenderSide::{Initiator, Responder};

    const IDS: Ids = Ids { to: 7, from: 8 };
    const REASON: &str = "nobody else may read this";

    fn close(guard: &mut DatagramGuard, sender: SenderSide, ids: Ids) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let bytes = wire::write_close(&mut out, ids, wire::CloseCode::Stopped, REASON);
        let bytes = guard.seal(sender, &mut out, bytes);
        assert_eq!(out.len(), 6 + bytes);
        out.split_off(6)
    }

    fn sealed(protection: &Protection, sender: SenderSide) -> Vec<u8> {
        close(&mut protection.guard(5), sender, IDS)
    }

    /// The ids of a datagram that is good.
    fn read(protection: &Protection, sender: SenderSide, datagram: &[u8]) -> Option<Ids> {
        let mut clear = b"of an earlier one".to_vec();
        let mut guard = protection.guard(0);
        let (ids, packet) = guard.open(sender, datagram, &mut clear).and_then(wire::read)?;
        assert_eq!(packet, wire::WirePacket::Close(wire::CloseCode::Stopped, REASON));
        Some(ids)
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
            let datagram = sealed(&key, sender);
            assert_eq!(read(&key, sender, &datagram), Some(IDS));
            assert_eq!(read(&key, sender.other(), &datagram), None, "reflected");
            for other in &others {
                assert_eq!(read(other, sender, &datagram), None, "{other:?}");
                assert_eq!(read(&key, sender, &sealed(other, sender)), None, "{other:?}");
            }
        }
    }

    #[test]
    fn a_datagram_is_good_in_its_connection_only() {
        let key = Protection::transfer(&[1; 32]);
        let mut guard = key.guard(5);
        // Both in turn, so that the key that was used last is that of the other one.
        for ids in [IDS, Ids { to: 7, from: 9 }, IDS, Ids { to: 6, from: 8 }] {
            let datagram = close(&mut guard, Initiator, ids);
            assert_eq!(read(&key, Initiator, &datagram), Some(ids));
            for at in [8, 16] {
                let mut replayed = datagram.clone();
                replayed[at] ^= 1;
                assert_eq!(read(&key, Initiator, &replayed), None, "byte {at}");
            }
        }
    }

    /// RFC 9001 section 6.6 allows 2^23 datagrams under a key of AES-GCM.
    #[test]
    fn a_key_encrypts_2_to_the_23_datagrams_and_then_comes_the_next() {
        let key = Protection::transfer(&[1; 32]);
        let Some(roots) = key.0 else { panic!("it has a key") };
        let mut keys = DirectionKeys { root: roots.initiator, last: None };
        let header = sealed(&key, Initiator)[..CLEAR_BYTES].to_vec();
        let mut name = |nonce: u64| {
            keys.of_datagram(&header, nonce.to_be_bytes());
            keys.last.as_ref().map(|(name, _)| *name).unwrap()
        };
        let first = 5 << 23;
        assert_eq!(name(first), name(first + (1 << 23) - 1));
        assert_ne!(name(first), name(first + (1 << 23)));
        assert_ne!(name(first), name(first - 1));
        // Each side follows the other over the change, in any order.
        let mut guard = key.guard(first + (1 << 23) - 2);
        let datagrams = [(); 4].map(|()| close(&mut guard, Initiator, IDS));
        for at in [0, 3, 1, 2] {
            assert_eq!(read(&key, Initiator, &datagrams[at]), Some(IDS), "datagram {at}");
        }
    }

    #[test]
    fn the_content_does_not_appear_and_no_two_datagrams_are_alike() {
        let shows = |datagram: &[u8]| {
            datagram.windows(REASON.len()).any(|window| window == REASON.as_bytes())
        };
        assert!(shows(&sealed(&Protection::default(), Initiator)));
        let mut guard = Protection::transfer(&[1; 32]).guard(u64::MAX);
        let twice = [(); 2].map(|()| close(&mut guard, Initiator, IDS));
        assert!(!twice.iter().any(|datagram| shows(datagram)));
        let [first, second] = twice.map(|datagram| datagram[CLEAR_BYTES..].to_vec());
        assert_eq!(first[..NONCE_BYTES], [0xff; NONCE_BYTES]);
        assert_eq!(second[..NONCE_BYTES], [0; NONCE_BYTES], "it counts around");
        let equal = first.iter().zip(&second).filter(|(one, other)| one == other).count();
        assert!(equal < 8, "{equal} of {} bytes are the same", first.len());
    }

    #[test]
    fn every_bit_of_a_datagram_counts() {
        let key = Protection::transfer(&[1; 32]);
        let datagram = sealed(&key, Initiator);
        let plain = sealed(&Protection::default(), Initiator);
        assert_eq!(datagram.len(), plain.len() + key.extra_bytes());
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&key, Initiator, &changed), None, "bit {bit}");
        }
        for length in 0..datagram.len() {
            assert_eq!(read(&key, Initiator, &datagram[..length]), None, "{length} bytes");
        }
        assert_eq!(read(&key, Initiator, &[&datagram[..], &[0]].concat()), None, "one more");
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let key = Protection::transfer(&[1; 32]);
        assert_eq!(format!("{key:?} {:?}", key.guard(1)), "Protection(key) Guard(key)");
    }
}
