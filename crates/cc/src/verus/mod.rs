//! Verus (Zaki et al., SIGCOMM 2015): learns what delay comes with which window, keeps a delay
//! set-point that it nudges every 5 ms, and reads the window back from the learnt curve.
//!
//! Where the paper and the original code leave a choice, the default is the one that behaves;
//! the original behaviour is a parameter. What is different for every setting, because the
//! original has no counterpart:
//!
//! - Packet numbers never restart here. Acks of packets from before a restart or timeout are
//!   recognised by their number instead of a session id.
//! - The datapath reports losses; a lost packet waits in `missing` as a gap does in the
//!   original, and a late ack takes it out again.
//! - A flow that has nothing to send learns nothing: neither window nor set-point rise, no point
//!   is recorded, and silence while nothing is in flight is no delay.
//! - A timeout always empties the count of packets in flight, because the datapath does too.
//! - The base delay is unset before the first ack, not 1000 ms.
//! - Delays below 1 ms count as 1 ms (`RTT_RESOLUTION`).

mod flight;
mod losses;
mod params;
mod profile;
mod set_point;
mod slow_start;
mod spline;
#[cfg(test)]
mod tests;

use cellpace_base::{Span, Time};

use crate::epochs::{EpochGrid, RTO_MAX, retransmission_timeout};
use crate::rtt::RTT_RESOLUTION;
use crate::{
    Ack, AckedPacket, Block, Controller, ControllerParams, Event, Events, Loss, Permit, Phase,
    Profile, SentPacket, Setup, Spurious, Stamp, Timeout,
};
use flight::Flight;
use losses::{Losses, MissingPacket, gap_expiry};
use params::LateAcks;
pub(crate) use params::VerusParams;
use profile::{DelayProfile, MAX_WINDOW, Repair};
use set_point::{EpochState, SetPoint};
pub(crate) use slow_start::VerusSlowStart;

impl ControllerParams for VerusParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Verus::new(self, &setup))
    }
}

/// The controller.
struct Verus {
    params: VerusParams,
    start_rules: VerusSlowStart,
    mss: u64,
    grid: EpochGrid,

    /// Current window estimate, in packets.
    w: f64,
    /// Packets that may still leave.
    credit: f64,
    /// What the last epoch released, packets.
    share: f64,
    slow_start: bool,
    in_loss: bool,
    /// The sender had nothing more to send when it sent last.
    app_limited: bool,
    /// Epochs change nothing until the sender sends or something is reported, so there are none.
    asleep: bool,

    set_point: SetPoint,
    profile: DelayProfile,
    losses: Losses,
    flight: Flight,
    before_timeout: Option<VerusUndo>,

    phase: Phase,
    events: Events,
}

/// What a timeout took away, in case it was none.
#[derive(Debug, Clone, Copy)]
struct VerusUndo {
    session_first: u64,
    first_live: u64,
    in_flight: u64,
    w: f64,
    d_est: f64,
    in_loss: bool,
    slow_start: bool,
}

impl Controller for Verus {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        if std::mem::take(&mut self.asleep) {
            // An epoch that ends now has ended before the packet leaves.
            self.grid.pass(packet.now);
            self.leave_out_fits();
        }
        self.flight.on_sent(packet);
        self.credit = (self.credit - 1.0).max(0.0);
        self.app_limited = packet.app_limited;
        let w = (self.w as u64).clamp(1, u64::from(MAX_WINDOW));
        Stamp { local: [w, self.flight.first_live, 0, 0], wire: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.wake(ack.now);
        for packet in ack.packets {
            let counted = packet.number >= self.flight.first_live;
            self.take_packet(ack.now, packet, counted);
            if counted {
                // An ack of what was sent after the timeout: it was no spurious one.
                self.before_timeout = None;
            }
        }
        self.settle(ack.in_flight);
        self.note_phase(ack.now);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.wake(loss.now);
        let expires_at = loss.now + gap_expiry(self.params.gap, self.flight.last_rtt);
        for packet in loss.packets {
            if packet.number < self.flight.first_live {
                continue;
            }
            let gap = MissingPacket {
                number: packet.number,
                w: self.window_of(&packet.stamp),
                expires_at,
            };
            self.losses.lower_ceiling(&self.params, &gap, self.w, self.flight.next_number);
            if self.losses.wait_for(gap) {
                self.flight.remove_one();
            }
        }
        self.settle(loss.in_flight);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let now = timeout.now;
        self.wake(now);
        self.events.push(now, Event::Timeout);
        let before = self.remember(timeout.in_a_row);
        self.flight.next_number = self.flight.next_number.max(timeout.next_number);
        self.forget_in_flight();
        // docs/spec/verus.md 10.
        if !self.flight.has_acks {
            self.restart(now);
        } else if self.slow_start {
            self.leave_slow_start();
            // The original keeps a set-point of zero and climbs for some epochs to get here.
            self.set_point.d_est = self.set_point.d_est.max(self.set_point.base());
        } else {
            self.in_loss = true;
            self.set_point.d_est = self.set_point.base();
            self.credit = 0.0;
        }
        self.before_timeout = Some(before);
        self.note_phase(now);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        match spurious {
            Spurious::Timeout { now } => {
                self.wake(*now);
                self.undo_timeout(*now);
            }
            Spurious::Loss { now, packet } => {
                self.wake(*now);
                let was_missing = self.losses.fill(packet.number);
                self.take_packet(*now, packet, was_missing);
                self.note_phase(*now);
            }
        }
    }

    /// Section 9, last sentence, and exit d of slow start. If the refused packet was stamped, it
    /// was counted as sent, and is taken back.
    fn on_block(&mut self, block: &Block) {
        let now = block.now;
        self.wake(now);
        let before = self.w;
        if block.waits && !self.params.cut_on_wait {
            self.follow_tcp();
            self.note_phase(now);
            return;
        }
        if block.stamp.local[0] > 0 && block.stamp.local[1] == self.flight.first_live {
            self.flight.remove_one();
        }
        let m = self.params.loss_factor;
        if self.slow_start {
            // Squared, so that acks of slow-start packets cannot end the loss phase at once.
            self.w = (m * m * f64::from(self.window_of(&block.stamp))).clamp(1.0, self.w);
            self.in_loss = true;
            self.set_point.hold = true;
            self.leave_slow_start();
        } else {
            self.w = (m * self.w).max(1.0);
        }
        self.set_point.d_est = self.delay_at(self.w);
        self.credit = 0.0;
        self.note_reduction(now, before);
        self.note_phase(now);
    }

    /// Starts over: the profile and the base delay of the old path do not describe the new one,
    /// and packets in flight on the old path would be measured with both.
    fn on_path_change(&mut self, now: Time) {
        self.wake(now);
        self.forget_in_flight();
        self.restart(now);
        self.note_phase(now);
    }

    fn cwnd(&self) -> u64 {
        (self.w * self.mss as f64) as u64
    }

    fn permit(&self) -> Permit {
        Permit::Budget((self.credit as u64).saturating_mul(self.mss))
    }

    fn rto(&self) -> Option<Span> {
        Some(retransmission_timeout(self.flight.last_rtt, self.params.rto_min))
    }

    fn next_deadline(&self) -> Option<Time> {
        (!self.asleep).then(|| self.grid.next())
    }

    fn on_deadline(&mut self, now: Time) {
        if self.grid.pass(now) {
            let before = self.kept_by_idle_epoch();
            self.run_epoch(now);
            self.note_phase(now);
            self.asleep = self.has_nothing_to_fit()
                && self.is_idle()
                && self.losses.missing.is_empty()
                && before == self.kept_by_idle_epoch();
        }
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.w);
        show("set_point_ms", self.set_point.d_est);
        show("base_rtt_ms", self.set_point.d_min.unwrap_or(0.0));
        show("smoothed_delay_ms", self.set_point.d_max_s.unwrap_or(0.0));
        show("mean_delay_ms", self.set_point.d_avg.unwrap_or(0.0));
        show("delay_ratio", self.set_point.d_max_s.unwrap_or(0.0) / self.set_point.base());
        show("in_flight_pkts", self.flight.in_flight as f64);
        show("credit_pkts", self.credit);
        show("share_pkts", self.share);
        show("missing_pkts", self.losses.missing.len() as f64);
        show("slow_start", f64::from(u8::from(self.slow_start)));
        show("loss_phase", f64::from(u8::from(self.in_loss)));
        show("profile_points", f64::from(self.profile.len()));
    }

    fn profile(&self) -> Option<Profile> {
        let floor = |(w, delay): (f64, f64)| (w, delay.max(self.floor()));
        Some(Profile {
            points: self.profile.points().collect(),
            curve: self.profile.curve().into_iter().map(floor).collect(),
        })
    }
}

impl Verus {
    fn new(params: &VerusParams, setup: &Setup) -> Self {
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        Self {
            mss: setup.mss.max(1),
            grid: EpochGrid::new(setup.start, params.epoch),
            w: 1.0,
            credit: 1.0,
            share: 0.0,
            slow_start: true,
            in_loss: false,
            app_limited: false,
            asleep: false,
            set_point: SetPoint::new(params),
            profile: DelayProfile::new(params.fit()),
            losses: Losses::new(),
            flight: Flight::new(0, setup.start),
            before_timeout: None,
            phase: Phase::SlowStart,
            events,
            start_rules: params.slow_start(setup.mss),
            params: params.clone(),
        }
    }

    // Acks: docs/spec/verus.md 6.

    /// One packet of an ack. It is a sample only if it is `counted` as in flight or missing.
    fn take_packet(&mut self, now: Time, packet: &AckedPacket, counted: bool) {
        if packet.number < self.flight.session_first {
            return;
        }
        let delay = packet.rtt.max(RTT_RESOLUTION).as_millis_f64();
        let w = self.window_of(&packet.stamp);
        let exits = self.slow_start && delay > self.start_rules.exit_delay(self.set_point.base());
        if exits {
            self.leave_slow_start_for_delay(now, w);
        }
        self.flight.last_rtt = Some(packet.rtt);
        if self.in_loss && f64::from(w) <= self.w && !exits {
            self.set_point.epoch_max = None;
            self.in_loss = false;
            self.set_point.hold = false;
        }
        if !counted {
            return;
        }
        self.flight.remove_one();
        self.flight.has_acks = true;
        self.losses.raise_ceiling(w, self.w, self.start_rules.max_window);
        self.set_point.take_delay(now, delay, &mut self.events);
        if !self.in_loss {
            self.learn(now, packet, w, delay);
        } else if !exits {
            self.grow_in_loss();
        }
        self.flight.note_ack(now, packet);
        if self.slow_start {
            self.grow_in_slow_start(packet);
        }
    }

    /// A delay measured while the sender had nothing to send belongs to a smaller window than
    /// the one on the stamp.
    fn learn(&mut self, now: Time, packet: &AckedPacket, w: u32, delay: f64) {
        if !packet.app_limited {
            self.profile.record(now, w, delay);
        }
    }

    fn grow_in_loss(&mut self) {
        self.w = (self.w + 1.0 / self.w).min(self.start_rules.max_window);
        if self.profile.has_curve() {
            self.set_point.d_est = self.set_point.d_est.min(self.delay_at(self.w));
        }
    }

    /// docs/spec/verus.md 5.2.
    fn grow_in_slow_start(&mut self, packet: &AckedPacket) {
        if !packet.app_limited {
            self.w = self.start_rules.grown(self.w);
        }
        self.grant_slow_start_credit();
        let limit = self.params.ss_exit_packets;
        if limit > 0 && self.flight.count_of(packet) > limit {
            // Exit e of the ALCC port. The set-point starts where the window is.
            self.leave_slow_start();
            self.set_point.d_est = self.delay_at(self.w);
        }
    }

    fn grant_slow_start_credit(&mut self) {
        let rules = &self.start_rules;
        self.credit = rules.granted(self.w, self.flight.in_flight as f64, self.credit);
    }

    /// The TCP below refuses data: the window that counts is its own, and one above it would be
    /// learnt with delays that it did not cause. In slow start this is the end of it, as where
    /// TCP grows slowly no delay and no loss would end it soon (exit e is the ALCC port's way).
    fn follow_tcp(&mut self) {
        self.w = self.w.min((self.flight.in_flight as f64).max(1.0));
        // docs/spec/alcc.md 4: credit gathered while blocked is discarded.
        self.credit = self.credit.min((self.w - self.flight.in_flight as f64).max(0.0));
        if self.slow_start {
            self.leave_slow_start();
            self.set_point.d_est = self.delay_at(self.w);
        }
    }

    /// Exit a of slow start.
    fn leave_slow_start_for_delay(&mut self, now: Time, w: u32) {
        let before = self.w;
        self.w = self.start_rules.after_delay(w);
        self.set_point.d_est = self.delay_at(self.w);
        self.in_loss = true;
        self.set_point.hold = true;
        self.leave_slow_start();
        self.note_reduction(now, before);
    }

    fn leave_slow_start(&mut self) {
        self.slow_start = false;
        self.profile.fit_soon();
    }

    // Epochs: docs/spec/verus.md 7.

    fn run_epoch(&mut self, now: Time) {
        self.expire_gaps(now);
        if self.slow_start {
            return;
        }
        self.refit_if_due(now);
        if !self.profile.has_curve() {
            // Fewer than five windows: too little to map a delay to a window.
            return self.restart(now);
        }
        let silent = !self.is_idle() && self.move_set_point(now);
        if self.params.epochs_in_loss || !self.in_loss {
            let Some(w) = self.profile.window_for(self.set_point.d_est) else {
                return self.restart(now);
            };
            self.take_window(f64::from(w));
        }
        self.release(silent);
    }

    /// The sender was allowed to send and did not, and waits for nothing: there is no feedback
    /// to react to.
    fn is_idle(&self) -> bool {
        self.flight.in_flight == 0 && self.credit >= 1.0 && self.set_point.epoch_max.is_none()
    }

    /// All that an epoch of an idle flow may change, but for the curve.
    fn kept_by_idle_epoch(&self) -> (bool, [f64; 4]) {
        (self.slow_start, [self.w, self.credit, self.share, self.set_point.d_est])
    }

    /// Whether epochs to come leave the curve as it is.
    fn has_nothing_to_fit(&self) -> bool {
        self.slow_start
            || (!self.params.update_profile && self.profile.has_curve())
            || self.profile.is_fitted(self.set_point.d_min.unwrap_or(0.0))
    }

    /// Something is reported at `now`. If the flow slept, the epochs until then are left out.
    fn wake(&mut self, now: Time) {
        if std::mem::take(&mut self.asleep) {
            self.grid.skip_before(now);
            self.leave_out_fits();
        }
    }

    /// The next fit is due when it would be if there had been those of the epochs left out.
    fn leave_out_fits(&mut self) {
        if self.slow_start {
            return;
        }
        let every = self.params.epoch * self.grid.epochs_in(self.params.refit);
        let first = self.grid.end_from(self.profile.fit_at);
        if first < self.grid.next() {
            let left_out = (self.grid.next() - first).as_nanos().div_ceil(every.as_nanos());
            self.profile.fit_at = first + every * (left_out - 1) + self.params.refit;
        }
    }

    /// Steps 1 to 4 and 8 of docs/spec/verus.md 7. Returns whether this epoch stays silent to drain the queue.
    fn move_set_point(&mut self, now: Time) -> bool {
        let epoch = EpochState {
            now,
            quiet_since: self.flight.quiet_since,
            in_flight: self.flight.in_flight,
            app_limited: self.app_limited,
        };
        self.set_point.run_epoch(&self.params, epoch, &mut self.events)
    }

    /// Step 6 of docs/spec/verus.md 7.
    fn take_window(&mut self, w: f64) {
        let max = self.start_rules.max_window.min(self.losses.ceiling.max(1.0));
        self.w = w.clamp(1.0, max);
        if w >= max && self.params.monotone != Repair::Off {
            // A set-point that ran off while the window cannot follow would take as long to
            // come back.
            self.set_point.d_est = self.set_point.d_est.min(self.delay_at(max));
        }
    }

    /// Steps 7 and 9 of docs/spec/verus.md 7.
    fn release(&mut self, silent: bool) {
        self.share = if silent { 0.0 } else { self.epoch_share() };
        self.credit = if silent || self.app_limited {
            self.share
        } else {
            // Spent at once by a sender that has data; one that comes late gets one window.
            (self.credit + self.share).min(self.w.max(1.0))
        };
    }

    /// Eq. 5, Verus, with the packets in flight in place of the current window, as the original
    /// program has it.
    ///
    /// The product is truncated to whole packets before it is subtracted. That is at most one
    /// packet more than without, but it decides whether a flow with a window of one to five packets
    /// keeps two in flight, and below two Verus takes its base delay for too low and raises it.
    fn epoch_share(&self) -> f64 {
        let mean_delay = self.set_point.d_avg.unwrap_or(0.0);
        let n = (mean_delay / self.params.epoch.as_millis_f64()).ceil() as u64;
        let in_flight = self.flight.in_flight as f64;
        let kept = match n {
            0 | 1 => in_flight,
            _ => (in_flight * (n - 2) as f64 / (n - 1) as f64).trunc(),
        };
        (self.w - kept).max(0.0).floor()
    }

    fn refit_if_due(&mut self, now: Time) {
        let kept_for_ever = !self.params.update_profile && self.profile.has_curve();
        if kept_for_ever || !self.profile.is_fit_due(now, self.params.refit) {
            return;
        }
        if let Some(fit) = self.profile.refit(now, self.set_point.d_min.unwrap_or(0.0)) {
            self.events.push(now, Event::ProfileRefit { points: fit.points, nodes: fit.nodes });
        }
    }

    // Losses: docs/spec/verus.md 9.

    fn expire_gaps(&mut self, now: Time) {
        let mut expired = false;
        while let Some(gap) = self.losses.expire(now) {
            expired = true;
            self.flight.remove_one();
            if !self.in_loss {
                self.decrease(now, gap.w);
            }
            if self.slow_start && self.start_rules.ends_by_loss(self.w) {
                self.leave_slow_start_for_loss(gap.w);
            }
        }
        if expired && self.slow_start {
            // Nothing else would: the acks that grant credit may all be gone.
            self.grant_slow_start_credit();
        }
    }

    fn decrease(&mut self, now: Time, w_lost: u32) {
        let before = self.w;
        self.w = self.start_rules.after_loss(self.w, w_lost);
        self.set_point.d_est = self.delay_at(self.w);
        self.in_loss = true;
        self.note_reduction(now, before);
    }

    /// Exit b of slow start.
    fn leave_slow_start_for_loss(&mut self, w_lost: u32) {
        self.profile.forget_from_at_next_fit(w_lost.max(100));
        self.forget_in_flight();
        self.leave_slow_start();
    }

    // Timeout and restart: docs/spec/verus.md 10.

    fn remember(&self, in_a_row: u32) -> VerusUndo {
        // Gaps are no part of what comes back: the datapath reports each of them by itself.
        let in_flight = self.flight.in_flight.saturating_sub(self.losses.missing.len() as u64);
        match self.before_timeout {
            Some(first) if in_a_row > 1 => {
                VerusUndo { in_flight: first.in_flight + in_flight, ..first }
            }
            _ => VerusUndo {
                session_first: self.flight.session_first,
                first_live: self.flight.first_live,
                in_flight,
                w: self.w,
                d_est: self.set_point.d_est,
                in_loss: self.in_loss,
                slow_start: self.slow_start,
            },
        }
    }

    /// After an outage the packets that waited through it arrive. As in the original they stay
    /// forgotten by default: their delays are those of the outage, not of their windows, and in
    /// the profile they would stay. Where the RTT itself is as long as a timeout there would be no
    /// samples at all, so there, and with `late=sample`, they are in flight again and their acks
    /// count; window and set-point return to where they were. Slow start does not return: so late
    /// an ack is a reason to leave it.
    fn undo_timeout(&mut self, now: Time) {
        let Some(before) = self.before_timeout.take() else { return };
        let long_path = before.slow_start || self.set_point.base() * 1.5 > RTO_MAX.as_millis_f64();
        if self.params.late == LateAcks::Drop && !long_path {
            return;
        }
        self.flight.session_first = before.session_first;
        self.flight.first_live = before.first_live;
        self.flight.in_flight += before.in_flight;
        if !before.slow_start && !self.slow_start {
            self.w = self.w.max(before.w);
            self.set_point.d_est = self.set_point.d_est.max(before.d_est);
            self.in_loss = before.in_loss;
        }
        self.events.push(now, Event::Undone);
        self.note_phase(now);
    }

    fn forget_in_flight(&mut self) {
        self.flight.forget();
        self.losses.missing.clear();
    }

    /// As a new flow, but for the numbers of its packets and the grid of its epochs.
    fn restart(&mut self, now: Time) {
        self.flight = Flight::new(self.flight.next_number, now);
        self.set_point = SetPoint::new(&self.params);
        self.losses = Losses::new();
        self.profile.clear();
        self.before_timeout = None;
        (self.w, self.credit, self.share) = (1.0, 1.0, 0.0);
        (self.slow_start, self.in_loss) = (true, false);
        self.events.push(now, Event::Restart);
    }

    // Shared by all.

    /// f(w) in ms, or the nearest point below where there is no curve yet.
    fn delay_at(&self, w: f64) -> f64 {
        match self.profile.delay_at(w) {
            Some(delay) => delay.max(self.floor()),
            None => self.set_point.base(),
        }
    }

    /// What f is never below, ms.
    fn floor(&self) -> f64 {
        if self.params.floor { self.set_point.d_min.unwrap_or(0.0) } else { 0.0 }
    }

    /// The window at which a packet was sent. An empty stamp is from somebody else.
    fn window_of(&self, stamp: &Stamp) -> u32 {
        let w = if stamp.local[0] == 0 { self.w as u64 } else { stamp.local[0] };
        w.clamp(1, u64::from(MAX_WINDOW)) as u32
    }

    /// With nothing in flight on the datapath's side only gaps can be left on this one: whatever
    /// made the two counts differ ends here.
    fn settle(&mut self, in_flight: u64) {
        if in_flight == 0 {
            self.flight.in_flight = self.losses.missing.len() as u64;
        }
    }

    fn note_reduction(&mut self, now: Time, before: f64) {
        let from = (before * self.mss as f64) as u64;
        self.events.push(now, Event::Reduced { from, to: self.cwnd() });
    }

    fn note_phase(&mut self, now: Time) {
        let phase = match (self.slow_start, self.in_loss) {
            (true, _) => Phase::SlowStart,
            (false, true) => Phase::Recovery,
            (false, false) => Phase::Avoidance,
        };
        if phase != self.phase {
            self.phase = phase;
            self.events.push(now, Event::Phase(phase));
        }
    }
}
