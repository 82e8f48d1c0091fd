//! Real programs with something that breaks at a random moment, and what must be true afterwards: every
//! byte that arrived is right, what is missing was reported, what should go on does, and nothing is
//! left behind. Everything in a case follows from its seed; `./dev torture 0 --seed N` repeats one.
//!
//! Needs root, for namespaces; says so otherwise.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod case;
mod ground;
#[path = "../it/program/mod.rs"]
#[allow(dead_code, reason = "the other tests use all of it")]
mod program;
mod scene;
mod soak;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use case::Case;
use scene::Tally;

/// How many cases go on at once: they mostly wait.
const LANES: usize = 3;

/// A number that the environment may set.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number: {text}"))
    })
}

/// Whether namespaces, devices in them, and the programs of the cases can be had; says so if not.
fn possible() -> bool {
    if !program::links::is_root() {
        cellpace_testing::skip("breaking things takes root");
        return false;
    }
    if Command::new("nft").arg("--version").output().is_err() {
        cellpace_testing::skip("no nft: no black hole for large packets");
        return false;
    }
    let name = format!("ct{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &name]).output();
    if !made.is_ok_and(|output| output.status.success()) {
        cellpace_testing::skip("no network namespaces by `ip netns`");
        return false;
    }
    let _ = Command::new("ip").args(["netns", "del", &name]).status();
    program::guinea::can_run() && program::links::possible()
}

/// The library by which a program sees another wall clock. The machine's own is never touched.
fn clock() -> Option<PathBuf> {
    let folders =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let mut paths =
        folders.iter().map(|path| PathBuf::from(path).join("faketime/libfaketime.so.1"));
    paths.find(|path| path.exists())
}

/// What the cases of a subject and a fault came to.
#[derive(Default)]
struct Row {
    cases: u32,
    skipped: u32,
    tally: Tally,
}

type Rows = BTreeMap<(&'static str, String), Row>;

#[test]
#[ignore = "a minute, and real time: ./dev torture, ./dev test"]
fn whatever_breaks_nothing_is_lost_without_a_word() {
    if !possible() {
        return;
    }
    let seconds = setting("CELLPACE_TORTURE_SECONDS", 60);
    let first = setting("CELLPACE_TORTURE_SEED", 1);
    let clock = clock();
    let until = Instant::now() + Duration::from_secs(seconds);
    let (next, rows, failures) = (AtomicU64::new(first), Mutex::default(), Mutex::default());
    let lanes = if seconds == 0 { 1 } else { LANES };
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let case = Case::of(next.fetch_add(1, Ordering::Relaxed));
                    play(&case, clock.as_deref(), &rows, &failures);
                    if Instant::now() >= until {
                        return;
                    }
                }
            });
        }
    });
    print(&rows.into_inner().unwrap());
    let failures: Vec<String> = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn play(
    case: &Case,
    clock: Option<&std::path::Path>,
    rows: &Mutex<Rows>,
    failures: &Mutex<Vec<String>>,
) {
    let played = catch_unwind(AssertUnwindSafe(|| scene::play(case, clock)));
    let outcome = played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let failures = vec![text.unwrap_or_else(|| "it panicked".to_owned())];
        scene::Outcome { tally: Tally::default(), failures, skipped: None }
    });
    let Tally { whole, cut, short, .. } = outcome.tally;
    let end = match &outcome.skipped {
        Some(why) => format!("skipped: {why}"),
        None => format!("{whole} whole, {cut} cut, {short} short"),
    };
    println!("{case}: {end}{}", if outcome.failures.is_empty() { "" } else { " FAILED" });
    let mut rows = rows.lock().unwrap();
    let row = rows.entry((case.subject.name(), case.fault.to_string())).or_default();
    row.cases += 1;
    row.skipped += u32::from(outcome.skipped.is_some());
    row.tally.add(outcome.tally);
    let mut failures = failures.lock().unwrap();
    failures.extend(
        outcome
            .failures
            .into_iter()
            .map(|what| format!("{case}\n  {what}\n  again: ./dev torture 0 --seed {}", case.seed)),
    );
}

/// The table of a run, which docs/validation/faults.md sums up.
fn print(rows: &Rows) {
    println!(
        "| command | fault | cases | transfers whole | cut, and reported | ended early in order |"
    );
    println!("|---|---|---|---|---|---|");
    for ((subject, fault), Row { cases, skipped, tally }) in rows {
        let played = cases - skipped;
        let Tally { whole, cut, short, .. } = tally;
        println!("| {subject} | {fault} | {played} | {whole} | {cut} | {short} |");
    }
}
