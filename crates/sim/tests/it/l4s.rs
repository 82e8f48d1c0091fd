//! Closed loops with marks, against the reference model of `docs/spec/l4s.md` section 8. That is
//! another program with another link, so that tolerances are those that the page states, or where
//! it states none 5 points of utilization and twice the delay.

use crate::common;
use crate::common::{Log, bulk, secs};
use cellpace_base::Span;
use cellpace_path::Fate;
use cellpace_sim::{FlowSpec, Outcome, Scenario, run_observed};

/// Flows over a link, measured from `skip` to `end` (seconds).
struct Run {
    outcome: Outcome,
    log: Log,
}

fn run(rate: &str, rtt_ms: u64, queue: &str, ccs: &[&str], (skip, end): (u64, u64)) -> Run {
    run_impaired(rate, rtt_ms, queue, "none", ccs, (skip, end))
}

fn run_impaired(
    rate: &str,
    rtt_ms: u64,
    queue: &str,
    impair: &str,
    ccs: &[&str],
    span: (u64, u64),
) -> Run {
    run_over(&format!("constant:{rate}"), rtt_ms, queue, impair, ccs, span)
}

fn run_over(
    trace: &str,
    rtt_ms: u64,
    queue: &str,
    impair: &str,
    ccs: &[&str],
    (skip, end): (u64, u64),
) -> Run {
    let scenario = Scenario {
        flows: ccs.iter().map(|cc| bulk(cc)).collect(),
        duration: secs(end),
        skip: secs(skip),
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some(trace.parse().unwrap());
        link.down.queue = queue.parse().unwrap();
        link.down.impair = impair.parse().unwrap();
        link.set_rtt(Span::from_millis(rtt_ms).into());
    });
    let mut log = Log::default();
    let outcome = run_observed(&scenario, &mut log).unwrap();
    Run { outcome, log }
}

impl Run {
    fn utilization(&self) -> f64 {
        self.outcome.figures.utilization
    }

    fn mbps(&self, flow: usize) -> f64 {
        self.outcome.figures.per_flow[flow].throughput_mbps
    }

    /// Packets that left the link after `skip`, and how many of them the queue had marked.
    fn marks(&self, flow: u32, skip: u64) -> (usize, usize) {
        let from = common::at_ms(skip * 1000);
        let delivered = self.log.records.iter().filter(|record| {
            record.packet.flow == flow
                && record.fate == Fate::Delivered
                && record.packet.departed_at >= from
        });
        let marked = delivered.clone().filter(|record| record.packet.marked).count();
        (delivered.count(), marked)
    }

    fn dropped(&self) -> usize {
        self.log.records.iter().filter(|record| matches!(record.fate, Fate::Dropped(_))).count()
    }

    /// Median and 99th percentile of a flow's delay in the queue, in ms.
    fn delay_ms(&self, flow: usize) -> (f64, f64) {
        let delay = &self.outcome.figures.per_flow[flow].queue_delay_ms;
        (delay.p50, delay.p99)
    }
}

#[test]
fn l1_prague_alone_fills_the_link_at_a_delay_of_a_millisecond() {
    for (rate, rtt, queue, utilization, p50, p99) in [
        ("12mbit", 40, "dualpi2", 0.975, 1.1, 3.0),
        ("12mbit", 40, "dualpi2:ramp=800us..1200us", 0.979, 1.2, 3.0),
        ("12mbit", 40, "dualpi2:step=5ms", 0.999, 4.0, 7.0),
        ("12mbit", 10, "dualpi2", 0.996, 1.8, 3.0),
        ("50mbit", 40, "dualpi2", 0.997, 0.65, 1.28),
        ("50mbit", 10, "dualpi2", 1.0, 0.93, 1.28),
    ] {
        let run = run(rate, rtt, queue, &["prague"], (10, 40));
        let (found, delay) = (run.utilization(), run.delay_ms(0));
        let (packets, marked) = run.marks(0, 10);
        println!(
            "{rate} {rtt} ms {queue}: {found:.3}, {delay:.2?} ms, {:.3} marked",
            marked as f64 / packets as f64
        );
        assert!(found > utilization - 0.05, "{rate} {rtt} {queue}: {found}");
        assert!(delay.0 < 2.0 * p50 && delay.1 < 2.0 * p99, "{rate} {rtt} {queue}: {delay:?}");
        assert_eq!(run.dropped(), 0, "{rate} {rtt} {queue}");
    }
}

#[test]
fn l2_the_rate_at_a_share_of_marks_does_not_depend_on_a_short_rtt() {
    for (p, rates) in [
        (0.05, [18.2, 18.2, 18.2, 9.1, 4.6]),
        (0.1, [8.6, 8.6, 8.6, 4.3, 2.2]),
        (0.2, [3.8, 3.8, 3.8, 1.9, 0.96]),
    ] {
        for (rtt, expected) in [5, 10, 20, 50, 100].into_iter().zip(rates) {
            let impair = format!("mark={}%", p * 100.0);
            let run = run_impaired("1gbit", rtt, "infinite", &impair, &["prague"], (10, 40));
            let ratio = run.mbps(0) / expected;
            println!("{p} {rtt} ms: {:.2} Mbit/s, {ratio:.2} of the formula", run.mbps(0));
            assert!((0.9..1.35).contains(&ratio), "{p} {rtt} ms: {ratio}");
        }
    }
}

#[test]
fn l3_a_fall_and_a_rise_of_the_capacity() {
    let during = |from: u64, to: u64| {
        let trace = "step:12mbit/15s,2400kbit/10s,12mbit/100s";
        let run = run_over(trace, 40, "dualpi2", "none", &["prague"], (from, to));
        println!("{from} to {to} s: {:.3}, {:.1?} ms", run.utilization(), run.delay_ms(0));
        run
    };
    // The window of before the fall, and the overload drops that it meets.
    let fall = during(15, 16);
    assert!(fall.utilization() > 0.93 && fall.delay_ms(0).1 < 2.0 * 157.0);
    assert!((1..26).contains(&fall.dropped()), "{}", fall.dropped());
    // A packet takes 5 ms.
    let low = during(17, 25);
    assert!(low.utilization() > 0.948, "{}", low.utilization());
    assert!(low.delay_ms(0).0 < 20.0 && low.delay_ms(0).1 < 30.0, "{:?}", low.delay_ms(0));
    for (from, to, utilization) in [(25, 26, 0.51), (26, 28, 0.96), (28, 40, 0.97)] {
        let found = during(from, to).utilization();
        assert!((found - utilization).abs() < 0.06, "{from} to {to} s: {found}");
    }
}

#[test]
fn l4_a_classic_flow_alone_is_held_at_the_target() {
    for (cc, rate, utilization, mean) in [
        ("cubic", "12mbit", 0.999, 14.7),
        ("cubic:ecn=true", "12mbit", 0.994, 13.5),
        ("newreno", "12mbit", 0.974, 11.8),
        ("newreno:ecn=true", "12mbit", 0.969, 12.0),
        ("cubic", "50mbit", 1.0, 10.5),
        ("newreno", "50mbit", 0.954, 7.2),
    ] {
        let run = run(rate, 40, "dualpi2", &[cc], (20, 60));
        let found = (run.utilization(), run.outcome.figures.queue_delay_ms.mean);
        println!("{cc} {rate}: {found:.3?}, {} dropped", run.dropped());
        assert!(found.0 > utilization - 0.05, "{cc} {rate}: {found:?}");
        assert!((0.5..2.0).contains(&(found.1 / mean)), "{cc} {rate}: {found:?}");
    }
    let run = run("12mbit", 40, "dualpi2", &["cubic:ecn=true"], (20, 60));
    let (packets, marked) = run.marks(0, 20);
    assert!(marked > 0 && packets > 30_000, "{marked} of {packets}");
}

#[test]
fn l5_prague_and_a_classic_flow_share_a_link() {
    for rate in ["12mbit", "50mbit"] {
        for rtt in [10, 40] {
            for classic in ["cubic", "newreno:ecn=true,abe=false"] {
                let run = run(rate, rtt, "dualpi2", &["prague", classic], (20, 60));
                let ratio = run.mbps(0) / run.mbps(1);
                let (low, high) = (run.delay_ms(0), run.delay_ms(1));
                println!("{classic} {rate} {rtt} ms: {ratio:.2}, {low:.2?} and {high:.2?} ms");
                assert!((0.45..2.3).contains(&ratio), "{classic} {rate} {rtt} ms: {ratio}");
                assert!(low.1 < 6.0 && high.0 > 5.0, "{classic} {rate} {rtt}: {low:?} {high:?}");
            }
        }
    }
}

#[test]
fn l6_two_prague_flows_share_a_link() {
    let late = FlowSpec { start: common::at_ms(5_000), ..bulk("prague") };
    let with_rtt = |ms: u64, flow: FlowSpec| FlowSpec { rtt: Some(Span::from_millis(ms)), ..flow };
    // One packet takes 1 ms of 12 Mbit/s, and here that counts into its delay. With the default
    // step every second packet in a row is marked then, and the late comer gets less than half.
    for (rate, queue, rtts, most) in [
        ("12mbit", "dualpi2:step=2ms", [40, 40], 1.3),
        ("50mbit", "dualpi2", [40, 40], 1.3),
        ("12mbit", "dualpi2:step=2ms", [10, 10], 1.8),
        // Windows alone would share as the RTTs, 4 to 1.
        ("12mbit", "dualpi2:step=2ms", [10, 40], 3.0),
    ] {
        let scenario = Scenario {
            flows: vec![with_rtt(rtts[0], bulk("prague")), with_rtt(rtts[1], late.clone())],
            duration: secs(90),
            skip: secs(30),
            ..Scenario::default()
        }
        .with_link(|link| {
            link.down.trace = Some(format!("constant:{rate}").parse().unwrap());
            link.down.queue = queue.parse().unwrap();
        });
        let figures = common::outcome(&scenario).figures;
        let rates = [0, 1].map(|flow| figures.per_flow[flow].throughput_mbps);
        let ratio = rates[0].max(rates[1]) / rates[0].min(rates[1]);
        println!("{rate} {queue} {rtts:?}: {rates:.2?}");
        assert!(ratio < most, "{rate} {queue} {rtts:?}: {rates:?}");
    }
}

#[test]
fn l7_a_step_below_the_distance_of_bursts_starves_the_link() {
    for (every_ms, utilizations) in
        [(5, [0.24, 0.98, 1.0, 1.0]), (10, [0.14, 0.14, 0.98, 1.0]), (20, [0.08, 0.08, 0.08, 0.73])]
    {
        for (step_ms, expected) in [1, 5, 10, 20].into_iter().zip(utilizations) {
            // As many packets in one millisecond as 12 Mbit/s brings in all of them.
            let trace = format!("onoff:{}mbit,on=1ms,off={}ms", 12 * every_ms, every_ms - 1);
            let queue = format!("dualpi2:step={step_ms}ms");
            let run = run_over(&trace, 40, &queue, "none", &["prague"], (10, 40));
            let found = run.utilization();
            println!("{every_ms} ms, step {step_ms} ms: {found:.3}, {expected}");
            assert!((found - expected).abs() < 0.12, "{every_ms} ms, step {step_ms} ms: {found}");
        }
    }
}

#[test]
fn l8_prague_without_marks_is_newreno() {
    // 5 BDP of 12 Mbit/s and 40 ms.
    let run = run("12mbit", 40, "droptail:200pkts", &["prague"], (10, 40));
    println!("{:.3}, {:.0} ms", run.utilization(), run.outcome.figures.queue_delay_ms.mean);
    assert!(run.utilization() > 0.98 && run.dropped() > 0);
    assert!((100.0..190.0).contains(&run.outcome.figures.queue_delay_ms.mean));
}

#[test]
fn l9_abe_keeps_a_short_queue_from_running_dry() {
    let utilization = |cc: &str, rtt: u64| {
        let run = run("12mbit", rtt, "codel:ecn=true", &[cc], (20, 60));
        println!("{cc} {rtt} ms: {:.3}, {} dropped", run.utilization(), run.dropped());
        assert!(!cc.contains("ecn") || run.marks(0, 20).1 > 0, "{cc}");
        run.utilization()
    };
    for (rtt, plain, abe, cubic, cubic_abe) in
        [(40, 0.853, 0.994, 0.946, 0.999), (100, 0.792, 0.947, 0.916, 0.971)]
    {
        for (cc, expected) in [
            ("newreno:ecn=true,abe=false", plain),
            ("newreno:ecn=true", abe),
            ("cubic:ecn=true,abe=false", cubic),
            ("cubic:ecn=true", cubic_abe),
        ] {
            let found = utilization(cc, rtt);
            assert!((found - expected).abs() < 0.06, "{cc} {rtt} ms: {found} for {expected}");
        }
        let drops = utilization("newreno", rtt);
        assert!((drops - plain).abs() < 0.06, "marks in place of drops change nothing else");
    }
}
