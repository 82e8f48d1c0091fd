//! `cellpace mdi show`: what a table holds, in figures and pictures.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_lab::shown_name;
use cellpace_mdi::TransitionMatrix;
use cellpace_report::{Heatmap, HeatmapPage, heatmap_html, heatmap_svg};
use clap::Args;

use super::figures::Figures;
use super::picture::Pictures;
use super::read::{Users, counts, read};
use crate::error::Failure;
use crate::output::{print, write};
use crate::outputs::check_file;

/// Arguments of `cellpace mdi show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace mdi show verus.mdi
  cellpace mdi show verus.mdi --users 2 --plot matrix.svg --zoom 24
  cellpace mdi show matrix.csv --report table.html

A subset is what may follow a state when the next delay is known. Pictures show the matrix with
each row divided by its sum; white: never seen.")]
pub(crate) struct ShowArgs {
    /// A Markov table, or a matrix in CSV
    #[arg(value_name = "FILE")]
    table: PathBuf,
    /// What was learnt with this number of users
    #[arg(long, default_value = "all", value_name = "all|N")]
    users: Users,
    /// Write the figures as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the transition matrix and a zoom, as SVG
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write figures and pictures as one HTML page that works offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The first of ten delays drawn, if the matrix is too large to be drawn whole: in ms, or the
    /// change [default: the lowest]
    #[arg(long, value_name = "DELAY", allow_negative_numbers = true, value_parser = finite)]
    from: Option<f64>,
    /// The delay that is zoomed: in ms, or the change [default: the one with the most cells]
    #[arg(long, value_name = "DELAY", allow_negative_numbers = true, value_parser = finite)]
    zoom: Option<f64>,
}

fn finite(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| "give a number".to_owned())
}

pub(crate) fn run(args: &ShowArgs) -> Result<ExitCode, Failure> {
    check(args)?;
    let table = read(&args.table)?;
    let model = args.users.of(table.model)?;
    let name = shown_name(&args.table.display().to_string());
    let counts = counts(&model);
    let matrix = TransitionMatrix::new(&model.states, &counts);
    let figures = Figures::of(&model, table.bytes, &counts, &matrix);
    let teacher = Some(&model.about.teacher).filter(|teacher| !teacher.is_empty());
    let pictures =
        Pictures { name: teacher.unwrap_or(&name), states: model.states, matrix: &matrix };
    if let Some(path) = &args.plot {
        write(path, &heatmap_svg(&drawn(args, &pictures)))?;
    }
    if let Some(path) = &args.report {
        write(path, &page(args, &name, &figures, &pictures))?;
    }
    if let Some(path) = &args.json {
        write(path, &format!("{:#}\n", figures.json()))?;
    }
    let outputs = [&args.json, &args.plot, &args.report];
    if outputs.into_iter().flatten().all(|path| !is_stdout(path)) {
        print(&figures.text(&name))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what cannot be written before the work is done, not after.
fn check(args: &ShowArgs) -> Result<(), Failure> {
    let outputs = || [&args.json, &args.plot, &args.report].into_iter().flatten();
    if outputs().filter(|path| is_stdout(path)).count() > 1 {
        return Err(Failure::usage("only one of --json, --plot and --report can go to `-`"));
    }
    outputs().filter(|path| !is_stdout(path)).try_for_each(|path| check_file(path))?;
    let is_svg =
        |path: &&PathBuf| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"));
    match args.plot.as_ref().filter(|path| !is_stdout(path) && !is_svg(path)) {
        Some(path) => Err(Failure::usage(format!(
            "--plot {}: name a file that ends with .svg",
            path.display()
        ))),
        None => Ok(()),
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The matrix and its zoom.
fn drawn(args: &ShowArgs, pictures: &Pictures<'_>) -> [Heatmap; 2] {
    let delays = pictures.overview_delays(args.from);
    let zoomed = args.zoom.map(|delay| pictures.delay_at(delay));
    let zoomed = zoomed.unwrap_or_else(|| pictures.fullest(delays));
    [pictures.overview(delays), pictures.zoom(zoomed)]
}

fn page(args: &ShowArgs, name: &str, figures: &Figures<'_>, pictures: &Pictures<'_>) -> String {
    let [overview, zoom] = drawn(args, pictures);
    let rows = "Each row is divided by its sum. White: never seen.";
    let mut maps = vec![(overview, rows.to_owned()), (zoom, String::new())];
    if !pictures.is_small() {
        let count = pictures.states.delays();
        let whole = pictures.overview(super::picture::Delays { first: 0, count });
        maps.push((whole, String::new()));
    }
    let distribution = pictures.distribution(&figures.stationary.shares);
    maps.push((distribution, "Shares below a millionth of the largest are left out.".to_owned()));
    heatmap_html(&HeatmapPage {
        title: format!("Markov table of {}", pictures.name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        facts: std::iter::once(("table".to_owned(), name.to_owned()))
            .chain(figures.facts())
            .collect(),
        maps,
        tables: figures.tables(),
    })
}
