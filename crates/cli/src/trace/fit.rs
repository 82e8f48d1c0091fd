//! `cellpace trace fit`: a profile from a trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_lab::shown_name;
use cellpace_lab::trace::{compare_fit, fit_json, load_trace};
use cellpace_path::fit::fit;
use cellpace_path::profile::LinkProfile;
use cellpace_path::schedule::Trace;
use cellpace_report::side_by_side;
use clap::Args;

use crate::error::CommandError;
use crate::output::{is_stdout, print, write, write_json};
use crate::progress::Progress;

/// The longest name of a source; it has to fit a line.
const MAX_NAME: usize = 200;

/// Arguments of `cellpace trace fit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace fit drive.down -o drive.profile --name \"LTE downlink, driving, 2024\"
  cellpace compare --trace profile:drive.profile --seed 7

A profile has some ninety numbers in lines of text: how the rate is distributed and how fast it
changes, outages, the sizes of bursts and the gaps between them. The same trace always gives the
same profile. The trace needs at least 20 s with service, better several minutes.")]
pub(crate) struct FitArgs {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Where to write the profile (`-`: standard output, and nothing else there)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What the trace is; the profile begins with "fitted to 786 s of NAME"
    /// [default: the file's name]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Generated traces to compare with the source, with seeds from 1 on; 0: none
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    seeds: u32,
    /// Write the comparison as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn name(text: &str) -> Result<String, String> {
    let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match name.chars().count() {
        0 => Err("it is empty".to_owned()),
        1..=MAX_NAME => Ok(name),
        count => Err(format!("{count} letters are more than {MAX_NAME}")),
    }
}

pub(crate) fn run(args: &FitArgs) -> Result<ExitCode, CommandError> {
    if is_same_file(Path::new(&args.trace), &args.output) {
        return Err(CommandError::usage("--output is the trace itself; it would be lost"));
    }
    let source = load_trace(&args.trace, None, 1)?;
    let profile =
        fit(&source).map_err(|error| CommandError::failed(format!("{}: {error}", args.trace)))?;
    let profile = profile.with_about(&about(args, &source));
    write(&args.output, &profile.to_string())?;
    if is_stdout(&args.output) {
        return Ok(ExitCode::SUCCESS);
    }
    say(args, &source, &profile)
}

fn is_same_file(trace: &Path, output: &Path) -> bool {
    match (fs::canonicalize(trace), fs::canonicalize(output)) {
        (Ok(trace), Ok(output)) => trace == output,
        _ => false,
    }
}

fn about(args: &FitArgs, source: &Trace) -> String {
    let name = args.name.clone().unwrap_or_else(|| shown_name(&args.trace));
    format!("fitted to {:.0} s of {name}", source.period().as_secs_f64())
}

fn say(args: &FitArgs, source: &Trace, profile: &LinkProfile) -> Result<ExitCode, CommandError> {
    let output = args.output.display().to_string();
    let progress = Progress::new(args.seeds as usize, "generated traces");
    let rows = compare_fit(source, profile, args.seeds, || progress.step());
    progress.finish();
    let json = || fit_json(&args.trace, &output, args.seeds, &rows);
    if !write_json(args.json.as_deref(), json)? {
        return Ok(ExitCode::SUCCESS);
    }
    if !rows.is_empty() {
        print(&side_by_side([&shown_name(&args.trace), "generated"], &rows))?;
        let seeds = if args.seeds == 1 {
            "one seed".to_owned()
        } else {
            format!("the mean over {} seeds", args.seeds)
        };
        print(&format!("generated: {seeds}\n\n"))?;
    }
    print(&format!("profile: {output}\nuse it as --trace profile:{output}\n"))?;
    Ok(ExitCode::SUCCESS)
}
