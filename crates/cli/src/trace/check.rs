//! `cellpace trace check`: is this a trace, and does it look like one?

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_base::Rate;
use cellpace_path::PathError;
use cellpace_path::schedule::{Check, Finding, Severity, Trace, TraceError, lint};
use clap::Args;
use serde::Serialize;

use super::source::{SourceError, load};
use super::{is_stdout, json};
use crate::error::Failure;
use crate::output::{print, write};
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted};

/// Arguments of `cellpace trace check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace check traces/*.down
  cellpace trace check --strict --json - city-drive.down

Findings:
  error    not a trace, or runs over it mean nothing: one outage (or late start) of more than
           half of the trace, or a mean rate below 64 kbit/s, as from a wrong unit of time
  warning  probably a mistake in recording or converting
  note     good to know when reading results

Exit code: 0 when there is no error (with --strict: and no warning), otherwise 1.")]
pub(crate) struct CheckArgs {
    /// Traces: usually files in Mahimahi format, but generated ones can be checked, too
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// Fail on warnings, too
    #[arg(long)]
    strict: bool,
    /// Write the findings as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What fails when there is no trace to check.
const FORMAT: &str = "format";

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Note,
    Warning,
    Error,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

#[derive(Debug, Serialize)]
struct Checked {
    trace: String,
    /// The worst of the findings.
    result: Verdict,
    findings: Vec<Found>,
}

#[derive(Debug, Serialize)]
struct Found {
    severity: Verdict,
    check: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_s: Option<f64>,
    text: String,
}

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    traces: Vec<Checked>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    end_cleanly_on_ctrl_c();
    let progress = Progress::new(args.traces.len(), "traces");
    let mut checked = Vec::new();
    for trace in args.traces.iter().take_while(|_| !interrupted()) {
        checked.push(check(trace));
        progress.step();
    }
    progress.finish();
    let limit = if args.strict { Verdict::Warning } else { Verdict::Error };
    let bad = checked.iter().filter(|trace| trace.result >= limit).count();
    deliver(args, checked)?;
    if interrupted() {
        eprintln!("cellpace: interrupted; not all traces were checked");
        return Ok(ExitCode::from(130));
    }
    if bad > 0 {
        let all = args.traces.len();
        return Err(Failure::failed(format!("{bad} of {all} traces failed the check")));
    }
    Ok(ExitCode::SUCCESS)
}

fn deliver(args: &CheckArgs, checked: Vec<Checked>) -> Result<(), Failure> {
    let text: String = checked.iter().map(Checked::lines).collect();
    if let Some(path) = &args.json {
        let document = Document { schema: "cellpace.trace-check/1", traces: checked };
        write(path, &json::text(&document))?;
        if is_stdout(path) {
            return Ok(());
        }
    }
    print(&text)
}

fn check(name: &str) -> Checked {
    let mut findings = match load(name, None, 1) {
        Ok(trace) => lint(&trace).into_iter().map(|finding| found(&trace, finding)).collect(),
        Err(error) => vec![unusable(&error)],
    };
    findings.sort_by_key(|found: &Found| std::cmp::Reverse(found.severity));
    let result = findings.first().map_or(Verdict::Ok, |worst| worst.severity);
    Checked { trace: name.to_owned(), result, findings }
}

fn unusable(error: &SourceError) -> Found {
    let line = match error {
        SourceError::Path(PathError::Trace(TraceError::Line { line, .. })) => Some(*line),
        _ => None,
    };
    let text = error.to_string();
    Found { severity: Verdict::Error, check: FORMAT, line, at_s: None, text }
}

fn found(trace: &Trace, finding: Finding) -> Found {
    let severity = match finding.severity {
        _ if makes_runs_meaningless(trace, finding.check) => Verdict::Error,
        Severity::Warning => Verdict::Warning,
        Severity::Note => Verdict::Note,
    };
    Found {
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
        Check::Outage => millis.windows(2).any(|pair| is_most(pair[1] - pair[0])),
        Check::Start => is_most(millis[0]),
        Check::Rate => trace.mean_rate() < Rate::from_bps(64_000),
        _ => false,
    }
}

impl Checked {
    fn lines(&self) -> String {
        if self.findings.is_empty() {
            return format!("{:<9}{}\n", Verdict::Ok.word(), self.trace);
        }
        self.findings.iter().map(|found| self.line(found)).collect()
    }

    fn line(&self, found: &Found) -> String {
        let severity = found.severity.word();
        // Says the name itself, and where in the file.
        if found.check == FORMAT {
            return format!("{severity:<9}{}\n", found.text);
        }
        format!("{severity:<9}{}: {}\n", self.trace, found.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(millis: impl IntoIterator<Item = u32>) -> Verdict {
        let trace = Trace::from_millis(millis.into_iter().collect()).unwrap();
        let found = lint(&trace).into_iter().map(|finding| found(&trace, finding).severity);
        found.max().unwrap_or(Verdict::Ok)
    }

    #[test]
    fn what_makes_runs_meaningless_is_an_error() {
        let steady = || 1..=60_000_u32;
        assert_eq!(worst(steady()), Verdict::Ok);
        let cut = |from: u32, to: u32| steady().filter(move |at| !(from..to).contains(at));
        assert_eq!(worst(cut(10_000, 12_000)), Verdict::Note);
        assert_eq!(worst(cut(10_000, 30_000)), Verdict::Warning);
        assert_eq!(worst(cut(10_000, 50_000)), Verdict::Error, "an outage of most of it");
        assert_eq!(worst(steady().skip(4_999)), Verdict::Warning, "a late start");
        assert_eq!(worst(steady().map(|at| at + 100_000)), Verdict::Error, "a clock not at 0");
        assert_eq!(worst((1..100).map(|n| n * 1000 + n % 2)), Verdict::Error, "microseconds");
        let fast = steady().flat_map(|at| std::iter::repeat_n(at, 200));
        assert_eq!(worst(fast), Verdict::Warning);
    }
}
