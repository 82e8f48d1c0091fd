//! `cellpace trace`: everything about the traces themselves.

mod chart;
mod check;
mod convert;
mod csv;
mod figures;
mod fit;
mod json;
mod make;
mod show;
mod source;
mod text;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Failure;

/// The commands below `cellpace trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Show statistics and a picture of a trace; of two, also side by side
    Show(show::ShowArgs),
    /// Look for what is wrong with traces
    Check(check::CheckArgs),
    /// Convert a trace to and from CSV and JSON, cut it, scale its rate
    Convert(convert::ConvertArgs),
    /// Write a generated trace to a file
    Make(make::MakeArgs),
    /// Fit a profile to a trace: a small model that generates traces like it
    Fit(fit::FitArgs),
}

pub(crate) fn run(command: &TraceCommand) -> Result<ExitCode, Failure> {
    match command {
        TraceCommand::Show(args) => show::run(args),
        TraceCommand::Check(args) => check::run(args),
        TraceCommand::Convert(args) => convert::run(args),
        TraceCommand::Make(args) => make::run(args),
        TraceCommand::Fit(args) => fit::run(args),
    }
}

/// Whether output goes to standard output, where there is nothing else then.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}
