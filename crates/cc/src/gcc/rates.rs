//! The two rates of which the smaller is the target: by delay, and by loss. In bit/s.

use std::collections::VecDeque;

use cellpace_base::math::pow;

use super::detector::Usage;
use super::groups::{Arrived, ms_between};
use super::params::GccParams;
use crate::{Span, Time};

/// What arrives is measured over this time.
const RATE_WINDOW: Span = Span::from_millis(500);

/// R: what arrived lately.
#[derive(Debug, Clone, Default)]
pub(super) struct ArrivalRate {
    packets: VecDeque<(Time, u64)>,
    bytes: u64,
    first: Option<Time>,
    last: Option<Time>,
}

impl ArrivalRate {
    pub(super) fn on_arrival(&mut self, packet: &Arrived) {
        let last = self.last.map_or(packet.received, |last| last.max(packet.received));
        (self.first, self.last) = (self.first.or(Some(last)), Some(last));
        self.packets.push_back((last, packet.bytes));
        self.bytes += packet.bytes;
        while let Some((at, bytes)) = self.packets.front().copied() {
            if last.since(at) < RATE_WINDOW {
                break;
            }
            self.packets.pop_front();
            self.bytes -= bytes;
        }
    }

    /// `None` until a whole window has passed.
    pub(super) fn bps(&self) -> Option<f64> {
        let is_whole = ms_between(self.first?, self.last?) >= RATE_WINDOW.as_millis_f64();
        is_whole.then(|| 8.0 * self.bytes as f64 / RATE_WINDOW.as_secs_f64())
    }
}

/// What the delay-based rate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
}

/// The rate that arrived when the path was over-used, as a mean and a deviation: near it growth is slow.
#[derive(Debug, Clone, Copy)]
struct Capacity {
    mean_kbps: f64,
    /// Variance as a share of the mean.
    variance: f64,
}

/// Weight of the past in the capacity.
const CAPACITY_PAST: f64 = 0.95;
/// Bounds of its relative variance, in kbit/s.
const MIN_VARIANCE: f64 = 0.4;
const MAX_VARIANCE: f64 = 2.5;
/// Deviations within which a rate is near.
const NEAR: f64 = 3.0;

impl Capacity {
    fn new(kbps: f64) -> Self {
        Self { mean_kbps: kbps, variance: MIN_VARIANCE }
    }

    fn sample(&mut self, kbps: f64) {
        let share = 1.0 - CAPACITY_PAST;
        self.mean_kbps = CAPACITY_PAST * self.mean_kbps + share * kbps;
        let error = self.mean_kbps - kbps;
        let variance =
            CAPACITY_PAST * self.variance + share * error * error / self.mean_kbps.max(1.0);
        self.variance = variance.clamp(MIN_VARIANCE, MAX_VARIANCE);
    }

    /// How far a rate lies above the mean, in deviations.
    fn deviations(&self, kbps: f64) -> f64 {
        (kbps - self.mean_kbps) / (self.variance * self.mean_kbps).sqrt().max(f64::MIN_POSITIVE)
    }
}

/// Section 4: A.
#[derive(Debug, Clone)]
pub(super) struct DelayRate {
    pub(super) rate: f64,
    min: f64,
    max: f64,
    growth: f64,
    beta: f64,
    state: State,
    capacity: Option<Capacity>,
    updated: Option<Time>,
    decreased: Option<Time>,
}

/// Frames a second for which the size of an average packet is reckoned.
const FRAMES: f64 = 30.0;
/// Bits of a full packet.
const PACKET_BITS: f64 = 9600.0;
/// Time beside the RTT in which additive growth is half a packet.
const RESPONSE: Span = Span::from_millis(100);
/// Additive growth at least, in bit/s per second.
const MIN_GROWTH: f64 = 1000.0;

impl DelayRate {
    pub(super) fn new(params: &GccParams) -> Self {
        let (min, max) = bounds(params);
        Self {
            rate: start(params),
            min,
            max,
            growth: params.growth,
            beta: params.beta,
            state: State::Increase,
            capacity: None,
            updated: None,
            decreased: None,
        }
    }

    /// After each feedback.
    pub(super) fn update(&mut self, now: Time, usage: Usage, arrives: Option<f64>, rtt: Span) {
        let dt = self.updated.map_or(Span::ZERO, |at| now.since(at));
        self.updated = Some(now);
        if usage != Usage::Normal {
            self.state = State::Hold;
            let is_next_round = self.decreased.is_none_or(|at| now.since(at) >= rtt);
            if let Some(arrives) = arrives.filter(|_| usage == Usage::Over && is_next_round) {
                self.decrease(now, arrives);
            }
            return;
        }
        if self.state == State::Increase {
            self.increase(dt, arrives, rtt);
        }
        self.state = State::Increase;
    }

    fn increase(&mut self, dt: Span, arrives: Option<f64>, rtt: Span) {
        let kbps = arrives.map(|arrives| arrives / 1e3);
        let away = self.capacity.zip(kbps).map(|(capacity, kbps)| capacity.deviations(kbps));
        if away.is_some_and(|away| away > NEAR) {
            self.capacity = None;
        }
        let grown = match away.is_some_and(|away| away.abs() <= NEAR) {
            true => self.rate + additive(dt, rtt, average_packet_bits(self.rate)),
            false => self.rate * multiplicative(self.growth, dt),
        };
        // The limit keeps a rate that is not used from growing; it takes nothing away.
        let limit = arrives.map_or(f64::MAX, |arrives| 1.5 * arrives + 10_000.0);
        self.set(grown.min(limit).max(self.rate));
    }

    fn decrease(&mut self, now: Time, arrives: f64) {
        let kbps = arrives / 1e3;
        let is_far = |capacity: &Capacity| capacity.deviations(kbps) < -NEAR;
        match self.capacity.as_mut().filter(|capacity| !is_far(capacity)) {
            Some(capacity) => capacity.sample(kbps),
            None => self.capacity = Some(Capacity::new(kbps)),
        }
        self.decreased = Some(now);
        self.set((self.beta * arrives).min(self.rate));
    }

    /// A probe found more.
    pub(super) fn raise(&mut self, rate: f64) {
        self.set(self.rate.max(rate));
    }

    /// The path is another one.
    pub(super) fn forget(&mut self) {
        (self.capacity, self.decreased) = (None, None);
    }

    pub(super) fn set(&mut self, rate: f64) {
        self.rate = rate.min(self.max).max(self.min);
    }
}

/// Bits that an average packet of a video of this rate has.
fn average_packet_bits(rate: f64) -> f64 {
    let frame = rate / FRAMES;
    frame / (frame / PACKET_BITS).ceil().max(1.0)
}

/// Growth far from convergence, as a factor.
pub(super) fn multiplicative(growth: f64, dt: Span) -> f64 {
    pow(growth, dt.as_secs_f64().min(1.0))
}

/// Growth near convergence, in bit/s.
pub(super) fn additive(dt: Span, rtt: Span, packet_bits: f64) -> f64 {
    let share = (dt.as_secs_f64() / (rtt + RESPONSE).as_secs_f64()).min(1.0);
    (MIN_GROWTH * dt.as_secs_f64()).max(0.5 * share * packet_bits)
}

/// Packets of which at least the share of lost ones is taken.
const MIN_PACKETS: u64 = 20;
/// Time beside the RTT between two changes.
const LOSS_INTERVAL: Span = Span::from_millis(300);

/// Section 5: L.
#[derive(Debug, Clone)]
pub(super) struct LossRate {
    pub(super) rate: f64,
    min: f64,
    max: f64,
    lost: u64,
    arrived: u64,
    changed: Option<Time>,
}

impl LossRate {
    pub(super) fn new(params: &GccParams) -> Self {
        let (min, max) = bounds(params);
        // Delay alone decides until there is a loss.
        Self { rate: max, min, max, lost: 0, arrived: 0, changed: None }
    }

    pub(super) fn count(&mut self, arrived: u64, lost: u64) {
        self.arrived += arrived;
        self.lost += lost;
    }

    /// After each feedback; `target` is the rate that was in use.
    pub(super) fn update(&mut self, now: Time, target: f64, rtt: Span) {
        let all = self.arrived + self.lost;
        if all < MIN_PACKETS {
            return;
        }
        let share = self.lost as f64 / all as f64;
        (self.arrived, self.lost) = (0, 0);
        if self.changed.is_some_and(|at| now.since(at) < LOSS_INTERVAL + rtt) {
            return;
        }
        let rate = if share > 0.1 { self.rate.min(target) } else { self.rate };
        let rate = rate * loss_factor(share);
        if rate != self.rate {
            self.changed = Some(now);
        }
        self.set(rate);
    }

    pub(super) fn set(&mut self, rate: f64) {
        self.rate = rate.min(self.max).max(self.min);
    }
}

/// What a share of lost packets leaves of the rate.
pub(super) fn loss_factor(share: f64) -> f64 {
    match share {
        share if share > 0.1 => 1.0 - 0.5 * share,
        share if share < 0.02 => 1.05,
        _ => 1.0,
    }
}

fn bounds(params: &GccParams) -> (f64, f64) {
    (params.min_rate.as_bps() as f64, params.max_rate.as_bps() as f64)
}

fn start(params: &GccParams) -> f64 {
    let (min, max) = bounds(params);
    (params.start_rate.as_bps() as f64).clamp(min, max)
}
