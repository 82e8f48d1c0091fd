//! `cellpace compare`: several controllers, each alone, over one or more traces.

use std::fmt::Display;
use std::process::ExitCode;

use cellpace_lab::{Batch, Experiment, NamedTrace, read_controller, trace_files};
use clap::Args;

use crate::error::{CommandError, named};
use crate::outputs::{Outputs, Repetition, run_batch};
use crate::path_options::PathOptions;

/// Arguments of `cellpace compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace compare --trace city-drive.down --cc verus --cc copa --cc cubic --report out.html
  cellpace compare --trace random:10mbit..100mbit/5s --rtt random:10ms..100ms/5s \\
      --loss random:0%..1%/5s --cc verus --cc cubic --repeat 5
  cellpace compare --handover 30s/200ms/80ms/lost --cc verus --cc bbr")]
pub(crate) struct CompareArgs {
    /// A trace: a file in Mahimahi format, a profile (lte-driving, ...) or generated
    /// (constant:12mbit, step:..., random:..., onoff:..., cellreplay:...); repeatable
    #[arg(long = "trace", value_name = "TRACE", default_value = "lte-driving")]
    traces: Vec<String>,
    /// A controller, e.g. verus (`cellpace cc` lists them); repeatable
    #[arg(long = "cc", value_name = "CC", default_values = ["verus", "copa", "cubic", "bbr"])]
    ccs: Vec<String>,
    #[command(flatten)]
    path: PathOptions,
    /// Flows of the same controller that share the link
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    flows: u32,
    #[command(flatten)]
    repetition: Repetition,
    #[command(flatten)]
    outputs: Outputs,
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, CommandError> {
    args.outputs.check()?;
    let runs = experiment(args)?.plan()?;
    run_batch(Batch::new(runs), "cellpace compare", &args.repetition, &args.outputs)
}

fn experiment(args: &CompareArgs) -> Result<Experiment, CommandError> {
    once_each("--trace", &args.traces)?;
    once_each("--cc", &args.ccs)?;
    let read = |cc: &String| read_controller(cc);
    let controllers: Result<Vec<_>, _> = args.ccs.iter().map(read).collect();
    let mut files = trace_files();
    Ok(Experiment {
        controllers: named("--cc", controllers)?,
        traces: named("--trace", NamedTrace::read_all(&args.traces, &mut files))?,
        seeds: args.repetition.seeds(args.path.seed).collect(),
        flows: args.flows,
        duration: args.path.duration,
        path: args.path.conditions(&mut files)?,
    })
}

/// What is given twice would look like a run with two seeds.
pub(crate) fn once_each<T: PartialEq + Display>(
    option: &str,
    given: &[T],
) -> Result<(), CommandError> {
    let twice = (1..given.len()).find(|index| given[..*index].contains(&given[*index]));
    match twice {
        Some(index) => {
            Err(CommandError::usage(format!("{option}: `{}` is given twice", given[index])))
        }
        None => Ok(()),
    }
}
