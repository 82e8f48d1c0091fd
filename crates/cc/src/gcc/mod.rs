//! Google congestion control, after draft-ietf-rmcat-gcc-02, with all of it at the sender, as WebRTC has it today: a rate
//! for a video's encoder, by the growth of delay and by loss.

mod detector;
mod filter;
mod groups;
mod params;
mod probe;
mod rates;
#[cfg(test)]
mod tests;

use cellpace_base::{Span, Time};

use self::detector::{Detector, Usage};
use self::filter::Filter;
use self::groups::{Arrived, Groups};
pub(crate) use self::params::GccParams;
use self::probe::Probes;
use self::rates::{ArrivalRate, DelayRate, LossRate};
use crate::{
    Ack, AckedPacket, Controller, ControllerParams, Event, Events, Frame, Loss, Pacing, Permit,
    Phase, Rate, SentPacket, Setup, Stamp, Timeout,
};

/// The RTT before the first sample.
const UNKNOWN_RTT: Span = Span::from_millis(100);

/// What a timeout leaves of the rate, in place of feedback: WebRTC's answer to a second without any.
const TIMEOUT_FACTOR: f64 = 0.8;

/// Packets that may be in flight at least.
const MIN_FLIGHT: u64 = 4;

impl ControllerParams for GccParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Gcc::new(self, &setup))
    }

    fn check(&self) -> Result<(), String> {
        let Self { min_rate, max_rate, .. } = self;
        match min_rate > max_rate {
            true => Err(format!("min_rate={min_rate} is above max_rate={max_rate}")),
            false => Ok(()),
        }
    }
}

/// The sender of a call. Rates are in bit/s.
struct Gcc {
    params: GccParams,
    mss: u64,
    groups: Groups,
    filter: Filter,
    detector: Detector,
    arrival_rate: ArrivalRate,
    delay_rate: DelayRate,
    loss_rate: LossRate,
    probes: Probes,
    /// m of the last group.
    growth_ms: f64,
    /// What the groups since the last feedback say; over-use prevails.
    usage: Usage,
    last_feedback: Option<Time>,
    srtt: Option<Span>,
    /// Whether an encoder keeps to the target.
    has_frames: bool,
    events: Events,
}

impl Gcc {
    fn new(params: &GccParams, setup: &Setup) -> Self {
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::Avoidance));
        let delay_rate = DelayRate::new(params);
        Self {
            mss: setup.mss.max(1),
            groups: Groups::default(),
            filter: Filter::new(params.filter),
            detector: Detector::new(params),
            arrival_rate: ArrivalRate::default(),
            probes: Probes::new(delay_rate.rate, params.probe),
            delay_rate,
            loss_rate: LossRate::new(params),
            growth_ms: 0.0,
            usage: Usage::Normal,
            last_feedback: None,
            srtt: None,
            has_frames: false,
            events,
            params: params.clone(),
        }
    }

    fn on_arrival(&mut self, now: Time, packet: &AckedPacket) {
        let received = packet.received_at.unwrap_or(now);
        let arrived = Arrived { sent: packet.sent_at, received, bytes: packet.bytes };
        self.arrival_rate.on_arrival(&arrived);
        if let Some(rate) = self.probes.on_arrival(packet.stamp.local[0], &arrived) {
            self.delay_rate.raise(rate);
        }
        let Some(variation) = self.groups.on_arrival(&arrived) else { return };
        self.growth_ms = self.filter.update(&variation);
        let usage = self.detector.update(self.growth_ms, variation.departure_ms);
        if self.usage != Usage::Over {
            self.usage = usage;
        }
    }

    /// What the sender does with a report of the receiver.
    fn on_feedback(&mut self, now: Time) {
        let from = self.flight_limit();
        let (rtt, arrives) = (self.rtt(), self.arrival_rate.bps());
        self.loss_rate.update(now, self.target(), rtt);
        self.delay_rate.update(now, self.usage, arrives, rtt);
        // Without another group the state stays; an over-use was answered.
        if self.usage == Usage::Over {
            self.usage = Usage::Normal;
        }
        let to = self.flight_limit();
        if to < from {
            self.events.push(now, Event::Reduced { from, to });
        }
    }

    fn target(&self) -> f64 {
        self.delay_rate.rate.min(self.loss_rate.rate)
    }

    fn rtt(&self) -> Span {
        self.srtt.unwrap_or(UNKNOWN_RTT)
    }

    /// What the target rate sends in a round trip and some time more.
    fn flight_limit(&self) -> u64 {
        let seconds = (self.rtt() + self.params.queue).as_secs_f64();
        ((self.target() / 8.0 * seconds) as u64).max(MIN_FLIGHT * self.mss)
    }

    fn pacing_rate(&self) -> f64 {
        // Data without an encoder would take all that the pacer lets through.
        let headroom = if self.has_frames { self.params.pace_headroom } else { 1.0 };
        self.probes.rate().unwrap_or(0.0).max(headroom * self.target())
    }
}

impl Controller for Gcc {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        Stamp { local: [self.probes.on_sent(packet.now), 0, 0, 0], wire: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(last) = ack.packets.last() else { return };
        self.srtt = Some(ack.rtt.smoothed().unwrap_or(last.rtt));
        self.loss_rate.count(ack.packets.len() as u64, 0);
        ack.packets.iter().for_each(|packet| self.on_arrival(ack.now, packet));
        let last_feedback = *self.last_feedback.get_or_insert(ack.now);
        if ack.now.since(last_feedback) >= self.params.feedback {
            self.last_feedback = Some(ack.now);
            self.on_feedback(ack.now);
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.loss_rate.count(0, loss.packets.len() as u64);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let rate = TIMEOUT_FACTOR * self.target();
        self.delay_rate.set(rate);
        self.events.push(timeout.now, Event::Timeout);
    }

    /// Delays of the old path say nothing of the new one; the rate stays.
    fn on_path_change(&mut self, now: Time) {
        self.groups = Groups::default();
        self.filter = Filter::new(self.params.filter);
        self.detector = Detector::new(&self.params);
        self.delay_rate.forget();
        self.usage = Usage::Normal;
        self.events.push(now, Event::Restart);
    }

    fn on_frame(&mut self, _: &Frame) {
        self.has_frames = true;
    }

    fn target_rate(&self) -> Option<Rate> {
        Some(Rate::from_bps(self.target() as u64))
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.cwnd())
    }

    fn cwnd(&self) -> u64 {
        if self.params.pushback { self.flight_limit() } else { u64::MAX }
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(Pacing { rate: Rate::from_bps(self.pacing_rate() as u64), burst: self.mss })
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("cwnd_pkts", self.flight_limit() as f64 / self.mss as f64);
        show("target_mbps", self.target() / 1e6);
        show("pacing_mbps", self.pacing_rate() / 1e6);
        show("delay_rate_mbps", self.delay_rate.rate / 1e6);
        show("loss_rate_mbps", self.loss_rate.rate / 1e6);
        show("delay_growth_ms", self.growth_ms);
        show("growth_threshold_ms", self.detector.threshold_ms);
        show("srtt_ms", self.rtt().as_millis_f64());
    }
}
