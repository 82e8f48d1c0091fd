//! The figures of a packet log. The file is read twice, so that memory stays bounded: first for what flows
//! there are, and then for their packets.

use std::collections::BTreeMap;

use arrow_array::types::Int32Type;
use arrow_array::{Array, DictionaryArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use cellpace_base::{Span, Time};
use cellpace_measure::{Collector, Figures, FlowSpan, MeasuredWindow, Series};
use cellpace_path::{DropReason, Fate, Packet, PacketRecord};
use serde_json::{Value, json};

use super::sequence::{MAX_ACKED_POINTS, MAX_POINTS, SequenceTaker};
use super::{Objects, Stored};
use crate::ReportError;
use crate::packet_ack::PacketAck;
use crate::packet_log::ACK_COLUMNS;
use crate::sequence::flow_name;

/// Runs of a log; more are no page.
const MAX_RUNS: usize = 1_000;

/// Flows with figures of their own. The later ones of a run are taken together.
const MAX_FLOWS: usize = 1_000;

/// Bins of series at most, and their least width.
const MAX_BINS: u64 = 2_000;
const MIN_BIN: Span = Span::from_millis(100);

const DROPS: [DropReason; 5] = [
    DropReason::Random,
    DropReason::Overflow,
    DropReason::Aqm,
    DropReason::Handover,
    DropReason::Corrupt,
];

/// An object for each run.
pub(super) fn runs(stored: &Stored<'_>) -> Objects {
    let mut found = Found::default();
    each(stored, |row| found.see(stored, &row))?;
    if found.runs.is_empty() {
        return Err(stored.wrong(&"a packet log without packets"));
    }
    let points = if found.has_acks { MAX_ACKED_POINTS } else { MAX_POINTS } / found.runs.len();
    let mut measured: BTreeMap<u32, MeasuredRun> =
        found.runs.iter().map(|(number, run)| (*number, MeasuredRun::new(run, points))).collect();
    each(stored, |row| {
        let run = found.runs.get(&row.run).zip(measured.get_mut(&row.run));
        if let Some((found, run)) = run {
            run.record(row.record, row.ack, found.place(row.flow));
        }
        Ok(())
    })?;
    Ok(measured.into_iter().map(|(number, run)| run.object(number, &found.runs[&number])).collect())
}

/// A row of the log.
struct PacketRow<'a> {
    run: u32,
    cc: &'a str,
    flow: u32,
    record: PacketRecord,
    ack: Option<PacketAck>,
}

/// Calls `see` for every row in turn.
fn each(
    stored: &Stored<'_>,
    mut see: impl FnMut(PacketRow<'_>) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let mut number = 0u64;
    for batch in stored.reader()? {
        let batch = stored.batch(batch)?;
        let columns = PacketColumns::of(stored, &batch)?;
        for at in 0..batch.num_rows() {
            number += 1;
            let row = columns.row(at);
            see(row.ok_or_else(|| stored.wrong(&format!("row {number}: not a packet's record")))?)?;
        }
    }
    Ok(())
}

struct PacketColumns<'a> {
    run: &'a UInt32Array,
    cc: (&'a DictionaryArray<Int32Type>, &'a StringArray),
    flow: &'a UInt32Array,
    size: &'a UInt32Array,
    times: [&'a UInt64Array; 4],
    fate: (&'a DictionaryArray<Int32Type>, &'a StringArray),
    /// A log of an earlier version has none of them.
    acks: Option<[&'a UInt64Array; ACK_COLUMNS.len()]>,
}

impl<'a> PacketColumns<'a> {
    fn of(stored: &Stored<'_>, batch: &'a RecordBatch) -> Result<Self, ReportError> {
        let texts = |name: &str| {
            let column: &DictionaryArray<Int32Type> = stored.column(batch, name)?;
            let values = column.values().as_any().downcast_ref::<StringArray>();
            let values =
                values.ok_or_else(|| stored.wrong(&format!("column `{name}`: not text")))?;
            Ok((column, values))
        };
        let time = |name: &str| stored.column(batch, name);
        Ok(Self {
            run: stored.column(batch, "run")?,
            cc: texts("cc")?,
            flow: stored.column(batch, "flow")?,
            size: stored.column(batch, "size")?,
            times: [
                time("sent_ns")?,
                time("enqueued_ns")?,
                time("dequeued_ns")?,
                time("departed_ns")?,
            ],
            fate: texts("fate")?,
            acks: match batch.column_by_name(ACK_COLUMNS[0]) {
                None => None,
                Some(_) => {
                    let [acked, in_flight, cwnd, permit] =
                        ACK_COLUMNS.map(|name| stored.typed(batch, name));
                    Some([acked?, in_flight?, cwnd?, permit?])
                }
            },
        })
    }

    /// `None` where its times are out of order or a word is not known.
    fn row(&self, at: usize) -> Option<PacketRow<'a>> {
        let text = |(keys, values): (&'a DictionaryArray<Int32Type>, &'a StringArray)| {
            let key = keys.key(at).filter(|key| *key < values.len())?;
            Some(values.value(key))
        };
        let times = self.times.map(|column| column.value(at));
        if !times.is_sorted() {
            return None;
        }
        let [sent, enqueued, dequeued, departed] = times.map(Time::from_nanos);
        let flow = self.flow.value(at);
        let packet = Packet {
            enqueued_at: enqueued,
            dequeued_at: dequeued,
            departed_at: departed,
            ..Packet::new(0, flow, self.size.value(at), sent)
        };
        let record = PacketRecord { packet, fate: fate(text(self.fate)?)? };
        let ack = self.ack(at);
        // No ack comes before its packet has arrived.
        if ack.is_some_and(|ack| ack.at < departed) {
            return None;
        }
        Some(PacketRow { run: self.run.value(at), cc: text(self.cc)?, flow, record, ack })
    }

    fn ack(&self, at: usize) -> Option<PacketAck> {
        let value = |column: &UInt64Array| column.is_valid(at).then(|| column.value(at));
        let [acked, in_flight, cwnd, permit] = self.acks?.map(value);
        Some(PacketAck { at: Time::from_nanos(acked?), in_flight: in_flight?, cwnd, permit })
    }
}

fn fate(word: &str) -> Option<Fate> {
    match word {
        "delivered" => Some(Fate::Delivered),
        "duplicate" => Some(Fate::Duplicate),
        word => DROPS.into_iter().find(|reason| reason.name() == word).map(Fate::Dropped),
    }
}

/// What flows there are.
#[derive(Default)]
struct Found {
    runs: BTreeMap<u32, FoundRun>,
    flows: usize,
    has_acks: bool,
}

#[derive(Default)]
struct FoundRun {
    flows: Vec<FoundFlow>,
    /// The places in `flows` of those with figures of their own, by their numbers.
    places: BTreeMap<u32, usize>,
    /// The place of all others.
    others: Option<usize>,
}

struct FoundFlow {
    /// `None` for flows that are taken together.
    number: Option<u32>,
    cc: String,
    first: Time,
    last: Time,
}

impl FoundFlow {
    fn name(&self) -> String {
        flow_name(self.number, &self.cc)
    }
}

impl Found {
    fn see(&mut self, stored: &Stored<'_>, row: &PacketRow<'_>) -> Result<(), ReportError> {
        if !self.runs.contains_key(&row.run) && self.runs.len() >= MAX_RUNS {
            return Err(stored.wrong(&format!("more than {MAX_RUNS} runs")));
        }
        self.has_acks |= row.ack.is_some();
        let run = self.runs.entry(row.run).or_default();
        let packet = &row.record.packet;
        let known = run.places.get(&row.flow).copied();
        let may_have_own = self.flows < MAX_FLOWS || run.flows.is_empty();
        let place = known.or_else(|| run.others.filter(|_| !may_have_own)).unwrap_or_else(|| {
            let place = run.flows.len();
            match may_have_own {
                true => run.places.insert(row.flow, place),
                false => run.others.replace(place),
            };
            self.flows += 1;
            run.flows.push(FoundFlow {
                number: may_have_own.then_some(row.flow),
                cc: row.cc.to_owned(),
                first: packet.sent_at,
                last: packet.departed_at,
            });
            place
        });
        let flow = &mut run.flows[place];
        flow.first = flow.first.min(packet.sent_at);
        flow.last = flow.last.max(packet.departed_at);
        Ok(())
    }
}

impl FoundRun {
    fn place(&self, flow: u32) -> usize {
        self.places.get(&flow).copied().or(self.others).unwrap_or(0)
    }

    fn window(&self) -> MeasuredWindow {
        let first = self.flows.iter().map(|flow| flow.first).min().unwrap_or(Time::ZERO);
        let last = self.flows.iter().map(|flow| flow.last).max().unwrap_or(Time::ZERO);
        MeasuredWindow { skip: first, end: last }
    }

    fn cc(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for flow in &self.flows {
            if !names.contains(&flow.cc.as_str()) && names.len() < 8 {
                names.push(&flow.cc);
            }
        }
        names.join(" + ")
    }
}

/// A run on the second way through the file.
struct MeasuredRun {
    collector: Collector,
    bin: Span,
    dropped: [u64; DROPS.len()],
    lost: Vec<u32>,
    sequences: SequenceTaker,
}

impl MeasuredRun {
    /// `points`: packets that a page may draw of it.
    fn new(run: &FoundRun, points: usize) -> Self {
        let window = run.window();
        let width = window.end.as_nanos().div_ceil(MAX_BINS);
        let bin = MIN_BIN.max(Span::from_nanos(width));
        let span = |flow: &FoundFlow| FlowSpan {
            start: flow.first,
            stop: flow.last,
            is_controlled: flow.cc != "udp" && !flow.cc.starts_with("udp:"),
        };
        let spans: Vec<FlowSpan> = run.flows.iter().map(span).collect();
        let bins = window.end.as_nanos() / bin.as_nanos() + 1;
        Self {
            collector: Collector::new(window, &spans, bin),
            bin,
            dropped: [0; DROPS.len()],
            lost: vec![0; bins as usize],
            sequences: SequenceTaker::new(run.flows.len().min(MAX_DRAWN_FLOWS), points),
        }
    }

    fn record(&mut self, mut record: PacketRecord, ack: Option<PacketAck>, place: usize) {
        record.packet.flow = place as u32;
        if let Fate::Dropped(reason) = record.fate {
            let which = DROPS.iter().position(|known| *known == reason).unwrap_or(0);
            self.dropped[which] += 1;
            let bin = record.packet.departed_at.as_nanos() / self.bin.as_nanos();
            if let Some(lost) = self.lost.get_mut(bin as usize) {
                *lost += 1;
            }
        }
        self.sequences.record(&record, ack, place);
        self.collector.record(&record);
    }

    fn object(self, number: u32, run: &FoundRun) -> Value {
        let (window, lost) = (run.window(), self.lost);
        let mut sequences = self.sequences.finish(run.flows.iter().map(FoundFlow::name));
        for (sequence, flow) in sequences.iter_mut().zip(&run.flows) {
            (sequence.run, sequence.flow) = (number, flow.number);
            sequence.cc.clone_from(&flow.cc);
        }
        // What the link offered stands in no packet.
        let (figures, series) = self.collector.finish(0);
        let dropped = DROPS.iter().zip(self.dropped).filter(|(_, count)| *count > 0);
        let dropped = dropped.map(|(reason, count)| (reason.name().to_owned(), count.into()));
        json!({
            "schema": "cellpace.packets/1",
            "run": number,
            "cc": run.cc(),
            "start_s": window.skip.as_secs_f64(),
            "duration_s": window.seconds(),
            "throughput_mbps": figures.throughput_mbps,
            "queue_delay_ms": figures.queue_delay_ms,
            "one_way_delay_ms": figures.one_way_delay_ms,
            "packets": figures.packets,
            "lost": figures.lost,
            "dropped": Value::Object(dropped.collect()),
            "jain": figures.jain,
            "per_flow": flows(&figures, run),
            "series": series_object(&series, &lost, run),
            "sequences": sequences,
        })
    }
}

fn flows(figures: &Figures, run: &FoundRun) -> Vec<Value> {
    let flow = |(figures, found): (&cellpace_measure::FlowFigures, &FoundFlow)| {
        json!({
            "number": found.number,
            "cc": found.cc,
            "start_s": figures.start_s,
            "stop_s": figures.stop_s,
            "throughput_mbps": figures.throughput_mbps,
            "queue_delay_ms": figures.queue_delay_ms,
            "one_way_delay_ms": figures.one_way_delay_ms,
            "lost": figures.lost,
        })
    };
    figures.per_flow.iter().zip(&run.flows).map(flow).collect()
}

/// Flows that are drawn one by one.
const MAX_DRAWN_FLOWS: usize = 16;

fn series_object(series: &Series, lost: &[u32], run: &FoundRun) -> Value {
    let has_flows = (2..=MAX_DRAWN_FLOWS).contains(&run.flows.len());
    let flows = if has_flows { &series.flow_throughput_mbps[..] } else { &[] };
    json!({
        "bin_s": series.bin_s,
        "throughput_mbps": series.throughput_mbps,
        "flow_throughput_mbps": flows,
        "queue_delay_p50_ms": series.queue_delay_p50_ms,
        "queue_delay_p95_ms": series.queue_delay_p95_ms,
        "lost": lost,
        "queue_delay_quantiles_ms": series.quantiles.queue_delay_ms,
    })
}
