//! Environments to learn policies in. Arrays of Python are filled where they are.

use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::parse_span;
use cellpace_cc::policy::PolicyModel;
use cellpace_lab::{FieldError, Scenario, read_controller, threads, trace_files};
use cellpace_learn::{
    ActionSpace, Autoreset, Convention, EnvironmentSpec, Lane, Observation, RttRange, StepOutcome,
    StepRules, VectorEnvironment,
};
use cellpace_sim::FlowSpec;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::compare::{TraceWish, named_traces, read_path};
use crate::error::{Failure, refused, without_python};

/// What a step gave, one array for each: reward, whether the episode is over, and what only the
/// link knows or observations and rewards of one's own take.
const FIGURES: usize = 16;

/// What one environment, or many of the same kind, are made of. Quantities are in their written
/// forms.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Learning {
    trace: Vec<TraceWish>,
    /// The fields of [`cellpace_lab::PathText`] as JSON.
    path: String,
    /// RTTs of which one is drawn for each episode.
    rtts: Option<(String, String)>,
    duration: String,
    /// Controllers of the flows that compete.
    competing: Vec<String>,
    random_start: bool,
    learners: usize,
    step: String,
    decision_delay: String,
    observation: String,
    history: Option<usize>,
    action: String,
    reward: String,
    count: usize,
    jobs: Option<u16>,
    same_step: bool,
}

impl Learning {
    fn rules(&self) -> Result<StepRules, FieldError> {
        let observation = convention("observation", &self.observation)?;
        let default_history = Observation::default_history(observation);
        Ok(StepRules {
            step: FieldError::of("step", self.step.parse())?,
            decision_delay: FieldError::of("decision_delay", parse_span(&self.decision_delay))?,
            observation,
            history: self.history.unwrap_or(default_history),
            action: match self.direct() {
                true => Convention::Default,
                false => convention("action", &self.action).map_err(or_direct)?,
            },
        })
    }

    fn direct(&self) -> bool {
        self.action == "direct"
    }

    fn spec(&self, path: &cellpace_lab::PathText) -> Result<EnvironmentSpec, FieldError> {
        let mut files = trace_files();
        let from = path.start()?;
        let traces = named_traces(&self.trace, &mut files)?;
        let competing = self.competing.iter().map(|cc| read_controller(cc).map(FlowSpec::bulk));
        let rtt = match &self.rtts {
            Some((low, high)) => Some(RttRange {
                low: FieldError::of("rtt", parse_span(low))?,
                high: FieldError::of("rtt", parse_span(high))?,
            }),
            None => None,
        };
        Ok(EnvironmentSpec {
            scenario: Scenario {
                duration: FieldError::of("duration", parse_span(&self.duration))?,
                flows: FieldError::of("competing", competing.collect::<Result<_, _>>())?,
                ..path.conditions(&mut files)?
            },
            traces: traces.into_iter().map(|trace| trace.starting_at(from).spec).collect(),
            rtt,
            random_start: self.random_start,
            learners: self.learners,
            rules: self.rules()?,
            direct: self.direct(),
            reward: convention("reward", &self.reward)?,
        })
    }
}

fn or_direct(error: FieldError) -> FieldError {
    FieldError { why: format!("{}, direct", error.why), ..error }
}

fn convention(field: &'static str, name: &str) -> Result<Convention, FieldError> {
    FieldError::of(field, name.parse())
}

/// Environments that are stepped together.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct Environments {
    all: Mutex<VectorEnvironment>,
    rules: StepRules,
}

#[pymethods]
impl Environments {
    #[new]
    fn new(py: Python<'_>, wish: Learning) -> PyResult<Self> {
        let path = read_path(&wish.path)?;
        without_python(py, move || {
            let spec = Arc::new(wish.spec(&path)?);
            let autoreset = match wish.same_step {
                true => Autoreset::SameStep,
                false => Autoreset::NextStep,
            };
            let all = VectorEnvironment::new(&spec, wish.count, threads(wish.jobs), autoreset);
            let all = all.map_err(|error| Failure::Refused(error.to_string()))?;
            Ok(Self { all: Mutex::new(all), rules: spec.rules })
        })
    }

    /// The bounds of each number of an observation.
    fn bounds(&self) -> Vec<(f32, f32)> {
        Observation::new(self.rules.observation, self.rules.history).bounds()
    }

    /// Steps that an observation has.
    fn history(&self) -> usize {
        self.rules.history
    }

    /// The largest absolute value of an action, or how many choices there are.
    fn actions(&self) -> (Option<f64>, Option<usize>) {
        match ActionSpace::of(self.rules.action) {
            ActionSpace::Continuous { limit } => (Some(limit), None),
            ActionSpace::Discrete { choices } => (None, Some(choices)),
        }
    }

    /// Begins episodes, and writes their first observations.
    fn reset(
        &self,
        py: Python<'_>,
        seeds: Vec<Option<u64>>,
        observations: PyBuffer<f32>,
        figures: PyBuffer<f64>,
    ) -> PyResult<()> {
        let seen = self.done(py, |all| all.reset(&seeds))?;
        seen.write(py, &observations, &figures)
    }

    /// Does a step, and writes what it gave.
    fn step(
        &self,
        py: Python<'_>,
        actions: PyBuffer<f64>,
        observations: PyBuffer<f32>,
        figures: PyBuffer<f64>,
    ) -> PyResult<()> {
        let actions = actions.to_vec(py)?;
        let seen = self.done(py, |all| all.step(&actions))?;
        seen.write(py, &observations, &figures)
    }

    /// The last observations of the episodes that the last step has ended.
    fn last_observations(&self, py: Python<'_>, observations: PyBuffer<f32>) -> PyResult<()> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<f32> = all.lanes().flat_map(|lane| &lane.last_observation).copied().collect();
        observations.copy_from_slice(py, &last)
    }
}

impl Environments {
    fn done(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut VectorEnvironment) -> Result<(), cellpace_sim::SimError> + Send,
    ) -> PyResult<VectorOutputs> {
        without_python(py, || {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut all).map_err(|error| Failure::Refused(error.to_string()))?;
            Ok(VectorOutputs::of(&all))
        })
    }
}

/// What all environments gave.
struct VectorOutputs {
    observations: Vec<f32>,
    /// One learner after the other for each figure.
    figures: Vec<f64>,
}

impl VectorOutputs {
    fn of(all: &VectorEnvironment) -> Self {
        let observations = all.lanes().flat_map(|lane| &lane.observation).copied().collect();
        let rows: Vec<[f64; FIGURES]> = all.lanes().flat_map(figures_of).collect();
        let figures =
            (0..FIGURES).flat_map(|figure| rows.iter().map(move |row| row[figure])).collect();
        Self { observations, figures }
    }

    /// Sizes that differ are an error of the buffer.
    fn write(
        &self,
        py: Python<'_>,
        observations: &PyBuffer<f32>,
        figures: &PyBuffer<f64>,
    ) -> PyResult<()> {
        observations.copy_from_slice(py, &self.observations)?;
        figures.copy_from_slice(py, &self.figures)
    }
}

fn figures_of(lane: &Lane) -> impl Iterator<Item = [f64; FIGURES]> {
    let truncated = f64::from(u8::from(lane.truncated));
    lane.outcomes.iter().map(move |StepOutcome { reward, record, truth }| {
        let mss = record.mss.max(1) as f64;
        [
            *reward,
            truncated,
            truth.capacity * 8e-6,
            truth.queue_delay * 1e3,
            truth.queue_delay_max * 1e3,
            record.throughput() * 8e-6,
            record.mean_rtt() * 1e3,
            record.loss_ratio(),
            record.send_rate() * 8e-6,
            record.rtt_min * 1e3,
            record.rtt_max * 1e3,
            record.srtt * 1e3,
            record.min_rtt * 1e3,
            record.window as f64 / mss,
            record.in_flight as f64 / mss,
            record.rate * 8e-6,
        ]
    })
}

/// Refuses a policy that cannot be run.
#[pyfunction]
pub(crate) fn check_policy(text: &str) -> PyResult<()> {
    PolicyModel::from_bytes(text.as_bytes()).map(|_| ()).map_err(refused)
}
