//! `cellpace trace predict`: can the rate be predicted from its past?

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_base::Span;
use cellpace_lab::shown_names;
use cellpace_lab::trace::{
    PredictedTrace, PredictedWindows, load_trace, predict_json, predict_trace,
};
use cellpace_report::time;
use clap::Args;

use super::duration;
use crate::error::CommandError;
use crate::options::seed;
use crate::output::{print, write_json};

/// Arguments of `cellpace trace predict`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace predict hspa-walking
  cellpace trace predict lte-driving --window 20ms --json predictions.json

The rate in each window is predicted from the windows before it: to be as the last one; on the
least-squares line through the last ten; and by a model of the last five (autoregression), learnt
from the first half of the trace, some windows ahead. All are judged on the second half. The error
is the root of the mean square over the mean rate; explained is the share of the variance, below 0
where the mean would have been better.")]
pub(crate) struct PredictArgs {
    /// Traces: profiles (lte-driving, ...), files in Mahimahi format (`-`: standard input), or
    /// other forms that `cellpace trace list` shows
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// Widths of the windows, joined by commas
    #[arg(
        long = "window",
        value_name = "TIME,...",
        value_delimiter = ',',
        value_parser = duration,
        default_value = "100ms,20ms"
    )]
    windows: Vec<Span>,
    /// Seed of generated traces
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = seed)]
    seed: u64,
    /// Write the figures as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &PredictArgs) -> Result<ExitCode, CommandError> {
    let predict = |(written, name): (&String, String)| {
        let trace = load_trace(written, None, args.seed)?;
        Ok(predict_trace(&name, &trace, &args.windows))
    };
    let names = shown_names(&args.traces);
    let traces =
        args.traces.iter().zip(names).map(predict).collect::<Result<Vec<_>, CommandError>>();
    let traces = traces?;
    if write_json(args.json.as_deref(), || predict_json(&traces))? {
        print(&traces.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(trace: &PredictedTrace) -> String {
    let head = format!("{}: {}\n", trace.trace, time(trace.seconds * 1000.0));
    head + &trace.windows.iter().map(table).collect::<String>()
}

fn table(windows: &PredictedWindows) -> String {
    let width = time(windows.width_ms);
    if windows.predictions.is_empty() {
        let count = windows.count;
        return format!("\n{width}: {count} windows; predictors need at least 60\n");
    }
    let mut text = format!("\n{width:<9}{:>11}{:>10}{:>12}\n", "ahead", "error, %", "explained");
    for one in &windows.predictions {
        let (error, explained) = (100.0 * one.nrmse, one.r2);
        let line = format!("{:<9}{:>11}{error:>10.0}{explained:>12.2}\n", one.predictor, one.steps);
        text += &line;
    }
    text
}
