//! One packet of a steady flow, sent and acked: 1000 packets per second over 40 ms, with an RTT
//! that swings by 5 ms. `fixed` does nothing on an ack: it is the cost of the frame.

use std::hint::black_box;

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Random, RttEstimator, SentPacket, Setup, Span,
    Time,
};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1500;
const WINDOW: u64 = 40;

struct Flow {
    controller: Box<dyn Controller>,
    rtt: RttEstimator,
    /// Packets in flight, by number modulo the window.
    sent: [AckedPacket; WINDOW as usize],
    number: u64,
}

impl Flow {
    fn new(spec: &str) -> Self {
        let spec: ControllerSpec = spec.parse().expect("a controller of the registry");
        let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) };
        let nothing = AckedPacket {
            number: 0,
            bytes: MSS,
            sent_at: Time::ZERO,
            rtt: Span::ZERO,
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp: Default::default(),
        };
        let mut flow = Self {
            controller: spec.build(setup),
            rtt: RttEstimator::default(),
            sent: [nothing; WINDOW as usize],
            number: 0,
        };
        (0..WINDOW).for_each(|_| flow.send());
        (0..10_000).for_each(|_| flow.step());
        flow
    }

    fn send(&mut self) {
        let now = Time::from_millis(self.number);
        let stamp = self.controller.on_sent(&SentPacket {
            now,
            number: self.number,
            bytes: MSS,
            in_flight: MSS * WINDOW.min(self.number + 1),
            app_limited: false,
            retransmission: false,
        });
        let slot = &mut self.sent[(self.number % WINDOW) as usize];
        *slot = AckedPacket { number: self.number, sent_at: now, stamp, ..*slot };
        self.number += 1;
    }

    fn step(&mut self) {
        let mut packet = self.sent[(self.number % WINDOW) as usize];
        // 40 to 45 ms, up and down.
        let swing = Span::from_micros((self.number % 500).abs_diff(250) * 20);
        let now = packet.sent_at + Span::from_millis(WINDOW) + swing;
        packet.rtt = now - packet.sent_at;
        self.rtt.sample(packet.rtt);
        self.controller.on_ack(&Ack {
            now,
            packets: &[packet],
            prior_in_flight: WINDOW * MSS,
            in_flight: (WINDOW - 1) * MSS,
            next_number: self.number,
            rtt: &self.rtt,
        });
        self.send();
    }
}

fn one_ack(c: &mut Criterion) {
    for spec in ["fixed", "copa", "copa:velocity=code", "pace", "bbr", "bbr3", "vivace", "scream"] {
        let mut flow = Flow::new(spec);
        c.bench_function(&format!("ack {spec}"), |b| {
            b.iter(|| {
                flow.step();
                black_box(flow.controller.cwnd())
            });
        });
    }
}

criterion_group!(benches, one_ack);
criterion_main!(benches);
