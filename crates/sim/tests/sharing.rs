//! Several flows on one link, and what they lose there.

#![allow(clippy::unwrap_used)]

mod common;

use cellpace_base::Span;
use cellpace_cc::registry;
use cellpace_path::DelaySpec;
use cellpace_sim::{FlowSpec, Scenario};
use common::{bulk, outcome, secs};
use proptest::prelude::*;

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
    for cc in ["copa", "bbr", "bbr3", "cubic", "newreno", "bic", "vegas", "ledbat"] {
        let share = loss_share(cc);
        assert!(share < 0.1, "{cc} loses {share}");
    }
}

/// Verus' ceiling acts from a tenth of losses on.
#[test]
fn verus_does_not_flood_a_shared_link() {
    let shares = ["verus:r=2", "verus:r=4", "verus:r=6"].map(loss_share);
    assert!(shares.iter().all(|share| *share < 0.15), "{shares:?}");
}

/// Packets lost and delivered after the first ten seconds.
fn lost_and_delivered(scenario: &Scenario) -> (u64, u64) {
    let settled = Scenario { skip: secs(10), ..scenario.clone() };
    let figures = outcome(&settled).figures;
    (figures.lost, figures.packets)
}

/// Flows of `cc` with these RTTs in ms over 60 Mbit/s and a buffer of 40 ms.
fn behind_40_ms(cc: &str, rtts: &[u64]) -> Scenario {
    let flow = |rtt: &u64| FlowSpec { rtt: Some(Span::from_millis(*rtt)), ..bulk(cc) };
    Scenario {
        trace: "constant:60mbit".parse().unwrap(),
        queue: "droptail:300kB".parse().unwrap(),
        flows: rtts.iter().map(flow).collect(),
        duration: secs(40),
        ..Scenario::default()
    }
}

#[test]
fn verus_loses_less_than_a_tenth_behind_a_buffer_shorter_than_its_set_point() {
    for cc in ["verus:r=2", "verus:r=6"] {
        let mut beside_cubic = behind_40_ms(cc, &[100, 50]);
        beside_cubic.flows[1].cc = Some("cubic".parse().unwrap());
        for scenario in [behind_40_ms(cc, &[100]), beside_cubic, behind_40_ms(cc, &[20, 50, 100])] {
            let (lost, delivered) = lost_and_delivered(&scenario);
            assert!(
                lost * 10 < delivered,
                "{cc}, {} flows: {lost} {delivered}",
                scenario.flows.len()
            );
        }
    }
}

fn controller() -> impl Strategy<Value = String> {
    // `fixed` does not react by design.
    let names = registry().iter().map(|info| info.name.to_owned()).filter(|name| name != "fixed");
    let variants = ["verus:r=2", "copa:mode=constant"].map(str::to_owned);
    prop::sample::select(names.chain(variants).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// In any drop-tail buffer of a fifth of the bandwidth-delay product and more, if it holds five
    /// packets of each flow: in one of two packets there is no delay to go by, and Copa, whose window is
    /// never below two, loses more than half. For Sprout it holds the 100 ms for which that looks ahead:
    /// Sprout does not react to losses, and at 5 Mbit/s over 10 ms and eight packets loses more than half.
    #[test]
    fn after_ten_seconds_nobody_loses_more_than_is_delivered(
        ccs in prop::collection::vec(controller(), 1..4),
        kbit in 1_000_u64..40_000,
        rtt_ms in 10_u64..150,
        fifths in 1_u64..15,
    ) {
        let bdp = kbit * rtt_ms / 8; // bytes
        let packets = (bdp * fifths / 5).div_ceil(1_500).max(5 * ccs.len() as u64);
        let ahead = if ccs.iter().any(|cc| cc == "sprout") { kbit * 100 / 8 } else { 0 };
        let packets = packets.max(ahead.div_ceil(1_500));
        let scenario = Scenario {
            trace: format!("constant:{kbit}kbit").parse().unwrap(),
            queue: format!("droptail:{packets}pkts").parse().unwrap(),
            rtt: DelaySpec::from(Span::from_millis(rtt_ms)),
            flows: ccs.iter().map(|cc| bulk(cc)).collect(),
            duration: secs(30),
            ..Scenario::default()
        };
        let (lost, delivered) = lost_and_delivered(&scenario);
        prop_assert!(lost <= delivered, "{ccs:?}: {lost} lost, {delivered} delivered");
    }
}
