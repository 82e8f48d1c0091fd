//! The figures of a packet log, run by run: `cellpace.packets/1`, which [`Document::read_parquet`] makes of
//! Parquet.
//!
//! [`Document::read_parquet`]: crate::Document::read_parquet

use std::collections::BTreeMap;

use cellpace_measure::Summary;
use serde::Deserialize;

use crate::number::{percent, short, time};
use crate::section::{Chart, Line, PageTable, Section};
use crate::sequence::{PacketSequence, flow_name};

#[derive(Deserialize)]
pub(crate) struct PacketRun {
    run: u32,
    cc: String,
    duration_s: f64,
    throughput_mbps: f64,
    queue_delay_ms: Summary,
    packets: u64,
    lost: u64,
    dropped: BTreeMap<String, u64>,
    per_flow: Vec<LoggedFlow>,
    series: PacketSeries,
    #[serde(default)]
    sequences: Vec<PacketSequence>,
}

#[derive(Deserialize)]
struct LoggedFlow {
    number: Option<u32>,
    cc: String,
    start_s: f64,
    stop_s: f64,
    throughput_mbps: f64,
    queue_delay_ms: Summary,
    lost: u64,
}

#[derive(Deserialize)]
struct PacketSeries {
    bin_s: f64,
    throughput_mbps: Vec<f32>,
    flow_throughput_mbps: Vec<Vec<f32>>,
    queue_delay_p50_ms: Vec<Option<f32>>,
    queue_delay_p95_ms: Vec<Option<f32>>,
    lost: Vec<u32>,
    queue_delay_quantiles_ms: Vec<f32>,
}

/// Runs that are drawn, and rows that are listed.
const MAX_DRAWN: usize = 12;
const MAX_LISTED: usize = 200;

/// The smallest delay in ms that is drawn: a logarithmic axis has no zero.
const MIN_DELAY: f32 = 0.01;

pub(crate) fn section(runs: &[PacketRun]) -> Section {
    let count = runs.len();
    let title = match runs {
        [run] => format!("Packet log: {}", run.cc),
        _ => format!("Packet log of {count} runs"),
    };
    Section {
        title,
        sentence: sentence(runs),
        facts: facts(runs),
        charts: charts(runs),
        tables: vec![table(runs)],
        controllers: match runs {
            [run] => run.per_flow.iter().map(|flow| flow.cc.clone()).collect(),
            _ => runs.iter().take(MAX_DRAWN).map(|run| run.cc.clone()).collect(),
        },
        sequences: sequences(runs),
        ..Section::default()
    }
}

/// The packets of each flow; of several runs the names say of which.
fn sequences(runs: &[PacketRun]) -> Vec<PacketSequence> {
    let named = |run: &PacketRun, sequence: &PacketSequence| match runs {
        [_] => sequence.clone(),
        _ => PacketSequence {
            name: format!("run {}, {}", run.run, sequence.name),
            ..sequence.clone()
        },
    };
    let all = runs.iter().flat_map(|run| run.sequences.iter().map(move |of| named(run, of)));
    all.filter(|sequence| sequence.sent.len() > 1).collect()
}

fn sentence(runs: &[PacketRun]) -> String {
    let run = |run: &PacketRun| {
        let delay = time(run.queue_delay_ms.p95);
        let rate = short(run.throughput_mbps);
        format!("{} brought {rate} Mbit/s and 95 % of the packets waited less than {delay}", run.cc)
    };
    match runs {
        [only] => run(only) + ".",
        _ if runs.len() <= 4 => {
            let each = |each: &PacketRun| format!("run {}: {}", each.run, run(each));
            let mut text = runs.iter().map(each).collect::<Vec<_>>().join("; ");
            text.replace_range(..1, "R");
            text + "."
        }
        _ => String::new(),
    }
}

fn facts(runs: &[PacketRun]) -> Vec<(String, String)> {
    let packets: u64 = runs.iter().map(|run| run.packets + run.lost).sum();
    let mut drops: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in runs.iter().flat_map(|run| &run.dropped) {
        *drops.entry(reason).or_default() += count;
    }
    let drops: Vec<String> =
        drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let longest = runs.iter().map(|run| run.duration_s).fold(0.0, f64::max);
    [
        ("Runs", runs.len().to_string()),
        ("Packets", packets.to_string()),
        ("Duration", format!("{} s", short(longest))),
        ("Dropped", if drops.is_empty() { "none".to_owned() } else { drops.join(", ") }),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn charts(runs: &[PacketRun]) -> Vec<Chart> {
    let drawn = &runs[..runs.len().min(MAX_DRAWN)];
    let note = match runs.len() > MAX_DRAWN {
        true => format!("The first {MAX_DRAWN} of {} runs.", runs.len()),
        false => String::new(),
    };
    let chart = |title: &str, unit: &str, x_label: &str, lines: Vec<Line>| Chart {
        title: title.to_owned(),
        unit: unit.to_owned(),
        note: note.clone(),
        x_label: x_label.to_owned(),
        lines,
        ..Chart::default()
    };
    let name = |run: &PacketRun| match runs {
        [_] => run.cc.clone(),
        _ => format!("run {}: {}", run.run, run.cc),
    };
    let over_time = |run: &PacketRun, name: String, values: Vec<f32>| {
        Line::of_bins(name, run.series.bin_s, values)
    };
    let delays = |values: &[Option<f32>]| -> Vec<f32> {
        values.iter().map(|value| value.map_or(f32::NAN, |ms| ms.max(MIN_DELAY))).collect()
    };
    let rates =
        drawn.iter().map(|run| over_time(run, name(run), run.series.throughput_mbps.clone()));
    let p95 = drawn.iter().map(|run| {
        over_time(run, format!("{}, 95 %", name(run)), delays(&run.series.queue_delay_p95_ms))
    });
    let mut delay_lines: Vec<Line> = p95.collect();
    if let [run] = runs {
        let median = delays(&run.series.queue_delay_p50_ms);
        delay_lines.push(over_time(run, format!("{}, median", name(run)), median));
    }
    let lost = drawn.iter().map(|run| {
        let lost = run.series.lost.iter().map(|count| *count as f32).collect();
        over_time(run, name(run), lost)
    });
    let has_losses = drawn.iter().any(|run| run.lost > 0);
    let bin = drawn.first().map_or(0.0, |run| run.series.bin_s);
    let mut charts = vec![
        chart("Throughput", "Mbit/s", "time [s]", rates.collect()),
        Chart { log_y: true, ..chart("Queue delay", "ms", "time [s]", delay_lines) },
    ];
    if let [run] = runs {
        let flows = run.series.flow_throughput_mbps.iter().zip(&run.per_flow);
        let flows = flows.map(|(rates, flow)| over_time(run, flow.name(), rates.clone()));
        charts.push(chart("Throughput of each flow", "Mbit/s", "time [s]", flows.collect()));
    }
    if has_losses {
        let unit = format!("packets in {}", time(bin * 1e3));
        charts.push(chart("Dropped", &unit, "time [s]", lost.collect()));
    }
    let below =
        drawn.iter().map(|run| distribution(name(run), &run.series.queue_delay_quantiles_ms));
    let cdf =
        chart("Distribution of the queue delay", "% of the packets below", "ms", below.collect());
    charts.push(Chart { log_x: true, y_range: Some([0.0, 100.0]), ..cdf });
    charts
}

/// The share of packets below each delay. `quantiles` are those of 0, 0.5, ..., 100 %.
fn distribution(name: String, quantiles: &[f32]) -> Line {
    let step = 100.0 / quantiles.len().saturating_sub(1).max(1) as f32;
    let mut line = Line { name, ..Line::default() };
    for (place, delay) in quantiles.iter().enumerate() {
        let x = f64::from(delay.max(MIN_DELAY));
        // Of equal delays the highest share counts.
        if line.x.last().is_some_and(|last| *last >= x) {
            line.x.pop();
            line.y.pop();
        }
        line.x.push(x);
        line.y.push(place as f32 * step);
    }
    line
}

impl LoggedFlow {
    fn name(&self) -> String {
        flow_name(self.number, &self.cc)
    }
}

fn table(runs: &[PacketRun]) -> PageTable {
    let row = |run: &PacketRun, flow: &LoggedFlow| {
        let delay = &flow.queue_delay_ms;
        vec![
            format!("run {}, {}", run.run, flow.name()),
            short(flow.start_s),
            short(flow.stop_s),
            short(flow.throughput_mbps),
            short(delay.p50),
            short(delay.p95),
            short(delay.p99),
            flow.lost.to_string(),
        ]
    };
    let total = |run: &PacketRun| {
        let delay = &run.queue_delay_ms;
        vec![
            format!("run {}, all flows", run.run),
            short(run.per_flow.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min)),
            short(run.per_flow.iter().map(|flow| flow.stop_s).fold(0.0, f64::max)),
            short(run.throughput_mbps),
            short(delay.p50),
            short(delay.p95),
            short(delay.p99),
            format!(
                "{} ({})",
                run.lost,
                percent(run.lost as f64 / (run.lost + run.packets).max(1) as f64)
            ),
        ]
    };
    let rows = runs.iter().flat_map(|run| {
        let flows = run.per_flow.iter().map(move |flow| row(run, flow));
        flows.chain((run.per_flow.len() > 1).then(|| total(run)))
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let more = match rows.len() > MAX_LISTED {
        true => format!(" The first {MAX_LISTED} of {} rows.", rows.len()),
        false => String::new(),
    };
    PageTable {
        title: "Runs and flows".to_owned(),
        note: format!(
            "All packets of the log count, also those of a start that its command leaves out.{more}"
        ),
        header: super::header(
            "flow|first packet, s|last, s|throughput, Mbit/s|queue delay p50, ms|p95|p99|packets dropped",
        ),
        rows: rows.into_iter().take(MAX_LISTED).collect(),
        ..PageTable::default()
    }
}
