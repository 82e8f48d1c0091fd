//! Pace: a window of measured rate times base RTT times a learnt headroom, which is as large as it
//! has to be for one packet in a hundred to find the queue empty (`docs/spec/pace.md`).

mod base;
mod headroom;
mod params;
mod rate;

use cellpace_base::Window;

use self::base::{BaseRtt, TwoMinima};
use self::headroom::Headroom;
pub(crate) use self::params::PaceParams;
use self::rate::DeliveryMean;
use crate::{
    Ack, AckedPacket, Controller, ControllerParams, Event, Events, Loss, Mark, Pacing, Permit,
    Phase, Rate, SentPacket, Setup, Span, Spurious, Stamp, Time, Timeout,
};

impl ControllerParams for PaceParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Pace::new(self, &setup))
    }
}

/// The controller. Windows in packets, times in seconds, rates in packets per second.
pub(crate) struct Pace {
    params: PaceParams,
    mss: u64,
    initial_window: f64,
    min_window: f64,
    window: f64,
    rate: DeliveryMean,
    headroom: Headroom,
    base: BaseRtt,
    /// What acks take back to the sender, give or take the offset of the clocks.
    way_back: TwoMinima,
    /// How much longer they all took lately.
    ack_delay: TwoMinima,
    startup: bool,
    /// Packets in a row that have met a queue in slow start.
    queued_run: f64,
    /// Largest window after a timeout or a pause, which acks raise.
    cap: f64,
    /// Window among rivals; 0 without.
    rival_window: f64,
    /// Largest window since the queue was last empty.
    peak: f64,
    /// Packets from this number on were sent after the last reduction.
    reduced_at: u64,
    delivered: u64,
    queue: f64,
    last_ack_at: Time,
    /// The path has been this one since then; RTTs of older packets are another path's.
    path_since: Time,
    before_timeout: Option<f64>,
    phase: Phase,
    events: Events,
}

impl Pace {
    /// More than any path holds; keeps everything finite.
    const MAX_WINDOW: f64 = (1 << 20) as f64;
    /// Queueing delay up to which a queue counts as empty: the grain of a cellular link.
    const NOTHING: f64 = 0.001;
    /// Slow start ends above this share of the base RTT, and at least this many seconds.
    const STARTUP_EXIT: (f64, f64) = (0.125, 0.004);
    /// Packets in a row above it that end slow start, or this part of the window if it is more.
    const STARTUP_RUN: f64 = 8.0;
    /// Lost packets of one report that end slow start.
    const STARTUP_LOSSES: f64 = 3.0;
    /// Packets per base RTT as a multiple of the window, and where it grows exponentially.
    const PACING: f64 = 1.25;
    const FAST_PACING: f64 = 2.0;
    const BURST: u64 = 4;
    /// In a search the window is this share of what the measured rate takes.
    const SEARCH: f64 = 0.5;
    /// Among rivals: packets per window of acks, and what a loss leaves (RFC 9438 section 4.6).
    const RIVAL_INCREASE: f64 = 2.0;
    const RIVAL_CUT: f64 = 0.7;
    /// For this long the drift between two clocks is nothing.
    const CLOCKS_AGREE: Span = Span::from_secs(10);
    /// A pause of this length makes what is known about the rate old.
    const PAUSE: Span = Span::from_secs(1);

    fn new(params: &PaceParams, setup: &Setup) -> Self {
        let packets = |window: Window| window.bytes(setup.mss) as f64 / setup.mss.max(1) as f64;
        let min_window = packets(params.min_window).clamp(1.0, Self::MAX_WINDOW);
        let initial_window = packets(params.initial_window).clamp(min_window, Self::MAX_WINDOW);
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        Self {
            mss: setup.mss,
            initial_window,
            min_window,
            window: initial_window,
            rate: DeliveryMean::new(params.memory),
            headroom: Headroom::new(params.empty, params.learning),
            base: BaseRtt::new(setup.start, params.search),
            way_back: TwoMinima::new(setup.start),
            ack_delay: TwoMinima::new(setup.start),
            startup: true,
            queued_run: 0.0,
            cap: f64::INFINITY,
            rival_window: 0.0,
            peak: initial_window,
            reduced_at: 0,
            delivered: 0,
            queue: 0.0,
            last_ack_at: setup.start,
            path_since: setup.start,
            before_timeout: None,
            phase: Phase::SlowStart,
            events,
            params: params.clone(),
        }
    }

    /// The RTT less what this ack took longer than the fastest one lately, where it is known when
    /// the packet arrived: a queue of acks is no queue of packets.
    fn rtt_without_ack_delay(&mut self, now: Time, packet: &AckedPacket) -> f64 {
        let rtt = packet.rtt.as_secs_f64();
        let Some(received_at) = packet.received_at else { return rtt };
        let seconds = |time: Time| time.as_nanos() as f64 / 1e9;
        // The clocks may differ by any offset, which is the same in all of these.
        let back = seconds(now) - seconds(received_at);
        self.way_back.push(now, back, Self::CLOCKS_AGREE);
        let late = (back - self.way_back.smallest()).clamp(0.0, rtt);
        self.ack_delay.push(now, late, Span::from_secs_f64(4.0 * rtt));
        rtt - late
    }

    /// The rate that the flight of one packet has shown: what was delivered in its RTT.
    fn flight_rate(&self, packet: &AckedPacket) -> f64 {
        let delivered = self.delivered.saturating_sub(packet.stamp.local[0]);
        self.packets(delivered) / packet.rtt.as_secs_f64().max(1e-6)
    }

    /// Section 4: the queueing delay up to which a queue counts as empty. One packet of our own in
    /// front of another is none.
    fn nothing(&self) -> f64 {
        Self::NOTHING.max(self.packet_time().min(self.base.seconds() / 2.0))
    }

    /// What a packet takes at the flow's own rate, in seconds; 0 before there is one.
    fn packet_time(&self) -> f64 {
        let rate = self.rate.rate();
        if rate > 0.0 { 1.0 / rate } else { 0.0 }
    }

    /// Slow start: twice the window per round trip, until a queue appears.
    fn start_up(&mut self, packet: &AckedPacket, packets: f64, now: Time) {
        let (share, least) = Self::STARTUP_EXIT;
        // Bursts that nothing has paced yet queue behind each other: it takes some in a row.
        let queued = self.queue > (share * self.base.seconds()).max(least);
        self.queued_run = if queued { self.queued_run + packets } else { 0.0 };
        if self.queued_run < Self::STARTUP_RUN.max(self.window / Self::STARTUP_RUN) {
            if !packet.app_limited {
                self.window = (self.window + packets).min(self.cap).min(Self::MAX_WINDOW);
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

    fn learn(&mut self, packet: &AckedPacket, packets: f64) {
        let (nothing, base) = (self.nothing(), self.base.seconds());
        self.headroom.on_ack(packets, self.queue, nothing, base, self.window);
        if self.headroom.starved(self.window) {
            self.rate.raise_to(self.flight_rate(packet));
        }
    }

    /// Section 7: among rivals the window grows by packets and shrinks by losses, from the largest
    /// that it had before they came.
    fn face_rivals(&mut self, packet: &AckedPacket, packets: f64) {
        if !self.base.rivals() {
            self.rival_window = 0.0;
            let empty = self.queue <= self.nothing();
            self.peak = if empty { self.window } else { self.peak.max(self.window) };
        } else if self.rival_window == 0.0 {
            self.rival_window = self.peak;
        } else if !self.base.searching() && !packet.app_limited {
            self.rival_window += Self::RIVAL_INCREASE * packets / self.rival_window;
            self.rival_window = self.rival_window.min(Self::MAX_WINDOW);
        }
    }

    /// Section 2: W = g r B + b.
    fn update_window(&mut self, now: Time) {
        let rate = self.rate.rate();
        let base = self.base.seconds();
        let ack_delay = Some(self.ack_delay.smallest()).filter(|delay| delay.is_finite());
        let round_trip = base + ack_delay.unwrap_or(0.0).min(base);
        let own =
            self.headroom.factor() * rate * round_trip + self.params.extra + self.headroom.boost();
        let mut target = own.max(self.rival_window);
        if self.base.searching() {
            target = target.min(Self::SEARCH * rate * self.base.floor());
        } else if self.cap > target {
            self.cap = f64::INFINITY;
        }
        self.window = target.min(self.cap).clamp(self.min_window, Self::MAX_WINDOW);
        self.note_phase(now);
    }

    /// A lost or marked packet: at most one reduction per round trip among rivals.
    fn congestion(&mut self, now: Time, packets: f64, newest: u64, next: u64) {
        self.headroom.on_loss(packets, self.window);
        if self.rival_window > 0.0 && newest >= self.reduced_at {
            let from = self.bytes(self.rival_window);
            self.reduced_at = next;
            self.rival_window = (self.rival_window * Self::RIVAL_CUT).max(self.min_window);
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
        } else if self.rival_window > 0.0 {
            Phase::Competitive
        } else {
            Phase::Avoidance
        };
        if phase != self.phase {
            self.phase = phase;
            self.events.push(now, Event::Phase(phase));
        }
    }

    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss.max(1) as f64
    }

    fn bytes(&self, window: f64) -> u64 {
        (window * self.mss as f64) as u64
    }
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
        let before = self.base.seconds();
        self.base.sample(now, fastest.sent_at, rtt, self.packet_time());
        let base = self.base.seconds();
        if base != before {
            self.events.push(now, Event::BaseDelay(Span::from_secs_f64(base)));
        }
        self.queue = rtt - base;
        let settling = self.base.settling(now);
        self.rate.on_ack(now, packets, settling || fastest.app_limited);
        self.cap += packets;
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
                let rtt = loss.rtt.latest().as_secs_f64().max(1e-3);
                self.rate.raise_to(self.window / rtt / 2.0);
                self.leave_startup(loss.now);
            }
            return;
        }
        let newest = loss.packets.iter().map(|packet| packet.number).max().unwrap_or(0);
        self.congestion(loss.now, lost, newest, loss.next_number);
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        if self.startup {
            let rtt = mark.rtt.latest().as_secs_f64().max(1e-3);
            self.rate.raise_to(self.window / rtt / 2.0);
            self.leave_startup(mark.now);
        }
        self.congestion(mark.now, mark.packets as f64, mark.newest, mark.next_number);
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
        self.rival_window = 0.0;
        self.before_timeout = None;
        self.path_since = now;
        self.events.push(now, Event::Restart);
        self.note_phase(now);
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.bytes(self.window))
    }

    fn pacing(&self) -> Option<Pacing> {
        let base = self.base.seconds();
        if base <= 0.0 {
            return None;
        }
        let fast = self.startup || self.headroom.starved(self.window);
        let gain = if fast { Self::FAST_PACING } else { Self::PACING };
        let rate = Rate::from_bytes_per_sec(gain * self.window * self.mss as f64 / base);
        Some(Pacing { rate, burst: self.mss.saturating_mul(Self::BURST) })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let mbps = |packets: f64| packets * self.mss as f64 * 8.0 / 1e6;
        show("cwnd_pkts", self.window);
        show("delivery_mbps", mbps(self.rate.rate()));
        show("headroom", self.headroom.factor());
        show("base_rtt_ms", self.base.seconds() * 1e3);
        show("queueing_ms", self.queue * 1e3);
        show("slow_start", f64::from(u8::from(self.startup)));
        show("competitive", f64::from(u8::from(self.rival_window > 0.0)));
    }
}

#[cfg(test)]
mod tests;
