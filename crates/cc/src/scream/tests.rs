use cellpace_base::ParamSet;

use super::*;
use crate::{AckedPacket, LostPacket, Random, RttEstimator};

const MSS: u64 = 1500;

/// When the worked examples update.
const NOW: Time = Time::from_secs(10);

fn scream(rest: &str) -> Scream {
    let params = ScreamParams::parse("scream", rest).unwrap();
    Scream::new(&params, &Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) })
}

fn near(a: f64, b: f64, within: f64) -> bool {
    (a - b).abs() <= within
}

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

#[test]
fn scream_s1_share_of_marked_packets() {
    let mut flow = scream("ecn=l4s");
    let expected =
        [(0, 0.0), (5, 0.0625), (10, 0.179_688), (1, 0.178_284), (0, 0.176_891), (2, 0.179_779)];
    for (step, (marked, alpha)) in (1..).zip(expected) {
        flow.marks.count(10, marked);
        flow.marks.update(Time::ZERO + ms(20) * step, ms(40));
        assert!(near(flow.marks.alpha, alpha, 1e-6), "{}", flow.marks.alpha);
    }
}

#[test]
fn scream_s2_average_and_variation_of_the_queueing_delay() {
    let mut flow = scream("");
    flow.window = 60_000.0;
    let expected = [
        (10.0, 2.5, 0.001_758),
        (30.0, 9.375, 0.003_488),
        (30.0, 14.531, 0.005_191),
        (50.0, 23.398, 0.006_868),
        (20.0, 20.0, 0.008_519),
        (100.0, 40.0, 0.010_143),
    ];
    for (step, (now_ms, average_ms, deviation)) in (1..).zip(expected) {
        flow.queue.current = now_ms / 1e3;
        let ratio = flow.ratio();
        flow.queue.update(Time::ZERO + ms(30) * step, ms(40), ratio);
        assert!(near(flow.queue.average * 1e3, average_ms, 1e-3), "{}", flow.queue.average);
        assert!(near(flow.queue.deviation, deviation, 1e-6), "{}", flow.queue.deviation);
    }
    assert!(near(flow.queue.threshold, 0.075, 1e-12));
}

#[test]
fn scream_s3_threshold_of_the_variation() {
    for (window, threshold) in
        [(6_000.0, 0.05), (15_000.0, 0.05), (20_000.0, 0.05), (30_000.0, 0.05), (60_000.0, 0.075)]
    {
        let mut flow = scream("");
        flow.window = window;
        let ratio = flow.ratio();
        flow.queue.update(NOW, ms(40), ratio);
        assert!(near(flow.queue.threshold, threshold, 1e-12), "{window}");
    }
}

/// A window of 60 000 bytes, an RTT of 40 ms, the last reaction a second ago, and averages that were
/// just updated.
fn settled(rest: &str) -> Scream {
    let mut flow = scream(rest);
    flow.window = 60_000.0;
    flow.srtt = Some(ms(40));
    flow.queue.update(NOW - ms(1), ms(40), 0.025);
    (flow.queue.threshold, flow.queue.deviation) = (0.1, 0.0);
    let (start, previous) = (Some(NOW), 50_000);
    flow.flight = RoundFlight { start, previous, ..RoundFlight::default() };
    flow.last_reaction = Some(Time::from_secs(9));
    flow.last_congestion = Some(Time::from_secs(9));
    flow.inflection_at = Some(NOW - ms(10));
    flow
}

fn reduced(change: impl FnOnce(&mut Scream)) -> Scream {
    reduced_as("", change)
}

fn reduced_as(rest: &str, change: impl FnOnce(&mut Scream)) -> Scream {
    let mut flow = settled(rest);
    change(&mut flow);
    flow.update(NOW);
    flow
}

#[test]
fn scream_s4_reduction() {
    let lost = |flow: &mut Scream| flow.has_loss = true;
    assert_eq!(reduced(lost).window, 42_000.0);
    for (average_ms, window) in
        [(30.0, 60_000.0), (45.0, 50_625.0), (60.0, 41_250.0), (90.0, 41_250.0)]
    {
        let flow = reduced(|flow| flow.queue.average = average_ms / 1e3);
        assert!(near(flow.window, window, 1e-6), "{average_ms}: {}", flow.window);
    }
    for since in [20, 30] {
        let flow = reduced(|flow| {
            flow.has_loss = true;
            flow.last_reaction = Some(NOW - ms(since));
        });
        assert_eq!(flow.window, 60_000.0, "{since} ms after the last reaction");
        assert!(flow.has_loss, "it is answered later");
    }
    let small = reduced(|flow| {
        flow.has_loss = true;
        flow.window = 3_200.0;
    });
    assert_eq!(small.window, 3_000.0);
    let inflection = reduced(|flow| {
        flow.has_loss = true;
        flow.inflection_at = Some(Time::from_secs(9));
    });
    assert_eq!(inflection.inflection, 60_000.0);
    assert_eq!(reduced(lost).inflection, 1.0, "updated 10 ms ago");
}

#[test]
fn scream_s4_reduction_by_marks() {
    let marked = |flow: &mut Scream| {
        (flow.has_mark, flow.marks.alpha) = (true, 0.2);
    };
    assert_eq!(reduced_as("ecn=classic", marked).window, 48_000.0);
    // A queue that marks what did not ask for it: as a loss would, but gentler.
    assert_eq!(reduced(marked).window, 48_000.0);
    let l4s = |change: Change<'_>| {
        let flow = reduced_as("ecn=l4s", |flow| {
            marked(flow);
            change(flow);
        });
        assert!(!flow.has_mark);
        flow.window
    };
    // (what is different, the window afterwards)
    let cases: [(Change<'_>, f64); 5] = [
        (&|_| (), 56_250.0),
        (&|flow| flow.inflection = 58_000.0, 59_062.5),
        (
            &|flow| {
                flow.inflection = 58_000.0;
                flow.queue.current = 0.020;
            },
            56_250.0,
        ),
        (&|flow| flow.last_reaction = Some(NOW - ms(30)), 56_250.0),
        (&|flow| flow.last_reaction = Some(Time::from_secs(5)), 46_875.0),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        let seen = l4s(change);
        assert!(near(seen, expected, 1e-6), "case {case}: {seen}, not {expected}");
    }
    // A classic mark is answered once per RTT, as a loss is.
    let early = reduced_as("ecn=classic", |flow| {
        marked(flow);
        flow.last_reaction = Some(NOW - ms(30));
    });
    assert_eq!((early.window, early.has_mark), (60_000.0, true));
}

type Change<'a> = &'a dyn Fn(&mut Scream);

#[test]
fn scream_s5_growth() {
    let grown = |change: Change<'_>| {
        let mut flow = settled("");
        flow.last_reaction = Some(NOW);
        flow.last_congestion = None;
        flow.media.target = 5e6;
        flow.acked = 1_500.0;
        change(&mut flow);
        flow.update(NOW);
        flow.window - 60_000.0
    };
    let cases: [(f64, Change<'_>); 9] = [
        (67.5, &|_| ()),
        (37.5, &|flow| flow.last_congestion = Some(NOW)),
        (52.5, &|flow| flow.last_congestion = Some(Time::from_secs(8))),
        (10.125, &|flow| flow.inflection = 58_000.0),
        (27.0, &|flow| flow.srtt = Some(ms(10))),
        (33.75, &|flow| flow.queue.deviation = 0.05),
        (6.75, &|flow| flow.queue.deviation = 0.2),
        (0.0, &|flow| flow.flight.previous = 30_000),
        (0.0, &|flow| flow.media.target = 20e6),
    ];
    for (case, (expected, change)) in cases.into_iter().enumerate() {
        let seen = grown(change);
        assert!(near(seen, expected, 1e-6), "case {case}: {seen}, not {expected}");
    }
}

#[test]
fn scream_s6_target_rate() {
    for (window, srtt, adjust, deviation, expected) in [
        (60_000.0, 40, 0.0, 0.0, 9_740_260.0),
        (60_000.0, 40, 0.2, 0.1, 7_792_208.0),
        (6_000.0, 40, 0.0, 0.0, 827_922.0),
        (15_000.0, 40, 0.0, 0.0, 2_435_065.0),
        (3_000.0, 300, 0.0, 0.0, 100_000.0),
        (600_000.0, 40, 0.0, 0.0, 20_000_000.0),
    ] {
        let mut flow = scream("");
        flow.window = window;
        (flow.media.adjust, flow.media.size_deviation) = (adjust, deviation);
        let ratio = flow.ratio();
        flow.media.update(NOW, window, ms(srtt), ratio);
        assert!(near(flow.media.target, expected, 1.0), "{window}: {}", flow.media.target);
    }
    assert_eq!(scream("").target_rate(), Some(Rate::from_bps(1_000_000)), "before the first RTT");
}

#[test]
fn scream_s7_frames() {
    let mut flow = scream("");
    flow.media.target = 2.4e6;
    for (bytes, waiting, adjust, deviation) in [
        (10_000, 0, 0.0, 0.0),
        (12_000, 0, 0.0, 0.003_125),
        (8_000, 20, 0.021_875, 0.003_076),
        (8_000, 50, 0.1, 0.003_028),
    ] {
        let interval = Span::from_secs_f64(1.0 / 30.0);
        flow.on_frame(&Frame { now: NOW, bytes, waiting: ms(waiting), interval });
        assert!(near(flow.media.adjust, adjust, 1e-6), "{}", flow.media.adjust);
        assert!(near(flow.media.size_deviation, deviation, 1e-6), "{}", flow.media.size_deviation);
    }
}

#[test]
fn scream_s8_pacing_and_overhead() {
    for (rate, deviation, pace, overhead, allowance) in [
        (2e6, 0.0, 3e6, 3.0, 130_000),
        (16e6, 0.0, 24e6, 3.0, 130_000),
        (18e6, 0.05, 54e6, 2.25, 85_000),
        (20e6, 0.2, 120e6, 1.5, 40_000),
    ] {
        let mut flow = scream("");
        flow.window = 60_000.0;
        flow.media.target = rate;
        (flow.queue.deviation, flow.queue.threshold) = (deviation, 0.1);
        assert!(near(flow.pacing_rate(), pace, 1.0), "{rate}: {}", flow.pacing_rate());
        assert!(near(flow.overhead(), overhead, 1e-12), "{rate}: {}", flow.overhead());
        assert_eq!(flow.permit().remaining(50_000), allowance);
    }
    assert_eq!(scream("stable=false").overhead(), 3.0);
}

/// Acks one packet with an RTT of 40 ms and this one-way delay, by the receiver's clock.
fn ack(flow: &mut Scream, rtt: &mut RttEstimator, now: Time, received_at: Option<Time>) {
    ack_with(flow, rtt, now, received_at, Ecn::NotEct);
}

fn ack_with(
    flow: &mut Scream,
    rtt: &mut RttEstimator,
    now: Time,
    received_at: Option<Time>,
    ecn: Ecn,
) {
    let sent_at = now - ms(40);
    let packet = AckedPacket {
        number: 0,
        bytes: MSS,
        sent_at,
        rtt: ms(40),
        received_at,
        app_limited: false,
        ecn,
        stamp: Stamp::default(),
    };
    rtt.sample(ms(40));
    flow.on_ack(&Ack {
        now,
        packets: &[packet],
        prior_in_flight: 60_000,
        in_flight: 58_500,
        next_number: 100,
        rtt,
    });
}

#[test]
fn scream_s10_the_receivers_clock_may_be_any() {
    let shown = |offset_s: i64| {
        let (mut flow, mut rtt) = (scream(""), RttEstimator::default());
        for step in 0..200_u64 {
            let now = Time::from_secs(7200) + ms(5) * step;
            let there = now - ms(40) + ms(20 + step % 30);
            let nanos = there.as_nanos().wrapping_add_signed(offset_s * 1_000_000_000);
            ack(&mut flow, &mut rtt, now, Some(Time::from_nanos(nanos)));
        }
        (flow.window, flow.queue.average, flow.media.target)
    };
    assert_eq!(shown(0), shown(3600));
    assert_eq!(shown(0), shown(-3600));
    assert!(shown(0).1 > 0.0);
}

#[test]
fn scream_s11_without_times_of_arrival_the_rtt_stands_in() {
    let (mut flow, mut rtt) = (scream(""), RttEstimator::default());
    ack(&mut flow, &mut rtt, NOW, None);
    assert_eq!(flow.queue.current, 0.0);
    assert!(!flow.delay.is_one_way());
    ack(&mut flow, &mut rtt, NOW + ms(1), Some(NOW));
    assert!(flow.delay.is_one_way());
}

#[test]
fn scream_s12_timeout_halves() {
    let mut flow = settled("");
    let timeout = |flow: &mut Scream| {
        flow.on_timeout(&Timeout {
            now: NOW,
            prior_in_flight: 60_000,
            in_a_row: 1,
            next_number: 100,
        });
    };
    timeout(&mut flow);
    assert_eq!((flow.window, flow.last_reaction), (30_000.0, Some(NOW)));
    (0..9).for_each(|_| timeout(&mut flow));
    assert_eq!(flow.window, 3_000.0);
}

/// 1000 acks of 100 bytes each add 2.5 bytes less and less.
#[test]
fn scream_s13_fractions_of_bytes_count() {
    let mut flow = settled("");
    (flow.last_reaction, flow.last_congestion) = (Some(NOW), Some(NOW));
    flow.flight.previous = 1_000_000;
    for _ in 0..1000 {
        flow.acked = 100.0;
        flow.update(NOW);
    }
    assert!(near(flow.window, 62_450.03, 0.01), "{}", flow.window);
}

#[test]
fn scream_a_loss_is_answered_once_per_round_trip() {
    let mut flow = settled("");
    let mut lose = |now: Time| {
        let packet =
            LostPacket { number: 1, bytes: MSS, sent_at: now - ms(40), stamp: Stamp::default() };
        flow.on_loss(&Loss {
            now,
            packets: &[packet],
            prior_in_flight: 60_000,
            in_flight: 58_500,
            next_number: 100,
            rtt: &RttEstimator::default(),
        });
        flow.window
    };
    let first = lose(NOW);
    assert!((42_000.0..42_100.0).contains(&first), "{first}");
    assert!(lose(NOW + ms(39)) >= first);
    assert!(lose(NOW + ms(41)) < 0.75 * first);
}

#[test]
fn scream_a_base_delay_that_stays_longer_is_noticed() {
    let (mut flow, mut rtt) = (scream(""), RttEstimator::default());
    for step in 0..4000_u64 {
        let now = NOW + ms(10) * step;
        let delay = if step < 100 { 20 } else { 60 };
        ack(&mut flow, &mut rtt, now, Some(now - ms(40) + ms(delay)));
    }
    assert_eq!(flow.queue.current, 0.0, "the new delay is the base");
}

#[test]
fn scream_marked_packets_reduce_and_do_not_count_for_growth() {
    let after = |ecn: Ecn| {
        let mut flow = settled("ecn=l4s");
        flow.marks.alpha = 0.2;
        let mut rtt = RttEstimator::default();
        ack_with(&mut flow, &mut rtt, NOW, None, ecn);
        flow
    };
    let (plain, marked) = (after(Ecn::Ect1), after(Ecn::Ce));
    assert_eq!((plain.ecn(), scream("").ecn()), (Ecn::Ect1, Ecn::NotEct));
    assert!(plain.window > 60_000.0, "{}", plain.window);
    // alpha goes to 0.125 + 0.875 x 0.2 first.
    assert!(near(marked.window, 60_000.0 * (1.0 - 0.3 / 3.2), 1e-6), "{}", marked.window);
    assert_eq!(marked.last_congestion, Some(NOW));
}

#[test]
fn scream_a_mark_that_no_ack_names_counts() {
    let mut flow = settled("ecn=classic");
    let mark = Mark {
        now: NOW,
        packets: 1,
        newest: 0,
        prior_in_flight: 60_000,
        in_flight: 58_500,
        next_number: 100,
        rtt: &RttEstimator::default(),
    };
    flow.on_mark(&mark);
    assert_eq!(flow.window, 48_000.0);
}

#[test]
fn scream_limits_must_be_in_order() {
    for (text, part) in [
        ("scream:min_rate=2mbit,max_rate=1mbit", "min_rate="),
        ("scream:target=500ms", "target=500ms is above max_target=400ms"),
        ("scream:overhead_min=4", "overhead_min=4 is above overhead_max=3"),
    ] {
        let refused = text.parse::<crate::ControllerSpec>().unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
}
