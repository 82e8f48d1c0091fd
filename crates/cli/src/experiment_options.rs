//! `--experiment`: its file, its records, its guard.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cellpace_experiment::{
    Arm, Assigner, ConnectionRecord, Experiment, ExperimentEntry, ExperimentLine, Figure,
    FigureKind, Guard, GuardLook,
};
use cellpace_live::{MetricFamily, MetricKind, metric_family};
use cellpace_proxy::{Treatment, Trial};
use cellpace_tcp::{ControlOptions, TcpCongestionControl};
use clap::Args;

use crate::error::CommandError;
use crate::flow_options::FlowArgs;
use crate::line_writer::LineWriter;
use crate::options::{Verbosity, read_text};
use crate::output::{append, complain, refuse_stdout, write_bytes};

/// From one look at the clock to the next: the guard judges at the end of each slot.
const LOOK: Duration = Duration::from_secs(1);

/// The options of an experiment.
#[derive(Debug, Args)]
#[command(next_help_heading = "Experiment")]
pub(crate) struct ExperimentOptions {
    /// Compare arms on live traffic as this file says
    #[arg(long, value_name = "FILE.toml", requires = "experiment_log", conflicts_with_all = ["cc", "share_of"])]
    pub(crate) experiment: Option<PathBuf>,
    /// Append a line of JSON for each connection of the experiment; the guard's state is beside it
    #[arg(long, value_name = "FILE.jsonl", requires = "experiment")]
    pub(crate) experiment_log: Option<PathBuf>,
}

/// An experiment that was read.
pub(crate) struct ReadExperiment {
    file: PathBuf,
    log: PathBuf,
    experiment: Experiment,
    /// The guard has ended it.
    ended: Arc<AtomicBool>,
}

/// An experiment that runs.
pub(crate) struct OpenExperiment {
    experiment: Experiment,
    assigner: Assigner,
    ended: Arc<AtomicBool>,
    lines: LineWriter,
    guard_file: PathBuf,
    state: Mutex<State>,
}

struct State {
    guard: Guard,
    /// Connections of each arm.
    recorded: BTreeMap<String, u64>,
}

impl ExperimentOptions {
    /// Where the guard keeps its state: beside the log.
    pub(crate) fn guard_file(&self) -> Option<PathBuf> {
        self.experiment_log.as_deref().map(guard_file)
    }

    /// Reads the file, if there is one.
    pub(crate) fn read(&self, flow: &FlowArgs) -> Result<Option<ReadExperiment>, CommandError> {
        let (Some(file), Some(log)) = (&self.experiment, &self.experiment_log) else {
            return Ok(None);
        };
        let wrong = |why: &str| CommandError::usage(format!("{}: {why}", file.display()));
        let text = read_text(&file.to_string_lossy(), "experiment")?;
        let experiment = Experiment::read(&text, |cc| flow.controller(cc).map(drop))
            .map_err(|error| wrong(&error.to_string()))?;
        for arm in &experiment.arms {
            if let Some(tcp) = &arm.tcp {
                let named = TcpCongestionControl::Named(tcp.clone());
                let check = named.check();
                check.map_err(|why| wrong(&format!("arm `{}`: tcp: {why}", arm.name)))?;
            }
        }
        refuse_stdout("--experiment-log", Some(log), "a log with the guard's state beside it")?;
        let (file, log, ended) = (file.clone(), log.clone(), Arc::default());
        Ok(Some(ReadExperiment { file, log, experiment, ended }))
    }
}

impl ReadExperiment {
    /// What connections get. The outputs of connections under controllers name one controller: that of
    /// the first arm that has one, `flow`'s.
    pub(crate) fn trial(
        &self,
        args: &FlowArgs,
        flow: &mut ControlOptions,
    ) -> Result<Trial, CommandError> {
        let controllers = || self.experiment.arms.iter().filter_map(|arm| arm.cc.as_deref());
        if let Some(cc) = controllers().next() {
            *flow = args.options_under(flow, cc)?;
        }
        let treatment = |arm: &Arm| match &arm.cc {
            Some(cc) => args.options_under(flow, cc).map(Box::new).map(Treatment::Controlled),
            None => Ok(Treatment::Plain(arm.tcp.clone())),
        };
        Ok(Trial::Experiment {
            assigner: Arc::new(Assigner::new(self.experiment.clone())),
            arms: self.experiment.arms.iter().map(treatment).collect::<Result<_, _>>()?,
            ended: self.ended.clone(),
        })
    }

    /// Whether connections of several arms are under a controller, and not under the same.
    pub(crate) fn has_several_controllers(&self) -> bool {
        let mut controllers = self.experiment.arms.iter().filter_map(|arm| arm.cc.as_deref());
        let first = controllers.next();
        controllers.any(|cc| Some(cc) != first)
    }

    /// Opens the log, and goes on where an earlier run of the experiment stopped.
    pub(crate) fn open(self, verbosity: Verbosity) -> Result<OpenExperiment, CommandError> {
        let Self { file, log, experiment, ended } = self;
        let guard_file = guard_file(&log);
        let guard = restored(&experiment, &guard_file)?;
        let start = ExperimentLine::start(&experiment).to_json();
        let goes_on = fs::metadata(&log).is_ok_and(|facts| facts.len() > 0);
        let lines = append("--experiment-log", &log, start.clone().into_bytes())?;
        if goes_on {
            lines.put(start.as_bytes());
        }
        if let Some(look) = guard.fired() {
            ended.store(true, Ordering::Relaxed);
            complain(&format!(
                "the experiment of {} was ended by its guard ({}): all connections get the first arm; give \
                 it another name, or remove {}, to begin anew",
                file.display(),
                in_words(look),
                guard_file.display()
            ));
        } else if !guard.has_limits() {
            verbosity.note("warning: the experiment has no [guard] that would end it");
        }
        let state = Mutex::new(State { guard, recorded: BTreeMap::new() });
        let assigner = Assigner::new(experiment.clone());
        Ok(OpenExperiment { experiment, assigner, ended, lines, guard_file, state })
    }
}

fn guard_file(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".guard");
    name.into()
}

fn restored(experiment: &Experiment, file: &Path) -> Result<Guard, CommandError> {
    let wrong = |error: String| CommandError::usage(format!("{}: {error}", file.display()));
    if fs::symlink_metadata(file).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(Guard::new(experiment));
    }
    let text = read_text(&file.to_string_lossy(), "state of a guard")?;
    Guard::restore(experiment, &text).map_err(wrong)
}

impl OpenExperiment {
    /// Writes a connection that ended.
    pub(crate) fn record(&self, record: &ConnectionRecord) {
        self.put(ExperimentEntry::Connection(record.clone()));
        let mut state = self.lock();
        state.guard.record(record);
        *state.recorded.entry(record.arm.clone()).or_default() += 1;
    }

    /// Judges at the end of each slot, for as long as it is awaited.
    pub(crate) async fn guard(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look();
        }
    }

    fn look(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut state = self.lock();
        let looks = state.guard.look(now.as_secs_f64().round(), self.assigner.slot(now));
        if looks.is_empty() {
            return;
        }
        let kept = state.guard.to_json();
        drop(state);
        let fired = looks.iter().find(|look| look.fired).cloned();
        if let Some(look) = &fired {
            self.ended.store(true, Ordering::Relaxed);
            complain(&format!(
                "the guard ends the experiment: {}; all new connections get the arm `{}`",
                in_words(look),
                self.experiment.arms[0].name
            ));
        }
        looks.into_iter().for_each(|look| self.put(ExperimentEntry::Guard(look)));
        self.keep(&kept);
    }

    fn keep(&self, state: &str) {
        if let Err(error) = write_bytes(&self.guard_file, state.as_bytes()) {
            complain(&format!("the guard's state is not kept: {error}"));
        }
    }

    fn put(&self, entry: ExperimentEntry) {
        let line = ExperimentLine::of(&self.experiment, entry).to_json();
        self.lines.put(line.as_bytes());
    }

    /// Completes what is written.
    pub(crate) fn finish(&self) -> Result<(), CommandError> {
        let state = self.lock().guard.to_json();
        self.keep(&state);
        self.lines.finish().map_or(Ok(()), |failed| Err(CommandError::failed(failed)))
    }

    /// Figures for Prometheus.
    pub(crate) fn families(&self) -> [MetricFamily; 2] {
        let state = self.lock();
        let name = self.experiment.name.as_str();
        let samples = self.experiment.arms.iter().map(|arm| {
            let count = state.recorded.get(&arm.name).copied().unwrap_or(0);
            (vec![("experiment", name), ("arm", arm.name.as_str())], count as f64)
        });
        let ended = f64::from(u8::from(self.ended.load(Ordering::Relaxed)));
        [
            metric_family(
                "cellpace_experiment_connections_total",
                MetricKind::Counter,
                "Connections of the experiment that ended.",
                samples,
            ),
            metric_family(
                "cellpace_experiment_ended",
                MetricKind::Gauge,
                "1 once the guard has ended the experiment.",
                std::iter::once((vec![("experiment", name)], ended)),
            ),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves a connection uncounted, at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the guard found.
fn in_words(look: &GuardLook) -> String {
    let figure = Figure::named(&look.figure);
    let is_share = figure.is_some_and(|figure| figure.kind() == FigureKind::Share);
    let (unit, title) = (if is_share { "points" } else { "%" }, figure.map(Figure::title));
    let title = title.unwrap_or("a figure");
    let GuardLook { arm, worse, limit, .. } = look;
    format!("`{arm}`: {title} {worse:.1} {unit} worse, {limit:.1} allowed")
}
