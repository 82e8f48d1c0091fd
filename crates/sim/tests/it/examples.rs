//! The scenarios of `examples/scenarios` that are written by hand, each with what it is there to show.

use std::fs;
use std::path::{Path, PathBuf};

use cellpace_measure::Figures;
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{Scenario, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios")
}

fn figures(name: &str) -> Figures {
    let file = folder().join(format!("{name}.toml"));
    let text = fs::read_to_string(&file).unwrap();
    let scenario = Scenario::from_toml(name, &text, &mut TraceFiles::none()).unwrap();
    run(&scenario).unwrap().figures
}

fn rates(figures: &Figures) -> Vec<f64> {
    figures.per_flow.iter().map(|flow| flow.throughput_mbps).collect()
}

type Shows = fn(&Figures) -> bool;

/// What each shows.
const SCENARIOS: [(&str, Shows); 11] = [
    ("parking-lot", |run| {
        let rates = rates(run);
        // Each link is full, and the flow over all of them has less than any other.
        rates[1..].iter().all(|other| *other > rates[0] && other + rates[0] > 18.0)
    }),
    ("staggered-flows", |run| run.jain > 0.9 && run.utilization > 0.95),
    ("cross-traffic", |run| {
        let rates = rates(run);
        (rates[1] - 15.0).abs() < 0.5 && (9.0..15.5).contains(&rates[0])
    }),
    ("cell-users", |run| {
        let delay = |flow: usize| run.per_flow[flow].queue_delay_ms.p95;
        // The download of one user does not wait for that of another.
        run.jain > 0.9 && delay(2) > 3.0 * delay(0) && run.pings[0].answered > 50
    }),
    ("wifi-aggregation", |run| run.utilization > 0.8 && run.jain > 0.8),
    ("policer", |run| {
        let rate = run.throughput_mbps;
        (7.0..10.2).contains(&rate) && run.lost > 100 && run.queue_delay_ms.p95 < 5.0
    }),
    ("satellite", |run| run.handovers == 7 && run.utilization > 0.6),
    ("satellite-recorded", |run| run.utilization > 0.6),
    ("call-beside-download", |run| {
        let video = run.per_flow[0].video.as_ref().unwrap();
        video.frames > 1500 && run.per_flow[1].throughput_mbps > 5.0
    }),
    ("abr-video", |run| {
        let player = run.per_flow[0].player.unwrap();
        // It climbs the ladder, and does not stall while the download takes its half.
        player.chunks > 40 && player.bitrate_mbps > 2.0 && player.stalls == 0
    }),
    ("pings", |run| {
        let rtt = run.pings[0].rtt_ms.unwrap();
        rtt.p50 > 100.0 && rtt.max < 50.0 + 200.0 + 20.0
    }),
];

#[test]
fn every_example_shows_what_it_is_there_for() {
    for (name, shows) in SCENARIOS {
        let run = figures(name);
        assert!(shows(&run), "{name}: {run:?}");
    }
}

#[test]
fn every_example_is_tested() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // What `attack` found is tested with it, the cases of RFC 8867 with videos.
        .filter(|name| !name.starts_with("attack-") && !name.starts_with("rfc8867-"))
        .collect();
    let mut tested = SCENARIOS.map(|(name, _)| format!("{name}.toml"));
    files.sort();
    tested.sort();
    assert_eq!(files, tested);
}
