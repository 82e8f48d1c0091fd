//! Many flows of a kind on one link.

#![allow(clippy::unwrap_used)]

mod common;

use cellpace_sim::Scenario;
use common::{bulk, outcome, secs};

/// The share of all packets that is lost when twenty flows share 100 Mbit/s.
fn loss_share(cc: &str) -> f64 {
    let shared = Scenario {
        trace: "constant:100mbit".parse().unwrap(),
        flows: vec![bulk(cc); 20],
        duration: secs(20),
        ..Scenario::default()
    };
    let figures = outcome(&shared).figures;
    assert!(figures.utilization > 0.9, "{cc}: {}", figures.utilization);
    figures.lost as f64 / (figures.lost + figures.packets) as f64
}

#[test]
fn nobody_floods_a_shared_link() {
    for cc in ["copa", "bbr", "cubic", "newreno", "bic", "vegas", "ledbat"] {
        let share = loss_share(cc);
        assert!(share < 0.1, "{cc} loses {share}");
    }
}

#[test]
fn verus_does_not_flood_a_shared_link() {
    let shares = ["verus:r=2", "verus:r=4", "verus:r=6"].map(loss_share);
    // Its ceiling acts from a tenth of losses on.
    assert!(shares.iter().all(|share| *share < 0.15), "{shares:?}");
}
