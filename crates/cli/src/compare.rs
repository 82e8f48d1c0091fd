//! `cellpace compare`: several controllers, each alone, over one or more traces.

use std::fmt::Display;
use std::process::ExitCode;

use cellpace_base::split_name;
use cellpace_cc::find_controller;
use cellpace_lab::{Batch, Experiment, NamedTrace, StackSpec, read_controller, trace_files};
use cellpace_path::SendJitterSpec;
use cellpace_sim::{AckPolicy, Scenario, TransferSpec, VideoSpec};
use clap::Args;

use crate::error::{CommandError, named};
use crate::hints::repeated;
use crate::options::whole;
use crate::outputs::{Outputs, RepeatArgs, run_batch};
use crate::path_options::PathOptions;

/// Arguments of `cellpace compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace compare
  cellpace compare --trace lte-driving --cc verus --cc copa --cc cubic --report out.html
  cellpace compare --trace random:10mbit..100mbit/5s --rtt random:10ms..100ms/5s \\
      --loss random:0%..1%/5s --cc verus --cc cubic --repeat 5
  cellpace compare --cc verus --stack builtin --stack noq --stack quinn:cc=cubic --duration 20s
  cellpace compare --path leo-bent-pipe --cc bbr --cc pace
  cellpace compare --handover 30s/200ms/80ms/lost --cc verus --cc bbr
  cellpace compare --transfer 2MB,count=20,gap=1s --cc cubic --cc bbr")]
pub(crate) struct CompareArgs {
    /// A trace: a profile (lte-driving, ...), a file in Mahimahi format, or constant:12mbit and
    /// other forms that `cellpace trace list` shows; repeatable
    #[arg(
        long = "trace",
        value_name = "TRACE",
        default_value = "lte-driving",
        conflicts_with = "path"
    )]
    traces: Vec<String>,
    /// A controller, e.g. verus or verus:r=4 (`cellpace cc` lists them); repeatable
    #[arg(long = "cc", value_name = "CC", default_values = ["verus", "copa", "cubic", "bbr"])]
    ccs: Vec<String>,
    #[command(flatten)]
    path: PathOptions,
    /// When receivers acknowledge: every packet, or delayed:40ms (every second packet)
    #[arg(long, default_value = "every", value_name = "POLICY", help_heading = "Path")]
    acks: String,
    /// Who sends: builtin (this program), noq or quinn (QUIC libraries, over the same path), each
    /// under each controller; noq:cc=cubic, newreno or bbr is the library under its own controller;
    /// repeatable
    #[arg(long = "stack", value_name = "STACK", default_value = "builtin", value_parser = stack)]
    stacks: Vec<StackSpec>,
    /// Flows of the same controller that share the link
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(1..=10_000_u32))]
    flows: u32,
    /// Random delay before each packet where flows share the link, in shares of the time of one packet
    /// at its mean rate, which keeps phase effects out (0%: none)
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    send_jitter: String,
    /// Downloads in place of an endless stream: 20MB,count=30,gap=1s. More keys: every, connection,
    /// handshake, tls, request, answer_after, timeout; sizes also lognormal:..., pareto:...,
    /// file:SIZES, 10kB+1MB in turn
    #[arg(long, value_name = "SIZE[,KEY=VALUE...]")]
    transfer: Option<String>,
    /// A video in place of an endless stream, whose rate follows the controller: fps=30,max=4mbit. More
    /// keys: rate, min, lag, spread, gop, key, key_on_loss, discard, deadline
    #[arg(
        long,
        value_name = "KEY=VALUE,...",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with = "transfer"
    )]
    video: Option<String>,
    #[command(flatten)]
    repetition: RepeatArgs,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_u16))]
    jobs: Option<u16>,
    #[command(flatten)]
    outputs: Outputs,
}

fn stack(text: &str) -> Result<StackSpec, String> {
    text.parse::<StackSpec>().map_err(|error| error.to_string())
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, CommandError> {
    args.outputs.check(&args.traces)?;
    let runs = experiment(args)?.plan()?;
    run_batch(Batch::new(runs), "cellpace compare", args.jobs, &args.outputs)
}

fn experiment(args: &CompareArgs) -> Result<Experiment, CommandError> {
    once_each("--trace", &args.traces)?;
    once_each("--cc", &args.ccs)?;
    once_each("--stack", &args.stacks)?;
    args.ccs.iter().try_for_each(|cc| one_controller(cc))?;
    let read = |cc: &String| read_controller(cc);
    let controllers: Result<Vec<_>, _> = args.ccs.iter().map(read).collect();
    let mut files = trace_files();
    let acks = named("--acks", args.acks.parse::<AckPolicy>())?;
    let send_jitter = named("--send-jitter", args.send_jitter.parse::<SendJitterSpec>())?;
    let path = args.path.conditions(&mut files)?;
    let traces = match args.path.link.whole() {
        Some(text) => vec![NamedTrace::of_path(text, &path)],
        None => named("--trace", NamedTrace::read_all(&args.traces, &mut files))?,
    };
    let traces = traces.into_iter().map(|trace| trace.starting_at(args.path.from));
    let transfer = args.transfer.as_deref().map(|text| TransferSpec::parse(text, &mut files));
    Ok(Experiment {
        controllers: named("--cc", controllers)?,
        traces: traces.collect(),
        stacks: args.stacks.clone(),
        seeds: args.repetition.seeds(args.path.link.seed).collect(),
        flows: args.flows,
        transfer: named("--transfer", transfer.transpose())?,
        video: named("--video", args.video.as_deref().map(VideoSpec::read).transpose())?,
        duration: args.path.link.duration,
        path: Scenario { acks, send_jitter, ..path },
    })
}

/// Refuses several controllers in one word.
fn one_controller(text: &str) -> Result<(), CommandError> {
    let is_controller = |part: &&str| find_controller(split_name(part).name).is_ok();
    let mut parts = text.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty());
    let first = parts.next().filter(is_controller);
    if first.is_none() || !parts.any(|part| is_controller(&part)) {
        return Ok(());
    }
    // What is no controller is a parameter of the one in front.
    let mut ccs: Vec<String> = Vec::new();
    for part in text.split([',', ' ']).map(str::trim).filter(|part| !part.is_empty()) {
        match ccs.last_mut().filter(|_| !is_controller(&part)) {
            Some(cc) => *cc = format!("{cc},{part}"),
            None => ccs.push(part.to_owned()),
        }
    }
    let ccs: Vec<&str> = ccs.iter().map(String::as_str).collect();
    let instead = repeated(&ccs);
    Err(CommandError::usage(format!("--cc: `{text}` has several controllers; write {instead}")))
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
