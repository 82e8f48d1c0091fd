//! Pace in whole runs: what `docs/spec/pace.md` promises, in coarse figures.

#![allow(clippy::unwrap_used)]

mod common;

use cellpace_base::Time;
use cellpace_measure::Figures;
use cellpace_sim::{FlowSpec, Scenario};
use common::{bulk, lone, outcome, secs};

fn alone(trace: &str, seconds: u64) -> Figures {
    outcome(&lone("pace", trace, "droptail:2MB", seconds)).figures
}

fn beside(flows: Vec<FlowSpec>, queue: &str) -> Scenario {
    Scenario {
        queue: queue.parse().unwrap(),
        flows,
        duration: secs(60),
        skip: secs(10),
        ..Scenario::default()
    }
}

#[test]
fn constant_links_are_full_and_their_queue_short() {
    for (trace, seconds, p95_ms) in
        [("constant:1mbit", 40, 40.0), ("constant:12mbit", 30, 8.0), ("constant:100mbit", 10, 8.0)]
    {
        let figures = alone(trace, seconds);
        assert!(figures.utilization > 0.95, "{trace}: {}", figures.utilization);
        let p95 = figures.queue_delay_ms.p95;
        assert!(p95 < p95_ms, "{trace}: {p95} ms");
    }
}

#[test]
fn a_cellular_link_is_nearly_full_and_its_queue_a_fraction_of_cubics() {
    let figures = alone("lte-driving", 60);
    assert!(figures.utilization > 0.92, "{}", figures.utilization);
    assert!(figures.queue_delay_ms.p95 < 120.0, "{}", figures.queue_delay_ms.p95);
}

#[test]
fn random_loss_and_delayed_acks_cost_little() {
    let path = lone("pace", "constant:12mbit", "droptail:2MB", 30);
    let lossy = Scenario { loss: "1%".parse().unwrap(), ..path.clone() };
    let delayed = Scenario { acks: "delayed:40ms".parse().unwrap(), ..path };
    for scenario in [lossy, delayed] {
        let figures = outcome(&scenario).figures;
        assert!(figures.utilization > 0.95, "{}", figures.utilization);
        assert!(figures.queue_delay_ms.p95 < 20.0, "{}", figures.queue_delay_ms.p95);
    }
}

#[test]
fn flows_share_evenly_at_equal_and_unequal_rtts() {
    let equal = outcome(&beside(vec![bulk("pace"); 4], "droptail:2MB")).figures;
    assert!(equal.jain > 0.95, "{}", equal.jain);
    assert!(equal.queue_delay_ms.p95 < 30.0, "{}", equal.queue_delay_ms.p95);

    let at = |ms: u64| FlowSpec { rtt: Some(cellpace_base::Span::from_millis(ms)), ..bulk("pace") };
    let unequal = outcome(&beside(vec![at(20), at(80)], "droptail:2MB")).figures;
    assert!(unequal.jain > 0.8, "{}", unequal.jain);
}

#[test]
fn beside_cubic_it_keeps_a_share_and_returns_to_a_short_queue_when_cubic_leaves() {
    let cubic = FlowSpec { stop: Time::from_secs(30), ..bulk("cubic") };
    let path = beside(vec![bulk("pace"), cubic], "droptail:300kB");
    let together = outcome(&Scenario { duration: secs(30), ..path.clone() }).figures;
    let rates: Vec<f64> = together.per_flow.iter().map(|flow| flow.throughput_mbps).collect();
    assert!(rates[0] * 5.0 > rates[1], "{rates:?}");

    let after = outcome(&Scenario { skip: secs(36), ..path }).figures;
    assert!(after.queue_delay_ms.p95 < 15.0, "{}", after.queue_delay_ms.p95);
    assert!(after.utilization > 0.95, "{}", after.utilization);
}
