//! Datagrams as bytes. `docs/udp-wire.md` describes the same for people, with test vectors that
//! the tests of this module read.
//!
//! Whatever the bytes, decoding neither panics nor allocates.

use cellpace_base::{ByteReader, Ecn, Time};

/// The version of everything in this module. The header, the version in [`WirePacket::Hello`] and
/// [`WirePacket::Version`] are the same in all versions.
pub const VERSION: u32 = 1;

/// A [`WirePacket::Hello`] is at least this long, so that no answer to it is longer. It fits into the
/// smallest packet that IPv6 carries everywhere.
pub const HELLO_BYTES: usize = 1200;

/// Type, two connection ids, checksum.
pub const HEADER_BYTES: usize = 1 + 8 + 8 + 4;

/// Bytes in front of the payload of [`WirePacket::Data`]; a stamp adds to them.
pub const DATA_HEADER_BYTES: usize = HEADER_BYTES + 8 + 4 + 8;

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 8;

/// The longest text in a packet.
pub const MAX_TEXT_BYTES: usize = 250;

/// Position of the checksum. With a key, the longer tag begins there.
pub(crate) const CHECKSUM: std::ops::Range<usize> = 17..21;

/// A proof that its bearer receives what is sent to its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cookie {
    /// When it was issued, in milliseconds of the issuer's clock.
    pub issued_ms: u64,
    /// The issuer's seal on address, connection id and time. Zero: no cookie.
    pub seal: [u8; 16],
}

/// What an initiator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The version of the protocol.
    pub version: u32,
    /// Where it is zero, the responder answers with [`WirePacket::Retry`].
    pub cookie: Cookie,
    /// Lost packets are not sent again, and nothing is kept in order.
    pub unreliable: bool,
    /// The initiator receives.
    pub reverse: bool,
    /// The initiator receives and delays its acks.
    pub delayed_acks: bool,
    /// The initiator wants acks that report codepoints, or can write them.
    pub ecn: bool,
    /// Largest IP packet in bytes that the initiator sends or wants.
    pub mtu: u16,
    /// Bytes of the stream that the initiator takes, where it receives.
    pub window: u64,
    /// The sender's controller as text, where the initiator sends.
    pub controller: &'a str,
}

/// What a responder agrees to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptPacket<'a> {
    /// Lost packets are not sent again, and nothing is kept in order.
    pub unreliable: bool,
    /// The responder receives and delays its acks.
    pub delayed_acks: bool,
    /// Acks report codepoints.
    pub ecn: bool,
    /// Largest IP packet in bytes that the responder sends or wants.
    pub mtu: u16,
    /// Bytes of the stream that the responder takes, where it receives.
    pub window: u64,
    /// How many flows the responder offers, where it sends.
    pub flows: u16,
    /// The sender's controller as text, where the responder sends.
    pub controller: &'a str,
}

/// Numbers of a packet that counts towards the congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// Packet number.
    pub number: u64,
    /// No packet further back than this matters to the sender any more.
    pub matters: u32,
    /// The controller's stamp for its other half, if it has one.
    pub stamp: Option<u64>,
}

/// One arrival in an acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckEntry {
    /// Packet number.
    pub number: u64,
    /// When it arrived, on the receiver's clock, in whole microseconds.
    pub received_at: Time,
    /// Its codepoint as it arrived; [`Ecn::NotEct`] where acks do not report it.
    pub ecn: Ecn,
}

/// How many packets have arrived with each codepoint, each packet counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EcnCounts {
    /// As ECT(0).
    pub ect0: u64,
    /// As ECT(1).
    pub ect1: u64,
    /// With a mark.
    pub ce: u64,
}

impl EcnCounts {
    /// Counts a packet.
    pub fn count(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }

    /// Whether none is smaller than it was in an earlier ack.
    pub fn follows(&self, earlier: &Self) -> bool {
        self.ect0 >= earlier.ect0 && self.ect1 >= earlier.ect1 && self.ce >= earlier.ce
    }
}

/// An acknowledgment. Entries and ranges are decoded as they are iterated over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPacket<'a> {
    /// Counts up by one with every acknowledgment.
    pub sequence: u64,
    /// Offset in the stream up to which the receiver takes bytes.
    pub window: u64,
    /// How many packets arrived before the first entry.
    pub position: u64,
    /// Microseconds from the newest arrival to this ack, or from the end of a delay.
    pub held_us: u32,
    /// The report of the algorithm's half at the receiver; empty: none.
    pub report: &'a [u8],
    entries: Varints<'a>,
    ranges: Varints<'a>,
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CloseCode {
    /// Everything arrived and is where it belongs.
    Done = 0,
    /// The user stopped it.
    Stopped = 1,
    /// What arrived could not be written.
    Storage = 2,
    /// What arrived is not what was sent.
    Checksum = 3,
    /// There is no room for another flow.
    Busy = 4,
    /// The other side asks for something that is not supported.
    Unsupported = 5,
    /// A code of a later version.
    Other = 255,
}

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WirePacket<'a> {
    /// The first packet of the initiator.
    Hello(Hello<'a>),
    /// Asks for another hello, with this cookie.
    Retry(Cookie),
    /// The version asked for is not supported; this one is.
    Version(u32),
    /// The flow is refused.
    Refuse(CloseCode, &'a str),
    /// The flow is accepted.
    Accept(AcceptPacket<'a>),
    /// A piece of the stream.
    Data(Numbered, u64, &'a [u8]),
    /// The end of the stream: its length and the BLAKE3 hash of all of it.
    Fin(Numbered, u64, [u8; 32]),
    /// An acknowledgment.
    Ack(AckPacket<'a>),
    /// A ping, answered by an acknowledgment.
    Ping,
    /// The connection ends.
    Close(CloseCode, &'a str),
    /// The answer to a close.
    Closed,
}

/// Both ids of a connection. Whoever does not know both can neither feed nor end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ids {
    /// The id of the side that receives the packet; zero in a hello.
    pub to: u64,
    /// The id of the side that sends it; zero while there is none.
    pub from: u64,
}

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const RETRY: u8 = 2;
    pub(super) const VERSION: u8 = 3;
    pub(super) const REFUSE: u8 = 4;
    pub(super) const ACCEPT: u8 = 5;
    pub(super) const DATA: u8 = 6;
    pub(super) const STAMPED_DATA: u8 = 7;
    pub(super) const FIN: u8 = 8;
    pub(super) const STAMPED_FIN: u8 = 9;
    pub(super) const ACK: u8 = 10;
    pub(super) const PING: u8 = 11;
    pub(super) const CLOSE: u8 = 12;
    pub(super) const CLOSED: u8 = 13;
}

const UNRELIABLE: u8 = 1;
const REVERSE: u8 = 2;
const DELAYED_ACKS: u8 = 4;
const ECN: u8 = 8;

/// Reads a datagram without a key. `None`: it is none of ours, or was damaged on the way.
pub fn decode(datagram: &[u8]) -> Option<(Ids, WirePacket<'_>)> {
    read(open(datagram)?)
}

/// Reads a datagram that nothing protects yet.
#[cfg(test)]
pub(crate) fn decode_bare(datagram: &[u8]) -> Option<(Ids, WirePacket<'_>)> {
    let (kind, ids, mut reader) = header(datagram)?;
    reader.u32()?;
    read((kind, ids, reader))
}

/// Reads what follows a header. `None`: it is none of ours.
pub fn read((kind, ids, mut reader): (u8, Ids, ByteReader<'_>)) -> Option<(Ids, WirePacket<'_>)> {
    let packet = match kind {
        kind::HELLO => WirePacket::Hello(read_hello(&mut reader)?),
        kind::RETRY => WirePacket::Retry(read_cookie(&mut reader)?),
        kind::VERSION => WirePacket::Version(reader.u32()?),
        kind::REFUSE => WirePacket::Refuse(read_code(&mut reader)?, read_text(&mut reader)?),
        kind::ACCEPT => WirePacket::Accept(read_accept(&mut reader)?),
        kind::DATA | kind::STAMPED_DATA => {
            let numbered = read_numbered(&mut reader, kind == kind::STAMPED_DATA)?;
            WirePacket::Data(numbered, reader.u64()?, reader.rest())
        }
        kind::FIN | kind::STAMPED_FIN => {
            let numbered = read_numbered(&mut reader, kind == kind::STAMPED_FIN)?;
            WirePacket::Fin(numbered, reader.u64()?, reader.array()?)
        }
        kind::ACK => WirePacket::Ack(read_ack(&mut reader)?),
        kind::PING => WirePacket::Ping,
        kind::CLOSE => WirePacket::Close(read_code(&mut reader)?, read_text(&mut reader)?),
        kind::CLOSED => WirePacket::Closed,
        _ => return None,
    };
    Some((ids, packet))
}

/// Reads the header that all datagrams without a key have: type and ids, and a reader of what
/// follows. `None` where it is too short or was damaged on the way.
pub fn open(datagram: &[u8]) -> Option<(u8, Ids, ByteReader<'_>)> {
    let (kind, ids, mut reader) = header(datagram)?;
    (reader.u32()? == checksum(datagram)).then_some((kind, ids, reader))
}

/// Type and ids of a datagram, unchecked, and a reader of what follows them.
pub(crate) fn header(datagram: &[u8]) -> Option<(u8, Ids, ByteReader<'_>)> {
    let mut reader = ByteReader::new(datagram);
    let kind = reader.u8()?;
    Some((kind, Ids { to: reader.u64()?, from: reader.u64()? }, reader))
}

/// CRC-32 (IEEE) of the datagram without the field that holds it. UDP's own 16 bits let one
/// damaged datagram in 65536 pass.
fn checksum(datagram: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&datagram[..CHECKSUM.start]);
    hasher.update(&datagram[CHECKSUM.end..]);
    hasher.finalize()
}

/// Makes the checksum of a datagram right, if it is long enough to have one.
pub fn seal(datagram: &mut [u8]) {
    if datagram.len() >= HEADER_BYTES {
        let checksum = checksum(datagram);
        datagram[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Reads a text with its length in front. `None` also for one with control characters: it is shown
/// to people, and no terminal may obey it.
pub fn read_text<'a>(reader: &mut ByteReader<'a>) -> Option<&'a str> {
    let text = std::str::from_utf8(reader.counted()?).ok()?;
    (!text.contains(char::is_control)).then_some(text)
}

fn read_code(reader: &mut ByteReader<'_>) -> Option<CloseCode> {
    Some(CloseCode::from_byte(reader.u8()?))
}

/// Reads a cookie.
pub fn read_cookie(reader: &mut ByteReader<'_>) -> Option<Cookie> {
    Some(Cookie { issued_ms: reader.u64()?, seal: reader.array()? })
}

fn read_hello<'a>(reader: &mut ByteReader<'a>) -> Option<Hello<'a>> {
    let version = reader.u32()?;
    if version != VERSION {
        // What follows may mean anything.
        return Some(Hello { version, ..Hello::default() });
    }
    let cookie = read_cookie(reader)?;
    let flags = reader.u8()?;
    Some(Hello {
        version,
        cookie,
        unreliable: flags & UNRELIABLE != 0,
        reverse: flags & REVERSE != 0,
        delayed_acks: flags & DELAYED_ACKS != 0,
        ecn: flags & ECN != 0,
        mtu: reader.u16()?,
        window: reader.u64()?,
        controller: read_text(reader)?,
    })
}

fn read_accept<'a>(reader: &mut ByteReader<'a>) -> Option<AcceptPacket<'a>> {
    let flags = reader.u8()?;
    Some(AcceptPacket {
        unreliable: flags & UNRELIABLE != 0,
        delayed_acks: flags & DELAYED_ACKS != 0,
        ecn: flags & ECN != 0,
        mtu: reader.u16()?,
        window: reader.u64()?,
        flows: reader.u16()?,
        controller: read_text(reader)?,
    })
}

fn read_numbered(reader: &mut ByteReader<'_>, stamped: bool) -> Option<Numbered> {
    let (number, matters) = (reader.u64()?, reader.u32()?);
    let stamp = if stamped { Some(reader.u64()?) } else { None };
    Some(Numbered { number, matters, stamp })
}

fn read_ack<'a>(reader: &mut ByteReader<'a>) -> Option<AckPacket<'a>> {
    let (sequence, window, position) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let held_us = reader.u32()?;
    let lengths = [reader.u16()?, reader.u16()?].map(usize::from);
    let report = reader.bytes(lengths[0])?;
    let entries = Varints(reader.bytes(lengths[1])?);
    let ranges = Varints(reader.rest());
    Some(AckPacket { sequence, window, position, held_us, report, entries, ranges })
}

impl Default for Hello<'_> {
    fn default() -> Self {
        Self {
            version: VERSION,
            cookie: Cookie::default(),
            unreliable: false,
            reverse: false,
            delayed_acks: false,
            ecn: false,
            mtu: 0,
            window: 0,
            controller: "",
        }
    }
}

impl CloseCode {
    fn from_byte(byte: u8) -> Self {
        let known = [
            Self::Done,
            Self::Stopped,
            Self::Storage,
            Self::Checksum,
            Self::Busy,
            Self::Unsupported,
        ];
        known.get(usize::from(byte)).copied().unwrap_or(Self::Other)
    }
}

impl<'a> AckPacket<'a> {
    /// The arrivals from [`position`](Self::position) on, in their order, of an ack that reports
    /// no codepoints.
    pub fn entries(&self) -> impl Iterator<Item = AckEntry> + use<'a> {
        read_entries(self.entries, |rest| (rest, Ecn::NotEct))
    }

    /// The counts of an ack that reports codepoints, and its arrivals. `None` where it has no
    /// counts.
    pub fn ecn_entries(&self) -> Option<(EcnCounts, impl Iterator<Item = AckEntry> + use<'a>)> {
        let mut varints = self.entries;
        let counts =
            EcnCounts { ect0: varints.next()?, ect1: varints.next()?, ce: varints.next()? };
        let split = |rest: u64| (rest >> 2, Ecn::from_bits(rest as u8));
        Some((counts, read_entries(varints, split)))
    }

    /// Ranges of the packet numbers that have arrived, the highest first, each with its first
    /// and its last number.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let mut varints = self.ranges;
        let mut below: Option<u64> = None;
        std::iter::from_fn(move || {
            let gap = varints.next()?;
            let last = match below {
                None => gap,
                Some(below) => below.checked_sub(gap)?.checked_sub(1)?,
            };
            let first = last.checked_sub(varints.next()?)?;
            below = first.checked_sub(1);
            if below.is_none() {
                // Nothing can follow.
                varints = Varints(&[]);
            }
            Some((first, last))
        })
    }
}

/// Reads entries, of which the second number is what `split` makes of it: microseconds since the
/// entry before, and a codepoint.
fn read_entries(
    mut varints: Varints<'_>,
    split: impl Fn(u64) -> (u64, Ecn),
) -> impl Iterator<Item = AckEntry> {
    let (mut number, mut micros) = (0_u64, 0_u64);
    std::iter::from_fn(move || {
        // In order, each number is its predecessor's plus one, and that is written as zero.
        number = number.wrapping_add_signed(unzigzag(varints.next()?)).wrapping_add(1);
        let (passed, ecn) = split(varints.next()?);
        micros = micros.saturating_add(passed);
        Some(AckEntry { number: number.wrapping_sub(1), received_at: time(micros), ecn })
    })
}

/// Time in whole microseconds that fits.
fn time(micros: u64) -> Time {
    Time::from_nanos(micros.saturating_mul(1_000))
}

/// Writes one datagram at the end of a buffer that may hold others.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    /// Begins a datagram of this type.
    pub fn new(out: &'a mut Vec<u8>, kind: u8, ids: Ids) -> Self {
        let start = out.len();
        out.push(kind);
        out.extend(ids.to.to_be_bytes());
        out.extend(ids.from.to_be_bytes());
        out.extend([0; 4]);
        Self { out, start }
    }

    /// Ends the datagram, without a checksum: whatever protects it comes last. Returns its length.
    pub fn end(self) -> usize {
        self.out.len() - self.start
    }

    /// Writes bytes.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self
    }

    /// Writes one byte.
    pub fn u8(self, value: u8) -> Self {
        self.bytes(&[value])
    }

    /// Writes two bytes.
    pub fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Writes four bytes.
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Writes eight bytes.
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Writes a text without control characters, cut to the maximum length.
    pub fn text(self, text: &str) -> Self {
        let text = text.replace(char::is_control, " ");
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.u8(end as u8).bytes(&text.as_bytes()[..end])
    }

    /// Writes a cookie.
    pub fn cookie(self, cookie: &Cookie) -> Self {
        self.u64(cookie.issued_ms).bytes(&cookie.seal)
    }

    /// Pads the datagram with zeros to `bytes`, if it is shorter.
    pub fn pad(self, bytes: usize) -> Self {
        let length = self.out.len().max(self.start + bytes);
        self.out.resize(length, 0);
        self
    }

    /// Writes a number of seven bits a byte, as [`Varints`] reads it.
    pub fn varint(self, value: u64) -> Self {
        put_varint(self.out, value);
        self
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.out.len() - self.start
    }

    fn numbered(self, numbered: Numbered) -> Self {
        let writer = self.u64(numbered.number).u32(numbered.matters);
        match numbered.stamp {
            Some(stamp) => writer.u64(stamp),
            None => writer,
        }
    }
}

/// Writes a hello, padded to [`HELLO_BYTES`].
pub fn write_hello(out: &mut Vec<u8>, ids: Ids, hello: &Hello<'_>) -> usize {
    let flags = flag(hello.unreliable, UNRELIABLE)
        | flag(hello.reverse, REVERSE)
        | flag(hello.delayed_acks, DELAYED_ACKS)
        | flag(hello.ecn, ECN);
    Writer::new(out, kind::HELLO, ids)
        .u32(hello.version)
        .cookie(&hello.cookie)
        .u8(flags)
        .u16(hello.mtu)
        .u64(hello.window)
        .text(hello.controller)
        .pad(HELLO_BYTES)
        .end()
}

fn flag(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

/// Writes the answer to a hello without a cookie.
pub fn write_retry(out: &mut Vec<u8>, ids: Ids, cookie: &Cookie) -> usize {
    Writer::new(out, kind::RETRY, ids).cookie(cookie).end()
}

/// Writes the answer to a hello of another version.
pub fn write_version(out: &mut Vec<u8>, ids: Ids, version: u32) -> usize {
    Writer::new(out, kind::VERSION, ids).u32(version).end()
}

/// Writes a refusal.
pub fn write_refuse(out: &mut Vec<u8>, ids: Ids, code: CloseCode, text: &str) -> usize {
    Writer::new(out, kind::REFUSE, ids).u8(code as u8).text(text).end()
}

/// Writes an acceptance.
pub fn write_accept(out: &mut Vec<u8>, ids: Ids, accept: &AcceptPacket<'_>) -> usize {
    let flags = flag(accept.unreliable, UNRELIABLE)
        | flag(accept.delayed_acks, DELAYED_ACKS)
        | flag(accept.ecn, ECN);
    Writer::new(out, kind::ACCEPT, ids)
        .u8(flags)
        .u16(accept.mtu)
        .u64(accept.window)
        .u16(accept.flows)
        .text(accept.controller)
        .end()
}

/// Writes a piece of the stream, given in two parts.
pub fn write_data(
    out: &mut Vec<u8>,
    ids: Ids,
    numbered: Numbered,
    offset: u64,
    payload: (&[u8], &[u8]),
) -> usize {
    let kind = if numbered.stamp.is_some() { kind::STAMPED_DATA } else { kind::DATA };
    let writer = Writer::new(out, kind, ids).numbered(numbered).u64(offset);
    writer.bytes(payload.0).bytes(payload.1).end()
}

/// Writes the end of the stream.
pub fn write_fin(
    out: &mut Vec<u8>,
    ids: Ids,
    numbered: Numbered,
    total: u64,
    hash: &[u8; 32],
) -> usize {
    let kind = if numbered.stamp.is_some() { kind::STAMPED_FIN } else { kind::FIN };
    Writer::new(out, kind, ids).numbered(numbered).u64(total).bytes(hash).end()
}

/// The fields of an acknowledgment without its lists.
#[derive(Debug, Clone, Copy)]
pub struct AckHead<'a> {
    /// Counts up by one with every acknowledgment.
    pub sequence: u64,
    /// Offset in the stream up to which the receiver takes bytes.
    pub window: u64,
    /// How many packets arrived before the first entry.
    pub position: u64,
    /// Microseconds from the newest arrival to this ack, or from the end of a delay.
    pub held_us: u32,
    /// The report of the algorithm's half; left out where there is no room.
    pub report: &'a [u8],
    /// The counts of codepoints, where the ack reports them, those of its entries included.
    pub ecn: Option<EcnCounts>,
}

/// Writes an acknowledgment of at most `room` bytes. `ranges` are from the highest downwards,
/// ends excluded. Returns its length and how many of the entries it holds; as many ranges follow
/// as there is room for.
pub fn write_ack<'e>(
    out: &mut Vec<u8>,
    ids: Ids,
    room: usize,
    head: &AckHead<'_>,
    entries: impl Iterator<Item = AckEntry>,
    ranges: impl Iterator<Item = &'e std::ops::Range<u64>>,
) -> (usize, u64) {
    let limit = out.len() + room;
    let writer = Writer::new(out, kind::ACK, ids)
        .u64(head.sequence)
        .u64(head.window)
        .u64(head.position)
        .u32(head.held_us);
    let lengths = writer.out.len();
    let mut writer = writer.u32(0);
    let counts = if head.ecn.is_some() { 3 * MAX_VARINT_BYTES } else { 0 };
    if writer.out.len() + head.report.len() + counts + MIN_LISTS <= limit {
        writer = writer.bytes(head.report);
    }
    let entries_at = writer.out.len();
    let count = put_entries(writer.out, limit - MIN_LISTS, head.ecn, entries);
    let ranges_at = writer.out.len();
    put_ranges(writer.out, limit, ranges);
    let sizes = [entries_at - lengths - 4, ranges_at - entries_at];
    for (at, size) in [lengths, lengths + 2].into_iter().zip(sizes) {
        writer.out[at..at + 2].copy_from_slice(&(size as u16).to_be_bytes());
    }
    (writer.end(), count)
}

/// Room that a report and the entries leave for the others: an entry and two ranges.
const MIN_LISTS: usize = 6 * MAX_VARINT_BYTES;

fn put_entries(
    out: &mut Vec<u8>,
    limit: usize,
    counts: Option<EcnCounts>,
    entries: impl Iterator<Item = AckEntry>,
) -> u64 {
    if let Some(EcnCounts { ect0, ect1, ce }) = counts {
        [ect0, ect1, ce].into_iter().for_each(|count| put_varint(out, count));
    }
    let (mut expected, mut micros, mut count) = (0_u64, 0_u64, 0);
    for entry in entries {
        if out.len() + 2 * MAX_VARINT_BYTES > limit && count > 0 {
            break;
        }
        let at = (entry.received_at.as_nanos() / 1_000).max(micros);
        put_varint(out, zigzag(entry.number.wrapping_sub(expected) as i64));
        let passed = at - micros;
        put_varint(
            out,
            match counts {
                None => passed,
                Some(_) => passed.saturating_mul(4) | u64::from(entry.ecn.bits()),
            },
        );
        (expected, micros) = (entry.number.wrapping_add(1), at);
        count += 1;
    }
    count
}

fn put_ranges<'e>(
    out: &mut Vec<u8>,
    limit: usize,
    ranges: impl Iterator<Item = &'e std::ops::Range<u64>>,
) {
    let mut below: Option<u64> = None;
    for range in ranges {
        if out.len() + 2 * MAX_VARINT_BYTES > limit {
            break;
        }
        let last = range.end - 1;
        put_varint(out, below.map_or(last, |below| below - last - 1));
        put_varint(out, last - range.start);
        if range.start == 0 {
            break;
        }
        below = Some(range.start - 1);
    }
}

/// Writes a ping.
pub fn write_ping(out: &mut Vec<u8>, ids: Ids) -> usize {
    Writer::new(out, kind::PING, ids).end()
}

/// Writes the end of the connection.
pub fn write_close(out: &mut Vec<u8>, ids: Ids, code: CloseCode, text: &str) -> usize {
    Writer::new(out, kind::CLOSE, ids).u8(code as u8).text(text).end()
}

/// Writes the answer to a close.
pub fn write_closed(out: &mut Vec<u8>, ids: Ids) -> usize {
    Writer::new(out, kind::CLOSED, ids).end()
}

/// Numbers of seven bits a byte, the lowest first, the highest bit set on all but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Varints<'a>(pub &'a [u8]);

/// The longest such number.
pub const MAX_VARINT_BYTES: usize = 10;

impl Iterator for Varints<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut value = 0;
        for (index, byte) in self.0.iter().enumerate().take(MAX_VARINT_BYTES) {
            value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Some(value);
            }
        }
        self.0 = &[];
        None
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small numbers of either sign become small numbers.
pub fn zigzag(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
