//! What installs cellpace elsewhere: the README, the image recipe, hosted CI and `./dev` agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Instructions of the recipe, each with its arguments.
fn recipe() -> Vec<(String, String)> {
    let text = text("packaging/Containerfile");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (instruction, rest) = line.split_once(' ').unwrap();
            (instruction.to_owned(), rest.to_owned())
        })
        .collect()
}

/// Debian packages that `line` installs: the words after `from` that are no options.
fn packages<'a>(line: &'a str, from: &str) -> BTreeSet<&'a str> {
    let (_, words) = line.split_once(from).unwrap_or_else(|| panic!("no `{from}` in {line}"));
    let words = words.split(" ||").next().unwrap();
    words.split_whitespace().filter(|word| !word.starts_with('-')).collect()
}

#[test]
fn the_driver_takes_the_same_packages_everywhere() {
    let tools = text("scripts/tools.sh");
    let wanted =
        packages(tools.lines().find(|line| line.starts_with("bpf() {")).unwrap(), "packages");
    let workflow = text(".github/workflows/test.yml");
    let line = workflow.lines().find(|line| line.contains("apt-get install")).unwrap();
    assert_eq!(packages(line, "apt-get install"), wanted);
    let recipe = recipe();
    let (_, line) = recipe.iter().find(|(_, line)| line.contains("apt-get install")).unwrap();
    assert_eq!(packages(line, "apt-get install"), wanted);
    for page in ["README.md", "CONTRIBUTING.md"] {
        let page = text(page);
        assert!(wanted.iter().all(|package| page.contains(package)), "{wanted:?}");
    }
}

#[test]
fn the_image_is_installed_as_the_readme_says() {
    let recipe = recipe();
    let known = ["FROM", "RUN", "COPY", "WORKDIR", "ENTRYPOINT", "CMD"];
    assert!(recipe.iter().all(|(name, _)| known.contains(&name.as_str())), "{recipe:?}");
    let runs: Vec<_> = recipe.iter().filter(|(name, _)| name == "RUN").collect();
    let install = "cargo install --path crates/cli --locked";
    assert!(runs.iter().any(|(_, line)| line == &format!("{install} --root /usr/local")));
    assert!(text("README.md").contains(&format!("{install}\n")));
    let copied = recipe.iter().find(|(_, line)| line.starts_with("--from=build")).unwrap();
    assert!(copied.1.ends_with("/usr/local/bin/cellpace /usr/local/bin/cellpace"), "{copied:?}");
}

#[test]
fn hosted_ci_runs_what_everybody_runs() {
    let workflow = text(".github/workflows/test.yml");
    assert!(workflow.lines().any(|line| line.trim() == "- run: ./dev test"), "{workflow}");
}
