//! The event loop.

mod split;

use std::collections::VecDeque;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::Event;
use cellpace_measure::{
    ChainFigures, Collector, FlowSpan, MeasuredWindow, PingFigures, PlayerFigures, Transfer,
    VideoFigures,
};
use cellpace_path::{Fate, Handover, Packet, PacketRecord, Path};

use crate::chain_spec::{ChainSpec, LinkRoute, ProxySpec};
use crate::connection::{EndRules, generation_of};
use crate::ends::{FlowEnds, FlowNote, FlowSample};
use crate::flow::{OwnDelay, SimFlow};
use crate::links::{DelaySplit, Links};
use crate::observer::{FlowView, Observer};
use crate::ping::PingSeries;
use crate::proxy::SplitProxy;
use crate::sampler::{SampledFlow, SeriesSampler};
use crate::timers::{AckMessage, AckStore, Timers};
use crate::transfer_tally::SenderCounts;
use crate::transfers::Leg;
use crate::two_way::TwoWayFlow;
use crate::{FlowSpec, Scenario, SimError};

pub(crate) struct World {
    now: Time,
    end: Time,
    window: MeasuredWindow,
    links: Links,
    flows: Vec<SimFlow>,
    /// Those of them whose ends are not our own.
    with_ends: Vec<usize>,
    /// Why one of these cannot go on.
    failed: Option<SimError>,
    /// Over all links; their packets have the numbers behind those of the flows.
    pings: Vec<PingSeries>,
    /// What their packets need beyond the delay of the path.
    ping_delay: OwnDelay,
    timers: Timers,
    /// What acks in flight say.
    acks: AckStore,
    collector: Collector,
    sampler: SeriesSampler,
    fates: Vec<PacketRecord>,
    room: PacketRoom,
    /// When the paths to come begin.
    path_changes: VecDeque<Time>,
    /// When the observer next wants to see the flows.
    show_at: Option<Time>,
    /// What is in front of the last link, in a chain that has one.
    proxy: Option<Box<SplitProxy>>,
}

/// What a run leaves.
pub(crate) struct Remains {
    pub(crate) collector: Collector,
    pub(crate) sampler: SeriesSampler,
    /// What the senders of each flow have done.
    pub(crate) counts: Vec<Option<SenderCounts>>,
    /// Packets that the host refused, flow by flow.
    pub(crate) refused: Vec<u64>,
    pub(crate) transfers: Vec<Transfer>,
    /// What the viewer of each flow saw, flow by flow.
    pub(crate) players: Vec<Option<PlayerFigures>>,
    /// The figures of each flow's frames, flow by flow.
    pub(crate) videos: Vec<Option<VideoFigures>>,
    pub(crate) pings: Vec<PingFigures>,
    /// What happened on the links of a chain.
    pub(crate) chain: Option<ChainFigures>,
}

/// Packets in flight at most, and packets that one flow may have to remember: some six gigabytes
/// of data, for which the machine spends about one. More than that is no network but a window or
/// a queue without an end. In a web page it is a sixteenth of that.
const MAX_PACKETS: u64 = if usize::BITS < 64 { 1 << 18 } else { 1 << 22 };

/// Keeps what waits in the network within memory.
struct PacketRoom {
    /// Packets and acks in flight.
    in_flight: u64,
    most: u64,
    /// A flow has to remember more than that.
    exceeded: bool,
}

impl PacketRoom {
    fn new() -> Self {
        Self { in_flight: 0, most: MAX_PACKETS, exceeded: false }
    }

    /// One more is in flight. Returns whether another may follow.
    fn enter(&mut self) -> bool {
        self.in_flight += 1;
        !self.is_full()
    }

    fn leave(&mut self, packets: usize) {
        self.in_flight -= packets as u64;
    }

    fn remember(&mut self, packets: u64) {
        self.exceeded |= packets >= self.most;
    }

    fn is_full(&self) -> bool {
        self.exceeded || self.in_flight >= self.most
    }

    /// The run cannot go on at `now`.
    fn error(&self, now: Time) -> SimError {
        SimError::Invalid(format!(
            "{} packets are in flight or unanswered after {:.3} s, more than memory should hold; \
             give the queue a limit (droptail:2MB) or the flows smaller windows and rates",
            self.most,
            now.as_secs_f64()
        ))
    }
}

impl World {
    /// A world at time zero.
    pub(crate) fn new(
        scenario: &Scenario,
        mut other_ends: Vec<Option<Box<dyn FlowEnds>>>,
    ) -> Result<Self, SimError> {
        let (end, window) = (scenario.end(), window(scenario));
        let delays = DelaySplit::new(scenario);
        let routes = routes(scenario)?;
        let links = Links::new(scenario, &routes, &delays, window)?;
        let mut flows = flows(scenario, &routes, &delays);
        let mut with_ends = Vec::new();
        for (index, (flow, spec)) in flows.iter_mut().zip(&scenario.flows).enumerate() {
            let other = other_ends.get_mut(index).and_then(Option::take);
            if let Some(ends) = ends_of(scenario, index, spec, other)? {
                flow.set_ends(ends);
                with_ends.push(index);
            }
        }
        let mut timers = Timers::new(flows.len());
        // A flow's first deadline is its start: this is what sets a run going.
        for (index, flow) in flows.iter().enumerate() {
            timers.arm(index, flow.next_deadline());
        }
        let of_chain = |chain| SplitProxy::new(chain, end_rules(scenario), scenario.seed);
        Ok(Self {
            now: Time::ZERO,
            end,
            window,
            links,
            pings: scenario.pings.iter().map(|ping| PingSeries::new(ping.clone(), end)).collect(),
            ping_delay: delays.general(),
            with_ends,
            failed: None,
            timers,
            acks: AckStore::default(),
            collector: collector(scenario),
            sampler: SeriesSampler::new(scenario.bin, end, flows.len()),
            flows,
            fates: Vec::new(),
            room: PacketRoom::new(),
            path_changes: signalled(scenario.handovers()),
            show_at: None,
            proxy: scenario.chain.as_ref().and_then(of_chain).map(Box::new),
        })
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn flow(&self, index: usize) -> Option<FlowView<'_>> {
        let connection = self.flows.get(index)?.connection()?;
        Some(FlowView::of(index as u32, connection))
    }

    pub(crate) fn ends(&self, index: usize) -> Option<&dyn FlowEnds> {
        self.flows.get(index)?.other_ends.as_deref()
    }

    pub(crate) fn ends_mut(&mut self, index: usize) -> Option<&mut dyn FlowEnds> {
        self.flows.get_mut(index)?.other_ends.as_deref_mut()
    }

    /// Everything that happens up to and including `until`.
    pub(crate) fn advance(
        &mut self,
        until: Time,
        observer: &mut impl Observer,
    ) -> Result<(), SimError> {
        // What is in flight at the end of a run never arrives: figures end with the run.
        let until = until.min(self.end);
        let interval = observer.interval().filter(|interval| !interval.is_zero());
        // Multiples of virtual time: a run that is advanced in steps shows flows at the same
        // instants.
        self.show_at = interval.map(|interval| next_multiple(self.now, interval));
        loop {
            // Senders stop by themselves when the room is full, so a look before each event is
            // enough.
            if self.room.is_full() {
                return Err(self.room.error(self.now));
            }
            let next = self.next_deadline();
            if next > until {
                break;
            }
            self.now = next;
            self.step(observer);
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.show_at == Some(next) {
                self.show_at = interval.map(|interval| next + interval);
            }
        }
        // Time goes on without events, too, so that callers that advance by time come to the end.
        self.now = self.now.max(until);
        Ok(())
    }

    /// Asked once an event: this and what it calls is a tenth of a run.
    #[inline]
    fn next_deadline(&self) -> Time {
        let or_never = |time: Option<Time>| time.unwrap_or(Time::MAX);
        let path_change = or_never(self.path_changes.front().copied());
        let (timer, show) = (or_never(self.timers.next()), or_never(self.show_at));
        let ends = self.with_ends.iter().filter_map(|index| self.ends(*index));
        // Other stacks may name a deadline in the past: time must not go back.
        let ends = ends.map(FlowEnds::next_deadline).min().unwrap_or(Time::MAX).max(self.now);
        let proxy = self.proxy.as_ref().map_or(Time::MAX, |proxy| proxy.next_deadline());
        self.links
            .next_deadline()
            .min(self.next_ping())
            .min(ends)
            .min(path_change)
            .min(timer)
            .min(show)
            .min(proxy)
            .min(self.sampler.next)
    }

    #[inline]
    fn next_ping(&self) -> Time {
        self.pings.iter().map(PingSeries::next).min().unwrap_or(Time::MAX)
    }

    /// What happens at this instant, always in one order: samples and views of the past, then
    /// deliveries in the order of data, then acks, then a change of the path, then timers.
    fn step(&mut self, observer: &mut impl Observer) {
        let now = self.now;
        if self.sampler.next == now {
            self.sampler.take(&self.flows);
        }
        if self.show_at == Some(now) {
            self.show_flows(observer);
        }
        // What answers a delivery over no distance at all comes after the timers of this instant.
        let is_up_due = self.links.is_up_due(now);
        // In the order of data: a packet crosses several links without delay in one instant.
        for link in 0..self.links.down.len() {
            if is_due(&self.links.down[link], now) {
                self.advance_down(link, observer);
            }
        }
        // Likewise against the order of data, in which acks travel.
        for link in (0..self.links.up.len()).rev() {
            if is_up_due && is_due(&self.links.up[link], now) {
                self.advance_up(link, observer);
            }
        }
        if self.path_changes.front() == Some(&now) {
            self.path_changes.pop_front();
            self.report_path_change(observer);
        }
        if self.next_ping() <= now {
            self.send_pings();
        }
        if self.proxy.is_some() {
            self.run_proxy();
        }
        // A flow without a limit would send for ever in one instant: a full room ends the run
        // instead.
        while self.timers.next().is_some_and(|time| time <= now) && !self.room.is_full() {
            self.fire_timer(observer);
        }
        // Arrivals of this instant may have woken ends.
        for place in 0..self.with_ends.len() {
            self.turn_ends(self.with_ends[place], observer);
        }
        if self.proxy.is_some() {
            self.run_relays(observer);
            self.end_relays(observer);
        }
    }

    fn show_flows(&self, observer: &mut impl Observer) {
        for (index, flow) in (0..).zip(&self.flows) {
            flow.look(&mut |sample: FlowSample<'_>| {
                observer.on_interval(self.now, sample.view(index));
            });
        }
    }

    /// Ends that are not our own take their turn.
    fn turn_ends(&mut self, index: usize, observer: &mut impl Observer) {
        let (now, room, collector) = (self.now, &mut self.room, &mut self.collector);
        let SimFlow { other_ends, host, own_delay, route, .. } = &mut self.flows[index];
        let OwnDelay { forward, reverse } = *own_delay;
        let mut ways = [
            (&mut self.links.down[route.first], forward),
            (&mut self.links.up[route.last], reverse),
        ];
        let Some(ends) = other_ends else { return };
        let turned = ends.turn(now, &mut |direction, packet| {
            // Only data leaves the sending host, so only data waits in its queue.
            let host = host.as_mut().filter(|_| direction == 0);
            if host.is_some_and(|host| !host.admit_plain(u64::from(packet.size))) {
                return false;
            }
            room.enter();
            let (path, own_delay) = &mut ways[direction];
            path.push_after(packet, *own_delay);
            true
        });
        // The first failure is the cause; later ones may follow from it.
        self.failed = self.failed.take().or(turned.err());
        ends.drain(now, &mut |note| match note {
            FlowNote::Rtt(at, rtt) => collector.rtt(at, index, rtt),
            FlowNote::Event(at, event) => {
                mark(collector, index, at, &event);
                observer.on_event(index as u32, at, event);
            }
        });
    }

    /// What is left once the run is over.
    pub(crate) fn finish(mut self, chain: Option<&ChainSpec>) -> Remains {
        self.sampler.finish(&self.flows);
        let counts: Vec<Option<SenderCounts>> = self.flows.iter().map(SimFlow::counts).collect();
        let mut of_servers = SenderCounts::default();
        counts.iter().flatten().for_each(|counts| of_servers += *counts);
        let chain = chain.map(|chain| ChainFigures {
            segments: self.links.figures(chain),
            proxy: self.proxy.as_ref().map(|proxy| proxy.figures(of_servers)),
        });
        let refused = |flow: &SimFlow| flow.host.as_ref().map_or(0, |host| host.refused);
        let refused = self.flows.iter().map(refused).collect();
        let end = self.window.end;
        let players = self.flows.iter_mut().map(|flow| flow.player(end)).collect();
        let transfers = self.flows.iter_mut().flat_map(SimFlow::finish_transfers).collect();
        let videos = self.flows.iter().map(|flow| flow.video(self.window)).collect();
        let Self { collector, sampler, pings, window, .. } = self;
        let pings = pings.into_iter().map(|ping| ping.finish(window)).collect();
        Remains { collector, sampler, counts, refused, transfers, players, videos, pings, chain }
    }

    /// The links on the way of a packet of this flow that is on `link`.
    #[inline]
    fn route(&self, flow: usize, link: usize) -> LinkRoute {
        let last = self.links.last();
        match self.flows.get(flow) {
            // What is on the last link was sent by the proxy, whose route is this link alone.
            Some(_) if link == last && self.proxy.is_some() => LinkRoute { first: last, last },
            Some(flow) => flow.route,
            // Numbers behind those of the flows are pings, which cross all links.
            None => LinkRoute { first: 0, last },
        }
    }

    fn advance_down(&mut self, link: usize, observer: &mut impl Observer) {
        // The buffer is taken out for the loop, which borrows all of `self`, and put back
        // afterwards.
        let mut fates = std::mem::take(&mut self.fates);
        self.links.down[link].advance(self.now, &mut fates);
        for record in &mut fates {
            let route = self.route(record.packet.flow as usize, link);
            let is_copy = record.fate == Fate::Duplicate;
            if self.links.pass(self.now, link, route, record) {
                // A duplicate arises inside the path, so it never entered the room.
                self.room.leave(usize::from(!is_copy));
                self.arrive(link, record, observer);
            }
            // The host's queue is the first link: a packet that left it, or was dropped, frees its
            // buffer.
            if !is_copy && link == 0 {
                self.leave_host(&record.packet, observer);
            }
        }
        fates.clear();
        self.fates = fates;
    }

    /// A packet is at the end of its way over the links, or was dropped on it.
    #[inline]
    fn arrive(&mut self, link: usize, record: &mut PacketRecord, observer: &mut impl Observer) {
        let index = record.packet.flow as usize;
        if index >= self.flows.len() {
            return self.answer_ping(record);
        }
        if self.proxy.is_some() {
            return self.arrive_split(link, record, observer);
        }
        self.collector.record(record);
        observer.on_record(record);
        if let Some(ends) = &mut self.flows[index].other_ends {
            ends.receive(self.now, 0, record);
        } else if !matches!(record.fate, Fate::Dropped(_)) {
            self.deliver(&record.packet);
        }
    }

    /// The requests that are due.
    fn send_pings(&mut self) {
        for index in 0..self.pings.len() {
            if let Some(request) = self.pings[index].due(self.now, self.flows.len() + index) {
                self.room.enter();
                self.links.down[0].push_after(request, self.ping_delay.forward);
            }
        }
    }

    /// A request has arrived, and the answer leaves at once.
    fn answer_ping(&mut self, request: &PacketRecord) {
        if request.fate != Fate::Delivered {
            return;
        }
        let Packet { id, flow, size, .. } = request.packet;
        self.room.enter();
        // The request's number comes back as the answer's, by which its RTT is found.
        let (answer, last) = (Packet::new(id, flow, size, self.now), self.links.last());
        self.links.up[last].push_after(answer, self.ping_delay.reverse);
    }

    /// A packet has left the queue of the sending host, and a flow that waited for that asks again.
    #[inline]
    fn leave_host(&mut self, packet: &Packet, observer: &mut impl Observer) {
        let index = packet.flow as usize;
        let Some(host) = self.flows.get_mut(index).and_then(|flow| flow.host.as_mut()) else {
            return;
        };
        // What carries no data was not counted against the socket's buffer.
        if Leg::of_packet(packet.id).is_some() || SplitProxy::is_probe(packet) {
            return;
        }
        if host.leave(u64::from(packet.size)) {
            self.pump(index, observer);
        }
    }

    #[inline]
    fn deliver(&mut self, packet: &Packet) {
        let index = packet.flow as usize;
        let now = self.now;
        if let Some(leg) = Leg::of_packet(packet.id) {
            return self.deliver_leg(index, leg);
        }
        let generation = generation_of(packet);
        let Some(connection) = self.flows[index].connection_of(generation) else { return };
        let acks = connection.on_arrival(now, packet);
        self.flows[index].on_data(now, generation);
        self.answer(index, generation, acks);
        self.timers.arm(index, self.flows[index].receiving_deadline(generation));
    }

    /// A packet of a handshake or a request reached the other end.
    fn deliver_leg(&mut self, index: usize, leg: Leg) {
        self.flows[index].on_leg(self.now, leg);
        self.send_legs(index, self.flows[index].route.first);
        self.timers.arm(index, self.flows[index].next_deadline());
    }

    /// Sends packets of handshakes and requests; those that go down begin at the link `from`.
    fn send_legs(&mut self, index: usize, from: usize) {
        for leg in self.flows[index].take_legs() {
            if leg.is_up() {
                self.push_up(self.receiving_end(index), index, AckMessage::leg(leg));
            } else {
                let packet = Packet::new(leg.packet_id(), index as u32, leg.bytes, self.now);
                self.push_down(from, packet);
            }
        }
    }

    /// The link at the receiver of a flow.
    fn receiving_end(&self, index: usize) -> usize {
        if self.proxy.is_some() { self.links.last() } else { self.flows[index].route.last }
    }

    /// A packet enters the link `from`.
    fn push_down(&mut self, from: usize, packet: Packet) {
        self.room.enter();
        let own_delay = self.flows[packet.flow as usize].own_delay.forward;
        self.links.down[from].push_after(packet, own_delay);
    }

    /// A message enters the link `from` on its way back.
    #[inline]
    fn push_up(&mut self, from: usize, index: usize, message: AckMessage) {
        self.room.enter();
        let packet = Packet::new(0, index as u32, message.bytes(), self.now);
        let own_delay = self.flows[index].own_delay.reverse;
        self.links.up[from].push_after(self.acks.load(packet, message), own_delay);
    }

    /// The receiver of a connection, which may be the proxy, sends the ack and the report that are due.
    #[inline]
    fn answer(&mut self, index: usize, generation: u16, ack: bool) {
        let from = self.flows[index].route.last;
        let Some(connection) = self.flows[index].connection_of(generation) else { return };
        let upto = ack.then(|| connection.receiver.ack());
        let report = connection.receiver.poll_report(self.now);
        if upto.is_none() && report.is_none() {
            return;
        }
        let offer = self.proxy.as_mut().and_then(|proxy| proxy.offer(index, generation));
        self.push_up(from, index, AckMessage { generation, upto, report, leg: None, offer });
    }

    fn advance_up(&mut self, link: usize, observer: &mut impl Observer) {
        let mut fates = std::mem::take(&mut self.fates);
        self.links.up[link].advance(self.now, &mut fates);
        for record in &fates {
            let PacketRecord { packet, fate } = record;
            let (is_copy, index) = (*fate == Fate::Duplicate, packet.flow as usize);
            let is_lost = matches!(fate, Fate::Dropped(_));
            if !is_lost && link != self.route(index, link).first {
                // A copy has nothing that the packet itself does not bring to the next link.
                if !is_copy {
                    self.links.up[link - 1].push(Packet { sent_at: self.now, ..*packet });
                }
                continue;
            }
            self.room.leave(usize::from(!is_copy));
            // Numbers behind those of the flows are pings.
            if let Some(ping) = index.checked_sub(self.flows.len()) {
                if *fate == Fate::Delivered {
                    self.pings[ping].answered(self.now, packet.id);
                }
                continue;
            }
            if let Some(ends) = &mut self.flows[index].other_ends {
                ends.receive(self.now, 1, record);
                continue;
            }
            let message = match is_copy {
                true => self.acks.copy(packet),
                false => self.acks.take(packet),
            };
            // Only now: the slot of a lost ack had to be freed, too.
            if is_lost {
                continue;
            }
            match self.proxy.is_some() && link == self.links.last() {
                true => self.receive_at_proxy(index, message, observer),
                false => self.acknowledge(index, message, observer),
            }
        }
        fates.clear();
        self.fates = fates;
    }

    #[inline]
    fn acknowledge(&mut self, index: usize, ack: AckMessage, observer: &mut impl Observer) {
        let now = self.now;
        if let Some(leg) = ack.leg {
            return self.deliver_leg(index, leg);
        }
        let Some(connection) = self.flows[index].connection_of(ack.generation) else { return };
        if let Some(upto) = ack.upto {
            let (collector, counts) = (&mut self.collector, self.window.contains(now));
            match self.proxy.as_mut().map(|proxy| &mut proxy.legs[0]) {
                None => {
                    connection.on_ack(now, upto, |rtt| collector.rtt(now, index, rtt));
                    let view = FlowView::of(index as u32, connection);
                    connection.acked().for_each(|packet| observer.on_ack(now, view, packet));
                }
                // Through a proxy this is the RTT of its wired leg; the flow's figures take the
                // radio leg's.
                Some(leg) if counts => {
                    connection.on_ack(now, upto, |rtt| leg.rtt.record(rtt));
                    leg.rto.record(connection.rto());
                }
                Some(_) => connection.on_ack(now, upto, |_| {}),
            }
        }
        if let Some(report) = ack.report {
            connection.controller_mut().on_report(now, &report);
        }
        if let Some(offer) = ack.offer {
            connection.offer(offer);
        }
        if connection.is_done() {
            // The connection is removed with its file, so its events about this ack are read first.
            self.show_events(index, observer);
        }
        self.pump(index, observer);
    }

    /// Reports the new path to the senders in front of it, which use it from now on.
    fn report_path_change(&mut self, observer: &mut impl Observer) {
        if self.proxy.is_some() {
            return self.report_path_change_to_proxy(observer);
        }
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            // All connections of the flow, as a transfer's may still be open beside the present
            // one.
            flow.connections.iter_mut().for_each(|connection| connection.on_path_change(self.now));
            if let Some(ends) = &mut flow.other_ends {
                ends.on_path_change(self.now);
            }
            self.pump(index, observer);
        }
    }

    fn fire_timer(&mut self, observer: &mut impl Observer) {
        let Some(index) = self.timers.pop() else { return };
        let now = self.now;
        let due = self.flows[index].next_deadline();
        if due.is_none_or(|due| due > now) {
            // The deadline moved while the timer was running.
            self.timers.arm(index, due);
            return;
        }
        for place in 0..self.flows[index].connections.len() {
            let connection = &mut self.flows[index].connections[place];
            // Delayed acks first: they belong to data that came before this instant.
            let (generation, ack) = (connection.generation, connection.receiver.on_deadline(now));
            self.answer(index, generation, ack);
        }
        let flow = &mut self.flows[index];
        let (first, delay) = (flow.route.first, flow.own_delay.forward);
        let (down, room) = (&mut self.links.down[first], &mut self.room);
        let mut send = |packet| {
            down.push_after(packet, delay);
            room.enter()
        };
        flow.on_timer(now, &mut send, &mut |controller, setup| {
            observer.on_connect(index as u32, controller, setup)
        });
        self.send_legs(index, first);
        self.settle(index, observer);
    }

    fn pump(&mut self, index: usize, observer: &mut impl Observer) {
        let flow = &mut self.flows[index];
        let delay = flow.own_delay.forward;
        let (down, room) = (&mut self.links.down[flow.route.first], &mut self.room);
        flow.pump(self.now, &mut |packet| {
            down.push_after(packet, delay);
            room.enter()
        });
        self.settle(index, observer);
    }

    /// After anything happened to a flow: its events go out, its timer is set.
    #[inline]
    fn settle(&mut self, index: usize, observer: &mut impl Observer) {
        self.show_events(index, observer);
        if self.flows[index].may_fail {
            self.note_failure(index);
        }
        let flow = &self.flows[index];
        self.room.remember(flow.remembered());
        self.timers.arm(index, flow.next_deadline());
        if let Some(proxy) = &mut self.proxy {
            proxy.watch_windows(self.now, index, &flow.connections);
        }
    }

    /// A controller that cannot go on ends the run: what its flow did without it is no result of it.
    #[cold]
    fn note_failure(&mut self, index: usize) {
        let mut connections = self.flows[index].connections.iter();
        let Some(reason) = connections.find_map(|one| one.controller().failure()) else { return };
        let failed =
            || SimError::Stopped { flow: index + 1, at: self.now.since(Time::ZERO), reason };
        self.failed.get_or_insert_with(failed);
    }

    fn show_events(&mut self, index: usize, observer: &mut impl Observer) {
        for connection in &mut self.flows[index].connections {
            while let Some((at, event)) = connection.controller_mut().poll_event() {
                mark(&mut self.collector, index, at, &event);
                observer.on_event(index as u32, at, event);
            }
        }
    }
}

fn is_due(path: &Path, now: Time) -> bool {
    path.next_deadline().is_some_and(|due| due <= now)
}

/// The links over which the connections of each flow lead: with a proxy, those in front of it.
fn routes(scenario: &Scenario) -> Result<Vec<LinkRoute>, SimError> {
    let of_flow = |flow: &FlowSpec| match &scenario.chain {
        None => Ok(LinkRoute { first: 0, last: 0 }),
        Some(ChainSpec { before, proxy: Some(_), .. }) => {
            Ok(LinkRoute { first: 0, last: before.len() - 1 })
        }
        Some(chain) => chain.route(&flow.path).map_err(SimError::Invalid),
    };
    scenario.flows.iter().map(of_flow).collect()
}

fn end_rules(scenario: &Scenario) -> EndRules {
    EndRules { acks: scenario.acks, rto_rule: scenario.rto_rule, relay_room: None }
}

fn flows(scenario: &Scenario, routes: &[LinkRoute], delays: &DelaySplit) -> Vec<SimFlow> {
    let seeded = |stream| Random::seeded(scenario.seed, stream);
    let proxy = scenario.chain.as_ref().and_then(|chain| chain.proxy.as_ref());
    let ends = EndRules { relay_room: proxy.map(ProxySpec::room), ..end_rules(scenario) };
    let flow = |(index, (spec, route)): (u32, (&FlowSpec, &LinkRoute))| {
        let way = (*route, delays.own(scenario, spec, *route));
        let host = scenario.bottleneck.host().map(|host| host.share(spec.cc.as_ref()));
        let transfers = seeded(1_000_000 + u64::from(index));
        // Streams by the flow's number: another flow at the end of the list changes no draw of
        // these.
        let random = seeded(1000 + u64::from(index));
        SimFlow::new(index, spec.clone(), ends, way, host, random, transfers)
    };
    (0..).zip(scenario.flows.iter().zip(routes)).map(flow).collect()
}

/// The ends of a flow that are not our own: those that it was given, or of one that sends both ways.
fn ends_of(
    scenario: &Scenario,
    index: usize,
    spec: &FlowSpec,
    other: Option<Box<dyn FlowEnds>>,
) -> Result<Option<Box<dyn FlowEnds>>, SimError> {
    let (Some(cc), Some(back), None) = (&spec.cc, &spec.reverse, &other) else { return Ok(other) };
    let both = TwoWayFlow::new([cc, back], spec, index as u32, scenario.seed)?;
    Ok(Some(Box::new(both)))
}

/// Notes what a controller decided, for charts. The base delay is a figure, no event on them.
fn mark(collector: &mut Collector, flow: usize, at: Time, event: &Event) {
    match event {
        Event::BaseDelay(_) => {}
        Event::Phase(phase) => collector.event(flow, at, event.name(), Some(phase.name())),
        _ => collector.event(flow, at, event.name(), None),
    }
}

/// When handovers are reported to controllers.
fn signalled(handovers: &[Handover]) -> VecDeque<Time> {
    handovers.iter().filter(|handover| handover.signal).map(Handover::end).collect()
}

/// The first multiple of `interval` that lies after `now`.
fn next_multiple(now: Time, interval: Span) -> Time {
    Time::ZERO + interval * ((now - Time::ZERO).as_nanos() / interval.as_nanos() + 1)
}

fn window(scenario: &Scenario) -> MeasuredWindow {
    MeasuredWindow { skip: Time::ZERO + scenario.skip, end: scenario.end() }
}

/// What takes the records of a run.
fn collector(scenario: &Scenario) -> Collector {
    let window = window(scenario);
    let span = |flow: &FlowSpec| FlowSpan {
        start: flow.start,
        stop: flow.stop,
        is_controlled: flow.cc.is_some(),
    };
    let spans: Vec<FlowSpan> = scenario.flows.iter().map(span).collect();
    Collector::new(window, &spans, scenario.bin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PingSpec;

    fn scenario(flow: FlowSpec, queue: &str, seconds: u64) -> Scenario {
        Scenario {
            flows: vec![flow],
            duration: Span::from_secs(seconds),
            skip: Span::ZERO,
            ..Scenario::default()
        }
        .with_link(|link| link.down.queue = queue.parse().unwrap())
    }

    fn bulk(cc: &str) -> FlowSpec {
        FlowSpec::bulk(cc.parse().unwrap())
    }

    /// The world after the run.
    fn ran(scenario: &Scenario) -> World {
        let mut world = World::new(scenario, Vec::new()).unwrap();
        world.advance(Time::MAX, &mut ()).unwrap();
        world
    }

    /// Returns the error of a run that may hold no more than 1000 packets.
    fn error_of(scenario: &Scenario) -> String {
        let mut world = World::new(scenario, Vec::new()).unwrap();
        world.room.most = 1000;
        let error = world.advance(Time::MAX, &mut ()).unwrap_err().to_string();
        assert!(world.room.in_flight <= 1001, "{}", world.room.in_flight);
        error
    }

    #[test]
    fn pings_go_through_both_queues() {
        let with_ping = |cc: &str, queue: &str| {
            let pings = vec![PingSpec { every: Span::from_millis(500), ..PingSpec::default() }];
            Scenario { pings, ..scenario(bulk(cc), queue, 10) }
                .with_link(|link| link.up.trace = Some("constant:12mbit".parse().unwrap()))
        };
        // 60 packets in flight over 12 Mbit/s and 40 ms: a queue of 20 packets, of a millisecond each.
        let outcome = crate::run(&with_ping("fixed:cwnd=60pkts", "infinite")).unwrap();
        let ping = &outcome.figures.pings[0];
        assert_eq!((ping.sent, ping.answered, ping.rtts_ms.len()), (20, 20, 20));
        let first = ping.rtts_ms[0].unwrap();
        assert!((first - 40.0).abs() < 3.0, "the first finds no queue: {first}");
        let last = f64::from(ping.rtts_ms[19].unwrap());
        let queue = outcome.figures.queue_delay_ms.p50;
        assert!((last - 40.0 - queue).abs() < 4.0, "{last} with {queue} ms of queue");
        assert_eq!(ping.quantiles_ms.len(), 201);
        // The flow is as it was, but for what the pings take.
        let alone = Scenario { pings: Vec::new(), ..with_ping("fixed:cwnd=60pkts", "infinite") };
        let alone = crate::run(&alone).unwrap().figures;
        assert_eq!(alone.per_flow.len(), outcome.figures.per_flow.len());
        assert!((alone.throughput_mbps - outcome.figures.throughput_mbps).abs() < 0.1);
        // Lost both ways they have no answer.
        let lost = with_ping("cubic", "droptail").with_link(|link| {
            link.down.loss = "50%".parse().unwrap();
            link.up.loss = "50%".parse().unwrap();
        });
        let ping = crate::run(&lost).unwrap().figures.pings.remove(0);
        assert!((1..15).contains(&ping.answered) && ping.sent == 20, "{ping:?}");
        assert_eq!(ping.rtts_ms.iter().flatten().count() as u64, ping.answered);
    }

    #[test]
    fn pings_that_cannot_be_are_refused() {
        let wrong = |every: u64, size: u32| {
            let pings = vec![PingSpec { every: Span::from_micros(every), size, user: None }];
            let scenario = Scenario { pings, ..scenario(bulk("cubic"), "droptail", 60) };
            scenario.check().unwrap_err().to_string()
        };
        assert!(wrong(1_000_000, 20).contains("ping: size: 20 B; allowed: 28 to 65535 B"));
        assert!(wrong(10, 84).contains("ping: every: "));
    }

    #[test]
    fn a_window_without_an_end_is_refused() {
        let error = error_of(&scenario(bulk("fixed:cwnd=1000GB"), "infinite", 1));
        assert!(error.starts_with("1000 packets are in flight"), "{error}");
        assert!(error.contains("after 0.000 s") && error.contains("droptail:2MB"), "{error}");
    }

    #[test]
    fn an_endless_queue_in_front_of_a_flood_is_refused() {
        let flood = FlowSpec::constant_rate("24mbit".parse().unwrap());
        let error = error_of(&scenario(flood.clone(), "infinite", 60));
        // It gains a packet per millisecond beyond the 40 in the delay.
        assert!(error.contains("after 0.9"), "{error}");
        assert_eq!(ran(&scenario(flood, "droptail:100pkts", 60)).room.in_flight, 140);
    }

    #[test]
    fn a_flow_that_never_hears_anything_is_refused_before_its_memory_is_full() {
        let deaf = scenario(bulk("fixed:cwnd=300pkts"), "infinite", 3600)
            .with_link(|link| link.up.trace = Some("constant:0mbit".parse().unwrap()));
        assert!(error_of(&deaf).contains("unanswered"));
    }

    #[test]
    fn an_uplink_that_is_down_for_an_hour_costs_little_memory() {
        for cc in ["cubic", "verus", "copa", "bbr", "fixed:cwnd=100pkts"] {
            let down = scenario(bulk(cc), "droptail:2MB", 3600).with_link(|link| {
                link.up.trace = Some("onoff:1mbit,on=1s,off=3600s".parse().unwrap());
            });
            let world = ran(&down);
            let remembered = world.flows[0].remembered();
            assert!(remembered < 100_000, "{cc}: {remembered}");
            assert!(world.acks.slots.len() < 40_000, "{cc}: {}", world.acks.slots.len());
        }
    }

    #[test]
    fn everything_has_left_the_network_some_time_after_the_last_flow() {
        let two = Scenario {
            flows: vec![
                FlowSpec { stop: Time::from_secs(3), ..bulk("cubic") },
                FlowSpec { stop: Time::from_secs(2), ..bulk("verus") },
            ],
            ..scenario(bulk("cubic"), "infinite", 120)
        }
        .with_link(|link| {
            link.up.trace = Some("constant:100kbit".parse().unwrap());
            link.down.loss = "3%".parse().unwrap();
        });
        let world = ran(&two);
        assert_eq!(world.room.in_flight, 0);
        assert_eq!(world.acks.free.len(), world.acks.slots.len());
        assert_eq!(world.links.down[0].backlog() + world.links.up[0].backlog(), 0);
        assert!(world.timers.next().is_none(), "nothing is left to do");
    }

    #[test]
    fn timers_that_move_do_not_pile_up() {
        for cc in ["cubic", "copa", "bbr", "verus"] {
            let world = ran(&scenario(bulk(cc), "droptail:2MB", 20));
            // An entry may be left behind per packet in flight; 20 s send 20 000.
            assert!(world.timers.heap.len() < 2_000, "{cc}: {}", world.timers.heap.len());
        }
    }
}
