//! `cellpace trace fit`: a profile from a trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_lab::shown_name;
use cellpace_lab::trace::{FitSource, compare_fit, fit_json, fit_warnings};
use cellpace_path::stats::StatsRow;
use cellpace_report::side_by_side;
use clap::Args;

use crate::error::CommandError;
use crate::output::{check_files, complain, is_stdout, print, write, write_json};
use crate::progress::Progress;

/// Generated traces that are compared with the source, with seeds from 1 on.
const SEEDS: u32 = 10;

/// Arguments of `cellpace trace fit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace make umts-driving -o drive.down
  cellpace trace fit drive.down -o drive.profile
  cellpace compare --trace profile:drive.profile --seed 7

A profile has some ninety numbers in lines of text: how the rate is distributed and how fast it
changes, outages, the sizes of bursts and the gaps between them. The same trace always gives the
same profile. The trace needs at least 20 s with service, better several minutes. Logs of rates,
one value a second, fit as well (`cellpace trace convert rates.csv -o rates.down` first): they say
nothing of bursts, and the profile has none.

The RTT that is fitted is the least of each second, drawn anew as often as it changed; use it with
`compare --path profile:FILE`.")]
pub(crate) struct FitArgs {
    /// The trace; of a table with RTTs or losses beside rates these are fitted as well
    #[arg(value_name = "TRACE")]
    trace: String,
    /// RTTs of another recording that are fitted as well, in the form of `compare --rtt`
    #[arg(long, value_name = "file:DELAYS")]
    rtt: Option<String>,
    /// Losses of another recording that are fitted as well, in the form of `compare --loss`
    #[arg(long, value_name = "file:LOSSES")]
    loss: Option<String>,
    /// Where to write the profile (`-`: standard output, and nothing else there)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the comparison as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &FitArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--output", Some(&args.output)), ("--json", args.json.as_deref())])?;
    if is_same_file(Path::new(&args.trace), &args.output) {
        return Err(CommandError::usage("--output is the trace itself; it would be lost"));
    }
    let source = FitSource::read(&args.trace, args.rtt.as_deref(), args.loss.as_deref())?;
    let profile =
        source.fit().map_err(|error| CommandError::failed(format!("{}: {error}", args.trace)))?;
    let seconds = source.trace.period().as_secs_f64();
    let mut about = format!("fitted to {seconds:.0} s of {}", shown_name(&args.trace));
    let beside = [("RTT", &args.rtt), ("loss", &args.loss)];
    for (what, file) in beside.iter().filter_map(|(what, file)| Some((what, file.as_deref()?))) {
        about += &format!(
            ", {what} to another recording, {}",
            shown_name(&file.replacen("file:", "", 1))
        );
    }
    let profile = profile.with_about(&about);
    write(&args.output, &profile.to_string())?;
    let progress = Progress::new(SEEDS as usize, "generated traces");
    let rows = compare_fit(&source, &profile, SEEDS, || progress.step());
    progress.finish();
    fit_warnings(&rows).iter().for_each(|warning| complain(&format!("{}: {warning}", args.trace)));
    if is_stdout(&args.output) {
        return Ok(ExitCode::SUCCESS);
    }
    say(args, &rows, source.rtt.is_some() || source.loss.is_some())
}

fn is_same_file(trace: &Path, output: &Path) -> bool {
    match (fs::canonicalize(trace), fs::canonicalize(output)) {
        (Ok(trace), Ok(output)) => trace == output,
        _ => false,
    }
}

fn say(args: &FitArgs, rows: &[StatsRow], has_path: bool) -> Result<ExitCode, CommandError> {
    let output = args.output.display().to_string();
    let json = || fit_json(&args.trace, &output, SEEDS, rows);
    if !write_json(args.json.as_deref(), json)? {
        return Ok(ExitCode::SUCCESS);
    }
    if !rows.is_empty() {
        print(&side_by_side([&shown_name(&args.trace), "generated"], rows))?;
        print(&format!("generated: the mean over {SEEDS} seeds\n\n"))?;
    }
    let option = if has_path { "path" } else { "trace" };
    print(&format!("profile: {output}\nuse it as --{option} profile:{output}\n"))?;
    Ok(ExitCode::SUCCESS)
}
