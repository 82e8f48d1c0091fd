//! What `send` and `recv` wrote: `cellpace.transfer/1`.

use cellpace_measure::Summary;
use serde::Deserialize;

use crate::number::{bytes, percent, short, time};
use crate::section::{Chart, Line, MadeBy, PageTable, Section};

#[derive(Deserialize)]
pub(crate) struct Transfer {
    #[serde(default)]
    version: String,
    #[serde(default)]
    command: String,
    role: String,
    mode: String,
    mtu: u64,
    seed: u64,
    duration_s: f64,
    flows: Vec<Flow>,
}

#[derive(Deserialize)]
struct Flow {
    #[serde(default)]
    cc: String,
    peer: String,
    error: Option<String>,
    bytes: u64,
    throughput_mbps: f64,
    goodput_mbps: f64,
    packets: u64,
    lost: u64,
    retransmissions: Option<u64>,
    timeouts: Option<u64>,
    rtt_ms_seen: Option<Summary>,
    intervals: Vec<Interval>,
}

#[derive(Deserialize)]
struct Interval {
    stop_s: f64,
    throughput_mbps: f64,
    lost: u64,
    rtt_ms: Option<f64>,
    in_flight: Option<u64>,
    cwnd: Option<u64>,
}

impl Transfer {
    pub(crate) fn section(&self) -> Section {
        Section {
            title: self.title(),
            sentence: self.sentence(),
            facts: self.facts(),
            charts: self.charts(),
            tables: vec![self.flow_table()],
            made_by: MadeBy {
                command: self.command.clone(),
                version: self.version.clone(),
                seed: Some(self.seed),
            },
            ..Section::default()
        }
    }

    fn is_sender(&self) -> bool {
        self.role == "send"
    }

    fn title(&self) -> String {
        let peer = self.flows.first().map_or("nobody", |flow| &flow.peer);
        let names: Vec<&str> = self.flows.iter().map(|flow| flow.cc.as_str()).collect();
        match self.is_sender() {
            true if names.len() <= 4 => format!("Sent to {peer} under {}", names.join(", ")),
            true => format!("Sent to {peer} in {} flows", names.len()),
            false => format!("Received from {peer}"),
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        [
            ("Direction", self.role.clone()),
            ("Delivery", self.mode.clone()),
            ("Flows", self.flows.len().to_string()),
            ("Duration", format!("{} s", short(self.duration_s))),
            ("MTU", format!("{} bytes", self.mtu)),
            ("Seed", self.seed.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn sentence(&self) -> String {
        let sum = |figure: fn(&Flow) -> f64| self.flows.iter().map(figure).sum::<f64>();
        if self.flows.iter().all(|flow| flow.bytes == 0) {
            return "Nothing arrived.".to_owned();
        }
        let who = match &self.flows[..] {
            [flow] if self.is_sender() => format!("{} delivered", flow.cc),
            [_] => "One flow brought".to_owned(),
            flows if self.is_sender() => format!("{} flows delivered", flows.len()),
            flows => format!("{} flows brought", flows.len()),
        };
        let rate = short(sum(|flow| flow.goodput_mbps));
        let mut text = format!("{who} {rate} Mbit/s of data");
        if let [Flow { rtt_ms_seen: Some(rtt), .. }] = &self.flows[..]
            && rtt.max > 0.0
        {
            text +=
                &format!(" at a median RTT of {} and 95 % below {}", time(rtt.p50), time(rtt.p95));
        }
        let sent: f64 = self.flows.iter().map(|flow| self.sent(flow)).sum();
        let lost = sum(|flow| flow.lost as f64) / sent.max(1.0);
        text + &format!("; {} of the packets were lost.", percent(lost))
    }

    /// Packets that the flow's sender sent.
    fn sent(&self, flow: &Flow) -> f64 {
        // A receiver counts those that came.
        (if self.is_sender() { flow.packets } else { flow.packets + flow.lost }) as f64
    }

    fn flow_table(&self) -> PageTable {
        let row = |(index, flow): (usize, &Flow)| {
            let rtt = flow.rtt_ms_seen.filter(|rtt| rtt.max > 0.0);
            let ms = |value: fn(&Summary) -> f64| {
                rtt.as_ref().map_or("–".into(), |rtt| short(value(rtt)))
            };
            let count = |count: Option<u64>| count.map_or("–".into(), |count| count.to_string());
            vec![
                self.name(index, flow),
                flow.peer.clone(),
                bytes(flow.bytes),
                short(flow.throughput_mbps),
                short(flow.goodput_mbps),
                ms(|rtt| rtt.p50),
                ms(|rtt| rtt.p95),
                ms(|rtt| rtt.p99),
                percent(flow.lost as f64 / self.sent(flow).max(1.0)),
                count(flow.retransmissions),
                count(flow.timeouts),
                flow.error.clone().unwrap_or_else(|| "finished".to_owned()),
            ]
        };
        PageTable {
            title: "Flows".to_owned(),
            note: "Throughput counts IP packets, goodput the data in them.".to_owned(),
            header: super::header(
                "flow|peer|data|throughput, Mbit/s|goodput, Mbit/s|RTT p50, ms|p95|p99|lost|sent again|\
                 timeouts|outcome",
            ),
            rows: self.flows.iter().enumerate().map(row).collect(),
        }
    }

    fn name(&self, index: usize, flow: &Flow) -> String {
        format!("{} {}", index + 1, flow.cc).trim().to_owned()
    }

    fn charts(&self) -> Vec<Chart> {
        let chart = |title: &str, unit: &str, value: fn(&Interval) -> Option<f64>| {
            let line = |(index, flow): (usize, &Flow)| Line {
                name: self.name(index, flow),
                x: flow.intervals.iter().map(|interval| interval.stop_s).collect(),
                y: flow.intervals.iter().map(|i| value(i).unwrap_or(f64::NAN) as f32).collect(),
            };
            Chart {
                title: title.to_owned(),
                unit: unit.to_owned(),
                x_label: "time of the flow [s]".to_owned(),
                lines: self.flows.iter().enumerate().map(line).collect(),
                ..Chart::default()
            }
        };
        vec![
            chart("Throughput", "Mbit/s", |interval| Some(interval.throughput_mbps)),
            chart("RTT", "ms", |interval| interval.rtt_ms),
            chart("Congestion window", "kB", |interval| Some(interval.cwnd? as f64 / 1e3)),
            chart("In flight", "kB", |interval| Some(interval.in_flight? as f64 / 1e3)),
            chart("Lost", "packets", |interval| Some(interval.lost as f64)),
        ]
    }
}
