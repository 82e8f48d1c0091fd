//! What one ack costs a controller of the registry, and the same controller in a module: pairs in one run.
//! `MODULE` names the module, which `./dev bench` builds from `crates/guest/examples/builtin.rs`.

use std::hint::black_box;
use std::sync::Arc;

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Loss, LostPacket, Random, RttEstimator,
    SentPacket, Setup, Span, Stamp, Time, register, registry,
};
use criterion::{Criterion, criterion_group, criterion_main};

const MSS: u64 = 1500;

fn one_ack(criterion: &mut Criterion) {
    static PLUGIN: [cellpace_cc::ControllerInfo; 1] = [cellpace_plugin::PLUGIN];
    register(&PLUGIN).expect("nothing is registered before");
    let Some(file) = std::env::var_os("MODULE") else {
        return println!("MODULE names no module: nothing is measured");
    };
    let bytes: Arc<[u8]> = std::fs::read(file).expect("MODULE is a file that can be read").into();
    for (which, info) in registry().iter().enumerate() {
        if !["newreno", "cubic", "copa", "bbr", "pace", "verus"].contains(&info.name) {
            continue;
        }
        let native: ControllerSpec = info.name.parse().expect("it is in the registry");
        let text = format!("plugin:builtin.wasm,which={which}");
        let module = ControllerSpec::parse(&text, &mut |_| Ok(bytes.to_vec()));
        let module = module.expect("the module has the controllers of the registry");
        for (way, spec) in [("native", native), ("module", module)] {
            let mut feed = Feed::new(&spec);
            criterion.bench_function(&format!("{}, one packet, {way}", info.name), |bencher| {
                bencher.iter(|| feed.packet());
            });
            if let Some(failure) = feed.controller.failure() {
                panic!("{}, {way}: {failure}", info.name);
            }
        }
    }
}

/// An endless transfer that always fills its window: each packet leaves, and is acked 40 ms later. When the window has
/// reached 200 packets, one is lost.
struct Feed {
    controller: Box<dyn Controller>,
    rtt: RttEstimator,
    now: Time,
    number: u64,
    stamp: Stamp,
}

impl Feed {
    fn new(spec: &ControllerSpec) -> Self {
        let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) };
        let mut rtt = RttEstimator::default();
        rtt.sample(Span::from_millis(40));
        let controller = spec.build(setup);
        Self { controller, rtt, now: Time::from_millis(40), number: 0, stamp: Stamp::default() }
    }

    fn packet(&mut self) -> u64 {
        let Self { controller, rtt, .. } = self;
        self.now += Span::from_micros(400);
        self.number += 1;
        if controller.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            controller.on_deadline(self.now);
        }
        let flight = controller.cwnd().min(200 * MSS);
        self.stamp = controller.on_sent(&SentPacket {
            now: self.now,
            number: self.number,
            bytes: MSS,
            in_flight: flight,
            app_limited: false,
            retransmission: false,
        });
        let acked = AckedPacket {
            number: self.number.saturating_sub(100),
            bytes: MSS,
            sent_at: self.now - Span::from_millis(40),
            rtt: Span::from_millis(40),
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp: self.stamp,
        };
        let next_number = self.number + 1;
        controller.on_ack(&Ack {
            now: self.now,
            packets: black_box(&[acked]),
            prior_in_flight: flight,
            in_flight: flight.saturating_sub(MSS),
            next_number,
            rtt,
        });
        if controller.cwnd() > 200 * MSS && self.number.is_multiple_of(1000) {
            let (number, sent_at, stamp) = (acked.number + 1, acked.sent_at, acked.stamp);
            controller.on_loss(&Loss {
                now: self.now,
                packets: &[LostPacket { number, bytes: MSS, sent_at, stamp }],
                prior_in_flight: flight,
                in_flight: flight - MSS,
                next_number,
                rtt,
            });
        }
        black_box(controller.pacing());
        controller.cwnd()
    }
}

criterion_group!(benches, one_ack);
criterion_main!(benches);
