//! The real libraries over the modelled path, beside the simulator's own sender.

#![allow(clippy::unwrap_used)]

use cellpace_base::{Span, Time};
use cellpace_cc::{ControllerSpec, registry};
use cellpace_path::{DelaySpec, Fate, PacketRecord, PathSpec};
use cellpace_quic::virtual_time::{Plan, Run, Stack, transfer};
use cellpace_sim::{FlowSpec, Scenario};

const SECONDS: u64 = 30;

fn forward(trace: &str) -> PathSpec {
    PathSpec {
        trace: Some(trace.parse().unwrap()),
        queue: "droptail:2MB".parse().unwrap(),
        delay: DelaySpec::constant(Span::from_millis(20)),
        ..PathSpec::default()
    }
}

fn over_quic(stack: Stack, cc: Option<&str>, forward: &PathSpec, seed: u64) -> Run {
    let cc: Option<ControllerSpec> = cc.map(|cc| cc.parse().unwrap());
    let reverse = PathSpec { delay: forward.delay.clone(), ..PathSpec::default() };
    let duration = Span::from_secs(SECONDS);
    let plan = Plan { stack, cc: cc.as_ref(), ack_each: true, duration, seed };
    transfer(&plan, forward.build(seed).unwrap(), reverse.build_reverse(seed).unwrap()).unwrap()
}

/// Throughput in Mbit/s, headers included, and the 95th percentile of the queue delay in ms, without
/// the first two seconds, as the simulator has it.
fn figures(run: &Run) -> (f64, f64) {
    let skip = Span::from_secs(2);
    let counted = |record: &&PacketRecord| {
        record.fate == Fate::Delivered && record.packet.departed_at >= Time::ZERO + skip
    };
    let bytes: u64 = run.packets.iter().filter(counted).map(|r| u64::from(r.packet.size)).sum();
    let mut delays: Vec<f64> =
        run.packets.iter().filter(counted).map(|r| r.queue_delay().as_millis_f64()).collect();
    delays.sort_by(f64::total_cmp);
    (bytes as f64 * 8e-6 / (SECONDS - 2) as f64, delays[delays.len() * 95 / 100])
}

/// The same of the simulator's own sender.
fn simulated(cc: &str, trace: &str) -> (f64, f64) {
    let scenario = Scenario {
        trace: trace.parse().unwrap(),
        queue: "droptail:2MB".parse().unwrap(),
        duration: Span::from_secs(SECONDS),
        seed: 1,
        flows: vec![FlowSpec::bulk(cc.parse().unwrap())],
        ..Scenario::default()
    };
    let figures = cellpace_sim::run(&scenario).unwrap().figures;
    (figures.throughput_mbps, figures.queue_delay_ms.p95)
}

/// Every controller without a half at the receiver, both libraries, three links.
///
/// noq: within 6 % of the simulator's throughput, and the 95th percentile of the delay at most a
/// quarter and 40 ms above its (BBR pays for bursts of ten packets, which are the least that the
/// library's bucket holds). quinn paces by a window per round trip whatever the controller says, and
/// then waits until ten packets may leave at once: after an outage, with a small window and an
/// inflated round trip, that takes seconds. So it may have as little as 0.6 of the throughput.
#[test]
fn controllers_do_in_quic_what_they_do_in_the_simulator() {
    for trace in ["constant:12mbit", "lte-driving", "umts-driving"] {
        for info in registry().iter().filter(|info| info.name != "sprout" && info.name != "fixed") {
            let (rate, p95) = simulated(info.name, trace);
            for (stack, least, slack) in [(Stack::Noq, 0.94, 40.0), (Stack::Quinn, 0.6, 210.0)] {
                let run = over_quic(stack, Some(info.name), &forward(trace), 1);
                let what = format!("{} over {trace} in {stack:?}", info.name);
                assert_eq!(run.ended, None, "{what}");
                let (quic, delay) = figures(&run);
                let told =
                    format!("{what}: {quic:.2} of {rate:.2} Mbit/s, {delay:.0} of {p95:.0} ms");
                println!("{told}");
                assert!(quic > least * rate && quic < rate / 0.94 + 0.05, "{told}");
                assert!(delay < 1.25 * p95 + slack, "{told}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    for stack in [Stack::Noq, Stack::Quinn] {
        let packets = |seed| over_quic(stack, Some("verus"), &forward("lte-driving"), seed).packets;
        let first = packets(3);
        assert_eq!(first, packets(3), "{stack:?}");
    }
}

#[test]
fn the_libraries_own_controllers_fill_the_buffer() {
    for stack in [Stack::Noq, Stack::Quinn] {
        let run = over_quic(stack, None, &forward("constant:12mbit"), 1);
        let (rate, p95) = figures(&run);
        assert!(rate > 11.5 && p95 > 1000.0, "{stack:?}: {rate} Mbit/s, {p95} ms");
    }
}

#[test]
fn a_controller_with_a_half_at_the_receiver_is_refused_in_words() {
    let sprout = "sprout".parse().unwrap();
    let error = cellpace_quic::Factory::new(sprout, 1).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("`sprout` has a half at the receiver"), "{error}");
}
