//! `cellpace report`: stored results as one page, and the page of a command's own result.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_report::{Document, charts, page};
use clap::Args;

use crate::error::CommandError;
use crate::output::{check_files, is_stdout, write};

/// Arguments of `cellpace report`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace compare --cc verus --cc cubic --json result.json
  cellpace report result.json -o result.html
  cellpace report result.json --svg charts     # the charts alone, for papers and slides

Results of one kind stand side by side, for example two runs of `cellpace run`; results of several
kinds one after the other.")]
pub(crate) struct ReportArgs {
    /// What commands wrote with --json (`-`: standard input)
    #[arg(value_name = "FILE", required = true)]
    results: Vec<PathBuf>,
    /// The page to write, one file that works offline (`-`: standard output)
    #[arg(short, long, value_name = "FILE.html", required_unless_present = "svg")]
    output: Option<PathBuf>,
    /// Write the charts as SVG files
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// A result is far smaller: this keeps a wrong file from filling the memory.
const MAX_RESULT_BYTES: u64 = 256 << 20;

pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, CommandError> {
    if args.results.iter().filter(|path| is_stdout(path)).count() > 1 {
        return Err(CommandError::usage("`-`: standard input is one result; give it once"));
    }
    check_files(&[("--output", args.output.as_deref())])?;
    if let Some(folder) = args.svg.as_ref().filter(|path| path.exists() && !path.is_dir()) {
        let folder = folder.display();
        return Err(CommandError::usage(format!("--svg {folder}: is a file, not a folder")));
    }
    let documents: Result<Vec<Document>, CommandError> =
        args.results.iter().map(|path| read(path)).collect();
    let documents = documents?;
    // Nothing is written where something is wrong.
    let page = args.output.as_ref().map(|_| page(&documents)).transpose();
    let page = page.map_err(CommandError::usage)?;
    let charts = args.svg.as_ref().map(|_| charts(&documents)).transpose();
    let charts = charts.map_err(CommandError::usage)?;
    if let (Some(path), Some(page)) = (&args.output, page) {
        write(path, &page)?;
    }
    if let (Some(folder), Some(charts)) = (&args.svg, charts) {
        write_charts(folder, &charts)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_charts(folder: &Path, charts: &[(String, String)]) -> Result<(), CommandError> {
    fs::create_dir_all(folder)
        .map_err(|error| CommandError::failed(format!("{}: {error}", folder.display())))?;
    charts.iter().try_for_each(|(name, svg)| write(&folder.join(name), svg))
}

fn read(path: &Path) -> Result<Document, CommandError> {
    let name =
        if is_stdout(path) { "standard input".to_owned() } else { path.display().to_string() };
    let wrong = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            io::ErrorKind::IsADirectory => "is a folder, not a result".to_owned(),
            io::ErrorKind::InvalidData => "not text: no result of cellpace".to_owned(),
            _ => error.to_string(),
        };
        CommandError::usage(format!("{name}: {why}"))
    };
    let mut text = String::new();
    let source: Box<dyn Read> = match is_stdout(path) {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).map_err(wrong)?),
    };
    let length = source.take(MAX_RESULT_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
    if length as u64 > MAX_RESULT_BYTES {
        let most = MAX_RESULT_BYTES >> 20;
        return Err(CommandError::usage(format!("{name}: larger than {most} MB")));
    }
    Document::read(&name, &text).map_err(CommandError::usage)
}

/// Writes the page of results, made from the very JSON that their commands write. `documents` are
/// texts as they stand in the files of `--json`.
pub(crate) fn write_report(path: &Path, documents: &[&str]) -> Result<(), CommandError> {
    let read = |text: &&str| Document::read("the result", text);
    let documents: Result<Vec<Document>, _> = documents.iter().map(read).collect();
    let page = documents.and_then(|documents| page(&documents)).map_err(CommandError::failed)?;
    write(path, &page)
}
