//! `cellpace trace list`: the traces that are built in, and how others are written.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_lab::trace::{TraceFigures, load_trace, show_json};
use cellpace_path::schedule::TRACE_FORMS;
use cellpace_path::{profile, radio};
use clap::Args;

use crate::error::CommandError;
use crate::output::{check_files, print, write_json};

/// Arguments of `cellpace trace list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace list
  cellpace trace list --json figures.json
  cellpace trace show lte-driving        # all figures and a picture of one

The figures are those of seed 1; each seed draws another trace of the same kind.")]
pub(crate) struct ListArgs {
    /// Write the figures as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &ListArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--json", args.json.as_deref())])?;
    let mut figures = Vec::new();
    let profiles = profile::NAMES.map(str::to_owned);
    let layers = radio::NAMES.map(|name| format!("radio:{name}"));
    for name in profiles.iter().chain(&layers) {
        let trace = load_trace(name, None, 1)?;
        figures.push(TraceFigures::of(name, &trace));
    }
    if write_json(args.json.as_deref(), || show_json(&figures, &[]))? {
        print(&format!("{}\n{}", table(&figures), forms()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Profiles and radio layers, one per line.
fn table(figures: &[TraceFigures]) -> String {
    let mut text = "profile              mean     p5    p95  outages  longest  burst  length\n\
                    \x20                  Mbit/s Mbit/s Mbit/s   % time       ms   pkts       s\n"
        .to_owned();
    for trace in figures {
        text += &format!(
            "{:<18} {:>6.1} {:>6.1} {:>6.1} {:>8.1} {:>8.0} {:>6.1} {:>7.0}\n",
            trace.trace,
            trace.mean_mbps,
            trace.rate_1s_mbps.p5,
            trace.rate_1s_mbps.p95,
            100.0 * trace.outage_share,
            trace.gap_ms.max,
            trace.burst_packets.mean,
            trace.seconds,
        );
    }
    text + "p5, p95: rate in windows of 1 s; outages: share of the time in gaps > 100 ms\n"
}

fn forms() -> String {
    let width = TRACE_FORMS.iter().map(|(form, _)| form.len()).max().unwrap_or(0);
    let line = |(form, meaning): &(&str, &str)| format!("{form:<width$}  {meaning}\n");
    let lines: String = TRACE_FORMS.iter().map(line).collect();
    format!("Other traces, as --trace takes them:\n{lines}")
}
