//! C2TCP and PCC Vivace on the links of their specifications: 12 Mbit/s, 40 ms, a buffer of 300 kB.
//! The figures there come from an independent simulation, whose random numbers are others.

use crate::common::{bulk, outcome, secs};
use cellpace_base::Time;
use cellpace_measure::Figures;
use cellpace_sim::{FlowSpec, Scenario};

fn alone(cc: &str, seconds: u64, skip: u64) -> Scenario {
    Scenario {
        flows: vec![bulk(cc)],
        duration: secs(seconds),
        skip: secs(skip),
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some("constant:12mbit".parse().unwrap());
        link.down.queue = "droptail:300kB".parse().unwrap();
    })
}

fn figures(scenario: &Scenario) -> Figures {
    outcome(scenario).figures
}

/// 20 to 60 s with one value of the scenario changed.
fn settled(cc: &str, change: impl FnOnce(&mut Scenario)) -> Figures {
    let mut scenario = alone(cc, 60, 20);
    change(&mut scenario);
    figures(&scenario)
}

fn with_loss(cc: &str, loss: &str) -> f64 {
    settled(cc, |scenario| scenario.link.down.loss = loss.parse().unwrap()).utilization
}

/// Two flows, the second from 5 s on, in the last of two minutes.
fn two(cc: &str) -> Figures {
    let flows = vec![bulk(cc), FlowSpec { start: Time::from_secs(5), ..bulk(cc) }];
    figures(&Scenario { flows, ..alone(cc, 120, 60) })
}

/// 12 Mbit/s, from 20 s on a fifth of it, from 40 s on 12 again.
fn stepped(cc: &str, from: u64, to: u64) -> Figures {
    let trace = "step:12mbit/20s,2400kbit/20s,12mbit/100s".parse().unwrap();
    figures(&alone(cc, to, from).with_link(|link| link.down.trace = Some(trace)))
}

fn beside_cubic(cc: &str) -> f64 {
    let flows = vec![bulk(cc), bulk("cubic")];
    figures(&Scenario { flows, ..alone(cc, 90, 30) }).per_flow[0].throughput_mbps
}

#[track_caller]
fn within(seen: f64, range: std::ops::RangeInclusive<f64>) {
    assert!(range.contains(&seen), "{seen} is not in {range:?}");
}

#[test]
fn c2tcp_section_8_alone() {
    for (cc, utilization, queue_ms, p95_ms) in [
        ("c2tcp:tune=0s", 0.97..=1.0, 24.0..=36.0, 36.0..=50.0),
        ("c2tcp", 0.97..=1.0, 29.0..=43.0, 47.0..=68.0),
        ("c2tcp:target=60ms", 0.94..=1.0, 13.0..=21.0, 26.0..=42.0),
    ] {
        let figures = settled(cc, |_| ());
        within(figures.utilization, utilization);
        within(figures.queue_delay_ms.mean, queue_ms);
        within(figures.queue_delay_ms.p95, p95_ms);
        assert_eq!(figures.lost, 0, "{cc}");
        within(self::figures(&alone(cc, 10, 0)).utilization, 0.85..=0.96);
    }
}

#[test]
fn c2tcp_section_8_the_queue_does_not_depend_on_the_buffer() {
    let queue = |buffer: &str| {
        let figures = settled("c2tcp:tune=0s", |scenario| {
            scenario.link.down.queue = format!("droptail:{buffer}").parse().unwrap();
        });
        figures.queue_delay_ms.mean
    };
    let (five, twenty) = (queue("300kB"), queue("1200kB"));
    assert!((five - twenty).abs() < 2.0, "{five} {twenty}");
}

/// The tuned form holds up because alpha climbs to 10.
#[test]
fn c2tcp_section_8_random_loss() {
    for (cc, at_one, at_five) in
        [("c2tcp:tune=0s", 0.30..=0.58, 0.12..=0.27), ("c2tcp", 0.85..=0.97, 0.40..=0.58)]
    {
        let (one, five) = (with_loss(cc, "1%"), with_loss(cc, "5%"));
        within(one, at_one);
        within(five, at_five);
    }
    let mut lossy = alone("c2tcp", 60, 20);
    lossy.link.down.loss = "1%".parse().unwrap();
    let series = outcome(&lossy).series.inspected;
    let factors = series.iter().find(|series| series.name == "set_point_factor").unwrap();
    let late = &factors.values[300..];
    let mean = late.iter().sum::<f32>() / late.len() as f32;
    assert!(mean > 8.0, "{mean}");
}

#[test]
fn c2tcp_section_8_two_flows() {
    for cc in ["c2tcp:tune=0s", "c2tcp:target=60ms"] {
        within(two(cc).jain, 0.85..=1.0);
    }
}

#[test]
fn c2tcp_section_8_a_fall_and_a_rise() {
    for (cc, settled_ms) in [("c2tcp:tune=0s", 35.0), ("c2tcp", 40.0), ("c2tcp:target=60ms", 19.0)]
    {
        let first = stepped(cc, 20, 21).queue_delay_ms.mean;
        let (after, late) = (stepped(cc, 21, 23), stepped(cc, 26, 40));
        let (rise, risen) = (stepped(cc, 40, 42), stepped(cc, 42, 45));
        assert!(first < 400.0 && after.queue_delay_ms.mean < 60.0, "{cc}: {first} {after:?}");
        within(late.queue_delay_ms.mean, 0.75 * settled_ms..=1.25 * settled_ms);
        within(late.utilization, 0.95..=1.0);
        assert!(rise.throughput_mbps > 8.0 && risen.throughput_mbps > 10.0, "{cc}");
    }
}

/// As its authors say: it is made for queues of one user.
#[test]
fn c2tcp_section_8_starves_beside_cubic_in_a_deep_buffer() {
    assert!(beside_cubic("c2tcp") < 0.5);
}

#[test]
fn vivace_section_9_alone() {
    for buffer in ["60kB", "300kB", "1200kB"] {
        let figures = settled("vivace", |scenario| {
            scenario.link.down.queue = format!("droptail:{buffer}").parse().unwrap();
        });
        within(figures.utilization, 0.90..=0.97);
        within(figures.queue_delay_ms.mean, 0.5..=6.0);
        assert!(figures.queue_delay_ms.p95 < 30.0 && figures.lost < 20, "{figures:?}");
    }
    within(figures(&alone("vivace", 10, 0)).utilization, 0.86..=0.97);
    within(settled("vivace:pairs=1", |_| ()).utilization, 0.85..=0.95);
}

#[test]
fn vivace_section_9_random_loss() {
    for (loss, utilization) in
        [("0.1%", 0.87..=0.98), ("1%", 0.82..=0.95), ("2%", 0.75..=0.95), ("5%", 0.68..=0.90)]
    {
        within(with_loss("vivace", loss), utilization);
    }
}

#[test]
fn vivace_section_9_two_flows() {
    let figures = two("vivace");
    within(figures.jain, 0.8..=1.0);
    within(figures.utilization, 0.88..=1.0);
}

/// A full buffer has a constant RTT, so that the gradient says nothing.
#[test]
fn vivace_section_9_a_fall_is_slow_and_a_rise_too() {
    within(stepped("vivace", 21, 26).queue_delay_ms.mean, 900.0..=1000.0);
    assert!(stepped("vivace", 20, 40).lost < 4_000);
    within(stepped("vivace", 40, 42).throughput_mbps, 1.5..=5.0);
    within(stepped("vivace", 45, 60).throughput_mbps, 10.0..=12.0);
}

#[test]
fn vivace_section_9_starves_beside_cubic() {
    within(beside_cubic("vivace"), 0.2..=1.2);
}

#[test]
fn vivace_section_9_without_the_latency_term_it_fills_the_buffer() {
    let figures = settled("vivace:flavour=loss", |_| ());
    assert!(figures.utilization > 0.97 && figures.queue_delay_ms.mean > 120.0, "{figures:?}");
    assert!(figures.lost > 1_000);
}
