//! Whether something is a trace, and whether it looks like one.

use std::cmp::Reverse;

use cellpace_base::Rate;
use cellpace_path::PathError;
use cellpace_path::schedule::{Check, Finding, Severity, Trace, TraceError, lint};
use serde::Serialize;

use super::documents::to_text;
use super::source::{TraceSourceError, load_trace};

/// What fails when there is no trace to check.
const FORMAT: &str = "format";

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceVerdict {
    /// Nothing was found.
    Ok,
    /// Good to know when reading results.
    Note,
    /// Probably a mistake in recording or converting.
    Warning,
    /// Not a trace, or runs over it mean nothing.
    Error,
}

impl TraceVerdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A trace and what was found.
#[derive(Debug, Serialize)]
pub struct CheckedTrace {
    /// The trace as written.
    pub trace: String,
    /// The worst of the findings.
    pub result: TraceVerdict,
    /// What was found, the worst first.
    pub findings: Vec<TraceFinding>,
}

/// What was found of a trace.
#[derive(Debug, Serialize)]
pub struct TraceFinding {
    /// How bad it is.
    pub severity: TraceVerdict,
    /// The name of the check.
    pub check: &'static str,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The time in the trace, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// What was found, for people.
    pub text: String,
}

#[derive(Debug, Serialize)]
struct CheckDocument<'a> {
    schema: &'static str,
    traces: &'a [CheckedTrace],
}

/// Checks the trace with this written form.
pub fn check_trace(name: &str) -> CheckedTrace {
    let mut findings = match load_trace(name, None, 1) {
        Ok(trace) => lint(&trace).into_iter().map(|finding| found(&trace, finding)).collect(),
        Err(error) => vec![unusable(&error)],
    };
    // Again, since some warnings have become errors above.
    findings.sort_by_key(|found: &TraceFinding| Reverse(found.severity));
    let result = findings.first().map_or(TraceVerdict::Ok, |worst| worst.severity);
    CheckedTrace { trace: name.to_owned(), result, findings }
}

fn unusable(error: &TraceSourceError) -> TraceFinding {
    let line = match error {
        TraceSourceError::Path(PathError::Trace(TraceError::Line { line, .. })) => Some(*line),
        _ => None,
    };
    let text = error.to_string();
    TraceFinding { severity: TraceVerdict::Error, check: FORMAT, line, at_s: None, text }
}

fn found(trace: &Trace, finding: Finding) -> TraceFinding {
    let severity = match finding.severity {
        _ if makes_runs_meaningless(trace, finding.check) => TraceVerdict::Error,
        Severity::Warning => TraceVerdict::Warning,
        Severity::Note => TraceVerdict::Note,
    };
    TraceFinding {
        severity,
        check: finding.check.name(),
        line: None,
        at_s: Some(finding.at.as_secs_f64()),
        text: finding.text,
    }
}

/// Whether that check's finding means that results over this trace say nothing about a link.
/// High rates are left a warning: a millimetre-wave cell may have them.
fn makes_runs_meaningless(trace: &Trace, check: Check) -> bool {
    let millis = trace.millis();
    let is_most = |ms: u32| ms > millis.last().map_or(0, |period| period / 2);
    match check {
        // An outage for most of the trace: a run sees it, and next to nothing of the link.
        Check::Outage => millis.windows(2).any(|pair| is_most(pair[1] - pair[0])),
        Check::Start => is_most(millis[0]),
        Check::Rate => trace.mean_rate() < Rate::from_bps(64_000),
        _ => false,
    }
}

impl CheckedTrace {
    /// Returns a line for each finding, or one that says that there are none.
    pub fn lines(&self) -> String {
        if self.findings.is_empty() {
            return format!("{:<9}{}\n", TraceVerdict::Ok.word(), self.trace);
        }
        self.findings.iter().map(|found| self.line(found)).collect()
    }

    fn line(&self, found: &TraceFinding) -> String {
        let severity = found.severity.word();
        // Says the name itself, and where in the file.
        if found.check == FORMAT {
            return format!("{severity:<9}{}\n", found.text);
        }
        format!("{severity:<9}{}: {}\n", self.trace, found.text)
    }
}

/// Returns the document `cellpace.trace-check/1`.
pub fn check_json(traces: &[CheckedTrace]) -> String {
    to_text(&CheckDocument { schema: "cellpace.trace-check/1", traces })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(millis: impl IntoIterator<Item = u32>) -> TraceVerdict {
        let trace = Trace::from_millis(millis.into_iter().collect()).unwrap();
        let found = lint(&trace).into_iter().map(|finding| found(&trace, finding).severity);
        found.max().unwrap_or(TraceVerdict::Ok)
    }

    #[test]
    fn what_makes_runs_meaningless_is_an_error() {
        let steady = || 1..=60_000_u32;
        assert_eq!(worst(steady()), TraceVerdict::Ok);
        let cut = |from: u32, to: u32| steady().filter(move |at| !(from..to).contains(at));
        assert_eq!(worst(cut(10_000, 12_000)), TraceVerdict::Note);
        assert_eq!(worst(cut(10_000, 30_000)), TraceVerdict::Warning);
        assert_eq!(worst(cut(10_000, 50_000)), TraceVerdict::Error, "an outage of most of it");
        assert_eq!(worst(steady().skip(4_999)), TraceVerdict::Warning, "a late start");
        assert_eq!(worst(steady().map(|at| at + 100_000)), TraceVerdict::Error, "a clock not at 0");
        assert_eq!(worst((1..100).map(|n| n * 1000 + n % 2)), TraceVerdict::Error, "microseconds");
        let fast = steady().flat_map(|at| std::iter::repeat_n(at, 200));
        assert_eq!(worst(fast), TraceVerdict::Warning);
    }
}
