//! `cellpace mdi`: Markov tables of controllers.

mod files;
mod merge;
mod options;
mod samples;
mod teacher;
mod train;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Failure;

/// The commands below `cellpace mdi`.
#[derive(Debug, Subcommand)]
pub(crate) enum MdiCommand {
    /// Watch a controller in virtual time and learn a Markov table of it
    Train(Box<train::TrainArgs>),
    /// Add up what was learnt in several files
    Merge(merge::MergeArgs),
}

pub(crate) fn run(command: &MdiCommand) -> Result<ExitCode, Failure> {
    match command {
        MdiCommand::Train(args) => train::run(args),
        MdiCommand::Merge(args) => merge::run(args),
    }
}
