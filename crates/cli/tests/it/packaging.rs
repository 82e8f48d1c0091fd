//! What installs cellpace elsewhere: the README, hosted CI, `./dev` and what a tag publishes agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
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
    for workflow in [".github/workflows/test.yml", ".github/workflows/release.yml"] {
        let workflow = text(workflow);
        let mut lines = workflow.lines().filter(|line| line.contains("apt-get install -y clang"));
        assert!(lines.all(|line| packages(line, "apt-get install") == wanted), "{workflow}");
    }
    for page in ["README.md", "CONTRIBUTING.md"] {
        let page = text(page);
        assert!(wanted.iter().all(|package| page.contains(package)), "{wanted:?}");
    }
}

#[test]
fn hosted_ci_runs_what_everybody_runs() {
    let workflow = text(".github/workflows/test.yml");
    assert!(workflow.lines().any(|line| line.trim() == "- run: ./dev test"), "{workflow}");
}

/// The words of `NAME="..."` in a script.
fn words<'a>(script: &'a str, name: &str) -> Vec<&'a str> {
    let line = script.lines().find_map(|line| line.strip_prefix(&format!("{name}=\"")));
    let line = line.unwrap_or_else(|| panic!("no {name}"));
    line.split('"').next().unwrap().split(' ').collect()
}

#[test]
fn every_part_of_a_release_is_made_checked_and_published() {
    let (script, check) = (text("scripts/release.sh"), text("packaging/check.sh"));
    let parts = words(&script, "RELEASE_PARTS");
    for part in &parts {
        assert!(script.contains(&format!("\nrelease_{part}() {{")), "{part} is not made");
        assert!(check.contains(&format!("\n{part}() {{")), "{part} is not checked");
    }
    let all = parts.join(" ");
    assert!(check.contains(&format!("${{*:-{all}}}")), "check.sh has other parts: {all}");
    let workflow = text(".github/workflows/release.yml");
    assert!(workflow.contains(&format!("./dev release --check {all}\n")), "{workflow}");
    assert!(!workflow.contains("secrets."), "registries trust the workflow");
}

#[test]
fn the_package_asks_for_the_library_that_it_is_linked_with() {
    let script = text("scripts/release.sh");
    let version = script.lines().find_map(|line| line.strip_prefix("RELEASE_GLIBC=")).unwrap();
    let manifest = text("crates/cli/Cargo.toml");
    assert!(manifest.contains(&format!("depends = \"libc6 (>= {version})\"")), "{version}");
}

/// `./dev release tag` of this source.
fn tag(tag: &str) -> (bool, String) {
    let mut command = Command::new("./dev");
    let output = command.args(["release", "tag", tag]).current_dir(root()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_tag_that_is_not_the_version_is_refused() {
    let version = env!("CARGO_PKG_VERSION");
    let (agrees, said) = tag("v99.0.0");
    assert!(!agrees && said.contains(&format!("Cargo.toml says {version}")), "{said}");
    let (agrees, said) = tag("99.0.0");
    assert!(!agrees && said.contains("is v1.2.3, not 99.0.0"), "{said}");
    // The changelog is that of the first release until it has the heading for it.
    let (agrees, said) = tag(&format!("v{version}"));
    let released = text("CHANGELOG.md").contains(&format!("\n## [{version}] - "));
    assert_eq!(agrees, released, "{said}");
    assert!(agrees || said.contains("CHANGELOG.md says nothing"), "{said}");
}

#[test]
fn examples_and_pages_name_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    for file in ["examples/kubernetes/kernel.yaml", "examples/kubernetes/sidecar.yaml"] {
        let text = text(file);
        let mut images =
            text.lines().filter_map(|line| line.trim().strip_prefix("image: cellpace:"));
        assert!(images.all(|image| image == version), "{file}");
    }
    assert!(text("java/pom.xml").contains(&format!("\n  <version>{version}</version>\n")));
    let page = text("docs/install.md");
    for name in ["cellpace-VERSION-image-amd64.tar:VERSION", "cellpace-alcc-VERSION.jar"] {
        assert!(page.contains(&name.replace("VERSION", version)), "{name}");
    }
}

#[test]
fn headings_of_the_changelog_are_versions_with_their_days() {
    let changelog = text("CHANGELOG.md");
    let mut headings = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(headings.next(), Some("[Unreleased]"));
    let mut newer = (u32::MAX, u32::MAX, u32::MAX);
    for heading in headings {
        let (version, day) = heading.strip_prefix('[').unwrap().split_once("] - ").unwrap();
        let numbers: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
        let [major, minor, patch] = numbers[..] else { panic!("{heading}") };
        assert!((major, minor, patch) < newer, "{heading} is below an older one");
        assert!(day.len() == 10 && day.split('-').all(|part| part.parse::<u32>().is_ok()));
        newer = (major, minor, patch);
    }
}
