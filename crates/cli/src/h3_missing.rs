//! The place of `cellpace h3` in a program that was built without the feature `quic`.

use std::process::ExitCode;

use cellpace_report::ReportError;
use clap::Subcommand;

use crate::error::CommandError;

/// `cellpace h3`, which cannot be done.
#[derive(Debug, Subcommand)]
pub(crate) enum H3Command {
    /// serve or get
    #[command(external_subcommand)]
    Any(Vec<String>),
}

pub(crate) fn run(command: &H3Command) -> Result<ExitCode, CommandError> {
    let H3Command::Any(words) = command;
    let _ = words;
    Err(CommandError::failed(ReportError::Missing { feature: "quic", output: "HTTP/3" }))
}
