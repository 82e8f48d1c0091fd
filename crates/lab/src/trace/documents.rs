//! The documents about traces that scripts read. Fields are only added within a version.

use cellpace_path::stats::StatsRow;
use serde::Serialize;

use super::figures::TraceFigures;

/// Statistics of traces, and of two the comparison.
#[derive(Debug, Serialize)]
struct ShowDocument<'a> {
    schema: &'static str,
    traces: &'a [TraceFigures],
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Vec<ComparedFigure>>,
}

#[derive(Debug, Serialize)]
struct ComparedFigure {
    figure: &'static str,
    left: f64,
    right: f64,
}

/// How what a profile generates compares with what it was fitted to.
#[derive(Debug, Serialize)]
struct FitDocument<'a> {
    schema: &'static str,
    source: &'a str,
    profile: &'a str,
    seeds: u32,
    comparison: Vec<FittedFigure>,
}

#[derive(Debug, Serialize)]
struct FittedFigure {
    figure: &'static str,
    source: f64,
    generated: f64,
}

/// Returns the document `cellpace.trace-show/1`: figures of traces, and of two the comparison.
pub fn show_json(traces: &[TraceFigures], rows: &[StatsRow]) -> String {
    let compared =
        |row: &StatsRow| ComparedFigure { figure: row.what, left: row.left, right: row.right };
    let comparison = (!rows.is_empty()).then(|| rows.iter().map(compared).collect());
    to_text(&ShowDocument { schema: "cellpace.trace-show/1", traces, comparison })
}

/// Returns the document `cellpace.trace-fit/1`: how what the profile generates, on average over
/// `seeds` traces, compares with its source.
pub fn fit_json(source: &str, profile: &str, seeds: u32, rows: &[StatsRow]) -> String {
    let like =
        |row: &StatsRow| FittedFigure { figure: row.what, source: row.left, generated: row.right };
    let comparison = rows.iter().map(like).collect();
    to_text(&FitDocument { schema: "cellpace.trace-fit/1", source, profile, seeds, comparison })
}

/// Indented, with a line feed at the end.
pub(super) fn to_text(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document);
    text.expect("keys are texts, so every document has a written form") + "\n"
}
