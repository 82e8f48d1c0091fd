//! An endpoint of the native transport, and others who say to it whatever they like.

use std::net::{IpAddr, SocketAddr};

use cellpace_base::{Span, Time};
use cellpace_cc::ControllerSpec;
use cellpace_udp::wire::{self, Cookie, Hello, Ids, VERSION, WirePacket};
use cellpace_udp::{
    AckPolicy, DatagramGuard, Endpoint, EndpointConfig, FlowEvent, FlowId, FlowRequest, Listen,
    Offer, Protection, SenderSide,
};

use crate::script::Script;
use crate::udp::SPROUT;

/// Flows that others may have at the same time.
const MAX_FLOWS: usize = 6;

/// What follows after so many steps is not looked at.
const MAX_STEPS: usize = 64;

/// Bytes that one step may have the endpoint allocate, models of controllers included.
const MAX_STEP_BYTES: u64 = 48 << 20;

/// Bytes of a stream that a datagram may have the endpoint hold: its own, and those around it in
/// the piece of memory in which it lies.
const MAX_DATAGRAM_BYTES: usize = 64 << 10;

/// A listening endpoint and strangers who know the protocol, and the key if there is one. The first
/// byte says what it offers and whether there is a key. Each step is a byte and what belongs to it: who does something, and what.
pub fn listen(bytes: &[u8]) {
    let mut script = Script(bytes);
    let offer = script.byte();
    let mut scene = Scene::new(offer, SenderSide::Initiator, strangers());
    scene.endpoint.listen(Listen {
        most_flows: MAX_FLOWS,
        max_per_client: None,
        offer: offered(offer),
    });
    scene.play(&mut script);
    assert!(scene.endpoint.flows() <= MAX_FLOWS);
}

/// An endpoint that begins a flow, and a responder that says whatever it likes. The first byte says
/// who sends, under which controller, and whether both have a key.
pub fn dial(bytes: &[u8]) {
    let mut script = Script(bytes);
    let choice = script.byte();
    let responder = Peer { address: address(1), id: 0xacce, other: 0, cookie: None };
    let mut scene = Scene::new(choice, SenderSide::Responder, vec![responder]);
    let controller = ["", SPROUT, "cubic", "verus"][usize::from(choice >> 4 & 3)];
    let controller = controller.parse::<ControllerSpec>().ok();
    let connect = FlowRequest { controller, unreliable: choice & 1 != 0 };
    let flow = scene.endpoint.connect(scene.now, address(1), 0, &connect);
    scene.flows.push(flow);
    scene.settle();
    scene.play(&mut script);
    assert!(scene.endpoint.flows() <= 1);
}

fn offered(choice: u8) -> Offer {
    if choice & 1 == 0 {
        return Offer::Receive;
    }
    let controllers = [SPROUT, "cubic", "fixed:cwnd=20pkts", "verus", "bbr"];
    let controllers = controllers.map(|text| text.parse().expect("it is in the registry"));
    let bytes = (choice & 4 != 0).then_some(100_000);
    let unreliable = choice & 2 != 0;
    Offer::Send { controllers: controllers.into(), unreliable, bytes, video: None }
}

/// Two at each of four addresses.
fn strangers() -> Vec<Peer> {
    let peer =
        |id: u8| Peer { address: address(id % 4), id: 1 + u64::from(id), other: 0, cookie: None };
    (0..8).map(peer).collect()
}

/// The last one is IPv6.
fn address(host: u8) -> SocketAddr {
    let ip: IpAddr = if host % 4 == 3 {
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()
    } else {
        [192, 0, 2, host].into()
    };
    SocketAddr::new(ip, 1000)
}

/// Somebody with an address and an id, and what the endpoint has sent to it.
struct Peer {
    address: SocketAddr,
    id: u64,
    /// The endpoint's id; zero: none yet.
    other: u64,
    cookie: Option<Cookie>,
}

struct Scene {
    now: Time,
    endpoint: Endpoint,
    flows: Vec<FlowId>,
    peers: Vec<Peer>,
    /// What the peers are, and how they protect what they say.
    side: SenderSide,
    guard: DatagramGuard,
    /// Datagrams that the endpoint got.
    datagrams: usize,
    /// Whether somebody reads what arrives.
    reads: bool,
}

impl Scene {
    fn new(choice: u8, side: SenderSide, peers: Vec<Peer>) -> Self {
        let protection = match choice & 0x80 {
            0 => Protection::default(),
            _ => Protection::transfer(&[3; 32]),
        };
        let guard = protection.guard(1 << 63);
        let delayed = AckPolicy::Delayed(Span::from_millis(40));
        let acks = if choice & 8 != 0 { delayed } else { AckPolicy::EveryPacket };
        let mut next = 0x5e4d;
        let new_id = move || {
            next += 1;
            next
        };
        let config = EndpointConfig { acks, protection, ..EndpointConfig::default() };
        let endpoint = Endpoint::new(config, [7; 32], new_id);
        let (now, flows) = (Time::from_millis(1), Vec::new());
        Self { now, endpoint, flows, peers, side, guard, datagrams: 0, reads: true }
    }

    fn play(&mut self, script: &mut Script<'_>) {
        for _ in 0..MAX_STEPS {
            let Some(step) = script.next() else { break };
            let taken = allocation_counter::measure(|| self.step(step, script));
            assert!(taken.bytes_total <= MAX_STEP_BYTES, "{} bytes in a step", taken.bytes_total);
            self.check_memory();
        }
        for _ in 0..20 {
            let Some(due) = self.endpoint.next_deadline() else { break };
            self.now = self.now.max(due);
            self.settle();
        }
    }

    /// What is held of streams is in proportion to what came.
    fn check_memory(&self) {
        let flows = self.flows.iter().filter_map(|id| self.endpoint.flow(*id));
        let held: usize = flows.map(cellpace_udp::UdpFlow::memory).sum();
        assert!(
            held <= MAX_DATAGRAM_BYTES * self.datagrams,
            "{held} bytes held after {} datagrams",
            self.datagrams
        );
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        let peer = usize::from(step >> 3) % self.peers.len();
        match step & 7 {
            0 | 1 => self.greet(peer, script),
            2..=4 => {
                let ids = Ids { to: self.peers[peer].other, from: self.peers[peer].id };
                let datagram = script.datagram(ids);
                self.deliver(self.peers[peer].address, &datagram);
            }
            5 => {
                let datagram = script.some_bytes();
                self.deliver_raw(self.peers[peer].address, datagram);
            }
            6 => {
                // Up to half a minute.
                self.now += Span::from_millis(1 << (script.byte() & 15));
                self.settle();
            }
            _ => self.reads = !self.reads,
        }
    }

    /// A hello with what a stranger may choose, the whole handshake if nothing is against it. Two
    /// in eight do not show that they have got the answer.
    fn greet(&mut self, peer: usize, script: &mut Script<'_>) {
        let flags = script.byte();
        if flags & 0x80 != 0 {
            // Another flow of the same address.
            self.peers[peer].id += 8;
            self.peers[peer].cookie = None;
        }
        let controller = script.controller();
        let (mtu, window) = (script.mtu(), script.number());
        for _ in 0..2 {
            let Peer { address, id, cookie, .. } = self.peers[peer];
            let hello = Hello {
                version: VERSION + u32::from(flags & 0x18 == 0x18),
                cookie: cookie.unwrap_or_default(),
                unreliable: flags & 1 != 0,
                reverse: flags & 2 != 0,
                delayed_acks: flags & 4 != 0,
                ecn: flags & 8 != 0,
                mtu,
                window,
                controller: &controller,
            };
            let mut datagram = Vec::new();
            wire::write_hello(&mut datagram, Ids { to: 0, from: id }, &hello);
            wire::seal(&mut datagram);
            self.deliver(address, &datagram);
            if cookie.is_some() {
                break;
            }
        }
        let Peer { address, id, other, .. } = self.peers[peer];
        if flags & 0x60 != 0x60 && other != 0 {
            let mut ping = Vec::new();
            wire::write_ping(&mut ping, Ids { to: other, from: id });
            wire::seal(&mut ping);
            self.deliver(address, &ping);
        }
    }

    /// Delivers what is protected as it must be.
    fn deliver(&mut self, from: SocketAddr, datagram: &[u8]) {
        let mut sealed = datagram.to_vec();
        self.guard.seal(self.side, &mut sealed, datagram.len());
        self.deliver_raw(from, &sealed);
    }

    fn deliver_raw(&mut self, from: SocketAddr, datagram: &[u8]) {
        self.datagrams += 1;
        self.endpoint.handle_datagram(self.now, from, 0, datagram);
        self.settle();
    }

    /// Does what is due now.
    fn settle(&mut self) {
        self.endpoint.on_timer(self.now);
        for id in &self.flows {
            let Some(flow) = self.endpoint.flow_mut(*id) else { continue };
            flow.write(&[7; 3000]);
            let (first, second) = flow.readable();
            let count = first.len() + second.len();
            if self.reads {
                flow.consume(count);
            }
        }
        let mut datagram = Vec::new();
        // Whoever acknowledges what never arrived may be sent more than that.
        for _ in 0..200 {
            let departure = self.endpoint.poll_transmit(self.now, &mut datagram);
            let Some(departure) = departure else { break };
            self.receive(departure.to, &datagram);
            datagram.clear();
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                FlowEvent::Connected(_) if !self.flows.contains(&id) => self.flows.push(id),
                FlowEvent::Ended(result) => {
                    assert!(result.err().is_none_or(|error| !error.to_string().is_empty()));
                    self.endpoint.forget(id);
                    self.flows.retain(|flow| *flow != id);
                }
                _ => {}
            }
        }
    }

    /// What the endpoint sends must be read by whoever it is for, and brings cookies and ids.
    fn receive(&mut self, at: SocketAddr, datagram: &[u8]) {
        let mut clear = Vec::new();
        let opened = self.guard.open(self.side.other(), datagram, &mut clear);
        let (ids, packet) = opened.and_then(wire::read).expect("it sends what can be read");
        let mut peers = self.peers.iter_mut().filter(|peer| peer.address == at);
        match packet {
            WirePacket::Hello(_) => peers.for_each(|peer| peer.other = ids.from),
            WirePacket::Retry(cookie) => {
                let peer = peers.find(|peer| peer.id == ids.to);
                peer.into_iter().for_each(|peer| peer.cookie = Some(cookie));
            }
            WirePacket::Accept(_) => {
                let peer = peers.find(|peer| peer.id == ids.to);
                peer.into_iter().for_each(|peer| peer.other = ids.from);
            }
            _ => {}
        }
    }
}
