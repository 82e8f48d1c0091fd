//! Every page of the documentation is part of the book, and every link leads somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::pages::{self, Page};

/// `folder/link` without `..`.
fn resolved(folder: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{link} leaves the repository"),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn the_book_has_every_page_once() {
    let summary = Page::read("docs/SUMMARY.md".to_owned());
    let mut listed: Vec<_> =
        summary.links.iter().map(|link| resolved(summary.folder(), link)).collect();
    listed.sort();
    let is_chapter = |page: &Page| page.name.starts_with("docs/") && page.name != summary.name;
    let mut pages: Vec<_> =
        pages::all().iter().filter(|page| is_chapter(page)).map(|page| page.name.clone()).collect();
    pages.sort();
    let listed: Vec<_> = listed.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(listed, pages, "docs/SUMMARY.md lists the left, docs/ has the right");
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut pages: Vec<_> = pages::all();
    let others =
        ["CONTRIBUTING.md", "SECURITY.md", "crates/README.md", "packaging/systemd/README.md"];
    pages.extend(others.map(|name| Page::read(name.to_owned())));
    let anchors: BTreeMap<PathBuf, &BTreeSet<String>> =
        pages.iter().map(|page| (PathBuf::from(&page.name), &page.anchors)).collect();
    let mut dead = Vec::new();
    for page in &pages {
        for link in page.links.iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => PathBuf::from(&page.name),
                file => resolved(page.folder(), file),
            };
            let leads = pages::root().join(&target).exists()
                && (anchor.is_empty()
                    || anchors.get(&target).is_some_and(|of| of.contains(anchor)));
            if !leads {
                dead.push(format!("{}: {link}", page.name));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}
