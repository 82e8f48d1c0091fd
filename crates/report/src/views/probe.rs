//! What `probe` wrote: `cellpace.probe/1`.

use cellpace_measure::Summary;
use serde::Deserialize;

use crate::number::{percent, short, time};
use crate::section::{Chart, Form, Line, MadeBy, PageTable, Section};

#[derive(Deserialize)]
pub(crate) struct ProbeResult {
    #[serde(default)]
    version: String,
    #[serde(default)]
    command: String,
    settings: Settings,
    complete: bool,
    least_rtt_ms: Option<f64>,
    clock_drift_ppm: Option<f64>,
    up: Option<Direction>,
    down: Option<Direction>,
}

#[derive(Deserialize)]
struct Settings {
    target: String,
    size: u64,
    interval_ms: Option<f64>,
    queue_delay_bounds_ms: Option<[f64; 2]>,
    duration_s: f64,
}

#[derive(Deserialize)]
struct Direction {
    sent: u64,
    arrived: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    skipped: u64,
    throughput_mbps: f64,
    delay_ms: DelaySummary,
    bursts: Bursts,
    onoff: Option<OnOff>,
    ecn: Option<EcnArrivals>,
    windows: Vec<Windows>,
    trace: Option<TraceShape>,
    delay_series: DelayLines,
}

#[derive(Deserialize)]
struct DelaySummary {
    min: f64,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Deserialize)]
struct Bursts {
    gap_ms: f64,
    size: BurstQuantiles,
    between_ms: BurstQuantiles,
    size_shares: Vec<(f64, f64, f64)>,
    between_shares: Vec<(f64, f64, f64)>,
}

#[derive(Deserialize)]
struct BurstQuantiles {
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

#[derive(Deserialize)]
struct OnOff {
    on_ms: DelaySummary,
    off_ms: DelaySummary,
}

#[derive(Deserialize)]
struct EcnArrivals {
    sent_as: String,
    not_ect: u64,
    ect0: u64,
    ect1: u64,
    ce: u64,
}

#[derive(Deserialize)]
struct Windows {
    width_ms: u64,
    predictions: Vec<PredictionError>,
    mbps: Vec<Option<f32>>,
}

#[derive(Deserialize)]
struct PredictionError {
    predictor: String,
    steps: u64,
    nrmse: Option<f64>,
    nmae: Option<f64>,
    r2: Option<f64>,
}

#[derive(Deserialize)]
struct TraceShape {
    opportunities: u64,
    idle_share: f64,
}

#[derive(Deserialize)]
struct DelayLines {
    bin_s: f64,
    p50_ms: Vec<Option<f32>>,
    max_ms: Vec<Option<f32>>,
    #[serde(default)]
    lost: Vec<u32>,
}

impl ProbeResult {
    pub(crate) fn section(&self) -> Section {
        let directions = self.directions();
        Section {
            title: format!("Path to {}", self.settings.target),
            sentence: self.sentence(),
            facts: self.facts(),
            charts: charts(&directions),
            tables: tables(&directions),
            folds_tables: true,
            made_by: MadeBy {
                command: self.command.clone(),
                version: self.version.clone(),
                seeds: None,
            },
            ..Section::default()
        }
    }

    fn directions(&self) -> Vec<(&'static str, &Direction)> {
        let named = [("up", &self.up), ("down", &self.down)];
        named.into_iter().filter_map(|(name, way)| Some((name, way.as_ref()?))).collect()
    }

    fn sentence(&self) -> String {
        let ways: Vec<String> =
            self.directions().iter().map(|(name, direction)| direction.sentence(name)).collect();
        let mut text = ways.join("; ");
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        text + if self.complete { "." } else { " (cut short)." }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let settings = &self.settings;
        let how = match (settings.interval_ms, settings.queue_delay_bounds_ms) {
            (Some(interval), _) => format!("every {} ms", short(interval)),
            (_, Some([from, to])) => format!("queue delay {} to {} ms", short(from), short(to)),
            _ => String::new(),
        };
        let ms = |value: Option<f64>| value.map_or("unknown".into(), time);
        let drift = self.clock_drift_ppm.map_or("not measured".into(), |v| format!("{v:.1} ppm"));
        [
            ("Probes", format!("{} bytes, {how}", settings.size)),
            ("Duration", format!("{} s", short(settings.duration_s))),
            ("Least RTT", ms(self.least_rtt_ms)),
            ("Clock drift", drift),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

impl Direction {
    fn sentence(&self, name: &str) -> String {
        if self.arrived == 0 {
            return format!("{name}: none of {} probes arrived", self.sent);
        }
        let lost = percent(self.lost as f64 / self.sent.max(1) as f64);
        let delay = &self.delay_ms.summary;
        format!(
            "{name}: half of the probes took less than {} and 95 % less than {}, {lost} were lost",
            time(delay.p50),
            time(delay.p95)
        )
    }
}

/// The smallest delay in ms that is drawn: a logarithmic axis has no zero.
const LEAST_DELAY: f32 = 0.01;

/// Delay, throughput and losses one below the other over the same time, both directions in each.
fn charts(directions: &[(&str, &Direction)]) -> Vec<Chart> {
    let over_time = |title: &str, unit: &str, lines: Vec<Line>| Chart {
        title: title.to_owned(),
        unit: unit.to_owned(),
        x_label: "time [s]".to_owned(),
        lines,
        ..Chart::default()
    };
    let delay = directions.iter().flat_map(|(name, direction)| direction.delay_lines(name));
    let throughput = directions.iter().filter_map(|(name, direction)| direction.rate_line(name));
    let lost = directions.iter().filter_map(|(name, direction)| direction.lost_line(name));
    vec![
        Chart { log_y: true, ..over_time("One-way delay", "ms", delay.collect()) },
        over_time("Throughput", "Mbit/s", throughput.collect()),
        over_time("Lost probes", "in 100 ms", lost.collect()),
        histogram("Burst sizes", "% of the bursts", "probes in a burst", directions, |d| {
            &d.bursts.size_shares
        }),
        histogram("Time between bursts", "% of the gaps", "ms", directions, |d| {
            &d.bursts.between_shares
        }),
    ]
}

impl Direction {
    fn delay_lines(&self, name: &str) -> Vec<Line> {
        let series = &self.delay_series;
        let line = |what: &str, values: &[Option<f32>]| {
            let drawn = |value: &Option<f32>| value.map_or(f32::NAN, |ms| ms.max(LEAST_DELAY));
            let values = values.iter().map(drawn).collect();
            Line::of_bins(format!("{name}, {what}"), series.bin_s, values)
        };
        vec![line("median of 100 ms", &series.p50_ms), line("longest", &series.max_ms)]
    }

    /// The throughput in the widest windows.
    fn rate_line(&self, name: &str) -> Option<Line> {
        let windows = self.windows.iter().max_by_key(|windows| windows.width_ms)?;
        let mbps = windows.mbps.iter().map(|value| value.unwrap_or(f32::NAN)).collect();
        Some(Line::of_bins(name, windows.width_ms as f64 / 1e3, mbps))
    }

    fn lost_line(&self, name: &str) -> Option<Line> {
        let series = &self.delay_series;
        let lost: Vec<f32> = series.lost.iter().map(|count| *count as f32).collect();
        (!lost.is_empty()).then(|| Line::of_bins(name, series.bin_s, lost))
    }
}

fn tables(directions: &[(&str, &Direction)]) -> Vec<PageTable> {
    let mut all = vec![totals(directions), delays(directions), bursts(directions)];
    all.extend(codepoints(directions));
    all.extend(directions.iter().map(|(name, direction)| predictors(name, direction)));
    all
}

fn totals(directions: &[(&str, &Direction)]) -> PageTable {
    let row = |(name, d): &(&str, &Direction)| {
        let counts = [d.sent, d.arrived, d.lost, d.duplicates, d.reordered, d.skipped];
        let trace = d.trace.as_ref();
        let tail = [
            short(d.throughput_mbps),
            trace.map_or(String::new(), |trace| trace.opportunities.to_string()),
            trace.map_or(String::new(), |trace| format!("{:.2}", trace.idle_share * 100.0)),
        ];
        let counts = counts.iter().map(u64::to_string).chain(tail);
        std::iter::once((*name).to_owned()).chain(counts).collect()
    };
    PageTable {
        title: "Probes".into(),
        note: "Left out: not sent because the sender was late. Idle: share of the time in which \
               the queue may have been empty, so that opportunities may be missing."
            .into(),
        header: super::header(
            "direction|sent|arrived|lost|twice|reordered|left out|Mbit/s|opportunities|idle, %",
        ),
        rows: directions.iter().map(row).collect(),
        ..PageTable::default()
    }
}

/// `None` where probes had no codepoint.
fn codepoints(directions: &[(&str, &Direction)]) -> Option<PageTable> {
    let row = |(name, d): &(&str, &Direction)| {
        let ecn = d.ecn.as_ref()?;
        let counts = [ecn.ect0, ecn.ect1, ecn.ce, ecn.not_ect];
        let head = [(*name).to_owned(), ecn.sent_as.to_uppercase()];
        Some(head.into_iter().chain(counts.iter().map(u64::to_string)).collect())
    };
    let rows: Vec<Vec<String>> = directions.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| PageTable {
        title: "ECN codepoints".into(),
        note: "With which codepoint probes arrived. CE: a queue marked them. None: somebody on \
               the way cleared it."
            .into(),
        header: super::header("direction|sent as|ECT0|ECT1|CE|none"),
        rows,
        ..PageTable::default()
    })
}

fn row(name: String, numbers: &[f64]) -> Vec<String> {
    std::iter::once(name).chain(numbers.iter().copied().map(short)).collect()
}

fn delays(directions: &[(&str, &Direction)]) -> PageTable {
    let row = |name: String, d: &DelaySummary| {
        let s = &d.summary;
        row(name, &[d.min, s.mean, s.p50, s.p95, s.p99, s.max])
    };
    let mut rows = Vec::new();
    for (name, direction) in directions {
        rows.push(row((*name).to_owned(), &direction.delay_ms));
        if let Some(onoff) = &direction.onoff {
            rows.push(row(format!("{name}, second stream off"), &onoff.off_ms));
            rows.push(row(format!("{name}, second stream on"), &onoff.on_ms));
        }
    }
    PageTable {
        title: "One-way delay in ms".into(),
        note: "After the clocks were compared by the shortest way there and back, which are taken \
               to be alike."
            .into(),
        header: super::header("direction|min|mean|p50|p95|p99|max"),
        rows,
        ..PageTable::default()
    }
}

fn bursts(directions: &[(&str, &Direction)]) -> PageTable {
    let row = |name: String, q: &BurstQuantiles| row(name, &[q.mean, q.p50, q.p90, q.p99, q.max]);
    let mut rows = Vec::new();
    for (name, direction) in directions {
        rows.push(row(format!("{name}, probes in a burst"), &direction.bursts.size));
        rows.push(row(format!("{name}, ms between bursts"), &direction.bursts.between_ms));
    }
    let gap = directions.first().map_or(0.0, |(_, direction)| direction.bursts.gap_ms);
    PageTable {
        title: "Bursts".into(),
        note: format!("A burst ends where the next probe arrives {} ms later or more.", short(gap)),
        header: super::header("what|mean|p50|p90|p99|max"),
        rows,
        ..PageTable::default()
    }
}

fn predictors(name: &str, direction: &Direction) -> PageTable {
    let fixed = |value: Option<f64>, scale: f64, decimals: usize| {
        value.map_or("–".to_owned(), |value| format!("{:.decimals$}", value * scale))
    };
    let mut rows = Vec::new();
    for windows in &direction.windows {
        for one in &windows.predictions {
            let what = format!("{} ms, {}, {} ahead", windows.width_ms, one.predictor, one.steps);
            let errors = [fixed(one.nrmse, 100.0, 1), fixed(one.nmae, 100.0, 1)];
            let r2 = fixed(one.r2, 1.0, 3);
            rows.push(std::iter::once(what).chain(errors).chain([r2]).collect());
        }
    }
    PageTable {
        title: format!("Predicting the throughput, {name}"),
        note: "Judged on the second half of the recording. RMSE and mean absolute error over the \
               mean throughput; the share of the variance explained, 0 being no better than the \
               mean."
            .into(),
        header: super::header("windows and predictor|RMSE, %|MAE, %|explained"),
        rows,
        ..PageTable::default()
    }
}

/// Shares by size as a line of steps, from the first size that there is to the last.
fn histogram(
    title: &str,
    unit: &str,
    x_label: &str,
    directions: &[(&str, &Direction)],
    bars: fn(&Direction) -> &[(f64, f64, f64)],
) -> Chart {
    let line = |(name, direction): &(&str, &Direction)| {
        let bars = bars(direction);
        let is_empty = |bar: &&(f64, f64, f64)| bar.2 == 0.0;
        let first = bars.iter().take_while(is_empty).count();
        let last = bars.len() - bars.iter().rev().take_while(is_empty).count();
        let used = bars.get(first..last).unwrap_or_default();
        // A bar may be of one size, and the last of all has no upper end.
        let is_wide = |bar: &(f64, f64, f64)| bar.1 > bar.0 && bar.1 <= 2.0 * bar.0;
        let end = |bar: &(f64, f64, f64)| if is_wide(bar) { bar.1 } else { 2.0 * bar.0 };
        let end = used.last().map(|bar| (end(bar), 0.0));
        let steps = used.iter().map(|bar| (bar.0, (bar.2 * 100.0) as f32)).chain(end);
        let (x, y) = steps.unzip();
        Line { name: (*name).to_owned(), x, y, ..Line::default() }
    };
    Chart {
        title: title.to_owned(),
        unit: unit.to_owned(),
        x_label: x_label.to_owned(),
        lines: directions.iter().map(line).collect(),
        log_x: true,
        form: Form::Steps,
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(change: fn(&mut serde_json::Value)) -> Section {
        let text = include_str!("../../tests/it/browser/probe.json");
        let mut document: serde_json::Value = serde_json::from_str(text).unwrap();
        change(&mut document);
        ProbeResult::deserialize(&document).unwrap().section()
    }

    #[test]
    fn both_directions_share_charts_over_one_time() {
        let section = section(|document| document["down"] = document["up"].clone());
        let titles: Vec<&str> = section.charts.iter().map(|chart| &*chart.title).collect();
        let expected =
            ["One-way delay", "Throughput", "Lost probes", "Burst sizes", "Time between bursts"];
        assert_eq!(titles, expected);
        assert_eq!(section.charts.iter().map(|chart| chart.lines.len()).sum::<usize>(), 12);
        assert!(section.charts[0].log_y && section.folds_tables);
        let lost = &section.charts[2].lines[0];
        assert_eq!((lost.x[3], lost.y[3], lost.y[4]), (0.300_000_000_000_000_04, 1.0, 0.0));
    }

    #[test]
    fn codepoints_have_a_table_where_probes_had_one() {
        assert!(section(|_| ()).tables.iter().all(|table| table.title != "ECN codepoints"));
        let section = section(|document| {
            document["up"]["ecn"] = serde_json::json!(
                {"sent_as": "ect1", "not_ect": 3, "ect0": 1, "ect1": 4, "ce": 2}
            );
        });
        let table = section.tables.iter().find(|table| table.title == "ECN codepoints").unwrap();
        assert_eq!(table.rows, [["up", "ECT1", "1", "4", "2", "3"]]);
    }

    #[test]
    fn empty_sizes_at_both_ends_are_not_drawn() {
        let section = section(|document| {
            document["up"]["bursts"]["between_shares"] = serde_json::json!([
                [0.001, 0.002, 0.0],
                [0.002, 1.0, 0.0],
                [1.0, 2.0, 0.75],
                [2.0, 4.0, 0.0],
                [4.0, 8.0, 0.25],
                [8.0, 16.0, 0.0],
            ]);
        });
        let gaps = &section.charts[4].lines[0];
        assert_eq!((&*gaps.x, &*gaps.y), (&[1.0, 2.0, 4.0, 8.0][..], &[75.0, 0.0, 25.0, 0.0][..]));
        assert!(section.charts[4].form == Form::Steps && section.charts[4].log_x);
    }
}
