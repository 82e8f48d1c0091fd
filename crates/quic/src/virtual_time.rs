//! Whole QUIC connections, real TLS included, over the modelled path in virtual time: no socket, no
//! thread, a minute of LTE in less than a second. Same seed, same packets (the bytes of TLS differ,
//! their sizes do not).
//!
//! A server sends to a client, which is what most servers do: the controller is the server's.

mod ends;
mod error;
mod sender;
mod tls;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellpace_base::Time;
use cellpace_cc::ControllerSpec;
use cellpace_path::{Fate, Packet, PacketRecord, Path};
use cellpace_sim::{FlowSample, Observer, Outcome, Scenario, SenderTotals, Testbed};

use ends::{ADDRESSES, Conditions, Control, Datagram, End};
pub use error::VirtualTimeError;
pub use sender::{LibraryController, Sender, SenderError, Stack};

use crate::{Factory, Handle};

/// IPv4 and UDP.
const HEADERS: u32 = 28;
/// More turns than any connection needs at one instant.
const MAX_TURNS: u32 = 100_000;

/// A run that its owner advances step by step, like [`cellpace_sim::Simulation`] with a QUIC library
/// in place of the simulator's own senders.
pub struct Simulation {
    zero: Instant,
    now: Time,
    end: Time,
    flows: Vec<Flow>,
    /// Data, and what goes back.
    paths: [Path; 2],
    /// By the id of their packet: the flow, and the datagram.
    in_flight: HashMap<u64, (usize, Datagram)>,
    next_id: u64,
    testbed: Testbed,
    /// When the observer next wants to see the flows.
    show_at: Option<Time>,
    turns: u32,
}

/// One connection.
struct Flow {
    /// Sender, receiver.
    ends: [Box<dyn End>; 2],
    factory: Option<Arc<Factory>>,
    /// The controller of the present path.
    handle: Option<Handle>,
    /// What controllers of earlier paths have counted.
    before: SenderTotals,
    /// Something has happened since it last acted.
    is_touched: bool,
    /// When one of its ends has something to do.
    due: Option<Time>,
}

impl Simulation {
    /// The run of `scenario` at time zero, with `sender` in place of the simulator's senders.
    ///
    /// # Errors
    /// When the scenario contradicts itself or has what `sender` cannot do, a controller cannot run
    /// inside QUIC, or the library refuses its configuration.
    pub fn new(scenario: &Scenario, sender: Sender) -> Result<Self, VirtualTimeError> {
        let testbed = Testbed::new(scenario)?;
        let zero = Instant::now();
        let paths = testbed.paths()?;
        let of = |(index, flow): (u64, &cellpace_sim::FlowSpec)| {
            // What is random in the ends of each connection has seeds of its own.
            let seed = scenario.seed.wrapping_add(index << 32);
            let factory = match (sender.own, &flow.cc) {
                (None, Some(cc)) => Some(Factory::new(ControllerSpec::clone(cc), seed)?),
                _ => None,
            };
            let control = match (&factory, sender.own) {
                (Some(factory), _) => Control::Ours(factory.clone()),
                (None, own) => Control::Library(own.unwrap_or(LibraryController::Cubic)),
            };
            let conditions = Conditions { control, acks: scenario.acks, seed };
            let ends = ends::pair(sender.stack, &conditions, zero)?;
            let before = SenderTotals::default();
            Ok(Flow { ends, factory, handle: None, before, is_touched: true, due: None })
        };
        let flows = (0..).zip(&testbed.scenario().flows).map(of);
        Ok(Self {
            zero,
            now: Time::ZERO,
            end: testbed.scenario().end(),
            flows: flows.collect::<Result<_, VirtualTimeError>>()?,
            paths,
            in_flight: HashMap::new(),
            next_id: 0,
            testbed,
            show_at: None,
            turns: 0,
        })
    }

    /// How far the run has come.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        self.now >= self.end
    }

    /// Bytes of its stream that the application of a flow has read.
    pub fn delivered(&self, flow: usize) -> Option<u64> {
        Some(self.flows.get(flow)?.ends[1].delivered())
    }

    /// Controllers that a flow has had: one for each path.
    pub fn controllers(&self, flow: usize) -> Option<u64> {
        Some(self.flows.get(flow)?.factory.as_ref()?.built())
    }

    /// The client of a flow has another address from now on: the port alone, as after a NAT has
    /// forgotten it, or all of it, as after a change of network.
    pub fn move_client(&mut self, flow: usize, port_only: bool) {
        let Some(flow) = self.flows.get_mut(flow) else { return };
        let mut address = ADDRESSES[1];
        address.set_port(5000);
        if !port_only {
            address = SocketAddr::from(([198, 51, 100, 7], 5000));
        }
        flow.ends[0].set_peer(address);
    }

    /// Simulates all that happens up to and including `until`, or up to the end of the run, and
    /// shows every packet of data and every event to `observer`.
    ///
    /// # Errors
    /// When a connection ends before its time, or makes no progress.
    pub fn advance_observed(
        &mut self,
        until: Time,
        observer: &mut impl Observer,
    ) -> Result<(), VirtualTimeError> {
        let until = until.min(self.end);
        let interval = observer.interval().filter(|interval| !interval.is_zero());
        if self.show_at.is_none() {
            self.show_at = interval.map(|interval| Time::ZERO + interval);
        }
        loop {
            self.act(observer)?;
            let next = self.next_deadline();
            if next > until {
                break;
            }
            self.turns = if next > self.now { 0 } else { self.turns + 1 };
            if self.turns > MAX_TURNS {
                return Err(VirtualTimeError::Stuck(self.now));
            }
            self.now = self.now.max(next);
            self.look(observer);
            if self.show_at.is_some_and(|at| at <= self.now) {
                self.show_at = interval.map(|interval| self.now + interval);
            }
            for direction in [0, 1] {
                self.deliver(direction, observer);
            }
            let instant = self.instant(self.now);
            for flow in
                self.flows.iter_mut().filter(|flow| flow.due.is_some_and(|due| due <= self.now))
            {
                flow.is_touched = true;
                flow.ends.iter_mut().for_each(|end| end.on_deadline(instant));
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// What came out. What is left of the run is simulated first, unobserved.
    ///
    /// # Errors
    /// When a connection ends before its time, or makes no progress.
    pub fn finish(mut self) -> Result<Outcome, VirtualTimeError> {
        self.advance_observed(Time::MAX, &mut ())?;
        let totals: Vec<_> = self.flows.iter().map(Flow::totals).collect();
        let handles: Vec<Option<Handle>> =
            self.flows.iter().map(|flow| flow.handle.clone()).collect();
        let hosts: Vec<_> =
            handles.iter().map(|handle| handle.as_ref().map(Handle::lock)).collect();
        let samples: Vec<_> =
            hosts.iter().map(|host| host.as_ref().map(|host| host.sample())).collect();
        Ok(self.testbed.finish(&samples, &totals)?)
    }

    /// Samples and views of the past, if they are due.
    fn look(&mut self, observer: &mut impl Observer) {
        let is_sampled = self.testbed.next_sample() <= self.now;
        let is_shown = self.show_at.is_some_and(|at| at <= self.now);
        if !is_sampled && !is_shown {
            return;
        }
        let hosts: Vec<_> =
            self.flows.iter().map(|flow| flow.handle.as_ref().map(Handle::lock)).collect();
        let samples: Vec<Option<FlowSample<'_>>> =
            hosts.iter().map(|host| host.as_ref().map(|host| host.sample())).collect();
        while self.testbed.next_sample() <= self.now {
            self.testbed.sample(&samples);
        }
        if is_shown {
            for (index, sample) in (0..).zip(&samples) {
                if let Some(sample) = sample {
                    observer.on_interval(self.now, sample.view(index));
                }
            }
        }
    }

    /// Both ends of each flow do all that they can do now; their datagrams enter the paths.
    fn act(&mut self, observer: &mut impl Observer) -> Result<(), VirtualTimeError> {
        let (now, zero) = (self.instant(self.now), self.zero);
        for (index, flow) in self.flows.iter_mut().enumerate().filter(|(_, flow)| flow.is_touched) {
            flow.is_touched = false;
            for (direction, end) in flow.ends.iter_mut().enumerate() {
                while let Some(datagram) = end.poll(now) {
                    let bytes = u32::try_from(datagram.bytes.len()).unwrap_or(u32::MAX);
                    let size = bytes.saturating_add(HEADERS);
                    let packet = Packet::new(self.next_id, index as u32, size, self.now);
                    self.paths[direction].push(packet);
                    self.in_flight.insert(self.next_id, (index, datagram));
                    self.next_id += 1;
                }
            }
            if let Some(reason) = flow.ends.iter().find_map(|end| end.ended()) {
                return Err(VirtualTimeError::Ended { at: self.now, reason });
            }
            let due = flow.ends.iter_mut().filter_map(|end| end.next_deadline()).min();
            flow.due = due.map(|due| time_since(zero, due));
            flow.note(index, zero, self.now, &mut self.testbed, observer);
        }
        Ok(())
    }

    /// What has crossed a path by now reaches the other end.
    fn deliver(&mut self, direction: usize, observer: &mut impl Observer) {
        let mut fates = Vec::new();
        self.paths[direction].advance(self.now, &mut fates);
        let now = self.instant(self.now);
        for record in &fates {
            if direction == 0 {
                self.testbed.record(record);
                observer.on_record(record);
            }
            let Some((index, datagram)) = self.arrived(record) else { continue };
            let flow = &mut self.flows[index];
            flow.is_touched = true;
            flow.ends[1 - direction].receive(now, datagram);
            if direction == 1 && flow.factory.is_none() {
                // The library's own controller shows no samples.
                if let Some(rtt) = flow.ends[0].rtt() {
                    let rtt = cellpace_base::Span::from_nanos(rtt.as_nanos() as u64);
                    self.testbed.rtt(self.now, index, rtt);
                }
            }
        }
    }

    /// The datagram of a packet that arrives.
    fn arrived(&mut self, record: &PacketRecord) -> Option<(usize, Datagram)> {
        let id = record.packet.id;
        match record.fate {
            Fate::Delivered => self.in_flight.remove(&id),
            Fate::Duplicate => {
                let (flow, Datagram { ecn, bytes }) = self.in_flight.get(&id)?;
                Some((*flow, Datagram { ecn: *ecn, bytes: bytes.clone() }))
            }
            Fate::Dropped(_) => {
                self.in_flight.remove(&id);
                None
            }
        }
    }

    fn next_deadline(&self) -> Time {
        let flows = self.flows.iter().filter_map(|flow| flow.due);
        let paths = self.paths.iter().filter_map(Path::next_deadline);
        let next = flows.chain(paths).chain(self.show_at).min();
        next.map_or(self.testbed.next_sample(), |next| next.min(self.testbed.next_sample()))
    }

    fn instant(&self, time: Time) -> Instant {
        self.zero + Duration::from_nanos(time.as_nanos())
    }
}

impl Flow {
    /// Passes RTTs and events of the controller on, and finds the one of a new path.
    fn note(
        &mut self,
        index: usize,
        zero: Instant,
        now: Time,
        testbed: &mut Testbed,
        observer: &mut impl Observer,
    ) {
        let present = self.ends[0].handle();
        let is_new = match (&self.handle, present) {
            (Some(old), Some(new)) => !old.is_same(new),
            (None, Some(_)) => true,
            _ => false,
        };
        if is_new {
            self.before = self.totals().unwrap_or_default();
            self.handle = present.cloned();
            if let Some(handle) = &self.handle {
                handle.lock().watch_rtts();
            }
        }
        let Some(handle) = &self.handle else { return };
        let began = time_since(zero, handle.instant(Time::ZERO)) - Time::ZERO;
        let mut host = handle.lock();
        host.take_rtts(|at, rtt| testbed.rtt(at + began, index, rtt));
        while let Some((at, event)) = host.poll_event() {
            let at = (at + began).min(now);
            testbed.event(index, at, &event);
            observer.on_event(index as u32, at, event);
        }
    }

    /// `None`: the library's own controller counts nothing of this.
    fn totals(&self) -> Option<SenderTotals> {
        let stats = self.handle.as_ref()?.lock().stats();
        Some(SenderTotals {
            retransmitted: self.before.retransmitted + stats.lost,
            timeouts: self.before.timeouts + stats.timeouts,
            spurious_timeouts: self.before.spurious_timeouts + stats.spurious_timeouts,
            spurious_losses: self.before.spurious_losses + stats.spurious_losses,
        })
    }
}

/// Instants before zero are zero.
fn time_since(zero: Instant, instant: Instant) -> Time {
    let nanos = instant.saturating_duration_since(zero).as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
