//! What holds in every run, whoever sends over whatever path: small random scenarios.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Log, bulk, observed, outcome, udp};
use cellpace_base::{Span, Time};
use cellpace_cc::registry;
use cellpace_path::{Fate, PacketRecord};
use cellpace_sim::{FlowSpec, FlowTraffic, OnOffFiles, Outcome, Scenario};
use proptest::prelude::*;

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

fn controller() -> impl Strategy<Value = String> {
    let names: Vec<String> = registry()
        .iter()
        .map(|info| info.name.to_owned())
        .chain(["verus:r=2".into(), "fixed:cwnd=2pkts,max=60pkts,every=200ms".into()])
        .collect();
    prop::sample::select(names)
}

fn traffic() -> impl Strategy<Value = FlowTraffic> {
    let onoff = (1_500.0..300_000.0, 0.0..200_000.0, 0_u64..400, any::<bool>()).prop_map(
        |(mean, deviation, off, timed)| {
            let rate = timed.then(|| "2mbit".parse().unwrap());
            FlowTraffic::OnOffFiles(OnOffFiles { mean, deviation, max: 1e6, off: ms(off), rate })
        },
    );
    prop_oneof![2 => Just(FlowTraffic::Bulk), 1 => onoff]
}

fn sender() -> impl Strategy<Value = FlowSpec> {
    prop_oneof![
        5 => (controller(), traffic())
            .prop_map(|(cc, traffic)| FlowSpec { traffic, ..bulk(&cc) }),
        1 => (100_u64..15_000).prop_map(|kbit| udp(&format!("{kbit}kbit"))),
    ]
}

fn flow() -> impl Strategy<Value = FlowSpec> {
    let start = prop_oneof![Just(0_u64), 0_u64..1_500];
    (sender(), start, 100_u64..2_500, prop::option::of(0_u64..200)).prop_map(
        |(flow, start, on, rtt)| FlowSpec {
            start: Time::from_millis(start),
            // Everybody stops at last, so that a longer run empties the path.
            stop: Time::from_millis(start + on),
            rtt: rtt.map(ms),
            ..flow
        },
    )
}

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(texts)
}

const TRACES: &[&str] = &[
    "constant:12mbit",
    "constant:700kbit",
    "constant:60mbit",
    "step:2mbit/300ms,20mbit/200ms",
    "random:1mbit..20mbit/100ms",
    "onoff:12mbit,on=500ms,off=300ms",
    "onoff:6mbit,on=200ms,off=100ms,lengths=exp",
    "lte-driving",
    "umts-driving",
];
const QUEUES: &[&str] = &[
    "infinite",
    "droptail:2MB",
    "droptail:20pkts",
    "droptail:1pkts",
    "drophead:30pkts",
    "red",
    "codel",
    "pie",
    "fq_codel",
    "fq",
];
const RTTS: &[&str] = &["0ms", "1ms", "40ms", "300ms", "step:10ms/400ms,100ms/400ms"];
const LOSSES: &[&str] = &["0%", "1%", "20%", "ge:p=2%,r=30%", "step:0%/300ms,100%/200ms"];
const UPLINKS: &[&str] =
    &["constant:100kbit", "onoff:1mbit,on=300ms,off=400ms", "random:50kbit..2mbit/100ms"];
const HANDOVERS: &[&str] =
    &["", "", "500ms", "300ms/0ms/lost 700ms/100ms", "400ms/200ms/150ms/lost", "900ms/50ms/1ms"];
const IMPAIRMENTS: &[&str] =
    &["none", "none", "reorder=5%/7ms", "duplicate=5%,corrupt=2%", "reorder=2%/1ms,duplicate=30%"];
const ACKS: &[&str] = &["every", "every", "delayed:40ms", "delayed:0ms"];

fn scenario() -> impl Strategy<Value = Scenario> {
    let path = (one_of(TRACES), one_of(QUEUES), one_of(RTTS), one_of(LOSSES));
    let back = (prop::option::of(one_of(UPLINKS)), one_of(LOSSES), one_of(HANDOVERS));
    let impair = (one_of(IMPAIRMENTS), one_of(IMPAIRMENTS));
    let rest = (back, impair, one_of(ACKS), any::<u64>());
    let times = (1_000_u64..3_500, 0_u64..1_000, 1_u64..400);
    (path, rest, times, prop::collection::vec(flow(), 1..5)).prop_map(
        |(
            (trace, queue, rtt, loss),
            ((uplink, uplink_loss, handovers), (impair, uplink_impair), acks, seed),
            (duration, skip, bin),
            mut flows,
        )| {
            let rtt: cellpace_path::DelaySpec = rtt.parse().unwrap();
            let handovers: Vec<cellpace_path::Handover> =
                handovers.split_whitespace().map(|text| text.parse().unwrap()).collect();
            let changes = handovers.iter().any(|handover| handover.rtt.is_some());
            // A flow that begins after the end is refused.
            let last = Time::ZERO + ms(duration - 1);
            flows.iter_mut().for_each(|flow| flow.start = flow.start.min(last));
            if rtt.as_constant().is_none() || changes {
                flows.iter_mut().for_each(|flow| flow.rtt = None);
            }
            Scenario {
                acks: acks.parse().unwrap(),
                duration: ms(duration),
                skip: ms(skip),
                bin: ms(bin),
                seed,
                flows,
                ..Scenario::default()
            }
            .with_link(|link| {
                link.down.trace = Some(trace.parse().unwrap());
                link.down.queue = queue.parse().unwrap();
                link.down.loss = loss.parse().unwrap();
                link.up.trace = uplink.map(|text| text.parse().unwrap());
                link.up.loss = uplink_loss.parse().unwrap();
                link.down.impair = impair.parse().unwrap();
                link.up.impair = uplink_impair.parse().unwrap();
                link.set_handovers(handovers);
                link.down.jitter = cellpace_path::JitterSpec::default();
                link.set_rtt(rtt);
            })
        },
    )
}

/// Long enough for everything to leave the slowest of these paths.
fn drained(scenario: &Scenario) -> Scenario {
    Scenario { duration: Span::from_secs(120), bin: Span::from_secs(1), ..scenario.clone() }
}

const NUMBER: u64 = (1 << 48) - 1;

fn check_times(record: &PacketRecord, scenario: &Scenario) {
    let packet = &record.packet;
    let flow = &scenario.flows[packet.flow as usize];
    assert!(packet.sent_at >= flow.start && packet.sent_at < flow.stop, "{packet:?}");
    assert!(packet.sent_at <= packet.enqueued_at, "{packet:?}");
    assert!(packet.enqueued_at <= packet.dequeued_at, "{packet:?}");
    assert!(packet.dequeued_at <= packet.departed_at, "{packet:?}");
    let Some(general) = scenario.link.rtt().as_constant() else { return };
    let changes = scenario.handovers().iter().filter(|handover| handover.end() <= packet.sent_at);
    let general = changes.filter_map(|handover| handover.rtt).next_back().unwrap_or(general);
    let one_way = flow.rtt.unwrap_or(general) / 2;
    // Halves of delays are cut to whole nanoseconds.
    assert!(record.base_delay() + Span::from_nanos(2) >= one_way, "{packet:?}");
}

/// Nothing comes into being, nothing vanishes, and nothing overtakes within a connection unless it
/// is to: every number that a connection gave has one fate, and what is delivered and dropped is
/// what was sent and duplicated.
fn check_conservation(log: &Log, scenario: &Scenario) {
    let mut numbers: BTreeMap<(u32, u64), BTreeSet<u64>> = BTreeMap::new();
    let mut delivered: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut copies = 0;
    for record in &log.records {
        if record.fate == Fate::Duplicate {
            copies += 1;
            continue;
        }
        let connection = (record.packet.flow, record.packet.id >> 48);
        let number = record.packet.id & NUMBER;
        assert!(numbers.entry(connection).or_default().insert(number), "twice: {record:?}");
        if record.fate == Fate::Delivered {
            let before = delivered.insert(connection, number);
            let in_order = before.is_none_or(|before| before < number);
            assert!(in_order || scenario.link.down.impair.reorder > 0.0, "overtaken: {record:?}");
        }
    }
    let sent: usize = numbers.values().map(BTreeSet::len).sum();
    assert_eq!(sent + copies, log.records.len());
    for (connection, numbers) in numbers {
        let last = *numbers.last().unwrap();
        assert_eq!(numbers.len() as u64, last + 1, "{connection:?} has holes");
    }
}

/// The figures are those of the records.
fn check_figures(outcome: &Outcome, log: &Log, scenario: &Scenario) {
    let figures = &outcome.figures;
    let (skip, end) = (Time::ZERO + scenario.skip, Time::ZERO + scenario.duration);
    let counts = |record: &&PacketRecord| {
        let at = record.packet.departed_at;
        skip < at && at <= end
    };
    let delivered: Vec<&PacketRecord> = log.delivered().filter(counts).collect();
    let is_copy = |record: &&PacketRecord| record.fate == Fate::Duplicate;
    let all = log.records.iter().filter(|record| !is_copy(record)).filter(counts).count();
    assert_eq!(figures.packets, delivered.len() as u64);
    assert_eq!(figures.lost, (all - delivered.len()) as u64);
    assert_eq!(figures.lost, figures.per_flow.iter().map(|flow| flow.lost).sum::<u64>());

    let bytes: u64 = delivered.iter().map(|record| u64::from(record.packet.size)).sum();
    let seconds = (scenario.duration - scenario.skip).as_secs_f64();
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3);
    assert!(close(figures.throughput_mbps, bytes as f64 * 8.0 / 1e6 / seconds));
    let waits = delivered.iter().map(|record| record.queue_delay().as_millis_f64());
    let mean = waits.sum::<f64>() / delivered.len().max(1) as f64;
    assert!((figures.queue_delay_ms.mean - mean).abs() < 0.001, "{figures:?} {mean}");
    for (index, flow) in figures.per_flow.iter().enumerate() {
        let spec = &scenario.flows[index];
        let (on, off) = (spec.start.max(skip), spec.stop.min(end));
        let own = delivered.iter().filter(|record| record.packet.flow as usize == index);
        let while_on = own.filter(|r| r.packet.departed_at > on && r.packet.departed_at <= off);
        let bits: u64 = while_on.map(|record| u64::from(record.packet.size) * 8).sum();
        let expected = if off > on { bits as f64 / 1e6 / (off - on).as_secs_f64() } else { 0.0 };
        assert!(close(flow.throughput_mbps, expected), "{} {expected}", flow.throughput_mbps);
        let first = spec.rtt.or(scenario.link.rtt().as_constant()).unwrap_or(ms(10));
        let changed = scenario.handovers().iter().filter_map(|handover| handover.rtt);
        let base = changed.fold(first, Span::min).as_millis_f64();
        let rtt = flow.rtt_ms_seen;
        // All zero where there was no sample; the sketch rounds to a thousandth.
        assert!(rtt.max == 0.0 || rtt.p50 * 1.002 >= base, "{rtt:?} {base}");
        assert!(rtt.p50 <= rtt.p95 && rtt.p95 <= rtt.p99 && rtt.p99 <= rtt.max, "{rtt:?}");
    }
    // A packet that began in an opportunity before the window may end in it.
    let offered = figures.capacity_mbps * 1e6 / 8.0 * seconds;
    assert!(bytes as f64 <= offered + 1_500.0 + 1e-3, "{bytes} of {offered}");
    let flows = figures.per_flow.len() as f64;
    assert!((1.0 / flows - 1e-9..=1.0 + 1e-9).contains(&figures.jain), "{}", figures.jain);
}

/// The series have one entry a bin, and those of the flows sum up to the whole.
fn check_series(outcome: &Outcome, scenario: &Scenario) {
    let series = &outcome.series;
    let bins = scenario.duration.as_nanos().div_ceil(scenario.bin.as_nanos()) as usize;
    assert_eq!(series.throughput_mbps.len(), bins);
    assert_eq!(series.capacity_mbps.len(), bins);
    assert_eq!(series.queue_delay_p50_ms.len(), bins);
    assert_eq!(series.queue_delay_p95_ms.len(), bins);
    assert!(series.cwnd_packets.iter().all(|windows| windows.len() == bins));
    let one_packet = (1_500.0 * 8.0 / 1e6 / series.bin_s) as f32;
    for bin in 0..bins {
        let sum: f32 = series.flow_throughput_mbps.iter().map(|flow| flow[bin]).sum();
        let total = series.throughput_mbps[bin];
        assert!((sum - total).abs() <= 1e-4 * total.max(1.0), "{sum} {total}");
        let offered = series.capacity_mbps[bin];
        assert!(total <= (offered + one_packet) * 1.0001, "{total} of {offered} in bin {bin}");
        let (p50, p95) = (series.queue_delay_p50_ms[bin], series.queue_delay_p95_ms[bin]);
        assert_eq!(p50.is_nan(), total == 0.0, "a delay where something left");
        assert!(p50.is_nan() || (0.0 <= p50 && p50 <= p95), "{p50} {p95}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn figures_and_series_are_those_of_the_records(scenario in scenario()) {
        let (outcome, log) = observed(&scenario);
        for record in &log.records {
            check_times(record, &scenario);
        }
        let departures = log.records.iter().map(|record| record.packet.departed_at);
        prop_assert!(departures.is_sorted(), "records come in the order of time");
        check_figures(&outcome, &log, &scenario);
        check_series(&outcome, &scenario);
    }

    #[test]
    fn whatever_is_sent_is_delivered_dropped_or_still_inside(scenario in scenario()) {
        let (_, log) = observed(&scenario);
        let (_, longer) = observed(&drained(&scenario));
        check_conservation(&longer, &scenario);
        // A longer run begins as the shorter one, and has what was still inside.
        let (same, inside) = longer.records.split_at(log.records.len());
        prop_assert!(same == log.records.as_slice());
        let end = Time::ZERO + scenario.duration;
        prop_assert!(inside.iter().all(|record| record.packet.departed_at > end));
    }

    #[test]
    fn the_same_seed_gives_the_same_run_and_bins_change_nothing(
        scenario in scenario(),
        bin in 1_u64..5_000,
    ) {
        let mut first = outcome(&scenario);
        // As text, because NaN equals nothing.
        prop_assert_eq!(format!("{:?}", outcome(&scenario)), format!("{first:?}"));
        let mut other = outcome(&Scenario { bin: ms(bin), ..scenario });
        // RTOs are those at the ends of bins.
        let flows = [&mut first, &mut other].into_iter().flat_map(|one| &mut one.figures.per_flow);
        flows.filter_map(|flow| flow.sender.as_mut()).for_each(|sender| sender.rto_ms = None);
        prop_assert_eq!(other.figures, first.figures);
        prop_assert_eq!(other.retransmissions, first.retransmissions);
    }
}

/// Flows draw from streams of their own.
#[test]
fn another_seed_is_another_run_where_something_is_random() {
    let random = |seed| {
        Scenario {
            flows: vec![bulk("cubic")],
            duration: Span::from_secs(5),
            seed,
            ..Scenario::default()
        }
        .with_link(|link| link.down.loss = "2%".parse().unwrap())
    };
    assert_ne!(outcome(&random(1)).figures, outcome(&random(2)).figures);
    let certain = |seed| random(seed).with_link(|link| link.down.loss = "0%".parse().unwrap());
    assert_eq!(outcome(&certain(1)).figures, outcome(&certain(2)).figures);
}
