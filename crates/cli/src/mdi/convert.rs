//! `cellpace mdi convert`: tables from and for other programs.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_cc::ControllerSpec;
use cellpace_lab::{StatesChoice, check_name, learn, model_to_json, trace_source};
use cellpace_mdi::{About, Model, PRUNE, SAMPLES_HEADER, matrix_csv, read_samples};
use clap::Args;

use super::model_file::{
    UserSelection, all_counts, check_output, has_ending, read_bytes, read_model, save_model,
};
use super::train::describe_lesson;
use crate::error::{CommandError, named};
use crate::output::{print, write, write_bytes};

/// Arguments of `cellpace mdi convert`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace mdi train --cc verus --trace lte-driving -o verus.mdi
  cellpace mdi convert verus.mdi -o verus.json
  cellpace mdi convert verus.mdi --users 2 -o matrix.csv
  cellpace mdi convert verus.mdi --rules empty=paper -o verus.flat
  cellpace mdi train --cc verus --trace lte-driving -o samples.csv
  cellpace mdi convert samples.csv --teacher verus --states levels:rejoin=160ms -o again.mdi

What is written depends on how OUT ends (docs/mdi-format.md describes the forms):
  .json     header and counted cells, without loss
  .csv      dense probabilities, in the layout of the code of 2021 for relative states
  .flat     table and rules as 32-bit words, for runtimes that read no models
  .mdi      a table as `cellpace mdi train` makes it

What is read is such a table, a matrix in the layout of 2021, or samples: CSV with the header
chain,users,delay_ms,window_pkts,sent and one row per epoch of 5 ms: the rows of one flow in a row
under one number, chains numbered upwards; users: flows that shared the bottleneck, 0 if unknown;
delay: the largest RTT acked in the epoch, or the time since the last ack where that is longer;
sent: packets that left in it. `cellpace mdi train -o FILE.csv` writes samples.")]
pub(crate) struct MdiConvertArgs {
    /// A Markov table (`-`: standard input), a matrix or samples
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// What was learnt with this number of users; `all`: together in .csv and .flat, one by one else
    #[arg(long, default_value = "all", value_name = "all|N")]
    users: UserSelection,
    /// Rules of the walk as in a controller string, e.g. sampler=closest,empty=paper (.flat)
    #[arg(long, value_name = "KEY=VALUE,...")]
    rules: Option<String>,
    /// The controller from which the samples are
    #[arg(long, value_name = "NAME")]
    teacher: Option<String>,
    /// Which states samples become, as for `cellpace mdi train`
    #[arg(long, value_name = "STATES", default_value = "levels")]
    states: StatesChoice,
}

pub(crate) fn run(args: &MdiConvertArgs) -> Result<ExitCode, CommandError> {
    check_output(&args.output)?;
    let to = |ending| has_ending(&args.output, ending);
    if args.rules.is_some() && !to("flat") {
        return Err(CommandError::usage("--rules is for an output that ends with .flat"));
    }
    if !["json", "csv", "flat", "mdi"].into_iter().any(to) {
        return Err(CommandError::usage("--output: ends with .json, .csv, .flat or .mdi"));
    }
    let model = args.users.of(read_any(args)?)?;
    if to("json") {
        write(&args.output, &format!("{}\n", model_to_json(&model)))?;
    } else if to("csv") {
        let text = matrix_csv(&model.states, &all_counts(&model), PRUNE);
        let named = |error| CommandError::failed(format!("{}: {error}", args.input.display()));
        write(&args.output, &text.map_err(named)?)?;
    } else if to("flat") {
        write_bytes(&args.output, &flat_bytes(&model, args.rules.as_deref().unwrap_or_default())?)?;
    } else {
        save_model(&args.output, &model)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a table, a matrix or samples, whichever it is.
fn read_any(args: &MdiConvertArgs) -> Result<Model, CommandError> {
    if !has_ending(&args.input, "csv") {
        return Ok(read_model(&args.input)?.0);
    }
    let bytes = read_bytes(&args.input)?;
    let name = args.input.display();
    if bytes.starts_with(SAMPLES_HEADER.as_bytes()) {
        return learn_samples(args, &bytes);
    }
    Model::from_matrix_csv(&bytes).map_err(|error| CommandError::usage(format!("{name}: {error}")))
}

fn learn_samples(args: &MdiConvertArgs, bytes: &[u8]) -> Result<Model, CommandError> {
    let missing = || {
        CommandError::usage(
            "--teacher: is missing; name the controller from which the samples are, as they do not",
        )
    };
    let teacher = args.teacher.clone().ok_or_else(missing)?;
    named("--teacher", check_name(&teacher))?;
    let name = args.input.to_string_lossy();
    let traces = vec![trace_source(&name, None)?];
    let logged =
        read_samples(bytes).map_err(|error| CommandError::usage(format!("{name}:{error}")))?;
    let scenario = args.states.rejoin().map(|rejoin| format!("--rejoin {rejoin}"));
    let about =
        About { teacher, traces, scenario: scenario.unwrap_or_default(), ..About::default() };
    let lesson = learn(about, &logged, &args.states)
        .map_err(|error| CommandError::usage(format!("{name}: {error}")))?;
    print(&describe_lesson(&lesson))?;
    Ok(lesson.model)
}

/// Returns the table with rules, which are those of the controller, and so are their errors.
fn flat_bytes(model: &Model, rules: &str) -> Result<Vec<u8>, CommandError> {
    let bytes = model.to_bytes();
    let text = format!("mdi:model=-,{rules}");
    let spec = named("--rules", ControllerSpec::parse(&text, &mut |_| Ok(bytes.clone())))?;
    let walk = spec.markov_walk().filter(|walk| !walk.slow_start);
    let walk = walk.ok_or_else(|| {
        CommandError::usage("--rules: users=adapt and start=slow have no flat form")
    })?;
    Ok(walk.flat.to_bytes())
}
