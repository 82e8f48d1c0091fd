//! The event loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Controller, Event, Setup};
use cellpace_measure::{Collector, Figures, FlowSpan, ProfileSample, Series, Window};
use cellpace_path::schedule::{capacity_between, capacity_bins};
use cellpace_path::{DelaySpec, Fate, Packet, Path, PathSpec, Record};

use crate::flow::Flow;
use crate::{FlowSpec, Scenario, SimError};

/// Bytes of a packet that carries nothing but an ack: IPv4, UDP and a small header.
const ACK_BYTES: u32 = 60;

/// Watches a run: every packet's record, every controller's events.
pub trait Observer {
    /// What became of a data packet.
    fn on_record(&mut self, record: &Record) {
        let _ = record;
    }

    /// A controller decided something.
    fn on_event(&mut self, flow: u32, at: Time, event: Event) {
        let _ = (flow, at, event);
    }

    /// A flow opens a connection (an ON/OFF flow one per file) with this controller, which was
    /// built with `setup`. What is returned controls the connection: the same, or something
    /// around it.
    fn on_connect(
        &mut self,
        flow: u32,
        controller: Box<dyn Controller>,
        setup: &Setup,
    ) -> Box<dyn Controller> {
        let _ = (flow, setup);
        controller
    }
}

/// Watches nothing.
impl Observer for () {}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The figures.
    pub figures: Figures,
    /// Figures over time.
    pub series: Series,
    /// Data packets sent again.
    pub retransmissions: u64,
}

/// Simulates a scenario.
///
/// # Errors
/// When the scenario is contradictory or its trace cannot be had.
pub fn run(scenario: &Scenario) -> Result<Outcome, SimError> {
    run_observed(scenario, &mut ())
}

/// Simulates a scenario and shows every packet and event to `observer`.
///
/// # Errors
/// When the scenario is contradictory or its trace cannot be had.
pub fn run_observed(
    scenario: &Scenario,
    observer: &mut impl Observer,
) -> Result<Outcome, SimError> {
    scenario.check()?;
    let scenario = &Scenario { trace: scenario.trace.drawn(scenario.seed), ..scenario.clone() };
    let mut world = World::new(scenario)?;
    world.run(observer)?;
    let capacity = capacity(scenario)?;
    Ok(world.finish(scenario, capacity))
}

struct World {
    now: Time,
    end: Time,
    forward: Path,
    reverse: Path,
    flows: Vec<Flow>,
    timers: Timers,
    /// Acks under way, by the id of their packet.
    acks: AckStore,
    collector: Collector,
    sampler: Sampler,
    fates: Vec<Record>,
    room: Room,
}

/// Packets under way at most, and packets that one flow may have to remember: some six gigabytes
/// of data, for which the machine spends about one. More than that is no network but a window or
/// a queue without an end.
const MOST_PACKETS: u64 = 1 << 22;

/// Keeps what waits in the network within memory.
struct Room {
    /// Packets and acks under way.
    under_way: u64,
    most: u64,
    /// A flow has to remember more than that.
    exceeded: bool,
}

impl Room {
    /// One more is under way. Returns whether another may follow.
    fn enter(&mut self) -> bool {
        self.under_way += 1;
        !self.is_full()
    }

    fn leave(&mut self, packets: usize) {
        self.under_way -= packets as u64;
    }

    fn remember(&mut self, packets: u64) {
        self.exceeded |= packets >= self.most;
    }

    fn is_full(&self) -> bool {
        self.exceeded || self.under_way >= self.most
    }
}

/// What an ack says.
struct AckMessage {
    generation: u16,
    /// How much of the receiver's log it covers; `None` for a mere report.
    upto: Option<u64>,
    report: Option<Vec<u8>>,
}

impl World {
    fn new(scenario: &Scenario) -> Result<Self, SimError> {
        let end = Time::ZERO + scenario.duration;
        let seeded = |stream| Random::seeded(scenario.seed, stream);
        let delays = Delays::new(scenario);
        let flows: Vec<Flow> = (0..)
            .zip(&scenario.flows)
            .map(|(index, spec)| {
                let random = seeded(1000 + u64::from(index));
                let own_delay = delays.own(spec);
                Flow::new(index, spec.clone(), scenario.acks, own_delay, random)
            })
            .collect();
        let window = Window { skip: Time::ZERO + scenario.skip, end };
        let spans: Vec<FlowSpan> =
            flows.iter().map(Flow::span).map(|(start, stop)| FlowSpan { start, stop }).collect();
        let mut timers = Timers::new(flows.len());
        for (index, flow) in flows.iter().enumerate() {
            timers.arm(index, flow.next_deadline());
        }
        Ok(Self {
            now: Time::ZERO,
            end,
            forward: forward_spec(scenario, &delays).build(scenario.seed)?,
            reverse: reverse_spec(scenario, &delays).build_reverse(scenario.seed)?,
            timers,
            acks: AckStore::default(),
            collector: Collector::new(window, &spans, scenario.bin),
            sampler: Sampler::new(scenario.bin, end, flows.len()),
            flows,
            fates: Vec::new(),
            room: Room { under_way: 0, most: MOST_PACKETS, exceeded: false },
        })
    }

    fn run(&mut self, observer: &mut impl Observer) -> Result<(), SimError> {
        loop {
            if self.room.is_full() {
                return Err(self.too_many());
            }
            let forward = self.forward.next_deadline().unwrap_or(Time::MAX);
            let reverse = self.reverse.next_deadline().unwrap_or(Time::MAX);
            let timer = self.timers.next().unwrap_or(Time::MAX);
            let next = forward.min(reverse).min(timer).min(self.sampler.next);
            if next > self.end {
                break;
            }
            self.now = next;
            // One order for events of the same instant: samples of the past, then deliveries,
            // then acks, then timers.
            if self.sampler.next == next {
                self.sampler.take(&self.flows);
            }
            if forward == next {
                self.advance_forward(observer);
            }
            if reverse == next {
                self.advance_reverse(observer);
            }
            while self.timers.next().is_some_and(|time| time <= next) && !self.room.is_full() {
                self.fire_timer(observer);
            }
        }
        self.now = self.end;
        self.sampler.finish(&self.flows);
        Ok(())
    }

    fn too_many(&self) -> SimError {
        SimError::Invalid(format!(
            "{} packets are under way or unanswered after {:.3} s, more than memory should hold; \
             give the queue a limit (droptail:2MB) or the flows smaller windows and rates",
            self.room.most,
            self.now.as_secs_f64()
        ))
    }

    fn advance_forward(&mut self, observer: &mut impl Observer) {
        let mut fates = std::mem::take(&mut self.fates);
        self.forward.advance(self.now, &mut fates);
        self.room.leave(fates.len());
        for record in fates.drain(..) {
            self.collector.record(&record);
            observer.on_record(&record);
            if record.fate == Fate::Delivered {
                self.deliver(&record.packet);
            }
        }
        self.fates = fates;
    }

    fn deliver(&mut self, packet: &Packet) {
        let index = packet.flow as usize;
        let now = self.now;
        let Some(connection) = self.flows[index].connection_of(packet) else { return };
        let acks = connection.on_arrival(now, packet);
        self.answer(index, acks);
        self.timers.arm(index, self.flows[index].next_deadline());
    }

    /// The receiver of a flow sends the ack and the report that are due.
    fn answer(&mut self, index: usize, ack: bool) {
        let now = self.now;
        let own_delay = self.flows[index].own_delay;
        let Some(connection) = &mut self.flows[index].connection else { return };
        let upto = ack.then(|| connection.receiver.ack());
        let report = connection.receiver.poll_report(now);
        if upto.is_none() && report.is_none() {
            return;
        }
        let bytes = ACK_BYTES + report.as_ref().map_or(0, |report| report.len() as u32);
        let message = AckMessage { generation: connection.generation, upto, report };
        let id = self.acks.put(message);
        self.room.enter();
        self.reverse.push_after(Packet::new(id, index as u32, bytes, now), own_delay);
    }

    fn advance_reverse(&mut self, observer: &mut impl Observer) {
        let mut fates = std::mem::take(&mut self.fates);
        self.reverse.advance(self.now, &mut fates);
        self.room.leave(fates.len());
        for record in fates.drain(..) {
            let message = self.acks.take(record.packet.id);
            if record.fate == Fate::Delivered {
                self.acknowledge(record.packet.flow as usize, message, observer);
            }
        }
        self.fates = fates;
    }

    fn acknowledge(&mut self, index: usize, ack: AckMessage, observer: &mut impl Observer) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let Some(connection) = &mut flow.connection else { return };
        if connection.generation != ack.generation {
            return;
        }
        if let Some(upto) = ack.upto {
            let collector = &mut self.collector;
            connection.on_ack(now, upto, |rtt| collector.rtt(now, index, rtt));
        }
        if let Some(report) = ack.report {
            connection.controller_mut().on_report(now, &report);
        }
        if connection.is_done() {
            // The connection goes with its file; what it has to say about this ack goes first.
            self.show_events(index, observer);
        }
        self.pump(index, observer);
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
        if let Some(connection) = &mut self.flows[index].connection {
            let ack = connection.receiver.on_deadline(now);
            self.answer(index, ack);
        }
        let (forward, room) = (&mut self.forward, &mut self.room);
        let delay = self.flows[index].own_delay;
        let mut send = |packet| {
            forward.push_after(packet, delay);
            room.enter()
        };
        self.flows[index].on_timer(now, &mut send, &mut |controller, setup| {
            observer.on_connect(index as u32, controller, setup)
        });
        self.settle(index, observer);
    }

    fn pump(&mut self, index: usize, observer: &mut impl Observer) {
        let (forward, room) = (&mut self.forward, &mut self.room);
        let delay = self.flows[index].own_delay;
        self.flows[index].pump(self.now, &mut |packet| {
            forward.push_after(packet, delay);
            room.enter()
        });
        self.settle(index, observer);
    }

    /// After anything happened to a flow: its events go out, its timer is set.
    fn settle(&mut self, index: usize, observer: &mut impl Observer) {
        self.show_events(index, observer);
        let flow = &self.flows[index];
        self.room.remember(flow.remembered());
        self.timers.arm(index, flow.next_deadline());
    }

    fn show_events(&mut self, index: usize, observer: &mut impl Observer) {
        let Some(connection) = &mut self.flows[index].connection else { return };
        while let Some((at, event)) = connection.controller_mut().poll_event() {
            observer.on_event(index as u32, at, event);
        }
    }

    fn finish(self, scenario: &Scenario, capacity: Capacity) -> Outcome {
        let retransmissions = self
            .flows
            .iter()
            .map(|flow| {
                flow.retransmissions + flow.connection.as_ref().map_or(0, |c| c.retransmissions)
            })
            .sum();
        let (mut figures, mut series) = self.collector.finish(capacity.in_window);
        for (flow, spec) in figures.per_flow.iter_mut().zip(&scenario.flows) {
            flow.cc = spec.name();
        }
        series.capacity_mbps = capacity.series_mbps;
        series.cwnd_packets = self.sampler.cwnd;
        series.profiles = self.sampler.profiles;
        Outcome { figures, series, retransmissions }
    }
}

/// How the one-way delays of the flows are split between the path, which all packets share, and
/// the flows' own.
struct Delays {
    path: DelaySpec,
    /// RTT of flows without one of their own, and the RTT that lies in the path; when any flow
    /// has its own.
    constant: Option<(Span, Span)>,
}

impl Delays {
    fn new(scenario: &Scenario) -> Self {
        let general = scenario.rtt.as_constant();
        let own = scenario.flows.iter().filter_map(|flow| flow.rtt).min();
        let (Some(general), Some(own)) = (general, own) else {
            return Self { path: scenario.rtt.half(), constant: None };
        };
        let shared = general.min(own);
        Self { path: (shared / 2).into(), constant: Some((general, shared)) }
    }

    fn own(&self, flow: &FlowSpec) -> Span {
        let Some((general, shared)) = self.constant else { return Span::ZERO };
        (flow.rtt.unwrap_or(general) - shared) / 2
    }
}

fn forward_spec(scenario: &Scenario, delays: &Delays) -> PathSpec {
    PathSpec {
        trace: Some(scenario.trace.clone()),
        queue: scenario.queue.clone(),
        delay: delays.path.clone(),
        loss: scenario.loss.clone(),
    }
}

fn reverse_spec(scenario: &Scenario, delays: &Delays) -> PathSpec {
    PathSpec {
        trace: scenario.uplink.clone(),
        delay: delays.path.clone(),
        loss: scenario.uplink_loss.clone(),
        ..PathSpec::default()
    }
}

/// What the link offered.
struct Capacity {
    series_mbps: Vec<f32>,
    in_window: u64,
}

/// Counts the opportunities of fresh copies of the schedule.
fn capacity(scenario: &Scenario) -> Result<Capacity, SimError> {
    let end = Time::ZERO + scenario.duration;
    let skip = Time::ZERO + scenario.skip;
    let schedule = || scenario.trace.build(scenario.seed);
    let to_mbps = 8.0 / 1e6 / scenario.bin.as_secs_f64();
    let bins = capacity_bins(schedule()?.as_mut(), scenario.bin, end);
    Ok(Capacity {
        series_mbps: bins.iter().map(|bytes| (*bytes as f64 * to_mbps) as f32).collect(),
        in_window: capacity_between(schedule()?.as_mut(), skip, end),
    })
}

/// One timer per flow. Deadlines mostly move later (each ack pushes the retransmission timer
/// back), so an entry stays in the heap and is looked at again when it comes up.
struct Timers {
    heap: BinaryHeap<Reverse<(Time, usize)>>,
    /// The earliest entry of each flow in the heap.
    armed: Vec<Time>,
}

impl Timers {
    fn new(flows: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(flows * 2), armed: vec![Time::MAX; flows] }
    }

    fn arm(&mut self, flow: usize, deadline: Option<Time>) {
        let Some(deadline) = deadline else { return };
        if deadline < self.armed[flow] {
            self.armed[flow] = deadline;
            self.heap.push(Reverse((deadline, flow)));
        }
    }

    fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }

    fn pop(&mut self) -> Option<usize> {
        let Reverse((time, flow)) = self.heap.pop()?;
        if self.armed[flow] == time {
            self.armed[flow] = Time::MAX;
        }
        Some(flow)
    }
}

/// Acks under way, in slots that are used again.
#[derive(Default)]
struct AckStore {
    slots: Vec<AckMessage>,
    free: Vec<u64>,
}

impl AckStore {
    fn put(&mut self, message: AckMessage) -> u64 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = message;
                slot
            }
            None => {
                self.slots.push(message);
                self.slots.len() as u64 - 1
            }
        }
    }

    fn take(&mut self, slot: u64) -> AckMessage {
        self.free.push(slot);
        let message = &mut self.slots[slot as usize];
        AckMessage {
            generation: message.generation,
            upto: message.upto,
            report: message.report.take(),
        }
    }
}

/// Looks at the controllers at the end of each bin.
struct Sampler {
    bin: Span,
    end: Time,
    next: Time,
    profile_every: Span,
    next_profile: Time,
    cwnd: Vec<Vec<f32>>,
    profiles: Vec<ProfileSample>,
}

impl Sampler {
    /// Delay profiles shown per run.
    const PROFILES: u64 = 6;

    fn new(bin: Span, end: Time, flows: usize) -> Self {
        let profile_every = (end - Time::ZERO) / (Self::PROFILES + 1);
        Self {
            bin,
            end,
            next: Time::ZERO + bin,
            profile_every,
            next_profile: Time::ZERO + profile_every,
            cwnd: vec![Vec::new(); flows],
            profiles: Vec::new(),
        }
    }

    /// The last bin may be shorter than the others; it ends with the run.
    fn finish(&mut self, flows: &[Flow]) {
        if self.next > self.end && self.next < self.end + self.bin {
            self.take_windows(flows);
        }
    }

    fn take_windows(&mut self, flows: &[Flow]) {
        for (series, flow) in self.cwnd.iter_mut().zip(flows) {
            series.push(flow.cwnd_packets().unwrap_or(f32::NAN));
        }
    }

    fn take(&mut self, flows: &[Flow]) {
        self.take_windows(flows);
        if self.next >= self.next_profile {
            self.next_profile += self.profile_every;
            self.profiles.extend(flows.iter().enumerate().filter_map(|(index, flow)| {
                let profile = flow.connection.as_ref()?.controller().profile()?;
                Some(ProfileSample {
                    at_s: self.next.as_secs_f64(),
                    flow: index,
                    points: profile.points,
                    curve: profile.curve,
                })
            }));
        }
        self.next += self.bin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(flow: FlowSpec, queue: &str, seconds: u64) -> Scenario {
        Scenario {
            flows: vec![flow],
            queue: queue.parse().unwrap(),
            duration: Span::from_secs(seconds),
            skip: Span::ZERO,
            ..Scenario::default()
        }
    }

    fn bulk(cc: &str) -> FlowSpec {
        FlowSpec::bulk(cc.parse().unwrap())
    }

    /// The world after the run.
    fn ran(scenario: &Scenario) -> World {
        let mut world = World::new(scenario).unwrap();
        world.run(&mut ()).unwrap();
        world
    }

    /// What a run says that may hold no more than 1000 packets.
    fn said(scenario: &Scenario) -> String {
        let mut world = World::new(scenario).unwrap();
        world.room.most = 1000;
        let error = world.run(&mut ()).unwrap_err().to_string();
        assert!(world.room.under_way <= 1001, "{}", world.room.under_way);
        error
    }

    #[test]
    fn a_window_without_an_end_is_refused() {
        let error = said(&scenario(bulk("fixed:cwnd=1000GB"), "infinite", 1));
        assert!(error.starts_with("1000 packets are under way"), "{error}");
        assert!(error.contains("after 0.000 s") && error.contains("droptail:2MB"), "{error}");
    }

    #[test]
    fn an_endless_queue_in_front_of_a_flood_is_refused() {
        let flood = FlowSpec::constant_rate("24mbit".parse().unwrap());
        let error = said(&scenario(flood.clone(), "infinite", 60));
        // It gains a packet per millisecond beyond the 40 in the delay.
        assert!(error.contains("after 0.9"), "{error}");
        assert_eq!(ran(&scenario(flood, "droptail:100pkts", 60)).room.under_way, 140);
    }

    #[test]
    fn a_flow_that_never_hears_anything_is_refused_before_its_memory_is_full() {
        let deaf = Scenario {
            uplink: Some("constant:0mbit".parse().unwrap()),
            ..scenario(bulk("fixed:cwnd=300pkts"), "infinite", 3600)
        };
        assert!(said(&deaf).contains("unanswered"));
    }

    #[test]
    fn an_uplink_that_is_down_for_an_hour_costs_little_memory() {
        for cc in ["cubic", "verus", "copa", "bbr", "fixed:cwnd=100pkts"] {
            let down = Scenario {
                uplink: Some("onoff:1mbit,on=1s,off=3600s".parse().unwrap()),
                ..scenario(bulk(cc), "droptail:2MB", 3600)
            };
            let world = ran(&down);
            let remembered = world.flows[0].remembered();
            assert!(remembered < 100_000, "{cc}: {remembered}");
            assert!(world.acks.slots.len() < 40_000, "{cc}: {}", world.acks.slots.len());
        }
    }

    #[test]
    fn everything_has_left_the_network_some_time_after_the_last_flow() {
        let two = Scenario {
            uplink: Some("constant:100kbit".parse().unwrap()),
            loss: "3%".parse().unwrap(),
            flows: vec![
                FlowSpec { stop: Time::from_secs(3), ..bulk("cubic") },
                FlowSpec { stop: Time::from_secs(2), ..bulk("verus") },
            ],
            ..scenario(bulk("cubic"), "infinite", 120)
        };
        let world = ran(&two);
        assert_eq!(world.room.under_way, 0);
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
