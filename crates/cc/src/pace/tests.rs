//! The law with numbers, and the flow in a closed loop.

use super::*;
use crate::drive::{self, ControllerFeed, Loop, LoopAck, MSS, feed};

fn params() -> PaceParams {
    cellpace_base::ParamSet::parse("pace", "").unwrap()
}

fn fed() -> ControllerFeed<Pace> {
    ControllerFeed::new(Pace::new(&params(), &drive::setup()))
}

/// Acks every millisecond with 10 to 30 ms of queue: 1000 packets per second, out of slow start.
fn after_startup() -> ControllerFeed<Pace> {
    let mut feed = fed();
    (0..10).for_each(|_| feed.ack(60, 40.0));
    for ack in 0..2000 {
        feed.wait_ms(1.0);
        feed.ack(60, f64::from(50 + ack % 20));
    }
    feed
}

#[test]
fn pace_t11_the_window_is_headroom_times_rate_times_base_rtt_and_three_packets() {
    let feed = after_startup();
    let pace = &feed.flow;
    assert!(!pace.startup);
    let (rate, base) = (pace.rate.rate(), pace.base.micros());
    assert!(rate.abs_diff(1000 * ONE) < 10 * ONE && base == 40_000);
    let expected =
        pace.headroom.factor() as f64 / ONE as f64 * rate as f64 * 0.04 + 3.0 * ONE as f64;
    assert!((pace.window as f64 - expected).abs() < 64.0, "{} {expected}", pace.window);
}

#[test]
fn slow_start_doubles_and_ends_at_a_queue() {
    let mut feed = fed();
    feed.acks(10, 10, 40.0);
    assert_eq!(feed.shown("cwnd_pkts"), 20.0);
    feed.acks(20, 20, 45.0);
    assert_eq!((feed.shown("cwnd_pkts"), feed.shown("slow_start")), (40.0, 1.0));
    feed.acks(7, 40, 45.1);
    assert_eq!((feed.shown("cwnd_pkts"), feed.shown("slow_start")), (47.0, 1.0));
    feed.ack(40, 45.1);
    assert_eq!(feed.shown("slow_start"), 0.0);
}

#[test]
fn a_timeout_leaves_two_packets_until_acks_come_and_a_spurious_one_nothing() {
    let mut feed = after_startup();
    let before = feed.shown("cwnd_pkts");
    feed.time_out(40, 1);
    assert_eq!(feed.shown("cwnd_pkts"), 2.0);
    feed.timeout_was_spurious();
    assert_eq!(feed.shown("cwnd_pkts"), before);
    feed.time_out(40, 1);
    feed.wait_ms(1.0);
    feed.acks(3, 10, 60.0);
    assert_eq!(feed.shown("cwnd_pkts"), 5.0);
}

#[test]
fn a_handover_keeps_the_rate_and_forgets_the_base_rtt() {
    let mut feed = after_startup();
    let rate = feed.flow.rate.rate();
    let now = feed.now;
    feed.flow.on_path_change(now);
    assert_eq!((feed.flow.base.micros(), feed.flow.rate.rate()), (0, rate));
    // Packets of the old path do not measure the new one.
    feed.ack(60, 60.0);
    assert_eq!(feed.flow.base.micros(), 0);
    feed.wait_ms(200.0);
    feed.ack(60, 90.0);
    assert_eq!(feed.flow.base.micros(), 90_000);
}

#[test]
fn marks_cost_headroom_like_losses() {
    let (mut marked, mut lost) = (after_startup(), after_startup());
    let before = marked.shown("headroom");
    marked.mark(60, 60.0);
    lost.ack(60, 60.0);
    lost.lose(60);
    assert!(marked.shown("headroom") < before);
    assert_eq!(marked.shown("headroom"), lost.shown("headroom"));
}

fn alone(drop_every: Option<u64>) -> Vec<LoopAck> {
    let path = Loop {
        service: Span::from_millis(1),
        base: Span::from_millis(40),
        buffer: 1000,
        drop_every,
    };
    path.run(feed("pace").flow.0.as_mut(), Span::from_secs(30))
}

/// 40 ms and the millisecond that the link takes.
fn settled_rtts(seen: &[LoopAck]) -> Vec<f64> {
    let late = seen.iter().filter(|ack| ack.at > Time::from_secs(10));
    let mut rtts: Vec<f64> = late.map(|ack| ack.rtt_ms).collect();
    rtts.sort_by(f64::total_cmp);
    rtts
}

#[test]
fn a_constant_link_is_full_and_its_queue_a_few_packets() {
    let rtts = settled_rtts(&alone(None));
    assert!(rtts.len() as f64 > 0.97 * 20_000.0, "{}", rtts.len());
    let p95 = rtts[rtts.len() * 95 / 100];
    assert!(p95 < 41.0 + 7.0, "{p95}");
}

#[test]
fn random_loss_of_one_per_cent_costs_what_is_lost() {
    let rtts = settled_rtts(&alone(Some(100)));
    assert!(rtts.len() as f64 > 0.94 * 20_000.0, "{}", rtts.len());
}

#[test]
fn windows_count_in_the_flows_own_packets() {
    let mut flow = drive::build("pace");
    assert_eq!(flow.cwnd(), 10 * MSS);
    assert!(flow.pacing().is_none() && flow.poll_event().is_some());
}
