//! The framed stream of ALCC.

use cellpace_alcc::frame::{self, AckFrame, DataHead, FrameDecoder, FrameError, FramePiece};
use cellpace_alcc::hello::{self, AlccHello, MAGIC};
use cellpace_alcc::{AlccConfig, AlccConnection, AlccError, AlccRole};
use cellpace_base::{Span, Time};

use crate::udp::SPROUT;

/// An end keeps so many bytes in each direction at most, ...
const BUFFER: usize = 10_000;

/// ... and in all, with what it knows of packets in flight.
const MAX_MEMORY: usize = 4 * BUFFER;

/// Frames after the hello, in two ways: the bytes as they are, cut into frames whole and byte by
/// byte, and as a list of frames that an end in the middle of a connection gets.
pub fn alcc_frames(bytes: &[u8]) {
    for stamped in [false, true] {
        assert_eq!(cut(bytes, stamped, bytes.len().max(1)), cut(bytes, stamped, 1));
    }
    converse(bytes);
}

/// What the pieces are, with data joined, as text.
fn cut(bytes: &[u8], stamped: bool, chunk: usize) -> (Vec<String>, Vec<u8>, Option<FrameError>) {
    let mut decoder = FrameDecoder::new(stamped);
    let (mut heads, mut data) = (Vec::new(), Vec::new());
    for mut input in bytes.chunks(chunk) {
        loop {
            match decoder.next(&mut input) {
                Ok(None) => break,
                Ok(Some(FramePiece::Bytes(bytes, _))) => data.extend(bytes),
                Ok(Some(head)) => heads.push(format!("{head:?}")),
                Err(error) => return (heads, data, Some(error)),
            }
        }
        assert!(input.is_empty());
    }
    (heads, data, None)
}

/// An end that sends under Sprout and has Sprout's half for what it receives, and whatever the
/// bytes say that the other end does. Each takes a byte for what it is, a byte for a length or a
/// number, and for raw bytes and reports as many bytes.
fn converse(bytes: &[u8]) {
    let mut now = Time::from_millis(1);
    let mut end = listener();
    let hello = AlccHello { half: SPROUT, ..HELLO };
    let mut greeting = Vec::new();
    hello::write(&mut greeting, &hello);
    let agreed = end.handle_input(now, &greeting);
    assert_eq!(agreed, Ok(greeting.len()));
    let (mut packets, mut reports, mut rest) = (0, 0, bytes);
    while let [what, count, more @ ..] = rest {
        let (taken, after) = more.split_at(more.len().min(usize::from(*count)));
        rest = more;
        now += Span::from_millis(u64::from(what >> 3));
        let mut input = Vec::new();
        match what & 7 {
            0 | 1 => {
                input.extend(taken);
                rest = after;
            }
            2 => {
                reports += 1;
                frame::write_report(&mut input, reports, taken);
                rest = after;
            }
            3 | 4 => {
                let number = u64::from(*count);
                let window = 5000 + 1000 * number;
                frame::write_ack(
                    &mut input,
                    &AckFrame { number, written_at: now, held_us: 1, window },
                );
            }
            _ => {
                packets += 1;
                let length = u32::from(*count) * 4;
                let stamp = Some(packets << 8 | u64::from(*count));
                frame::write_data(&mut input, &DataHead { number: packets, length, stamp });
                input.resize(input.len() + length as usize, 7);
            }
        }
        step(&mut end, now, &input);
    }
    let ended = end.handle_eof();
    assert!(ended.is_ok() || end.error() == ended.err());
}

fn step(end: &mut AlccConnection, now: Time, input: &[u8]) {
    let failed = end.error();
    let timed = end.on_timer(now);
    let taken = end.handle_input(now, input);
    assert!(
        failed.is_none() || (timed, taken) == (Err(failed.unwrap_or(AlccError::Silent)), taken)
    );
    assert!(taken.is_err() || taken == Ok(input.len()));
    end.write(&[9; 700]);
    let mut out = Vec::new();
    end.poll_output(now, &mut out, 3000);
    assert!(out.len() <= 3000);
    if input.len().is_multiple_of(3) {
        let (first, second) = end.readable();
        end.consume(first.len() + second.len());
    }
    assert!(end.memory() <= MAX_MEMORY, "{}", end.memory());
    let stats = end.stats();
    assert!(stats.acked_bytes <= stats.sent_bytes);
    assert!(end.next_deadline().is_none_or(|deadline| deadline > Time::ZERO));
}

const HELLO: AlccHello<'_> = AlccHello {
    version: 1,
    answer: false,
    refusal: None,
    segment: 1448,
    overhead: 52,
    window: 5000,
    half: "",
};

fn config() -> AlccConfig {
    let cc = SPROUT.parse().expect("it is in the registry");
    let small = |half: &cellpace_cc::PeerHalf| half.to_string() == SPROUT;
    AlccConfig { outgoing: BUFFER, incoming: BUFFER, halves: small, ..AlccConfig::new(cc, 1) }
}

fn listener() -> AlccConnection {
    new(AlccRole::Listen { wait: None })
}

fn new(role: AlccRole) -> AlccConnection {
    AlccConnection::new(Time::from_millis(1), role, &config()).expect("the text is short")
}

/// First bytes from somebody of whom nothing is known: as they are, and as a hello with a length and
/// a checksum that are right.
pub fn alcc_hello(bytes: &[u8]) {
    greet(bytes);
    if bytes.len() <= hello::MAX_BYTES - MAGIC.len() - 6 {
        let length = (MAGIC.len() + 2 + bytes.len() + 4) as u16;
        let mut sealed = [&MAGIC, length.to_be_bytes().as_slice(), bytes].concat();
        sealed.extend(crc32fast::hash(&sealed).to_be_bytes());
        if let Ok(read) = hello::decode(&sealed) {
            let mut written = Vec::new();
            hello::write(&mut written, &read);
            assert_eq!(hello::decode(&written), Ok(read));
        }
        greet(&sealed);
    }
}

fn greet(bytes: &[u8]) {
    let whole = outcome(bytes, bytes.len().max(1));
    assert_eq!(outcome(bytes, 1), whole);
    let mut client = new(AlccRole::Connect);
    let done = client.handle_input(Time::from_millis(2), bytes);
    assert!(!client.is_plain() && (done.is_err() || done == Ok(bytes.len())));
}

fn take(end: &mut AlccConnection, read: &mut Vec<u8>) {
    let (first, second) = end.readable();
    let bytes = [first, second].concat();
    end.consume(bytes.len());
    read.extend(bytes);
}

/// What a listening end makes of the bytes, passed in pieces of `chunk` bytes.
fn outcome(bytes: &[u8], chunk: usize) -> (bool, bool, Option<AlccError>, Vec<u8>) {
    let mut server = listener();
    let now = Time::from_millis(2);
    let mut read = Vec::new();
    for piece in bytes.chunks(chunk) {
        let mut rest = piece;
        while let Ok(count @ 1..) = server.handle_input(now, rest) {
            rest = &rest[count..];
            take(&mut server, &mut read);
        }
    }
    // What came before an error can be read.
    take(&mut server, &mut read);
    if server.is_plain() {
        assert!(read == bytes && server.error().is_none(), "a plain stream is unchanged");
    }
    let mut out = Vec::new();
    server.poll_output(now, &mut out, usize::MAX);
    let begins = server.is_plain() || out.is_empty() || out.starts_with(&MAGIC);
    assert!(begins && server.memory() <= MAX_MEMORY);
    (server.is_plain(), server.is_agreed(), server.error(), read)
}
