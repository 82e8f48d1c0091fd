//! `cellpace mdi train`: watches a teacher and counts its transitions.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use cellpace_cc::{ControllerSpec, EpochLog};
use cellpace_mdi::{About, Chain, Counts, Model, Part, States, TraceName, Watched};
use clap::Args;

use super::options::{StateOptions, shown};
use super::teacher::{Lesson, check_users, watch};
use super::{files, samples};
use crate::compare::once_each;
use crate::error::Failure;
use crate::output::print;
use crate::path_options::PathOptions;

/// Arguments of `cellpace mdi train`.
#[derive(Debug, Args)]
#[command(mut_arg("skip", |skip| skip.hide(true)))]
#[command(after_help = "Examples:
  cellpace mdi train --cc verus:r=2 --trace city.down --trace highway.down -o verus.mdi
  cellpace mdi train --cc copa --trace lte-driving --users 1 --variant absolute -o copa.mdi
  cellpace mdi train --cc verus --samples phone.csv -o phone.mdi

Samples are CSV with the header chain,users,delay_ms,window_pkts,sent and one row per epoch of
5 ms: the rows of one flow in a row under one number, chains numbered upwards; users: flows that
shared the bottleneck, 0 if unknown; delay: the largest RTT acked in the epoch, or the time since
the last ack where that is longer; sent: packets that left in it.")]
pub(crate) struct TrainArgs {
    /// The teacher, e.g. verus:r=2 (`cellpace cc` lists them); with --samples alone, its name
    #[arg(long, value_name = "CC")]
    cc: String,
    /// A trace to watch it on, as for `cellpace compare`; repeatable
    #[arg(long = "trace", value_name = "TRACE")]
    traces: Vec<String>,
    /// Numbers of flows that share the link, one run of each per trace
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,2,3,4")]
    users: Vec<u32>,
    #[command(flatten)]
    path: PathOptions,
    #[command(flatten)]
    states: StateOptions,
    /// Learn from samples of a file (CSV, see below), too or instead; repeatable
    #[arg(long, value_name = "FILE")]
    samples: Vec<String>,
    /// Write all samples as CSV
    #[arg(long, value_name = "FILE")]
    save_samples: Option<PathBuf>,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Where to write the model
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// The longest name of a teacher.
const LONGEST_NAME: usize = 200;

pub(crate) fn run(args: &TrainArgs) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    check(args)?;
    let wanted = args.states.wanted()?;
    let rejoin = args.states.rejoin(&wanted, EpochLog::EPOCH)?;
    let (lessons, mut traces) = lessons(args)?;
    let mut read = Vec::new();
    for name in &args.samples {
        read.extend(samples::read(name)?);
        traces.push(samples::named_file(name)?);
    }
    traces.sort();
    traces.dedup();
    let Some(mut watched) = watch(&lessons, args.jobs)? else {
        return Ok(ExitCode::from(130));
    };
    watched.extend(read);
    // Stable: within a number of users the order of the command line stays.
    watched.sort_by_key(|watched| watched.users);
    if let Some(path) = &args.save_samples {
        samples::save(path, &watched)?;
    }
    let logged = Logged::of(watched);
    let states = wanted.choose(&logged.chains)?;
    let model = Model {
        about: About {
            teacher: args.cc.trim().to_owned(),
            traces,
            scenario: scenario(args),
            seed: args.path.seed,
            epoch_us: (EpochLog::EPOCH.as_nanos() / 1000) as u32,
        },
        states,
        parts: logged.parts(&states, rejoin),
    };
    let bytes = files::save(&args.output, &model)?;
    print(&summary(&model, &logged))?;
    let seconds = started.elapsed().as_secs_f64();
    print(&format!("{}: {bytes} bytes, {seconds:.1} s\n", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn check(args: &TrainArgs) -> Result<(), Failure> {
    if args.traces.is_empty() && args.samples.is_empty() {
        return Err(Failure::usage("there is nothing to learn from; give --trace or --samples"));
    }
    if args.path.skip.is_some() {
        return Err(Failure::usage("--skip: a table is learnt from whole runs"));
    }
    let name = args.cc.trim();
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) {
        let why = format!("--cc: a name has 1 to {LONGEST_NAME} characters, all of them visible");
        return Err(Failure::usage(why));
    }
    // A table with such a name in it is not read.
    let mut names = args.traces.iter().chain(&args.samples);
    if let Some(name) = names.find(|name| name.contains(char::is_control)) {
        return Err(Failure::usage(format!("the name {name:?} has a control character in it")));
    }
    once_each("--trace", &args.traces)?;
    once_each("--samples", &args.samples)?;
    check_users(&args.users)?;
    files::check_output("--output", &args.output)?;
    let Some(path) = &args.save_samples else { return Ok(()) };
    if *path == args.output {
        let what = path.display();
        return Err(Failure::usage(format!("--output and --save-samples both write {what}")));
    }
    files::check_output("--save-samples", path)
}

/// What the runs and the learning had in common. Without `--rejoin` as it was before there was
/// any, so that old commands make the same files.
fn scenario(args: &TrainArgs) -> String {
    let path = if args.traces.is_empty() { String::new() } else { args.path.written() };
    format!("{path} {}", args.states.rejoin_written()).trim().to_owned()
}

/// Every combination of trace and number of users, and the names of the traces.
fn lessons(args: &TrainArgs) -> Result<(Vec<Lesson>, Vec<TraceName>), Failure> {
    let (mut lessons, mut names) = (Vec::new(), Vec::new());
    if args.traces.is_empty() {
        return Ok((lessons, names));
    }
    let teacher: ControllerSpec = cellpace_lab::read_controller(&args.cc)
        .map_err(|error| Failure::usage(format!("--cc: {error}")))?;
    let mut files = cellpace_lab::trace_files();
    for trace in &args.traces {
        let path = args.path.scenario(trace, &mut files)?;
        for users in &args.users {
            lessons.push(Lesson::new(cellpace_lab::shown_name(trace), &path, &teacher, *users)?);
        }
        names.push(match path.trace.trace() {
            Some(_) => samples::named_file(trace.trim())?,
            None => TraceName { name: cellpace_lab::shown_name(trace), sha256: [0; 32] },
        });
    }
    Ok((lessons, names))
}

/// All chains, those of the same number of users in a row.
struct Logged {
    chains: Vec<Chain>,
    /// Numbers of users, ascending, and where in `chains` theirs end.
    ends: Vec<(u32, usize)>,
}

impl Logged {
    /// Of what is sorted by the number of users.
    fn of(watched: Vec<Watched>) -> Self {
        let mut logged = Self { chains: Vec::new(), ends: Vec::new() };
        for Watched { users, chains } in watched {
            logged.chains.extend(chains);
            let end = logged.chains.len();
            match logged.ends.last_mut().filter(|(known, _)| *known == users) {
                Some((_, last)) => *last = end,
                None => logged.ends.push((users, end)),
            }
        }
        logged
    }

    fn parts(&self, states: &States, rejoin: Option<usize>) -> Vec<Part> {
        let mut start = 0;
        let part = |&(users, end): &(u32, usize)| {
            let chains = &self.chains[std::mem::replace(&mut start, end)..end];
            let samples = chains.iter().map(|chain| chain.len() as u64).sum();
            Part { users, samples, counts: Counts::rejoining(states, chains, rejoin) }
        };
        self.ends.iter().map(part).collect()
    }

    /// Transitions that there would be if no range cut any off.
    fn transitions(&self, states: &States) -> u64 {
        // The first epoch of relative states only gives the old values.
        let lost = if matches!(states, States::Relative(_)) { 2 } else { 1 };
        self.chains.iter().map(|chain| chain.len().saturating_sub(lost) as u64).sum()
    }
}

fn summary(model: &Model, logged: &Logged) -> String {
    let (counted, all) = (model.combined(), logged.transitions(&model.states));
    let inside = 100.0 * counted.total() as f64 / all.max(1) as f64;
    let users: Vec<String> =
        model.parts.iter().map(|part| format!("{}: {}", part.users, part.samples)).collect();
    format!(
        "teacher      {}\nsamples      {} (users {})\nstates       {}\ntransitions  {} ({inside:.2} % \
         of {all} lie within the ranges)\ncells        {}\n",
        model.about.teacher,
        model.samples(),
        users.join(", "),
        shown(&model.states),
        counted.total(),
        counted.cells().len(),
    )
}
