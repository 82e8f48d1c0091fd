//! BBR version 1 (Cardwell et al., ACM Queue 14(5), 2016; the form of Linux 4.9): a model of the
//! path, bottleneck bandwidth and round-trip propagation time, sets pacing rate and window.
//!
//! Deviations from Linux 4.9: the bandwidth maximum is exact where Linux keeps three samples; the
//! initial pacing rate is set anew at the first RTT (Linux 4.13), because a datapath without a
//! handshake would otherwise keep the rate for 1 ms through all of STARTUP; recovery ends when a
//! packet sent after its last loss is acked, as there is no cumulative ack here. (To end it at the
//! first packet sent after its beginning would, under steady random loss, start one recovery after
//! the other and conserve packets for ever.) The flight that ends DRAIN and the phases is the BDP
//! of the paper, unless `phase_quanta` is set. The preset `linux` is closest to today's Linux.

mod aggregation;
mod drain;
mod params;
mod policer;
mod probe_bw;
mod probe_rtt;
mod startup;

use cellpace_base::Window;

use self::aggregation::{Aggregation, Bundle};
pub(crate) use self::params::BbrParams;
use self::policer::{DeliveryProgress, Policer, PolicerVerdict};
use self::probe_bw::GainCycle;
use self::probe_rtt::{RttProbe, RttProbeStep};
use self::startup::FullPipe;
use crate::delivery_rate::{DeliveryRate, RateSample};
use crate::extremes::WindowedMax;
use crate::{
    Ack, Controller, ControllerParams, Event, Events, Loss, Pacing, Permit, Phase, Random, Rate,
    RttEstimator, SentPacket, Setup, Span, Spurious, Stamp, Time, Timeout,
};

impl ControllerParams for BbrParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Bbr::new(self, setup))
    }
}

/// The controller. Windows in packets, rates in bytes per second.
struct Bbr {
    params: BbrParams,
    /// Initial and smallest window.
    initial_window: u64,
    min_window: u64,
    mss: u64,
    random: Random,

    // The model
    delivery: DeliveryRate,
    btl_bw: WindowedMax,
    round: RoundCount,
    rtprop: Option<Span>,
    rtprop_at: Time,
    aggregation: Option<Aggregation>,
    /// The path has been this one since then; samples of older packets are another path's.
    path_since: Time,

    // The state machine
    mode: BbrPhase,
    pacing_gain: f64,
    cwnd_gain: f64,
    full_pipe: FullPipe,
    cycle: GainCycle,
    probe_rtt: RttProbe,
    idle_restart: bool,
    policer: Option<Policer>,

    // The controls
    pacing_rate: f64,
    paced_by_rtt: bool,
    cwnd: u64,
    /// The window to come back to after recovery and PROBE_RTT.
    prior_cwnd: u64,
    recovery: Option<LossRecovery>,
    /// First round of recovery: one packet out per packet in.
    conserving: bool,
    lost: u64,
    lost_since_ack: bool,
    last_ack: (Time, u64),
    events: Events,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BbrPhase {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Rounds of the flow, counted in packets: one ends when a packet is acked that left after the
/// round before had ended.
#[derive(Debug, Clone, Copy, Default)]
struct RoundCount {
    count: u64,
    /// Bytes delivered at the end of the last round.
    end: u64,
    /// Whether the current ack began a round.
    started: bool,
}

#[derive(Debug, Clone, Copy)]
struct LossRecovery {
    /// Packets from this one on were sent after its last loss.
    end: u64,
    /// Losses that could still turn out to be none; timeouts are answered by the datapath.
    losses: u64,
    timeout: bool,
}

impl Bbr {
    /// Packets. More than any path holds; keeps everything finite.
    const MAX_WINDOW: u64 = 1 << 20;
    /// Assumed before the first RTT (Linux 4.9).
    const UNKNOWN_RTT: Span = Span::from_millis(1);
    /// Bytes per second below which a quantum is one packet: 1.2 Mbit/s (Linux 4.9).
    const SLOW: f64 = 1.2e6 / 8.0;
    /// Packets a quantum has at most (Linux 4.9).
    const MAX_QUANTUM: u64 = 127;
    /// Sending quanta added to the window for delayed and bundled acks (Linux 4.9).
    const QUANTA: u64 = 3;

    fn new(params: &BbrParams, setup: Setup) -> Self {
        let packets = |window: Window| {
            (window.bytes(setup.mss) / setup.mss.max(1)).clamp(1, Self::MAX_WINDOW)
        };
        let initial_window = packets(params.initial_window);
        let mss = setup.mss.max(1);
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        let mut bbr = Self {
            mss,
            random: setup.random,
            delivery: DeliveryRate::new(setup.start),
            // One sample per round at most stays in it.
            btl_bw: WindowedMax::new(probe_bw::BW_WINDOW as usize + 2),
            round: RoundCount::default(),
            rtprop: None,
            rtprop_at: setup.start,
            aggregation: params.aggregation.then(|| Aggregation::new(setup.start)),
            path_since: setup.start,
            mode: BbrPhase::Startup,
            pacing_gain: startup::GAIN,
            cwnd_gain: startup::GAIN,
            full_pipe: FullPipe::default(),
            cycle: GainCycle { phase: 0, since: setup.start },
            probe_rtt: RttProbe::default(),
            idle_restart: false,
            policer: params.policer.then(Policer::default),
            pacing_rate: 0.0,
            paced_by_rtt: false,
            cwnd: initial_window,
            prior_cwnd: 0,
            recovery: None,
            conserving: false,
            lost: 0,
            lost_since_ack: false,
            last_ack: (setup.start, 0),
            events,
            initial_window,
            min_window: packets(params.min_window),
            params: params.clone(),
        };
        bbr.pace_by_window(Self::UNKNOWN_RTT);
        bbr
    }

    // ---- The model -------------------------------------------------------------------------

    fn count_round(&mut self, sample: &RateSample) {
        self.round.started = sample.prior_delivered >= self.round.end;
        if self.round.started {
            self.round.end = self.delivery.delivered();
            self.round.count += 1;
            self.conserving = false;
        }
    }

    fn update_btl_bw(&mut self, sample: &RateSample) {
        let Some(rate) = sample.rate else { return };
        // A lack of data only ever hides bandwidth.
        if !sample.app_limited || rate >= self.btl_bw() {
            self.btl_bw.push(self.round.count, rate, probe_bw::BW_WINDOW);
        }
    }

    /// Bottleneck bandwidth in bytes per second, zero before the first sample.
    fn btl_bw(&self) -> u64 {
        self.btl_bw.extreme().unwrap_or(0)
    }

    /// The bandwidth in use: the policer's where one was found.
    fn bandwidth(&self) -> u64 {
        self.policed().unwrap_or_else(|| self.btl_bw())
    }

    fn policed(&self) -> Option<u64> {
        self.policer.as_ref().and_then(Policer::rate)
    }

    fn watch_policer(&mut self, now: Time, app_limited: bool) {
        let Some(policer) = &mut self.policer else { return };
        let verdict = policer.on_ack(&DeliveryProgress {
            now,
            delivered: self.delivery.delivered(),
            lost: self.lost,
            lossy: self.lost_since_ack,
            round_start: self.round.started,
            app_limited,
            probing: self.mode == BbrPhase::ProbeBw,
        });
        match verdict {
            PolicerVerdict::Same => {}
            PolicerVerdict::Found => self.pacing_gain = 1.0,
            PolicerVerdict::Over => self.enter_probe_bw(now),
        }
    }

    fn watch_aggregation(&mut self, now: Time, packets: u64) {
        let bandwidth = self.packet_rate();
        let (cwnd, round_start) = (self.cwnd, self.round.started);
        let Some(aggregation) = &mut self.aggregation else { return };
        aggregation.on_ack(&Bundle { now, packets, bandwidth, cwnd, round_start });
    }

    /// The bandwidth in packets per second.
    fn packet_rate(&self) -> f64 {
        self.bandwidth() as f64 / self.mss as f64
    }

    /// Packets that the window gets for bundled acks. Before the pipe is full the bandwidth is
    /// too low an estimate to distinguish bundles from growth.
    fn bundled(&self) -> u64 {
        let aggregation = self.aggregation.as_ref().filter(|_| self.full_pipe.reached);
        aggregation.map_or(0, |aggregation| aggregation.allowance(self.packet_rate()))
    }

    fn update_rtprop(&mut self, ack: &Ack<'_>) {
        let now = ack.now;
        let expired = now > self.rtprop_at + self.params.rtprop_window;
        let of_this_path = ack.packets.iter().filter(|packet| packet.sent_at >= self.path_since);
        let sample = of_this_path.map(|packet| packet.rtt).min();
        let better = |rtt: &Span| expired || self.rtprop.is_none_or(|rtprop| *rtt <= rtprop);
        if let Some(rtt) = sample.filter(better) {
            if self.rtprop != Some(rtt) {
                self.events.push(now, Event::BaseDelay(rtt));
            }
            self.rtprop = Some(rtt);
            self.rtprop_at = now;
        }
        if expired && !self.idle_restart && self.mode != BbrPhase::ProbeRtt {
            self.enter_probe_rtt(now);
        }
        if self.mode == BbrPhase::ProbeRtt {
            self.probe_rtt(now, ack.in_flight);
        }
        self.idle_restart = false;
    }

    /// `gain` bandwidth-delay products in packets, rounded up; the initial window before there is
    /// a model.
    fn bdp(&self, bandwidth: u64, gain: f64) -> u64 {
        let Some(rtprop) = self.rtprop.filter(|_| bandwidth > 0) else {
            return self.initial_window;
        };
        let bytes_by_nanos = gain * bandwidth as f64 * rtprop.as_nanos() as f64;
        let packets = bytes_by_nanos / (self.mss as f64 * 1e9);
        // A product of exactly 40 packets must not become 41 by the last bit.
        ((packets - 1e-6).ceil() as u64).min(Self::MAX_WINDOW)
    }

    // ---- The state machine -----------------------------------------------------------------

    fn check_full_pipe(&mut self, sample: &RateSample) {
        if self.round.started && !sample.app_limited {
            self.full_pipe.end_round(self.btl_bw());
        }
    }

    fn check_drain(&mut self, now: Time, in_flight: u64) {
        if self.mode == BbrPhase::Startup && self.full_pipe.reached {
            self.enter(now, BbrPhase::Drain, drain::PACING_GAIN, drain::CWND_GAIN);
        }
        if self.mode == BbrPhase::Drain
            && drain::is_over(self.packets(in_flight), self.target_flight(1.0))
        {
            self.enter_probe_bw(now);
        }
    }

    fn enter_probe_bw(&mut self, now: Time) {
        self.cycle = GainCycle::start(now, &mut self.random);
        self.enter(now, BbrPhase::ProbeBw, self.cycle_gain(), probe_bw::CWND_GAIN);
    }

    fn update_cycle(&mut self, now: Time, prior_in_flight: u64) {
        if self.mode != BbrPhase::ProbeBw || self.policed().is_some() {
            return;
        }
        if self.is_next_phase(now, prior_in_flight) {
            self.cycle.advance(now);
            self.pacing_gain = self.cycle_gain();
        }
    }

    fn cycle_gain(&self) -> f64 {
        if self.policed().is_some() { 1.0 } else { self.cycle.gain() }
    }

    fn is_next_phase(&self, now: Time, prior_in_flight: u64) -> bool {
        self.cycle.is_phase_over(
            now,
            self.pacing_gain,
            self.rtprop.unwrap_or(Span::ZERO),
            self.lost_since_ack,
            self.packets(prior_in_flight),
            |gain| self.target_flight(gain),
        )
    }

    /// What DRAIN and the phases of PROBE_BW want in flight.
    fn target_flight(&self, gain: f64) -> u64 {
        let bdp = self.bdp(self.btl_bw(), gain);
        if self.params.phase_quanta { self.with_quanta(bdp) } else { bdp }
    }

    fn enter_probe_rtt(&mut self, now: Time) {
        self.save_cwnd();
        self.probe_rtt = RttProbe::default();
        self.enter(now, BbrPhase::ProbeRtt, 1.0, 1.0);
    }

    fn probe_rtt(&mut self, now: Time, in_flight: u64) {
        // The rate of an empty pipe is not that of the path.
        self.delivery.hold_app_limited(in_flight.max(1));
        let nearly_empty = self.packets(in_flight) <= self.min_window;
        match self.probe_rtt.on_ack(now, nearly_empty, self.round.started) {
            RttProbeStep::Same => {}
            RttProbeStep::PipeEmpty => self.round.end = self.delivery.delivered(),
            RttProbeStep::Over => {
                self.rtprop_at = now;
                self.cwnd = self.cwnd.max(self.prior_cwnd);
                self.leave_probe_rtt(now);
            }
        }
    }

    fn leave_probe_rtt(&mut self, now: Time) {
        if self.full_pipe.reached {
            self.enter_probe_bw(now);
        } else {
            self.enter_startup(now);
        }
    }

    fn enter_startup(&mut self, now: Time) {
        self.enter(now, BbrPhase::Startup, startup::GAIN, startup::GAIN);
    }

    fn enter(&mut self, now: Time, mode: BbrPhase, pacing_gain: f64, cwnd_gain: f64) {
        let changed = self.mode != mode;
        self.mode = mode;
        self.pacing_gain = pacing_gain;
        self.cwnd_gain = cwnd_gain;
        if changed {
            self.events.push(now, Event::Phase(mode.phase()));
        }
    }

    // ---- The controls ----------------------------------------------------------------------

    fn set_pacing_rate(&mut self, rtt: &RttEstimator) {
        if !self.paced_by_rtt
            && let Some(smoothed) = rtt.smoothed()
        {
            self.paced_by_rtt = true;
            self.pace_by_window(smoothed);
        }
        let bandwidth = self.bandwidth();
        if bandwidth == 0 {
            return;
        }
        let rate = self.pacing_gain * self.paced(bandwidth);
        // STARTUP's early samples are too low; a falling rate would keep them so.
        if self.mode != BbrPhase::Startup || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// A bandwidth less the margin, in bytes per second.
    fn paced(&self, bandwidth: u64) -> f64 {
        bandwidth as f64 * (1.0 - self.params.margin)
    }

    /// Before there is a bandwidth: the window once per RTT, with STARTUP's gain.
    fn pace_by_window(&mut self, rtt: Span) {
        let seconds = rtt.max(Span::from_micros(1)).as_secs_f64();
        self.pacing_rate = startup::GAIN * (self.cwnd * self.mss) as f64 / seconds;
    }

    /// Packets that leave back to back: what 1 ms holds.
    fn quantum(&self) -> u64 {
        let least = if self.pacing_rate < Self::SLOW { 1 } else { 2 };
        let of_1_ms = (self.pacing_rate * 0.001 / self.mss as f64) as u64;
        of_1_ms.clamp(least, Self::MAX_QUANTUM)
    }

    /// Gain times the BDP, room for bundled acks, an even number of packets.
    fn target_cwnd(&self) -> u64 {
        self.with_quanta(self.bdp(self.bandwidth(), self.cwnd_gain) + self.bundled())
    }

    fn with_quanta(&self, window: u64) -> u64 {
        (window + Self::QUANTA * self.quantum()).next_multiple_of(2)
    }

    fn set_cwnd(&mut self, acked: u64, in_flight: u64) {
        let target = self.target_cwnd();
        if self.conserving {
            self.cwnd = self.cwnd.max(self.packets(in_flight) + acked);
        } else if self.full_pipe.reached {
            self.cwnd = (self.cwnd + acked).min(target);
        } else if self.cwnd < target || self.delivery.delivered() < self.init_bytes() {
            self.cwnd += acked;
        }
        if !self.conserving {
            self.cwnd = self.cwnd.max(self.min_window);
        }
        if self.mode == BbrPhase::ProbeRtt {
            self.cwnd = self.cwnd.min(self.min_window);
        }
        self.cwnd = self.cwnd.min(Self::MAX_WINDOW);
    }

    fn init_bytes(&self) -> u64 {
        self.initial_window * self.mss
    }

    fn save_cwnd(&mut self) {
        let disturbed = self.recovery.is_some() || self.mode == BbrPhase::ProbeRtt;
        self.prior_cwnd = if disturbed { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn enter_recovery(&mut self, loss: &Loss<'_>) {
        let from = self.cwnd;
        self.save_cwnd();
        let losses = loss.packets.len() as u64;
        self.recovery = Some(LossRecovery { end: loss.next_number, losses, timeout: false });
        // One packet out per packet in, for one whole round from here.
        self.conserving = true;
        self.round.end = self.delivery.delivered();
        let (acked_at, acked) = self.last_ack;
        let just_acked = if acked_at == loss.now { acked } else { 0 };
        self.cwnd = (self.packets(loss.in_flight) + just_acked).clamp(1, Self::MAX_WINDOW);
        self.events.push(loss.now, Event::Phase(Phase::Recovery));
        if self.cwnd < from {
            let (from, to) = (from * self.mss, self.cwnd());
            self.events.push(loss.now, Event::Reduced { from, to });
        }
    }

    fn deepen_recovery(&mut self, losses: u64, in_flight: u64) {
        self.cwnd = self.cwnd.saturating_sub(losses).max(1);
        if self.conserving {
            self.cwnd = self.cwnd.max(self.packets(in_flight)).min(Self::MAX_WINDOW);
        }
    }

    fn leave_recovery(&mut self, now: Time) {
        self.recovery = None;
        self.conserving = false;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.events.push(now, Event::Phase(self.mode.phase()));
    }

    fn undo_recovery(&mut self, now: Time) {
        self.leave_recovery(now);
        self.full_pipe.start_over();
        if self.mode == BbrPhase::ProbeRtt {
            self.cwnd = self.cwnd.min(self.min_window);
        }
        self.events.push(now, Event::Undone);
    }

    fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mss)
    }
}

impl BbrPhase {
    fn phase(self) -> Phase {
        match self {
            Self::Startup => Phase::SlowStart,
            Self::Drain => Phase::Drain,
            Self::ProbeBw => Phase::ProbeBw,
            Self::ProbeRtt => Phase::ProbeRtt,
        }
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let was_idle = packet.in_flight <= packet.bytes;
        if was_idle && self.delivery.is_app_limited() {
            // A pause is no reason to probe; start with what is known.
            self.idle_restart = true;
            if self.mode == BbrPhase::ProbeBw && self.bandwidth() > 0 {
                self.pacing_rate = self.paced(self.bandwidth());
            }
        }
        self.delivery.on_sent(packet)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let newest = *ack.newest();
        let acked = ack.packets.len() as u64;
        let mut sample = self.delivery.on_ack(ack);
        if newest.sent_at < self.path_since {
            sample.rate = None;
        }
        self.count_round(&sample);
        if self.recovery.is_some_and(|recovery| newest.number >= recovery.end) {
            self.leave_recovery(ack.now);
        }
        self.watch_policer(ack.now, sample.app_limited);
        self.update_btl_bw(&sample);
        self.watch_aggregation(ack.now, acked);
        self.update_cycle(ack.now, ack.prior_in_flight);
        self.check_full_pipe(&sample);
        self.check_drain(ack.now, ack.in_flight);
        self.update_rtprop(ack);
        self.set_pacing_rate(ack.rtt);
        self.set_cwnd(acked, ack.in_flight);
        self.lost_since_ack = false;
        self.last_ack = (ack.now, acked);
    }

    /// The model does not change: only the window, until the lost packets are made up for.
    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.lost = self.lost.saturating_add(loss.bytes());
        self.lost_since_ack = true;
        let losses = loss.packets.len() as u64;
        let Some(recovery) = &mut self.recovery else {
            self.enter_recovery(loss);
            return;
        };
        recovery.losses += losses;
        recovery.end = loss.next_number;
        self.deepen_recovery(losses, loss.in_flight);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let from = self.cwnd;
        self.save_cwnd();
        self.lost = self.lost.saturating_add(timeout.prior_in_flight);
        self.lost_since_ack = true;
        self.recovery = Some(LossRecovery { end: timeout.next_number, losses: 0, timeout: true });
        self.conserving = false;
        self.cwnd = 1;
        // Linux 4.9: what was measured may hold no longer, and the round is over.
        self.full_pipe.bw = 0;
        self.round.end = self.delivery.delivered();
        self.events.push(timeout.now, Event::Timeout);
        if self.cwnd < from {
            let (from, to) = (from * self.mss, self.cwnd());
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
                recovery.losses = recovery.losses.saturating_sub(1);
                if recovery.losses == 0 && !recovery.timeout {
                    self.undo_recovery(*now);
                }
            }
        }
    }

    /// Forgets the model and starts up again from the present window, paced over the old RTT.
    fn on_path_change(&mut self, now: Time) {
        if self.mode == BbrPhase::ProbeRtt || self.recovery.is_some() {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
        self.pace_by_window(self.rtprop.unwrap_or(Self::UNKNOWN_RTT));
        self.btl_bw.clear();
        self.rtprop = None;
        self.rtprop_at = now;
        self.aggregation = self.params.aggregation.then(|| Aggregation::new(now));
        self.path_since = now;
        self.full_pipe = FullPipe::default();
        self.policer = self.params.policer.then(Policer::default);
        self.recovery = None;
        self.conserving = false;
        self.events.push(now, Event::Restart);
        self.enter_startup(now);
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.cwnd.saturating_mul(self.mss))
    }

    fn pacing(&self) -> Option<Pacing> {
        // One packet per second at least: a rate of zero would stop the flow for good.
        let rate = Rate::from_bytes_per_sec(self.pacing_rate.max(self.mss as f64));
        Some(Pacing { rate, burst: self.quantum().saturating_mul(self.mss) })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.cwnd as f64);
        show("bottleneck_mbps", self.btl_bw() as f64 * 8e-6);
        show("base_rtt_ms", self.rtprop.unwrap_or(Span::ZERO).as_millis_f64());
        show("bdp_pkts", self.bdp(self.btl_bw(), 1.0) as f64);
        show("pacing_gain", self.pacing_gain);
        show("cwnd_gain", self.cwnd_gain);
        show("pacing_mbps", self.pacing_rate * 8e-6);
        show("rounds", self.round.count as f64);
        show("full_pipe", f64::from(u8::from(self.full_pipe.reached)));
        show("recovery", f64::from(u8::from(self.recovery.is_some())));
        show("aggregation_pkts", self.bundled() as f64);
        show("policed_mbps", self.policed().unwrap_or(0) as f64 * 8e-6);
    }
}

#[cfg(test)]
mod tests;
