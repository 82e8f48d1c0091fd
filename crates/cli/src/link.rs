//! `cellpace link`: a program behind an emulated link, in real time.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cellpace_base::{Rate, Span, Time};
use cellpace_emu::{EmuError, EmulatedLink, Expose, LinkOutcome, LinkSpec, LinkTally};
use cellpace_path::schedule::capacity_between;
use cellpace_path::{PathSpec, QueueSpec};
use cellpace_report::{Comparison, Run, short};
use clap::Args;

use crate::error::CommandError;
use crate::link_live::{self, LiveView};
use crate::link_output::ProgramOutput;
use crate::link_watch::{Log, Watch};
use crate::options::Verbosity;
use crate::output::{complain, print, write};
use crate::outputs::check_file;
use crate::path_options::{Directions, PathOptions};

/// Arguments of `cellpace link`.
#[derive(Debug, Args)]
#[command(mut_arg("verbose", |verbose| verbose.help("Print a line for each flow at the end")))]
#[command(mut_arg("acks", |acks| acks.hide(true)))]
#[command(mut_arg("skip", |skip| skip.default_value("0s")))]
#[command(mut_arg("seed", |seed| seed.help("Seed of everything random in the path")))]
#[command(mut_arg("duration", |duration| {
    duration.help("The program is asked to end after this time [default: it ends by itself]")
}))]
#[command(after_help = "Examples:
  cellpace link --trace lte-driving --rtt 40ms -- sh -c 'ping -c 5 $CELLPACE_HOST'
  cellpace link --rate 12mbit --uplink constant:3mbit --queue codel -- curl http://...
  cellpace link --rate 12mbit --far 'iperf3 -s' -- sh -c 'iperf3 -R -c $CELLPACE_HOST'

The trace holds towards the program, --uplink the other way. The program finds the far side at
$CELLPACE_HOST (and $CELLPACE_HOST6). As root, that is where cellpace was started; without root,
it is a namespace of its own, where --far runs a program.")]
pub(crate) struct LinkArgs {
    /// Trace towards the program, as for compare [default: unlimited]
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    /// A constant rate instead of a trace: 12mbit
    #[arg(long, value_name = "RATE", conflicts_with = "trace")]
    rate: Option<Rate>,
    #[command(flatten)]
    path: PathOptions,
    /// Queue of the uplink
    #[arg(long, default_value = "droptail:2MB", value_name = "QUEUE", help_heading = "Path")]
    uplink_queue: QueueSpec,
    /// Largest packet, IP header included
    #[arg(long, default_value_t = 1500, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1280..=65_535), help_heading = "Path")]
    mtu: u32,
    /// A shell command that runs on the far side meanwhile
    #[arg(long, value_name = "COMMAND")]
    far: Option<OsString>,
    /// Make a port of the inside reachable here, TCP and UDP, at 127.0.0.1 and ::1, or at ADDR
    /// (0.0.0.0: all addresses, for everybody); repeatable
    #[arg(long, value_name = "[ADDR:]PORT")]
    expose: Vec<Expose>,
    /// Let the inside out to the rest of the world (IPv4, needs root)
    #[arg(long)]
    nat: bool,
    /// Remove what links that were killed left behind, and do nothing else
    #[arg(long, exclusive = true)]
    clean: bool,
    /// Write the figures as JSON (`-`: standard output, the program's then goes to standard error)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write what became of every packet, as Parquet; as a capture with extension pcapng
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    log: Option<PathBuf>,
    /// Bytes of each packet that a capture keeps
    #[arg(long, default_value_t = 65_535, value_name = "BYTES", help_heading = "Output", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    snaplen: u32,
    /// Show capacity, throughput and queue delay on the terminal as it runs
    #[arg(long, help_heading = "Output")]
    live: bool,
    #[command(flatten)]
    verbosity: Verbosity,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "clean", value_name = "CMD")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &LinkArgs) -> Result<ExitCode, CommandError> {
    if args.clean {
        return clean();
    }
    check(args)?;
    let trace = args.trace.clone().or_else(|| args.rate.map(|rate| format!("constant:{rate}")));
    let directions = directions(args, trace.as_deref())?;
    let log = args.log.as_ref().map(|log| Log::create(log, args.snaplen));
    let log = log.transpose().map_err(CommandError::failed)?;
    let link = EmulatedLink::open(spec(args, &directions)).map_err(CommandError::failed)?;

    let output = ProgramOutput::default();
    let mut program = command(&args.program);
    let readers = match args.live {
        true => Some(output.redirect(&mut program).map_err(CommandError::failed)?),
        false => None,
    };
    if args.json.as_deref() == Some(Path::new("-")) {
        program.stdout(io::stderr().as_fd().try_clone_to_owned().map_err(CommandError::failed)?);
    }
    let title = trace.as_deref().map_or_else(|| "unlimited".to_owned(), cellpace_lab::shown_name);
    let live = match args.live {
        true => Some(LiveView::start(
            title,
            directions.down.trace.as_ref(),
            args.path.seed,
            output.clone(),
        )?),
        false => None,
    };
    let far = args.far.as_ref().map(|far| command(&["sh".into(), "-c".into(), far.clone()]));
    let watch = Watch::new(&directions, name(args), log, args.snaplen, live);
    // With an error, the observer is gone, and the view with it.
    let mut ended = link.run(program, far, watch);
    let logged = ended.as_mut().map_or(Ok(()), |ended| ended.observer.finish());
    if let Some(readers) = readers {
        output.print(readers);
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return not_started(&error),
    };
    let report =
        LinkReport { args, directions: &directions, trace: trace.as_deref(), ended: &ended };
    report.print_summary();
    let written = report.write_json();
    if ended.exit_code == 0 {
        // The program's own failure says more than that of a file.
        logged.map_err(CommandError::failed)?;
        written?;
    } else {
        let failures = [logged.map_err(CommandError::failed).err(), written.err()];
        failures.into_iter().flatten().for_each(|failure| complain(&failure.to_string()));
    }
    Ok(ExitCode::from(ended.exit_code))
}

fn clean() -> Result<ExitCode, CommandError> {
    let cleaned = cellpace_emu::clean();
    print(&format!(
        "{} programs ended, {} settings put back\n",
        cleaned.programs, cleaned.settings
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses what cannot be done before anything is.
fn check(args: &LinkArgs) -> Result<(), CommandError> {
    for (option, file) in [("--json", &args.json), ("--log", &args.log)] {
        match file {
            Some(file) if file.as_os_str() != "-" => check_file(file)?,
            Some(_) if option == "--log" => {
                return Err(CommandError::usage("--log: a packet log needs a file, not `-`"));
            }
            _ => {}
        }
    }
    if args.json.is_some() && args.json == args.log {
        return Err(CommandError::usage("--json and --log both write the same file"));
    }
    if args.live { link_live::check() } else { Ok(()) }
}

fn spec(args: &LinkArgs, directions: &Directions) -> LinkSpec {
    LinkSpec {
        down: directions.down.clone(),
        up: directions.up.clone(),
        seed: args.path.seed,
        mtu: args.mtu,
        duration: directions.duration,
        expose: args.expose.clone(),
        nat: args.nat,
        quiet: directions.rtt + Span::from_millis(20),
    }
}

fn command(program: &[OsString]) -> Command {
    // clap asks for a program; without one the empty name is what cannot be run.
    let mut command = Command::new(program.first().cloned().unwrap_or_default());
    command.args(program.iter().skip(1));
    command
}

/// The program, without its folder.
fn name(args: &LinkArgs) -> String {
    let program = args.program.first().map(Path::new);
    let name = program.and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Exit codes as `env` has them, for a program that does not start.
fn not_started(error: &EmuError) -> Result<ExitCode, CommandError> {
    let EmuError::Start { source, .. } = error else { return Err(CommandError::failed(error)) };
    complain(&error.to_string());
    let is_missing = source.kind() == io::ErrorKind::NotFound;
    Ok(ExitCode::from(if is_missing { 127 } else { 126 }))
}

fn directions(args: &LinkArgs, trace: Option<&str>) -> Result<Directions, CommandError> {
    let mut directions = args.path.directions(trace, &mut cellpace_lab::trace_files())?;
    directions.up.queue = args.uplink_queue.clone();
    Ok(directions)
}

/// What is printed and written at the end.
struct LinkReport<'a> {
    args: &'a LinkArgs,
    directions: &'a Directions,
    trace: Option<&'a str>,
    ended: &'a LinkOutcome<Watch>,
}

impl LinkReport<'_> {
    fn print_summary(&self) {
        let (ended, verbosity) = (self.ended, self.args.verbosity);
        verbosity.note(&self.line());
        let lost = ended.lost;
        if lost.packets() > 0 {
            verbosity.note(&format!(
                "warning: {} packets were lost by the devices, not by the model; the machine is too \
                 slow or too busy for this link",
                lost.packets()
            ));
        }
        if lost.unseen > 0 {
            verbosity.note(&format!(
                "warning: {} packets are missing from figures and logs, which were too slow",
                lost.unseen
            ));
        }
        self.print_flows("down", &self.directions.down, &ended.observer.down);
        self.print_flows("up", &self.directions.up, &ended.observer.up);
    }

    fn print_flows(&self, direction: &str, path: &PathSpec, tally: &LinkTally) {
        let end = Time::ZERO + self.ended.duration;
        let skip = Time::ZERO + self.directions.skip;
        for flow in &tally.finish(end, self.capacity(path, skip)).per_flow {
            self.args.verbosity.detail(|| {
                let (rate, delay) = (short(flow.throughput_mbps), short(flow.queue_delay_ms.p95));
                format!(
                    "flow {direction} from {:.3} s to {:.3} s: {rate} Mbit/s, queue delay p95 {delay} ms, \
                     {} packets dropped",
                    flow.start_s, flow.stop_s, flow.lost
                )
            });
        }
    }

    /// One line: how exact it was.
    fn line(&self) -> String {
        let ended = self.ended;
        let late = |quantile| short(ended.lateness.quantile_ms(quantile) * 1e3);
        let [down, up] = [&ended.observer.down, &ended.observer.up].map(LinkTally::totals);
        let mut rates = self.rates("down", &self.directions.down, down.bytes);
        if self.directions.up.trace.is_some() {
            rates += &format!(", {}", self.rates("up", &self.directions.up, up.bytes));
        }
        format!(
            "link: late p50 {} p99 {} max {} us{}; {rates}; dropped {} by the model, {} by devices",
            late(0.5),
            late(0.99),
            late(1.0),
            if ended.realtime { "" } else { " (no real-time priority)" },
            down.lost + up.lost,
            ended.lost.packets(),
        )
    }

    /// What was asked of a direction and what was reached, over the whole run.
    fn rates(&self, name: &str, path: &PathSpec, bytes: u64) -> String {
        let seconds = self.ended.duration.as_secs_f64().max(1e-9);
        let mbps = |bytes: u64| short(bytes as f64 * 8.0 / 1e6 / seconds);
        let reached = mbps(bytes);
        match path.trace {
            None => format!("{name} {reached} Mbit/s of unlimited"),
            Some(_) => {
                let asked = mbps(self.capacity(path, Time::ZERO));
                format!("{name} {reached} of {asked} Mbit/s asked")
            }
        }
    }

    /// Bytes that a direction offered from `from` to the end.
    fn capacity(&self, path: &PathSpec, from: Time) -> u64 {
        let Some(trace) = &path.trace else { return 0 };
        let end = Time::ZERO + self.ended.duration;
        // It was built once already, for the run.
        trace
            .build(self.args.path.seed)
            .map_or(0, |mut schedule| capacity_between(schedule.as_mut(), from, end))
    }

    fn write_json(&self) -> Result<(), CommandError> {
        let Some(file) = &self.args.json else { return Ok(()) };
        let trace = self.trace.map_or_else(|| "unlimited".to_owned(), cellpace_lab::shown_name);
        let mut runs = vec![self.run(&trace, &self.directions.down, &self.ended.observer.down, "")];
        if let Some(uplink) = &self.directions.up.trace {
            let trace = cellpace_lab::shown_name(&uplink.to_string());
            runs.push(self.run(&trace, &self.directions.up, &self.ended.observer.up, " (uplink)"));
        }
        let comparison = Comparison::of(runs);
        write(file, &cellpace_report::to_json(&comparison))
    }

    fn run(&self, trace: &str, path: &PathSpec, tally: &LinkTally, which: &str) -> Run {
        let end = Time::ZERO + self.ended.duration;
        let skip = Time::ZERO + self.directions.skip;
        let figures = tally.finish(end, self.capacity(path, skip));
        Run {
            cc: format!("{}{which}", name(self.args)),
            trace: trace.to_owned(),
            seed: self.args.path.seed,
            rtt_ms: self.directions.rtt.as_millis_f64(),
            queue: path.queue.to_string(),
            loss: path.loss.mean(),
            flows: figures.per_flow.len(),
            duration_s: self.ended.duration.as_secs_f64(),
            skip_s: self.directions.skip.as_secs_f64(),
            figures,
            wall_s: Some(self.ended.duration.as_secs_f64()),
            series: None,
        }
    }
}
