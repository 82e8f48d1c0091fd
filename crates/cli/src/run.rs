//! `cellpace run`: an unmodified program, its TCP connections under a controller.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cellpace_base::Span;
use cellpace_control::variables::MAX_WORKERS;
use cellpace_control::{ConnectionDirection, Networks, Ports, RuleNetwork, Rules};
use cellpace_run::{
    Broker, BrokerConfig, ConnectionLog, EventWriter, Launch, LoggingCommand, PreloadLibrary,
    RunError, check_program,
};
use cellpace_tcp::{DriverKind, FlowOptions, RelayEngine};
use clap::Args;

use crate::error::CommandError;
use crate::flow_options::FlowArgs;
use crate::options::span;
use crate::output::{complain, event_writer, is_stdout};

/// Arguments of `cellpace run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace run --cc verus:r=2 -- nginx -g 'daemon off;'
  cellpace run --cc copa --in 80,443 --not 10.0.0.0/8 --log -- python3 -m http.server 80
  cellpace run --cc copa --out 22 -- rsync -a folder there:

By default all TCP connections that the program accepts are taken over; its clients, its files and
the network need no change. Opened connections are taken over with --out or --direction.
For programs that cannot be preloaded (static ones, Go,
setuid), there are `cellpace proxy` and
`cellpace attach`.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    flow: FlowArgs,
    /// Take over what is accepted at these ports: 80,443 or 8000-8100 [default: all]
    #[arg(long = "in", value_name = "PORTS")]
    incoming: Option<Ports>,
    /// Take over what is opened to these ports
    #[arg(long = "out", value_name = "PORTS")]
    outgoing: Option<Ports>,
    /// Only with these peers: a network or an address; repeatable
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    only: Vec<RuleNetwork>,
    /// Not with these peers; repeatable
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    not: Vec<RuleNetwork>,
    /// Take over accepted (in) or opened (out) connections, or both [default: in; out with --out]
    #[arg(long, value_name = "in|out|both")]
    direction: Option<ConnectionDirection>,
    /// Take over so many connections at once; more are plain [default: what descriptors allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_flows: Option<u32>,
    /// Divide the connections among so many threads, each with its own limit on descriptors, of
    /// which a connection needs two
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "share",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WORKERS)))]
    workers: u32,
    /// After the program's end, wait so long for its connections to deliver what it sent
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = span)]
    drain: Span,
    /// Say on standard error what became of each connection, one line each
    #[arg(long)]
    log: bool,
    /// Write the same as JSON, one object a line (schema cellpace.run/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what the controllers decide, as JSON lines; as qlog if the name ends in .sqlog
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, CommandError> {
    let rules = rules(args)?;
    let options = args.flow.options()?;
    match start(args, options, &rules) {
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

fn start(args: &RunArgs, options: FlowOptions, rules: &Rules) -> Result<ExitCode, Stop> {
    check_program(args.program.first().map_or("".as_ref(), OsString::as_os_str))?;
    let library = PreloadLibrary::find()?;
    let json = args.json.as_deref().map(open_json).transpose().map_err(Stop::CommandError)?;
    let launch = Launch::prepare()?;
    // After `prepare`: it has a thread.
    let events = event_writer(args.events.as_deref(), "cellpace run", &options.cc);
    let events = events.map_err(Stop::CommandError)?;
    // Through the kernel driver connections need no descriptors here.
    let workers = if options.driver.kind() == DriverKind::Kernel { 1 } else { args.workers };
    let config = BrokerConfig { workers, ..BrokerConfig::new(options) };
    let engine =
        args.max_flows.map_or_else(RelayEngine::new, |most| RelayEngine::limited(most as usize));
    let log = ConnectionLog {
        command: LoggingCommand::Run,
        lines: args.log.then_some(complain),
        json,
        events: events.as_ref().map(EventWriter::flows),
    };
    let broker = Broker::start(&engine, &config, log)?;
    let running = launch.start(&args.program, &library, &broker, rules)?;
    let finish = running.wait(&broker, Duration::from_nanos(args.drain.as_nanos()))?;
    if finish.cut > 0 {
        broker.cut();
        complain(&format!("{} connections were cut before all was delivered", finish.cut));
    }
    if let Some(Err(error)) = events.map(EventWriter::finish) {
        complain(&format!("--events: {error}"));
    }
    Ok(ExitCode::from(finish.code))
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
    let implied = match (args.incoming, args.outgoing) {
        (Some(_), Some(_)) => ConnectionDirection::Both,
        (None, Some(_)) => ConnectionDirection::Out,
        (_, None) => ConnectionDirection::In,
    };
    let direction = args.direction.unwrap_or(implied);
    if args.incoming.is_some() && direction == ConnectionDirection::Out {
        return Err(CommandError::usage(
            "--in: accepted connections are not taken over with --direction out",
        ));
    }
    if args.outgoing.is_some() && direction == ConnectionDirection::In {
        return Err(CommandError::usage(
            "--out: opened connections are not taken over with --direction in",
        ));
    }
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

fn open_json(path: &Path) -> Result<File, CommandError> {
    if is_stdout(path) {
        return Err(CommandError::usage("--json: standard output is the program's; name a file"));
    }
    File::create(path)
        .map_err(|error| CommandError::failed(format!("--json: {}: {error}", path.display())))
}
