//! `cellpace mdi show` and `cellpace mdi convert`, run as users run them.

use crate::program::{Folder, number};
use cellpace_mdi::{
    About, Absolute, Axis, Counts, Model, ModelPart, Relative, States, TraceName, TransitionCount,
};

fn part(users: u32, cells: &[(u32, u32, u64)]) -> ModelPart {
    let cell = |&(from, to, count): &(u32, u32, u64)| TransitionCount { from, to, count };
    let counts = Counts::from_cells(cells.iter().map(cell).collect());
    ModelPart { users, samples: 100, counts }
}

fn about() -> About {
    let trace = |name: &str| TraceName { name: name.into(), sha256: [0xab; 32] };
    About {
        teacher: "verus:r=2".into(),
        traces: vec![trace("channel00"), trace("channel01")],
        scenario: "--rtt 20ms".into(),
        seed: 7,
        epoch_us: 5000,
    }
}

/// Two delay changes by three window changes.
fn relative() -> Model {
    let axis = |name, max: i64| Axis::new(name, 0, max, 1000).unwrap();
    Model {
        about: about(),
        states: States::Relative(Relative { d: axis("delay", 1000), w: axis("window", 2000) }),
        parts: vec![part(1, &[(0, 0, 3), (0, 1, 1), (1, 0, 2)]), part(2, &[(0, 5, 4), (5, 0, 4)])],
    }
}

/// The size of the paper's training with one user.
fn paper() -> Model {
    let states = Absolute { d_min: 20, d_max: 727, quantization: 1, w_min: 0, w_max: 35 };
    let near = |i: u32| (i * 7919 % 25_000, i * 7919 % 25_000 + i % 40, 1 + u64::from(i % 3));
    let cells: Vec<(u32, u32, u64)> = (0..20_000).map(near).collect();
    Model { about: about(), states: States::Absolute(states), parts: vec![part(1, &cells)] }
}

fn folder(model: &Model) -> Folder {
    Folder::with("t.mdi", model.to_bytes())
}

#[test]
fn figures_are_told_in_words() {
    let told = folder(&relative()).good("mdi show t.mdi");
    for line in [
        "Markov table of verus:r=2",
        "table        t.mdi",
        "teacher      verus:r=2",
        "learnt on    channel00, channel01",
        "users        1 (100 samples), 2 (100 samples)",
        "states       6, relative:delay=0..1/1,window=0..2/1",
        "transitions  14",
        "cells        5 of 6 x 6 (13.9 %)",
        "unseen rows  3 of 6 (50 %)",
        "subsets      12: 66.7 % empty, 25 % with one window",
    ] {
        assert!(told.lines().any(|told| told.trim() == line), "{line}\n{told}");
    }
}

#[test]
fn figures_are_told_as_json() {
    let folder = folder(&relative());
    let told = folder.json("mdi show t.mdi --users 1");
    assert_eq!(told["schema"], "cellpace.mdi.show/2");
    assert_eq!((&told["states"]["size"], &told["states"]["kind"]), (&6.into(), &"relative".into()));
    assert_eq!(
        (&told["cells"], &told["transitions"], &told["unseen_rows"]),
        (&3.into(), &6.into(), &4.into())
    );
    assert_eq!(told["most_used"][0]["transitions"], 4);
    assert_eq!(told["most_used"][1]["window"], 1.0);
    assert_eq!(told["parts"].as_array().unwrap().len(), 1);
    assert_eq!(told["about"]["traces"][0]["sha256"], "ab".repeat(32));
    // 0 goes to 1 with 1/4, 1 back to 0 always, and nothing leads to the others.
    assert_eq!(told["stationary"]["most_likely"][0]["state"], 0);
    assert!((number(&told, "/stationary/most_likely/0/share") - 0.8).abs() < 1e-9);
    assert!((number(&told, "/stationary/most_likely/1/share") - 0.2).abs() < 1e-9);
    let both = folder.json("mdi show t.mdi --users all");
    assert_eq!(both["transitions"], 14);
}

/// Maps that the page draws; browser tests look at the drawing.
fn maps(html: &str) -> usize {
    html.matches("\"rows\":{\"title\"").count()
}

#[test]
fn pictures_are_drawn_on_the_page() {
    let folder = folder(&paper());
    folder.good("mdi show t.mdi --report a.html");
    let html = String::from_utf8(folder.read("a.html")).unwrap();
    assert!(html.contains("verus:r=2: transitions among delays 20 ms to 29 ms"));
    assert!(html.contains("Zoom: the delay stays at 2"));
    // The ten delays, the zoom, the whole, and the stationary distribution.
    assert_eq!(maps(&html), 4);
    assert!(html.contains("\"len\":25488"), "the whole has all states");
    assert!(html.contains("<title>Markov table of verus:r=2</title>"));
    assert!(!html.contains("White"), "in the dark it is not");
}

#[test]
fn a_small_matrix_is_drawn_whole() {
    let html = folder(&relative());
    html.good("mdi show t.mdi --report t.html");
    let html = String::from_utf8(html.read("t.html")).unwrap();
    assert_eq!(maps(&html), 3);
}

#[test]
fn json_loses_nothing() {
    let folder = folder(&relative());
    let convert = |users: &str| {
        folder.good(&format!("mdi convert t.mdi --users {users} -o t.json"));
        serde_json::from_slice::<serde_json::Value>(&folder.read("t.json")).unwrap()
    };
    let all = convert("all");
    assert_eq!(all["schema"], "cellpace.mdi.model/1");
    assert_eq!(all["about"]["seed"], 7);
    assert_eq!(all["states"]["window_change"]["values"], 3);
    let parts = serde_json::json!([
        { "users": 1, "samples": 100, "cells": [[0, 0, 3], [0, 1, 1], [1, 0, 2]] },
        { "users": 2, "samples": 100, "cells": [[0, 5, 4], [5, 0, 4]] },
    ]);
    assert_eq!(all["parts"], parts);
    assert_eq!(convert("2")["parts"], serde_json::json!([parts[1]]));
}

#[test]
fn csv_is_the_published_layout_and_reads_back() {
    let folder = folder(&relative());
    folder.good("mdi convert t.mdi --users 1 -o m.csv");
    let zeros = "0,0,0,0,0,0\n".repeat(4);
    let expected = format!("3,0,2,1,2,0,1,1\n0.75,0.25,0,0,0,0\n1,0,0,0,0,0\n{zeros}");
    assert_eq!(String::from_utf8(folder.read("m.csv")).unwrap(), expected);
    folder.good("mdi convert m.csv -o m.mdi");
    let told = folder.json("mdi show m.mdi");
    assert_eq!((&told["cells"], &told["unseen_rows"]), (&3.into(), &4.into()));
    assert_eq!(told["parts"][0]["users"], 0);
    folder.good("mdi convert m.mdi -o n.csv");
    assert!(folder.read("n.csv") == folder.read("m.csv"));
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let folder = folder(&paper());
    folder.refused("mdi show missing.mdi", "no file `missing.mdi`");
    folder.refused("mdi show t.mdi --users 3", "--users 3: this table has no such part; it has 1");
    folder.refused("mdi show t.mdi --users some", "give `all` or a number");
    folder.refused("mdi convert t.mdi -o t.txt", "ends with .json, .csv, .flat or .mdi");
    folder.refused("mdi convert t.mdi -o t.json --rules empty=paper", "--rules is for");
    let outcome = folder.run("mdi convert t.mdi -o t.csv");
    outcome.complains(1, "25488 x 25488 numbers is too large for CSV");
    assert_eq!(folder.names(), ["t.mdi"]);
}

#[test]
fn a_table_whose_texts_a_terminal_would_obey_is_refused() {
    let title = "\u{1b}]0;title\u{7}";
    let abouts = [
        About { teacher: title.into(), ..about() },
        About { scenario: format!("a\nteacher   {title}"), ..about() },
        About { traces: vec![TraceName { name: title.into(), sha256: [1; 32] }], ..about() },
    ];
    for (about, field) in abouts.into_iter().zip(["teacher", "scenario", "name of a trace"]) {
        let folder = folder(&Model { about, ..relative() });
        folder.refused("mdi show t.mdi", &format!("the {field} has a control character in it"));
    }
}

#[test]
fn damaged_files_say_what_is_wrong_with_them() {
    let whole = relative().to_bytes();
    let folder = Folder::new();
    for (name, bytes, said) in [
        ("empty", &b""[..], "empty: not a Markov table"),
        ("text", b"hello", "text: not a Markov table"),
        ("short", &whole[..60], "short: truncated at byte 60"),
        ("future", b"CELLMDI\n\x07\0", "future: version 7; this program reads 1"),
    ] {
        folder.write(name, bytes);
        folder.refused(&format!("mdi show {name}"), said);
        folder.refused(&format!("mdi convert {name} -o t.json"), said);
    }
    let mut flipped = whole;
    flipped[50] ^= 1;
    folder.write("flipped", &flipped);
    folder.refused("mdi show flipped", "flipped: damaged: the checksum is");
    folder.refused("mdi show .", "this is a folder, not a file");
    folder.write("m.csv", "1,2,3\n");
    folder.refused("mdi convert m.csv -o m.mdi", "m.csv: line 1: 3 fields, and not 8");
    folder.refused("mdi show m.csv", "`cellpace mdi convert` makes one of CSV");
}

/// The layout of the 2021 code becomes a table.
#[test]
fn a_matrix_in_csv_is_a_controller() {
    let folder = Folder::new();
    let rows = "0,0,0,1,0,0,0,0,0\n".repeat(9);
    folder.write("verus.csv", format!("3,-2,2,2,3,-2,2,2\n{rows}"));
    folder.good("mdi convert verus.csv -o verus.mdi");
    let compare = "compare --trace constant:5mbit --duration 5s --cc mdi:model=verus.mdi";
    let run = folder.first_run(compare);
    assert!(number(&run, "/utilization") > 0.1, "{run}");
    folder.write("verus.csv", "3,-2,2,2,3,-2,2,2\n0,0\n");
    folder.refused("mdi convert verus.csv -o verus.mdi", "verus.csv: line 2");
}
