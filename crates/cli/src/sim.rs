//! `cellpace sim`: one scenario from a file.

use std::process::ExitCode;

use cellpace_lab::{Batch, shown_name, trace_files};
use cellpace_sim::Scenario;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::error::CommandError;
use crate::options::{read_text, seed};
use crate::outputs::{Outputs, RepeatArgs, run_batch};

/// Arguments of `cellpace sim`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  printf '%s\\n' 'trace = \"lte-driving\"' '[[flow]]' 'cc = \"verus\"' 'count = 2' > two.toml
  cellpace sim two.toml --report out.html

A scenario:
  trace = \"constant:60mbit\"     # all written forms of compare's options
  rtt = \"40ms\"
  queue = \"droptail:2MB\"
  duration = \"120s\"

  [[flow]]
  cc = \"verus\"
  count = 3

  [[flow]]
  cc = \"cubic\"
  start = \"60s\"                 # also: stop, rtt
  onoff = { mean = \"4MB\", off = \"10s\" }

  [[flow]]
  cc = \"bbr\"
  transfer = { size = \"2MB\", count = 20, gap = \"1s\" }

  [[flow]]
  udp = \"2mbit\"")]
pub(crate) struct SimArgs {
    /// The scenario, a TOML file (`-`: standard input)
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    scenario: String,
    /// Another seed than the scenario's
    #[arg(long, value_name = "N", value_parser = seed)]
    seed: Option<u64>,
    #[command(flatten)]
    repetition: RepeatArgs,
    #[command(flatten)]
    outputs: Outputs,
}

pub(crate) fn run(args: &SimArgs) -> Result<ExitCode, CommandError> {
    args.outputs.check([&args.scenario])?;
    let name = if args.scenario == "-" { "standard input" } else { &args.scenario };
    let text = read_text(&args.scenario, "scenario")?;
    let scenario =
        Scenario::from_toml(name, &text, &mut trace_files()).map_err(CommandError::usage)?;
    let trace = shown_name(&scenario.trace().to_string());
    let seeds = args.repetition.seeds(args.seed.unwrap_or(scenario.seed));
    let batch = Batch::of_scenario(scenario, &trace, seeds)?;
    run_batch(batch, "cellpace sim", None, &args.outputs)
}
