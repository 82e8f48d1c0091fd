//! Handovers: what packets meet, what controllers get to know, and that flows go on.

use cellpace_cc::{Controller, ControllerSpec, Event, Permit, registry};
use cellpace_path::{
    DropReason, Fate, Handover, HandoverFailure, HandoverPlan, Packet, PacketRecord,
};
use cellpace_sim::{FlowSpec, Scenario, run};
use std::sync::{Arc, Mutex};

use crate::common;
use crate::common::{at_ms, lone, observed, secs};
use cellpace_base::{Random, Span, Time};

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// 12 Mbit/s for 20 s, and handovers.
fn handed_over(cc: &str, handovers: &[&str]) -> Scenario {
    lone(cc, "constant:12mbit", "droptail:2MB", 20).with_link(|link| {
        link.set_handovers(handovers.iter().map(|text| text.parse().unwrap()).collect());
    })
}

#[test]
fn nothing_arrives_during_the_interruption_and_then_by_the_new_delay() {
    let (_, log) = observed(&handed_over("fixed:cwnd=10pkts", &["5s/200ms/100ms", "10s/0ms/40ms"]));
    let arrivals: Vec<Time> = log.delivered().map(|record| record.packet.departed_at).collect();
    assert!(!arrivals.iter().any(|at| (at_ms(5_000)..at_ms(5_200)).contains(at)));
    assert!(arrivals.iter().any(|at| (at_ms(5_200)..at_ms(5_210)).contains(at)), "what waited");
    let base_delay_of = |from_s: u64, to_s: u64| {
        let sent = log.delivered().filter(move |record| {
            (Time::from_secs(from_s)..Time::from_secs(to_s)).contains(&record.packet.sent_at)
        });
        sent.map(PacketRecord::base_delay).min().unwrap()
    };
    assert_eq!(base_delay_of(0, 5).as_millis_f64(), 20.0);
    assert_eq!(base_delay_of(6, 10).as_millis_f64(), 50.0);
    assert_eq!(base_delay_of(11, 20).as_millis_f64(), 20.0);
}

#[test]
fn a_queue_is_lost_or_comes_along() {
    let drops = |handover: &str| {
        let (outcome, log) = observed(&handed_over("fixed:cwnd=100pkts", &[handover]));
        let lost = |fate: Fate| fate == Fate::Dropped(DropReason::Handover);
        let times: Vec<Time> = log
            .records
            .iter()
            .filter(|record| lost(record.fate))
            .map(|record| record.packet.departed_at)
            .collect();
        assert!(times.iter().all(|at| *at == at_ms(5_050)), "at the end of the interruption");
        (times.len(), outcome.retransmissions)
    };
    assert_eq!(drops("5s"), (0, 0));
    let (lost, sent_again) = drops("5s/lost");
    // Of 100 packets, 40 are in the delays, and the acks of these let others follow: at least the
    // 60 that wait.
    assert!((60..=100).contains(&lost) && sent_again >= lost as u64, "{lost} {sent_again}");
}

/// A window of ten packets that keeps when it got to know of a new path.
struct Witness {
    mss: u64,
    changes: Arc<Mutex<Vec<Time>>>,
}

impl Controller for Witness {
    fn on_path_change(&mut self, now: Time) {
        self.changes.lock().unwrap().push(now);
    }

    fn permit(&self) -> Permit {
        Permit::Window(10 * self.mss)
    }
}

#[test]
fn controllers_get_to_know_once_per_handover_when_it_is_over() {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&changes);
    let own = ControllerSpec::new("witness", move |setup| {
        Box::new(Witness { mss: setup.mss, changes: Arc::clone(&kept) })
    });
    let late = FlowSpec { start: at_ms(8_000), ..FlowSpec::bulk(own.clone()) };
    let scenario = Scenario {
        flows: vec![FlowSpec::bulk(own), late],
        ..handed_over("fixed", &["5s/200ms", "9s/1s/80ms/lost"])
    };
    run(&scenario).unwrap();
    assert_eq!(*changes.lock().unwrap(), [at_ms(5_200), at_ms(10_000), at_ms(10_000)]);
}

#[test]
fn every_controller_goes_on_over_the_new_path() {
    for info in registry() {
        for handover in ["5s/200ms", "5s/200ms/120ms", "5s/200ms/120ms/lost", "5s/200ms/20ms/lost"]
        {
            let (outcome, log) = observed(&handed_over(info.name, &[handover]));
            // The last ten of twenty seconds.
            let mbit = outcome.figures.throughput_mbps;
            // GCC grows by 8 % a second from what it begins with, before the handover and after it.
            let least = if ["fixed", "gcc"].contains(&info.name) { 1.8 } else { 6.0 };
            assert!(mbit > least, "{} {handover}: {mbit}", info.name);
            let restarts = log
                .events
                .iter()
                .filter(|(_, at, event)| (*event, *at) == (Event::Restart, at_ms(5_200)));
            let silent = ["fixed", "sprout"].contains(&info.name);
            assert_eq!(restarts.count(), usize::from(!silent), "{} {handover}", info.name);
        }
    }
}

#[test]
fn a_handover_is_no_capacity_and_contradictions_are_refused() {
    let outcome = common::outcome(&handed_over("cubic", &["15s/4s"]));
    assert!((0.9..=1.0).contains(&outcome.figures.utilization), "6 of the last 10 s are offered");
    let own_rtt = |handover: &str, rtt| {
        let mut scenario = handed_over("fixed", &[handover]);
        scenario.flows[0].rtt = Some(rtt);
        run(&scenario).map(|_| ()).map_err(|error| error.to_string())
    };
    let short = Span::from_millis(1);
    assert_eq!(own_rtt("5s", short), Ok(()));
    assert_eq!(own_rtt("5s/50ms/1s", secs(1)), Ok(()));
    assert!(own_rtt("5s/50ms/1s", short).unwrap_err().contains("flow 1: rtt: 1ms; its path has"));
    let error = run(&handed_over("fixed", &["19s/1s"])).unwrap_err().to_string();
    assert!(error.contains("the handover at 19s is not over before the end of the run (20s)"));
}

/// One packet a millisecond, 40 ms, a deep queue, and a handover of 50 ms at 10 s.
fn handed_over_once(cc: &str, length_ms: u64, queue_lost: bool) -> Scenario {
    let handover = Handover { length: ms(length_ms), queue_lost, ..Handover::at(at_ms(10_000)) };
    Scenario { skip: Span::ZERO, ..lone(cc, "constant:12mbit", "infinite", 20) }
        .with_link(|link| link.set_handovers(vec![handover]))
}

#[test]
fn handover_t1_an_interruption_costs_its_length() {
    let packets = |handover: &str| {
        let text = format!(
            "trace = 'constant:12mbit'\nqueue = 'infinite'\nduration = '20s'\nskip = '2s'\n\
             [[flow]]\ncc = 'fixed:cwnd=41pkts'\n{handover}"
        );
        let mut files = cellpace_path::schedule::TraceFiles::none();
        let figures = run(&Scenario::from_toml("t1", &text, &mut files).unwrap()).unwrap().figures;
        (figures.packets, figures.queue_delay_ms.max)
    };
    let (before, _) = packets("");
    let (unsignalled, most) = packets("[[handover]]\nat = '10s'\nsignal = false\n");
    assert!((49..=51).contains(&(before - unsignalled)), "{before} {unsignalled}");
    // The time of its own packet on the link included.
    assert!((49.0..=52.0).contains(&most), "{most}");
    // A sender that is told of the new path does not count what is in flight on the old one, so
    // that a second window joins what waits.
    let (signalled, most) = packets("[[handover]]\nat = '10s'\n");
    assert_eq!(signalled, unsignalled);
    assert!(most > 55.0, "{most}");
}

#[test]
fn signal_false_keeps_handovers_from_controllers() {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&changes);
    let own = ControllerSpec::new("witness", move |setup| {
        Box::new(Witness { mss: setup.mss, changes: Arc::clone(&kept) })
    });
    let mut scenario =
        Scenario { flows: vec![FlowSpec::bulk(own)], ..handed_over("fixed", &["5s", "9s"]) };
    scenario.link.down.handovers[0].signal = false;
    run(&scenario).unwrap();
    assert_eq!(*changes.lock().unwrap(), [at_ms(9_050)]);
}

#[test]
fn handover_t2_what_waits_is_lost() {
    // 41 packets are in the delay and on the link, 100 wait.
    let (outcome, log) = observed(&handed_over_once("fixed:cwnd=141pkts", 0, true));
    let lost = Fate::Dropped(DropReason::Handover);
    let drops = log.records.iter().filter(|record| record.fate == lost).count();
    assert!((99..=101).contains(&drops), "{drops}");
    assert_eq!(outcome.figures.handover_drops, drops as u64);
    assert_eq!(outcome.figures.handovers, 1);
}

#[test]
fn handover_t3_what_waits_is_forwarded() {
    let text = "trace = 'constant:12mbit'\nqueue = 'infinite'\nduration = '20s'\n\
                [[flow]]\ncc = 'fixed:cwnd=141pkts'\n\
                [[handover]]\nat = '10s'\nlength = '50ms'\nforward_delay = '20ms'\n";
    let mut files = cellpace_path::schedule::TraceFiles::none();
    let scenario = Scenario::from_toml("t3", text, &mut files).unwrap();
    let (outcome, log) = observed(&scenario);
    assert_eq!((outcome.figures.lost, outcome.figures.handover_drops), (0, 0));
    let mut times = log.delivered().map(|record| record.packet.departed_at);
    let first = times.find(|at| *at >= at_ms(10_000)).unwrap();
    assert!((at_ms(10_069)..=at_ms(10_071)).contains(&first), "{first:?}");
    assert!(log.delivered().map(|record| record.packet.id).is_sorted());
}

#[test]
fn handover_t4_drawn_ones_are_the_same_for_all_controllers() {
    let plan = HandoverPlan {
        every: Some("exp:40s".parse().unwrap()),
        length: "normal:50ms,15ms,min=20ms".parse().unwrap(),
        ..HandoverPlan::at(Time::ZERO)
    };
    let of_seed = |seed| plan.draw(Time::from_secs(6 * 3600), &mut Random::seeded(seed, 0));
    let handovers = of_seed(1);
    assert!((470..=610).contains(&handovers.len()), "{}", handovers.len());
    assert_eq!(Handover::check_order(&handovers), Ok(()));
    assert!(handovers.iter().all(|handover| handover.length >= ms(20)));
    assert_ne!(handovers, of_seed(2));
    let gaps = |cc: &str| {
        let scenario = Scenario {
            handover_plans: vec![plan.clone()],
            ..lone(cc, "constant:12mbit", "infinite", 300)
        };
        run(&scenario).unwrap().series.capacity_mbps
    };
    assert_eq!(gaps("cubic"), gaps("verus"));
    assert!(gaps("cubic").iter().filter(|mbps| **mbps < 11.0).count() > 2);
}

/// 141 packets over 12 Mbit/s and 40 ms for 20 s, of which 100 wait, and this handover at 10 s.
fn with_handover(fields: &str) -> Scenario {
    let text = format!(
        "trace = 'constant:12mbit'\nqueue = 'infinite'\nduration = '20s'\nskip = '0s'\n\
         [[flow]]\ncc = 'fixed:cwnd=141pkts'\n\
         [[handover]]\nsignal = false\n{fields}\n"
    );
    let mut files = cellpace_path::schedule::TraceFiles::none();
    Scenario::from_toml("g3", &text, &mut files).unwrap()
}

#[test]
fn handover_g3_reorder_lets_direct_packets_overtake_forwarded_ones() {
    let scenario =
        with_handover("at = '10s'\nlength = '50ms'\nforward_delay = '20ms'\nreorder = true");
    let (outcome, log) = observed(&scenario);
    assert_eq!(outcome.figures.handover_drops, 0);
    assert!(log.records.iter().all(|record| record.fate == Fate::Delivered));
    let delivered: Vec<_> = log.delivered().map(|record| record.packet).collect();
    assert!(!delivered.is_sorted_by_key(|packet| packet.id), "nobody overtakes");
    let after = || delivered.iter().filter(|packet| packet.departed_at >= at_ms(10_000));
    // Those that waited at the begin, and those that came later.
    let (waited, direct): (Vec<&Packet>, Vec<&Packet>) =
        after().partition(|packet| packet.enqueued_at < at_ms(10_000));
    assert!((99..=101).contains(&waited.len()), "{}", waited.len());
    assert!(waited.is_sorted_by_key(|packet| packet.id), "in their order");
    assert!(direct.is_sorted_by_key(|packet| packet.id), "in their order");
    let first = |packets: &[&Packet]| packets[0].departed_at;
    assert!((at_ms(10_050)..=at_ms(10_051)).contains(&first(&direct)), "{:?}", first(&direct));
    assert!(first(&waited) >= at_ms(10_070), "{:?}", first(&waited));
    let overtaking = direct.iter().filter(|packet| packet.departed_at < first(&waited)).count();
    assert!(overtaking >= 19, "{overtaking}");
    // Without, all wait for the forwarded ones.
    let in_order = with_handover("at = '10s'\nlength = '50ms'\nforward_delay = '20ms'");
    let (_, log) = observed(&in_order);
    assert!(log.delivered().map(|record| record.packet.id).is_sorted());
}

#[test]
fn handover_g3_rate_is_a_factor_on_what_the_trace_offers_afterwards() {
    let delivered_in = |fields: &str, from_s: u64| {
        let (outcome, log) = observed(&with_handover(fields));
        let window = Time::from_secs(from_s)..Time::from_secs(from_s + 4);
        let count = log.delivered().filter(|r| window.contains(&r.packet.departed_at)).count();
        (count, f64::from(outcome.series.capacity_mbps[from_s as usize * 10 + 20]))
    };
    let near = |(count, mbps): (usize, f64), packets: usize, expected_mbps: f64| {
        let is_near = count.abs_diff(packets) <= 2 && (mbps - expected_mbps).abs() <= 0.13;
        assert!(is_near, "{count} packets, {mbps} Mbit/s: not {packets}, {expected_mbps}");
    };
    near(delivered_in("at = '10s'\nrate = 'x0.6'", 4), 4000, 12.0);
    near(delivered_in("at = '10s'\nrate = 'x0.6'", 12), 2400, 7.2);
    near(delivered_in("at = '10s'\nrate = 'x1.5'", 15), 6000, 18.0);
    // On the trace, not on what was before.
    let again = "every = '5s'\nlength = '0s'\nrate = 'x0.5'";
    near(delivered_in(again, 6), 2000, 6.0);
    near(delivered_in(again, 16), 2000, 6.0);
}

#[test]
fn handover_g3_a_share_of_them_are_radio_link_failures() {
    let failure = |share| HandoverFailure {
        share,
        outage: "uniform:1s..3s".parse().unwrap(),
        queue_lost: true,
    };
    let plan = |share| HandoverPlan {
        every: Some("exp:40s".parse().unwrap()),
        failure: Some(failure(share)),
        ..HandoverPlan::at(Time::ZERO)
    };
    let drawn = |share| plan(share).draw(Time::from_secs(6 * 3600), &mut Random::seeded(1, 0));
    for (share, expected) in [(0.02, 3..=22), (0.2, 75..=140), (0.0, 0..=0)] {
        let handovers = drawn(share);
        let (failed, others): (Vec<Handover>, Vec<_>) =
            handovers.into_iter().partition(|handover| handover.queue_lost);
        assert!(expected.contains(&failed.len()), "{share}: {}", failed.len());
        assert!(failed.iter().all(|failed| (secs(1)..=secs(3)).contains(&failed.length)));
        assert!(others.iter().all(|other| other.length == ms(50)));
    }
    // A certain one: the window is lost, and what timeouts send again meanwhile, and nothing arrives
    // for 2 s.
    let fields = |buffer: &str| {
        format!("at = '10s'\nfailure = {{ share = '100%', outage = '2s', buffer = '{buffer}' }}")
    };
    for (buffer, drops) in [("lose", 141..=5 * 141), ("keep", 0..=0)] {
        let (outcome, log) = observed(&with_handover(&fields(buffer)));
        let seen = outcome.figures.handover_drops;
        assert!(drops.contains(&seen), "{buffer}: {seen}");
        let outage = at_ms(10_000)..at_ms(12_000);
        assert!(!log.delivered().any(|record| outage.contains(&record.packet.departed_at)));
    }
    let never = "at = '10s'\nfailure = { share = '0%', outage = '2s' }";
    let packets = |fields: &str| common::outcome(&with_handover(fields)).figures.packets;
    assert_eq!(packets(never), packets("at = '10s'"));
}

#[test]
fn charts_get_the_events_that_the_observer_sees() {
    let mut scenario = with_handover("at = '10s'\nlength = '2s'");
    scenario.skip = Span::ZERO;
    scenario.link.down.queue = "droptail:30pkts".parse().unwrap();
    scenario.flows = vec![FlowSpec::bulk("newreno".parse().unwrap())];
    let (outcome, log) = observed(&scenario);
    let events = &outcome.series.events;
    let count = |name: &str| -> u64 {
        events.iter().filter(|each| each.event == name).map(|each| each.count).sum()
    };
    assert!(outcome.figures.lost > 0);
    assert_eq!(count("loss"), outcome.figures.lost);
    for name in ["phase", "reduced", "timeout", "undone"] {
        let seen = log.events.iter().filter(|(_, _, event)| event.name() == name);
        assert_eq!(count(name), seen.count() as u64, "{name}");
    }
    assert!(count("phase") > 1 && count("base_delay") == 0);
    let handover = events.iter().find(|each| each.event == "handover").unwrap();
    assert_eq!((handover.flow, &handover.at_s[..]), (None, &[10.0][..]));
    // At most one a bin, in the order of time.
    let bin = outcome.series.bin_s;
    for each in events.iter().filter(|each| each.at_s.len() > 1) {
        let bins: Vec<u64> = each.at_s.iter().map(|at| (at / bin + 1e-9) as u64).collect();
        assert!(bins.is_sorted_by(|a, b| a < b), "{}: {bins:?}", each.event);
    }
}
