//! Pace: a window of measured rate times base RTT times a learnt headroom, which is as large as it
//! has to be for one packet in a hundred to find the queue empty (`docs/spec/pace.md`).

mod base;
mod elasticity;
mod headroom;
mod params;
mod rate;
mod units;

use self::base::{BaseRtt, Seen};
use self::elasticity::{Elasticity, FlightSample};
use self::headroom::Headroom;
pub(crate) use self::params::PaceParams;
use self::params::PaceSettings;
use self::rate::DeliveryMean;
use self::units::{MAX_WINDOW, ONE, SECOND, TwoMinima, micros, packets_of};
use crate::{
    Ack, AckedPacket, Controller, ControllerParams, Event, Events, KernelSettings, Loss, Mark,
    Pacing, Permit, Phase, Rate, SentPacket, Setup, Span, Spurious, Stamp, Time, Timeout,
};

impl ControllerParams for PaceParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Pace::new(self, &setup))
    }

    fn kernel_settings(&self) -> Option<KernelSettings> {
        let words = PaceSettings::new(self, 1).words();
        Some(KernelSettings { controller: "pace", words })
    }
}

/// No cap.
const NO_CAP: u64 = u64::MAX;

/// The controller, in whole numbers: RTTs in microseconds, windows in packets and rates in packets
/// per second with 16 bits behind the point.
pub(crate) struct Pace {
    mss: u64,
    extra: u64,
    initial_window: u64,
    min_window: u64,
    window: u64,
    rate: DeliveryMean,
    headroom: Headroom,
    base: BaseRtt,
    /// The rate when an RTT near the base was last seen.
    base_rate: u64,
    elasticity: Elasticity,
    /// What acks take back to the sender, give or take the offset of the clocks.
    way_back: TwoMinima,
    /// How much longer they all took lately.
    ack_delay: TwoMinima,
    startup: bool,
    /// Packets in a row that have met a queue in slow start.
    queued_run: u64,
    /// Largest window after a timeout or a pause, which acks raise.
    cap: u64,
    /// Window among rivals; 0 without.
    rival_window: u64,
    /// Largest window since the queue was last empty.
    peak: u64,
    /// Packets from this number on were sent after the last reduction.
    reduced_at: u64,
    delivered: u64,
    queue: u64,
    last_ack_at: Time,
    /// The path has been this one since then; RTTs of older packets are another path's.
    path_since: Time,
    before_timeout: Option<u64>,
    phase: Phase,
    events: Events,
}

impl Pace {
    /// Queueing delay up to which a queue counts as empty: the grain of a cellular link.
    const NOTHING: u64 = 1000;
    /// Slow start ends above an eighth of the base RTT, and at least this long.
    const STARTUP_EXIT: u64 = 4000;
    /// Packets in a row above it that end slow start, or an eighth of the window if it is more.
    const STARTUP_RUN: u64 = 8;
    /// Lost packets of one report that end slow start.
    const STARTUP_LOSSES: u64 = 3 * ONE;
    /// Packets per base RTT in quarters of the window, and where it grows exponentially.
    const PACING: u64 = 5;
    const FAST_PACING: u64 = 8;
    /// Packets that may leave at once.
    const BURST: u64 = 4;
    /// The smallest window of a search: one or two packets stop when an ack is lost.
    const SEARCH_LEAST: u64 = 4 * ONE;
    /// Among rivals: packets per window of acks, and tenths that a loss leaves (RFC 9438 section 4.6).
    const RIVAL_INCREASE: u64 = 2;
    const RIVAL_CUT: u64 = 7;
    /// For this long the drift between two clocks is nothing.
    const CLOCKS_AGREE: Span = Span::from_secs(10);
    /// Keeps the difference between two clocks positive, in microseconds.
    const CLOCK_OFFSET: u64 = 1 << 62;
    /// A pause of this length makes what is known about the rate old.
    const PAUSE: Span = Span::from_secs(1);

    fn new(params: &PaceParams, setup: &Setup) -> Self {
        let settings = PaceSettings::new(params, setup.mss);
        let PaceSettings { mss, extra, initial_window, min_window, .. } = settings;
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        Self {
            mss,
            extra,
            initial_window,
            min_window,
            window: initial_window,
            rate: DeliveryMean::new(settings.memory),
            headroom: Headroom::new(settings.empty, settings.learning),
            base: BaseRtt::new(setup.start, settings.search),
            base_rate: 0,
            elasticity: Elasticity::new(setup.start),
            way_back: TwoMinima::new(setup.start),
            ack_delay: TwoMinima::new(setup.start),
            startup: true,
            queued_run: 0,
            cap: NO_CAP,
            rival_window: 0,
            peak: initial_window,
            reduced_at: 0,
            delivered: 0,
            queue: 0,
            last_ack_at: setup.start,
            path_since: setup.start,
            before_timeout: None,
            phase: Phase::SlowStart,
            events,
        }
    }

    /// The RTT less what this ack took longer than the fastest one lately, where it is known when
    /// the packet arrived: a queue of acks is no queue of packets.
    fn rtt_without_ack_delay(&mut self, now: Time, packet: &AckedPacket) -> u64 {
        let rtt = micros(packet.rtt).max(1);
        let Some(received_at) = packet.received_at else { return rtt };
        // The clocks may differ by any offset, which is the same in all of these.
        let back = Self::CLOCK_OFFSET + now.as_nanos() / 1000 - received_at.as_nanos() / 1000;
        self.way_back.push(now, back, Self::CLOCKS_AGREE);
        let late = (back - self.way_back.smallest()).min(rtt - 1);
        self.ack_delay.push(now, late, Span::from_micros(4 * rtt));
        rtt - late
    }

    /// Packets that were delivered while one packet was in flight.
    fn flight(&self, packet: &AckedPacket) -> u64 {
        self.delivered.saturating_sub(packet.stamp.local[0]) / self.mss
    }

    /// The rate that the flight of one packet has shown: what was delivered in its RTT.
    fn flight_rate(&self, packet: &AckedPacket) -> u64 {
        self.flight(packet).min(1 << 24) * ONE * SECOND / micros(packet.rtt).max(1)
    }

    /// Section 4: the queueing delay up to which a queue counts as empty. One packet of our own in
    /// front of another is none.
    fn nothing(&self) -> u64 {
        Self::NOTHING.max(self.packet_time().min(self.base.micros() / 2))
    }

    /// What a packet takes at the flow's own rate; 0 before there is one.
    fn packet_time(&self) -> u64 {
        (ONE * SECOND).checked_div(self.rate.rate()).unwrap_or(0)
    }

    /// Slow start: twice the window per round trip, until a queue appears.
    fn start_up(&mut self, packet: &AckedPacket, packets: u64, now: Time) {
        // Bursts that nothing has paced yet queue behind each other: it takes some in a row.
        let queued = self.queue > (self.base.micros() / 8).max(Self::STARTUP_EXIT);
        self.queued_run = if queued { self.queued_run + packets } else { 0 };
        if self.queued_run < (Self::STARTUP_RUN * ONE).max(self.window / Self::STARTUP_RUN) {
            if !packet.app_limited {
                self.window = (self.window + packets).min(self.cap).min(MAX_WINDOW);
            }
            return;
        }
        self.rate.raise_to(self.flight_rate(packet));
        self.leave_startup(now);
    }

    fn leave_startup(&mut self, now: Time) {
        self.startup = false;
        self.headroom.restart();
        self.update_window(now);
    }

    fn learn(&mut self, packet: &AckedPacket, packets: u64) {
        let reach = self.elasticity.reach(self.base.micros());
        self.headroom.on_ack(packets, self.queue, self.nothing(), reach, self.window);
        if self.headroom.starved(self.window) {
            self.rate.raise_to(self.flight_rate(packet));
        }
    }

    /// Section 7: whether the rate follows the window.
    fn ask(&mut self, ack: &Ack<'_>, packet: &AckedPacket, rtt: u64, settling: bool) {
        let newest = ack.packets.iter().map(|packet| packet.stamp.local[0]).max().unwrap_or(0);
        let limited_by_law = self.cap == NO_CAP && self.rival_window == 0 && !self.startup;
        let sample = FlightSample {
            sent_at: packet.sent_at,
            rtt,
            delivered_before: newest,
            delivered: self.delivered,
            flight: self.flight(packet),
            valid: limited_by_law && !settling && !packet.app_limited,
            base: self.base.micros(),
            packet: self.packet_time(),
            rate: self.rate.rate(),
        };
        self.elasticity.on_ack(ack.now, &sample);
    }

    /// Section 8: among rivals the window grows by packets and shrinks by losses, from the largest
    /// that it had before they came.
    fn face_rivals(&mut self, packet: &AckedPacket, packets: u64) {
        if !self.base.rivals() || self.elasticity.noisy() {
            self.rival_window = 0;
            let empty = self.queue <= self.nothing();
            self.peak = if empty { self.window } else { self.peak.max(self.window) };
        } else if self.rival_window == 0 {
            self.rival_window = self.peak;
        } else if !self.base.searching() && !packet.app_limited {
            self.rival_window += Self::RIVAL_INCREASE * packets * ONE / self.rival_window;
            self.rival_window = self.rival_window.min(MAX_WINDOW);
        }
    }

    /// Section 2: W = g r B + b.
    fn update_window(&mut self, now: Time) {
        let reach = self.elasticity.reach(self.base.micros());
        let ack_delay = self.ack_delay.smallest();
        let ack_delay = if ack_delay == TwoMinima::NONE { 0 } else { ack_delay.min(reach) };
        let rate = self.headroom.factor() * (self.rate.rate() / 256) / 256;
        let own = held(rate, reach + ack_delay) + self.extra + self.headroom.boost();
        let mut target = own.max(self.rival_window);
        if self.base.searching() {
            // Half of what the measured rate takes, and the packets that a search counts.
            let half = held(self.rate.rate() / 2, self.base.floor());
            target = target.min(half.max(Self::SEARCH_LEAST));
        } else {
            if self.cap > target {
                self.cap = NO_CAP;
            }
            if self.rival_window == 0 {
                target = self.elasticity.scale(now, target);
            }
        }
        self.window = target.min(self.cap).clamp(self.min_window, MAX_WINDOW);
        self.note_phase(now);
    }

    /// A lost or marked packet: at most one reduction per round trip among rivals.
    fn congestion(&mut self, now: Time, packets: u64, newest: u64, next: u64) {
        self.headroom.on_loss(packets, self.window);
        if self.rival_window > 0 && newest >= self.reduced_at {
            let from = self.bytes(self.rival_window);
            self.reduced_at = next;
            self.rival_window = (self.rival_window * Self::RIVAL_CUT / 10).max(self.min_window);
            let to = self.bytes(self.rival_window);
            self.events.push(now, Event::Reduced { from, to });
        }
        self.update_window(now);
    }

    fn note_phase(&mut self, now: Time) {
        let phase = if self.startup {
            Phase::SlowStart
        } else if self.base.searching() {
            Phase::ProbeRtt
        } else if self.rival_window > 0 {
            Phase::Competitive
        } else {
            Phase::Avoidance
        };
        if phase != self.phase {
            self.phase = phase;
            self.events.push(now, Event::Phase(phase));
        }
    }

    fn packets(&self, bytes: u64) -> u64 {
        packets_of(bytes, self.mss)
    }

    fn bytes(&self, window: u64) -> u64 {
        window * self.mss / ONE
    }

    /// Half of what the window takes at the latest RTT, after slow start.
    fn half_rate(&self, rtt: Span) -> u64 {
        self.window / 2 * SECOND / micros(rtt).max(1000)
    }
}

/// The packets that a rate brings in a time.
fn held(rate: u64, micros: u64) -> u64 {
    rate / 4 * micros.min(1 << 24) / (SECOND / 4)
}

impl Controller for Pace {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let was_idle = packet.in_flight <= packet.bytes && self.delivered > 0;
        if was_idle && !self.startup && packet.now - self.last_ack_at > Self::PAUSE {
            self.cap = self.cap.min(self.initial_window);
            self.update_window(packet.now);
        }
        Stamp { local: [self.delivered, 0, 0, 0], wire: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let now = ack.now;
        let packets = self.packets(ack.bytes());
        self.delivered = self.delivered.saturating_add(ack.bytes());
        self.last_ack_at = now;
        // Delayed and bundled acks only ever add to the RTT.
        let of_this_path = ack.packets.iter().filter(|packet| packet.sent_at >= self.path_since);
        let Some(fastest) = of_this_path.min_by_key(|packet| packet.rtt) else { return };
        let rtt = self.rtt_without_ack_delay(now, fastest);
        let before = self.base.micros();
        let noisy = self.elasticity.noisy();
        match self.base.sample(now, fastest.sent_at, rtt, self.packet_time(), noisy) {
            Seen::Base => self.base_rate = self.rate.rate(),
            Seen::LongerPath => self.rate.raise_to(self.base_rate),
            Seen::Nothing => {}
        }
        let base = self.base.micros();
        if base != before {
            self.events.push(now, Event::BaseDelay(Span::from_micros(base)));
        }
        let settling = self.base.settling(now);
        self.rate.on_ack(now, packets, settling || fastest.app_limited);
        self.ask(ack, fastest, rtt, settling);
        self.queue = rtt.saturating_sub(self.elasticity.reach(base));
        self.cap = self.cap.saturating_add(packets);
        if self.startup {
            self.start_up(fastest, packets, now);
            return;
        }
        self.face_rivals(fastest, packets);
        if !fastest.app_limited && !settling {
            self.learn(fastest, packets);
        }
        self.update_window(now);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let lost = self.packets(loss.bytes());
        if self.startup {
            if lost > Self::STARTUP_LOSSES {
                self.rate.raise_to(self.half_rate(loss.rtt.latest()));
                self.leave_startup(loss.now);
            }
            return;
        }
        let newest = loss.packets.iter().map(|packet| packet.number).max().unwrap_or(0);
        self.congestion(loss.now, lost, newest, loss.next_number);
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        if self.startup {
            self.rate.raise_to(self.half_rate(mark.rtt.latest()));
            self.leave_startup(mark.now);
        }
        self.congestion(mark.now, mark.packets.min(1 << 20) * ONE, mark.newest, mark.next_number);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.events.push(timeout.now, Event::Timeout);
        self.before_timeout.get_or_insert(self.cap);
        let from = self.window;
        self.cap = self.min_window;
        self.headroom.restart();
        if self.startup {
            // Slow start goes on below the cap.
            self.window = self.min_window;
        } else {
            self.update_window(timeout.now);
        }
        if self.window < from {
            let (from, to) = (self.bytes(from), self.bytes(self.window));
            self.events.push(timeout.now, Event::Reduced { from, to });
        }
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        match spurious {
            Spurious::Timeout { now } => {
                let Some(cap) = self.before_timeout.take() else { return };
                self.cap = cap;
                if !self.startup {
                    self.update_window(*now);
                }
                self.events.push(*now, Event::Undone);
            }
            Spurious::Loss { packet, .. } => {
                self.delivered = self.delivered.saturating_add(packet.bytes);
            }
        }
    }

    /// Keeps rate and headroom, as the best guess there is, and learns the base RTT anew.
    fn on_path_change(&mut self, now: Time) {
        self.base.clear(now);
        self.way_back = TwoMinima::new(now);
        self.ack_delay = TwoMinima::new(now);
        self.headroom.restart();
        self.elasticity = Elasticity::new(now);
        self.rival_window = 0;
        self.before_timeout = None;
        self.path_since = now;
        self.events.push(now, Event::Restart);
        self.note_phase(now);
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.bytes(self.window))
    }

    fn pacing(&self) -> Option<Pacing> {
        let base = self.base.micros();
        if base == 0 {
            return None;
        }
        let fast = self.startup || self.headroom.starved(self.window);
        let gain = if fast { Self::FAST_PACING } else { Self::PACING };
        let rate =
            Rate::from_bytes_per_sec((self.bytes(self.window) * gain / 4 * SECOND / base) as f64);
        Some(Pacing { rate, burst: self.mss.saturating_mul(Self::BURST) })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let packets = |fixed: u64| fixed as f64 / ONE as f64;
        show("cwnd_pkts", packets(self.window));
        show("delivery_mbps", packets(self.rate.rate()) * self.mss as f64 * 8.0 / 1e6);
        show("headroom", packets(self.headroom.factor()));
        show("base_rtt_ms", self.base.micros() as f64 / 1e3);
        show("reach_ms", self.elasticity.reach(self.base.micros()) as f64 / 1e3);
        show("queueing_ms", self.queue as f64 / 1e3);
        show("slow_start", f64::from(u8::from(self.startup)));
        show("competitive", f64::from(u8::from(self.rival_window > 0)));
    }
}

#[cfg(test)]
mod tests;
