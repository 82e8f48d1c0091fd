//! Writes and compares `vectors/alcc.json`: hellos and frames of `docs/alcc-wire.md`.

#![allow(clippy::unwrap_used)]

#[path = "../../../vectors/compare.rs"]
mod compare;

use cellpace_base::Time;

use cellpace_alcc::frame::{
    AckFrame, DataHead, FrameDecoder, FramePiece, write_ack, write_data, write_report,
};
use cellpace_alcc::hello::{self, AlccHello, Refusal};
use compare::compare;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};

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

fn hello_object(name: &str, hello: &AlccHello<'_>) -> Value {
    json!({
        "name": name,
        "version": hello.version,
        "answer": hello.answer,
        "refusal": hello.refusal.map(|refusal| format!("{refusal:?}").to_lowercase()),
        "segment": hello.segment,
        "overhead": hello.overhead,
        "window": hello.window,
        "half": hello.half,
        "bytes": HEXLOWER.encode(&written(|out| hello::write(out, hello))),
    })
}

fn data_object(name: &str, number: u64, stamp: Option<u64>, text: &str) -> Value {
    json!({
        "name": name,
        "number": number,
        // As texts, because not every reader of JSON has whole numbers of 64 bits.
        "stamp": stamp.map(|stamp| stamp.to_string()),
        "data": text,
        "bytes": HEXLOWER.encode(&data(number, stamp, text.as_bytes())),
    })
}

fn vectors() -> Value {
    json!({
        "schema": "cellpace.vectors.alcc/1",
        "hellos": [
            hello_object("client", &HELLO),
            hello_object("server with a half", &ANSWER),
            hello_object("server that refuses", &REFUSAL),
        ],
        "data": [
            data_object("data", 1, None, "cellpace"),
            data_object("stamped data", 2, Some(STAMP), "cellpace"),
            data_object("end", 3, None, ""),
            data_object("stamped end", 3, Some(STAMP), ""),
        ],
        "acks": [{
            "number": ACK.number,
            "written_at_us": ACK.written_at.since(Time::ZERO).as_nanos() / 1000,
            "held_us": ACK.held_us,
            "window": ACK.window,
            "bytes": HEXLOWER.encode(&written(|out| write_ack(out, &ACK))),
        }],
        "reports": [{
            "number": 1,
            "report": HEXLOWER.encode(&report()),
            "bytes": HEXLOWER.encode(&written(|out| write_report(out, 1, &report()))),
        }],
        "server_direction": HEXLOWER.encode(&direction()),
    })
}

#[test]
fn the_file_holds_what_is_written() {
    compare("alcc.json", &format!("{:#}\n", vectors()));
}

/// As an implementation in another language would.
#[test]
fn the_vectors_are_read() {
    let bytes = |value: &Value| HEXLOWER.decode(value.as_str().unwrap().as_bytes()).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/alcc.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (found, hello) in file["hellos"].as_array().unwrap().iter().zip([HELLO, ANSWER, REFUSAL]) {
        assert_eq!(hello::decode(&bytes(&found["bytes"])), Ok(hello));
    }
    let ack = bytes(&file["acks"][0]["bytes"]);
    let decoded = FrameDecoder::new(false)
        .next(&mut ack.as_slice())
        .map(|piece| piece == Some(FramePiece::Ack(ACK)));
    assert_eq!(decoded, Ok(true));
    let bytes = bytes(&file["server_direction"]);
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
