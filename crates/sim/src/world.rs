//! The event loop.

use std::collections::VecDeque;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::Event;
use cellpace_measure::{Collector, FlowSpan, MeasuredWindow, PingFigures, Transfer, VideoFigures};
use cellpace_path::{DelaySpec, Fate, Handover, Packet, PacketRecord, Path, PathSpec};

use crate::cell::Cell;
use crate::connection::{EndRules, generation_of};
use crate::ends::{FlowEnds, FlowNote, FlowSample};
use crate::flow::{OwnDelay, SimFlow};
use crate::observer::{FlowView, Observer};
use crate::ping::PingSeries;
use crate::sampler::{SampledFlow, SeriesSampler};
use crate::send_jitter::{longest_delays, longest_delays_in_cell};
use crate::timers::{AckMessage, AckStore, Timers};
use crate::transfer_tally::SenderCounts;
use crate::transfers::Leg;
use crate::two_way::TwoWayFlow;
use crate::{FlowSpec, Scenario, SimError};

/// Bytes of a packet that carries nothing but an ack: IPv4, UDP and a small header.
pub(crate) const ACK_BYTES: u32 = 60;

pub(crate) struct World {
    now: Time,
    end: Time,
    window: MeasuredWindow,
    forward: Path,
    /// What the path leads to in place of a link of its own.
    cell: Option<Cell>,
    reverse: Path,
    flows: Vec<SimFlow>,
    /// Those of them whose ends are not our own.
    with_ends: Vec<usize>,
    /// Why one of these cannot go on.
    failed: Option<SimError>,
    /// Their packets have the numbers behind those of the flows.
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
}

/// When the two directions of the path, and when anything at all, have something to do.
struct Due {
    forward: Time,
    reverse: Time,
    ping: Time,
    next: Time,
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
    /// The figures of each flow's frames, flow by flow.
    pub(crate) videos: Vec<Option<VideoFigures>>,
    pub(crate) pings: Vec<PingFigures>,
}

/// Packets in flight at most, and packets that one flow may have to remember: some six gigabytes
/// of data, for which the machine spends about one. More than that is no network but a window or
/// a queue without an end. In a web page it is a sixteenth of that.
const MAX_PACKETS: u64 = if usize::BITS < 64 { 1 << 18 } else { 1 << 22 };

/// Keeps what waits in the network within memory.
pub(crate) struct PacketRoom {
    /// Packets and acks in flight.
    in_flight: u64,
    most: u64,
    /// A flow has to remember more than that.
    exceeded: bool,
}

impl PacketRoom {
    pub(crate) fn new() -> Self {
        Self { in_flight: 0, most: MAX_PACKETS, exceeded: false }
    }

    /// One more is in flight. Returns whether another may follow.
    pub(crate) fn enter(&mut self) -> bool {
        self.in_flight += 1;
        !self.is_full()
    }

    pub(crate) fn leave(&mut self, packets: usize) {
        self.in_flight -= packets as u64;
    }

    pub(crate) fn remember(&mut self, packets: u64) {
        self.exceeded |= packets >= self.most;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.exceeded || self.in_flight >= self.most
    }

    /// The run cannot go on at `now`.
    pub(crate) fn error(&self, now: Time) -> SimError {
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
        let end = scenario.end();
        let seeded = |stream| Random::seeded(scenario.seed, stream);
        let delays = DelaySplit::new(scenario);
        let ends = EndRules { acks: scenario.acks, rto_rule: scenario.rto_rule, relay_room: None };
        let mut flows: Vec<SimFlow> = (0..)
            .zip(&scenario.flows)
            .map(|(index, spec)| {
                let random = seeded(1000 + u64::from(index));
                let own_delay = delays.own(spec);
                let host = scenario.bottleneck.host().map(|host| host.share(spec.cc.as_ref()));
                let transfers = seeded(1_000_000 + u64::from(index));
                SimFlow::new(index, spec.clone(), ends, own_delay, host, random, transfers)
            })
            .collect();
        let mut with_ends = Vec::new();
        for (index, (flow, spec)) in flows.iter_mut().zip(&scenario.flows).enumerate() {
            let other = other_ends.get_mut(index).and_then(Option::take);
            if let Some(ends) = ends_of(scenario, index, spec, other)? {
                flow.set_ends(ends);
                with_ends.push(index);
            }
        }
        let mut timers = Timers::new(flows.len());
        for (index, flow) in flows.iter().enumerate() {
            timers.arm(index, flow.next_deadline());
        }
        let [forward, reverse] = paths(scenario, &delays)?;
        Ok(Self {
            now: Time::ZERO,
            end,
            window: window(scenario),
            forward,
            cell: cell(scenario)?,
            reverse,
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
        let until = until.min(self.end);
        let interval = observer.interval().filter(|interval| !interval.is_zero());
        self.show_at = interval.map(|interval| next_multiple(self.now, interval));
        loop {
            if self.room.is_full() {
                return Err(self.room.error(self.now));
            }
            let due = self.due();
            if due.next > until {
                break;
            }
            self.now = due.next;
            self.step(&due, observer);
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.show_at == Some(due.next) {
                self.show_at = interval.map(|interval| due.next + interval);
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Asked once an event: this and what it calls is a tenth of a run.
    #[inline]
    fn due(&self) -> Due {
        let or_never = |time: Option<Time>| time.unwrap_or(Time::MAX);
        let forward = or_never(self.forward.next_deadline());
        let cell = self.cell.as_ref().and_then(Cell::next_deadline);
        let forward = forward.min(or_never(cell));
        let reverse = or_never(self.reverse.next_deadline());
        let path_change = or_never(self.path_changes.front().copied());
        let (timer, show) = (or_never(self.timers.next()), or_never(self.show_at));
        let ping = self.pings.iter().map(PingSeries::next).min().unwrap_or(Time::MAX);
        let ends = self.with_ends.iter().filter_map(|index| self.ends(*index));
        let ends = ends.map(FlowEnds::next_deadline).min().unwrap_or(Time::MAX).max(self.now);
        let next = forward
            .min(reverse)
            .min(ping)
            .min(ends)
            .min(path_change)
            .min(timer)
            .min(show)
            .min(self.sampler.next);
        Due { forward, reverse, ping, next }
    }

    /// What happens at this instant, always in one order: samples and views of the past, then
    /// deliveries, then acks, then a change of the path, then timers.
    fn step(&mut self, due: &Due, observer: &mut impl Observer) {
        let now = self.now;
        if self.sampler.next == now {
            self.sampler.take(&self.flows);
        }
        if self.show_at == Some(now) {
            for index in 0..self.flows.len() {
                let show = &mut |sample: FlowSample<'_>| {
                    observer.on_interval(now, sample.view(index as u32));
                };
                self.flows[index].look(show);
            }
        }
        if due.forward == now {
            self.advance_forward(observer);
        }
        if due.reverse == now {
            self.advance_reverse(observer);
        }
        if self.path_changes.front() == Some(&now) {
            self.path_changes.pop_front();
            self.report_path_change(observer);
        }
        if due.ping == now {
            self.send_pings();
        }
        while self.timers.next().is_some_and(|time| time <= now) && !self.room.is_full() {
            self.fire_timer(observer);
        }
        // Arrivals of this instant may have woken ends.
        for place in 0..self.with_ends.len() {
            self.turn_ends(self.with_ends[place], observer);
        }
    }

    /// Ends that are not our own take their turn.
    fn turn_ends(&mut self, index: usize, observer: &mut impl Observer) {
        let (now, room, collector) = (self.now, &mut self.room, &mut self.collector);
        let mut paths = [&mut self.forward, &mut self.reverse];
        let SimFlow { other_ends, host, own_delay: OwnDelay { forward, reverse }, .. } =
            &mut self.flows[index];
        let Some(ends) = other_ends else { return };
        let turned = ends.turn(now, &mut |direction, packet| {
            let host = host.as_mut().filter(|_| direction == 0);
            if host.is_some_and(|host| !host.admit_plain(u64::from(packet.size))) {
                return false;
            }
            room.enter();
            paths[direction].push_after(packet, [*forward, *reverse][direction]);
            true
        });
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
    pub(crate) fn finish(mut self) -> Remains {
        self.sampler.finish(&self.flows);
        let counts = self.flows.iter().map(SimFlow::counts).collect();
        let refused = |flow: &SimFlow| flow.host.as_ref().map_or(0, |host| host.refused);
        let refused = self.flows.iter().map(refused).collect();
        let transfers = self.flows.iter_mut().flat_map(SimFlow::finish_transfers).collect();
        let videos = self.flows.iter().map(|flow| flow.video(self.window)).collect();
        let Self { collector, sampler, pings, window, .. } = self;
        let pings = pings.into_iter().map(|ping| ping.finish(window)).collect();
        Remains { collector, sampler, counts, refused, transfers, videos, pings }
    }

    fn advance_forward(&mut self, observer: &mut impl Observer) {
        let mut fates = std::mem::take(&mut self.fates);
        self.forward.advance(self.now, &mut fates);
        if let Some(cell) = &mut self.cell {
            cell.carry(self.now, &mut fates);
        }
        for record in &fates {
            let is_copy = record.fate == Fate::Duplicate;
            self.room.leave(usize::from(!is_copy));
            if record.packet.flow as usize >= self.flows.len() {
                self.answer_ping(record);
                continue;
            }
            self.collector.record(record);
            observer.on_record(record);
            if let Some(ends) = &mut self.flows[record.packet.flow as usize].other_ends {
                ends.receive(self.now, 0, record);
            } else if is_copy || record.fate == Fate::Delivered {
                self.deliver(&record.packet);
            }
            if !is_copy {
                self.leave_host(&record.packet, observer);
            }
        }
        fates.clear();
        self.fates = fates;
    }

    /// The requests that are due.
    fn send_pings(&mut self) {
        for index in 0..self.pings.len() {
            if let Some(request) = self.pings[index].due(self.now, self.flows.len() + index) {
                self.room.enter();
                self.forward.push_after(request, self.ping_delay.forward);
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
        let answer = Packet::new(id, flow, size, self.now);
        self.reverse.push_after(answer, self.ping_delay.reverse);
    }

    /// A packet has left the queue of the sending host, and a flow that waited for that asks again.
    fn leave_host(&mut self, packet: &Packet, observer: &mut impl Observer) {
        let index = packet.flow as usize;
        let Some(host) = &mut self.flows[index].host else { return };
        // What carries no data was not counted against the socket's buffer.
        if Leg::of_packet(packet.id).is_some() {
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
        self.send_legs(index);
        self.timers.arm(index, self.flows[index].next_deadline());
    }

    fn send_legs(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        for leg in flow.take_legs() {
            let (upto, report) = (None, None);
            let OwnDelay { forward, reverse } = flow.own_delay;
            let packet = Packet::new(leg.packet_id(), index as u32, leg.bytes, self.now);
            self.room.enter();
            if leg.is_up() {
                let message = AckMessage { generation: 0, upto, report, leg: Some(leg) };
                self.reverse.push_after(self.acks.load(packet, message), reverse);
            } else {
                self.forward.push_after(packet, forward);
            }
        }
    }

    /// The receiver of a connection sends the ack and the report that are due.
    #[inline]
    fn answer(&mut self, index: usize, generation: u16, ack: bool) {
        let now = self.now;
        let own_delay = self.flows[index].own_delay.reverse;
        let Some(connection) = self.flows[index].connection_of(generation) else { return };
        let upto = ack.then(|| connection.receiver.ack());
        let report = connection.receiver.poll_report(now);
        if upto.is_none() && report.is_none() {
            return;
        }
        let bytes = ACK_BYTES + report.as_ref().map_or(0, |report| report.len() as u32);
        self.room.enter();
        let packet = Packet::new(0, index as u32, bytes, now);
        let message = AckMessage { generation, upto, report, leg: None };
        self.reverse.push_after(self.acks.load(packet, message), own_delay);
    }

    fn advance_reverse(&mut self, observer: &mut impl Observer) {
        let mut fates = std::mem::take(&mut self.fates);
        self.reverse.advance(self.now, &mut fates);
        for record in &fates {
            let is_copy = record.fate == Fate::Duplicate;
            self.room.leave(usize::from(!is_copy));
            if let Some(ping) = (record.packet.flow as usize).checked_sub(self.flows.len()) {
                if record.fate == Fate::Delivered {
                    self.pings[ping].answered(self.now, record.packet.id);
                }
                continue;
            }
            if let Some(ends) = &mut self.flows[record.packet.flow as usize].other_ends {
                ends.receive(self.now, 1, record);
                continue;
            }
            let message = match is_copy {
                true => self.acks.copy(&record.packet),
                false => self.acks.take(&record.packet),
            };
            if is_copy || record.fate == Fate::Delivered {
                self.acknowledge(record.packet.flow as usize, message, observer);
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
            let collector = &mut self.collector;
            connection.on_ack(now, upto, |rtt| collector.rtt(now, index, rtt));
        }
        if let Some(report) = ack.report {
            connection.controller_mut().on_report(now, &report);
        }
        if connection.is_done() {
            // The connection is removed with its file, so its events about this ack are read first.
            self.show_events(index, observer);
        }
        self.pump(index, observer);
    }

    /// Reports the new path to the flows, which use it from now on.
    fn report_path_change(&mut self, observer: &mut impl Observer) {
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
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
            let (generation, ack) = (connection.generation, connection.receiver.on_deadline(now));
            self.answer(index, generation, ack);
        }
        let (forward, room) = (&mut self.forward, &mut self.room);
        let delay = self.flows[index].own_delay.forward;
        let mut send = |packet| {
            forward.push_after(packet, delay);
            room.enter()
        };
        self.flows[index].on_timer(now, &mut send, &mut |controller, setup| {
            observer.on_connect(index as u32, controller, setup)
        });
        self.send_legs(index);
        self.settle(index, observer);
    }

    fn pump(&mut self, index: usize, observer: &mut impl Observer) {
        let (forward, room) = (&mut self.forward, &mut self.room);
        let delay = self.flows[index].own_delay.forward;
        self.flows[index].pump(self.now, &mut |packet| {
            forward.push_after(packet, delay);
            room.enter()
        });
        self.settle(index, observer);
    }

    /// After anything happened to a flow: its events go out, its timer is set.
    #[inline]
    fn settle(&mut self, index: usize, observer: &mut impl Observer) {
        self.show_events(index, observer);
        let flow = &self.flows[index];
        self.room.remember(flow.remembered());
        self.timers.arm(index, flow.next_deadline());
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
pub(crate) fn mark(collector: &mut Collector, flow: usize, at: Time, event: &Event) {
    match event {
        Event::BaseDelay(_) => {}
        Event::Phase(phase) => collector.event(flow, at, event.name(), Some(phase.name())),
        _ => collector.event(flow, at, event.name(), None),
    }
}

/// When controllers are told of handovers.
pub(crate) fn signalled(handovers: &[Handover]) -> VecDeque<Time> {
    handovers.iter().filter(|handover| handover.signal).map(Handover::end).collect()
}

/// The first multiple of `interval` that lies after `now`.
pub(crate) fn next_multiple(now: Time, interval: Span) -> Time {
    Time::ZERO + interval * ((now - Time::ZERO).as_nanos() / interval.as_nanos() + 1)
}

/// How the delays of the flows are split between the path, which all packets share, and the flows'
/// own.
pub(crate) struct DelaySplit {
    forward: DelaySpec,
    reverse: DelaySpec,
    /// RTT of flows without one of their own, and the RTT that lies in the path; when any flow
    /// has its own. In a chain each link has its own.
    shared: Option<(Span, Span)>,
    /// The bottleneck is in the host, and all of the delay behind it.
    is_behind: bool,
}

impl DelaySplit {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let general = scenario.link.rtt().mean();
        let own = scenario.flows.iter().filter_map(|flow| flow.rtt).min();
        let own = own.filter(|_| scenario.chain.is_none());
        let one_rtt = scenario.has_one_rtt();
        let shared = own.map(|own| (general, if one_rtt { general.min(own) } else { general }));
        let is_behind = scenario.bottleneck.host().is_some();
        let rtt: DelaySpec = match shared {
            Some((_, shared)) if one_rtt => shared.into(),
            _ => scenario.link.rtt().clone(),
        };
        let (forward, reverse) = match is_behind {
            true => (DelaySpec::default(), rtt),
            false => (rtt.half(), rtt.half()),
        };
        Self { forward, reverse, shared, is_behind }
    }

    pub(crate) fn own(&self, flow: &FlowSpec) -> OwnDelay {
        self.own_of(flow.rtt)
    }

    /// That of what has the RTT of the scenario.
    fn general(&self) -> OwnDelay {
        self.own_of(None)
    }

    /// The handovers of a direction. A path takes half of their RTT; with all of the delay behind the
    /// link, `halves` of it are in this direction.
    fn handovers(&self, path: &PathSpec, halves: u64) -> Vec<Handover> {
        if !self.is_behind {
            return path.handovers.clone();
        }
        let rtt = |handover: &Handover| handover.rtt.map(|rtt| rtt * halves);
        path.handovers.iter().map(|one| Handover { rtt: rtt(one), ..*one }).collect()
    }

    fn own_of(&self, rtt: Option<Span>) -> OwnDelay {
        let Some((general, shared)) = self.shared else { return OwnDelay::NONE };
        let own = rtt.unwrap_or(general) - shared;
        match self.is_behind {
            true => OwnDelay { forward: Span::ZERO, reverse: own },
            false => OwnDelay { forward: own / 2, reverse: own / 2 },
        }
    }
}

/// Both directions of the last link, or of the only one.
pub(crate) fn paths(scenario: &Scenario, delays: &DelaySplit) -> Result<[Path; 2], SimError> {
    let mut forward = forward_spec(scenario, delays).build(scenario.seed)?;
    let mut reverse = reverse_spec(scenario, delays).build_reverse(scenario.seed)?;
    if delays.is_behind {
        reverse.take_base_delay(&mut forward);
    }
    Ok([forward, reverse])
}

pub(crate) fn forward_spec(scenario: &Scenario, delays: &DelaySplit) -> PathSpec {
    PathSpec {
        trace: scenario.cell.is_none().then(|| scenario.trace().clone()),
        delay: delays.forward.clone(),
        handovers: delays.handovers(&scenario.link.down, 0),
        send_jitter: match &scenario.cell {
            Some(cell) => longest_delays_in_cell(scenario, cell),
            None => longest_delays(scenario, std::iter::once(scenario.trace())),
        },
        ..scenario.link.down.clone()
    }
}

pub(crate) fn reverse_spec(scenario: &Scenario, delays: &DelaySplit) -> PathSpec {
    // Data that goes this way has senders here; acks do not.
    let has_data = scenario.flows.iter().any(|flow| flow.reverse.is_some());
    let jittering = scenario.link.up.trace.iter().filter(|_| has_data);
    PathSpec {
        delay: delays.reverse.clone(),
        handovers: delays.handovers(&scenario.link.up, 2),
        send_jitter: longest_delays(scenario, jittering),
        ..scenario.link.up.clone()
    }
}

fn window(scenario: &Scenario) -> MeasuredWindow {
    MeasuredWindow { skip: Time::ZERO + scenario.skip, end: scenario.end() }
}

/// What takes the records of a run.
pub(crate) fn collector(scenario: &Scenario) -> Collector {
    let window = window(scenario);
    let span = |flow: &FlowSpec| FlowSpan {
        start: flow.start,
        stop: flow.stop,
        is_controlled: flow.cc.is_some(),
    };
    let spans: Vec<FlowSpan> = scenario.flows.iter().map(span).collect();
    Collector::new(window, &spans, scenario.bin)
}

pub(crate) fn cell(scenario: &Scenario) -> Result<Option<Cell>, SimError> {
    let Some(spec) = &scenario.cell else { return Ok(None) };
    let user =
        |name: &Option<String>| name.as_deref().and_then(|name| spec.user(name)).unwrap_or(0);
    let of_pings = scenario.pings.iter().map(|ping| user(&ping.user));
    let users = scenario.flows.iter().map(|flow| user(&flow.user)).chain(of_pings).collect();
    Cell::new(spec, users, scenario.trace(), scenario.link.rtt().mean(), scenario.seed).map(Some)
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
        assert_eq!(world.forward.backlog() + world.reverse.backlog(), 0);
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
