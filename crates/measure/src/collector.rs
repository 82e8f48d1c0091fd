//! Takes the records of a run as they come and ends with its figures.

use cellpace_base::{Span, Time};
use cellpace_path::{DropReason, Fate, PacketRecord};
use serde::{Deserialize, Serialize};

use crate::events::EventTally;
use crate::series::{Binner, MANY_FLOWS, Quantiles, Series};
use crate::window::MeasuredWindow;
use crate::{
    ChainFigures, DelaySketch, PlayerFigures, Summary, TransferSummary, VideoFigures, jain_index,
};

/// When a flow was on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSpan {
    /// Its start.
    pub start: Time,
    /// Its stop.
    pub stop: Time,
    /// Whether a controller drives it. Others take what they take, and are left out of the index
    /// of fairness.
    pub is_controlled: bool,
}

impl FlowSpan {
    /// Whether the flow was on during the whole of `from..to`.
    fn covers(self, from: Time, to: Time) -> bool {
        self.start <= from && self.stop >= to
    }

    /// Whether what ended at `time` took place while the flow was on.
    fn contains(self, time: Time) -> bool {
        self.start < time && time <= self.stop
    }
}

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Mean rate that the link offered, in Mbit/s.
    pub capacity_mbps: f64,
    /// Mean rate that left the link, in Mbit/s, IP headers included.
    pub throughput_mbps: f64,
    /// Their ratio; 0 when nothing was offered.
    pub utilization: f64,
    /// From arrival at the queue to leaving the link.
    pub queue_delay_ms: Summary,
    /// Queue delay and the fixed delay of this direction.
    pub one_way_delay_ms: Summary,
    /// RTT as the senders saw it.
    pub rtt_ms_seen: Summary,
    /// Packets that left the link.
    pub packets: u64,
    /// Packets that the path dropped.
    pub lost: u64,
    /// Packets that queues marked in place of dropping them (ECN).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marked: u64,
    /// Packets that were lost with the queue of a path that was given up in a handover.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handover_drops: u64,
    /// Handovers during the run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handovers: u64,
    /// Jain's index over windows of one second among the controlled flows that were on, then the mean
    /// (Eq. 7 of the Verus paper and its text).
    pub jain: f64,
    /// The seconds of which `jain` is the mean: those during the whole of which at least two such flows were
    /// on, and something left the link. 0: nothing was shared, and `jain` is 1. Results of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_seconds: Option<u64>,
    /// Each flow's own figures.
    pub per_flow: Vec<FlowFigures>,
    /// Series of echo requests, where the scenario has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pings: Vec<PingFigures>,
    /// What happened on links in series, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainFigures>,
}

/// What came of a series of echo requests through both queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingFigures {
    /// Seconds from one request to the next.
    pub every_s: f64,
    /// Bytes of a request and of its answer, IP header included.
    pub size_bytes: u32,
    /// Requests in the part of the run that counts.
    pub sent: u64,
    /// Those of them that were answered before the end.
    pub answered: u64,
    /// Their RTT in ms; none where none was answered.
    pub rtt_ms: Option<Summary>,
    /// The RTTs in ms below which 0, 0.5, ..., 100 % of theirs lie.
    pub quantiles_ms: Vec<f32>,
    /// The RTT of each request of the whole run, in ms; none where there is no answer.
    pub rtts_ms: Vec<Option<f32>>,
}

impl FlowFigures {
    /// Its addresses, where it is of a real program, or else its controller's text.
    pub fn name(&self) -> &str {
        if self.addresses.is_empty() { &self.cc } else { &self.addresses }
    }

    /// Whether a controller drives the flow: not where it is constant-rate UDP.
    pub fn is_controlled(&self) -> bool {
        self.cc != "udp" && !self.cc.starts_with("udp:")
    }
}

/// The figures of one flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowFigures {
    /// The controller's text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cc: String,
    /// Protocol, addresses and ports, where it is of a real program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub addresses: String,
    /// Mean rate at which its packets left the link while it was on, in Mbit/s. What leaves after
    /// its stop counts for the run and not here.
    pub throughput_mbps: f64,
    /// Queue delay of its packets.
    pub queue_delay_ms: Summary,
    /// RTT as it saw it.
    pub rtt_ms_seen: Summary,
    /// Packets of it that the path dropped.
    pub lost: u64,
    /// Packets of it that queues marked in place of dropping them (ECN).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub marked: u64,
    /// Packets that its own host refused, in the whole run: only where the bottleneck is inside
    /// the sender.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// When it started, in seconds.
    pub start_s: f64,
    /// When it stopped, in seconds.
    pub stop_s: f64,
    /// Queue delay of its packets and the fixed delay of this direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_delay_ms: Option<Summary>,
    /// What its sender did, where a controller drives it.
    #[serde(flatten)]
    pub sender: Option<SenderFigures>,
    /// Its transfers, where it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<TransferSummary>,
    /// What its viewer saw, where its transfers are chunks of a video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub player: Option<PlayerFigures>,
    /// Its frames, where it is a video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFigures>,
}

/// What a sender did during all of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SenderFigures {
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Timeouts that the first ack after them showed to be wrong.
    pub spurious_timeouts: u64,
    /// Packets declared lost, by a timeout or by later ones, that had arrived.
    pub spurious_losses: u64,
    /// The retransmission timeout, at the ends of the bins of the series that count.
    pub rto_ms: Option<RtoFigures>,
}

/// Median and 95th percentile of a retransmission timeout, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RtoFigures {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Takes records and RTT samples of one run, in the order of time.
pub struct Collector {
    window: MeasuredWindow,
    flows: Vec<FlowSums>,
    /// All flows together, where there are too many to add up what each has.
    together: Option<Box<Delays>>,
    jain: JainWindows,
    lost: u64,
    handover_drops: u64,
    binner: Binner,
    events: EventTally,
}

struct FlowSums {
    span: FlowSpan,
    bytes: u64,
    /// Those that left while it was on.
    bytes_on: u64,
    packets: u64,
    lost: u64,
    marked: u64,
    delays: Delays,
}

/// The distributions of delays of a flow, or of all of them.
struct Delays {
    queue: DelaySketch,
    one_way: DelaySketch,
    rtt: DelaySketch,
}

impl Delays {
    fn new(sketch: fn() -> DelaySketch) -> Self {
        Self { queue: sketch(), one_way: sketch(), rtt: sketch() }
    }

    #[inline]
    fn record(&mut self, record: &PacketRecord) {
        self.queue.record(record.queue_delay());
        self.one_way.record(record.one_way_delay());
    }

    fn merge(&mut self, other: &Self) {
        self.queue.merge(&other.queue);
        self.one_way.merge(&other.one_way);
        self.rtt.merge(&other.rtt);
    }
}

impl Collector {
    /// A collector for the flows given, whose figures cover `window` and whose series have bins
    /// of width `bin` from the start of the run.
    pub fn new(window: MeasuredWindow, flows: &[FlowSpan], bin: Span) -> Self {
        let is_many = flows.len() > MANY_FLOWS;
        let sketch = if is_many { DelaySketch::coarse } else { DelaySketch::new };
        let flow = |span: &FlowSpan| FlowSums {
            span: *span,
            bytes: 0,
            bytes_on: 0,
            packets: 0,
            lost: 0,
            marked: 0,
            delays: Delays::new(sketch),
        };
        Self {
            window,
            flows: flows.iter().map(flow).collect(),
            together: is_many.then(|| Box::new(Delays::new(DelaySketch::new))),
            jain: JainWindows::new(window, flows),
            lost: 0,
            handover_drops: 0,
            binner: Binner::new(bin, window.end, flows.len()),
            events: EventTally::new(bin, flows.len()),
        }
    }

    /// What became of a packet.
    pub fn record(&mut self, record: &PacketRecord) {
        let packet = &record.packet;
        let index = packet.flow as usize;
        let at = packet.departed_at;
        let counts = self.window.contains(at);
        let flow = &mut self.flows[index];
        match record.fate {
            Fate::Delivered => {}
            // The receiver has the same data from the packet itself, which is what counts.
            Fate::Duplicate => return,
            Fate::Dropped(reason) => {
                self.events.add(index, at, "loss", None);
                let is_handover = reason == DropReason::Handover;
                self.handover_drops += u64::from(counts && is_handover);
                flow.lost += u64::from(counts);
                self.lost += u64::from(counts);
                return;
            }
        }
        let queue_delay = record.queue_delay();
        self.binner.departure(at, index, packet.size, queue_delay);
        if !counts {
            return;
        }
        flow.bytes += u64::from(packet.size);
        if flow.span.contains(at) {
            flow.bytes_on += u64::from(packet.size);
        }
        flow.packets += 1;
        flow.marked += u64::from(packet.marked);
        flow.delays.record(record);
        if let Some(together) = &mut self.together {
            together.record(record);
        }
        self.jain.departure(at, index, packet.size);
    }

    /// A sender measured an RTT.
    #[inline]
    pub fn rtt(&mut self, now: Time, flow: usize, rtt: Span) {
        if self.window.contains(now) {
            self.flows[flow].delays.rtt.record(rtt);
            if let Some(together) = &mut self.together {
                together.rtt.record(rtt);
            }
        }
    }

    /// A controller decided something: the name of the event in logs, and the phase that began.
    pub fn event(
        &mut self,
        flow: usize,
        at: Time,
        event: &'static str,
        phase: Option<&'static str>,
    ) {
        self.events.add(flow, at, event, phase);
    }

    /// The figures and the series. `capacity_bytes` is what the link offered within the window.
    pub fn finish(mut self, capacity_bytes: u64) -> (Figures, Series) {
        let seconds = self.window.seconds();
        let Delays { queue, one_way, rtt } = match self.together.take() {
            Some(together) => *together,
            None => {
                let mut together = Delays::new(DelaySketch::new);
                self.flows.iter().for_each(|flow| together.merge(&flow.delays));
                together
            }
        };
        let bytes: u64 = self.flows.iter().map(|flow| flow.bytes).sum();
        let (jain, jain_seconds) = self.jain.finish();
        let figures = Figures {
            capacity_mbps: mbps(capacity_bytes, seconds),
            throughput_mbps: mbps(bytes, seconds),
            utilization: ratio(bytes, capacity_bytes),
            queue_delay_ms: queue.summary(),
            one_way_delay_ms: one_way.summary(),
            rtt_ms_seen: rtt.summary(),
            packets: self.flows.iter().map(|flow| flow.packets).sum(),
            lost: self.lost,
            marked: self.flows.iter().map(|flow| flow.marked).sum(),
            handover_drops: self.handover_drops,
            handovers: 0,
            jain,
            jain_seconds: Some(jain_seconds),
            per_flow: self.flows.iter().map(|flow| flow.figures(self.window)).collect(),
            chain: None,
            pings: Vec::new(),
        };
        let mut series = self.binner.finish();
        series.events = self.events.finish();
        series.quantiles = Quantiles {
            queue_delay_ms: queue.quantiles_ms(),
            one_way_delay_ms: one_way.quantiles_ms(),
            rtt_ms_seen: rtt.quantiles_ms(),
        };
        (figures, series)
    }
}

impl FlowSums {
    fn figures(&self, window: MeasuredWindow) -> FlowFigures {
        let on = self.span.stop.min(window.end) - self.span.start.max(window.skip);
        FlowFigures {
            cc: String::new(),
            addresses: String::new(),
            throughput_mbps: mbps(self.bytes_on, on.as_secs_f64()),
            queue_delay_ms: self.delays.queue.summary(),
            rtt_ms_seen: self.delays.rtt.summary(),
            lost: self.lost,
            marked: self.marked,
            refused: 0,
            start_s: self.span.start.as_secs_f64(),
            stop_s: self.span.stop.min(window.end).as_secs_f64(),
            one_way_delay_ms: Some(self.delays.one_way.summary()),
            sender: None,
            transfers: None,
            player: None,
            video: None,
        }
    }
}

fn mbps(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / 1e6 / seconds } else { 0.0 }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// Jain's index window by window.
struct JainWindows {
    start: Time,
    end: Time,
    spans: Vec<FlowSpan>,
    bytes: Vec<u64>,
    current: u64,
    sum: f64,
    windows: u64,
}

impl JainWindows {
    const WIDTH: Span = Span::from_secs(1);

    fn new(window: MeasuredWindow, spans: &[FlowSpan]) -> Self {
        Self {
            start: window.skip,
            end: window.end,
            spans: spans.to_vec(),
            bytes: vec![0; spans.len()],
            current: 0,
            sum: 0.0,
            windows: 0,
        }
    }

    #[inline]
    fn departure(&mut self, at: Time, flow: usize, bytes: u32) {
        let window = (at - self.start).as_nanos().saturating_sub(1) / Self::WIDTH.as_nanos();
        if window != self.current {
            self.close();
            self.current = window;
        }
        self.bytes[flow] += u64::from(bytes);
    }

    /// The mean, and the number of windows.
    fn finish(&mut self) -> (f64, u64) {
        self.close();
        let mean = if self.windows == 0 { 1.0 } else { self.sum / self.windows as f64 };
        (mean, self.windows)
    }

    /// A window counts when at least two controlled flows were on through all of it and something left.
    fn close(&mut self) {
        let from = self.start + Self::WIDTH * self.current;
        let to = from + Self::WIDTH;
        let counts = |span: &FlowSpan| span.is_controlled && span.covers(from, to);
        let on = self.spans.iter().zip(&self.bytes).filter(|(span, _)| counts(span));
        let shares: Vec<f64> = on.map(|(_, bytes)| *bytes as f64).collect();
        if to <= self.end && shares.len() > 1 && shares.iter().any(|share| *share > 0.0) {
            self.sum += jain_index(&shares);
            self.windows += 1;
        }
        self.bytes.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_path::Packet;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn record(flow: u32, sent: u64, enqueued: u64, departed: u64, fate: Fate) -> PacketRecord {
        let packet = Packet {
            enqueued_at: ms(enqueued),
            dequeued_at: ms(departed),
            departed_at: ms(departed),
            ..Packet::new(0, flow, 1500, ms(sent))
        };
        PacketRecord { packet, fate }
    }

    fn collector(flows: usize) -> Collector {
        let spans =
            vec![FlowSpan { start: Time::ZERO, stop: ms(4_000), is_controlled: true }; flows];
        let window = MeasuredWindow { skip: ms(1_000), end: ms(4_000) };
        Collector::new(window, &spans, Span::from_millis(100))
    }

    #[test]
    fn figures_cover_the_window_and_nothing_else() {
        let mut collector = collector(1);
        collector.record(&record(0, 0, 20, 500, Fate::Delivered));
        collector.record(&record(0, 990, 1010, 1030, Fate::Delivered));
        collector.record(&record(0, 2000, 2020, 2060, Fate::Delivered));
        collector.record(&record(0, 2000, 2020, 2020, Fate::Dropped(DropReason::Overflow)));
        collector.rtt(ms(500), 0, Span::from_millis(9));
        collector.rtt(ms(1500), 0, Span::from_millis(60));
        let (figures, series) = collector.finish(6_000);
        assert_eq!(figures.packets, 2);
        assert_eq!(figures.lost, 1);
        assert_eq!(figures.utilization, 0.5);
        assert!((figures.throughput_mbps - 0.008).abs() < 1e-12);
        assert_eq!(figures.queue_delay_ms.mean, 30.0);
        assert_eq!(figures.one_way_delay_ms.max, 60.0);
        assert_eq!(figures.rtt_ms_seen.max, 60.0);
        assert!((series.throughput_mbps[4] - 0.12).abs() < 1e-6, "series start at the origin");
    }

    #[test]
    fn jain_is_the_mean_over_seconds_among_the_flows_that_are_on() {
        let mut collector = collector(2);
        // second 1..2: equal; second 2..3: flow 0 alone although flow 1 is on; 3..4: silence
        for (flow, at) in [(0, 1_100), (1, 1_200), (0, 2_100), (0, 2_200)] {
            collector.record(&record(flow, at, at, at, Fate::Delivered));
        }
        let (figures, _) = collector.finish(1);
        assert_eq!(figures.jain, 0.75);
    }

    #[test]
    fn flows_without_a_controller_do_not_count_in_jain() {
        let span = |is_controlled| FlowSpan { start: Time::ZERO, stop: ms(4_000), is_controlled };
        let window = MeasuredWindow { skip: ms(1_000), end: ms(4_000) };
        let jain = |spans: &[FlowSpan]| {
            let mut collector = Collector::new(window, spans, Span::from_millis(100));
            for (flow, at) in [(0, 1_100), (1, 1_200), (2, 1_300), (2, 1_400)] {
                collector.record(&record(flow, at, at, at, Fate::Delivered));
            }
            collector.finish(1).0.jain
        };
        assert!((jain(&[span(true); 3]) - 16.0 / 18.0).abs() < 1e-12);
        assert_eq!(jain(&[span(true), span(true), span(false)]), 1.0);
        assert_eq!(jain(&[span(true), span(false), span(false)]), 1.0, "nobody to share with");
    }

    #[test]
    fn a_second_in_which_a_flow_starts_or_stops_is_no_measure_of_fairness() {
        let spans = [(0, 4_000), (1_500, 4_000), (0, 3_999)].map(|(start, stop)| FlowSpan {
            start: ms(start),
            stop: ms(stop),
            is_controlled: true,
        });
        let window = MeasuredWindow { skip: ms(1_000), end: ms(4_500) };
        let mut collector = Collector::new(window, &spans, Span::from_millis(100));
        // Second 1..2 is flows 0 and 2, 2..3 all three, 3..4 flows 0 and 1; 4..4.5 is none.
        for (flow, at) in [(0, 1_100), (2, 2_000), (1, 2_001), (0, 3_100), (1, 3_200), (0, 4_100)] {
            collector.record(&record(flow, at, at, at, Fate::Delivered));
        }
        let (figures, _) = collector.finish(1);
        assert!((figures.jain - (1.0 + 1.0 / 3.0 + 1.0) / 3.0).abs() < 1e-12, "{}", figures.jain);
    }

    #[test]
    fn what_leaves_after_a_flows_stop_does_not_count_as_its_rate() {
        let spans = [FlowSpan { start: ms(1_000), stop: ms(2_000), is_controlled: true }];
        let window = MeasuredWindow { skip: ms(500), end: ms(4_000) };
        let mut collector = Collector::new(window, &spans, Span::from_millis(100));
        for at in [1_000, 1_001, 2_000, 2_001, 3_900] {
            collector.record(&record(0, 900, 950, at, Fate::Delivered));
        }
        let (figures, _) = collector.finish(1);
        assert_eq!(figures.packets, 5);
        // Two packets within the second in which it was on.
        assert!((figures.per_flow[0].throughput_mbps - 0.024).abs() < 1e-12);
        assert_eq!(figures.per_flow[0].queue_delay_ms.max, 2_950.0);
    }

    #[test]
    fn very_many_flows_have_coarse_percentiles_exact_totals_and_no_series() {
        let mut collector = collector(MANY_FLOWS + 1);
        for (index, at) in (0..=MANY_FLOWS as u32).zip((1_100..).step_by(3)) {
            collector.record(&record(index, at - 50, at - 33, at, Fate::Delivered));
            collector.rtt(ms(at), index as usize, Span::from_millis(73));
        }
        let (figures, series) = collector.finish(1);
        assert_eq!(figures.packets, MANY_FLOWS as u64 + 1);
        assert!((figures.queue_delay_ms.p95 - 33.0).abs() < 0.033, "{:?}", figures.queue_delay_ms);
        assert!((figures.rtt_ms_seen.p50 - 73.0).abs() < 0.073, "{:?}", figures.rtt_ms_seen);
        let last = figures.per_flow.last().unwrap();
        assert!((last.queue_delay_ms.p50 - 33.0).abs() < 0.33, "{:?}", last.queue_delay_ms);
        assert!(last.throughput_mbps > 0.0);
        assert!(series.flow_throughput_mbps.is_empty());
        assert!(series.flow_queue_delay_p95_ms.is_empty());
        assert!(series.queue_delay_p50_ms[11] > 32.0, "{:?}", &series.queue_delay_p50_ms[10..13]);
        assert!(series.throughput_mbps[11] > 0.0);
    }

    #[test]
    fn a_run_in_which_nothing_happened_has_figures_too() {
        let (figures, series) = collector(1).finish(0);
        assert_eq!((figures.utilization, figures.jain, figures.packets), (0.0, 1.0, 0));
        assert_eq!(series.throughput_mbps.len(), 40);
    }
}
