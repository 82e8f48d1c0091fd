//! `cellpace report`: stored results as one page, and the page of a command's own result.

mod inputs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_report::{Document, ResultDifference, csv, indented, page, page_with_index};
use clap::Args;

use self::inputs::inputs;
pub(crate) use self::inputs::read as read_result;
use crate::error::CommandError;
use crate::output::{check_files, complain, is_stdout, keep_inputs, print, write, write_json};

/// Arguments of `cellpace report`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace compare --cc verus --cc cubic --json result.json
  cellpace report result.json -o result.html
  cellpace report result.json --csv -          # the figures as a table
  cellpace report result.json --diff           # Cubic instead of Verus: by how much, how certainly

Results of one kind stand side by side, for example two runs of `cellpace run`; results of several
kinds one after the other. What others recorded is read, too: qlog, the reports of iperf3
(--json), and captures (pcap, pcapng). Of a folder all results are taken, also those of folders in it.")]
pub(crate) struct ReportArgs {
    /// What commands wrote with --json, Parquet of --log or --transfers, qlog, iperf3's JSON, pcap, folders of these
    /// (`-`: standard input)
    #[arg(value_name = "FILE", required = true)]
    results: Vec<PathBuf>,
    /// The page to write, one file that works offline (`-`: standard output)
    #[arg(short, long, value_name = "FILE.html", required_unless_present_any = ["csv", "json", "text", "diff"])]
    output: Option<PathBuf>,
    /// Write the figures as CSV, a row for each run and flow (`-`: standard output)
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Write a difference, or what the records of an experiment say, as JSON (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print facts, tables and sentences; not of comparisons, whose commands do
    #[arg(long)]
    text: bool,
    /// Compare two results, the second with the first, or the two controllers of one: differences with intervals of 95 %
    /// where there are several seeds or connections
    #[arg(long, conflicts_with_all = ["csv", "text"])]
    diff: bool,
}

pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, CommandError> {
    let files = [
        ("--output", args.output.as_deref()),
        ("--csv", args.csv.as_deref()),
        ("--json", args.json.as_deref()),
    ];
    check_files(&files)?;
    keep_inputs(&files, args.results.iter().map(PathBuf::as_path))?;
    let inputs = inputs(&args.results)?;
    let documents = &inputs.documents;
    if args.diff {
        return difference(args, documents);
    }
    // Made before anything is written: where something is wrong, nothing is.
    let page = args.output.as_ref().map(|_| match inputs.has_folder {
        true => page_with_index(documents, &inputs.left_out),
        false => page(documents),
    });
    let page = page.transpose().map_err(CommandError::usage)?;
    let table =
        args.csv.as_ref().map(|_| csv(documents)).transpose().map_err(CommandError::usage)?;
    let json = args.json.as_ref().map(|_| experiments(documents)).transpose()?;
    let text = args.text.then(|| documents.iter().map(Document::text).collect());
    let text: Option<String> = text.transpose().map_err(CommandError::usage)?;
    for (name, why) in &inputs.left_out {
        complain(&format!("{name}: left out: {why}"));
    }
    if let (Some(path), Some(page)) = (&args.output, &page) {
        write(path, page)?;
    }
    if let (Some(path), Some(table)) = (&args.csv, &table) {
        write(path, table)?;
    }
    if let (Some(path), Some(json)) = (&args.json, &json) {
        write(path, json)?;
    }
    if let Some(text) = &text {
        print(text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn difference(args: &ReportArgs, documents: &[Document]) -> Result<ExitCode, CommandError> {
    let difference = ResultDifference::of(documents).map_err(CommandError::usage)?;
    if let Some(path) = &args.output {
        write(path, &difference.page())?;
    }
    let is_free = write_json(args.json.as_deref(), || indented(&difference))?;
    if is_free && !args.output.as_deref().is_some_and(is_stdout) {
        print(&difference.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the records of experiments say, a document for each file.
fn experiments(documents: &[Document]) -> Result<String, CommandError> {
    let result = |document: &Document| {
        let result = document.experiment().map_err(CommandError::usage)?;
        let other = || {
            CommandError::usage(format!(
                "--json: {} has no records of an experiment",
                document.name
            ))
        };
        result.as_ref().map(indented).ok_or_else(other)
    };
    documents.iter().map(result).collect()
}

/// Writes the page of results, made from the very JSON that their commands write. `documents` are
/// texts as they stand in the files of `--json`.
pub(crate) fn write_report(path: &Path, documents: &[&str]) -> Result<(), CommandError> {
    let read = |text: &&str| Document::read("the result", *text);
    let documents: Result<Vec<Document>, _> = documents.iter().map(read).collect();
    let page = documents.and_then(|documents| page(&documents)).map_err(CommandError::failed)?;
    write(path, &page)
}
