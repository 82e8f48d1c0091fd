//! Transfers: the worked examples of their completion times, and what must hold for all.

use crate::common;
use crate::common::{bulk, lone, observed, outcome, secs};
use cellpace_base::{Span, Time};
use cellpace_measure::{Transfer, TransferOutcome};
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{FlowSpec, FlowTraffic, Outcome, Scenario, TransferSpec};
use proptest::prelude::*;

fn transfers(cc: &str, text: &str) -> FlowSpec {
    let spec = TransferSpec::parse(text, &mut TraceFiles::none()).unwrap();
    FlowSpec { traffic: FlowTraffic::Transfers(spec), ..bulk(cc) }
}

/// A packet per millisecond, 40 ms, a deep queue.
fn over_12_mbit(flow: FlowSpec, seconds: u64) -> Scenario {
    Scenario {
        flows: vec![flow],
        skip: Span::ZERO,
        ..lone("cubic", "constant:12mbit", "infinite", seconds)
    }
}

fn completion_ms(transfer: &Transfer) -> f64 {
    transfer.completion_ms.unwrap_or_else(|| panic!("{transfer:?}"))
}

#[test]
fn transfer_t1_completion_of_sizes_in_slow_start() {
    let expected = [(10, 30.0), (30, 81.0), (70, 142.0), (100, 173.0), (300, 373.0), (700, 773.0)];
    for (packets, ms) in expected {
        let size = format!("{}B", packets * 1448);
        let scenario = over_12_mbit(transfers("newreno", &size), 5);
        let records = outcome(&scenario).transfers;
        assert!((completion_ms(&records[0]) - ms).abs() <= 1.0, "{packets}: {:?}", records[0]);
        assert_eq!(records[0].packets_sent, packets);
        assert_eq!(records[0].outcome, TransferOutcome::Complete);
    }
}

#[test]
fn transfer_t2_a_handshake_takes_its_round_trips() {
    let of = |text: &str| {
        let scenario = over_12_mbit(transfers("newreno", text), 5);
        outcome(&scenario).transfers.remove(0)
    };
    let plain = of("14480B,handshake=true");
    assert!((completion_ms(&plain) - 91.0).abs() <= 2.0, "{plain:?}");
    assert_eq!(plain.handshake_rtt_ms, Some(41.0));
    assert!(plain.self_inflicted_ms.is_some_and(|ms| ms < 10.0), "{plain:?}");
    let tls = of("14480B,handshake=true,tls=2,answer_after=5ms");
    // Two round trips of 41 ms, and the server's 5 ms.
    assert!((completion_ms(&tls) - completion_ms(&plain) - 87.0).abs() <= 2.0, "{tls:?}");
    let request = of("14480B,request=400B");
    assert!((completion_ms(&request) - 50.0).abs() <= 1.0, "{request:?}");
}

#[test]
fn transfer_t3_sizes_add_up_and_no_completion_beats_the_link() {
    let scenario = over_12_mbit(transfers("cubic", "10kB+300kB,count=12,gap=100ms"), 20);
    let (outcome, log) = observed(&scenario);
    let sizes: u64 = outcome.transfers.iter().map(|transfer| transfer.size_bytes).sum();
    // 52 bytes of each packet are headers.
    let received: u64 = log.delivered().map(|record| u64::from(record.packet.size) - 52).sum();
    assert_eq!((outcome.transfers.len(), sizes), (12, 6 * 310_000));
    assert_eq!(received, sizes);
}

#[test]
fn transfer_t4_transfers_one_after_the_other_fill_the_link() {
    let flow = transfers("fixed:cwnd=41pkts", "1MB,count=20,gap=0s");
    let records = outcome(&over_12_mbit(flow, 30)).transfers;
    assert_eq!(records.len(), 20);
    for record in &records {
        // 691 packets, one a millisecond, and 20 ms there: 8 Mbit in 711 ms.
        let goodput = record.goodput_mbps.unwrap();
        assert!((goodput - 11.25).abs() < 0.1, "{record:?}");
    }
}

#[test]
fn a_player_fetches_what_the_link_carries_and_stalls_where_it_does_not() {
    let seen = |text: &str, mbit: u64| {
        let flow = transfers("cubic", text);
        let trace = format!("constant:{mbit}mbit");
        let scenario = Scenario {
            flows: vec![flow],
            skip: Span::ZERO,
            ..lone("cubic", &trace, "droptail:60pkts", 300)
        };
        let outcome = outcome(&scenario);
        let figures = outcome.figures.per_flow[0].player.unwrap();
        let complete = outcome.transfers.iter().filter(|chunk| chunk.completion_ms.is_some());
        assert_eq!(complete.count() as u64, figures.chunks);
        figures
    };
    // A link of three times the highest rate: 300 s are played, and a buffer is there beyond them.
    let fast = seen("abr:rates=1mbit+2mbit+4mbit,chunk=4s,buffer=40s", 12);
    assert_eq!((fast.stalls, fast.stalled_s), (0, 0.0));
    assert!((75..=86).contains(&fast.chunks) && fast.bitrate_mbps > 3.5, "{fast:?}");
    // A link of half the lowest rate: the picture stands still for half of the time.
    let slow = seen("abr:rates=2mbit+4mbit,chunk=4s,buffer=40s", 1);
    assert!((120.0..180.0).contains(&slow.stalled_s) && slow.stalls > 20, "{slow:?}");
    assert_eq!((slow.bitrate_mbps, slow.switches), (2.0, 0));
    // Between two rates of the ladder it has both, and does not stall.
    let between = seen("abr:rates=1mbit+2mbit+4mbit,chunk=4s,buffer=40s,connection=keep", 3);
    assert_eq!(between.stalls, 0, "{between:?}");
    assert!((2.0..3.0).contains(&between.bitrate_mbps) && between.switches > 2, "{between:?}");
}

#[test]
fn transfer_t5_one_packet_takes_one_way() {
    let records =
        outcome(&over_12_mbit(transfers("cubic", "1448B,count=50,gap=7ms"), 10)).transfers;
    assert_eq!(records.len(), 50);
    assert!(records.iter().all(|record| (20.0..=21.0).contains(&completion_ms(record))));
}

#[test]
fn transfer_t6_what_is_given_up_does_not_count_for_the_next() {
    let flow = transfers("fixed:cwnd=100pkts", "1MB,count=5,gap=0s,timeout=300ms");
    let (outcome, log) = observed(&over_12_mbit(flow, 5));
    let records = &outcome.transfers;
    assert_eq!(records.len(), 5);
    assert!(records.iter().all(|record| record.outcome == TransferOutcome::Timeout));
    assert!(records.iter().all(|record| record.completion_ms.is_none()));
    let starts: Vec<f64> = records.iter().map(|record| record.start_s).collect();
    assert_eq!(starts, [0.0, 0.3, 0.6, 0.9, 1.2]);
    let sent: u64 = records.iter().map(|record| record.packets_sent).sum();
    assert_eq!(sent, log.records.len() as u64, "each packet belongs to one transfer");
    assert_eq!(records[0].largest_window_packets, 100.0);
    assert_eq!(records[4].largest_window_packets, 100.0);
    let summary = outcome.figures.per_flow[0].transfers.as_ref().unwrap();
    assert_eq!((summary.count, summary.complete, summary.timeout), (5, 0, 5));
}

fn beside(bulk_cc: &str) -> f64 {
    let scenario = Scenario {
        flows: vec![bulk(bulk_cc), transfers("cubic", "100kB,every=5s")],
        ..lone("cubic", "constant:12mbit", "droptail:2MB", 120)
    };
    let outcome = outcome(&scenario);
    let summary = outcome.figures.per_flow[1].transfers.as_ref().unwrap();
    assert!(summary.complete >= 22, "{summary:?}");
    summary.completion_ms.p50
}

#[test]
fn transfer_t7_short_transfers_wait_behind_a_deep_queue() {
    let (cubic, verus) = (beside("cubic"), beside("verus:r=2"));
    assert!(cubic >= 2000.0, "{cubic}");
    assert!(verus <= 500.0, "{verus}");
}

#[test]
fn transfers_begin_whether_the_one_before_is_complete_or_not() {
    let flow = transfers("cubic", "3MB,every=1s,count=4");
    let outcome = outcome(&over_12_mbit(flow, 20));
    let starts: Vec<f64> = outcome.transfers.iter().map(|record| record.start_s).collect();
    assert_eq!(starts, [0.0, 1.0, 2.0, 3.0]);
    // 2072 packets each, a packet a millisecond: more than two are in the network at a time.
    assert!(outcome.transfers.iter().all(|record| completion_ms(record) > 2_000.0));
    let last = outcome.transfers.iter().filter_map(|record| record.end_s).fold(0.0, f64::max);
    assert!((8.2..8.6).contains(&last), "{last}");
}

#[test]
fn one_connection_is_kept_and_its_window_with_it() {
    let of = |connection: &str| {
        let text = format!("300kB,count=5,gap=200ms,handshake=true,connection={connection}");
        outcome(&over_12_mbit(transfers("newreno", &text), 20)).transfers
    };
    let (new, kept) = (of("new"), of("keep"));
    assert_eq!((new.len(), kept.len()), (5, 5));
    assert!(kept.iter().all(|record| record.outcome == TransferOutcome::Complete));
    assert_eq!(new.iter().filter(|record| record.handshake_rtt_ms.is_some()).count(), 5);
    assert_eq!(kept.iter().filter(|record| record.handshake_rtt_ms.is_some()).count(), 1);
    // Without SYN and SYN-ACK, and with a window that has grown.
    assert!(completion_ms(&kept[4]) < completion_ms(&new[4]) - 80.0, "{:?}", kept[4]);
    assert_eq!(kept.iter().map(|record| record.packets_sent).collect::<Vec<_>>(), [208; 5]);
    // With transfers due while one is on the way, they take turns.
    let busy =
        outcome(&over_12_mbit(transfers("newreno", "1MB,every=100ms,count=4,connection=keep"), 20));
    let overlaps = |pair: &[Transfer]| pair[1].start_s < pair[0].end_s.unwrap();
    assert!(!busy.transfers.windows(2).any(overlaps));
}

#[test]
fn a_lost_handshake_is_tried_again() {
    let flow = transfers("cubic", "10kB,count=40,gap=1s,handshake=true");
    let lossy = over_12_mbit(flow, 300).with_link(|link| {
        link.down.loss = "20%".parse().unwrap();
        link.up.loss = "20%".parse().unwrap();
    });
    let outcome = outcome(&lossy);
    assert_eq!(outcome.transfers.len(), 40);
    assert!(outcome.transfers.iter().all(|record| record.completion_ms.is_some()));
    assert!(outcome.transfers.iter().any(|record| completion_ms(record) > 1000.0));
    assert!(outcome.transfers.iter().any(|record| completion_ms(record) < 150.0));
}

#[test]
fn what_the_end_cuts_off_is_counted() {
    let records = outcome(&over_12_mbit(transfers("cubic", "20MB,count=3,gap=1s"), 5)).transfers;
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].outcome, records[0].end_s), (TransferOutcome::CutOff, None));
    assert!(records[0].packets_sent > 4_000 && records[0].first_byte_s.is_some());
    let stopped = FlowSpec {
        stop: Time::from_secs(2),
        ..transfers("cubic", "20MB,every=3s,handshake=true,count=2")
    };
    let outcome = outcome(&over_12_mbit(stopped, 5));
    assert_eq!(outcome.transfers.len(), 1);
    let summary = outcome.figures.per_flow[0].transfers.as_ref().unwrap();
    assert_eq!((summary.count, summary.cut_off), (1, 1));
}

/// The sizes and begins of a run.
fn plan(outcome: &Outcome) -> Vec<(u64, f64)> {
    outcome.transfers.iter().map(|record| (record.size_bytes, record.start_s)).collect()
}

#[test]
fn sizes_and_times_do_not_depend_on_the_controller() {
    let text = "lognormal:mean=100kB,sd=50kB,max=1MB,every=2s,count=20";
    let plans: Vec<_> = ["cubic", "bbr", "verus:r=2"]
        .iter()
        .map(|cc| plan(&outcome(&over_12_mbit(transfers(cc, text), 60))))
        .collect();
    assert_eq!(plans[0].len(), 20);
    assert!(plans[0] == plans[1] && plans[0] == plans[2]);
    let of_seed = |seed| {
        let scenario = Scenario { seed, ..over_12_mbit(transfers("cubic", text), 60) };
        plan(&outcome(&scenario))
    };
    assert_ne!(of_seed(1), of_seed(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_transfer_has_a_record_that_holds(
        cc in prop::sample::select(vec!["cubic", "bbr", "copa", "verus", "newreno", "fixed:cwnd=9pkts"]),
        size in 1_u64..400_000,
        count in 1_u64..8,
        pace in prop::sample::select(vec!["gap=0s", "gap=exp:300ms", "every=50ms", "every=2s"]),
        options in prop::sample::select(vec!["", ",connection=keep", ",handshake=true", ",handshake=true,connection=keep,timeout=2s", ",request=100B,timeout=400ms"]),
        loss in prop::sample::select(vec!["0%", "2%", "15%"]),
        seed: u64,
    ) {
        let flow = transfers(cc, &format!("{size}B,count={count},{pace}{options}"));
        let loss: cellpace_path::LossSpec = loss.parse().unwrap();
        let scenario = Scenario { flows: vec![flow], seed, skip: Span::ZERO, ..lone("cubic", "step:12mbit/1s,2mbit/1s", "droptail:100kB", 30) }.with_link(|link| { link.up.loss = loss.clone();
link.down.loss = loss; });
        let outcome = outcome(&scenario);
        prop_assert!(outcome.transfers.len() as u64 <= count);
        prop_assert!(outcome.transfers.iter().zip(0..).all(|(record, index)| record.index == index));
        for record in &outcome.transfers {
            // The link sends a packet each millisecond; the first may start just before its turn.
            let least = size as f64 * 8.0 / 12e3 - 1.0 + 20.0;
            prop_assert!(record.completion_ms.is_none_or(|ms| ms >= least), "{record:?}");
            prop_assert_eq!(record.completion_ms.is_some(), record.outcome == TransferOutcome::Complete);
            if record.outcome == TransferOutcome::Complete {
                prop_assert!(record.packets_sent >= size.div_ceil(1448), "{record:?}");
                prop_assert!(record.packets_sent >= record.retransmitted, "{record:?}");
            }
        }
        let again = common::outcome(&scenario);
        prop_assert_eq!((outcome.transfers, outcome.figures), (again.transfers, again.figures));
    }
}

#[test]
fn many_at_once_cost_no_more_than_their_packets() {
    let flow = transfers("cubic", "20kB,every=10ms,count=500");
    let records = outcome(&Scenario { duration: secs(60), ..over_12_mbit(flow, 60) }).transfers;
    assert_eq!(records.len(), 500);
    assert!(records.iter().all(|record| record.outcome == TransferOutcome::Complete));
}
