//! What a path, a peer and strangers can do to a transfer, in virtual time.

use crate::common::{
    Mischief, RECEIVER, SENDER, World, address, content, endpoint, patience, spec,
};
use cellpace_base::{Random, Span, Time};
use cellpace_udp::wire::{self, Hello, Ids, WirePacket};
use cellpace_udp::{
    AckPolicy, CloseCode, Endpoint, EndpointConfig, FlowError, FlowEvent, FlowRequest, Listen,
    Offer, UdpFlow,
};
use proptest::prelude::*;

const CONTROLLERS: [&str; 4] = ["verus", "cubic", "sprout", "fixed:cwnd=40pkts"];

fn world(mischief: Mischief) -> World {
    let mut world = World::new(1, &spec(), &EndpointConfig::default());
    world.mischief = mischief;
    world
}

fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

#[test]
fn a_file_arrives_at_the_rate_of_the_link() {
    for cc in CONTROLLERS {
        let mut world = world(Mischief::default());
        world.send(cc, content(1, 6_000_000));
        world.run_to_success(secs(60));
        let rate = 6_000_000.0 * 8.0 / world.now.as_secs_f64() / 1e6;
        println!("{cc}: {rate:.2} Mbit/s");
        // Of 12 Mbit/s, headers leave 11.6; the start takes its time.
        assert!(rate > 6.0, "{cc}: {rate} Mbit/s");
    }
}

#[test]
fn a_stream_can_be_cut_where_it_is() {
    let mut world = world(Mischief { loss: 0.02, ..Mischief::default() });
    let id = world.send("cubic", content(14, 5_000_000));
    world.run(secs(1));
    world.sides[SENDER].flow_mut(id).unwrap().cut();
    world.run_until(Time::from_secs(5), |world| !world.seen[SENDER].ended.is_empty());
    assert_eq!(world.seen[SENDER].ended.get(&id), Some(&Ok(())));
    let got = &world.received[0].1;
    assert!((100_000..2_000_000).contains(&got.len()), "{}", got.len());
    assert!(content(14, 5_000_000).starts_with(got));
}

#[test]
fn an_empty_file_and_one_byte_arrive() {
    for bytes in [0, 1, 1431, 1432] {
        let mut world = world(Mischief::default());
        world.send("cubic", content(1, bytes));
        world.run_to_success(secs(5));
    }
}

#[test]
fn thirty_percent_of_random_loss() {
    for cc in ["verus", "cubic", "fixed:cwnd=40pkts"] {
        let mut world = world(Mischief { loss: 0.3, ..Mischief::default() });
        world.send(cc, content(2, 300_000));
        world.run_to_success(secs(600));
    }
}

#[test]
fn reordering_duplication_corruption_and_truncation() {
    for (name, mischief) in [
        ("reorder", Mischief { reorder: 0.3, ..Mischief::default() }),
        ("duplicate", Mischief { duplicate: 0.3, ..Mischief::default() }),
        ("corrupt", Mischief { corrupt: 0.1, ..Mischief::default() }),
        ("truncate", Mischief { truncate: 0.1, ..Mischief::default() }),
    ] {
        let mut world = world(mischief);
        world.send("fixed:cwnd=40pkts", content(3, 1_000_000));
        world.run_to_success(secs(120));
        println!("{name}: {:?}", world.now);
    }
}

#[test]
fn delayed_acks_over_paths_good_and_bad() {
    let acks = AckPolicy::Delayed(Span::from_millis(40));
    let config = EndpointConfig { acks, ..EndpointConfig::default() };
    for (name, mischief) in [
        ("good", Mischief::default()),
        ("loss", Mischief { loss: 0.3, ..Mischief::default() }),
        ("reorder", Mischief { reorder: 0.3, ..Mischief::default() }),
        ("duplicate", Mischief { duplicate: 0.3, ..Mischief::default() }),
    ] {
        for cc in ["verus", "sprout", "fixed:cwnd=40pkts"] {
            let mut world = World::new(1, &spec(), &config);
            world.mischief = mischief.clone();
            world.send(cc, content(14, 300_000));
            world.run_to_success(secs(600));
            let flow = world.sides[RECEIVER].flow(world.received[0].0).unwrap();
            let stats = flow.incoming().unwrap();
            println!("{name}, {cc}: {:?}, {} acks", world.now, stats.acks);
            if name == "good" && cc != "sprout" {
                // One in two packets, the end, and here and there a lone one.
                let half = stats.packets / 2;
                assert!((half..half * 5 / 4).contains(&stats.acks), "{cc}: {stats:?}");
            }
        }
    }
}

#[test]
fn the_sender_sees_what_delayed_acks_do() {
    for (acks, cc, rtt_us) in [
        // 1 ms of serialisation each.
        ("every", "fixed:cwnd=1pkts", 41_000..41_100),
        ("delayed:40ms", "fixed:cwnd=1pkts", 81_000..81_100),
        ("delayed:150ms", "fixed:cwnd=1pkts", 191_000..191_100),
        ("every", "fixed:cwnd=2pkts", 41_000..41_100),
        // The first waits for the second, and nobody takes that away.
        ("delayed:40ms", "fixed:cwnd=2pkts", 42_000..42_100),
    ] {
        let config = EndpointConfig { acks: acks.parse().unwrap(), ..EndpointConfig::default() };
        let mut world = World::new(1, &spec(), &config);
        let id = world.send(cc, content(15, 1_000_000));
        world.run(secs(5));
        let stats = world.sides[SENDER].flow(id).unwrap().outgoing().unwrap();
        let us = stats.min_rtt.unwrap().as_nanos() / 1_000;
        assert!(rtt_us.contains(&us), "{acks}, {cc}: {us} us");
        assert_eq!(stats.timeouts, 0, "{acks}, {cc}");
    }
}

#[test]
fn a_receiver_says_that_it_delays_acks_and_a_sender_does_not() {
    let acks = AckPolicy::Delayed(Span::from_millis(40));
    for (controller, delayed) in [(None, true), (Some("cubic"), false)] {
        let mut side = endpoint(SENDER, EndpointConfig { acks, ..EndpointConfig::default() });
        let controller = controller.map(|cc| cc.parse().unwrap());
        let connect = FlowRequest { controller, unreliable: false };
        side.connect(Time::ZERO, address(RECEIVER), 0, &connect);
        let mut datagram = Vec::new();
        side.poll_transmit(Time::ZERO, &mut datagram).unwrap();
        let Some((_, WirePacket::Hello(hello))) = wire::decode(&datagram) else {
            panic!("no hello")
        };
        assert_eq!(hello.delayed_acks, delayed);
    }
}

#[test]
fn after_an_outage_of_twenty_seconds_it_goes_on() {
    for cc in CONTROLLERS {
        let outage = (Time::from_secs(1), Time::from_secs(21));
        let mut world = world(Mischief { outages: vec![outage], ..Mischief::default() });
        world.send(cc, content(4, 4_000_000));
        world.run_until(outage.1, |_| false);
        let before = world.received[0].1.len();
        assert!(before < 4_000_000 && world.seen[SENDER].ended.is_empty(), "{cc}: {before}");
        world.run_until(outage.1 + Span::from_millis(2_500), |_| false);
        assert!(world.received[0].1.len() > before, "{cc} has not resumed after 2.5 s");
        world.run_to_success(secs(80));
    }
}

#[test]
fn an_outage_right_after_the_answer_only_costs_time() {
    let mut world = world(Mischief::default());
    world.send("cubic", content(16, 50_000));
    world.run_until(Time::from_secs(1), |world| world.seen[SENDER].connected > 0);
    assert_eq!(world.seen[RECEIVER].connected, 0, "nothing has confirmed the flow");
    world.mischief.outages.push((world.now, world.now + secs(20)));
    world.run_to_success(secs(25));
}

#[test]
fn numbers_that_are_left_out_are_neither_lost_nor_acknowledged_at_once() {
    for acks in ["every", "delayed:40ms"] {
        let config = EndpointConfig { acks: acks.parse().unwrap(), ..EndpointConfig::default() };
        let mut world = World::new(1, &spec(), &config);
        let id = world.send("fixed:cwnd=40pkts", content(17, 5_000_000));
        world.run_to_success(secs(10));
        let sent = world.sides[SENDER].flow(id).unwrap().outgoing().unwrap();
        assert_eq!((sent.lost, sent.timeouts, sent.retransmissions), (0, 0, 0));
        let got = world.sides[RECEIVER].flow(world.received[0].0).unwrap().incoming().unwrap();
        assert_eq!((got.packets, got.next_number), (sent.packets, sent.packets));
        if acks != "every" {
            assert!(got.acks <= got.packets / 2 + 2, "{got:?}");
        }
    }
}

#[test]
fn a_receiver_that_never_comes_back_ends_the_sender_in_bounded_time() {
    let mut world = world(Mischief::default());
    let id = world.send("verus", content(5, 10_000_000));
    world.run(secs(2));
    world.mischief.outages.push((world.now, Time::MAX));
    let gone = world.now;
    world.run_until(Time::from_secs(1000), |world| !world.seen[SENDER].ended.is_empty());
    assert!(world.now <= gone + secs(31), "{:?}", world.now);
    let silent = Err(FlowError::Silent(secs(30)));
    assert_eq!(world.seen[SENDER].ended.get(&id), Some(&silent));
    // The receiver gives up as well.
    world.run_until(gone + secs(40), |_| false);
    assert_eq!(world.seen[RECEIVER].ended.values().next(), Some(&silent));
}

#[test]
fn a_sender_without_receiver_says_so_and_a_late_receiver_is_found() {
    let mut world = world(Mischief::default());
    world.sides[RECEIVER].stop_listening();
    let id = world.send("cubic", content(6, 50_000));
    world.run_until(Time::from_secs(100), |world| !world.seen[SENDER].ended.is_empty());
    let ended = world.seen[SENDER].ended.get(&id).unwrap();
    assert!(matches!(ended, Err(FlowError::NoAnswer(_))), "{ended:?}");
    assert!(world.bytes[SENDER] < 50 * 1300, "hellos are rare");

    let mut world = self::world(Mischief::default());
    world.sides[RECEIVER].stop_listening();
    world.send("cubic", content(6, 50_000));
    world.run(secs(10));
    world.sides[RECEIVER].listen(Listen {
        most_flows: 1,
        max_per_client: None,
        offer: Offer::Receive,
    });
    world.run_to_success(secs(13));
}

#[test]
fn a_receiver_that_does_not_read_stops_the_sender_and_holds_no_more_than_its_buffer() {
    let config = EndpointConfig { buffer: 200_000, ..EndpointConfig::default() };
    let mut world = World::new(1, &spec(), &config);
    world.send("fixed:cwnd=1MB", content(7, 2_000_000));
    world.run(secs(1));
    world.stalled = true;
    world.run(secs(100));
    let id = world.received[0].0;
    let flow = world.sides[RECEIVER].flow(id).unwrap();
    assert_eq!(flow.incoming().unwrap().refused, 0, "the window is never exceeded");
    assert!(flow.memory() <= 300_000, "{}", flow.memory());
    assert!(world.seen[SENDER].ended.is_empty(), "signs of life go on");
    world.stalled = false;
    world.run_to_success(secs(140));
}

#[test]
fn an_idle_flow_lives_and_costs_little() {
    let mut world = world(Mischief::default());
    let connect = FlowRequest { controller: Some("cubic".parse().unwrap()), unreliable: false };
    let id = world.sides[SENDER].connect(world.now, address(RECEIVER), 0, &connect);
    world.run(secs(2));
    let before = world.bytes;
    world.run(secs(600));
    let sent = world.bytes[SENDER] - before[SENDER];
    assert!(world.sides[SENDER].flow(id).is_some() && world.seen[SENDER].ended.is_empty());
    assert!((100 * 49..130 * 49).contains(&sent), "a ping each five seconds: {sent} bytes");
}

#[test]
fn two_hundred_flows_at_once() {
    let mut world = world(Mischief { loss: 0.01, ..Mischief::default() });
    for flow in 0..200 {
        world.send(CONTROLLERS[flow % 4], content(100 + flow as u64, 20_000));
    }
    world.run_to_success(secs(200));
    assert_eq!(world.seen[RECEIVER].connected, 200);
}

#[test]
fn packets_of_1280_bytes() {
    let config = EndpointConfig { mtu: 1280, ..EndpointConfig::default() };
    let mut world = World::new(1, &spec(), &config);
    let id = world.send("sprout", content(8, 300_000));
    world.run_to_success(secs(60));
    let stats = world.sides[SENDER].flow(id).unwrap().outgoing().unwrap();
    assert!(stats.ip_bytes / stats.packets <= 1280 && stats.packets > 240, "{stats:?}");
}

#[test]
fn storage_that_fails_at_the_receiver_ends_the_sender_with_the_reason() {
    let mut world = world(Mischief::default());
    let id = world.send("cubic", content(10, 5_000_000));
    world.run(secs(1));
    let (there, now) = (world.received[0].0, world.now);
    let flow = world.sides[RECEIVER].flow_mut(there).unwrap();
    flow.close(now, CloseCode::Storage, "cannot write: no space left");
    world.run(secs(1));
    let ended = world.seen[SENDER].ended.get(&id).unwrap();
    assert_eq!(*ended, Err(FlowError::Closed("cannot write: no space left".into())));
}

#[test]
fn an_outage_at_the_very_end_does_not_make_a_success_a_failure() {
    let mut world = world(Mischief::default());
    world.send("cubic", content(13, 200_000));
    world.run_until(Time::from_secs(5), |world| {
        world.received.first().is_some_and(|(_, bytes)| bytes.len() == 200_000)
    });
    // The receiver has everything; nothing that it sends arrives for twenty seconds.
    world.mischief.outages.push((world.now, world.now + secs(20)));
    world.run_to_success(secs(30));
    world.run(secs(2));
    let (there, _) = world.received[0];
    assert!(world.sides[RECEIVER].flow(there).unwrap().is_over(), "its close was answered");
}

#[test]
fn unreliable_flows_end_and_count_what_was_lost() {
    let mut world = world(Mischief { loss: 0.1, ..Mischief::default() });
    let connect =
        FlowRequest { controller: Some("fixed:cwnd=20pkts".parse().unwrap()), unreliable: true };
    let id = world.sides[SENDER].connect(world.now, address(RECEIVER), 0, &connect);
    world.sides[SENDER].flow_mut(id).unwrap().limit_to(1_000_000);
    world.run_until(Time::from_secs(60), |world| !world.seen[SENDER].ended.is_empty());
    assert_eq!(world.seen[SENDER].ended.get(&id), Some(&Ok(())));
    let sent = world.sides[SENDER].flow(id).unwrap().outgoing().unwrap();
    let got = world.sides[RECEIVER].flow(world.received[0].0).unwrap().incoming().unwrap();
    // All but the end carry data, and all of those but one are full.
    let full = (got.packets - 1) * 1431;
    assert!(got.bytes <= full && got.bytes > full - 1431, "{got:?}");
    let lost = 1.0 - got.packets as f64 / got.next_number as f64;
    assert!((0.06..0.14).contains(&lost), "{lost}");
    assert!(sent.retransmissions <= 3, "only the end is sent again");
}

#[test]
fn sender_waits_and_receiver_connects() {
    let mut sender = endpoint(SENDER, EndpointConfig::default());
    let mut receiver = endpoint(RECEIVER, EndpointConfig::default());
    let controllers = vec!["cubic".parse().unwrap(), "verus".parse().unwrap()];
    let offer = Offer::Send { controllers, unreliable: false, bytes: None, video: None };
    sender.listen(Listen { most_flows: 2, max_per_client: None, offer });
    let connect = FlowRequest { controller: None, unreliable: false };
    let ids: Vec<_> =
        (0..3).map(|_| receiver.connect(Time::ZERO, address(SENDER), 0, &connect)).collect();
    let mut events = Vec::new();
    for ms in 0..200 {
        let now = Time::from_millis(ms);
        exchange(now, &mut receiver, &mut sender);
        while let Some((id, event)) = sender.poll_event() {
            if event == FlowEvent::Connected(0) {
                let flow = sender.flow_mut(id).unwrap();
                flow.write(b"hello");
                flow.finish();
            }
        }
        while let Some(event) = receiver.poll_event() {
            events.push(event);
        }
    }
    let of = |id| events.iter().filter(move |(of, _)| *of == id).map(|(_, event)| event.clone());
    assert_eq!(of(ids[0]).next(), Some(FlowEvent::Connected(2)));
    assert_eq!(receiver.flow(ids[0]).unwrap().readable().0, b"hello");
    assert_eq!(receiver.flow(ids[1]).unwrap().readable().0, b"hello");
    // All three were accepted before the first two had confirmed.
    let closed = FlowEvent::Ended(Err(FlowError::Closed("it has 2 flows already".into())));
    assert_eq!(of(ids[2]).collect::<Vec<_>>(), [FlowEvent::Connected(2), closed]);
    let late = receiver.connect(Time::from_secs(1), address(SENDER), 0, &connect);
    exchange(Time::from_secs(1), &mut receiver, &mut sender);
    let refused = FlowEvent::Ended(Err(FlowError::Refused("it has 2 flows already".into())));
    assert_eq!(receiver.poll_event(), Some((late, refused)));
}

/// Lets two endpoints talk without any path. Endpoint `a` is the receiver of the addresses.
fn exchange(now: Time, a: &mut Endpoint, b: &mut Endpoint) {
    for _ in 0..20 {
        let mut datagram = Vec::new();
        while a.poll_transmit(now, &mut datagram).is_some() {
            b.handle_datagram(now, address(RECEIVER), 0, &std::mem::take(&mut datagram));
        }
        while b.poll_transmit(now, &mut datagram).is_some() {
            a.handle_datagram(now, address(SENDER), 0, &std::mem::take(&mut datagram));
        }
    }
    a.on_timer(now);
    b.on_timer(now);
}

mod strangers {
    use super::*;

    fn listening(most_flows: usize) -> Endpoint {
        let mut endpoint = endpoint(
            RECEIVER,
            EndpointConfig { patience: patience(5), ..EndpointConfig::default() },
        );
        endpoint.listen(Listen { most_flows, max_per_client: None, offer: Offer::Receive });
        endpoint
    }

    fn hello(cookie: wire::Cookie) -> Hello<'static> {
        Hello { cookie, mtu: 1500, controller: "cubic", ..Hello::default() }
    }

    fn answers(endpoint: &mut Endpoint, datagram: &[u8]) -> Vec<Vec<u8>> {
        endpoint.handle_datagram(Time::from_secs(1), address(SENDER), 0, datagram);
        let mut answers = Vec::new();
        let mut out = Vec::new();
        while endpoint.poll_transmit(Time::from_secs(1), &mut out).is_some() {
            answers.push(std::mem::take(&mut out));
        }
        answers
    }

    fn hello_bytes(id: u64, hello: &Hello<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::write_hello(&mut bytes, Ids { to: 0, from: id }, hello);
        wire::seal(&mut bytes);
        bytes
    }

    #[test]
    fn a_spoofed_source_gets_no_more_than_was_sent_in_its_name_and_nothing_is_kept() {
        let mut endpoint = listening(10);
        for id in 1..10_000 {
            let bytes = hello_bytes(id, &hello(wire::Cookie::default()));
            let got = answers(&mut endpoint, &bytes);
            assert!(got.iter().map(Vec::len).sum::<usize>() < bytes.len() / 10);
        }
        assert_eq!(endpoint.flows(), 0);
        let short = &hello_bytes(1, &hello(wire::Cookie::default()))[..100];
        assert!(answers(&mut endpoint, short).is_empty(), "damaged");
    }

    #[test]
    fn a_short_hello_gets_no_answer() {
        let mut endpoint = listening(10);
        let mut long = hello_bytes(1, &hello(wire::Cookie::default()));
        long.truncate(200);
        // Or it would not even be looked at.
        wire::seal(&mut long);
        assert!(wire::decode(&long).is_some());
        assert!(answers(&mut endpoint, &long).is_empty());
        assert_eq!(endpoint.strays().refused, 1);
    }

    #[test]
    fn another_version_is_told_which_one_is_spoken() {
        let mut endpoint = listening(10);
        let other = Hello { version: 77, ..hello(wire::Cookie::default()) };
        let got = answers(&mut endpoint, &hello_bytes(5, &other));
        let (ids, packet) = wire::decode(&got[0]).unwrap();
        assert_eq!((ids.to, packet), (5, WirePacket::Version(wire::VERSION)));
    }

    #[test]
    fn an_initiator_of_another_version_says_what_to_do() {
        let mut initiator = endpoint(SENDER, EndpointConfig::default());
        let connect = FlowRequest { controller: Some("cubic".parse().unwrap()), unreliable: false };
        let id = initiator.connect(Time::ZERO, address(RECEIVER), 0, &connect);
        let mut out = Vec::new();
        initiator.poll_transmit(Time::ZERO, &mut out).unwrap();
        let (ids, _) = wire::decode(&out).unwrap();
        let mut version = Vec::new();
        wire::write_version(&mut version, Ids { to: ids.from, from: 0 }, 9);
        wire::seal(&mut version);
        initiator.handle_datagram(Time::ZERO, address(RECEIVER), 0, &version);
        initiator.poll_transmit(Time::ZERO, &mut out);
        let (ended, event) = initiator.poll_event().unwrap();
        assert_eq!((ended, event), (id, FlowEvent::Ended(Err(FlowError::Version(9)))));
        let text = FlowError::Version(9).to_string();
        assert!(text.contains("version 9") && text.contains("same cellpace"), "{text}");
    }

    #[test]
    fn flows_are_limited_and_those_that_are_silent_make_room_again() {
        let mut endpoint = listening(3);
        for id in 1..=4 {
            let got = answers(&mut endpoint, &hello_bytes(id, &hello(wire::Cookie::default())));
            let Some((_, WirePacket::Retry(cookie))) = wire::decode(&got[0]) else {
                panic!("no cookie")
            };
            let got = answers(&mut endpoint, &hello_bytes(id, &hello(cookie)));
            match wire::decode(&got[0]).unwrap() {
                (ids, WirePacket::Accept(_)) => {
                    assert!(id <= 3);
                    let mut ping = Vec::new();
                    wire::write_ping(&mut ping, Ids { to: ids.from, from: id });
                    wire::seal(&mut ping);
                    answers(&mut endpoint, &ping);
                }
                (_, WirePacket::Refuse(CloseCode::Busy, _)) => assert_eq!(id, 4),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(endpoint.flows(), 3);
        while endpoint.poll_event().is_some() {}
        endpoint.on_timer(Time::from_secs(7));
        endpoint.poll_transmit(Time::from_secs(7), &mut Vec::new());
        let mut ended = 0;
        while let Some((id, event)) = endpoint.poll_event() {
            assert!(matches!(event, FlowEvent::Ended(Err(FlowError::Silent(_)))));
            endpoint.forget(id);
            ended += 1;
        }
        assert_eq!((ended, endpoint.flows()), (3, 0));
    }

    #[test]
    fn whoever_does_not_know_both_ids_can_neither_end_nor_feed_a_flow() {
        let mut world = world(Mischief::default());
        let id = world.send("cubic", content(11, 500_000));
        world.run(Span::from_millis(200));
        // On the path the ids can be seen; a stranger may know one of them.
        let mut out = Vec::new();
        world.sides[SENDER].flow_mut(id).unwrap().flush();
        let mut spy = None;
        while spy.is_none() {
            world.step(Time::from_secs(5));
            let now = world.now;
            if world.sides[SENDER].poll_transmit(now, &mut out).is_some() {
                spy = Some(wire::decode(&out).unwrap().0);
            }
        }
        let Ids { to: receiver, from: sender } = spy.unwrap();
        for (from, ids) in [
            (address(SENDER), Ids { to: receiver, from: 4711 }),
            (address(SENDER), Ids { to: 4711, from: sender }),
            (address(SENDER), Ids { to: receiver, from: 0 }),
            ("203.0.113.9:9".parse().unwrap(), Ids { to: receiver, from: sender }),
        ] {
            let mut close = Vec::new();
            wire::write_close(&mut close, ids, CloseCode::Stopped, "");
            wire::seal(&mut close);
            let unknown = world.sides[RECEIVER].strays().unknown;
            let now = world.now;
            world.sides[RECEIVER].handle_datagram(now, from, 0, &close);
            assert_eq!(world.sides[RECEIVER].strays().unknown, unknown + 1);
        }
        world.run_to_success(secs(30));
    }

    #[test]
    fn garbage_is_counted_and_changes_nothing() {
        let mut world = world(Mischief::default());
        world.send("cubic", content(12, 500_000));
        let mut random = Random::seeded(1, 1);
        while world.seen[SENDER].ended.is_empty() {
            assert!(world.step(Time::from_secs(30)));
            let garbage: Vec<u8> = (0..random.below(100)).map(|_| random.bits() as u8).collect();
            let now = world.now;
            for side in [SENDER, RECEIVER] {
                world.sides[side].handle_datagram(now, address(1 - side), 0, &garbage);
            }
        }
        world.run_to_success(secs(30));
        assert!(world.sides[RECEIVER].strays().garbage > 100);
    }
}

proptest! {
    // Each case is a whole run.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    /// Whatever the wire does: every byte arrives once and in order, the window is respected, and
    /// memory is bounded.
    #[test]
    fn every_byte_arrives_once_and_in_order(
        seed in 0u64..1000,
        loss in 0.0f64..0.25,
        duplicate in 0.0f64..0.3,
        corrupt in 0.0f64..0.1,
        truncate in 0.0f64..0.1,
        reorder in 0.0f64..0.5,
        outage in (0u64..2000, 0u64..4000),
        buffer in 64_000u64..400_000,
        cc in 0usize..4,
        files in prop::collection::vec(0usize..150_000, 1..4),
    ) {
        let config = EndpointConfig { buffer, ..EndpointConfig::default() };
        let mut world = World::new(seed, &spec(), &config);
        let outages = vec![(
            Time::from_millis(outage.0),
            Time::from_millis(outage.0 + outage.1),
        )];
        world.mischief = Mischief { loss, duplicate, corrupt, truncate, reorder, outages };
        for (index, bytes) in files.iter().enumerate() {
            world.send(CONTROLLERS[(cc + index) % 4], content(index as u64, *bytes));
        }
        world.run_to_success(secs(3000));
        prop_assert!(world.memory <= 2 * buffer as usize + (1 << 18), "{}", world.memory);
        for (id, _) in &world.received {
            let stats = world.sides[RECEIVER].flow(*id).and_then(UdpFlow::incoming);
            prop_assert!(stats.is_none_or(|stats| stats.refused == 0), "{stats:?}");
        }
    }
}
