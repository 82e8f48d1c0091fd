//! The test vectors of the wire page.
#![allow(clippy::unwrap_used)]

use cellpace_base::Time;

use cellpace_alcc::frame::{
    AckFrame, DataHead, FrameDecoder, FramePiece, write_ack, write_data, write_report,
};
use cellpace_alcc::hello::{self, AlccHello, Refusal};

const HELLO: AlccHello<'_> = AlccHello {
    version: 1,
    answer: false,
    refusal: None,
    segment: 1448,
    overhead: 52,
    window: 4 << 20,
    half: "",
};
const ANSWER: AlccHello<'_> = AlccHello { answer: true, half: "sprout:confidence=25%", ..HELLO };
const REFUSAL: AlccHello<'_> = AlccHello { answer: true, refusal: Some(Refusal::Version), ..HELLO };
const ACK: AckFrame = AckFrame {
    number: 7,
    written_at: Time::from_micros(1_234_567),
    held_us: 89,
    window: (4 << 20) + 5000,
};
const STAMP: u64 = 1500 | 1500 << 36 | 50 << 56;

fn report() -> Vec<u8> {
    let mut report = vec![1];
    report.extend(50_u32.to_be_bytes());
    report.extend(1_485_000_u64.to_be_bytes());
    report.extend([5_u16, 12, 20, 27, 35, 43, 51, 59].into_iter().flat_map(u16::to_be_bytes));
    report
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn data(number: u64, stamp: Option<u64>, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let mut out = written(|out| write_data(out, &DataHead { number, length, stamp }));
    out.extend(data);
    out
}

fn vectors() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("HELLO", written(|out| hello::write(out, &HELLO))),
        ("ANSWER", written(|out| hello::write(out, &ANSWER))),
        ("REFUSAL", written(|out| hello::write(out, &REFUSAL))),
        ("DATA", data(1, None, b"cellpace")),
        ("STAMPED DATA", data(2, Some(STAMP), b"cellpace")),
        ("END", data(3, None, b"")),
        ("STAMPED END", data(3, Some(STAMP), b"")),
        ("ACK", written(|out| write_ack(out, &ACK))),
        ("REPORT", written(|out| write_report(out, 1, &report()))),
    ]
}

fn direction() -> Vec<u8> {
    let ack = AckFrame { number: 1, ..ACK };
    [
        written(|out| hello::write(out, &ANSWER)),
        written(|out| write_ack(out, &ack)),
        data(1, Some(STAMP), b"cellpace"),
        data(2, Some(STAMP), b""),
    ]
    .concat()
}

const PAGE: &str = include_str!("../../../docs/alcc-wire.md");

/// The page's blocks of vectors.
fn shown() -> Vec<&'static str> {
    let blocks = PAGE.split("```text\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn the_vectors_of_the_page_are_what_is_written() {
    let ours: String =
        vectors().into_iter().map(|(name, bytes)| format!("{name}: {}\n", hex(&bytes))).collect();
    assert!(shown()[0] == ours, "the page should show\n{ours}");
    let ours = format!("DIRECTION: {}\n", hex(&direction()));
    assert!(shown()[1] == ours, "the page should show\n{ours}");
}

/// As somebody would who has only the page.
#[test]
fn the_vectors_of_the_page_are_read() {
    let named = |name: &str| -> Vec<u8> {
        let line = shown()[0].lines().find(|line| line.starts_with(&format!("{name}: ")));
        unhex(line.unwrap().split(": ").nth(1).unwrap())
    };
    for (name, hello) in [("HELLO", HELLO), ("ANSWER", ANSWER), ("REFUSAL", REFUSAL)] {
        assert_eq!(hello::decode(&named(name)), Ok(hello));
    }
    let ack = named("ACK");
    let decoded = FrameDecoder::new(false)
        .next(&mut ack.as_slice())
        .map(|piece| piece == Some(FramePiece::Ack(ACK)));
    assert_eq!(decoded, Ok(true));
    let bytes = unhex(shown()[1].trim().split(": ").nth(1).unwrap());
    let hello::HelloScan::Whole(length) = hello::scan(&bytes).unwrap() else { panic!() };
    let (first, mut frames) = bytes.split_at(length);
    assert_eq!(hello::decode(first), Ok(ANSWER));
    let mut decoder = FrameDecoder::new(true);
    let mut seen = Vec::new();
    while let Some(piece) = decoder.next(&mut frames).unwrap() {
        seen.push(match piece {
            FramePiece::Data(data) => format!("{} {} {:x?}", data.number, data.length, data.stamp),
            FramePiece::Bytes(bytes, left) => format!("{} {left}", String::from_utf8_lossy(bytes)),
            FramePiece::Ack(ack) => format!("ack {}", ack.number),
            FramePiece::Report(_) => panic!(),
        });
    }
    let stamp = format!("{:x?}", Some(STAMP));
    let expected =
        ["ack 1".into(), format!("1 8 {stamp}"), "cellpace 0".into(), format!("2 0 {stamp}")];
    assert_eq!(seen, expected);
}

/// The layouts of Sprout's words, which belong to `cellpace_cc`, are as the page says.
#[test]
fn sprouts_stamp_and_report_are_as_described() {
    use cellpace_cc::{ControllerSpec, Random, SentPacket, Setup};
    let spec: ControllerSpec = "sprout".parse().unwrap();
    let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
    let mut sprout = spec.build(setup);
    let mut send = |number| {
        let sent = SentPacket {
            now: Time::from_millis(5 * number),
            number,
            bytes: 1500,
            in_flight: 0,
            app_limited: false,
            retransmission: false,
        };
        sprout.on_sent(&sent).wire
    };
    assert_eq!(send(0), 0);
    assert_eq!(send(1), 1500 | 1500 << 36, "the first left within the last 10 ms");
    let before = sprout.cwnd();
    sprout.on_report(Time::from_millis(20), &report());
    assert_eq!(sprout.cwnd(), before, "more than was ever sent");
    let mut report = report();
    report[5..13].copy_from_slice(&3000_u64.to_be_bytes());
    sprout.on_report(Time::from_millis(20), &report);
    assert_eq!(sprout.cwnd(), (43 - 5) * 1500);
}
