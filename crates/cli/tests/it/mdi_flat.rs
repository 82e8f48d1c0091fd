//! Flat tables, made of models.

use crate::program::Folder;

#[test]
fn rules_are_those_of_the_controller() {
    let folder = Folder::new();
    folder.good("mdi train --cc fixed --trace constant:5mbit --duration 5s --users 1,2 -o m");
    for (args, said) in [
        (
            "-o m.flat --rules smapler=cdf",
            "--rules: `mdi` has no parameter `smapler`; did you mean `sampler`?",
        ),
        ("-o m.flat --rules users=adapt", "--rules: users=adapt and start=slow have no flat form"),
        ("-o m.json --rules empty=paper", "--rules is for an output that ends with .flat"),
        ("-o m.flat --users 3", "it has 1, 2"),
    ] {
        folder.refused(&format!("mdi convert m {args}"), said);
    }
    assert_eq!(folder.names(), ["m"]);
}
