//! What one packet costs: enqueue and dequeue, with a standing queue in front of it.

use std::hint::black_box;

use cellpace_base::{Ecn, Random, Rate, Span, Time};
use cellpace_path::queue::{Bottleneck, Drops};
use cellpace_path::{Packet, QueueSpec};
use criterion::{Criterion, criterion_group, criterion_main};

/// A packet every 120 us, as at 100 Mbit/s.
const GAP: Span = Span::from_micros(120);

fn one_packet_each(c: &mut Criterion) {
    let mut group = c.benchmark_group("queue");
    // Shallow: 20 packets, 2.4 ms, below every target. Deep: 500 packets, 60 ms, above all.
    for (depth, standing) in [("shallow", 20), ("deep", 500)] {
        for text in [
            "droptail:2MB",
            "drophead:2MB",
            "red",
            "codel",
            "codel:ecn=true",
            "pie",
            "pie:delay=rate",
            "fq_codel",
            "dualpi2",
        ] {
            let link = || Bottleneck { rate: Rate::from_mbps(100.0), rtt: Span::from_millis(40) };
            let spec: QueueSpec = match text.parse() {
                Ok(spec) => spec,
                Err(error) => panic!("{error}"),
            };
            for flows in if text == "fq_codel" { &[1_u32, 32][..] } else { &[1][..] } {
                let name = format!("{text}/{depth}/{flows}");
                group.bench_function(name, |bencher| {
                    let mut queue = spec.build(Random::seeded(1, 1), link);
                    let mut drops = Drops::new();
                    let mut now = Time::ZERO;
                    let mut id = 0;
                    bencher.iter(|| {
                        now += GAP;
                        // What the AQM dropped is made up for, so that the depth stays.
                        loop {
                            id += 1;
                            let flow = id as u32 % flows;
                            let ecn = if id % 2 == 0 { Ecn::Ect0 } else { Ecn::Ect1 };
                            let packet = Packet { ecn, ..Packet::new(id, flow, 1500, now) };
                            queue.enqueue(now, packet, &mut drops);
                            if queue.packets() > standing || drops.len() > 2 {
                                break;
                            }
                        }
                        drops.clear();
                        black_box(queue.dequeue(now, &mut drops))
                    });
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, one_packet_each);
criterion_main!(benches);
