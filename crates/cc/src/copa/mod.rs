//! Copa (Arun and Balakrishnan, NSDI 2018): steers the rate to 1/(delta dq), with dq the delay of
//! the standing queue, so that a lone flow keeps about 1/delta packets queued. Among flows that
//! fill the buffer it lowers delta step by step instead.
//!
//! Where the paper and its authors' code differ, the parameters choose. Deviations from both:
//! losses are those the datapath declares; a timeout holds the window at its minimum until the
//! path answers, because the original, which never retransmits, would stand still; the window
//! does not grow on packets sent for lack of data, which do not probe it; RTTs below 1 ms count as 1 ms
//! (`RTT_RESOLUTION`). All state is whole numbers, so that a kernel takes the same steps
//! (`crates/kernel/bpf/copa.h`).

mod delays;
mod meter;
mod params;
mod recent;
mod velocity;

use self::delays::CopaDelays;
use self::meter::LossMeter;
pub(crate) use self::params::CopaParams;
use self::params::{CopaMode, CopaSettings, KEPT_ONE, PACKET, VelocityRule};
use self::velocity::{Moment, Velocity, WindowDirection};
use crate::rtt::RTT_RESOLUTION;
use crate::{
    Ack, AckedPacket, Controller, ControllerParams, Event, Events, KernelSettings, Loss, Pacing,
    Permit, Phase, Rate, SentPacket, Setup, Spurious, Stamp, Time, Timeout,
};

impl ControllerParams for CopaParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Copa::new(self, &setup))
    }

    fn kernel_settings(&self) -> Option<KernelSettings> {
        let words = CopaSettings::new(self, 1).words(self);
        Some(KernelSettings { controller: "copa", words })
    }
}

/// The controller. Windows in packets with 32 bits behind the point.
pub(crate) struct Copa {
    params: CopaParams,
    settings: CopaSettings,
    window: u64,
    slow_start: bool,
    /// Packets to keep queued, 1/delta, with 16 bits behind the point.
    kept: u64,
    competitive: bool,
    /// When delta was last lowered, so that more is kept, and last doubled because of loss.
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
    before_cut: u64,
    phase: Phase,
    events: Events,
}

/// What a spurious timeout gives back.
struct CopaUndo {
    window: u64,
    slow_start: bool,
}

impl Copa {
    /// More packets than any path holds.
    const MAX_WINDOW: u64 = PACKET << 20;
    /// What heavy loss leaves of the window, in tenths (genericCC).
    const LOSS_CUT: u64 = 7;
    /// Pacing rate in windows per standing RTT (Copa section 2).
    const PACING: u64 = 2;
    /// A packet at most of the product of velocity and 1/delta, with 16 bits behind the point: keeps a step finite.
    const MAX_PUSH: u64 = 1 << 31;
    /// Packets of one ack move the window in at most so many steps.
    const TURNS: u64 = 64;

    fn new(params: &CopaParams, setup: &Setup) -> Self {
        let settings = CopaSettings::new(params, setup.mss);
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        Self {
            window: settings.initial_window,
            slow_start: true,
            kept: settings.kept,
            competitive: false,
            lowered_at: setup.start,
            doubled_at: None,
            delays: CopaDelays::new(params),
            velocity: new_velocity(params),
            losses: LossMeter::new(setup.start),
            acked: 0,
            last_ack_at: setup.start,
            path_since: setup.start,
            before_timeout: None,
            before_cut: settings.initial_window,
            phase: Phase::SlowStart,
            events,
            settings,
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
            self.kept = self.settings.kept;
            return;
        }
        if !self.competitive {
            self.competitive = true;
            // The first step comes a full RTT after the switch: a misread of less costs nothing.
            self.lowered_at = now;
        }
        let rtt = self.delays.latest();
        if lost && self.doubled_at.is_none_or(|at| now >= at + rtt) {
            self.kept /= 2;
            self.doubled_at = Some(now);
        }
        if !lost && now >= self.lowered_at + rtt {
            self.kept += KEPT_ONE;
            self.lowered_at = now;
        }
        self.kept = self.kept.max(self.settings.kept).min(self.settings.most_kept);
    }

    /// Section 6: the window at which the rate would be 1/(delta dq), with 16 bits behind the point. Less than a
    /// microsecond of queueing is none.
    fn target(&self) -> u64 {
        let target = (self.delays.standing() * self.kept).checked_div(self.delays.queueing());
        target.unwrap_or(u64::MAX)
    }

    /// Section 6, for the packets of an ack, of which one stands for all.
    fn update_window(&mut self, packets: u64, newest: &AckedPacket, ack: &Ack<'_>) {
        let target = self.target();
        let most = packets.div_ceil(Self::TURNS);
        let mut left = packets;
        while left > 0 {
            let packets = left.min(most);
            left -= packets;
            if !self.slow_start {
                self.steer(target, packets, newest, ack);
            } else if !newest.app_limited {
                self.window += packets * PACKET;
            }
            self.slow_start &= self.window >> 16 < target;
            self.window = self.window.clamp(self.settings.min_window, Self::MAX_WINDOW);
        }
    }

    fn steer(&mut self, target: u64, packets: u64, newest: &AckedPacket, ack: &Ack<'_>) {
        let up = self.window >> 16 < target;
        let direction = if up { WindowDirection::Up } else { WindowDirection::Down };
        let moment = Moment {
            now: ack.now,
            rtt: self.delays.latest(),
            window: self.window,
            number: newest.number,
            next_number: ack.next_number,
        };
        let velocity = self.velocity.step(&moment, direction, packets, self.kept);
        // v / (delta W) for each packet
        let push = (velocity * self.kept).min(Self::MAX_PUSH);
        let step = packets * ((push << 32) / (self.window >> 16).max(1));
        match direction {
            WindowDirection::Up if newest.app_limited => {}
            WindowDirection::Up => self.window += step,
            WindowDirection::Down => self.window = self.window.saturating_sub(step),
        }
    }

    /// Section 5, step 5.
    fn count_losses(&mut self, now: Time, lost: u64, acked: u64) {
        if !self.losses.record(now, self.delays.latest(), lost, acked) {
            return;
        }
        self.before_cut = self.window;
        self.window = (self.window / 10 * Self::LOSS_CUT).max(self.settings.min_window);
        self.events.push(now, self.reduced_from(self.before_cut));
    }

    fn reduced_from(&self, window: u64) -> Event {
        Event::Reduced { from: self.bytes(window), to: self.bytes(self.window) }
    }

    /// Starts over after an outage or a long pause. The minimum RTT stays: the first RTTs after
    /// an outage are those of a full queue.
    fn restart(&mut self, now: Time) {
        self.window = self.settings.initial_window;
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
        self.kept = self.settings.kept;
        self.lowered_at = now;
        self.doubled_at = None;
        self.velocity.restart();
        self.losses = LossMeter::new(now);
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

    fn bytes(&self, window: u64) -> u64 {
        ((window >> 16) * self.settings.mss) >> 16
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
        let packets = ack.packets.len() as u64;
        let unmoved = self.params.probe.saturating_sub(self.acked).min(packets);
        self.update_window(packets - unmoved, ack.newest(), ack);
        self.acked = self.acked.saturating_add(packets);
        self.count_losses(ack.now, 0, packets);
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
        self.window = self.settings.min_window;
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
        let windows = Self::PACING * self.bytes(self.window) * 1_000_000;
        let bytes_per_sec = windows.checked_div(self.delays.standing())?;
        let burst = self.settings.mss.saturating_mul(2);
        Some(Pacing { rate: Rate::from_bytes_per_sec(bytes_per_sec as f64), burst })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let packets = |window: u64| window as f64 / PACKET as f64;
        let millis = |micros: u64| micros as f64 / 1e3;
        show("cwnd_pkts", packets(self.window));
        show("target_pkts", (self.target().min(Self::MAX_WINDOW >> 16)) as f64 / KEPT_ONE as f64);
        show("delta", KEPT_ONE as f64 / self.kept as f64);
        show("velocity", self.velocity.value() as f64);
        show("slow_start", f64::from(u8::from(self.slow_start)));
        show("competitive", f64::from(u8::from(self.competitive)));
        show("srtt_ms", millis(self.delays.srtt()));
        show("base_rtt_ms", millis(self.delays.minimum()));
        show("standing_rtt_ms", millis(self.delays.standing()));
        show("queueing_ms", millis(self.delays.queueing()));
        show("loss_ratio", self.losses.ratio());
    }
}

#[cfg(test)]
mod tests;
