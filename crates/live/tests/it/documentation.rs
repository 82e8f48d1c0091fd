//! What is written about figures is what the code serves. `SNAPSHOTS=overwrite` writes the table anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use cellpace_live::{METRICS, Metric};

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

#[test]
fn the_dashboard_of_grafana_shows_figures_that_exist_and_all_of_them() {
    let text = fs::read_to_string(docs("grafana.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut shown = BTreeSet::new();
    for target in targets {
        let words =
            target["expr"].as_str().unwrap().split(|c: char| !c.is_alphanumeric() && c != '_');
        shown.extend(words.filter(|word| word.starts_with("cellpace_")).map(str::to_owned));
    }
    let served: BTreeSet<_> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(shown, served);
}
