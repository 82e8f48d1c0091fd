//! What `run`, `attach` and `proxy` wrote: an object for each TCP connection.

use serde::Deserialize;

use crate::number::{bytes, short, time};
use crate::section::{Chart, Form, Line, MadeBy, PageTable, Section};

use super::connection_samples::{ConnectionSamples, SampledFigure};
use super::connections_over_time::{Mean, Moments, PlacedSeries};

/// One connection. What a command does not know is left out.
#[derive(Deserialize)]
pub(crate) struct LoggedConnection {
    #[serde(default)]
    version: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    cc: String,
    flow: u64,
    /// Seconds after the first connection; results of earlier versions have none.
    start_s: Option<f64>,
    direction: String,
    local: String,
    peer: String,
    duration_s: f64,
    #[serde(default)]
    sent_bytes: u64,
    #[serde(default)]
    acked_bytes: u64,
    #[serde(default)]
    received_bytes: u64,
    rtt_ms: Option<f64>,
    min_rtt_ms: Option<f64>,
    #[serde(default)]
    retransmissions: u64,
    #[serde(default)]
    outcome: String,
    #[serde(default)]
    driver: String,
    series: Option<ConnectionSeries>,
}

/// Axis of charts in which each connection has its place.
const TOGETHER: &str = "time since the first connection began, s";

/// A connection over time, in equal bins from its beginning; `None` where nothing is known.
#[derive(Deserialize)]
struct ConnectionSeries {
    bin_s: f64,
    throughput_mbps: Vec<Option<f64>>,
    rtt_ms: Vec<Option<f64>>,
    cwnd_bytes: Vec<Option<f64>>,
}

impl LoggedConnection {
    /// Mean rate of what was acknowledged, in Mbit/s.
    fn mbps(&self) -> f64 {
        if self.duration_s > 0.0 { self.acked_bytes as f64 * 8e-6 / self.duration_s } else { 0.0 }
    }
}

/// The page of `command`'s connections.
pub(crate) fn section(command: &str, connections: &[LoggedConnection]) -> Section {
    let first = connections.first();
    Section {
        title: title(command, connections),
        sentence: sentence(connections),
        facts: facts(connections),
        charts: charts(connections),
        tables: vec![table(connections)],
        controllers: drawn(connections).into_iter().map(|(one, _)| one.cc.clone()).collect(),
        made_by: MadeBy {
            command: first.map_or(String::new(), |first| first.command.clone()),
            version: first.map_or(String::new(), |first| first.version.clone()),
            seeds: None,
        },
        ..Section::default()
    }
}

/// What is compared with another result.
pub(crate) fn samples(connections: &[LoggedConnection]) -> ConnectionSamples {
    let figure = |names, is_better_high, of: fn(&LoggedConnection) -> Option<f64>| {
        SampledFigure::new(names, is_better_high, connections.iter().map(of))
    };
    let section = section("", connections);
    ConnectionSamples {
        ccs: distinct(connections, |connection| &connection.cc)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        command: section.made_by.command,
        facts: section.facts,
        figures: vec![
            figure(("rtt_ms", "median RTT", "ms"), false, |c| c.rtt_ms),
            figure(("rate_mbps", "median rate", "Mbit/s"), true, |c| Some(c.mbps())),
            figure(("min_rtt_ms", "median least RTT", "ms"), false, |c| c.min_rtt_ms),
            figure(("duration_s", "median duration", "s"), false, |c| Some(c.duration_s)),
            figure(("retransmissions", "median segments sent again", "a connection"), false, |c| {
                Some(c.retransmissions as f64)
            }),
        ],
        charts: charts_over_time(connections),
        of: "connections",
    }
}

/// Each different text once.
fn distinct<'a>(
    connections: &'a [LoggedConnection],
    text: fn(&'a LoggedConnection) -> &'a str,
) -> Vec<&'a str> {
    let mut texts: Vec<&str> = Vec::new();
    for connection in connections {
        let text = text(connection);
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

fn title(command: &str, connections: &[LoggedConnection]) -> String {
    let count = connections.len();
    let noun = if count == 1 { "connection" } else { "connections" };
    let ccs = distinct(connections, |connection| &connection.cc).join(", ");
    match ccs.is_empty() {
        true => format!("cellpace {command}: {count} {noun}"),
        false => format!("cellpace {command} under {ccs}: {count} {noun}"),
    }
}

fn facts(connections: &[LoggedConnection]) -> Vec<(String, String)> {
    let peers = distinct(connections, |connection| {
        connection.peer.rsplit_once(':').map_or("", |(host, _)| host)
    });
    let peers = if peers.len() > 3 { peers.len().to_string() } else { peers.join(", ") };
    [
        ("Controller", distinct(connections, |connection| &connection.cc).join(", ")),
        ("Driver", distinct(connections, |connection| &connection.driver).join(", ")),
        ("Peers", peers),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn sentence(connections: &[LoggedConnection]) -> String {
    let total: u64 = connections.iter().map(|connection| connection.acked_bytes).sum();
    let mut rates: Vec<f64> = connections.iter().map(LoggedConnection::mbps).collect();
    rates.sort_by(f64::total_cmp);
    let mut rtts: Vec<f64> =
        connections.iter().filter_map(|connection| connection.rtt_ms).collect();
    rtts.sort_by(f64::total_cmp);
    let median = |sorted: &[f64]| sorted.get((sorted.len().max(1) - 1) / 2).copied();
    let (Some(rate), count) = (median(&rates), connections.len()) else {
        return "No connection was taken over.".to_owned();
    };
    let rtt = median(&rtts).map_or(String::new(), |rtt| format!(" at an RTT of {}", time(rtt)));
    match count {
        1 => format!("One connection delivered {} at {} Mbit/s{rtt}.", bytes(total), short(rate)),
        _ => format!(
            "{count} connections delivered {}, the median one at {} Mbit/s{}.",
            bytes(total),
            short(rate),
            rtt.replace("an RTT", "a smoothed RTT")
        ),
    }
}

/// Connections that are listed; the charts have all.
const MAX_LISTED: usize = 2_000;

fn table(connections: &[LoggedConnection]) -> PageTable {
    let ms = |value: Option<f64>| value.map_or("–".to_owned(), short);
    let row = |connection: &LoggedConnection| {
        let arrow = if connection.direction == "out" { "→" } else { "←" };
        vec![
            connection.flow.to_string(),
            format!("{} {arrow} {}", connection.local, connection.peer),
            short(connection.duration_s),
            bytes(connection.sent_bytes),
            bytes(connection.acked_bytes),
            bytes(connection.received_bytes),
            short(connection.mbps()),
            ms(connection.rtt_ms),
            ms(connection.min_rtt_ms),
            connection.retransmissions.to_string(),
            connection.outcome.clone(),
        ]
    };
    let note = match connections.len() > MAX_LISTED {
        true => format!("The first {MAX_LISTED} of {}.", connections.len()),
        false => String::new(),
    };
    PageTable {
        title: "Connections".to_owned(),
        note,
        header: super::header(
            "flow|connection|duration, s|sent|acknowledged|received|Mbit/s|RTT, ms|least RTT, ms|\
             segments sent again|outcome",
        ),
        rows: connections.iter().take(MAX_LISTED).map(row).collect(),
        ..PageTable::default()
    }
}

/// Connections that are drawn over time: those that delivered most.
const MAX_DRAWN: usize = 6;

fn charts(connections: &[LoggedConnection]) -> Vec<Chart> {
    let mut charts = charts_together(connections);
    charts.extend(charts_over_time(connections));
    charts.extend(charts_of_all(connections));
    charts
}

/// What all connections had together, and how far apart they were at each moment.
fn charts_together(connections: &[LoggedConnection]) -> Vec<Chart> {
    let placed = |values: fn(&ConnectionSeries) -> &[Option<f64>]| -> Vec<PlacedSeries> {
        let one = |one: &LoggedConnection| {
            let (start_s, series) = (one.start_s?, one.series.as_ref()?);
            let values = values(series).iter().map(|value| value.unwrap_or(f64::NAN)).collect();
            Some(PlacedSeries { start_s, bin_s: series.bin_s, values })
        };
        connections.iter().filter_map(one).collect()
    };
    let rates = placed(|series| &series.throughput_mbps);
    if rates.len() < 2 {
        return Vec::new();
    }
    let chart = |title: &str, unit: &str, lines| Chart {
        title: title.to_owned(),
        unit: unit.to_owned(),
        x_label: TOGETHER.to_owned(),
        lines,
        ..Chart::default()
    };
    let bands = |title: &str, unit: &str, moments: &Moments| {
        let line = |(name, share): &(&str, f64)| {
            let values = moments.quantiles(*share);
            Line { look: Some(0), ..Line::of_bins(*name, moments.bin_s, values) }
        };
        let note = "The median of the connections that are open, and bands that hold half and 90 % of them.";
        Chart {
            note: note.to_owned(),
            bands: vec![[4, 0], [3, 1]],
            ..chart(title, unit, BANDS.iter().map(line).collect())
        }
    };
    let Some(together) = Moments::of(&rates, Mean::OfBin) else { return Vec::new() };
    let sum = Line::of_bins("all connections", together.bin_s, together.sums());
    let mut charts = vec![chart("Throughput of all connections", "Mbit/s", vec![sum])];
    // Fewer are drawn one by one.
    if rates.len() > MAX_DRAWN {
        let known = [
            ("Throughput of a connection", "Mbit/s", rates),
            ("RTT of a connection", "ms", placed(|series| &series.rtt_ms)),
        ];
        let known = known.iter().filter_map(|(title, unit, all)| {
            Some(bands(title, unit, &Moments::of(all, Mean::OfKnown)?))
        });
        charts.extend(known);
    }
    charts
}

/// Percentiles of the connections of a moment.
const BANDS: [(&str, f64); 5] =
    [("5 %", 0.05), ("25 %", 0.25), ("median", 0.5), ("75 %", 0.75), ("95 %", 0.95)];

/// Those that are drawn over time.
fn drawn(connections: &[LoggedConnection]) -> Vec<(&LoggedConnection, &ConnectionSeries)> {
    let mut drawn: Vec<_> =
        connections.iter().filter_map(|c| Some((c, c.series.as_ref()?))).collect();
    drawn.sort_by_key(|(connection, _)| std::cmp::Reverse(connection.acked_bytes));
    drawn.truncate(MAX_DRAWN);
    drawn
}

fn charts_over_time(connections: &[LoggedConnection]) -> Vec<Chart> {
    let drawn = drawn(connections);
    let known = connections.iter().filter(|connection| connection.series.is_some()).count();
    let note = match known > MAX_DRAWN {
        true => format!("The {MAX_DRAWN} connections that delivered most."),
        false => String::new(),
    };
    // Each has its place in time where there are others, and all places are known.
    let is_placed = drawn.len() > 1 && drawn.iter().all(|(one, _)| one.start_s.is_some());
    let chart = |title: &str, unit: &str, values: fn(&ConnectionSeries) -> Vec<Option<f64>>| {
        let line = |(connection, series): &(&LoggedConnection, &ConnectionSeries)| {
            let values = values(series).into_iter();
            let values = values.map(|value| value.unwrap_or(f64::NAN) as f32).collect();
            let start_s = connection.start_s.filter(|_| is_placed).unwrap_or(0.0);
            let line = Line::of_bins(format!("flow {}", connection.flow), series.bin_s, values);
            Line { x: line.x.iter().map(|x| x + start_s).collect(), ..line }
        };
        Chart {
            title: title.to_owned(),
            unit: unit.to_owned(),
            note: note.clone(),
            x_label: match is_placed {
                true => TOGETHER.to_owned(),
                false => "time since the connection began, s".to_owned(),
            },
            lines: drawn.iter().map(line).collect(),
            ..Chart::default()
        }
    };
    if drawn.is_empty() {
        return Vec::new();
    }
    let kilobytes = |series: &ConnectionSeries| -> Vec<Option<f64>> {
        series.cwnd_bytes.iter().map(|bytes| bytes.map(|bytes| bytes / 1e3)).collect()
    };
    vec![
        chart("Throughput over time", "Mbit/s", |series| series.throughput_mbps.clone()),
        chart("RTT over time", "ms", |series| series.rtt_ms.clone()),
        chart("Window over time", "kB", kilobytes),
    ]
}

/// How the connections differ: a distribution of each figure.
fn charts_of_all(connections: &[LoggedConnection]) -> Vec<Chart> {
    // One connection says nothing that the table does not.
    if connections.len() < 2 {
        return Vec::new();
    }
    let line = |name: &str, value: fn(&LoggedConnection) -> Option<f64>| {
        let mut x: Vec<f64> =
            connections.iter().filter_map(value).filter(|x| x.is_finite()).collect();
        x.sort_by(f64::total_cmp);
        let count = x.len() as f32;
        let y = (1..=x.len()).map(|place| 100.0 * place as f32 / count).collect();
        Line { name: name.to_owned(), x, y, ..Line::default() }
    };
    let chart = |title: &str, unit: &str, lines| Chart {
        title: title.to_owned(),
        unit: "% of the connections below".to_owned(),
        x_label: unit.to_owned(),
        lines,
        form: Form::Stairs,
        log_x: true,
        y_range: Some([0.0, 100.0]),
        ..Chart::default()
    };
    vec![
        chart("Rate of the connections", "Mbit/s", vec![line("rate", |c| Some(c.mbps()))]),
        chart(
            "RTT of the connections",
            "ms",
            vec![line("smoothed", |c| c.rtt_ms), line("least", |c| c.min_rtt_ms)],
        ),
        chart("Duration of the connections", "s", vec![line("duration", |c| Some(c.duration_s))]),
    ]
}
