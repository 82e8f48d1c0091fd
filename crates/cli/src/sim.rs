//! `cellpace sim`: one scenario from a file.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_sim::Scenario;
use clap::Args;

use crate::error::Failure;
use crate::load;
use crate::progress::end_cleanly_on_ctrl_c;
use crate::results::{Cell, Outputs, run_cells};

/// Arguments of `cellpace sim`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace sim fairness.toml --report out.html

A scenario:
  trace = \"constant:60mbit\"     # all written forms of compare's options
  rtt = \"40ms\"
  queue = \"droptail:2MB\"
  duration = \"120s\"

  [[flow]]
  cc = \"verus:r=2\"
  count = 3

  [[flow]]
  cc = \"cubic\"
  start = \"60s\"                 # also: stop, rtt
  onoff = { mean = \"4MB\", off = \"10s\" }

  [[flow]]
  udp = \"2mbit\"")]
pub(crate) struct SimArgs {
    /// The scenario, a TOML file
    scenario: PathBuf,
    /// Another seed than the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run it with this many seeds and give 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    outputs: Outputs,
}

/// A scenario is written by hand; this is far more than anybody writes.
const MAX_SCENARIO_BYTES: u64 = 1 << 20;

pub(crate) fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    args.outputs.check()?;
    let name = args.scenario.display().to_string();
    let text = read(args, &name)?;
    let scenario = Scenario::from_toml(&name, &text, &mut load::files()).map_err(Failure::usage)?;
    let first = args.seed.unwrap_or(scenario.seed);
    let cells: Vec<Cell> = (0..u64::from(args.repeat))
        .map(|offset| Cell {
            cc: scenario.flow_names(),
            trace: load::shown(&scenario.trace.to_string()),
            scenario: Scenario { seed: first.wrapping_add(offset), ..scenario.clone() },
        })
        .collect();
    end_cleanly_on_ctrl_c();
    run_cells(&cells, args.jobs, &args.outputs)
}

fn read(args: &SimArgs, name: &str) -> Result<String, Failure> {
    let wrong = |error: std::io::Error| Failure::usage(format!("{name}: {error}"));
    let size = std::fs::metadata(&args.scenario).map_err(wrong)?.len();
    if size > MAX_SCENARIO_BYTES {
        return Err(Failure::usage(format!("{name}: {size} bytes are no scenario")));
    }
    std::fs::read_to_string(&args.scenario).map_err(wrong)
}
