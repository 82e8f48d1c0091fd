//! Does runs: those of built-in controllers on all cores without Python, those with controllers in
//! Python one after the other on the thread of the caller.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use cellpace_base::Span;
use cellpace_lab::{Batch, LabError, PlannedRun, RunResult, WorkSink, threads};
use cellpace_report::{Comparison, Run};
use cellpace_sim::{Observer, Simulation};
use pyo3::prelude::*;

use crate::error::{Failure, InternalError, panic_text, refused, without_python};
use crate::logs::RunLog;
use crate::own::Raised;
use crate::results::Results;

/// Virtual time between two looks at signals and exceptions.
const SLICE: Span = Span::from_millis(100);

/// What is done with runs.
pub(crate) struct HowToRun {
    /// Whether to keep figures over time.
    pub(crate) series: bool,
    /// Runs at the same time; `None`: one per core.
    pub(crate) jobs: Option<u16>,
    /// Names of the controllers that are written in Python.
    pub(crate) own: HashSet<String>,
    /// What these raise.
    pub(crate) raised: Raised,
    /// Whether to keep packets and events. The runs then take turns.
    pub(crate) logs: bool,
}

/// Does all runs; results are in their order.
pub(crate) fn do_runs(py: Python<'_>, runs: Vec<PlannedRun>, how: &HowToRun) -> PyResult<Results> {
    if !how.logs {
        return without_logs(py, runs, how).map(|comparison| Results::new(comparison, Vec::new()));
    }
    let (mut done, mut logs) = (Vec::new(), Vec::new());
    for run in &runs {
        let mut log = RunLog::after(&logs);
        done.push(with_python(py, run, how, &mut log)?);
        log.check().map_err(refused)?;
        logs.push(log);
    }
    Ok(Results::new(Comparison::of(done), logs))
}

fn without_logs(py: Python<'_>, runs: Vec<PlannedRun>, how: &HowToRun) -> PyResult<Comparison> {
    let is_own = |run: &PlannedRun| {
        let mut ccs = run.scenario.flows.iter().filter_map(|flow| flow.cc.as_ref());
        ccs.any(|cc| how.own.contains(&cc.to_string()))
    };
    let owned: Vec<bool> = runs.iter().map(is_own).collect();
    if !owned.contains(&true) {
        return native(py, runs, how);
    }
    let (own, built_in): (Vec<_>, Vec<_>) =
        runs.into_iter().zip(&owned).partition(|(_, is_own)| **is_own);
    let built_in: Vec<PlannedRun> = built_in.into_iter().map(|(run, _)| run).collect();
    let mut built_in = match built_in.is_empty() {
        true => Vec::new().into_iter(),
        false => native(py, built_in, how)?.runs.into_iter(),
    };
    let mut own = own.iter().map(|(run, _)| with_python(py, run, how, &mut ()));
    let in_order = owned.iter().map(|is_own| match is_own {
        true => own.next().transpose(),
        false => Ok(built_in.next()),
    });
    let all: Vec<Option<Run>> = in_order.collect::<PyResult<_>>()?;
    Ok(Comparison::of(all.into_iter().flatten().collect()))
}

fn native(py: Python<'_>, runs: Vec<PlannedRun>, how: &HowToRun) -> PyResult<Comparison> {
    let (series, jobs) = (how.series, how.jobs);
    without_python(py, move || {
        let mut signals = RunInterrupt::default();
        let finished = Batch { series, ..Batch::new(runs) }.run(threads(jobs), &mut signals)?;
        if let Some(raised) = signals.raised {
            return Err(raised.into());
        }
        if let Some(error) = finished.failed.into_iter().next() {
            return Err(error.into());
        }
        match finished.missing {
            0 => Ok(finished.comparison),
            missing => Err(Failure::Raised(InternalError::new_err(format!(
                "{missing} runs ended in the middle"
            )))),
        }
    })
}

/// Simulates a run whose controllers call Python, in slices. An exception ends it.
fn with_python(
    py: Python<'_>,
    run: &PlannedRun,
    how: &HowToRun,
    observer: &mut impl Observer,
) -> PyResult<Run> {
    let failed = |error: &dyn std::fmt::Display| {
        refused(LabError::Failed(format!(
            "{} on {}, seed {}: {error}",
            run.cc, run.trace, run.seed
        )))
    };
    let simulated = catch_unwind(AssertUnwindSafe(|| -> PyResult<Run> {
        let mut simulation = Simulation::new(&run.seeded()).map_err(|error| failed(&error))?;
        while !simulation.is_over() {
            let until = simulation.now() + SLICE;
            let advanced = simulation.advance_observed(until, observer);
            if let Some(error) = how.raised.take() {
                return Err(error);
            }
            advanced.map_err(|error| failed(&error))?;
            py.check_signals()?;
        }
        let outcome = simulation.finish().map_err(|error| failed(&error))?;
        Ok(run.result(outcome, how.series))
    }));
    simulated.unwrap_or_else(|panic| Err(InternalError::new_err(panic_text(&*panic))))
}

/// Stops runs on Ctrl-C: Python runs its signal handlers only when it is asked.
#[derive(Default)]
struct RunInterrupt {
    asked: Option<Instant>,
    raised: Option<PyErr>,
}

impl RunInterrupt {
    const EVERY: Duration = Duration::from_millis(50);
}

impl WorkSink<RunResult> for RunInterrupt {
    fn on_progress(&mut self, _share: f64) {
        if self.raised.is_none() && self.asked.is_none_or(|at| at.elapsed() >= Self::EVERY) {
            self.asked = Some(Instant::now());
            self.raised = interrupted();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.raised.is_some()
    }
}

/// What Python's signal handlers raise now.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is not general enough"
)]
pub(crate) fn interrupted() -> Option<PyErr> {
    Python::attach(|py| py.check_signals()).err()
}
