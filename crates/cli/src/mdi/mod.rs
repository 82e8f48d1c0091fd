//! `cellpace mdi`: Markov tables of controllers.

mod convert;
mod merge;
mod model_file;
mod show;
mod train;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::CommandError;

/// The commands below `cellpace mdi`.
#[derive(Debug, Subcommand)]
pub(crate) enum MdiCommand {
    /// Watch a controller in virtual time and learn a Markov table of it
    Train(Box<train::TrainArgs>),
    /// Add up what was learnt in several files
    Merge(merge::MergeArgs),
    /// Show what a Markov table holds: size, density, most used states; draw it
    Show(show::MdiShowArgs),
    /// Write a Markov table in another form, or make one of a matrix or of samples
    Convert(convert::MdiConvertArgs),
}

pub(crate) fn run(command: &MdiCommand) -> Result<ExitCode, CommandError> {
    match command {
        MdiCommand::Train(args) => train::run(args),
        MdiCommand::Merge(args) => merge::run(args),
        MdiCommand::Show(args) => show::run(args),
        MdiCommand::Convert(args) => convert::run(args),
    }
}
