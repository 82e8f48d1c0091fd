//! Sessions whatever the path does, and what strangers can and cannot do with a responder.

use std::collections::HashSet;

use crate::common::{
    AHEAD, Faults, PROBER, PROBER_ID, RESPONDER, RESPONDER_ID, World, address, limits,
};
use cellpace_base::{Ecn, Rate, Span, Time};
use cellpace_path::{Path, PathSpec};
use cellpace_probe::wire::{self, ProbePacket, ReportHead};
use cellpace_probe::{
    EcnFigures, OnOffStream, Pattern, Plan, ProbeError, Prober, Responder, ResponderLimits, analyse,
};
use cellpace_udp::wire::{Cookie, EcnCounts, Ids, Writer};
use cellpace_udp::{Engine, Protection, SenderSide};
use proptest::prelude::*;

fn path(loss: f64, seed: u64) -> Path {
    let spec = PathSpec {
        trace: Some("constant:20mbit".parse().unwrap()),
        queue: "droptail:100kB".parse().unwrap(),
        delay: "15ms".parse().unwrap(),
        loss: format!("{}%", loss * 100.0).parse().unwrap(),
        ..PathSpec::default()
    };
    spec.build(seed).unwrap()
}

fn plan() -> impl Strategy<Value = Plan> {
    let pattern = prop_oneof![
        (500u64..20_000).prop_map(|us| Pattern::Every(Span::from_micros(us))),
        (20u64..200).prop_map(|ms| Pattern::Saturate {
            lower: Span::from_millis(ms),
            upper: Span::from_millis(2 * ms),
        }),
    ];
    let rival = prop::option::of((1u64..10, 10u64..300, 10u64..300));
    let ecn = prop::sample::select(vec![Ecn::NotEct, Ecn::Ect0, Ecn::Ect1]);
    (1usize..4, 110u16..1500, pattern, 100u64..1500, rival, ecn).prop_map(
        |(directions, size, pattern, duration, rival, ecn)| Plan {
            up: directions & 1 != 0,
            down: directions & 2 != 0,
            size,
            pattern,
            duration: Span::from_millis(duration),
            rival: rival.map(|(interval, on, off)| OnOffStream {
                interval: Span::from_millis(interval),
                on: Span::from_millis(on),
                off: Span::from_millis(off),
            }),
            ecn,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Every session ends; what is recorded was sent, when it says, and is recorded once for each
    /// arrival; nothing is left behind.
    #[test]
    fn sessions_end_and_record_what_was_sent(
        plan in plan(), loss in 0.0..0.3, damage in 0.0..0.1, duplicate in 0.0..0.1,
        delay in 0.0..0.2, seed in any::<u64>(),
    ) {
        let faults = Faults { damage, duplicate, delay };
        let paths = [path(loss, seed), path(loss, seed ^ 1)];
        let mut world = World::new(plan, paths, faults, limits());
        world.run(Time::from_secs(100));
        prop_assert_eq!(world.prober.outcome(), Some(&Ok(())));
        world.prober_gone = true;
        let left = world.left.clone();
        world.run(world.now + Span::from_secs(100));
        prop_assert_eq!(world.responder.sessions(), 0);
        let recording = world.finish();
        prop_assert!(recording.complete);
        for (direction, way) in [&recording.up, &recording.down].into_iter().enumerate() {
            let sends = [plan.up, plan.down][direction];
            prop_assert!(sends || (way.arrivals.is_empty() && way.sent == [0, 0]));
            prop_assert_eq!(way.unrecorded, 0);
            prop_assert!(!sends || way.sent[0] >= 5, "{:?}", way.sent);
            prop_assert!(!sends || 4 * way.arrivals.len() as u64 >= way.sent[0] / 4);
            let times: HashSet<Time> = left[direction].iter().map(|(at, _)| *at).collect();
            for arrival in &way.arrivals {
                let ahead = if direction == 0 { Span::ZERO } else { AHEAD };
                prop_assert!(times.contains(&(arrival.sent_at - ahead)));
                prop_assert!(arrival.number < way.sent[usize::from(arrival.stream)]);
                // 15 ms, of which the record keeps whole microseconds.
                let delay = arrival.raw_delay() + if direction == 0 { -3 } else { 3 } * 1_000_000_000;
                prop_assert!(delay >= 14_999_000, "{delay}");
            }
        }
    }

    /// Garbage, also such that has a right header, neither panics nor ends a session.
    #[test]
    fn garbage_does_not_disturb_a_session(
        garbage in prop::collection::vec(
            (0usize..2, prop::collection::vec(any::<u8>(), 0..300), any::<bool>()), 0..50,
        ),
    ) {
        let plan = Plan {
            up: true, down: true, size: 500, pattern: Pattern::Every(Span::from_millis(5)),
            duration: Span::from_millis(300), rival: None, ecn: Ecn::NotEct,
        };
        let mut world = World::new(plan, [path(0.0, 1), path(0.0, 2)], Faults::default(), limits());
        for (direction, mut bytes, sealed) in garbage {
            world.run(world.now + Span::from_millis(20));
            if sealed && bytes.len() > 21 {
                bytes[0] = 64 + bytes[0] % 8;
                cellpace_udp::wire::seal(&mut bytes);
            }
            world.deliver(direction, &bytes);
        }
        world.run(Time::from_secs(60));
        prop_assert_eq!(world.prober.outcome(), Some(&Ok(())));
        let recording = world.finish();
        prop_assert_eq!((recording.up.arrivals.len(), recording.down.arrivals.len()), (60, 60));
    }
}

fn down(pattern: Pattern, seconds: u64) -> Plan {
    Plan {
        up: false,
        down: true,
        size: 1400,
        pattern,
        duration: Span::from_secs(seconds),
        rival: None,
        ecn: Ecn::NotEct,
    }
}

fn every_ms() -> Pattern {
    Pattern::Every(Span::from_millis(1))
}

#[test]
fn a_stream_stops_within_a_second_when_the_peer_vanishes() {
    let saturate =
        Pattern::Saturate { lower: Span::from_millis(100), upper: Span::from_millis(200) };
    for pattern in [every_ms(), saturate] {
        let paths = [path(0.0, 1), path(0.0, 2)];
        let mut world = World::new(down(pattern, 600), paths, Faults::default(), limits());
        world.run(Time::from_secs(3));
        let reported = world.now;
        world.prober_gone = true;
        world.run(Time::from_secs(120));
        let last = world.left[1].last().unwrap().0;
        assert!(last > reported && last - reported <= Span::from_secs(1), "{last:?}");
        assert_eq!(world.responder.sessions(), 0, "and it is forgotten");
    }
}

#[test]
fn a_stream_goes_on_after_an_outage() {
    let paths = [path(0.0, 1), path(0.0, 2)];
    let mut world = World::new(down(every_ms(), 10), paths, Faults::default(), limits());
    world.run(Time::from_secs(3));
    world.prober_gone = true;
    world.run(Time::from_secs(6));
    world.prober_gone = false;
    world.run(Time::from_secs(60));
    assert_eq!(world.prober.outcome(), Some(&Ok(())));
    let recording = world.finish();
    assert!(recording.complete);
    let after = recording.down.arrivals.iter().filter(|a| a.received_at > Time::from_secs(6));
    assert!(after.count() > 4000);
    assert!((1000..3500).contains(&recording.down.skipped), "{}", recording.down.skipped);
}

/// What a responder sends in answer to one datagram from `from`, and to whom.
fn answers(responder: &mut Responder, now: Time, from: u8, datagram: &[u8]) -> Vec<Vec<u8>> {
    responder.handle_datagram(now, address(from), 0.into(), Ecn::NotEct, datagram);
    let mut all = Vec::new();
    let mut out = Vec::new();
    while let Some(departure) = responder.poll_transmit(now, &mut out) {
        assert_eq!(departure.to, address(from));
        all.push(std::mem::take(&mut out));
    }
    all
}

fn responder(limits: ResponderLimits) -> Responder {
    let mut next = 100;
    Responder::new(limits, [7; 32], move || {
        next += 1;
        next
    })
}

fn hello(id: u64, cookie: &Cookie, plan: &Plan) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write_hello(&mut out, Ids { to: 0, from: id }, cookie, plan);
    cellpace_udp::wire::seal(&mut out);
    out
}

fn cookie_for(responder: &mut Responder, now: Time, from: u8, id: u64, plan: &Plan) -> Cookie {
    let replies = answers(responder, now, from, &hello(id, &Cookie::default(), plan));
    match wire::decode(&replies[0]).unwrap().1 {
        ProbePacket::Retry(cookie) => cookie,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_spoofed_source_gets_no_more_than_was_sent_and_nothing_is_kept() {
    let mut responder = responder(limits());
    let now = Time::from_secs(1);
    let plan = down(every_ms(), 60);
    for id in 1..200 {
        let hello = hello(id, &Cookie::default(), &plan);
        let replies = answers(&mut responder, now, 9, &hello);
        assert!(replies.iter().map(Vec::len).sum::<usize>() < hello.len());
        assert!(answers(&mut responder, now, 9, &hello[..1199]).is_empty(), "too short");
    }
    // Somebody else's cookie.
    let cookie = cookie_for(&mut responder, now, 9, 5, &plan);
    let replies = answers(&mut responder, now, 8, &hello(5, &cookie, &plan));
    assert!(matches!(wire::decode(&replies[0]), Some((_, ProbePacket::Retry(_)))));
    assert_eq!(responder.sessions(), 0);
    assert_eq!(responder.next_deadline(), None);
}

#[test]
fn no_stream_begins_before_both_ids_are_known() {
    let mut responder = responder(limits());
    let plan = down(every_ms(), 60);
    let now = Time::from_secs(1);
    let cookie = cookie_for(&mut responder, now, 9, 5, &plan);
    let accept = answers(&mut responder, now, 9, &hello(5, &cookie, &plan));
    let Some((Ids { to: 5, from: id }, ProbePacket::Accept)) = wire::decode(&accept[0]) else {
        panic!("{accept:?}")
    };
    // Not with the wrong ids, nor from elsewhere.
    for (from, ids) in [
        (9, Ids { to: id, from: 6 }),
        (9, Ids { to: id + 1, from: 5 }),
        (8, Ids { to: id, from: 5 }),
    ] {
        let mut report = Vec::new();
        wire::write_report(&mut report, ids, &ReportHead::default(), std::iter::empty());
        cellpace_udp::wire::seal(&mut report);
        assert!(answers(&mut responder, now, from, &report).is_empty());
    }
    for ms in 0..7000 {
        let now = now + Span::from_millis(ms);
        responder.on_timer(now);
        assert_eq!(responder.poll_transmit(now, &mut Vec::new()), None);
    }
    assert_eq!(responder.sessions(), 0, "never confirmed");
}

/// What somebody does who sends in the name of an address, and confirms nothing.
#[derive(Debug, Clone)]
enum StrangerOp {
    /// Sends a hello, with the last cookie or without one.
    Hello {
        id: u64,
        cookie: bool,
        plan: Plan,
    },
    /// Sends something of this type under these ids, with a checksum or tag that is right, filled up
    /// to so many bytes.
    Other {
        kind: u8,
        ids: Ids,
        content: Vec<u8>,
        bytes: usize,
    },
    /// Sends a datagram again.
    Again(prop::sample::Index),
    /// Sends bytes that mean nothing.
    Garbage(Vec<u8>),
    Wait(Span),
}

fn stranger_op() -> impl Strategy<Value = StrangerOp> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..60);
    let hello = (1_u64..4, any::<bool>(), plan(), prop::option::of(0_u16..9000)).prop_map(
        |(id, cookie, plan, size)| {
            let plan = Plan { size: size.unwrap_or(plan.size), ..plan };
            StrangerOp::Hello { id, cookie, plan }
        },
    );
    let length = prop_oneof![Just(0_usize), Just(1300)];
    // The ids that the responder draws are larger.
    let other = (64_u8..73, 0_u64..4, 0_u64..4, bytes(), length).prop_map(
        |(kind, to, from, content, bytes)| StrangerOp::Other {
            kind,
            ids: Ids { to, from },
            content,
            bytes,
        },
    );
    prop_oneof![
        6 => hello,
        3 => other,
        2 => any::<prop::sample::Index>().prop_map(StrangerOp::Again),
        1 => bytes().prop_map(StrangerOp::Garbage),
        2 => (0_u64..12_000).prop_map(|ms| StrangerOp::Wait(Span::from_millis(ms))),
    ]
}

proptest! {
    #[test]
    fn whoever_confirms_nothing_is_never_sent_more_than_came_in_their_name(
        key in prop::option::of(any::<[u8; 32]>()),
        ops in prop::collection::vec(stranger_op(), 1..60),
    ) {
        let protection = key.map_or_else(Protection::default, |key| wire::protection(&key));
        let mut responder = responder(limits()).protected(&protection);
        let mut guard = protection.guard(0);
        let (mut now, mut cookie) = (Time::from_secs(1), Cookie::default());
        let (mut sent, mut bytes_sent, mut bytes_got) = (Vec::<Vec<u8>>::new(), 0, 0);
        for op in &ops {
            let mut datagram = Vec::new();
            match op {
                StrangerOp::Hello { id, cookie: with, plan } => {
                    let cookie = if *with { cookie } else { Cookie::default() };
                    datagram = hello(*id, &cookie, plan);
                }
                StrangerOp::Other { kind, ids, content, bytes } => {
                    Writer::new(&mut datagram, *kind, *ids).bytes(content).pad(*bytes).end();
                }
                StrangerOp::Again(index) if !sent.is_empty() => datagram = index.get(&sent).clone(),
                StrangerOp::Garbage(bytes) => datagram.clone_from(bytes),
                StrangerOp::Wait(span) => {
                    now += *span;
                    responder.on_timer(now);
                }
                StrangerOp::Again(_) => {}
            }
            if matches!(op, StrangerOp::Hello { .. } | StrangerOp::Other { .. }) {
                let bytes = datagram.len();
                guard.seal(SenderSide::Initiator, &mut datagram, bytes);
            }
            bytes_sent += datagram.len();
            for answer in answers(&mut responder, now, 9, &datagram) {
                bytes_got += answer.len();
                let mut clear = Vec::new();
                let opened = guard.open(SenderSide::Responder, &answer, &mut clear);
                if let (_, ProbePacket::Retry(fresh)) = opened.and_then(wire::read).unwrap() {
                    cookie = fresh;
                }
            }
            sent.push(datagram);
            prop_assert!(bytes_got <= bytes_sent, "{bytes_got} bytes for {bytes_sent}");
        }
    }
}

#[test]
fn limits_are_kept_and_named() {
    let few = ResponderLimits {
        sessions: 1,
        rate: Rate::from_bps(10_000_000),
        duration: Span::from_secs(60),
        ..limits()
    };
    let mut responder = responder(few);
    let now = Time::from_secs(1);
    let mut ask = |id, plan: &Plan| {
        let cookie = cookie_for(&mut responder, now, 9, id, plan);
        let replies = answers(&mut responder, now, 9, &hello(id, &cookie, plan));
        match wire::decode(&replies[0]).unwrap().1 {
            ProbePacket::Refuse(why) => why.to_owned(),
            other => format!("{other:?}"),
        }
    };
    let slow = Pattern::Every(Span::from_millis(5));
    assert_eq!(ask(1, &down(every_ms(), 10)), "it sends 10mbit at most");
    assert_eq!(ask(2, &down(slow, 61)), "it allows 60s at most");
    assert_eq!(
        ask(3, &Plan { size: 20, ..down(slow, 1) }),
        "the size is not from 110 to 9000 bytes"
    );
    assert_eq!(
        ask(6, &Plan { ecn: Ecn::Ce, ..down(slow, 1) }),
        "probes leave as Not-ECT, ECT(0) or ECT(1), not as CE"
    );
    assert_eq!(ask(4, &down(slow, 10)), "Accept");
    assert_eq!(ask(4, &down(slow, 10)), "Accept", "the answer was lost");
    assert_eq!(ask(5, &down(slow, 10)), "it has 1 sessions already");
}

#[test]
fn one_address_does_not_take_all_sessions() {
    let mut responder = responder(limits());
    let now = Time::from_secs(1);
    let plan = down(Pattern::Every(Span::from_millis(5)), 10);
    let mut ask = |from, id| {
        let cookie = cookie_for(&mut responder, now, from, id, &plan);
        let replies = answers(&mut responder, now, from, &hello(id, &cookie, &plan));
        match wire::decode(&replies[0]).unwrap().1 {
            ProbePacket::Refuse(why) => why.to_owned(),
            other => format!("{other:?}"),
        }
    };
    assert_eq!((ask(9, 1), ask(9, 2)), ("Accept".into(), "Accept".into()));
    assert_eq!(ask(9, 3), "it has 2 sessions of this address already");
    assert_eq!((ask(8, 4), ask(7, 5)), ("Accept".into(), "Accept".into()));
    assert_eq!(ask(6, 6), "it has 4 sessions already");
}

#[test]
fn with_the_same_key_a_session_is_measured_and_with_another_there_is_no_answer() {
    let plan = Plan { up: true, ..down(every_ms(), 1) };
    let world = || World::new(plan, [path(0.05, 1), path(0.05, 2)], Faults::default(), limits());
    let key = |secret| wire::protection(&[secret; 32]);
    let mut same = world().protected(&key(1), &key(1));
    same.run(Time::from_secs(60));
    assert_eq!(same.prober.outcome(), Some(&Ok(())));
    // A probe's IP packet has the size that was asked for, key or not.
    for left in &same.left {
        assert_eq!(left.iter().map(|sent| sent.1 + 28).max(), Some(1400));
    }
    let recording = same.finish();
    assert!(recording.complete && recording.up.arrivals.len() > 900, "{recording:?}");
    let transfer = Protection::transfer(&[1; 32]);
    for other in [key(2), Protection::default(), transfer] {
        let mut world = world().protected(&key(1), &other);
        world.run(Time::from_secs(60));
        let Some(Err(error)) = world.prober.outcome() else { panic!("an answer") };
        assert_eq!(*error, ProbeError::NoAnswer(address(RESPONDER)));
        assert!(error.to_string().contains("is the key the same on both sides"), "{error}");
        assert!(world.left[1].is_empty() && world.responder.sessions() == 0);
    }
}

#[test]
fn a_far_side_that_reports_nonsense_is_an_error() {
    let plan = Plan { up: true, down: false, ..down(every_ms(), 10) };
    let mut world = World::new(plan, [path(0.0, 1), path(0.0, 2)], Faults::default(), limits());
    world.run(Time::from_secs(3));
    let ids = Ids { to: PROBER_ID, from: RESPONDER_ID };
    let years = ReportHead { sent_at: Time::from_nanos(1 << 60), ..ReportHead::default() };
    let mut report = Vec::new();
    wire::write_report(&mut report, ids, &years, std::iter::empty());
    cellpace_udp::wire::seal(&mut report);
    world.deliver(1, &report);
    let Some(Err(error)) = world.prober.outcome() else { panic!("taken") };
    assert!(error.to_string().contains("reports something impossible"), "{error}");
    let recording = world.finish();
    assert!(!recording.complete && recording.up.arrivals.len() > 2000);
    assert!(recording.up.clock.iter().all(|(_, raw)| raw.abs() < 4_000_000_000));
}

/// What each direction says of 3000 probes with this codepoint over paths with these impairments.
fn codepoints(ecn: Ecn, impair: [&str; 2]) -> [EcnFigures; 2] {
    let impaired = |impair: &str, seed| {
        let spec = PathSpec {
            delay: "15ms".parse().unwrap(),
            impair: impair.parse().unwrap(),
            ..PathSpec::default()
        };
        spec.build(seed).unwrap()
    };
    let plan = Plan { up: true, ecn, ..down(every_ms(), 3) };
    let paths = [impaired(impair[0], 1), impaired(impair[1], 2)];
    let mut world = World::new(plan, paths, Faults::default(), limits());
    world.run(Time::from_secs(60));
    assert_eq!(world.prober.outcome(), Some(&Ok(())));
    assert_eq!(world.left_capable, [3000, 3000], "probes, and nothing else");
    let document = analyse(&world.finish(), "model", "1");
    let found = [document.up.unwrap(), document.down.unwrap()];
    found.map(|direction| {
        assert_eq!((direction.sent, direction.arrived), (3000, 3000));
        direction.ecn.unwrap()
    })
}

#[test]
fn each_direction_tells_who_marks_and_who_bleaches() {
    let none = EcnFigures { sent_as: "ect1", not_ect: 0, ect0: 0, ect1: 0, ce: 0 };
    let [up, down] = codepoints(Ecn::Ect1, ["ecn=pass", "mark=10%"]);
    assert_eq!(up, EcnFigures { ect1: 3000, ..none });
    assert!((200..400).contains(&down.ce), "{down:?}");
    assert_eq!(down, EcnFigures { ect1: 3000 - down.ce, ce: down.ce, ..none });
    let [up, down] = codepoints(Ecn::Ect1, ["ecn=bleach", "ecn=ect1-to-ect0"]);
    assert_eq!(up, EcnFigures { not_ect: 3000, ..none });
    assert_eq!(down, EcnFigures { ect0: 3000, ..none });
    let [up, down] = codepoints(Ecn::Ect0, ["ecn=ce", "ecn=ect1-to-ect0"]);
    assert_eq!(up, EcnFigures { sent_as: "ect0", ce: 3000, ..none });
    assert_eq!(down, EcnFigures { sent_as: "ect0", ect0: 3000, ..none });
}

#[test]
fn a_far_side_that_counts_more_codepoints_than_arrivals_is_an_error() {
    let plan = Plan { up: true, down: false, ecn: Ecn::Ect1, ..down(every_ms(), 10) };
    let mut world = World::new(plan, [path(0.0, 1), path(0.0, 2)], Faults::default(), limits());
    world.run(Time::from_secs(3));
    let ecn = EcnCounts { ect0: 0, ect1: 100, ce: 1 };
    let sent_at = world.now + AHEAD;
    let head = ReportHead { sent_at, next_number: 100, arrived: 100, ecn, ..ReportHead::default() };
    let mut report = Vec::new();
    let ids = Ids { to: PROBER_ID, from: RESPONDER_ID };
    wire::write_report(&mut report, ids, &head, std::iter::empty());
    cellpace_udp::wire::seal(&mut report);
    world.deliver(1, &report);
    let Some(Err(error)) = world.prober.outcome() else { panic!("taken") };
    assert!(error.to_string().ends_with("more codepoints than arrivals"), "{error}");
}

#[test]
fn a_saturating_stream_keeps_below_the_highest_rate() {
    let few = ResponderLimits { rate: Rate::from_bps(5_000_000), ..limits() };
    let saturate = Pattern::Saturate { lower: Span::from_millis(500), upper: Span::from_secs(1) };
    let paths = [path(0.0, 1), path(0.0, 2)];
    let mut world = World::new(down(saturate, 5), paths, Faults::default(), few);
    world.run(Time::from_secs(60));
    let bytes = world.finish().down.arrivals.len() as u64 * 1400;
    assert!((3_000_000..3_250_000).contains(&bytes), "{bytes}");
}

#[test]
fn nobody_there_is_an_error_after_ten_seconds() {
    let now = Time::ZERO;
    let plan = down(every_ms(), 1);
    let mut prober = Prober::new(now, plan, address(RESPONDER), 0, 5, Span::ZERO);
    let mut hellos = 0;
    for ms in 0..10_002 {
        let now = now + Span::from_millis(ms);
        prober.on_timer(now);
        while prober.poll_transmit(now, &mut Vec::new()).is_some() {
            hellos += 1;
        }
    }
    assert_eq!(prober.outcome(), Some(&Err(ProbeError::NoAnswer(address(RESPONDER)))));
    assert_eq!(hellos, 41);
}

#[test]
fn a_responder_that_dies_is_an_error_and_what_was_recorded_stays() {
    let paths = [path(0.0, 1), path(0.0, 2)];
    let mut world = World::new(down(every_ms(), 10), paths, Faults::default(), limits());
    world.run(Time::from_secs(3));
    world.responder = responder(limits());
    world.run(Time::from_secs(60));
    let silent = ProbeError::Silent(address(RESPONDER));
    assert_eq!(world.prober.outcome(), Some(&Err(silent)));
    let recording = world.finish();
    assert!(!recording.complete && recording.down.arrivals.len() > 2000);
}

#[test]
fn stopping_keeps_what_was_recorded_and_tells_the_other_side() {
    let paths = [path(0.0, 1), path(0.0, 2)];
    let mut world = World::new(down(every_ms(), 10), paths, Faults::default(), limits());
    world.run(Time::from_secs(3));
    world.prober.stop();
    world.run(Time::from_secs(4));
    assert_eq!(world.prober.outcome(), Some(&Ok(())));
    world.prober_gone = true;
    world.run(Time::from_millis(3200));
    assert_eq!(world.responder.sessions(), 0);
    let recording = world.finish();
    assert!(!recording.complete && recording.down.arrivals.len() > 2000);
    assert_eq!(PROBER, 1);
}
