//! SCReAM v2: self-clocked rate adaptation for interactive video. draft-johansson-ccwg-rfc8298bis-screamv2,
//! after RFC 8298. A window by queueing delay, loss and marks, and the rate that the encoder gets of it.

mod averages;
mod competing;
mod marks;
mod media;
mod params;
#[cfg(test)]
mod tests;

use cellpace_base::{Ecn, Span, Time};

use self::averages::{QueueDelay, is_due};
use self::competing::DelayTarget;
use self::marks::MarkedShare;
use self::media::MediaRate;
use self::params::EcnUse;
pub(crate) use self::params::ScreamParams;
use crate::delay_history::DelayHistory;
use crate::{
    Ack, Controller, ControllerParams, Event, Events, Frame, Loss, Mark, Pacing, Permit, Phase,
    Rate, SentPacket, Setup, Stamp, Timeout,
};

/// Minutes for which the base delay is remembered.
const BASE_HISTORY: u64 = 10;

/// Weight of a round trip in the average of the smallest queueing delays, which shows clocks that drift.
const DRIFT_GAIN: f64 = 1.0 / 256.0;

/// Round trips between two updates of the window in front of which growth is slow.
const INFLECTION_RTTS: u64 = 10;

/// Sums of windows stay exact, and nothing overflows.
const MAX_WINDOW: f64 = (1_u64 << 48) as f64;

impl ControllerParams for ScreamParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Scream::new(self, &setup))
    }

    fn check(&self) -> Result<(), String> {
        let Self { min_rate, max_rate, target, max_target, .. } = self;
        if min_rate > max_rate {
            return Err(format!("min_rate={min_rate} is above max_rate={max_rate}"));
        }
        if target > max_target {
            return Err(format!("target={target} is above max_target={max_target}"));
        }
        if self.overhead_min > self.overhead_max {
            let (least, most) = (self.overhead_min, self.overhead_max);
            return Err(format!("overhead_min={least} is above overhead_max={most}"));
        }
        Ok(())
    }
}

/// Windows are in bytes and may be fractional, times in seconds where they are `f64`.
struct Scream {
    params: ScreamParams,
    mss: f64,
    min_window: f64,
    /// ref_wnd
    window: f64,
    /// ref_wnd_i: where the window last had to be reduced.
    inflection: f64,
    inflection_at: Option<Time>,
    delay: DelayHistory,
    queue: QueueDelay,
    target: DelayTarget,
    marks: MarkedShare,
    media: MediaRate,
    flight: RoundFlight,
    drift: Drift,
    /// `None` before the first sample.
    srtt: Option<Span>,
    last_reaction: Option<Time>,
    last_congestion: Option<Time>,
    /// A loss since the last reaction, and a mark.
    has_loss: bool,
    has_mark: bool,
    /// Bytes acked without a mark, or lost, since the last update.
    acked: f64,
    /// Marks that the last ack named, for datapaths that report more than they name.
    named: u64,
    events: Events,
}

/// The most that was in flight in this round trip, and in the one before.
#[derive(Debug, Clone, Copy, Default)]
struct RoundFlight {
    start: Option<Time>,
    max: u64,
    previous: u64,
    has_loss: bool,
}

/// The average of the smallest queueing delays of round trips. A base delay that has become longer, by
/// a clock that drifts or another path, keeps it above zero.
#[derive(Debug, Clone, Copy)]
struct Drift {
    min: f64,
    average: f64,
}

impl Drift {
    const NONE: Self = Self { min: f64::INFINITY, average: 0.0 };
}

/// Why the window is reduced.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reduction {
    Loss,
    /// A mark that stands for a loss (RFC 3168).
    ClassicMark,
    /// One of many (RFC 9331).
    L4sMark,
    /// By this share of the most that a delay reduces.
    Delay(f64),
}

impl Scream {
    fn new(params: &ScreamParams, setup: &Setup) -> Self {
        let mss = setup.mss.max(1) as f64;
        let min_window = (params.min_window.bytes(setup.mss) as f64).clamp(mss, MAX_WINDOW);
        let initial = params.initial_window.bytes(setup.mss) as f64;
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::Avoidance));
        Self {
            mss,
            min_window,
            window: initial.clamp(min_window, MAX_WINDOW),
            inflection: 1.0,
            inflection_at: None,
            delay: DelayHistory::new(BASE_HISTORY, 1, setup.start),
            queue: QueueDelay::new(params),
            target: DelayTarget::new(
                params.target.as_secs_f64(),
                params.max_target.as_secs_f64(),
                params.compete,
            ),
            marks: MarkedShare::new(params),
            media: MediaRate::new(params, mss),
            flight: RoundFlight::default(),
            drift: Drift::NONE,
            srtt: None,
            last_reaction: None,
            last_congestion: None,
            has_loss: false,
            has_mark: false,
            acked: 0.0,
            named: 0,
            events,
            params: params.clone(),
        }
    }

    /// The MSS as a share of the window.
    fn ratio(&self) -> f64 {
        (self.mss / self.window).min(1.0)
    }

    /// Once per batch of acks or losses.
    fn update(&mut self, now: Time) {
        let Some(srtt) = self.srtt else { return };
        self.marks.update(now, srtt);
        self.queue.update(now, srtt, self.ratio());
        if is_due(self.flight.start, now, srtt) {
            self.end_round(now, srtt);
        }
        let scale = self.scale();
        if self.has_loss || self.has_mark {
            self.last_congestion = Some(now);
        }
        if let Some(reduction) = self.reduction(now, srtt) {
            self.reduce(now, srtt, scale, reduction);
        }
        self.grow(now, srtt, scale);
        self.media.update(now, self.window, srtt, self.ratio());
    }

    fn end_round(&mut self, now: Time, srtt: Span) {
        let RoundFlight { max, has_loss, .. } = self.flight;
        self.flight = RoundFlight { start: Some(now), max: 0, previous: max, has_loss: false };
        self.target.on_round(self.queue.current, has_loss);
        if self.drift.min.is_finite() {
            self.drift.average += DRIFT_GAIN * (self.drift.min - self.drift.average);
        }
        self.drift.min = f64::INFINITY;
        if self.drift.average > self.target.now / 4.0 {
            self.delay.forget();
            self.queue.forget();
            self.drift = Drift::NONE;
            self.media.halve_until(now + (srtt * 5).max(Span::from_millis(200)));
        }
    }

    /// Slow growth near the window at which there was congestion.
    fn scale(&self) -> f64 {
        let distance = 8.0 * (self.window - self.inflection) / self.inflection;
        (distance * distance).clamp(0.1, 1.0)
    }

    fn reduction(&self, now: Time, srtt: Span) -> Option<Reduction> {
        if !is_due(self.last_reaction, now, self.params.vrtt.min(srtt)) {
            return None;
        }
        // Once per RTT, which a virtual RTT of 25 ms alone would not be on long paths.
        let is_next_round = is_due(self.last_reaction, now, srtt);
        if self.has_loss && is_next_round {
            return Some(Reduction::Loss);
        }
        if self.has_mark && self.params.ecn == EcnUse::L4s {
            return Some(Reduction::L4sMark);
        }
        if self.has_mark && is_next_round {
            return Some(Reduction::ClassicMark);
        }
        let half = self.target.now / 2.0;
        let excess = self.queue.average - half;
        (excess > 0.0).then(|| Reduction::Delay((excess / half).min(1.0)))
    }

    fn reduce(&mut self, now: Time, srtt: Span, scale: f64, reduction: Reduction) {
        let from = self.window;
        if self.inflection_at.is_none_or(|at| now.since(at) > srtt * INFLECTION_RTTS) {
            (self.inflection, self.inflection_at) = (self.window, Some(now));
        }
        if reduction == Reduction::L4sMark {
            self.forget_unused(now, srtt);
        }
        self.window *= match reduction {
            Reduction::Loss => self.params.loss_factor,
            Reduction::ClassicMark => self.params.mark_factor,
            Reduction::L4sMark => 1.0 - self.marked_reduction(srtt, scale),
            Reduction::Delay(share) => 1.0 - share / 2.0 / self.virtual_rtts(srtt).max(1.0),
        };
        self.window = self.window.max(self.min_window);
        self.last_reaction = Some(now);
        (self.has_loss, self.has_mark) = (false, false);
        let (from, to) = (from as u64, self.window as u64);
        self.events.push(now, Event::Reduced { from, to });
    }

    /// After a long time without congestion the window may be far above what was in flight.
    fn forget_unused(&mut self, now: Time, srtt: Span) {
        let long = srtt.max(self.params.vrtt).mul_f64(self.params.post_rtts);
        let previous = self.flight.previous as f64;
        if self.last_reaction.is_none_or(|at| now.since(at) > long) && previous > 0.0 {
            self.window = self.window.min(previous);
        }
    }

    /// Section 5.3: the share of the window that a mark of the L4S service takes.
    fn marked_reduction(&self, srtt: Span, scale: f64) -> f64 {
        let share = self.marks.alpha / 2.0 / self.virtual_rtts(srtt).max(1.0);
        if self.queue.current >= self.target.now / 4.0 {
            return share;
        }
        share * scale.max(0.25) * self.queue.steadiness()
    }

    /// The RTT in units of the virtual one.
    fn virtual_rtts(&self, srtt: Span) -> f64 {
        srtt.as_secs_f64() / self.params.vrtt.as_secs_f64()
    }

    fn grow(&mut self, now: Time, srtt: Span, scale: f64) {
        let acked = std::mem::take(&mut self.acked);
        let quiet = self.last_congestion.map_or(f64::INFINITY, |at| now.since(at).as_secs_f64());
        let round = srtt.max(self.params.vrtt).as_secs_f64();
        let post = (quiet / (self.params.post_rtts * round)).clamp(0.0, 1.0);
        let multiplied = 1.0 + self.params.mul_increase * self.window / self.mss * post * scale;
        let increase = acked
            * self.ratio()
            * self.virtual_rtts(srtt).min(1.0)
            * scale.max(0.25)
            * self.queue.steadiness()
            * multiplied;
        let peak = self.flight.max.max(self.flight.previous) as f64;
        let bound = self.mss + self.params.head_room * peak;
        if self.window + increase <= bound.min(MAX_WINDOW) && !self.media.is_at_max() {
            self.window += increase;
        }
    }

    /// What may be in flight as a multiple of the window.
    fn overhead(&self) -> f64 {
        let (least, most) = (self.params.overhead_min, self.params.overhead_max);
        least + (most - least) * self.queue.calm()
    }

    /// In bit/s.
    fn pacing_rate(&self) -> f64 {
        let rate = self.media.target.max(self.params.pace_min.as_bps() as f64);
        let from = self.params.relax_from;
        let relaxed = ((self.media.share_of_max() - from) / (1.0 - from)).min(1.0);
        let slower = (1.0 - relaxed).clamp(1.0 / self.params.relax_max, 1.0);
        rate * self.params.pace_headroom / slower
    }
}

impl Controller for Scream {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.flight.max = self.flight.max.max(packet.in_flight);
        Stamp::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(last) = ack.packets.last() else { return };
        self.srtt = Some(ack.rtt.smoothed().unwrap_or(last.rtt));
        self.named = ack.marked();
        self.has_mark |= self.named > 0;
        self.marks.count(ack.packets.len() as u64, self.named);
        for packet in ack.packets {
            self.delay.sample(ack.now, packet);
            self.queue.current = self.delay.queueing_ns() / 1e9;
            self.drift.min = self.drift.min.min(self.queue.current);
            self.acked += if packet.ecn.is_marked() { 0.0 } else { packet.bytes as f64 };
        }
        self.update(ack.now);
    }

    fn ecn(&self) -> Ecn {
        match self.params.ecn {
            EcnUse::Off => Ecn::NotEct,
            EcnUse::Classic => Ecn::Ect0,
            EcnUse::L4s => Ecn::Ect1,
        }
    }

    /// Marks that the ack has named are answered already.
    fn on_mark(&mut self, mark: &Mark<'_>) {
        let unnamed = mark.packets.saturating_sub(self.named);
        self.named = 0;
        if unnamed == 0 {
            return;
        }
        self.has_mark = true;
        self.marks.count(0, unnamed);
        self.update(mark.now);
    }

    fn on_ecn_failed(&mut self, now: Time) {
        self.events.push(now, Event::EcnFailed);
    }

    /// Lost packets count as acked for growth, as the draft's highest sequence number does.
    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.has_loss = true;
        self.flight.has_loss = true;
        self.acked += loss.bytes() as f64;
        self.update(loss.now);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.window = (self.window / 2.0).max(self.min_window);
        (self.last_reaction, self.last_congestion) = (Some(timeout.now), Some(timeout.now));
        (self.has_loss, self.has_mark) = (false, false);
        self.events.push(timeout.now, Event::Timeout);
        if let Some(srtt) = self.srtt {
            self.media.update(timeout.now, self.window, srtt, self.ratio());
        }
    }

    /// The base delay is another one; the window stays, as the draft does not start over.
    fn on_path_change(&mut self, now: Time) {
        self.delay.forget();
        self.queue.forget();
        self.marks.forget();
        self.drift = Drift::NONE;
        self.events.push(now, Event::Restart);
    }

    fn on_frame(&mut self, frame: &Frame) {
        self.media.on_frame(frame);
    }

    fn target_rate(&self) -> Option<Rate> {
        Some(Rate::from_bps(self.media.target as u64))
    }

    fn permit(&self) -> Permit {
        Permit::Window((self.window * self.overhead()).min(MAX_WINDOW) as u64)
    }

    fn cwnd(&self) -> u64 {
        self.window as u64
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(Pacing { rate: Rate::from_bps(self.pacing_rate() as u64), burst: self.mss as u64 })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.window / self.mss);
        show("target_mbps", self.media.target / 1e6);
        show("pacing_mbps", self.pacing_rate() / 1e6);
        show("queueing_ms", self.queue.current * 1e3);
        show("queueing_average_ms", self.queue.average * 1e3);
        show("set_point_ms", self.target.now * 1e3);
        show("overhead", self.overhead());
        show("ecn_alpha", self.marks.alpha);
        show("one_way", f64::from(self.delay.is_one_way()));
        show("srtt_ms", self.srtt.unwrap_or(Span::ZERO).as_millis_f64());
    }
}
