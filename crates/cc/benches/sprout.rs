//! What Sprout costs: the tables of a model that nobody has computed yet, one tick at the
//! receiver, one ack and one packet at the sender.

use std::hint::black_box;

use cellpace_cc::{
    Ack, AckedPacket, Arrival, Controller, ControllerSpec, Random, Receiver, RttEstimator,
    SentPacket, Setup, Span, Time,
};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1500;
const TICK: Span = Span::from_millis(20);

fn setup() -> Setup {
    Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) }
}

fn spec(text: &str) -> ControllerSpec {
    text.parse().expect("the name and its parameters are in the registry")
}

fn tables(criterion: &mut Criterion) {
    // Models are kept, so each round asks for another one.
    let mut sigma = 200.0;
    for (name, max_rate) in [("tables", 1000), ("tables_2000", 2000), ("tables_16000", 16_000)] {
        criterion.bench_function(&format!("sprout/{name}"), |bencher| {
            bencher.iter(|| {
                sigma += 0.001;
                let text = format!("sprout:max_rate={max_rate},sigma={sigma:.3}");
                black_box(spec(&text).build(setup()))
            });
        });
    }
}

struct Link {
    receiver: Box<dyn Receiver>,
    now: Time,
    number: u64,
    report: Vec<u8>,
}

impl Link {
    fn new(text: &str) -> Self {
        let receiver = spec(text).build_receiver(setup()).expect("sprout has a receiver half");
        Self { receiver, now: Time::ZERO, number: 0, report: Vec::new() }
    }

    fn arrive(&mut self) {
        let sequence = (self.number * MSS) % (1 << 36);
        self.receiver.on_arrival(&Arrival {
            now: self.now,
            number: self.number,
            bytes: MSS,
            wire: sequence,
            ecn: Default::default(),
        });
        self.number += 1;
    }

    /// A tick in which `packets` arrive, and its report.
    fn tick(&mut self, packets: u64) -> bool {
        (0..packets).for_each(|_| self.arrive());
        self.now += TICK;
        self.receiver.on_deadline(self.now + Span::from_nanos(1));
        self.report.clear();
        self.receiver.poll_report(self.now, &mut self.report)
    }
}

fn ticks(criterion: &mut Criterion) {
    let cases = [("tick", "sprout", 10), ("tick_of_fast_link", "sprout:max_rate=auto", 250)];
    for (name, text, packets) in cases {
        let mut link = Link::new(text);
        for _ in 0..500 {
            link.tick(packets);
        }
        criterion.bench_function(&format!("sprout/{name}"), |bencher| {
            bencher.iter(|| black_box(link.tick(packets)));
        });
    }
}

fn sender(criterion: &mut Criterion) {
    let mut flow = spec("sprout").build(setup());
    let mut now = Time::from_secs(1);
    let mut number = 0;
    let mut sent = |flow: &mut Box<dyn Controller>, now: Time| {
        number += 1;
        flow.on_sent(&SentPacket {
            now,
            number,
            bytes: MSS,
            in_flight: 10 * MSS,
            app_limited: false,
            retransmission: false,
        })
    };
    let stamp = sent(&mut flow, now);
    criterion.bench_function("sprout/packet", |bencher| {
        bencher.iter(|| {
            now += Span::from_millis(1);
            black_box(sent(&mut flow, now))
        });
    });
    let rtt = RttEstimator::default();
    criterion.bench_function("sprout/ack", |bencher| {
        bencher.iter(|| {
            now += Span::from_millis(1);
            let packets = [AckedPacket {
                number: 1,
                bytes: MSS,
                sent_at: now,
                rtt: Span::from_millis(40),
                received_at: None,
                app_limited: false,
                ecn: Default::default(),
                stamp,
            }];
            flow.on_ack(&Ack {
                now,
                packets: &packets,
                prior_in_flight: 10 * MSS,
                in_flight: 9 * MSS,
                next_number: 2,
                rtt: &rtt,
            });
            black_box(flow.permit().remaining(9 * MSS))
        });
    });
}

criterion_group!(benches, tables, ticks, sender);
criterion_main!(benches);
