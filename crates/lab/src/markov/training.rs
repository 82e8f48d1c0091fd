//! Learning a Markov table of a controller by watching it in virtual time.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::Span;
use cellpace_cc::ControllerSpec;
use cellpace_cc::{Controller, Setup};
use cellpace_mdi::{
    About, Chain, Counts, LoggedFlows, MAX_SAMPLES, MAX_USERS, Model, ModelPart, States, TraceName,
};
use cellpace_path::{SendJitterSpec, TraceSpec};
use cellpace_sim::{FlowSpec, Observer, Scenario};
use sha2::{Digest, Sha256};

use super::epoch_log::EpochLog;
use super::states_choice::StatesChoice;
use crate::{
    LabError, NamedTrace, WorkClock, WorkSink, open_file, run_all, shown_name, simulate, threads,
};

/// A controller that is watched: one run for each trace and number of users.
///
/// ```
/// use cellpace_base::Span;
/// use cellpace_lab::{Scenario, Training, learn, read_controller};
/// use cellpace_mdi::About;
///
/// let training = Training {
///     teacher: read_controller("verus:r=2")?.into(),
///     traces: vec!["lte-driving".parse()?],
///     users: vec![1, 2],
///     duration: Some(Span::from_secs(5)),
///     path: Scenario::default(),
/// };
/// let logged = training.watch(None, &mut ())?.expect("nothing cancels it");
/// let about = About { teacher: "verus:r=2".to_owned(), ..About::default() };
/// let lesson = learn(about, &logged, &"levels".parse()?)?;
/// assert_eq!(lesson.model.parts.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Training {
    /// The controller, one of the registry or your own.
    pub teacher: ControllerSpec,
    /// What it is watched on.
    pub traces: Vec<NamedTrace>,
    /// How many flows of it share the link, all from the start on, as in section 6.1 of the paper.
    pub users: Vec<u32>,
    /// Length of a run; `None`: [`TraceSpec::default_duration`](cellpace_path::TraceSpec::default_duration).
    pub duration: Option<Span>,
    /// Everything else about the path. Its trace, flows and duration are not used.
    pub path: Scenario,
}

/// What was logged of the flows of a run.
pub type LoggedRun = Result<Vec<Chain>, LabError>;

impl Training {
    /// Returns how many runs there are.
    pub fn runs(&self) -> usize {
        self.traces.len() * self.users.len()
    }

    /// Watches the teacher, `jobs` runs at a time (`None`: one per core), and returns what was
    /// logged, by the number of users; `None` if the sink was cancelled.
    ///
    /// Each run depends on nothing but its own scenario, so the samples and their order are the
    /// same whatever the number of jobs.
    ///
    /// # Errors
    /// When the training contradicts itself or is larger than memory, or a run fails.
    pub fn watch(
        &self,
        jobs: Option<u16>,
        sink: &mut dyn WorkSink<LoggedRun>,
    ) -> Result<Option<Vec<LoggedFlows>>, LabError> {
        let plan = self.plan()?;
        let total = plan.iter().map(|run| run.scenario.duration.as_nanos()).sum();
        let work = |index: usize, clock: &WorkClock| plan[index].watch(clock);
        let results = run_all(plan.len(), threads(jobs), Span::from_nanos(total), work, sink)?;
        let missing = results.iter().filter(|run| run.is_none()).count();
        // A run that is missing without that ended in a panic, which is an error.
        if missing > 0 && sink.is_cancelled() {
            return Ok(None);
        }
        if missing > 0 {
            let all = results.len();
            return Err(LabError::Failed(format!("{missing} of {all} runs ended in the middle")));
        }
        let mut logged: Vec<LoggedFlows> = Vec::new();
        for (run, chains) in plan.iter().zip(results.into_iter().flatten()) {
            let users = run.users();
            match logged.iter_mut().find(|flows| flows.users == users) {
                Some(flows) => flows.chains.extend(chains?),
                None => logged.push(LoggedFlows { users, chains: chains? }),
            }
        }
        // Tables have their parts in ascending order of users.
        logged.sort_by_key(|flows| flows.users);
        Ok(Some(logged))
    }

    fn plan(&self) -> Result<Vec<WatchedRun>, LabError> {
        if let Some(users) = self.users.iter().find(|users| !(1..=MAX_USERS).contains(*users)) {
            return Err(LabError::Invalid(format!("{users} users; allowed: 1 to {MAX_USERS}")));
        }
        let mut plan = Vec::new();
        for trace in &self.traces {
            for users in &self.users {
                let scenario = Scenario {
                    flows: vec![FlowSpec::bulk(self.teacher.clone()); *users as usize],
                    duration: self.duration.unwrap_or_else(|| trace.spec.default_duration()),
                    // Figures are not used either, so there is nothing to leave out.
                    skip: Span::ZERO,
                    // Jitter of senders is no decision of theirs: a table learns it as one, and its
                    // walk of two users then waits 1.7 times as long as they do.
                    send_jitter: SendJitterSpec::NONE,
                    // The series are not used.
                    bin: Span::from_secs(1),
                    ..self.path.clone()
                }
                .with_link(|link| link.down.trace = Some(trace.spec.clone()));
                scenario.check().and_then(|()| scenario.check_delivers())?;
                plan.push(WatchedRun { trace: trace.name.clone(), scenario });
            }
        }
        // A sample takes 12 bytes, and 8 more while transitions are counted.
        let samples = plan.iter().map(WatchedRun::samples).fold(0, u64::saturating_add);
        if samples > MAX_SAMPLES {
            return Err(LabError::Invalid(format!(
                "{samples} samples are more than the {MAX_SAMPLES} that are held in memory; train \
                 in parts and merge them"
            )));
        }
        Ok(plan)
    }
}

/// One run of a training.
struct WatchedRun {
    trace: String,
    scenario: Scenario,
}

impl WatchedRun {
    fn users(&self) -> u32 {
        self.scenario.flows.len() as u32
    }

    /// Epochs that are logged at most.
    fn samples(&self) -> u64 {
        let epochs = self.scenario.duration.as_nanos() / EpochLog::EPOCH.as_nanos();
        epochs.saturating_mul(self.users().into())
    }

    /// `None`: stopped by the clock.
    fn watch(&self, clock: &WorkClock) -> Option<LoggedRun> {
        let mut logger = Logger::default();
        let outcome = simulate(&self.scenario, &mut logger, clock).map_err(|error| {
            LabError::Failed(format!("{}, {} users: {error}", self.trace, self.users()))
        });
        let outcome = outcome.transpose()?;
        let mut chains = logger.chains.lock().unwrap_or_else(PoisonError::into_inner);
        Some(outcome.map(|_| std::mem::take(&mut *chains)))
    }
}

/// Puts a log around every controller.
#[derive(Default)]
struct Logger {
    chains: Arc<Mutex<Vec<Chain>>>,
}

impl Observer for Logger {
    fn on_connect(
        &mut self,
        _flow: u32,
        controller: Box<dyn Controller>,
        setup: &Setup,
    ) -> Box<dyn Controller> {
        Box::new(EpochLog::new(controller, setup, Arc::clone(&self.chains)))
    }
}

/// A model, and how much of the samples it took in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// The model.
    pub model: Model,
    /// Transitions that there were, also those that lie outside of the model's ranges.
    pub transitions: u64,
}

/// Counts the transitions of logged flows, each number of users once and in ascending order.
/// `about.epoch_us` is set.
///
/// # Errors
/// When there are no samples to choose states for.
pub fn learn(
    about: About,
    logged: &[LoggedFlows],
    choice: &StatesChoice,
) -> Result<Lesson, LabError> {
    let chains: Vec<&Chain> = logged.iter().flat_map(|flows| &flows.chains).collect();
    let states = choice.choose(&chains)?;
    // An epoch that has begun counts as a whole one.
    let rejoin = choice.rejoin().map(|pause| pause.as_nanos().div_ceil(EpochLog::EPOCH.as_nanos()));
    let rejoin = rejoin.map(|epochs| usize::try_from(epochs).unwrap_or(usize::MAX));
    let part = |flows: &LoggedFlows| ModelPart {
        users: flows.users,
        samples: flows.chains.iter().map(|chain| chain.len() as u64).sum(),
        counts: Counts::of(&states, &flows.chains, rejoin),
    };
    // The first epoch of relative states only gives the old values.
    let first = if matches!(states, States::Relative(_)) { 2 } else { 1 };
    let transitions = chains.iter().map(|chain| chain.len().saturating_sub(first) as u64).sum();
    let epoch_us = (EpochLog::EPOCH.as_nanos() / 1000) as u32;
    let about = About { epoch_us, ..about };
    let model = Model { about, states, parts: logged.iter().map(part).collect() };
    Ok(Lesson { model, transitions })
}

/// Refuses names of teachers and traces that the file of a table cannot have in it.
///
/// # Errors
/// When the name is empty, has more than 200 bytes or a control character in it.
pub fn check_name(name: &str) -> Result<(), LabError> {
    const MAX_NAME: usize = 200;
    match name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
        true => Err(LabError::Invalid(format!(
            "{name:?}: a name has 1 to {MAX_NAME} characters, and no control character"
        ))),
        false => Ok(()),
    }
}

/// Returns what a table's file says of a trace or another file that something was learnt from: its
/// name without the folder, and its SHA-256; zeros if `spec` is one that is generated.
///
/// # Errors
/// When the file cannot be read, or its name cannot be kept.
pub fn trace_source(text: &str, spec: Option<&TraceSpec>) -> Result<TraceName, LabError> {
    let name = shown_name(text.trim());
    if name == "-" {
        let problem = "standard input has no name that a table could keep; give a file";
        return Err(LabError::Invalid(problem.to_owned()));
    }
    check_name(&name)?;
    let mut sha256 = [0; 32];
    // Of generated traces the text says all; of files only their contents do.
    if spec.is_none_or(|spec| spec.trace().is_some()) {
        let unreadable = |error| LabError::Invalid(format!("{text}: {error}"));
        let mut file = open_file(text.trim()).map_err(unreadable)?;
        // In pieces: a recording may be larger than the memory that is left.
        let (mut hash, mut piece) = (Sha256::new(), [0; 1 << 14]);
        loop {
            match file.read(&mut piece).map_err(unreadable)? {
                0 => break,
                count => hash.update(&piece[..count]),
            }
        }
        sha256 = hash.finalize().into();
    }
    Ok(TraceName { name, sha256 })
}
