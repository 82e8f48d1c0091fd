//! MDI (Pötsch et al., 2017, and its successor of 2021): replays another delay-based controller
//! from a Markov table by a guided random walk. No delay profile, no set-point, and slow start only
//! on request.
//!
//! The walk is in [`cellpace_mdi`]; here is what a flow needs around it: the largest delay per
//! epoch, how much of a window leaves when, and what losses and timeouts do. With relative states
//! the window bounds what is in flight and leaves as Verus releases it; with absolute states the
//! table sets how many packets leave in each epoch, and nothing else bounds them.

mod params;
mod start;
#[cfg(test)]
mod tests;

use std::fmt;

use cellpace_base::{GivenValues, Param, ParamError, ParamSet, Preset, Span, Time};
use cellpace_mdi::{OutOfRange, States, TableWalk, WindowQ16};

use crate::epochs::{EpochGrid, retransmission_timeout};
use crate::{
    Ack, Controller, ControllerParams, Event, Events, Loss, MarkovWalk, Permit, Phase, ReadFile,
    SentPacket, Setup, Stamp, Timeout,
};
use params::{MdiParams, MdiRules};
use start::Start;

/// The shortest retransmission timeout (docs/spec/mdi.md 5).
const RTO_MIN: Span = Span::from_millis(150);

/// The parameters, and what their model makes of them.
pub(crate) struct MdiController {
    params: MdiParams,
    /// `None` until the model is loaded.
    rules: Option<MdiRules>,
}

impl fmt::Debug for MdiController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.params.fmt(f)
    }
}

impl ParamSet for MdiController {
    const PRESETS: &'static [Preset] = MdiParams::PRESETS;

    fn table() -> &'static [Param] {
        MdiParams::table()
    }

    fn take(given: &GivenValues<'_>) -> Result<Self, ParamError> {
        Ok(Self { params: MdiParams::take(given)?, rules: None })
    }
}

impl ControllerParams for MdiController {
    fn load(&mut self, read: &mut ReadFile<'_>) -> Result<(), String> {
        self.rules = Some(self.params.load(read)?);
        Ok(())
    }

    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        let rules = self.rules.clone().expect("a spec loads before anything is built from it");
        Box::new(Mdi::new(rules, setup))
    }

    fn markov_walk(&self) -> Option<MarkovWalk> {
        self.rules.as_ref().and_then(MdiRules::markov_walk)
    }
}

/// The controller.
struct Mdi {
    rules: MdiRules,
    mss: u64,
    grid: EpochGrid,
    walk: TableWalk,
    /// While there is one the walk only watches.
    slow_start: Option<Start>,
    /// Seeds of walks to come, after a change of path.
    random: crate::Random,
    /// Largest RTT acked since the last epoch.
    epoch_max: Option<Span>,
    /// Largest RTT of the last epoch that had any: d1 of the specification.
    d1: Span,
    /// No epoch runs before the first RTT is known.
    has_rtt: bool,
    last_rtt: Option<Span>,
    /// The last ack, or the first packet sent into silence.
    quiet_since: Time,
    in_flight: u64,
    /// Packets that may still leave.
    credit: u32,
    app_limited: bool,
    next_number: u64,
    /// Losses of packets below belong to a round trip that has cut the window already.
    recover: u64,
    /// What the last loss left of the window, until its round trip is over.
    ceiling: Option<WindowQ16>,
    events: Events,
}

impl Controller for Mdi {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        if self.sleeps() {
            // An epoch that ends now has ended before the packet leaves.
            self.grid.pass(packet.now);
        }
        if packet.in_flight <= packet.bytes {
            self.quiet_since = packet.now;
        }
        self.in_flight = packet.in_flight;
        self.credit = self.credit.saturating_sub(1);
        self.app_limited = packet.app_limited;
        self.next_number = packet.number.saturating_add(1);
        Stamp { local: [u64::from(self.window()), 0, 0, 0], wire: 0 }
    }

    /// docs/spec/mdi.md 5. Late acks of packets declared lost are no samples, as they
    /// are none in the log of a teacher.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.wake(ack.now);
        for packet in ack.packets {
            self.epoch_max = self.epoch_max.max(Some(packet.rtt));
            self.last_rtt = Some(packet.rtt);
        }
        if ack.packets.iter().any(|packet| packet.number >= self.recover) {
            self.ceiling = None;
        }
        self.has_rtt = true;
        self.quiet_since = ack.now;
        self.in_flight = ack.in_flight;
        self.grow_in_slow_start(ack);
    }

    /// docs/spec/mdi.md 8, its choice: the walk goes on from the smaller window. Until
    /// the round trip is over it does not grow: an epoch is a small part of a round trip, and where
    /// the delay is above all that was learnt, growth in each would outdo any cut.
    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.wake(loss.now);
        self.in_flight = loss.in_flight;
        let Some(newest) = loss.packets.iter().map(|packet| packet.number).max() else { return };
        if let Some(start) = &mut self.slow_start {
            return start.lose(loss);
        }
        let factor = u64::from(self.rules.loss_factor);
        if factor >= 65_536 || newest < self.recover {
            return;
        }
        self.recover = loss.next_number;
        let oldest = loss.packets[0].stamp.local[0];
        let sent_at = if oldest == 0 { u64::from(self.walk.window()) } else { oldest };
        let left = u32::try_from((sent_at * factor) >> 16).unwrap_or(WindowQ16::MAX);
        let from = self.cwnd();
        self.walk.set_window(left.min(self.walk.window()), false);
        self.ceiling = Some(self.walk.window());
        self.events.push(loss.now, Event::Reduced { from, to: self.cwnd() });
    }

    /// docs/spec/mdi.md 8, its choice.
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.wake(timeout.now);
        self.in_flight = 0;
        if self.slow_start.is_some() {
            if !self.has_rtt {
                // docs/spec/verus.md 10.
                return self.begin();
            }
            self.leave_slow_start(timeout.now);
        }
        self.walk.set_window(self.walk.window() / 2, true);
        self.recover = timeout.next_number;
        self.ceiling = None;
        // The packet that finds out whether the path is there again.
        self.credit = self.credit.max(1);
        self.events.push(timeout.now, Event::Timeout);
    }

    /// Delays of the old path are no change of the new one's.
    fn on_path_change(&mut self, now: Time) {
        self.wake(now);
        self.walk = new_walk(&self.rules, &mut self.random);
        self.ceiling = None;
        self.epoch_max = None;
        self.has_rtt = false;
        self.last_rtt = None;
        self.quiet_since = now;
        self.begin();
        self.events.push(now, Event::Restart);
        if self.slow_start.is_some() {
            self.events.push(now, Event::Phase(Phase::SlowStart));
        }
    }

    /// The window, or, where the table sets the packets of an epoch, the equivalent in a
    /// round trip.
    fn cwnd(&self) -> u64 {
        let window = u64::from(self.window());
        let epochs = if self.slow_start.is_some() { 1 } else { self.portions() };
        // At most 2^16 packets of 2^16 units, so only absurd numbers saturate.
        (window.saturating_mul(epochs) >> 8).saturating_mul(self.mss) >> 8
    }

    fn permit(&self) -> Permit {
        Permit::Budget(u64::from(self.credit).saturating_mul(self.mss))
    }

    fn rto(&self) -> Option<Span> {
        Some(retransmission_timeout(self.last_rtt, RTO_MIN))
    }

    fn next_deadline(&self) -> Option<Time> {
        (!self.sleeps()).then(|| self.grid.next())
    }

    fn on_deadline(&mut self, now: Time) {
        if !self.grid.pass(now) {
            return;
        }
        if self.slow_start.as_mut().is_some_and(|start| start.is_lost(now)) {
            self.end_slow_start(now);
        }
        if self.has_rtt && !self.is_idle() {
            self.run_epoch(now);
        }
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", packets(self.window()));
        show("slow_start", f64::from(u8::from(self.slow_start.is_some())));
        show("delay_ms", self.d1.as_millis_f64());
        show("users", f64::from(self.rules.learnt.users[self.walk.table()]));
        show("credit_pkts", self.credit.into());
        show("in_flight_pkts", self.in_flight as f64 / self.mss as f64);
    }
}

impl Mdi {
    fn new(rules: MdiRules, mut setup: Setup) -> Self {
        let walk = new_walk(&rules, &mut setup.random);
        let mut mdi = Self {
            mss: setup.mss.max(1),
            grid: EpochGrid::new(setup.start, rules.learnt.epoch),
            credit: 0,
            walk,
            slow_start: None,
            random: setup.random,
            epoch_max: None,
            d1: Span::ZERO,
            has_rtt: false,
            last_rtt: None,
            quiet_since: setup.start,
            in_flight: 0,
            app_limited: false,
            next_number: 0,
            recover: 0,
            ceiling: None,
            events: Events::new(),
            rules,
        };
        mdi.begin();
        mdi.events.push(setup.start, Event::Phase(mdi.phase()));
        mdi
    }

    /// "No slow-start is required", section 5 of the paper, and so it is on request only.
    fn begin(&mut self) {
        self.slow_start = self.rules.slow_start.then(Start::new);
        self.credit = (self.window() >> 16).max(1);
    }

    fn phase(&self) -> Phase {
        if self.slow_start.is_some() { Phase::SlowStart } else { Phase::Avoidance }
    }

    /// The window of slow start or of the walk.
    fn window(&self) -> WindowQ16 {
        let slow = self.slow_start.as_ref();
        slow.map_or(self.walk.window(), |start| (start.window() * 65_536.0) as WindowQ16)
    }

    fn grow_in_slow_start(&mut self, ack: &Ack<'_>) {
        let Some(start) = &mut self.slow_start else { return };
        if start.is_over(ack) {
            return self.end_slow_start(ack.now);
        }
        let in_flight = self.in_flight as f64 / self.mss as f64;
        self.credit = start.granted(in_flight, self.credit.into()) as u32;
    }

    /// By its delay or a loss. Until the round trip is over the walk does not grow.
    fn end_slow_start(&mut self, now: Time) {
        self.leave_slow_start(now);
        self.recover = self.next_number;
        self.ceiling = Some(self.walk.window());
    }

    /// The walk takes over at the window that was reached.
    fn leave_slow_start(&mut self, now: Time) {
        let Some(start) = self.slow_start.take() else { return };
        self.set_walk(&start);
        self.credit = 0;
        self.events.push(now, Event::Phase(Phase::Avoidance));
    }

    fn set_walk(&mut self, start: &Start) {
        self.walk
            .set_window((start.window() / self.portions() as f64 * 65_536.0) as WindowQ16, true);
    }

    /// In how many parts a window leaves.
    fn portions(&self) -> u64 {
        match self.rules.learnt.states() {
            States::Absolute(_) => self.epochs_per_rtt().max(1),
            _ => 1,
        }
    }

    /// Whether the sender could send and did not: it waits for no ack, and its silence is no delay.
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.credit > 0 && self.epoch_max.is_none()
    }

    /// Whether epochs change nothing until something happens.
    fn sleeps(&self) -> bool {
        self.slow_start.is_none() && self.is_idle()
    }

    /// Something happens at `now`, and the epochs until then are left out where they change nothing.
    fn wake(&mut self, now: Time) {
        if self.sleeps() {
            self.grid.skip_before(now);
        }
    }

    /// docs/spec/mdi.md 6.
    fn run_epoch(&mut self, now: Time) {
        let newest = self.epoch_max.take();
        // With nothing acked the silence counts, and grows with every epoch.
        let silence = if self.in_flight == 0 { Span::ZERO } else { now.since(self.quiet_since) };
        let delay = newest.unwrap_or_else(|| self.d1.max(silence));
        self.d1 = newest.unwrap_or(self.d1);
        let micros = u32::try_from(delay.as_nanos() / 1000).unwrap_or(u32::MAX);
        let window = self.walk.step(micros, newest.is_some());
        if let Some(ceiling) = self.ceiling.filter(|ceiling| window > *ceiling) {
            self.walk.set_window(ceiling, false);
        }
        self.send_window();
        if self.in_flight == 0 {
            // Without a packet there is no ack, and the walk would learn nothing for ever.
            self.credit = self.credit.max(1);
        }
    }

    fn send_window(&mut self) {
        if let Some(start) = self.slow_start.clone() {
            // The acks release; the walk knows delays, and from which window it will go on.
            return self.set_walk(&start);
        }
        // What is left over is spent at once by a sender that has data; others do not save it up.
        let credit = if self.app_limited { 0 } else { self.credit };
        let in_flight = u32::try_from(self.in_flight.div_ceil(self.mss)).unwrap_or(u32::MAX);
        let epochs = u32::try_from(self.epochs_per_rtt()).unwrap_or(u32::MAX);
        self.credit = self.walk.release(credit, in_flight, epochs);
    }

    fn epochs_per_rtt(&self) -> u64 {
        self.grid.epochs_in(self.last_rtt.unwrap_or(Span::ZERO))
    }
}

fn new_walk(rules: &MdiRules, random: &mut crate::Random) -> TableWalk {
    let tables = rules.learnt.tables.clone();
    TableWalk::among(tables, rules.empty, OutOfRange::default(), random.bits())
}

fn packets(window: WindowQ16) -> f64 {
    f64::from(window) / 65_536.0
}
