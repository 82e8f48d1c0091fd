use cellpace_base::ParamSet;
use proptest::prelude::*;

use super::*;
use crate::{LostPacket, Random, RttEstimator, Span};

const MSS: u64 = 1500;

pub(super) fn params(text: &str) -> CopaParams {
    CopaParams::parse("copa", text).unwrap()
}

fn copa(text: &str) -> Copa {
    Copa::new(&params(text), &Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) })
}

/// A controller beyond slow start with a window, a base RTT and a standing RTT.
fn steady(text: &str, window: u64, base: f64, standing: f64) -> Copa {
    let mut copa = copa(text);
    copa.window = window * PACKET;
    copa.slow_start = false;
    copa.delays.sample(Time::from_millis(0), Span::from_millis_f64(base));
    copa.delays.sample(Time::from_millis(1000), Span::from_millis_f64(standing));
    copa.last_ack_at = Time::from_millis(1000);
    copa
}

fn packet(number: u64, now: Time, rtt: Span) -> AckedPacket {
    AckedPacket {
        number,
        bytes: MSS,
        sent_at: Time::ZERO + (now - Time::ZERO).max(rtt) - rtt,
        rtt,
        received_at: None,
        app_limited: false,
        ecn: Default::default(),
        stamp: Stamp::default(),
    }
}

fn ack_batch(copa: &mut Copa, now: Time, packets: &[AckedPacket]) {
    let rtt = RttEstimator::default();
    let next_number = packets[0].number + 1_000;
    copa.on_ack(&Ack { now, packets, prior_in_flight: 0, in_flight: 0, next_number, rtt: &rtt });
}

fn ack(copa: &mut Copa, number: u64, now_ms: u64, rtt_ms: f64) {
    let now = Time::from_millis(now_ms);
    ack_batch(copa, now, &[packet(number, now, Span::from_millis_f64(rtt_ms))]);
}

fn lose(copa: &mut Copa, now_ms: u64, count: usize) {
    let rtt = RttEstimator::default();
    let lost = LostPacket { number: 0, bytes: MSS, sent_at: Time::ZERO, stamp: Stamp::default() };
    copa.on_loss(&Loss {
        now: Time::from_millis(now_ms),
        packets: &vec![lost; count],
        prior_in_flight: 0,
        in_flight: 0,
        next_number: 1,
        rtt: &rtt,
    });
}

fn events(copa: &mut Copa) -> Vec<Event> {
    std::iter::from_fn(|| copa.poll_event()).map(|(_, event)| event).collect()
}

fn packets(window: u64) -> f64 {
    window as f64 / PACKET as f64
}

fn target(copa: &Copa) -> f64 {
    copa.target() as f64 / KEPT_ONE as f64
}

fn delta(copa: &Copa) -> f64 {
    KEPT_ONE as f64 / copa.kept as f64
}

/// Within what 16 bits behind the point leave out.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-4
}

#[test]
fn copa_t1_target() {
    assert!(close(target(&steady("delta=0.5", 10, 40.0, 60.0)), 6.0));
    assert!(close(target(&steady("delta=0.02", 10, 40.0, 60.0)), 150.0));
    // The rate that goes with it: 1/(delta dq) = 100 packets per second.
    let copa = steady("delta=0.5", 10, 40.0, 60.0);
    assert!(close(target(&copa) / copa.delays.standing() as f64 * 1e6, 100.0));
    assert_eq!(steady("", 10, 40.0, 40.0).target(), u64::MAX);
}

/// One ack's step of a window of `window` with the given velocity, towards a target above or
/// below.
fn step(text: &str, window: u64, velocity: u64, standing: f64) -> (f64, u64) {
    let mut copa = steady(text, window, 40.0, standing);
    let up = copa.window >> 16 < copa.target();
    copa.velocity =
        Velocity::at(velocity, if up { WindowDirection::Up } else { WindowDirection::Down });
    ack(&mut copa, 1, 1000, standing);
    (packets(copa.window), copa.velocity.value())
}

#[test]
fn copa_t2_window_steps() {
    // Standing 44.44 ms: target 20.
    let twenty = 40.0 / (1.0 - 1.0 / 10.0);
    assert!(close(step("mode=constant", 10, 1, twenty).0, 10.2));
    assert!(close(step("mode=constant", 10, 4, twenty).0, 10.8));
    assert!(close(step("mode=constant", 10, 1, 60.0).0, 9.8));
    // Target 80/(40*2) = 1 packet.
    assert!(close(step("mode=constant,delta=2", 2, 1, 80.0).0, 2.0));
}

#[test]
fn copa_t3_velocity_cap() {
    let mut copa = steady("mode=constant", 10, 40.0, 44.0);
    copa.velocity = Velocity::at(8, WindowDirection::Up);
    ack(&mut copa, 1, 1000, 44.0);
    assert_eq!(copa.velocity.value(), 4, "8 > 5: halved once");
    ack(&mut copa, 2, 1000, 44.0);
    assert_eq!(copa.velocity.value(), 4);
    assert_eq!(step("mode=constant", 10, 5, 44.0).1, 5);

    let mut small = steady("mode=constant,delta=0.02", 30, 40.0, 44.0);
    small.velocity = Velocity::at(2, WindowDirection::Up);
    ack(&mut small, 1, 1000, 44.0);
    ack(&mut small, 2, 1000, 44.0);
    assert_eq!(small.velocity.value(), 1, "the cap of 0.6 leaves the smallest velocity");
    assert_eq!(step("mode=constant,velocity_cap=off", 10, 8, 44.0).1, 4);
}

#[test]
fn copa_t4_pacing() {
    let interval = |window: u64, standing: f64| {
        let pacing = steady("", window, 40.0, standing).pacing().unwrap();
        pacing.rate.time_for(MSS).as_millis_f64()
    };
    assert!((interval(10, 60.0) - 3.0).abs() < 1e-4);
    assert!((interval(100, 50.0) - 0.25).abs() < 1e-4);
    assert_eq!(copa("").pacing(), None, "before the first RTT");
}

#[test]
fn copa_t7_constant_rtt_is_the_default_mode() {
    let competitive = |text: &str| {
        let mut copa = steady(text, 10, 40.0, 40.0);
        (0..100).for_each(|i| ack(&mut copa, i, 1000 + i, 40.0));
        copa.competitive
    };
    assert!(!competitive(""));
    assert!(competitive("near_empty=strict"));
    assert!(!competitive("near_empty=strict,mode=constant"));
}

#[test]
fn copa_t8_competitive_delta() {
    let mut copa = steady("", 10, 40.0, 80.0);
    // Fill all windows with a standing queue, but for the oldest minimum.
    copa.delays.sample(Time::from_millis(2_000), Span::from_millis(80));
    let mut now = 2_000;
    let mut after_rtt = |copa: &mut Copa| {
        now += 81;
        ack(copa, now, now, 80.0);
        delta(copa)
    };
    after_rtt(&mut copa);
    assert!(copa.competitive && delta(&copa) == 0.5);
    assert!(close(after_rtt(&mut copa), 1.0 / 3.0));
    assert!(close(after_rtt(&mut copa), 0.25));
    assert!(close(after_rtt(&mut copa), 0.2));
    lose(&mut copa, 2_330, 1);
    assert!(close(delta(&copa), 0.4));
    lose(&mut copa, 2_350, 1);
    assert!(close(delta(&copa), 0.4), "once per RTT");
    lose(&mut copa, 2_330 + 81, 1);
    assert!(close(delta(&copa), 0.5), "never above the default");

    copa.kept = 5 * KEPT_ONE;
    ack(&mut copa, 9_000, 2_500, 41.0);
    assert!(!copa.competitive && delta(&copa) == 0.5);
}

#[test]
fn copa_t8_the_answer_to_a_step_ends_its_rtt() {
    let mut copa = steady("", 10, 40.0, 80.0);
    copa.delays.sample(Time::from_millis(2_000), Span::from_millis(80));
    ack(&mut copa, 1, 2_081, 80.0);
    assert!(copa.competitive && delta(&copa) == 0.5);
    // Sent a moment before the switch, at that very instant, and long after.
    ack(&mut copa, 2, 2_160, 80.0);
    assert_eq!(delta(&copa), 0.5);
    ack(&mut copa, 3, 2_161, 80.0);
    assert!(close(delta(&copa), 1.0 / 3.0));
    ack(&mut copa, 4, 2_162, 80.0);
    assert!(close(delta(&copa), 1.0 / 3.0));
    lose(&mut copa, 2_170, 1);
    lose(&mut copa, 2_249, 1);
    assert!(close(delta(&copa), 0.5), "it is bounded by the default");
    copa.kept = 10 * KEPT_ONE;
    lose(&mut copa, 2_250, 1);
    assert!(close(delta(&copa), 0.2), "an RTT after the last doubling");
}

#[test]
fn copa_t8_delta_has_a_floor() {
    let lowest = |text: &str| {
        let mut copa = steady(text, 10, 40.0, 80.0);
        copa.delays.sample(Time::from_millis(2_000), Span::from_millis(80));
        (1..60).for_each(|i| ack(&mut copa, i, 2_000 + i * 81, 80.0));
        delta(&copa)
    };
    assert_eq!(lowest(""), 0.05);
    assert!(lowest("min_delta=0") < 0.02);
}

#[test]
fn copa_t9_heavy_loss_cuts_the_window() {
    let window_after = |lost: usize| {
        let mut copa = steady("mode=constant", 20, 40.0, 40.0);
        copa.losses = LossMeter::new(Time::from_millis(1000));
        lose(&mut copa, 1010, lost);
        // Without a queue the window would grow; hold it still.
        copa.params.probe = u64::MAX;
        (0..21 - lost as u64).for_each(|i| ack(&mut copa, i, 1070 + i, 40.0));
        (
            packets(copa.window),
            events(&mut copa).contains(&Event::Reduced { from: 30_000, to: 21_000 }),
        )
    };
    assert_eq!(window_after(7), (14.0, true));
    assert_eq!(window_after(6), (20.0, false));
}

#[test]
fn copa_t9_the_cut_falls_when_the_losses_were_none() {
    let mut copa = steady("mode=constant", 20, 40.0, 40.0);
    copa.params.probe = u64::MAX;
    copa.losses = LossMeter::new(Time::from_millis(1000));
    lose(&mut copa, 1010, 7);
    (0..14).for_each(|i| ack(&mut copa, i, 1070 + i, 40.0));
    assert_eq!(packets(copa.window), 14.0);
    let now = Time::from_millis(1100);
    let late = packet(3, now, Span::from_millis(100));
    copa.on_spurious(&Spurious::Loss { now, packet: &late });
    assert_eq!(packets(copa.window), 20.0);
    assert!(events(&mut copa).contains(&Event::Undone));
}

#[test]
fn copa_t10_slow_start() {
    let mut copa = copa("mode=constant,probe=19");
    (0..19).for_each(|i| ack(&mut copa, i, 40 + i, 40.0));
    assert_eq!(packets(copa.window), 10.0);
    ack(&mut copa, 19, 59, 40.0);
    assert_eq!(packets(copa.window), 11.0);
    // A standing queue whose target is 12.5: s/((s-40) 0.5) = 12.5.
    let standing = 500.0 / 10.5;
    ack(&mut copa, 20, 3_000 - 1_000, standing);
    assert!((target(&copa) - 12.5).abs() < 1e-3);
    assert_eq!((packets(copa.window), copa.slow_start), (12.0, true));
    ack(&mut copa, 21, 2_001, standing);
    assert_eq!((packets(copa.window), copa.slow_start), (13.0, false));
    ack(&mut copa, 22, 2_002, standing);
    assert!(close(packets(copa.window), 13.0 - 1.0 / (0.5 * 13.0)));
    let phases: Vec<_> =
        events(&mut copa).into_iter().filter(|event| matches!(event, Event::Phase(_))).collect();
    assert_eq!(phases, [Event::Phase(Phase::SlowStart), Event::Phase(Phase::Default)]);
}

#[test]
fn a_batch_counts_its_smallest_rtt_and_every_packet() {
    let mut copa = copa("");
    let now = Time::from_millis(100);
    let batch = [90, 40, 60].map(|rtt| packet(rtt, now, Span::from_millis(rtt)));
    ack_batch(&mut copa, now, &batch);
    assert_eq!((copa.delays.minimum(), copa.delays.standing()), (40_000, 40_000));
    assert_eq!(copa.delays.srtt(), 40_000);
    assert_eq!(packets(copa.window), 13.0);
}

#[test]
fn packets_sent_for_lack_of_data_do_not_grow_the_window() {
    let mut copa = steady("", 10, 40.0, 40.0);
    let now = Time::from_millis(1000);
    let mut idle = packet(1, now, Span::from_millis(40));
    idle.app_limited = true;
    ack_batch(&mut copa, now, &[idle]);
    assert_eq!(packets(copa.window), 10.0);
}

#[test]
fn a_timeout_holds_back_until_it_proves_spurious() {
    let mut copa = steady("", 50, 40.0, 60.0);
    let timeout = |at| Timeout {
        now: Time::from_millis(at),
        prior_in_flight: 50 * MSS,
        in_a_row: 1,
        next_number: 100,
    };
    copa.on_timeout(&timeout(1_300));
    copa.on_timeout(&timeout(1_900));
    assert_eq!(packets(copa.window), 2.0);
    copa.on_spurious(&Spurious::Timeout { now: Time::from_millis(1_950) });
    assert_eq!((packets(copa.window), copa.slow_start), (50.0, false));
    copa.on_spurious(&Spurious::Timeout { now: Time::from_millis(1_951) });
    let seen = events(&mut copa);
    assert_eq!(seen.iter().filter(|event| **event == Event::Undone).count(), 1);
    assert_eq!(seen.iter().filter(|event| **event == Event::Timeout).count(), 2);
}

#[test]
fn two_seconds_of_silence_start_over_with_the_minimum_kept() {
    let mut copa = steady("", 50, 40.0, 60.0);
    let timeout = Timeout {
        now: Time::from_millis(3_000),
        prior_in_flight: 50 * MSS,
        in_a_row: 2,
        next_number: 100,
    };
    copa.on_timeout(&timeout);
    assert_eq!((packets(copa.window), copa.slow_start), (10.0, true));
    assert_eq!((copa.delays.minimum(), copa.delays.standing()), (40_000, 0));
    // The full queue after the outage is seen as one.
    ack(&mut copa, 100, 3_600, 600.0);
    assert_eq!(copa.delays.queueing(), 560_000);
    assert!(!copa.slow_start);

    let mut paused = steady("", 50, 40.0, 60.0);
    let sent = |in_flight| SentPacket {
        now: Time::from_millis(3_000),
        number: 1,
        bytes: MSS,
        in_flight,
        app_limited: false,
        retransmission: false,
    };
    paused.on_sent(&sent(2 * MSS));
    assert_eq!(packets(paused.window), 50.0, "not idle: packets are in flight");
    paused.on_sent(&sent(MSS));
    assert_eq!(packets(paused.window), 10.0);
}

#[test]
fn a_new_path_forgets_the_base_rtt_and_ignores_late_samples_of_the_old() {
    let mut copa = steady("", 50, 40.0, 60.0);
    copa.on_path_change(Time::from_millis(1_100));
    assert_eq!((copa.delays.minimum(), packets(copa.window)), (0, 50.0));
    ack(&mut copa, 1, 1_110, 40.0);
    assert_eq!(copa.delays.minimum(), 0);
    ack(&mut copa, 2, 1_200, 100.0);
    assert_eq!((copa.delays.minimum(), copa.delays.queueing()), (100_000, 0));
    assert!(events(&mut copa).contains(&Event::Restart));
}

#[test]
fn the_window_is_given_in_packets_or_bytes() {
    assert_eq!(copa("initial_window=30kB").cwnd(), 30_000);
    assert_eq!(copa("initial_window=1pkts,min_window=4pkts").cwnd(), 4 * MSS);
    assert!(CopaParams::parse("copa", "delta=0").is_err());
    assert!(CopaParams::parse("copa", "mode=fast").is_err());
}

#[derive(Debug, Clone)]
enum Step {
    Ack { rtt_us: u64, count: usize, app_limited: bool },
    Loss(usize),
    Timeout,
    Spurious,
    PathChange,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u64..3_000_000, 1usize..20, any::<bool>())
            .prop_map(|(rtt_us, count, app_limited)| Step::Ack { rtt_us, count, app_limited }),
        2 => (1usize..50).prop_map(Step::Loss),
        1 => Just(Step::Timeout),
        1 => Just(Step::Spurious),
        1 => Just(Step::PathChange),
        4 => (0u64..5_000_000_000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #[test]
    fn any_history_leaves_the_window_finite_and_within_bounds(
        steps in steps(),
        text in prop::sample::select(vec![
            "", "mode=constant", "velocity=code,velocity_cap=off", "delta=0.0001,min_delta=0",
            "delta=10,near_empty=strict", "probe=19,idle=100ms",
        ]),
    ) {
        let mut copa = copa(text);
        let mut now = Time::ZERO;
        for (number, step) in steps.into_iter().enumerate() {
            let number = number as u64 * 20;
            match step {
                Step::Ack { rtt_us, count, app_limited } => {
                    let mut one = packet(number, now, Span::from_micros(rtt_us));
                    one.app_limited = app_limited;
                    ack_batch(&mut copa, now, &vec![one; count]);
                }
                Step::Loss(count) => lose(&mut copa, (now - Time::ZERO).as_nanos() / 1_000_000, count),
                Step::Timeout => copa.on_timeout(&Timeout {
                    now, prior_in_flight: 1, in_a_row: 1, next_number: number,
                }),
                Step::Spurious => copa.on_spurious(&Spurious::Timeout { now }),
                Step::PathChange => copa.on_path_change(now),
                Step::Wait(nanos) => now += Span::from_nanos(nanos),
            }
            prop_assert!(copa.window >= copa.settings.min_window && copa.window <= Copa::MAX_WINDOW);
            prop_assert!((copa.settings.kept..=copa.settings.most_kept).contains(&copa.kept));
            let mut finite = true;
            copa.inspect(&mut |_, value| finite &= value.is_finite());
            prop_assert!(finite);
            prop_assert!(copa.pacing().is_none_or(|pacing| pacing.rate.as_bps() > 0));
            prop_assert_eq!(copa.next_deadline(), None);
        }
    }
}
