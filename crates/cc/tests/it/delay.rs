//! Copa and BBR in a closed loop: one flow with endless data over one FIFO link, an ack per
//! packet. Only the public seam is used.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Loss, LostPacket, Random, RttEstimator,
    SentPacket, Setup, Span, Stamp, Time, Timeout,
};

const MSS: u64 = 1500;

/// The link: packets per second as a function of time, everything else constant.
struct Link {
    rate: fn(Time) -> f64,
    base: Span,
    /// Added to each RTT, uniformly up to this.
    jitter: Span,
    /// Share of packets lost before the link.
    loss: f64,
}

const STEADY: Link =
    Link { rate: |_| 1000.0, base: Span::from_millis(40), jitter: Span::ZERO, loss: 0.0 };

/// An ack on its way, in the order of its arrival.
type Coming = Reverse<(Time, u64)>;

struct Loop {
    link: Link,
    random: Random,
    controller: Box<dyn Controller>,
    now: Time,
    next_number: u64,
    in_flight: BTreeMap<u64, (Time, Stamp)>,
    acks: BinaryHeap<Coming>,
    link_free_at: Time,
    next_send: Time,
    rtt: RttEstimator,
    last_progress: Time,
    /// Time and RTT in ms of each packet acked.
    seen: Vec<(Time, f64)>,
}

impl Loop {
    fn new(spec: &str, link: Link) -> Self {
        let spec: ControllerSpec = spec.parse().expect("a controller of the registry");
        let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(7, 0) };
        Self {
            link,
            random: Random::seeded(7, 1),
            controller: spec.build(setup),
            now: Time::ZERO,
            next_number: 0,
            in_flight: BTreeMap::new(),
            acks: BinaryHeap::new(),
            link_free_at: Time::ZERO,
            next_send: Time::ZERO,
            rtt: RttEstimator::default(),
            last_progress: Time::ZERO,
            seen: Vec::new(),
        }
    }

    fn run(mut self, seconds: u64) -> Self {
        let end = Time::from_secs(seconds);
        while self.now < end {
            self.send_all();
            let ack = self.acks.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
            let send = if self.may_send() { self.next_send } else { Time::MAX };
            let rto = self.last_progress + self.rtt.rto();
            self.now = ack.min(send).min(rto);
            if self.now == ack {
                self.receive();
            } else if self.now == rto {
                self.time_out();
            }
        }
        self
    }

    fn bytes_in_flight(&self) -> u64 {
        self.in_flight.len() as u64 * MSS
    }

    fn may_send(&self) -> bool {
        self.controller.permit().remaining(self.bytes_in_flight()) >= MSS
    }

    fn send_all(&mut self) {
        while self.may_send() && self.next_send <= self.now {
            self.send();
            if let Some(pacing) = self.controller.pacing() {
                self.next_send = self.next_send.max(self.now) + pacing.rate.time_for(MSS);
            }
        }
    }

    fn send(&mut self) {
        let number = self.next_number;
        self.next_number += 1;
        let stamp = self.controller.on_sent(&SentPacket {
            now: self.now,
            number,
            bytes: MSS,
            in_flight: self.bytes_in_flight() + MSS,
            app_limited: false,
            retransmission: false,
        });
        if self.in_flight.is_empty() {
            self.last_progress = self.now;
        }
        self.in_flight.insert(number, (self.now, stamp));
        if self.random.unit() < self.link.loss {
            return;
        }
        let begin = self.now.max(self.link_free_at);
        let service = Span::from_secs_f64(1.0 / (self.link.rate)(begin));
        self.link_free_at = begin + service;
        let jitter = self.link.jitter.mul_f64(self.random.unit());
        self.acks.push(Reverse((self.link_free_at + self.link.base + jitter, number)));
    }

    fn receive(&mut self) {
        let Some(Reverse((_, number))) = self.acks.pop() else { return };
        let Some((sent_at, stamp)) = self.in_flight.get(&number).copied() else { return };
        let prior_in_flight = self.bytes_in_flight();
        self.in_flight.remove(&number);
        let rtt = self.now - sent_at;
        self.rtt.sample(rtt);
        self.last_progress = self.now;
        self.seen.push((self.now, rtt.as_millis_f64()));
        let packet = AckedPacket {
            number,
            bytes: MSS,
            sent_at,
            rtt,
            received_at: None,
            app_limited: false,
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

    /// RFC 9002 section 6.1.1, with room for the reordering that jitter makes.
    fn detect_losses(&mut self, acked: u64) {
        let threshold = if self.link.jitter.is_zero() { 3 } else { 50 };
        let lost: Vec<_> = self
            .in_flight
            .range(..(acked + 1).saturating_sub(threshold))
            .map(|(number, (sent_at, stamp))| LostPacket {
                number: *number,
                bytes: MSS,
                sent_at: *sent_at,
                stamp: *stamp,
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
        self.last_progress = self.now;
        self.controller.on_timeout(&Timeout {
            now: self.now,
            prior_in_flight,
            in_a_row: 1,
            next_number: self.next_number,
        });
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

    /// Packets per second and the RTTs from `from` to `to` seconds, sorted.
    fn figures(&self, from: u64, to: u64) -> Figures {
        let (start, end) = (Time::from_secs(from), Time::from_secs(to));
        let inside = |at: Time| start <= at && at < end;
        let mut rtts: Vec<f64> =
            self.seen.iter().filter(|(at, _)| inside(*at)).map(|(_, rtt)| *rtt).collect();
        rtts.sort_by(f64::total_cmp);
        Figures { rate: rtts.len() as f64 / (to - from) as f64, rtts }
    }
}

struct Figures {
    rate: f64,
    rtts: Vec<f64>,
}

impl Figures {
    fn quantile(&self, q: f64) -> f64 {
        self.rtts[((self.rtts.len() - 1) as f64 * q) as usize]
    }
}

fn second_half(spec: &str, link: Link) -> Figures {
    Loop::new(spec, link).run(20).figures(10, 20)
}

fn slow() -> Link {
    Link { rate: |_| 300.0, ..STEADY }
}

fn jittery() -> Link {
    Link { jitter: Span::from_millis(5), ..STEADY }
}

fn lossy(loss: f64) -> Link {
    Link { loss, ..STEADY }
}

/// Within 10 % of the specification's figures: utilisation, median and 95th percentile of the RTT.
#[track_caller]
fn expect(spec: &str, link: Link, [utilisation, median, p95]: [f64; 3]) {
    let capacity = (link.rate)(Time::ZERO);
    let figures = second_half(spec, link);
    let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 0.1;
    let seen = [figures.rate / capacity, figures.quantile(0.5), figures.quantile(0.95)];
    assert!(
        near(seen[0], utilisation) && near(seen[1], median) && near(seen[2], p95),
        "{spec}: {seen:?}"
    );
}

#[test]
fn copa_t12_paper_rule_constant_delta() {
    expect("copa:mode=constant", STEADY, [1.0, 43.0, 45.0]);
    expect("copa:mode=constant,delta=0.1", STEADY, [1.0, 54.0, 63.0]);
    expect("copa:mode=constant,delta=0.02", STEADY, [1.0, 149.0, 183.0]);
    expect("copa:mode=constant", jittery(), [0.99, 46.0, 50.0]);
    expect("copa:mode=constant", slow(), [1.0, 52.0, 57.0]);
}

#[test]
fn copa_t12_auto_mode() {
    expect("copa", STEADY, [1.0, 44.0, 45.0]);
    // A lone flow with a small delta takes its own queue for a competitor's, for good.
    expect("copa:delta=0.02,min_delta=0", STEADY, [1.0, 275.0, 319.0]);
    let run = Loop::new("copa:delta=0.02,min_delta=0", STEADY).run(20);
    assert_eq!(run.value("competitive"), 1.0);
    assert!((0.005..0.007).contains(&run.value("delta")));
}

#[test]
fn copa_t12_code_rule_swings_more() {
    let utilisation = |spec: &str, link: Link| {
        let capacity = (link.rate)(Time::ZERO);
        second_half(spec, link).rate / capacity
    };
    let code = "copa:mode=constant,velocity=code";
    assert!((utilisation(code, jittery()) / 0.91 - 1.0).abs() < 0.1);
    assert!((utilisation(code, slow()) / 0.915 - 1.0).abs() < 0.1);
    assert!(utilisation(code, slow()) + 0.05 < utilisation("copa:mode=constant", slow()));
}

#[test]
fn bbr_x4_probing_the_rtt_costs_about_two_percent() {
    // Without jitter each draining phase sees the base RTT again, and there is nothing to probe.
    let figures = Loop::new("bbr", jittery()).run(100).figures(20, 100);
    assert!((0.96..0.995).contains(&(figures.rate / 1000.0)), "{}", figures.rate);
    let exact = Loop::new("bbr", STEADY).run(100).figures(20, 100);
    assert!(exact.rate > 999.0);
}

#[test]
fn bbr_x5_a_lone_flow_queues_ten_packets() {
    let figures = second_half("bbr", STEADY);
    // Service included, the base RTT is 41 ms.
    assert!(figures.quantile(0.0) >= 41.0 && figures.quantile(1.0) < 53.0);
    assert!(figures.quantile(0.5) < 43.0);
}

#[test]
fn bbr_x7_random_loss() {
    let light = Loop::new("bbr", lossy(0.1)).run(20);
    assert!((0.85..0.95).contains(&(light.figures(10, 20).rate / 1000.0)));
    assert!((11.4..12.6).contains(&light.value("bottleneck_mbps")));
    let heavy = second_half("bbr:policer=off", lossy(0.2));
    assert!((0.7..0.9).contains(&(heavy.rate / 1000.0)), "{}", heavy.rate);
    // Above 50/256 Linux' rule takes random loss for a policer and follows it down.
    let policed = second_half("bbr", lossy(0.2));
    assert!(policed.rate < heavy.rate / 2.0);
}

#[test]
fn bbr_x8_capacity_drops_to_a_fifth() {
    let link = Link { rate: |at| if at < Time::from_secs(12) { 1000.0 } else { 200.0 }, ..STEADY };
    let run = Loop::new("bbr", link).run(30);
    let during = run.figures(13, 16).quantile(0.5);
    assert!((320.0..480.0).contains(&during), "about ten times the base RTT: {during}");
    let after = run.figures(25, 30);
    assert!(after.quantile(0.5) < 60.0 && after.rate > 190.0);
}

#[test]
fn both_come_back_after_an_outage() {
    for spec in ["copa", "bbr"] {
        // A packet per five seconds: nothing moves from 8 s to 13 s.
        let link = Link {
            rate: |at| {
                let outage = Time::from_secs(8) <= at && at < Time::from_secs(13);
                if outage { 0.2 } else { 1000.0 }
            },
            ..STEADY
        };
        let run = Loop::new(spec, link).run(30);
        assert!(run.figures(8, 12).rtts.len() < 100, "{spec}");
        let after = run.figures(25, 30);
        assert!(after.rate > 900.0, "{spec}: {}", after.rate);
        assert!(after.quantile(0.5) < 60.0, "{spec}: {}", after.quantile(0.5));
    }
}
