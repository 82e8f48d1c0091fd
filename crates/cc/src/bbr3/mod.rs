//! BBR version 3 (draft-ietf-ccwg-bbr, editor's copy of August 2026): a model of the path, of
//! bandwidth, base RTT and how acks come in bundles, sets pacing rate and window. Against version
//! 1, losses bound the flight, the cycle of probing is seconds long and leaves room to others,
//! and probing for the RTT costs half the flight, not all of it.
//!
//! docs/spec/bbr3.md has the rules, the errata of the draft and what Linux, quiche and others do
//! differently. One file for each part of the model and each phase; this one has the order of
//! evaluation, and what leads from one phase to the next.
//!
//! Deviations from the draft, besides those errata: losses are reported after the ack that
//! revealed them; what an undo goes back to is what held when recovery began, not what held at the
//! beginning of the present round with losses, because the second lost packet of a batch would
//! overwrite it; marks, which the draft leaves out, are answered as Linux does in data centres.

mod aggregation;
mod bandwidth;
mod cycle;
mod drain;
mod losses;
mod marks;
mod params;
mod probe_rtt;
mod probe_up;
mod stamp;
mod startup;
mod state;

use self::aggregation::{Bbr3Aggregation, Bbr3Bundle};
use self::bandwidth::MaxBandwidth;
use self::cycle::{AckPhase, Cycle};
use self::drain::Drain;
use self::losses::{LossBounds, RoundSignals, in_flight_at_loss, is_too_high};
use self::marks::RoundMarks;
pub(crate) use self::params::Bbr3Params;
use self::probe_rtt::{Bbr3RttProbe, Bbr3RttProbeStep, MinRtt};
use self::probe_up::UpwardSlope;
use self::stamp::StampedState;
use self::startup::Bbr3FullPipe;
use self::state::Bbr3State;
use crate::delivery_rate::DeliveryRate;
use crate::{
    Ack, Controller, ControllerParams, Ecn, Event, Events, Loss, Mark, Pacing, Permit, Random,
    Rate, SentPacket, Setup, Span, Spurious, Stamp, Time, Timeout,
};

impl ControllerParams for Bbr3Params {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Bbr3::new(self, setup))
    }
}

/// The controller. Volumes in bytes, rates in bytes per second.
struct Bbr3 {
    params: Bbr3Params,
    mss: f64,
    initial_window: f64,
    min_window: f64,
    random: Random,

    // What is counted
    delivery: DeliveryRate,
    lost: u64,
    round: Bbr3RoundCount,
    /// Since when the path has been this one, and what was delivered before. Samples of older
    /// packets are another path's.
    path_since: Time,
    path_delivered: u64,

    // The model
    max_bw: MaxBandwidth,
    bw: f64,
    min_rtt: MinRtt,
    aggregation: Bbr3Aggregation,
    signals: RoundSignals,
    bounds: LossBounds,
    marks: RoundMarks,

    // The state machine
    state: Bbr3State,
    full_pipe: Bbr3FullPipe,
    drain: Drain,
    cycle: Cycle,
    slope: UpwardSlope,
    probe_rtt: Bbr3RttProbe,
    idle_restart: bool,
    /// Whether the window has stopped the sender in this round (`cwnd_limited_this_round`).
    cwnd_limited: bool,

    // The controls
    pacing_rate: f64,
    /// Whether the pacing rate knows of an RTT yet.
    seen_rtt: bool,
    cwnd: f64,
    /// The window to come back to after recovery and ProbeRTT.
    prior_cwnd: f64,
    recovery: Option<Bbr3LossRecovery>,
    undo: Undo,
    events: Events,
}

/// Rounds of the flow, counted in packets: one ends when a packet is acked that left after the
/// round before had ended.
#[derive(Debug, Clone, Copy, Default)]
struct Bbr3RoundCount {
    count: u64,
    /// Bytes delivered at the end of the last round (`next_round_delivered`).
    end: u64,
    /// Whether the current ack began a round.
    started: bool,
}

#[derive(Debug, Clone, Copy)]
struct Bbr3LossRecovery {
    /// Packets from this one on were sent after its last loss.
    end: u64,
    /// Losses that could still turn out to be none; timeouts are answered by the datapath.
    losses: u64,
    timeout: bool,
}

/// What the losses of a recovery have changed, in case that they turn out to be none.
#[derive(Debug, Clone, Copy)]
struct Undo {
    bounds: LossBounds,
    /// The state that they have ended.
    ended: Option<Bbr3State>,
}

/// What one ack says.
#[derive(Debug, Clone, Copy)]
struct AckSample {
    now: Time,
    /// Delivery rate; zero where there is no reliable one.
    rate: f64,
    /// Bytes delivered since the newest of the packets left, and when it left.
    volume: f64,
    prior_delivered: u64,
    rtt: Span,
    acked: f64,
    /// Of the newest packet: bytes in flight when it left, bytes lost since.
    tx_in_flight: f64,
    lost: f64,
    app_limited: bool,
    prior_in_flight: f64,
    in_flight: f64,
}

impl Bbr3 {
    /// Assumed before the first RTT (draft-ietf-ccwg-bbr: BBRInitPacingRate).
    const UNKNOWN_RTT: Span = Span::from_millis(1);
    /// Time that the pacing rate takes for a quantum (BBRSetSendQuantum).
    const QUANTUM_TIME: f64 = 0.001;
    const MAX_QUANTUM: f64 = 65_536.0;
    /// More than any path holds, in packets; keeps everything finite.
    const MAX_WINDOW: f64 = (1_u64 << 20) as f64;
    /// More than any path carries, in bytes per second.
    const MAX_RATE: f64 = 1e17;

    fn new(params: &Bbr3Params, setup: Setup) -> Self {
        let mss = setup.mss.max(1) as f64;
        let window = |bytes: u64| (bytes as f64).clamp(mss, Self::MAX_WINDOW * mss);
        let initial_window = window(params.initial_window.bytes(setup.mss));
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Bbr3State::Startup.phase()));
        let mut bbr = Self {
            mss,
            initial_window,
            min_window: window(params.min_window.bytes(setup.mss)),
            random: setup.random,
            delivery: DeliveryRate::new(setup.start),
            lost: 0,
            round: Bbr3RoundCount::default(),
            path_since: setup.start,
            path_delivered: 0,
            max_bw: MaxBandwidth::default(),
            bw: 0.0,
            min_rtt: MinRtt::new(setup.start),
            aggregation: Bbr3Aggregation::new(setup.start, params.extra_acked_rounds),
            signals: RoundSignals::new(0),
            bounds: LossBounds::NONE,
            marks: RoundMarks::new(),
            state: Bbr3State::Startup,
            full_pipe: Bbr3FullPipe::default(),
            drain: Drain::default(),
            cycle: Cycle::default(),
            slope: UpwardSlope::flat(),
            probe_rtt: Bbr3RttProbe::new(None),
            idle_restart: false,
            cwnd_limited: false,
            pacing_rate: 0.0,
            seen_rtt: false,
            cwnd: initial_window,
            prior_cwnd: 0.0,
            recovery: None,
            undo: Undo { bounds: LossBounds::NONE, ended: None },
            events,
            params: params.clone(),
        };
        bbr.pace_by_window(Self::UNKNOWN_RTT);
        bbr
    }

    // ---- The model -------------------------------------------------------------------------

    /// Counts what an ack delivers. `None` for packets of an earlier path.
    fn sample(&mut self, ack: &Ack<'_>) -> Option<AckSample> {
        let newest = ack.newest();
        let sent = StampedState::unpack(&newest.stamp, newest.sent_at);
        let rate = self.delivery.sample(ack, newest, sent.departure);
        let delivered = self.delivery.delivered();
        (newest.sent_at >= self.path_since).then(|| AckSample {
            now: ack.now,
            rate: rate.rate.map_or(0.0, |rate| (rate as f64).min(Self::MAX_RATE)),
            volume: delivered.saturating_sub(rate.prior_delivered) as f64,
            prior_delivered: rate.prior_delivered,
            rtt: newest.rtt,
            acked: ack.bytes() as f64,
            tx_in_flight: sent.in_flight as f64,
            lost: self.lost.saturating_sub(sent.lost) as f64,
            app_limited: rate.app_limited,
            prior_in_flight: ack.prior_in_flight as f64,
            in_flight: ack.in_flight as f64,
        })
    }

    fn count_round(&mut self, sample: &AckSample) {
        self.round.started = sample.prior_delivered >= self.round.end;
        if self.round.started {
            self.start_round();
            self.round.count += 1;
            self.cycle.rounds_since_up = self.cycle.rounds_since_up.saturating_add(1);
        }
    }

    /// A round begins with what is sent from now on.
    fn start_round(&mut self) {
        self.round.end = self.delivery.delivered();
    }

    fn update_max_bw(&mut self, sample: &AckSample) {
        // A lack of data only ever hides bandwidth.
        if !sample.app_limited || sample.rate >= self.max_bw.max() {
            self.max_bw.add(sample.rate);
        }
    }

    /// Takes the consequences of a round with losses outside of a probe.
    fn adapt_shortterm(&mut self) {
        if !self.signals.started {
            return;
        }
        if self.signals.lossy && !self.state.is_accelerating() {
            let (max_bw, cwnd) = (self.max_bw.max(), self.cwnd);
            self.bounds.lower_shortterm(&self.signals, max_bw, cwnd, self.params.loss_factor);
        }
        self.signals.lossy = false;
    }

    /// Takes the consequences of a round with marks (docs/spec/bbr3.md 9.4).
    fn answer_marks(&mut self, sample: &AckSample) {
        if !self.round.started || self.marks.end_round() <= 0.0 {
            return;
        }
        if !self.full_pipe.reached {
            if self.marks.ends_startup() {
                self.full_pipe.fill();
                self.bounds.longterm = self.path_volume().max(self.signals.inflight_latest);
            }
        } else if self.cycle.sampling && self.marks.is_too_high() {
            self.end_probe_too_high(sample.now, sample.tx_in_flight, sample.app_limited);
        } else if !self.state.is_accelerating() {
            self.bounds.lower_flight(self.marks.left(), self.cwnd);
        }
    }

    fn watch_aggregation(&mut self, sample: &AckSample) {
        let most =
            self.params.extra_acked_max.map_or(f64::INFINITY, |most| most.as_secs_f64() * self.bw);
        self.aggregation.on_ack(&Bbr3Bundle {
            now: sample.now,
            acked: sample.acked,
            bandwidth: self.bw,
            limit: self.cwnd.min(most),
            round: self.round.count,
            // Before that, a bundle cannot be told from growth.
            rounds: if self.full_pipe.reached { self.params.extra_acked_rounds } else { 1 },
        });
    }

    fn update_min_rtt(&mut self, sample: &AckSample) {
        let before = self.min_rtt.min;
        let Bbr3Params { probe_rtt_interval, min_rtt_window, .. } = self.params;
        let expired =
            self.min_rtt.on_sample(sample.now, sample.rtt, probe_rtt_interval, min_rtt_window);
        if self.min_rtt.min != before {
            self.events.push(sample.now, Event::BaseDelay(self.min_rtt.min));
        }
        if expired && !self.idle_restart && self.state != Bbr3State::ProbeRtt {
            self.start_probe_rtt(sample.now);
        }
        if self.state == Bbr3State::ProbeRtt {
            self.advance_probe_rtt(sample);
        }
        if sample.volume > 0.0 {
            self.idle_restart = false;
        }
    }

    /// The bandwidth in use: the largest one, or less after losses.
    fn bound_bw(&mut self) {
        self.bw = self.max_bw.max().min(self.bounds.bw_shortterm);
    }

    /// Bandwidth-delay product, or the initial window before there is a base RTT.
    fn bdp(&self, bandwidth: f64) -> f64 {
        let known =
            |min_rtt: Span| (bandwidth * min_rtt.as_secs_f64()).min(Self::MAX_WINDOW * self.mss);
        self.min_rtt.known().map_or(self.initial_window, known)
    }

    /// What the path holds at the largest bandwidth: `inflight(max_bw, 1.0)`.
    fn path_volume(&self) -> f64 {
        self.quantise(self.bdp(self.max_bw.max()))
    }

    /// Room for the bursts in which packets leave, and for probing with small windows.
    fn quantise(&self, volume: f64) -> f64 {
        let probing = if self.state == Bbr3State::Up { 2.0 * self.mss } else { 0.0 };
        volume.max(self.quantum()).max(self.min_window) + probing
    }

    fn target_inflight(&self) -> f64 {
        self.bdp(self.bw).min(self.cwnd)
    }

    fn with_headroom(&self) -> f64 {
        self.bounds.with_headroom(self.params.headroom, self.mss, self.min_window)
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        let bw = self.probe_rtt.bandwidth.map_or(self.bw, |latest| latest.min(self.bw));
        (self.params.probe_rtt_cwnd_gain * self.bdp(bw)).max(self.min_window)
    }

    // ---- The state machine -----------------------------------------------------------------

    fn check_full_pipe(&mut self, sample: &AckSample) {
        if self.round.started && !sample.app_limited {
            self.full_pipe.end_round(sample.rate, &self.params);
        }
    }

    /// Startup ends by losses, too: those of a round, if they were many and not all in one place.
    fn check_startup_losses(&mut self, sample: &AckSample) {
        if !self.signals.started {
            return;
        }
        let scattered = self.signals.loss_ranges >= self.params.startup_loss_ranges;
        let threshold = self.params.loss_threshold;
        if !self.full_pipe.reached
            && scattered
            && is_too_high(sample.lost, sample.tx_in_flight, threshold)
        {
            self.full_pipe.fill();
            self.undo.ended = Some(Bbr3State::Startup);
            self.bounds.longterm = self.bdp(self.max_bw.max()).max(self.signals.inflight_latest);
        }
        self.signals.loss_ranges = 0;
    }

    fn check_drain(&mut self, sample: &AckSample) {
        if self.state == Bbr3State::Startup && self.full_pipe.reached {
            self.enter(sample.now, Bbr3State::Drain);
            self.drain = Drain::start(self.round.count);
            // What Startup lost must not count for Drain.
            self.signals.reset();
        }
        let rounds = self.params.drain_rounds;
        if self.state == Bbr3State::Drain
            && self.drain.is_over(sample.in_flight, self.path_volume(), self.round.count, rounds)
        {
            self.start_down(sample.now);
        }
    }

    fn advance_cycle(&mut self, sample: &AckSample) {
        if !self.full_pipe.reached {
            return;
        }
        if self.adapt_longterm(sample) {
            return;
        }
        let state = self.state;
        match state {
            Bbr3State::Down if self.is_time_to_probe(sample.now) => self.start_refill(sample.now),
            Bbr3State::Down if self.is_time_to_cruise(sample.in_flight) => {
                self.enter(sample.now, Bbr3State::Cruise);
            }
            Bbr3State::Cruise if self.is_time_to_probe(sample.now) => self.start_refill(sample.now),
            Bbr3State::Refill if self.round.started => {
                self.cycle.sampling = true;
                self.start_up(sample);
            }
            Bbr3State::Up if self.is_time_to_go_down(sample) => {
                self.cycle.too_high = false;
                self.start_down(sample.now);
            }
            _ => {}
        }
    }

    /// Learns what the path holds. Returns whether that has ended the phase.
    fn adapt_longterm(&mut self, sample: &AckSample) -> bool {
        if self.round.started && self.end_ack_phase(sample) {
            return true;
        }
        let threshold = self.params.loss_threshold;
        if is_too_high(sample.lost, sample.tx_in_flight, threshold)
            || self.bounds.longterm.is_infinite()
        {
            return false;
        }
        self.bounds.longterm = self.bounds.longterm.max(sample.tx_in_flight);
        if self.state == Bbr3State::Up {
            self.probe_upward(sample);
        }
        false
    }

    /// A round began: the acks are those of what was sent in another phase. Returns whether this
    /// has begun REFILL.
    fn end_ack_phase(&mut self, sample: &AckSample) -> bool {
        match self.cycle.ack_phase {
            AckPhase::ProbeStarting => self.cycle.ack_phase = AckPhase::ProbeFeedback,
            AckPhase::ProbeStopping => {
                self.cycle.sampling = false;
                self.cycle.ack_phase = AckPhase::Init;
                if !self.state.is_probe_bw() {
                    return false;
                }
                if !sample.app_limited {
                    self.max_bw.advance();
                }
                // It stopped where the last one had met losses, and met none: try again at once.
                if self.cycle.precautionary && !self.cycle.too_high {
                    self.start_refill(sample.now);
                    return true;
                }
            }
            AckPhase::Init | AckPhase::Refilling | AckPhase::ProbeFeedback => {}
        }
        false
    }

    fn probe_upward(&mut self, sample: &AckSample) {
        if !self.is_bounded_by_longterm() {
            return;
        }
        self.bounds.longterm += self.slope.on_ack(sample.acked) * self.mss;
        if self.round.started {
            self.slope.steepen(self.cwnd, self.mss);
        }
    }

    fn is_bounded_by_longterm(&self) -> bool {
        self.cwnd_limited && self.cwnd >= self.bounds.longterm
    }

    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno_rounds = (self.target_inflight() / self.mss).min(self.params.reno_rounds);
        self.cycle.is_time_to_probe(now, reno_rounds)
    }

    fn is_time_to_cruise(&self, in_flight: f64) -> bool {
        in_flight <= self.with_headroom() && in_flight <= self.path_volume()
    }

    fn is_time_to_go_down(&mut self, sample: &AckSample) -> bool {
        if self.cycle.too_high && sample.in_flight >= self.bounds.longterm {
            self.cycle.precautionary = true;
            return true;
        }
        if self.is_bounded_by_longterm() {
            self.full_pipe.start_over(sample.rate);
            return false;
        }
        self.full_pipe.now
    }

    fn start_down(&mut self, now: Time) {
        self.signals.reset();
        self.slope = UpwardSlope::flat();
        self.cycle.start_down(now, self.params.probe_wait, &mut self.random);
        self.start_round();
        self.enter(now, Bbr3State::Down);
    }

    fn start_refill(&mut self, now: Time) {
        self.bounds.forget_shortterm();
        self.slope = UpwardSlope::flat();
        self.cycle.start_refill();
        self.start_round();
        self.enter(now, Bbr3State::Refill);
    }

    fn start_up(&mut self, sample: &AckSample) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.full_pipe.start_over(sample.rate);
        self.slope.steepen(self.cwnd, self.mss);
        self.enter(sample.now, Bbr3State::Up);
    }

    fn start_probe_rtt(&mut self, now: Time) {
        self.save_cwnd();
        let latest = Some(self.signals.bw_latest).filter(|bw| *bw > 0.0);
        let bandwidth = latest.filter(|_| self.params.probe_rtt_latest);
        self.probe_rtt = Bbr3RttProbe::new(bandwidth);
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.enter(now, Bbr3State::ProbeRtt);
    }

    fn advance_probe_rtt(&mut self, sample: &AckSample) {
        // The rate of a half-empty pipe is not that of the path.
        self.delivery.hold_app_limited(sample.in_flight as u64);
        let low = sample.in_flight <= self.probe_rtt_cwnd();
        let time = self.params.probe_rtt_time;
        match self.probe_rtt.on_ack(sample.now, low, self.round.started, time) {
            Bbr3RttProbeStep::Same => {}
            Bbr3RttProbeStep::FlightIsLow => self.start_round(),
            Bbr3RttProbeStep::Over => self.end_probe_rtt(sample.now),
        }
    }

    fn end_probe_rtt(&mut self, now: Time) {
        self.min_rtt.end_probe(now);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.bounds.forget_shortterm();
        if self.full_pipe.reached {
            // Only for the time of the next probe.
            self.start_down(now);
            self.enter(now, Bbr3State::Cruise);
        } else {
            self.enter(now, Bbr3State::Startup);
        }
    }

    fn restart_from_idle(&mut self, now: Time) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() && self.bw > 0.0 {
            self.pacing_rate = self.paced(1.0);
        } else if self.state == Bbr3State::ProbeRtt && self.probe_rtt.is_past(now) {
            self.end_probe_rtt(now);
        }
    }

    fn enter(&mut self, now: Time, state: Bbr3State) {
        let phase = state.phase();
        if self.state.phase() != phase {
            self.events.push(now, Event::Phase(phase));
        }
        self.state = state;
    }

    // ---- Losses ----------------------------------------------------------------------------

    /// The first loss of a round or a recovery: what it may change is kept for an undo.
    fn note_first_loss(&mut self) {
        self.save_cwnd();
        if self.recovery.is_none() {
            self.undo = Undo { bounds: self.bounds, ended: None };
        }
    }

    fn save_cwnd(&mut self) {
        let disturbed = self.recovery.is_some() || self.state == Bbr3State::ProbeRtt;
        self.prior_cwnd = if disturbed { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// A packet of a probe is lost. `lost` and `in_flight` bytes as of when it left.
    fn check_probe_loss(&mut self, now: Time, sent: &StampedState, bytes: f64) {
        let threshold = self.params.loss_threshold;
        let (lost, in_flight) = (self.lost.saturating_sub(sent.lost) as f64, sent.in_flight as f64);
        if !self.cycle.sampling
            || self.signals.loss_ranges < self.params.min_loss_events
            || !is_too_high(lost, in_flight, threshold)
        {
            return;
        }
        let at_loss = in_flight_at_loss(in_flight, lost, bytes, threshold);
        self.end_probe_too_high(now, at_loss, sent.departure.app_limited);
    }

    /// The flight of a probe was more than the path holds, at about `in_flight` bytes.
    fn end_probe_too_high(&mut self, now: Time, in_flight: f64, app_limited: bool) {
        self.cycle.too_high = true;
        self.cycle.sampling = false;
        if !app_limited {
            let least = self.params.loss_factor * self.target_inflight();
            self.bounds.longterm = in_flight.max(least);
        }
        if self.state == Bbr3State::Up {
            self.undo.ended = Some(Bbr3State::Up);
            self.start_down(now);
        }
    }

    fn leave_recovery(&mut self) {
        self.recovery = None;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// All losses of the recovery were none.
    fn undo_recovery(&mut self, now: Time) {
        self.leave_recovery();
        self.signals.lossy = false;
        self.full_pipe.start_over(0.0);
        self.bounds = self.bounds.loosest(&self.undo.bounds);
        self.bound_bw();
        let ended = self.undo.ended.take().filter(|ended| *ended != self.state);
        if ended == Some(Bbr3State::Startup) {
            self.full_pipe.reached = false;
        }
        // After ProbeRTT the flow goes where it would have gone.
        if self.state != Bbr3State::ProbeRtt {
            match ended {
                Some(Bbr3State::Startup) => self.enter(now, Bbr3State::Startup),
                Some(_) => self.start_refill(now),
                None => {}
            }
        }
        self.set_pacing_rate();
        self.bound_cwnd_for_probe_rtt();
        self.events.push(now, Event::Undone);
    }

    // ---- The controls ----------------------------------------------------------------------

    /// Before there is a bandwidth: the window once per RTT, with the gain of Startup.
    fn pace_by_window(&mut self, rtt: Span) {
        let seconds = rtt.max(Span::from_micros(1)).as_secs_f64();
        self.pacing_rate = self.params.startup_gain * self.cwnd / seconds;
    }

    fn pace_by_first_rtt(&mut self, rtt: Span) {
        if !self.seen_rtt {
            self.seen_rtt = true;
            self.pace_by_window(rtt);
        }
    }

    fn set_pacing_rate(&mut self) {
        let rate = self.paced(self.state.pacing_gain(&self.params));
        // Startup's early samples are too low; a falling rate would keep them so.
        if rate > 0.0 && (self.full_pipe.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// The rate that a gain makes of the bandwidth, less the margin.
    fn paced(&self, gain: f64) -> f64 {
        (gain * self.bw * (1.0 - self.params.margin)).min(Self::MAX_RATE)
    }

    /// Bytes that leave back to back.
    fn quantum(&self) -> f64 {
        let least = 2.0 * self.mss;
        (self.pacing_rate * Self::QUANTUM_TIME).clamp(least, Self::MAX_QUANTUM.max(least))
    }

    fn set_cwnd(&mut self, acked: f64) {
        let gain = self.state.cwnd_gain(&self.params);
        let limit = self.quantise(gain * self.bdp(self.bw) + self.aggregation.extra());
        let delivered = (self.delivery.delivered() - self.path_delivered) as f64;
        if self.full_pipe.reached {
            self.cwnd = (self.cwnd + acked).min(limit);
        } else if self.cwnd < limit || delivered < self.initial_window {
            self.cwnd += acked;
        }
        self.cwnd = self.cwnd.clamp(self.min_window, Self::MAX_WINDOW * self.mss);
        self.bound_cwnd_for_probe_rtt();
        self.bound_cwnd_for_model();
    }

    fn bound_cwnd_for_probe_rtt(&mut self) {
        if self.state == Bbr3State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
    }

    /// Keeps the window within what losses have shown of the path.
    fn bound_cwnd_for_model(&mut self) {
        let longterm = match self.state {
            Bbr3State::Down | Bbr3State::Refill | Bbr3State::Up => self.bounds.longterm,
            Bbr3State::Cruise | Bbr3State::ProbeRtt => self.with_headroom(),
            Bbr3State::Startup | Bbr3State::Drain => f64::INFINITY,
        };
        let bound = longterm.min(self.bounds.inflight_shortterm).max(self.min_window);
        self.cwnd = self.cwnd.min(bound);
    }

    /// Losses have tightened a bound since it was `before`, when the window was `from`.
    fn report_reduction(&mut self, now: Time, before: &LossBounds, from: f64) {
        if self.bounds.is_below(before) {
            let (from, to) = (from as u64, self.cwnd.min(from) as u64);
            self.events.push(now, Event::Reduced { from, to });
        }
    }
}

impl Controller for Bbr3 {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let was_idle = packet.in_flight <= packet.bytes;
        if was_idle && self.delivery.is_app_limited() {
            self.restart_from_idle(packet.now);
        }
        let departure = self.delivery.depart(packet);
        if self.cwnd - (packet.in_flight as f64) < self.mss {
            self.cwnd_limited = true;
        }
        let sent = StampedState { departure, lost: self.lost, in_flight: packet.in_flight };
        sent.pack(packet.now)
    }

    /// The order is that of docs/spec/bbr3.md 6.1.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(sample) = self.sample(ack) else { return };
        let (bounds, cwnd) = (self.bounds, self.cwnd);
        self.pace_by_first_rtt(sample.rtt);
        if self.recovery.is_some_and(|recovery| ack.newest().number >= recovery.end) {
            self.leave_recovery();
        }

        self.marks.on_ack(ack.packets.len() as u64, ack.marked());
        let delivered = self.delivery.delivered();
        self.signals.on_sample(sample.rate, sample.volume, sample.prior_delivered, delivered);
        self.count_round(&sample);
        self.update_max_bw(&sample);
        self.adapt_shortterm();
        self.watch_aggregation(&sample);

        self.check_full_pipe(&sample);
        self.check_startup_losses(&sample);
        self.check_drain(&sample);
        self.advance_cycle(&sample);
        self.update_min_rtt(&sample);
        self.answer_marks(&sample);

        self.signals.advance(sample.rate, sample.volume);
        self.bound_bw();
        self.set_pacing_rate();
        self.set_cwnd(sample.acked);
        if self.round.started {
            self.cwnd_limited = sample.prior_in_flight + self.mss > self.cwnd;
        }
        self.report_reduction(sample.now, &bounds, cwnd);
    }

    fn ecn(&self) -> Ecn {
        if self.params.ecn { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// Marks count at the end of their round.
    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.marks.on_mark(mark.packets);
    }

    fn on_ecn_failed(&mut self, now: Time) {
        self.events.push(now, Event::EcnFailed);
    }

    /// Losses outside of a probe count at the end of their round; those of a probe may end it.
    fn on_loss(&mut self, loss: &Loss<'_>) {
        let (bounds, cwnd, state) = (self.bounds, self.cwnd, self.state);
        let mut losses = 0;
        for packet in loss.packets {
            self.lost = self.lost.saturating_add(packet.bytes);
            if packet.sent_at < self.path_since {
                continue;
            }
            losses += 1;
            let first = self.signals.on_lost(packet.number, self.delivery.delivered());
            if first || self.recovery.is_none() {
                self.note_first_loss();
            }
            let sent = StampedState::unpack(&packet.stamp, packet.sent_at);
            let recovery = self.recovery.get_or_insert(Bbr3LossRecovery {
                end: loss.next_number,
                losses: 0,
                timeout: false,
            });
            recovery.losses += 1;
            recovery.end = loss.next_number;
            self.check_probe_loss(loss.now, &sent, packet.bytes as f64);
        }
        if losses == 0 {
            return;
        }
        self.bound_bw();
        self.bound_cwnd_for_model();
        if self.state != state {
            self.set_pacing_rate();
        }
        self.report_reduction(loss.now, &bounds, cwnd);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let from = self.cwnd;
        self.note_first_loss();
        self.signals.on_congestion(self.delivery.delivered());
        self.lost = self.lost.saturating_add(timeout.prior_in_flight);
        self.full_pipe.start_over(0.0);
        if !self.state.is_accelerating() && self.bounds.inflight_shortterm.is_infinite() {
            self.bounds.inflight_shortterm = self.cwnd.max(self.prior_cwnd);
        }
        self.recovery =
            Some(Bbr3LossRecovery { end: timeout.next_number, losses: 0, timeout: true });
        if self.cycle.sampling {
            self.end_probe_too_high(timeout.now, timeout.prior_in_flight as f64, false);
        }
        self.cwnd = self.mss;
        self.events.push(timeout.now, Event::Timeout);
        if self.cwnd < from {
            let (from, to) = (from as u64, self.cwnd as u64);
            self.events.push(timeout.now, Event::Reduced { from, to });
        }
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        match spurious {
            Spurious::Timeout { now } => {
                if self.recovery.is_some_and(|recovery| recovery.timeout) {
                    self.undo_recovery(*now);
                }
            }
            Spurious::Loss { now, packet } => {
                self.delivery.count(*now, packet.bytes);
                self.lost = self.lost.saturating_sub(packet.bytes);
                let Some(recovery) = &mut self.recovery else { return };
                if packet.sent_at < self.path_since {
                    return;
                }
                recovery.losses = recovery.losses.saturating_sub(1);
                if recovery.losses == 0 && !recovery.timeout {
                    self.undo_recovery(*now);
                }
            }
        }
    }

    /// As at the start, except that what was counted counts on.
    fn on_path_change(&mut self, now: Time) {
        let setup = Setup { mss: self.mss as u64, start: now, random: self.random.clone() };
        let fresh = Self::new(&self.params, setup);
        let phase_changes = self.state.phase() != fresh.state.phase();
        let delivered = self.delivery.delivered();
        let events = std::mem::take(&mut self.events);
        *self = Self {
            delivery: DeliveryRate::resumed(now, delivered),
            lost: self.lost,
            round: Bbr3RoundCount { end: delivered, ..self.round },
            path_delivered: delivered,
            signals: RoundSignals::new(delivered),
            events,
            ..fresh
        };
        self.events.push(now, Event::Restart);
        if phase_changes {
            self.events.push(now, Event::Phase(self.state.phase()));
        }
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.cwnd as u64)
    }

    fn pacing(&self) -> Option<Pacing> {
        // One packet per second at least: a rate of zero would stop the flow for good.
        let rate = Rate::from_bytes_per_sec(self.pacing_rate.max(self.mss));
        Some(Pacing { rate, burst: self.quantum() as u64 })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let packets = |bytes: f64| if bytes.is_finite() { bytes / self.mss } else { -1.0 };
        show("cwnd_pkts", packets(self.cwnd));
        show("state", f64::from(self.state as u8));
        show("bottleneck_mbps", self.max_bw.max() * 8e-6);
        show("bandwidth_mbps", self.bw * 8e-6);
        show("base_rtt_ms", self.min_rtt.known().unwrap_or(Span::ZERO).as_millis_f64());
        show("bdp_pkts", packets(self.bdp(self.bw)));
        show("inflight_longterm_pkts", packets(self.bounds.longterm));
        show("inflight_shortterm_pkts", packets(self.bounds.inflight_shortterm));
        show("aggregation_pkts", packets(self.aggregation.extra()));
        show("ecn_alpha", self.marks.alpha);
        show("pacing_gain", self.state.pacing_gain(&self.params));
        show("cwnd_gain", self.state.cwnd_gain(&self.params));
        show("pacing_mbps", self.pacing_rate * 8e-6);
        show("rounds", self.round.count as f64);
        show("full_pipe", f64::from(u8::from(self.full_pipe.reached)));
        show("recovery", f64::from(u8::from(self.recovery.is_some())));
    }
}

#[cfg(test)]
mod tests;
