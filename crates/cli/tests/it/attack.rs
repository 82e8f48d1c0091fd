//! `cellpace attack`, run as users run it, and the scenarios that it found.

use std::fs;
use std::path::Path;

use crate::program::{Folder, number};

/// A small search over slow links.
const ATTACK: &str =
    "attack --cc vegas --rate 1mbit..4mbit --loss 0% --duration 15s --skip 3s --budget 60";

#[test]
fn a_find_is_a_scenario_that_shows_its_figure() {
    let folder = Folder::new();
    let said = folder.good(&format!("{ATTACK} -o worst.toml --json find.json"));
    assert!(said.ends_with("scenario: worst.toml\n"), "{said}");
    let find: serde_json::Value = serde_json::from_slice(&folder.read("find.json")).unwrap();
    assert_eq!(find["schema"], "cellpace.attack/1");
    let run = folder.first_run("sim worst.toml");
    assert_eq!(run["utilization"], find["shrunk"]["figure"]);
    // Without a file the scenario is what is printed, and the same on one core.
    let printed = folder.good(&format!("{ATTACK} --jobs 1"));
    let scenario = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    let written = String::from_utf8(folder.read("worst.toml")).unwrap();
    assert_eq!(scenario(&printed), scenario(&written));
    assert!(printed.starts_with("# cellpace attack --cc vegas --rate"), "{printed}");
}

#[test]
fn what_stands_on_top_of_a_find_says_whose_figure_it_is() {
    let folder = Folder::new();
    let by = |options: &str| folder.good(&format!("{ATTACK} {options}"));
    let delay = by("--worst delay --against copa");
    assert!(delay.contains("\n# vegas: p95 of the queue delay "), "{delay}");
    assert!(delay.contains(" ms; copa alone on the same path: "), "{delay}");
    let share = by("--worst fairness --against cubic");
    assert!(share.contains("\n# vegas: share beside cubic "), "{share}");
}

#[test]
fn a_rival_that_does_as_badly_is_no_find() {
    let folder = Folder::new();
    let outcome = folder.run(&format!("{ATTACK} --against vegas -o worst.toml"));
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("nothing is written"), "{}", outcome.stderr);
    assert!(!folder.path("worst.toml").exists());
}

/// The figure in the comment of a find, such as `# pace: utilization 34.1 %; ...`.
fn written_figure(text: &str) -> f64 {
    let line = text.lines().nth(1).unwrap();
    let claim = line.split(';').next().unwrap();
    let words: Vec<&str> = claim.split_whitespace().collect();
    words[words.len() - 2].parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn the_finds_of_the_page_show_the_figures_that_stand_in_them() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let folder = Folder::new();
    let mut finds = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("attack-") {
            continue;
        }
        finds += 1;
        let text = fs::read_to_string(&path).unwrap();
        folder.write("find.toml", &text);
        let run = folder.first_run("sim find.toml");
        let rate = |flow: usize| number(&run, &format!("/per_flow/{flow}/throughput_mbps"));
        let figure = match name.trim_end_matches(".toml").rsplit('-').next().unwrap() {
            "utilization" => 100.0 * number(&run, "/utilization"),
            "delay" => number(&run, "/queue_delay_ms/p95"),
            "fairness" => 100.0 * rate(0) / (rate(0) + rate(1)),
            other => panic!("{name}: {other}"),
        };
        assert!((figure - written_figure(&text)).abs() < 0.051, "{name}: {figure}\n{text}");
    }
    assert_eq!(finds, 15, "five controllers by three figures");
}
