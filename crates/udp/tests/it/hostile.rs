//! Peers that have an address of their own, know the protocol and mean harm.

use std::net::SocketAddr;

use crate::common;
use crate::common::{RECEIVER, endpoint};
use cellpace_base::{Ecn, Time};
use cellpace_udp::wire::{self, AckEntry, AckHead, Cookie, Hello, Ids, Numbered, WirePacket};
use cellpace_udp::{
    CloseCode, Endpoint, EndpointConfig, FlowError, FlowEvent, FlowId, Listen, Offer,
};

fn receiver(config: EndpointConfig) -> Endpoint {
    let mut endpoint = endpoint(RECEIVER, config);
    endpoint.listen(Listen { most_flows: 256, max_per_client: None, offer: Offer::Receive });
    endpoint
}

fn sender(controllers: &[&str]) -> Endpoint {
    let mut endpoint = endpoint(RECEIVER, EndpointConfig::default());
    let controllers: Vec<_> = controllers.iter().map(|cc| cc.parse().unwrap()).collect();
    let most_flows = controllers.len();
    let offer = Offer::Send { controllers, unreliable: false, bytes: None, video: None };
    endpoint.listen(Listen { most_flows, max_per_client: None, offer });
    endpoint
}

/// What an endpoint answers to a datagram.
fn answers(endpoint: &mut Endpoint, now: Time, from: SocketAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
    endpoint.handle_datagram(now, from, 0, datagram);
    let mut answers = Vec::new();
    let mut out = Vec::new();
    while endpoint.poll_transmit(now, &mut out).is_some() {
        answers.push(std::mem::take(&mut out));
    }
    answers
}

/// Somebody at an address.
#[derive(Clone, Copy)]
struct Peer {
    at: SocketAddr,
    ids: Ids,
}

/// What became of a hello.
#[derive(Debug, PartialEq)]
enum Greeting {
    Accepted,
    Refused(CloseCode, String),
    Unanswered,
}

impl Peer {
    /// Peer number `id`, at one of the addresses that a network has.
    fn new(host: &str, id: u64) -> Self {
        let at = SocketAddr::new(host.parse().unwrap(), 1000 + id as u16);
        Self { at, ids: Ids { to: 0, from: id } }
    }

    /// Sends a hello, with the cookie that it receives.
    fn hello(&mut self, endpoint: &mut Endpoint, now: Time, hello: Hello<'_>) -> Greeting {
        let mut bytes = Vec::new();
        wire::write_hello(&mut bytes, self.ids, &hello);
        wire::seal(&mut bytes);
        let got = answers(endpoint, now, self.at, &bytes);
        let Some((_, WirePacket::Retry(cookie))) = wire::decode(&got[0]) else {
            panic!("no cookie")
        };
        bytes.clear();
        wire::write_hello(&mut bytes, Ids { to: 0, ..self.ids }, &Hello { cookie, ..hello });
        wire::seal(&mut bytes);
        let got = answers(endpoint, now, self.at, &bytes);
        match got.first().map(|got| wire::decode(got).unwrap()) {
            Some((ids, WirePacket::Accept(_))) => {
                self.ids.to = ids.from;
                Greeting::Accepted
            }
            Some((_, WirePacket::Refuse(code, reason))) => {
                Greeting::Refused(code, reason.to_owned())
            }
            None => Greeting::Unanswered,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a datagram, with its checksum.
    fn send(&self, endpoint: &mut Endpoint, now: Time, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut sealed = datagram.to_vec();
        wire::seal(&mut sealed);
        answers(endpoint, now, self.at, &sealed)
    }

    /// Shows that it is the one that was answered.
    fn confirm(&self, endpoint: &mut Endpoint, now: Time) -> Vec<Vec<u8>> {
        let mut ping = Vec::new();
        wire::write_ping(&mut ping, self.ids);
        self.send(endpoint, now, &ping)
    }

    fn data(&self, endpoint: &mut Endpoint, now: Time, number: u64, offset: u64, bytes: usize) {
        let numbered = Numbered { number, matters: u32::MAX >> 1, stamp: None };
        let mut datagram = Vec::new();
        wire::write_data(&mut datagram, self.ids, numbered, offset, (&vec![7; bytes], &[]));
        self.send(endpoint, now, &datagram);
    }

    /// Begins a flow and confirms it.
    fn begin(host: &str, id: u64, endpoint: &mut Endpoint, now: Time) -> Self {
        let mut peer = Self::new(host, id);
        assert_eq!(peer.hello(endpoint, now, sending("cubic")), Greeting::Accepted, "{host} {id}");
        peer.confirm(endpoint, now);
        peer
    }
}

fn sending(controller: &str) -> Hello<'_> {
    Hello { cookie: Cookie::default(), mtu: 1500, controller, ..Hello::default() }
}

fn receiving() -> Hello<'static> {
    Hello { reverse: true, mtu: 1500, window: 1 << 40, ..Hello::default() }
}

fn events(endpoint: &mut Endpoint) -> Vec<(FlowId, FlowEvent)> {
    std::iter::from_fn(|| endpoint.poll_event()).collect()
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

const HOST: &str = "203.0.113.7";
const OTHER: &str = "203.0.113.8";

mod receiver_halves {
    use super::*;

    #[test]
    fn a_receiver_half_is_of_ordinary_size_or_refused_with_the_reason() {
        let mut endpoint = receiver(EndpointConfig::default());
        for (id, (controller, reason)) in [
            ("sprout:max_rate=16000,tick=100ms,sigma=10000,joint=true", "max_rate=16000 should be"),
            ("sprout:sigma=10000", "sigma=10000 should be 400 or less"),
            ("sprout:tick=5ms", "tick=5ms should be 20ms or more"),
        ]
        .into_iter()
        .enumerate()
        {
            let mut peer = Peer::new(HOST, 1 + id as u64);
            let greeting = peer.hello(&mut endpoint, ms(1), sending(controller));
            let Greeting::Refused(CloseCode::Unsupported, text) = greeting else {
                panic!("{controller}: {greeting:?}")
            };
            assert!(text.contains("receiver half") && text.contains(reason), "{text}");
        }
        for (id, controller) in
            ["sprout", "sprout:confidence=25%", "sprout:max_rate=auto"].into_iter().enumerate()
        {
            let mut peer = Peer::new(HOST, 10 + id as u64);
            let greeting = peer.hello(&mut endpoint, ms(1), sending(controller));
            assert_eq!(greeting, Greeting::Accepted, "{controller}");
            peer.confirm(&mut endpoint, ms(1));
        }
        assert_eq!(endpoint.flows(), 3);
    }

    #[test]
    fn strangers_have_new_tables_computed_four_times_a_second_at_most() {
        let mut endpoint = receiver(EndpointConfig::default());
        let mut id = 0;
        let mut greet = |now, controller: &str| {
            id += 1;
            Peer::new(HOST, id).hello(&mut endpoint, now, sending(controller))
        };
        assert_eq!(greet(ms(1), "sprout:sigma=111.5"), Greeting::Accepted);
        for at in [1, 100, 250] {
            assert_eq!(greet(ms(at), "sprout:sigma=112.5"), Greeting::Unanswered, "{at} ms");
            assert_eq!(greet(ms(at), "sprout"), Greeting::Accepted, "the tables that all have");
            assert_eq!(greet(ms(at), "cubic"), Greeting::Accepted, "no tables");
        }
        assert_eq!(greet(ms(251), "sprout:sigma=112.5"), Greeting::Accepted);
    }

    /// The sender of `recv HOST` is no better known.
    #[test]
    fn a_sender_that_waits_gets_no_larger_half() {
        let mut initiator = endpoint(common::SENDER, EndpointConfig::default());
        let connect = cellpace_udp::FlowRequest { controller: None, unreliable: false };
        let there: SocketAddr = "203.0.113.7:9".parse().unwrap();
        initiator.connect(ms(1), there, 0, &connect);
        let mut out = Vec::new();
        initiator.poll_transmit(ms(1), &mut out).unwrap();
        let (Ids { from, .. }, _) = wire::decode(&out).unwrap();
        let accept = wire::AcceptPacket {
            unreliable: false,
            delayed_acks: false,
            ecn: false,
            mtu: 1500,
            window: 0,
            flows: 1,
            controller: "sprout:max_rate=16000,tick=100ms",
        };
        out.clear();
        wire::write_accept(&mut out, Ids { to: from, from: 4711 }, &accept);
        wire::seal(&mut out);
        answers(&mut initiator, ms(2), there, &out);
        let events = events(&mut initiator);
        let [(_, FlowEvent::Ended(Err(FlowError::Refused(reason))))] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(reason.contains("max_rate=16000 should be 2000 or less"), "{reason}");
    }
}

mod memory {
    use super::*;

    /// A page, and what it takes to know where it is.
    const PAGE: u64 = 16 << 10;

    #[test]
    fn datagrams_at_the_end_of_the_window_take_a_page_each() {
        let mut endpoint = receiver(EndpointConfig::default());
        for id in 1..=64 {
            let peer = Peer::begin(HOST, id, &mut endpoint, ms(1));
            peer.data(&mut endpoint, ms(2), 0, (1 << 20) - 1400, 1400);
            peer.data(&mut endpoint, ms(2), 1, 16_000_000 - 1400, 1400);
        }
        assert_eq!(endpoint.memory(), 64 * PAGE);
        let flows: Vec<_> = events(&mut endpoint).into_iter().map(|(id, _)| id).collect();
        let most = flows.iter().map(|id| endpoint.flow(*id).unwrap().memory()).max();
        assert!(most.unwrap() < 2 * PAGE as usize, "{most:?}");
    }

    #[test]
    fn one_budget_for_all_and_a_quarter_for_an_address_and_what_comes_in_order_goes_on() {
        let config =
            EndpointConfig { memory: 64 * PAGE, buffer: 16 * PAGE, ..EndpointConfig::default() };
        let mut endpoint = receiver(config);
        let now = ms(1);
        // One address takes its quarter, in two flows.
        let first = Peer::begin(HOST, 1, &mut endpoint, now);
        let second = Peer::begin(HOST, 2, &mut endpoint, now);
        (1..16).for_each(|page| first.data(&mut endpoint, now, page, page * PAGE, 1));
        (1..16).for_each(|page| second.data(&mut endpoint, now, page, page * PAGE, 1));
        assert_eq!(endpoint.memory(), 16 * PAGE);
        // Others take all of it.
        for host in 1..10 {
            let peer = Peer::begin(&format!("203.0.113.{}", 100 + host), 1, &mut endpoint, now);
            (1..16).for_each(|page| peer.data(&mut endpoint, now, page, page * PAGE, 1));
        }
        assert_eq!(endpoint.memory(), 64 * PAGE);
        // A flow that is in order goes on.
        let honest = Peer::begin(OTHER, 1, &mut endpoint, now);
        let (id, _) = events(&mut endpoint).pop().unwrap();
        for number in 0..1000 {
            honest.data(&mut endpoint, now, number, number * 1000, 1000);
            let flow = endpoint.flow_mut(id).unwrap();
            assert_eq!(flow.readable().0.len() + flow.readable().1.len(), 1000, "{number}");
            flow.consume(1000);
        }
        assert!(endpoint.memory() <= 66 * PAGE);
    }

    #[test]
    fn a_flow_that_is_over_holds_nothing_even_before_it_is_forgotten() {
        let mut endpoint = receiver(EndpointConfig::default());
        let peer = Peer::begin(HOST, 1, &mut endpoint, ms(1));
        let own = Peer::begin(HOST, 2, &mut endpoint, ms(1));
        let ids: Vec<_> = events(&mut endpoint).into_iter().map(|(id, _)| id).collect();
        for number in 0..100 {
            peer.data(&mut endpoint, ms(2), number, number * 1000, 1000);
            own.data(&mut endpoint, ms(2), number, number * 1000, 1000);
        }
        assert!(endpoint.memory() >= 200_000);
        let mut close = Vec::new();
        wire::write_close(&mut close, peer.ids, CloseCode::Stopped, "bye");
        peer.send(&mut endpoint, ms(3), &close);
        endpoint.flow_mut(ids[1]).unwrap().close(ms(3), CloseCode::Storage, "disk full");
        assert_eq!((endpoint.memory(), endpoint.flows()), (0, 2));
    }

    #[test]
    fn a_stream_with_too_many_holes_goes_on_where_it_is() {
        let mut endpoint = receiver(EndpointConfig::default());
        let peer = Peer::begin(HOST, 1, &mut endpoint, ms(1));
        let (id, _) = events(&mut endpoint).pop().unwrap();
        for number in 0..8300 {
            peer.data(&mut endpoint, ms(2), number, 1 + 20 * number, 10);
        }
        let stats = endpoint.flow(id).unwrap().incoming().unwrap();
        assert_eq!((stats.packets, stats.refused), (8192, 108));
        peer.data(&mut endpoint, ms(3), 10_000, 0, 1);
        let flow = endpoint.flow_mut(id).unwrap();
        assert_eq!(flow.readable().0.len(), 11, "the first hole is filled");
    }
}

mod places {
    use super::*;

    #[test]
    fn one_address_has_64_flows_of_256_and_others_have_room() {
        let mut endpoint = receiver(EndpointConfig::default());
        for id in 1..=64 {
            Peer::begin(HOST, id, &mut endpoint, ms(1));
            Peer::begin("2001:db8::1", id, &mut endpoint, ms(1));
        }
        for host in [HOST, "::ffff:203.0.113.7", "2001:db8::2:3"] {
            let greeting = Peer::new(host, 100).hello(&mut endpoint, ms(1), sending("cubic"));
            let reason = "it has 64 flows of this address already".to_owned();
            assert_eq!(greeting, Greeting::Refused(CloseCode::Busy, reason), "{host}");
        }
        Peer::begin(OTHER, 1, &mut endpoint, ms(1));
        Peer::begin("2001:db8:0:1::1", 1, &mut endpoint, ms(1));
        assert_eq!(endpoint.flows(), 130);
        // Flows that are over make room.
        let (id, _) = events(&mut endpoint).remove(0);
        endpoint.forget(id);
        Peer::begin(HOST, 101, &mut endpoint, ms(1));
    }

    #[test]
    fn a_limit_per_address_can_be_given() {
        let mut endpoint = endpoint(RECEIVER, EndpointConfig::default());
        endpoint.listen(Listen { most_flows: 256, max_per_client: Some(2), offer: Offer::Receive });
        for id in 1..=2 {
            Peer::begin(HOST, id, &mut endpoint, ms(1));
        }
        let greeting = Peer::new(HOST, 3).hello(&mut endpoint, ms(1), sending("cubic"));
        assert!(matches!(greeting, Greeting::Refused(CloseCode::Busy, _)), "{greeting:?}");
        Peer::begin(OTHER, 1, &mut endpoint, ms(1));
    }

    #[test]
    fn who_never_confirms_keeps_nobody_out_and_costs_no_flow() {
        let mut endpoint = receiver(EndpointConfig::default());
        let mut accepted = 0;
        for id in 1..=256 {
            let greeting = Peer::new(HOST, id).hello(&mut endpoint, ms(1), sending("cubic"));
            accepted += u32::from(greeting == Greeting::Accepted);
        }
        assert_eq!((accepted, endpoint.flows()), (64, 0));
        Peer::begin(OTHER, 1, &mut endpoint, ms(1));
        // At the same address, after three seconds.
        let greet = |endpoint: &mut Endpoint, now| {
            Peer::new(HOST, 1000).hello(endpoint, now, sending("cubic"))
        };
        assert_eq!(greet(&mut endpoint, ms(3000)), Greeting::Unanswered);
        assert_eq!(greet(&mut endpoint, ms(3001)), Greeting::Accepted);
        assert_eq!(events(&mut endpoint).len(), 1, "no event for the others");
    }

    #[test]
    fn an_offer_is_for_who_confirms_first() {
        let mut endpoint = sender(&["cubic", "verus"]);
        let mut peers: Vec<_> = (1..=20).map(|id| Peer::new(HOST, id)).collect();
        for peer in &mut peers {
            assert_eq!(peer.hello(&mut endpoint, ms(1), receiving()), Greeting::Accepted);
        }
        for id in 1..=2 {
            let mut peer = Peer::new(OTHER, id);
            assert_eq!(peer.hello(&mut endpoint, ms(5), receiving()), Greeting::Accepted);
            peer.confirm(&mut endpoint, ms(6));
        }
        let begun = events(&mut endpoint);
        assert!(
            begun.iter().all(|(_, event)| *event == FlowEvent::Connected(0)) && begun.len() == 2
        );
        // An initiator that confirms now is refused.
        let got = peers[0].confirm(&mut endpoint, ms(7));
        let Some((_, WirePacket::Close(CloseCode::Busy, reason))) = wire::decode(&got[0]) else {
            panic!("{got:?}")
        };
        assert_eq!((reason, endpoint.flows()), ("it has 2 flows already", 2));
        let late = Peer::new(OTHER, 9).hello(&mut endpoint, ms(8), receiving());
        assert!(matches!(late, Greeting::Refused(CloseCode::Busy, _)), "{late:?}");
    }

    #[test]
    fn a_repeated_hello_gets_the_same_answer_before_and_none_after_it_is_confirmed() {
        let mut endpoint = receiver(EndpointConfig::default());
        let mut peer = Peer::new(HOST, 1);
        assert_eq!(peer.hello(&mut endpoint, ms(1), sending("cubic")), Greeting::Accepted);
        let first = peer.ids;
        let mut again = Peer::new(HOST, 1);
        assert_eq!(again.hello(&mut endpoint, ms(2), sending("cubic")), Greeting::Accepted);
        assert_eq!(again.ids, first);
        peer.confirm(&mut endpoint, ms(3));
        assert_eq!(again.hello(&mut endpoint, ms(4), sending("cubic")), Greeting::Unanswered);
        assert_eq!(endpoint.flows(), 1);
    }
}

mod acks {
    use super::*;

    /// Takes part in a flow as its receiver: `judge` is given the numbers that arrived and returns
    /// what is acknowledged, as arrivals and as the end of a range from 0 on. Returns how many
    /// packets left and how the flow ended.
    fn receive(mut judge: impl FnMut(&[u64]) -> (Vec<u64>, u64)) -> (u64, Option<FlowEvent>) {
        let mut endpoint = sender(&["cubic"]);
        let mut peer = Peer::new(HOST, 1);
        assert_eq!(peer.hello(&mut endpoint, ms(1), receiving()), Greeting::Accepted);
        let mut got = peer.confirm(&mut endpoint, ms(1));
        let (id, _) = events(&mut endpoint).pop().unwrap();
        let (mut position, mut sequence) = (0, 0);
        for round in 1..100 {
            let now = ms(1 + 20 * round);
            if let Some(flow) = endpoint.flow_mut(id) {
                flow.write(&[7; 1 << 20]);
            }
            let mut out = Vec::new();
            while endpoint.poll_transmit(now, &mut out).is_some() {
                got.push(std::mem::take(&mut out));
            }
            let ended = events(&mut endpoint).pop();
            let sent = endpoint.flow(id).unwrap().outgoing().unwrap().packets;
            if ended.is_some() || sent > 20_000 {
                return (sent, ended.map(|(_, event)| event));
            }
            let numbers: Vec<u64> = got.drain(..).filter_map(|bytes| number(&bytes)).collect();
            let (arrived, until) = judge(&numbers);
            let entries = arrived.iter().map(|number| AckEntry {
                number: *number,
                received_at: now,
                ecn: Ecn::NotEct,
            });
            let (window, report) = (1 << 40, &[]);
            let head = AckHead { sequence, window, position, held_us: 0, report, ecn: None };
            let range = Some(0..until).filter(|range| !range.is_empty());
            let mut ack = Vec::new();
            let (_, count) =
                wire::write_ack(&mut ack, peer.ids, 60_000, &head, entries, range.iter());
            position += count;
            sequence += 1;
            got = peer.send(&mut endpoint, now, &ack);
        }
        let sent = endpoint.flow(id).map_or(0, |flow| flow.outgoing().unwrap().packets);
        (sent, events(&mut endpoint).pop().map(|(_, event)| event))
    }

    fn number(datagram: &[u8]) -> Option<u64> {
        match wire::decode(datagram)?.1 {
            WirePacket::Data(numbered, ..) => Some(numbered.number),
            _ => None,
        }
    }

    fn is_caught(outcome: (u64, Option<FlowEvent>), most: u64) {
        let (sent, event) = outcome;
        assert_eq!(event, Some(FlowEvent::Ended(Err(FlowError::FalseAcks))));
        assert!(sent <= most, "{sent} packets");
    }

    #[test]
    fn a_receiver_that_tells_the_truth_is_believed() {
        let (sent, event) = receive(|numbers| (numbers.to_vec(), 0));
        assert!(sent > 5_000 && event.is_none(), "{sent} {event:?}");
    }

    #[test]
    fn acks_of_everything_ahead_end_the_flow() {
        let mut round = 0;
        let outcome = receive(|_| {
            round += 1;
            (vec![1_000_000 + round], 1 << 40)
        });
        is_caught(outcome, 10);
    }

    #[test]
    fn who_receives_a_tenth_and_acknowledges_all_of_it_is_caught() {
        // It does not see the numbers that are left out, as it does not see what is behind them.
        let mut next = 0;
        let outcome = receive(|numbers| {
            let seen = numbers.iter().step_by(10).copied().max().unwrap_or(next);
            let arrived = (next..=seen).collect();
            next = seen + 1;
            (arrived, 0)
        });
        is_caught(outcome, 2_000);
    }

    #[test]
    fn who_acknowledges_one_number_ahead_is_caught() {
        let mut acked = 0;
        let outcome = receive(|numbers| {
            let ahead = numbers.iter().max().map_or(acked, |newest| newest + 1);
            let arrived = (acked..=ahead).collect();
            acked = ahead + 1;
            (arrived, 0)
        });
        is_caught(outcome, 2_000);
    }
}

mod marks {
    use super::*;

    use cellpace_cc::Event;
    use cellpace_udp::wire::EcnCounts;
    use cellpace_udp::{EcnFailure, EcnState};

    /// Takes part in a flow under Prague as its receiver, which counts so many packets as ECT(1),
    /// ack by ack; without counts it is one that knows nothing of ECN. Returns what the sender
    /// thinks of the path, how often its controller was told, and with what its data left.
    fn receive(ect1: &[u64]) -> (EcnState, usize, Vec<Ecn>) {
        let mut endpoint = sender(&["prague"]);
        let mut peer = Peer::new(HOST, 1);
        let hello = Hello { ecn: !ect1.is_empty(), ..receiving() };
        assert_eq!(peer.hello(&mut endpoint, ms(1), hello), Greeting::Accepted);
        peer.confirm(&mut endpoint, ms(1));
        let (id, _) = events(&mut endpoint).pop().unwrap();
        let mut left = Vec::new();
        for round in 0..5_u64 {
            let now = ms(20 * (1 + round));
            endpoint.flow_mut(id).unwrap().write(&[7; 1 << 16]);
            let mut out = Vec::new();
            while let Some(datagram) = endpoint.poll_transmit(now, &mut out) {
                if matches!(wire::decode(&out), Some((_, WirePacket::Data(..)))) {
                    left.push(datagram.ecn);
                }
                out.clear();
            }
            let ecn = ect1.get(round as usize).map(|ect1| EcnCounts { ect1: *ect1, ..none() });
            let arrived = if ecn.is_some() { Ecn::Ect1 } else { Ecn::NotEct };
            let entries = [AckEntry { number: round, received_at: now, ecn: arrived }];
            let (window, report) = (1 << 40, &[]);
            let head =
                AckHead { sequence: round, window, position: round, held_us: 0, report, ecn };
            let range: Option<std::ops::Range<u64>> = None;
            let mut ack = Vec::new();
            let room = 60_000;
            wire::write_ack(&mut ack, peer.ids, room, &head, entries.into_iter(), range.iter());
            peer.send(&mut endpoint, now, &ack);
        }
        let state = endpoint.flow(id).unwrap().outgoing().unwrap().ecn;
        let flow = endpoint.flow_mut(id).unwrap();
        let events = std::iter::from_fn(|| flow.poll_controller_event());
        let told = events.filter(|(_, event)| *event == Event::EcnFailed).count();
        (state, told, left)
    }

    fn none() -> EcnCounts {
        EcnCounts { ect0: 0, ect1: 0, ce: 0 }
    }

    #[test]
    fn feedback_f3_a_peer_that_does_not_report_marks_gets_packets_without_ecn() {
        let (state, told, left) = receive(&[]);
        assert_eq!((state, told), (EcnState::Failed(EcnFailure::Peer), 1));
        assert!(left.len() > 10 && left.iter().all(|ecn| *ecn == Ecn::NotEct), "{left:?}");
    }

    #[test]
    fn feedback_f8_counts_that_go_back_end_ecn() {
        let (state, told, left) = receive(&[1, 2, 3, 4, 5]);
        assert_eq!((state, told), (EcnState::Capable, 0));
        assert!(left.len() > 10 && left.iter().all(|ecn| *ecn == Ecn::Ect1), "{left:?}");
        let (state, told, left) = receive(&[1, 2, 1, 2, 3]);
        assert_eq!((state, told), (EcnState::Failed(EcnFailure::Counters), 1));
        assert_eq!(left.last(), Some(&Ecn::NotEct));
    }
}

/// What somebody gets who sends in the name of an address at which nothing was confirmed.
mod amplification {
    use super::*;

    use cellpace_base::Span;
    use cellpace_udp::wire::VERSION;
    use cellpace_udp::{DatagramGuard, Protection, SenderSide};
    use proptest::prelude::*;

    /// What a stranger does.
    #[derive(Debug, Clone)]
    enum Op {
        /// Sends a hello of this version, with the last cookie or without one, and without its last
        /// bytes.
        Hello {
            id: u64,
            version: u32,
            cookie: bool,
            reverse: bool,
            controller: usize,
            less: usize,
        },
        /// Sends a datagram again.
        Again(prop::sample::Index),
        /// Sends something else under these ids, with a checksum or tag that is right.
        Other {
            kind: u8,
            ids: Ids,
            content: Vec<u8>,
        },
        /// Sends bytes that mean nothing.
        Garbage(Vec<u8>),
        /// Confirms the flow that was accepted last, once there is no place for it any more.
        ConfirmLate,
        /// Somebody else takes a place.
        Taken,
        Wait(u64),
    }

    const CONTROLLERS: [&str; 4] = ["cubic", "sprout", "sprout:sigma=10000", "nonsense"];

    fn op() -> impl Strategy<Value = Op> {
        let hello = (
            1_u64..4,
            prop_oneof![9 => Just(VERSION), 1 => Just(9)],
            any::<bool>(),
            any::<bool>(),
            0..CONTROLLERS.len(),
            prop_oneof![9 => Just(0_usize), 1 => 1_usize..1200],
        );
        let hello = hello.prop_map(|(id, version, cookie, reverse, controller, less)| Op::Hello {
            id,
            version,
            cookie,
            reverse,
            controller,
            less,
        });
        let bytes = || prop::collection::vec(any::<u8>(), 0..60);
        let other =
            (2_u8..16, 0_u64..4, 0_u64..4, bytes()).prop_map(|(kind, to, from, content)| {
                Op::Other { kind, ids: Ids { to, from }, content }
            });
        prop_oneof![
            6 => hello,
            3 => any::<prop::sample::Index>().prop_map(Op::Again),
            3 => other,
            1 => bytes().prop_map(Op::Garbage),
            2 => Just(Op::ConfirmLate),
            1 => Just(Op::Taken),
            2 => (0_u64..12_000).prop_map(Op::Wait),
        ]
    }

    fn hello(id: u64, version: u32, cookie: bool, reverse: bool) -> Op {
        Op::Hello { id, version, cookie, reverse, controller: 0, less: 0 }
    }

    struct Stranger {
        endpoint: Endpoint,
        guard: DatagramGuard,
        at: SocketAddr,
        now: Time,
        sent: Vec<Vec<u8>>,
        cookie: Cookie,
        accepted: Option<Ids>,
        taken: bool,
        /// Bytes without IP and UDP headers: with them the ratio would be smaller still.
        bytes_sent: usize,
        bytes_got: usize,
        /// The types of the answers.
        answers: Vec<u8>,
    }

    impl Stranger {
        /// At a listener with places for two flows, which sends or receives.
        fn new(protection: &Protection, sends: bool) -> Self {
            let config =
                EndpointConfig { protection: protection.clone(), ..EndpointConfig::default() };
            let mut endpoint = endpoint(RECEIVER, config);
            let controllers = ["cubic", "verus"].map(|cc| cc.parse().unwrap()).to_vec();
            let offer = match sends {
                true => Offer::Send { controllers, unreliable: false, bytes: None, video: None },
                false => Offer::Receive,
            };
            endpoint.listen(Listen { most_flows: 2, max_per_client: None, offer });
            Self {
                endpoint,
                guard: protection.guard(1),
                at: SocketAddr::new(HOST.parse().unwrap(), 1000),
                now: ms(1),
                sent: Vec::new(),
                cookie: Cookie::default(),
                accepted: None,
                taken: false,
                bytes_sent: 0,
                bytes_got: 0,
                answers: Vec::new(),
            }
        }

        fn act(&mut self, op: &Op) {
            match op {
                Op::Hello { id, version, cookie, reverse, controller, less } => {
                    let cookie = if *cookie { self.cookie } else { Cookie::default() };
                    let asked =
                        if *reverse { receiving() } else { sending(CONTROLLERS[*controller]) };
                    let hello = Hello { version: *version, cookie, ..asked };
                    let mut out = Vec::new();
                    let bytes = wire::write_hello(&mut out, Ids { to: 0, from: *id }, &hello);
                    out.truncate(bytes - less);
                    self.send_sealed(out);
                }
                Op::Again(index) if !self.sent.is_empty() => {
                    let again = index.get(&self.sent).clone();
                    self.send(again);
                }
                Op::Other { kind, ids, content } => {
                    let mut out = Vec::new();
                    wire::Writer::new(&mut out, *kind, *ids).bytes(content).end();
                    self.send_sealed(out);
                }
                Op::Garbage(bytes) => self.send(bytes.clone()),
                Op::ConfirmLate if self.taken => {
                    let Some(ids) = self.accepted.take() else { return };
                    let mut out = Vec::new();
                    wire::write_ping(&mut out, ids);
                    self.send_sealed(out);
                }
                Op::Taken => self.take_places(),
                Op::Wait(span) => {
                    self.now += Span::from_millis(*span);
                    self.endpoint.on_timer(self.now);
                    self.collect();
                }
                Op::Again(_) | Op::ConfirmLate => {}
            }
        }

        fn send_sealed(&mut self, mut datagram: Vec<u8>) {
            wire::seal(&mut datagram);
            let bytes = datagram.len();
            if bytes >= wire::HEADER_BYTES {
                self.guard.seal(SenderSide::Initiator, &mut datagram, bytes);
            }
            self.send(datagram);
        }

        fn send(&mut self, datagram: Vec<u8>) {
            self.bytes_sent += datagram.len();
            self.endpoint.handle_datagram(self.now, self.at, 0, &datagram);
            self.sent.push(datagram);
            self.collect();
        }

        /// Takes what is sent to this address, and learns from it.
        fn collect(&mut self) {
            let mut out = Vec::new();
            while let Some(datagram) = self.endpoint.poll_transmit(self.now, &mut out) {
                let answer = std::mem::take(&mut out);
                if datagram.to != self.at {
                    continue;
                }
                self.bytes_got += answer.len();
                self.answers.push(answer[0]);
                let mut clear = Vec::new();
                let opened = self.guard.open(SenderSide::Responder, &answer, &mut clear);
                match opened.and_then(wire::read).unwrap() {
                    (_, WirePacket::Retry(cookie)) => self.cookie = cookie,
                    (ids, WirePacket::Accept(_)) => {
                        self.accepted = Some(Ids { to: ids.from, from: ids.to });
                    }
                    _ => {}
                }
            }
        }

        /// Somebody at another address takes all places that there are.
        fn take_places(&mut self) {
            self.taken = true;
            let mine = (self.at, self.cookie, self.accepted);
            let (bytes_sent, bytes_got) = (self.bytes_sent, self.bytes_got);
            let (sent, answers) = (self.sent.len(), self.answers.len());
            for (id, reverse) in [(11, true), (12, true), (13, false), (14, false)] {
                self.at = SocketAddr::new(OTHER.parse().unwrap(), 2000);
                self.accepted = None;
                self.act(&hello(id, VERSION, false, reverse));
                self.act(&hello(id, VERSION, true, reverse));
                self.act(&Op::ConfirmLate);
            }
            (self.at, self.cookie, self.accepted) = mine;
            (self.bytes_sent, self.bytes_got) = (bytes_sent, bytes_got);
            self.sent.truncate(sent);
            self.answers.truncate(answers);
        }
    }

    proptest! {
        #[test]
        fn never_more_bytes_are_sent_than_were_received(
            key in prop::option::of(any::<[u8; 32]>()),
            sends: bool,
            ops in prop::collection::vec(op(), 1..60),
        ) {
            let protection = key.map_or_else(Protection::default, |key| Protection::transfer(&key));
            let mut stranger = Stranger::new(&protection, sends);
            for op in &ops {
                stranger.act(op);
                prop_assert!(stranger.bytes_got <= stranger.bytes_sent, "{:?}", stranger.answers);
            }
        }
    }

    /// That the states which the property is about are reached, and what each answer costs.
    #[test]
    fn every_answer_is_below_three_times_what_it_answers() {
        for key in [Protection::default(), Protection::transfer(&[1; 32])] {
            for sends in [false, true] {
                let mut stranger = Stranger::new(&key, sends);
                for (op, answer) in [
                    (hello(1, 9, false, sends), 3),
                    (hello(1, VERSION, false, sends), 2),
                    (hello(1, VERSION, true, !sends), 4),
                    (hello(1, VERSION, true, sends), 5),
                    (hello(1, VERSION, true, sends), 5),
                    (Op::ConfirmLate, 12),
                    (hello(1, VERSION, true, sends), 4),
                ] {
                    if matches!(op, Op::ConfirmLate) {
                        stranger.act(&Op::Taken);
                    }
                    let before = (stranger.bytes_sent, stranger.bytes_got);
                    stranger.act(&op);
                    assert_eq!(stranger.answers.last(), Some(&answer), "{op:?}");
                    let sent = stranger.bytes_sent - before.0;
                    let got = stranger.bytes_got - before.1;
                    assert!(got < 3 * sent, "{op:?}: {got} bytes for {sent}");
                }
            }
        }
    }
}
