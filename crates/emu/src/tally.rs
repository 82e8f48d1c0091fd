//! The figures of a run in one direction, in the terms of `compare`.
//!
//! Unlike a simulated run, a real one does not know beforehand how long it will be and which flows
//! will come; so flows are added as they come, and what depends on the end is computed there.

use std::collections::HashMap;

use cellpace_base::{Span, Time};
use cellpace_measure::{DelaySketch, Figures, FlowFigures, Quantiles, Series, jain_index};
use cellpace_path::{Fate, PacketRecord};

use crate::series::SeriesBins;

/// Takes the records of one direction in the order of time.
#[derive(Debug)]
pub struct LinkTally {
    /// Packets that leave before this time are left out.
    skip: Time,
    flows: Vec<FlowCounts>,
    /// From the link's flow numbers, which count both directions, to places in `flows`.
    places: HashMap<u32, usize>,
    one_way: DelaySketch,
    rtt: DelaySketch,
    bytes: u64,
    series: SeriesBins,
    /// Of the first flows, each of them; more are not kept over time.
    flow_series: Vec<SeriesBins>,
    /// Addresses of flows by the link's numbers.
    addresses: HashMap<u32, String>,
    /// All that left, from the start, however short the run is.
    all: Totals,
}

/// Plain counts over a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Packets that left the link.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the model dropped.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct FlowCounts {
    /// When its first packet left or was dropped, also if figures leave that time out.
    began: Option<Time>,
    span: Option<(Time, Time)>,
    bytes: u64,
    packets: u64,
    lost: u64,
    marked: u64,
    queue: DelaySketch,
    rtt: DelaySketch,
    /// Bytes that left in each second in which any did, from `skip` on.
    seconds: Vec<(u64, u64)>,
}

/// Maximum number of flows that are kept over time.
const MAX_DRAWN: usize = 64;

/// Maximum number of flows with figures of their own; later flows share the last place.
const MAX_FLOWS: usize = 1024;

impl LinkTally {
    /// Nothing yet; figures will leave out what leaves the link up to `skip`.
    pub fn new(skip: Span) -> Self {
        Self {
            skip: Time::ZERO + skip,
            flows: Vec::new(),
            places: HashMap::new(),
            one_way: DelaySketch::new(),
            rtt: DelaySketch::new(),
            bytes: 0,
            series: SeriesBins::default(),
            flow_series: Vec::new(),
            addresses: HashMap::new(),
            all: Totals::default(),
        }
    }

    /// Says between which addresses a flow of this number is.
    pub fn name(&mut self, flow: u32, addresses: &str) {
        self.addresses.insert(flow, addresses.to_owned());
    }

    /// What became of a packet. `back` is the delay of the other direction at that time: with the
    /// packet's own it makes a round trip.
    pub fn record(&mut self, record: &PacketRecord, back: Span) {
        if record.fate == Fate::Duplicate {
            return;
        }
        let packet = &record.packet;
        let delivered = record.fate == Fate::Delivered;
        self.all.lost += u64::from(!delivered);
        self.all.packets += u64::from(delivered);
        self.all.bytes += if delivered { u64::from(packet.size) } else { 0 };
        if delivered {
            self.series.departure(packet.departed_at, packet.size, record.queue_delay());
        }
        let place = self.place(packet.flow);
        if let (true, Some(series)) = (delivered, self.flow_series.get_mut(place)) {
            series.departure(packet.departed_at, packet.size, record.queue_delay());
        }
        let flow = &mut self.flows[place];
        flow.began.get_or_insert(packet.departed_at);
        if packet.departed_at <= self.skip {
            return;
        }
        if !delivered {
            flow.lost += 1;
            return;
        }
        let rtt = record.one_way_delay() + back;
        flow.departure(packet.departed_at, u64::from(packet.size), self.skip);
        flow.marked += u64::from(packet.marked);
        flow.queue.record(record.queue_delay());
        flow.rtt.record(rtt);
        self.one_way.record(record.one_way_delay());
        self.rtt.record(rtt);
        self.bytes += u64::from(packet.size);
    }

    /// Throughput and queue delay over time, also of each flow where there are few, from the start of the run to `end`, an hour at most.
    pub fn series(&self, end: Time) -> Series {
        let mut series = self.series.finish(end);
        if self.flows.len() <= MAX_DRAWN {
            for flow in &self.flow_series {
                let Series { throughput_mbps, queue_delay_p95_ms, .. } = flow.finish(end);
                series.flow_throughput_mbps.push(throughput_mbps);
                series.flow_queue_delay_p95_ms.push(queue_delay_p95_ms);
            }
        }
        let mut queue = DelaySketch::new();
        self.flows.iter().for_each(|flow| queue.merge(&flow.queue));
        series.quantiles = Quantiles {
            queue_delay_ms: queue.quantiles_ms(),
            one_way_delay_ms: self.one_way.quantiles_ms(),
            rtt_ms_seen: self.rtt.quantiles_ms(),
        };
        series
    }

    /// Plain counts so far.
    pub fn totals(&self) -> Totals {
        self.all
    }

    fn place(&mut self, flow: u32) -> usize {
        let next = self.flows.len();
        let place = *self.places.entry(flow).or_insert(next.min(MAX_FLOWS));
        if place == next {
            self.flows.push(FlowCounts::default());
            if place < MAX_DRAWN {
                self.flow_series.push(SeriesBins::default());
            }
        }
        place
    }

    /// The figures up to `end`, when the link offered `capacity` bytes after `skip`.
    pub fn finish(&self, end: Time, capacity: u64) -> Figures {
        let seconds = (end - self.skip).as_secs_f64();
        let mut queue = DelaySketch::new();
        self.flows.iter().for_each(|flow| queue.merge(&flow.queue));
        let (jain, jain_seconds) = self.jain(end);
        Figures {
            capacity_mbps: mbps(capacity, seconds),
            throughput_mbps: mbps(self.bytes, seconds),
            utilization: if capacity == 0 { 0.0 } else { self.bytes as f64 / capacity as f64 },
            queue_delay_ms: queue.summary(),
            one_way_delay_ms: self.one_way.summary(),
            rtt_ms_seen: self.rtt.summary(),
            packets: self.flows.iter().map(|flow| flow.packets).sum(),
            lost: self.flows.iter().map(|flow| flow.lost).sum(),
            marked: self.flows.iter().map(|flow| flow.marked).sum(),
            chain: None,
            handover_drops: 0,
            handovers: 0,
            jain,
            jain_seconds: Some(jain_seconds),
            per_flow: self.per_flow(),
            pings: Vec::new(),
        }
    }

    fn per_flow(&self) -> Vec<FlowFigures> {
        let mut flows: Vec<FlowFigures> = self.flows.iter().map(FlowCounts::figures).collect();
        for (number, place) in self.places.iter().filter(|(_, place)| **place < MAX_FLOWS) {
            flows[*place].addresses = self.addresses.get(number).cloned().unwrap_or_default();
        }
        flows
    }

    /// Eq. 7 of the Verus paper and its text: Jain's index over windows of one second among the
    /// flows that were on during the whole of it, then the mean; and the number of these windows.
    fn jain(&self, end: Time) -> (f64, u64) {
        let windows = (end - self.skip).as_nanos() / 1_000_000_000;
        let mut shares: HashMap<u64, Vec<f64>> = HashMap::new();
        for flow in &self.flows {
            let Some((first, last)) = flow.span else { continue };
            let from = (first - self.skip).as_nanos().div_ceil(1_000_000_000);
            let to = ((last - self.skip).as_nanos() / 1_000_000_000).min(windows);
            let mut left = flow.seconds.iter().peekable();
            for second in from..to {
                while left.next_if(|(other, _)| *other < second).is_some() {}
                let bytes = left.next_if(|(other, _)| *other == second).map_or(0, |(_, b)| *b);
                shares.entry(second).or_default().push(bytes as f64);
            }
        }
        let indices: Vec<f64> = shares
            .values()
            .filter(|shares| shares.len() > 1 && shares.iter().any(|share| *share > 0.0))
            .map(|shares| jain_index(shares))
            .collect();
        let seconds = indices.len() as u64;
        let mean = if seconds == 0 { 1.0 } else { indices.iter().sum::<f64>() / seconds as f64 };
        (mean, seconds)
    }
}

impl FlowCounts {
    fn departure(&mut self, at: Time, bytes: u64, skip: Time) {
        let first = self.span.map_or(at, |(first, _)| first);
        self.span = Some((first, at));
        self.bytes += bytes;
        self.packets += 1;
        let second = (at - skip).as_nanos().saturating_sub(1) / 1_000_000_000;
        match self.seconds.last_mut() {
            Some((last, sum)) if *last == second => *sum += bytes,
            _ => self.seconds.push((second, bytes)),
        }
    }

    fn figures(&self) -> FlowFigures {
        let began = self.began.unwrap_or_default();
        let (first, last) = self.span.unwrap_or((began, began));
        FlowFigures {
            cc: String::new(),
            addresses: String::new(),
            throughput_mbps: mbps(self.bytes, (last - first).as_secs_f64()),
            queue_delay_ms: self.queue.summary(),
            rtt_ms_seen: self.rtt.summary(),
            lost: self.lost,
            marked: self.marked,
            refused: 0,
            start_s: began.as_secs_f64(),
            stop_s: last.as_secs_f64(),
            one_way_delay_ms: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_path::{DropReason, Packet};

    fn record(flow: u32, ms: u64, fate: Fate) -> PacketRecord {
        let at = Time::from_millis(ms);
        let packet = Packet {
            enqueued_at: at - Span::from_millis(3),
            dequeued_at: at,
            departed_at: at,
            ..Packet::new(0, flow, 1250, at - Span::from_millis(10))
        };
        PacketRecord { packet, fate }
    }

    #[test]
    fn figures_leave_the_start_out_and_end_at_the_end() {
        let mut tally = LinkTally::new(Span::from_secs(1));
        for ms in [500, 1_500, 2_500] {
            tally.record(&record(7, ms, Fate::Delivered), Span::from_millis(5));
        }
        tally.record(&record(7, 2_600, Fate::Dropped(DropReason::Overflow)), Span::ZERO);
        let figures = tally.finish(Time::from_secs(3), 5_000);
        assert_eq!((figures.packets, figures.lost, figures.utilization), (2, 1, 0.5));
        assert!((figures.throughput_mbps - 0.01).abs() < 1e-12);
        assert!((figures.capacity_mbps - 0.02).abs() < 1e-12);
        assert_eq!((figures.queue_delay_ms.p50, figures.one_way_delay_ms.max), (3.0, 10.0));
        assert_eq!(figures.rtt_ms_seen.mean, 15.0);
        assert_eq!(figures.per_flow.len(), 1);
        assert_eq!(
            (figures.per_flow[0].start_s, figures.per_flow[0].stop_s),
            (0.5, 2.5),
            "with what is left out"
        );
        assert_eq!(tally.totals(), Totals { packets: 3, bytes: 3_750, lost: 1 });
    }

    #[test]
    fn jain_is_the_mean_over_seconds_among_the_flows_that_are_on() {
        let mut tally = LinkTally::new(Span::ZERO);
        // Second 0 has the start of flow 1; second 1 both alike; second 2 flow 0 alone, while
        // flow 1 goes on afterwards; in second 3 both end.
        for (flow, ms) in
            [(0, 0), (1, 400), (0, 1_100), (1, 1_200), (0, 2_100), (0, 3_100), (1, 3_200)]
        {
            tally.record(&record(flow, ms + 1, Fate::Delivered), Span::ZERO);
        }
        let jain = tally.finish(Time::from_secs(4), 1).jain;
        assert!((jain - f64::midpoint(1.0, 0.5)).abs() < 1e-12, "{jain}");
        assert_eq!(LinkTally::new(Span::ZERO).finish(Time::ZERO, 0).jain, 1.0);
    }

    #[test]
    fn a_flow_has_its_addresses_and_its_figures_over_time() {
        let mut tally = LinkTally::new(Span::ZERO);
        tally.name(5, "TCP 100.64.0.2:9 - 192.0.2.1:80");
        for (flow, ms) in [(7, 40), (5, 150), (5, 160)] {
            tally.record(&record(flow, ms, Fate::Delivered), Span::ZERO);
        }
        let end = Time::from_millis(200);
        let figures = tally.finish(end, 1);
        let addresses: Vec<&str> =
            figures.per_flow.iter().map(|flow| flow.addresses.as_str()).collect();
        assert_eq!(addresses, ["", "TCP 100.64.0.2:9 - 192.0.2.1:80"]);
        let series = tally.series(end);
        assert_eq!(series.flow_throughput_mbps, [[0.1, 0.0], [0.0, 0.2]]);
        assert_eq!(series.flow_queue_delay_p95_ms[1][1], 3.0);
        assert_eq!(series.quantiles.queue_delay_ms.len(), 201);
    }

    #[test]
    fn too_many_flows_share_the_last_place() {
        let mut tally = LinkTally::new(Span::ZERO);
        for flow in 0..3_000 {
            tally.record(&record(flow, u64::from(flow) + 20, Fate::Delivered), Span::ZERO);
        }
        let figures = tally.finish(Time::from_secs(5), 1);
        assert_eq!((figures.per_flow.len(), figures.packets), (MAX_FLOWS + 1, 3_000));
    }
}
