//! `cellpace trace`.
use crate::error::Failure;
use std::process::ExitCode;
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TraceCommand {
    /// x
    Show,
}
pub(crate) fn run(_: &TraceCommand) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}
