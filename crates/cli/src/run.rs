//! `cellpace run`: an unmodified program, its TCP connections under a controller.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cellpace_base::Span;
use cellpace_control::variables::MOST_WORKERS;
use cellpace_control::{Direction, Network, Networks, Ports, Rules};
use cellpace_run::{
    AdoptedConnection, Broker, BrokerConfig, ClosedConnection, ConnectionWatcher, Launch, Library,
    RunError, check_program,
};
use cellpace_tcp::{DriverKind, FlowHandle, FlowOptions, FlowOutcome, RelayEngine};
use clap::Args;
use serde_json::json;

use crate::error::Failure;
use crate::flow_events::{FlowEvents, LOOK};
use crate::flow_options::FlowArgs;
use crate::options::span;
use crate::output::complain;

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
    only: Vec<Network>,
    /// Not with these peers; repeatable
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    not: Vec<Network>,
    /// Take over accepted (in) or opened (out) connections, or both [default: in; out with --out]
    #[arg(long, value_name = "in|out|both")]
    direction: Option<Direction>,
    /// Take over so many connections at once; more are plain [default: what descriptors allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_flows: Option<u32>,
    /// Divide the connections among so many threads, each with its own limit on descriptors, of
    /// which a connection needs two
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "share",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_WORKERS)))]
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

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let rules = rules(args)?;
    let options = args.flow.options()?;
    match start(args, options, &rules) {
        Ok(code) => Ok(code),
        Err(Stop::Run(error)) => not_started(&error),
        Err(Stop::Failure(failure)) => Err(failure),
    }
}

/// Why the program was not run to its end.
enum Stop {
    Run(RunError),
    Failure(Failure),
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

fn start(args: &RunArgs, options: FlowOptions, rules: &Rules) -> Result<ExitCode, Stop> {
    check_program(args.program.first().map_or("".as_ref(), OsString::as_os_str))?;
    let library = Library::find()?;
    let report = Report::open(args).map_err(Stop::Failure)?;
    let events = FlowEvents::create(args.events.as_deref(), "cellpace run", &options.cc)
        .map_err(Stop::Failure)?;
    let launch = Launch::prepare()?;
    let events = events.map(Looking::start).transpose().map_err(Stop::Failure)?;
    // Through the kernel driver connections need no descriptors here.
    let workers = if options.driver.kind() == DriverKind::Kernel { 1 } else { args.workers };
    let config = BrokerConfig { workers, ..BrokerConfig::new(options) };
    let engine =
        args.max_flows.map_or_else(RelayEngine::new, |most| RelayEngine::limited(most as usize));
    let told = Told { report, events: events.as_ref().map(|looking| looking.events.clone()) };
    let broker = Broker::start(&engine, &config, told)?;
    let running = launch.start(&args.program, &library, &broker, rules)?;
    let finish = running.wait(&broker, Duration::from_nanos(args.drain.as_nanos()))?;
    if finish.cut > 0 {
        broker.cut();
        complain(&format!("{} connections were cut before all was delivered", finish.cut));
    }
    if let Some(events) = events {
        events.finish();
    }
    Ok(ExitCode::from(finish.code))
}

/// Exit codes as `env` has them, for a program that does not start.
fn not_started(error: &RunError) -> Result<ExitCode, Failure> {
    let code = match error {
        RunError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 127,
        RunError::Start { .. } | RunError::Unfit { .. } => 126,
        _ => return Err(Failure::failed(error)),
    };
    complain(&error.to_string());
    Ok(ExitCode::from(code))
}

fn rules(args: &RunArgs) -> Result<Rules, Failure> {
    let implied = match (args.incoming, args.outgoing) {
        (Some(_), Some(_)) => Direction::Both,
        (None, Some(_)) => Direction::Out,
        (_, None) => Direction::In,
    };
    let direction = args.direction.unwrap_or(implied);
    if args.incoming.is_some() && direction == Direction::Out {
        return Err(Failure::usage(
            "--in: accepted connections are not taken over with --direction out",
        ));
    }
    if args.outgoing.is_some() && direction == Direction::In {
        return Err(Failure::usage(
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

fn networks(option: &str, list: &[Network]) -> Result<Networks, Failure> {
    let mut networks = Networks::default();
    for network in list {
        networks.push(*network).map_err(|error| Failure::usage(format!("{option}: {error}")))?;
    }
    Ok(networks)
}

/// Hears of connections.
struct Told {
    report: Report,
    events: Option<Events>,
}

impl ConnectionWatcher for Told {
    fn opened(&mut self, connection: &AdoptedConnection, flow: &FlowHandle) {
        if let Some(events) = &self.events {
            with(events, |events| events.opened(connection.flow, flow.clone()));
        }
    }

    fn closed(&mut self, closed: ClosedConnection) {
        self.report.tell(&closed);
        if let Some(events) = &self.events {
            with(events, |events| events.closed(closed.connection.flow));
        }
    }
}

/// None once they are finished.
type Events = Arc<Mutex<Option<FlowEvents>>>;

fn with(events: &Events, what: impl FnOnce(&mut FlowEvents)) {
    if let Some(events) = &mut *locked(events) {
        what(events);
    }
}

fn locked(events: &Events) -> MutexGuard<'_, Option<FlowEvents>> {
    // A panic elsewhere leaves lines unwritten, at worst.
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks for events until it is told to finish.
struct Looking {
    events: Events,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Looking {
    fn start(events: FlowEvents) -> Result<Self, Failure> {
        let events = Arc::new(Mutex::new(Some(events)));
        let (theirs, (stop, stopped)) = (events.clone(), channel());
        let look = move || {
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                with(&theirs, FlowEvents::look);
            }
        };
        let thread = std::thread::Builder::new().name("cellpace-events".to_owned()).spawn(look);
        let failed = |error| Failure::failed(format!("starting a thread: {error}"));
        Ok(Self { events, stop, thread: thread.map_err(failed)? })
    }

    fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
        if let Some(events) = locked(&self.events).take() {
            events.finish();
        }
    }
}

/// What is told of closed connections.
struct Report {
    log: bool,
    json: Option<File>,
}

impl Report {
    fn open(args: &RunArgs) -> Result<Self, Failure> {
        let create = |path: &PathBuf| {
            if path == Path::new("-") {
                return Err(Failure::usage(
                    "--json: standard output is the program's; name a file",
                ));
            }
            File::create(path)
                .map_err(|error| Failure::failed(format!("--json: {}: {error}", path.display())))
        };
        Ok(Self { log: args.log, json: args.json.as_ref().map(create).transpose()? })
    }

    fn tell(&self, closed: &ClosedConnection) {
        if self.log {
            complain(&line(closed));
        }
        if let Some(mut file) = self.json.as_ref() {
            // A full disk must not end the connections.
            let _ = writeln!(file, "{}", object(closed));
        }
    }
}

fn line(closed: &ClosedConnection) -> String {
    let ClosedConnection { connection, age, stats, .. } = closed;
    let arrow = if connection.outgoing { "->" } else { "<-" };
    let rtt = |name, span: Option<Span>| {
        span.map_or_else(String::new, |span| format!(", {name} {:.1} ms", span.as_millis_f64()))
    };
    format!(
        "flow {}: {} {arrow} {}, {:.3} s, sent {} bytes, received {}{}{}, {} segments sent again, {}",
        connection.flow,
        connection.local,
        connection.peer,
        age.as_secs_f64(),
        stats.sent_bytes,
        stats.received_bytes,
        rtt("RTT", stats.srtt),
        rtt("smallest", stats.min_rtt),
        stats.retransmissions,
        outcome(closed),
    )
}

fn outcome(closed: &ClosedConnection) -> String {
    if closed.cut {
        return "cut".to_owned();
    }
    match closed.outcome {
        Some(FlowOutcome::Finished) | None => "finished".to_owned(),
        Some(FlowOutcome::Failed(code)) => std::io::Error::from_raw_os_error(code).to_string(),
        Some(FlowOutcome::Alcc(error)) => error.to_string(),
    }
}

fn object(closed: &ClosedConnection) -> serde_json::Value {
    let ClosedConnection { connection, age, stats, .. } = closed;
    json!({
        "schema": "cellpace.run/1",
        "flow": connection.flow,
        "direction": if connection.outgoing { "out" } else { "in" },
        "local": connection.local.to_string(),
        "peer": connection.peer.to_string(),
        "duration_s": age.as_secs_f64(),
        "sent_bytes": stats.sent_bytes,
        "acked_bytes": stats.acked_bytes,
        "received_bytes": stats.received_bytes,
        "rtt_ms": stats.srtt.map(Span::as_millis_f64),
        "min_rtt_ms": stats.min_rtt.map(Span::as_millis_f64),
        "retransmissions": stats.retransmissions,
        // Where the algorithm has no window, it is infinite.
        "cwnd_bytes": Some(stats.cwnd).filter(|cwnd| *cwnd < u64::MAX),
        "tcp_cwnd_bytes": stats.tcp_cwnd,
        "refusals": stats.blocks,
        // As granted, where --sndbuf chose.
        "sndbuf_bytes": stats.send_buffer,
        "driver": closed.driver.name(),
        "outcome": outcome(closed),
    })
}
