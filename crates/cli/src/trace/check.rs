//! `cellpace trace check`: is this a trace, and does it look like one?

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_lab::trace::{CheckedTrace, TraceVerdict, check_json, check_trace};
use clap::Args;

use crate::error::CommandError;
use crate::output::{check_files, complain, print, write_json};
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted, interruption_code};

/// Arguments of `cellpace trace check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace make lte-driving -o drive.down
  cellpace trace check drive.down
  cellpace trace check --strict --json - drive.down

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

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--json", args.json.as_deref())])?;
    end_cleanly_on_ctrl_c();
    let progress = Progress::new(args.traces.len(), "traces");
    let mut checked = Vec::new();
    for trace in args.traces.iter().take_while(|_| !interrupted()) {
        checked.push(check_trace(trace));
        progress.step();
    }
    progress.finish();
    if write_json(args.json.as_deref(), || check_json(&checked))? {
        print(&checked.iter().map(CheckedTrace::lines).collect::<String>())?;
    }
    if interrupted() {
        complain("interrupted; not all traces were checked");
        return Ok(interruption_code());
    }
    let limit = if args.strict { TraceVerdict::Warning } else { TraceVerdict::Error };
    let bad = checked.iter().filter(|trace| trace.result >= limit).count();
    if bad > 0 {
        let all = args.traces.len();
        return Err(CommandError::failed(format!("{bad} of {all} traces failed the check")));
    }
    Ok(ExitCode::SUCCESS)
}
