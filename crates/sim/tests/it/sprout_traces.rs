//! Sprout on cellular links, and why it is not where its authors' program was measured: that
//! program reads what the sender left out as the link's rate, and its forecasts wait behind its own
//! data in the other direction. With both, cellpace's Sprout is near the program.
//!
//! On a built-in profile, and where `CELLPACE_TRACES` names the folder of the traces that were
//! measured, on those.

use std::fs::File;
use std::io::BufReader;

use crate::common::{bulk, outcome, secs};
use cellpace_base::Time;
use cellpace_cc::Span;
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{DelaySpec, TraceSpec};
use cellpace_sim::{FlowSpec, Scenario};

const EXACT: &str = "sprout:original";

/// Utilization, and 95th percentile of the queue delay in ms.
#[derive(Debug, Clone, Copy)]
struct Point {
    utilization: f64,
    p95_ms: f64,
}

const fn point(utilization: f64, p95_ms: f64) -> Point {
    Point { utilization, p95_ms }
}

/// As the originals were measured, but data one way and a report each tick.
fn one_way(cc: &str, trace: &TraceSpec) -> Point {
    let figures = outcome(
        &Scenario { flows: vec![bulk(cc)], duration: secs(60), ..Scenario::default() }.with_link(
            |link| {
                link.down.trace = Some(trace.clone());
                link.up.trace = Some("constant:12mbit".parse().unwrap());
            },
        ),
    )
    .figures;
    point(figures.utilization, figures.queue_delay_ms.p95)
}

/// As the originals were measured.
fn both_ways(cc: &str, trace: &TraceSpec, rtt_ms: u64) -> Point {
    let flow =
        FlowSpec { reverse: Some(cc.parse().unwrap()), start: Time::from_millis(100), ..bulk(cc) };
    let scenario = Scenario { flows: vec![flow], duration: secs(60), ..Scenario::default() }
        .with_link(|link| {
            link.down.trace = Some(trace.clone());
            link.up.trace = Some("constant:12mbit".parse().unwrap());
            link.set_rtt(DelaySpec::constant(Span::from_millis(rtt_ms)));
        });
    let figures = outcome(&scenario).figures;
    assert!(figures.queue_delay_ms.p50 <= figures.queue_delay_ms.p95);
    point(figures.utilization, figures.queue_delay_ms.p95)
}

/// What several flows that send both ways do to each other.
#[test]
fn two_flows_that_send_both_ways_share_the_link() {
    let flow = || FlowSpec { reverse: Some(EXACT.parse().unwrap()), ..bulk(EXACT) };
    let two = Scenario { flows: vec![flow(), flow()], duration: secs(60), ..Scenario::default() }
        .with_link(|link| {
            link.down.trace = Some("lte-driving".parse().unwrap());
            link.up.trace = Some("constant:12mbit".parse().unwrap());
        });
    let figures = outcome(&two).figures;
    assert!(figures.jain > 0.8 && figures.utilization > 0.5, "{figures:?}");
    let halfless = FlowSpec { reverse: Some("verus".parse().unwrap()), ..bulk(EXACT) };
    let halfless = Scenario { flows: vec![halfless], ..two };
    assert!(halfless.check().unwrap_err().to_string().contains("no half at the receiver"));
}

#[test]
fn the_originals_observation_and_its_two_way_loop_both_cost_utilization() {
    let trace: TraceSpec = "lte-driving".parse().unwrap();
    let [ours, exact] = ["sprout", EXACT].map(|cc| one_way(cc, &trace));
    let [ours_both, exact_both] = ["sprout", EXACT].map(|cc| both_ways(cc, &trace, 40));
    println!("one way {ours:?}, exact {exact:?}; both ways {ours_both:?}, exact {exact_both:?}");
    assert!(ours.utilization > 0.88 && ours.p95_ms < 100.0, "{ours:?}");
    assert!(exact.utilization < ours.utilization - 0.02, "{exact:?}");
    assert!(ours_both.utilization < ours.utilization - 0.02, "{ours_both:?}");
    assert!(exact_both.utilization < ours_both.utilization - 0.1, "{exact_both:?}");
    assert!(exact_both.utilization > 0.4, "no collapse: {exact_both:?}");
}

#[test]
fn the_two_way_loop_is_deterministic() {
    let trace: TraceSpec = "umts-driving".parse().unwrap();
    let run = || both_ways(EXACT, &trace, 40);
    let (first, second) = (run(), run());
    assert_eq!(first.utilization.to_bits(), second.utilization.to_bits());
    assert_eq!(first.p95_ms.to_bits(), second.p95_ms.to_bits());
}

/// Trace, the measured original, and what the default has.
const MEASURED: [(&str, Point, Point); 6] = [
    ("verizon-lte-short", point(0.504, 65.0), point(0.90, 86.0)),
    ("att-lte-driving", point(0.553, 45.0), point(0.97, 67.0)),
    ("tmobile-umts-driving", point(0.438, 1696.0), point(0.89, 2760.0)),
    ("city-drive", point(0.599, 41.0), point(0.93, 69.0)),
    ("highway-3g", point(0.654, 78.0), point(0.81, 88.0)),
    ("rapid-change", point(0.785, 36.0), point(0.95, 44.0)),
];

/// The traces that were measured; none without the folder.
fn measured() -> Vec<(&'static str, TraceSpec, Point, Point)> {
    let Ok(folder) = std::env::var("CELLPACE_TRACES") else {
        println!("left out: CELLPACE_TRACES does not name a folder of traces");
        return Vec::new();
    };
    let mut files = TraceFiles::new(|name| Ok(Box::new(BufReader::new(File::open(name)?))));
    let mut read = |name| TraceSpec::parse(&format!("{folder}/{name}.down"), &mut files).unwrap();
    MEASURED.map(|(name, original, ours)| (name, read(name), original, ours)).into()
}

#[test]
fn the_default_uses_real_traces_as_it_did() {
    for (name, trace, original, known) in measured() {
        let ours = one_way("sprout", &trace);
        println!("{name}: {ours:?}");
        assert!(ours.utilization > known.utilization - 0.02, "{name}: {ours:?}");
        assert!(ours.p95_ms < 1.1 * known.p95_ms, "{name}: {ours:?}");
        assert!(ours.utilization > original.utilization + 0.1, "{name}: {ours:?}");
    }
}

#[test]
fn as_it_was_measured_sprout_is_near_the_original() {
    // Details of the loop that are not known move single traces by several hundredths, so these
    // bounds hold what the loop shows, not more.
    let mut agree = [0; 2];
    let traces = measured();
    for (name, trace, original, _) in &traces {
        // 3 ms more each way, for a machine on which two programs and four emulated pieces of the
        // path take turns.
        for (agree, (rtt_ms, most)) in agree.iter_mut().zip([(40, 0.1), (46, 0.07)]) {
            let ours = both_ways(EXACT, trace, rtt_ms);
            let off = (ours.utilization - original.utilization).abs();
            let delay = ours.p95_ms / original.p95_ms;
            println!("{name}, {rtt_ms} ms: {ours:?}, original {original:?}");
            assert!(off <= most && (0.7..=1.3).contains(&delay), "{name}, {rtt_ms} ms: {ours:?}");
            *agree += usize::from(off <= 0.05 && (0.75..=1.25).contains(&delay));
        }
    }
    let [nominal, longer] = agree;
    assert!(traces.is_empty() || (nominal >= 3 && longer >= 5), "{agree:?} of 6 agree");
}
