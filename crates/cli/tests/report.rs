//! `cellpace report`, run as users run it.

#![allow(clippy::unwrap_used)]

mod program;

use std::io::Write;
use std::process::Stdio;

use program::{Folder, Outcome};

const COMPARE: &str = "compare --trace constant:5mbit --duration 4s --cc verus --cc cubic";

fn text(folder: &Folder, name: &str) -> String {
    String::from_utf8(folder.read(name)).unwrap()
}

fn title(page: &str) -> &str {
    page.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0
}

#[test]
fn the_page_of_a_stored_result_is_the_page_that_its_command_made() {
    let folder = Folder::with(
        "s.toml",
        "duration = \"4s\"\ntrace = \"constant:5mbit\"\n[[flow]]\ncc = \"cubic\"\ncount = 2\n",
    );
    for command in [COMPARE, "sim s.toml"] {
        folder.good(&format!("{command} --json a.json --report a.html"));
        folder.good("report a.json -o b.html");
        let page = text(&folder, "a.html");
        assert!(page == text(&folder, "b.html"), "{command}");
        assert!(page.len() < 1_500_000 && !title(&page).is_empty(), "{command}");
        assert!(page.contains(&format!("cellpace {command}")), "the page says what made it");
        // Also without a page of its own a result has its series.
        folder.good(&format!("{command} --json c.json"));
        assert!(folder.read("a.json") == folder.read("c.json"), "{command}");
    }
}

#[test]
fn the_sentence_of_the_page_is_that_of_the_table() {
    let folder = Folder::new();
    let table = folder.good(&format!("{COMPARE} --report a.html"));
    let sentence = table.lines().rev().find(|line| line.starts_with("On ")).unwrap();
    assert!(sentence.contains("95 % of the packets"), "{sentence}");
    let page = text(&folder, "a.html");
    assert!(page.contains(&format!("<p id=\"sentence\">{sentence}</p>")), "{sentence}");
    assert_eq!(title(&page), "constant:5mbit: 2 controllers");
    assert!(table.starts_with("constant:5mbit, RTT 40 ms, queue droptail:2MB, 4 s"), "{table}");
}

#[test]
fn results_stand_side_by_side_under_the_names_of_their_files() {
    let folder = Folder::new();
    folder.good(&format!("{COMPARE} --json old.json"));
    folder.good(&format!("{COMPARE} --json new.json"));
    folder.good("report old.json new.json -o both.html");
    let page = text(&folder, "both.html");
    assert!(page.contains("\"cubic\"") && page.contains("\"cubic (new)\""));
    assert_eq!(title(&page), "constant:5mbit: 4 controllers");
}

#[test]
fn standard_input_and_output_are_dashes() {
    let folder = Folder::new();
    let json = folder.good(&format!("{COMPARE} --json -"));
    let mut command = folder.command(["report", "-", "-o", "-"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(json.as_bytes()).unwrap();
    let outcome = Outcome::of(child.wait_with_output().unwrap());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("<!doctype html>") && outcome.stdout.ends_with("</html>\n"));
    folder.refused("report - - -o a.html", "standard input is one result; give it once");
}

#[test]
fn what_is_no_result_is_refused_by_name_and_nothing_is_written() {
    let folder = Folder::new();
    let json = folder.good(&format!("{COMPARE} --json -"));
    for (name, content, said) in [
        ("empty.json", "", "empty.json: is empty: there is no result"),
        ("cut.json", &json[..json.len() / 2], "cut.json: ends in the middle of a result (line "),
        ("text.json", "hello", "text.json: not JSON: expected value at line 1 column 1"),
        ("list.json", "[1, 2]", "list.json: no result of cellpace: it has no field `schema`"),
        ("other.json", "{\"schema\": \"x/1\"}", "other.json: a result of the kind `x/1`, of which"),
        (
            "future.json",
            "{\"schema\": \"cellpace.compare/9\"}",
            "future.json: a result of the kind `cellpace.compare/9`, of which there is no page",
        ),
        (
            "wrong.json",
            "{\"schema\": \"cellpace.transfer/1\", \"role\": 5}",
            "wrong.json: does not fit its schema cellpace.transfer/1: invalid type",
        ),
        (
            "mixed.json",
            "{\"schema\": \"cellpace.run/1\"}\n{\"schema\": \"cellpace.attach/1\"}",
            "mixed.json: has lines of another kind than the first",
        ),
    ] {
        folder.write(name, content);
        folder.refused(&format!("report {name} -o a.html"), said);
    }
    folder.write("bytes.json", b"\xff\xfe\x00");
    folder.refused("report bytes.json -o a.html", "bytes.json: not text: no result of cellpace");
    folder.refused("report gone.json -o a.html", "gone.json: no such file");
    folder.refused("report . -o a.html", ".: is a folder, not a result");
    folder.refused("report empty.json -o gone/a.html", "gone/a.html: no such folder");
    folder.refused("report -o a.html", "required arguments were not provided");
    folder.refused("report empty.json", "--output <FILE.html>");
    assert!(!folder.names().contains(&"a.html".to_owned()));
}
