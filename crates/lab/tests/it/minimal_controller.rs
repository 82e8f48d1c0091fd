//! `examples/minimal_controller`, a crate outside of this workspace: built, run, and shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::{Assert, Data};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
#[ignore = "builds the library anew, two minutes; part of ./dev test --all"]
fn a_controller_of_another_crate_is_compared_with_verus() {
    let example = root().join("examples/minimal_controller");
    // The versions that the workspace has, which need no network.
    fs::copy(root().join("Cargo.lock"), example.join("Cargo.lock")).unwrap();
    // Beside what the workspace has built, so that most of it is used again.
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let run = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline"])
        .current_dir(&example)
        .env("CARGO_TARGET_DIR", built)
        .output()
        .unwrap();
    let [text, errors] = [run.stdout, run.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(run.status.success(), "{errors}");
    for part in ["halving", "verus", "lte-driving", "umts-driving"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    is_shown(&example, &text);
}

/// The tutorial shows what was built, and what it wrote; `SNAPSHOTS=overwrite` writes it anew.
#[track_caller]
fn is_shown(example: &Path, output: &str) {
    let path = root().join("docs/tutorial/own-controller.md");
    let page = fs::read_to_string(&path).unwrap();
    let code = ["src/lib.rs", "src/main.rs"].map(|file| fs::read_to_string(example.join(file)));
    let mut shown = code.map(Result::unwrap).into_iter();
    let mut actual = String::new();
    for (index, part) in page.split("```").enumerate() {
        let language = part.lines().next().unwrap_or_default();
        actual += if index == 0 { "" } else { "```" };
        // Every second part is code.
        actual += &match (index % 2, language) {
            (1, "rust") => format!("rust\n{}", shown.next().expect("two files")),
            (1, "text") => format!("text\n{output}"),
            _ => part.to_owned(),
        };
    }
    let asserting = Assert::new().action_env(DEFAULT_ACTION_ENV);
    asserting.eq(Data::text(actual), Data::read_from(&path, None).raw());
}
