//! `cellpace mdi show`: what a table holds, in figures and pictures.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_lab::{ModelFigures, ModelPictures, shown_name};
use cellpace_mdi::TransitionMatrix;
use cellpace_report::{Document, Heatmap, heatmap_svg, indented};
use clap::Args;

use super::model_file::{UserSelection, all_counts, has_ending, read_model};
use crate::error::CommandError;
use crate::output::{check_files, is_stdout, print, write};
use crate::result_files::ResultFiles;

/// Arguments of `cellpace mdi show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace mdi train --cc verus --trace lte-driving -o verus.mdi
  cellpace mdi show verus.mdi
  cellpace mdi show verus.mdi --users 2 --plot matrix.svg --zoom 24
  cellpace mdi show verus.mdi --report table.html

A subset is what may follow a state when the next delay is known. Pictures show the matrix with
each row divided by its sum; without colour: never seen.")]
pub(crate) struct MdiShowArgs {
    /// A Markov table (`-`: standard input)
    #[arg(value_name = "FILE")]
    table: PathBuf,
    /// What was learnt with this number of users
    #[arg(long, default_value = "all", value_name = "all|N")]
    users: UserSelection,
    /// Draw the transition matrix, or its first ten delays, and a zoom, as SVG
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// The delay that is zoomed: in ms, or the change [default: the one with the most cells]
    #[arg(long, value_name = "DELAY", allow_negative_numbers = true, value_parser = finite)]
    zoom: Option<f64>,
    #[command(flatten)]
    files: ResultFiles,
}

fn finite(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| "give a number".to_owned())
}

pub(crate) fn run(args: &MdiShowArgs) -> Result<ExitCode, CommandError> {
    check(args)?;
    let (model, bytes) = read_model(&args.table)?;
    let model = args.users.of(model)?;
    let name = shown_name(&args.table.display().to_string());
    let counts = all_counts(&model);
    let matrix = TransitionMatrix::new(&model.states, &counts);
    let figures = ModelFigures::of(&model, bytes, &counts, &matrix);
    let teacher = Some(&model.about.teacher).filter(|teacher| !teacher.is_empty());
    let pictures =
        ModelPictures { name: teacher.unwrap_or(&name), states: model.states, matrix: &matrix };
    if let Some(path) = &args.plot {
        write(path, &heatmap_svg(&pictures.overview_and_zoom(args.zoom)))?;
    }
    let document = figures.to_json(&name, shown_pictures(args, &figures, &pictures));
    if !args.files.use_stdout() && !args.plot.as_deref().is_some_and(is_stdout) {
        let document = Document::of(&name, vec![document.clone()]).map_err(CommandError::failed)?;
        print(&document.text().map_err(CommandError::failed)?)?;
    }
    args.files.write(|| indented(&document))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses what cannot be written before the work is done, not after.
fn check(args: &MdiShowArgs) -> Result<(), CommandError> {
    let [json, report] = args.files.options();
    check_files(&[json, report, ("--plot", args.plot.as_deref())])?;
    match args.plot.as_ref().filter(|path| !is_stdout(path) && !has_ending(path, "svg")) {
        Some(path) => {
            let why = "name a file that ends with .svg";
            Err(CommandError::usage(format!("--plot {}: {why}", path.display())))
        }
        None => Ok(()),
    }
}

/// The pictures of the page, each with a note.
fn shown_pictures(
    args: &MdiShowArgs,
    figures: &ModelFigures<'_>,
    pictures: &ModelPictures<'_>,
) -> Vec<(Heatmap, &'static str)> {
    let [overview, zoom] = pictures.overview_and_zoom(args.zoom);
    let rows = "Each row is divided by its sum. Without colour: never seen.";
    let mut maps = vec![(overview, rows), (zoom, "")];
    maps.extend(pictures.whole().map(|whole| (whole, "")));
    let distribution = pictures.distribution(figures.distribution());
    maps.push((distribution, "Shares below a millionth of the largest are left out."));
    maps
}
