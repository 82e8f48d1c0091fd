use std::collections::VecDeque;

use cellpace_base::{ParamSet, Random};
use proptest::prelude::*;

use super::params::SetPointRule;
use super::profile::EWMA;
use super::*;
use crate::{ControllerSpec, LostPacket, RttEstimator};

const MSS: u64 = 1450;

fn verus(parameters: &str) -> Verus {
    let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) };
    Verus::new(&VerusParams::parse("verus", parameters).unwrap(), &setup)
}

/// Outside slow start, with a profile of 10 + w for the windows to 100 (fitted exactly) and
/// everything else as given by the test.
fn steady(parameters: &str) -> Verus {
    let mut verus = verus(parameters);
    for window in 1..=100 {
        verus.profile.record(Time::ZERO, window, 10.0 + f64::from(window));
    }
    verus.profile.refit(Time::ZERO, 0.0).unwrap();
    verus.profile.fit_at = Time::MAX;
    verus.slow_start = false;
    verus.flight.has_acks = true;
    verus.set_point.d_min = Some(10.0);
    verus
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn stamped(w: u64) -> Stamp {
    Stamp { local: [w, 0, 0, 0], wire: 0 }
}

fn ack(verus: &mut Verus, now: Time, number: u64, w: u64, rtt: f64) {
    ack_stamped(verus, now, number, stamped(w), rtt);
}

fn acked(now: Time, number: u64, stamp: Stamp, rtt: f64) -> AckedPacket {
    let rtt = Span::from_millis_f64(rtt);
    AckedPacket {
        number,
        bytes: MSS,
        sent_at: now - rtt,
        rtt,
        received_at: None,
        app_limited: false,
        ecn: Default::default(),
        stamp,
    }
}

fn ack_stamped(verus: &mut Verus, now: Time, number: u64, stamp: Stamp, rtt: f64) {
    let packets = [acked(now, number, stamp, rtt)];
    // The datapath's own count is of no interest here, as long as it is not zero.
    verus.on_ack(&Ack {
        now,
        packets: &packets,
        prior_in_flight: 2 * MSS,
        in_flight: MSS,
        next_number: number + 1,
        rtt: &RttEstimator::default(),
    });
}

fn lose(verus: &mut Verus, now: Time, numbers: &[(u64, u64)]) {
    let packets: Vec<_> = numbers
        .iter()
        .map(|(number, w)| LostPacket {
            number: *number,
            bytes: MSS,
            sent_at: now,
            stamp: stamped(*w),
        })
        .collect();
    verus.on_loss(&Loss {
        now,
        packets: &packets,
        prior_in_flight: 9 * MSS,
        in_flight: MSS,
        next_number: 1000,
        rtt: &RttEstimator::default(),
    });
}

fn send(verus: &mut Verus, now: Time, number: u64) -> Stamp {
    verus.on_sent(&SentPacket {
        now,
        number,
        bytes: MSS,
        in_flight: MSS,
        app_limited: false,
        retransmission: false,
    })
}

fn time_out(verus: &mut Verus, now: Time, next_number: u64) {
    verus.on_timeout(&Timeout { now, prior_in_flight: MSS, in_a_row: 1, next_number });
}

fn events(verus: &mut Verus) -> Vec<Event> {
    std::iter::from_fn(|| verus.poll_event()).map(|(_, event)| event).collect()
}

fn near(left: f64, right: f64) {
    assert!((left - right).abs() < 1e-6, "{left} is not {right}");
}

#[test]
fn verus_t2_share_of_an_epoch() {
    let share = |d_avg, w, in_flight| {
        let mut verus = verus("");
        verus.set_point.d_avg = Some(d_avg);
        verus.w = w;
        verus.flight.in_flight = in_flight;
        verus.epoch_share()
    };
    assert_eq!(share(50.0, 20.0, 15), 7.0);
    assert_eq!(share(50.0, 10.0, 30), 0.0);
    assert_eq!(share(4.0, 20.0, 15), 5.0);
    assert_eq!(share(8.0, 20.0, 15), 20.0);
    assert_eq!(share(8.0, 20.0, 1000), 20.0);
    // With a window of two packets, the second leaves while the first is in flight.
    assert_eq!([1, 2, 3].map(|in_flight| share(50.0, 2.0, in_flight)), [2.0, 1.0, 0.0]);
}

/// One epoch with `newest` as its largest delay; returns set-point, base delay and credit.
fn epoch(verus: &mut Verus, newest: f64) -> (f64, f64, f64) {
    verus.set_point.epoch_max = Some(newest);
    verus.run_epoch(ms(5));
    (verus.set_point.d_est, verus.set_point.d_min.unwrap(), verus.credit)
}

fn above_r(d_est: f64, in_flight: u64) -> Verus {
    let mut verus = steady("r=6");
    verus.set_point.d_min = Some(20.0);
    verus.set_point.d_max_s = Some(130.0);
    verus.set_point.d_avg = Some(50.0);
    verus.set_point.d_est = d_est;
    verus.flight.in_flight = in_flight;
    verus.credit = 0.0;
    verus
}

#[test]
fn verus_t3_above_r_the_set_point_falls_to_the_base_and_drains() {
    assert_eq!(epoch(&mut above_r(60.0, 5), 130.0).0, 58.0);
    assert_eq!(epoch(&mut above_r(21.0, 5), 130.0), (20.0, 20.0, 0.0));
    let (d_est, d_min, credit) = epoch(&mut above_r(21.0, 1), 130.0);
    assert_eq!((d_est, d_min), (20.0, 30.0));
    assert!(credit >= 1.0);

    let mut held = above_r(60.0, 5);
    held.set_point.hold = true;
    assert_eq!(epoch(&mut held, 130.0).0, 60.0);
}

#[test]
fn verus_t4_set_point_and_smoothed_maximum() {
    let moved = |d_est, newest| {
        let mut verus = above_r(d_est, 5);
        verus.set_point.d_max_s = Some(50.0);
        epoch(&mut verus, newest);
        (verus.set_point.d_est, verus.set_point.d_max_s.unwrap())
    };
    let (d_est, smoothed) = moved(60.0, 55.0);
    near(d_est, 59.0);
    near(smoothed, 54.0);
    near(moved(60.0, 50.00005).0, 62.0);
    let (d_est, smoothed) = moved(60.0, 45.0);
    near(d_est, 62.0);
    near(smoothed, 46.0);
    near(moved(20.5, 55.0).0, 20.0);
}

#[test]
fn verus_t4_as_printed_eq_4_uses_the_new_smoothed_delay_and_no_clamp() {
    let mut verus = above_r(21.0, 5);
    verus.params.law = SetPointRule::Paper;
    assert_eq!(epoch(&mut verus, 130.0).0, 19.0);
    verus.set_point.d_max_s = Some(121.0);
    verus.set_point.d_est = 60.0;
    // The new smoothed delay of 44 is below 6 * 20, the old one is not.
    assert_eq!(epoch(&mut verus, 25.0).0, 62.0);
}

#[test]
fn verus_t5_silence_is_delay() {
    let moved = |quiet_since| {
        let mut verus = above_r(60.0, 5);
        verus.set_point.d_max_s = Some(50.0);
        verus.flight.quiet_since = quiet_since;
        verus.run_epoch(ms(100));
        (verus.set_point.d_est, verus.set_point.d_max_s.unwrap())
    };
    let (d_est, smoothed) = moved(ms(20));
    near(d_est, 59.0);
    near(smoothed, 0.2 * 50.0 + 0.8 * 80.0);
    assert_eq!(moved(ms(90)), (62.0, 50.0));
}

fn losing(w: f64) -> Verus {
    let mut verus = steady("gap=fixed");
    verus.w = w;
    verus.flight.in_flight = 70;
    verus.set_point.d_est = 40.0;
    verus
}

#[test]
fn verus_t9_an_expired_gap_cuts_the_window_once() {
    let mut verus = losing(60.0);
    lose(&mut verus, ms(0), &[(10, 80), (11, 50)]);
    verus.expire_gaps(ms(149));
    assert_eq!((verus.w, verus.flight.in_flight), (60.0, 70));
    verus.expire_gaps(ms(150));
    near(verus.w, 56.0);
    near(verus.set_point.d_est, verus.delay_at(56.0));
    assert!((verus.set_point.d_est - 66.0).abs() < 1e-3);
    assert_eq!((verus.in_loss, verus.flight.in_flight), (true, 68));

    lose(&mut verus, ms(160), &[(20, 20)]);
    verus.expire_gaps(ms(400));
    near(verus.w, 56.0);

    verus.w = 56.0;
    ack(&mut verus, ms(410), 30, 57, 60.0);
    assert!(verus.in_loss);
    verus.w = 56.0;
    ack(&mut verus, ms(411), 31, 56, 70.0);
    assert!(!verus.in_loss);
    assert_eq!(
        verus.set_point.epoch_max,
        Some(70.0),
        "only the delay of the ack that ended the phase"
    );
}

#[test]
fn verus_t9_the_window_never_falls_below_one() {
    let mut verus = losing(1.0);
    lose(&mut verus, ms(0), &[(10, 1)]);
    verus.expire_gaps(ms(150));
    assert_eq!(verus.w, 1.0);
}

#[test]
fn verus_t9_a_large_loss_ends_slow_start_and_a_small_one_does_not() {
    let losing_in_slow_start = |w: f64, w_lost| {
        let mut verus = verus("gap=fixed");
        for window in 1..=140 {
            verus.profile.record(Time::ZERO, window, 10.0 + f64::from(window));
        }
        verus.w = w;
        verus.flight.in_flight = 30;
        verus.flight.next_number = 200;
        lose(&mut verus, ms(0), &[(10, w_lost), (11, w_lost)]);
        verus.run_epoch(ms(150));
        verus
    };
    let left = losing_in_slow_start(40.0, 80);
    assert!(!left.slow_start && left.in_loss);
    // In flight no more, but for what this first epoch released.
    assert_eq!(
        (left.flight.in_flight, left.losses.missing.len(), left.flight.first_live),
        (0, 0, 200)
    );
    assert_eq!(left.profile.point(99), Some(109.0));
    assert_eq!(left.profile.point(100), None);
    assert_eq!(losing_in_slow_start(300.0, 200).profile.len(), 140);
    assert_eq!(losing_in_slow_start(300.0, 120).profile.len(), 119);

    let mut cut = verus("gap=fixed");
    cut.w = 40.0;
    lose(&mut cut, ms(0), &[(10, 80)]);
    cut.expire_gaps(ms(150));
    assert_eq!((cut.w, cut.slow_start), (40.0, false));

    let stayed = losing_in_slow_start(30.0, 20);
    near(stayed.w, 14.0);
    assert!(stayed.slow_start && stayed.in_loss);
    assert_eq!(stayed.flight.in_flight, 28);
}

#[test]
fn verus_t10_timeout_after_five_delays() {
    let mut verus = verus("");
    assert_eq!(verus.rto(), Some(Span::from_secs(1)));
    for (number, rtt, rto) in [(0, 20.0, 150), (1, 100.0, 500), (2, 300.0, 1000)] {
        ack(&mut verus, ms(1000), number, 1, rtt);
        assert_eq!(verus.rto(), Some(Span::from_millis(rto)));
    }
}

/// What leaves in each round of 40 ms when every packet arrives.
fn rounds(verus: &mut Verus, count: u64) -> Vec<u64> {
    let mut next = 0;
    let mut round = |number| {
        let now = ms(40 * number);
        let first = next;
        let mut stamps = Vec::new();
        while verus.permit().remaining(0) >= MSS {
            stamps.push(send(verus, now, next));
            next += 1;
        }
        for (number, stamp) in (first..).zip(stamps) {
            ack_stamped(verus, now + Span::from_millis(40), number, stamp, 40.0);
        }
        next - first
    };
    (0..count).map(&mut round).collect()
}

#[test]
fn verus_t11_slow_start_doubles() {
    assert_eq!(rounds(&mut verus(""), 6), [1, 2, 4, 8, 16, 32]);
    // Where acks come faster than packets leave, the original counts the same room repeatedly.
    assert_eq!(rounds(&mut verus("credit=code"), 3), [1, 2, 6]);
}

#[test]
fn verus_t11_a_long_delay_ends_slow_start() {
    let mut verus = verus("");
    for w in 1..=100 {
        ack(&mut verus, ms(w), w - 1, w, 40.0);
    }
    assert!(verus.slow_start);
    ack(&mut verus, ms(600), 100, 100, 501.0);
    near(verus.w, 70.0);
    assert!(verus.in_loss && verus.set_point.hold && !verus.slow_start);
    near(verus.set_point.d_est, 40.0);
    assert_eq!(
        events(&mut verus),
        [
            Event::Phase(Phase::SlowStart),
            Event::BaseDelay(Span::from_millis(40)),
            Event::Reduced { from: 101 * MSS, to: 70 * MSS },
            Event::Phase(Phase::Recovery),
        ]
    );
}

fn in_loss_with_point_11() -> Verus {
    let mut verus = verus("");
    verus.slow_start = false;
    verus.flight.has_acks = true;
    verus.in_loss = true;
    verus.w = 10.0;
    verus.profile.record(Time::ZERO, 10, 40.0);
    verus.profile.record(Time::ZERO, 11, 40.0);
    verus
}

#[test]
fn verus_t12_the_profile_is_frozen_in_the_loss_phase() {
    let mut verus = in_loss_with_point_11();
    ack(&mut verus, ms(500), 1, 11, 99.0);
    assert_eq!(verus.profile.point(11), Some(40.0));
    near(verus.w, 10.1);
    ack(&mut verus, ms(501), 2, 10, 99.0);
    assert!(!verus.in_loss);
    near(verus.profile.point(10).unwrap(), 47.375);
    near(verus.w, 10.1);
}

#[test]
fn a_full_buffer_ends_slow_start_or_cuts_the_window() {
    let mut starting = verus("");
    for number in 0..100 {
        ack(&mut starting, ms(number), number, number + 1, 40.0);
    }
    let stamp = send(&mut starting, ms(100), 100);
    starting.on_block(&Block { now: ms(100), stamp, waits: false });
    near(starting.w, 0.49 * 101.0);
    assert!(!starting.slow_start && starting.in_loss && starting.set_point.hold);
    assert_eq!((starting.permit().remaining(0), starting.flight.in_flight), (0, 0));

    let mut steady = steady("");
    steady.w = 50.0;
    steady.credit = 9.0;
    steady.on_block(&Block { now: ms(1), stamp: Stamp::default(), waits: false });
    near(steady.w, 35.0);
    assert!((steady.set_point.d_est - 45.0).abs() < 1e-3);
    assert!(!steady.in_loss);
    assert_eq!(steady.permit().remaining(0), 0);
}

#[test]
fn alcc_a_window_that_tcp_does_not_follow_is_what_tcp_follows() {
    let mut steady = steady("");
    (steady.w, steady.credit, steady.flight.in_flight) = (50.0, 9.0, 47);
    let block = Block { now: ms(1), stamp: Stamp::default(), waits: true };
    steady.on_block(&block);
    near(steady.w, 47.0);
    near(steady.credit, 0.0);
    let mut cutting = self::steady("cut_on_wait=true");
    cutting.w = 50.0;
    cutting.on_block(&block);
    near(cutting.w, 35.0);
}

#[test]
fn a_late_packet_is_no_loss_when_it_comes_before_its_gap_expires() {
    let mut verus = losing(60.0);
    lose(&mut verus, ms(0), &[(10, 80), (11, 80)]);
    for number in [11, 10] {
        let packet = acked(ms(100), number, stamped(80), 90.0);
        verus.on_spurious(&Spurious::Loss { now: ms(100), packet: &packet });
    }
    verus.expire_gaps(ms(1000));
    assert_eq!((verus.w, verus.flight.in_flight, verus.in_loss), (60.0, 68, false));
    assert_eq!(verus.set_point.epoch_max, Some(90.0));
    // After its expiry it is none any more.
    lose(&mut verus, ms(1000), &[(12, 80)]);
    verus.expire_gaps(ms(2000));
    let packet = acked(ms(2001), 12, stamped(80), 900.0);
    verus.on_spurious(&Spurious::Loss { now: ms(2001), packet: &packet });
    assert_eq!((verus.flight.in_flight, verus.set_point.epoch_max), (67, Some(90.0)));
}

#[test]
fn a_safe_gap_waits_three_delays() {
    for (parameters, expiry) in [("", 150), ("gap=safe", 300)] {
        let mut verus = steady(parameters);
        ack(&mut verus, ms(0), 0, 10, 100.0);
        lose(&mut verus, ms(0), &[(1, 10)]);
        assert_eq!(verus.losses.missing[0].expires_at, ms(expiry), "{parameters}");
    }
    // With nothing else in flight no timer runs: gaps may not keep the flow silent for longer
    // than the longest timeout would.
    let mut slow = steady("gap=safe");
    ack(&mut slow, ms(0), 0, 10, 2500.0);
    lose(&mut slow, ms(0), &[(1, 10)]);
    assert_eq!(slow.losses.missing[0].expires_at, ms(1000));
}

/// On a full buffer the profile is flat: the set-point alone would lead right back.
#[test]
fn heavy_losses_limit_the_window_where_the_profile_is_flat() {
    let after = |parameters, lost: u64| {
        let mut verus = steady(parameters);
        verus.w = 100.0;
        for number in 0..100 {
            send(&mut verus, ms(0), number);
        }
        let lost: Vec<_> = (0..lost).map(|number| (number, 100)).collect();
        lose(&mut verus, ms(0), &lost);
        verus.on_deadline(ms(150));
        verus.take_window(500.0);
        verus
    };
    assert_eq!(after("", 5).w, 500.0, "random loss is no full buffer");
    assert_eq!(after("ceiling_loss=1", 40).w, 500.0);
    let mut verus = after("", 40);
    // Eq. 6 once for the event, however many packets it lost.
    assert_eq!(verus.w, 70.0);
    for number in 40..110 {
        ack(&mut verus, ms(151), number, 70, 110.0);
    }
    verus.take_window(500.0);
    // A tenth of the window after an RTT, that is, after a window of acks.
    assert!((77.0..77.5).contains(&verus.w), "{}", verus.w);
}

/// A gap expires 150 ms later; by then a flat curve has raised the window in thirty epochs.
#[test]
fn losses_limit_the_window_when_they_are_detected() {
    let mut verus = steady("");
    verus.w = 100.0;
    for number in 0..100 {
        send(&mut verus, ms(0), number);
    }
    let lost: Vec<_> = (0..40).map(|number| (number, 100)).collect();
    lose(&mut verus, ms(0), &lost);
    verus.take_window(500.0);
    assert_eq!(verus.w, 70.0);
}

/// The window may be a single packet while those of a larger one are acked.
#[test]
fn the_limit_rises_by_a_tenth_in_an_rtt_whatever_the_window_is_meanwhile() {
    let mut verus = steady("");
    for number in 0..70 {
        send(&mut verus, ms(0), number);
    }
    verus.losses.ceiling = 70.0;
    for number in 0..70 {
        verus.w = 1.0;
        ack(&mut verus, ms(1), number, 70, 110.0);
    }
    assert!((77.0..77.5).contains(&verus.losses.ceiling), "{}", verus.losses.ceiling);
}

/// What others keep in the queue is not the path's: see `raise_base`.
#[test]
fn only_an_ack_raises_the_base_and_not_above_its_rtt() {
    let base_after = |bump_on, newest: Option<f64>| {
        let mut verus = steady(&format!("r=6,bump_on={bump_on}"));
        verus.set_point.d_min = Some(20.0);
        verus.set_point.d_max_s = Some(130.0);
        verus.set_point.d_est = 21.0;
        verus.flight.in_flight = 1;
        verus.set_point.epoch_max = newest;
        verus.run_epoch(ms(5));
        verus.set_point.d_min
    };
    assert_eq!(base_after("ack", Some(130.0)), Some(30.0));
    assert_eq!(base_after("ack", Some(25.0)), Some(25.0));
    assert_eq!(base_after("ack", None), Some(20.0), "silence does not measure the path");
    assert_eq!(base_after("epoch", None), Some(30.0));
}

#[test]
fn what_waited_through_an_outage_teaches_nothing() {
    let mut verus = steady("");
    for number in 0..30 {
        send(&mut verus, ms(0), number);
    }
    time_out(&mut verus, ms(150), 30);
    verus.on_spurious(&Spurious::Timeout { now: ms(900) });
    ack(&mut verus, ms(900), 0, 50, 900.0);
    assert_eq!((verus.in_loss, verus.flight.in_flight, verus.set_point.epoch_max), (true, 0, None));
    assert_eq!(verus.profile.point(50), steady("").profile.point(50));
}

#[test]
fn a_timeout_sets_the_set_point_to_the_base_and_a_spurious_one_can_take_it_back() {
    let mut verus = steady("late=sample");
    verus.w = 50.0;
    verus.set_point.d_est = 60.0;
    for number in 0..30 {
        send(&mut verus, ms(0), number);
    }
    time_out(&mut verus, ms(150), 30);
    assert_eq!((verus.set_point.d_est, verus.in_loss, verus.flight.in_flight), (10.0, true, 0));
    verus.on_deadline(ms(150));
    assert!(verus.w < 3.0 && verus.permit().remaining(0) > 0);

    verus.on_spurious(&Spurious::Timeout { now: ms(152) });
    assert_eq!((verus.in_loss, verus.flight.in_flight), (false, 30));
    assert_eq!((verus.w, verus.set_point.d_est), (50.0, 60.0));
    ack(&mut verus, ms(152), 0, 50, 152.0);
    assert_eq!((verus.flight.in_flight, verus.set_point.epoch_max), (29, Some(152.0)));
    assert!(events(&mut verus).contains(&Event::Undone));
}

#[test]
fn acks_from_before_a_real_timeout_are_no_samples() {
    let mut verus = steady("");
    for number in 0..30 {
        send(&mut verus, ms(0), number);
    }
    time_out(&mut verus, ms(150), 30);
    ack(&mut verus, ms(160), 7, 50, 160.0);
    assert_eq!((verus.flight.in_flight, verus.set_point.epoch_max), (0, None));
    assert_eq!(verus.rto(), Some(Span::from_millis(800)), "but the timer runs on them");
    ack(&mut verus, ms(190), 30, 50, 40.0);
    verus.on_spurious(&Spurious::Timeout { now: ms(191) });
    assert_eq!(verus.flight.in_flight, 0, "too late to call it spurious");
}

/// The original would ignore every ack of a path whose RTT is above the initial timeout.
#[test]
fn a_path_slower_than_the_initial_timeout_gets_going() {
    let mut verus = verus("");
    let stamp = send(&mut verus, ms(0), 0);
    time_out(&mut verus, ms(1000), 1);
    assert_eq!(verus.permit().remaining(0), MSS, "restarted with one packet");
    let again = send(&mut verus, ms(1000), 1);
    verus.on_spurious(&Spurious::Timeout { now: ms(1500) });
    ack_stamped(&mut verus, ms(1500), 0, stamp, 1500.0);
    ack_stamped(&mut verus, ms(2500), 1, again, 1500.0);
    assert_eq!((verus.w, verus.slow_start, verus.flight.in_flight), (3.0, true, 0));
    assert_eq!(verus.set_point.d_min, Some(1500.0));
}

#[test]
fn a_timeout_in_slow_start_ends_it_without_a_set_point_below_the_base() {
    let mut verus = verus("");
    for number in 0..20 {
        ack(&mut verus, ms(number), number, number + 1, 40.0);
    }
    time_out(&mut verus, ms(300), 20);
    assert_eq!((verus.slow_start, verus.set_point.d_est, verus.flight.in_flight), (false, 40.0, 0));
    verus.on_deadline(ms(300));
    assert!(verus.profile.has_curve() && verus.permit().remaining(0) > 0);
}

#[test]
fn fragility_1_one_poor_fit_does_not_blow_up_later_ones() {
    let mut verus = verus("refit=5ms");
    for number in 0..6 {
        ack(&mut verus, ms(number), number, number + 1, 40.0);
    }
    verus.leave_slow_start();
    verus.on_deadline(ms(10));
    for number in 6..300 {
        verus.w = number as f64;
        ack(&mut verus, ms(10), number, number, 40.0 + number as f64);
    }
    verus.on_deadline(ms(20));
    let nodes: Vec<_> = events(&mut verus)
        .iter()
        .filter_map(|event| match event {
            Event::ProfileRefit { nodes, .. } => Some(*nodes),
            _ => None,
        })
        .collect();
    assert_eq!(nodes, [6, 19]);
}

#[test]
fn fragility_3_an_unknown_window_has_a_delay() {
    let mut verus = verus("");
    assert_eq!(verus.delay_at(7.0), 1000.0);
    ack(&mut verus, ms(50), 0, 5, 50.0);
    assert_eq!(verus.delay_at(2.0), 50.0);
    assert_eq!(verus.delay_at(99.0), 50.0);
}

#[test]
fn fragility_4_a_flat_profile_restarts_only_the_faithful_variant() {
    for (parameters, restarts) in [("", false), ("monotone=off", true)] {
        let mut verus = verus(parameters);
        for number in 0..100 {
            ack(&mut verus, ms(40), number, number + 1, 40.0);
        }
        verus.leave_slow_start();
        verus.set_point.d_est = 300.0;
        verus.on_deadline(ms(45));
        assert_eq!(events(&mut verus).contains(&Event::Restart), restarts, "{parameters}");
        assert_eq!(verus.slow_start, restarts);
    }
}

#[test]
fn fragility_5_the_mean_delay_starts_at_the_first_sample() {
    for (parameters, mean) in [("", 80.0), ("average=zero", 10.0)] {
        let mut verus = verus(parameters);
        ack(&mut verus, ms(80), 0, 1, 80.0);
        assert_eq!(verus.set_point.d_avg, Some(mean));
    }
}

#[test]
fn fragility_7_the_count_in_flight_heals_when_nothing_is() {
    let mut verus = steady("");
    for number in 0..30 {
        send(&mut verus, ms(0), number);
    }
    let packets = [acked(ms(40), 29, stamped(10), 40.0)];
    verus.on_ack(&Ack {
        now: ms(40),
        packets: &packets,
        prior_in_flight: MSS,
        in_flight: 0,
        next_number: 30,
        rtt: &RttEstimator::default(),
    });
    assert_eq!(verus.flight.in_flight, 0);
}

#[test]
fn fragility_8_the_schedule_neither_drifts_nor_catches_up() {
    let mut verus = steady("");
    assert_eq!(verus.next_deadline(), Some(ms(5)));
    verus.on_deadline(Time::from_micros(5_300));
    assert_eq!(verus.next_deadline(), Some(ms(10)));
    verus.on_deadline(Time::from_micros(9_999));
    assert_eq!(verus.next_deadline(), Some(ms(10)), "too early");
    verus.on_deadline(ms(10));
    assert_eq!(verus.next_deadline(), Some(ms(15)));
    verus.on_deadline(Time::from_micros(3_600_002_000));
    assert_eq!(verus.next_deadline(), Some(ms(3_600_005)));
}

#[test]
fn an_idle_hour_changes_neither_set_point_nor_base() {
    let mut verus = steady("");
    verus.set_point.d_est = 40.0;
    ack(&mut verus, ms(0), 0, 20, 30.0);
    let before = {
        verus.on_deadline(ms(5));
        (verus.set_point.d_est, verus.set_point.d_min, verus.set_point.d_max_s)
    };
    assert!(verus.credit >= 1.0);
    for second in 1..3600 {
        verus.on_deadline(Time::from_secs(second));
    }
    assert_eq!((verus.set_point.d_est, verus.set_point.d_min, verus.set_point.d_max_s), before);
    // Nor is the first silence after it an hour long.
    send(&mut verus, Time::from_secs(3600), 1);
    verus.on_deadline(Time::from_secs(3600) + Span::from_millis(5));
    assert_eq!(verus.set_point.d_max_s, before.2);
}

/// A sender with 60 packets every `pause` ms and nothing between them, of whose epochs those run
/// that are due by `is_due`. Returns its state 100 ms after the begin of each burst, and how many epochs there were.
fn bursts(pause: u64, is_due: fn(&Verus, Time) -> bool) -> (Vec<[f64; 5]>, u32) {
    let mut verus = verus("");
    let mut flying: VecDeque<(Time, u64, Stamp)> = VecDeque::new();
    let (mut next, mut waiting, mut epochs, mut states) = (0, 0, 0, Vec::new());
    for now in (1..60_000).map(ms) {
        while flying.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, number, stamp) = flying.pop_front().unwrap();
            let packets = [acked(now, number, stamp, 40.0 + stamp.local[0] as f64)];
            let (in_flight, rtt) = (flying.len() as u64 * MSS, &RttEstimator::default());
            let prior_in_flight = in_flight + MSS;
            let packets = &packets;
            verus.on_ack(&Ack { now, packets, prior_in_flight, in_flight, next_number: next, rtt });
        }
        if is_due(&verus, now) {
            epochs += 1;
            verus.on_deadline(now);
        }
        let within = now.as_nanos() % Span::from_millis(pause).as_nanos();
        if within == 0 {
            waiting = 60;
        } else if within == Span::from_millis(100).as_nanos() {
            let SetPoint { d_est, .. } = verus.set_point;
            let fit_at = verus.profile.fit_at.as_millis_f64();
            states.push([verus.w, verus.credit, verus.share, d_est, fit_at]);
        }
        while waiting > 0 && verus.permit().remaining(0) >= MSS {
            waiting -= 1;
            let stamp = verus.on_sent(&SentPacket {
                now,
                number: next,
                bytes: MSS,
                in_flight: (flying.len() as u64 + 1) * MSS,
                app_limited: waiting == 0,
                retransmission: false,
            });
            flying.push_back((now + Span::from_millis(40 + stamp.local[0]), next, stamp));
            next += 1;
        }
    }
    (states, epochs)
}

#[test]
fn epochs_of_an_idle_flow_are_left_out_and_nothing_is_missed() {
    // On the grid of the epochs, and beside it.
    for pause in [3_750, 3_751] {
        let (all, every) = bursts(pause, |_, now| now.as_nanos().is_multiple_of(5_000_000));
        let due = |verus: &Verus, now: Time| verus.next_deadline().is_some_and(|due| due <= now);
        let (left_out, some) = bursts(pause, due);
        assert!(all.len() == 16 && all[15][0] > 5.0, "{all:?}");
        assert_eq!(all, left_out, "{pause}");
        // The bursts themselves take more than half of the time.
        assert!(some < every * 2 / 3, "{some} of {every} epochs");
    }
}

#[test]
fn without_data_neither_credit_nor_set_point_nor_slow_start_grow() {
    let mut verus = steady("");
    verus.set_point.d_est = 40.0;
    verus.flight.in_flight = 5;
    verus.app_limited = true;
    for epoch in 1..1000 {
        verus.set_point.epoch_max = Some(20.0);
        verus.on_deadline(ms(5 * epoch));
        assert_eq!(verus.credit, verus.share);
    }
    assert_eq!(verus.set_point.d_est, 40.0);

    let mut starting = self::verus("");
    for number in 0..1000 {
        let mut packet = acked(ms(number), number, stamped(1), 40.0);
        packet.app_limited = true;
        starting.take_packet(ms(number), &packet, true);
    }
    assert_eq!((starting.w, starting.profile.len()), (1.0, 0));
}

#[test]
fn a_set_point_does_not_run_off_above_the_largest_window() {
    let mut verus = steady("max_window=50pkts");
    verus.set_point.d_avg = Some(50.0);
    for epoch in 1..2000 {
        verus.flight.in_flight = 40;
        verus.set_point.epoch_max = Some(20.0);
        verus.on_deadline(ms(5 * epoch));
    }
    assert_eq!(verus.cwnd(), 50 * MSS);
    assert!(verus.set_point.d_est < 63.0, "{}", verus.set_point.d_est);
}

/// Acks grant the credit of slow start; when the last of them is gone, expiry must.
#[test]
fn slow_start_goes_on_after_all_its_packets_are_lost() {
    let mut verus = verus("");
    ack(&mut verus, ms(40), 0, 1, 40.0);
    for number in 1..3 {
        send(&mut verus, ms(40), number);
    }
    assert_eq!(verus.permit().remaining(0), 0);
    lose(&mut verus, ms(50), &[(1, 2), (2, 2)]);
    verus.on_deadline(ms(300));
    assert!(verus.slow_start && verus.permit().remaining(0) >= MSS);
}

#[test]
fn a_base_above_the_absolute_limit_does_not_end_slow_start() {
    for (parameters, stays) in [("", true), ("slow_start_exit=absolute", false)] {
        let mut verus = verus(parameters);
        for number in 0..10 {
            ack(&mut verus, ms(600 * (number + 1)), number, number + 1, 600.0);
        }
        assert_eq!(verus.slow_start, stays);
    }
}

#[test]
fn packets_acked_end_slow_start_where_asked() {
    let mut verus = verus("ss_exit_packets=50");
    for number in 0..60 {
        ack(&mut verus, ms(number), number, number + 1, 40.0);
        assert_eq!(verus.slow_start, number < 50);
    }
    verus.on_deadline(ms(65));
    near(verus.set_point.d_est, 42.0);
}

#[test]
fn the_first_profile_is_kept_where_asked() {
    for (parameters, fits) in [("", 3), ("update_profile=false", 1)] {
        let mut verus = verus(parameters);
        for number in 0..100 {
            ack(&mut verus, ms(40), number, number + 1, 40.0 + number as f64);
        }
        verus.leave_slow_start();
        for tick in 1..=501 {
            verus.on_deadline(ms(5 * tick));
        }
        let refits = |event: &&Event| matches!(event, Event::ProfileRefit { .. });
        assert_eq!(events(&mut verus).iter().filter(refits).count(), fits);
    }
}

#[test]
fn another_path_is_learnt_from_scratch() {
    let mut verus = steady("");
    for number in 0..30 {
        send(&mut verus, ms(0), number);
    }
    verus.on_path_change(ms(10));
    assert_eq!((verus.w, verus.set_point.d_min, verus.slow_start), (1.0, None, true));
    assert_eq!(verus.profile(), Some(Profile::default()));
    ack(&mut verus, ms(20), 29, 10, 20.0);
    assert_eq!((verus.set_point.d_min, verus.w), (None, 1.0), "of the old path");
    let stamp = send(&mut verus, ms(20), 30);
    ack_stamped(&mut verus, ms(100), 30, stamp, 80.0);
    assert_eq!((verus.set_point.d_min, verus.w), (Some(80.0), 2.0));
}

#[test]
fn points_and_curve_are_shown() {
    let verus = steady("");
    let profile = verus.profile().unwrap();
    assert_eq!(profile.points.len(), 100);
    assert_eq!(profile.points[0], (1.0, 11.0));
    assert_eq!(profile.curve.len(), 100);
    assert!(profile.curve.iter().zip(&profile.points).all(|(c, p)| (c.1 - p.1).abs() < 1e-3));
    let mut names = Vec::new();
    verus.inspect(&mut |name, value| {
        assert!(value.is_finite());
        names.push(name);
    });
    assert_eq!(names[..4], ["cwnd_pkts", "set_point_ms", "base_rtt_ms", "smoothed_delay_ms"]);
}

#[test]
fn timeouts_the_wrong_way_round_are_refused() {
    assert!("verus:rto_min=2s".parse::<ControllerSpec>().is_err());
    assert!("verus:epoch=0ms".parse::<ControllerSpec>().is_err());
}

/// What may happen to a flow.
#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Send(u8, bool),
    Ack(Vec<u8>),
    Lose(u8),
    LateLoss(u8),
    Timeout,
    SpuriousTimeout,
    Block,
    PathChange,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let waits = prop_oneof![
        4 => 0_u64..3,
        8 => 0_u64..20_000_000,
        4 => 0_u64..400_000_000,
        1 => 0_u64..3_600_000_000_000,
    ];
    let step = prop_oneof![
        10 => waits.prop_map(Step::Wait),
        10 => (any::<u8>(), prop::bool::weighted(0.1)).prop_map(|(n, idle)| Step::Send(n, idle)),
        10 => prop::collection::vec(any::<u8>(), 1..30).prop_map(Step::Ack),
        3 => any::<u8>().prop_map(Step::Lose),
        2 => any::<u8>().prop_map(Step::LateLoss),
        1 => Just(Step::Timeout),
        1 => Just(Step::SpuriousTimeout),
        1 => Just(Step::Block),
        1 => prop::bool::weighted(0.1)
            .prop_map(|change| if change { Step::PathChange } else { Step::Block }),
    ];
    prop::collection::vec(step, 1..200)
}

/// A datapath that counts packets in flight and obeys the controller.
struct Datapath {
    verus: Verus,
    now: Time,
    next: u64,
    in_flight: Vec<(u64, Time, Stamp)>,
    lost: Vec<(u64, Time, Stamp)>,
    timed_out: Vec<(u64, Time, Stamp)>,
    timeouts: u32,
    rtt: RttEstimator,
}

impl Datapath {
    fn new(parameters: &str) -> Self {
        Self {
            verus: verus(parameters),
            now: Time::ZERO,
            next: 0,
            in_flight: Vec::new(),
            lost: Vec::new(),
            timed_out: Vec::new(),
            timeouts: 0,
            rtt: RttEstimator::default(),
        }
    }

    fn bytes(&self) -> u64 {
        self.in_flight.len() as u64 * MSS
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Wait(nanos) => self.wait(Span::from_nanos(*nanos)),
            Step::Send(most, app_limited) => self.send(*most, *app_limited),
            Step::Ack(picks) => self.ack(picks),
            Step::Lose(count) => self.lose(usize::from(*count) % 8),
            Step::LateLoss(pick) => self.late_loss(usize::from(*pick)),
            Step::Timeout => self.time_out(),
            Step::SpuriousTimeout => self.spurious_timeout(),
            Step::Block => self.block(),
            Step::PathChange => self.verus.on_path_change(self.now),
        }
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
        // Late for every deadline it slept through, as a suspended process is.
        if self.verus.next_deadline().is_some_and(|due| due <= self.now) {
            self.verus.on_deadline(self.now);
            assert!(self.verus.next_deadline().is_none_or(|due| due > self.now));
        }
    }

    fn send(&mut self, most: u8, app_limited: bool) {
        for left in (0..most).rev() {
            if self.verus.permit().remaining(self.bytes()) < MSS {
                return;
            }
            let packet = SentPacket {
                now: self.now,
                number: self.next,
                bytes: MSS,
                in_flight: self.bytes() + MSS,
                app_limited: app_limited && left == 0,
                retransmission: false,
            };
            let stamp = self.verus.on_sent(&packet);
            self.in_flight.push((self.next, self.now, stamp));
            self.next += 1;
        }
    }

    fn ack(&mut self, picks: &[u8]) {
        let prior_in_flight = self.bytes();
        let mut packets = Vec::new();
        for pick in picks {
            if self.in_flight.is_empty() {
                break;
            }
            let taken = self.in_flight.remove(usize::from(*pick) % self.in_flight.len());
            packets.push(self.acked(taken));
        }
        if packets.is_empty() {
            return;
        }
        self.timeouts = 0;
        self.timed_out.clear();
        let ack = Ack {
            now: self.now,
            packets: &packets,
            prior_in_flight,
            in_flight: self.bytes(),
            next_number: self.next,
            rtt: &self.rtt,
        };
        self.verus.on_ack(&ack);
    }

    fn acked(&self, (number, sent_at, stamp): (u64, Time, Stamp)) -> AckedPacket {
        AckedPacket {
            number,
            bytes: MSS,
            sent_at,
            rtt: self.now - sent_at,
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp,
        }
    }

    fn lose(&mut self, count: usize) {
        let prior_in_flight = self.bytes();
        let lost: Vec<_> = self.in_flight.drain(..count.min(self.in_flight.len())).collect();
        if lost.is_empty() {
            return;
        }
        let packets: Vec<_> = lost
            .iter()
            .map(|&(number, sent_at, stamp)| LostPacket { number, bytes: MSS, sent_at, stamp })
            .collect();
        self.lost.extend(lost);
        self.verus.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            prior_in_flight,
            in_flight: self.bytes(),
            next_number: self.next,
            rtt: &self.rtt,
        });
    }

    fn late_loss(&mut self, pick: usize) {
        if self.lost.is_empty() {
            return;
        }
        let late = self.lost.remove(pick % self.lost.len());
        let packet = self.acked(late);
        self.verus.on_spurious(&Spurious::Loss { now: self.now, packet: &packet });
    }

    fn time_out(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        self.timeouts += 1;
        let prior_in_flight = self.bytes();
        self.timed_out.append(&mut self.in_flight);
        self.verus.on_timeout(&Timeout {
            now: self.now,
            prior_in_flight,
            in_a_row: self.timeouts,
            next_number: self.next,
        });
    }

    fn spurious_timeout(&mut self) {
        if self.timed_out.is_empty() {
            return;
        }
        self.timed_out.append(&mut self.in_flight);
        std::mem::swap(&mut self.in_flight, &mut self.timed_out);
        self.verus.on_spurious(&Spurious::Timeout { now: self.now });
        self.ack(&[0]);
    }

    /// The layer below refuses a packet that was announced as sent.
    fn block(&mut self) {
        self.send(1, false);
        if let Some((_, _, stamp)) = self.in_flight.pop() {
            self.verus.on_block(&Block { now: self.now, stamp, waits: false });
        }
    }

    fn check(&self) {
        let verus = &self.verus;
        assert!((1.0..=verus.start_rules.max_window).contains(&verus.w), "w = {}", verus.w);
        assert!(verus.set_point.d_est.is_finite() && verus.set_point.d_est >= 0.0);
        assert!((0.0..=verus.start_rules.max_window).contains(&verus.credit));
        assert!(verus.cwnd() >= MSS);
        assert!(verus.losses.missing.len() as u64 <= verus.flight.in_flight);
        verus.inspect(&mut |name, value| assert!(value.is_finite(), "{name} = {value}"));
    }
}

const VARIANTS: [&str; 5] = [
    "",
    "r=2,max_window=60pkts",
    "monotone=off,late=sample,floor=false,ceiling_loss=1,gap=safe,credit=code,slow_start_exit=absolute,nodes=sticky,average=zero",
    "law=paper,epochs_in_loss=false,ss_exit_loss=0,age=1s",
    "monotone=high,extend=mean,epoch=20ms,refit=1ms,rho=-9,loss_factor=0,update_profile=false,ss_exit_packets=30",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn no_history_breaks_it(steps in steps(), variant in 0..VARIANTS.len()) {
        let mut path = Datapath::new(VARIANTS[variant]);
        for step in &steps {
            path.take(step);
            path.check();
        }
        for (_, delay) in path.verus.profile().unwrap().curve {
            prop_assert!(delay.is_finite());
        }
    }

    /// Whatever happened, a flow whose packets are all accounted for may send again.
    #[test]
    fn no_history_stops_it_for_good(steps in steps(), variant in 0..VARIANTS.len()) {
        let mut path = Datapath::new(VARIANTS[variant]);
        steps.iter().for_each(|step| path.take(step));
        path.time_out();
        let allowed = (0..400).any(|_| {
            path.wait(Span::from_millis(20));
            path.verus.permit().remaining(0) >= MSS
        });
        prop_assert!(allowed);
    }

    #[test]
    fn the_same_history_gives_the_same_answers(steps in steps()) {
        let run = || {
            let mut path = Datapath::new("");
            steps.iter().for_each(|step| path.take(step));
            (path.verus.cwnd(), path.verus.credit.to_bits(), path.verus.set_point.d_est.to_bits())
        };
        prop_assert_eq!(run(), run());
    }
}

/// Every parameter of the table is read, and every default fits.
#[test]
fn defaults_are_those_of_the_specification() {
    let params = VerusParams::defaults();
    let (delta1, delta2) = (params.delta1.as_millis_f64(), params.delta2.as_millis_f64());
    assert_eq!((params.r, delta1, delta2), (2.0, 1.0, 2.0));
    assert_eq!((params.alpha, EWMA, params.loss_factor), (0.2, 0.875, 0.7));
    let start = params.slow_start(MSS);
    assert_eq!((start.exit_delay, start.exit_ratio, start.exit_loss), (500.0, 15.0, 20.0));
    assert_eq!(start, VerusSlowStart::default());
    assert_eq!(start.max_window, 39_999.0);
    assert_eq!(params.ss_exit_packets, 0);
}

#[test]
fn presets_keep_the_r_of_paper_and_program() {
    for preset in ["paper", "original"] {
        assert_eq!(VerusParams::parse("verus", preset).unwrap().r, 6.0, "{preset}");
    }
    assert_eq!(VerusParams::parse("verus", "original,r=2").unwrap().r, 2.0);
}
