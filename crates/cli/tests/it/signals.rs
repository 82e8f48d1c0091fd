//! Ctrl-C and SIGTERM end every command with the code that shells and service managers expect, and a
//! signal that the parent ignores stays ignored: background jobs of scripts, `nohup`.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::program::{Folder, ended, eventually, signal};

/// A command that runs until it is asked to end, and the codes after Ctrl-C and SIGTERM.
struct Case {
    args: &'static str,
    interrupted: i32,
    terminated: i32,
}

const fn case(args: &'static str, interrupted: i32, terminated: i32) -> Case {
    Case { args, interrupted, terminated }
}

const CASES: &[Case] = &[
    case("compare --trace constant:500mbit --cc cubic --duration 10h --jobs 1", 130, 143),
    case("sim scenario.toml", 130, 143),
    case(
        "mdi train --cc cubic --trace constant:500mbit --duration 10h --users 1 -o x.mdi",
        130,
        143,
    ),
    case("proxy --listen 127.0.0.1:0 --to 127.0.0.1:9", 130, 0),
];

/// Commands whose program, `sleep`, ends by the signal, and with it the command.
const LAUNCHERS: &[&str] = &["run -- sleep 60", "link --rtt 0ms -- sleep 60"];

const SCENARIO: &str = "trace = 'constant:500mbit'\nduration = '10h'\n[[flow]]\ncc = 'cubic'\n";

fn folder() -> Folder {
    Folder::with("scenario.toml", SCENARIO)
}

/// The signals with a handler, blocked (they come as events), or ignored, as bits from SIGHUP on.
fn mask(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or(":0");
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

const HUP: u64 = 1;
const INT: u64 = 1 << 1;
const TERM: u64 = 1 << 14;

/// Waits until a command handles SIGTERM.
fn await_handlers(child: &Child) {
    let handled = || mask(child.id(), "SigCgt") | mask(child.id(), "SigBlk");
    eventually("handling SIGTERM", || handled() & TERM != 0);
}

fn can_link() -> bool {
    let outcome = Folder::new().run("link -q --rtt 0ms -- true");
    if outcome.code != Some(0) {
        cellpace_testing::skip(outcome.stderr);
    }
    outcome.code == Some(0)
}

/// Starts a command as a shell does that ignores Ctrl-C and hangups.
fn start_ignoring(folder: &Folder, args: &str) -> Child {
    let mut shell = Command::new("sh");
    let line = format!("trap '' INT HUP; exec '{}' {args}", env!("CARGO_BIN_EXE_cellpace"));
    shell.args(["-c", &line]).current_dir(folder.path("")).stdin(Stdio::null());
    cellpace_testing::configured(&mut shell);
    shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn commands_that_are_asked_to_end_have_the_code_of_the_signal() {
    for Case { args, interrupted, terminated } in CASES {
        for (name, code) in [("INT", interrupted), ("TERM", terminated)] {
            let folder = folder();
            let child = folder.start(args);
            await_handlers(&child);
            signal(&child, name);
            let outcome = ended(child);
            assert_eq!(outcome.code, Some(*code), "{args} {name}: {}", outcome.stderr);
        }
    }
}

#[test]
fn commands_with_a_program_have_its_code() {
    let launchers = if can_link() { LAUNCHERS } else { &LAUNCHERS[..1] };
    for args in launchers {
        for (name, code) in [("INT", 130), ("TERM", 143)] {
            let folder = folder();
            let child = folder.start(args);
            await_handlers(&child);
            eventually("a program", || has_child(&child));
            signal(&child, name);
            let outcome = ended(child);
            assert_eq!(outcome.code, Some(code), "{args} {name}: {}", outcome.stderr);
        }
    }
}

/// Whether the last program that a launcher starts, `sleep`, runs.
fn has_child(launcher: &Child) -> bool {
    let mut processes = vec![launcher.id().to_string()];
    while let Some(process) = processes.pop() {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        if name.trim() == "sleep" {
            return true;
        }
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        processes.extend(children.unwrap_or_default().split_whitespace().map(str::to_owned));
    }
    false
}

#[test]
fn a_signal_that_the_parent_ignores_stays_ignored() {
    let launchers = if can_link() { LAUNCHERS } else { &LAUNCHERS[..1] };
    let codes = CASES.iter().map(|case| (case.args, case.terminated));
    for (args, code) in codes.chain(launchers.iter().map(|args| (*args, 143))) {
        let folder = folder();
        let child = start_ignoring(&folder, args);
        await_handlers(&child);
        if launchers.contains(&args) {
            eventually("a program", || has_child(&child));
        }
        let ignored = mask(child.id(), "SigIgn");
        assert_eq!(ignored & (INT | HUP), INT | HUP, "{args}");
        // They end nothing; a process that heeds them would end with another code.
        signal(&child, "INT");
        signal(&child, "HUP");
        signal(&child, "TERM");
        let outcome = ended(child);
        assert_eq!(outcome.code, Some(code), "{args}: {}", outcome.stderr);
    }
}
