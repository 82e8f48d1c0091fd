//! What MDI costs: loading its built-in model, and an epoch with its ack.

use std::hint::black_box;

use cellpace_cc::{
    Ack, AckedPacket, ControllerSpec, Random, RttEstimator, SentPacket, Setup, Span, Stamp, Time,
};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1500;

fn load(criterion: &mut Criterion) {
    criterion.bench_function("mdi/load the built-in model", |bencher| {
        bencher.iter(|| "mdi".parse::<ControllerSpec>());
    });
}

/// One packet sent, one acked with a delay that wanders, one epoch.
fn epoch(criterion: &mut Criterion) {
    let spec: ControllerSpec = "mdi".parse().expect("the name is in the registry");
    let mut random = Random::seeded(1, 0);
    let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(2, 0) };
    let mut controller = spec.build(setup);
    let estimator = RttEstimator::default();
    let (mut now, mut number) = (Time::ZERO, 0);
    criterion.bench_function("mdi/epoch and ack", |bencher| {
        bencher.iter(|| {
            now += Span::from_millis(5);
            controller.on_sent(&SentPacket {
                now,
                number,
                bytes: MSS,
                in_flight: 20 * MSS,
                app_limited: false,
                retransmission: false,
            });
            number += 1;
            let packet = AckedPacket {
                number,
                bytes: MSS,
                sent_at: now,
                rtt: Span::from_micros(40_000 + random.below(60_000)),
                received_at: None,
                app_limited: false,
                ecn: Default::default(),
                stamp: Stamp::default(),
            };
            controller.on_ack(&Ack {
                now,
                packets: &[packet],
                prior_in_flight: 20 * MSS,
                in_flight: 19 * MSS,
                next_number: number,
                rtt: &estimator,
            });
            controller.on_deadline(now);
            black_box(controller.cwnd())
        });
    });
}

criterion_group!(benches, load, epoch);
criterion_main!(benches);
