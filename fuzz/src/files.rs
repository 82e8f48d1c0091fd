//! Files that people hand to each other: policies, plans, results; and the paths of URLs.

use std::fs::File;
use std::io::{Seek, Write};
use std::panic::{self, AssertUnwindSafe, Location, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cellpace_base::{Random, Time};
use cellpace_cc::Setup;
use cellpace_cc::policy::PolicyModel;
use cellpace_lab::recorded::{read_recorded, read_recorded_capture};
use cellpace_lab::sweep::{PlanFiles, Sweep, SweepPlan};
use cellpace_report::{Document, csv, page};
use h3_server::Folder;
use tempfile::TempDir;

/// A policy's file, and the controller that it decides for.
pub fn policy(bytes: &[u8]) {
    let Ok(model) = PolicyModel::from_bytes(bytes) else { return };
    assert!(model.rules().check().is_ok());
    let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 1) };
    let controller = Arc::new(model).build(setup);
    assert!(controller.cwnd() > 0);
}

/// A plan of a sweep, and its first and last cell.
pub fn sweep(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(plan) = SweepPlan::from_toml("fuzz", text) else { return };
    let again = SweepPlan::from_json("again", &plan.canonical());
    assert_eq!(again.map(|plan| plan.canonical()).ok(), Some(plan.canonical()));
    let Ok(sweep) = Sweep::new(plan, PlanFiles::given([])) else { return };
    for number in [0, sweep.cells() - 1] {
        assert!(!sweep.id(number).is_empty());
        assert!(sweep.estimate_s(number) >= 0.0);
    }
}

/// A result in JSON or what others recorded, and the page and the table made of it.
pub fn document(bytes: &[u8]) {
    if let Ok(document) = read_recorded_capture("fuzz", bytes) {
        show(document);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(document) = Document::read("fuzz", text) {
        show(document);
    }
    if let Some(Ok(document)) = read_recorded("fuzz", text) {
        show(document);
    }
}

/// A result in Parquet, which only files hold.
pub fn parquet(bytes: &[u8]) {
    let mut file: File = tempfile::tempfile().expect("there is room for a file");
    file.write_all(bytes).and_then(|()| file.rewind()).expect("there is room for it");
    if let Some(Ok(document)) = unless_the_decoder_panics(|| Document::read_parquet("fuzz", &file))
    {
        show(document);
    }
}

/// Commands take a panic of the decoder of Parquet for damage. One of our own is a finding.
fn unless_the_decoder_panics<T>(read: impl FnOnce() -> T) -> Option<T> {
    let of_decoder = |info: &PanicHookInfo<'_>| {
        let file = info.location().map_or("", Location::file);
        file.contains("/parquet-") || file.contains("/arrow-")
    };
    // The hook is the process's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let hook = Arc::new(panic::take_hook());
    let ours = Arc::new(AtomicBool::new(false));
    let (report, found) = (Arc::clone(&hook), Arc::clone(&ours));
    panic::set_hook(Box::new(move |info| {
        if !of_decoder(info) {
            found.store(true, Ordering::Relaxed);
            report(info);
        }
    }));
    let outcome = panic::catch_unwind(AssertUnwindSafe(read));
    drop(panic::take_hook());
    panic::set_hook(Arc::into_inner(hook).expect("the other one is dropped"));
    match outcome {
        Err(panic) if ours.load(Ordering::Relaxed) => panic::resume_unwind(panic),
        outcome => outcome.ok(),
    }
}

fn show(document: Document) {
    let documents = [document];
    if documents[0].check().is_err() {
        return;
    }
    if let Ok(page) = page(&documents) {
        assert!(page.starts_with("<!doctype html>"));
    }
    let _ = csv(&documents);
}

/// What a request of HTTP names of a folder with one file: that file, or nothing.
pub fn url_path(bytes: &[u8]) {
    static FOLDER: OnceLock<(TempDir, Folder)> = OnceLock::new();
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    let (_, folder) = FOLDER.get_or_init(|| {
        let place = tempfile::tempdir().expect("there is room for a folder");
        let inside = place.path().join("inside");
        std::fs::create_dir(&inside).expect("it is new");
        std::fs::write(inside.join("a b"), "inside").expect("there is room");
        std::fs::write(place.path().join("secret"), "outside the folder").expect("there is room");
        std::os::unix::fs::symlink("../secret", inside.join("out")).expect("it is new");
        let folder = Folder::open(&inside).expect("it was made just now");
        (place, folder)
    });
    if let Ok(found) = folder.find(path) {
        assert_eq!(found.size, "inside".len() as u64, "{path:?}");
    }
}
