//! The guard: it rarely ends what is harmless, soon what is harmful, and then for good.

use cellpace_experiment::{ConnectionRecord, Experiment, Guard};

use crate::experiment;
use crate::model::Model;

const TABLE: &str = "[guard]\ngoodput_p50 = \"10 % worse\"\nqueue_delay_p50 = \"20 % worse\"\nretransmitted = \"1 point worse\"\nerrors = \"0.5 points worse\"\n";

/// Runs an experiment with a look after each slot; returns the slot that ended it.
fn run(experiment: &Experiment, records: &[ConnectionRecord]) -> Option<u64> {
    let mut guard = Guard::new(experiment);
    let mut slot = 0;
    for record in records {
        if record.slot != slot {
            slot = record.slot;
            guard.look(slot as f64 * 600.0, slot);
            if guard.fired().is_some() {
                return Some(slot);
            }
        }
        guard.record(record);
    }
    None
}

fn alarms(seeds: u64) -> u64 {
    let experiment = experiment("", TABLE);
    let model = Model { slots: 150, connections: 20, effect: 0.0, carry_over: 0.0, washout: 0.0 };
    (0..seeds).filter(|seed| run(&experiment, &model.run(*seed)).is_some()).count() as u64
}

#[test]
fn looks_at_every_slot_rarely_end_an_experiment_without_effect() {
    let alarms = alarms(40);
    assert!(alarms <= 6, "{alarms} of 40, where 5 % may");
}

#[test]
#[ignore = "a minute: a thousand experiments"]
fn looks_at_every_slot_end_at_most_65_of_1000_experiments_without_effect() {
    let alarms = alarms(1000);
    println!("guard: {alarms} of 1000 experiments without effect ended");
    assert!(alarms <= 65, "{alarms}");
}

#[test]
fn what_is_twice_as_slow_ends_within_a_day_of_slots() {
    let experiment = experiment("", TABLE);
    let model = Model { slots: 144, connections: 20, effect: 0.7, carry_over: 0.0, washout: 0.0 };
    for seed in 0..20 {
        let ended = run(&experiment, &model.run(seed));
        assert!(ended.is_some_and(|slot| slot >= 8), "{seed}: {ended:?}");
    }
}

#[test]
fn the_end_is_final_over_restarts_and_its_history_kept() {
    let experiment = experiment("", TABLE);
    let model = Model { slots: 100, connections: 20, effect: 1.5, carry_over: 0.0, washout: 0.0 };
    let records = model.run(3);
    let mut guard = Guard::new(&experiment);
    let mut looks = Vec::new();
    for slot in 0..100 {
        looks.extend(guard.look(slot as f64, slot));
        assert!(guard.look(slot as f64, slot).is_empty(), "one look a slot");
        records.iter().filter(|record| record.slot == slot).for_each(|record| guard.record(record));
        guard = Guard::restore(&experiment, &guard.to_json()).unwrap();
    }
    let fired = guard.fired().unwrap().clone();
    assert!(fired.fired && fired.worse > fired.limit && fired.at_least.unwrap() > 0.0, "{fired:?}");
    assert_eq!(looks.last().unwrap().at_s, fired.at_s);
    let other = crate::read(&crate::text("", TABLE).replace("\"bbr\"", "\"again\"")).unwrap();
    let error = Guard::restore(&other, &guard.to_json()).unwrap_err();
    assert_eq!(error, "of the experiment `bbr`: name another log");
    assert!(Guard::restore(&experiment, "{").is_err());
    let mut changed = experiment;
    changed.arms[1].cc = Some("copa".to_owned());
    let error = Guard::restore(&changed, &guard.to_json()).unwrap_err();
    assert!(error.contains("arms have changed"), "{error}");
}

#[test]
fn what_began_in_a_washout_or_crossed_a_border_does_not_count() {
    let experiment = experiment("", TABLE);
    let mut guard = Guard::new(&experiment);
    let before = guard.to_json();
    for (crossed, washout) in [(true, false), (false, true)] {
        guard.record(&ConnectionRecord {
            arm: "pace".to_owned(),
            crossed,
            washout,
            ..ConnectionRecord::default()
        });
    }
    assert_eq!(guard.to_json(), before);
}
