//! Bottlenecks other than one queue in a network: inside the sending host (G.7), fair queues (G.7b)
//! and a cell with several users (G.6).

use crate::common::{bulk, observed, outcome, secs, udp};
use cellpace_base::{Random, Span};
use cellpace_measure::{Figures, jain_index};
use cellpace_path::TraceSpec;
use cellpace_path::schedule::{Trace, TraceFiles};
use cellpace_sim::{Bottleneck, CellSpec, FlowSpec, HostBuffers, Scenario, UserSpec};

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// Flows with these RTTs in ms that leave one host over 60 Mbit/s.
fn from_one_host(cc: &str, rtts: &[u64], seconds: u64) -> Scenario {
    let flow = |rtt: &u64| FlowSpec { rtt: Some(ms(*rtt)), ..bulk(cc) };
    Scenario {
        bottleneck: Bottleneck::Sender(HostBuffers::default()),
        flows: rtts.iter().map(flow).collect(),
        duration: secs(seconds),
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some("constant:60mbit".parse().unwrap());
        link.down.queue = "infinite".parse().unwrap();
    })
}

fn rates(figures: &Figures) -> Vec<f64> {
    figures.per_flow.iter().map(|flow| flow.throughput_mbps).collect()
}

#[track_caller]
fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value} is not {expected} (± {share})");
}

#[test]
fn g7_verus_with_three_rtts_behind_its_own_socket_buffers() {
    let last_minute =
        Scenario { skip: secs(60), ..from_one_host("verus:r=4", &[20, 50, 100], 120) };
    let figures = outcome(&last_minute).figures;
    println!("{:?}, {:?}", rates(&figures), figures.queue_delay_ms);
    for (rate, expected) in rates(&figures).into_iter().zip([20.6, 19.9, 19.4]) {
        near(rate, expected, 0.15);
    }
    assert!((jain_index(&rates(&figures)) - 0.98).abs() <= 0.03, "{:?}", rates(&figures));
    near(figures.queue_delay_ms.mean, 38.0, 0.15);
    assert_eq!(figures.lost, 0);
    assert!(figures.per_flow.iter().all(|flow| flow.refused > 0), "{:?}", figures.per_flow);
}

#[test]
fn g7_whoever_fills_its_socket_buffer_has_the_same_share() {
    let (outcome, log) = observed(&from_one_host("fixed:cwnd=500pkts", &[20, 100], 20));
    rates(&outcome.figures).into_iter().for_each(|rate| near(rate, 30.0, 0.01));
    for flow in 0..2 {
        // Packets in the host: those that have been sent and have not left yet.
        let mut moves: Vec<(u64, i64)> = Vec::new();
        for record in log.of_flow(flow) {
            moves.push((record.packet.sent_at.as_nanos(), 1));
            moves.push((record.packet.departed_at.as_nanos(), -1));
        }
        // What leaves makes room at that very instant.
        moves.sort_unstable();
        let mut waiting = 0;
        let most = moves
            .iter()
            .map(|(_, by)| {
                waiting += by;
                waiting
            })
            .max()
            .unwrap();
        assert_eq!(most, 92);
    }
    assert_eq!(outcome.figures.lost, 0);
}

#[test]
fn g7_tcp_waits_for_its_own_packets_and_is_not_told() {
    let figures = outcome(&from_one_host("cubic", &[20, 100], 30)).figures;
    assert!(figures.per_flow.iter().all(|flow| flow.refused == 0 && flow.lost == 0));
    assert!(figures.utilization > 0.95, "{}", figures.utilization);
    // Two queues of 85 packets at 0.2 ms each.
    assert!(figures.queue_delay_ms.p99 <= 34.5, "{:?}", figures.queue_delay_ms);
    // Traffic of a constant rate has a socket, too.
    let flood = Scenario { flows: vec![udp("90mbit")], ..from_one_host("cubic", &[20], 10) };
    let figures = outcome(&flood).figures;
    near(figures.per_flow[0].refused as f64, 10.0 * 30e6 / 12e3, 0.02);
    assert!(figures.queue_delay_ms.p99 <= 18.5, "{:?}", figures.queue_delay_ms);
}

#[test]
fn g7_the_whole_rtt_lies_behind_the_host() {
    let (_, log) = observed(&from_one_host("fixed:cwnd=10pkts", &[40], 3));
    let first = &log.records[0];
    assert_eq!(first.base_delay(), Span::ZERO);
    let again = log.records.iter().find(|record| record.packet.sent_at > first.packet.departed_at);
    assert_eq!(again.unwrap().packet.sent_at - first.packet.departed_at, ms(40));
}

#[test]
fn g7b_a_small_window_beside_a_large_one_behind_fair_queues() {
    let scenario = Scenario {
        flows: vec![bulk("fixed:cwnd=10pkts"), bulk("fixed:cwnd=400pkts")],
        duration: secs(20),
        ..Scenario::default()
    }
    .with_link(|link| link.down.queue = "fq:limit=1000pkts,quantum=1514B".parse().unwrap());
    let figures = outcome(&scenario).figures;
    let small = &figures.per_flow[0];
    assert!((small.throughput_mbps - 2.9).abs() <= 0.2, "{small:?}");
    assert!(small.queue_delay_ms.max <= 3.0, "{small:?}");
    assert_eq!(figures.lost, 0);
}

/// A cell of two users with a flow each, in the form of a file.
fn cell(trace: &str, scheduler: &str, flows: [&str; 2]) -> Scenario {
    let text = format!(
        "trace = '{trace}'\nduration = '30s'\n[cell]\nscheduler = '{scheduler}'\ncapacity = 'shared'\n\
         queue = 'droptail:20MB'\n[[user]]\nname = 'one'\n[[user]]\nname = 'two'\n\
         [[flow]]\nuser = 'one'\n{}\n[[flow]]\nuser = 'two'\n{}\n",
        flows[0], flows[1]
    );
    Scenario::from_toml("cell.toml", &text, &mut TraceFiles::none()).unwrap()
}

#[test]
fn g6_two_backlogged_users_share_a_constant_channel() {
    for scheduler in ["rr", "pf", "pf:window=100ms"] {
        let both = ["udp = '30mbit'"; 2];
        let figures = outcome(&cell("constant:20mbit", scheduler, both)).figures;
        for rate in rates(&figures) {
            assert!((rate - 10.0).abs() <= 0.1, "{scheduler}: {rate}");
        }
        near(figures.utilization, 1.0, 0.001);
    }
}

#[test]
fn g6_a_user_with_little_data_hardly_waits() {
    for scheduler in ["rr", "pf"] {
        let flows = ["udp = '5mbit'", "udp = '10mbit'"];
        let figures = outcome(&cell("constant:20mbit", scheduler, flows)).figures;
        near(rates(&figures)[0], 5.0, 0.01);
        near(rates(&figures)[1], 10.0, 0.01);
        assert!(figures.per_flow[0].queue_delay_ms.mean < 3.0, "{:?}", figures.per_flow[0]);
    }
}

#[test]
fn g6_both_queues_of_an_overloaded_cell_grow() {
    let overloaded = cell("constant:18mbit", "pf", ["udp = '10mbit'"; 2]);
    let figures = outcome(&overloaded).figures;
    for flow in &figures.per_flow {
        near(flow.throughput_mbps, 9.0, 0.01);
        // 1 Mbit/s for 30 s wait at the end: 3.75 MB at 9 Mbit/s.
        near(flow.queue_delay_ms.max, 30_000.0 / 10.0, 0.03);
    }
}

/// A channel whose TTIs of 12 ms have 5 or 15 opportunities, one half each.
fn five_or_fifteen(seed: u64) -> TraceSpec {
    let mut random = Random::seeded(seed, 0);
    let mut millis = Vec::new();
    for tti in 0..10_000_u32 {
        let count: u32 = if random.unit() < 0.5 { 5 } else { 15 };
        millis.extend((1..=count).map(|n| tti * 12 + (12 * n).div_ceil(count)));
    }
    TraceSpec::recorded("5 or 15", Trace::from_millis(millis).unwrap().into())
}

/// Two backlogged users with channels of their own.
fn own_channels(channels: [TraceSpec; 2], tti: Span, scheduler: &str) -> Vec<f64> {
    let shared = channels[0].clone();
    let [one, two] = channels;
    let user = |name: &str, trace| UserSpec { name: name.into(), trace: Some(trace) };
    let flow = |name: &str| FlowSpec { user: Some(name.into()), ..udp("40mbit") };
    let figures = outcome(
        &Scenario {
            cell: Some(CellSpec {
                tti,
                scheduler: scheduler.parse().unwrap(),
                users: vec![user("one", one), user("two", two)],
                queue: "droptail:1MB".parse().unwrap(),
            }),
            flows: vec![flow("one"), flow("two")],
            duration: secs(120),
            ..Scenario::default()
        }
        .with_link(|link| link.down.trace = Some(shared)),
    )
    .figures;
    assert!(figures.utilization < 1.001, "{}", figures.utilization);
    rates(&figures)
}

#[test]
fn g6_independent_users_whose_ttis_have_5_or_15() {
    for (scheduler, expected) in [("rr", 5.0), ("pf", 6.25)] {
        let channels = [five_or_fifteen(1), five_or_fifteen(2)];
        for rate in own_channels(channels, ms(12), scheduler) {
            near(rate, expected, 0.02);
        }
    }
}

#[test]
fn g6_proportional_fairness_halves_time_and_not_rate() {
    let channels = || ["constant:20mbit", "constant:10mbit"].map(|text| text.parse().unwrap());
    let fair = own_channels(channels(), ms(1), "pf");
    near(fair[0], 10.0, 0.01);
    near(fair[1], 5.0, 0.01);
    let most = own_channels(channels(), ms(1), "max");
    near(most[0], 20.0, 0.01);
    assert!(most[1] < 0.01, "{most:?}");
}

#[test]
fn mistakes_in_cells_and_hosts_are_named() {
    let error = |text: &str| {
        let text = format!("trace = 'constant:12mbit'\n{text}");
        Scenario::from_toml("s.toml", &text, &mut TraceFiles::none()).unwrap_err().to_string()
    };
    let flow = "[[flow]]\ncc = 'cubic'\n";
    let cases = [
        (format!("bottleneck = 'phone'\n{flow}"), "s.toml:2: bottleneck: `phone` is neither"),
        (format!("tsq = '1MB'\n{flow}"), "s.toml:2: tsq: is for bottleneck"),
        (format!("bottleneck = 'sender'\nsndbuf = '2kB'\n{flow}"), "hold no packet"),
        (format!("{flow}user = 'one'\n"), "user: `one` needs a [cell]"),
        (format!("[[user]]\nname = 'one'\n{flow}"), "user: needs a [cell]"),
        (format!("[cell]\nscheduler = 'fifo'\n{flow}"), "there is no scheduler `fifo`"),
        (format!("[cell]\n{flow}"), "cell: 0 [[user]]"),
        (format!("[cell]\n[[user]]\nname = 'one'\n{flow}"), "flow 1: needs `user`"),
        (format!("[cell]\n[[user]]\nname = 'one'\n{flow}user = 'two'\n"), "no user is `two`"),
        (format!("[cell]\ncapacity = 'own'\n[[user]]\nname = 'one'\n{flow}"), "each user needs"),
        (format!("[cell]\ntti = '1s'\n[[user]]\nname = 'one'\n{flow}"), "tti: 1s is out of range"),
    ];
    for (text, part) in cases {
        assert!(error(&text).contains(part), "{text}: {}", error(&text));
    }
}
