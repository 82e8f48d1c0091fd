//! Controllers over traces and seeds, and scenarios.

use std::collections::HashSet;

use cellpace_base::parse_span;
use cellpace_cc::{ControllerSpec, find_controller};
use cellpace_lab::{
    Batch, Experiment, FieldError, NamedTrace, PathText, Scenario, read_controller, shown_name,
    trace_files,
};
use cellpace_path::TraceSpec;
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{TransferSpec, VideoSpec};
use pyo3::prelude::*;

use crate::error::{Failure, refused, without_python};
use crate::own::{Raised, own_controller};
use crate::results::Results;
use crate::runs::{HowToRun, do_runs};
use crate::trace::Trace;

/// A controller: the registry's by its text, or one in Python by its name and what makes it.
#[derive(FromPyObject)]
pub(crate) enum ControllerWish {
    Text(String),
    Own(String, Py<PyAny>),
}

impl ControllerWish {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Text(name) | Self::Own(name, _) => name,
        }
    }

    /// # Errors
    /// When the text does not read, or a controller in Python has a name of the registry.
    pub(crate) fn spec(self, raised: &Raised) -> Result<ControllerSpec, FieldError> {
        match self {
            Self::Text(text) => FieldError::of("cc", read_controller(&text)),
            Self::Own(name, make) => {
                check_own_name(&name)?;
                Ok(own_controller(&name, make, Some(raised)))
            }
        }
    }

    fn is_own(&self) -> bool {
        matches!(self, Self::Own(..))
    }
}

/// # Errors
/// When a controller in Python has a name of the registry.
pub(crate) fn check_own_name(name: &str) -> Result<(), FieldError> {
    if find_controller(name).is_err() {
        return Ok(());
    }
    let why = format!("`{name}` is a built-in controller; give yours another name");
    Err(FieldError { field: "cc", why })
}

/// A trace by its written form, or one that is there.
#[derive(FromPyObject)]
pub(crate) enum TraceWish {
    Text(String),
    Own(Py<Trace>),
}

impl TraceWish {
    fn name(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Own(trace) => trace.get().name.clone(),
        }
    }

    fn spec(&self, files: &mut TraceFiles<'_>) -> Result<TraceSpec, FieldError> {
        match self {
            Self::Text(text) => FieldError::of("trace", TraceSpec::parse(text, files)),
            Self::Own(trace) => Ok(trace.get().spec()),
        }
    }
}

/// Traces under the names that results show.
pub(crate) fn named_traces(
    wishes: &[TraceWish],
    files: &mut TraceFiles<'_>,
) -> Result<Vec<NamedTrace>, FieldError> {
    let names: Vec<String> = wishes.iter().map(TraceWish::name).collect();
    once_each("trace", &names)?;
    let shown = cellpace_lab::shown_names(&names);
    let named =
        |(wish, name): (&TraceWish, String)| Ok(NamedTrace { name, spec: wish.spec(files)? });
    wishes.iter().zip(shown).map(named).collect()
}

/// What is given twice would look like a run with two seeds.
fn once_each(field: &'static str, names: &[String]) -> Result<(), FieldError> {
    let twice = (1..names.len()).find(|index| names[..*index].contains(&names[*index]));
    let why = |index: usize| format!("`{}` is given twice", names[index]);
    twice.map_or(Ok(()), |index| Err(FieldError { field, why: why(index) }))
}

/// What one call of `compare` asks for. Quantities are in their written forms.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Comparing {
    cc: Vec<ControllerWish>,
    trace: Vec<TraceWish>,
    seeds: Vec<u64>,
    flows: u32,
    duration: Option<String>,
    transfer: Option<String>,
    video: Option<String>,
    /// The fields of [`PathText`] as JSON.
    path: String,
    series: bool,
    logs: bool,
    jobs: Option<u16>,
}

/// Reads the conditions of a path.
pub(crate) fn read_path(json: &str) -> PyResult<PathText> {
    serde_json::from_str(json).map_err(refused)
}

/// Compares controllers; each run depends on nothing but its own conditions.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, wish: Comparing) -> PyResult<Results> {
    let how = HowToRun {
        series: wish.series,
        jobs: wish.jobs,
        own: own_names(&wish.cc),
        raised: Raised::default(),
        logs: wish.logs,
    };
    let (raised, path) = (how.raised.clone(), read_path(&wish.path)?);
    let runs = without_python(py, move || Ok(experiment(wish, &path, &raised)?.plan()?))?;
    do_runs(py, runs, &how)
}

fn own_names(ccs: &[ControllerWish]) -> HashSet<String> {
    ccs.iter().filter(|cc| cc.is_own()).map(|cc| cc.name().to_owned()).collect()
}

fn experiment(wish: Comparing, path: &PathText, raised: &Raised) -> Result<Experiment, Failure> {
    let mut files = trace_files();
    let names: Vec<String> = wish.cc.iter().map(|cc| cc.name().to_owned()).collect();
    once_each("cc", &names)?;
    let controllers: Result<Vec<_>, _> = wish.cc.into_iter().map(|cc| cc.spec(raised)).collect();
    let (from, conditions) = (path.start()?, path.conditions(&mut files)?);
    let traces = match path.texts("path").first() {
        Some(text) => vec![NamedTrace::of_path(text, &conditions)],
        None => named_traces(&wish.trace, &mut files)?,
    };
    let duration = wish.duration.as_deref().map(parse_span).transpose();
    let transfer = wish.transfer.as_deref().map(|text| TransferSpec::parse(text, &mut files));
    let video = wish.video.as_deref().map(VideoSpec::read);
    if transfer.is_some() && video.is_some() {
        let why = "a flow carries either a transfer or a video";
        return Err(FieldError::new("video", why).into());
    }
    Ok(Experiment {
        controllers: controllers?,
        traces: traces.into_iter().map(|trace| trace.starting_at(from)).collect(),
        seeds: wish.seeds,
        flows: wish.flows,
        transfer: FieldError::of("transfer", transfer.transpose())?,
        video: FieldError::of("video", video.transpose())?,
        duration: FieldError::of("duration", duration)?,
        path: conditions,
        ..Experiment::default()
    })
}

/// What one call of `simulate` asks for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Simulating {
    /// What errors call the scenario.
    name: String,
    /// The scenario as TOML, with a built-in controller where one in Python takes its place.
    text: String,
    /// A trace in place of the scenario's.
    trace: Option<Py<Trace>>,
    /// Flows, counted from 0, whose controllers are written in Python.
    own: Vec<(usize, String, Py<PyAny>)>,
    /// Seeds in place of the scenario's.
    seeds: Option<Vec<u64>>,
    series: bool,
    logs: bool,
    jobs: Option<u16>,
}

/// Simulates one scenario with each seed.
#[pyfunction]
pub(crate) fn simulate(py: Python<'_>, wish: Simulating) -> PyResult<Results> {
    let how = HowToRun {
        series: wish.series,
        jobs: wish.jobs,
        own: wish.own.iter().map(|(_, name, _)| name.clone()).collect(),
        raised: Raised::default(),
        logs: wish.logs,
    };
    let raised = how.raised.clone();
    let runs = without_python(py, move || {
        let mut files = trace_files();
        let scenario = Scenario::from_toml(&wish.name, &wish.text, &mut files);
        let mut scenario = scenario.map_err(|error| Failure::Refused(error.to_string()))?;
        if let Some(trace) = &wish.trace {
            scenario.link.down.trace = Some(trace.get().spec());
        }
        for (flow, name, make) in wish.own {
            let spec = ControllerWish::Own(name, make).spec(&raised)?;
            if let Some(flow) = scenario.flows.get_mut(flow) {
                flow.cc = Some(spec);
            }
        }
        let trace = shown_name(&scenario.trace().to_string());
        let seeds = wish.seeds.unwrap_or_else(|| vec![scenario.seed]);
        Ok(Batch::of_scenario(scenario, &trace, seeds.into_iter())?.runs)
    })?;
    do_runs(py, runs, &how)
}
