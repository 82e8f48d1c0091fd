//! Transfers under a key that both sides share, and what others can do to them.

use crate::common::{
    Mischief, RECEIVER, SENDER, World, address, content, endpoint, patience, spec,
};
use cellpace_base::{Span, Time};
use cellpace_udp::{
    Endpoint, EndpointConfig, FlowError, FlowEvent, FlowId, FlowRequest, Listen, Offer, Protection,
};

fn keyed(secret: u8) -> EndpointConfig {
    EndpointConfig { protection: Protection::transfer(&[secret; 32]), ..EndpointConfig::default() }
}

#[test]
fn files_arrive_whatever_happens_to_single_datagrams() {
    for cc in ["cubic", "sprout"] {
        let mut world = World::new(1, &spec(), &keyed(1));
        world.mischief = Mischief {
            duplicate: 0.05,
            corrupt: 0.05,
            truncate: 0.05,
            reorder: 0.1,
            ..Mischief::default()
        };
        world.send(cc, content(2, 500_000));
        world.run_to_success(Span::from_secs(120));
        assert!(world.sides[RECEIVER].strays().garbage > 10, "{cc}: damaged ones are dropped");
    }
}

#[test]
fn a_listener_does_not_answer_whoever_has_another_key_or_none() {
    let secs = Span::from_secs;
    for (sender, receiver) in [
        (keyed(1), keyed(2)),
        (keyed(1), EndpointConfig::default()),
        (EndpointConfig::default(), keyed(1)),
    ] {
        let sender = EndpointConfig { patience: patience(5), ..sender };
        let mut world = World::new(1, &spec(), &receiver);
        world.sides[SENDER] = endpoint(SENDER, sender);
        let id = world.send("cubic", content(2, 1000));
        world.run(secs(6));
        let ended = world.seen[SENDER].ended[&id].clone().unwrap_err();
        assert_eq!(ended, FlowError::NoAnswer(secs(5)));
        assert!(ended.to_string().contains("is the key the same on both sides"), "{ended}");
        assert_eq!(world.bytes[RECEIVER], 0, "not a byte");
        assert!(world.sides[RECEIVER].strays().garbage > 3);
        assert_eq!(world.sides[RECEIVER].flows(), 0);
    }
}

/// Two endpoints without a path between them, and all that the initiator sent.
struct Pair {
    now: Time,
    initiator: Endpoint,
    responder: Endpoint,
    sent: Vec<Vec<u8>>,
}

fn listening(config: &EndpointConfig, seed: usize) -> Endpoint {
    let mut responder = endpoint(seed, config.clone());
    responder.listen(Listen { most_flows: 10, max_per_client: None, offer: Offer::Receive });
    responder
}

impl Pair {
    fn new(config: &EndpointConfig) -> Self {
        let mut initiator = endpoint(SENDER, config.clone());
        let connect = FlowRequest { controller: Some("cubic".parse().unwrap()), unreliable: false };
        initiator.connect(Time::ZERO, address(RECEIVER), 0, &connect);
        let responder = listening(config, RECEIVER);
        Self { now: Time::ZERO, initiator, responder, sent: Vec::new() }
    }

    /// Lets both talk for a second, in which the initiator sends 100 kB. Returns the flow at the
    /// responder.
    fn talk(&mut self) -> FlowId {
        let mut left = content(1, 100_000);
        for _ in 0..1000 {
            self.now += Span::from_millis(1);
            while let Some(datagram) = next(&mut self.initiator, self.now) {
                self.responder.handle_datagram(self.now, address(SENDER), 0, &datagram);
                self.sent.push(datagram);
            }
            while let Some(datagram) = next(&mut self.responder, self.now) {
                self.initiator.handle_datagram(self.now, address(RECEIVER), 0, &datagram);
            }
            while let Some((id, event)) = self.initiator.poll_event() {
                assert_eq!(event, FlowEvent::Connected(1));
                let flow = self.initiator.flow_mut(id).unwrap();
                let written = flow.write(&left);
                left.drain(..written);
            }
            self.initiator.on_timer(self.now);
            self.responder.on_timer(self.now);
        }
        assert!(left.is_empty() && self.sent.len() > 60);
        let flows = connected(&mut self.responder);
        assert_eq!(flows.len(), 1);
        flows[0]
    }
}

fn next(endpoint: &mut Endpoint, now: Time) -> Option<Vec<u8>> {
    let mut datagram = Vec::new();
    endpoint.poll_transmit(now, &mut datagram).map(|_| datagram)
}

/// The flows that were confirmed since the last time.
fn connected(endpoint: &mut Endpoint) -> Vec<FlowId> {
    let events = std::iter::from_fn(|| endpoint.poll_event());
    let connected = events.filter(|(_, event)| matches!(event, FlowEvent::Connected(_)));
    connected.map(|(id, _)| id).collect()
}

/// Gives all that was recorded to `listener`. Returns how many flows that opened.
fn replay(listener: &mut Endpoint, now: Time, sent: &[Vec<u8>]) -> usize {
    for datagram in sent {
        listener.handle_datagram(now, address(SENDER), 0, datagram);
        while next(listener, now).is_some() {}
    }
    connected(listener).len()
}

#[test]
fn a_recorded_transfer_begins_nothing_at_another_listener() {
    let mut pair = Pair::new(&keyed(1));
    pair.talk();
    // As after a restart: another secret for cookies and other ids.
    let mut restarted = listening(&keyed(1), 7);
    assert_eq!(replay(&mut restarted, pair.now, &pair.sent), 0);
    assert_eq!(restarted.flows(), 0);
    assert!(restarted.strays().unknown > 60, "{:?}", restarted.strays());
}

#[test]
fn a_recorded_transfer_is_not_repeated_at_the_same_listener() {
    let mut pair = Pair::new(&keyed(1));
    let flow = pair.talk();
    pair.responder.forget(flow);
    // Its cookie is still good. What follows has the id that the responder drew for the first flow.
    assert_eq!(replay(&mut pair.responder, pair.now, &pair.sent), 0);
}

#[test]
fn datagrams_that_are_sent_back_are_not_taken_for_the_other_sides() {
    let mut pair = Pair::new(&keyed(1));
    pair.talk();
    let before = pair.initiator.strays().garbage;
    let count = pair.sent.len() as u64;
    for mut datagram in std::mem::take(&mut pair.sent) {
        // With the ids as they would be in an answer.
        datagram[1..17].rotate_left(8);
        pair.initiator.handle_datagram(pair.now, address(RECEIVER), 0, &datagram);
    }
    assert_eq!(pair.initiator.strays().garbage, before + count);
}
