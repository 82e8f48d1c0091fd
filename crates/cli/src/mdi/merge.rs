//! `cellpace mdi merge`: counts of several models together.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::files;
use super::read::read;
use crate::error::Failure;
use crate::output::print;

/// Arguments of `cellpace mdi merge`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace mdi merge city.mdi highway.mdi -o both.mdi

Counts are whole numbers, so that merging gives what training on everything at once gives, as long
as the states are the same: train the second with --like city.mdi.")]
pub(crate) struct MergeArgs {
    /// Models of the same teacher with the same states
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    models: Vec<PathBuf>,
    /// Where to write the merged model
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &MergeArgs) -> Result<ExitCode, Failure> {
    files::check_output("--output", &args.output)?;
    let (first, others) = args.models.split_first().expect("clap asks for two models or more");
    let mut merged = read(first)?.model;
    for path in others {
        merged = merged.merged(&read(path)?.model).map_err(|error| {
            Failure::usage(format!("{} and {}: {error}", first.display(), path.display()))
        })?;
    }
    let bytes = files::save(&args.output, &merged)?;
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
