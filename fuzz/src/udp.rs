//! Datagrams of the native transport.

use std::net::SocketAddr;

use cellpace_base::{Span, Time};
use cellpace_udp::wire::{self, HEADER_BYTES, WirePacket};
use cellpace_udp::{
    Endpoint, EndpointConfig, FlowEvent, FlowId, FlowRequest, Listen, Offer, Protection, SenderSide,
};

/// One datagram, as it is, with a checksum that is right, and where a key is needed, which nobody has
/// whose bytes these are.
pub fn datagram(bytes: &[u8]) {
    let mut guard = Protection::transfer(&[7; 32]).guard(0);
    assert!(guard.open(SenderSide::Initiator, bytes, &mut Vec::new()).is_none());
    read(bytes);
    let mut sealed = bytes.to_vec();
    wire::seal(&mut sealed);
    read(&sealed);
}

fn read(bytes: &[u8]) {
    let Some((_, packet)) = wire::decode(bytes) else { return };
    if let WirePacket::Ack(ack) = packet {
        assert!(ack.entries().count() <= bytes.len());
        let ranges: Vec<_> = ack.ranges().collect();
        assert!(ranges.iter().all(|(first, last)| first <= last));
        assert!(ranges.windows(2).all(|pair| pair[1].1 < pair[0].0));
    }
}

/// A receiver buffers so many bytes at most.
const BUFFER: u64 = 64_000;

/// What follows after so many datagrams is not looked at. A fuzzer tries more in the same time with
/// short inputs than with long ones.
const MAX_DATAGRAMS: usize = 64;

/// Two endpoints in the middle of a flow, to which datagrams come that neither sent. Each takes a
/// byte for who gets it and what is made right in it (lowest bit: which side; second: the ids and
/// the checksum are made right; the others: how much time passes), a byte for its length, and its
/// bytes. The flow may fail, and must not panic, loop or take more memory than it may.
pub fn flow(bytes: &[u8]) {
    let mut pair = Pair::new();
    let mut rest = bytes;
    for _ in 0..MAX_DATAGRAMS {
        let [how, length, more @ ..] = rest else { break };
        let (datagram, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        pair.now += Span::from_millis(u64::from(how >> 2));
        let mut datagram = datagram.to_vec();
        let side = usize::from(how & 1);
        if how & 2 != 0 && datagram.len() >= HEADER_BYTES {
            datagram[1..9].copy_from_slice(&IDS[side].to_be_bytes());
            datagram[9..17].copy_from_slice(&IDS[1 - side].to_be_bytes());
            wire::seal(&mut datagram);
        }
        let (now, from) = (pair.now, address(1 - side));
        pair.sides[side].handle_datagram(now, from, 0, &datagram);
        pair.talk(1);
    }
    pair.talk(40);
}

/// The smallest model of Sprout. A larger one has the same code for what the other side says, and
/// takes fifty times as long to reckon with.
pub(crate) const SPROUT: &str = "sprout:max_rate=100";

/// The connection ids, of which each side draws one.
const IDS: [u64; 2] = [0x5e4d, 0x4ec0];

struct Pair {
    now: Time,
    sides: [Endpoint; 2],
    flows: [Option<FlowId>; 2],
}

impl Pair {
    fn new() -> Self {
        let config = EndpointConfig { buffer: BUFFER, ..EndpointConfig::default() };
        let sides = IDS.map(|id| {
            let mut next = id;
            Endpoint::new(config.clone(), [7; 32], move || {
                next += 1;
                next - 1
            })
        });
        let mut pair = Self { now: Time::from_millis(1), sides, flows: [None, None] };
        pair.sides[1].listen(Listen { most_flows: 2, max_per_client: None, offer: Offer::Receive });
        let controller = SPROUT.parse().expect("it is in the registry");
        let connect = FlowRequest { controller: Some(controller), unreliable: false };
        pair.flows[0] = Some(pair.sides[0].connect(pair.now, address(1), 0, &connect));
        pair.talk(4);
        pair
    }

    /// Lets both sides exchange what they have to say, for a bounded number of rounds.
    fn talk(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for side in 0..2 {
                self.sides[side].on_timer(self.now);
                self.exchange(side);
                self.listen(side);
            }
            let due = self.sides.iter().filter_map(Endpoint::next_deadline).min();
            let Some(due) = due else { return };
            self.now = self.now.max(due);
        }
    }

    fn exchange(&mut self, side: usize) {
        if let Some(flow) = self.flows[side].and_then(|id| self.sides[side].flow_mut(id)) {
            flow.write(&[7; 3000]);
            let (first, second) = flow.readable();
            let count = first.len() + second.len();
            flow.consume(count);
            assert!(flow.memory() < 4 * BUFFER as usize);
        }
        let mut datagram = Vec::new();
        for _ in 0..1000 {
            if self.sides[side].poll_transmit(self.now, &mut datagram).is_none() {
                return;
            }
            let now = self.now;
            self.sides[1 - side].handle_datagram(now, address(side), 0, &datagram);
            datagram.clear();
        }
        panic!("a thousand datagrams at one instant");
    }

    fn listen(&mut self, side: usize) {
        while let Some((id, event)) = self.sides[side].poll_event() {
            match event {
                FlowEvent::Connected(_) => self.flows[side] = Some(id),
                FlowEvent::Ended(_) => self.sides[side].forget(id),
                _ => {}
            }
        }
    }
}

fn address(side: usize) -> SocketAddr {
    let host = [192, 0, 2, side as u8 + 1];
    SocketAddr::from((host, 1000))
}
