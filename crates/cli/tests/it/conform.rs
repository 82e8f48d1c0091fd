//! `cellpace conform`, run as users run it: real servers over real time.

use std::process::Command;

use crate::program::links::{is_root, possible};
use crate::program::{Folder, Outcome};
use serde_json::Value;

/// Whether scenarios can be run here; says so if not.
fn can_run() -> bool {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    if !has_curl {
        cellpace_testing::skip("no curl for conform");
    }
    has_curl && possible()
}

/// `cellpace conform` with these words and `-- SERVER`, and its document.
fn conform(folder: &Folder, words: &str, server: &[&str]) -> (Outcome, Value) {
    let words = words.split_whitespace().chain(["--cc", "copa", "--json", "out.json"]);
    let server = ["--"].iter().chain(server).copied();
    let outcome = folder.run_args(words.chain(server));
    let document = match folder.names().contains(&"out.json".to_owned()) {
        true => serde_json::from_slice(&folder.read("out.json")).unwrap(),
        false => Value::Null,
    };
    (outcome, document)
}

fn value(document: &Value, scenario: usize, check: usize) -> f64 {
    document["scenarios"][scenario]["checks"][check]["value"].as_f64().unwrap()
}

#[test]
fn cubic_of_the_kernel_fills_a_deep_buffer_and_fails_by_that() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let words = "conform --kernel-cc cubic --only deep-buffer --report out.html";
    let (outcome, document) = conform(&folder, words, &[]);
    assert_eq!(outcome.code, Some(3), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("1 scenario in real time, about 13 s"), "{}", outcome.stderr);
    let scenario = &document["scenarios"][0];
    assert_eq!(
        (&document["server"], &document["kernel_cc"]),
        (&"TCP cubic".into(), &"cubic".into())
    );
    assert_eq!(scenario["verdict"], "fail");
    assert!(value(&document, 0, 0) > 300.0, "queue delay of Cubic: {scenario}");
    assert!(scenario["checks"][0]["reference"][0]["passed"].as_bool().unwrap(), "{scenario}");
    assert!(outcome.stdout.contains("it fails deep-buffer (queue delay p95"), "{}", outcome.stdout);
    let page = String::from_utf8(folder.read("out.html")).unwrap();
    assert!(page.contains("thirty BDP") && page.contains("ITU-T G.114"));
}

#[test]
fn a_server_of_files_is_found_where_it_listens() {
    if !can_run() || Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let folder = Folder::new();
    let serve = "exec python3 -m http.server 8123 --directory $CELLPACE_FILES";
    let (outcome, document) = conform(&folder, "conform --only slow-start", &["sh", "-c", serve]);
    assert!(matches!(outcome.code, Some(0 | 3)), "{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(document["server"], serve);
    assert!((0.0..60.0).contains(&value(&document, 0, 0)), "{document}");
    let measured = document["scenarios"][0]["measured"]["throughput_mbps"].as_array().unwrap();
    let most = measured.iter().filter_map(Value::as_f64).fold(0.0, f64::max);
    assert!(most > 5.0, "{most} Mbit/s");
}

#[test]
fn servers_and_clients_that_do_not_work_are_errors_that_say_why() {
    if !can_run() {
        return;
    }
    let folder = Folder::new();
    let says = |words: &str, server: &[&str], said: &str| {
        let (outcome, document) = conform(&folder, words, server);
        assert_eq!(outcome.code, Some(1), "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.stderr);
        document
    };
    says("conform --only steady", &["no-such-server"], "no-such-server");
    says(
        "conform --only steady",
        &["sh", "-c", "echo no key; exit 7"],
        "the server ended at once with exit code 7: no key",
    );
    let document = says("conform -v --only steady --client false", &[], "exit code 1");
    assert_eq!(document["scenarios"][0]["verdict"], "not-run");
    let document = says("conform -v --only steady --client true", &[], "the download was over");
    assert_eq!(document["scenarios"][0]["checks"][0]["value"], Value::Null);
    says("conform -v --only app-limited --client true", &[], "give a --paced-client");
}

#[test]
fn what_is_not_there_is_refused() {
    let folder = Folder::new();
    folder.refused("conform --only stedy", "there is no scenario `stedy`; did you mean steady?");
    folder.refused("conform --cc cupic", "--cc:");
    folder.refused("conform --cc copa --cc copa", "given twice");
    if can_run() && is_root() {
        folder
            .run("conform -q --kernel-cc nonsense --only steady")
            .complains(2, "`nonsense` cannot be used");
    }
}

#[test]
fn the_list_has_every_question_and_needs_nothing() {
    let folder = Folder::new();
    let list = folder.good("conform --list");
    for part in ["persistent-congestion", "12s, quick; RFC 9743, Protection Against Bufferbloat"] {
        assert!(list.contains(part), "{part}\n{list}");
    }
    let quick = folder.good("conform --list --quick");
    assert!(quick.lines().count() < list.lines().count() / 2 + 2, "{quick}");
}

/// Every scenario with both of the kernel's algorithms, which takes minutes.
#[test]
#[ignore = "ten minutes in real time"]
fn every_scenario_can_be_measured_under_cubic_and_bbr() {
    if !can_run() {
        return;
    }
    for cc in ["cubic", "bbr"] {
        let folder = Folder::new();
        let (outcome, document) = conform(&folder, &format!("conform --kernel-cc {cc}"), &[]);
        assert!(matches!(outcome.code, Some(0 | 3)), "{}{}", outcome.stdout, outcome.stderr);
        for scenario in document["scenarios"].as_array().unwrap() {
            assert_ne!(scenario["verdict"], "not-run", "{scenario}");
        }
    }
}
