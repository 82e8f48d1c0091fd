//! Copa (Arun and Balakrishnan, NSDI 2018): steers the rate to 1/(delta dq), with dq the delay of
//! the standing queue, so that a lone flow keeps about 1/delta packets queued. Among flows that
//! fill the buffer it lowers delta step by step instead.
//!
//! Where the paper and its authors' code differ, the parameters choose. Deviations from both:
//! losses are those the datapath declares; a timeout holds the window at its minimum until the
//! path answers, because the original, which never retransmits, would stand still; the window
//! does not grow on packets sent for lack of data, which do not probe it; RTTs below 1 ms count as 1 ms
//! (`RTT_RESOLUTION`).

mod delays;
mod meter;
mod params;
mod velocity;

use cellpace_base::Window;

use self::delays::CopaDelays;
use self::meter::LossMeter;
pub(crate) use self::params::CopaParams;
use self::params::{CopaMode, VelocityRule};
use self::velocity::{Moment, Velocity, WindowDirection};
use crate::rtt::RTT_RESOLUTION;
use crate::{
    Ack, AckedPacket, Controller, ControllerParams, Event, Events, Loss, Pacing, Permit, Phase,
    Rate, SentPacket, Setup, Spurious, Stamp, Time, Timeout,
};

impl ControllerParams for CopaParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Copa::new(self, &setup))
    }
}

/// The controller. Windows in packets, times in milliseconds.
pub(crate) struct Copa {
    params: CopaParams,
    initial_window: f64,
    min_window: f64,
    mss: u64,
    window: f64,
    slow_start: bool,
    delta: f64,
    competitive: bool,
    /// When delta was last lowered, and last doubled because of loss.
    lowered_at: Time,
    doubled_at: Option<Time>,
    delays: CopaDelays,
    velocity: Velocity,
    losses: LossMeter,
    acked: u64,
    /// The last ack, or whatever else the idle time counts from.
    last_ack_at: Time,
    /// The path has been this one since then; RTTs of older packets are another path's.
    path_since: Time,
    before_timeout: Option<CopaUndo>,
    before_cut: f64,
    phase: Phase,
    events: Events,
}

/// What a spurious timeout gives back.
struct CopaUndo {
    window: f64,
    slow_start: bool,
}

impl Copa {
    /// Packets. More than any path holds; keeps everything finite.
    const MAX_WINDOW: f64 = (1 << 20) as f64;
    /// Milliseconds of queueing that count as none (spec section 6).
    const NO_QUEUE: f64 = 0.001;
    /// Share of packets lost above which the window is cut, and what that leaves (genericCC).
    const LOSS_RATIO: f64 = 0.3;
    const LOSS_CUT: f64 = 0.7;
    /// Pacing rate in windows per standing RTT (Copa section 2).
    const PACING: f64 = 2.0;

    fn new(params: &CopaParams, setup: &Setup) -> Self {
        let packets = |window: Window| window.bytes(setup.mss) as f64 / setup.mss.max(1) as f64;
        let min_window = packets(params.min_window).clamp(1.0, Self::MAX_WINDOW);
        let initial_window = packets(params.initial_window).clamp(min_window, Self::MAX_WINDOW);
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        Self {
            mss: setup.mss,
            window: initial_window,
            slow_start: true,
            delta: params.delta,
            competitive: false,
            lowered_at: setup.start,
            doubled_at: None,
            delays: CopaDelays::new(params),
            velocity: new_velocity(params),
            losses: LossMeter::new(Self::LOSS_RATIO, setup.start),
            acked: 0,
            last_ack_at: setup.start,
            path_since: setup.start,
            before_timeout: None,
            before_cut: initial_window,
            phase: Phase::SlowStart,
            events,
            initial_window,
            min_window,
            params: params.clone(),
        }
    }

    /// The RTT sample of an ack: the smallest of the batch, since delayed and bundled acks only
    /// ever add to it.
    fn sample_rtt(&mut self, ack: &Ack<'_>) {
        let of_this_path = ack.packets.iter().filter(|packet| packet.sent_at >= self.path_since);
        let Some(rtt) = of_this_path.map(|packet| packet.rtt).min() else { return };
        if let Some(base) = self.delays.sample(ack.now, rtt.max(RTT_RESOLUTION)) {
            self.events.push(ack.now, Event::BaseDelay(base));
        }
    }

    /// Section 7. The ack of a packet that was sent in answer to a step ends that step's RTT. Spec and
    /// original have a sharp `>`, which on their clocks is true of it; where an answer takes no
    /// time at all, as in a simulation, both sides are equal.
    fn update_delta(&mut self, now: Time, lost: bool) {
        if self.params.mode == CopaMode::Constant {
            return;
        }
        if self.delays.near_empty() {
            self.competitive = false;
            self.delta = self.params.delta;
            return;
        }
        if !self.competitive {
            self.competitive = true;
            // The first step comes a full RTT after the switch: a misread of less costs nothing.
            self.lowered_at = now;
        }
        let rtt = self.delays.latest();
        if lost && self.doubled_at.is_none_or(|at| now >= at + rtt) {
            self.delta *= 2.0;
            self.doubled_at = Some(now);
        }
        if !lost && now >= self.lowered_at + rtt {
            self.delta = 1.0 / (1.0 / self.delta + 1.0);
            self.lowered_at = now;
        }
        self.delta =
            self.delta.min(self.params.delta).max(self.params.delta * self.params.min_delta);
    }

    /// Section 6: the window at which the rate would be 1/(delta dq).
    fn target(&self) -> f64 {
        let queueing = self.delays.queueing();
        if queueing < Self::NO_QUEUE {
            return f64::INFINITY;
        }
        self.delays.standing() / (queueing * self.delta)
    }

    /// Section 6, for one acked packet.
    fn update_window(&mut self, packet: &AckedPacket, ack: &Ack<'_>) {
        let target = self.target();
        if self.slow_start {
            if !packet.app_limited {
                self.window += 1.0;
            }
            self.slow_start = self.window < target;
        } else {
            self.steer(target, packet, ack);
        }
        self.window = self.window.clamp(self.min_window, Self::MAX_WINDOW);
    }

    fn steer(&mut self, target: f64, packet: &AckedPacket, ack: &Ack<'_>) {
        let direction =
            if self.window < target { WindowDirection::Up } else { WindowDirection::Down };
        let moment = Moment {
            now: ack.now,
            rtt: self.delays.latest(),
            window: self.window,
            number: packet.number,
            next_number: ack.next_number,
        };
        let velocity = self.velocity.step(&moment, direction, self.window * self.delta);
        let step = velocity / (self.delta * self.window);
        match direction {
            WindowDirection::Up if packet.app_limited => {}
            WindowDirection::Up => self.window += step,
            WindowDirection::Down => self.window -= step,
        }
    }

    /// Section 5, step 5.
    fn count_losses(&mut self, now: Time, lost: u64, acked: u64) {
        if !self.losses.record(now, self.delays.latest(), lost, acked) {
            return;
        }
        self.before_cut = self.window;
        self.window = (self.window * Self::LOSS_CUT).max(self.min_window);
        self.events.push(now, self.reduced_from(self.before_cut));
    }

    fn reduced_from(&self, window: f64) -> Event {
        Event::Reduced { from: self.bytes(window), to: self.bytes(self.window) }
    }

    /// Starts over after an outage or a long pause. The minimum RTT stays: the first RTTs after
    /// an outage are those of a full queue.
    fn restart(&mut self, now: Time) {
        self.window = self.initial_window;
        self.slow_start = true;
        self.delays.restart();
        self.forget_queue(now);
        self.acked = 0;
        self.last_ack_at = now;
        self.before_timeout = None;
        self.events.push(now, Event::Restart);
        self.note_phase(now);
    }

    fn forget_queue(&mut self, now: Time) {
        self.competitive = false;
        self.delta = self.params.delta;
        self.lowered_at = now;
        self.doubled_at = None;
        self.velocity.restart();
        self.losses = LossMeter::new(Self::LOSS_RATIO, now);
    }

    fn silent(&self, now: Time) -> bool {
        now - self.last_ack_at >= self.params.idle
    }

    fn note_phase(&mut self, now: Time) {
        let phase = match (self.slow_start, self.competitive) {
            (true, _) => Phase::SlowStart,
            (false, true) => Phase::Competitive,
            (false, false) => Phase::Default,
        };
        if phase != self.phase {
            self.phase = phase;
            self.events.push(now, Event::Phase(phase));
        }
    }

    fn bytes(&self, window: f64) -> u64 {
        (window * self.mss as f64) as u64
    }
}

fn new_velocity(params: &CopaParams) -> Velocity {
    match params.velocity {
        VelocityRule::CodeVelocity => Velocity::code(params.velocity_cap),
        VelocityRule::PaperVelocity => Velocity::paper(params.velocity_cap),
    }
}

impl Controller for Copa {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let was_idle = packet.in_flight <= packet.bytes;
        if was_idle && self.silent(packet.now) {
            self.restart(packet.now);
        }
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if self.silent(ack.now) {
            self.restart(ack.now);
        }
        self.last_ack_at = ack.now;
        self.sample_rtt(ack);
        self.update_delta(ack.now, false);
        for packet in ack.packets {
            if self.acked >= self.params.probe {
                self.update_window(packet, ack);
            }
            self.acked += 1;
        }
        self.count_losses(ack.now, 0, ack.packets.len() as u64);
        self.note_phase(ack.now);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.update_delta(loss.now, true);
        self.count_losses(loss.now, loss.packets.len() as u64, 0);
        self.note_phase(loss.now);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.events.push(timeout.now, Event::Timeout);
        if self.silent(timeout.now) {
            self.restart(timeout.now);
            return;
        }
        let before = self.window;
        self.before_timeout.get_or_insert(CopaUndo { window: before, slow_start: self.slow_start });
        self.window = self.min_window;
        self.slow_start = true;
        self.velocity.restart();
        if self.window < before {
            self.events.push(timeout.now, self.reduced_from(before));
        }
        self.note_phase(timeout.now);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        match spurious {
            Spurious::Timeout { now } => {
                let Some(before) = self.before_timeout.take() else { return };
                self.window = self.window.max(before.window);
                self.slow_start = before.slow_start;
                self.events.push(*now, Event::Undone);
                self.note_phase(*now);
            }
            Spurious::Loss { now, .. } => {
                if self.losses.acquit() {
                    self.window = self.window.max(self.before_cut);
                    self.events.push(*now, Event::Undone);
                }
            }
        }
    }

    /// Keeps the window, as the best guess there is, and learns the rest anew.
    fn on_path_change(&mut self, now: Time) {
        self.delays.clear();
        self.forget_queue(now);
        self.path_since = now;
        self.before_timeout = None;
        self.events.push(now, Event::Restart);
        self.note_phase(now);
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.bytes(self.window))
    }

    /// Section 4: 2 W / RTTstanding; unpaced before the first RTT. Two packets may leave back to
    /// back: a late sender catches up by one interval at most (section 5).
    fn pacing(&self) -> Option<Pacing> {
        let seconds = self.delays.standing() / 1e3;
        if seconds <= 0.0 {
            return None;
        }
        let bytes_per_sec = Self::PACING * self.window * self.mss as f64 / seconds;
        let rate = Rate::from_bytes_per_sec(bytes_per_sec);
        Some(Pacing { rate, burst: self.mss.saturating_mul(2) })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.window);
        show("target_pkts", self.target().min(Self::MAX_WINDOW));
        show("delta", self.delta);
        show("velocity", self.velocity.value());
        show("slow_start", f64::from(u8::from(self.slow_start)));
        show("competitive", f64::from(u8::from(self.competitive)));
        show("srtt_ms", self.delays.srtt().unwrap_or(0.0));
        show("base_rtt_ms", self.delays.minimum());
        show("standing_rtt_ms", self.delays.standing());
        show("queueing_ms", self.delays.queueing());
        show("loss_ratio", self.losses.ratio());
    }
}

#[cfg(test)]
mod tests;
