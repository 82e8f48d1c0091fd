//! Intervals hold the truth as often as they say, and nothing is found where there is nothing.

use cellpace_base::Span;
use cellpace_base::math::ln;
use cellpace_experiment::{
    ConnectionRecord, Estimate, ExperimentLine, ExperimentPlan, ExperimentRecords,
    ExperimentResult, SlotRecord,
};

use crate::experiment;
use crate::model::Model;

/// Delays of the second arm are 30 % smaller; the slot before acts on for a tenth of a slot.
const MODEL: Model =
    Model { slots: 60, connections: 16, effect: -0.356_674_943, carry_over: 0.1, washout: 0.1 };

fn records(connections: Vec<ConnectionRecord>, assign: &str) -> ExperimentRecords {
    let experiment = experiment(&format!("assign = \"{assign}\""), "");
    let mut records = ExperimentRecords::of(vec![ExperimentLine::start(&experiment)]).unwrap();
    records.connections = connections;
    records
}

/// The relative difference of the median queue delay.
fn estimate(connections: Vec<ConnectionRecord>) -> Estimate {
    let result = ExperimentResult::of(&records(connections, "time"));
    let figures = &result.comparisons[0].groups[0].figures;
    let figure = figures.iter().find(|figure| figure.figure == "queue_delay_p50").unwrap();
    figure.relative.unwrap()
}

fn covered(model: Model, seeds: u64) -> usize {
    let truth = (model.effect.exp() - 1.0) * 100.0;
    let holds = |seed: &u64| {
        let [low, high] = estimate(model.run(*seed)).interval.unwrap();
        low <= truth && truth <= high
    };
    (0..seeds).filter(holds).count()
}

fn alarms(seeds: u64) -> usize {
    let model = Model { effect: 0.0, ..MODEL };
    (0..seeds).filter(|seed| estimate(model.run(10_000 + seed)).differs()).count()
}

#[test]
fn few_experiments_miss_the_truth_or_find_what_is_not() {
    let covered = covered(MODEL, 50);
    // 97.5 % of binomial draws of 0.95 are below 50, and 99.9 % above 42.
    assert!((43..=50).contains(&covered), "{covered} of 50");
    let alarms = alarms(50);
    assert!(alarms <= 8, "{alarms} of 50");
}

#[test]
#[ignore = "minutes: two thousand experiments"]
fn of_1000_experiments_930_to_970_hold_the_truth_and_65_at_most_alarm_without_effect() {
    let covered = covered(MODEL, 1000);
    let alarms = alarms(1000);
    println!(
        "experiments: {covered} of 1000 hold the truth, {alarms} of 1000 alarm without effect"
    );
    assert!((930..=970).contains(&covered), "{covered}");
    assert!(alarms <= 65, "{alarms}");
}

#[test]
fn without_a_washout_the_slot_before_hides_some_of_the_effect() {
    let mean = |washout: f64| {
        let model = Model { carry_over: 0.3, washout, slots: 200, ..MODEL };
        (0..20).map(|seed| estimate(model.run(seed)).value).sum::<f64>() / 20.0
    };
    let (with, without) = (mean(0.3), mean(0.0));
    assert!((-32.0..-28.0).contains(&with), "{with}: the truth is -30");
    assert!(without > with + 2.0, "{without} against {with}");
}

#[test]
fn a_client_with_many_connections_counts_once() {
    // One client of a hundred makes nine of ten connections; over connections the interval would be narrow.
    let record = |client: u32, arm: &str, delay: f64| ConnectionRecord {
        arm: arm.to_owned(),
        client: client.to_string(),
        queue_delay_p50_ms: Some(delay),
        ..ConnectionRecord::default()
    };
    let mut connections = Vec::new();
    for client in 0..100 {
        let arm = if client % 2 == 0 { "plain" } else { "pace" };
        connections.push(record(client, arm, 50.0 + f64::from(client)));
    }
    connections.extend((0..900).map(|_| record(1, "pace", 20.0)));
    let result = ExperimentResult::of(&records(connections, "client"));
    assert_eq!((result.units, result.arms[1].clients), ("clients", 50));
    let figure = &result.comparisons[0].groups[0].figures[0];
    assert_eq!(figure.figure, "queue_delay_p50");
    assert!(figure.difference.value < -70.0 && !figure.difference.differs(), "{figure:?}");
}

#[test]
fn a_rare_event_of_the_control_has_no_relative_interval() {
    let record = |slot: u64, arm: &str, again: u64| ConnectionRecord {
        arm: arm.to_owned(),
        slot,
        acked_bytes: 1_000_000,
        retransmitted_bytes: again,
        tcp_sent_bytes: 1_000_000,
        ..ConnectionRecord::default()
    };
    // One slot of twenty has all that the control sent again: resamples without it divide by 0.
    let of_slot = |slot: u64| {
        [
            record(2 * slot, "plain", if slot == 7 { 50_000 } else { 0 }),
            record(2 * slot + 1, "pace", 0),
        ]
    };
    let connections = (0..20).flat_map(of_slot).collect();
    let result = ExperimentResult::of(&records(connections, "time"));
    let figures = &result.comparisons[0].groups[0].figures;
    let again = figures.iter().find(|figure| figure.figure == "retransmitted").unwrap();
    assert!(!again.difference.differs(), "{again:?}");
    assert_eq!(again.relative.unwrap().interval, None, "{again:?}");
}

#[test]
fn groups_are_those_that_both_arms_have() {
    let mut connections = MODEL.run(1);
    for (at, record) in connections.iter_mut().enumerate() {
        record.acked_bytes = [50_000, 500_000, 5_000_000][at % 3];
        record.min_rtt_ms = Some(if record.arm == "pace" { 10.0 } else { 70.0 });
    }
    let result = ExperimentResult::of(&records(connections, "time"));
    let groups: Vec<_> =
        result.comparisons[0].groups.iter().map(|group| (group.by, group.group)).collect();
    let sizes = ["below 100 kB", "100 kB to 1 MB", "1 MB and more"].map(|name| ("size", name));
    assert_eq!(groups, [&[("all", "all")][..], &sizes].concat(), "no base RTT of both arms");
}

#[test]
fn what_is_kept_apart_is_counted_and_nothing_else() {
    let mut connections = MODEL.run(1);
    let all = connections.len();
    for record in &mut connections[..100] {
        record.crossed = true;
    }
    let washed = connections.iter().filter(|record| record.washout && !record.crossed).count();
    let arms = ExperimentResult::of(&records(connections, "time")).arms;
    let sum = |of: fn(&cellpace_experiment::ArmCounts) -> usize| arms.iter().map(of).sum::<usize>();
    assert_eq!(sum(|arm| arm.crossed), 100);
    assert_eq!(sum(|arm| arm.washout), washed);
    assert_eq!(sum(|arm| arm.connections), all - 100 - washed);
}

#[test]
fn an_experiment_as_long_as_planned_finds_the_difference() {
    let quiet = Model { effect: 0.0, slots: 200, ..MODEL };
    let mut connections = quiet.run(1);
    for record in &mut connections {
        "plain".clone_into(&mut record.arm);
    }
    let baseline = records(connections, "time");
    let plan = ExperimentPlan::of(&baseline, Span::from_secs(600), 1.0).unwrap();
    let figure = plan.figures.iter().find(|figure| figure.figure == "queue_delay_p50").unwrap();
    let hours = figure.hours[3];
    assert!(figure.hours.windows(2).all(|pair| pair[0] >= pair[1]), "{figure:?}");
    // A difference of 20 %, as planned: found in four of five.
    let model = Model {
        effect: ln(1.2),
        slots: (hours * 6.0) as u64,
        carry_over: 0.0,
        washout: 0.0,
        ..MODEL
    };
    let found = (0..60).filter(|seed| estimate(model.run(*seed)).differs()).count();
    assert!((36..=58).contains(&found), "{found} of 60 in {hours} h");
    let half = ExperimentPlan::of(&baseline, Span::from_secs(600), 0.5).unwrap();
    assert_eq!(half.figures[0].hours[0], plan.figures[0].hours[0] * 2.0);
    let long = ExperimentPlan::of(&baseline, Span::from_secs(86_400), 1.0).unwrap_err();
    assert!(long.contains("8 or more"), "{long}");
}

#[test]
fn processor_time_is_that_of_slots_for_all_their_bytes() {
    let mut all = records(Vec::new(), "time");
    for slot in 0..12 {
        let (arm, processor_s) = if slot % 2 == 0 { ("plain", 1.0) } else { ("pace", 3.0) };
        let arm = arm.to_owned();
        // Half of it in a connection that is kept apart: its bytes took time, too.
        for crossed in [false, true] {
            let (arm, acked_bytes, received_bytes) = (arm.clone(), 200_000_000, 50_000_000);
            all.connections.push(ConnectionRecord {
                arm,
                slot,
                crossed,
                acked_bytes,
                received_bytes,
                ..ConnectionRecord::default()
            });
        }
        all.slots.push(SlotRecord { slot, arm, processor_s });
    }
    // The command was not there for all of this one.
    let (arm, slot, acked_bytes) = ("pace".to_owned(), 13, 9_000_000_000);
    let part = ConnectionRecord { arm, slot, acked_bytes, ..ConnectionRecord::default() };
    all.connections.push(part);
    let result = ExperimentResult::of(&all);
    let figures = &result.comparisons[0].groups[0].figures;
    let figure = figures.iter().find(|figure| figure.figure == "processor_time").unwrap();
    assert_eq!((figure.control.value, figure.arm.value, figure.unit), (2.0, 6.0, "s/GB"));
    assert_eq!(figure.difference.interval, Some([4.0, 4.0]));
    let drawn_otherwise = ExperimentResult::of(&records(all.connections, "client"));
    let figures = &drawn_otherwise.comparisons[0].groups[0].figures;
    assert!(figures.iter().all(|figure| figure.figure != "processor_time"));
}
