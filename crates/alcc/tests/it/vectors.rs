//! Writes and compares `vectors/alcc.json`: hellos and frames of `docs/alcc-wire.md`.

#[path = "../../../../vectors/compare.rs"]
mod compare;

use cellpace_base::{Random, Span, Time};

use cellpace_alcc::frame::{
    AckFrame, DataHead, FrameDecoder, FramePiece, write_ack, write_data, write_report,
};
use cellpace_alcc::hello::{self, AlccHello, Refusal};
use cellpace_alcc::{AlccConfig, AlccConnection, AlccError, AlccRole};
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
        "malformed_answers": malformed_answers(),
        "malformed_frames": malformed_frames(),
        "conversation": { "window": WINDOW, "segment": SEGMENT, "packets": 20, "turns": conversation() },
    })
}

/// Of the connecting end in the vectors below, so small that limits are reached.
const WINDOW: u32 = 4096;
const SEGMENT: u16 = 112;

fn end(role: AlccRole) -> AlccConnection {
    let config = AlccConfig {
        segment: SEGMENT,
        incoming: WINDOW as usize,
        ..AlccConfig::new("fixed:cwnd=20pkts".parse().unwrap(), 1)
    };
    AlccConnection::new(Time::ZERO, role, &config).unwrap()
}

/// What the error of a connecting end is called.
fn reason(error: AlccError) -> &'static str {
    match error {
        AlccError::PlainPeer => "plain_peer",
        AlccError::Hello(_) => "hello",
        AlccError::Refused(_) | AlccError::Refusing(_) => "refused",
        AlccError::Frame(_) => "frame",
        AlccError::AckBeyond { .. } | AlccError::AckBack => "ack",
        AlccError::Overrun => "overrun",
        other => panic!("{other}"),
    }
}

/// Feeds the bytes one by one; returns how many there were when the error came, and its name. All at once give the same
/// error.
fn fail(make: impl Fn() -> AlccConnection, bytes: &[u8]) -> (usize, &'static str) {
    let whole = make().handle_input(Time::ZERO, bytes).unwrap_err();
    let mut connection = make();
    for (index, byte) in bytes.iter().enumerate() {
        if let Err(error) = connection.handle_input(Time::ZERO, &[*byte]) {
            assert_eq!(error, whole);
            return (index + 1, reason(error));
        }
    }
    panic!("no error in {bytes:02x?}");
}

/// With a right checksum again.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..body]);
    bytes[body..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn malformed_answers() -> Value {
    let answer = |hello: &AlccHello<'_>| written(|out| hello::write(out, hello));
    let good = answer(&AlccHello { half: "", ..ANSWER });
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        ("text of another protocol", b"HTTP/1.1 400 Bad Request\r\n".to_vec()),
        ("an alert of TLS", vec![0x15, 3, 3, 0, 2, 2, 10]),
        ("another last byte of the magic", with(7, 0x1b)),
        ("30 bytes", with(9, 30)),
        ("257 bytes", {
            let mut bytes = with(8, 1);
            bytes[9] = 1;
            bytes
        }),
        ("no bytes", with(9, 0)),
        ("a wrong checksum", with(20, 9)),
        ("a text longer than the hello", sealed(with(26, 1))),
        ("a text above 200 bytes", sealed(with(26, 201))),
        (
            "a text that is no UTF-8",
            sealed({
                let mut bytes = answer(&AlccHello { half: "x", ..ANSWER });
                bytes[27] = 0xff;
                bytes
            }),
        ),
        ("a hello in place of an answer", answer(&HELLO)),
        ("a refusal: version", answer(&REFUSAL)),
        (
            "a refusal: controller",
            answer(&AlccHello { refusal: Some(Refusal::Controller), ..REFUSAL }),
        ),
        (
            "a refusal: 77",
            sealed({
                let mut bytes = answer(&REFUSAL);
                bytes[13] = 77;
                bytes
            }),
        ),
        ("version 2", answer(&AlccHello { version: 2, half: "", ..ANSWER })),
        ("version 0", answer(&AlccHello { version: 0, half: "", ..ANSWER })),
    ];
    let cases = cases.map(|(name, bytes)| {
        let (offset, reason) = fail(|| end(AlccRole::Connect), &bytes);
        json!({ "name": name, "offset": offset, "reason": reason, "bytes": HEXLOWER.encode(&bytes) })
    });
    Value::from(cases.to_vec())
}

/// A connecting end that has agreed and sent so many packets of 8 bytes.
fn agreed(sent: usize) -> AlccConnection {
    let mut connection = end(AlccRole::Connect);
    let answer = written(|out| hello::write(out, &AlccHello { half: "", ..ANSWER }));
    connection.handle_input(Time::ZERO, &answer).unwrap();
    for _ in 0..sent {
        connection.write(b"cellpace");
        connection.poll_output(Time::ZERO, &mut Vec::new(), 1 << 20);
    }
    connection
}

fn ack(number: u64, clock: u64, window: u64) -> Vec<u8> {
    let written_at = Time::from_micros(clock);
    written(|out| write_ack(out, &AckFrame { number, written_at, held_us: 0, window }))
}

fn malformed_frames() -> Value {
    let word = |word: u32| word.to_be_bytes().to_vec();
    let head = |length: u32, number: u64| {
        written(|out| write_data(out, &DataHead { number, length, stamp: None }))
    };
    let open = ANSWER.window;
    let report = |number| written(|out| write_report(out, number, b"report"));
    let cases = [
        ("a frame of 1 MiB and a byte", 0, word((1 << 20) + 1)),
        ("the longest length", 0, word(0x7fff_ffff)),
        ("control without a type", 0, word(0x8000_0000)),
        ("an ack too short", 0, word(0x8100_0013)),
        ("an ack too long", 0, word(0x8100_0015)),
        ("a report too long", 0, word(0x8200_04b1)),
        ("an unknown type", 0, word(0x8300_0000)),
        ("all ones", 0, word(0xffff_ffff)),
        ("packet 0 first", 0, head(8, 0)),
        ("packet 2 first", 0, head(8, 2)),
        ("the highest number first", 0, head(8, u64::MAX)),
        ("packet 1 twice", 0, [data(1, None, b"cellpace"), head(8, 1)].concat()),
        ("packet 2 left out", 0, [data(1, None, b"cellpace"), head(8, 3)].concat()),
        ("a packet back at 0", 0, [data(1, None, b"cellpace"), head(8, 0)].concat()),
        ("report 0 first", 0, report(0)),
        ("report 2 first", 0, report(2)),
        ("report 1 twice", 0, [report(1), report(1)].concat()),
        ("data behind the end", 0, [head(0, 1), word(1)].concat()),
        ("the end twice", 0, [head(0, 1), word(0)].concat()),
        ("data behind the end and an ack", 0, [head(0, 1), ack(0, 0, open), word(1)].concat()),
        (
            "an unknown frame behind data",
            0,
            [data(1, None, b"cellpace"), word(0x8300_0000)].concat(),
        ),
        ("an ack of what was not sent", 0, ack(1, 0, open)),
        ("an ack beyond what was sent", 2, ack(3, 0, open)),
        ("an ack of the highest number", 2, ack(u64::MAX, 0, open)),
        ("an ack that takes one back", 2, [ack(2, 0, open), ack(1, 0, open)].concat()),
        ("a clock that goes back", 2, [ack(1, 10, open), ack(2, 9, open)].concat()),
        ("a window that goes back", 2, [ack(1, 0, open), ack(2, 0, open - 1)].concat()),
        ("a first window below the hello's", 2, ack(1, 0, open - 1)),
        ("a window back from the highest", 2, [ack(1, 0, u64::MAX), ack(2, 0, open)].concat()),
        ("a packet beyond the window", 0, head(WINDOW + 1, 1)),
        (
            "a byte beyond the window",
            0,
            [data(1, None, &[7; WINDOW as usize]), head(1, 2)].concat(),
        ),
    ];
    let cases = cases.map(|(name, sent, bytes)| {
        let (offset, reason) = fail(|| agreed(sent), &bytes);
        json!({
            "name": name, "sent": sent, "offset": offset, "reason": reason,
            "bytes": HEXLOWER.encode(&bytes),
        })
    });
    Value::from(cases.to_vec())
}

/// What a connecting end does and what comes and leaves, in turns of a millisecond, until both streams have ended. In each
/// turn it takes what came, reads, writes, perhaps finishes, and then gives what may leave.
fn conversation() -> Value {
    let (mut client, mut server) = (end(AlccRole::Connect), end(AlccRole::Listen { wait: None }));
    let (mut draws, mut turns) = (Random::seeded(5, 0), Vec::new());
    let mut to_client = Vec::new();
    let mut text =
        |length: usize| -> Vec<u8> { (0..length).map(|_| b'a' + draws.below(26) as u8).collect() };
    for turn in 0..60_u64 {
        let now = Time::ZERO + Span::from_millis(turn) + Span::from_micros(turn * 7);
        let came = std::mem::take(&mut to_client);
        client.handle_input(now, &came).unwrap();
        // Slowly at first, so that the server meets a window that is used up.
        let read = if turn < 30 { 0 } else { 700 };
        let read = read.min(client.readable().0.len());
        client.consume(read);
        let write =
            if turn == 0 || turn > 40 { Vec::new() } else { text((turn as usize * 67) % 300) };
        let taken = client.write(&write);
        assert_eq!(taken, write.len());
        let finish = turn == 41;
        if finish {
            client.finish();
        }
        let mut left = Vec::new();
        client.poll_output(now, &mut left, 1 << 20);
        turns.push(json!({
            "at_us": now.since(Time::ZERO).as_nanos() / 1000, "came": HEXLOWER.encode(&came), "read": read,
            "write": String::from_utf8(write).unwrap(), "finish": finish, "left": HEXLOWER.encode(&left),
        }));
        server.handle_input(now, &left).unwrap();
        server.consume(server.readable().0.len());
        if turn < 35 {
            server.write(&text(400));
        } else {
            server.finish();
        }
        server.poll_output(now, &mut to_client, 1 << 20);
    }
    assert!(client.is_delivered() && server.is_delivered());
    assert!(client.is_drained() && client.is_read());
    Value::from(turns)
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
