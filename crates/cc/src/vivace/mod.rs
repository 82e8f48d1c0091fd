//! PCC Vivace: tries rates and moves along the gradient of what they are worth. Dong et al., NSDI'18.

mod intervals;
mod params;
mod steps;
#[cfg(test)]
mod tests;
mod utility;

use cellpace_base::{Span, Time};

use self::intervals::{Intervals, MonitorInterval, Role};
pub(crate) use self::params::VivaceParams;
use self::steps::GradientSteps;
use self::utility::Utility;
use crate::{
    Ack, Controller, ControllerParams, Event, Events, Loss, Pacing, Permit, Phase, Random, Rate,
    SentPacket, Setup, Stamp, Timeout,
};

/// Packets that an interval has at least, and that leave in the first round trip.
const MIN_PACKETS: f64 = 10.0;

/// The round trip before the first sample.
const INITIAL_RTT: Span = Span::from_millis(100);

/// No interval is shorter: a deadline must move on.
const MIN_LENGTH: Span = Span::from_micros(100);

/// Bounds of the rate and the window, so that sums of them stay exact.
const MAX_RATE: f64 = 1e6;
const MAX_WINDOW: f64 = (1_u64 << 49) as f64;

/// Share of an interval's bytes whose loss halves the rate.
const HEAVY_LOSS: f64 = 0.5;

/// Pairs of Probing at most.
const MAX_PAIRS: usize = 4;

impl ControllerParams for VivaceParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Vivace::new(self, setup))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// Doubling, until the utility is below the previous one.
    Starting { previous: f64 },
    /// Pairs of rates about the present one, then a step.
    Probing,
}

/// A rate that is to be tried.
#[derive(Debug, Clone, Copy)]
struct RateTrial {
    rate: f64,
    role: Role,
}

struct Vivace {
    params: VivaceParams,
    mss: f64,
    random: Random,
    utility: Utility,
    steps: GradientSteps,
    mode: Mode,
    /// In Mbit/s (10^6), as all rates here.
    rate: f64,
    intervals: Intervals,
    /// Intervals that are to follow, the next one last.
    todo: [Option<RateTrial>; 2 * MAX_PAIRS],
    /// Rates and utilities of the pairs: the higher rate first.
    results: [[Option<(f64, f64)>; 2]; MAX_PAIRS],
    /// `None` before the first sample.
    srtt: Option<Span>,
    rto: Span,
    last_sent: Time,
    /// Of the last useful interval, for logs.
    last_utility: f64,
    last_gradient: f64,
    events: Events,
}

impl Vivace {
    fn new(params: &VivaceParams, setup: Setup) -> Self {
        let mss = setup.mss.max(1) as f64;
        let rate = rate_of(MIN_PACKETS * mss, INITIAL_RTT);
        let mut events = Events::new();
        events.push(setup.start, Event::Phase(Phase::SlowStart));
        let length = length(rate, mss, INITIAL_RTT);
        Self {
            mss,
            random: setup.random,
            utility: Utility::new(params),
            steps: GradientSteps::new(params),
            mode: Mode::Starting { previous: f64::NEG_INFINITY },
            rate,
            intervals: Intervals::new(setup.start, length, rate, Role::Start),
            todo: [None; 2 * MAX_PAIRS],
            results: [[None; 2]; MAX_PAIRS],
            srtt: None,
            rto: Span::MAX,
            last_sent: setup.start,
            last_utility: 0.0,
            last_gradient: 0.0,
            events,
            params: params.clone(),
        }
    }

    /// One round trip, and ten packets at least.
    fn length(&self, rate: f64) -> Span {
        length(rate, self.mss, self.srtt.unwrap_or(INITIAL_RTT))
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate.clamp(self.params.min_rate.as_mbps(), MAX_RATE);
    }

    /// The present interval is over: what follows is a rate to be tried, or waiting for results.
    fn begin_next(&mut self, now: Time) {
        let current = *self.intervals.current();
        let waits_for_packets = current.sent == 0 && current.role != Role::Filler;
        if waits_for_packets || !self.intervals.may_begin() {
            let end = now + self.length(current.rate);
            return self.intervals.extend(end);
        }
        let filler = RateTrial { rate: self.rate, role: Role::Filler };
        let next = self.next_probe().unwrap_or(filler);
        self.intervals.begin(now, self.length(next.rate), next.rate, next.role);
    }

    fn next_probe(&mut self) -> Option<RateTrial> {
        self.todo.iter_mut().rev().find(|probe| probe.is_some())?.take()
    }

    /// Begins an interval of Starting at once, in place of the waiting.
    fn begin_start(&mut self, now: Time) {
        let (length, rate) = (self.length(self.rate), self.rate);
        if self.intervals.may_begin() {
            self.intervals.begin(now, length, rate, Role::Start);
        } else {
            self.intervals.restart(now, length, rate, Role::Start);
        }
    }

    fn resolve(&mut self, now: Time) {
        while let Some(interval) = self.intervals.take_resolved() {
            if interval.loss() > HEAVY_LOSS {
                let from = self.cwnd();
                self.set_rate(self.rate / 2.0);
                self.probe_afresh(now);
                self.events.push(now, Event::Reduced { from, to: self.cwnd() });
                return;
            }
            if interval.role != Role::Filler && interval.sent > 0 {
                self.result(now, &interval);
            }
        }
    }

    /// A rate was tried.
    fn result(&mut self, now: Time, interval: &MonitorInterval) {
        if interval.app_limited {
            return self.try_again(now, interval);
        }
        let gradient = interval.gradient();
        let utility = self.utility.of(interval.rate, gradient, interval.loss());
        (self.last_utility, self.last_gradient) = (utility, gradient);
        match (self.mode, interval.role) {
            (Mode::Starting { previous }, Role::Start) if utility > previous => {
                self.mode = Mode::Starting { previous: utility };
                self.set_rate(interval.rate * 2.0);
                self.begin_start(now);
            }
            (Mode::Starting { .. }, Role::Start) => {
                self.set_rate(interval.rate / 2.0);
                self.events.push(now, Event::Phase(Phase::Avoidance));
                self.mode = Mode::Probing;
                self.probe(now);
            }
            (Mode::Probing, Role::Probe { pair, up }) => {
                self.results[pair][usize::from(!up)] = Some((interval.rate, utility));
                self.decide(now);
            }
            _ => {}
        }
    }

    /// The sender had too little data to try the rate.
    fn try_again(&mut self, now: Time, interval: &MonitorInterval) {
        match interval.role {
            Role::Start => self.begin_start(now),
            role => {
                let free = self.todo.iter_mut().find(|probe| probe.is_none());
                if let Some(free) = free {
                    *free = Some(RateTrial { rate: interval.rate, role });
                }
            }
        }
    }

    /// All pairs are there: a step, or the same again where they do not agree.
    fn decide(&mut self, now: Time) {
        let (mut sum, mut signs) = (0.0, 0_i64);
        let pairs = self.params.pairs as usize;
        for pair in &self.results[..pairs] {
            let [Some((high, above)), Some((low, below))] = *pair else { return };
            let gradient = (above - below) / (high - low);
            sum += gradient;
            signs += i64::from(gradient > 0.0) - i64::from(gradient < 0.0);
        }
        if signs.unsigned_abs() as usize == pairs {
            let stepped = self.steps.step(self.rate, sum / pairs as f64);
            self.set_rate(stepped);
        } else {
            self.steps.forget();
        }
        self.probe(now);
    }

    /// Plans the next pairs and begins the first interval at once, in place of the waiting.
    fn probe(&mut self, now: Time) {
        self.plan_pairs();
        self.begin_next(now);
    }

    fn plan_pairs(&mut self) {
        self.results = [[None; 2]; MAX_PAIRS];
        self.todo = [None; 2 * MAX_PAIRS];
        let pairs = self.params.pairs as usize;
        for pair in 0..pairs {
            let first_up = self.random.unit() < 0.5;
            // From the end, where the next one is taken.
            let place = 2 * (pairs - 1 - pair);
            for (place, up) in [(place + 1, first_up), (place, !first_up)] {
                let factor = if up { 1.0 + self.params.epsilon } else { 1.0 - self.params.epsilon };
                let role = Role::Probe { pair, up };
                self.todo[place] = Some(RateTrial { rate: self.rate * factor, role });
            }
        }
    }

    /// Probing from the present rate, with nothing of what was tried before.
    fn probe_afresh(&mut self, now: Time) {
        if self.mode != Mode::Probing {
            self.events.push(now, Event::Phase(Phase::Avoidance));
        }
        self.mode = Mode::Probing;
        self.steps.forget();
        self.plan_pairs();
        let first = self.next_probe().expect("there is at least one pair");
        let length = self.length(first.rate);
        self.intervals.restart(now, length, first.rate, first.role);
    }

    /// Starting, with nothing of what was known.
    fn start_afresh(&mut self, now: Time, rate: f64) {
        self.set_rate(rate);
        if self.mode == Mode::Probing {
            self.events.push(now, Event::Phase(Phase::SlowStart));
        }
        self.mode = Mode::Starting { previous: f64::NEG_INFINITY };
        self.steps.forget();
        self.todo = [None; 2 * MAX_PAIRS];
        let length = self.length(self.rate);
        self.intervals.restart(now, length, self.rate, Role::Start);
    }
}

/// The rate of `bytes` in a round trip.
fn rate_of(bytes: f64, rtt: Span) -> f64 {
    (bytes * 8.0 / rtt.max(MIN_LENGTH).as_secs_f64() / 1e6).min(MAX_RATE)
}

fn length(rate: f64, mss: f64, rtt: Span) -> Span {
    let packets = Span::from_secs_f64(MIN_PACKETS * mss * 8.0 / (rate * 1e6));
    rtt.max(packets).max(MIN_LENGTH)
}

impl Controller for Vivace {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let now = packet.now;
        let was_idle = packet.in_flight <= packet.bytes && now.since(self.last_sent) > self.rto;
        self.last_sent = now;
        if was_idle && self.srtt.is_some() {
            self.probe_afresh(now);
        } else if now >= self.intervals.current().end {
            self.begin_next(now);
        }
        let serial = self.intervals.on_sent(packet.bytes, packet.app_limited);
        Stamp { local: [serial, 0, 0, 0], ..Stamp::default() }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(last) = ack.packets.last() else { return };
        let srtt = ack.rtt.smoothed().unwrap_or(last.rtt);
        self.rto = ack.rtt.rto();
        if self.srtt.replace(srtt).is_none() {
            return self.start_afresh(ack.now, rate_of(MIN_PACKETS * self.mss, last.rtt));
        }
        for packet in ack.packets {
            self.intervals.on_acked(
                packet.stamp.local[0],
                packet.bytes,
                packet.sent_at,
                packet.rtt,
            );
        }
        self.resolve(ack.now);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        for packet in loss.packets {
            self.intervals.on_lost(packet.stamp.local[0], packet.bytes);
        }
        self.resolve(loss.now);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.set_rate(self.rate / 2.0);
        self.events.push(timeout.now, Event::Timeout);
        self.probe_afresh(timeout.now);
    }

    fn on_path_change(&mut self, now: Time) {
        self.srtt = None;
        self.rto = Span::MAX;
        self.events.push(now, Event::Restart);
        self.start_afresh(now, rate_of(MIN_PACKETS * self.mss, INITIAL_RTT));
    }

    /// A safety net: two round trips of the rate and ten packets. A sender by rate alone would fill any
    /// buffer while a path stands still.
    fn permit(&self) -> Permit {
        let Some(srtt) = self.srtt else {
            return Permit::Window((4.0 * MIN_PACKETS * self.mss).min(MAX_WINDOW) as u64);
        };
        let round_trip = self.intervals.current().rate * 1e6 / 8.0 * srtt.as_secs_f64();
        Permit::Window((2.0 * round_trip + MIN_PACKETS * self.mss).min(MAX_WINDOW) as u64)
    }

    fn pacing(&self) -> Option<Pacing> {
        let rate = Rate::from_mbps(self.intervals.current().rate);
        Some(Pacing { rate, burst: self.mss as u64 })
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.intervals.current().end)
    }

    fn on_deadline(&mut self, now: Time) {
        if now >= self.intervals.current().end {
            self.begin_next(now);
        }
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("pacing_mbps", self.intervals.current().rate);
        show("base_rate_mbps", self.rate);
        show("utility", self.last_utility);
        show("rtt_gradient", self.last_gradient);
        show("steps", f64::from(self.steps.run));
        show("srtt_ms", self.srtt.unwrap_or(Span::ZERO).as_millis_f64());
        show("slow_start", f64::from(self.mode != Mode::Probing));
    }
}
