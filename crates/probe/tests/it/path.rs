//! What is recorded of modelled links in virtual time is what the links are.

use cellpace_base::{Ecn, Span, Time};
use cellpace_path::schedule::{Trace, TraceFiles};
use cellpace_path::{Path, PathSpec, TraceSpec};
use cellpace_probe::{OnOffStream, Pattern, Plan, analyse, ks_distance};

use crate::common::{Faults, World, limits};

fn path(trace: Option<&str>, queue: &str, one_way_ms: u64, seed: u64) -> Path {
    let spec = PathSpec {
        trace: trace.map(|trace| TraceSpec::parse(trace, &mut TraceFiles::none()).unwrap()),
        queue: queue.parse().unwrap(),
        delay: format!("{one_way_ms}ms").parse().unwrap(),
        ..PathSpec::default()
    };
    spec.build(seed).unwrap()
}

fn plan(pattern: Pattern, seconds: u64) -> Plan {
    Plan {
        up: false,
        down: true,
        size: 1500,
        pattern,
        duration: Span::from_secs(seconds),
        rival: None,
        ecn: Ecn::NotEct,
    }
}

fn saturate() -> Pattern {
    Pattern::Saturate { lower: Span::from_millis(750), upper: Span::from_secs(3) }
}

/// All opportunities of a trace within a time, in milliseconds.
fn opportunities_of(trace: &str, seed: u64, from: f64, to: f64) -> Vec<u32> {
    let spec = TraceSpec::parse(trace, &mut TraceFiles::none()).unwrap();
    let mut schedule = spec.build(seed).unwrap();
    let mut all = Vec::new();
    while let Some(at) = schedule.peek().filter(|at| at.as_millis_f64() <= to) {
        schedule.take();
        if at.as_millis_f64() > from {
            all.push((at.as_millis_f64() - from).round() as u32);
        }
    }
    all
}

fn gaps(millis: &[u32]) -> Vec<u32> {
    millis.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The recorded trace and what it should be.
fn recorded(trace: &str, queue: &str, seconds: u64) -> (Trace, Vec<u32>) {
    let seed = 3;
    let paths = [path(None, "infinite", 20, 1), path(Some(trace), queue, 20, seed)];
    let mut world = World::new(plan(saturate(), seconds), paths, Faults::default(), limits());
    world.run(Time::from_secs(seconds + 60));
    assert_eq!(world.prober.outcome(), Some(&Ok(())));
    let recording = world.finish();
    let document = analyse(&recording, "model", "1");
    let found = document.down.unwrap().trace.unwrap();
    println!("{trace} {queue}: {} {:.4}", found.opportunities, found.idle_share);
    assert!(found.idle_share < 0.01, "{trace}: idle {}", found.idle_share);
    let last = recording.down.arrivals.iter().map(|arrival| arrival.received_at).max().unwrap();
    let to = last.as_millis_f64();
    let expected = opportunities_of(trace, seed, to - found.seconds * 1e3, to);
    (Trace::from_millis(found.millis).unwrap(), expected)
}

#[track_caller]
fn is_the_links(trace: &str, queue: &str) {
    let (found, expected) = recorded(trace, queue, 30);
    let (count, right) = (found.millis().len() as f64, expected.len() as f64);
    assert!((count / right - 1.0).abs() < 0.01, "{trace}: {count} of {right}");
    let distance = ks_distance(&gaps(found.millis()), &gaps(&expected));
    assert!(distance < 0.05, "{trace}: {distance}");
}

#[test]
fn a_recorded_constant_link_is_the_link() {
    is_the_links("constant:12mbit", "infinite");
}

#[test]
fn a_recorded_cellular_link_is_the_link() {
    is_the_links("lte-driving", "infinite");
}

#[test]
fn a_recorded_slow_link_is_the_link() {
    is_the_links("umts-driving", "infinite");
}

#[test]
fn a_link_with_a_short_queue_is_recorded_too() {
    is_the_links("lte-stationary", "droptail:300kB");
}

#[test]
fn an_idle_link_is_not_taken_for_a_slow_one() {
    // A queue of two packets runs empty, and the report shows it.
    let paths = [path(None, "infinite", 20, 1), path(Some("lte-driving"), "droptail:2pkts", 20, 1)];
    let mut world = World::new(plan(saturate(), 5), paths, Faults::default(), limits());
    world.run(Time::from_secs(60));
    let found = analyse(&world.finish(), "model", "1").down.unwrap().trace.unwrap();
    assert!(found.idle_share > 0.05, "{}", found.idle_share);
}

#[test]
fn the_queue_delay_stays_near_its_bounds() {
    let bounds = Pattern::Saturate { lower: Span::from_millis(300), upper: Span::from_millis(900) };
    let paths = [path(None, "infinite", 20, 1), path(Some("constant:12mbit"), "infinite", 20, 1)];
    let mut world = World::new(plan(bounds, 20), paths, Faults::default(), limits());
    world.run(Time::from_secs(60));
    let down = analyse(&world.finish(), "model", "1").down.unwrap();
    let (p50, max) = (down.queue_delay_ms.summary.p50, down.queue_delay_ms.summary.max);
    assert!((300.0..=900.0).contains(&p50) && max < 1200.0, "{p50} {max}");
}

#[test]
fn both_directions_at_fixed_intervals_and_a_second_stream() {
    let ms = Span::from_millis;
    let rival = OnOffStream { interval: ms(1), on: ms(1000), off: ms(1000) };
    let plan = Plan { up: true, rival: Some(rival), size: 1250, ..plan(Pattern::Every(ms(2)), 6) };
    // 5 Mbit/s of probes and, at times, 10 of the second stream, through 12.
    let link = || path(Some("constant:12mbit"), "droptail:250kB", 25, 1);
    let mut world = World::new(plan, [link(), link()], Faults::default(), limits());
    world.run(Time::from_secs(60));
    assert_eq!(world.prober.outcome(), Some(&Ok(())));
    let recording = world.finish();
    assert!(recording.complete);
    let document = analyse(&recording, "model", "1");
    assert!((document.clock_offset_ms.unwrap() - 3000.0).abs() < 1.0, "{document:?}");
    for direction in [document.up.unwrap(), document.down.unwrap()] {
        let figures = direction.onoff.unwrap();
        assert_eq!(direction.sent, 3000);
        assert_eq!(figures.rival_sent, 3000);
        assert!((25.0..27.5).contains(&figures.off_ms.min), "{:?}", figures.off_ms);
        assert!(figures.off_ms.summary.p50 < 30.0, "{:?}", figures.off_ms);
        assert!(figures.on_ms.summary.p50 > 60.0, "{:?}", figures.on_ms);
        assert!(direction.lost < 400, "{}", direction.lost);
    }
}
