//! `cellpace mdi`, run as users run it.

use std::fs;

use crate::program;
use crate::program::{Folder, signal};

const SHORT: &str = "mdi train --cc verus:r=2 --trace lte-driving --duration 10s";

/// What the summary says on the line `what`.
#[track_caller]
fn said<'a>(summary: &'a str, what: &str) -> &'a str {
    let line = summary.lines().find_map(|line| line.strip_prefix(what));
    line.unwrap_or_else(|| panic!("no {what} in\n{summary}")).trim()
}

fn number(text: &str) -> u64 {
    text.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn training_gives_a_model_and_tells_what_is_in_it() {
    let folder = Folder::new();
    let args = "--trace constant:10mbit --users 1,3 -o verus.mdi \
                --states relative:delay=-60..60/12,window=-20..20/2";
    let summary = folder.good(&format!("{SHORT} {args}"));
    assert_eq!(said(&summary, "teacher"), "verus:r=2");
    let states = "231 (relative:delay=-60..60/12,window=-20..20/2)";
    assert_eq!(said(&summary, "states"), states);
    // Two traces, four flows each, 2000 epochs without the first round trip.
    let samples = number(said(&summary, "samples"));
    assert!((15_700..=15_940).contains(&samples), "{samples}");
    let transitions = number(said(&summary, "transitions"));
    assert!(transitions > samples / 2 && transitions < samples, "{transitions}");
    assert!(said(&summary, "samples").contains("(users 1: 39"), "{summary}");
    let bytes = fs::metadata(folder.path("verus.mdi")).unwrap().len();
    assert!(said(&summary, "verus.mdi:").starts_with(&format!("{bytes} bytes, ")), "{summary}");
    assert_eq!(folder.names(), ["verus.mdi"]);
}

#[test]
fn the_same_command_gives_the_same_bytes_every_time() {
    let folder = Folder::new();
    for name in ["a", "b", "c"] {
        let args = "--trace random:2mbit..20mbit/1s --users 2,1 --loss 0.5% --seed 9";
        for ending in ["mdi", "csv"] {
            folder.good(&format!("{SHORT} {args} -o {name}.{ending}"));
        }
    }
    for other in ["b", "c"] {
        assert!(folder.read(&format!("{other}.mdi")) == folder.read("a.mdi"), "{other}");
        assert!(folder.read(&format!("{other}.csv")) == folder.read("a.csv"), "{other}");
    }
    for seed in [8, 9] {
        folder.good(&format!("{SHORT} --users 1 --seed {seed} -o {seed}.csv"));
    }
    assert!(folder.read("8.csv") != folder.read("9.csv"), "the seed matters");
}

#[test]
fn saved_samples_teach_the_same() {
    let folder = Folder::new();
    let direct = folder.good(&format!("{SHORT} --users 1,2 --states absolute:bin=5ms -o a.mdi"));
    folder.good(&format!("{SHORT} --users 1,2 -o s.csv"));
    let csv = String::from_utf8(folder.read("s.csv")).unwrap();
    assert!(csv.starts_with("chain,users,delay_ms,window_pkts,sent\n0,1,"), "{}", &csv[..99]);
    let convert = "mdi convert s.csv --teacher verus:r=2 --states absolute:bin=5ms -o b.mdi";
    let read = folder.good(convert);
    for what in ["samples", "states", "transitions", "cells"] {
        assert_eq!(said(&read, what), said(&direct, what));
    }
    let cells = |name| {
        folder.good(&format!("mdi convert {name}.mdi -o {name}.json"));
        let model: serde_json::Value =
            serde_json::from_slice(&folder.read(&format!("{name}.json"))).unwrap();
        (model["states"].clone(), model["parts"].clone())
    };
    assert!(cells("a") == cells("b"));
}

#[test]
fn a_worked_example_of_samples_is_counted() {
    let rows = "0,1,20,1,1\n0,1,20,1,1\n0,1,21,1,2\n0,1,20,1,1\n1,1,20,1,2\n";
    let text = format!("chain,users,delay_ms,window_pkts,sent\n{rows}");
    let folder = Folder::with("hand.csv", text);
    let args = "mdi convert hand.csv --teacher myphone --states absolute:bin=1ms -o hand.mdi";
    let summary = folder.good(args);
    assert_eq!(said(&summary, "teacher"), "myphone");
    assert_eq!(said(&summary, "samples"), "5 (users 1: 5)");
    let states = "4 (absolute:delay=20..21/1,window=1..2/1)";
    assert_eq!(said(&summary, "states"), states);
    assert_eq!(said(&summary, "transitions"), "3 (100.00 % of 3 lie within the ranges)");
    assert_eq!(said(&summary, "cells"), "3");
}

#[test]
fn merging_gives_what_training_on_everything_gives() {
    let folder = Folder::new();
    let all = folder.good(&format!("{SHORT} --users 1,2 -o all.mdi"));
    // `231 (levels:delay=...,window=...)`
    let states = said(&all, "states").split(['(', ')']).nth(1).unwrap().to_owned();
    let alone = |users: u32, name: &str| {
        folder.good(&format!("{SHORT} --users {users} --states {states} -o {name}.mdi"));
    };
    alone(1, "one");
    alone(2, "two");
    let summary = folder.good("mdi merge two.mdi one.mdi -o both.mdi");
    assert!(summary.starts_with("2 models of verus:r=2: "), "{summary}");
    assert!(folder.read("both.mdi") == folder.read("all.mdi"));
    alone(3, "three");
    folder.good("mdi merge one.mdi two.mdi three.mdi -o abc.mdi");
    folder.good("mdi merge three.mdi two.mdi one.mdi -o cba.mdi");
    assert!(folder.read("abc.mdi") == folder.read("cba.mdi"), "the order does not matter");
}

#[test]
fn what_does_not_fit_is_not_merged() {
    let folder = Folder::new();
    folder.good(&format!("{SHORT} --users 1 --states levels:delay=-9..9/3 -o a.mdi"));
    folder.good(&format!("{SHORT} --users 1 --states levels:delay=-8..8/2 -o b.mdi"));
    folder.refused("mdi merge a.mdi b.mdi -o c.mdi", "a.mdi and b.mdi: their states differ");
    folder.refused("mdi merge a.mdi -o c.mdi", "--help");
    folder.refused("mdi merge a.mdi none.mdi -o c.mdi", "no file `none.mdi`");
    folder.write("junk.mdi", "junk");
    folder.refused("mdi merge a.mdi junk.mdi -o c.mdi", "junk.mdi: ");
    assert!(!folder.path("c.mdi").exists());
}

#[test]
fn a_chain_that_rejoins_learns_what_follows_a_collapse() {
    let folder = Folder::new();
    let transitions = |rejoin: &str| {
        // Alone on a profile with outages Verus is down to one packet early on.
        let train = "mdi train --cc verus:r=2 --trace umts-driving --users 1 -o o.mdi \
                     --states levels:delay=0..1.4/0.01,window=-30..30/3";
        let summary = folder.good(&format!("{train}{rejoin}"));
        said(&summary, "transitions").split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let (never, late, soon) =
        (transitions(""), transitions(",rejoin=10s"), transitions(",rejoin=160ms"));
    assert!(never < late && late < soon, "{never} {late} {soon}");
    assert!(soon > 4 * never, "{never} {soon}");
    assert!(folder.good("mdi show o.mdi").contains("--acks every --rejoin 160ms\n"));
    // An epoch that has begun counts as a whole one.
    assert_eq!(transitions(",rejoin=156ms"), soon);
    assert_ne!(transitions(",rejoin=155ms"), soon);
}

#[test]
fn wrong_usage_is_refused_before_the_work() {
    let folder = Folder::with("short.csv", "chain,users,delay_ms,window_pkts,sent\n0,1,20\n");
    let train = "mdi train --cc verus --trace lte-driving";
    let cases = [
        ("mdi train --cc veru --trace lte-driving", "--cc: there is no controller `veru`"),
        ("mdi train --cc verus", "--trace"),
        ("mdi train --trace lte-driving", "--help"),
        (&format!("{train} --trace lte-driving"), "--trace: `lte-driving` is given twice"),
        ("mdi train --cc verus --trace lte-drivin", "--trace: "),
        (&format!("{train} --users 0"), "write a whole number from 1 to 256"),
        (&format!("{train} --users 1,1000"), "write a whole number from 1 to 256"),
        (&format!("{train} --users 2,2"), "--users: `2` is given twice"),
        (&format!("{train} --users -1"), "--help"),
        (&format!("{train} --loss 100%"), "when every packet is lost, nothing arrives"),
        (&format!("{train} --duration 0s"), "duration is 0 s"),
        (&format!("{train} --duration 24h --users 8"), "samples are more than the 50000000"),
        (&format!("{train} --states levels:delay=5..1/1"), "the lower end lies above"),
        (&format!("{train} --states levels:window=5"), "`5`: not a range"),
        (&format!("{train} --states absolute:bin=1.5ms"), "whole milliseconds"),
        (&format!("{train} --states other"), "the states are `levels`, `relative` or `absolute`"),
        (&format!("{train} --states levels:rejoin=61s"), "at most 60s"),
        ("mdi convert none.csv --teacher phone", "no file `none.csv`"),
        ("mdi convert short.csv --teacher phone", "short.csv:2: window_pkts: is missing"),
        ("mdi convert short.csv", "--teacher: "),
    ];
    for (args, said) in cases {
        folder.refused(&format!("{args} -o o.mdi"), said);
    }
    folder.refused(&format!("{SHORT} -o no/o.mdi"), "no/o.mdi: no such folder");
    folder.refused(&format!("{SHORT} -o ."), ".: is a folder");
    folder.refused(&format!("{SHORT} -o -"), "--output: a table needs a file");
    assert_eq!(folder.names(), ["short.csv"]);
}

#[test]
fn samples_without_a_transition_are_no_lesson() {
    let folder = Folder::with("empty.csv", "chain,users,delay_ms,window_pkts,sent\n");
    let outcome = folder.run("mdi convert empty.csv --teacher phone -o o.mdi");
    outcome.complains(2, "empty.csv: there are no samples");
    assert!(!folder.path("o.mdi").exists());
}

#[test]
fn ctrl_c_ends_training_without_a_model() {
    let folder = Folder::new();
    let child = folder
        .start("mdi train --cc cubic --trace constant:500mbit --duration 10h --users 1 -o o.mdi");
    std::thread::sleep(std::time::Duration::from_millis(500));
    signal(&child, "INT");
    let outcome = program::ended(child);
    outcome.complains(130, "interrupted; nothing is saved");
    assert_eq!(folder.names(), [""; 0]);
}

/// The first lines of the help's examples.
#[test]
fn the_table_of_the_examples_becomes_json_csv_and_flat() {
    let folder = Folder::new();
    folder.good("mdi train --cc verus --trace lte-driving -o verus.mdi");
    folder.good("mdi convert verus.mdi -o verus.json");
    folder.good("mdi convert verus.mdi --users 2 -o matrix.csv");
    folder.good("mdi convert verus.mdi --rules empty=paper -o verus.flat");
    let show = folder.good("mdi show verus.mdi");
    let matrix = String::from_utf8(folder.read("matrix.csv")).unwrap();
    let rows = matrix.lines().count();
    assert!(show.contains(&format!("{rows}")), "{rows} rows:\n{show}");
    assert_eq!(matrix.lines().next().unwrap().split(',').count(), rows, "it is a square");
    let file = fs::File::open(folder.path("verus.mdi")).unwrap();
    let piped = folder.command(["mdi", "show", "-"]).stdin(file).output().unwrap();
    let piped = String::from_utf8(piped.stdout).unwrap();
    let states =
        |text: &str| text.lines().find(|line| line.contains(" states ")).map(str::to_owned);
    assert!(states(&show).is_some() && states(&piped) == states(&show), "{piped}");
    folder.good("mdi train --cc verus --trace lte-driving -o samples.csv");
    let states = "--states levels:rejoin=160ms";
    folder.good(&format!("mdi convert samples.csv --teacher verus {states} -o again.mdi"));
}
