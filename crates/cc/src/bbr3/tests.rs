use cellpace_base::ParamSet;

use super::*;
use crate::{AckedPacket, LostPacket, RttEstimator};

const MSS: u64 = 1500;
/// 1000 packets per second.
const BW: f64 = 1.5e6;
const RTT: Span = Span::from_millis(40);
const BDP: f64 = 60_000.0;

fn bbr(text: &str) -> Bbr3 {
    let params = Bbr3Params::parse("bbr3", text).unwrap();
    Bbr3::new(&params, Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) })
}

/// A flow that knows a path of 12 Mbit/s and 40 ms, in `state`, with a window of two BDP.
fn knowing(state: Bbr3State) -> Bbr3 {
    knowing_as("", state)
}

fn knowing_as(text: &str, state: Bbr3State) -> Bbr3 {
    let mut bbr = bbr(text);
    bbr.max_bw.add(BW);
    bbr.bound_bw();
    bbr.min_rtt.on_sample(Time::ZERO, RTT, Span::from_secs(5), Span::from_secs(10));
    bbr.seen_rtt = true;
    bbr.full_pipe.fill();
    bbr.cwnd = 2.0 * BDP;
    bbr.cycle.start_down(Time::ZERO, Span::from_secs(3600), &mut bbr.random);
    bbr.cycle.ack_phase = AckPhase::Init;
    bbr.state = state;
    bbr
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn sent(bbr: &mut Bbr3, now: Time, number: u64, in_flight: u64) -> AckedPacket {
    let stamp = bbr.on_sent(&SentPacket {
        now,
        number,
        bytes: MSS,
        in_flight,
        app_limited: false,
        retransmission: false,
    });
    AckedPacket {
        number,
        bytes: MSS,
        sent_at: now,
        rtt: Span::ZERO,
        received_at: None,
        app_limited: false,
        ecn: Default::default(),
        stamp,
    }
}

fn estimator(rtt: Span) -> RttEstimator {
    let mut estimator = RttEstimator::default();
    estimator.sample(rtt);
    estimator
}

fn ack(bbr: &mut Bbr3, now: Time, packets: &[AckedPacket], in_flight: u64) {
    let mut packets = packets.to_vec();
    packets.iter_mut().for_each(|packet| packet.rtt = now - packet.sent_at);
    bbr.on_ack(&Ack {
        now,
        packets: &packets,
        prior_in_flight: in_flight + MSS * packets.len() as u64,
        in_flight,
        next_number: packets.last().unwrap().number + in_flight / MSS + 1,
        rtt: &estimator(packets[0].rtt),
    });
}

fn lost(packet: &AckedPacket) -> LostPacket {
    let AckedPacket { number, bytes, sent_at, stamp, .. } = *packet;
    LostPacket { number, bytes, sent_at, stamp }
}

fn lose(bbr: &mut Bbr3, now: Time, packets: &[LostPacket], in_flight: u64, next_number: u64) {
    bbr.on_loss(&Loss {
        now,
        packets,
        prior_in_flight: in_flight + MSS * packets.len() as u64,
        in_flight,
        next_number,
        rtt: &RttEstimator::default(),
    });
}

fn late(bbr: &mut Bbr3, now: Time, packet: &AckedPacket) {
    bbr.on_spurious(&Spurious::Loss { now, packet });
}

/// A packet that left with `in_flight` bytes in flight, before `lost` bytes were.
fn probe_packet(bbr: &Bbr3, in_flight: u64, app_limited: bool) -> StampedState {
    let departure = crate::delivery_rate::Departure {
        delivered: 0,
        delivered_at: Time::ZERO,
        first_sent_at: Time::ZERO,
        app_limited,
    };
    StampedState { departure, lost: bbr.lost, in_flight }
}

fn sample(now: Time) -> AckSample {
    AckSample {
        now,
        rate: BW,
        volume: BDP,
        prior_delivered: 0,
        rtt: RTT,
        acked: 1500.0,
        tx_in_flight: BDP,
        lost: 0.0,
        app_limited: false,
        prior_in_flight: BDP,
        in_flight: BDP - 1500.0,
    }
}

fn events(bbr: &mut Bbr3) -> Vec<Event> {
    std::iter::from_fn(|| bbr.poll_event()).map(|(_, event)| event).collect()
}

#[track_caller]
fn near(seen: f64, expected: f64) {
    assert!((seen - expected).abs() <= 1.0, "{seen} is not near {expected}");
}

fn rate_of(bbr: &mut Bbr3, now: Time, packets: &[AckedPacket], in_flight: u64) -> AckSample {
    let mut packets = packets.to_vec();
    packets.iter_mut().for_each(|packet| packet.rtt = now - packet.sent_at);
    let rtt = estimator(packets[0].rtt);
    bbr.sample(&Ack {
        now,
        packets: &packets,
        prior_in_flight: in_flight + MSS,
        in_flight,
        next_number: 100,
        rtt: &rtt,
    })
    .unwrap()
}

#[test]
fn bbr3_b1_rate_sample() {
    let mut bbr = bbr("");
    let packets: Vec<_> = (0..3).map(|i| sent(&mut bbr, ms(i), i, (i + 1) * MSS)).collect();
    let first = rate_of(&mut bbr, ms(40), &packets[..1], 3000);
    assert_eq!((bbr.delivery.delivered(), first.rate), (1500, 37_500.0));
    let both = rate_of(&mut bbr, ms(42), &packets[1..], 0);
    assert_eq!((bbr.delivery.delivered(), both.prior_delivered), (4500, 0));
    near(both.rate, 107_142.857);
    let next = sent(&mut bbr, ms(42), 3, MSS);
    let departure = StampedState::unpack(&next.stamp, next.sent_at).departure;
    assert_eq!(departure.delivered, 4500);
    assert_eq!((departure.delivered_at, departure.first_sent_at), (ms(42), ms(42)));
    assert_eq!(rate_of(&mut bbr, ms(90), &[next], 0).rate, 31_250.0);
}

#[test]
fn bbr3_b2_first_acks() {
    let mut bbr = bbr("");
    assert_eq!((bbr.pacing_rate, bbr.quantum()), (41_550_000.0, 41_550.0));
    let packets: Vec<_> = (0..10).map(|i| sent(&mut bbr, ms(0), i, (i + 1) * MSS)).collect();
    ack(&mut bbr, ms(41), &packets[..1], 9 * MSS);
    near(bbr.pacing_rate, 1_013_414.634);
    near(bbr.max_bw.max(), 36_585.366);
    assert_eq!((bbr.cwnd, bbr.aggregation.extra(), bbr.round.count), (16_500.0, 1500.0, 1));
    assert_eq!(bbr.quantum(), 3000.0);
    ack(&mut bbr, ms(42), &packets[1..2], 8 * MSS);
    near(bbr.pacing_rate, 1_013_414.634);
    near(bbr.max_bw.max(), 71_428.571);
    near(bbr.aggregation.extra(), 2963.415);
    assert_eq!((bbr.cwnd, bbr.round.count), (18_000.0, 1));
}

#[test]
fn bbr3_b5_handling_of_a_probe_that_went_too_far() {
    for (in_flight, bound, headroom) in [(61_000.0, 61_000.0, 51_850.0), (30e3, 42e3, 35_700.0)] {
        let mut bbr = knowing(Bbr3State::Up);
        bbr.cycle.sampling = true;
        bbr.end_probe_too_high(ms(1000), in_flight, false);
        assert_eq!((bbr.bounds.longterm, bbr.with_headroom()), (bound, headroom));
        assert_eq!(bbr.state, Bbr3State::Down);
        assert!(!bbr.cycle.sampling && bbr.cycle.too_high);
        assert_eq!(bbr.cycle.ack_phase, AckPhase::ProbeStopping);
    }
    let mut bbr = knowing(Bbr3State::Up);
    bbr.cwnd = 30_000.0;
    bbr.end_probe_too_high(ms(1000), 20_000.0, false);
    assert_eq!(bbr.bounds.longterm, 21_000.0);

    let mut bbr = knowing(Bbr3State::Up);
    bbr.bounds.longterm = 70_000.0;
    bbr.end_probe_too_high(ms(1000), 30_000.0, true);
    assert_eq!(bbr.bounds.longterm, 70_000.0);
    assert_eq!((bbr.state, bbr.cycle.too_high), (Bbr3State::Down, true));
}

#[test]
fn bbr3_b6_losses_do_not_count_while_the_flow_accelerates() {
    for (state, cut) in [
        (Bbr3State::Startup, false),
        (Bbr3State::Refill, false),
        (Bbr3State::Up, false),
        (Bbr3State::Drain, true),
        (Bbr3State::Down, true),
        (Bbr3State::Cruise, true),
        (Bbr3State::ProbeRtt, true),
    ] {
        let mut bbr = knowing(state);
        (bbr.signals.started, bbr.signals.lossy) = (true, true);
        (bbr.signals.bw_latest, bbr.signals.inflight_latest) = (1.2e6, 48e3);
        bbr.adapt_shortterm();
        let bounds = (bbr.bounds.bw_shortterm, bbr.bounds.inflight_shortterm);
        let expected = if cut { (1.2e6, 84e3) } else { (f64::INFINITY, f64::INFINITY) };
        assert_eq!(bounds, expected, "{state:?}");
        assert!(!bbr.signals.lossy);
    }
}

#[test]
fn bbr3_b8_reno_rounds() {
    for (bw, cwnd, rounds) in
        [(1.5e6, 120e3, 40), (0.375e6, 120e3, 10), (12.5e6, 10e6, 63), (1.5e6, 15e3, 10)]
    {
        let mut bbr = knowing(Bbr3State::Cruise);
        bbr.max_bw = MaxBandwidth::default();
        bbr.max_bw.add(bw);
        bbr.bound_bw();
        bbr.cwnd = cwnd;
        bbr.cycle.start_down(ms(1000), Span::from_secs(2), &mut bbr.random);
        bbr.cycle.rounds_since_up = rounds - 1;
        assert!(!bbr.is_time_to_probe(ms(1000)), "{bw} {cwnd}");
        bbr.cycle.rounds_since_up = rounds;
        assert!(bbr.is_time_to_probe(ms(1000)), "{bw} {cwnd}");
    }
}

#[test]
fn bbr3_b9_outputs_by_state() {
    let rows = [
        (Bbr3State::Startup, 4_113_450.0, [124_500.0, 124_500.0, 50_000.0]),
        (Bbr3State::Drain, 742_500.0, [124_500.0, 124_500.0, 50_000.0]),
        (Bbr3State::Down, 1_336_500.0, [124_500.0, 90_000.0, 50_000.0]),
        (Bbr3State::Cruise, 1_485_000.0, [124_500.0, 76_500.0, 50_000.0]),
        (Bbr3State::Refill, 1_485_000.0, [124_500.0, 90_000.0, 50_000.0]),
        (Bbr3State::Up, 1_856_250.0, [142_500.0, 90_000.0, 50_000.0]),
        (Bbr3State::ProbeRtt, 1_485_000.0, [30_000.0, 30_000.0, 30_000.0]),
    ];
    for (state, rate, windows) in rows {
        let bounds = [
            LossBounds::NONE,
            LossBounds { longterm: 90_000.0, ..LossBounds::NONE },
            LossBounds { longterm: 90_000.0, inflight_shortterm: 50_000.0, ..LossBounds::NONE },
        ];
        for (bounds, window) in bounds.into_iter().zip(windows) {
            let mut bbr = knowing(state);
            bbr.aggregation.on_ack(&Bbr3Bundle {
                now: ms(0),
                acked: 4500.0,
                bandwidth: 0.0,
                limit: f64::INFINITY,
                round: 0,
                rounds: 10,
            });
            bbr.bounds = bounds;
            bbr.cwnd = 1e6;
            bbr.set_pacing_rate();
            bbr.set_cwnd(1500.0);
            near(bbr.pacing_rate, rate);
            assert_eq!(bbr.cwnd, window, "{state:?} {bounds:?}");
        }
    }
}

#[test]
fn bbr3_b10_quantum() {
    let mut bbr = bbr("");
    let rates = [1e5, 1.485e6, 4.1e6, 12.5e6, 125e6];
    let quanta = rates.map(|rate| {
        bbr.pacing_rate = rate;
        bbr.quantum()
    });
    assert_eq!(quanta, [3000.0, 3000.0, 4100.0, 12_500.0, 65_536.0]);
}

#[test]
fn bbr3_b13_startup_by_loss() {
    for (ranges, lost, leaves) in [(5, 8100.0, false), (6, 1350.0, false), (6, 8100.0, true)] {
        let mut bbr = bbr("");
        bbr.max_bw.add(BW);
        bbr.bound_bw();
        let rtt = Span::from_millis(41);
        bbr.min_rtt.on_sample(Time::ZERO, rtt, Span::from_secs(5), Span::from_secs(10));
        bbr.signals.started = true;
        bbr.signals.loss_ranges = ranges;
        bbr.signals.inflight_latest = 90_000.0;
        let sample =
            AckSample { lost, tx_in_flight: 90_000.0, in_flight: 90_000.0, ..sample(ms(1)) };
        bbr.check_startup_losses(&sample);
        assert_eq!((bbr.full_pipe.now, bbr.full_pipe.reached), (leaves, leaves));
        assert_eq!(bbr.signals.loss_ranges, 0);
        bbr.check_drain(&sample);
        if leaves {
            assert_eq!((bbr.bounds.longterm, bbr.state), (90_000.0, Bbr3State::Drain));
        } else {
            assert_eq!((bbr.bounds.longterm, bbr.state), (f64::INFINITY, Bbr3State::Startup));
        }
    }
}

#[test]
fn bbr3_b15_probe_rtt_window() {
    for (bw, window) in [(1.5e6, 30_000.0), (0.25e6, 6000.0)] {
        let mut bbr = knowing(Bbr3State::ProbeRtt);
        bbr.bw = bw;
        assert_eq!(bbr.probe_rtt_cwnd(), window);
    }
}

#[test]
fn bbr3_b16_timeout() {
    let mut bbr = knowing(Bbr3State::Cruise);
    bbr.on_timeout(&Timeout {
        now: ms(1000),
        prior_in_flight: 90_000,
        in_a_row: 1,
        next_number: 60,
    });
    assert_eq!((bbr.cwnd, bbr.prior_cwnd, bbr.lost), (1500.0, 120_000.0, 90_000));
    assert_eq!(bbr.bounds.inflight_shortterm, 120_000.0);
    // The number of the specification is that of the window's rules alone; in a whole ack the
    // round with losses ends, too, and cuts the bound by 0.7.
    bbr.leave_recovery();
    bbr.set_cwnd(1500.0);
    assert_eq!(bbr.cwnd, 120_000.0);
}

#[test]
fn bbr3_b16_timeout_and_the_whole_ack_after_it() {
    let mut bbr = knowing(Bbr3State::Cruise);
    sent(&mut bbr, ms(10), 59, 90_000);
    bbr.on_timeout(&Timeout {
        now: ms(500),
        prior_in_flight: 90_000,
        in_a_row: 1,
        next_number: 60,
    });
    let rate = bbr.pacing_rate;
    let after = sent(&mut bbr, ms(500), 60, MSS);
    assert_eq!(bbr.pacing_rate, rate);
    ack(&mut bbr, ms(540), &[after], 0);
    assert!(bbr.recovery.is_none());
    assert_eq!(bbr.cwnd, 84_000.0);
}

#[test]
fn bbr3_b17_drain_and_down_targets() {
    let mut bbr = knowing(Bbr3State::Down);
    assert_eq!(bbr.path_volume(), 60_000.0);
    bbr.bounds.longterm = 66_000.0;
    assert_eq!(bbr.with_headroom(), 56_100.0);
    assert!(bbr.is_time_to_cruise(56_100.0) && !bbr.is_time_to_cruise(56_101.0));
    bbr.bounds.longterm = f64::INFINITY;
    assert!(bbr.is_time_to_cruise(60_000.0) && !bbr.is_time_to_cruise(60_001.0));
}

#[test]
fn bbr3_b18_precaution() {
    let mut bbr = knowing(Bbr3State::Up);
    bbr.cycle.too_high = true;
    bbr.bounds.longterm = BDP;
    bbr.advance_cycle(&AckSample { in_flight: BDP, ..sample(ms(1000)) });
    assert_eq!(bbr.state, Bbr3State::Down);
    assert!(bbr.cycle.precautionary && !bbr.cycle.too_high);
    // Still a standing queue: without the precaution it would stay in DOWN or go to CRUISE.
    bbr.round.started = true;
    bbr.advance_cycle(&AckSample { in_flight: 1500.0, ..sample(ms(1040)) });
    assert_eq!(bbr.state, Bbr3State::Refill);
    assert!(!bbr.cycle.precautionary);
}

#[test]
fn bbr3_b18_a_probe_that_met_losses_itself_does_not_skip_cruise() {
    let mut bbr = knowing(Bbr3State::Up);
    bbr.cycle.precautionary = true;
    bbr.end_probe_too_high(ms(1000), BDP, false);
    bbr.round.started = true;
    bbr.advance_cycle(&AckSample { in_flight: 1500.0, ..sample(ms(1040)) });
    assert_eq!(bbr.state, Bbr3State::Cruise);
}

/// Loses ten packets in the middle of UP, at a flight of 30 kB.
fn lossy_probe() -> (Bbr3, Vec<AckedPacket>, f64) {
    let mut bbr = knowing(Bbr3State::Up);
    bbr.cycle.sampling = true;
    bbr.set_pacing_rate();
    let packets: Vec<_> = (0..10).map(|i| sent(&mut bbr, ms(i), i, 30_000)).collect();
    let before = bbr.cwnd;
    let gone: Vec<_> = packets.iter().map(lost).collect();
    lose(&mut bbr, ms(50), &gone, 30_000, 20);
    (bbr, packets, before)
}

#[test]
fn bbr3_b19_spurious_losses() {
    let (mut bbr, packets, before) = lossy_probe();
    assert_eq!((bbr.state, bbr.bounds.longterm, bbr.cwnd), (Bbr3State::Down, 42_000.0, 42_000.0));
    events(&mut bbr);
    for packet in &packets[1..] {
        late(&mut bbr, ms(60), packet);
    }
    assert_eq!(bbr.state, Bbr3State::Down, "one is still missing");
    late(&mut bbr, ms(61), &packets[0]);
    assert_eq!((bbr.state, bbr.bounds.longterm), (Bbr3State::Refill, f64::INFINITY));
    assert!(bbr.cwnd >= before && bbr.recovery.is_none());
    assert_eq!((bbr.lost, bbr.delivery.delivered()), (0, 15_000));
    assert_eq!(events(&mut bbr), [Event::Undone]);
}

#[test]
fn the_sender_does_not_go_on_at_the_gain_of_up_after_a_loss() {
    let (mut bbr, ..) = lossy_probe();
    near(bbr.pacing_rate, 0.9 * 0.99 * BW);
    let reduced = Event::Reduced { from: 120_000, to: 42_000 };
    assert!(events(&mut bbr).contains(&reduced));
}

#[test]
fn spurious_losses_of_startup_start_it_again() {
    let mut bbr = bbr("");
    let packets: Vec<_> = (0..40).map(|i| sent(&mut bbr, ms(i), i, (i + 1) * MSS)).collect();
    // Every other packet of the first twenty is lost; the round with losses begins with the first.
    let gone: Vec<_> = packets[..20].iter().step_by(2).map(lost).collect();
    ack(&mut bbr, ms(41), &packets[1..2], 38 * MSS);
    lose(&mut bbr, ms(41), &gone[..1], 37 * MSS, 40);
    let after = sent(&mut bbr, ms(42), 40, 38 * MSS);
    lose(&mut bbr, ms(43), &gone[1..], 29 * MSS, 41);
    ack(&mut bbr, ms(60), &packets[20..], 9 * MSS);
    assert_eq!(bbr.state, Bbr3State::Startup);
    ack(&mut bbr, ms(83), &[after], 8 * MSS);
    assert_ne!(bbr.state, Bbr3State::Startup);
    assert!(bbr.bounds.longterm.is_finite());
    for packet in packets[..20].iter().step_by(2) {
        late(&mut bbr, ms(84), packet);
    }
    assert_eq!(bbr.state, Bbr3State::Startup);
    assert!(!bbr.full_pipe.reached && bbr.bounds == LossBounds::NONE);
}

#[test]
fn a_spurious_timeout_gives_window_and_bounds_back() {
    let mut bbr = knowing(Bbr3State::Cruise);
    sent(&mut bbr, ms(10), 59, 90_000);
    bbr.on_timeout(&Timeout {
        now: ms(500),
        prior_in_flight: 90_000,
        in_a_row: 1,
        next_number: 60,
    });
    assert_eq!(bbr.cwnd, 1500.0);
    bbr.on_spurious(&Spurious::Timeout { now: ms(510) });
    assert_eq!(bbr.cwnd, 120_000.0);
    assert_eq!(bbr.bounds, LossBounds::NONE);
    assert!(bbr.recovery.is_none() && !bbr.signals.lossy);
}

#[test]
fn a_timeout_in_probe_rtt_keeps_the_window_to_come_back_to() {
    let mut bbr = knowing(Bbr3State::Cruise);
    bbr.start_probe_rtt(ms(6000));
    bbr.set_cwnd(1500.0);
    assert_eq!((bbr.cwnd, bbr.prior_cwnd), (30_000.0, 120_000.0));
    bbr.on_timeout(&Timeout {
        now: ms(6500),
        prior_in_flight: 30_000,
        in_a_row: 1,
        next_number: 60,
    });
    assert_eq!((bbr.cwnd, bbr.prior_cwnd), (1500.0, 120_000.0));
    bbr.end_probe_rtt(ms(7000));
    assert_eq!((bbr.cwnd, bbr.state), (120_000.0, Bbr3State::Cruise));
}

#[test]
fn a_new_recovery_has_its_own_undo() {
    let (mut bbr, ..) = lossy_probe();
    let after = sent(&mut bbr, ms(60), 20, 30_000);
    ack(&mut bbr, ms(100), &[after], 28_500);
    assert!(bbr.recovery.is_none());
    let longterm = bbr.bounds.longterm;
    let next = sent(&mut bbr, ms(101), 21, 30_000);
    lose(&mut bbr, ms(150), &[lost(&next)], 28_500, 30);
    late(&mut bbr, ms(160), &next);
    assert!(bbr.recovery.is_none());
    assert_eq!(bbr.bounds.longterm, longterm, "what the first recovery has learnt stays");
}

#[test]
fn one_lost_packet_of_a_small_flight_is_a_matter_of_choice() {
    for (text, state) in [("", Bbr3State::Down), ("min_loss_events=2", Bbr3State::Up)] {
        let mut bbr = knowing_as(text, Bbr3State::Up);
        bbr.cycle.sampling = true;
        let sent = probe_packet(&bbr, 61_500, false);
        bbr.lost += MSS;
        bbr.signals.on_lost(7, 0);
        bbr.check_probe_loss(ms(100), &sent, 1500.0);
        assert_eq!(bbr.state, state, "{text}");
    }
}

#[test]
fn the_rate_of_the_last_round_bounds_the_flight_of_probe_rtt_where_that_is_wanted() {
    for (text, window) in [("", 30_000.0), ("probe_rtt_latest=true", 15_000.0)] {
        let mut bbr = knowing_as(text, Bbr3State::Cruise);
        bbr.signals.bw_latest = BW / 2.0;
        bbr.start_probe_rtt(ms(6000));
        assert_eq!(bbr.probe_rtt_cwnd(), window, "{text}");
    }
}

#[test]
fn rest_from_idle_restarts_at_the_bandwidth_and_probes_no_rtt() {
    let mut bbr = knowing(Bbr3State::Down);
    bbr.set_pacing_rate();
    bbr.delivery.hold_app_limited(1);
    let packet = sent(&mut bbr, ms(9000), 0, MSS);
    assert!(bbr.idle_restart);
    near(bbr.pacing_rate, 0.99 * BW);
    ack(&mut bbr, ms(9040), &[packet], 0);
    assert_ne!(bbr.state, Bbr3State::ProbeRtt);
    assert!(!bbr.idle_restart);
}

#[test]
fn down_ends_by_time_in_refill() {
    let mut bbr = knowing(Bbr3State::Up);
    bbr.start_down(ms(1000));
    bbr.advance_cycle(&AckSample { in_flight: 90_000.0, ..sample(ms(2999)) });
    assert_eq!(bbr.state, Bbr3State::Down);
    bbr.advance_cycle(&AckSample { in_flight: 90_000.0, ..sample(ms(4001)) });
    assert_eq!(bbr.state, Bbr3State::Refill);
}

#[test]
fn drain_ends_by_time() {
    let mut bbr = knowing(Bbr3State::Drain);
    bbr.drain = Drain::start(5);
    for (round, state) in [(6, Bbr3State::Drain), (8, Bbr3State::Drain), (9, Bbr3State::Down)] {
        bbr.round.count = round;
        bbr.check_drain(&AckSample { in_flight: 90_000.0, ..sample(ms(1000)) });
        assert_eq!(bbr.state, state, "{round}");
    }
}

#[test]
fn drain_may_go_through_down_to_cruise_in_one_ack() {
    let mut bbr = knowing(Bbr3State::Drain);
    let packet = sent(&mut bbr, ms(10), 0, 45_000);
    ack(&mut bbr, ms(50), &[packet], 43_500);
    assert_eq!(bbr.state, Bbr3State::Cruise);
}

#[test]
fn up_ends_on_a_plateau_and_not_while_the_bound_holds_the_flow_back() {
    let mut bbr = knowing(Bbr3State::Up);
    bbr.full_pipe.now = true;
    bbr.advance_cycle(&sample(ms(1000)));
    assert_eq!(bbr.state, Bbr3State::Down);

    let mut bbr = knowing(Bbr3State::Up);
    bbr.full_pipe.now = true;
    bbr.bounds.longterm = 61_000.0;
    bbr.cwnd = 61_000.0;
    bbr.cwnd_limited = true;
    bbr.advance_cycle(&sample(ms(1000)));
    assert_eq!(bbr.state, Bbr3State::Up);
    assert!(!bbr.full_pipe.now, "looks for a plateau anew");
}

#[test]
fn a_round_does_not_start_with_an_ack_of_something_older() {
    let mut bbr = knowing(Bbr3State::Cruise);
    let packets: Vec<_> = (0..20).map(|i| sent(&mut bbr, ms(i), i, (i + 1) * MSS)).collect();
    ack(&mut bbr, ms(40), &packets[..1], 19 * MSS);
    let rounds = bbr.round.count;
    for (index, packet) in packets[1..].iter().enumerate() {
        ack(&mut bbr, ms(41 + index as u64), &[*packet], (18 - index as u64) * MSS);
        assert_eq!(bbr.round.count, rounds);
    }
    let next = sent(&mut bbr, ms(100), 20, MSS);
    ack(&mut bbr, ms(140), &[next], 0);
    assert_eq!(bbr.round.count, rounds + 1);
}

#[test]
fn an_ack_without_a_reliable_rate_still_moves_rounds_and_window() {
    let mut bbr = bbr("");
    let packets: Vec<_> = (0..10).map(|i| sent(&mut bbr, ms(0), i, (i + 1) * MSS)).collect();
    let now = ms(41);
    let acked: Vec<_> = packets[..2]
        .iter()
        .map(|packet| AckedPacket { rtt: Span::from_millis(41), ..*packet })
        .collect();
    // Something has seen a larger minimum RTT than this packet's: no honest rate.
    bbr.on_ack(&Ack {
        now,
        packets: &acked,
        prior_in_flight: 10 * MSS,
        in_flight: 8 * MSS,
        next_number: 10,
        rtt: &estimator(Span::from_millis(50)),
    });
    assert_eq!((bbr.max_bw.max(), bbr.bw), (0.0, 0.0));
    assert_eq!((bbr.round.count, bbr.cwnd), (1, 18_000.0));
}

#[test]
fn a_new_path_is_started_up_and_old_packets_do_not_measure_it() {
    let mut bbr = knowing(Bbr3State::Cruise);
    let old = sent(&mut bbr, ms(10), 0, 45_000);
    let also_old = sent(&mut bbr, ms(11), 1, 45_000);
    events(&mut bbr);
    bbr.on_path_change(ms(100));
    assert_eq!(bbr.state, Bbr3State::Startup);
    assert_eq!((bbr.cwnd, bbr.bw, bbr.max_bw.max()), (15_000.0, 0.0, 0.0));
    assert_eq!(events(&mut bbr), [Event::Restart, Event::Phase(crate::Phase::SlowStart)]);
    ack(&mut bbr, ms(110), &[old], 0);
    lose(&mut bbr, ms(120), &[lost(&also_old)], 0, 2);
    assert_eq!((bbr.min_rtt.known(), bbr.max_bw.max(), bbr.cwnd), (None, 0.0, 15_000.0));
    assert!(bbr.recovery.is_none());
    let new = sent(&mut bbr, ms(130), 2, MSS);
    ack(&mut bbr, ms(150), &[new], 0);
    assert_eq!(bbr.min_rtt.known(), Some(Span::from_millis(20)));
    assert_eq!(bbr.round.count, 1);
    assert_eq!(bbr.cwnd, 16_500.0, "grows as at the start");
}

#[test]
fn phases_are_reported_once_per_change() {
    let mut bbr = knowing(Bbr3State::Startup);
    events(&mut bbr);
    bbr.enter(ms(1), Bbr3State::Drain);
    bbr.start_down(ms(2));
    bbr.enter(ms(3), Bbr3State::Cruise);
    bbr.start_refill(ms(4));
    bbr.start_up(&sample(ms(5)));
    bbr.start_probe_rtt(ms(6));
    let phases: Vec<_> = events(&mut bbr)
        .into_iter()
        .filter_map(|event| if let Event::Phase(phase) = event { Some(phase.name()) } else { None })
        .collect();
    assert_eq!(phases, ["drain", "probe_bw", "probe_rtt"]);
}

#[test]
fn unset_bounds_are_shown_as_minus_one() {
    let bbr = knowing(Bbr3State::Cruise);
    let mut shown = Vec::new();
    bbr.inspect(&mut |name, value| shown.push((name, value)));
    assert!(shown.contains(&("inflight_longterm_pkts", -1.0)));
    assert!(shown.contains(&("inflight_shortterm_pkts", -1.0)));
    assert!(shown.contains(&("state", 3.0)));
    assert!(shown.contains(&("bottleneck_mbps", 12.0)));
}

#[test]
fn a_lack_of_data_ends_neither_startup_nor_up_but_losses_do() {
    for state in [Bbr3State::Startup, Bbr3State::Up] {
        let mut bbr = knowing(state);
        bbr.full_pipe = Bbr3FullPipe::default();
        bbr.full_pipe.reached = state == Bbr3State::Up;
        for round in 0..20 {
            bbr.round.started = true;
            let sample = AckSample { app_limited: true, ..sample(ms(1000 + 40 * round)) };
            bbr.check_full_pipe(&sample);
            bbr.check_drain(&sample);
            bbr.advance_cycle(&sample);
        }
        assert_eq!(bbr.state, state);
        if state == Bbr3State::Startup {
            (bbr.signals.started, bbr.signals.loss_ranges) = (true, 6);
            let lossy = AckSample { app_limited: true, lost: 6000.0, ..sample(ms(2000)) };
            bbr.check_startup_losses(&lossy);
            bbr.check_drain(&AckSample { in_flight: 90_000.0, ..lossy });
            assert_eq!(bbr.state, Bbr3State::Drain);
        } else {
            bbr.cycle.sampling = true;
            bbr.lost += 3 * MSS;
            bbr.signals.on_lost(7, 0);
            let sent = StampedState { lost: 0, ..probe_packet(&bbr, 60_000, true) };
            bbr.check_probe_loss(ms(2000), &sent, 1500.0);
            assert_eq!((bbr.state, bbr.bounds.longterm), (Bbr3State::Down, f64::INFINITY));
        }
    }
}

/// A packet that left at `at_ms` with 60 kB in flight, and its ack 41 ms later.
fn round_trip(bbr: &mut Bbr3, at_ms: u64, number: u64, ecn: Ecn) {
    let packet = sent(bbr, ms(at_ms), number, 60_000);
    ack(bbr, ms(at_ms + 41), &[AckedPacket { ecn, ..packet }], 58_500);
}

#[test]
fn bbr3_b22_a_round_with_marks_lowers_the_flight() {
    let mut bbr = knowing_as("ecn=true", Bbr3State::Cruise);
    assert_eq!((bbr.ecn(), knowing(Bbr3State::Cruise).ecn()), (Ecn::Ect0, Ecn::NotEct));
    // alpha is 1: a third goes.
    round_trip(&mut bbr, 1000, 0, Ecn::Ce);
    let flight = bbr.bounds.inflight_shortterm;
    assert!(bbr.marks.alpha == 1.0 && (flight - 80_000.0).abs() < 1e-6, "{flight}");
    assert!(bbr.cwnd <= flight && bbr.bounds.bw_shortterm.is_infinite());
    round_trip(&mut bbr, 1050, 1, Ecn::Ect0);
    assert_eq!((bbr.marks.alpha, bbr.bounds.inflight_shortterm), (0.9375, flight));
    // 0.9375 + (1 - 0.9375) / 16
    round_trip(&mut bbr, 1100, 2, Ecn::Ce);
    assert_eq!(bbr.marks.alpha, 0.941_406_25);
    let left = 80_000.0 * (1.0 - 0.941_406_25 / 3.0);
    assert!((bbr.bounds.inflight_shortterm - left).abs() < 1e-6, "{left}");
    let mut bbr = knowing(Bbr3State::Refill);
    round_trip(&mut bbr, 1000, 0, Ecn::Ce);
    assert!(bbr.bounds.inflight_shortterm.is_infinite());
}

#[test]
fn bbr3_b23_two_rounds_of_marks_end_startup() {
    let mut bbr = bbr("ecn=true");
    round_trip(&mut bbr, 1000, 0, Ecn::Ce);
    assert!(!bbr.full_pipe.reached);
    round_trip(&mut bbr, 1050, 1, Ecn::Ect0);
    round_trip(&mut bbr, 1100, 2, Ecn::Ce);
    assert!(!bbr.full_pipe.reached, "not in a row");
    round_trip(&mut bbr, 1150, 3, Ecn::Ce);
    assert!(bbr.full_pipe.reached && bbr.bounds.longterm.is_finite());
}

#[test]
fn bbr3_b24_a_probe_with_half_of_its_packets_marked_has_gone_too_far() {
    let mut bbr = knowing_as("ecn=true", Bbr3State::Up);
    bbr.cycle.sampling = true;
    bbr.cycle.ack_phase = AckPhase::ProbeFeedback;
    round_trip(&mut bbr, 1000, 0, Ecn::Ce);
    assert!(bbr.cycle.too_high && !bbr.cycle.sampling);
    assert_eq!(bbr.state, Bbr3State::Down);
    // What was in flight when the packet left, 60 kB, is more than 0.7 of 60 kB.
    assert_eq!(bbr.bounds.longterm, 60_000.0);
    assert!(bbr.bounds.inflight_shortterm.is_infinite());
}
