//! `examples/minimal_controller`, a crate outside of this workspace: built, run, and shown.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn a_controller_of_another_crate_is_compared_with_verus() {
    let example = root().join("examples/minimal_controller");
    // The versions that the workspace has, which need no network.
    fs::copy(root().join("Cargo.lock"), example.join("Cargo.lock")).unwrap();
    // Beside what the workspace has built, so that most of it is used again.
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let run = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline"])
        .current_dir(example)
        .env("CARGO_TARGET_DIR", built)
        .output()
        .unwrap();
    let [text, errors] = [run.stdout, run.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(run.status.success(), "{errors}");
    for part in ["halving", "verus", "lte-driving", "umts-driving"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

/// What CONTRIBUTING.md shows is what is built.
#[test]
fn the_example_is_shown_as_it_is() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    for file in ["src/lib.rs", "src/main.rs"] {
        let code = fs::read_to_string(root().join("examples/minimal_controller").join(file));
        let block = format!("```rust\n{}```\n", code.unwrap());
        assert!(page.contains(&block), "CONTRIBUTING.md does not show {file} as it is");
    }
}
