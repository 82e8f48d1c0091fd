//! Both halves together over a link whose uplink loses and reorders reports.

use std::collections::VecDeque;

use crate::drive::{MSS, setup};
use crate::{Arrival, Controller, Random, Receiver, SentPacket, Span, Time};

use super::params::SproutObservation;
use super::receiver::SproutReceiver;
use super::sender::Sprout;
use super::*;

/// A link of one packet per 2 ms with an infinite queue, 20 ms each way, in steps of 1 ms.
struct Link {
    sender: Sprout,
    receiver: SproutReceiver,
    now: u64,
    number: u64,
    /// Whether the sender has data.
    data: bool,
    under_way: VecDeque<(u64, Arrival)>,
    reports: Vec<(u64, Vec<u8>)>,
    random: Random,
    /// Share of the reports that is lost, and how many ms they differ in delay.
    loss: f64,
    jitter_ms: u64,
    delivered: u64,
    longest_queue: usize,
}

impl Link {
    const ONE_WAY: u64 = 20;

    fn new(loss: f64, jitter_ms: u64) -> Self {
        Self {
            sender: Sprout::new(&params(""), &setup()),
            receiver: SproutReceiver::new(&params(""), &setup()),
            now: 0,
            number: 0,
            data: true,
            under_way: VecDeque::new(),
            reports: Vec::new(),
            random: Random::seeded(3, 3),
            loss,
            jitter_ms,
            delivered: 0,
            longest_queue: 0,
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            self.deliver();
            self.report();
            self.send();
        }
    }

    fn time(&self) -> Time {
        Time::from_millis(self.now)
    }

    fn deliver(&mut self) {
        let queue = self.under_way.iter().filter(|(at, _)| *at <= self.now).count();
        self.longest_queue = self.longest_queue.max(queue);
        let due = self.now.is_multiple_of(2) && queue > 0;
        if due && let Some((_, arrival)) = self.under_way.pop_front() {
            self.receiver.on_arrival(&Arrival { now: self.time(), ..arrival });
            self.delivered += 1;
        }
    }

    fn report(&mut self) {
        let now = self.time();
        if self.receiver.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.receiver.on_deadline(now);
        }
        let mut report = Vec::new();
        if self.receiver.poll_report(now, &mut report) && self.random.unit() >= self.loss {
            let delay = Self::ONE_WAY + self.random.below(self.jitter_ms + 1);
            self.reports.push((self.now + delay, report));
        }
        let at = self.now;
        for (_, report) in self.reports.extract_if(.., |(arrives, _)| *arrives <= at) {
            self.sender.on_report(now, &report);
        }
    }

    fn send(&mut self) {
        let now = self.time();
        if self.sender.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.sender.on_deadline(now);
        }
        while self.data && self.sender.permit().remaining(0) >= MSS {
            self.send_one(false);
        }
    }

    fn send_one(&mut self, app_limited: bool) {
        let (now, number) = (self.time(), self.number);
        self.number += 1;
        let stamp = self.sender.on_sent(&SentPacket {
            now,
            number,
            bytes: MSS,
            in_flight: 0,
            app_limited,
            retransmission: false,
        });
        let arrival =
            Arrival { now, number, bytes: MSS, wire: stamp.wire, ecn: Default::default() };
        self.under_way.push_back((self.now + Self::ONE_WAY, arrival));
    }

    /// Utilization over the next 10 s.
    fn utilization(&mut self) -> f64 {
        let before = self.delivered;
        self.longest_queue = 0;
        self.run(10_000);
        (self.delivered - before) as f64 / 5_000.0
    }
}

#[test]
fn lost_reports_cost_throughput_and_nothing_else() {
    let mut whole = Link::new(0.0, 0);
    whole.run(5_000);
    assert!(whole.utilization() > 0.98);
    let mut lossy = Link::new(0.3, 0);
    lossy.run(5_000);
    let utilization = lossy.utilization();
    assert!(utilization > 0.8, "{utilization}");
    assert!(lossy.longest_queue < 60, "{} packets", lossy.longest_queue);
}

#[test]
fn reports_out_of_order_are_survived() {
    let mut link = Link::new(0.1, 50);
    link.run(5_000);
    let utilization = link.utilization();
    assert!(utilization > 0.5, "{utilization}");
    assert!(link.longest_queue < 60, "{} packets", link.longest_queue);
}

#[test]
fn an_uplink_that_comes_back_finds_the_flow_alive() {
    let mut link = Link::new(0.0, 0);
    link.run(5_000);
    link.loss = 1.0;
    link.run(5_000);
    let before = link.delivered;
    link.run(5_000);
    let heartbeats = link.delivered - before;
    assert_eq!(heartbeats, 100, "one packet per 50 ms");
    link.loss = 0.0;
    link.run(3_000);
    assert!(link.utilization() > 0.98);
}

#[test]
fn a_sender_that_pauses_comes_back_at_full_speed() {
    let mut link = Link::new(0.0, 0);
    link.run(5_000);
    link.data = false;
    link.run(100);
    link.send_one(true);
    link.run(900);
    link.data = true;
    let before = link.delivered;
    link.run(500);
    let utilization = (link.delivered - before) as f64 / 250.0;
    // Silence taken for an outage would start from nothing.
    assert!(utilization > 0.7, "{utilization}");
}

#[test]
fn both_halves_are_deterministic() {
    let run = || {
        let mut link = Link::new(0.2, 10);
        link.run(3_000);
        (link.delivered, link.number, link.sender.cwnd())
    };
    assert_eq!(run(), run());
}

#[test]
fn max_rate_is_a_number_or_auto_and_confidence_is_no_certainty() {
    let error_of = |text: &str| match text.parse::<crate::ControllerSpec>() {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    assert_eq!(error_of("sprout:max_rate=auto"), "");
    assert_eq!(error_of("sprout:max_rate=4000,confidence=25%"), "");
    for wrong in ["99", "16001", "fast", "-1", "1e3"] {
        assert_eq!(
            error_of(&format!("sprout:max_rate={wrong}")),
            format!("`sprout`: max_rate={wrong} is out of range; allowed: auto, 100..16000")
        );
    }
    assert_eq!(
        error_of("sprout:confidence=100%"),
        "`sprout`: confidence=100% is out of range; allowed: 0.001..0.99 or 0.1%..99%"
    );
    assert_eq!(Span::from_millis(20), params("").tick);
}

#[test]
fn all_of_the_model_can_be_set() {
    let keys: Vec<&str> = SproutParams::table().iter().map(|param| param.key).collect();
    let expected = [
        "max_rate",
        "confidence",
        "look_ahead",
        "tick",
        "sigma",
        "escape",
        "observation",
        "outage_row",
        "joint",
    ];
    assert_eq!(keys, expected);
    let set = params(
        "tick=10ms,max_rate=2000,sigma=300,escape=2,confidence=50%,look_ahead=3,observation=exact,\
         outage_row=normalised,joint=true",
    );
    let model = ModelSpec::new(&set);
    assert_eq!((set.tick, model.tick), (Span::from_millis(10), Span::from_millis(10)));
    assert_eq!((model.max_rate, set.max_rate), (2000, MaxRate::Fixed(2000)));
    assert_eq!((model.sigma, model.escape), (300.0, 2.0));
    assert_eq!((set.confidence, set.look_ahead), (0.5, 3));
    assert_eq!(set.observation, SproutObservation::Exact);
    assert!(model.normalised_outage && model.joint);
    let auto = params("max_rate=auto");
    assert_eq!((ModelSpec::new(&auto).max_rate, auto.max_rate), (1000, MaxRate::Auto));
}
