//! What each controller does on each kind of path, as tables: whatever changes behaviour shows in
//! review. Figures are coarse, so that only changes of behaviour do.
//!
//! `INSTA_UPDATE=always cargo test -p cellpace-sim --test it behaviour::` takes over new figures.

use std::fmt::Write;

use crate::common::{bulk, outcome, secs};
use cellpace_measure::Figures;
use cellpace_sim::Scenario;

const CONTROLLERS: &[&str] = &[
    "verus:r=2",
    "verus:r=4",
    "verus:r=6",
    "copa",
    "copa:mode=constant,delta=0.02",
    "bbr",
    "cubic",
    "newreno",
    "bic",
    "vegas",
    "ledbat",
    "fixed:cwnd=40pkts",
];

/// The default path for 40 s, of which the first five do not count.
fn path() -> Scenario {
    Scenario { duration: secs(40), skip: secs(5), ..Scenario::default() }
}

fn over(trace: &str) -> Scenario {
    path().with_link(|link| link.down.trace = Some(trace.parse().unwrap()))
}

fn behind(queue: &str) -> Scenario {
    path().with_link(|link| link.down.queue = queue.parse().unwrap())
}

fn alone(cc: &str, path: &Scenario) -> Figures {
    outcome(&Scenario { flows: vec![bulk(cc)], ..path.clone() }).figures
}

/// Milliseconds in steps of about a twentieth.
fn coarse(ms: f64) -> f64 {
    let step = match ms {
        _ if ms < 20.0 => 1.0,
        _ if ms < 100.0 => 5.0,
        _ if ms < 400.0 => 20.0,
        _ => 100.0,
    };
    (ms / step).round() * step
}

/// A row for each controller: utilization and queue delay, for each of the paths.
fn table(paths: &[(&str, Scenario)]) -> String {
    let mut text = format!("{:<30}", "");
    for (name, _) in paths {
        write!(text, " | {name:^20}").unwrap();
    }
    write!(text, "\n{:<30}", "").unwrap();
    for _ in paths {
        write!(text, " | {:>6} {:>6} {:>6}", "util", "p50 ms", "p95 ms").unwrap();
    }
    for cc in CONTROLLERS {
        write!(text, "\n{cc:<30}").unwrap();
        for (_, path) in paths {
            let figures = alone(cc, path);
            let (util, delay) = (figures.utilization, figures.queue_delay_ms);
            let (p50, p95) = (coarse(delay.p50), coarse(delay.p95));
            write!(text, " | {util:>6.2} {p50:>6} {p95:>6}").unwrap();
        }
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn steady_link() {
    insta::assert_snapshot!(table(&[
        ("2 MB", path()),
        ("5 BDP", behind("droptail:200pkts")),
        ("1/2 BDP", behind("droptail:20pkts")),
    ]));
}

#[test]
fn random_loss() {
    let lossy = |loss: &str| path().with_link(|link| link.down.loss = loss.parse().unwrap());
    insta::assert_snapshot!(table(&[("1 %", lossy("1%")), ("bursts", lossy("ge:p=0.5%,r=30%")),]));
}

#[test]
fn changing_link() {
    insta::assert_snapshot!(table(&[
        ("outages of 1 s", over("onoff:12mbit,on=5s,off=1s")),
        ("12, 2, 12 Mbit/s", over("step:12mbit/10s,2mbit/10s,12mbit/20s")),
        ("2..20 Mbit/s each 5 s", over("random:2mbit..20mbit/5s")),
    ]));
}

#[test]
fn cellular_profiles() {
    insta::assert_snapshot!(table(&[
        ("lte-driving", over("lte-driving")),
        ("umts-driving", over("umts-driving")),
        ("5g-midband", Scenario { duration: secs(20), ..over("5g-midband") }),
    ]));
}

#[test]
fn managed_queues() {
    insta::assert_snapshot!(table(&[
        ("red", behind("red")),
        ("codel", behind("codel")),
        ("pie", behind("pie")),
        ("fq_codel", behind("fq_codel")),
    ]));
}

/// Jain's index over seconds of three flows that start ten seconds apart.
#[test]
fn three_flows_of_a_kind() {
    let mut text = format!("{:<30} {:>6} {:>6} {:>6}", "", "jain", "util", "p50 ms");
    for cc in CONTROLLERS {
        let flow = |index: u64| cellpace_sim::FlowSpec {
            start: cellpace_base::Time::from_secs(10 * index),
            ..bulk(cc)
        };
        let shared = Scenario {
            flows: (0..3).map(flow).collect(),
            duration: secs(60),
            skip: secs(25),
            ..behind("droptail:200pkts")
        };
        let figures = outcome(&shared).figures;
        let (jain, util) = (figures.jain, figures.utilization);
        let p50 = coarse(figures.queue_delay_ms.p50);
        write!(text, "\n{cc:<30} {jain:>6.2} {util:>6.2} {p50:>6}").unwrap();
    }
    insta::assert_snapshot!(text);
}
