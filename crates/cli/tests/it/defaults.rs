//! One recommendation: commands that are told of no controller, the C interface, the Python package, the units and
//! the examples in pages and `--help` agree about it.

use std::fs;
use std::path::{Path, PathBuf};

use cellpace_cc::DEFAULT_CONTROLLER;

use crate::program::{Folder, names};

/// The commands that put traffic under one controller.
const COMMANDS: [&str; 4] = ["run", "proxy", "attach", "send"];
/// Examples that name a controller, and why: page and controller.
const NAMED: [(&str, &str, &str); 9] = [
    ("docs/how-to/run.md", "copa", "how another controller is named"),
    ("docs/how-to/run.md", "sprout", "needs both ends"),
    ("docs/how-to/proxy.md", "sprout", "needs both ends"),
    ("docs/how-to/transfer.md", "verus", "two controllers side by side"),
    ("docs/how-to/transfer.md", "sprout", "needs both ends"),
    ("docs/how-to/transfer.md", "scream:max_rate=4mbit", "for video"),
    ("docs/how-to/android.md", "mdi", "what the library for apps has"),
    ("docs/how-to/live-network.md", "", "a campaign that compares controllers"),
    ("docs/tutorial/nginx-cubic-copa.md", "", "two controllers over the same link"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The pages that show how something is done, from the root of the repository.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_owned(), "docs/kernel.md".to_owned()];
    for folder in ["docs/how-to", "docs/tutorial"] {
        let here = names(&root().join(folder)).into_iter().filter(|name| name.ends_with(".md"));
        found.extend(here.map(|name| format!("{folder}/{name}")));
    }
    found
}

/// The first controller that each command line of `cellpace run` and its kin in `text` names.
fn named(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for line in text.lines() {
        for (at, _) in line.match_indices("cellpace ") {
            let rest = &line[at + "cellpace ".len()..];
            let end = rest.find(['`', '#']).unwrap_or(rest.len());
            let command = &rest[..end];
            let is_one = COMMANDS.contains(&command.split(' ').next().unwrap_or_default());
            if let Some((_, after)) = command.split_once("--cc ").filter(|_| is_one) {
                found.push((line, after.split(' ').next().unwrap_or_default()));
            }
        }
    }
    found
}

#[test]
fn the_default_of_every_command_is_the_one_that_is_recommended() {
    for command in COMMANDS {
        let help = Folder::new().run_args([command, "--help"]).stdout;
        let expected = format!("[default: {DEFAULT_CONTROLLER}]");
        assert!(help.contains(&expected), "{command} --help does not say {expected}");
    }
    let header = text("crates/preload/include/cellpace.h");
    assert!(header.contains(&format!("The default is `{DEFAULT_CONTROLLER}`")), "cellpace.h");
    let send = text("python/cellpace/_send.py");
    assert!(send.contains(&format!("= \"{DEFAULT_CONTROLLER}\",")), "_send.py");
    let scenario = text("python/cellpace/_scenario.py");
    assert!(scenario.contains(&format!("[Flow(\"{DEFAULT_CONTROLLER}\")]")), "_scenario.py");
    let advice = Folder::new().run_args(["cc"]).stdout;
    let unknown = advice.lines().find(|line| line.trim_start().starts_with("not known"));
    assert!(unknown.is_some_and(|line| line.contains(DEFAULT_CONTROLLER)), "{advice}");
}

#[test]
fn examples_leave_the_controller_to_the_default() {
    for page in pages() {
        for (line, cc) in named(&text(&page)) {
            let excepted = NAMED
                .iter()
                .any(|(file, name, _)| *file == page && (name.is_empty() || *name == cc));
            assert!(cc == DEFAULT_CONTROLLER || excepted, "{page} names {cc}: {line}");
        }
    }
    for command in COMMANDS {
        let help = Folder::new().run_args([command, "--help"]).stdout;
        for (line, cc) in named(&help) {
            assert_eq!(cc, DEFAULT_CONTROLLER, "{command} --help: {line}");
        }
    }
}

#[test]
fn services_run_under_the_default() {
    let folder = root().join("packaging/systemd");
    let files: Vec<_> = names(&folder).into_iter().filter(|name| name != "README.md").collect();
    assert!(files.iter().any(|name| name.ends_with(".env")), "{files:?}");
    for name in files {
        let text = fs::read_to_string(folder.join(&name)).unwrap();
        for after in text.split("--cc ").skip(1) {
            assert_eq!(after.split_whitespace().next(), Some(DEFAULT_CONTROLLER), "{name}");
        }
    }
}

#[test]
fn every_exception_is_still_there() {
    for (page, cc, why) in NAMED {
        let text = text(page);
        let found = named(&text);
        assert!(found.iter().any(|(_, name)| cc.is_empty() || *name == cc), "{page}: {cc}, {why}");
    }
}
