//! A log of transfers, a row an object: `cellpace.transfers/1`, which [`Document::read_parquet`] makes of
//! Parquet.
//!
//! [`Document::read_parquet`]: crate::Document::read_parquet

use cellpace_measure::{Transfer, TransferSummary};
use serde::Deserialize;

use crate::groups::controllers;
use crate::number::{percent, short, time};
use crate::section::{Chart, Form, Line, PageTable, Section};
use crate::{Comparison, Run};

#[derive(Deserialize)]
pub(crate) struct LoggedTransfer {
    trace: String,
    #[serde(flatten)]
    transfer: Transfer,
}

/// Transfers of one controller on one trace.
struct TransferGroup<'a> {
    name: String,
    transfers: Vec<&'a Transfer>,
}

impl TransferGroup<'_> {
    fn values(&self, of: fn(&Transfer) -> Option<f64>) -> Vec<f64> {
        let mut values: Vec<f64> = self.transfers.iter().filter_map(|each| of(each)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn summary(&self) -> Option<TransferSummary> {
        TransferSummary::of(&self.name, self.transfers.iter().copied())
    }
}

fn groups(transfers: &[LoggedTransfer]) -> Vec<TransferGroup<'_>> {
    let is_one_trace = transfers.iter().all(|each| each.trace == transfers[0].trace);
    let mut groups: Vec<TransferGroup<'_>> = Vec::new();
    for each in transfers {
        let cc = &each.transfer.cc;
        let name = if is_one_trace { cc.clone() } else { format!("{cc} on {}", each.trace) };
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.transfers.push(&each.transfer),
            None => groups.push(TransferGroup { name, transfers: vec![&each.transfer] }),
        }
    }
    groups
}

/// Groups that are drawn.
const MAX_DRAWN: usize = 12;

/// The transfers of a comparison; `None` where it has none.
pub(crate) fn answer(comparison: &Comparison) -> Option<Section> {
    let of_run = |run: &Run| {
        let logged = |transfer: &Transfer| LoggedTransfer {
            trace: run.trace.clone(),
            transfer: transfer.clone(),
        };
        run.transfers.iter().map(logged).collect::<Vec<_>>()
    };
    let transfers: Vec<LoggedTransfer> = comparison.runs.iter().flat_map(of_run).collect();
    if transfers.is_empty() {
        return None;
    }
    let mut section = section(&transfers);
    let names = controllers(comparison);
    for line in section.charts.iter_mut().flat_map(|chart| &mut chart.lines) {
        line.look = names.iter().position(|name| *name == line.name);
    }
    Some(Section {
        title: "Transfers".to_owned(),
        sentence: String::new(),
        facts: Vec::new(),
        ..section
    })
}

pub(crate) fn section(transfers: &[LoggedTransfer]) -> Section {
    let groups = groups(transfers);
    let complete = transfers.iter().filter(|each| each.transfer.completion_ms.is_some()).count();
    let mut traces: Vec<&str> = transfers.iter().map(|each| each.trace.as_str()).collect();
    traces.sort_unstable();
    traces.dedup();
    let on = if let [trace] = traces[..] {
        trace.to_owned()
    } else {
        format!("{} traces", traces.len())
    };
    Section {
        title: format!("{} transfers on {on}", transfers.len()),
        sentence: sentence(&groups),
        facts: [
            ("Transfers", transfers.len().to_string()),
            ("Complete", percent(complete as f64 / transfers.len().max(1) as f64)),
            ("Traces", on),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        charts: charts(&groups),
        tables: vec![table(&groups)],
        ..Section::default()
    }
}

fn sentence(groups: &[TransferGroup<'_>]) -> String {
    let half = |group: &TransferGroup<'_>| {
        let summary = group.summary().filter(|summary| summary.complete > 0)?;
        let (rate, took) = (short(summary.goodput_mbps.p50), time(summary.completion_ms.p50));
        Some(format!(
            "half of the transfers of {} took less than {took} ({rate} Mbit/s)",
            group.name
        ))
    };
    let mut halves: Vec<String> = groups.iter().take(4).filter_map(half).collect();
    if let Some(first) = halves.first_mut() {
        first.replace_range(..1, "H");
    }
    if halves.is_empty() { "No transfer is complete.".to_owned() } else { halves.join(", ") + "." }
}

fn charts(groups: &[TransferGroup<'_>]) -> Vec<Chart> {
    let drawn = &groups[..groups.len().min(MAX_DRAWN)];
    let note = match groups.len() > MAX_DRAWN {
        true => format!("The first {MAX_DRAWN} of {}.", groups.len()),
        false => String::new(),
    };
    let distribution = |title: &str, x_label: &str, of: fn(&Transfer) -> Option<f64>| Chart {
        title: title.to_owned(),
        unit: "% of the transfers below".to_owned(),
        note: note.clone(),
        x_label: x_label.to_owned(),
        lines: drawn.iter().map(|group| share_below(&group.name, &group.values(of))).collect(),
        form: Form::Stairs,
        y_range: Some([0.0, 100.0]),
        ..Chart::default()
    };
    let by_sinr = Chart {
        title: "Goodput by SINR".to_owned(),
        unit: "Mbit/s".to_owned(),
        note: note.clone(),
        x_label: "mean SINR, dB".to_owned(),
        lines: drawn.iter().map(by_sinr).collect(),
        form: Form::Marks,
        ..Chart::default()
    };
    let by_size = Chart {
        title: "Completion time by size".to_owned(),
        unit: "s, log scale".to_owned(),
        note: note.clone(),
        x_label: "size, kB".to_owned(),
        lines: if has_sizes(groups) { drawn.iter().map(by_size).collect() } else { Vec::new() },
        form: Form::Marks,
        log_x: true,
        log_y: true,
        ..Chart::default()
    };
    vec![
        distribution("Completion time", "s", |transfer| Some(transfer.completion_ms? / 1e3)),
        by_size,
        distribution("Goodput of transfers", "Mbit/s", |transfer| transfer.goodput_mbps),
        distribution("RTT that transfers caused", "ms above that of the handshake", |transfer| {
            transfer.self_inflicted_ms
        }),
        by_sinr,
    ]
}

/// The share of values below each, of sorted ones.
fn share_below(name: &str, sorted: &[f64]) -> Line {
    let mut line = Line { name: name.to_owned(), ..Line::default() };
    for (place, value) in sorted.iter().enumerate() {
        // Of equal values the highest share counts.
        if line.x.last() == Some(value) {
            line.x.pop();
            line.y.pop();
        }
        line.x.push(*value);
        line.y.push((place + 1) as f32 * 100.0 / sorted.len() as f32);
    }
    line
}

/// Whether transfers differ in size.
fn has_sizes(groups: &[TransferGroup<'_>]) -> bool {
    let sizes = || groups.iter().flat_map(|group| &group.transfers).map(|each| each.size_bytes);
    sizes().min() != sizes().max()
}

fn by_size(group: &TransferGroup<'_>) -> Line {
    let pair = |transfer: &&Transfer| {
        Some((transfer.size_bytes as f64 / 1e3, (transfer.completion_ms? / 1e3) as f32))
    };
    let mut pairs: Vec<(f64, f32)> = group.transfers.iter().filter_map(pair).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (x, y) = pairs.into_iter().unzip();
    Line { name: group.name.clone(), x, y, ..Line::default() }
}

fn by_sinr(group: &TransferGroup<'_>) -> Line {
    let pair = |transfer: &&Transfer| Some((transfer.mean_sinr_db?, transfer.goodput_mbps? as f32));
    let mut pairs: Vec<(f64, f32)> = group.transfers.iter().filter_map(pair).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (x, y) = pairs.into_iter().unzip();
    Line { name: group.name.clone(), x, y, ..Line::default() }
}

fn table(groups: &[TransferGroup<'_>]) -> PageTable {
    let row = |group: &TransferGroup<'_>| {
        let summary = group.summary()?;
        let median = |of| {
            let values = group.values(of);
            values.get(values.len() / 2).map_or("–".to_owned(), |value| short(*value))
        };
        let sum =
            |of: fn(&Transfer) -> u64| group.transfers.iter().map(|each| of(each)).sum::<u64>();
        let sent = sum(|transfer| transfer.packets_sent).max(1);
        let again = sum(|transfer| transfer.retransmitted) as f64 / sent as f64;
        let (rate, took) = (summary.goodput_mbps, summary.completion_ms);
        Some(vec![
            group.name.clone(),
            summary.count.to_string(),
            summary.complete.to_string(),
            summary.timeout.to_string(),
            summary.cut_off.to_string(),
            short(rate.p5),
            short(rate.p50),
            short(rate.p95),
            short(took.p50 / 1e3),
            short(took.p95 / 1e3),
            median(|transfer| transfer.mean_rtt_ms),
            median(|transfer| transfer.self_inflicted_ms),
            percent(again),
        ])
    };
    PageTable {
        title: "Transfers".to_owned(),
        note: "Goodput and time are those of complete transfers.".to_owned(),
        header: super::header(
            "controller|transfers|complete|given up|cut off|goodput p5, Mbit/s|p50|p95|time p50, s|p95|\
             RTT, ms|caused, ms|sent again",
        ),
        rows: groups.iter().filter_map(row).collect(),
        ..PageTable::default()
    }
}
