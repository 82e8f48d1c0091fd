//! `cellpace run`: an unmodified program, its TCP connections under a controller.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use cellpace_base::Span;
use cellpace_control::variables::MAX_WORKERS;
use cellpace_control::{ConnectionDirection, Networks, Ports, RuleNetwork, Rules};
use cellpace_run::{
    Broker, BrokerConfig, Launch, LoggingCommand, PlainConnections, PlainReason, PreloadLibrary,
    RunError, RunNotice, check_program,
};
use cellpace_tcp::{ControlOptions, RelayEngine, Trial};
use clap::Args;

use crate::connection_outputs::{ConnectionOutputs, connections};
use crate::error::CommandError;
use crate::experiment_options::{ExperimentOptions, OpenExperiment, ReadExperiment};
use crate::flow_options::FlowArgs;
use crate::line_writer::reopen_all;
use crate::options::{Verbosity, span, whole};
use crate::output::complain;

/// Arguments of `cellpace run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace run -v -- python3 -m http.server 8000
  cellpace run --in 80,443 --not 10.0.0.0/8 --json flows.jsonl -- nginx -g 'daemon off;'
  cellpace run --out 22 -- rsync -a folder there:

The TCP connections that the program accepts are under the controller, with --out those that it
opens, with both options both. Its clients, its files and the network need no change. Signals go
to the program, and its exit code is that of this command; 127 if there is no such program.
Programs that cannot be preloaded (static ones, Go, setuid): `cellpace proxy`, `cellpace attach`.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    flow: FlowArgs,
    #[command(flatten)]
    experiment: ExperimentOptions,
    /// Connections that the program accepts at these ports: 443, 80,8000-8100 or all [default: all,
    /// without --out]
    #[arg(long = "in", value_name = "PORTS", help_heading = "Connections")]
    incoming: Option<Ports>,
    /// Connections that the program opens to these ports
    #[arg(long = "out", value_name = "PORTS", help_heading = "Connections")]
    outgoing: Option<Ports>,
    /// Only with these peers: a network or an address; repeatable
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = "Connections")]
    only: Vec<RuleNetwork>,
    /// Not with these peers; repeatable
    #[arg(long, value_name = "CIDR", value_delimiter = ',', help_heading = "Connections")]
    not: Vec<RuleNetwork>,
    /// Connections under the controller at once; more are plain [default: what the limit on
    /// descriptors allows]
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX), help_heading = "Limits")]
    max_connections: Option<u32>,
    /// Time that connections get to deliver what was sent once the program has ended
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = span, help_heading = "Limits")]
    drain: Span,
    #[command(flatten)]
    outputs: ConnectionOutputs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, CommandError> {
    let rules = rules(args)?;
    args.experiment.check_files(&args.outputs, None)?;
    let experiment = args.experiment.read(&args.outputs, |cc| args.flow.controller(cc))?;
    experiment.as_ref().map_or(Ok(()), ReadExperiment::check_without_first_bytes)?;
    let control = args.experiment.control(experiment.as_ref(), &args.flow, &args.outputs)?;
    match start(args, control, experiment, &rules) {
        Ok(code) => Ok(code),
        Err(Stop::Run(error)) => not_started(&error),
        Err(Stop::CommandError(failure)) => Err(failure),
    }
}

/// Why the program was not run to its end.
enum Stop {
    Run(RunError),
    CommandError(CommandError),
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

fn start(
    args: &RunArgs,
    (options, trial): (ControlOptions, Option<Trial>),
    experiment: Option<ReadExperiment>,
    rules: &Rules,
) -> Result<ExitCode, Stop> {
    check_program(args.program.first().map_or("".as_ref(), OsString::as_os_str))?;
    let library = PreloadLibrary::find()?;
    let launch = Launch::prepare()?;
    let launch = match args.outputs.is_json_on_stdout() {
        true => launch.with_output_on_stderr(),
        false => launch,
    };
    // Through the kernel driver connections need no descriptors here. A trial is drawn for in one place.
    let is_one = options.drivers.kernel().is_some() || trial.is_some();
    let workers = if is_one { 1 } else { workers().map_err(Stop::CommandError)? };
    let engine = match args.max_connections {
        Some(limit) => RelayEngine::limited(limit as usize),
        None => RelayEngine::new(),
    };
    // After `prepare`: it may start a thread.
    let experiment = experiment.map(|read| read.open(args.outputs.verbosity)).transpose();
    let experiment = experiment.map_err(Stop::CommandError)?;
    let recorder = experiment.as_ref().map(OpenExperiment::recorder).transpose();
    let recorder = recorder.map_err(Stop::CommandError)?;
    let metrics = experiment.as_ref().map(OpenExperiment::more_metrics);
    let outputs = args.outputs.open(LoggingCommand::Run, &options.cc, metrics);
    let (log, outputs) = outputs.map_err(Stop::CommandError)?;
    let config = BrokerConfig { workers, trial, ..BrokerConfig::new(options) };
    let config = BrokerConfig { recorder: recorder.clone(), ..config };
    let broker = Broker::start(&engine, &config, log)?;
    let running = launch.start(&args.program, &library, &broker, rules)?;
    let (verbosity, plain) = (args.outputs.verbosity, outputs.plain.clone());
    let drain = Duration::from_nanos(args.drain.as_nanos());
    let finish =
        running.wait(&broker, drain, &mut |notice| on_notice(notice, verbosity, &plain))?;
    if finish.cut > 0 {
        broker.cut();
        let verb = if finish.cut == 1 { "was" } else { "were" };
        let cut = connections(finish.cut as u64);
        args.outputs.verbosity.note(&format!("{cut} {verb} cut before all was delivered"));
    }
    let recorded =
        experiment.map_or(Ok(()), |experiment| experiment.finish_with(recorder.as_deref()));
    // The program's own failure says more than that of a file.
    match (outputs.finish().and(recorded), finish.code) {
        (Err(error), 0) => Err(Stop::CommandError(error)),
        (Err(error), code) => {
            complain(&error.to_string());
            Ok(ExitCode::from(code))
        }
        (Ok(()), code) => Ok(ExitCode::from(code)),
    }
}

/// Says what a person should know while the program runs, and does what is to be done then.
fn on_notice(notice: RunNotice, verbosity: Verbosity, plain: &PlainConnections) {
    match notice {
        RunNotice::Hangup => reopen_all(),
        RunNotice::Waits(processes) => {
            let names = processes.iter().map(|(process, name)| format!("PID {process} ({name})"));
            let names: Vec<String> = names.collect();
            let names = names.join(", ");
            verbosity.note(&format!(
                "the program has ended; waiting for {names}, which it started: a signal goes to them now"
            ));
        }
        RunNotice::NotPreloaded(process, name, reason) => verbosity.note(&format!(
            "warning: PID {process} ({name}) {reason}: its connections stay without a controller; use \
             `cellpace attach` (root) or, in front of it, `cellpace proxy`"
        )),
        RunNotice::PlainConnections(process, count) => {
            plain.add(PlainReason::NotPreloaded, count);
            verbosity.detail(|| format!("PID {process}: {count} new connections without a controller"));
        }
    }
}

/// Threads among which connections are divided. Each has a limit on descriptors of its own, of which
/// a connection needs two: for servers that may not raise the limit.
fn workers() -> Result<u32, CommandError> {
    const NAME: &str = "CELLPACE_WORKERS";
    let Some(text) = std::env::var_os(NAME) else { return Ok(1) };
    let workers = text.to_str().and_then(|text| text.parse().ok());
    workers.filter(|workers| (1..=MAX_WORKERS).contains(workers)).ok_or_else(|| {
        CommandError::usage(format!("{NAME}: a number from 1 to {MAX_WORKERS}, not {text:?}"))
    })
}

/// Exit codes as `env` has them, for a program that does not start.
fn not_started(error: &RunError) -> Result<ExitCode, CommandError> {
    let code = match error {
        RunError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 127,
        RunError::Start { .. } | RunError::Unfit { .. } => 126,
        _ => return Err(CommandError::failed(error)),
    };
    complain(&error.to_string());
    Ok(ExitCode::from(code))
}

fn rules(args: &RunArgs) -> Result<Rules, CommandError> {
    let direction = match (args.incoming, args.outgoing) {
        (Some(_), Some(_)) => ConnectionDirection::Both,
        (None, Some(_)) => ConnectionDirection::Out,
        (_, None) => ConnectionDirection::In,
    };
    Ok(Rules {
        direction,
        incoming: args.incoming.unwrap_or_default(),
        outgoing: args.outgoing.unwrap_or_default(),
        only: networks("--only", &args.only)?,
        not: networks("--not", &args.not)?,
    })
}

fn networks(option: &str, list: &[RuleNetwork]) -> Result<Networks, CommandError> {
    let mut networks = Networks::default();
    for network in list {
        networks
            .push(*network)
            .map_err(|error| CommandError::usage(format!("{option}: {error}")))?;
    }
    Ok(networks)
}
