//! Made-up results for the tests of this crate, small and large.

use std::collections::BTreeMap;

use cellpace_base::{Random, Time};
use cellpace_measure::{
    Figures, FlowEvents, FlowFigures, ProfileSample, Quantiles, Series, Summary,
};
use cellpace_report::{Comparison, Run, SCHEMA};

/// Two controllers on one trace over half a second; nothing left the link in the fourth bin.
pub(crate) fn comparison() -> Comparison {
    let verus = summary(25.1, 21.5, 60.2, 90.0);
    let cubic = summary(350.0, 310.0, 820.0, 900.0);
    Comparison {
        schema: SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        command: String::new(),
        runs: vec![
            run("verus:r=2", 7.2, 0.88, verus, 3, short_series(7.2, 21.5)),
            run("cubic", 8.1, 0.989, cubic, 120, short_series(8.1, 310.0)),
        ],
        repeated: Vec::new(),
    }
}

/// The same over three seeds.
pub(crate) fn repeated() -> Comparison {
    let mut comparison = comparison();
    let first = comparison.runs.clone();
    comparison.runs.clear();
    for run in &first {
        for seed in 1..=3 {
            let mut run = run.clone();
            run.seed = seed;
            run.figures.throughput_mbps += (seed as f64 - 2.0) * 0.1;
            run.figures.queue_delay_ms.p95 += (seed as f64 - 2.0) * 5.0;
            comparison.runs.push(run);
        }
    }
    Comparison::of(comparison.runs)
}

/// The day's work of a link that fades: `controllers` runs of `flows` flows over `seconds` with
/// bins of 100 ms; every third controller learns profiles.
pub(crate) fn large(trace: &str, controllers: usize, flows: usize, seconds: usize) -> Comparison {
    let names =
        ["verus:r=2", "cubic", "copa:delta=0.1", "sprout", "bbr", "newreno", "vegas", "pcc"];
    let mut comparison = comparison();
    comparison.runs = (0..controllers)
        .map(|index| {
            let name = names.get(index).map_or(format!("cc{index}"), |name| (*name).to_owned());
            fading_run(&name, trace, index, flows, seconds)
        })
        .collect();
    comparison
}

/// Six controllers, eight traces, five seeds, 300 s each.
pub(crate) fn sweep() -> Comparison {
    let mut sweep = large("t0", 6, 1, 300);
    let first = std::mem::take(&mut sweep.runs);
    for (trace, seed) in (0..8).flat_map(|trace| (1..=5).map(move |seed| (trace, seed))) {
        sweep.runs.extend(first.iter().cloned().map(|mut run| {
            run.trace = format!("t{trace}");
            run.seed = seed;
            run
        }));
    }
    sweep
}

fn fading_run(cc: &str, trace: &str, index: usize, flows: usize, seconds: usize) -> Run {
    let series = fading_series(index, flows, seconds);
    let mean =
        |values: &[f32]| values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
    let (capacity, throughput) = (mean(&series.capacity_mbps), mean(&series.throughput_mbps));
    let mut delays: Vec<f32> =
        series.queue_delay_p95_ms.iter().copied().filter(|delay| !delay.is_nan()).collect();
    delays.sort_by(f32::total_cmp);
    let at = |share: f64| f64::from(delays[(share * (delays.len() - 1) as f64) as usize]);
    let delay = summary(mean(&delays), at(0.3), at(0.9), at(0.99));
    let mut run = run(cc, throughput, throughput / capacity, delay, 37 * index as u64, series);
    run.trace = trace.to_owned();
    run.flows = flows;
    run.duration_s = seconds as f64;
    run.skip_s = 2.0;
    run.figures.capacity_mbps = capacity;
    let flow = FlowFigures { stop_s: run.duration_s, ..run.figures.per_flow[0].clone() };
    run.figures.per_flow = vec![flow; flows];
    run.figures.jain = 1.0 - 0.03 * index as f64 * (flows - 1).min(1) as f64;
    run
}

fn fading_series(index: usize, flows: usize, seconds: usize) -> Series {
    let bins = seconds * 10;
    let mut link = Random::seeded(7, 0);
    let mut noise = Random::seeded(8, index as u64);
    let (greed, base_delay) =
        (0.98 - 0.05 * index as f64, 12.0 * 1.9f64.powi(index as i32 * 3 % 7));
    let mut series = Series { bin_s: 0.1, ..Series::default() };
    let mut level = 12.0;
    series.flow_throughput_mbps = vec![Vec::new(); flows];
    series.cwnd_packets = vec![Vec::new(); flows];
    for bin in 0..bins {
        level = (level + (link.unit() - 0.5) * 2.4 + (12.0 - level) * 0.01).clamp(0.0, 40.0);
        let dead = bin % 900 > 860;
        let capacity = if dead { 0.0 } else { level };
        let throughput = capacity * (greed - 0.15 * noise.unit());
        let delay = (base_delay * 12.0 / level.max(1.0)) * (0.4 + noise.unit());
        let delay = if dead { f64::NAN } else { delay };
        series.capacity_mbps.push(capacity as f32);
        series.throughput_mbps.push(throughput as f32);
        series.queue_delay_p50_ms.push((delay * 0.6) as f32);
        series.queue_delay_p95_ms.push(delay as f32);
        for flow in 0..flows {
            let share = throughput * (0.7 + 0.6 * noise.unit()) / flows as f64;
            series.flow_throughput_mbps[flow].push(share as f32);
            let window = (level * 4.0 + delay.max(1.0) * 0.3) * (0.9 + 0.2 * noise.unit());
            series.cwnd_packets[flow].push(window as f32);
        }
    }
    let quantile = |place: u16| (base_delay * (0.2 + f64::from(place) / 20.0)) as f32;
    let quantiles = |more: f32| (0..=200).map(|place| quantile(place) + more).collect();
    series.quantiles = Quantiles {
        queue_delay_ms: quantiles(0.0),
        one_way_delay_ms: quantiles(20.0),
        rtt_ms_seen: quantiles(40.0),
    };
    if flows > 1 {
        series.flow_queue_delay_mean_ms = vec![series.queue_delay_p50_ms.clone(); flows];
        series.flow_queue_delay_p95_ms = vec![series.queue_delay_p95_ms.clone(); flows];
    }
    series.events = vec![event("timeout", 3, seconds), event("loss", 40, seconds)];
    series.events.extend(FlowEvents::handovers([Time::from_secs(seconds as u64 / 2)].into_iter()));
    if index.is_multiple_of(3) {
        series.profiles =
            (1..=6).map(|k| profile(seconds as f64 * f64::from(k) / 6.5, &mut noise)).collect();
    }
    series
}

/// `count` events of the first flow, evenly spread.
fn event(event: &str, count: u64, seconds: usize) -> FlowEvents {
    let at_s = (0..count).map(|k| (k as f64 + 0.5) * seconds as f64 / count as f64).collect();
    FlowEvents { flow: Some(0), event: event.to_owned(), phase: None, at_s, count: 2 * count }
}

fn profile(at_s: f64, noise: &mut Random) -> ProfileSample {
    let delay = |window: f64| 40.0 + 0.08 * window + 0.004 * window * window * (0.4 + at_s / 300.0);
    let points = (1..180).map(|w| (f64::from(w), delay(f64::from(w)) * (0.8 + 0.4 * noise.unit())));
    let points = points.collect();
    let curve = (1..=180).map(|w| (f64::from(w), delay(f64::from(w)))).collect();
    ProfileSample { at_s, flow: 0, points, curve }
}

fn run(cc: &str, mbps: f64, utilization: f64, delay: Summary, lost: u64, series: Series) -> Run {
    let shift = |ms: f64| move |value: f64| value + ms;
    let moved = |by: f64| {
        let add = shift(by);
        Summary {
            mean: add(delay.mean),
            p50: add(delay.p50),
            p95: add(delay.p95),
            p99: add(delay.p99),
            max: add(delay.max),
        }
    };
    Run {
        cc: cc.to_owned(),
        trace: "step:10mbit/5s".to_owned(),
        seed: 1,
        rtt_ms: 40.0,
        queue: "droptail:2MB".to_owned(),
        loss: 0.0,
        flows: 1,
        duration_s: 0.5,
        skip_s: 0.0,
        path: BTreeMap::new(),
        figures: Figures {
            capacity_mbps: mbps / utilization,
            throughput_mbps: mbps,
            utilization,
            queue_delay_ms: delay,
            one_way_delay_ms: moved(20.0),
            rtt_ms_seen: moved(40.0),
            packets: 1000,
            lost,
            chain: None,
            marked: 0,
            handover_drops: 0,
            handovers: 0,
            jain: 1.0,
            jain_seconds: None,
            pings: Vec::new(),
            per_flow: vec![FlowFigures {
                addresses: String::new(),
                cc: String::new(),
                throughput_mbps: mbps,
                queue_delay_ms: delay,
                rtt_ms_seen: moved(40.0),
                lost,
                marked: 0,
                refused: 0,
                start_s: 0.0,
                stop_s: 0.5,
                one_way_delay_ms: None,
                sender: None,
                transfers: None,
                player: None,
                video: None,
            }],
        },
        wall_s: None,
        series: Some(series),
        transfers: Vec::new(),
        transfer_summary: Vec::new(),
        real_time: None,
    }
}

fn short_series(mbps: f32, delay: f32) -> Series {
    Series {
        bin_s: 0.1,
        capacity_mbps: vec![10.0, 10.0, 10.0, 0.0, 10.0],
        throughput_mbps: vec![mbps, mbps, mbps, 0.0, mbps],
        flow_bands_mbps: Vec::new(),
        flow_jain: Vec::new(),
        flow_throughput_mbps: vec![vec![mbps, mbps, mbps, 0.0, mbps]],
        queue_delay_p50_ms: vec![0.0, delay, delay, f32::NAN, delay],
        queue_delay_p95_ms: vec![0.0, 2.0 * delay, 2.5 * delay, f32::NAN, 2.0 * delay],
        flow_queue_delay_mean_ms: Vec::new(),
        flow_queue_delay_p95_ms: Vec::new(),
        rto_ms: Vec::new(),
        quantiles: Quantiles::default(),
        cwnd_packets: vec![vec![10.0, 20.0, 40.0, 40.0, 30.0]],
        inspected: Vec::new(),
        inspected_bin_s: None,
        events: Vec::new(),
        profiles: Vec::new(),
    }
}

fn summary(mean: f64, p50: f64, p95: f64, p99: f64) -> Summary {
    Summary { mean, p50, p95, p99, max: p99 + 10.0 }
}
