//! Replays what fuzzers started from and what they found.

use std::fs;
use std::path::{Path, PathBuf};

fn files(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_input_of_the_corpora_is_read_or_refused() {
    for &(name, target) in crate::TARGETS {
        let files = files(name);
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            // Shown when the target panics.
            println!("{}", file.display());
            target(&fs::read(&file).unwrap());
        }
    }
}

/// A corpus of nothing but refused inputs would test little.
#[test]
fn the_corpora_hold_inputs_that_are_read() {
    let texts = |target: &str| -> Vec<String> {
        files(target).into_iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
    };
    let read = texts("controller")
        .iter()
        .filter(|text| text.parse::<cellpace_cc::ControllerSpec>().is_ok())
        .count();
    assert!(read >= cellpace_cc::registry().len(), "{read}");
    let mut none = cellpace_path::schedule::TraceFiles::none();
    let scenarios = texts("scenario")
        .iter()
        .filter(|text| cellpace_sim::Scenario::from_toml("corpus", text, &mut none).is_ok())
        .count();
    assert!(scenarios >= 3, "{scenarios}");
    let matrices = files("mdi_csv");
    let read = matrices
        .iter()
        .filter(|file| cellpace_mdi::Model::from_matrix_csv(&fs::read(file).unwrap()).is_ok());
    assert!(read.count() >= 2);
    let models = files("mdi_file");
    let read = models
        .iter()
        .filter(|file| cellpace_mdi::Model::from_bytes(&fs::read(file).unwrap()).is_ok());
    assert!(read.count() >= 3);
    let hellos = files("alcc_hello");
    let read =
        hellos.iter().filter(|file| cellpace_alcc::hello::decode(&fs::read(file).unwrap()).is_ok());
    assert!(read.count() >= 3);
    let headers = files("proxy_header");
    let read = headers.iter().filter(|file| {
        matches!(cellpace_proxy::proxy_header::parse(&fs::read(file).unwrap()), Ok(Some(_)))
    });
    assert!(read.count() >= 6);
}
