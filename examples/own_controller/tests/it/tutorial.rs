//! The tutorial shows the example as it is, and what its commands print; `SNAPSHOTS=overwrite` writes it anew.

use std::fs;
use std::path::Path;

use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::{Assert, Data};

use crate::commands::printed;

#[test]
fn the_tutorial_shows_the_example_and_what_it_prints() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = example.join("../../docs/tutorial/own-controller.md");
    let page = fs::read_to_string(&path).unwrap();
    let code = ["src/lib.rs", "src/main.rs", "src/queue.rs"]
        .map(|file| fs::read_to_string(example.join(file)));
    let mut code = code.map(Result::unwrap).into_iter();
    let mut actual = String::new();
    for (index, part) in page.split("```").enumerate() {
        actual += if index == 0 { "" } else { "```" };
        // Every second part is code.
        actual += &match (index % 2, part.lines().next().unwrap_or_default()) {
            (1, "rust") => format!("rust\n{}", code.next().expect("three files")),
            (1, "text") => printed_by(part),
            _ => part.to_owned(),
        };
    }
    assert_eq!(code.next(), None, "the page shows all files");
    let asserting = Assert::new().action_env(DEFAULT_ACTION_ENV);
    asserting.eq(Data::text(actual), Data::read_from(&path, None).raw());
}

/// The block with the commands in it, each with what it prints.
fn printed_by(block: &str) -> String {
    let mut text = "text\n".to_owned();
    for line in block.lines().filter(|line| line.starts_with("$ ")) {
        let args: Vec<&str> = line.split(' ').skip(2).collect();
        text += &format!("{line}\n{}", printed(&args));
    }
    text
}
