//! `cellpace mdi show`: what a table holds, in figures and pictures.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_lab::{ModelFigures, ModelPictures, shown_name};
use cellpace_mdi::TransitionMatrix;
use cellpace_report::{Document, Heatmap, indented};
use clap::Args;

use super::model_file::{UserSelection, all_counts, read_model};
use crate::error::CommandError;
use crate::output::{check_files, print};
use crate::result_files::ResultFiles;

/// Arguments of `cellpace mdi show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace mdi train --cc verus --trace lte-driving -o verus.mdi
  cellpace mdi show verus.mdi
  cellpace mdi show verus.mdi --users 2 --report table.html
  cellpace mdi show verus.mdi --json table.json && cellpace report table.json -o table.html

A subset is what may follow a state when the next delay is known. Pictures show the matrix with
each row divided by its sum; without colour: never seen.")]
pub(crate) struct MdiShowArgs {
    /// A Markov table (`-`: standard input)
    #[arg(value_name = "FILE")]
    table: PathBuf,
    /// What was learnt with this number of users
    #[arg(long, default_value = "all", value_name = "all|N")]
    users: UserSelection,
    #[command(flatten)]
    files: ResultFiles,
}

pub(crate) fn run(args: &MdiShowArgs) -> Result<ExitCode, CommandError> {
    check_files(&args.files.options())?;
    let (model, bytes) = read_model(&args.table)?;
    let model = args.users.of(model)?;
    let name = shown_name(&args.table.display().to_string());
    let counts = all_counts(&model);
    let matrix = TransitionMatrix::new(&model.states, &counts);
    let figures = ModelFigures::of(&model, bytes, &counts, &matrix);
    let teacher = Some(&model.about.teacher).filter(|teacher| !teacher.is_empty());
    let pictures =
        ModelPictures { name: teacher.unwrap_or(&name), states: model.states, matrix: &matrix };
    let document = figures.to_json(&name, shown_pictures(&figures, &pictures));
    if !args.files.use_stdout() {
        let document =
            Document::of(&name, std::slice::from_ref(&document)).map_err(CommandError::failed)?;
        print(&document.text().map_err(CommandError::failed)?)?;
    }
    args.files.write(|| indented(&document))?;
    Ok(ExitCode::SUCCESS)
}

/// The pictures of the page, each with a note.
fn shown_pictures(
    figures: &ModelFigures<'_>,
    pictures: &ModelPictures<'_>,
) -> Vec<(Heatmap, &'static str)> {
    let [overview, zoom] = pictures.overview_and_zoom(None);
    let rows = "Each row is divided by its sum. Without colour: never seen.";
    let mut maps = vec![(overview, rows), (zoom, "")];
    maps.extend(pictures.whole().map(|whole| (whole, "")));
    let distribution = pictures.distribution(figures.distribution());
    maps.push((distribution, "Shares below a millionth of the largest are left out."));
    maps
}
