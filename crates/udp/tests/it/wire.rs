//! The bytes of datagrams: those of the documentation, there and back, and damaged ones.

use cellpace_base::{Ecn, Time};
use cellpace_udp::wire::{
    self, AcceptPacket, AckEntry, AckHead, CloseCode, Cookie, EcnCounts, HEADER_BYTES, Hello, Ids,
    Numbered, WirePacket,
};
use cellpace_udp::{Protection, SenderSide};
use proptest::prelude::*;

const TO_RESPONDER: Ids = Ids { to: 0x1112_1314_1516_1718, from: 0x0102_0304_0506_0708 };
const TO_INITIATOR: Ids = Ids { to: TO_RESPONDER.from, from: TO_RESPONDER.to };
const COOKIE: Cookie = Cookie { issued_ms: 1234, seal: *b"0123456789abcdef" };

fn entry(number: u64, micros: u64) -> AckEntry {
    AckEntry { number, received_at: Time::from_micros(micros), ecn: Ecn::NotEct }
}

fn ack(
    out: &mut Vec<u8>,
    room: usize,
    ecn: Option<EcnCounts>,
    entries: &[AckEntry],
    ranges: &[std::ops::Range<u64>],
) -> u64 {
    let (window, report) = (1 << 20, b"rep");
    let head = AckHead { sequence: 5, window, position: 97, held_us: 12, report, ecn };
    let entries = entries.iter().copied();
    wire::write_ack(out, TO_INITIATOR, room, &head, entries, ranges.iter()).1
}

/// Three arrivals, the second of them marked.
fn with_codepoints() -> [AckEntry; 3] {
    [
        AckEntry { ecn: Ecn::Ect1, ..entry(100, 5_000_000) },
        AckEntry { ecn: Ecn::Ce, ..entry(101, 5_000_250) },
        AckEntry { ecn: Ecn::Ect1, ..entry(99, 5_001_000) },
    ]
}

fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    let written = |write: &dyn Fn(&mut Vec<u8>) -> usize| {
        let mut out = Vec::new();
        write(&mut out);
        wire::seal(&mut out);
        out
    };
    let hello = Hello { cookie: COOKIE, mtu: 1500, controller: "verus:r=2", ..Hello::default() };
    let accept = AcceptPacket {
        unreliable: false,
        delayed_acks: false,
        ecn: false,
        mtu: 1400,
        window: 1 << 24,
        flows: 1,
        controller: "",
    };
    let plain = Numbered { number: 100, matters: 7, stamp: None };
    let stamped = Numbered { stamp: Some(0xfeed), ..plain };
    let to_nobody = Ids { to: 0, from: TO_RESPONDER.from };
    let from_nobody = Ids { to: TO_RESPONDER.from, from: 0 };
    vec![
        ("HELLO", written(&|out| wire::write_hello(out, to_nobody, &hello))),
        ("RETRY", written(&|out| wire::write_retry(out, from_nobody, &COOKIE))),
        ("VERSION", written(&|out| wire::write_version(out, from_nobody, 1))),
        ("REFUSE", written(&|out| wire::write_refuse(out, from_nobody, CloseCode::Busy, "full"))),
        ("ACCEPT", written(&|out| wire::write_accept(out, TO_INITIATOR, &accept))),
        (
            "DATA",
            written(&|out| wire::write_data(out, TO_RESPONDER, plain, 4096, (b"cell", b"pace"))),
        ),
        (
            "DATA with stamp",
            written(&|out| wire::write_data(out, TO_RESPONDER, stamped, 4096, (b"cellpace", b""))),
        ),
        (
            "FIN",
            written(&|out| {
                wire::write_fin(out, TO_RESPONDER, plain, 4104, blake3::hash(b"").as_bytes())
            }),
        ),
        (
            "ACK",
            written(&|out| {
                let entries = [entry(100, 5_000_000), entry(101, 5_000_250), entry(99, 5_001_000)];
                ack(out, 1000, None, &entries, &[99..102, 20..98, 0..11]) as usize
            }),
        ),
        (
            "ACK with codepoints",
            written(&|out| {
                let counts = EcnCounts { ect0: 0, ect1: 2, ce: 1 };
                let entries = with_codepoints();
                ack(out, 1000, Some(counts), &entries, &[99..102, 20..98, 0..11]) as usize
            }),
        ),
        ("PING", written(&|out| wire::write_ping(out, TO_RESPONDER))),
        ("CLOSE", written(&|out| wire::write_close(out, TO_INITIATOR, CloseCode::Done, ""))),
        ("CLOSED", written(&|out| wire::write_closed(out, TO_RESPONDER))),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_test_vectors_of_the_documentation() {
    let page = include_str!("../../../../docs/udp-wire.md");
    let shown = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let ours: String = vectors()
        .into_iter()
        .map(|(name, bytes)| {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            let end = if name == "HELLO" { end } else { bytes.len() };
            format!("{name}: {}\n", hex(&bytes[..end]))
        })
        .collect();
    assert!(shown == ours, "the page should show\n{ours}");
}

#[test]
fn the_test_vectors_of_the_documentation_with_a_key() {
    let page = include_str!("../../../../docs/udp-wire.md");
    let shown = page.split("```text\n").nth(2).unwrap().split("```").next().unwrap();
    let secret: [u8; 32] = std::array::from_fn(|at| at as u8);
    let mut guard = Protection::transfer(&secret).guard(0x2122_2324_2526_2728);
    let mut sealed = |sender, write: &dyn Fn(&mut Vec<u8>) -> usize| {
        let mut out = Vec::new();
        let bytes = write(&mut out);
        guard.seal(sender, &mut out, bytes);
        hex(&out)
    };
    let retry = Ids { to: TO_RESPONDER.from, from: 0 };
    let ours = format!(
        "key: {}\nRETRY: {}\nPING: {}\nCLOSE: {}\n",
        hex(&secret),
        sealed(SenderSide::Responder, &|out| wire::write_retry(out, retry, &COOKIE)),
        sealed(SenderSide::Initiator, &|out| wire::write_ping(out, TO_RESPONDER)),
        sealed(SenderSide::Responder, &|out| wire::write_close(
            out,
            TO_INITIATOR,
            CloseCode::Done,
            ""
        )),
    );
    assert!(shown == ours, "the page should show\n{ours}");
}

#[test]
fn a_text_for_people_has_no_control_characters() {
    let mut out = Vec::new();
    wire::write_close(&mut out, TO_INITIATOR, CloseCode::Storage, "a\nb\u{1b}[2Jc\u{9b}d");
    wire::seal(&mut out);
    let read = |datagram: &[u8]| match wire::decode(datagram) {
        Some((_, WirePacket::Close(CloseCode::Storage, text))) => Some(text.to_owned()),
        _ => None,
    };
    assert_eq!(read(&out).as_deref(), Some("a b [2Jc d"));
    // From somebody who writes them nevertheless.
    for control in [b'\n', 0x1b, 0, 0x7f] {
        let mut forged = out.clone();
        forged[HEADER_BYTES + 2] = control;
        wire::seal(&mut forged);
        assert_eq!(wire::decode(&forged), None, "{control}");
    }
}

#[test]
fn flags_are_read_as_they_were_written_one_by_one() {
    for flags in 0..16_u8 {
        let [unreliable, reverse, delayed_acks, ecn] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
        let hello = Hello { unreliable, reverse, delayed_acks, ecn, ..Hello::default() };
        let mut out = Vec::new();
        wire::write_hello(&mut out, Ids { to: 0, from: 1 }, &hello);
        wire::seal(&mut out);
        assert_eq!(wire::decode(&out).unwrap().1, WirePacket::Hello(hello));
        let accept = AcceptPacket {
            unreliable,
            delayed_acks,
            ecn,
            mtu: 1400,
            window: 9,
            flows: 1,
            controller: "",
        };
        out.clear();
        wire::write_accept(&mut out, TO_INITIATOR, &accept);
        wire::seal(&mut out);
        assert_eq!(wire::decode(&out).unwrap().1, WirePacket::Accept(accept));
        // Flags of a later time change nothing.
        let at = HEADER_BYTES;
        out[at] |= 0xf0;
        wire::seal(&mut out);
        assert_eq!(wire::decode(&out).unwrap().1, WirePacket::Accept(accept));
    }
}

#[test]
fn what_is_written_is_read() {
    let read: Vec<_> = vectors();
    let packets: Vec<_> = read.iter().map(|(_, bytes)| wire::decode(bytes).unwrap()).collect();
    assert_eq!(packets[0].0, Ids { to: 0, from: TO_RESPONDER.from });
    let WirePacket::Hello(hello) = packets[0].1 else { panic!() };
    assert_eq!((hello.cookie, hello.mtu, hello.controller), (COOKIE, 1500, "verus:r=2"));
    assert_eq!(packets[3].1, WirePacket::Refuse(CloseCode::Busy, "full"));
    let numbered = Numbered { number: 100, matters: 7, stamp: Some(0xfeed) };
    assert_eq!(packets[6].1, WirePacket::Data(numbered, 4096, b"cellpace"));
    let WirePacket::Ack(ack) = packets[8].1 else { panic!() };
    assert_eq!((ack.sequence, ack.window, ack.position, ack.held_us), (5, 1 << 20, 97, 12));
    assert_eq!(ack.report, b"rep");
    let entries = [entry(100, 5_000_000), entry(101, 5_000_250), entry(99, 5_001_000)];
    assert_eq!(ack.entries().collect::<Vec<_>>(), entries);
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [(99, 101), (20, 97), (0, 10)]);
    let WirePacket::Ack(ack) = packets[9].1 else { panic!() };
    let (counts, entries) = ack.ecn_entries().unwrap();
    assert_eq!(counts, EcnCounts { ect0: 0, ect1: 2, ce: 1 });
    assert_eq!(entries.collect::<Vec<_>>(), with_codepoints());
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [(99, 101), (20, 97), (0, 10)]);
}

#[test]
fn feedback_f1_f2_entries_with_codepoints() {
    let written = |counts, entries: &[AckEntry]| {
        let mut out = Vec::new();
        ack(&mut out, 1000, Some(counts), entries, &[]);
        hex(&out[HEADER_BYTES + 8 + 8 + 8 + 4 + 2 + 2 + 3..])
    };
    let counts = EcnCounts { ect0: 0, ect1: 2, ce: 1 };
    assert_eq!(written(counts, &with_codepoints()), "000201c80181dac40900eb0705b917");
    let counts = EcnCounts { ect0: 1000, ect1: 0, ce: 300 };
    let entries = [
        AckEntry { ecn: Ecn::Ect0, ..entry(100, 5_000_000) },
        AckEntry { ecn: Ecn::Ce, ..entry(101, 5_000_250) },
    ];
    assert_eq!(written(counts, &entries), "e80700ac02c80182dac40900eb07");
}

#[test]
fn a_hello_is_as_long_as_any_answer_and_fits_into_the_smallest_packet() {
    let (_, hello) = &vectors()[0];
    assert_eq!(hello.len(), 1200);
    let long = "x".repeat(4000);
    let mut out = Vec::new();
    wire::write_refuse(&mut out, TO_INITIATOR, CloseCode::Busy, &long);
    wire::seal(&mut out);
    assert!(out.len() < 300);
    let Some((_, WirePacket::Refuse(_, text))) = wire::decode(&out) else { panic!() };
    assert_eq!(text.len(), wire::MAX_TEXT_BYTES);
}

#[test]
fn every_single_damaged_bit_is_noticed() {
    for (name, bytes) in vectors() {
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(wire::decode(&damaged), None, "{name}, bit {bit}");
        }
        assert!((0..bytes.len()).all(|end| wire::decode(&bytes[..end]).is_none()), "{name}");
    }
}

proptest! {
    #[test]
    fn acks_are_read_as_they_were_written_and_fit_their_room(
        arrivals in prop::collection::vec((any::<u64>(), 0u64..1 << 40), 0..300),
        gaps in prop::collection::vec((1u64..1 << 20, 1u64..1 << 20), 0..100),
        room in 200usize..1500,
        with_ecn: bool,
    ) {
        let mut micros = 0;
        let entries: Vec<AckEntry> = arrivals
            .iter()
            .map(|(number, gap)| {
                micros += gap;
                let bits = if with_ecn { *number as u8 } else { 0 };
                AckEntry { ecn: Ecn::from_bits(bits), ..entry(*number, micros) }
            })
            .collect();
        let mut at = 0;
        let mut ranges = Vec::new();
        for (gap, length) in gaps {
            ranges.push(at + gap..at + gap + length);
            at += gap + length;
        }
        ranges.reverse();
        let mut out = Vec::new();
        let counts = EcnCounts { ect0: u64::MAX, ect1: 0, ce: entries.len() as u64 };
        let counts = with_ecn.then_some(counts);
        let held = ack(&mut out, room, counts, &entries, &ranges) as usize;
        wire::seal(&mut out);
        prop_assert!(out.len() <= room);
        prop_assert!(held > 0 || entries.is_empty(), "an ack makes progress");
        let Some((_, WirePacket::Ack(ack))) = wire::decode(&out) else { panic!() };
        let read: Vec<_> = match counts {
            None => ack.entries().collect(),
            Some(counts) => {
                let (read_counts, entries) = ack.ecn_entries().unwrap();
                prop_assert_eq!(read_counts, counts);
                entries.collect()
            }
        };
        prop_assert_eq!(read, &entries[..held]);
        let acked: Vec<_> = ack.ranges().collect();
        let expected: Vec<_> = ranges.iter().map(|r| (r.start, r.end - 1)).collect();
        prop_assert_eq!(&acked[..], &expected[..acked.len()]);
    }

    #[test]
    fn no_datagram_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..15) {
        let mut bytes = bytes;
        let _ = wire::decode(&bytes);
        // The same with a type and a checksum that are right.
        if bytes.len() >= HEADER_BYTES {
            bytes[0] = kind;
            wire::seal(&mut bytes);
            if let Some((_, WirePacket::Ack(ack))) = wire::decode(&bytes) {
                prop_assert!(ack.entries().count() <= bytes.len());
                let with_ecn = ack.ecn_entries().map_or(0, |(_, entries)| entries.count());
                prop_assert!(with_ecn <= bytes.len());
                prop_assert!(ack.ranges().count() <= bytes.len());
            }
        }
    }
}
