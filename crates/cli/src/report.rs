//! `cellpace report`: stored results as one page, and the page of a command's own result.

mod inputs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_report::{Document, charts, csv, page, page_with_index, png};
use clap::Args;

use self::inputs::{Inputs, inputs};
use crate::error::CommandError;
use crate::output::{check_files, complain, write, write_bytes};

/// Arguments of `cellpace report`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace compare --cc verus --cc cubic --json result.json
  cellpace report result.json -o result.html
  cellpace report result.json --svg charts     # the charts alone, for papers and slides
  cellpace report result.json --csv -          # the figures as a table

Results of one kind stand side by side, for example two runs of `cellpace run`; results of several
kinds one after the other. Of a folder all results are taken, also those of folders in it.")]
pub(crate) struct ReportArgs {
    /// What commands wrote with --json, Parquet of --log or --transfers, folders of these (`-`: standard input)
    #[arg(value_name = "FILE", required = true)]
    results: Vec<PathBuf>,
    /// The page to write, one file that works offline (`-`: standard output)
    #[arg(short, long, value_name = "FILE.html", required_unless_present_any = ["svg", "png", "csv"])]
    output: Option<PathBuf>,
    /// Write the charts as SVG files
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write the charts as PNG files
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
    /// Write the figures as CSV, a row for each run and flow (`-`: standard output)
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
}

pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--output", args.output.as_deref()), ("--csv", args.csv.as_deref())])?;
    check_folder("--svg", args.svg.as_deref())?;
    check_folder("--png", args.png.as_deref())?;
    let inputs = inputs(&args.results)?;
    let made = Made::of(args, &inputs)?;
    for (name, why) in &inputs.left_out {
        complain(&format!("{name}: left out: {why}"));
    }
    made.write(args)?;
    Ok(ExitCode::SUCCESS)
}

/// What is to be written: nothing is where something is wrong.
#[derive(Default)]
struct Made {
    page: Option<String>,
    charts: Vec<(String, String)>,
    pictures: Vec<(String, Vec<u8>)>,
    csv: Option<String>,
}

impl Made {
    fn of(args: &ReportArgs, inputs: &Inputs) -> Result<Self, CommandError> {
        let documents = &inputs.documents;
        let mut made = Self::default();
        if args.output.is_some() {
            made.page = Some(match inputs.has_folder {
                true => page_with_index(documents, &inputs.left_out),
                false => page(documents),
            })
            .transpose()
            .map_err(CommandError::usage)?;
        }
        if args.svg.is_some() || args.png.is_some() {
            made.charts = charts(documents).map_err(CommandError::usage)?;
        }
        if args.png.is_some() {
            let picture = |(name, svg): &(String, String)| -> Result<_, CommandError> {
                let name = name.trim_end_matches(".svg");
                Ok((format!("{name}.png"), png(svg).map_err(CommandError::failed)?))
            };
            made.pictures = made.charts.iter().map(picture).collect::<Result<_, _>>()?;
        }
        made.csv = args.csv.as_ref().map(|_| csv(documents));
        Ok(made)
    }

    fn write(&self, args: &ReportArgs) -> Result<(), CommandError> {
        if let (Some(path), Some(page)) = (&args.output, &self.page) {
            write(path, page)?;
        }
        if let Some(folder) = &args.svg {
            let charts = self.charts.iter().map(|(name, svg)| (name.as_str(), svg.as_bytes()));
            write_files(folder, charts)?;
        }
        if let Some(folder) = &args.png {
            let pictures = self.pictures.iter().map(|(name, png)| (name.as_str(), png.as_slice()));
            write_files(folder, pictures)?;
        }
        match (&args.csv, &self.csv) {
            (Some(path), Some(csv)) => write(path, csv),
            _ => Ok(()),
        }
    }
}

fn check_folder(option: &str, folder: Option<&Path>) -> Result<(), CommandError> {
    match folder.filter(|path| path.exists() && !path.is_dir()) {
        Some(file) => {
            let file = file.display();
            Err(CommandError::usage(format!("{option} {file}: is a file, not a folder")))
        }
        None => Ok(()),
    }
}

fn write_files<'a>(
    folder: &Path,
    mut files: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<(), CommandError> {
    fs::create_dir_all(folder)
        .map_err(|error| CommandError::failed(format!("{}: {error}", folder.display())))?;
    files.try_for_each(|(name, bytes)| write_bytes(&folder.join(name), bytes))
}

/// Writes the page of results, made from the very JSON that their commands write. `documents` are
/// texts as they stand in the files of `--json`.
pub(crate) fn write_report(path: &Path, documents: &[&str]) -> Result<(), CommandError> {
    let read = |text: &&str| Document::read("the result", text);
    let documents: Result<Vec<Document>, _> = documents.iter().map(read).collect();
    let page = documents.and_then(|documents| page(&documents)).map_err(CommandError::failed)?;
    write(path, &page)
}
