//! Flat tables: a second implementation, in another language and from the description alone,
//! takes the same steps.

#![allow(clippy::unwrap_used)]

mod program;

use std::process::Command;

use program::Folder;

/// Trains, exports with `rules`, and walks through the test vector in Python.
fn agrees(folder: &Folder, states: &str, rules: &str) {
    let train = "mdi train --cc verus:r=2 --trace lte-driving --duration 20s --users 2 -o m";
    folder.good(&format!("{train} {states}"));
    let export = "mdi export m --format flat -o m.flat --vectors m.json --seed 77";
    folder.good(&format!("{export} {rules}"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../evaluation/mdi_walk.py");
    let python = Command::new("python3")
        .arg(script)
        .args([folder.path("m.flat"), folder.path("m.json")])
        .output();
    let output = match python {
        Ok(output) => output,
        Err(error) => return println!("left out, there is no python3: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{states} {rules}: {said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2000 steps agree\n");
}

#[test]
fn the_reference_in_python_takes_the_same_steps() {
    let folder = Folder::new();
    for states in ["--variant levels", "--variant relative", "--variant absolute"] {
        for rules in ["", "--rules sampler=closest,empty=paper", "--rules empty=code,prune=0.05"] {
            agrees(&folder, states, rules);
        }
    }
}

#[test]
fn rules_are_those_of_the_controller() {
    let folder = Folder::new();
    folder.good("mdi train --cc fixed --trace constant:5mbit --duration 5s --users 1,2 -o m");
    for (args, said) in [
        (
            "--format flat --rules smapler=cdf",
            "--rules: `mdi` has no parameter `smapler`; did you mean `sampler`?",
        ),
        (
            "--format flat --rules users=adapt",
            "--rules: users=adapt and start=slow have no flat form",
        ),
        ("--format json --vectors v", "are for --format flat"),
        ("--format flat --users 3", "it has 1, 2"),
    ] {
        folder.refused(&format!("mdi export m {args}"), said);
    }
    assert_eq!(folder.names(), ["m"]);
}
