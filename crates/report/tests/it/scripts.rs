//! The tests of the page's scripts, by node's own runner.

use std::path::Path;
use std::process::Command;

#[test]
fn what_the_page_computes_is_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts");
    let mut node = Command::new("node");
    let Ok(output) = node.arg("--test").arg(folder.join("numbers.test.mjs")).output() else {
        cellpace_testing::skip("no node for the scripts of the page");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("pass 32"), "all of them ran: {text}");
}
