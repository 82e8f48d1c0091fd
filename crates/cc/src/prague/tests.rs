use super::*;
use crate::drive::{ControllerFeed, setup};
use cellpace_base::ParamSet;

fn prague(cwnd: f64, ssthresh: f64, alpha: f64) -> ControllerFeed<Prague> {
    let mut prague = Prague::new(PragueParams::defaults(), &setup());
    (prague.cwnd, prague.ssthresh, prague.marks.alpha) = (cwnd, ssthresh, alpha);
    ControllerFeed::new(prague)
}

fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 5e-5 * wanted.max(1.0), "{found} {wanted}");
}

#[test]
fn prague_p1_alpha_follows_the_share_of_marks() {
    let mut marks = MarkShare { alpha: 0.2, seen: true, acked: 0, marked: 0, named: 0 };
    for (quarters, alpha) in [
        (0, 0.1875),
        (1, 0.191_406),
        (2, 0.210_693),
        (4, 0.260_025),
        (0, 0.243_773),
        (0, 0.228_538),
    ] {
        marks.count(100, 25 * quarters);
        marks.update(1.0 / 16.0);
        near(marks.alpha, alpha);
        assert_eq!((marks.acked, marks.marked), (0, 0));
    }
}

/// The window after marks: at the first ack, 10 ms later, 26 ms later on a packet of the same
/// window, and then on one sent after the reduction.
fn cuts(alpha: f64) -> [f64; 4] {
    let mut feed = prague(40.0, 40.0, alpha);
    feed.ack(40, 25.0);
    feed.flow.cwnd = 40.0;
    // Keeps alpha where it is.
    feed.flow.round.as_mut().unwrap().end = u64::MAX;
    let mut windows = Vec::new();
    for (wait_ms, oldest) in [(0.0, 1), (10.0, 2), (16.0, 3), (0.0, 41)] {
        feed.wait_ms(wait_ms);
        (feed.oldest, feed.next) = (oldest, 41.max(oldest + 1));
        feed.mark(38, 25.0);
        windows.push(feed.flow.cwnd);
    }
    windows.try_into().unwrap()
}

#[test]
fn prague_p2_one_cut_by_half_of_alpha_per_window_and_virtual_rtt() {
    for (alpha, expected) in [
        (0.2, [36.0, 36.0, 36.0, 32.4]),
        (1.0, [20.0, 20.0, 20.0, 10.0]),
        (0.0625, [38.75, 38.75, 38.75, 37.5391]),
    ] {
        cuts(alpha).into_iter().zip(expected).for_each(|(found, wanted)| near(found, wanted));
    }
}

#[test]
fn prague_p3_growth_goes_by_the_virtual_rtt() {
    for (rtt_ms, rounds, growth) in [
        (5.0, 4, 0.002),
        (12.5, 4, 0.0125),
        (25.0, 4, 0.05),
        (50.0, 4, 0.05),
        (200.0, 4, 0.05),
        (5.0, 1, 0.05),
    ] {
        let mut feed = prague(20.0, 20.0, 1.0);
        feed.flow.rounds = rounds;
        feed.ack(20, rtt_ms);
        near(feed.flow.cwnd - 20.0, growth);
    }
}

#[test]
fn prague_p4_slow_start_doubles_and_the_first_mark_halves() {
    let mut feed = prague(10.0, f64::INFINITY, 1.0);
    for round in [10, 20, 40] {
        feed.wait_ms(40.0);
        feed.acks(round, round, 40.0);
    }
    assert_eq!(feed.flow.cwnd, 80.0);
    feed.mark(80, 40.0);
    assert_eq!((feed.flow.cwnd, feed.flow.ssthresh), (40.0, 40.0));
    feed.ack(79, 40.0);
    assert_eq!(feed.flow.cwnd, 40.025);
}

#[test]
fn prague_p5_a_loss_halves_once_per_window() {
    let mut feed = prague(33.0, 33.0, 0.1);
    feed.lose(33);
    assert_eq!(feed.flow.cwnd, 16.5);
    feed.lose(32);
    assert_eq!(feed.flow.cwnd, 16.5);
}

#[test]
fn prague_p6_pacing_swings_around_the_rate_and_doubles_in_slow_start() {
    let rate = |prague: &Prague| prague.pacing().unwrap().rate.as_bytes_per_sec();
    let mut feed = prague(40.0, 40.0, 0.1);
    assert_eq!(feed.flow.pacing(), None, "no RTT is known");
    feed.flow.srtt = Some(Span::from_millis(40));
    near(rate(&feed.flow), 1_545_000.0);
    feed.flow.first_half = false;
    near(rate(&feed.flow), 1_455_000.0);
    feed.flow.ssthresh = f64::INFINITY;
    near(rate(&feed.flow), 3_000_000.0);
    assert_eq!(feed.flow.pacing().unwrap().burst, 1500);
    // 80 ms of an RTT of 40 ms: the halves of a round of 40 ms in turn.
    let mut feed = prague(40.0, 40.0, 0.1);
    let halves: Vec<bool> = (0..8)
        .map(|_| {
            feed.ack(40, 40.0);
            feed.oldest = feed.next - 1;
            feed.wait_ms(10.0);
            feed.flow.first_half
        })
        .collect();
    assert_eq!(halves, [true, true, false, false, true, true, false, false]);
}

#[test]
fn prague_p7_marks_while_a_loss_is_repaired_change_nothing() {
    let mut feed = prague(40.0, 40.0, 0.5);
    feed.ack(40, 40.0);
    feed.lose(40);
    let window = feed.flow.cwnd;
    feed.wait_ms(100.0);
    feed.mark(39, 40.0);
    assert_eq!(feed.flow.cwnd, window);
    // An ack of nothing but marked packets never opens the window.
    let mut feed = prague(40.0, 40.0, 0.0);
    (0..30).for_each(|_| feed.mark(40, 40.0));
    assert!(feed.flow.cwnd <= 40.0, "{}", feed.flow.cwnd);
}

#[test]
fn prague_p8_alpha_waits_for_the_first_mark() {
    let mut feed = prague(10.0, 10.0, 1.0);
    for _ in 0..20 {
        feed.wait_ms(40.0);
        feed.acks(10, 10, 40.0);
    }
    assert_eq!((feed.flow.marks.alpha, feed.flow.rounds > 15), (1.0, true));
    feed.mark(10, 40.0);
    for _ in 0..20 {
        feed.wait_ms(40.0);
        feed.acks(10, 10, 40.0);
    }
    assert!(feed.flow.marks.alpha < 0.4, "{}", feed.flow.marks.alpha);
}

#[test]
fn prague_p9_a_timeout_starts_over_with_alpha_one() {
    let mut feed = prague(40.0, 40.0, 0.1);
    feed.time_out(40, 1);
    assert_eq!((feed.flow.cwnd, feed.flow.ssthresh, feed.flow.marks.alpha), (2.0, 20.0, 1.0));
    feed.time_out(2, 2);
    assert_eq!((feed.flow.cwnd, feed.flow.ssthresh), (2.0, 20.0), "held");
    feed.timeout_was_spurious();
    assert_eq!((feed.flow.cwnd, feed.flow.ssthresh, feed.flow.marks.alpha), (40.0, 40.0, 0.1));
}

#[test]
fn a_loss_that_was_none_is_taken_back() {
    let mut feed = prague(40.0, 60.0, 0.3);
    let first = feed.lose(40);
    let second = feed.lose(39);
    feed.late(first);
    assert_eq!(feed.flow.cwnd, 20.0, "one is still missing");
    feed.late(second);
    assert_eq!((feed.flow.cwnd, feed.flow.ssthresh), (40.0, 60.0));
}

#[test]
fn marks_that_no_ack_names_count() {
    // As QUIC libraries report them: only that there was a mark.
    let mut feed = prague(40.0, 40.0, 0.2);
    feed.ack(40, 40.0);
    feed.flow.on_mark(&Mark {
        now: feed.now,
        packets: 1,
        newest: 0,
        prior_in_flight: 60_000,
        in_flight: 58_500,
        next_number: 40,
        rtt: &feed.rtt,
    });
    assert_eq!(feed.flow.marks.marked, 1);
    assert!(feed.flow.cwnd < 37.0);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut feed = prague(40.0, 40.0, 0.2);
    for _ in 0..100 {
        feed.wait_ms(40.0);
        feed.acks(5, 10, 40.0);
    }
    assert_eq!(feed.flow.cwnd, 40.0);
}

#[test]
fn another_path_starts_over() {
    let mut feed = prague(400.0, 40.0, 0.01);
    feed.flow.on_path_change(feed.now);
    let flow = &feed.flow;
    assert_eq!((flow.cwnd, flow.ssthresh, flow.marks.alpha), (10.0, f64::INFINITY, 1.0));
    feed.flow.on_ecn_failed(feed.now);
    assert!(feed.events().ends_with(&[Event::EcnFailed]));
}
