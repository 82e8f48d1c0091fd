//! The place of `cellpace sweep` in a program that was built without the feature `parquet`.

use std::process::ExitCode;

use cellpace_report::ReportError;
use clap::Args;

use crate::error::CommandError;

/// Arguments of `cellpace sweep`, which cannot be done.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The plan, a TOML file
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    plan: Vec<String>,
}

pub(crate) fn run(args: &SweepArgs) -> Result<ExitCode, CommandError> {
    let _ = &args.plan;
    let missing = ReportError::Missing { feature: "parquet", output: "a sweep" };
    Err(CommandError::failed(missing))
}
