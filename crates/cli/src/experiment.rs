//! `cellpace experiment`: plans of experiments on live traffic.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_base::{Span, parse_fraction};
use cellpace_experiment::ExperimentPlan;
use cellpace_report::{experiment_plan_text, indented};
use clap::{Args, Subcommand};

use crate::error::CommandError;
use crate::options::span;
use crate::output::{check_files, keep_inputs, print, write_json};
use crate::report::read_result;

/// What to do with experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum ExperimentCommand {
    /// Say how long an experiment must run, by what connections did before
    #[command(after_help = "Example:
  cellpace experiment plan baseline.jsonl --slot 10m --share 20%

The baseline is the log of an experiment, of which the first arm counts: one whose arms are all plain will do.")]
    Plan(PlanArgs),
}

/// Arguments of `cellpace experiment plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// What `cellpace proxy --experiment-log` wrote
    #[arg(value_name = "FILE.jsonl")]
    baseline: PathBuf,
    /// Length of a slot
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = slot)]
    slot: Span,
    /// Share of slots in the experiment
    #[arg(long, default_value = "100%", value_name = "SHARE", value_parser = share)]
    share: f64,
    /// Write the plan as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn slot(text: &str) -> Result<Span, String> {
    let slot = span(text)?;
    let range = Span::from_secs(1)..=Span::from_secs(86_400);
    range.contains(&slot).then_some(slot).ok_or_else(|| "write a time from 1s to 24h".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share = parse_fraction(text).map_err(|error| error.to_string())?;
    (share > 0.0).then_some(share).ok_or_else(|| "nothing would be in the experiment".to_owned())
}

pub(crate) fn run(command: &ExperimentCommand) -> Result<ExitCode, CommandError> {
    let ExperimentCommand::Plan(args) = command;
    let files = [("--json", args.json.as_deref())];
    check_files(&files)?;
    keep_inputs(&files, [args.baseline.as_path()])?;
    let document = read_result(&args.baseline).map_err(CommandError::usage)?;
    let wrong = |why: &str| CommandError::usage(format!("{}: {why}", document.name));
    let records = document.experiment_records().map_err(CommandError::usage)?;
    let records = records.ok_or_else(|| wrong("no log of an experiment"))?;
    let plan = ExperimentPlan::of(&records, args.slot, args.share);
    let plan = plan.map_err(|why| wrong(&why))?;
    if write_json(args.json.as_deref(), || indented(&plan))? {
        print(&experiment_plan_text(&plan))?;
    }
    Ok(ExitCode::SUCCESS)
}
