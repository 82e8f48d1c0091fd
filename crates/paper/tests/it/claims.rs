//! Runs of claims: what is refused, and what comes out.

use std::fs;
use std::path::Path;

use cellpace_paper::{Cache, Claim, ClaimResult, Depth, Plan, RunOptions, Unrun};
use serde_json::{Value, json};

fn quick() -> RunOptions<'static> {
    RunOptions { depth: Depth::Quick, ..RunOptions::default() }
}

fn results(claims: &[Value], options: &RunOptions<'_>) -> Vec<ClaimResult> {
    let claims = Claim::read_all(&json!(claims).to_string()).unwrap();
    let plan = Plan::new(&claims.iter().collect::<Vec<_>>(), options);
    plan.run(options, &mut ()).unwrap().unwrap()
}

fn values(result: &ClaimResult, run: &str, field: &str) -> Vec<(String, f64)> {
    let table = result.records[run].field(field, None).unwrap();
    table.rows.iter().map(|row| (row.coordinates.join(" "), row.value)).collect()
}

/// A claim with one run of this trace.
fn windows(trace: &str) -> Value {
    json!({"id": "made-up", "runs": {"alone": {
        "trace": trace, "cc": "fixed:cwnd={window}", "rtt": "40ms", "duration": "5s",
        "sweep": {"window": ["20pkts", "40pkts"]},
    }}})
}

#[test]
fn runs_have_a_value_for_each_place() {
    let results = results(&[windows("constant:12mbit")], &quick());
    let found = values(&results[0], "alone", "throughput_mbps");
    assert_eq!(found[0].0, "constant:12mbit fixed:cwnd={window} 20pkts 0ms 1");
    assert!((found[0].1 - 6e6).abs() < 2e5 && (found[1].1 - 12e6).abs() < 6e5, "{found:?}");
    assert!(!results[0].is_generated && results[0].unrun.is_none());
    let only = results[0].records["alone"].field("throughput_mbps", Some(("seed", "2")));
    assert_eq!(only.unwrap_err(), "no run has `throughput_mbps`");
    let unknown = results[0].records["alone"].field("queue_delay_ms", None).unwrap_err();
    assert!(unknown.contains("write, e.g., queue_delay_ms.p95"), "{unknown}");
}

#[test]
fn transfers_have_labels_of_their_radio() {
    let claim = json!({"id": "made-radio", "runs": {
        "downloads": {"trace": "radio:highway-700", "cc": "cubic", "duration": "300s",
            "flow": "transfer = { size = \"200kB\", every = \"20s\" }"},
        "radio": {"trace": "radio:highway-700", "cc": "cubic", "duration": "300s", "analysis": "radio"},
    }});
    let results = results(&[claim], &quick());
    let sinr = results[0].records["downloads"].field("transfer.mean_sinr_db", None).unwrap();
    assert_eq!(sinr.rows.len(), 15);
    assert!(sinr.rows.iter().all(|row| row.labels.iter().any(|(name, _)| *name == "handovers")));
    assert!(values(&results[0], "radio", "radio.share_64qam")[0].1 > 0.0);
}

fn trained() -> Value {
    json!({"id": "made-up",
        "trainings": {"still": {"teacher": "fixed:cwnd=20pkts", "traces": ["constant:12mbit"], "users": [1]}},
        "runs": {
            "table": {"train": "still"},
            "alone": {"trace": "constant:12mbit", "cc": "mdi:model=train.still,users=1", "rtt": "40ms",
                "duration": "5s"},
        }})
}

#[test]
fn tables_are_trained_kept_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let results =
            results(&[trained()], &RunOptions { cache: Cache::below(folder.path()), ..quick() });
        assert!(values(&results[0], "table", "table.samples")[0].1 >= 100.0);
        assert_eq!(results[0].records["table"].maps("transitions").len(), 1);
        values(&results[0], "alone", "throughput_mbps")
    };
    let first = run();
    assert!((first[0].1 - 6e6).abs() < 1e6, "{first:?}");
    let files = |folder: &Path| {
        let mut below = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        fs::read_dir(below.find(|path| !path.ends_with("seconds")).unwrap()).unwrap().count()
    };
    assert_eq!(files(folder.path()), 3, "a table, its figures, a run");
    assert_eq!(run(), first, "from the cache it is the same");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let axes: serde_json::Map<String, Value> =
        (0..17).map(|at| (format!("a{at}"), json!([1]))).collect();
    let cases = [
        ("/runs/table/train", json!("stil"), "made-up: run.table: there is no training `stil`"),
        ("/trainings/still/users", json!([]), "made-up: train.still: a table is trained on at least"),
        ("/trainings/still/states", json!("relativ"), "train.still: `relativ`"),
        ("/runs/alone/serious", json!("1s"), "unknown field `serious`"),
        ("/runs/alone/cc", Value::Null, "made-up: run.alone: a run has `trace` and `cc`"),
        ("/runs/alone/sweep", json!(axes), "axes; allowed: 16"),
    ];
    for (place, value, why) in cases {
        let mut claim = trained();
        let (parent, name) = place.rsplit_once('/').unwrap();
        claim.pointer_mut(parent).unwrap()[name] = value;
        let error = Claim::read_all(&json!([claim]).to_string()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_claim_that_cannot_run_leaves_the_others_their_figures() {
    let mut needs = windows("city-drive");
    needs["needs_traces"] = json!(true);
    let mut endless = windows("constant:12mbit");
    endless["runs"]["alone"]["starts"] = json!(4_000_000_000_u32);
    let claims = [needs, endless, windows("constant:12mbit")];
    let found = results(&claims, &quick());
    assert_eq!(found[0].unrun, Some(Unrun::NeedsTraces));
    let why = "run.alone: starts: 4000000000 are more than 1000".to_owned();
    assert_eq!(found[1].unrun, Some(Unrun::Failed(why)));
    assert_eq!(found[2].unrun, None);
    // A folder that has other traces only.
    let folder = tempfile::tempdir().unwrap();
    let found =
        results(&[windows("city-drive")], &RunOptions { traces: Some(folder.path()), ..quick() });
    assert_eq!(found[0].unrun, Some(Unrun::NeedsTraces));
}

#[test]
fn generated_traces_stand_in_wherever_a_recorded_one_is_named() {
    let scenario = "trace = \"att-lte-driving\"\nrtt = \"40ms\"\nduration = \"5s\"\n[[flow]]\ncc = \"copa\"\n";
    let within = json!({"id": "made-up", "runs": {"alone": {"scenario": scenario}}});
    let mut learnt = trained();
    learnt["trainings"]["still"]["traces"] = json!(["mdi/channel00"]);
    for claim in [windows("city-drive"), within, learnt] {
        let result = &results(&[claim], &quick())[0];
        assert!(result.unrun.is_none() && result.is_generated, "{:?}", result.unrun);
    }
}
