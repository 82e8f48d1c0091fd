//! Words that make a reader read a sentence twice, counted in documents and comments, and the subjects of
//! commits. A count may fall and never rise: after a rewrite, write the lower number here.

use std::path::Path;
use std::process::Command;

/// Words, and in how many lines of pages and of Rust each stands at most.
const AT_MOST: [(&str, usize); 5] =
    [("whoever", 65), ("nobody", 190), ("somebody", 70), ("of late", 2), ("what is there", 3)];

/// Subjects are checked from the commit after this one.
const CHECKED_AFTER: &str = "6f98d312";
const LONGEST_SUBJECT: usize = 72;

/// What git says in the repository; `None` without git or its history.
fn git(arguments: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    // Exit code 1 of `git grep`: no line.
    let is_known = output.status.success() || output.status.code() == Some(1);
    is_known.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn words_that_hide_the_subject_become_fewer() {
    for (word, at_most) in AT_MOST {
        let files = ["--", "*.md", "*.rs", ":!crates/cli/tests/it/english.rs", ":!CHANGELOG.md"];
        let Some(lines) = git(&[&["grep", "-iwn", "-e", word], &files[..]].concat()) else {
            return cellpace_testing::skip("no git, or no repository");
        };
        let count = lines.lines().count();
        assert!(
            count <= at_most,
            "`{word}` stands in {count} lines, at most {at_most} may:\n{lines}"
        );
    }
}

#[test]
fn subjects_of_commits_are_short() {
    let range = format!("{CHECKED_AFTER}..HEAD");
    let Some(subjects) = git(&["log", "--no-merges", "--format=%s", &range]) else {
        return cellpace_testing::skip("no git, or no history");
    };
    let long: Vec<&str> =
        subjects.lines().filter(|line| line.chars().count() > LONGEST_SUBJECT).collect();
    assert!(long.is_empty(), "longer than {LONGEST_SUBJECT} characters: {long:#?}");
}
