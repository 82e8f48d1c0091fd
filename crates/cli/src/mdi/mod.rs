//! `cellpace mdi`: Markov tables of controllers.

mod export;
mod figures;
mod files;
mod merge;
mod options;
mod picture;
mod read;
mod samples;
mod show;
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
    /// Tell what a Markov table holds: size, density, most used states, mixing; draw it
    Show(show::ShowArgs),
    /// Write a Markov table in a form that other programs read
    Export(export::ExportArgs),
}

pub(crate) fn run(command: &MdiCommand) -> Result<ExitCode, Failure> {
    match command {
        MdiCommand::Train(args) => train::run(args),
        MdiCommand::Merge(args) => merge::run(args),
        MdiCommand::Show(args) => show::run(args),
        MdiCommand::Export(args) => export::run(args),
    }
}
