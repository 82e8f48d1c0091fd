//! `cellpace conform`: any stack's server in the scenarios that RFC 9743 asks about.

mod file_server;
mod listening;
mod stage;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use cellpace_base::{Span, shell_quoted};
use cellpace_conform::{ConformError, Trial, judge, reference, trials};
use cellpace_lab::{ControllerSpec, read_controller};
use cellpace_report::{
    CONFORMANCE_SCHEMA, Conformance, ConformanceScenario, ConformanceVerdict, Run, indented,
};
use clap::Args;

use self::stage::{CURL, ConformStage, Played, find_program};
use crate::compare::once_each;
use crate::error::{CommandError, named};
use crate::options::Verbosity;
use crate::output::{check_files, command_line, print, refuse_stdout};
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted, interruption_code};
use crate::result_files::ResultFiles;

/// Arguments of `cellpace conform`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace conform --list
  cellpace conform --kernel-cc cubic --only steady
  cellpace conform --only slow-start -- sh -c 'python3 -m http.server -d $CELLPACE_FILES'

The server sends, in a network namespace of its own, over an emulated link, to clients that download
$CELLPACE_BYTES bytes from $CELLPACE_HOST:$CELLPACE_PORT. $CELLPACE_FILES is a folder with files named by
their sizes, for servers that send files. Without a server the kernel's TCP is tested. Exit code: 0 when
every scenario passes, 3 when one fails, 1 when one could not be run.")]
pub(crate) struct ConformArgs {
    /// Run these scenarios only (--list has them); joined by commas or repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Run the few scenarios that tell most
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// List the scenarios with their questions, and run nothing
    #[arg(long)]
    list: bool,
    /// A shell command that downloads once [default: curl -sSf -o /dev/null
    /// http://$CELLPACE_HOST:$CELLPACE_PORT/$CELLPACE_BYTES]
    #[arg(long, value_name = "COMMAND")]
    client: Option<String>,
    /// A shell command that downloads $CELLPACE_COUNT times over one connection, one each
    /// $CELLPACE_EVERY_MS milliseconds [default: curl, unless there is a --client]
    #[arg(long, value_name = "COMMAND")]
    paced_client: Option<String>,
    /// The server's port, TCP or UDP [default: where it listens]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Congestion control of the kernel's TCP, where that is tested: cubic, bbr, ... [default: the
    /// system's]
    #[arg(long, value_name = "NAME", conflicts_with = "server")]
    kernel_cc: Option<String>,
    /// A controller of ours to compare with, in the simulator; repeatable
    #[arg(long = "cc", value_name = "CC", default_values = ["verus", "copa", "cubic", "bbr"])]
    ccs: Vec<String>,
    #[command(flatten)]
    files: ResultFiles,
    #[command(flatten)]
    verbosity: Verbosity,
    /// The server and its arguments [default: the kernel's TCP]
    #[arg(last = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

/// Exit code when a scenario fails.
const FAILS: u8 = 3;

/// What a scenario takes beside its own time: a server starts and ends.
const OVERHEAD: Span = Span::from_millis(800);

pub(crate) fn run(args: &ConformArgs) -> Result<ExitCode, CommandError> {
    let all = trials();
    let chosen = choose(args, &all)?;
    if args.list {
        print(&chosen.iter().map(|trial| listed(trial)).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    check_files(&args.files.options())?;
    refuse_stdout("--report", args.files.report.as_deref(), "a page")?;
    once_each("--cc", &args.ccs)?;
    let controllers: Result<Vec<ControllerSpec>, _> =
        args.ccs.iter().map(|cc| read_controller(cc)).collect();
    let controllers = named("--cc", controllers)?;
    check_client(args)?;
    args.verbosity.note(&format!("conform: {}", announcement(&chosen)));

    let stage = ConformStage::new(
        args.server.clone(),
        args.client.clone(),
        args.paced_client.clone(),
        args.port,
        args.kernel_cc.clone(),
    )?;
    let Some(played) = play(args, &stage, &chosen)? else { return Ok(interruption_code()) };
    let kernel_cc = stage.kernel_cc();
    let ours = reference(&chosen, &controllers, &mut ()).map_err(of_conform)?;
    let document = Conformance {
        schema: CONFORMANCE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        server: server_name(&args.server, &kernel_cc),
        client: stage.client().to_owned(),
        kernel_cc,
        warnings: played.iter().flat_map(|played| played.warnings.clone()).collect(),
        scenarios: chosen
            .iter()
            .zip(&played)
            .zip(&ours)
            .map(|((trial, played), ours)| judged(trial, played, ours))
            .collect(),
    };
    document
        .warnings
        .iter()
        .for_each(|warning| args.verbosity.note(&format!("warning: {warning}")));
    if !args.files.use_stdout() {
        print(&document.text())?;
    }
    args.files.write(|| indented(&document))?;
    Ok(exit_code(&document))
}

/// The scenarios that are wanted, in their own order.
fn choose<'a>(args: &ConformArgs, all: &'a [Trial]) -> Result<Vec<&'a Trial>, CommandError> {
    let names: Vec<&str> = all.iter().map(|trial| trial.name.as_str()).collect();
    let unknown = args.only.iter().find(|name| !names.contains(&name.as_str()));
    if let Some(name) = unknown {
        let near = cellpace_base::nearest(name, names.iter().copied());
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        return Err(CommandError::usage(format!(
            "--only: there is no scenario `{name}`{hint} (--list has all of them)"
        )));
    }
    let is_wanted = |trial: &&Trial| match args.only.is_empty() {
        true => !args.quick || trial.quick,
        false => args.only.contains(&trial.name),
    };
    Ok(all.iter().filter(is_wanted).collect())
}

fn listed(trial: &Trial) -> String {
    let Trial { name, question, rfc, duration, .. } = trial;
    let quick = if trial.quick { ", quick" } else { "" };
    format!("{name:23} {question}\n{:23} {duration}{quick}; RFC 9743, {rfc}\n", "")
}

/// How long it will take.
fn announcement(chosen: &[&Trial]) -> String {
    let total = chosen.iter().fold(Span::ZERO, |sum, trial| sum + trial.duration + OVERHEAD);
    let seconds = total.as_secs_f64().ceil() as u64;
    let time = match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    };
    let scenarios = if chosen.len() == 1 { "scenario" } else { "scenarios" };
    format!("{} {scenarios} in real time, about {time}", chosen.len())
}

/// The usual client, and that of Cubic beside the server, is curl.
fn check_client(args: &ConformArgs) -> Result<(), CommandError> {
    if args.client.is_some() && args.paced_client.is_some() {
        return Ok(());
    }
    find_program("curl").map_err(|why| {
        CommandError::failed(format!("curl, which downloads ({CURL}), does not start: {why}"))
    })
}

/// Runs all scenarios; `None` when it was interrupted.
fn play(
    args: &ConformArgs,
    stage: &ConformStage,
    chosen: &[&Trial],
) -> Result<Option<Vec<Played>>, CommandError> {
    end_cleanly_on_ctrl_c();
    let progress = Progress::with_verbosity(chosen.len(), "scenarios", args.verbosity);
    let mut all = Vec::new();
    for trial in chosen {
        let played = stage.play(trial)?;
        if interrupted() {
            progress.finish();
            return Ok(None);
        }
        args.verbosity.detail(|| match &played.run {
            Ok(_) => format!("{}: done", trial.name),
            Err(why) => format!("{}: not run: {why}", trial.name),
        });
        progress.step();
        all.push(played);
    }
    progress.finish();
    Ok(Some(all))
}

fn judged(trial: &Trial, played: &Played, ours: &[Run]) -> ConformanceScenario {
    let options = trial.link_options();
    let words = options.iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ");
    let run = played.run.as_ref().map_err(String::as_str);
    judge(trial, run, ours, format!("cellpace link {words}"))
}

/// The server in a few words.
fn server_name(server: &[OsString], kernel_cc: &str) -> String {
    match server.first() {
        None => format!("TCP {kernel_cc}"),
        Some(program) => {
            let name = Path::new(program).file_name().unwrap_or(program.as_os_str());
            let is_shell = ["sh", "bash"].iter().any(|shell| name == *shell);
            let words = server.last().filter(|_| is_shell).map(|words| words.to_string_lossy());
            words.map_or_else(|| name.to_string_lossy().into_owned(), Cow::into_owned)
        }
    }
}

fn exit_code(document: &Conformance) -> ExitCode {
    let any = |verdict| document.scenarios.iter().any(|scenario| scenario.verdict == verdict);
    if any(ConformanceVerdict::NotRun) {
        return ExitCode::FAILURE;
    }
    if any(ConformanceVerdict::Fail) { ExitCode::from(FAILS) } else { ExitCode::SUCCESS }
}

fn of_conform(error: ConformError) -> CommandError {
    match error {
        ConformError::Invalid(text) => CommandError::usage(text),
        error => CommandError::failed(error),
    }
}
