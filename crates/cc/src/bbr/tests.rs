use cellpace_base::ParamSet;
use proptest::prelude::*;

use super::*;
use crate::{AckedPacket, LostPacket};

const MSS: u64 = 1500;
/// 1000 packets per second.
const BW: u64 = 1000 * MSS;
const RTT: Span = Span::from_millis(40);

fn bbr_seeded(text: &str, seed: u64) -> Bbr {
    Bbr::new(
        &BbrParams::parse("bbr", text).unwrap(),
        Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(seed, 0) },
    )
}

fn bbr(text: &str) -> Bbr {
    bbr_seeded(text, 1)
}

/// A flow in PROBE_BW that knows a path of 1000 packets per second and 40 ms.
fn probing() -> Bbr {
    probing_as("")
}

fn probing_as(text: &str) -> Bbr {
    let mut bbr = bbr(text);
    bbr.btl_bw.push(0, BW, 10);
    bbr.rtprop = Some(RTT);
    bbr.full_pipe.reached = true;
    bbr.cwnd = 86;
    bbr.enter_probe_bw(Time::ZERO);
    bbr.pacing_rate = BW as f64;
    bbr
}

fn in_phase(phase: usize) -> Bbr {
    let mut bbr = probing();
    bbr.cycle.phase = phase;
    bbr.pacing_gain = bbr.cycle_gain();
    bbr
}

fn sample(rate: u64, app_limited: bool) -> RateSample {
    RateSample { rate: Some(rate), prior_delivered: 0, app_limited }
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn sent(bbr: &mut Bbr, now: Time, number: u64, in_flight: u64) -> AckedPacket {
    let packet = SentPacket {
        now,
        number,
        bytes: MSS,
        in_flight,
        app_limited: false,
        retransmission: false,
    };
    let stamp = bbr.on_sent(&packet);
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

fn ack(bbr: &mut Bbr, now: Time, mut packet: AckedPacket, in_flight_after: u64) {
    packet.rtt = now - packet.sent_at;
    let mut rtt = RttEstimator::default();
    rtt.sample(packet.rtt);
    bbr.on_ack(&Ack {
        now,
        packets: &[packet],
        prior_in_flight: in_flight_after + packet.bytes,
        in_flight: in_flight_after,
        next_number: packet.number + in_flight_after / MSS + 1,
        rtt: &rtt,
    });
}

fn lost(packet: &AckedPacket) -> LostPacket {
    LostPacket {
        number: packet.number,
        bytes: packet.bytes,
        sent_at: packet.sent_at,
        stamp: packet.stamp,
    }
}

fn lose(bbr: &mut Bbr, now: Time, packets: &[LostPacket], in_flight_after: u64, next_number: u64) {
    bbr.on_loss(&Loss {
        now,
        packets,
        prior_in_flight: in_flight_after + MSS * packets.len() as u64,
        in_flight: in_flight_after,
        next_number,
        rtt: &RttEstimator::default(),
    });
}

fn events(bbr: &mut Bbr) -> Vec<Event> {
    std::iter::from_fn(|| bbr.poll_event()).map(|(_, event)| event).collect()
}

#[test]
fn bbr_x1_full_pipe() {
    let mut bbr = bbr("");
    bbr.round.started = true;
    let mut full = Vec::new();
    for bw in [100, 200, 400, 480, 490, 495] {
        bbr.round.count += 1;
        bbr.update_btl_bw(&sample(bw, false));
        bbr.check_full_pipe(&sample(bw, false));
        full.push(bbr.full_pipe.reached);
    }
    assert_eq!(full, [false, false, false, false, false, true]);
    assert_eq!(bbr.full_pipe.bw, 400);
}

#[test]
fn bbr_x1_neither_half_rounds_nor_a_lack_of_data_fill_the_pipe() {
    let mut bbr = bbr("");
    for round in 0..20 {
        bbr.round.count = round;
        bbr.round.started = false;
        bbr.update_btl_bw(&sample(100, false));
        bbr.check_full_pipe(&sample(100, false));
        bbr.round.started = true;
        bbr.check_full_pipe(&sample(100, true));
    }
    assert!(!bbr.full_pipe.reached);
}

#[test]
fn bbr_x2_bdp_and_window_target() {
    let mut bbr = probing();
    assert_eq!(bbr.bdp(bbr.btl_bw(), 1.0), 40);
    assert_eq!((bbr.quantum(), bbr.target_cwnd()), (2, 86));
    bbr.set_cwnd(10, 80 * MSS);
    assert_eq!(bbr.cwnd(), 86 * MSS);
    // Below 1.2 Mbit/s a quantum is one packet; at 120 Mbit/s it is what 1 ms holds.
    bbr.pacing_rate = 149_000.0;
    assert_eq!(bbr.quantum(), 1);
    bbr.pacing_rate = 15e6;
    assert_eq!(bbr.quantum(), 10);
    assert_eq!(bbr.pacing().unwrap().burst, 10 * MSS);
}

#[test]
fn bbr_x2_the_target_is_even() {
    let mut bbr = probing();
    bbr.pacing_rate = 100_000.0;
    assert_eq!(bbr.target_cwnd(), 84, "80 + 3, rounded up");
}

#[test]
fn bbr_x3_phases_of_the_cycle() {
    let up = in_phase(0);
    assert!(!up.is_next_phase(ms(40), 50 * MSS), "not before the RTT is over");
    assert!(!up.is_next_phase(ms(400), 49 * MSS), "the probe has not arrived");
    assert!(up.is_next_phase(ms(41), 50 * MSS));
    let mut lossy = in_phase(0);
    lossy.lost_since_ack = true;
    assert!(lossy.is_next_phase(ms(41), 10 * MSS));

    let down = in_phase(1);
    assert!(!down.is_next_phase(ms(40), 41 * MSS));
    assert!(down.is_next_phase(ms(1), 40 * MSS));
    assert!(down.is_next_phase(ms(41), 50 * MSS));

    let cruise = in_phase(4);
    assert!(!cruise.is_next_phase(ms(40), 0));
    assert!(cruise.is_next_phase(ms(41), 0));
}

#[test]
fn bbr_x3_the_cycle_goes_round() {
    let mut bbr = in_phase(0);
    let mut gains = Vec::new();
    for step in 1..=9 {
        gains.push(bbr.pacing_gain);
        bbr.update_cycle(ms(step * 41), 50 * MSS);
    }
    assert_eq!(gains, [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.25]);
}

#[test]
fn bbr_x3_the_first_phase_is_any_but_the_draining_one() {
    let mut seen = [0; 8];
    for seed in 0..700 {
        let mut bbr = bbr_seeded("", seed);
        bbr.enter_probe_bw(Time::ZERO);
        seen[bbr.cycle.phase] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(
        [0, 2, 3, 4, 5, 6, 7].iter().all(|phase| (60..150).contains(&seen[*phase])),
        "{seen:?}"
    );
}

#[test]
fn bbr_x4_probe_rtt() {
    let mut bbr = probing();
    bbr.rtprop_at = ms(0);
    // Samples above the minimum for ten seconds.
    let mut packet = sent(&mut bbr, ms(9_950), 1, 50 * MSS);
    ack(&mut bbr, ms(10_000), packet, 49 * MSS);
    assert_eq!((bbr.mode, bbr.cwnd), (BbrPhase::ProbeBw, 86));
    packet = sent(&mut bbr, ms(9_960), 2, 50 * MSS);
    ack(&mut bbr, ms(10_010), packet, 49 * MSS);
    assert_eq!((bbr.mode, bbr.cwnd), (BbrPhase::ProbeRtt, 4));
    assert_eq!(bbr.rtprop, Some(Span::from_millis(50)), "the old one is believed no longer");

    // Held from 10.05 s, when four packets are left; a round passes meanwhile.
    packet = sent(&mut bbr, ms(10_010), 3, 5 * MSS);
    ack(&mut bbr, ms(10_050), packet, 4 * MSS);
    assert_eq!(bbr.probe_rtt.done_at, Some(ms(10_250)));
    packet = sent(&mut bbr, ms(10_060), 4, 4 * MSS);
    ack(&mut bbr, ms(10_249), packet, 3 * MSS);
    assert_eq!((bbr.mode, bbr.cwnd), (BbrPhase::ProbeRtt, 4));
    packet = sent(&mut bbr, ms(10_210), 5, 4 * MSS);
    ack(&mut bbr, ms(10_250), packet, 3 * MSS);
    assert_eq!((bbr.mode, bbr.rtprop), (BbrPhase::ProbeBw, Some(RTT)));
    assert_eq!(bbr.cwnd, 86, "the window of before");
    assert_eq!(bbr.rtprop_at, ms(10_250));
}

#[test]
fn bbr_x4_a_restart_after_idling_does_not_probe() {
    let mut bbr = probing();
    bbr.delivery.hold_app_limited(MSS);
    let packet = sent(&mut bbr, ms(20_000), 1, MSS);
    assert_eq!(bbr.pacing_rate, BW as f64);
    ack(&mut bbr, ms(20_045), packet, 0);
    assert_eq!((bbr.mode, bbr.rtprop), (BbrPhase::ProbeBw, Some(Span::from_millis(45))));
}

#[test]
fn bbr_x6_app_limited_samples() {
    let mut bbr = probing();
    bbr.update_btl_bw(&sample(300 * MSS, true));
    bbr.round.count = 10;
    bbr.update_btl_bw(&sample(400 * MSS, true));
    assert_eq!(bbr.btl_bw(), BW);
    bbr.update_btl_bw(&sample(1100 * MSS, true));
    assert_eq!(bbr.btl_bw(), 1100 * MSS);
}

#[test]
fn bbr_x8_the_old_maximum_lasts_ten_rounds() {
    let mut bbr = probing();
    for round in 1..=10 {
        bbr.round.count = round;
        bbr.update_btl_bw(&sample(BW / 5, false));
        assert_eq!(bbr.btl_bw(), BW);
    }
    bbr.round.count = 11;
    bbr.update_btl_bw(&sample(BW / 5, false));
    assert_eq!(bbr.btl_bw(), BW / 5);
}

#[test]
fn pacing_before_and_at_the_first_rtt() {
    let mut bbr = bbr("");
    let packets_per_sec = |bbr: &Bbr| bbr.pacing().unwrap().rate.as_bps() as f64 / 8.0 / MSS as f64;
    assert!((packets_per_sec(&bbr) - 28_850.0).abs() < 0.1);
    let packet = sent(&mut bbr, ms(0), 0, MSS);
    ack(&mut bbr, ms(40), packet, 0);
    assert!((packets_per_sec(&bbr) - 2.885 * 10.0 / 0.04).abs() < 0.1);
    assert_eq!(bbr.cwnd(), 11 * MSS);
}

#[test]
fn aggregation_widens_the_window_by_what_arrives_at_once_once_the_pipe_is_full() {
    for (text, full, window) in
        [("", true, 86), ("aggregation=true", true, 106), ("aggregation=true", false, 86)]
    {
        let mut bbr = probing_as(text);
        bbr.full_pipe.reached = full;
        bbr.watch_aggregation(ms(100), 20);
        assert_eq!(bbr.target_cwnd(), window, "{text}, pipe full: {full}");
    }
}

#[test]
fn aggregation_is_measured_against_the_bandwidth() {
    let mut bbr = probing_as("aggregation=true");
    // Ten packets every 10 ms are 1000 packets per second, ten of them at once.
    (1..100).for_each(|i| bbr.watch_aggregation(ms(10 * i), 10));
    assert_eq!(bbr.bundled(), 10);
    bbr.on_path_change(ms(2000));
    assert_eq!(bbr.bundled(), 0, "a new path bundles in its own way");
}

#[test]
fn margin_paces_below_the_bandwidth() {
    let mut rtt = RttEstimator::default();
    rtt.sample(RTT);
    for (text, share) in [("", 1.0), ("margin=0.01", 0.99)] {
        let mut bbr = probing_as(text);
        bbr.paced_by_rtt = true;
        bbr.pacing_gain = 1.0;
        bbr.set_pacing_rate(&rtt);
        assert!((bbr.pacing_rate / BW as f64 - share).abs() < 1e-9, "{text}");
        bbr.pacing_gain = 1.25;
        bbr.set_pacing_rate(&rtt);
        assert!((bbr.pacing_rate / BW as f64 - 1.25 * share).abs() < 1e-9, "{text}");
    }
}

#[test]
fn phase_quanta_raise_what_the_phases_want_under_way() {
    // Quanta of two packets: 50 and 40 packets become 56 and 46.
    for (text, up, down) in [("", 50, 40), ("phase_quanta=true", 56, 46)] {
        let mut bbr = probing_as(text);
        bbr.pacing_gain = 1.25;
        assert!(!bbr.is_next_phase(ms(41), (up - 1) * MSS), "{text}");
        assert!(bbr.is_next_phase(ms(41), up * MSS), "{text}");
        bbr.pacing_gain = 0.75;
        assert!(!bbr.is_next_phase(ms(1), (down + 1) * MSS), "{text}");
        assert!(bbr.is_next_phase(ms(1), down * MSS), "{text}");
    }
}

#[test]
fn startup_drains_and_then_probes() {
    let mut bbr = probing();
    bbr.mode = BbrPhase::Startup;
    bbr.check_drain(ms(1), 100 * MSS);
    assert_eq!(bbr.mode, BbrPhase::Drain);
    assert!((bbr.pacing_gain - 0.3466).abs() < 1e-4);
    bbr.check_drain(ms(2), 41 * MSS);
    assert_eq!(bbr.mode, BbrPhase::Drain);
    bbr.check_drain(ms(3), 40 * MSS);
    assert_eq!(bbr.mode, BbrPhase::ProbeBw);
    assert!(
        events(&mut bbr).ends_with(&[Event::Phase(Phase::Drain), Event::Phase(Phase::ProbeBw)])
    );
}

#[test]
fn loss_conserves_packets_for_a_round_and_then_gives_the_window_back() {
    let mut bbr = probing();
    let packets: Vec<_> = (0..80).map(|i| sent(&mut bbr, ms(i), i, (i + 1) * MSS)).collect();
    ack(&mut bbr, ms(80), packets[3], 79 * MSS);
    assert_eq!(bbr.cwnd, 86);
    lose(&mut bbr, ms(80), &[lost(&packets[0])], 78 * MSS, 80);
    assert_eq!(bbr.cwnd, 79, "in flight and the one just acked");
    assert!(events(&mut bbr).contains(&Event::Reduced { from: 86 * MSS, to: 79 * MSS }));

    ack(&mut bbr, ms(81), packets[4], 78 * MSS);
    assert_eq!(bbr.cwnd, 79, "one out per one in");
    lose(&mut bbr, ms(82), &[lost(&packets[1]), lost(&packets[2])], 70 * MSS, 81);
    assert_eq!(bbr.cwnd, 77);

    let after = sent(&mut bbr, ms(83), 81, 71 * MSS);
    ack(&mut bbr, ms(123), after, 30 * MSS);
    assert_eq!((bbr.cwnd, bbr.recovery.is_none()), (86, true));
    assert_eq!(bbr.btl_bw(), BW, "the model is untouched");
}

#[test]
fn a_timeout_leaves_one_packet_until_the_path_answers() {
    let timeout = Timeout { now: ms(400), prior_in_flight: 80 * MSS, in_a_row: 1, next_number: 80 };
    let mut bbr = probing();
    bbr.on_timeout(&timeout);
    assert_eq!(bbr.cwnd(), MSS);
    bbr.on_timeout(&Timeout { now: ms(900), prior_in_flight: MSS, in_a_row: 2, next_number: 81 });
    let after = sent(&mut bbr, ms(900), 81, MSS);
    ack(&mut bbr, ms(940), after, 0);
    assert_eq!(bbr.cwnd, 86);

    let mut late = probing();
    late.on_timeout(&timeout);
    late.on_spurious(&Spurious::Timeout { now: ms(410) });
    assert_eq!(late.cwnd, 86);
    assert!(events(&mut late).contains(&Event::Undone));
}

#[test]
fn losses_that_all_arrive_late_end_the_recovery() {
    let mut bbr = probing();
    let packets: Vec<_> = (0..80).map(|i| sent(&mut bbr, ms(i), i, (i + 1) * MSS)).collect();
    lose(&mut bbr, ms(80), &[lost(&packets[0]), lost(&packets[1])], 50 * MSS, 80);
    assert_eq!(bbr.cwnd, 50);
    bbr.on_spurious(&Spurious::Loss { now: ms(81), packet: &packets[0] });
    assert_eq!(bbr.cwnd, 50);
    bbr.on_spurious(&Spurious::Loss { now: ms(82), packet: &packets[1] });
    assert_eq!((bbr.cwnd, bbr.lost, bbr.delivery.delivered()), (86, 0, 2 * MSS));
    assert!(events(&mut bbr).contains(&Event::Undone));
}

#[test]
fn a_new_path_forgets_the_model_and_ignores_packets_of_the_old() {
    let mut bbr = probing();
    let old = sent(&mut bbr, ms(0), 0, MSS);
    bbr.on_path_change(ms(20));
    assert_eq!((bbr.btl_bw(), bbr.rtprop, bbr.mode), (0, None, BbrPhase::Startup));
    ack(&mut bbr, ms(40), old, MSS);
    assert_eq!((bbr.btl_bw(), bbr.rtprop), (0, None));
    let new = sent(&mut bbr, ms(40), 1, MSS);
    ack(&mut bbr, ms(140), new, 0);
    assert_eq!(bbr.rtprop, Some(Span::from_millis(100)));
    assert!(bbr.btl_bw() > 0);
    assert!(events(&mut bbr).contains(&Event::Restart));
}

#[test]
fn a_found_policer_is_paced_at_its_rate() {
    let mut bbr = in_phase(0);
    let mut packet_number = 0;
    // A round of 40 ms that delivers 10 packets and loses 5.
    for round in 0..12 {
        let start = round * 40;
        let burst: Vec<_> = (0..15)
            .map(|i| {
                packet_number += 1;
                sent(&mut bbr, ms(start), packet_number, (i + 1) * MSS)
            })
            .collect();
        let (arrived, dropped) = burst.split_at(10);
        for (left, packet) in arrived.iter().enumerate() {
            ack(&mut bbr, ms(start + 40), *packet, (14 - left as u64) * MSS);
        }
        let dropped: Vec<_> = dropped.iter().map(lost).collect();
        lose(&mut bbr, ms(start + 40), &dropped, 0, packet_number + 1);
    }
    let policed = bbr.policed().expect("two lossy stretches of one rate") as f64;
    assert!((policed / (10.0 * MSS as f64 / 0.04) - 1.0).abs() < 0.05, "{policed}");
    assert_eq!((bbr.pacing_gain, bbr.pacing_rate), (1.0, policed));
}

#[derive(Debug, Clone)]
enum Step {
    Send(u64),
    Ack { count: usize, app_limited: bool, garbled: bool },
    Lose(usize),
    Timeout,
    SpuriousTimeout,
    SpuriousLoss,
    PathChange,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1u64..30).prop_map(Step::Send),
        8 => (1usize..20, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(count, app_limited, garbled)| Step::Ack { count, app_limited, garbled }),
        2 => (1usize..10).prop_map(Step::Lose),
        1 => Just(Step::Timeout),
        1 => Just(Step::SpuriousTimeout),
        1 => Just(Step::SpuriousLoss),
        1 => Just(Step::PathChange),
        6 => prop_oneof![0u64..1_000_000, 0u64..1_000_000_000, 0u64..15_000_000_000].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn any_history_leaves_window_and_rate_finite_and_within_bounds(
        steps in steps(),
        text in prop::sample::select(vec!["", "policer=off", "aggregation=true,margin=0.01,phase_quanta=true", "min_window=1pkts,rtprop_window=100ms"]),
    ) {
        let mut bbr = bbr(text);
        let (mut now, mut next) = (Time::ZERO, 0);
        let mut flying: Vec<AckedPacket> = Vec::new();
        let mut given_up: Vec<AckedPacket> = Vec::new();
        let bytes = |packets: &[AckedPacket]| packets.len() as u64 * MSS;
        for step in steps {
            match step {
                Step::Send(count) => for _ in 0..count {
                    let packet = sent(&mut bbr, now, next, bytes(&flying) + MSS);
                    next += 1;
                    flying.push(packet);
                },
                Step::Ack { count, app_limited, garbled } => {
                    let prior_in_flight = bytes(&flying);
                    let mut packets: Vec<_> = flying.drain(..count.min(flying.len())).collect();
                    if packets.is_empty() { continue }
                    let mut rtt = RttEstimator::default();
                    for packet in &mut packets {
                        packet.rtt = now - packet.sent_at;
                        packet.app_limited = app_limited;
                        if garbled { packet.stamp.local = [u64::MAX, 7, u64::MAX, 3] }
                        rtt.sample(packet.rtt);
                    }
                    let in_flight = bytes(&flying);
                    bbr.on_ack(&Ack {
                        now, packets: &packets, prior_in_flight, in_flight, next_number: next, rtt: &rtt,
                    });
                }
                Step::Lose(count) => {
                    let packets: Vec<_> = flying.drain(..count.min(flying.len())).collect();
                    if packets.is_empty() { continue }
                    let losses: Vec<_> = packets.iter().map(lost).collect();
                    lose(&mut bbr, now, &losses, bytes(&flying), next);
                    given_up.extend(packets);
                }
                Step::Timeout => {
                    let prior_in_flight = bytes(&flying);
                    flying.clear();
                    bbr.on_timeout(&Timeout { now, prior_in_flight, in_a_row: 1, next_number: next });
                }
                Step::SpuriousTimeout => bbr.on_spurious(&Spurious::Timeout { now }),
                Step::SpuriousLoss => if let Some(packet) = given_up.pop() {
                    bbr.on_spurious(&Spurious::Loss { now, packet: &packet });
                },
                Step::PathChange => bbr.on_path_change(now),
                Step::Wait(nanos) => now += Span::from_nanos(nanos),
            }
            prop_assert!((1..=Bbr::MAX_WINDOW).contains(&bbr.cwnd));
            prop_assert!(bbr.pacing_rate.is_finite());
            let pacing = bbr.pacing().unwrap();
            prop_assert!(pacing.rate.as_bps() > 0 && pacing.burst >= MSS);
            let mut finite = true;
            bbr.inspect(&mut |_, value| finite &= value.is_finite());
            prop_assert!(finite);
            prop_assert_eq!(bbr.next_deadline(), None);
        }
    }
}
