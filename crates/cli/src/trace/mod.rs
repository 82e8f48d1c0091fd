//! `cellpace trace`: everything about the traces themselves.

mod check;
mod convert;
mod fit;
mod list;
mod make;
mod predict;
mod show;

use std::path::Path;
use std::process::ExitCode;

use cellpace_base::Span;
use cellpace_lab::trace::{TraceFigures, TraceSourceError, whole_millis};
use cellpace_path::schedule::Trace;
use cellpace_report::{short, time};
use clap::Subcommand;

use crate::error::CommandError;
use crate::options::span;
use crate::output::{is_stdout, print, write};

/// The commands below `cellpace trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// List the built-in profiles with their figures, and the forms of generated traces
    List(list::ListArgs),
    /// Show statistics and a picture of a trace; of two, also side by side
    Show(show::ShowArgs),
    /// Say whether the rate of traces can be predicted from its past
    Predict(predict::PredictArgs),
    /// Look for what is wrong with traces
    Check(check::CheckArgs),
    /// Convert a trace to and from CSV and JSON, cut it, scale its rate
    Convert(convert::ConvertArgs),
    /// Write a generated trace to a file
    Make(make::MakeArgs),
    /// Fit a profile to a trace: a small model that generates traces like it
    Fit(fit::FitArgs),
}

pub(crate) fn run(command: &TraceCommand) -> Result<ExitCode, CommandError> {
    match command {
        TraceCommand::List(args) => list::run(args),
        TraceCommand::Show(args) => show::run(args),
        TraceCommand::Predict(args) => predict::run(args),
        TraceCommand::Check(args) => check::run(args),
        TraceCommand::Convert(args) => convert::run(args),
        TraceCommand::Make(args) => make::run(args),
        TraceCommand::Fit(args) => fit::run(args),
    }
}

/// A trace that cannot be had is a matter of usage, whether it was typed wrong or its file is none.
impl From<TraceSourceError> for CommandError {
    fn from(error: TraceSourceError) -> Self {
        Self::usage(error)
    }
}

/// Reads `--duration` and the like: whole milliseconds, as far as a trace can count.
fn duration(text: &str) -> Result<Span, String> {
    let span = span(text)?;
    if whole_millis(span) == Some(0) || whole_millis(span).is_none() {
        return Err(format!("`{text}` is out of range; allowed: 1ms to {} ms (49 days)", u32::MAX));
    }
    Ok(span)
}

/// Writes a trace's file and says what is in it.
fn deliver(output: &Path, text: &str, trace: &Trace) -> Result<ExitCode, CommandError> {
    write(output, text)?;
    if !is_stdout(output) {
        let name = output.display().to_string();
        print(&describe(&name, &TraceFigures::of(&name, trace)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One line that says which trace this is.
fn describe(name: &str, figures: &TraceFigures) -> String {
    let (length, rate) = (time(figures.seconds * 1000.0), short(figures.mean_mbps));
    let number = figures.opportunities;
    let plural = if number == 1 { "y" } else { "ies" };
    format!("{name}: {length}, {rate} Mbit/s on average, {number} opportunit{plural}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_a_range() {
        assert_eq!(duration("1ms"), Ok(Span::from_millis(1)));
        for text in ["0s", "0.5ms", "50", "1200h", "-1s", "nans"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
