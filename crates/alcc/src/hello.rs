//! The first bytes of each direction. `docs/alcc-wire.md` describes them for people.
//!
//! The layout is the same in all versions of the protocol; later ones may add fields between the
//! text and the checksum.

use std::fmt;

use thiserror::Error;

/// The version of this protocol.
pub const VERSION: u16 = 1;

/// How a hello begins. The first byte occurs in no UTF-8 and begins no TLS record, so that nearly
/// every other protocol is recognised by it; the rest shows streams that somebody treats as text:
/// a zero, a byte of ones, CR LF and the end-of-file character of old systems.
pub const MAGIC: [u8; 8] = [0xf5, b'C', b'P', 0x00, 0xff, b'\r', b'\n', 0x1a];

/// The longest hello.
pub const MAX_BYTES: usize = 256;

/// The longest text.
pub const MAX_TEXT_BYTES: usize = 200;

/// Everything but the text.
const MIN_BYTES: usize = 31;

const ANSWER: u8 = 1;

/// What an end says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlccHello<'a> {
    /// In the first hello the highest version spoken; in the answer the version chosen, or when it
    /// is a refusal again the highest.
    pub version: u16,
    /// Whether this answers a hello.
    pub answer: bool,
    /// Why the answer is no.
    pub refusal: Option<Refusal>,
    /// TCP payload of a full packet of this end, frame header included.
    pub segment: u16,
    /// What a packet counts for beside its TCP payload: headers of IP and TCP.
    pub overhead: u16,
    /// Offset in the other end's stream up to which this end takes bytes.
    pub window: u64,
    /// The controller of this end, if it has a half at the other end; else empty. If not empty, all
    /// data frames of this end carry stamps.
    pub half: &'a str,
}

/// Why a hello is answered with no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The version is not spoken.
    Version,
    /// The controller's half at this end cannot be had.
    Controller,
    /// The connection is not wanted, or the reason is one of a later version.
    Other,
}

/// Why the bytes behind [`MAGIC`] are no hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HelloError {
    /// Its length cannot be.
    #[error("a hello of {0} bytes")]
    Length(u16),
    /// It was damaged on the way.
    #[error("the hello is damaged")]
    Checksum,
    /// A field holds what it cannot hold.
    #[error("the hello makes no sense")]
    Content,
    /// A hello came where an answer is due, or the other way round.
    #[error("both ends connected, or both listened")]
    Role,
}

impl Refusal {
    fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => None,
            1 => Some(Self::Version),
            2 => Some(Self::Controller),
            _ => Some(Self::Other),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Version => 1,
            Self::Controller => 2,
            Self::Other => 3,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "no common version",
            Self::Controller => "no such receiver",
            Self::Other => "not wanted",
        })
    }
}

/// What the bytes so far are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloScan {
    /// Not a hello, and never will be.
    Other,
    /// The beginning of one, or nothing yet; whether the magic is complete.
    More {
        /// Whether this can be nothing but a hello.
        certain: bool,
    },
    /// All of one, with this length.
    Whole(usize),
}

/// Looks at the first bytes of a stream. Only those of the hello are looked at.
///
/// # Errors
/// When it is a hello with an impossible length.
pub fn scan(bytes: &[u8]) -> Result<HelloScan, HelloError> {
    if bytes.iter().zip(&MAGIC).any(|(byte, magic)| byte != magic) {
        return Ok(HelloScan::Other);
    }
    let certain = bytes.len() >= MAGIC.len();
    let Some(length) = bytes.get(8..10).and_then(|bytes| bytes.first_chunk::<2>()) else {
        return Ok(HelloScan::More { certain });
    };
    let length = u16::from_be_bytes(*length);
    if !(MIN_BYTES..=MAX_BYTES).contains(&usize::from(length)) {
        return Err(HelloError::Length(length));
    }
    if bytes.len() < usize::from(length) {
        return Ok(HelloScan::More { certain });
    }
    Ok(HelloScan::Whole(usize::from(length)))
}

/// Reads a whole hello.
///
/// # Errors
/// When it is damaged or says what cannot be.
pub fn decode(bytes: &[u8]) -> Result<AlccHello<'_>, HelloError> {
    if scan(bytes)? != HelloScan::Whole(bytes.len()) {
        return Err(HelloError::Content);
    }
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or(HelloError::Content)?;
    if crc32fast::hash(body) != u32::from_be_bytes(*sum) {
        return Err(HelloError::Checksum);
    }
    fields(&body[10..]).ok_or(HelloError::Content)
}

/// What stands between the length and the checksum.
fn fields(body: &[u8]) -> Option<AlccHello<'_>> {
    let (version, rest) = body.split_first_chunk()?;
    let ([flags, code], rest) = rest.split_first_chunk()?;
    let (segment, rest) = rest.split_first_chunk()?;
    let (overhead, rest) = rest.split_first_chunk()?;
    let (window, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first()?;
    let half = std::str::from_utf8(rest.get(..usize::from(*length))?).ok()?;
    if half.len() > MAX_TEXT_BYTES {
        return None;
    }
    Some(AlccHello {
        version: u16::from_be_bytes(*version),
        answer: flags & ANSWER != 0,
        refusal: Refusal::from_code(*code),
        segment: u16::from_be_bytes(*segment),
        overhead: u16::from_be_bytes(*overhead),
        window: u64::from_be_bytes(*window),
        half,
    })
}

/// Appends a hello to `out`. The text is at most [`MAX_TEXT_BYTES`] long, or is left out.
pub fn write(out: &mut Vec<u8>, hello: &AlccHello<'_>) {
    let start = out.len();
    let half = if hello.half.len() > MAX_TEXT_BYTES { "" } else { hello.half };
    out.extend(MAGIC);
    out.extend(((MIN_BYTES + half.len()) as u16).to_be_bytes());
    out.extend(hello.version.to_be_bytes());
    out.push(if hello.answer { ANSWER } else { 0 });
    out.push(hello.refusal.map_or(0, Refusal::code));
    out.extend(hello.segment.to_be_bytes());
    out.extend(hello.overhead.to_be_bytes());
    out.extend(hello.window.to_be_bytes());
    out.push(half.len() as u8);
    out.extend(half.as_bytes());
    let sum = crc32fast::hash(&out[start..]);
    out.extend(sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: AlccHello<'_> = AlccHello {
        version: 1,
        answer: false,
        refusal: None,
        segment: 1448,
        overhead: 52,
        window: 1 << 20,
        half: "sprout:confidence=25%",
    };

    fn written(hello: &AlccHello<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, hello);
        out
    }

    #[test]
    fn a_hello_comes_back_and_fits() {
        let long = "x".repeat(MAX_TEXT_BYTES);
        let refused =
            AlccHello { answer: true, refusal: Some(Refusal::Version), half: "", ..HELLO };
        for hello in [HELLO, AlccHello { half: &long, ..HELLO }, refused] {
            let bytes = written(&hello);
            assert!(bytes.len() <= MAX_BYTES);
            assert_eq!(scan(&bytes), Ok(HelloScan::Whole(bytes.len())));
            assert_eq!(decode(&bytes), Ok(hello));
        }
    }

    #[test]
    fn a_stream_is_another_protocols_from_the_first_byte_that_differs_on() {
        let bytes = written(&HELLO);
        for length in 0..bytes.len() {
            let certain = length >= MAGIC.len();
            assert_eq!(scan(&bytes[..length]), Ok(HelloScan::More { certain }), "{length}");
        }
        for length in 0..MAGIC.len() {
            let mut other = MAGIC[..length].to_vec();
            other.push(MAGIC[length] ^ 1);
            assert_eq!(scan(&other), Ok(HelloScan::Other), "{length}");
        }
        for text in ["GET / HTTP/1.1\r\n", "SSH-2.0-", "\x16\x03\x01", "PRI * HTTP/2.0", "\r\n"] {
            assert_eq!(scan(&text.as_bytes()[..1]), Ok(HelloScan::Other), "{text:?}");
        }
    }

    #[test]
    fn every_damaged_bit_behind_the_magic_is_noticed() {
        let bytes = written(&HELLO);
        for bit in MAGIC.len() * 8..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|end| decode(&bytes[..end]).is_err()));
    }

    #[test]
    fn lengths_that_cannot_be_are_refused_before_the_bytes_come() {
        for length in [0_u16, 30, 257, u16::MAX] {
            let bytes = [MAGIC.as_slice(), &length.to_be_bytes()].concat();
            assert_eq!(scan(&bytes), Err(HelloError::Length(length)));
        }
    }

    fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let body = bytes.len() - 4;
        let sum = crc32fast::hash(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn what_later_versions_add_is_passed_over() {
        let mut bytes = written(&HELLO);
        let at = bytes.len() - 4;
        bytes.splice(at..at, *b"more");
        bytes[9] += 4;
        bytes[13] = 0;
        bytes[12] |= 0xfe;
        assert_eq!(decode(&resealed(bytes)), Ok(HELLO));
    }

    #[test]
    fn texts_that_are_none_are_refused() {
        let mut bytes = written(&HELLO);
        bytes[27] = 0xff;
        assert_eq!(decode(&resealed(bytes.clone())), Err(HelloError::Content), "not UTF-8");
        bytes[27] = b's';
        bytes[26] += 1;
        assert_eq!(decode(&resealed(bytes)), Err(HelloError::Content), "longer than the hello");
    }
}
