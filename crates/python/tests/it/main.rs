//! The module as Python finds it. Cargo builds it for this program, with the features that all other tests
//! have, and so `./dev python` has it without a build of its own.

use std::fs;

#[test]
fn the_module_is_built_and_says_how_it_begins() {
    let program = std::env::current_exe().expect("a test knows its program");
    let module = fs::read(program.with_file_name("lib_native.so")).expect("cargo has built it");
    let name = b"PyInit__native\0";
    assert!(module.windows(name.len()).any(|part| part == name));
}
