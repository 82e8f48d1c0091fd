//! What one ack of one packet costs each window-based controller, and one of eight packets.

use std::hint::black_box;

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Random, RttEstimator, Setup, Span, Stamp, Time,
};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1500;

fn one_ack(criterion: &mut Criterion) {
    for name in ["newreno", "cubic", "vegas", "bic", "ledbat"] {
        for count in [1, 8] {
            let mut feed = Feed::new(name, count);
            criterion.bench_function(&format!("{name}, ack of {count}"), |bencher| {
                bencher.iter(|| feed.ack());
            });
        }
    }
}

/// An endless transfer at 100 packets per RTT of 40 ms.
struct Feed {
    controller: Box<dyn Controller>,
    packets: Vec<AckedPacket>,
    rtt: RttEstimator,
    now: Time,
}

impl Feed {
    const FLIGHT: u64 = 100;

    fn new(name: &str, count: u64) -> Self {
        let spec: ControllerSpec = name.parse().expect("a controller of the registry");
        let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) };
        let packet = |number| AckedPacket {
            number,
            bytes: MSS,
            sent_at: Time::ZERO,
            rtt: Span::from_millis(40),
            received_at: None,
            app_limited: false,
            stamp: Stamp::default(),
        };
        let mut rtt = RttEstimator::default();
        rtt.sample(Span::from_millis(40));
        Self {
            controller: spec.build(setup),
            packets: (0..count).map(packet).collect(),
            rtt,
            now: Time::from_millis(40),
        }
    }

    fn ack(&mut self) -> u64 {
        let count = self.packets.len() as u64;
        self.now += Span::from_micros(400 * count);
        for packet in &mut self.packets {
            packet.number += count;
            packet.sent_at = self.now - packet.rtt;
        }
        self.controller.on_ack(&Ack {
            now: self.now,
            packets: black_box(&self.packets),
            prior_in_flight: Self::FLIGHT * MSS,
            in_flight: (Self::FLIGHT - count) * MSS,
            next_number: self.packets[0].number + Self::FLIGHT,
            rtt: &self.rtt,
        });
        self.controller.cwnd()
    }
}

criterion_group!(benches, one_ack);
criterion_main!(benches);
