use cellpace_base::ParamSet;
use proptest::prelude::*;

use super::filter::Kalman;
use super::rates::{additive, loss_factor, multiplicative};
use super::*;
use crate::{LostPacket, Random, RttEstimator};

const MSS: u64 = 1200;
const RTT: Span = Span::from_millis(100);

fn params(rest: &str) -> GccParams {
    GccParams::parse("gcc", rest).unwrap()
}

fn near(a: f64, b: f64, within: f64) -> bool {
    (a - b).abs() <= within
}

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

#[test]
fn gcc_g1_gain_of_the_kalman_filter() {
    let mut kalman = Kalman::default();
    kalman.update(0.0, 20.0);
    assert!(near(kalman.k, 0.002_016, 1e-6) && near(kalman.e, 0.100_796_4, 1e-7), "{kalman:?}");
    // From the second group on the variance falls by a = 0.99^0.6.
    kalman.update(0.0, 20.0);
    let variance = 50.0 * 0.99_f64.powf(0.6);
    let uncertain = 0.100_796_4 + 1e-3;
    assert!(near(kalman.variance, variance, 1e-9), "{kalman:?}");
    assert!(near(kalman.k, uncertain / (variance + uncertain), 1e-9), "{kalman:?}");
    for _ in 0..98 {
        kalman.update(0.0, 20.0);
    }
    let before = kalman.clone();
    let m = kalman.update(10.0, 20.0);
    assert!(near(m, kalman.k * 10.0, 1e-12), "{kalman:?}");
    assert!(kalman.variance > before.variance, "an outlier counts as three deviations");
    // e and k settle where what a sample takes is what the state's noise adds.
    let settled = |e: f64| near(kalman.k * (e + 1e-3), 1e-3, 5e-4);
    assert!(settled(before.e), "{before:?}");
}

#[test]
fn gcc_g2_threshold() {
    let mut detector = Detector::new(&params(""));
    let thresholds = [(20.0, 14.0), (5.0, 13.9676), (40.0, 13.9676)].map(|(m, expected)| {
        detector.adapt(m, 20.0);
        (detector.threshold_ms, expected)
    });
    assert!(thresholds.iter().all(|(is, expected)| near(*is, *expected, 1e-9)), "{thresholds:?}");
    detector.adapt(-1e9, 1e9);
    assert!(near(detector.threshold_ms, 13.9676, 1e-9), "an outlier below, too");
}

#[test]
fn gcc_g3_growth() {
    let far = 1e6 * multiplicative(1.08, ms(100));
    assert!(near(far, 1_007_726.0, 1.0), "{far}");
    assert_eq!(multiplicative(1.08, ms(5000)), multiplicative(1.08, ms(1000)));
    assert!(near(additive(ms(100), RTT, 9600.0), 2400.0, 1e-9));
    assert!(near(additive(ms(100), ms(100_000), 1.0), 100.0, 1e-9), "at least 1 kbit/s a second");
}

#[test]
fn gcc_g4_cuts() {
    let mut rate = DelayRate::new(&params("start_rate=2.5mbit"));
    let at = Time::from_secs(1);
    rate.update(at, Usage::Over, Some(2e6), RTT);
    assert!(near(rate.rate, 1.7e6, 1e-6), "{}", rate.rate);
    rate.update(at + ms(99), Usage::Over, Some(1e6), RTT);
    assert!(near(rate.rate, 1.7e6, 1e-6), "once per round trip: {}", rate.rate);
    rate.update(at + ms(100), Usage::Over, Some(1e6), RTT);
    assert!(near(rate.rate, 0.85e6, 1e-6), "{}", rate.rate);
    let factors = [0.2, 0.01, 0.05].map(loss_factor);
    assert_eq!(factors, [0.9, 1.05, 1.0]);
}

#[test]
fn near_the_rate_of_past_cuts_growth_is_additive() {
    let mut rate = DelayRate::new(&params("start_rate=1mbit"));
    let mut now = Time::from_secs(1);
    rate.update(now, Usage::Over, Some(1e6), RTT);
    // Hold, then increase.
    for _ in 0..2 {
        now += RTT;
        rate.update(now, Usage::Normal, Some(1e6), RTT);
    }
    let grown = rate.rate - 0.85e6;
    assert!(
        near(grown, 0.25 * 0.85e6 / 30.0 / 3.0, 1.0),
        "a quarter of an average packet: {grown}"
    );
    // Far above it, it is forgotten.
    let before = rate.rate;
    rate.update(now + RTT, Usage::Normal, Some(2e6), RTT);
    assert!(near(rate.rate / before, multiplicative(1.08, RTT), 1e-9));
}

#[test]
fn far_below_the_rate_of_past_cuts_growth_is_multiplicative() {
    let mut rate = DelayRate::new(&params("start_rate=1mbit"));
    let at = Time::from_secs(1);
    rate.update(at, Usage::Over, Some(1e6), RTT);
    rate.update(at + RTT, Usage::Normal, Some(0.8e6), RTT);
    rate.update(at + RTT * 2, Usage::Normal, Some(0.8e6), RTT);
    assert!(near(rate.rate / 0.85e6, multiplicative(1.08, RTT), 1e-9), "{}", rate.rate);
    // The mean is remembered: back near it growth is additive again.
    let before = rate.rate;
    rate.update(at + RTT * 3, Usage::Normal, Some(1e6), RTT);
    assert!(near(rate.rate - before, 0.25 * before / 30.0 / 4.0, 1000.0), "{}", rate.rate - before);
}

#[test]
fn a_rate_that_is_not_used_does_not_grow() {
    let mut rate = DelayRate::new(&params("start_rate=1mbit"));
    rate.update(Time::from_secs(1), Usage::Normal, Some(1e5), RTT);
    rate.update(Time::from_secs(2), Usage::Normal, Some(1e5), RTT);
    assert_eq!(rate.rate, 1e6);
}

#[test]
fn losses_cut_what_is_in_use_at_most_once_in_an_rtt_and_300_ms() {
    let mut rate = LossRate::new(&params(""));
    let at = Time::from_secs(1);
    let mut feedback = |at: Time, lost: u64| {
        rate.count(100 - lost, lost);
        rate.update(at, 1e6, RTT);
        rate.rate
    };
    assert_eq!(feedback(at, 5), 20e6);
    assert!(near(feedback(at, 20), 0.9e6, 1e-6));
    assert!(near(feedback(at + ms(399), 20), 0.9e6, 1e-6));
    assert!(near(feedback(at + ms(400), 0), 0.945e6, 1e-6));
}

/// A path with this much of a queue before each packet, in ms: packets of 1200 bytes, one a frame every 10 ms.
fn after_packets(gcc: &mut Gcc, packets: u64, queue_ms: impl Fn(u64) -> f64) -> Time {
    let mut rtt = RttEstimator::new(ms(200));
    let mut now = Time::ZERO;
    for number in 0..packets {
        let sent_at = Time::ZERO + ms(10) * number;
        let sent = SentPacket {
            now: sent_at,
            number,
            bytes: MSS,
            in_flight: MSS,
            app_limited: false,
            retransmission: false,
        };
        let stamp = gcc.on_sent(&sent);
        let received = sent_at + ms(20) + Span::from_millis_f64(queue_ms(number));
        now = received + ms(20);
        rtt.sample(now.since(sent_at));
        let packet = AckedPacket {
            number,
            bytes: MSS,
            sent_at,
            rtt: now.since(sent_at),
            // The receiver's clock is another one.
            received_at: Some(received + Span::from_secs(3600)),
            app_limited: false,
            ecn: crate::Ecn::NotEct,
            stamp,
        };
        gcc.on_ack(&Ack {
            now,
            packets: &[packet],
            prior_in_flight: MSS,
            in_flight: 0,
            next_number: number + 1,
            rtt: &rtt,
        });
    }
    now
}

fn gcc(rest: &str) -> Gcc {
    let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) };
    Gcc::new(&params(rest), &setup)
}

#[test]
fn a_queue_that_grows_cuts_the_rate_with_both_filters() {
    // The Kalman filter takes long to believe what it sees.
    for (filter, growth_ms) in [("trendline", 3.0), ("kalman", 60.0)] {
        // 0.96 Mbit/s arrive.
        let text = format!("filter={filter},start_rate=1mbit,probe=false");
        let mut steady = gcc(&text);
        after_packets(&mut steady, 300, |_| 0.0);
        assert!(steady.target() > 1.1e6, "{filter}: {}", steady.target());
        let mut grows = gcc(&text);
        after_packets(&mut grows, 300, |number| number.saturating_sub(150) as f64 * growth_ms);
        assert!(grows.target() < 0.85e6, "{filter}: {}", grows.target());
        let cuts = std::iter::from_fn(|| grows.poll_event());
        assert!(cuts.into_iter().any(|(_, event)| matches!(event, Event::Reduced { .. })));
    }
}

#[test]
fn a_probe_at_the_start_raises_the_rate_to_what_arrives() {
    let mut probed = gcc("start_rate=300kbit,feedback=1s");
    assert_eq!(probed.pacing().unwrap().rate, Rate::from_bps(900_000));
    // One packet each 10 ms is 0.96 Mbit/s; 0.85 of it is believed.
    after_packets(&mut probed, 20, |_| 0.0);
    assert!(near(probed.target(), 0.85 * 0.96e6, 1.0), "{}", probed.target());
    assert_eq!(probed.probes.rate(), None);
}

#[test]
fn a_probe_that_arrives_all_at_once_is_believed_as_fast_as_it_left() {
    let mut probed = gcc("start_rate=300kbit,feedback=1s");
    // Served every 30 ms.
    after_packets(&mut probed, 20, |number| (30 - number * 10 % 30) as f64);
    assert!(probed.target() <= 0.85 * 0.96e6 * 1.01, "{}", probed.target());
}

#[test]
fn nothing_limits_the_flight_without_pushback() {
    let free = gcc("pushback=false");
    assert_eq!((free.permit(), free.cwnd()), (Permit::Window(u64::MAX), u64::MAX));
    // 300 kbit/s for 100 ms and 500 ms.
    let limited = gcc("");
    assert_eq!((limited.permit(), limited.cwnd()), (Permit::Window(22_500), 22_500));
}

/// What may happen to a call, in any order.
#[derive(Debug, Clone)]
enum Step {
    /// A packet arrives so long after the last one left, with so much of a queue.
    Arrive {
        gap_ms: u64,
        queue_ms: u64,
    },
    /// So many packets are lost.
    Lose(usize),
    TimeOut,
    PathChange,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0_u64..60, prop_oneof![Just(0_u64), 0_u64..400])
            .prop_map(|(gap_ms, queue_ms)| Step::Arrive { gap_ms, queue_ms }),
        2 => (1_usize..30).prop_map(Step::Lose),
        1 => Just(Step::TimeOut),
        1 => Just(Step::PathChange),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, rate and threshold keep to their bounds, losses and timeouts never raise the rate, and
    /// without a probe it grows by 8 % a second at most (or half of a packet per round trip).
    #[test]
    fn rates_keep_to_their_bounds(
        steps in prop::collection::vec(step(), 1..400),
        filter in prop::sample::select(vec!["trendline", "kalman"]),
    ) {
        let mut flow = gcc(&format!("filter={filter},max_rate=3mbit,probe=false"));
        let rtt = RttEstimator::new(ms(200));
        let lost = [LostPacket { number: 0, bytes: MSS, sent_at: Time::ZERO, stamp: Stamp::default() }];
        let (mut sent_at, mut now, mut fed) = (Time::ZERO, Time::ZERO, Time::ZERO);
        for (number, step) in (0_u64..).zip(&steps) {
            let before = flow.target();
            match step {
                Step::Arrive { gap_ms, queue_ms } => {
                    sent_at += ms(*gap_ms);
                    now = now.max(sent_at + ms(40 + queue_ms));
                    let packet = AckedPacket {
                        number,
                        bytes: MSS,
                        sent_at,
                        rtt: now.since(sent_at),
                        received_at: Some(now),
                        app_limited: false,
                        ecn: crate::Ecn::NotEct,
                        stamp: Stamp::default(),
                    };
                    let next_number = number + 1;
                    let packets = &[packet];
                    flow.on_ack(&Ack { now, packets, prior_in_flight: MSS, in_flight: 0, next_number, rtt: &rtt });
                    let grown = flow.target() / before;
                    let seconds = now.since(fed).as_secs_f64().min(1.0);
                    let most = 1.08_f64.powf(seconds).max(1.0 + 4800.0 / before + 1000.0 * seconds / before);
                    // A rate that losses held may grow by a twentieth.
                    prop_assert!(grown <= most.max(1.05) + 1e-9, "{grown} in {seconds} s");
                    fed = flow.last_feedback.unwrap_or(now);
                }
                Step::Lose(count) => {
                    let loss = Loss { now, packets: &lost, prior_in_flight: MSS, in_flight: 0, next_number: 1, rtt: &rtt };
                    (0..*count).for_each(|_| flow.on_loss(&loss));
                    prop_assert!(flow.target() <= before);
                }
                Step::TimeOut => {
                    flow.on_timeout(&Timeout { now, prior_in_flight: 0, in_a_row: 1, next_number: 1 });
                    prop_assert!(flow.target() <= before);
                }
                Step::PathChange => {
                    flow.on_path_change(now);
                    prop_assert_eq!(flow.target(), before);
                }
            }
            let (target, threshold) = (flow.target(), flow.detector.threshold_ms);
            prop_assert!((30e3..=3e6).contains(&target), "{target}");
            prop_assert!((6.0..=600.0).contains(&threshold), "{threshold}");
            prop_assert!(flow.growth_ms.is_finite() && flow.flight_limit() >= MIN_FLIGHT * MSS);
        }
    }
}

#[test]
fn a_timeout_and_losses_leave_at_least_the_smallest_rate() {
    let mut flow = gcc("");
    let timeout = Timeout { now: RTT_END, prior_in_flight: 0, in_a_row: 1, next_number: 9 };
    flow.on_timeout(&timeout);
    assert!(near(flow.target(), 240_000.0, 1e-6));
    let rtt = RttEstimator::new(ms(200));
    let lost = [LostPacket { number: 0, bytes: MSS, sent_at: Time::ZERO, stamp: Stamp::default() }];
    for second in 0..200 {
        let now = Time::from_secs(second);
        let loss = Loss {
            now,
            packets: &lost,
            prior_in_flight: 0,
            in_flight: 0,
            next_number: 1,
            rtt: &rtt,
        };
        (0..20).for_each(|_| flow.on_loss(&loss));
        flow.on_feedback(now);
    }
    assert_eq!(flow.target_rate(), Some(Rate::from_bps(30_000)));
}

const RTT_END: Time = Time::from_millis(100);
