//! Links in series, and a proxy in front of the last.
//!
//! Without a proxy a connection leads over all links. With one there are two stretches: over all
//! links but the last under the flow's controller, and over the last under the proxy's.

use std::collections::{HashMap, VecDeque};

use cellpace_base::{Random, Span, Time};
use cellpace_measure::{
    ChainFigures, Collector, DelaySketch, LegFigures, MeasuredWindow, ProxyFigures, SegmentFigures,
};
use cellpace_path::{Fate, Packet, PacketRecord, Path, PathSpec};

use crate::cell::Cell;
use crate::chain_spec::{ChainSpec, LinkRoute, ProxySpec};
use crate::connection::{EndRules, generation_of};
use crate::flow::{OwnDelay, SimFlow};
use crate::observer::{FlowView, Observer};
use crate::pieces::PACKET_BYTES;
use crate::ping::PingSeries;
use crate::relay::Relay;
use crate::sampler::SeriesSampler;
use crate::send_jitter::longest_delays;
use crate::transfer_tally::SenderCounts;
use crate::transfers::Leg;
use crate::world::{
    ACK_BYTES, DelaySplit, PacketRoom, Remains, cell, collector, forward_spec, mark, next_multiple,
    reverse_spec, signalled,
};
use crate::{Scenario, SimError};

/// Seeds of the links in front of the last are drawn from these streams, far from those of the
/// flows; so is the proxy's.
const SEGMENT_STREAMS: u64 = 1 << 41;
const PROXY_STREAM: u64 = 1 << 42;

/// Links over which one connection leads.
struct Stretch {
    down: Vec<Path>,
    /// The way back, beginning at the receiver.
    up: Vec<Path>,
    /// The number of the first link among all.
    first: usize,
}

/// What goes back.
struct UpMessage {
    flow: usize,
    generation: u16,
    upto: Option<u64>,
    report: Option<Vec<u8>>,
    leg: Option<Leg>,
    /// The number below which the server may send.
    offer: Option<u64>,
    /// It answers this echo request.
    ping: Option<u64>,
}

impl UpMessage {
    const fn of(flow: usize, generation: u16) -> Self {
        Self { flow, generation, upto: None, report: None, leg: None, offer: None, ping: None }
    }
}

/// What a packet has behind it on the links before the present one.
#[derive(Clone, Copy)]
struct Carried {
    sent_at: Time,
    queued: Span,
}

/// A server that knows of no more room asks again and again.
struct Probe {
    flow: usize,
    generation: u16,
    at: Time,
    wait: Span,
}

impl Probe {
    /// Set in the number of its packets. Those of data are far smaller.
    const MARK: u64 = 1 << 46;
    /// Between two of them at most (RFC 9293 section 3.8.6.1 leaves it open).
    const MAX_WAIT: Span = Span::from_secs(60);
}

#[derive(Default)]
struct SegmentTally {
    bytes: u64,
    lost: u64,
    queue: DelaySketch,
}

#[derive(Default)]
struct LegTally {
    rtt: DelaySketch,
    rto: DelaySketch,
}

impl LegTally {
    fn figures(&self, counts: SenderCounts) -> LegFigures {
        LegFigures {
            rtt_ms: self.rtt.summary(),
            rto_ms: self.rto.summary(),
            retransmitted: counts.retransmitted,
            timeouts: counts.timeouts,
        }
    }
}

/// The event loop of links in series.
pub(crate) struct ChainWorld {
    now: Time,
    window: MeasuredWindow,
    /// One, or one on either side of the proxy.
    stretches: Vec<Stretch>,
    /// What the last link leads to in place of a trace of its own.
    cell: Option<Cell>,
    flows: Vec<SimFlow>,
    /// The links over which each flow leads.
    routes: Vec<LinkRoute>,
    /// Over all links; their packets have the numbers behind those of the flows.
    pings: Vec<PingSeries>,
    relays: Vec<Relay>,
    chain: ChainSpec,
    ends: EndRules,
    random: Random,
    messages: HashMap<u64, UpMessage>,
    next_message: u64,
    /// Packets on the second link of a stretch or a later one, by flow and id.
    carried: HashMap<(u32, u64), Carried>,
    /// Packets of handshakes that wait for the proxy's connection to the server.
    waiting_legs: VecDeque<(Time, usize, Leg)>,
    /// When the proxy is connected to the server of a transfer, by flow and transfer.
    connected_at: HashMap<(usize, u64), Time>,
    probes: Vec<Probe>,
    wired_rtt: Span,
    collector: Collector,
    sampler: SeriesSampler,
    room: PacketRoom,
    path_changes: VecDeque<Time>,
    /// When the observer next wants to see the flows.
    show_at: Option<Time>,
    segments: Vec<SegmentTally>,
    in_proxy: DelaySketch,
    /// The most pieces of one connection that the proxy kept.
    held_max: u64,
    legs: [LegTally; 2],
    /// What the senders of relays that are over have done.
    past_relays: SenderCounts,
    /// Room for the fates of packets, kept between instants.
    fates: Vec<PacketRecord>,
}

impl ChainWorld {
    /// A world at time zero.
    pub(crate) fn new(scenario: &Scenario, chain: &ChainSpec) -> Result<Self, SimError> {
        let end = scenario.end();
        let seeded = |stream| Random::seeded(scenario.seed, stream);
        let relay_room = chain.proxy.as_ref().map(ProxySpec::room);
        let ends = EndRules { acks: scenario.acks, rto_rule: scenario.rto_rule, relay_room: None };
        let of_servers = EndRules { relay_room, ..ends };
        let routes = scenario.flows.iter().map(|flow| chain.route(&flow.path));
        let routes = routes.collect::<Result<Vec<_>, _>>().map_err(SimError::Invalid)?;
        let flows: Vec<SimFlow> = (0..)
            .zip(scenario.flows.iter().zip(&routes))
            .map(|(index, (spec, route))| {
                let random = seeded(1000 + u64::from(index));
                let transfers = seeded(1_000_000 + u64::from(index));
                let own = spec.rtt.map_or(OwnDelay::NONE, |rtt| {
                    let own = rtt - chain.rtt_of(*route, scenario.link.rtt());
                    OwnDelay { forward: own / 2, reverse: own / 2 }
                });
                SimFlow::new(index, spec.clone(), of_servers, own, None, random, transfers)
            })
            .collect();
        Ok(Self {
            now: Time::ZERO,
            window: MeasuredWindow { skip: Time::ZERO + scenario.skip, end },
            stretches: stretches(scenario, chain, &routes)?,
            cell: cell(scenario)?,
            routes,
            pings: scenario.pings.iter().map(|ping| PingSeries::new(ping.clone(), end)).collect(),
            relays: Vec::new(),
            ends,
            random: seeded(PROXY_STREAM),
            messages: HashMap::new(),
            next_message: 0,
            carried: HashMap::new(),
            waiting_legs: VecDeque::new(),
            connected_at: HashMap::new(),
            probes: Vec::new(),
            wired_rtt: chain.rtt_before(),
            collector: collector(scenario),
            sampler: SeriesSampler::new(scenario.bin, end, flows.len()),
            room: PacketRoom::new(),
            path_changes: signalled(scenario.handovers()),
            show_at: None,
            segments: (0..=chain.before.len()).map(|_| SegmentTally::default()).collect(),
            in_proxy: DelaySketch::new(),
            held_max: 0,
            legs: <[LegTally; 2]>::default(),
            past_relays: SenderCounts::default(),
            chain: chain.clone(),
            flows,
            fates: Vec::new(),
        })
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn flow(&self, index: usize) -> Option<FlowView<'_>> {
        let connection = self.flows.get(index)?.connection()?;
        Some(FlowView::of(index as u32, connection))
    }

    /// Everything that happens up to and including `until`.
    pub(crate) fn advance(
        &mut self,
        until: Time,
        observer: &mut impl Observer,
    ) -> Result<(), SimError> {
        let until = until.min(self.window.end);
        let interval = observer.interval().filter(|interval| !interval.is_zero());
        self.show_at = interval.map(|interval| next_multiple(self.now, interval));
        loop {
            if self.room.is_full() {
                return Err(self.room.error(self.now));
            }
            let next = self.next_deadline();
            if next > until {
                break;
            }
            self.now = next;
            self.step(observer);
            if self.show_at == Some(next) {
                self.show_at = interval.map(|interval| next + interval);
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn next_deadline(&self) -> Time {
        let paths = self.stretches.iter().flat_map(|s| s.down.iter().chain(&s.up));
        let flows = self.flows.iter().filter_map(SimFlow::next_deadline);
        let relays = self.relays.iter().filter_map(|relay| relay.radio.next_deadline());
        let legs = self.waiting_legs.iter().map(|(at, ..)| *at);
        let probes = self.probes.iter().map(|probe| probe.at);
        let pings = self.pings.iter().map(PingSeries::next);
        let cell = self.cell.as_ref().and_then(Cell::next_deadline);
        let pings = pings.chain(cell);
        let others =
            self.show_at.into_iter().chain(self.path_changes.front().copied()).chain(pings);
        let all = paths.filter_map(Path::next_deadline).chain(flows).chain(relays);
        all.chain(legs).chain(probes).chain(others).fold(self.sampler.next, Time::min)
    }

    /// What happens at this instant: samples and views of the past, then links in the order of data,
    /// then the way back, then a change of the path, then timers.
    fn step(&mut self, observer: &mut impl Observer) {
        let now = self.now;
        if self.sampler.next == now {
            self.sampler.take(&self.flows);
        }
        if self.show_at == Some(now) {
            for index in 0..self.flows.len() {
                if let Some(flow) = self.flow(index) {
                    observer.on_interval(now, flow);
                }
            }
        }
        for stretch in 0..self.stretches.len() {
            for place in 0..self.stretches[stretch].down.len() {
                let is_cells = self.segment(stretch, place) == self.chain.before.len();
                let cell = self.cell.as_ref().filter(|_| is_cells).and_then(Cell::next_deadline);
                if is_due(&self.stretches[stretch].down[place], now) || cell == Some(now) {
                    self.advance_down(stretch, place, observer);
                }
            }
        }
        for stretch in (0..self.stretches.len()).rev() {
            for place in 0..self.stretches[stretch].up.len() {
                if is_due(&self.stretches[stretch].up[place], now) {
                    self.advance_up(stretch, place, observer);
                }
            }
        }
        if self.path_changes.front() == Some(&now) {
            self.path_changes.pop_front();
            self.report_path_change(observer);
        }
        self.send_pings();
        self.run_timers(observer);
        self.end_relays(observer);
    }

    /// The requests that are due.
    fn send_pings(&mut self) {
        for index in 0..self.pings.len() {
            if let Some(request) = self.pings[index].due(self.now, self.flows.len() + index) {
                self.push_down(0, request);
            }
        }
    }

    fn run_timers(&mut self, observer: &mut impl Observer) {
        let now = self.now;
        while let Some(place) = self.waiting_legs.iter().position(|(at, ..)| *at <= now) {
            if let Some((_, flow, leg)) = self.waiting_legs.remove(place) {
                self.push_up(0, leg_message(flow, leg), leg.bytes);
            }
        }
        self.send_probes();
        for index in 0..self.flows.len() {
            if self.flows[index].next_deadline().is_some_and(|due| due <= now) {
                self.fire_flow(index, observer);
            }
        }
        for index in 0..self.relays.len() {
            if self.relays[index].radio.next_deadline().is_some_and(|due| due <= now) {
                let acks = self.relays[index].radio.receiver.on_deadline(now);
                self.answer_relay(index, acks);
                self.relays[index].radio.on_timer(now);
                self.pump_relay(index, observer);
            }
        }
    }

    fn advance_down(&mut self, stretch: usize, place: usize, observer: &mut impl Observer) {
        let mut fates = std::mem::take(&mut self.fates);
        let segment = self.segment(stretch, place);
        let down = &mut self.stretches[stretch].down;
        down[place].advance(self.now, &mut fates);
        let last = down.len() - 1;
        if let Some(cell) = self.cell.as_mut().filter(|_| segment == self.chain.before.len()) {
            cell.carry(self.now, &mut fates);
        }
        for record in fates.drain(..) {
            let is_last = place == self.route(record.packet.flow, last).last;
            self.tally(segment, &record);
            let mut packet = record.packet;
            let key = (packet.flow, packet.id);
            let is_copy = record.fate == Fate::Duplicate;
            let before = if is_last && !is_copy {
                self.carried.remove(&key)
            } else {
                self.carried.get(&key).copied()
            };
            let fresh = Carried { sent_at: packet.sent_at, queued: Span::ZERO };
            let mut carried = before.unwrap_or(fresh);
            carried.queued += record.queue_delay();
            match record.fate {
                Fate::Duplicate if !is_last => continue,
                Fate::Delivered if !is_last => {
                    self.carried.insert(key, carried);
                    packet.sent_at = self.now;
                    self.stretches[stretch].down[place + 1].push(packet);
                    continue;
                }
                Fate::Dropped(_) => {
                    self.carried.remove(&key);
                }
                _ => {}
            }
            self.room.leave(usize::from(!is_copy));
            // As one link would have delivered it: the queues of all, behind the delays of all.
            packet.sent_at = carried.sent_at;
            packet.enqueued_at = packet.departed_at - carried.queued;
            self.arrive(stretch, PacketRecord { packet, fate: record.fate }, observer);
        }
        self.fates = fates;
    }

    /// The number of a link among all.
    fn segment(&self, stretch: usize, place: usize) -> usize {
        self.stretches[stretch].first + place
    }

    fn tally(&mut self, segment: usize, record: &PacketRecord) {
        if !self.window.contains(record.packet.departed_at) {
            return;
        }
        let tally = &mut self.segments[segment];
        match record.fate {
            Fate::Delivered => {
                tally.bytes += u64::from(record.packet.size);
                tally.queue.record(record.queue_delay());
            }
            Fate::Dropped(_) => tally.lost += 1,
            Fate::Duplicate => {}
        }
    }

    /// A packet is at the end of a stretch, or was dropped on it.
    fn arrive(&mut self, stretch: usize, mut record: PacketRecord, observer: &mut impl Observer) {
        let arrives = !matches!(record.fate, Fate::Dropped(_));
        let packet = record.packet;
        if packet.flow as usize >= self.flows.len() {
            if record.fate == Fate::Delivered {
                self.pass_ping(stretch, packet);
            }
            return;
        }
        if stretch == 1
            && let Some(held) = self.held_piece(&packet)
        {
            // End to end it began at the server.
            record.packet.sent_at = held;
        }
        if stretch + 1 == self.stretches.len() || !arrives {
            self.collector.record(&record);
            observer.on_record(&record);
        }
        if !arrives {
            return;
        }
        match stretch {
            0 => self.arrive_wired(packet, observer),
            _ => self.arrive_radio(&packet),
        }
    }

    /// An echo request is at the end of a stretch: it goes on, or its answer leaves at once.
    fn pass_ping(&mut self, stretch: usize, packet: Packet) {
        if stretch + 1 < self.stretches.len() {
            return self.push_down(stretch + 1, Packet { sent_at: self.now, ..packet });
        }
        let answer = UpMessage { ping: Some(packet.id), ..UpMessage::of(packet.flow as usize, 0) };
        self.push_up(stretch, answer, packet.size);
    }

    /// When the server sent what a packet of the radio leg carries, while the proxy keeps it.
    fn held_piece(&self, packet: &Packet) -> Option<Time> {
        if Leg::of_packet(packet.id).is_some() {
            return None;
        }
        let relay = &self.relays[self.relay_of(packet.flow as usize, generation_of(packet))?];
        Some(relay.piece(relay.radio.piece_of(packet)?)?.sent_at)
    }

    /// At the end of the first stretch: at the receiver, or at the proxy.
    fn arrive_wired(&mut self, packet: Packet, observer: &mut impl Observer) {
        let (now, index, generation) = (self.now, packet.flow as usize, generation_of(&packet));
        let has_proxy = self.chain.proxy.is_some();
        if let Some(leg) = Leg::of_packet(packet.id) {
            if has_proxy {
                self.push_down(1, Packet { sent_at: now, ..packet });
            } else {
                self.deliver_leg(index, leg);
            }
            return;
        }
        if packet.id & Probe::MARK != 0 {
            if let Some(relay) = self.relay_of(index, generation) {
                self.send_window(relay);
            }
            return;
        }
        if has_proxy {
            self.relay(packet, observer);
        }
        let Some(connection) = self.flows[index].connection_of(generation) else { return };
        let acks = connection.on_arrival(now, &packet);
        if !has_proxy {
            self.flows[index].on_data(now, generation);
        }
        self.answer_flow(index, generation, acks);
    }

    /// The proxy takes a packet in.
    fn relay(&mut self, packet: Packet, observer: &mut impl Observer) {
        let (flow, generation) = (packet.flow as usize, generation_of(&packet));
        let Some(connection) = self.flows[flow].connection_of(generation) else { return };
        let Some(piece) = connection.piece_of(&packet) else { return };
        let Some(index) =
            self.relay_of(flow, generation).or_else(|| self.open_relay(flow, generation, observer))
        else {
            return;
        };
        let relay = &mut self.relays[index];
        relay.on_piece(self.now, piece, &packet);
        self.held_max = self.held_max.max(relay.held);
        self.room.remember(relay.held);
        self.pump_relay(index, observer);
    }

    fn open_relay(
        &mut self,
        flow: usize,
        generation: u16,
        observer: &mut impl Observer,
    ) -> Option<usize> {
        let spec = self.chain.proxy.as_ref()?;
        let relay = Relay::new(
            (flow, generation),
            spec,
            self.ends,
            self.now,
            &mut self.random,
            &mut |controller, setup| observer.on_connect(flow as u32, controller, setup),
        );
        self.relays.push(relay);
        Some(self.relays.len() - 1)
    }

    fn arrive_radio(&mut self, packet: &Packet) {
        let index = packet.flow as usize;
        if let Some(leg) = Leg::of_packet(packet.id) {
            return self.deliver_leg(index, leg);
        }
        let generation = generation_of(packet);
        let Some(relay) = self.relay_of(index, generation) else { return };
        let acks = self.relays[relay].radio.on_arrival(self.now, packet);
        let below = self.relays[relay].radio.received_below();
        self.flows[index].on_received(self.now, generation, below);
        self.answer_relay(relay, acks);
    }

    fn relay_of(&self, flow: usize, generation: u16) -> Option<usize> {
        self.relays.iter().position(|relay| relay.flow == flow && relay.generation == generation)
    }

    /// A packet of a handshake or a request is at its end.
    fn deliver_leg(&mut self, index: usize, leg: Leg) {
        self.flows[index].on_leg(self.now, leg);
        self.send_legs(index, 0);
    }

    /// Sends packets of handshakes and requests; those that go down begin at the stretch `from`.
    fn send_legs(&mut self, index: usize, from: usize) {
        for leg in self.flows[index].take_legs() {
            if leg.is_up() {
                self.push_up(self.stretches.len() - 1, leg_message(index, leg), leg.bytes);
            } else {
                let packet = Packet::new(leg.packet_id(), index as u32, leg.bytes, self.now);
                self.push_down(from, packet);
            }
        }
    }

    /// The links of a stretch over which a flow leads; `last` is the stretch's last one.
    fn route(&self, flow: u32, last: usize) -> LinkRoute {
        // In front of a proxy and behind it all flows lead over all links, as pings do everywhere.
        match self.routes.get(flow as usize) {
            Some(route) if self.chain.proxy.is_none() => *route,
            _ => LinkRoute { first: 0, last },
        }
    }

    fn push_down(&mut self, stretch: usize, packet: Packet) {
        self.room.enter();
        let index = packet.flow as usize;
        let own = self.flows.get(index).map_or(Span::ZERO, |flow| flow.own_delay.forward);
        let first = self.route(packet.flow, 0).first;
        self.stretches[stretch].down[first].push_after(packet, own);
    }

    fn push_up(&mut self, stretch: usize, message: UpMessage, bytes: u32) {
        let (id, flow) = (self.next_message, message.flow as u32);
        self.next_message += 1;
        let own = self.flows.get(message.flow).map_or(Span::ZERO, |flow| flow.own_delay.reverse);
        self.messages.insert(id, message);
        self.room.enter();
        let last = self.stretches[stretch].up.len() - 1;
        let entry = last - self.route(flow, last).last;
        self.stretches[stretch].up[entry].push_after(Packet::new(id, flow, bytes, self.now), own);
    }

    /// The receiver of a flow's connection, which may be the proxy, sends what is due.
    fn answer_flow(&mut self, index: usize, generation: u16, ack: bool) {
        let Some(connection) = self.flows[index].connection_of(generation) else { return };
        let upto = ack.then(|| connection.receiver.ack());
        let report = connection.receiver.poll_report(self.now);
        if upto.is_none() && report.is_none() {
            return;
        }
        let bytes = ACK_BYTES + report.as_ref().map_or(0, |report| report.len() as u32);
        let offer = self.relay_of(index, generation).map(|relay| self.relays[relay].offer());
        let message = UpMessage { upto, report, offer, ..UpMessage::of(index, generation) };
        self.push_up(0, message, bytes);
    }

    /// The receiver behind the proxy sends what is due.
    fn answer_relay(&mut self, index: usize, ack: bool) {
        let Relay { flow, generation, radio, .. } = &mut self.relays[index];
        let upto = ack.then(|| radio.receiver.ack());
        let report = radio.receiver.poll_report(self.now);
        if upto.is_none() && report.is_none() {
            return;
        }
        let bytes = ACK_BYTES + report.as_ref().map_or(0, |report| report.len() as u32);
        let message = UpMessage { upto, report, ..UpMessage::of(*flow, *generation) };
        self.push_up(1, message, bytes);
    }

    fn advance_up(&mut self, stretch: usize, place: usize, observer: &mut impl Observer) {
        let mut fates = std::mem::take(&mut self.fates);
        let up = &mut self.stretches[stretch].up;
        up[place].advance(self.now, &mut fates);
        let last = up.len() - 1;
        for record in fates.drain(..) {
            let id = record.packet.id;
            let is_last = place == last - self.route(record.packet.flow, last).first;
            match record.fate {
                // A second copy of an ack says nothing new.
                Fate::Duplicate => {}
                Fate::Delivered if !is_last => {
                    let packet = Packet { sent_at: self.now, ..record.packet };
                    self.stretches[stretch].up[place + 1].push(packet);
                }
                Fate::Delivered => {
                    self.room.leave(1);
                    if let Some(message) = self.messages.remove(&id) {
                        self.receive(stretch, message, record.packet.size, observer);
                    }
                }
                Fate::Dropped(_) => {
                    self.room.leave(1);
                    self.messages.remove(&id);
                }
            }
        }
        self.fates = fates;
    }

    /// A message is at the beginning of a stretch: at the server, or at the proxy.
    fn receive(
        &mut self,
        stretch: usize,
        message: UpMessage,
        bytes: u32,
        observer: &mut impl Observer,
    ) {
        if let Some(number) = message.ping {
            return match stretch {
                0 => self.pings[message.flow - self.flows.len()].answered(self.now, number),
                _ => self.push_up(stretch - 1, message, bytes),
            };
        }
        match (message.leg, stretch) {
            (Some(leg), 0) => self.deliver_leg(message.flow, leg),
            (Some(leg), _) => self.pass_leg(message.flow, leg, bytes),
            (None, 0) => self.acknowledge_server(message, observer),
            (None, _) => self.acknowledge_proxy(message, observer),
        }
    }

    fn acknowledge_server(&mut self, message: UpMessage, observer: &mut impl Observer) {
        let (now, index) = (self.now, message.flow);
        let (has_proxy, counts) = (self.chain.proxy.is_some(), self.window.contains(now));
        let Some(connection) = self.flows[index].connection_of(message.generation) else { return };
        if let Some(upto) = message.upto {
            let (collector, tally) = (&mut self.collector, &mut self.legs[0]);
            connection.on_ack(now, upto, |rtt| {
                if !has_proxy {
                    collector.rtt(now, index, rtt);
                } else if counts {
                    tally.rtt.record(rtt);
                }
            });
            if has_proxy && counts {
                tally.rto.record(connection.rto());
            }
        }
        if let Some(report) = message.report {
            connection.controller_mut().on_report(now, &report);
        }
        if let Some(offer) = message.offer {
            connection.offer(offer);
        }
        let is_done = connection.is_done();
        if is_done {
            self.show_events(index, observer);
        }
        self.pump_flow(index, observer);
    }

    fn acknowledge_proxy(&mut self, message: UpMessage, observer: &mut impl Observer) {
        let (now, flow, counts) = (self.now, message.flow, self.window.contains(self.now));
        let Some(index) = self.relay_of(flow, message.generation) else { return };
        let radio = &mut self.relays[index].radio;
        let connection = self.flows[flow].connection_of(message.generation);
        let mut tally = connection.and_then(|connection| connection.tally_mut());
        if let Some(upto) = message.upto {
            let (collector, leg) = (&mut self.collector, &mut self.legs[1]);
            radio.on_ack(now, upto, |rtt| {
                collector.rtt(now, flow, rtt);
                if counts {
                    leg.rtt.record(rtt);
                }
                if let Some(tally) = &mut tally {
                    tally.on_rtt(rtt);
                }
            });
            if counts {
                leg.rto.record(radio.rto());
            }
            if let Some(tally) = &mut tally {
                tally.on_rto(radio.rto());
            }
        }
        if let Some(report) = message.report {
            radio.controller_mut().on_report(now, &report);
        }
        self.pump_relay(index, observer);
        if self.relays[index].release() {
            self.send_window(index);
        }
    }

    /// Tells the server how much room there is.
    fn send_window(&mut self, index: usize) {
        let Relay { flow, generation, .. } = self.relays[index];
        let offer = Some(self.relays[index].offer());
        self.push_up(0, UpMessage { offer, ..UpMessage::of(flow, generation) }, ACK_BYTES);
    }

    /// Servers whose window is closed, and whose data has all been acknowledged, ask for more: the
    /// message that there is room may have been lost.
    fn send_probes(&mut self) {
        let now = self.now;
        for place in 0..self.probes.len() {
            let probe = &mut self.probes[place];
            if probe.at > now {
                continue;
            }
            let id = u64::from(probe.generation) << 48 | Probe::MARK;
            let packet = Packet::new(id, probe.flow as u32, ACK_BYTES, now);
            probe.at = now + probe.wait;
            probe.wait = (probe.wait * 2).min(Probe::MAX_WAIT);
            self.push_down(0, packet);
        }
    }

    /// Sets and removes the probes of a flow's connections.
    fn watch_windows(&mut self, index: usize) {
        if self.chain.proxy.is_none() {
            return;
        }
        let (now, connections) = (self.now, &self.flows[index].connections);
        let waits = |generation: u16| {
            let mut all = connections.iter();
            all.any(|c| c.generation == generation && c.waits_for_window())
        };
        self.probes.retain(|probe| probe.flow != index || waits(probe.generation));
        for connection in connections.iter().filter(|connection| connection.waits_for_window()) {
            let generation = connection.generation;
            let mut known = self.probes.iter();
            if !known.any(|probe| probe.flow == index && probe.generation == generation) {
                let wait = connection.rto();
                let at = now + wait;
                self.probes.push(Probe { flow: index, generation, at, wait: wait * 2 });
            }
        }
    }

    /// A packet of a handshake or a request is at the proxy.
    fn pass_leg(&mut self, flow: usize, leg: Leg, bytes: u32) {
        let key = (flow, leg.transfer);
        let is_early = self.chain.proxy.as_ref().is_some_and(|proxy| proxy.is_early);
        if is_early && leg.place == 0 && self.flows[flow].begins_with_syn() {
            // The proxy answers, and connects to the server meanwhile.
            self.connected_at.entry(key).or_insert(self.now + self.wired_rtt);
            self.flows[flow].on_leg(self.now, leg);
            self.send_legs(flow, 1);
            return;
        }
        match self.connected_at.remove(&key).filter(|at| *at > self.now) {
            Some(at) => self.waiting_legs.push_back((at, flow, leg)),
            None => self.push_up(0, leg_message(flow, leg), bytes),
        }
    }

    /// Reports the new path to the senders in front of the last link.
    fn report_path_change(&mut self, observer: &mut impl Observer) {
        let now = self.now;
        if self.chain.proxy.is_some() {
            for index in 0..self.relays.len() {
                self.relays[index].radio.on_path_change(now);
                self.pump_relay(index, observer);
            }
            return;
        }
        for index in 0..self.flows.len() {
            let connections = &mut self.flows[index].connections;
            connections.iter_mut().for_each(|connection| connection.on_path_change(now));
            self.pump_flow(index, observer);
        }
    }

    fn fire_flow(&mut self, index: usize, observer: &mut impl Observer) {
        let now = self.now;
        for place in 0..self.flows[index].connections.len() {
            let connection = &mut self.flows[index].connections[place];
            let (generation, acks) = (connection.generation, connection.receiver.on_deadline(now));
            self.answer_flow(index, generation, acks);
        }
        let (first, own) = (self.route(index as u32, 0).first, self.flows[index].own_delay.forward);
        let (down, room) = (&mut self.stretches[0].down[first], &mut self.room);
        let mut send = |packet| {
            down.push_after(packet, own);
            room.enter()
        };
        self.flows[index].on_timer(now, &mut send, &mut |controller, setup| {
            observer.on_connect(index as u32, controller, setup)
        });
        self.send_legs(index, 0);
        self.settle(index, observer);
    }

    fn pump_flow(&mut self, index: usize, observer: &mut impl Observer) {
        let (first, own) = (self.route(index as u32, 0).first, self.flows[index].own_delay.forward);
        let (down, room) = (&mut self.stretches[0].down[first], &mut self.room);
        self.flows[index].pump(self.now, &mut |packet| {
            down.push_after(packet, own);
            room.enter()
        });
        self.settle(index, observer);
    }

    fn settle(&mut self, index: usize, observer: &mut impl Observer) {
        self.show_events(index, observer);
        self.room.remember(self.flows[index].remembered());
        self.watch_windows(index);
    }

    /// The proxy sends on what its controller lets it.
    fn pump_relay(&mut self, index: usize, observer: &mut impl Observer) {
        let (now, counts) = (self.now, self.window.contains(self.now));
        let flow = self.relays[index].flow;
        let mut sent = Vec::new();
        let radio = &mut self.relays[index].radio;
        radio.pump(now, flow as u32, &mut None, &mut |packet| {
            sent.push(packet);
            true
        });
        let has_sent = !sent.is_empty();
        for packet in sent {
            let relay = &mut self.relays[index];
            let piece = relay.radio.piece_of(&packet);
            if let Some(held) = piece.and_then(|piece| relay.leaves(piece))
                && counts
            {
                self.in_proxy.record(now - held.in_order_at);
            }
            self.push_down(1, packet);
        }
        let Relay { generation, radio, .. } = &mut self.relays[index];
        self.room.remember(radio.remembered());
        if let Some(connection) = self.flows[flow].connection_of(*generation) {
            connection.note_relayed(radio.own_counts());
            if let Some(tally) = connection.tally_mut().filter(|_| has_sent) {
                tally.on_sent(now, radio.in_flight());
            }
        }
        while let Some((at, event)) = radio.controller_mut().poll_event() {
            observer.on_event(flow as u32, at, event);
        }
    }

    /// Relays end with their connections: when the receiver has everything, or when they are given
    /// up.
    fn end_relays(&mut self, observer: &mut impl Observer) {
        let mut index = 0;
        while index < self.relays.len() {
            let relay = &self.relays[index];
            let (flow, generation) = (relay.flow, relay.generation);
            let ends = match self.flows[flow].connection_of(generation) {
                None => true,
                Some(connection) if relay.is_empty() && connection.is_at_proxy() => {
                    connection.release();
                    true
                }
                Some(_) => false,
            };
            if !ends {
                index += 1;
                continue;
            }
            self.past_relays += self.relays.remove(index).radio.own_counts();
            self.pump_flow(flow, observer);
        }
    }

    fn show_events(&mut self, index: usize, observer: &mut impl Observer) {
        for connection in &mut self.flows[index].connections {
            while let Some((at, event)) = connection.controller_mut().poll_event() {
                mark(&mut self.collector, index, at, &event);
                observer.on_event(index as u32, at, event);
            }
        }
    }

    /// What is left once the run is over.
    pub(crate) fn finish(mut self) -> (Remains, ChainFigures) {
        self.sampler.finish(&self.flows);
        let counts: Vec<Option<SenderCounts>> = self.flows.iter().map(SimFlow::counts).collect();
        let figures = self.figures(&counts);
        let transfers = self.flows.iter_mut().flat_map(SimFlow::finish_transfers).collect();
        let videos = self.flows.iter().map(|flow| flow.video(self.window)).collect();
        let Self { collector, sampler, pings, window, .. } = self;
        let refused = Vec::new();
        let pings = pings.into_iter().map(|ping| ping.finish(window)).collect();
        (Remains { collector, sampler, counts, refused, transfers, videos, pings }, figures)
    }

    fn figures(&self, counts: &[Option<SenderCounts>]) -> ChainFigures {
        let names = self.chain.before.iter().map(|segment| &segment.name);
        let segment = |(name, tally): (&String, &SegmentTally)| SegmentFigures {
            name: name.clone(),
            throughput_mbps: tally.bytes as f64 * 8.0 / 1e6 / self.window.seconds(),
            queue_delay_ms: tally.queue.summary(),
            lost: tally.lost,
        };
        let mut of_servers = SenderCounts::default();
        counts.iter().flatten().for_each(|counts| of_servers += *counts);
        let mut of_proxy = self.past_relays;
        self.relays.iter().for_each(|relay| of_proxy += relay.radio.own_counts());
        ChainFigures {
            segments: names.chain([&self.chain.last]).zip(&self.segments).map(segment).collect(),
            proxy: self.chain.proxy.as_ref().map(|_| ProxyFigures {
                time_ms: self.in_proxy.summary(),
                held_max_bytes: self.held_max * PACKET_BYTES,
                wired: self.legs[0].figures(of_servers),
                radio: self.legs[1].figures(of_proxy),
            }),
        }
    }
}

fn leg_message(flow: usize, leg: Leg) -> UpMessage {
    UpMessage { leg: Some(leg), ..UpMessage::of(flow, 0) }
}

fn is_due(path: &Path, now: Time) -> bool {
    path.next_deadline().is_some_and(|due| due <= now)
}

/// The links in front of a proxy and the last, or all.
fn stretches(
    scenario: &Scenario,
    chain: &ChainSpec,
    routes: &[LinkRoute],
) -> Result<Vec<Stretch>, SimError> {
    let (mut down, mut up) = (Vec::new(), Vec::new());
    // The senders are in front of the links; behind a proxy there are others.
    let behind = chain.proxy.is_none().then_some(scenario.trace());
    let links = chain.before.iter().filter_map(|segment| segment.link.down.trace.as_ref());
    let send_jitter = longest_delays(scenario, links.chain(behind));
    let jitter_at = |place| senders_at(place, &send_jitter, routes);
    // A proxy ends the connection, so that each side of it has an RTT of its own.
    let wired: Span = chain.before.iter().map(|segment| segment.link.rtt().mean()).sum();
    let (rtt, last_rtt) = match chain.proxy {
        Some(_) => (wired, scenario.link.rtt().mean()),
        None => (wired + scenario.link.rtt().mean(), wired + scenario.link.rtt().mean()),
    };
    for (place, segment) in chain.before.iter().enumerate() {
        // Each draws on its own.
        let seed = Random::seeded(scenario.seed, SEGMENT_STREAMS + place as u64).bits();
        let spec = PathSpec {
            rtt: rtt.into(),
            send_jitter: jitter_at(place),
            ..segment.link.down.clone()
        };
        down.push(spec.build(seed)?);
        up.push(segment.link.up.build_reverse(seed)?);
    }
    let delays = DelaySplit::new(scenario);
    let last = PathSpec { rtt: last_rtt.into(), ..forward_spec(scenario, &delays) };
    let last_up = reverse_spec(scenario, &delays).build_reverse(scenario.seed)?;
    if chain.proxy.is_none() {
        down.push(PathSpec { send_jitter: jitter_at(down.len()), ..last }.build(scenario.seed)?);
        up.push(last_up);
        up.reverse();
        return Ok(vec![Stretch { down, up, first: 0 }]);
    }
    up.reverse();
    let first = down.len();
    let wired = Stretch { down, up, first: 0 };
    let down = vec![last.build(scenario.seed)?];
    Ok(vec![wired, Stretch { down, up: vec![last_up], first }])
}

/// The longest delays of the flows that begin at this link; empty where there are none.
fn senders_at(place: usize, longest: &[Span], routes: &[LinkRoute]) -> Vec<Span> {
    let begins = |route: &LinkRoute| route.first == place;
    if !routes.iter().any(begins) {
        return Vec::new();
    }
    let flows = longest.iter().zip(routes);
    flows.map(|(longest, route)| if begins(route) { *longest } else { Span::ZERO }).collect()
}
