//! Whole QUIC connections, real TLS included, over the modelled path in virtual time: no socket, no
//! thread, a minute of LTE in less than a second. Same seed, same packets (the bytes of TLS differ,
//! their sizes do not).
//!
//! A server sends to a client, which is what most servers do: the controller is the server's.

mod ends;
mod error;
mod sender;
mod tls;

use std::any::Any;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cellpace_base::{Span, Time};
use cellpace_cc::ControllerSpec;
use cellpace_path::{Fate, Packet, PacketRecord};
use cellpace_sim::{
    FlowEnds, FlowNote, FlowSample, FlowSpec, Observer, Outcome, Scenario, SenderTotals, SimError,
};

use ends::{ADDRESSES, Datagram, End, EndConditions, SenderControl};
pub use error::VirtualTimeError;
pub use sender::{LibraryController, Sender, SenderError, Stack};

use crate::{Factory, Handle};

/// IPv4 and UDP.
const HEADERS: u32 = 28;
/// More turns than any connection needs at one instant.
const MAX_TURNS: u32 = 100_000;

/// A run that its owner advances step by step: [`cellpace_sim::Simulation`] with a QUIC library in
/// place of the simulator's own senders.
pub struct Simulation {
    inner: cellpace_sim::Simulation,
}

impl Simulation {
    /// The run of `scenario` at time zero, with `sender` in place of the simulator's senders.
    ///
    /// # Errors
    /// When the scenario contradicts itself or has what `sender` cannot do, a controller cannot run
    /// inside QUIC, or the library refuses its configuration.
    pub fn new(scenario: &Scenario, sender: Sender) -> Result<Self, VirtualTimeError> {
        let zero = Instant::now();
        let inner = cellpace_sim::Simulation::with_ends(scenario, |index, flow| {
            flow_ends(scenario, index, flow, sender, zero).map(Some)
        })?;
        Ok(Self { inner })
    }

    /// How far the run has come.
    pub fn now(&self) -> Time {
        self.inner.now()
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// Bytes of its stream that the application of a flow has read.
    pub fn delivered(&self, flow: usize) -> Option<u64> {
        Some(self.flow(flow)?.ends[1].delivered())
    }

    /// Controllers that a flow has had: one for each path.
    pub fn controllers(&self, flow: usize) -> Option<u64> {
        Some(self.flow(flow)?.factory.as_ref()?.built())
    }

    /// The client of a flow has another address from now on: the port alone, as after a NAT has
    /// forgotten it, or all of it, as after a change of network.
    pub fn move_client(&mut self, flow: usize, port_only: bool) {
        let flow = self.inner.ends_mut(flow).map(|ends| ends as &mut dyn Any);
        let Some(flow) = flow.and_then(|ends| ends.downcast_mut::<QuicFlow>()) else { return };
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
        Ok(self.inner.advance_observed(until, observer)?)
    }

    /// What came out. What is left of the run is simulated first, unobserved.
    ///
    /// # Errors
    /// When a connection ends before its time, or makes no progress.
    pub fn finish(self) -> Result<Outcome, VirtualTimeError> {
        Ok(self.inner.finish()?)
    }

    fn flow(&self, index: usize) -> Option<&QuicFlow> {
        let ends: &dyn Any = self.inner.ends(index)?;
        ends.downcast_ref()
    }
}

/// The ends of a flow of `scenario` in a QUIC library, for
/// [`cellpace_sim::Simulation::with_ends`]; `zero` is the instant that stands for time zero.
///
/// # Errors
/// When the controller cannot run inside QUIC, or the library refuses its configuration.
pub fn flow_ends(
    scenario: &Scenario,
    index: u32,
    flow: &FlowSpec,
    sender: Sender,
    zero: Instant,
) -> Result<Box<dyn FlowEnds>, VirtualTimeError> {
    // What is random in the ends of each connection has seeds of its own.
    let seed = scenario.seed.wrapping_add(u64::from(index) << 32);
    let factory = match (sender.own, &flow.cc) {
        (None, Some(cc)) => Some(Factory::new(ControllerSpec::clone(cc), seed)?),
        _ => None,
    };
    let control = match (&factory, sender.own) {
        (Some(factory), _) => SenderControl::Ours(factory.clone()),
        (None, own) => SenderControl::Library(own.unwrap_or(LibraryController::Cubic)),
    };
    let conditions = EndConditions { control, acks: scenario.acks, seed };
    let (start, stop) = (flow.start, flow.stop);
    Ok(Box::new(QuicFlow {
        zero,
        index,
        start,
        stop,
        ends: ends::pair(sender.stack, &conditions, instant(zero, start))?,
        factory,
        handle: None,
        before: SenderTotals::default(),
        in_flight: HashMap::new(),
        next_id: 0,
        is_touched: true,
        due: None,
        rtts: Vec::new(),
        turns: (Time::ZERO, 0),
    }))
}

/// One connection.
struct QuicFlow {
    zero: Instant,
    index: u32,
    /// The handshake begins then.
    start: Time,
    /// From then on the sender sends nothing and hears nothing, as if its program had ended.
    stop: Time,
    /// Sender, receiver.
    ends: [Box<dyn End + Send>; 2],
    factory: Option<Arc<Factory>>,
    /// The controller of the present path.
    handle: Option<Handle>,
    /// What controllers of earlier paths have counted.
    before: SenderTotals,
    /// By the id of their packet.
    in_flight: HashMap<u64, Datagram>,
    next_id: u64,
    /// Something has happened since it last acted.
    is_touched: bool,
    /// When one of its ends has something to do.
    due: Option<Time>,
    /// RTTs of the library's own controller, which shows no samples.
    rtts: Vec<(Time, Span)>,
    /// The instant of the last turns, and how many there were.
    turns: (Time, u32),
}

impl FlowEnds for QuicFlow {
    fn next_deadline(&self) -> Time {
        match self.is_touched {
            true => self.start,
            false => self.due.unwrap_or(Time::MAX),
        }
    }

    fn receive(&mut self, now: Time, direction: usize, record: &PacketRecord) {
        let Some(datagram) = self.arrived(record).filter(|_| now < self.stop) else { return };
        let instant = instant(self.zero, now);
        self.is_touched = true;
        self.ends[1 - direction].receive(instant, datagram);
        if direction == 1 && self.factory.is_none() {
            let rtt = self.ends[0].rtt();
            self.rtts.extend(rtt.map(|rtt| (now, Span::from_nanos(rtt.as_nanos() as u64))));
        }
    }

    fn turn(
        &mut self,
        now: Time,
        push: &mut dyn FnMut(usize, Packet) -> bool,
    ) -> Result<(), SimError> {
        if now < self.start {
            return Ok(());
        }
        if now >= self.stop {
            (self.is_touched, self.due) = (false, None);
            return Ok(());
        }
        let instant = instant(self.zero, now);
        if self.due.is_some_and(|due| due <= now) {
            self.is_touched = true;
            self.ends.iter_mut().for_each(|end| end.on_deadline(instant));
        }
        if !self.is_touched {
            return Ok(());
        }
        self.is_touched = false;
        for (direction, end) in self.ends.iter_mut().enumerate() {
            while let Some(datagram) = end.poll(instant) {
                let bytes = u32::try_from(datagram.bytes.len()).unwrap_or(u32::MAX);
                let size = bytes.saturating_add(HEADERS);
                let id = self.next_id;
                self.next_id += 1;
                if push(direction, Packet::new(id, self.index, size, now)) {
                    self.in_flight.insert(id, datagram);
                }
            }
        }
        self.check_progress(now)?;
        let due = self.ends.iter_mut().filter_map(|end| end.next_deadline()).min();
        self.due = due.map(|due| time_since(self.zero, due));
        self.find_controller();
        Ok(())
    }

    fn drain(&mut self, now: Time, note: &mut dyn FnMut(FlowNote)) {
        self.rtts.drain(..).for_each(|(at, rtt)| note(FlowNote::Rtt(at, rtt)));
        let Some(handle) = &self.handle else { return };
        let began = time_since(self.zero, handle.instant(Time::ZERO)) - Time::ZERO;
        let mut host = handle.lock();
        host.take_rtts(|at, rtt| note(FlowNote::Rtt(at + began, rtt)));
        while let Some((at, event)) = host.poll_event() {
            note(FlowNote::Event((at + began).min(now), event));
        }
    }

    fn look(&self, show: &mut dyn FnMut(FlowSample<'_>)) {
        if let Some(handle) = &self.handle {
            show(handle.lock().sample());
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

impl QuicFlow {
    /// The datagram of a packet that arrives.
    fn arrived(&mut self, record: &PacketRecord) -> Option<Datagram> {
        let id = record.packet.id;
        match record.fate {
            Fate::Delivered => self.in_flight.remove(&id),
            Fate::Duplicate => {
                let Datagram { ecn, bytes } = self.in_flight.get(&id)?;
                Some(Datagram { ecn: *ecn, bytes: bytes.clone() })
            }
            Fate::Dropped(_) => {
                self.in_flight.remove(&id);
                None
            }
        }
    }

    fn check_progress(&mut self, now: Time) -> Result<(), SimError> {
        let seconds = (now - Time::ZERO).as_secs_f64();
        if let Some(reason) = self.ends.iter().find_map(|end| end.ended()) {
            let text = format!("the connection ended after {seconds:.3} s: {reason}");
            return Err(SimError::Invalid(text));
        }
        let (at, turns) = self.turns;
        self.turns = if at == now { (now, turns + 1) } else { (now, 0) };
        if self.turns.1 > MAX_TURNS {
            let text = format!("the connection makes no progress after {seconds:.3} s");
            return Err(SimError::Invalid(text));
        }
        Ok(())
    }

    /// Finds the controller of a new path.
    fn find_controller(&mut self) {
        let present = self.ends[0].handle();
        let is_new = match (&self.handle, present) {
            (Some(old), Some(new)) => !old.is_same(new),
            (None, Some(_)) => true,
            _ => false,
        };
        if !is_new {
            return;
        }
        let present = present.cloned();
        self.before = self.totals().unwrap_or_default();
        self.handle = present;
        if let Some(handle) = &self.handle {
            handle.lock().watch_rtts();
        }
    }
}

fn instant(zero: Instant, time: Time) -> Instant {
    zero + Duration::from_nanos(time.as_nanos())
}

/// Instants before zero are zero.
fn time_since(zero: Instant, instant: Instant) -> Time {
    let nanos = instant.saturating_duration_since(zero).as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
