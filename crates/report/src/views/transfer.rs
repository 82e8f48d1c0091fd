//! What `send` and `recv` wrote: `cellpace.transfer/1`.

use cellpace_measure::Summary;
use serde::Deserialize;

use crate::joined::distinct;
use crate::number::{bytes, percent, short, time};
use crate::section::{Chart, Line, MadeBy, PageTable, Section};

use super::connection_samples::{ConnectionSamples, SampledFigure};

#[derive(Deserialize)]
pub(crate) struct ReportedTransfer {
    #[serde(default)]
    version: String,
    #[serde(default)]
    command: String,
    role: String,
    mode: String,
    mtu: u64,
    seed: u64,
    duration_s: f64,
    flows: Vec<FlowResult>,
}

#[derive(Deserialize)]
struct FlowResult {
    #[serde(default)]
    cc: String,
    peer: String,
    error: Option<String>,
    bytes: u64,
    throughput_mbps: f64,
    goodput_mbps: f64,
    packets: u64,
    /// A receiver over QUIC does not know.
    lost: Option<u64>,
    retransmissions: Option<u64>,
    timeouts: Option<u64>,
    min_rtt_ms: Option<f64>,
    queue_delay_ms: Option<Summary>,
    intervals: Vec<FlowInterval>,
    #[serde(default)]
    series: FlowBins,
}

/// The flow in finer bins; results of earlier versions have none.
#[derive(Deserialize, Default)]
struct FlowBins {
    time_s: Vec<f64>,
    throughput_mbps: Vec<f64>,
    #[serde(default)]
    lost: Vec<f64>,
    #[serde(default)]
    rtt_ms: Vec<Option<f64>>,
    #[serde(default)]
    cwnd: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct FlowInterval {
    stop_s: f64,
    throughput_mbps: f64,
    lost: Option<u64>,
    rtt_ms: Option<f64>,
    cwnd: Option<u64>,
}

impl ReportedTransfer {
    pub(crate) fn section(&self) -> Section {
        Section {
            title: self.title(),
            sentence: self.sentence(),
            facts: self.facts(),
            charts: self.charts(),
            tables: vec![self.flow_table()],
            controllers: self.flows.iter().map(|flow| flow.cc.clone()).collect(),
            made_by: MadeBy {
                command: self.command.clone(),
                version: self.version.clone(),
                seeds: Some((self.seed, self.seed)),
            },
            ..Section::default()
        }
    }

    /// What is compared with another result.
    pub(crate) fn samples(&self) -> ConnectionSamples {
        let figure = |names, is_better_high, of: fn(&FlowResult) -> Option<f64>| {
            SampledFigure::new(names, is_better_high, self.flows.iter().map(of))
        };
        let ccs = self.flows.iter().map(|flow| flow.cc.clone());
        ConnectionSamples {
            ccs: distinct(ccs.filter(|cc| !cc.is_empty())),
            command: self.command.clone(),
            facts: self.facts(),
            figures: vec![
                figure(("queue_delay_p95_ms", "95 % queue delay", "ms"), false, |flow| {
                    Some(flow.queue_delay_ms?.p95)
                }),
                figure(("goodput_mbps", "goodput", "Mbit/s"), true, |flow| Some(flow.goodput_mbps)),
                figure(("queue_delay_p50_ms", "median queue delay", "ms"), false, |flow| {
                    Some(flow.queue_delay_ms?.p50)
                }),
                figure(("min_rtt_ms", "smallest RTT", "ms"), false, |flow| flow.min_rtt_ms),
                figure(("lost_packets", "packets lost", "a flow"), false, |flow| {
                    Some(flow.lost? as f64)
                }),
            ],
            charts: self.charts(),
            of: "flows",
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
        let sum = |figure: fn(&FlowResult) -> f64| self.flows.iter().map(figure).sum::<f64>();
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
        if let [FlowResult { queue_delay_ms: Some(queue), .. }] = &self.flows[..] {
            let most = time(queue.p95);
            text += &format!(", and 95 % of the packets waited less than {most} in queues");
        }
        let sent: f64 = self.flows.iter().map(|flow| self.sent(flow)).sum();
        if self.flows.iter().all(|flow| flow.lost.is_none()) {
            return text + ".";
        }
        let lost = sum(|flow| flow.lost.unwrap_or(0) as f64) / sent.max(1.0);
        text + &format!("; {} of the packets were lost.", percent(lost))
    }

    /// Packets that the flow's sender sent.
    fn sent(&self, flow: &FlowResult) -> f64 {
        // A receiver counts those that came.
        (if self.is_sender() { flow.packets } else { flow.packets + flow.lost.unwrap_or(0) }) as f64
    }

    fn flow_table(&self) -> PageTable {
        let row = |(index, flow): (usize, &FlowResult)| {
            let queue = flow.queue_delay_ms;
            let ms = |value: fn(&Summary) -> f64| {
                queue.as_ref().map_or("–".into(), |queue| short(value(queue)))
            };
            let count = |count: Option<u64>| count.map_or("–".into(), |count| count.to_string());
            vec![
                self.name(index, flow),
                flow.peer.clone(),
                bytes(flow.bytes),
                short(flow.throughput_mbps),
                short(flow.goodput_mbps),
                flow.min_rtt_ms.map_or("–".into(), short),
                ms(|queue| queue.p50),
                ms(|queue| queue.p95),
                ms(|queue| queue.p99),
                flow.lost
                    .map_or("–".into(), |lost| percent(lost as f64 / self.sent(flow).max(1.0))),
                count(flow.retransmissions),
                count(flow.timeouts),
                flow.error.clone().unwrap_or_else(|| "finished".to_owned()),
            ]
        };
        PageTable {
            title: "Flows".to_owned(),
            note: "Throughput counts IP packets, goodput the data in them.".to_owned(),
            header: super::header(
                "flow|peer|data|throughput, Mbit/s|goodput, Mbit/s|smallest RTT, ms|queue delay p50, ms|p95|p99|lost|sent again|\
                 timeouts|outcome",
            ),
            rows: self.flows.iter().enumerate().map(row).collect(),
            ..PageTable::default()
        }
    }

    fn name(&self, index: usize, flow: &FlowResult) -> String {
        format!("{} {}", index + 1, flow.cc).trim().to_owned()
    }

    fn charts(&self) -> Vec<Chart> {
        let chart = |title: &str, unit: &str, line: fn(&FlowResult) -> (Vec<f64>, Vec<f64>)| {
            let line = |(index, flow): (usize, &FlowResult)| {
                let (x, y) = line(flow);
                let y = y.into_iter().map(|value| value as f32).collect();
                Line { name: self.name(index, flow), x, y, ..Line::default() }
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
            chart("Throughput", "Mbit/s", FlowResult::throughput),
            chart("Queue delay", "ms above the smallest RTT", FlowResult::queue_delay),
            chart("Congestion window", "kB", FlowResult::window),
            chart("Lost", "packets", FlowResult::losses),
        ]
    }
}

/// Places and values over the time of a flow, in the finest bins that there are; NaN for no value.
impl FlowResult {
    fn over_time(
        &self,
        fine: Vec<f64>,
        coarse: fn(&FlowInterval) -> Option<f64>,
    ) -> (Vec<f64>, Vec<f64>) {
        if !fine.is_empty() {
            return (self.series.time_s.clone(), fine);
        }
        let x = self.intervals.iter().map(|interval| interval.stop_s).collect();
        (x, self.intervals.iter().map(|i| coarse(i).unwrap_or(f64::NAN)).collect())
    }

    fn throughput(&self) -> (Vec<f64>, Vec<f64>) {
        let fine = self.series.throughput_mbps.clone();
        self.over_time(fine, |interval| Some(interval.throughput_mbps))
    }

    fn queue_delay(&self) -> (Vec<f64>, Vec<f64>) {
        let known = self.intervals.iter().filter_map(|interval| interval.rtt_ms);
        let least = self.min_rtt_ms.unwrap_or_else(|| known.fold(f64::INFINITY, f64::min));
        let fine = self.series.rtt_ms.iter().map(|rtt| rtt.unwrap_or(f64::NAN)).collect();
        let (x, rtts) = self.over_time(fine, |interval| interval.rtt_ms);
        (x, rtts.into_iter().map(|rtt| rtt - least).collect())
    }

    fn window(&self) -> (Vec<f64>, Vec<f64>) {
        let fine = self.series.cwnd.iter().map(|cwnd| cwnd.unwrap_or(f64::NAN)).collect();
        let (x, bytes) = self.over_time(fine, |interval| Some(interval.cwnd? as f64));
        (x, bytes.into_iter().map(|bytes| bytes / 1e3).collect())
    }

    fn losses(&self) -> (Vec<f64>, Vec<f64>) {
        self.over_time(self.series.lost.clone(), |interval| Some(interval.lost? as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_the_finest_bins_and_older_results_their_seconds() {
        let text = include_str!("../../tests/it/browser/transfer.json");
        let mut document: serde_json::Value = serde_json::from_str(text).unwrap();
        let flow = &mut document["flows"][0];
        flow["min_rtt_ms"] = 40.0.into();
        flow["series"] = serde_json::json!({
            "time_s": [0.1, 0.2], "throughput_mbps": [8.0, 9.0], "lost": [0, 2],
            "rtt_ms": [50.0, null], "cwnd": [15_000, null],
        });
        let charts = ReportedTransfer::deserialize(&document).unwrap().section().charts;
        let [fine, coarse] = [0, 1].map(|flow| charts[1].lines[flow].clone());
        assert_eq!((fine.x, fine.y[0], fine.y[1].is_nan()), (vec![0.1, 0.2], 10.0, true));
        // Above the smallest of its means.
        assert_eq!((coarse.x.len(), coarse.y[0], coarse.y[9]), (10, 0.0, 9.0));
        assert_eq!((charts[2].lines[0].y[0], charts[3].lines[0].y[1]), (15.0, 2.0));
    }
}
