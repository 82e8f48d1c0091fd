//! Reordering, duplication and corruption: what flows and figures make of them.

use cellpace_base::Span;
use cellpace_cc::registry;
use cellpace_path::{DropReason, Fate};
use cellpace_sim::Scenario;

use crate::common::{lone, observed, outcome, secs, udp};

fn impaired(cc: &str, impair: &str) -> Scenario {
    Scenario { skip: secs(1), ..lone(cc, "constant:12mbit", "droptail:2MB", 10) }
        .with_link(|link| link.down.impair = impair.parse().unwrap())
}

#[test]
fn a_queue_in_time_or_bdp_is_that_in_bytes() {
    let of = |queue: &str| {
        outcome(
            &lone("cubic", "step:12mbit/1s,4mbit/1s", queue, 20)
                .with_link(|link| link.set_rtt(Span::from_millis(100).into())),
        )
        .figures
    };
    // 8 Mbit/s in the mean for 25 ms, a quarter of the RTT.
    let in_bytes = of("droptail:25kB");
    assert!(in_bytes.lost > 0);
    assert_eq!(of("droptail:25ms"), in_bytes);
    assert_eq!(of("droptail:0.25bdp"), in_bytes);
}

#[test]
fn every_controller_gets_on_with_all_impairments() {
    let all = "reorder=2%/8ms,duplicate=5%,corrupt=0.1%";
    for info in registry() {
        let scenario =
            impaired(info.name, all).with_link(|link| link.up.impair = all.parse().unwrap());
        let (outcome, log) = observed(&scenario);
        let is_duplicate = log.records.iter().any(|record| record.fate == Fate::Duplicate);
        assert!(is_duplicate && outcome.figures.packets > 10, "{}", info.name);
        assert!(outcome.figures.utilization <= 1.0 + 1e-6, "{}", info.name);
    }
}

#[test]
fn data_that_arrives_twice_counts_once() {
    for cc in ["cubic", "copa", "verus", "bbr"] {
        let (twice, log) = observed(&impaired(cc, "duplicate=100%"));
        let of = |fate: Fate| log.records.iter().filter(|record| record.fate == fate).count();
        assert_eq!(of(Fate::Duplicate), of(Fate::Delivered), "{cc}");
        let once = observed(&impaired(cc, "none")).0;
        let ratio = twice.figures.throughput_mbps / once.figures.throughput_mbps;
        assert!((0.95..=1.02).contains(&ratio), "{cc}: {ratio}");
        assert_eq!(twice.retransmissions, once.retransmissions, "{cc}");
    }
}

#[test]
fn corrupted_packets_are_lost_and_take_capacity() {
    let scenario = Scenario { flows: vec![udp("12mbit")], ..impaired("cubic", "corrupt=10%") };
    let (outcome, log) = observed(&scenario);
    let corrupt = Fate::Dropped(DropReason::Corrupt);
    let damaged = log.records.iter().filter(|record| record.fate == corrupt).count() as f64;
    let share = damaged / log.records.len() as f64;
    assert!((share - 0.1).abs() < 0.01, "{share}");
    // What is damaged has crossed the link, and is no throughput.
    assert!((outcome.figures.utilization - 0.9).abs() < 0.01, "{}", outcome.figures.utilization);
    assert!(outcome.figures.lost > 800, "{}", outcome.figures.lost);
}

#[test]
fn reordering_within_three_packets_costs_hardly_a_retransmission() {
    // At 12 Mbit/s a packet takes 1 ms: held for 2 ms, it is overtaken by two, below the packet
    // threshold of RFC 9002 section 6.1.1; held for 12 ms, it is taken for lost.
    let (cc, packets) = ("fixed:cwnd=60pkts", 10_000);
    let little = observed(&impaired(cc, "reorder=1%/2ms")).0;
    let much = observed(&impaired(cc, "reorder=1%/12ms")).0;
    assert_eq!((little.figures.lost, much.figures.lost), (0, 0));
    assert!(much.retransmissions > packets / 200, "{}", much.retransmissions);
    // The first window leaves at once, so there more overtake.
    assert!(little.retransmissions < 5, "{}", little.retransmissions);
}
