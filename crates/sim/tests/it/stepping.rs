//! A run may be advanced in any pieces, watched or not, and dropped.

use cellpace_base::{Span, Time};
use cellpace_cc::{Event, registry};
use cellpace_path::PacketRecord;
use cellpace_sim::{
    FlowSpec, FlowTraffic, FlowView, Observer, OnOffFiles, Outcome, Scenario, Simulation,
};
use proptest::prelude::*;

use crate::common::{Log, at_ms, bulk, lone, observed, secs, udp};

/// Files, a bulk transfer and cross traffic over a path with outages and loss.
fn restless(cc: &str) -> Scenario {
    let onoff = OnOffFiles {
        mean: 200e3,
        max: 400e3,
        off: Span::from_millis(300),
        ..OnOffFiles::default()
    };
    let files = FlowSpec { traffic: FlowTraffic::OnOffFiles(onoff), ..bulk(cc) };
    Scenario {
        flows: vec![bulk(cc), files, udp("500kbit")],
        duration: secs(8),
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some("onoff:8mbit,on=3s,off=1s".parse().unwrap());
        link.up.trace = Some("onoff:1mbit,on=5s,off=700ms".parse().unwrap());
        link.down.loss = "0.5%".parse().unwrap();
        link.set_handovers(vec!["2s/300ms/90ms".parse().unwrap(), "5s/lost".parse().unwrap()]);
    })
}

/// As text: windows of flows without a connection are NaN, which is not even itself.
fn same(one: &(Outcome, Log), other: &(Outcome, Log)) -> bool {
    let figures = format!("{:?}", one.0) == format!("{:?}", other.0);
    figures && one.1.records == other.1.records && one.1.events == other.1.events
}

fn in_steps(scenario: &Scenario, steps: impl Iterator<Item = Span>) -> (Outcome, Log) {
    let (mut simulation, mut log) = (Simulation::new(scenario).unwrap(), Log::default());
    for step in steps {
        let until = simulation.now() + step;
        simulation.advance_observed(until, &mut log).unwrap();
        assert_eq!(simulation.now(), until.min(scenario.end()));
    }
    simulation.advance_observed(scenario.end(), &mut log).unwrap();
    assert!(simulation.is_over());
    (simulation.finish().unwrap(), log)
}

#[test]
fn a_lone_flow_shows_its_controllers_values_over_time() {
    let lone = Scenario {
        flows: vec![FlowSpec { start: at_ms(2000), ..bulk("verus") }],
        ..restless("verus")
    };
    let (outcome, _) = observed(&lone);
    let bins = outcome.series.cwnd_packets[0].len();
    let set_point = outcome.series.inspected.iter().find(|series| series.name == "set_point_ms");
    let values = &set_point.unwrap().values;
    assert!(outcome.series.inspected.iter().all(|series| series.values.len() == bins));
    assert!(values[0].is_nan(), "the flow begins after 2 s");
    assert!(values.iter().any(|value| *value > 40.0));
    assert_eq!(observed(&restless("verus")).0.series.inspected, []);
}

#[test]
fn every_controller_runs_the_same_in_steps_of_any_length() {
    for info in registry() {
        let scenario = restless(info.name);
        let whole = observed(&scenario);
        assert!(whole.1.records.len() > 500, "{}: hardly anything was sent", info.name);
        for step in [Span::from_micros(1700), Span::from_millis(10), secs(3), secs(100)] {
            let steps = std::iter::repeat_n(step, (secs(8).as_nanos() / step.as_nanos()) as usize);
            assert!(same(&in_steps(&scenario, steps), &whole), "{}: {step}", info.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn steps_drawn_at_random_change_nothing(
        steps in prop::collection::vec(0_u64..900_000_000, 0..40),
    ) {
        let scenario = restless("verus");
        let stepped = in_steps(&scenario, steps.into_iter().map(Span::from_nanos));
        prop_assert!(same(&stepped, &observed(&scenario)));
    }
}

/// Counts what it is shown of flow 0.
#[derive(Default)]
struct Views {
    log: Log,
    at: Vec<Time>,
    largest_flight: u64,
    values: usize,
}

impl Observer for Views {
    fn on_record(&mut self, record: &PacketRecord) {
        self.log.on_record(record);
    }

    fn on_event(&mut self, flow: u32, at: Time, event: Event) {
        self.log.on_event(flow, at, event);
    }

    fn interval(&self) -> Option<Span> {
        Some(Span::from_millis(500))
    }

    fn on_interval(&mut self, at: Time, flow: FlowView<'_>) {
        if flow.flow() == 0 {
            self.at.push(at);
            self.largest_flight = self.largest_flight.max(flow.in_flight());
            flow.controller().inspect(&mut |_, _| self.values += 1);
        }
    }
}

#[test]
fn whoever_looks_at_intervals_changes_nothing_in_whatever_steps() {
    let scenario = restless("cubic");
    let whole = observed(&scenario);
    let mut views = Views::default();
    let mut simulation = Simulation::new(&scenario).unwrap();
    for ms in [0, 499, 500, 500, 501, 3210, 4000, 9000] {
        simulation.advance_observed(at_ms(ms), &mut views).unwrap();
    }
    let outcome = simulation.finish().unwrap();
    assert_eq!(views.at, (1..=16).map(|half| at_ms(500 * half)).collect::<Vec<_>>());
    assert!(views.largest_flight > 10 * 1500 && views.values > 16);
    assert!(same(&(outcome, views.log), &whole));
}

#[test]
fn a_run_can_be_looked_at_and_dropped_midway() {
    let mut simulation =
        Simulation::new(&lone("bbr", "constant:12mbit", "droptail:2MB", 10)).unwrap();
    assert!(simulation.flow(0).is_none(), "nothing has happened yet");
    simulation.advance(at_ms(3000)).unwrap();
    assert_eq!((simulation.now(), simulation.is_over()), (at_ms(3000), false));
    let flow = simulation.flow(0).unwrap();
    assert!(flow.in_flight() > 0 && flow.rtt().smoothed().is_some());
    let mbit = flow.permitted_rate().unwrap().as_bps() as f64 / 1e6;
    assert!((9.0..16.0).contains(&mbit), "{mbit}");
    assert!(simulation.flow(1).is_none());
    drop(simulation);
}
