//! Datagrams as bytes, as `docs/probe-wire.md` has them. The header, the checksum and the encryption are
//! those of the native transport, the types and the keys are others, so that neither takes the other's
//! datagrams for its own.
//!
//! Whatever the bytes, decoding neither panics nor allocates.

use cellpace_base::{ByteReader, Ecn, Span, Time};
use cellpace_udp::Protection;
use cellpace_udp::wire::{
    Cookie, EcnCounts, HEADER_BYTES, HELLO_BYTES, Ids, MAX_VARINT_BYTES, Varints, Writer, open,
    read_cookie, read_text, unzigzag, zigzag,
};

use crate::plan::{OnOffStream, Pattern, Plan};

/// The version of everything in this module.
pub const VERSION: u32 = 2;

/// What a probe has beside the bytes that fill it up.
pub const PROBE_BYTES: usize = HEADER_BYTES + 1 + 8 + 8;

/// Maximum length of a report.
pub const MAX_REPORT_BYTES: usize = 1200;

/// Streams of one direction: the probes and the second stream.
pub const STREAMS: usize = 2;

/// The stream of a record of a report: its number is the bytes of its IP packet, since reports
/// take their share of what the link delivers.
pub const REPORTS: u8 = 2;

/// Later times are not believed: sums of two of them would not fit.
const MAX_NANOS: u64 = 1 << 62;

mod kind {
    pub(super) const HELLO: u8 = 64;
    pub(super) const RETRY: u8 = 65;
    pub(super) const REFUSE: u8 = 66;
    pub(super) const ACCEPT: u8 = 67;
    pub(super) const PROBE: u8 = 68;
    pub(super) const REPORT: u8 = 69;
    pub(super) const CLOSE: u8 = 70;
}

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProbePacket<'a> {
    /// Asks for a session, with a cookie or zeros; `None` is the plan of another version.
    Hello(u32, Cookie, Option<Plan>),
    /// Asks for another hello with this cookie.
    Retry(Cookie),
    /// Refuses the session, for this reason.
    Refuse(&'a str),
    /// Accepts the session.
    Accept,
    /// A probe.
    Probe(Probe),
    /// Reports arrivals and keeps the session open.
    Report(ArrivalReport<'a>),
    /// Ends the session.
    Close,
}

/// One probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// 0: the probes, 1: the second stream.
    pub stream: u8,
    /// Counts up by one within its stream.
    pub number: u64,
    /// When it was sent, on the sender's clock.
    pub sent_at: Time,
}

/// The head of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReportHead {
    /// When the report was sent, on its sender's clock.
    pub sent_at: Time,
    /// `sent_at` of the newest report from the other side, on that side's clock; zero: none.
    pub echo_sent: Time,
    /// When that one arrived, on this side's clock.
    pub echo_received: Time,
    /// One more than the highest number of a probe that arrived here; zero: none did.
    pub next_number: u64,
    /// Probes that arrived here.
    pub arrived: u64,
    /// With which codepoints they came; the others had none.
    pub ecn: EcnCounts,
    /// Queue delay of the newest probe: by how much it took longer than the fastest packet.
    pub queue_delay: Span,
    /// How many this side has sent of each stream.
    pub sent: [u64; STREAMS],
    /// How many it left out because it was late.
    pub skipped: u64,
    /// It will send no more probes.
    pub done: bool,
    /// Records that it has taken from the other side.
    pub taken: u64,
    /// Records there are here.
    pub total: u64,
    /// Which record is the first in this report.
    pub position: u64,
}

/// A report: its head, and records of arrivals, decoded as they are iterated over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalReport<'a> {
    /// The figures.
    pub head: ReportHead,
    records: Varints<'a>,
}

/// One arrival in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivalRecord {
    /// The stream, or [`REPORTS`].
    pub stream: u8,
    /// Its number.
    pub number: u64,
    /// When it arrived, on the receiver's clock, in whole microseconds.
    pub received_at: Time,
}

impl ArrivalReport<'_> {
    /// The records, from [`ReportHead::position`] on.
    pub fn records(&self) -> impl Iterator<Item = ArrivalRecord> + '_ {
        let mut varints = self.records;
        let (mut next, mut micros) = ([0_u64; 4], 0_u64);
        std::iter::from_fn(move || {
            let word = varints.next()?;
            let stream = (word & 3) as u8;
            let number = next[usize::from(stream)].wrapping_add_signed(unzigzag(word >> 2));
            next[usize::from(stream)] = number.wrapping_add(1);
            micros = micros.saturating_add(varints.next()?);
            let received_at = Time::from_micros(micros.min(MAX_NANOS / 1_000));
            Some(ArrivalRecord { stream, number, received_at })
        })
    }
}

/// How datagrams are encrypted under a secret that both sides share.
pub fn protection(secret: &[u8; 32]) -> Protection {
    Protection::derived(
        secret,
        [
            "cellpace 2026-11-28 probe, encryption by the prober",
            "cellpace 2026-11-28 probe, encryption by the responder",
        ],
    )
}

/// Reads a datagram without a key. `None`: it is none of ours, or was damaged on the way.
pub fn decode(datagram: &[u8]) -> Option<(Ids, ProbePacket<'_>)> {
    read(open(datagram)?)
}

/// Reads what follows a header. `None`: it is none of ours.
pub fn read((kind, ids, mut reader): (u8, Ids, ByteReader<'_>)) -> Option<(Ids, ProbePacket<'_>)> {
    let packet = match kind {
        kind::HELLO => {
            let version = reader.u32()?;
            if version == VERSION {
                ProbePacket::Hello(
                    version,
                    read_cookie(&mut reader)?,
                    Some(read_plan(&mut reader)?),
                )
            } else {
                ProbePacket::Hello(version, Cookie::default(), None)
            }
        }
        kind::RETRY => ProbePacket::Retry(read_cookie(&mut reader)?),
        kind::REFUSE => ProbePacket::Refuse(read_text(&mut reader)?),
        kind::ACCEPT => ProbePacket::Accept,
        kind::PROBE => {
            let stream = reader.u8().filter(|stream| usize::from(*stream) < STREAMS)?;
            let (number, sent_at) = (count(&mut reader)?, time(&mut reader)?);
            ProbePacket::Probe(Probe { stream, number, sent_at })
        }
        kind::REPORT => {
            let head = read_head(&mut reader)?;
            ProbePacket::Report(ArrivalReport { head, records: Varints(reader.rest()) })
        }
        kind::CLOSE => ProbePacket::Close,
        _ => return None,
    };
    Some((ids, packet))
}

fn time(reader: &mut ByteReader<'_>) -> Option<Time> {
    count(reader).map(Time::from_nanos)
}

fn count(reader: &mut ByteReader<'_>) -> Option<u64> {
    reader.u64().filter(|value| *value <= MAX_NANOS)
}

fn read_head(reader: &mut ByteReader<'_>) -> Option<ReportHead> {
    Some(ReportHead {
        sent_at: time(reader)?,
        echo_sent: time(reader)?,
        echo_received: time(reader)?,
        next_number: count(reader)?,
        arrived: count(reader)?,
        ecn: EcnCounts { ect0: count(reader)?, ect1: count(reader)?, ce: count(reader)? },
        queue_delay: Span::from_nanos(count(reader)?),
        sent: [count(reader)?, count(reader)?],
        skipped: count(reader)?,
        done: reader.u8()? & 1 != 0,
        taken: count(reader)?,
        total: count(reader)?,
        position: count(reader)?,
    })
}

const UP: u8 = 1;
const DOWN: u8 = 2;
const SATURATE: u8 = 4;
const RIVAL: u8 = 8;
/// Where the two bits of the codepoint are.
const ECN_SHIFT: u32 = 4;

fn read_plan(reader: &mut ByteReader<'_>) -> Option<Plan> {
    let flags = reader.u8()?;
    let size = reader.u16()?;
    let mut span = || Some(Span::from_nanos(reader.u64()?));
    let duration = span()?;
    let [first, second] = [span()?, span()?];
    let rival = OnOffStream { interval: span()?, on: span()?, off: span()? };
    let pattern = if flags & SATURATE == 0 {
        Pattern::Every(first)
    } else {
        Pattern::Saturate { lower: first, upper: second }
    };
    Some(Plan {
        up: flags & UP != 0,
        down: flags & DOWN != 0,
        size,
        pattern,
        duration,
        rival: (flags & RIVAL != 0).then_some(rival),
        ecn: Ecn::from_bits(flags >> ECN_SHIFT),
    })
}

/// Writes a hello, padded so that no answer to it is longer.
pub fn write_hello(out: &mut Vec<u8>, ids: Ids, cookie: &Cookie, plan: &Plan) -> usize {
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    let (saturate, first, second) = match plan.pattern {
        Pattern::Every(interval) => (false, interval, Span::ZERO),
        Pattern::Saturate { lower, upper } => (true, lower, upper),
    };
    let none = OnOffStream { interval: Span::ZERO, on: Span::ZERO, off: Span::ZERO };
    let rival = plan.rival.unwrap_or(none);
    let flags = flag(plan.up, UP)
        | flag(plan.down, DOWN)
        | flag(saturate, SATURATE)
        | flag(plan.rival.is_some(), RIVAL)
        | (plan.ecn.bits() << ECN_SHIFT);
    Writer::new(out, kind::HELLO, ids)
        .u32(VERSION)
        .cookie(cookie)
        .u8(flags)
        .u16(plan.size)
        .u64(plan.duration.as_nanos())
        .u64(first.as_nanos())
        .u64(second.as_nanos())
        .u64(rival.interval.as_nanos())
        .u64(rival.on.as_nanos())
        .u64(rival.off.as_nanos())
        .pad(HELLO_BYTES)
        .end()
}

/// Writes the answer to a hello without a cookie.
pub fn write_retry(out: &mut Vec<u8>, ids: Ids, cookie: &Cookie) -> usize {
    Writer::new(out, kind::RETRY, ids).cookie(cookie).end()
}

/// Writes a refusal.
pub fn write_refuse(out: &mut Vec<u8>, ids: Ids, why: &str) -> usize {
    Writer::new(out, kind::REFUSE, ids).text(why).end()
}

/// Writes an acceptance.
pub fn write_accept(out: &mut Vec<u8>, ids: Ids) -> usize {
    Writer::new(out, kind::ACCEPT, ids).end()
}

/// Writes the end of the session.
pub fn write_close(out: &mut Vec<u8>, ids: Ids) -> usize {
    Writer::new(out, kind::CLOSE, ids).end()
}

/// Writes a probe of `bytes` bytes, but at least [`PROBE_BYTES`].
pub fn write_probe(out: &mut Vec<u8>, ids: Ids, probe: Probe, bytes: usize) -> usize {
    Writer::new(out, kind::PROBE, ids)
        .u8(probe.stream)
        .u64(probe.number)
        .u64(probe.sent_at.as_nanos())
        .pad(bytes)
        .end()
}

/// Writes a report with as many of the records as there is room for. Returns its length and how
/// many those are.
pub fn write_report(
    out: &mut Vec<u8>,
    ids: Ids,
    head: &ReportHead,
    records: impl Iterator<Item = ArrivalRecord>,
) -> (usize, u64) {
    let mut writer = Writer::new(out, kind::REPORT, ids)
        .u64(head.sent_at.as_nanos())
        .u64(head.echo_sent.as_nanos())
        .u64(head.echo_received.as_nanos())
        .u64(head.next_number)
        .u64(head.arrived)
        .u64(head.ecn.ect0)
        .u64(head.ecn.ect1)
        .u64(head.ecn.ce)
        .u64(head.queue_delay.as_nanos())
        .u64(head.sent[0])
        .u64(head.sent[1])
        .u64(head.skipped)
        .u8(u8::from(head.done))
        .u64(head.taken)
        .u64(head.total)
        .u64(head.position);
    let (mut next, mut micros, mut count) = ([0_u64; 4], 0_u64, 0);
    for record in records {
        if writer.written() + 2 * MAX_VARINT_BYTES > MAX_REPORT_BYTES {
            break;
        }
        let expected = &mut next[usize::from(record.stream & 3)];
        let difference = zigzag(record.number.wrapping_sub(*expected) as i64);
        *expected = record.number.wrapping_add(1);
        let at = (record.received_at.as_nanos() / 1_000).max(micros);
        writer =
            writer.varint((difference << 2) | u64::from(record.stream & 3)).varint(at - micros);
        micros = at;
        count += 1;
    }
    (writer.end(), count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_udp::SenderSide;
    use cellpace_udp::wire::seal;
    use proptest::prelude::*;

    const IDS: Ids = Ids { to: 7, from: 8 };

    fn plan() -> impl Strategy<Value = Plan> {
        let rival = (any::<u64>(), any::<u64>(), any::<u64>());
        let bounds = (any::<bool>(), any::<u64>(), any::<u64>());
        (any::<(bool, bool, u16, u64, u8)>(), bounds, prop::option::of(rival)).prop_map(
            |((up, down, size, duration, ecn), (saturate, first, second), rival)| {
                let [first, second, duration] = [first, second, duration].map(Span::from_nanos);
                let pattern = if saturate {
                    Pattern::Saturate { lower: first, upper: second }
                } else {
                    Pattern::Every(first)
                };
                let rival = rival.map(|(interval, on, off)| {
                    let [interval, on, off] = [interval, on, off].map(Span::from_nanos);
                    OnOffStream { interval, on, off }
                });
                Plan { up, down, size, pattern, duration, rival, ecn: Ecn::from_bits(ecn) }
            },
        )
    }

    proptest! {
        #[test]
        fn plans_and_probes_are_read_as_they_were_written(
            plan in plan(), stream in 0u8..2, number in 0..=MAX_NANOS, sent in 0..=MAX_NANOS,
        ) {
            let mut out = Vec::new();
            let cookie = Cookie { issued_ms: 3, seal: [9; 16] };
            prop_assert_eq!(write_hello(&mut out, IDS, &cookie, &plan), HELLO_BYTES);
            seal(&mut out);
            prop_assert_eq!(decode(&out), Some((IDS, ProbePacket::Hello(2, cookie, Some(plan)))));
            out.clear();
            let probe = Probe { stream, number, sent_at: Time::from_nanos(sent) };
            prop_assert_eq!(write_probe(&mut out, IDS, probe, 300), 300);
            seal(&mut out);
            prop_assert_eq!(decode(&out), Some((IDS, ProbePacket::Probe(probe))));
        }

        #[test]
        fn records_are_read_as_they_were_written(
            records in prop::collection::vec((0u8..3, 0u64..1 << 40, 0u64..9_000_000), 0..300),
        ) {
            let mut micros = 0;
            let records: Vec<ArrivalRecord> = records.into_iter().map(|(stream, number, step)| {
                micros += step;
                ArrivalRecord { stream, number, received_at: Time::from_micros(micros) }
            }).collect();
            let ecn = EcnCounts { ect0: 1, ect1: 2, ce: 3 };
            let head =
                ReportHead { ecn, position: 5, total: 99, done: true, ..ReportHead::default() };
            let mut out = Vec::new();
            let (length, count) = write_report(&mut out, IDS, &head, records.iter().copied());
            seal(&mut out);
            prop_assert!(length <= MAX_REPORT_BYTES && (count > 50 || count == records.len() as u64));
            let Some((_, ProbePacket::Report(report))) = decode(&out) else { panic!("no report") };
            prop_assert_eq!(report.head, head);
            let read: Vec<ArrivalRecord> = report.records().collect();
            prop_assert_eq!(&read[..], &records[..count as usize]);
        }

        #[test]
        fn damaged_datagrams_are_refused(at in 0usize..300, bit in 0u8..8) {
            let mut out = Vec::new();
            let probe = Probe { stream: 0, number: 1, sent_at: Time::ZERO };
            write_probe(&mut out, IDS, probe, 300);
            seal(&mut out);
            prop_assert!(decode(&out).is_some());
            out[at] ^= 1 << bit;
            prop_assert_eq!(decode(&out), None);
        }
    }

    const TO_RESPONDER: Ids = Ids { to: 0x1112_1314_1516_1718, from: 0x0102_0304_0506_0708 };

    fn records() -> Vec<ArrivalRecord> {
        let record = |stream, number, micros| ArrivalRecord {
            stream,
            number,
            received_at: Time::from_micros(micros),
        };
        vec![
            record(0, 0, 1_000_000),
            record(0, 2, 1_000_250),
            record(1, 0, 1_000_300),
            record(REPORTS, 228, 1_000_400),
        ]
    }

    fn vectors() -> Vec<(&'static str, Vec<u8>)> {
        let cookie = Cookie { issued_ms: 1234, seal: *b"0123456789abcdef" };
        let (ms, s) = (Span::from_millis, Span::from_secs);
        let hello = Ids { to: 0, ..TO_RESPONDER };
        let stranger = Ids { to: TO_RESPONDER.from, from: 0 };
        let to_prober = Ids { to: TO_RESPONDER.from, from: TO_RESPONDER.to };
        let both = Plan {
            up: true,
            down: true,
            size: 300,
            pattern: Pattern::Every(ms(1)),
            duration: s(10),
            rival: Some(OnOffStream { interval: ms(2), on: s(5), off: s(3) }),
            ecn: Ecn::Ect1,
        };
        let saturate = Plan {
            up: false,
            size: 1500,
            pattern: Pattern::Saturate { lower: ms(750), upper: s(3) },
            duration: s(60),
            rival: None,
            ecn: Ecn::NotEct,
            ..both
        };
        let head = ReportHead {
            sent_at: Time::from_secs(5),
            echo_sent: Time::from_secs(4),
            echo_received: Time::from_millis(4_500),
            next_number: 3,
            arrived: 6,
            ecn: EcnCounts { ect0: 1, ect1: 3, ce: 2 },
            queue_delay: ms(7),
            sent: [9, 4],
            skipped: 1,
            done: true,
            taken: 11,
            total: 20,
            position: 16,
        };
        let probe = Probe { stream: 1, number: 100, sent_at: Time::from_secs(2) };
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            seal(&mut out);
            out
        };
        vec![
            ("HELLO", written(&|out| _ = write_hello(out, hello, &cookie, &both))),
            ("HELLO to saturate", written(&|out| _ = write_hello(out, hello, &cookie, &saturate))),
            ("RETRY", written(&|out| _ = write_retry(out, stranger, &cookie))),
            ("REFUSE", written(&|out| _ = write_refuse(out, stranger, "full"))),
            ("ACCEPT", written(&|out| _ = write_accept(out, to_prober))),
            ("PROBE", written(&|out| _ = write_probe(out, TO_RESPONDER, probe, 60))),
            (
                "REPORT",
                written(&|out| _ = write_report(out, TO_RESPONDER, &head, records().into_iter())),
            ),
            ("CLOSE", written(&|out| _ = write_close(out, TO_RESPONDER))),
        ]
    }

    #[test]
    fn the_test_vectors_of_the_documentation() {
        let page = include_str!("../../../docs/probe-wire.md");
        let (_, listed) = page.split_once("## Test vectors").unwrap();
        let (_, listed) = listed.split_once("```text\n").unwrap();
        let (listed, _) = listed.split_once("```").unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let ours: String = vectors()
            .iter()
            .map(|(name, bytes)| {
                let is_hello = bytes[0] == kind::HELLO;
                let zeros = bytes.iter().rev().take_while(|byte| is_hello && **byte == 0).count();
                format!("{name}: {}\n", hex(&bytes[..bytes.len() - zeros]))
            })
            .collect();
        assert_eq!(ours, listed);
        let (_, report) = &vectors()[6];
        let Some((TO_RESPONDER, ProbePacket::Report(report))) = decode(report) else { panic!() };
        assert_eq!(report.records().collect::<Vec<_>>(), records());
    }

    #[test]
    fn the_test_vectors_of_the_documentation_with_a_key() {
        let page = include_str!("../../../docs/probe-wire.md");
        let listed = page.split("```text\n").nth(2).unwrap().split("```").next().unwrap();
        let secret: [u8; 32] = std::array::from_fn(|at| at as u8);
        let mut guard = protection(&secret).guard(0x2122_2324_2526_2728);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut ours = format!("key: {}\n", hex(&secret));
        for (name, mut datagram) in vectors() {
            let sender = match name {
                "RETRY" => SenderSide::Responder,
                "PROBE" => SenderSide::Initiator,
                _ => continue,
            };
            let bytes = datagram.len();
            guard.seal(sender, &mut datagram, bytes);
            ours.push_str(&format!("{name}: {}\n", hex(&datagram)));
        }
        assert!(ours == listed, "the page should show\n{ours}");
    }

    #[test]
    fn answers_are_shorter_than_a_hello() {
        let mut out = Vec::new();
        let why = "x".repeat(1000);
        assert!(write_refuse(&mut out, IDS, &why) < HELLO_BYTES);
        assert!(write_retry(&mut out, IDS, &Cookie::default()) < HELLO_BYTES);
        assert!(write_accept(&mut out, IDS) < HELLO_BYTES);
    }

    #[test]
    fn a_hello_of_another_version_is_known_as_one() {
        let mut out = Vec::new();
        Writer::new(&mut out, kind::HELLO, IDS).u32(9).end();
        seal(&mut out);
        let unknown = ProbePacket::Hello(9, Cookie::default(), None);
        assert_eq!(decode(&out), Some((IDS, unknown)));
    }
}
