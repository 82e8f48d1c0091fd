//! `--experiment`: its file, its records, its guard.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cellpace_cc::ControllerSpec;

use cellpace_experiment::{
    Arm, Assigner, ConnectionRecord, Experiment, ExperimentEntry, ExperimentLine, Figure,
    FigureKind, Guard, GuardLook, SlotRecord,
};
use cellpace_live::{MetricFamily, MetricKind, MoreMetrics, metric_family};
use cellpace_tcp::{ControlOptions, Recorder, TcpCongestionControl, Treatment, Trial, since_1970};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};

use crate::connection_outputs::ConnectionOutputs;
use crate::error::CommandError;
use crate::flow_options::FlowArgs;
use crate::line_writer::LineWriter;
use crate::options::{Verbosity, read_text};
use crate::output::{append, complain, refuse_stdout, write_bytes};

/// From one look at the clock to the next, at most: the guard judges at the end of each slot.
const LOOK: Duration = Duration::from_secs(1);

/// How long connections get to end once the command does.
const LAST_ENDS: Duration = Duration::from_secs(1);

/// Options for connections of which not all are under one controller.
#[derive(Debug, Args)]
#[command(next_help_heading = "Experiment")]
pub(crate) struct ExperimentOptions {
    /// Put this share of the connections under the controller, and leave the others plain
    #[arg(long, value_name = "SHARE", value_parser = cellpace_base::parse_fraction)]
    pub(crate) share_of: Option<f64>,
    /// Compare arms on live traffic as this file says
    #[arg(long, value_name = "FILE.toml", requires = "experiment_log", conflicts_with_all = ["cc", "share_of", "mdi_samples"])]
    experiment: Option<PathBuf>,
    /// Append a line of JSON for each connection of the experiment; the guard's state is beside it
    #[arg(long, value_name = "FILE.jsonl", requires = "experiment")]
    experiment_log: Option<PathBuf>,
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
    meter: SlotMeter,
}

/// Counts the processor time of each slot.
struct SlotMeter {
    slot: u64,
    /// The processor time when the slot began; none of the first, which had begun before.
    begun: Option<Duration>,
}

impl SlotMeter {
    /// Returns the slot that has ended and its time, if one has since the last call.
    fn turn(&mut self, slot: u64, processor: Duration) -> Option<(u64, Duration)> {
        if slot == self.slot {
            return None;
        }
        // After a pause it is the time of several slots.
        let is_next = self.slot.checked_add(1) == Some(slot);
        let before = std::mem::replace(self, Self { slot, begun: Some(processor) });
        let begun = before.begun.filter(|_| is_next)?;
        Some((before.slot, processor.saturating_sub(begun)))
    }
}

/// What this process has taken of processors, user and system.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl ExperimentOptions {
    /// Refuses files that two options write, and those that would replace what is read; `config` is, too.
    pub(crate) fn check_files(
        &self,
        outputs: &ConnectionOutputs,
        config: Option<&Path>,
    ) -> Result<(), CommandError> {
        let guard = self.experiment_log.as_deref().map(guard_file);
        let written = [
            ("--experiment-log", self.experiment_log.as_deref()),
            ("the state of the experiment's guard", guard.as_deref()),
        ];
        let read: Vec<&Path> = self.experiment.as_deref().into_iter().chain(config).collect();
        outputs.check_beside(&written, &read)
    }

    /// How connections are controlled, and which of them.
    pub(crate) fn control(
        &self,
        experiment: Option<&ReadExperiment>,
        flow: &FlowArgs,
        outputs: &ConnectionOutputs,
    ) -> Result<(ControlOptions, Option<Trial>), CommandError> {
        let Some(experiment) = experiment else {
            return Ok((flow.options(outputs)?, self.share_of.map(Trial::ShareOf)));
        };
        let trial = experiment.trial(|cc| flow.options_of_arm(cc, outputs))?;
        let first = trial.controls().next().cloned();
        Ok((first.map_or_else(|| flow.options(outputs), Ok)?, Some(trial)))
    }

    /// Reads the file, if there is one. `controller` reads the controllers that the command can have.
    pub(crate) fn read(
        &self,
        outputs: &ConnectionOutputs,
        controller: impl Fn(&str) -> Result<ControllerSpec, String>,
    ) -> Result<Option<ReadExperiment>, CommandError> {
        let (Some(file), Some(log)) = (&self.experiment, &self.experiment_log) else {
            return Ok(None);
        };
        let wrong = |why: &str| CommandError::usage(format!("{}: {why}", file.display()));
        let text = read_text(&file.to_string_lossy(), "experiment")?;
        let experiment = Experiment::read(&text, |cc| controller(cc).map(drop))
            .map_err(|error| wrong(&error.to_string()))?;
        for arm in &experiment.arms {
            if let Some(tcp) = &arm.tcp {
                let named = TcpCongestionControl::Named(tcp.clone());
                let check = named.check();
                check.map_err(|why| wrong(&format!("arm `{}`: tcp: {why}", arm.name)))?;
            }
        }
        refuse_stdout("--experiment-log", Some(log), "a log with the guard's state beside it")?;
        if has_several_controllers(&experiment) && outputs.name_one_controller() {
            return Err(CommandError::usage(
                "--json, --report and --events name one controller, and the experiment has several: its log \
                 has their figures",
            ));
        }
        let (file, log, ended) = (file.clone(), log.clone(), Arc::default());
        Ok(Some(ReadExperiment { file, log, experiment, ended }))
    }
}

/// Whether connections of several arms are under a controller, and not under the same.
fn has_several_controllers(experiment: &Experiment) -> bool {
    let mut controllers = experiment.arms.iter().filter_map(|arm| arm.cc.as_deref());
    let first = controllers.next();
    controllers.any(|cc| Some(cc) != first)
}

impl ReadExperiment {
    /// Refuses a guard that would never look: only a proxy sees first bytes.
    pub(crate) fn check_without_first_bytes(&self) -> Result<(), CommandError> {
        let unseen = [Figure::FirstByteP50, Figure::FirstByteP95];
        let Some(limit) = self.experiment.guard.iter().find(|limit| unseen.contains(&limit.figure))
        else {
            return Ok(());
        };
        Err(CommandError::usage(format!(
            "{}: guard: {}: only `cellpace proxy` measures it",
            self.file.display(),
            limit.figure.name()
        )))
    }

    /// What arms are drawn for.
    #[cfg(feature = "kernel")]
    pub(crate) fn assign(&self) -> cellpace_experiment::AssignBy {
        self.experiment.assign
    }

    /// The probability of each arm.
    #[cfg(feature = "kernel")]
    pub(crate) fn parts(&self) -> Vec<f64> {
        let Experiment { arms, share, .. } = &self.experiment;
        let all: f64 = arms.iter().map(|arm| arm.weight).sum();
        arms.iter().map(|arm| share * arm.weight / all).collect()
    }

    /// What connections get; `options` says how those of an arm with this controller are controlled.
    pub(crate) fn trial(
        &self,
        options: impl Fn(&str) -> Result<ControlOptions, CommandError>,
    ) -> Result<Trial, CommandError> {
        let treatment = |arm: &Arm| match &arm.cc {
            Some(cc) => {
                let controlled = options(cc).map(Box::new).map(Treatment::Controlled);
                controlled.map_err(|error| error.before(&format!("arm `{}`: ", arm.name)))
            }
            None => Ok(Treatment::Plain(arm.tcp.clone())),
        };
        Ok(Trial::Experiment {
            assigner: Arc::new(Assigner::new(self.experiment.clone())),
            arms: self.experiment.arms.iter().map(treatment).collect::<Result<_, _>>()?,
            ended: self.ended.clone(),
        })
    }

    /// Opens the log, and goes on where an earlier run of the experiment stopped.
    pub(crate) fn open(self, verbosity: Verbosity) -> Result<Arc<OpenExperiment>, CommandError> {
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
                 it another name and another log, or remove {}, to begin anew",
                file.display(),
                in_words(look),
                guard_file.display()
            ));
        } else if !guard.has_limits() {
            verbosity.note("warning: the experiment has no [guard] that would end it");
        }
        let assigner = Assigner::new(experiment.clone());
        let meter = SlotMeter { slot: assigner.slot(since_1970()), begun: None };
        let state = Mutex::new(State { guard, recorded: BTreeMap::new(), meter });
        let open = OpenExperiment { experiment, assigner, ended, lines, guard_file, state };
        let open = Arc::new(open);
        open.guard().map_err(CommandError::failed)?;
        Ok(open)
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

    /// Judges at the end of each slot, on a thread of its own.
    fn guard(self: &Arc<Self>) -> io::Result<()> {
        let guarded = Arc::downgrade(self);
        let watch = move || {
            while let Some(experiment) = guarded.upgrade() {
                experiment.look();
                let next_slot = experiment.assigner.until_next_slot(since_1970());
                drop(experiment);
                thread::sleep(next_slot.min(LOOK));
            }
        };
        thread::Builder::new().name("cellpace-guard".to_owned()).spawn(watch).map(drop)
    }

    /// What records connections that this process does not relay.
    pub(crate) fn recorder(self: &Arc<Self>) -> Result<Arc<Recorder>, CommandError> {
        let (assigner, recorded) = (Arc::new(self.assigner.clone()), self.clone());
        let recorder = Recorder::start(assigner, move |record| recorded.record(record));
        let failed = |error| CommandError::failed(format!("--experiment: sock_diag: {error}"));
        recorder.map(Arc::new).map_err(failed)
    }

    /// Completes what is written, with the connections that a recorder has.
    pub(crate) fn finish_with(&self, recorder: Option<&Recorder>) -> Result<(), CommandError> {
        if let Some(recorder) = recorder {
            recorder.finish(LAST_ENDS);
        }
        self.finish()
    }

    fn look(&self) {
        let now = since_1970();
        let slot = self.assigner.slot(now);
        let mut state = self.lock();
        if let Some((slot, took)) = state.meter.turn(slot, processor_time()) {
            self.put_slot(slot, took);
        }
        let looks = state.guard.look(now.as_secs_f64().round(), slot);
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

    /// Writes what a slot took, if it had an arm.
    fn put_slot(&self, slot: u64, took: Duration) {
        let Some(arm) = self.assigner.arm_of_slot(slot) else { return };
        if !self.ended.load(Ordering::Relaxed) {
            let (arm, processor_s) = (self.experiment.arms[arm].name.clone(), took.as_secs_f64());
            self.put(ExperimentEntry::Slot(SlotRecord { slot, arm, processor_s }));
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

    /// The figures for Prometheus of a command that has no others of its own.
    pub(crate) fn more_metrics(self: &Arc<Self>) -> MoreMetrics {
        let counted = self.clone();
        Box::new(move || counted.families().into())
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
