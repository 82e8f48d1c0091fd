//! What the tests of several crates do with files that `./dev vectors` writes.

use std::fs;
use std::path::Path;

/// Asserts that the file `name` of this folder holds `text`. `./dev vectors` writes it first.
///
/// # Panics
/// When it holds something else.
pub(crate) fn compare(name: &str, text: &str) {
    compare_bytes(&format!("vectors/{name}"), text.as_bytes());
}

/// The same of a file anywhere in the repository.
///
/// # Panics
/// When it holds something else.
pub(crate) fn compare_bytes(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if std::env::var_os("CELLPACE_VECTORS").is_some_and(|mode| mode == "write") {
        fs::write(&path, bytes).expect("the folder is there and can be written to");
    }
    let found = fs::read(&path).unwrap_or_default();
    assert!(found == bytes, "{name} is not what the code gives: `./dev vectors` writes it");
}
