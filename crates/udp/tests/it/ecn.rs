//! Codepoints of packets, what acks report of them, and paths that do not carry them, in virtual
//! time.

use crate::common::{Mischief, RECEIVER, SENDER, World, content, spec};
use cellpace_base::{Span, Time};
use cellpace_cc::Event;
use cellpace_path::PathSpec;
use cellpace_udp::{EcnFailure, EcnState, EndpointConfig, IncomingStats, OutgoingStats};

/// Runs a flow of `cc` for five seconds over a path with this queue and these impairments.
fn ran(cc: &str, queue: &str, impair: &str, mischief: Mischief) -> (World, Stats) {
    let spec =
        PathSpec { queue: queue.parse().unwrap(), impair: impair.parse().unwrap(), ..spec() };
    let mut world = World::new(1, &spec, &EndpointConfig::default());
    world.mischief = mischief;
    let id = world.send(cc, content(1, 30_000_000));
    world.run(Span::from_secs(5));
    let outgoing = world.sides[SENDER].flow(id).unwrap().outgoing().unwrap();
    let incoming = world.sides[RECEIVER].flow(world.received[0].0).unwrap().incoming().unwrap();
    let flow = world.sides[SENDER].flow_mut(id).unwrap();
    let events = std::iter::from_fn(|| flow.poll_controller_event()).map(|(_, event)| event);
    let failures = events.filter(|event| *event == Event::EcnFailed).count();
    (world, Stats { outgoing, incoming, failures })
}

struct Stats {
    outgoing: OutgoingStats,
    incoming: IncomingStats,
    failures: usize,
}

#[test]
fn marks_of_a_queue_reach_the_controller_and_replace_losses() {
    for (cc, queue) in [("prague", "dualpi2"), ("cubic:ecn=true", "codel:ecn=true")] {
        let (_, stats) = ran(cc, queue, "none", Mischief::default());
        let Stats { outgoing, incoming, failures } = stats;
        assert_eq!((outgoing.ecn, failures), (EcnState::Capable, 0), "{cc}");
        assert!(incoming.marked > 5, "{cc}: {incoming:?}");
        assert!(incoming.marked.abs_diff(outgoing.marked) < 100, "{cc}: {outgoing:?}");
        assert_eq!(outgoing.lost, 0, "{cc}");
        let rate = incoming.ip_bytes as f64 * 8.0 / 5e6;
        assert!(rate > 9.0, "{cc}: {rate} Mbit/s");
    }
}

#[test]
fn without_ecn_nothing_is_marked() {
    let (_, stats) = ran("cubic", "codel:ecn=true", "none", Mischief::default());
    assert_eq!((stats.outgoing.ecn, stats.incoming.marked), (EcnState::Off, 0));
    assert!(stats.outgoing.lost > 0);
}

#[test]
fn feedback_f5_lost_acks_lose_no_marks() {
    // Of both ways: data is sent again, and acks that are lost in a row take entries with them.
    let outage = |at: u64| (Time::from_millis(at), Time::from_millis(at + 60));
    let mischief = Mischief {
        loss: 0.001,
        outages: vec![outage(1_500), outage(3_000)],
        ..Mischief::default()
    };
    let (mut world, _) = ran("prague", "dualpi2:step=100us", "none", mischief);
    // What is under way arrives, and nothing more is sent.
    world.mischief = Mischief::default();
    let id = *world.data.keys().next().unwrap();
    world.sides[SENDER].flow_mut(id).unwrap().cut();
    world.run_until(Time::from_millis(5_900), |world| {
        world.sides[SENDER].flow(id).is_none_or(|flow| flow.outgoing().unwrap().in_flight == 0)
    });
    let outgoing = world.sides[SENDER].flow(id).unwrap().outgoing().unwrap();
    let incoming = world.sides[RECEIVER].flow(world.received[0].0).unwrap().incoming().unwrap();
    assert!(incoming.marked > 50, "{incoming:?}");
    assert_eq!(outgoing.marked, incoming.marked);
}

#[test]
fn feedback_f6_f7_paths_that_do_not_carry_ecn_are_found_out() {
    for (impair, why) in [
        ("ecn=bleach", EcnFailure::Bleached),
        ("ecn=ect1-to-ect0", EcnFailure::Rewritten),
        ("ecn=drop", EcnFailure::Lost),
        ("ecn=ce", EcnFailure::AllMarked),
    ] {
        let (world, stats) = ran("prague", "dualpi2", impair, Mischief::default());
        assert_eq!(stats.outgoing.ecn, EcnState::Failed(why), "{impair}");
        assert_eq!(stats.failures, 1, "{impair}: reported once");
        let rate = world.bytes[SENDER] as f64 * 8.0 / 5e6;
        assert!(rate > 4.0, "{impair}: it goes on without ECN, {rate} Mbit/s");
    }
}

#[test]
fn feedback_f4_a_packet_that_comes_twice_counts_once() {
    let mischief = Mischief { duplicate: 0.5, ..Mischief::default() };
    let (_, stats) = ran("prague", "dualpi2", "none", mischief);
    let Stats { outgoing, incoming, .. } = stats;
    assert!(incoming.duplicates > 100 && incoming.marked <= incoming.packets, "{incoming:?}");
    assert_eq!(outgoing.ecn, EcnState::Capable);
}
