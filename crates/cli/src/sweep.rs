//! `cellpace sweep`: a plan of many runs on all cores, with results that are kept as they come.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_lab::sweep::{PlanFiles, Sweep, SweepEnd, SweepFolder, SweepPlan, run_sweep};
use cellpace_lab::{WorkSink, threads};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::error::CommandError;
use crate::options::{Verbosity, read_text, whole};
use crate::output::{complain, print};
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted, interruption_code};

/// Arguments of `cellpace sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  printf '%s\\n' 'trace = \"lte-driving\"' 'cc = [\"verus\", \"copa\"]' > plan.toml
  cellpace sweep plan.toml --out results

A plan; every field may be one value or a list:
  trace = [\"lte-driving\", \"constant:12mbit\"]   # and the other options of compare: rtt, queue,
  rtt = [\"20ms\", \"80ms\"]                       # loss, uplink, uplink_loss, impair, jitter,
  duration = \"60s\"                             # send_jitter, handover, acks, flows, transfer, ...
  seeds = \"1..50\"

  [[cc]]
  name = \"verus\"
  r = [2, 4, 6]

  [[cc]]
  name = \"copa\"
  delta = { from = 0.1, to = 1, steps = 5 }

Results: DIR/part-*.parquet, one row a run, and DIR/manifest.json. The same command goes on where an
earlier one stopped.")]
pub(crate) struct SweepArgs {
    /// The plan, a TOML file (`-`: standard input)
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    plan: String,
    /// The folder of the results [default: the plan's name without .toml]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_u16))]
    jobs: Option<u16>,
    /// Check the plan and say how many runs it has and how long they should take; nothing runs
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    verbosity: Verbosity,
}

pub(crate) fn run(args: &SweepArgs) -> Result<ExitCode, CommandError> {
    let name = if args.plan == "-" { "standard input" } else { &args.plan };
    let plan = SweepPlan::from_toml(name, &read_text(&args.plan, "plan")?)?;
    let sweep = Sweep::new(plan, PlanFiles::of_machine(false))?;
    let threads = threads(args.jobs);
    if args.dry_run {
        print(&described(&sweep, threads))?;
        return Ok(ExitCode::SUCCESS);
    }
    let root = args.folder()?;
    end_cleanly_on_ctrl_c();
    let mut folder = SweepFolder::open(&root, &sweep)?;
    let before = folder.done();
    if before > 0 {
        let all = sweep.cells();
        args.verbosity.note(&format!("{before} of {all} runs are there already"));
    }
    let missing = (sweep.cells() - before) as usize;
    let progress = Progress::with_verbosity(missing, "runs", args.verbosity);
    let end = run_sweep(&sweep, &mut folder, threads, &mut SweepWatch(&progress))?;
    progress.finish();
    if end.done < sweep.cells() {
        let missing = sweep.cells() - end.done;
        complain(&format!(
            "interrupted; {missing} of {} runs are missing: the same command goes on",
            sweep.cells()
        ));
        return Ok(interruption_code());
    }
    print(&summary(&folder, end))?;
    Ok(ExitCode::SUCCESS)
}

impl SweepArgs {
    fn folder(&self) -> Result<PathBuf, CommandError> {
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        match self.plan.strip_suffix(".toml") {
            Some(folder) if !folder.is_empty() => Ok(PathBuf::from(folder)),
            _ => Err(CommandError::usage("name the folder of the results: --out DIR")),
        }
    }
}

/// Shows how far the runs are.
struct SweepWatch<'a>(&'a Progress);

impl WorkSink<u64> for SweepWatch<'_> {
    fn on_done(&mut self, _: usize, _: &u64) {
        self.0.step();
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}

/// Cells that are looked at for an estimate.
const SAMPLED: u64 = 10_000;

fn described(sweep: &Sweep, threads: usize) -> String {
    let cells = sweep.cells();
    let step = cells.div_ceil(SAMPLED).max(1);
    let sampled = (0..cells).step_by(step as usize);
    let seconds: f64 = sampled.map(|cell| sweep.estimate_s(cell) * step as f64).sum();
    let seconds = seconds / threads as f64;
    let time = match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    };
    let mut text = format!("{cells} runs, roughly {time} on {threads} cores\n");
    for (name, file) in sweep.files().files() {
        let _ = writeln!(text, "file: {name}, BLAKE3 {}", &file.hash[..16]);
    }
    text
}

fn summary(folder: &SweepFolder, end: SweepEnd) -> String {
    let root = folder.root().display();
    let parts = folder.manifest().parts.len();
    let files = if parts == 1 { "file" } else { "files" };
    let mut text = format!("{} runs in {parts} {files}: {root}/part-*.parquet\n", end.done);
    match end.errors {
        0 => {}
        1 => text += "1 of them failed: its row has the reason as `error`\n",
        errors => {
            let _ =
                writeln!(text, "{errors} of them failed: their rows have the reasons as `error`");
        }
    }
    text
}
