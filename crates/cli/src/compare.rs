//! `cellpace compare`: several controllers, each alone, over one or more traces.

use std::process::ExitCode;

use cellpace_cc::ControllerSpec;
use cellpace_sim::{FlowSpec, Scenario};
use clap::Args;

use crate::error::Failure;
use crate::load;
use crate::path_options::PathOptions;
use crate::progress::end_cleanly_on_ctrl_c;
use crate::results::{Cell, Outputs, run_cells};

/// Arguments of `cellpace compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace compare --trace city-drive.down --cc verus:r=2 --cc copa --cc cubic --report out.html
  cellpace compare --trace random:10mbit..100mbit/5s --rtt random:10ms..100ms/5s \\
      --loss random:0%..1%/5s --cc verus --cc cubic --repeat 5")]
pub(crate) struct CompareArgs {
    /// A trace: a file in Mahimahi format, a profile (lte-driving, ...) or generated
    /// (constant:12mbit, step:..., random:..., onoff:..., cellreplay:...); repeatable
    #[arg(long = "trace", value_name = "TRACE", default_value = "lte-driving")]
    traces: Vec<String>,
    /// A controller, e.g. verus:r=2 (`cellpace cc` lists them); repeatable
    #[arg(long = "cc", value_name = "CC", default_values = ["verus:r=2", "copa", "cubic", "bbr"])]
    ccs: Vec<String>,
    #[command(flatten)]
    path: PathOptions,
    /// Flows of the same controller that share the link
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    flows: u32,
    /// Run each cell with this many seeds, from --seed on, and give 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    outputs: Outputs,
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    args.outputs.check()?;
    let cells = cells(args)?;
    end_cleanly_on_ctrl_c();
    run_cells(&cells, args.jobs, &args.outputs)
}

/// Every combination of trace, controller and seed.
fn cells(args: &CompareArgs) -> Result<Vec<Cell>, Failure> {
    let mut files = load::files();
    let ccs = args
        .ccs
        .iter()
        .map(|text| text.parse::<ControllerSpec>())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::usage(format!("--cc: {error}")))?;
    let mut cells = Vec::new();
    for trace in &args.traces {
        let scenario = args.path.scenario(trace, &mut files)?;
        for cc in &ccs {
            for seed in 0..u64::from(args.repeat) {
                cells.push(Cell {
                    cc: cc.to_string(),
                    trace: load::shown(trace),
                    scenario: Scenario {
                        flows: vec![FlowSpec::bulk(cc.clone()); args.flows as usize],
                        seed: args.path.seed.wrapping_add(seed),
                        ..scenario.clone()
                    },
                });
            }
        }
    }
    for cell in &cells {
        cell.scenario.check().map_err(Failure::usage)?;
    }
    Ok(cells)
}
