//! Runs short or simple enough to know their outcome beforehand.

use std::collections::BTreeMap;

use crate::common;
use crate::common::{at_ms, bulk, lone, observed, outcome, secs, udp};
use cellpace_base::{Span, Time};
use cellpace_cc::Event;
use cellpace_path::{DropReason, Fate};
use cellpace_sim::{FlowSpec, FlowTraffic, OnOffFiles, Scenario, run};

/// The default path with these flows: 12 Mbit/s, one packet a millisecond, 40 ms, all figures from
/// the start.
fn scenario(flows: Vec<FlowSpec>, seconds: u64) -> Scenario {
    Scenario { flows, duration: secs(seconds), skip: Span::ZERO, ..Scenario::default() }
}

fn near(seen: f64, expected: f64, tolerance: f64) -> bool {
    (seen / expected - 1.0).abs() <= tolerance
}

#[test]
fn each_packet_of_a_window_of_one_takes_its_41_ms() {
    let (outcome, log) = observed(&scenario(vec![bulk("fixed:cwnd=1pkts")], 2));
    for (n, record) in (0..).zip(&log.records) {
        let packet = &record.packet;
        // 20 ms there, the opportunity of the next millisecond, 20 ms back.
        assert_eq!(packet.sent_at, at_ms(41 * n));
        assert_eq!(packet.enqueued_at, at_ms(41 * n + 20));
        assert_eq!(packet.departed_at, at_ms(41 * n + 21));
        assert_eq!(packet.id & 0xffff_ffff, n);
    }
    let rtt = outcome.figures.rtt_ms_seen;
    assert_eq!((rtt.mean, rtt.p50, rtt.max), (41.0, 41.0, 41.0));
    assert_eq!(outcome.figures.queue_delay_ms.max, 1.0);
    // Departures at 21, 62, ..., 1989 ms.
    assert_eq!(outcome.figures.packets, 49);
}

#[test]
fn a_fixed_window_gets_one_window_per_rtt() {
    for window in [1_u64, 5, 20, 40] {
        let run = outcome(&scenario(vec![bulk(&format!("fixed:cwnd={window}pkts"))], 20));
        let expected = window as f64 * 12_000.0 / 0.041 / 1e6;
        let seen = run.figures.throughput_mbps;
        assert!(near(seen, expected, 0.01), "{window}: {seen} {expected}");
    }
}

#[test]
fn a_window_beyond_the_path_waits_in_the_queue() {
    let run = outcome(&scenario(vec![bulk("fixed:cwnd=100pkts")], 20)).figures;
    assert!(run.utilization > 0.998, "all but the first 20 ms");
    // A hundred packets at one a millisecond.
    assert_eq!(run.rtt_ms_seen.p50.round(), 100.0);
    assert_eq!(run.queue_delay_ms.p50.round(), 60.0);
    assert_eq!(run.queue_delay_ms.max.round(), 100.0, "the first burst arrives at once");
}

#[test]
fn fixed_windows_share_the_link_by_their_sizes() {
    let flows = vec![bulk("fixed:cwnd=20pkts"), bulk("fixed:cwnd=60pkts")];
    let run = outcome(&scenario(flows, 20)).figures;
    let (small, large) = (&run.per_flow[0], &run.per_flow[1]);
    assert!(near(large.throughput_mbps / small.throughput_mbps, 3.0, 0.01));
    assert!(near(small.throughput_mbps + large.throughput_mbps, 12.0, 0.01));
    assert_eq!(small.rtt_ms_seen.p50.round(), 80.0);
    assert_eq!(large.rtt_ms_seen.p50.round(), 80.0);
    // Shares of 1/4 and 3/4: 1 / (2 * (1/16 + 9/16)).
    assert!(near(run.jain, 0.8, 0.01), "{}", run.jain);
}

#[test]
fn a_flood_of_twice_the_rate_loses_half_and_keeps_the_queue_full() {
    let flood = Scenario { skip: secs(1), ..scenario(vec![udp("24mbit")], 10) }
        .with_link(|link| link.down.queue = "droptail:50pkts".parse().unwrap());
    let (outcome, log) = observed(&flood);
    let figures = outcome.figures;
    assert_eq!(figures.utilization, 1.0);
    assert_eq!((figures.packets, figures.lost), (9_000, 9_000));
    assert!((49.0..=50.5).contains(&figures.queue_delay_ms.p50), "{:?}", figures.queue_delay_ms);
    let overflow = Fate::Dropped(DropReason::Overflow);
    assert!(log.records.iter().all(|r| r.fate == Fate::Delivered || r.fate == overflow));
    // A packet each half a millisecond, without drift.
    let mut ids: Vec<(u64, Time)> =
        log.records.iter().map(|r| (r.packet.id, r.packet.sent_at)).collect();
    ids.sort_unstable();
    assert!(ids.iter().all(|(id, sent)| *sent == Time::from_micros(500 * id)));
}

#[test]
fn random_loss_takes_its_share() {
    let lossy =
        scenario(vec![udp("6mbit")], 100).with_link(|link| link.down.loss = "10%".parse().unwrap());
    let figures = outcome(&lossy).figures;
    let share = figures.lost as f64 / (figures.lost + figures.packets) as f64;
    assert!((share - 0.1).abs() < 0.005, "{share}");
}

/// Each ack releases packets; the number that leaves at once is the number that it acked.
#[test]
fn delayed_acks_come_for_every_second_packet() {
    let instants = |acks: &str| {
        let delayed = Scenario {
            acks: acks.parse().unwrap(),
            ..scenario(vec![bulk("fixed:cwnd=20pkts")], 10)
        };
        let (outcome, log) = observed(&delayed);
        let mut times: Vec<Time> = log.records.iter().map(|r| r.packet.sent_at).collect();
        times.dedup();
        (log.records.len() as f64 / times.len() as f64, outcome.figures)
    };
    let (per_ack, every) = instants("every");
    assert!(near(per_ack, 1.0, 0.01), "{per_ack}");
    let (per_ack, delayed) = instants("delayed:40ms");
    assert!(near(per_ack, 2.0, 0.01), "{per_ack}");
    // Pairs leave at the same instant, and the ack of both waits for the second.
    assert!(near(every.rtt_ms_seen.mean, 41.0, 0.001), "{:?}", every.rtt_ms_seen);
    assert!(near(delayed.rtt_ms_seen.mean, 42.0, 0.002), "{:?}", delayed.rtt_ms_seen);
}

#[test]
fn a_single_packet_waits_for_the_delay_of_its_ack() {
    let delayed = Scenario {
        acks: "delayed:40ms".parse().unwrap(),
        ..scenario(vec![bulk("fixed:cwnd=1pkts")], 2)
    };
    assert_eq!(outcome(&delayed).figures.rtt_ms_seen.p50, 81.0);
}

#[test]
fn a_slow_uplink_limits_the_acks_and_with_them_the_data() {
    // An opportunity carries 25 acks of 60 bytes: 500 acks a second.
    let slow = Scenario { skip: secs(2), ..scenario(vec![bulk("fixed:cwnd=100pkts")], 20) }
        .with_link(|link| link.up.trace = Some("constant:240kbit".parse().unwrap()));
    let figures = outcome(&slow).figures;
    assert!(near(figures.throughput_mbps, 6.0, 0.01), "{}", figures.throughput_mbps);
    assert!(near(figures.rtt_ms_seen.mean, 200.0, 0.02), "{:?}", figures.rtt_ms_seen);
}

/// An ack is cumulative, so that the next one that gets through lets all packets go
/// that lost ones would have.
#[test]
fn lost_acks_are_made_up_for_by_the_next() {
    for (loss, per_ack) in [("0%", 1.0), ("20%", 1.25), ("50%", 2.0), ("75%", 4.0)] {
        let lossy = Scenario { skip: secs(2), ..scenario(vec![bulk("fixed:cwnd=100pkts")], 30) }
            .with_link(|link| link.up.loss = loss.parse().unwrap());
        let (outcome, log) = observed(&lossy);
        let mut instants: Vec<Time> = log.records.iter().map(|r| r.packet.sent_at).collect();
        instants.dedup();
        let seen = log.records.len() as f64 / instants.len() as f64;
        assert!(near(seen, per_ack, 0.03), "{loss}: {seen}");
        assert!(outcome.figures.utilization > 0.999, "{loss}: {}", outcome.figures.utilization);
        // It is the acks that are lost, not the data.
        assert_eq!((outcome.figures.lost, outcome.retransmissions), (0, 0), "{loss}");
    }
}

#[test]
fn without_any_ack_a_sender_has_its_window_and_its_timeouts() {
    let deaf = Scenario { skip: Span::ZERO, ..scenario(vec![bulk("fixed:cwnd=10pkts")], 20) }
        .with_link(|link| link.up.loss = "100%".parse().unwrap());
    let outcome = outcome(&deaf);
    assert_eq!(outcome.figures.lost, 0);
    assert_eq!(outcome.figures.rtt_ms_seen.mean, 0.0, "no ack, no sample");
    // 10 packets, then what timeouts at 1, 3, 7 and 15 s send again.
    assert!(outcome.retransmissions >= 4, "{}", outcome.retransmissions);
    assert_eq!(outcome.figures.packets, 10 + outcome.retransmissions);
}

#[test]
fn flows_see_their_own_rtt() {
    let with_rtt = |ms| FlowSpec { rtt: Some(Span::from_millis(ms)), ..bulk("fixed:cwnd=1pkts") };
    let flows = vec![with_rtt(20), bulk("fixed:cwnd=1pkts"), with_rtt(300)];
    let own = scenario(flows, 20)
        .with_link(|link| link.down.trace = Some("constant:120mbit".parse().unwrap()));
    let figures = outcome(&own).figures;
    let seen: Vec<f64> = figures.per_flow.iter().map(|flow| flow.rtt_ms_seen.p50).collect();
    for (seen, expected) in seen.iter().zip([20.0, 40.0, 300.0]) {
        assert!((expected..expected + 0.5).contains(seen), "{seen} {expected}");
    }
}

#[test]
fn flows_start_and_stop_when_they_should() {
    let second = FlowSpec { start: at_ms(3_000), stop: at_ms(6_500), ..bulk("cubic") };
    let (outcome, log) = observed(&scenario(vec![bulk("cubic"), second], 10));
    let sent: Vec<Time> = log.of_flow(1).map(|record| record.packet.sent_at).collect();
    assert_eq!(sent.iter().min(), Some(&at_ms(3_000)));
    let last = *sent.iter().max().unwrap();
    assert!((at_ms(6_300)..at_ms(6_500)).contains(&last), "{last:?}");
    let flow = &outcome.figures.per_flow[1];
    assert_eq!((flow.start_s, flow.stop_s), (3.0, 6.5));
    let windows = &outcome.series.cwnd_packets[1];
    for (bin, window) in (1..).zip(windows) {
        let end = at_ms(100 * bin);
        let on = end > at_ms(3_000) && end <= at_ms(6_500);
        assert_eq!(window.is_nan(), !on, "at {end:?}");
    }
}

/// An ack that arrives at the instant of the stop lets nothing go any more.
#[test]
fn nothing_is_sent_at_the_instant_of_the_stop() {
    let stops = FlowSpec { stop: at_ms(410), ..bulk("fixed:cwnd=1pkts") };
    let (_, log) = observed(&scenario(vec![stops], 2));
    assert_eq!(log.records.last().unwrap().packet.sent_at, at_ms(369));
}

#[test]
fn a_path_without_delay_works() {
    let near = scenario(vec![bulk("cubic"), bulk("verus"), bulk("bbr"), udp("1mbit")], 5)
        .with_link(|link| link.set_rtt("0ms".parse().unwrap()));
    let figures = outcome(&near).figures;
    assert!(figures.utilization > 0.99, "{}", figures.utilization);
}

#[test]
fn a_path_that_delivers_nothing_ends_all_the_same() {
    let ccs = cellpace_cc::registry().iter().map(|info| bulk(info.name));
    let dead = scenario(ccs.collect(), 30)
        .with_link(|link| link.down.trace = Some("constant:0mbit".parse().unwrap()));
    let figures = outcome(&dead).figures;
    assert_eq!((figures.packets, figures.utilization), (0, 0.0));
    let ccs = cellpace_cc::registry().iter().map(|info| bulk(info.name));
    let lossy =
        scenario(ccs.collect(), 30).with_link(|link| link.down.loss = "100%".parse().unwrap());
    let figures = outcome(&lossy).figures;
    assert_eq!((figures.packets, figures.utilization), (0, 0.0));
    assert!(figures.lost > 0);
}

/// Three seconds without the link are longer than any retransmission timeout. The packets were
/// only late, so Cubic takes the reduction back.
#[test]
fn a_timeout_in_an_outage_is_taken_back_when_the_old_packets_come() {
    let outage = scenario(vec![bulk("cubic")], 11)
        .with_link(|link| link.down.trace = Some("onoff:12mbit,on=5s,off=3s".parse().unwrap()));
    let (outcome, log) = observed(&outage);
    let times = |wanted: fn(&Event) -> bool| -> Vec<f64> {
        let found = log.events.iter().filter(|(_, _, event)| wanted(event));
        found.map(|(_, at, _)| at.as_secs_f64()).collect()
    };
    let timeouts = times(|event| matches!(event, Event::Timeout));
    let undone = times(|event| matches!(event, Event::Undone));
    assert!(timeouts.len() >= 2, "{timeouts:?}");
    assert!(timeouts.iter().all(|at| (5.0..8.03).contains(at)), "{timeouts:?}");
    assert_eq!(undone.len(), 1, "{undone:?}");
    assert!((8.0..8.03).contains(&undone[0]), "{undone:?}");
    let window_at = |second: usize| outcome.series.cwnd_packets[0][second * 10 - 1];
    assert_eq!(window_at(7), 1.0, "after the timeouts");
    assert!(window_at(9) >= window_at(5), "{} {}", window_at(9), window_at(5));
    assert_eq!(outcome.figures.lost, 0);
    // What was sent again in the outage, one packet per timeout.
    assert_eq!(outcome.retransmissions, timeouts.len() as u64);
}

#[test]
fn an_outage_in_which_everything_is_lost_is_survived() {
    let outage = scenario(vec![bulk("cubic")], 30)
        .with_link(|link| link.down.loss = "step:0%/5s,100%/3s".parse().unwrap());
    let (outcome, log) = observed(&outage);
    let late = log.delivered().filter(|record| record.packet.departed_at > at_ms(10_000)).count();
    assert!(late > 3_000, "{late}");
    let timed_out = log.events.iter().any(|(_, _, event)| matches!(event, Event::Timeout));
    assert!(timed_out && outcome.retransmissions > 0);
}

/// A file of 100 packets at a time.
fn files(off_ms: u64) -> FlowSpec {
    let onoff = OnOffFiles {
        mean: 150_000.0,
        deviation: 0.0,
        max: 150_000.0,
        off: Span::from_millis(off_ms),
        rate: None,
    };
    FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk("fixed:cwnd=10pkts") }
}

/// Of every connection: packets that were sent, delivered and dropped.
fn connections(log: &common::Log) -> BTreeMap<u64, (u64, u64, u64)> {
    let mut found: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
    for record in log.of_flow(0) {
        let entry = found.entry(record.packet.id >> 48).or_default();
        entry.0 = entry.0.max((record.packet.id & ((1 << 48) - 1)) + 1);
        match record.fate {
            Fate::Delivered => entry.1 += 1,
            Fate::Dropped(_) => entry.2 += 1,
            Fate::Duplicate => {}
        }
    }
    found
}

#[test]
fn every_file_arrives_whole_whatever_is_lost() {
    let lossy =
        scenario(vec![files(100)], 60).with_link(|link| link.down.loss = "10%".parse().unwrap());
    let (outcome, log) = observed(&lossy);
    let mut found = connections(&log);
    found.pop_last();
    assert!(found.len() > 20, "{}", found.len());
    for (connection, (sent, delivered, dropped)) in &found {
        assert_eq!(*delivered, 100, "connection {connection}");
        assert_eq!(*sent, delivered + dropped, "connection {connection}");
    }
    let again: u64 = found.values().map(|(_, _, dropped)| dropped).sum();
    assert!((again..again + 50).contains(&outcome.retransmissions), "{again}");
}

#[test]
fn files_are_apart_by_their_pauses() {
    let (_, log) = observed(&scenario(vec![files(500)], 120));
    let mut first_and_last: BTreeMap<u64, (Time, Time)> = BTreeMap::new();
    for record in &log.records {
        let (sent, departed) = (record.packet.sent_at, record.packet.departed_at);
        let entry = first_and_last.entry(record.packet.id >> 48).or_insert((sent, departed));
        entry.1 = departed;
    }
    let times: Vec<(Time, Time)> = first_and_last.into_values().collect();
    // The last ack takes 20 ms to come back, then the pause begins.
    let pauses: Vec<f64> = times
        .windows(2)
        .map(|pair| {
            assert!(pair[1].0 >= pair[0].1 + Span::from_millis(20));
            (pair[1].0 - pair[0].1).as_millis_f64() - 20.0
        })
        .collect();
    let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
    assert!((350.0..650.0).contains(&mean), "{mean} of {}", pauses.len());
}

/// The ack that ends a file is the only one of it, and the first with a base delay.
#[test]
fn events_of_the_last_ack_of_a_file_are_shown() {
    let onoff = OnOffFiles { mean: 1.0, deviation: 0.0, max: 1.0, off: Span::ZERO, rate: None };
    let flow = FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk("copa") };
    let (_, log) = observed(&scenario(vec![flow], 2));
    let base_delays =
        log.events.iter().filter(|(_, _, event)| matches!(event, Event::BaseDelay(_)));
    // Of 49 files the last is still on its way back.
    assert_eq!((log.records.len(), base_delays.count()), (49, 48));
}

/// The MDI paper's time-synchronised form: the controller does not decide when a period ends.
#[test]
fn timed_periods_are_the_same_for_every_controller() {
    let starts = |cc: &str| {
        let onoff = OnOffFiles {
            off: secs(1),
            rate: Some("4mbit".parse().unwrap()),
            ..OnOffFiles::default()
        };
        let flow = FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk(cc) };
        let (_, log) = observed(&scenario(vec![flow], 60));
        let mut starts: BTreeMap<u64, Time> = BTreeMap::new();
        for record in &log.records {
            let sent = record.packet.sent_at;
            starts.entry(record.packet.id >> 48).and_modify(|s| *s = sent.min(*s)).or_insert(sent);
        }
        starts
    };
    let (cubic, slow) = (starts("cubic"), starts("fixed:cwnd=2pkts"));
    assert!(cubic.len() >= 5, "{}", cubic.len());
    assert_eq!(cubic, slow);
}

/// Periods of 200 ms without pauses: the packets and acks of one connection that are in flight
/// when it ends come to the next, which must not take them for its own.
#[test]
fn what_belongs_to_an_earlier_connection_means_nothing_to_the_next() {
    let onoff = OnOffFiles {
        mean: 100_000.0,
        deviation: 0.0,
        max: 100_000.0,
        off: Span::ZERO,
        rate: Some("4mbit".parse().unwrap()),
    };
    let flow = FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk("fixed:cwnd=5pkts") };
    let (outcome, log) = observed(&scenario(vec![flow], 10));
    let found = connections(&log);
    assert_eq!(found.len(), 50);
    // At 0, 41, 82, 123 and 164 ms of each period, five packets each; those of the one before
    // may wait a little in front of them.
    assert!(found.values().rev().skip(1).all(|(sent, ..)| *sent == 25), "{found:?}");
    assert_eq!(outcome.retransmissions, 0);
    assert!(outcome.figures.rtt_ms_seen.max < 51.0, "{:?}", outcome.figures.rtt_ms_seen);
}

/// The number of a connection has 16 bits; this flow has more connections.
#[test]
fn the_number_of_connections_may_wrap_around() {
    let onoff = OnOffFiles { mean: 1.0, deviation: 0.0, max: 1.0, off: Span::ZERO, rate: None };
    let flow = FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk("fixed:cwnd=1pkts") };
    let many = scenario(vec![flow], 1).with_link(|link| {
        link.down.trace = Some("constant:1200mbit".parse().unwrap());
        link.set_rtt("0ms".parse().unwrap());
    });
    // An opportunity each 10 us, and each file takes one.
    let figures = outcome(&many).figures;
    assert!((99_990..=100_000).contains(&figures.packets), "{}", figures.packets);
}

#[test]
fn tiny_timed_periods_without_pauses_end() {
    let onoff = OnOffFiles {
        mean: 1.0,
        deviation: 0.0,
        max: 1.0,
        off: Span::ZERO,
        rate: Some("1gbit".parse().unwrap()),
    };
    let flow = FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk("fixed:cwnd=1pkts") };
    assert!(outcome(&scenario(vec![flow], 2)).figures.packets > 0);
}

#[test]
fn all_series_have_one_entry_a_bin_even_where_the_last_bin_is_short() {
    for (duration_ms, bin_ms, bins) in [(1_000, 100, 10), (1_050, 100, 11), (99, 100, 1), (7, 2, 4)]
    {
        let odd = Scenario {
            duration: Span::from_millis(duration_ms),
            bin: Span::from_millis(bin_ms),
            ..scenario(vec![bulk("cubic"), udp("1mbit")], 1)
        };
        let series = outcome(&odd).series;
        let lengths = [
            series.capacity_mbps.len(),
            series.throughput_mbps.len(),
            series.queue_delay_p50_ms.len(),
            series.queue_delay_p95_ms.len(),
            series.flow_throughput_mbps[0].len(),
            series.flow_throughput_mbps[1].len(),
            series.cwnd_packets[0].len(),
            series.cwnd_packets[1].len(),
        ];
        assert_eq!(lengths, [bins; 8], "{duration_ms} ms in bins of {bin_ms} ms");
        assert!(series.cwnd_packets[0].iter().all(|cwnd| *cwnd >= 1.0));
        assert!(series.cwnd_packets[1].iter().all(|cwnd| cwnd.is_nan()));
    }
}

#[test]
fn contradictory_scenarios_are_refused_with_a_reason() {
    let error_of = |scenario: &Scenario| run(scenario).unwrap_err().to_string();
    let cubic = || scenario(vec![bulk("cubic")], 1);
    let cases = [
        (scenario(vec![], 1), "there is no flow"),
        (Scenario { duration: Span::ZERO, ..cubic() }, "the duration is 0 s"),
        (Scenario { skip: secs(1), ..cubic() }, "skip (1s) leaves nothing"),
        (Scenario { bin: Span::from_nanos(1), ..cubic() }, "at least 1 ms"),
        (Scenario { duration: secs(86_401), ..cubic() }, "the longest is 86400s"),
        (
            Scenario { bin: Span::from_millis(1), ..scenario(vec![bulk("cubic")], 86_400) },
            "take wider bins",
        ),
        (cubic().with_link(|link| link.set_rtt("step:1ms/1s,2ms/1s".parse().unwrap())), ""),
        (scenario(vec![udp("0mbit")], 1), "flow 1: a rate of 0"),
        (scenario(vec![bulk("cubic"), udp("2000gbit")], 1), "flow 2: 2000gbit is too much"),
        (
            scenario(vec![FlowSpec { cc: None, ..bulk("cubic") }], 1),
            "flow 1: only traffic of a constant rate",
        ),
    ];
    for (scenario, expected) in cases {
        match expected {
            "" => assert!(run(&scenario).is_ok(), "a changing RTT alone is fine"),
            _ => assert!(error_of(&scenario).contains(expected), "{}", error_of(&scenario)),
        }
    }
    let own = FlowSpec { rtt: Some(Span::from_micros(1400)), ..bulk("cubic") };
    let both = scenario(vec![own], 1)
        .with_link(|link| link.set_rtt("step:1ms/1s,2ms/1s".parse().unwrap()));
    assert!(error_of(&both).contains("its path has 1500us in the mean"), "{}", error_of(&both));
}

#[test]
fn a_lone_flow_has_a_perfect_index_and_the_run_its_name() {
    let run = outcome(&lone("verus:r=2", "constant:12mbit", "infinite", 4));
    assert_eq!(run.figures.jain, 1.0);
    assert_eq!(run.figures.per_flow[0].cc, "verus:r=2");
    assert!(!run.series.profiles.is_empty());
}
