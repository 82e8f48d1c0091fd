//! `cellpace attack`: the path on which a controller does worst.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cellpace_base::Span;
use cellpace_lab::attack::{Attack, AttackBounds, AttackBudget, AttackFind, LevelRange, Worst};
use cellpace_lab::{WorkSink, read_controller};
use clap::{Args, ValueEnum};

use crate::error::{CommandError, named};
use crate::options::{Verbosity, duration, seed, span, whole};
use crate::output::{check_files, command_line, complain, is_stdout, print, write, write_json};
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted, interruption_code};

/// Arguments of `cellpace attack`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace attack --cc vegas --rate 1mbit..5mbit --budget 100 -o worst.toml
  cellpace sim worst.toml

The search draws paths of a few steps, keeps the worst and changes them; then it makes the worst one as
simple as it can be and still be nearly as bad. Without -o the scenario goes to standard output:
`cellpace attack --cc copa | cellpace sim -`.")]
pub(crate) struct AttackArgs {
    /// The controller
    #[arg(long, value_name = "CC")]
    cc: String,
    /// A rival. By fairness it is beside the controller, in place of another of its own kind; otherwise the
    /// controller is to do worse than this one does on the same path
    #[arg(long, value_name = "CC")]
    against: Option<String>,
    /// What is to be bad: the share of the link that is used, the p95 of the queue delay, or the share beside a rival
    #[arg(long, value_enum, default_value_t = WorstArg::Utilization)]
    worst: WorstArg,
    /// How long to search: simulated runs (1000) or a time (30s), with which the find depends on the machine; a
    /// generation is not cut short, and to make the find simple takes some hundred runs more
    #[arg(long, value_name = "RUNS|TIME", default_value = "1000", value_parser = budget)]
    budget: AttackBudget,
    /// Seed of the search and of the runs: same seed, same command, same find
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = seed)]
    seed: u64,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_u16))]
    jobs: Option<u16>,
    #[command(flatten)]
    bounds: BoundArgs,
    #[command(flatten)]
    outputs: AttackOutputs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Path")]
struct BoundArgs {
    /// Rates of the link, or one
    #[arg(long, value_name = "LOW..HIGH", default_value = "1mbit..50mbit")]
    rate: String,
    /// Round-trip delays without queueing
    #[arg(long, value_name = "LOW..HIGH", default_value = "10ms..200ms")]
    rtt: String,
    /// Random losses
    #[arg(long, value_name = "LOW..HIGH", default_value = "0%..1%")]
    loss: String,
    /// Drop-tail buffers
    #[arg(long, value_name = "LOW..HIGH", default_value = "10kB..1MB")]
    buffer: String,
    /// Steps of a path at most; with 1 nothing changes during a run
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = whole(1..=100_u64))]
    steps: u64,
    /// Length of a run; shrinking may make it shorter
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    duration: Span,
    /// Left out of the figures at the start
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span)]
    skip: Span,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct AttackOutputs {
    /// Write the scenario [default: standard output]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Write the find as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WorstArg {
    Utilization,
    Delay,
    Fairness,
}

fn budget(text: &str) -> Result<AttackBudget, String> {
    if text.chars().all(|c| c.is_ascii_digit()) {
        return whole(1..=100_000_000)(text).map(AttackBudget::Runs);
    }
    let time = duration(text)?;
    Ok(AttackBudget::Time(Duration::from_nanos(time.as_nanos())))
}

pub(crate) fn run(args: &AttackArgs) -> Result<ExitCode, CommandError> {
    let outputs = &args.outputs;
    check_files(&[("--output", outputs.output.as_deref()), ("--json", outputs.json.as_deref())])?;
    let attack = args.attack()?;
    end_cleanly_on_ctrl_c();
    let mut watch = Watch::new(args.budget, outputs.verbosity);
    let find = attack.run(args.jobs, &mut watch)?;
    watch.progress.finish();
    match find {
        Some(find) if attack.against.is_some() && find.found.badness(attack.worst) <= 0.0 => {
            let sentence = attack.sentence(find.found);
            Err(CommandError::failed(format!(
                "no path of {} runs is worse for it than for the rival; the nearest: {sentence}; nothing is written",
                find.runs
            )))
        }
        Some(find) => outputs.deliver(&attack, &find).map(|()| ExitCode::SUCCESS),
        None => {
            complain("interrupted; nothing is written");
            Ok(interruption_code())
        }
    }
}

impl AttackArgs {
    fn attack(&self) -> Result<Attack, CommandError> {
        let against = self.against.as_deref().map(read_controller).transpose();
        Ok(Attack {
            cc: named("--cc", read_controller(&self.cc))?,
            against: named("--against", against)?,
            worst: match self.worst {
                WorstArg::Utilization => Worst::Utilization,
                WorstArg::Delay => Worst::Delay,
                WorstArg::Fairness => Worst::Fairness,
            },
            bounds: self.bounds.read()?,
            budget: self.budget,
            seed: self.seed,
        })
    }
}

impl BoundArgs {
    fn read(&self) -> Result<AttackBounds, CommandError> {
        let bounds = AttackBounds {
            rate: named("--rate", LevelRange::rates(&self.rate))?,
            rtt: named("--rtt", LevelRange::rtts(&self.rtt))?,
            loss: named("--loss", LevelRange::losses(&self.loss))?,
            buffer: named("--buffer", LevelRange::buffers(&self.buffer))?,
            steps: self.steps as usize,
            duration: self.duration,
            skip: self.skip,
        };
        bounds.check()?;
        Ok(bounds)
    }
}

impl AttackOutputs {
    fn deliver(&self, attack: &Attack, find: &AttackFind) -> Result<(), CommandError> {
        let command = command_line();
        let is_free = write_json(self.json.as_deref(), || attack.json(find, &command))?;
        let comment: String = command.replace(char::is_control, "?");
        let scenario = format!("# {comment}\n{}", find.scenario);
        let Some(file) = self.output.as_deref().filter(|file| !is_stdout(file)) else {
            return if is_free { print(&scenario) } else { Ok(()) };
        };
        write(file, &scenario)?;
        if !is_free {
            return Ok(());
        }
        let (before, after) = (attack.sentence(find.found), attack.sentence(find.shrunk));
        print(&format!(
            "{} runs; the worst path met:\n  {before}\nas simple as it can be:\n  {after}\nscenario: {}\n",
            find.runs,
            file.display()
        ))
    }
}

/// Shows how much of the budget is spent.
struct Watch {
    budget: AttackBudget,
    started: Instant,
    shown: u64,
    progress: Progress,
}

impl Watch {
    fn new(budget: AttackBudget, verbosity: Verbosity) -> Self {
        let (steps, unit) = match budget {
            AttackBudget::Runs(runs) => (runs, "runs"),
            AttackBudget::Time(time) => (time.as_secs(), "seconds"),
        };
        let progress = Progress::with_verbosity(steps as usize, unit, verbosity);
        Self { budget, started: Instant::now(), shown: 0, progress }
    }
}

impl WorkSink<()> for Watch {
    fn on_done(&mut self, index: usize, (): &()) {
        let spent = match self.budget {
            AttackBudget::Runs(runs) => (index as u64 + 1).min(runs),
            AttackBudget::Time(time) => self.started.elapsed().as_secs().min(time.as_secs()),
        };
        for _ in self.shown..spent {
            self.progress.step();
        }
        self.shown = self.shown.max(spent);
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}
