//! Two endpoints in virtual time, with a modelled path and a mischievous wire between them.

#![allow(unreachable_pub)]

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use cellpace_base::{Ecn, Random, Span, Time};
use cellpace_path::{Fate, Packet, Path, PathSpec};
use cellpace_udp::{
    CloseCode, Endpoint, EndpointConfig, FlowError, FlowEvent, FlowId, FlowRequest, Listen, Offer,
    Patience,
};

/// What the wire does to datagrams beside delaying them.
#[derive(Debug, Clone, Default)]
pub struct Mischief {
    pub loss: f64,
    pub duplicate: f64,
    /// Some bytes are changed.
    pub corrupt: f64,
    /// The end is missing.
    pub truncate: f64,
    /// Held back for up to 30 ms.
    pub reorder: f64,
    /// Nothing passes in either direction.
    pub outages: Vec<(Time, Time)>,
}

impl Mischief {
    fn is_out(&self, now: Time) -> bool {
        self.outages.iter().any(|(from, to)| (*from..*to).contains(&now))
    }
}

/// Everything that happened to the flows of one side.
#[derive(Default)]
pub struct Seen {
    pub connected: u32,
    pub ended: HashMap<FlowId, Result<(), FlowError>>,
}

pub struct World {
    pub now: Time,
    pub sides: [Endpoint; 2],
    paths: [Path; 2],
    under_way: [HashMap<u64, Vec<u8>>; 2],
    /// What comes later than the path says: by time and order.
    late: BTreeMap<(Time, u64), (usize, Ecn, Vec<u8>)>,
    count: u64,
    pub mischief: Mischief,
    random: Random,
    pub seen: [Seen; 2],
    pub data: HashMap<FlowId, Vec<u8>>,
    sent: HashMap<FlowId, usize>,
    pub received: Vec<(FlowId, Vec<u8>)>,
    /// The receiver reads nothing while this is set.
    pub stalled: bool,
    /// Bytes that went from each side.
    pub bytes: [u64; 2],
    /// Most memory that a receiving flow took.
    pub memory: usize,
}

pub const SENDER: usize = 0;
pub const RECEIVER: usize = 1;

pub fn address(side: usize) -> SocketAddr {
    ["192.0.2.1:1000", "198.51.100.2:2000"][side].parse().unwrap()
}

pub fn endpoint(side: usize, config: EndpointConfig) -> Endpoint {
    let mut ids = Random::seeded(99, side as u64);
    Endpoint::new(config, [side as u8; 32], move || ids.bits())
}

/// A path of 12 Mbit/s and 20 ms, with a queue of 100 kB.
pub fn spec() -> PathSpec {
    PathSpec {
        trace: Some("constant:12mbit".parse().unwrap()),
        queue: "droptail:100kB".parse().unwrap(),
        delay: "20ms".parse().unwrap(),
        ..PathSpec::default()
    }
}

impl World {
    pub fn new(seed: u64, spec: &PathSpec, config: &EndpointConfig) -> Self {
        let back = PathSpec { trace: None, ..spec.clone() };
        let mut world = Self {
            now: Time::ZERO,
            sides: [endpoint(SENDER, config.clone()), endpoint(RECEIVER, config.clone())],
            paths: [spec.build(seed).unwrap(), back.build_reverse(seed).unwrap()],
            under_way: Default::default(),
            late: BTreeMap::new(),
            count: 0,
            mischief: Mischief::default(),
            random: Random::seeded(seed, 7),
            seen: Default::default(),
            data: HashMap::new(),
            sent: HashMap::new(),
            received: Vec::new(),
            stalled: false,
            bytes: [0, 0],
            memory: 0,
        };
        world.sides[RECEIVER].listen(Listen {
            most_flows: 1000,
            max_per_client: None,
            offer: Offer::Receive,
        });
        world
    }

    /// Sends `data` in a flow under `cc`.
    pub fn send(&mut self, cc: &str, data: Vec<u8>) -> FlowId {
        let connect = FlowRequest { controller: Some(cc.parse().unwrap()), unreliable: false };
        let id = self.sides[SENDER].connect(self.now, address(RECEIVER), 0, &connect);
        self.data.insert(id, data);
        id
    }

    /// One step of virtual time. Returns whether there was one before `end`.
    pub fn step(&mut self, end: Time) -> bool {
        self.serve();
        let due = (0..2).filter_map(|side| self.sides[side].next_deadline());
        let paths = (0..2).filter_map(|side| self.paths[side].next_deadline());
        let late = self.late.keys().next().map(|(time, _)| *time);
        let Some(next) = due.chain(paths).chain(late).min() else { return false };
        if next.max(self.now) >= end {
            self.now = end;
            return false;
        }
        self.now = self.now.max(next);
        self.deliver();
        for side in &mut self.sides {
            side.on_timer(self.now);
        }
        true
    }

    /// Lets time pass until `end` or until `done`.
    pub fn run_until(&mut self, end: Time, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) && self.step(end) {}
    }

    pub fn run(&mut self, span: Span) {
        self.run_until(self.now + span, |_| false);
    }

    /// Runs until the sender's flows are over, and checks that each arrived once and whole.
    pub fn run_to_success(&mut self, most: Span) {
        let flows = self.data.len();
        self.run_until(Time::ZERO + most, |world| world.seen[SENDER].ended.len() == flows);
        let ended = &self.seen[SENDER].ended;
        assert_eq!(ended.len(), flows, "not over at {:?}", self.now);
        assert!(ended.values().all(Result::is_ok), "{ended:?}");
        let mut sent: Vec<&Vec<u8>> = self.data.values().collect();
        let mut got: Vec<&Vec<u8>> = self.received.iter().map(|(_, bytes)| bytes).collect();
        sent.sort();
        got.sort();
        assert!(sent == got, "what arrived is not what was sent");
    }

    fn deliver(&mut self) {
        for side in 0..2 {
            let mut fates = Vec::new();
            self.paths[side].advance(self.now, &mut fates);
            for record in fates {
                let datagram = self.under_way[side].remove(&record.packet.id).unwrap();
                if record.fate != Fate::Delivered || self.mischief.is_out(self.now) {
                    continue;
                }
                self.arrive(side, record.packet.ecn, datagram);
            }
        }
        while let Some(((time, _), _)) = self.late.first_key_value() {
            if *time > self.now {
                break;
            }
            let (_, (side, ecn, datagram)) = self.late.pop_first().unwrap();
            let from = address(side);
            self.sides[1 - side].handle_datagram_with(self.now, from, 0, ecn, &datagram);
        }
    }

    fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.random.unit() < p
    }

    /// A datagram from `side` arrives, or what is left of it.
    fn arrive(&mut self, side: usize, ecn: Ecn, mut datagram: Vec<u8>) {
        let mischief = self.mischief.clone();
        if self.chance(mischief.loss) {
            return;
        }
        if self.chance(mischief.duplicate) {
            self.hold(side, ecn, datagram.clone());
        }
        if self.chance(mischief.corrupt) {
            for _ in 0..=self.random.below(3) {
                let at = self.random.below(datagram.len() as u64) as usize;
                datagram[at] ^= 1 << self.random.below(8);
            }
        }
        if self.chance(mischief.truncate) {
            datagram.truncate(self.random.below(datagram.len() as u64) as usize);
        }
        if self.chance(mischief.reorder) {
            return self.hold(side, ecn, datagram);
        }
        let from = address(side);
        self.sides[1 - side].handle_datagram_with(self.now, from, 0, ecn, &datagram);
    }

    fn hold(&mut self, side: usize, ecn: Ecn, datagram: Vec<u8>) {
        self.count += 1;
        let at = self.now + Span::from_micros(self.random.below(30_000));
        self.late.insert((at, self.count), (side, ecn, datagram));
    }

    /// What applications and sockets do.
    fn serve(&mut self) {
        for side in 0..2 {
            loop {
                self.write();
                self.transmit(side);
                let Some((id, event)) = self.sides[side].poll_event() else { break };
                self.on_event(side, id, event);
            }
        }
        self.read();
        (0..2).for_each(|side| self.transmit(side));
    }

    fn transmit(&mut self, side: usize) {
        let mut datagram = Vec::new();
        while let Some(departure) = self.sides[side].poll_transmit(self.now, &mut datagram) {
            assert_eq!(departure.to, address(1 - side));
            assert_eq!(departure.bytes, datagram.len());
            let size = datagram.len() as u32 + 28;
            assert!(size <= 1500);
            self.bytes[side] += u64::from(size);
            self.count += 1;
            self.under_way[side].insert(self.count, std::mem::take(&mut datagram));
            let packet = Packet::new(self.count, 0, size, self.now);
            self.paths[side].push(Packet { ecn: departure.ecn, ..packet });
        }
    }

    fn write(&mut self) {
        for (id, data) in &self.data {
            let sent = self.sent.entry(*id).or_default();
            let Some(flow) = self.sides[SENDER].flow(*id) else { continue };
            if flow.room() == 0 {
                continue;
            }
            let flow = self.sides[SENDER].flow_mut(*id).unwrap();
            *sent += flow.write(&data[*sent..]);
            if *sent == data.len() {
                flow.finish();
            }
        }
    }

    fn read(&mut self) {
        if self.stalled {
            return;
        }
        for (id, bytes) in &mut self.received {
            let Some(flow) = self.sides[RECEIVER].flow(*id) else { continue };
            self.memory = self.memory.max(flow.memory());
            while self.sides[RECEIVER].flow(*id).is_some_and(|flow| !flow.readable().0.is_empty()) {
                let flow = self.sides[RECEIVER].flow_mut(*id).unwrap();
                let (first, second) = flow.readable();
                let count = first.len() + second.len();
                bytes.extend_from_slice(first);
                bytes.extend_from_slice(second);
                flow.consume(count);
            }
        }
    }

    fn on_event(&mut self, side: usize, id: FlowId, event: FlowEvent) {
        match event {
            FlowEvent::Connected(_) => {
                self.seen[side].connected += 1;
                if side == RECEIVER {
                    self.received.push((id, Vec::new()));
                }
            }
            FlowEvent::Read => {
                let now = self.now;
                self.sides[side].flow_mut(id).unwrap().close(now, CloseCode::Done, "");
            }
            FlowEvent::Ended(result) => {
                let before = self.seen[side].ended.insert(id, result);
                assert!(before.is_none(), "a flow ends once");
            }
            _ => {}
        }
    }
}

/// Bytes that look like nothing else.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::seeded(seed, 3);
    (0..bytes).map(|_| random.bits() as u8).collect()
}

pub fn patience(secs: u64) -> Patience {
    Patience { silence: Span::from_secs(secs) }
}
