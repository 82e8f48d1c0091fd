//! Markov tables learnt from controllers.

use std::fmt::Display;
use std::path::Path;

use cellpace_base::parse_span;
use cellpace_cc::MAX_FILE_BYTES;
use cellpace_lab::{
    FieldError, LabError, LoggedRun, ModelPictures, StatesChoice, Training, WorkSink, check_name,
    learn, trace_files, trace_source,
};
use cellpace_mdi::{
    About, Counts, Empty, Flat, LoggedFlows, Model, OutOfRange, Sample, Table, TableShape,
    TransitionCount, TransitionMatrix,
};
use cellpace_report::write_atomically;
use cellpace_sim::Scenario;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::json;

use crate::compare::{ControllerWish, TraceWish, named_traces, read_path};
use crate::error::{CellpaceError, Failure, refused, without_python};
use crate::own::Raised;
use crate::runs::interrupted;
use crate::table::{ArrowTable, floats, integers};

/// What one call of `watch` asks for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Watching {
    cc: ControllerWish,
    trace: Vec<String>,
    users: Vec<u32>,
    /// `rtt`, `queue` and `loss` as JSON.
    path: String,
    duration: Option<String>,
    seed: u64,
    jobs: Option<u16>,
}

/// What was logged of a controller.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct Watched {
    about: About,
    logged: Vec<LoggedFlows>,
}

/// Refuses states that do not read, before anything is watched for them.
#[pyfunction]
pub(crate) fn check_states(text: &str) -> PyResult<()> {
    FieldError::of("states", text.parse::<StatesChoice>()).map(drop).map_err(refused)
}

/// Watches a controller.
#[pyfunction]
pub(crate) fn watch(py: Python<'_>, wish: Watching) -> PyResult<Watched> {
    let path = read_path(&wish.path)?;
    without_python(py, move || {
        let mut files = trace_files();
        let (name, raised) = (wish.cc.name().trim().to_owned(), Raised::default());
        FieldError::of("cc", check_name(&name))?;
        let teacher = wish.cc.spec(&raised)?;
        let duration = wish.duration.as_deref().map(parse_span).transpose();
        let traces: Vec<TraceWish> = wish.trace.iter().cloned().map(TraceWish::Text).collect();
        let training = Training {
            teacher,
            traces: named_traces(&traces, &mut files)?,
            users: wish.users,
            duration: FieldError::of("duration", duration)?,
            path: Scenario { seed: wish.seed, ..path.conditions(&mut files)? },
        };
        // As the program describes it, so that the same training makes the same file.
        let [rtt, queue, loss] = ["rtt", "queue", "loss"].map(|field| path.text(field));
        let mut scenario = format!("--rtt {rtt} --queue {queue} --loss {loss} --acks every");
        if let Some(duration) = training.duration {
            scenario += &format!(" --duration {duration}");
        }
        let sources = wish.trace.iter().zip(&training.traces);
        let sources = sources.map(|(text, trace)| trace_source(text, Some(&trace.spec)));
        let mut traces = sources.collect::<Result<Vec<_>, LabError>>()?;
        traces.sort();
        traces.dedup();
        let about = About { teacher: name, traces, scenario, seed: wish.seed, ..About::default() };
        let mut signals = TrainingInterrupt::default();
        let logged = training.watch(wish.jobs, &mut signals);
        if let Some(error) = raised.take() {
            return Err(error.into());
        }
        let logged = logged?;
        let stopped = || PyKeyboardInterrupt::new_err("interrupted; nothing is saved");
        let logged = logged.ok_or_else(|| signals.0.take().unwrap_or_else(stopped))?;
        Ok(Watched { about, logged })
    })
}

impl Watched {
    /// What was logged with these numbers of users; `None`: with all.
    fn of_users(&self, users: Option<&[u32]>) -> Result<Vec<LoggedFlows>, Failure> {
        let is_wanted = |flows: &&LoggedFlows| users.is_none_or(|all| all.contains(&flows.users));
        let is_there = |users: &u32| self.logged.iter().any(|flows| flows.users == *users);
        match users.into_iter().flatten().find(|users| !is_there(users)) {
            Some(missing) => {
                Err(Failure::Refused(format!("users: {missing} users were not watched")))
            }
            None => Ok(self.logged.iter().filter(is_wanted).cloned().collect()),
        }
    }
}

#[pymethods]
impl Watched {
    /// Writes the table that follows from it to a file and returns what was learnt as JSON.
    fn learn(
        &self,
        py: Python<'_>,
        output: String,
        states: String,
        users: Option<Vec<u32>>,
    ) -> PyResult<String> {
        without_python(py, move || {
            let states: StatesChoice = FieldError::of("states", states.parse())?;
            let mut about = self.about.clone();
            if let Some(rejoin) = states.rejoin() {
                about.scenario += &format!(" --rejoin {rejoin}");
            }
            let lesson = learn(about, &self.of_users(users.as_deref())?, &states)?;
            let bytes = lesson.model.to_bytes();
            let written = write_atomically(Path::new(&output), &bytes);
            written.map_err(|error| CellpaceError::new_err(error.to_string()))?;
            let counted = lesson.model.combined();
            Ok::<_, Failure>(
                json!({
                    "file": output,
                    "bytes": bytes.len(),
                    "teacher": lesson.model.about.teacher,
                    "samples": lesson.model.samples(),
                    "states": lesson.model.states.len(),
                    "transitions": counted.total(),
                    "transitions_seen": lesson.transitions,
                    "cells": counted.cells().len(),
                })
                .to_string(),
            )
        })
    }

    /// The samples: a row for each epoch of each flow.
    fn samples(&self, users: Option<Vec<u32>>) -> PyResult<ArrowTable> {
        let logged = self.of_users(users.as_deref())?;
        let rows = || {
            let of = |flows: &LoggedFlows| {
                let users = flows.users;
                let samples: Vec<Sample> = flows.chains.iter().flatten().copied().collect();
                samples.into_iter().map(move |sample| (users, sample))
            };
            logged.iter().flat_map(of)
        };
        ArrowTable::new(
            "cellpace.samples/1",
            vec![
                ("users", integers(rows().map(|(users, _)| users.into()))),
                ("delay_ms", floats(rows().map(|(_, one)| f64::from(one.delay_us) / 1000.0))),
                ("window_packets", floats(rows().map(|(_, one)| f64::from(one.window) / 65536.0))),
            ],
        )
    }
}

/// A Markov table as it is in its file.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct MarkovTable {
    model: Model,
    counts: Counts,
}

#[pymethods]
impl MarkovTable {
    #[staticmethod]
    fn load(py: Python<'_>, path: String) -> PyResult<Self> {
        without_python(py, move || {
            let refused = |why: &dyn Display| Failure::Refused(why.to_string());
            let bytes = trace_files().bytes(&path, MAX_FILE_BYTES);
            let bytes = bytes.map_err(|error| refused(&error))?;
            let wrong = |why: &dyn Display| refused(&format_args!("{path}: {why}"));
            let model = match Path::new(&path).extension().is_some_and(|ending| ending == "csv") {
                true => Model::from_matrix_csv(&bytes).map_err(|error| wrong(&error))?,
                false => Model::from_bytes(&bytes).map_err(|error| wrong(&error))?,
            };
            let counts = model.combined();
            Ok(Self { model, counts })
        })
    }

    /// Writes it to a file.
    fn save(&self, output: String) -> PyResult<()> {
        let written = write_atomically(Path::new(&output), &self.model.to_bytes());
        written.map_err(|error| CellpaceError::new_err(error.to_string()))
    }

    /// The delays that it distinguishes, in the measure of its states.
    fn delays(&self) -> Vec<f64> {
        let states = self.model.states;
        (0..states.delays()).map(|delay| states.delay_value(delay)).collect()
    }

    /// The windows that it distinguishes.
    fn windows(&self) -> Vec<f64> {
        let states = self.model.states;
        (0..states.windows()).map(|window| states.window_value(window)).collect()
    }

    /// The transitions that were seen, by the places of delays and windows.
    fn cells(&self) -> PyResult<ArrowTable> {
        let (states, cells) = (self.model.states, self.counts.cells());
        let column = |value: &dyn Fn(&TransitionCount) -> u64| integers(cells.iter().map(value));
        ArrowTable::new(
            "cellpace.transitions/1",
            vec![
                ("from_delay", column(&|cell| states.delay_of(cell.from).into())),
                ("from_window", column(&|cell| states.window_of(cell.from).into())),
                ("to_delay", column(&|cell| states.delay_of(cell.to).into())),
                ("to_window", column(&|cell| states.window_of(cell.to).into())),
                ("count", column(&|cell| cell.count)),
            ],
        )
    }

    /// Bytes of the form in which the kernel and other runtimes have it in memory.
    #[getter]
    fn memory_bytes(&self) -> usize {
        let flat = Flat {
            table: Table::new(self.model.states, &self.counts, TableShape::default()),
            epoch_us: self.model.about.epoch_us,
            empty: Empty::default(),
            out_of_range: OutOfRange::default(),
            loss_factor: 0,
        };
        flat.to_bytes().len()
    }

    /// Its matrix as a picture, whole and enlarged, as JSON.
    fn pictures(&self) -> String {
        let states = self.model.states;
        let matrix = TransitionMatrix::new(&states, &self.counts);
        let pictures = ModelPictures { name: &self.model.about.teacher, states, matrix: &matrix };
        json!(pictures.overview_and_zoom(None).map(|map| map.thinned())).to_string()
    }
}

/// Stops the watching on Ctrl-C.
#[derive(Default)]
struct TrainingInterrupt(Option<PyErr>);

impl WorkSink<LoggedRun> for TrainingInterrupt {
    fn on_progress(&mut self, _share: f64) {
        if self.0.is_none() {
            self.0 = interrupted();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_some()
    }
}
