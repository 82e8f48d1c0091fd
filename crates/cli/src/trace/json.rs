//! The documents that scripts read. Fields are only added within a version.

use std::fmt;

use cellpace_path::schedule::{MAX_OPPORTUNITIES, Trace};
use cellpace_path::stats::Row;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::figures::Figures;

/// Statistics of traces, and of two the comparison.
#[derive(Debug, Serialize)]
struct Statistics<'a> {
    schema: &'static str,
    traces: &'a [Figures],
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Vec<Compared>>,
}

#[derive(Debug, Serialize)]
struct Compared {
    figure: &'static str,
    left: f64,
    right: f64,
}

/// How what a profile generates compares with what it was fitted to.
#[derive(Debug, Serialize)]
struct Fitted<'a> {
    schema: &'static str,
    source: &'a str,
    profile: &'a str,
    seeds: u32,
    comparison: Vec<Likeness>,
}

#[derive(Debug, Serialize)]
struct Likeness {
    figure: &'static str,
    source: f64,
    generated: f64,
}

/// The document about traces.
pub(super) fn statistics(traces: &[Figures], rows: &[Row]) -> String {
    let compared = |row: &Row| Compared { figure: row.what, left: row.left, right: row.right };
    let comparison = (!rows.is_empty()).then(|| rows.iter().map(compared).collect());
    text(&Statistics { schema: "cellpace.trace-show/1", traces, comparison })
}

/// The document about a fit.
pub(super) fn fitted(source: &str, profile: &str, seeds: u32, rows: &[Row]) -> String {
    let like = |row: &Row| Likeness { figure: row.what, source: row.left, generated: row.right };
    let comparison = rows.iter().map(like).collect();
    text(&Fitted { schema: "cellpace.trace-fit/1", source, profile, seeds, comparison })
}

/// Indented, with a line feed at the end.
pub(super) fn text(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document);
    text.expect("keys are texts, so every document has a written form") + "\n"
}

/// A trace as a document.
#[derive(Debug, Serialize)]
struct Written<'a> {
    name: &'a str,
    period_ms: u32,
    opportunities_ms: &'a [u32],
}

/// What is read of one.
#[derive(Debug, Deserialize)]
pub(super) struct Read {
    pub(super) period_ms: Option<u32>,
    #[serde(deserialize_with = "opportunities")]
    pub(super) opportunities_ms: Vec<u32>,
}

fn opportunities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    deserializer.deserialize_seq(Opportunities)
}

/// Reads a list as long as a trace may be, so that an endless one ends with an error.
struct Opportunities;

impl<'de> Visitor<'de> for Opportunities {
    type Value = Vec<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of times in milliseconds")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u32>, A::Error> {
        let mut millis = Vec::new();
        let mut last = 0;
        while let Some(at) = list.next_element::<u32>()? {
            if at < last {
                let problem = format!("{at} comes after {last}, but times must not decrease,");
                return Err(A::Error::custom(problem));
            }
            if millis.len() == MAX_OPPORTUNITIES {
                let problem = format!("more than {MAX_OPPORTUNITIES} opportunities");
                return Err(A::Error::custom(problem));
            }
            last = at;
            millis.push(at);
        }
        Ok(millis)
    }
}

/// On one line: nobody reads a hundred thousand lines with a number each.
pub(super) fn write_trace(name: &str, trace: &Trace) -> String {
    let millis = trace.millis();
    let period_ms = millis.last().copied().unwrap_or(0);
    let text = serde_json::to_string(&Written { name, period_ms, opportunities_ms: millis });
    text.expect("numbers and a text have a written form") + "\n"
}
