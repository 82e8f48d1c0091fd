//! How well Markov tables imitate their teacher, on generated profiles alone. The bounds are the
//! figures of several seeds and a little more, so they break when training or walking does.

use crate::program::{Folder, number};
use serde_json::Value;

const TEACHER: &str = "verus:r=2";

/// A model's figures divided by its teacher's.
#[derive(Debug)]
struct Ratios {
    throughput: f64,
    /// Mean one-way delay.
    delay: f64,
    /// Median queue delay, which a single outage does not decide.
    median: f64,
}

/// Runs teacher and model, and compares means over all seeds.
#[track_caller]
fn imitation(folder: &Folder, cc: &str, trace: &str, options: &str) -> Ratios {
    let path = format!("--trace {trace} --duration 60s {options}");
    let document = folder.json(&format!("compare --cc {TEACHER} --cc {cc} {path}"));
    let runs = document["runs"].as_array().unwrap();
    let sum = |of: &str, pointer: &str| {
        let chosen: Vec<&Value> = runs.iter().filter(|run| run["cc"] == of).collect();
        assert_eq!(chosen.len() * 2, runs.len());
        chosen.iter().map(|run| number(run, pointer)).sum::<f64>()
    };
    let ratio = |pointer| sum(cc, pointer) / sum(TEACHER, pointer);
    let ratios = Ratios {
        throughput: ratio("/throughput_mbps"),
        delay: ratio("/one_way_delay_ms/mean"),
        median: ratio("/queue_delay_ms/p50"),
    };
    println!("{cc} on {trace} {options}: {ratios:.3?}");
    ratios
}

fn trained() -> Folder {
    let folder = Folder::new();
    // A chain ends where the window is one packet: of a shorter training too little remains.
    let train = "mdi train --trace lte-driving --duration 300s --users 1,2 -o lte.mdi";
    folder.good(&format!("{train} --cc {TEACHER}"));
    folder
}

#[test]
fn levels_learnt_on_lte_imitate_on_a_walk_with_hspa() {
    let folder = trained();
    for users in [1, 2] {
        let cc = format!("mdi:model=lte.mdi,users={users}");
        // Tables are learnt without jitter of the senders.
        let options = format!("--flows {users} --repeat 2 --send-jitter 0%");
        let ratios = imitation(&folder, &cc, "hspa-walking", &options);
        assert!((0.97..1.10).contains(&ratios.throughput), "{users}: {ratios:?}");
        assert!((0.70..1.05).contains(&ratios.delay), "{users}: {ratios:?}");
        assert!((0.65..1.10).contains(&ratios.median), "{users}: {ratios:?}");
    }
}

#[test]
fn levels_learnt_on_lte_imitate_on_a_drive_with_umts() {
    let folder = trained();
    for users in [1, 2] {
        // Tables are learnt without jitter of the senders.
        let options = format!("--flows {users} --repeat 2 --send-jitter 0%");
        let ratios = imitation(&folder, "mdi:model=lte.mdi", "umts-driving", &options);
        assert!((0.95..1.15).contains(&ratios.throughput), "{users}: {ratios:?}");
        // Outages make the teacher's mean; a model may have less, but not much more.
        assert!((0.2..1.5).contains(&ratios.delay), "{users}: {ratios:?}");
        assert!((0.7..1.4).contains(&ratios.median), "{users}: {ratios:?}");
    }
}

#[test]
fn the_built_in_table_imitates_verus_on_the_profiles() {
    let folder = Folder::new();
    for trace in ["lte-driving", "lte-stationary", "umts-driving", "hspa-walking"] {
        let ratios = imitation(&folder, "mdi", trace, "--repeat 2");
        assert!((0.95..1.13).contains(&ratios.throughput), "{trace}: {ratios:?}");
        assert!((0.3..1.2).contains(&ratios.delay), "{trace}: {ratios:?}");
        assert!((0.7..1.4).contains(&ratios.median), "{trace}: {ratios:?}");
    }
}
