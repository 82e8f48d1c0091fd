//! What other programs recorded of their flows: `cellpace.recorded/1`.

use serde::Deserialize;

use crate::number::{bytes, short};
use crate::section::{Chart, Line, PageTable, Section};

#[derive(Deserialize)]
pub(crate) struct Recorded {
    /// What it was read from: `qlog`, `iperf3`, `capture`.
    kind: String,
    flows: Vec<RecordedFlow>,
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct RecordedFlow {
    name: String,
    bin_s: f64,
    rate_bin_s: f64,
    sent_bytes: f64,
    received_bytes: f64,
    /// `None`: the recording does not say.
    lost: Option<f64>,
    /// The smallest RTT that the recording names itself.
    min_rtt_ms: Option<f64>,
    /// Bytes so far.
    sent: Vec<f64>,
    received: Vec<f64>,
    sent_mbps: Vec<f64>,
    received_mbps: Vec<f64>,
    /// In bytes.
    window: Vec<Option<f64>>,
    in_flight: Vec<Option<f64>>,
    rtt_ms: Vec<Option<f64>>,
    losses: Vec<f64>,
}

impl Recorded {
    pub(crate) fn section(&self) -> Section {
        let seconds = self.flows.iter().map(RecordedFlow::seconds).fold(0.0, f64::max);
        let facts = [
            ("Recorded as", self.kind.clone()),
            ("Flows", self.flows.len().to_string()),
            ("Duration", format!("{} s", short(seconds))),
        ];
        Section {
            title: format!("Recorded as {}", self.kind),
            sentence: self.sentence(seconds),
            facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
            text: self.notes.join(" "),
            charts: self.charts(),
            tables: vec![self.table()],
            ..Section::default()
        }
    }

    fn sentence(&self, seconds: f64) -> String {
        let sum = |value: fn(&RecordedFlow) -> f64| self.flows.iter().map(value).sum::<f64>();
        let carried = sum(|flow| flow.sent_bytes.max(flow.received_bytes));
        if carried == 0.0 {
            return "No packets are recorded.".to_owned();
        }
        let who = if self.flows.len() == 1 { "One flow" } else { "The flows" };
        let rate = short(carried * 8.0 / 1e6 / seconds.max(1e-3));
        let lost: Vec<f64> = self.flows.iter().filter_map(|flow| flow.lost).collect();
        let lost = match lost.iter().sum::<f64>() {
            _ if lost.is_empty() => String::new(),
            1.0 => "; 1 packet was lost".to_owned(),
            lost => format!("; {lost} packets were lost"),
        };
        format!("{who} carried {rate} Mbit/s{lost}.")
    }

    fn table(&self) -> PageTable {
        let row = |flow: &RecordedFlow| {
            let rtts = flow.rtt_ms.iter().flatten().copied();
            let least = flow.min_rtt_ms.unwrap_or_else(|| rtts.fold(f64::INFINITY, f64::min));
            let of = |count: f64| if count > 0.0 { bytes(count as u64) } else { "–".to_owned() };
            vec![
                flow.name.clone(),
                of(flow.sent_bytes),
                of(flow.received_bytes),
                if least.is_finite() { short(least) } else { "–".to_owned() },
                flow.lost.map_or("–".to_owned(), |lost| lost.to_string()),
            ]
        };
        PageTable {
            title: "Flows".to_owned(),
            header: super::header("flow|sent|received|min RTT, ms|lost"),
            rows: self.flows.iter().map(row).collect(),
            ..PageTable::default()
        }
    }

    /// Without what nobody recorded.
    fn charts(&self) -> Vec<Chart> {
        let charts = [
            self.chart("Data over time", "MB", |flow| {
                vec![flow.sequence("sent", &flow.sent), flow.sequence("received", &flow.received)]
            }),
            self.chart("Throughput", "Mbit/s", |flow| {
                vec![flow.rate("sent", &flow.sent_mbps), flow.rate("received", &flow.received_mbps)]
            }),
            self.chart("Congestion window and what is in flight", "kB", |flow| {
                vec![
                    flow.level("window", &flow.window, 1e3),
                    flow.level("in flight", &flow.in_flight, 1e3),
                ]
            }),
            self.chart("RTT", "ms", |flow| vec![flow.level("", &flow.rtt_ms, 1.0)]),
            self.chart("Lost", "packets", |flow| vec![flow.losses()]),
        ];
        charts.into_iter().filter(|chart| !chart.lines.is_empty()).collect()
    }

    fn chart(&self, title: &str, unit: &str, lines: fn(&RecordedFlow) -> Vec<Line>) -> Chart {
        let of_flow = |(number, flow): (usize, &RecordedFlow)| {
            let shown = lines(flow).into_iter().filter(|line| line.y.iter().any(|y| *y > 0.0));
            shown.map(move |line| Line { look: (self.flows.len() > 1).then_some(number), ..line })
        };
        Chart {
            title: title.to_owned(),
            unit: unit.to_owned(),
            x_label: "time of the recording [s]".to_owned(),
            lines: self.flows.iter().enumerate().flat_map(of_flow).collect(),
            ..Chart::default()
        }
    }
}

impl RecordedFlow {
    fn seconds(&self) -> f64 {
        self.bin_s * self.sent.len() as f64
    }

    fn line(&self, what: &str, bin_s: f64, y: impl Iterator<Item = f32>) -> Line {
        let y: Vec<f32> = y.collect();
        let x = (1..=y.len()).map(|bin| bin as f64 * bin_s).collect();
        Line { name: format!("{} {what}", self.name).trim().to_owned(), x, y, ..Line::default() }
    }

    fn sequence(&self, what: &str, so_far: &[f64]) -> Line {
        self.line(what, self.bin_s, so_far.iter().map(|bytes| (bytes / 1e6) as f32))
    }

    fn rate(&self, what: &str, mbps: &[f64]) -> Line {
        self.line(what, self.rate_bin_s, mbps.iter().map(|mbps| *mbps as f32))
    }

    /// What holds until the next value, in units of `unit`.
    fn level(&self, what: &str, values: &[Option<f64>], unit: f64) -> Line {
        let mut last = f64::NAN;
        let held = values.iter().map(|value| {
            last = value.unwrap_or(last);
            (last / unit) as f32
        });
        self.line(what, self.bin_s, held)
    }

    fn losses(&self) -> Line {
        self.line("", self.bin_s, self.losses.iter().map(|lost| *lost as f32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_show_what_was_recorded_and_no_others() {
        let flow = serde_json::json!({
            "name": "client", "bin_s": 0.5, "rate_bin_s": 1.0, "sent_bytes": 3e6, "received_bytes": 0, "lost": 2,
            "sent": [1e6, 3e6], "received": [0, 0], "sent_mbps": [24.0], "received_mbps": [0.0],
            "window": [15_000, null], "in_flight": [null, null], "rtt_ms": [40.0, 50.0], "losses": [0, 2],
        });
        let recorded = serde_json::json!({ "kind": "qlog", "flows": [flow], "notes": ["A note."] });
        let section = Recorded::deserialize(&recorded).unwrap().section();
        let titles: Vec<&str> = section.charts.iter().map(|chart| chart.title.as_str()).collect();
        let window = "Congestion window and what is in flight";
        assert_eq!(titles, ["Data over time", "Throughput", window, "RTT", "Lost"]);
        let lines = |chart: usize| &section.charts[chart].lines;
        assert_eq!((lines(0).len(), lines(0)[0].y.as_slice()), (1, &[1.0, 3.0][..]));
        assert_eq!((lines(2).len(), lines(2)[0].y.as_slice()), (1, &[15.0, 15.0][..]));
        assert_eq!((lines(3)[0].x.as_slice(), lines(4)[0].y[1]), (&[0.5, 1.0][..], 2.0));
        assert_eq!(section.sentence, "One flow carried 24 Mbit/s; 2 packets were lost.");
        assert_eq!(section.tables[0].rows[0][0], "client");
    }
}
