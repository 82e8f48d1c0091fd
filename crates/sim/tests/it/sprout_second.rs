//! Section 8's utilizations by a second simulation of Sprout, in steps of a millisecond, that
//! shares nothing with the controller and the simulator: written from the description alone, as
//! plainly as possible. Where both agree and the figures found elsewhere do not, those are wrong.

use std::collections::VecDeque;

use crate::common::{bulk, outcome, secs};
use cellpace_cc::Span;
use cellpace_path::DelaySpec;
use cellpace_sim::Scenario;

const BINS: usize = 257;
const WIDTH: f64 = 1000.0 / 256.0;
const TICK_S: f64 = 0.02;
const TICK_MS: u64 = 20;
/// Counts per tick that forecasts know.
const COUNTS: usize = 30;

type Forecast = [usize; 8];
type Distribution = Vec<f64>;

struct Model {
    rates: Vec<f64>,
    /// From each bin, the first that it may be in after a tick, and how likely that and the
    /// following are.
    moves: Vec<(usize, Distribution)>,
    /// Per bin and count.
    poisson: Vec<Distribution>,
    /// Per tick ahead and bin: at most so many packets.
    at_most: Vec<Vec<Distribution>>,
}

/// The normal distribution function: Simpson's rule.
fn phi(x: f64) -> f64 {
    const STEPS: usize = 200;
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let x = x.clamp(-9.0, 9.0);
    let h = x / STEPS as f64;
    let inner: f64 = (1..STEPS)
        .map(|step| if step % 2 == 1 { 4.0 } else { 2.0 } * density(step as f64 * h))
        .sum();
    0.5 + h / 3.0 * (density(0.0) + inner + density(x))
}

impl Model {
    fn new() -> Self {
        let rates: Vec<f64> =
            (0..BINS).map(|i| if i == 0 { 0.0 } else { (i as f64 + 0.5) * WIDTH }).collect();
        let poisson = rates.iter().map(|rate| poisson(rate * TICK_S)).collect();
        let moves = (0..BINS).map(|from| moves(from, rates[from])).collect();
        let mut model = Self { rates, moves, poisson, at_most: vec![Vec::new(); 8] };
        for bin in 0..BINS {
            let mut belief = vec![0.0; BINS];
            belief[bin] = 1.0;
            let mut sum = vec![1.0];
            for ahead in 0..8 {
                sum = convolved(&sum, &model.counts(&belief));
                let mut total = 0.0;
                let running = |p: &f64| {
                    total += p;
                    total
                };
                model.at_most[ahead].push(sum.iter().map(running).collect());
                belief = model.evolved(&belief);
            }
        }
        model
    }

    fn counts(&self, belief: &[f64]) -> Distribution {
        let of = |count| belief.iter().zip(&self.poisson).map(|(p, of)| p * of[count]).sum();
        (0..COUNTS).map(of).collect()
    }

    fn evolved(&self, belief: &[f64]) -> Distribution {
        let mut to = vec![0.0; BINS];
        for (p, (first, shares)) in belief.iter().zip(&self.moves) {
            to[*first..].iter_mut().zip(shares).for_each(|(to, share)| *to += p * share);
        }
        normalised(to)
    }

    fn forecast(&self, belief: &[f64]) -> Forecast {
        let mut least = 0;
        std::array::from_fn(|ahead| {
            let tables = &self.at_most[ahead];
            let risk = |count: usize| -> f64 {
                belief.iter().zip(tables).map(|(p, table)| p * table[count]).sum()
            };
            let last = tables[0].len() - 1;
            least = (least..last).find(|count| risk(*count) >= 0.05).unwrap_or(last);
            least
        })
    }
}

fn poisson(mean: f64) -> Distribution {
    let mut p = (-mean).exp();
    let next = |count: usize| {
        let this = p;
        p *= mean / (count + 1) as f64;
        this
    };
    (0..4 * COUNTS).map(next).collect()
}

fn moves(from: usize, rate: f64) -> (usize, Distribution) {
    let step = 200.0 * TICK_S.sqrt();
    let stays = (-TICK_S).exp();
    let below = |edge: usize| match edge {
        0 => 0.0,
        BINS => 1.0,
        _ => phi((edge as f64 * WIDTH - rate) / step),
    };
    let share = |to: usize| {
        let sticks = match (from, to) {
            (0, 0) => stays,
            (0, _) => 1.0 - stays,
            _ => 1.0,
        };
        sticks * (below(to + 1) - below(to))
    };
    let bin = |rate: f64| ((rate / WIDTH).max(0.0) as usize).min(BINS - 1);
    let (first, last) = (bin(rate - 5.0 * step), bin(rate + 5.0 * step + WIDTH));
    (first, (first..=last).map(share).collect())
}

fn convolved(a: &[f64], b: &[f64]) -> Distribution {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, a) in a.iter().enumerate() {
        for (j, b) in b.iter().enumerate() {
            sum[i + j] += a * b;
        }
    }
    sum
}

fn normalised(mut p: Distribution) -> Distribution {
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= sum);
    p
}

/// A link of so many packets per second behind an endless queue, half an RTT in front of it; a
/// report each tick, which takes the other half.
#[derive(Clone, Copy)]
struct Path {
    link_per_s: f64,
    rtt_ms: u64,
    /// A link that is served in whole milliseconds takes so many for each packet.
    whole_ms_per_packet: Option<f64>,
}

struct Sender {
    forecast: Forecast,
    forecast_at: u64,
    ticks: usize,
    queued: usize,
    sent: usize,
    last_sent: u64,
}

impl Sender {
    fn take(&mut self, now: u64, received: usize, forecast: Forecast) {
        (self.forecast, self.forecast_at, self.ticks) = (forecast, now, 0);
        self.queued = self.sent - received;
    }

    /// Packets that go now.
    fn flight(&mut self, now: u64) -> usize {
        while self.ticks < ((now - self.forecast_at) / TICK_MS).min(7) as usize {
            let before = if self.ticks == 0 { 0 } else { self.forecast[self.ticks - 1] };
            self.queued = self.queued.saturating_sub(self.forecast[self.ticks] - before);
            self.ticks += 1;
        }
        let ahead = self.forecast[(self.ticks + 5).min(7)] - self.forecast[self.ticks];
        let window = ahead.saturating_sub(self.queued);
        let heartbeat = usize::from(now >= self.last_sent + 50);
        let flight = window.max(heartbeat);
        if flight > 0 {
            self.last_sent = now;
        }
        self.sent += flight;
        self.queued += flight;
        flight
    }
}

struct Receiver<'a> {
    model: &'a Model,
    censored: bool,
    belief: Distribution,
    /// When the tick in progress began.
    tick: Option<u64>,
    arrived: usize,
    received: usize,
    silence_counts_from: u64,
}

impl Receiver<'_> {
    fn arrive(&mut self, now: u64, last_of_flight: bool) {
        let tick = *self.tick.get_or_insert(now);
        self.received += 1;
        self.arrived += 1;
        let until = tick + if last_of_flight { 50 } else { 0 };
        self.silence_counts_from =
            if self.censored { until } else { until.max(self.silence_counts_from) };
    }

    /// The forecast at the end of a tick. A packet at its very end belongs to it.
    fn end_tick(&mut self, now: u64) -> Option<Forecast> {
        let start = self.tick.filter(|start| start + TICK_MS < now)?;
        self.tick = Some(start + TICK_MS);
        let count = std::mem::take(&mut self.arrived);
        let silence_counts = self.silence_counts_from <= start;
        let likelihood = |of: &Distribution| match (count, silence_counts) {
            (0, false) => 1.0,
            (_, false) if self.censored => (1.0 - of[..count].iter().sum::<f64>()).max(1e-12),
            _ => of[count],
        };
        let evolved = self.model.evolved(&self.belief);
        let weighed = evolved.iter().zip(&self.model.poisson).map(|(p, of)| p * likelihood(of));
        self.belief = normalised(weighed.collect());
        Some(self.model.forecast(&self.belief))
    }
}

/// Utilization over the second half of 20 s, if the sender looks at its window on each report and
/// so many ms after it last did.
fn utilization(model: &Model, path: Path, censored: bool, looks_within_ms: u64) -> f64 {
    const END_MS: u64 = 20_000;
    let belief = vec![1.0 / BINS as f64; BINS];
    let forecast = model.forecast(&belief);
    let mut sender =
        Sender { forecast, forecast_at: 0, ticks: 0, queued: 0, sent: 0, last_sent: 0 };
    let mut receiver = Receiver {
        model,
        censored,
        belief,
        tick: None,
        arrived: 0,
        received: 0,
        silence_counts_from: 0,
    };
    let one_way = path.rtt_ms / 2;
    // When packets reach the queue, and whether they are the last of their flight.
    let mut under_way: VecDeque<(u64, bool)> = VecDeque::new();
    let mut reports: VecDeque<(u64, usize, Forecast)> = VecDeque::new();
    let (mut credit, mut before, mut look_at) = (0.0, 0, 0);
    for now in 0..END_MS {
        let forecast = receiver.end_tick(now);
        credit += path.whole_ms_per_packet.map_or(path.link_per_s / 1000.0, |ms| 1.0 / ms);
        while credit > 1.0 - 1e-9 {
            credit -= 1.0;
            if under_way.front().is_some_and(|(at, _)| *at <= now) {
                receiver.arrive(now, under_way.pop_front().unwrap().1);
            }
        }
        if let Some(forecast) = forecast {
            reports.push_back((now + one_way, receiver.received, forecast));
        }
        let mut looks = now >= look_at;
        if reports.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, received, forecast) = reports.pop_front().unwrap();
            sender.take(now, received, forecast);
            looks = true;
        }
        let flight = if looks { sender.flight(now) } else { 0 };
        look_at = if looks { now + looks_within_ms } else { look_at };
        under_way.extend((0..flight).rev().map(|left| (now + one_way, left == 0)));
        if now == END_MS / 2 {
            before = receiver.received;
        }
    }
    let seconds = (END_MS / 2) as f64 / 1000.0;
    (receiver.received - before) as f64 / (path.link_per_s * seconds)
}

/// Packets per second, and the utilizations found elsewhere at 20, 40, 60 and 100 ms.
const FOUND: [(u64, [f64; 4]); 5] = [
    (50, [1.00, 1.00, 0.91, 0.82]),
    (100, [1.00, 0.95, 0.85, 0.63]),
    (250, [1.00, 1.00, 0.98, 0.67]),
    (500, [1.00, 1.00, 0.99, 0.76]),
    (900, [0.78, 0.66, 0.55, 0.42]),
];
const RTTS_MS: [u64; 4] = [20, 40, 60, 100];

fn simulated(packets: u64, rtt_ms: u64) -> f64 {
    let scenario = Scenario {
        flows: vec![bulk("sprout")],
        duration: secs(40),
        skip: secs(20),
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some(format!("constant:{}kbit", packets * 12).parse().unwrap());
        link.down.queue = "infinite".parse().unwrap();
        link.set_rtt(DelaySpec::constant(Span::from_millis(rtt_ms)));
    });
    outcome(&scenario).figures.utilization
}

fn slow_in_whole_ms(packets: u64, rtt_ms: u64) -> Path {
    // 1.11 ms per packet become two.
    let whole = (1000.0 / packets as f64).ceil();
    Path { link_per_s: packets as f64, rtt_ms, whole_ms_per_packet: Some(whole) }
}

#[test]
fn sprout_section_8_by_a_second_simulation() {
    let model = Model::new();
    for (packets, found) in FOUND {
        for (rtt_ms, found) in RTTS_MS.into_iter().zip(found) {
            let path = Path { link_per_s: packets as f64, rtt_ms, whole_ms_per_packet: None };
            let second = utilization(&model, path, true, 1);
            let ours = simulated(packets, rtt_ms);
            println!("{packets}/s, {rtt_ms} ms: {ours:.3}, {second:.3}, {found:.2}");
            assert!((ours - second).abs() <= 0.05, "{packets}/s, {rtt_ms} ms: {ours} {second}");
            if packets == 900 {
                continue;
            }
            // Half a percent for the rounding of what was found.
            let near = |second: f64| (second - found).abs() <= 0.055;
            // The original's sender looks at its window at least every 10 ms. How that falls together
            // with ticks and reports decides one cell; most intervals give what was found.
            let seldom = utilization(&model, path, true, 9);
            println!("looking every 9 ms: {seldom:.3}");
            assert!(near(second) || near(seldom), "{packets}/s, {rtt_ms} ms: {second} {seldom}");
            assert!(near(second) || (packets, rtt_ms) == (50, 60), "{packets}/s, {rtt_ms} ms");
        }
    }
}

/// What was found at 900 packets per second is not what the description gives.
#[test]
fn sprout_section_8_at_900_packets_per_second_is_not_what_the_description_gives() {
    let model = Model::new();
    // At 60 and 100 ms it is, packet for packet, what was found at 500: 495 and 495, 378 and 380
    // per second. A link that is served in whole milliseconds is one of 500.
    for (rtt_ms, found) in [(60, 0.55), (100, 0.42)] {
        let slow = utilization(&model, slow_in_whole_ms(900, rtt_ms), true, 1);
        assert!((slow - found).abs() <= 0.02, "{rtt_ms} ms: {slow}");
    }
    // With exact observation too.
    let slow = utilization(&model, slow_in_whole_ms(900, 60), false, 1);
    assert!((slow - 0.28).abs() <= 0.02, "{slow}");
    // At 20 and 40 ms a flow could not stay at the rates found, 702 and 594 per second: the forecast
    // at such a rate lets more be in flight than the path and a tick between reports hold, so that a
    // queue grows until the link is full.
    for (rtt_ms, found) in [(20, 0.78), (40, 0.66)] {
        let per_s = 900.0 * found;
        let count = (per_s * TICK_S) as usize;
        let mut belief = vec![1.0 / BINS as f64; BINS];
        for _ in 0..100 {
            let evolved = model.evolved(&belief);
            let weighed = evolved.iter().zip(&model.poisson).map(|(p, of)| p * of[count]);
            belief = normalised(weighed.collect());
        }
        let forecast = model.forecast(&belief);
        let lets = (forecast[5] - forecast[0]) as f64;
        let holds = per_s * (rtt_ms as f64 / 1000.0 + TICK_S);
        println!("{rtt_ms} ms: {lets} packets, {holds:.1} on the path");
        assert!(lets > 1.15 * holds, "{rtt_ms} ms: {lets} {holds}");
    }
}

#[test]
fn the_second_simulation_has_the_tables_of_the_description() {
    let model = Model::new();
    // T3 and T4.
    assert!((model.at_most[7][0][0] - 0.518_952_963).abs() < 1e-6, "{}", model.at_most[7][0][0]);
    let prior = vec![1.0 / BINS as f64; BINS];
    assert_eq!(model.forecast(&prior), [1, 1, 3, 4, 5, 6, 8, 9]);
    assert_eq!(model.rates[128], 501.953_125);
}
