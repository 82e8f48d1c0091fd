//! Sprout in closed loops: constant links, links that change, fast links, slow and broken uplinks.

use cellpace_cc::Span;
use cellpace_path::DelaySpec;
use cellpace_sim::{FlowSpec, Outcome, Scenario, run};

/// Figures are of the second half of the run.
fn scenario(cc: &str, trace: &str, rtt_ms: u64) -> Scenario {
    Scenario {
        flows: vec![FlowSpec::bulk(cc.parse().expect("a controller"))],
        duration: Span::from_secs(40),
        skip: Span::from_secs(20),
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some(trace.parse().expect("a trace"));
        link.down.queue = "infinite".parse().expect("a queue");
        link.set_rtt(DelaySpec::constant(Span::from_millis(rtt_ms)));
    })
}

fn outcome(cc: &str, trace: &str, rtt_ms: u64) -> Outcome {
    run(&scenario(cc, trace, rtt_ms)).expect("a sound scenario")
}

/// `packets` per second.
fn constant(packets: u64) -> String {
    format!("constant:{}kbit", packets * 12)
}

fn utilization(cc: &str, packets: u64, rtt_ms: u64) -> f64 {
    outcome(cc, &constant(packets), rtt_ms).figures.utilization
}

#[test]
fn sprout_section_8_constant_links() {
    // Packets per second, RTT in ms, and the utilization found by a simulation of our own that
    // shares nothing with this one. It moves in steps of whole packets and ticks, so that a
    // cell may depend on how the two fall together.
    let found = [
        (50, 20, 1.00),
        (100, 20, 1.00),
        (250, 20, 1.00),
        (500, 20, 1.00),
        (50, 40, 1.00),
        (100, 40, 0.95),
        (250, 40, 1.00),
        (500, 40, 1.00),
        (100, 60, 0.85),
        (250, 60, 0.98),
        (500, 60, 0.99),
        (50, 100, 0.82),
        (100, 100, 0.63),
        (250, 100, 0.67),
        (500, 100, 0.76),
    ];
    for (packets, rtt_ms, expected) in found {
        let ours = utilization("sprout", packets, rtt_ms);
        // Half a percent for the rounding of what was found.
        assert!((ours - expected).abs() <= 0.055, "{packets}/s, {rtt_ms} ms: {ours:.3}");
    }
    // One cell is 0.91 or 1 by how the sender's looks at its window fall together with ticks, and
    // those found at 900 packets per second are not what the description gives; the second
    // simulation of `sprout_second.rs` shows both, and has these.
    let ours =
        [(50, 60, 1.00), (900, 20, 1.00), (900, 40, 1.00), (900, 60, 1.00), (900, 100, 0.74)];
    for (packets, rtt_ms, expected) in ours {
        let figures = outcome("sprout", &constant(packets), rtt_ms).figures;
        let ours = figures.utilization;
        assert!((ours - expected).abs() <= 0.05, "{packets}/s, {rtt_ms} ms: {ours:.3}");
        assert!(figures.queue_delay_ms.p95 < 80.0, "{packets}/s, {rtt_ms} ms");
    }
}

#[test]
fn exact_observation_follows_the_sender_down() {
    for (packets, rtt_ms, expected) in [(50, 40, 0.67), (100, 40, 0.53), (250, 40, 0.64)] {
        let ours = utilization("sprout:original", packets, rtt_ms);
        assert!((ours - expected).abs() <= 0.05, "{packets}/s, {rtt_ms} ms: {ours:.3}");
    }
    assert!(utilization("sprout:original", 500, 100) < 0.25, "collapse");
}

#[test]
fn a_link_that_changes_every_two_seconds_is_followed() {
    let steps = "step:6mbit/2s,1200kbit/2s";
    let figures = outcome("sprout", steps, 20).figures;
    assert!((figures.utilization - 0.94).abs() <= 0.05, "{}", figures.utilization);
    assert!(figures.queue_delay_ms.p95 < 75.0, "{}", figures.queue_delay_ms.p95);
}

#[test]
fn the_grid_grows_with_the_link() {
    for (mbit, rtt_ms) in [(48, 20), (96, 20), (24, 60)] {
        let trace = format!("constant:{mbit}mbit");
        let capped = outcome("sprout", &trace, rtt_ms).figures;
        let auto = outcome("sprout:max_rate=auto", &trace, rtt_ms).figures;
        assert!(capped.utilization < 0.7, "{mbit} Mbit/s: {}", capped.utilization);
        assert!(auto.utilization > 0.95, "{mbit} Mbit/s: {}", auto.utilization);
        assert!(auto.queue_delay_ms.p95 < 80.0, "{}", auto.queue_delay_ms.p95);
    }
}

#[test]
fn flows_share_a_link() {
    let one = scenario("sprout", "constant:9mbit", 20);
    let flows = vec![one.flows[0].clone(); 3];
    let figures = run(&Scenario { flows, ..one }).expect("a sound scenario").figures;
    assert!(figures.utilization > 0.95, "{}", figures.utilization);
    for flow in &figures.per_flow {
        assert!(flow.throughput_mbps > 0.9, "{}", flow.throughput_mbps);
    }
}

/// At that share of lost reports: utilization and 95th percentile of the queue delay in ms.
fn with_lost_reports(cc: &str, trace: &str, share: &str) -> (f64, f64) {
    let lossy =
        scenario(cc, trace, 20).with_link(|link| link.up.loss = share.parse().expect("a share"));
    let outcome = run(&lossy).expect("a sound scenario");
    // What is lost on the way back is not lost to the receiver.
    assert_eq!(outcome.figures.lost, 0, "{cc}, {share}");
    (outcome.figures.utilization, outcome.figures.queue_delay_ms.p95)
}

#[test]
fn lost_reports_cost_a_little_throughput_and_no_delay() {
    for trace in ["constant:3mbit", "constant:6mbit", "constant:12mbit", "lte-driving"] {
        let [none, tenth, third, most] =
            ["0%", "10%", "30%", "60%"].map(|share| with_lost_reports("sprout", trace, share));
        println!("{trace}: {none:?}, {tenth:?}, {third:?}, {most:?}");
        assert!(tenth.0 > none.0 - 0.02, "{trace}: {tenth:?} of {none:?}");
        assert!(third.0 > none.0 - 0.06, "{trace}: {third:?} of {none:?}");
        assert!(most.0 > none.0 - 0.25, "{trace}: {most:?} of {none:?}");
        // A sender that gets fewer reports sends less. It may send a tick's packets on a
        // forecast that is a tick older.
        for lossy in [tenth, third, most] {
            assert!(lossy.1 < none.1 + 20.0, "{trace}: {lossy:?} of {none:?}");
        }
    }
}

#[test]
fn without_reports_only_heartbeats_are_left() {
    let (utilization, p95_ms) = with_lost_reports("sprout", "constant:12mbit", "100%");
    // One packet per 50 ms of one per ms.
    assert!((utilization - 0.02).abs() < 1e-3, "{utilization}");
    assert!(p95_ms <= 1.0, "{p95_ms}");
}

#[test]
fn every_controller_goes_on_with_a_tenth_of_its_acks_lost() {
    let mut wrong = Vec::new();
    for info in cellpace_cc::registry().iter().filter(|info| info.name != "fixed") {
        for trace in ["constant:12mbit", "lte-driving"] {
            let lossless = scenario(info.name, trace, 40)
                .with_link(|link| link.down.queue = "droptail:2MB".parse().expect("a queue"));
            let lossy =
                lossless.clone().with_link(|link| link.up.loss = "10%".parse().expect("10 %"));
            let of = |scenario| run(scenario).expect("a sound scenario").figures.utilization;
            let (with, without) = (of(&lossy), of(&lossless));
            println!("{} on {trace}: {with:.3} of {without:.3}", info.name);
            if with <= 0.93 * without {
                wrong.push(format!("{} on {trace}: {with:.3} of {without:.3}", info.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn with_uplink(uplink: &str) -> Outcome {
    let scenario = scenario("sprout", "constant:3mbit", 20);
    run(&scenario.with_link(|link| link.up.trace = Some(uplink.parse().expect("a trace"))))
        .expect("a sound scenario")
}

#[test]
fn reports_take_their_time_on_the_uplink() {
    // Acks and reports cross the uplink one by one; what holds the acks up holds the forecasts up.
    let free = with_uplink("constant:12mbit").figures;
    assert!(free.utilization > 0.98, "{}", free.utilization);
    let broken = with_uplink("onoff:12mbit,on=1s,off=300ms").figures;
    assert!(broken.utilization < free.utilization - 0.05, "{}", broken.utilization);
    // The sender stands still while no forecast comes, and goes on when one does.
    assert!(broken.utilization > 0.6, "{}", broken.utilization);
    assert!(broken.queue_delay_ms.p95 < 200.0, "{}", broken.queue_delay_ms.p95);
}

#[test]
fn an_uplink_too_slow_for_the_acks_does_not_stop_the_flow() {
    // 250 acks of 60 bytes and 50 reports are 160 kbit/s. Forecasts that wait behind acks come so
    // late that the sender slows down until the uplink can follow.
    let figures = with_uplink("constant:60kbit").figures;
    assert!(figures.utilization > 0.1, "{}", figures.utilization);
    assert!(figures.utilization < 0.5, "{}", figures.utilization);
    assert!(figures.queue_delay_ms.p95 < 100.0, "{}", figures.queue_delay_ms.p95);
}
