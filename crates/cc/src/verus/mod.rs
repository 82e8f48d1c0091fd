//! Verus (Zaki et al., SIGCOMM 2015): learns what delay comes with which window, keeps a delay
//! set-point that it nudges every 5 ms, and reads the window back from the learnt curve.
//!
//! Where the paper and the original code leave a choice, the default is the one that behaves;
//! the original behaviour is a parameter. What is different for every setting, because the
//! original has no counterpart:
//!
//! - Packet numbers never restart here. Acks of packets from before a restart or timeout are told
//!   apart by their number instead of a session id.
//! - The datapath says what is lost; such a packet waits in `missing` as a gap does in the
//!   original, and a late ack takes it out again.
//! - A flow that has nothing to send learns nothing: neither window nor set-point rise, no point
//!   is recorded, and silence while nothing is in flight is no delay.
//! - A timeout always empties the count of packets in flight, because the datapath does too.
//! - The base delay is unset before the first ack, not 1000 ms.

mod params;
mod profile;
mod slow_start;
mod spline;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use cellpace_base::{Span, Time};

use crate::{
    Ack, AckedPacket, Block, Controller, ControllerParams, Event, Events, Loss, Permit, Phase,
    Profile, SentPacket, Setup, Spurious, Stamp, Timeout, epochs,
};
pub(crate) use params::VerusParams;
use params::{AverageStart, BumpOn, GapRule, LateAcks, SetPointRule};
use profile::{DelayProfile, EWMA, MAX_WINDOW, Repair};
pub(crate) use slow_start::SlowStart;

/// Gaps that wait at most; beyond, the oldest expires early. More than the largest window.
const MAX_MISSING: usize = 1 << 16;

/// The base delay that stands in until there is a sample, in ms (docs/spec/verus.md 3).
const NO_BASE: f64 = 1000.0;

/// Delays below this, in ms, count as this: the ratio of delays divides by one.
const LEAST_DELAY: f64 = 0.001;

/// Delay differences up to this, in ms, are none (docs/spec/verus.md 7.4).
const DELAY_TOLERANCE: f64 = 0.0001;

/// Timeout over the last RTT, longest timeout, and timeout before the first ack (original code).
const RTO_FACTOR: f64 = 5.0;
const RTO_MAX: Span = Span::from_secs(1);
const RTO_INITIAL: Span = Span::from_secs(1);

/// Time until a lost packet is given up (original code), and delays (Verus, section 5.2).
const GAP_EXPIRY: Span = Span::from_millis(150);
const GAP_DELAYS: f64 = 3.0;

/// Rise of the base delay when draining is futile, in ms (original code).
const BUMP: f64 = 10.0;

/// Share of itself by which the ceiling rises in an RTT (docs/spec/verus.md 9.1).
const CEILING_GROWTH: f64 = 0.1;

impl ControllerParams for VerusParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Verus::new(self, &setup))
    }
}

/// The controller.
struct Verus {
    params: VerusParams,
    start_rules: SlowStart,
    mss: u64,
    start: Time,
    next_epoch: Time,

    /// Current window estimate, in packets.
    w: f64,
    /// Delay set-point, ms.
    d_est: f64,
    /// Base delay, ms.
    d_min: Option<f64>,
    /// Smoothed largest delay per epoch, ms.
    d_max_s: Option<f64>,
    /// Smoothed delay, ms; only for the number of epochs per RTT.
    d_avg: Option<f64>,
    /// Largest delay acked since the last epoch, ms.
    epoch_max: Option<f64>,
    /// Packets sent and neither acked nor expired.
    in_flight: u64,
    /// Packets that may still leave.
    credit: f64,
    /// What the last epoch released, packets.
    share: f64,
    slow_start: bool,
    in_loss: bool,
    /// Freezes the set-point above R after slow start was left for its delay or a full buffer.
    hold: bool,
    /// Whether this slow start or what followed it ever got an ack.
    heard: bool,
    /// The sender had nothing more to send when it sent last.
    app_limited: bool,

    profile: DelayProfile,
    fit_at: Time,
    /// Points from this window on are dropped at the next fit.
    curve_stop: Option<u32>,
    missing: VecDeque<Gap>,
    /// What losses leave to the window, packets; infinite before the first.
    ceiling: f64,
    /// Losses of packets below this belong to an event that has lowered the ceiling already.
    ceiling_recover: u64,
    /// Share of packets lost lately, over about a window.
    loss_share: f64,

    /// The number after the highest sent.
    next_number: u64,
    /// Packets below are from before a restart: their acks are dropped.
    session_first: u64,
    /// Packets below are accounted for: their acks are not samples.
    first_live: u64,
    highest_acked: Option<u64>,
    /// Since when an ack has been due: the last one, or the first packet sent into silence.
    quiet_since: Time,
    last_rtt: Option<Span>,
    before_timeout: Option<BeforeTimeout>,

    phase: Phase,
    events: Events,
}

/// A packet declared lost that may yet arrive.
#[derive(Debug, Clone, Copy)]
struct Gap {
    number: u64,
    w: u32,
    expires_at: Time,
}

/// What a timeout took away, in case it was none.
#[derive(Debug, Clone, Copy)]
struct BeforeTimeout {
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
        if self.in_flight == 0 {
            self.quiet_since = packet.now;
        }
        self.in_flight += 1;
        self.credit = (self.credit - 1.0).max(0.0);
        self.app_limited = packet.app_limited;
        self.next_number = self.next_number.max(packet.number.saturating_add(1));
        let w = (self.w as u64).clamp(1, u64::from(MAX_WINDOW));
        Stamp { local: [w, self.first_live, 0, 0], wire: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        for packet in ack.packets {
            let counted = packet.number >= self.first_live;
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
        let expires_at = loss.now + self.gap_expiry();
        for packet in loss.packets {
            if packet.number < self.first_live {
                continue;
            }
            let w = self.window_of(&packet.stamp);
            self.lower_ceiling(packet.number, w);
            self.wait_for(Gap { number: packet.number, w, expires_at });
        }
        self.settle(loss.in_flight);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let now = timeout.now;
        self.events.push(now, Event::Timeout);
        let before = self.remember(timeout.in_a_row);
        self.next_number = self.next_number.max(timeout.next_number);
        self.forget_in_flight();
        // docs/spec/verus.md 10.
        if !self.heard {
            self.restart(now);
        } else if self.slow_start {
            self.leave_slow_start();
            // The original keeps a set-point of zero and climbs for some epochs to get here.
            self.d_est = self.d_est.max(self.base());
        } else {
            self.in_loss = true;
            self.d_est = self.base();
            self.credit = 0.0;
        }
        self.before_timeout = Some(before);
        self.note_phase(now);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        match spurious {
            Spurious::Timeout { now } => self.undo_timeout(*now),
            Spurious::Loss { now, packet } => {
                let found = self.missing.binary_search_by_key(&packet.number, |gap| gap.number);
                if let Ok(index) = found {
                    self.missing.remove(index);
                }
                self.take_packet(*now, packet, found.is_ok());
                self.note_phase(*now);
            }
        }
    }

    /// Section 9, last sentence, and exit d of slow start. If the refused packet was stamped, it
    /// was counted as sent, and is taken back.
    fn on_block(&mut self, block: &Block) {
        let now = block.now;
        let before = self.w;
        if block.waits && !self.params.cut_on_wait {
            self.follow_tcp();
            self.note_phase(now);
            return;
        }
        if block.stamp.local[0] > 0 && block.stamp.local[1] == self.first_live {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        let m = self.params.loss_factor;
        if self.slow_start {
            // Squared, so that acks of slow-start packets cannot end the loss phase at once.
            self.w = (m * m * f64::from(self.window_of(&block.stamp))).clamp(1.0, self.w);
            self.in_loss = true;
            self.hold = true;
            self.leave_slow_start();
        } else {
            self.w = (m * self.w).max(1.0);
        }
        self.d_est = self.delay_at(self.w);
        self.credit = 0.0;
        self.note_reduction(now, before);
        self.note_phase(now);
    }

    /// The profile and the base delay of the old path say nothing about the new one, and what is
    /// in flight on the old one would be measured with both: starts over.
    fn on_path_change(&mut self, now: Time) {
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
        Some(match self.last_rtt {
            // docs/spec/verus.md 4.
            Some(rtt) => rtt.mul_f64(RTO_FACTOR).clamp(self.params.rto_min, RTO_MAX),
            None => RTO_INITIAL,
        })
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.next_epoch)
    }

    fn on_deadline(&mut self, now: Time) {
        if now < self.next_epoch {
            return;
        }
        self.next_epoch = self.grid_after(now);
        self.run_epoch(now);
        self.note_phase(now);
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.w);
        show("set_point_ms", self.d_est);
        show("base_rtt_ms", self.d_min.unwrap_or(0.0));
        show("smoothed_delay_ms", self.d_max_s.unwrap_or(0.0));
        show("mean_delay_ms", self.d_avg.unwrap_or(0.0));
        show("delay_ratio", self.d_max_s.unwrap_or(0.0) / self.base());
        show("in_flight_pkts", self.in_flight as f64);
        show("credit_pkts", self.credit);
        show("share_pkts", self.share);
        show("missing_pkts", self.missing.len() as f64);
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
        let mut verus = Self {
            mss: setup.mss.max(1),
            start: setup.start,
            next_epoch: setup.start + params.epoch,
            w: 1.0,
            d_est: 0.0,
            d_min: None,
            d_max_s: None,
            d_avg: None,
            epoch_max: None,
            in_flight: 0,
            credit: 1.0,
            share: 0.0,
            slow_start: true,
            in_loss: false,
            hold: false,
            heard: false,
            app_limited: false,
            profile: DelayProfile::new(params.fit()),
            fit_at: Time::ZERO,
            curve_stop: None,
            missing: VecDeque::with_capacity(64),
            ceiling: f64::INFINITY,
            ceiling_recover: 0,
            loss_share: 0.0,
            next_number: 0,
            session_first: 0,
            first_live: 0,
            highest_acked: None,
            quiet_since: setup.start,
            last_rtt: None,
            before_timeout: None,
            phase: Phase::SlowStart,
            events,
            start_rules: params.slow_start(setup.mss),
            params: params.clone(),
        };
        verus.forget_delays();
        verus
    }

    // Acks: docs/spec/verus.md 6.

    /// One packet of an ack. It is a sample only if it is `counted` as in flight or missing.
    fn take_packet(&mut self, now: Time, packet: &AckedPacket, counted: bool) {
        if packet.number < self.session_first {
            return;
        }
        let delay = packet.rtt.as_millis_f64().max(LEAST_DELAY);
        let w = self.window_of(&packet.stamp);
        let exits = self.slow_start && delay > self.start_rules.exit_delay(self.base());
        if exits {
            self.leave_slow_start_for_delay(now, w);
        }
        self.last_rtt = Some(packet.rtt);
        if self.in_loss && f64::from(w) <= self.w && !exits {
            self.epoch_max = None;
            self.in_loss = false;
            self.hold = false;
        }
        if !counted {
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.heard = true;
        self.raise_ceiling(w);
        self.take_delay(now, delay);
        if !self.in_loss {
            self.learn(now, packet, w, delay);
        } else if !exits {
            self.grow_in_loss();
        }
        if self.highest_acked.is_none_or(|highest| packet.number > highest) {
            self.highest_acked = Some(packet.number);
            self.quiet_since = now;
        }
        if self.slow_start {
            self.grow_in_slow_start(packet);
        }
    }

    fn take_delay(&mut self, now: Time, delay: f64) {
        self.epoch_max = Some(self.epoch_max.map_or(delay, |max| max.max(delay)));
        self.d_avg = Some(self.d_avg.map_or(delay, |avg| EWMA * avg + (1.0 - EWMA) * delay));
        if self.d_min.is_none_or(|min| delay < min) {
            self.set_base(now, delay);
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
            self.d_est = self.d_est.min(self.delay_at(self.w));
        }
    }

    /// docs/spec/verus.md 5.2.
    fn grow_in_slow_start(&mut self, packet: &AckedPacket) {
        if !packet.app_limited {
            self.w = self.start_rules.grown(self.w);
        }
        self.grant_slow_start_credit();
        let acked = (packet.number - self.session_first).saturating_add(1);
        let limit = self.params.ss_exit_packets;
        if limit > 0 && acked > limit {
            // Exit e of the ALCC port. The set-point starts where the window is.
            self.leave_slow_start();
            self.d_est = self.delay_at(self.w);
        }
    }

    fn grant_slow_start_credit(&mut self) {
        let rules = &self.start_rules;
        self.credit = rules.granted(self.w, self.in_flight as f64, self.credit);
    }

    /// The TCP below refuses data: the window that counts is its own, and one above it would be
    /// learnt with delays that it did not cause. In slow start this is the end of it, as where
    /// TCP grows slowly no delay and no loss would end it soon (exit e is the ALCC port's way).
    fn follow_tcp(&mut self) {
        self.w = self.w.min((self.in_flight as f64).max(1.0));
        // docs/spec/alcc.md 4: credit gathered while blocked is discarded.
        self.credit = self.credit.min((self.w - self.in_flight as f64).max(0.0));
        if self.slow_start {
            self.leave_slow_start();
            self.d_est = self.delay_at(self.w);
        }
    }

    /// Exit a of slow start.
    fn leave_slow_start_for_delay(&mut self, now: Time, w: u32) {
        let before = self.w;
        self.w = self.start_rules.after_delay(w);
        self.d_est = self.delay_at(self.w);
        self.in_loss = true;
        self.hold = true;
        self.leave_slow_start();
        self.note_reduction(now, before);
    }

    fn leave_slow_start(&mut self) {
        self.slow_start = false;
        self.fit_at = Time::ZERO;
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
            let Some(w) = self.profile.window_for(self.d_est) else { return self.restart(now) };
            self.take_window(f64::from(w));
        }
        self.release(silent);
    }

    /// The sender was allowed to send and did not, and waits for nothing: there is no feedback
    /// to react to.
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.credit >= 1.0 && self.epoch_max.is_none()
    }

    /// Steps 1 to 4 and 8. Returns whether this epoch stays silent to drain the queue.
    fn move_set_point(&mut self, now: Time) -> bool {
        let acked = self.epoch_max.take();
        let newest = acked.unwrap_or_else(|| {
            let quiet = now.since(self.quiet_since).as_millis_f64();
            quiet.max(self.d_max_s.unwrap_or(0.0))
        });
        let smoothed = self.d_max_s.unwrap_or(newest);
        let alpha = self.params.alpha;
        let next = alpha * smoothed + (1.0 - alpha) * newest; // Eq. 2, Verus
        self.d_max_s = Some(next);
        match self.params.law {
            SetPointRule::Code => self.move_as_code(now, smoothed, newest - smoothed, acked),
            SetPointRule::Paper => self.move_as_paper(next, next - smoothed), // Eq. 3, Verus
        }
    }

    /// Eq. 4, Verus, in the form of the original code: clamped at the base delay, where it
    /// drains or, with nothing left to drain, lets the base delay rise.
    fn move_as_code(&mut self, now: Time, smoothed: f64, delta: f64, acked: Option<f64>) -> bool {
        let base = self.base();
        if smoothed / base <= self.params.r {
            self.nudge(delta);
            return false;
        }
        if self.hold {
            return false;
        }
        self.d_est = (self.d_est - self.params.delta2.as_millis_f64()).max(base);
        if self.d_est > base {
            return false;
        }
        if self.in_flight >= 2 {
            return true;
        }
        self.raise_base(now, acked);
        false
    }

    /// Nothing of this flow is left to drain, and still the delay is above R: the path has become
    /// longer, or others fill its queue. The original takes it for the former in each epoch, with or
    /// without an ack. An outage then adds two seconds to the base delay per second, and R times that is
    /// the queue that the flow allows. So only an ack raises the base, and not above its delay.
    fn raise_base(&mut self, now: Time, acked: Option<f64>) {
        let base = self.base();
        let raised = base + BUMP;
        let raised = match self.params.bump_on {
            BumpOn::Epoch => raised,
            BumpOn::Ack => raised.min(acked.unwrap_or(base)),
        };
        if raised > base {
            self.set_base(now, raised);
        }
    }

    /// Eq. 4, Verus, as printed, kept from going negative.
    fn move_as_paper(&mut self, smoothed: f64, delta: f64) -> bool {
        if smoothed / self.base() > self.params.r {
            self.d_est = (self.d_est - self.params.delta2.as_millis_f64()).max(0.0);
        } else {
            self.nudge(delta);
        }
        false
    }

    /// Eq. 4, Verus, second and third case.
    fn nudge(&mut self, delta: f64) {
        if delta > DELAY_TOLERANCE {
            self.d_est = (self.d_est - self.params.delta1.as_millis_f64()).max(self.base());
        } else if !self.app_limited {
            self.d_est += self.params.delta2.as_millis_f64();
        }
    }

    /// Step 6.
    fn take_window(&mut self, w: f64) {
        let max = self.start_rules.max_window.min(self.ceiling.max(1.0));
        self.w = w.clamp(1.0, max);
        if w >= max && self.params.monotone != Repair::Off {
            // A set-point that ran off while the window cannot follow would take as long to
            // come back.
            self.d_est = self.d_est.min(self.delay_at(max));
        }
    }

    /// Steps 7 and 9.
    fn release(&mut self, silent: bool) {
        self.share = if silent { 0.0 } else { self.epoch_share() };
        self.credit = if silent || self.app_limited {
            self.share
        } else {
            // Spent at once by a sender that has data; whoever comes late gets one window.
            (self.credit + self.share).min(self.w.max(1.0))
        };
    }

    /// Eq. 5, Verus.
    fn epoch_share(&self) -> f64 {
        let n = (self.d_avg.unwrap_or(0.0) / self.params.epoch.as_millis_f64()).ceil() as u64;
        epochs::share(self.w, self.in_flight as f64, n)
    }

    fn refit_if_due(&mut self, now: Time) {
        let kept_for_ever = !self.params.update_profile && self.profile.has_curve();
        if now < self.fit_at || kept_for_ever {
            return;
        }
        self.fit_at = now + self.params.refit;
        if let Some(stop) = self.curve_stop.take() {
            self.profile.forget_from(stop);
        }
        if let Some(fit) = self.profile.refit(now, self.d_min.unwrap_or(0.0)) {
            self.events.push(now, Event::ProfileRefit { points: fit.points, nodes: fit.nodes });
        }
    }

    /// The first point of the schedule after `now`. The schedule is absolute: late calls do not
    /// shift it, and missed epochs are not made up for.
    fn grid_after(&self, now: Time) -> Time {
        let passed = now.since(self.start).as_nanos() / self.params.epoch.as_nanos().max(1);
        self.start + self.params.epoch * passed.saturating_add(1)
    }

    // Losses: docs/spec/verus.md 9.

    /// While gaps wait nothing may be in flight, and then no timeout comes to clear them: they
    /// wait no longer than the longest timeout.
    fn gap_expiry(&self) -> Span {
        if self.params.gap == GapRule::Fixed {
            return GAP_EXPIRY;
        }
        let delays = self.last_rtt.unwrap_or(Span::ZERO).mul_f64(GAP_DELAYS);
        GAP_EXPIRY.max(delays.min(RTO_MAX))
    }

    /// Keeps the gaps in the order of their packet numbers.
    fn wait_for(&mut self, gap: Gap) {
        if self.missing.len() >= MAX_MISSING {
            self.missing.pop_front();
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        if self.missing.back().is_none_or(|last| last.number < gap.number) {
            return self.missing.push_back(gap);
        }
        if let Err(index) = self.missing.binary_search_by_key(&gap.number, |gap| gap.number) {
            self.missing.insert(index, gap);
        }
    }

    fn expire_gaps(&mut self, now: Time) {
        let mut expired = false;
        while let Some(gap) = self.missing.front().copied().filter(|gap| now >= gap.expires_at) {
            expired = true;
            self.missing.pop_front();
            self.in_flight = self.in_flight.saturating_sub(1);
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

    /// Where the buffer is full the delay no longer grows with the window: the profile is flat
    /// there, and the set-point, which a loss sets to f(W), leads right back to the windows that
    /// lost. The original finds no window on a flat curve and starts over; a repaired curve always
    /// has one. So when more is lost than links lose at random, a loss event, once per window of
    /// data, also limits the window to what eq. 6 leaves of it, and each RTT raises the limit by
    /// a share. It does so when the loss is detected: by the time a gap expires, 150 ms later, a flat
    /// curve has raised the window by 200 packets in each epoch.
    fn lower_ceiling(&mut self, number: u64, w: u32) {
        self.loss_share += (1.0 - self.loss_share) * self.loss_weight();
        let lost_enough = self.loss_share > self.params.ceiling_loss;
        if !lost_enough || number < self.ceiling_recover {
            return;
        }
        self.ceiling_recover = self.next_number;
        // Eq. 6, Verus
        self.ceiling = (self.params.loss_factor * f64::from(w)).min(self.ceiling).max(1.0);
    }

    /// By the same share in every RTT, whatever the window: `w` is the one at which the acked packet
    /// was sent, so about as many acks make an RTT. The current one may be a single packet.
    fn raise_ceiling(&mut self, w: u32) {
        self.loss_share -= self.loss_share * self.loss_weight();
        if self.ceiling.is_finite() {
            self.ceiling *= 1.0 + CEILING_GROWTH / f64::from(w);
            if self.ceiling > self.start_rules.max_window {
                self.ceiling = f64::INFINITY;
            }
        }
    }

    /// One packet among a window's, or among enough that a single loss is not many.
    fn loss_weight(&self) -> f64 {
        1.0 / self.w.max(20.0)
    }

    fn decrease(&mut self, now: Time, w_lost: u32) {
        let before = self.w;
        self.w = self.start_rules.after_loss(self.w, w_lost);
        self.d_est = self.delay_at(self.w);
        self.in_loss = true;
        self.note_reduction(now, before);
    }

    /// Exit b of slow start.
    fn leave_slow_start_for_loss(&mut self, w_lost: u32) {
        self.curve_stop = Some(w_lost.max(100));
        self.forget_in_flight();
        self.leave_slow_start();
    }

    // Timeout and restart: docs/spec/verus.md 10.

    fn remember(&self, in_a_row: u32) -> BeforeTimeout {
        // Gaps are no part of what comes back: the datapath reports each of them by itself.
        let in_flight = self.in_flight.saturating_sub(self.missing.len() as u64);
        match self.before_timeout {
            Some(first) if in_a_row > 1 => {
                BeforeTimeout { in_flight: first.in_flight + in_flight, ..first }
            }
            _ => BeforeTimeout {
                session_first: self.session_first,
                first_live: self.first_live,
                in_flight,
                w: self.w,
                d_est: self.d_est,
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
        let long_path = before.slow_start || self.base() * 1.5 > RTO_MAX.as_millis_f64();
        if self.params.late == LateAcks::Drop && !long_path {
            return;
        }
        self.session_first = before.session_first;
        self.first_live = before.first_live;
        self.in_flight += before.in_flight;
        if !before.slow_start && !self.slow_start {
            self.w = self.w.max(before.w);
            self.d_est = self.d_est.max(before.d_est);
            self.in_loss = before.in_loss;
        }
        self.events.push(now, Event::Undone);
        self.note_phase(now);
    }

    fn forget_in_flight(&mut self) {
        self.in_flight = 0;
        self.first_live = self.next_number;
        self.missing.clear();
    }

    fn restart(&mut self, now: Time) {
        self.forget_in_flight();
        self.session_first = self.next_number;
        self.w = 1.0;
        self.d_est = 0.0;
        self.credit = 1.0;
        self.share = 0.0;
        self.slow_start = true;
        self.in_loss = false;
        self.hold = false;
        self.heard = false;
        self.highest_acked = None;
        self.last_rtt = None;
        self.quiet_since = now;
        self.curve_stop = None;
        self.ceiling = f64::INFINITY;
        self.loss_share = 0.0;
        self.before_timeout = None;
        self.profile.clear();
        self.forget_delays();
        self.events.push(now, Event::Restart);
    }

    fn forget_delays(&mut self) {
        self.d_min = None;
        self.d_max_s = None;
        self.d_avg = (self.params.average == AverageStart::Zero).then_some(0.0);
        self.epoch_max = None;
    }

    // Shared by all.

    /// f(w) in ms, or the nearest point below where there is no curve yet.
    fn delay_at(&self, w: f64) -> f64 {
        match self.profile.delay_at(w) {
            Some(delay) => delay.max(self.floor()),
            None => self.base(),
        }
    }

    fn base(&self) -> f64 {
        self.d_min.unwrap_or(NO_BASE)
    }

    /// What f is never below, ms.
    fn floor(&self) -> f64 {
        if self.params.floor { self.d_min.unwrap_or(0.0) } else { 0.0 }
    }

    fn set_base(&mut self, now: Time, base: f64) {
        self.d_min = Some(base);
        self.events.push(now, Event::BaseDelay(Span::from_millis_f64(base)));
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
            self.in_flight = self.missing.len() as u64;
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
