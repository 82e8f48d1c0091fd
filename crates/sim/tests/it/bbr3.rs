//! BBRv3 among others, and over links that serve in bundles: the figures of docs/spec/bbr3.md section 11
//! that take the simulator. Those of one flow are in `crates/cc/tests/it/bbr3.rs`. The links here
//! serve at fixed moments, so that a packet which finds one idle waits up to a millisecond: figures
//! that hang on the base RTT differ a little.

use crate::common::{at_ms, bulk, outcome, secs};
use cellpace_base::Span;
use cellpace_measure::{Figures, jain_index};
use cellpace_sim::{FlowSpec, Scenario};

fn figures(flows: Vec<FlowSpec>, trace: &str, queue: &str, seconds: u64, skip: u64) -> Figures {
    let scenario =
        Scenario { flows, duration: secs(seconds), skip: secs(skip), ..Scenario::default() }
            .with_link(|link| {
                link.down.trace = Some(trace.parse().unwrap());
                link.down.queue = queue.parse().unwrap();
            });
    outcome(&scenario).figures
}

fn shares(figures: &Figures) -> Vec<f64> {
    figures.per_flow.iter().map(|flow| flow.throughput_mbps).collect()
}

#[test]
fn bbr3_c1_one_flow_over_the_simulators_link() {
    for queue in ["droptail:60kB", "droptail:300kB", "droptail:1200kB"] {
        let figures = figures(vec![bulk("bbr3")], "constant:12mbit", queue, 60, 10);
        assert!(figures.utilization >= 0.95, "{queue}: {}", figures.utilization);
        let queue_delay = figures.queue_delay_ms;
        assert!(queue_delay.mean <= 8.0 && queue_delay.p95 <= 35.0, "{queue}: {queue_delay:?}");
        assert_eq!(figures.lost, 0, "{queue}");
    }
}

#[test]
fn bbr3_c5_two_flows() {
    let late = FlowSpec { start: at_ms(5000), ..bulk("bbr3") };
    let two = || vec![bulk("bbr3"), late.clone()];
    let deep = figures(two(), "constant:12mbit", "droptail:300kB", 90, 30);
    assert!(jain_index(&shares(&deep)) >= 0.995, "{:?}", shares(&deep));
    assert!((36.0..46.0).contains(&deep.queue_delay_ms.mean), "{:?}", deep.queue_delay_ms);
    assert!(deep.queue_delay_ms.p95 < 72.0 && deep.lost == 0);
    let short = figures(two(), "constant:12mbit", "droptail:60kB", 90, 30);
    assert!(jain_index(&shares(&short)) >= 0.99, "{:?}", shares(&short));
    assert!((19.0..27.0).contains(&short.queue_delay_ms.mean), "{:?}", short.queue_delay_ms);
    assert!((150..700).contains(&short.lost), "{}", short.lost);
}

#[test]
fn bbr3_c5_four_flows_and_two_rtts() {
    let four = (0..4).map(|i| FlowSpec { start: at_ms(2000 * i), ..bulk("bbr3") }).collect();
    let figures_of_four = figures(four, "constant:48mbit", "droptail:1200kB", 60, 30);
    assert!(jain_index(&shares(&figures_of_four)) >= 0.88, "{:?}", shares(&figures_of_four));
    let at = |ms| FlowSpec { rtt: Some(Span::from_millis(ms)), ..bulk("bbr3") };
    let two = figures(vec![at(20), at(80)], "constant:12mbit", "droptail:300kB", 90, 30);
    let [short, long] = shares(&two)[..] else { panic!("two flows") };
    assert!((1.0..2.2).contains(&short) && (9.5..11.0).contains(&long), "{short} {long}");
}

/// Neither side below 2.9 Mbit/s of 12.
#[test]
fn bbr3_c8_against_cubic_and_newreno() {
    for other in ["cubic:hystart=off", "newreno"] {
        for queue in ["60kB", "120kB", "300kB", "1200kB"] {
            let flows = vec![bulk("bbr3"), bulk(other)];
            let queue = format!("droptail:{queue}");
            let figures = figures(flows, "constant:12mbit", &queue, 90, 30);
            let shares = shares(&figures);
            assert!(shares.iter().all(|share| *share >= 2.9), "{other}, {queue}: {shares:?}");
        }
    }
}

#[test]
fn bbr3_c10_bundled_service() {
    for (ms, utilization, queue_ms) in
        [(5, 0.978, 27.0), (10, 0.973, 42.0), (20, 0.969, 49.0), (50, 0.965, 64.0)]
    {
        let trace = format!("onoff:{}mbit,on=1ms,off={}ms", 12 * ms, ms - 1);
        let figures = figures(vec![bulk("bbr3")], &trace, "droptail:300kB", 40, 10);
        let seen = (figures.utilization, figures.queue_delay_ms.mean);
        assert!((seen.0 / utilization - 1.0).abs() < 0.02, "{ms} ms: {seen:?}");
        assert!((seen.1 / queue_ms - 1.0).abs() < 0.15, "{ms} ms: {seen:?}");
    }
}

#[test]
fn bbr3_c7_rise_to_ten_times_over_the_simulators_link() {
    let trace = "step:12mbit/15s,120mbit/100s";
    let late = figures(vec![bulk("bbr3")], trace, "droptail:600kB", 19, 17);
    assert!(late.throughput_mbps > 117.0, "{}", late.throughput_mbps);
}

#[test]
fn bbr3_marks_take_the_place_of_losses() {
    let over = |cc: &str| figures(vec![bulk(cc)], "constant:12mbit", "codel:ecn=true", 40, 10);
    let (marked, lost) = (over("bbr3:ecn=true"), over("bbr3"));
    println!("{} {}, {} {}", marked.utilization, marked.lost, lost.utilization, lost.lost);
    assert!(marked.lost == 0 && marked.utilization > 0.9, "{}", marked.utilization);
}
