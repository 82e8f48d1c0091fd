//! What Verus costs: an ack with its share of the epochs, and a fit of 300 points.

use std::hint::black_box;

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Event, Random, RttEstimator, SentPacket, Setup,
    Span, Time,
};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1500;

struct Flow {
    verus: Box<dyn Controller>,
    now: Time,
    next: u64,
    rtt: RttEstimator,
}

impl Flow {
    /// A flow that has learnt the windows 1 to 300 and left slow start.
    fn learnt() -> Self {
        let spec: ControllerSpec = "verus".parse().expect("the name is in the registry");
        let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) };
        let mut flow = Self {
            verus: spec.build(setup),
            now: Time::ZERO,
            next: 0,
            rtt: RttEstimator::default(),
        };
        for window in 1..=300 {
            flow.exchange(Span::from_micros(40_000 + 500 * window));
        }
        flow.exchange(Span::from_secs(1));
        flow.now += Span::from_millis(5);
        flow.verus.on_deadline(flow.now);
        assert!(flow.refits() > 0, "slow start is over and the profile fitted");
        flow
    }

    /// One packet there and its ack back.
    fn exchange(&mut self, rtt: Span) {
        let stamp = self.verus.on_sent(&SentPacket {
            now: self.now,
            number: self.next,
            bytes: MSS,
            in_flight: 2 * MSS,
            app_limited: false,
            retransmission: false,
        });
        let packets = [AckedPacket {
            number: self.next,
            bytes: MSS,
            sent_at: self.now - rtt,
            rtt,
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp,
        }];
        self.next += 1;
        self.verus.on_ack(&Ack {
            now: self.now,
            packets: &packets,
            prior_in_flight: 2 * MSS,
            in_flight: MSS,
            next_number: self.next,
            rtt: &self.rtt,
        });
    }

    fn refits(&mut self) -> usize {
        std::iter::from_fn(|| self.verus.poll_event())
            .filter(|(_, event)| matches!(event, Event::ProfileRefit { points: 300, .. }))
            .count()
    }
}

fn ack_and_epochs(criterion: &mut Criterion) {
    // 1000 packets per second: five acks per epoch, a fit every thousandth.
    let mut flow = Flow::learnt();
    criterion.bench_function("verus/ack_with_epoch_share", |bencher| {
        bencher.iter(|| {
            flow.now += Span::from_millis(1);
            // A steady queue: half a millisecond per packet of the window, and some noise.
            let queue = flow.verus.cwnd() / MSS * 500 + (flow.next * 7919) % 5_000;
            flow.exchange(Span::from_micros(40_000 + queue));
            if flow.verus.next_deadline() <= Some(flow.now) {
                flow.verus.on_deadline(flow.now);
            }
            black_box(flow.verus.permit().remaining(0))
        });
    });
}

fn refit(criterion: &mut Criterion) {
    let mut flow = Flow::learnt();
    criterion.bench_function("verus/epoch_with_refit_of_300_points", |bencher| {
        bencher.iter(|| {
            flow.now += Span::from_secs(1);
            flow.verus.on_deadline(flow.now);
            black_box(flow.verus.cwnd())
        });
    });
    assert!(flow.refits() > 0, "every epoch of it fitted");
}

criterion_group!(benches, ack_and_epochs, refit);
criterion_main!(benches);
