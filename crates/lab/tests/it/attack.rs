//! An attack finds what is known to be weak, and makes it simple.

use cellpace_base::Span;
use cellpace_lab::attack::{Attack, AttackBounds, AttackBudget, AttackFind, LevelRange, Worst};
use cellpace_lab::trace_files;
use cellpace_sim::{Scenario, run};

fn range(low: u64, high: u64) -> LevelRange {
    LevelRange::new(low, high).unwrap()
}

/// Slow links without loss: quick to simulate.
fn bounds() -> AttackBounds {
    AttackBounds {
        rate: range(500, 4000),
        loss: range(0, 0),
        buffer: range(200, 200),
        duration: Span::from_secs(20),
        ..AttackBounds::default()
    }
}

fn attack(cc: &str, worst: Worst, bounds: AttackBounds) -> Attack {
    let budget = AttackBudget::Runs(300);
    Attack { cc: cc.parse().unwrap(), against: None, worst, bounds, budget, seed: 1 }
}

fn find(attack: &Attack, jobs: u16) -> AttackFind {
    attack.run(Some(jobs), &mut ()).unwrap().unwrap()
}

fn utilization(scenario: &str) -> f64 {
    let scenario = Scenario::from_toml("find", scenario, &mut trace_files()).unwrap();
    run(&scenario).unwrap().figures.utilization
}

#[test]
fn the_worst_path_of_a_fixed_window_is_a_large_bdp_and_nothing_else() {
    let attack = attack("fixed:cwnd=15kB", Worst::Utilization, bounds());
    let find = find(&attack, 2);
    // 15 kB in 200 ms are 0.6 Mbit/s; 0.9 of what is missing at 4 Mbit/s is kept.
    assert!(find.shrunk.figure < 0.25, "{find:?}");
    let [step] = find.path.steps[..] else { panic!("more than one step: {find:?}") };
    assert!(step.rate_kbps * step.rtt_ms > 480_000, "{find:?}");
    assert_eq!(utilization(&find.scenario), find.shrunk.figure, "{}", find.scenario);
    assert_eq!(find.other_seeds.len(), 4);
    // The same whatever the number of cores.
    assert_eq!(self::find(&attack, 1), find);
}

#[test]
fn a_base_rtt_that_grows_is_found_to_starve_vegas() {
    // The rate and the RTT are within what Vegas fills when nothing changes.
    let bounds = AttackBounds { rate: range(4000, 4000), rtt: range(20, 200), ..bounds() };
    let find = find(&attack("vegas", Worst::Utilization, bounds.clone()), 2);
    let constant = find.path.steps.iter().map(|step| {
        let rtt = range(step.rtt_ms, step.rtt_ms);
        let attack =
            attack("vegas", Worst::Utilization, AttackBounds { rtt, steps: 1, ..bounds.clone() });
        self::find(&attack, 2).shrunk.figure
    });
    let constant: Vec<f64> = constant.collect();
    assert!(find.shrunk.figure < 0.5, "{find:?}");
    assert!(constant.iter().all(|figure| *figure > 0.8), "{constant:?}");
    let rtts: Vec<u64> = find.path.steps.iter().map(|step| step.rtt_ms).collect();
    assert!(rtts.len() == 2 && rtts[0] < rtts[1], "shrunk to one jump: {find:?}");
}

#[test]
fn beside_a_rival_the_share_is_what_counts() {
    let against = Some("cubic".parse().unwrap());
    let attack = Attack { against, ..attack("vegas", Worst::Fairness, bounds()) };
    let find = find(&attack, 2);
    assert!(find.shrunk.figure < 0.2 && find.shrunk.rival.is_none(), "{find:?}");
    assert!(
        find.scenario.contains("cc = \"vegas\"\n\n[[flow]]\ncc = \"cubic\"\n"),
        "{}",
        find.scenario
    );
}

#[test]
fn against_a_rival_a_path_that_is_hard_for_both_is_no_find() {
    let against = Some("fixed:cwnd=15kB".parse().unwrap());
    let attack = Attack { against, ..attack("fixed:cwnd=15kB", Worst::Utilization, bounds()) };
    let find = find(&attack, 2);
    assert_eq!(Some(find.shrunk.figure), find.shrunk.rival);
}

#[test]
fn a_cancelled_attack_has_no_find() {
    struct Cancelled;
    impl cellpace_lab::WorkSink<()> for Cancelled {
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let attack = attack("cubic", Worst::Delay, bounds());
    assert_eq!(attack.run(None, &mut Cancelled), Ok(None));
}
