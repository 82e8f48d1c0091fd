//! What one ack of one packet costs each window-based controller, and one of eight packets.

use std::hint::black_box;

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Loss, LostPacket, Random, RttEstimator, Setup,
    Span, Stamp, Time,
};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1500;

fn one_ack(criterion: &mut Criterion) {
    for name in ["newreno", "cubic", "vegas", "bic", "westwood", "ledbat", "c2tcp", "prague"] {
        for count in [1, 8] {
            let mut feed = Feed::new(name, count);
            criterion.bench_function(&format!("{name}, ack of {count}"), |bencher| {
                bencher.iter(|| feed.ack());
            });
        }
    }
}

/// An endless transfer that always fills its window, so that every ack moves it, and loses a
/// packet when the window has reached 200.
struct Feed {
    controller: Box<dyn Controller>,
    packets: Vec<AckedPacket>,
    rtt: RttEstimator,
    now: Time,
}

impl Feed {
    const MAX_WINDOW: u64 = 200 * MSS;

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
            ecn: Default::default(),
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
        let flight = self.controller.cwnd();
        self.controller.on_ack(&Ack {
            now: self.now,
            packets: black_box(&self.packets),
            prior_in_flight: flight,
            in_flight: flight.saturating_sub(count * MSS),
            next_number: self.packets[0].number + flight / MSS,
            rtt: &self.rtt,
        });
        let cwnd = self.controller.cwnd();
        if cwnd > Self::MAX_WINDOW {
            self.lose(cwnd);
        }
        cwnd
    }

    fn lose(&mut self, flight: u64) {
        let number = self.packets[0].number + self.packets.len() as u64;
        let sent_at = self.now - Span::from_millis(40);
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &[LostPacket { number, bytes: MSS, sent_at, stamp: Stamp::default() }],
            prior_in_flight: flight,
            in_flight: flight - MSS,
            next_number: number + flight / MSS,
            rtt: &self.rtt,
        });
    }
}

criterion_group!(benches, one_ack);
criterion_main!(benches);
