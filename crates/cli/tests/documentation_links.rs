//! Relative links of README.md, CONTRIBUTING.md, docs/ and the other pages lead to a file that is there,
//! and to a heading that it has.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The Markdown files of a repository: those at its top, and all below these folders.
fn pages(root: &Path) -> Vec<PathBuf> {
    let below = ["docs", "packaging", "examples", "crates"].map(|name| root.join(name));
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && below.iter().any(|one| path.starts_with(one)) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The lines of a page that are no code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Where the links and pictures of a page lead.
fn targets(text: &str) -> Vec<String> {
    let after = prose(text).flat_map(|line| line.split("](").skip(1));
    after.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The names by which a page's headings are linked.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in prose(text).filter(|line| line.starts_with('#')) {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let others = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(others).find(|one| !found.contains(one));
        found.extend(free);
    }
    found
}

fn broken(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages(root) {
        let text = fs::read_to_string(&page).unwrap();
        for target in targets(&text).into_iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let linked = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let is_there = linked.exists()
                && (anchor.is_empty()
                    || anchors(&fs::read_to_string(&linked).unwrap()).contains(anchor));
            if !is_there {
                let page = page.strip_prefix(root).unwrap().display();
                found.push(format!("{page}: {target}"));
            }
        }
    }
    found
}

#[test]
fn no_relative_link_of_the_documentation_is_broken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    assert!(pages(&root).len() > 10, "the pages are not where this test looks");
    let broken = broken(&root);
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn files_and_headings_that_are_not_there_are_found() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "docs/page.md",
        "# One\n## What `it` does, and why\n## One\n```\n# no heading\n[no](link)\n```\n",
    );
    write(
        "README.md",
        "[a](docs/page.md#what-it-does-and-why) [b](docs/page.md#one-1) [c](https://example.org/x) \
         [d](docs/none.md) [e](docs/page.md#no-heading) ![f](docs)",
    );
    assert_eq!(
        broken(folder.path()),
        ["README.md: docs/none.md", "README.md: docs/page.md#no-heading"]
    );
}
