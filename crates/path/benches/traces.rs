//! Reading traces, taking opportunities, and a packet's way through a path.

use std::hint::black_box;
use std::sync::Arc;

use cellpace_base::{Random, Span, Time};
use cellpace_path::schedule::{Replay, Schedule, Trace};
use cellpace_path::{Packet, Path, PathSpec, TraceSpec};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const LINES: usize = 250_000;
const PACKETS: u64 = 10_000;

/// About 10 Mbit/s with bursts and gaps, for five minutes.
fn trace() -> Trace {
    let mut random = Random::seeded(1, 0);
    let mut millis: Vec<_> = (0..LINES).map(|_| random.below(300_000) as u32).collect();
    millis.sort_unstable();
    Trace::from_millis(millis).expect("sorted, and the last is above zero")
}

fn reading(c: &mut Criterion) {
    let mut text = Vec::new();
    trace().write(&mut text).expect("memory takes everything");
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Elements(LINES as u64));
    group.bench_function("250k lines", |b| {
        b.iter(|| Trace::read("bench", black_box(text.as_slice())).map(|t| t.millis().len()));
    });
    group.finish();
}

fn taking(c: &mut Criterion) {
    let mut group = c.benchmark_group("take");
    group.throughput(Throughput::Elements(PACKETS));
    let recorded = TraceSpec::recorded("bench", Arc::new(trace()));
    let generated = ["constant:12mbit", "random:2mbit..20mbit/5s", "step:10mbit/5s,100mbit/5s"];
    let specs = generated.map(|text| text.parse::<TraceSpec>().expect("a written form"));
    for spec in specs.into_iter().chain([recorded]) {
        let mut schedule = spec.build(1).expect("nothing to fail");
        group.bench_function(spec.to_string(), |b| {
            b.iter(|| {
                for _ in 0..PACKETS {
                    black_box(schedule.peek());
                    schedule.take();
                }
            });
        });
    }
    let trace = Arc::new(trace());
    group.bench_function("skip each millisecond", |b| {
        b.iter_batched_ref(
            || Replay::new(Arc::clone(&trace)),
            |replay| (0..PACKETS).for_each(|ms| replay.skip_through(Time::from_millis(ms))),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// One packet in and the model advanced to its next deadline, as the simulator does it, with
/// about a dozen packets on their way and a queue that is never empty.
fn drive(path: &mut Path, now: &mut Time, gap: Span, extra: [Span; 2]) -> usize {
    let mut fates = Vec::with_capacity(64);
    let mut seen = 0;
    for id in 0..PACKETS {
        *now += gap;
        while path.next_deadline().is_some_and(|next| next <= *now) {
            path.advance(*now, &mut fates);
        }
        path.push_after(Packet::new(id, 0, 1500, *now), extra[(id % 2) as usize]);
        seen += fates.len();
        fates.clear();
    }
    seen
}

fn paths(c: &mut Criterion) {
    let mut group = c.benchmark_group("path");
    group.throughput(Throughput::Elements(PACKETS));
    let with = |trace: TraceSpec, delay: &str, loss: &str| PathSpec {
        trace: Some(trace),
        queue: "droptail:2MB".parse().expect("a written form"),
        delay: delay.parse().expect("a written form"),
        loss: loss.parse().expect("a written form"),
        ..PathSpec::default()
    };
    let constant = || "constant:12mbit".parse::<TraceSpec>().expect("a written form");
    let recorded = || TraceSpec::recorded("bench", Arc::new(trace()));
    let random = || "random:10mbit..14mbit/5s".parse::<TraceSpec>().expect("a written form");
    let (none, longer) = (Span::ZERO, Span::from_millis(7));
    for (name, spec, extra) in [
        ("constant rate", with(constant(), "20ms", "0%"), [none; 2]),
        ("recorded trace", with(recorded(), "20ms", "0%"), [none; 2]),
        ("recorded trace, two ways", with(recorded(), "20ms", "0%"), [longer, none]),
        ("all random", with(random(), "random:5ms..50ms/5s", "random:0%..1%/5s"), [none; 2]),
    ] {
        let mut path = spec.build(1).expect("nothing to fail");
        let mut now = Time::ZERO;
        let gap = Span::from_micros(if name == "constant rate" { 1_000 } else { 1_150 });
        group.bench_function(name, |b| {
            b.iter(|| black_box(drive(&mut path, &mut now, gap, extra)));
        });
    }
    group.finish();
}

criterion_group!(benches, reading, taking, paths);
criterion_main!(benches);
