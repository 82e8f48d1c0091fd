//! `cellpace mdi merge`: counts of several models together.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::model_file::{check_output, read_model, save_model};
use crate::error::CommandError;
use crate::output::print;

/// Arguments of `cellpace mdi merge`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  states=levels:delay=0..1.4/0.01,window=-60..60/4
  cellpace mdi train --cc verus --trace lte-driving --states $states -o a.mdi
  cellpace mdi train --cc verus --trace umts-driving --states $states -o b.mdi
  cellpace mdi merge a.mdi b.mdi -o both.mdi

Counts are whole numbers, so that merging gives what training on everything at once gives, as long
as the states are the same: train the second with the states that `cellpace mdi show a.mdi` names.")]
pub(crate) struct MergeArgs {
    /// Models of the same teacher with the same states
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    models: Vec<PathBuf>,
    /// Where to write the merged model
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &MergeArgs) -> Result<ExitCode, CommandError> {
    check_output(&args.output)?;
    let (first, others) = args.models.split_first().expect("clap asks for two models or more");
    let (mut merged, _) = read_model(first)?;
    for path in others {
        merged = merged.merged(&read_model(path)?.0).map_err(|error| {
            CommandError::usage(format!("{} and {}: {error}", first.display(), path.display()))
        })?;
    }
    let bytes = save_model(&args.output, &merged)?;
    print(&format!(
        "{} models of {}: {} samples, {} transitions\n{}: {bytes} bytes\n",
        args.models.len(),
        merged.about.teacher,
        merged.samples(),
        merged.combined().total(),
        args.output.display(),
    ))?;
    Ok(ExitCode::SUCCESS)
}
