//! What the tests of several crates do with the files of this folder.

use std::fs;
use std::path::Path;

/// Asserts that the file `name` of this folder holds `text`. `./dev vectors` writes it first.
///
/// # Panics
/// When it holds something else.
pub(crate) fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name);
    if std::env::var_os("CELLPACE_VECTORS").is_some_and(|mode| mode == "write") {
        fs::write(&path, text).expect("the folder is there and can be written to");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "vectors/{name} is not what the code gives: `./dev vectors` writes it");
}
