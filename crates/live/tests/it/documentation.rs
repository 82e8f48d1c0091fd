//! What is written about figures is what the code serves. `SNAPSHOTS=overwrite` writes the table anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use cellpace_live::{HISTOGRAMS, Histogram, METRICS, Metric};

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

#[test]
fn the_reference_lists_every_figure() {
    let mut table = "| name | kind | label | meaning |\n|---|---|---|---|\n".to_owned();
    for Metric { name, kind, help, label, .. } in METRICS {
        let label = if label.is_empty() { String::new() } else { format!("`{label}`") };
        writeln!(table, "| `{name}` | {} | {label} | {help} |", kind.name()).unwrap();
    }
    for Histogram { name, help, .. } in HISTOGRAMS {
        writeln!(table, "| `{name}` | histogram |  | {help} |").unwrap();
    }
    let path = docs("reference/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- metrics -->\n").unwrap();
    let (now, after) = rest.split_once("<!-- /metrics -->").unwrap();
    if std::env::var("SNAPSHOTS").as_deref() == Ok("overwrite") {
        let page = format!("{before}<!-- metrics -->\n{table}<!-- /metrics -->{after}");
        return fs::write(&path, page).unwrap();
    }
    assert_eq!(now, table, "{}", path.display());
}
