//! `cellpace compare`: several controllers, each alone, over one or more traces.

use std::process::ExitCode;
use std::sync::Arc;

use cellpace_base::Span;
use cellpace_sim::{FlowSpec, Scenario};
use clap::Args;

use crate::error::Failure;
use crate::load;
use crate::path_options::PathOptions;
use crate::results::{
    Cell, MOST_SERIES_VALUES, Outputs, Repetition, check_number, run_cells, series_values,
};

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
    #[command(flatten)]
    repetition: Repetition,
    #[command(flatten)]
    outputs: Outputs,
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    args.outputs.check()?;
    run_cells(cells(args)?, &args.repetition, &args.outputs)
}

/// Values that the series of one run have at most, unless bins of a minute make more: several
/// runs go on at the same time.
const MOST_VALUES_OF_A_RUN: u64 = 20_000_000;

/// Every combination of trace, controller and seed.
fn cells(args: &CompareArgs) -> Result<Vec<Cell>, Failure> {
    once_each("--trace", &args.traces)?;
    once_each("--cc", &args.ccs)?;
    let runs = args.traces.len() as u64 * args.ccs.len() as u64 * u64::from(args.repetition.repeat);
    check_number(runs, u64::from(args.flows))?;
    let mut files = load::files();
    let ccs = args
        .ccs
        .iter()
        .map(|text| load::controller(text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::usage(format!("--cc: {error}")))?;
    let mut cells = Vec::new();
    for (trace, shown) in args.traces.iter().zip(shown(&args.traces)) {
        let path = args.path.scenario(trace, &mut files)?;
        for cc in &ccs {
            let flows = vec![FlowSpec::bulk(cc.clone()); args.flows as usize];
            let mut scenario = Scenario { flows, ..path.clone() };
            scenario.bin = bin(&scenario, runs);
            scenario.check().map_err(Failure::usage)?;
            let scenario = Arc::new(scenario);
            cells.extend((0..u64::from(args.repetition.repeat)).map(|offset| Cell {
                cc: cc.to_string(),
                trace: shown.clone(),
                scenario: Arc::clone(&scenario),
                seed: args.path.seed.wrapping_add(offset),
            }));
        }
    }
    Ok(cells)
}

/// What is given twice would look like a run with two seeds.
pub(crate) fn once_each(option: &str, given: &[String]) -> Result<(), Failure> {
    let twice = (1..given.len()).find(|index| given[..*index].contains(&given[*index]));
    match twice {
        Some(index) => Err(Failure::usage(format!("{option}: `{}` is given twice", given[index]))),
        None => Ok(()),
    }
}

/// How traces are shown: files without their folders, unless two would then be called the same.
fn shown(traces: &[String]) -> Vec<String> {
    let short: Vec<String> = traces.iter().map(|trace| load::shown(trace)).collect();
    let unique = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let show = |(trace, short): (&String, &String)| {
        if unique(short) { short.clone() } else { trace.clone() }
    };
    traces.iter().zip(&short).map(show).collect()
}

/// The width of the bins of the series: 100 ms, or as wide as long runs of many flows need for
/// charts that fit into memory.
fn bin(scenario: &Scenario, runs: u64) -> Span {
    const WIDTHS_MS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
    let most = (MOST_SERIES_VALUES / runs.max(1)).min(MOST_VALUES_OF_A_RUN);
    let widths = || WIDTHS_MS.iter().map(|ms| Span::from_millis(*ms));
    let fits = widths().find(|width| series_values(scenario, *width) <= most);
    fits.or(widths().next_back()).unwrap_or(scenario.bin)
}
