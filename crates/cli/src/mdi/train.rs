//! `cellpace mdi train`: watches a teacher and counts its transitions.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use cellpace_lab::{
    Lesson, NamedTrace, StatesChoice, Training, check_name, learn, read_controller, trace_files,
    trace_source,
};
use cellpace_mdi::{About, LoggedFlows, MAX_USERS, write_samples};
use cellpace_report::write_atomically;
use clap::Args;

use super::model_file::{check_output, has_ending, save_model};
use crate::compare::once_each;
use crate::error::{CommandError, named};
use crate::options::whole;
use crate::output::{complain, print};
use crate::path_options::BottleneckOptions;
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interruption_code};

/// Arguments of `cellpace mdi train`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace mdi train --cc verus --trace lte-driving --trace umts-driving -o verus.mdi
  cellpace mdi train --cc copa --trace lte-driving --users 1 --states absolute:bin=5ms -o copa.mdi

States:
  levels    the delay as a multiple of the base delay, and the relative change of the window:
            levels:delay=0..1.4/0.01,window=-60..60/4 (decades above the base; without ranges up to
            the 99.9th percentile, and 21 changes that hold 98 %). With rejoin=160ms learning goes
            on so long after the teacher's window has been one packet; without, a chain ends there
  relative  the changes of both (2021): relative:delay=-10..10/2,window=-20..20/2
  absolute  the delay in ms and the packets of an epoch (2017): absolute:bin=2ms, or all of
            absolute:delay=20..727/2,window=0..35/1
`cellpace mdi show` names the states of a table; only tables with the same states can be merged.")]
pub(crate) struct TrainArgs {
    /// The teacher, e.g. verus (`cellpace cc` lists them)
    #[arg(long, value_name = "CC")]
    cc: String,
    /// A trace to watch it on, as for `cellpace compare`; repeatable
    #[arg(long = "trace", value_name = "TRACE", required = true)]
    traces: Vec<String>,
    /// Numbers of flows that share the link, one run of each per trace
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,2,3,4", value_parser = whole(1..=MAX_USERS))]
    users: Vec<u32>,
    /// Which delays and windows the table distinguishes, see below
    #[arg(long, value_name = "STATES", default_value = "levels")]
    states: StatesChoice,
    #[command(flatten)]
    link: BottleneckOptions<false>,
    /// Where to write the model; the samples instead (CSV) if the name ends with .csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &TrainArgs) -> Result<ExitCode, CommandError> {
    let started = Instant::now();
    check(args)?;
    let mut files = trace_files();
    let training = Training {
        teacher: named("--cc", read_controller(&args.cc))?,
        traces: named("--trace", NamedTrace::read_all(&args.traces, &mut files))?,
        users: args.users.clone(),
        duration: args.link.duration,
        path: args.link.conditions(&mut files)?,
    };
    let about = about(args, &training)?;
    end_cleanly_on_ctrl_c();
    let mut progress = Progress::new(training.runs(), "runs");
    let logged = training.watch(None, &mut progress)?;
    progress.finish();
    let Some(logged) = logged else {
        complain("interrupted; nothing is saved");
        return Ok(interruption_code());
    };
    let bytes = match has_ending(&args.output, "csv") {
        true => save_samples(args, &logged)?,
        false => {
            let lesson = learn(about, &logged, &args.states)?;
            print(&describe_lesson(&lesson))?;
            save_model(&args.output, &lesson.model)?
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    print(&format!("{}: {bytes} bytes, {seconds:.1} s\n", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn check(args: &TrainArgs) -> Result<(), CommandError> {
    named("--cc", check_name(args.cc.trim()))?;
    once_each("--trace", &args.traces)?;
    once_each("--users", &args.users)?;
    check_output(&args.output)
}

/// Where the model comes from. What the runs and the learning had in common is in the words of the
/// first version, so that old commands make the same files.
fn about(args: &TrainArgs, training: &Training) -> Result<About, CommandError> {
    let mut scenario = format!("{} --acks every", args.link.words());
    if let Some(duration) = args.link.duration {
        scenario += &format!(" --duration {duration}");
    }
    if let Some(rejoin) = args.states.rejoin() {
        scenario += &format!(" --rejoin {rejoin}");
    }
    let traces = args.traces.iter().zip(&training.traces);
    let traces = traces.map(|(text, trace)| trace_source(text, Some(&trace.spec)));
    let mut traces = traces.collect::<Result<Vec<_>, _>>()?;
    traces.sort();
    traces.dedup();
    let teacher = args.cc.trim().to_owned();
    Ok(About { teacher, traces, scenario, seed: args.link.seed, ..About::default() })
}

fn save_samples(args: &TrainArgs, logged: &[LoggedFlows]) -> Result<usize, CommandError> {
    let mut text = Vec::new();
    write_samples(&mut text, logged).map_err(CommandError::failed)?;
    write_atomically(&args.output, &text).map_err(CommandError::failed)?;
    Ok(text.len())
}

/// Returns what was learnt as text.
pub(super) fn describe_lesson(lesson: &Lesson) -> String {
    let (model, all) = (&lesson.model, lesson.transitions);
    let counted = model.combined();
    let inside = 100.0 * counted.total() as f64 / all.max(1) as f64;
    let users: Vec<String> =
        model.parts.iter().map(|part| format!("{}: {}", part.users, part.samples)).collect();
    format!(
        "teacher      {}\nsamples      {} (users {})\nstates       {} ({})\ntransitions  {} \
         ({inside:.2} % of {all} lie within the ranges)\ncells        {}\n",
        model.about.teacher,
        model.samples(),
        users.join(", "),
        model.states.len(),
        model.states,
        counted.total(),
        counted.cells().len(),
    )
}
