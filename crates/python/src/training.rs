//! Markov tables learnt from controllers.

use std::path::Path;

use cellpace_base::parse_span;
use cellpace_lab::{
    FieldError, LabError, LoggedRun, StatesChoice, Training, WorkSink, check_name, learn,
    trace_files, trace_source,
};
use cellpace_mdi::About;
use cellpace_report::write_atomically;
use cellpace_sim::Scenario;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::json;

use crate::compare::{ControllerWish, TraceWish, named_traces, read_path};
use crate::error::{CellpaceError, Failure, without_python};
use crate::own::Raised;
use crate::runs::interrupted;

/// What one call of `train` asks for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Teaching {
    cc: String,
    trace: Vec<String>,
    users: Vec<u32>,
    states: String,
    /// `rtt`, `queue` and `loss` as JSON.
    path: String,
    duration: Option<String>,
    seed: u64,
    output: String,
    jobs: Option<u16>,
}

/// Watches a controller, writes its table to a file and returns what was learnt as JSON.
#[pyfunction]
pub(crate) fn train(py: Python<'_>, wish: Teaching) -> PyResult<String> {
    let path = read_path(&wish.path)?;
    without_python(py, move || {
        let mut files = trace_files();
        FieldError::of("cc", check_name(wish.cc.trim()))?;
        let teacher = ControllerWish::Text(wish.cc.clone()).spec(&Raised::default())?;
        let states: StatesChoice = FieldError::of("states", wish.states.parse())?;
        let duration = wish.duration.as_deref().map(parse_span).transpose();
        let traces: Vec<TraceWish> = wish.trace.iter().cloned().map(TraceWish::Text).collect();
        let training = Training {
            teacher,
            traces: named_traces(&traces, &mut files)?,
            users: wish.users.clone(),
            duration: FieldError::of("duration", duration)?,
            path: Scenario { seed: wish.seed, ..path.conditions(&mut files)? },
        };
        // As the program describes it, so that the same training makes the same file.
        let [rtt, queue, loss] = ["rtt", "queue", "loss"].map(|field| path.text(field));
        let mut scenario = format!("--rtt {rtt} --queue {queue} --loss {loss} --acks every");
        if let Some(duration) = training.duration {
            scenario += &format!(" --duration {duration}");
        }
        if let Some(rejoin) = states.rejoin() {
            scenario += &format!(" --rejoin {rejoin}");
        }
        let sources = wish.trace.iter().zip(&training.traces);
        let sources = sources.map(|(text, trace)| trace_source(text, Some(&trace.spec)));
        let mut traces = sources.collect::<Result<Vec<_>, LabError>>()?;
        traces.sort();
        traces.dedup();
        let teacher = wish.cc.trim().to_owned();
        let about = About { teacher, traces, scenario, seed: wish.seed, ..About::default() };
        let mut signals = TrainingInterrupt::default();
        let logged = training.watch(wish.jobs, &mut signals)?;
        let Some(logged) = logged else {
            let stopped = || PyKeyboardInterrupt::new_err("interrupted; nothing is saved");
            return Err(signals.0.unwrap_or_else(stopped).into());
        };
        let lesson = learn(about, &logged, &states)?;
        let bytes = lesson.model.to_bytes();
        let written = write_atomically(Path::new(&wish.output), &bytes);
        written.map_err(|error| CellpaceError::new_err(error.to_string()))?;
        let counted = lesson.model.combined();
        Ok::<_, Failure>(
            json!({
                "file": wish.output,
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
