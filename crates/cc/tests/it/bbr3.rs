//! BBRv3 in a closed loop: the figures of docs/spec/bbr3.md section 11 for one flow, in the model that
//! they were computed in. Packets wait in a drop-tail queue and take their time on the link, each is
//! acked, three later acks make a loss, and a bucket paces. Several flows, and links that serve in
//! bundles, are in `crates/sim/tests/it/bbr3.rs`.
//!
//! Unless something else is said: 12 Mbit/s and 40 ms, so 41 ms with the time on the link and a
//! bandwidth-delay product of 60 kB, and a buffer of five of these.

use std::collections::{BTreeMap, VecDeque};

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Event, Loss, LostPacket, Phase, Random,
    RttEstimator, SentPacket, Setup, Span, Stamp, Time, Timeout,
};

const MSS: u64 = 1500;

const STARTUP: u8 = 0;
const DRAIN: u8 = 1;
const DOWN: u8 = 2;
const CRUISE: u8 = 3;
const REFILL: u8 = 4;
const UP: u8 = 5;
const PROBE_RTT: u8 = 6;

/// The path and the sender's data.
#[derive(Clone)]
struct Link {
    /// Bit/s as a function of time.
    rate: fn(f64) -> f64,
    base: Span,
    /// Bytes that the queue holds.
    buffer: u64,
    /// Share of packets lost in front of the queue.
    loss: f64,
    /// When the packet of a number is there to be sent, in seconds.
    ready: fn(u64) -> f64,
    /// A policer in front of the queue: bit/s and bytes of its bucket.
    policer: Option<(f64, f64)>,
    seed: u64,
}

const STEADY: Link = Link {
    rate: |_| 12e6,
    base: Span::from_millis(40),
    buffer: 300_000,
    loss: 0.0,
    ready: |_| 0.0,
    policer: None,
    seed: 1,
};

/// A packet that arrived, in the order of arrival.
#[derive(Clone, Copy)]
struct Delivered {
    at: f64,
    queue_ms: f64,
    rtt_ms: f64,
}

/// How long the flow stayed in a state, in seconds.
#[derive(Clone, Copy, Debug)]
struct Spell {
    state: u8,
    from: f64,
    to: f64,
}

struct Flow {
    link: Link,
    random: Random,
    controller: Box<dyn Controller>,
    now: Time,
    next_number: u64,
    in_flight: BTreeMap<u64, (Time, Stamp, bool)>,
    /// Acks to come: when, of which packet, and how long that waited in the queue.
    acks: VecDeque<(Time, u64, f64)>,
    /// When each packet in the queue will have left it.
    queue: VecDeque<Time>,
    free_at: Time,
    tokens: (f64, Time),
    bucket: (f64, Time),
    rtt: RttEstimator,
    progress: Time,
    timeouts_in_a_row: u32,

    delivered: Vec<Delivered>,
    lost_at: Vec<f64>,
    spells: Vec<Spell>,
    /// In flight at the end of each ack in ProbeRTT.
    low_flight: Vec<u64>,
    timeouts: usize,
    phases: Vec<Phase>,
    /// The largest pacing rate over what it is bounded by.
    fastest: f64,
    first_rtt_rate: f64,
}

impl Flow {
    fn run(spec: &str, link: Link, seconds: f64) -> Self {
        let spec: ControllerSpec = spec.parse().unwrap();
        let random = Random::seeded(link.seed, 0);
        let setup = Setup { mss: MSS, start: Time::ZERO, random };
        let mut flow = Self {
            random: Random::seeded(link.seed, 1),
            controller: spec.build(setup),
            now: Time::ZERO,
            next_number: 0,
            in_flight: BTreeMap::new(),
            acks: VecDeque::new(),
            queue: VecDeque::new(),
            free_at: Time::ZERO,
            tokens: (f64::MAX, Time::ZERO),
            bucket: (link.policer.map_or(0.0, |(_, bytes)| bytes), Time::ZERO),
            rtt: RttEstimator::default(),
            progress: Time::ZERO,
            timeouts_in_a_row: 0,
            delivered: Vec::new(),
            lost_at: Vec::new(),
            spells: vec![Spell { state: STARTUP, from: 0.0, to: 0.0 }],
            low_flight: Vec::new(),
            timeouts: 0,
            phases: Vec::new(),
            fastest: 0.0,
            first_rtt_rate: 0.0,
            link,
        };
        flow.live(Time::from_secs_f64(seconds));
        flow
    }

    fn live(&mut self, end: Time) {
        while self.now < end {
            let ack = self.acks.front().map_or(Time::MAX, |(at, ..)| *at);
            let send = self.next_send();
            let rto = match self.in_flight.is_empty() {
                true => Time::MAX,
                false => self.progress + self.rtt.backed_off_rto(self.timeouts_in_a_row),
            };
            self.now = ack.min(send).min(rto).min(end);
            if self.now == end {
                break;
            } else if self.now == ack {
                self.receive();
            } else if self.now == send {
                self.send();
            } else {
                self.time_out();
            }
            self.look();
        }
        self.now = end;
        self.spells.last_mut().unwrap().to = end.as_secs_f64();
    }

    fn bytes_in_flight(&self) -> u64 {
        self.in_flight.len() as u64 * MSS
    }

    /// When window, bucket and data let a packet leave.
    fn next_send(&mut self) -> Time {
        if self.controller.permit().remaining(self.bytes_in_flight()) < MSS {
            return Time::MAX;
        }
        let ready = Time::from_secs_f64((self.link.ready)(self.next_number));
        let now = self.now.max(ready);
        let pacing = self.controller.pacing().unwrap();
        let rate = pacing.rate.as_bytes_per_sec();
        let (level, at) = self.tokens;
        let level = (level + rate * (self.now - at).as_secs_f64()).min(pacing.burst as f64);
        self.tokens = (level, self.now);
        let lacking = MSS as f64 - level;
        if lacking <= 0.0 {
            return now;
        }
        let wait = Span::from_nanos((lacking / rate * 1e9).ceil() as u64 + 1);
        now.max(self.now + wait)
    }

    fn send(&mut self) {
        let number = self.next_number;
        self.next_number += 1;
        self.tokens.0 -= MSS as f64;
        if self.in_flight.is_empty() {
            self.progress = self.now;
        }
        let app_limited = (self.link.ready)(self.next_number) > self.now.as_secs_f64();
        let stamp = self.controller.on_sent(&SentPacket {
            now: self.now,
            number,
            bytes: MSS,
            in_flight: self.bytes_in_flight() + MSS,
            app_limited,
            retransmission: false,
        });
        self.in_flight.insert(number, (self.now, stamp, app_limited));
        while self.queue.front().is_some_and(|left| *left <= self.now) {
            self.queue.pop_front();
        }
        let unlucky = self.random.unit() < self.link.loss || self.is_policed();
        // The packet on the link is not in the queue.
        let queued = self.queue.len().saturating_sub(1) as u64 * MSS;
        if unlucky || queued + MSS > self.link.buffer {
            self.lost_at.push(self.now.as_secs_f64());
            return;
        }
        let begin = self.now.max(self.free_at);
        self.free_at = self.served_at(begin);
        self.queue.push_back(self.free_at);
        let queue_ms = (begin - self.now).as_millis_f64();
        self.acks.push_back((self.free_at + self.link.base, number, queue_ms));
    }

    /// When a packet whose service begins then has left, over changes of the rate.
    fn served_at(&self, begin: Time) -> Time {
        const STEP: f64 = 1e-4;
        let start = begin.as_secs_f64();
        let (mut bits, mut elapsed) = (MSS as f64 * 8.0, 0.0);
        loop {
            let rate = (self.link.rate)(start + elapsed);
            let rest = bits / rate;
            if rest <= STEP || rate == (self.link.rate)(start + elapsed + rest) {
                return begin + Span::from_secs_f64(elapsed + rest);
            }
            bits -= rate * STEP;
            elapsed += STEP;
        }
    }

    fn is_policed(&mut self) -> bool {
        let Some((rate, most)) = self.link.policer else { return false };
        let (level, at) = self.bucket;
        let level = (level + rate / 8.0 * (self.now - at).as_secs_f64()).min(most);
        let passes = level >= MSS as f64;
        self.bucket = (level - if passes { MSS as f64 } else { 0.0 }, self.now);
        !passes
    }

    fn receive(&mut self) {
        let (_, number, queue_ms) = self.acks.pop_front().unwrap();
        let Some(&(sent_at, stamp, app_limited)) = self.in_flight.get(&number) else { return };
        let prior_in_flight = self.bytes_in_flight();
        self.in_flight.remove(&number);
        let rtt = self.now - sent_at;
        self.rtt.sample(rtt);
        (self.progress, self.timeouts_in_a_row) = (self.now, 0);
        let at = self.now.as_secs_f64();
        self.delivered.push(Delivered { at, queue_ms, rtt_ms: rtt.as_millis_f64() });
        if self.delivered.len() == 1 {
            self.first_rtt_rate = 15_000.0 / rtt.as_secs_f64();
        }
        let packet = AckedPacket {
            number,
            bytes: MSS,
            sent_at,
            rtt,
            received_at: None,
            app_limited,
            ecn: Default::default(),
            stamp,
        };
        self.controller.on_ack(&Ack {
            now: self.now,
            packets: &[packet],
            prior_in_flight,
            in_flight: self.bytes_in_flight(),
            next_number: self.next_number,
            rtt: &self.rtt,
        });
        self.detect_losses(number);
    }

    /// RFC 9002 section 6.1.1.
    fn detect_losses(&mut self, acked: u64) {
        let lost: Vec<_> = self
            .in_flight
            .range(..(acked + 1).saturating_sub(3))
            .map(|(&number, &(sent_at, stamp, _))| LostPacket {
                number,
                bytes: MSS,
                sent_at,
                stamp,
            })
            .collect();
        if lost.is_empty() {
            return;
        }
        let prior_in_flight = self.bytes_in_flight();
        for packet in &lost {
            self.in_flight.remove(&packet.number);
        }
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &lost,
            prior_in_flight,
            in_flight: self.bytes_in_flight(),
            next_number: self.next_number,
            rtt: &self.rtt,
        });
    }

    fn time_out(&mut self) {
        let prior_in_flight = self.bytes_in_flight();
        self.in_flight.clear();
        self.progress = self.now;
        self.timeouts += 1;
        self.timeouts_in_a_row += 1;
        self.controller.on_timeout(&Timeout {
            now: self.now,
            prior_in_flight,
            in_a_row: self.timeouts_in_a_row,
            next_number: self.next_number,
        });
    }

    /// Notes the state, and what must never be.
    fn look(&mut self) {
        let (state, at) = (self.value("state") as u8, self.now.as_secs_f64());
        let last = self.spells.last_mut().unwrap();
        if last.state != state {
            last.to = at;
            self.spells.push(Spell { state, from: at, to: at });
        }
        if state == PROBE_RTT {
            self.low_flight.push(self.bytes_in_flight());
        }
        if let Some(pacing) = self.controller.pacing()
            && self.first_rtt_rate > 0.0
        {
            let bottleneck = 0.99 * self.value("bottleneck_mbps") * 125e3;
            let bound = 2.77 * bottleneck.max(self.first_rtt_rate);
            self.fastest = self.fastest.max(pacing.rate.as_bytes_per_sec() / bound);
        }
        while let Some((_, event)) = self.controller.poll_event() {
            if let Event::Phase(phase) = event {
                self.phases.push(phase);
            }
        }
    }

    fn value(&self, name: &str) -> f64 {
        let mut found = None;
        self.controller.inspect(&mut |known, value| {
            if known == name {
                found = Some(value);
            }
        });
        found.expect("the controller shows it")
    }

    // ---- Figures ---------------------------------------------------------------------------

    fn spells(&self, state: u8) -> impl Iterator<Item = &Spell> {
        self.spells.iter().filter(move |spell| spell.state == state)
    }

    fn time_in(&self, state: u8) -> f64 {
        self.spells(state).map(|spell| spell.to - spell.from).sum()
    }

    fn between(&self, from: f64, to: f64) -> Figures {
        let inside = |at: f64| (from..to).contains(&at);
        let packets: Vec<_> = self.delivered.iter().filter(|packet| inside(packet.at)).collect();
        let mut queue: Vec<f64> = packets.iter().map(|packet| packet.queue_ms).collect();
        let mut rtt: Vec<f64> = packets.iter().map(|packet| packet.rtt_ms).collect();
        queue.sort_by(f64::total_cmp);
        rtt.sort_by(f64::total_cmp);
        let quantile = |sorted: &[f64], q: f64| sorted[((sorted.len() - 1) as f64 * q) as usize];
        Figures {
            mbps: packets.len() as f64 * MSS as f64 * 8e-6 / (to - from),
            queue_mean: queue.iter().sum::<f64>() / queue.len() as f64,
            queue_p95: quantile(&queue, 0.95),
            queue_max: quantile(&queue, 1.0),
            rtt_median: quantile(&rtt, 0.5),
            lost: self.lost_at.iter().filter(|at| inside(**at)).count(),
        }
    }
}

/// Mbit/s and milliseconds.
#[derive(Debug)]
struct Figures {
    mbps: f64,
    queue_mean: f64,
    queue_p95: f64,
    queue_max: f64,
    rtt_median: f64,
    lost: usize,
}

/// Within a share of what the specification says.
#[track_caller]
fn near(seen: f64, expected: f64, share: f64) {
    assert!((seen / expected - 1.0).abs() <= share, "{seen} is not near {expected}");
}

/// What no path may lead to (the last line of section 11).
#[track_caller]
fn assert_sound(flow: &Flow) {
    assert_eq!(flow.timeouts, 0);
    assert!(flow.fastest < 1.001, "paced at {} of the bound", flow.fastest);
}

#[test]
fn bbr3_c1_one_flow() {
    let flow = Flow::run("bbr3", STEADY, 60.0);
    assert_sound(&flow);
    let figures = flow.between(10.0, 60.0);
    assert!(figures.mbps / 12.0 >= 0.95, "{figures:?}");
    near(figures.mbps / 12.0, 0.968, 0.01);
    assert!(figures.queue_mean <= 8.0 && figures.queue_p95 <= 35.0, "{figures:?}");
    near(figures.queue_max, 38.0, 0.1);
    assert_eq!((figures.lost, figures.rtt_median.round()), (0, 41.0));
    near(flow.value("bottleneck_mbps"), 12.0, 0.01);
    near(flow.value("base_rtt_ms"), 41.0, 0.001);
}

#[test]
fn bbr3_c1_phases() {
    let flow = Flow::run("bbr3", STEADY, 60.0);
    near(flow.spells[0].to, 0.496, 0.02);
    let drain: Vec<_> = flow.spells(DRAIN).collect();
    assert_eq!(drain.len(), 1);
    near(drain[0].to, 0.589, 0.02);
    assert!(flow.between(0.0, 1.0).queue_max <= 52.0);
    let probes: Vec<_> = flow.spells(PROBE_RTT).collect();
    for (probe, from) in probes.iter().zip([5.04, 10.27, 15.50]) {
        near(probe.from, from, 0.01);
    }
    assert!(probes.iter().all(|probe| (0.215..0.235).contains(&(probe.to - probe.from))));
    let lowest = *flow.low_flight.iter().min().unwrap();
    assert!((28_500..=33_000).contains(&lowest), "{lowest}");
    let ups = flow.spells(UP).filter(|spell| spell.from > 10.0).count();
    assert!((17..=21).contains(&ups), "{ups}");
    for (state, seconds) in [(UP, 3.6), (DOWN, 7.7), (CRUISE, 44.7), (PROBE_RTT, 2.5)] {
        near(flow.time_in(state), seconds, 0.1);
    }
    assert_eq!(flow.phases[..3], [Phase::SlowStart, Phase::Drain, Phase::ProbeBw]);
}

#[test]
fn bbr3_c1_the_queue_does_not_depend_on_the_buffer() {
    for buffer in [60_000, 120_000, 1_200_000] {
        let flow = Flow::run("bbr3", Link { buffer, ..STEADY }, 60.0);
        assert_sound(&flow);
        let figures = flow.between(10.0, 60.0);
        assert!(figures.mbps >= 0.95 * 12.0 && figures.queue_mean <= 8.0, "{buffer}: {figures:?}");
        assert_eq!(figures.lost, 0, "{buffer}");
    }
}

#[test]
fn bbr3_c2_shallow_buffers() {
    for (buffer, utilization, lost, p95) in [(15_000, 0.966, 96, 6.0), (30_000, 0.967, 107, 17.0)] {
        let flow = Flow::run("bbr3", Link { buffer, ..STEADY }, 60.0);
        assert_sound(&flow);
        let figures = flow.between(10.0, 60.0);
        near(figures.mbps / 12.0, utilization, 0.02);
        near(figures.lost as f64, f64::from(lost), 0.25);
        near(figures.queue_p95, p95, 0.1);
    }
}

#[test]
fn bbr3_c3_startup_and_loss() {
    for (buffer, drain, lost, kilobytes) in [
        (6000, 0.265, 78, 68.9),
        (15_000, 0.252, 77, 78.1),
        (30_000, 0.289, 62, 93.4),
        (60_000, 0.349, 22, 120.0),
    ] {
        let flow = Flow::run("bbr3", Link { buffer, ..STEADY }, 1.0);
        assert_sound(&flow);
        near(flow.spells[0].to, drain, 0.02);
        assert!(flow.lost_at.len().abs_diff(lost) <= 3, "{buffer}: {}", flow.lost_at.len());
        near(1.5 * flow.value("inflight_longterm_pkts"), kilobytes, 0.05);
    }
    let deep = Flow::run("bbr3", STEADY, 1.0);
    assert_eq!((deep.lost_at.len(), deep.value("inflight_longterm_pkts")), (0, -1.0));
}

/// Utilization, the mean of three seeds.
fn at_loss(spec: &str, loss: f64) -> f64 {
    let run = |seed| Flow::run(spec, Link { loss, seed, ..STEADY }, 60.0).between(10.0, 60.0).mbps;
    (1..=3).map(run).sum::<f64>() / 3.0 / 12.0
}

#[test]
fn bbr3_c4_random_loss() {
    for (loss, utilization) in
        [(0.001, 0.955), (0.005, 0.90), (0.01, 0.74), (0.02, 0.56), (0.05, 0.19), (0.1, 0.095)]
    {
        near(at_loss("bbr3", loss), utilization, 0.12);
    }
}

#[test]
fn bbr3_c4_two_losses_for_too_high() {
    for (loss, utilization) in [(0.01, 0.885), (0.02, 0.81), (0.05, 0.365)] {
        near(at_loss("bbr3:min_loss_events=2", loss), utilization, 0.12);
    }
}

fn to_a_fifth(t: f64) -> f64 {
    if (15.0..25.0).contains(&t) { 2.4e6 } else { 12e6 }
}

#[test]
fn bbr3_c6_capacity_step() {
    let flow = Flow::run("bbr3", Link { rate: to_a_fifth, ..STEADY }, 40.0);
    assert_sound(&flow);
    assert_eq!(flow.between(15.0, 25.0).lost, 0);
    // The first second is that of sending there, and that of arriving here.
    near(flow.between(15.0, 16.0).queue_mean, 252.0, 0.25);
    for (from, to, queue_ms) in [(16.0, 18.0, 330.0), (18.0, 20.0, 391.0), (20.0, 25.0, 692.0)] {
        let figures = flow.between(from, to);
        near(figures.queue_mean, queue_ms, 0.1);
        near(figures.mbps, 2.4, 0.01);
    }
    near(flow.between(26.0, 30.0).mbps, 12.0, 0.01);
    near(flow.between(26.0, 30.0).queue_mean, 165.0, 0.1);
    near(flow.between(30.0, 40.0).queue_mean, 112.0, 0.1);
}

#[test]
fn bbr3_c6_with_probe_rtt_latest_the_queue_goes_away() {
    let flow = Flow::run("bbr3:probe_rtt_latest=true", Link { rate: to_a_fifth, ..STEADY }, 40.0);
    assert_sound(&flow);
    near(flow.between(20.0, 25.0).queue_mean, 392.0, 0.1);
    near(flow.between(26.0, 30.0).mbps, 11.9, 0.01);
    assert!(flow.between(26.0, 30.0).queue_mean < 8.0);
    assert!(flow.between(30.0, 40.0).queue_mean < 6.0);
}

#[test]
fn bbr3_c6_fall_to_a_half() {
    let rate = |t: f64| if (15.0..25.0).contains(&t) { 6e6 } else { 12e6 };
    let flow = Flow::run("bbr3", Link { rate, ..STEADY }, 40.0);
    assert_sound(&flow);
    let during = flow.between(16.0, 25.0).queue_mean;
    assert!((115.0..140.0).contains(&during), "{during}");
    assert!(flow.between(26.0, 40.0).queue_mean < 8.0);
}

/// The maximum keeps the old rate for two cycles, and by then the base RTT is that of the queue: the draft
/// fills the buffer for good. With `probe_rtt_latest` less of the queue stays, and nothing is lost.
#[test]
fn bbr3_c6_fall_to_a_tenth() {
    let rate = |t: f64| if t < 15.0 { 12e6 } else { 1.2e6 };
    let run = |spec: &str| {
        let flow = Flow::run(spec, Link { rate, ..STEADY }, 60.0);
        assert_sound(&flow);
        let figures = flow.between(40.0, 60.0);
        near(figures.mbps, 1.2, 0.02);
        figures
    };
    let (draft, latest) = (run("bbr3"), run("bbr3:probe_rtt_latest=true"));
    assert!(draft.queue_mean > 1500.0 && draft.lost > 0, "{draft:?}");
    assert!(latest.queue_mean < 1000.0 && latest.lost == 0, "{latest:?}");
}

#[test]
fn bbr3_c7_rise_to_ten_times() {
    let rate = |t: f64| if t < 15.0 { 12e6 } else { 120e6 };
    let flow = Flow::run("bbr3", Link { rate, buffer: 600_000, ..STEADY }, 25.0);
    assert_sound(&flow);
    near(flow.between(15.0, 17.0).mbps, 30.8, 0.15);
    near(flow.between(17.0, 19.0).mbps, 119.0, 0.01);
    near(flow.between(21.0, 25.0).mbps, 118.9, 0.01);
}

#[test]
fn bbr3_c9_tiny_bdp() {
    let flow = Flow::run("bbr3", Link { rate: |_| 64e3, buffer: 15_000, ..STEADY }, 60.0);
    let figures = flow.between(20.0, 60.0);
    assert!(figures.mbps >= 0.99 * 0.064, "{figures:?}");
    near(figures.rtt_median, 920.0, 0.1);
    assert_eq!(figures.lost, 0);
}

#[test]
fn bbr3_c11_application_limited() {
    // 3 Mbit/s.
    let flow = Flow::run("bbr3", Link { ready: |n| n as f64 * 0.004, ..STEADY }, 30.0);
    assert_sound(&flow);
    assert!(flow.spells.iter().all(|spell| [STARTUP, PROBE_RTT].contains(&spell.state)));
    assert!(flow.between(1.0, 30.0).queue_max <= 1.0);
    let probes: Vec<f64> = flow.spells(PROBE_RTT).map(|spell| spell.from).collect();
    assert!(probes.len() >= 4);
    for pair in probes.windows(2) {
        near(pair[1] - pair[0], 5.2, 0.02);
    }
}

#[test]
fn bbr3_c12_idle() {
    // The data of 6.75 s, then more at 13 s.
    let ready = |n: u64| if n < 6480 { 0.0 } else { 13.0 };
    let flow = Flow::run("bbr3", Link { ready, ..STEADY }, 20.0);
    assert_sound(&flow);
    let after: Vec<u8> =
        flow.spells.iter().filter(|spell| spell.to > 13.0).map(|spell| spell.state).collect();
    assert_eq!(after[..3], [CRUISE, REFILL, UP]);
    let probe = flow.spells(PROBE_RTT).find(|spell| spell.from > 6.0).unwrap();
    near(probe.from, 18.04, 0.01);
}

#[test]
fn bbr3_policer() {
    let flow = Flow::run("bbr3", Link { policer: Some((6e6, 30_000.0)), ..STEADY }, 40.0);
    assert_sound(&flow);
    let figures = flow.between(10.0, 40.0);
    assert!(figures.mbps >= 0.9 * 6.0 && figures.queue_max <= 1.0, "{figures:?}");
    let sent = figures.mbps * 30.0 / 8e-6 / 1500.0 + figures.lost as f64;
    assert!((figures.lost as f64) < 0.06 * sent, "{figures:?} of {sent}");
}
