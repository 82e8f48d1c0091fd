//! `cellpace link`: a program behind an emulated link, in real time.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, stdin};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cellpace_base::Span;
use cellpace_emu::{EmuError, EmulatedLink, Expose, LinkSpec};
use clap::Args;

use crate::dashboard::DashboardOptions;
use crate::error::CommandError;
use crate::link_change::{change_running_link, read_change};
use crate::link_dashboard::LinkDashboard;
use crate::link_report::LinkReport;
use crate::link_watch::{LinkWatch, Log, WatchOptions};
use crate::options::Verbosity;
use crate::output::{check_files, complain, refuse_stdout};
use crate::path_options::{Directions, PathOptions};
use crate::result_files::ResultFiles;

/// Arguments of `cellpace link`.
#[derive(Debug, Args)]
#[command(mut_arg("verbose", |verbose| {
    verbose.help("Print a line for each change, each destination that cannot be reached, and each flow")
}))]
#[command(mut_arg("json", |json| {
    json.help("Write the figures as JSON (`-`: standard output, the program's then goes to standard error)")
}))]
#[command(mut_arg("seed", |seed| seed.help("Seed of everything random in the path")))]
#[command(mut_arg("skip", |skip| skip.help("Left out of the figures at the start [default: 0s]")))]
#[command(mut_arg("duration", |duration| {
    duration.help("The program is asked to end after this time [default: it ends by itself]")
}))]
#[command(after_help = "Examples:
  cellpace link --trace lte-driving --rtt 40ms
  cellpace link --trace constant:12mbit --uplink constant:3mbit -- sh -c 'echo $CELLPACE_HOST'
  cellpace link --trace constant:12mbit --duration 1s -- sh -c 'cellpace link --set rate=5mbit'

The trace holds towards the program, --uplink the other way. The program finds the far side at
$CELLPACE_HOST (and $CELLPACE_HOST6). As root, that is where cellpace was started; without root,
it is a namespace of its own, where --far runs a program. Addresses beyond this machine need root
and --nat.

The line at the end says how much later than the model wants packets left (`late`: median, 99th
percentile and maximum in microseconds: what this machine adds), what the link carried of what the
trace allows, and how many packets the model and the devices dropped.

--set changes a running link and keeps what is in flight: rate, trace, rtt, queue, loss, uplink,
uplink-queue, uplink-loss, impair. From inside it is the link around; from elsewhere the only one
of yours, or that which CELLPACE_LINK=PID in front of the command names.")]
pub(crate) struct LinkArgs {
    /// Trace towards the program: lte-driving, constant:12mbit or a file, as for compare [default:
    /// unlimited]
    #[arg(long, value_name = "TRACE")]
    trace: Option<String>,
    #[command(flatten)]
    path: PathOptions,
    /// Change a running link: rate=5mbit, rtt=80ms, loss=1%, ...; may be repeated
    #[arg(long, value_name = "KEY=VALUE", exclusive = true)]
    set: Vec<String>,
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
    #[command(flatten)]
    files: ResultFiles,
    /// Write what became of every packet, as Parquet; as a capture with extension pcapng
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    log: Option<PathBuf>,
    #[command(flatten)]
    dashboard: DashboardOptions,
    #[command(flatten)]
    verbosity: Verbosity,
    /// The program and its arguments [default: your shell]
    #[arg(last = true, value_name = "CMD")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &LinkArgs) -> Result<ExitCode, CommandError> {
    if !args.set.is_empty() {
        return change_running_link(&args.set);
    }
    check(args)?;
    // A link that was killed together with its guardian has left something behind.
    cellpace_emu::clean();
    let trace = args.trace.as_deref();
    let directions = args.path.directions(trace, &mut cellpace_lab::trace_files())?;
    let log = args.log.as_ref().map(|log| Log::create(log)).transpose();
    let log = log.map_err(CommandError::failed)?;
    let link = EmulatedLink::open(spec(args, &directions)).map_err(CommandError::failed)?;

    let mut program = program(args);
    let name = name(&program);
    if args.files.use_stdout() {
        program.stdout(io::stderr().as_fd().try_clone_to_owned().map_err(CommandError::failed)?);
    }
    let title = trace
        .or(args.path.link.whole())
        .map_or_else(|| "unlimited".to_owned(), cellpace_lab::shown_name);
    let dashboard = args.dashboard.open("link", title.clone(), None, args.verbosity)?;
    let seed = args.path.link.seed;
    let schedule = directions.link.down.schedule(seed).ok().flatten();
    let dashboard = dashboard.map(|open| LinkDashboard::new(open, schedule));
    let far = args.far.as_ref().map(|far| shell_command(far));
    if link.is_isolated() && far.is_none() && !args.program.is_empty() {
        args.verbosity.note(
            "link: without root the far side is a namespace of its own, where servers of this machine \
             are not reached: --far COMMAND runs one there, and with root it is this machine",
        );
    }
    let (verbosity, nat, may_nat) = (args.verbosity, args.nat, !link.is_isolated());
    let options = WatchOptions { name: name.clone(), verbosity, seed, nat, may_nat };
    let watch = LinkWatch::new(&directions, options, log, dashboard);
    let mut ended = link.run(program, far, watch);
    let logged = ended.as_mut().map_or(Ok(()), |ended| ended.observer.finish());
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => return not_started(&error),
    };
    let report = LinkReport { name, seed, trace: title, directions: &directions, ended: &ended };
    report.print_summary(args.verbosity);
    let written = report.write(args.files.json.as_deref(), args.files.report.as_deref());
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

/// Refuses what cannot be done before anything is.
fn check(args: &LinkArgs) -> Result<(), CommandError> {
    let [json, report] = args.files.options();
    check_files(&[json, report, ("--log", args.log.as_deref())])?;
    refuse_stdout("--report", report.1, "a page")?;
    args.dashboard.check()
}

fn spec(args: &LinkArgs, directions: &Directions) -> LinkSpec {
    LinkSpec {
        link: directions.link.clone(),
        seed: args.path.link.seed,
        duration: directions.duration,
        expose: args.expose.clone(),
        nat: args.nat,
        read_change,
        quiet: directions.rtt() + Span::from_millis(20),
    }
}

/// The program that runs inside: without one, the user's shell.
fn program(args: &LinkArgs) -> Command {
    match args.program.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => shell(args.verbosity),
    }
}

/// The user's shell, with a prompt that shows where it runs.
fn shell(verbosity: Verbosity) -> Command {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    if stdin().is_terminal() {
        verbosity.note("link: this shell is behind the link until it ends (exit, or Ctrl-D)");
    }
    let mut command = Command::new(&shell);
    match Path::new(&shell).file_name().and_then(OsStr::to_str) {
        // Before each prompt, as the start-up files of the shell set a prompt of their own.
        Some("bash") => {
            let mut before = "PS1=\"[link] ${PS1#\"[link] \"}\"".to_owned();
            if let Ok(own) = std::env::var("PROMPT_COMMAND") {
                before = format!("{own}; {before}");
            }
            command.env("PROMPT_COMMAND", before);
        }
        Some("sh" | "dash" | "ash" | "busybox") => {
            command.env("PS1", "[link] $ ");
        }
        // Others have $CELLPACE_LINK.
        _ => {}
    }
    command
}

fn shell_command(text: &OsStr) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(text);
    command
}

/// The program, without its folder.
fn name(program: &Command) -> String {
    let name = Path::new(program.get_program()).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Exit codes as `env` has them, for a program that does not start.
fn not_started(error: &EmuError) -> Result<ExitCode, CommandError> {
    let EmuError::Start { source, .. } = error else { return Err(CommandError::failed(error)) };
    complain(&error.to_string());
    let is_missing = source.kind() == io::ErrorKind::NotFound;
    Ok(ExitCode::from(if is_missing { 127 } else { 126 }))
}
