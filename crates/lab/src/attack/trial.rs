//! What a controller does on the path of an attack, as one figure.

use std::collections::HashMap;

use cellpace_base::Span;
use cellpace_cc::ControllerSpec;
use cellpace_sim::{Outcome, Scenario};
use serde::Serialize;

use crate::LabError;
use crate::files::trace_files;
use crate::parallel::{WorkClock, WorkSink, run_all, simulate};

use super::path::AttackPath;

/// By what a controller does badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Worst {
    /// The share of the link's capacity that is used, alone on the path.
    Utilization,
    /// The 95th percentile of the queue delay in ms, alone on the path.
    Delay,
    /// The share of what two flows get together, beside a rival; a fair one is 0.5.
    Fairness,
}

/// What came out of one path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AttackScore {
    /// The figure of the controller: see [`Worst`].
    pub figure: f64,
    /// The same figure of the rival, alone on the same path, where there is one and it is not beside the controller.
    pub rival: Option<f64>,
}

impl AttackScore {
    /// How bad it is; more is worse. With a rival it is how much worse than the rival's figure.
    pub fn badness(self, worst: Worst) -> f64 {
        match worst {
            Worst::Utilization => self.rival.unwrap_or(1.0) - self.figure,
            Worst::Delay => self.figure - self.rival.unwrap_or(0.0),
            Worst::Fairness => 0.5 - self.figure,
        }
    }
}

/// What is tried on each path.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    pub(super) cc: &'a ControllerSpec,
    pub(super) against: Option<&'a ControllerSpec>,
    pub(super) worst: Worst,
    pub(super) skip: Span,
    pub(super) threads: usize,
    pub(super) seed: u64,
}

impl Trial<'_> {
    /// Controllers of each run of a path: the first has the controller's figure.
    fn runs(&self) -> Vec<Vec<&ControllerSpec>> {
        match (self.worst, self.against) {
            (Worst::Fairness, rival) => vec![vec![self.cc, rival.unwrap_or(self.cc)]],
            (_, Some(rival)) => vec![vec![self.cc], vec![rival]],
            (_, None) => vec![vec![self.cc]],
        }
    }

    /// The scenario that shows the figure of the controller.
    pub(super) fn scenario(&self, path: &AttackPath) -> String {
        self.written(path, &self.runs()[0])
    }

    fn written(&self, path: &AttackPath, flows: &[&ControllerSpec]) -> String {
        let mut text = path.fields();
        text += &format!("skip = \"{}\"\nseed = {}\n", self.skip, self.seed);
        for cc in flows {
            // A string of JSON is one of TOML.
            text += &format!("\n[[flow]]\ncc = {}\n", serde_json::Value::String(cc.to_string()));
        }
        text
    }

    fn figure(&self, outcome: &Outcome) -> f64 {
        let figures = &outcome.figures;
        match self.worst {
            Worst::Utilization => figures.utilization,
            Worst::Delay => figures.queue_delay_ms.p95,
            Worst::Fairness => {
                let rates = figures.per_flow.iter().map(|flow| flow.throughput_mbps);
                let all: f64 = rates.clone().sum();
                // Flows that get nothing share it evenly.
                if all > 0.0 { rates.take(1).sum::<f64>() / all } else { 0.5 }
            }
        }
    }

    fn run(&self, text: &str, clock: &WorkClock) -> Option<Result<f64, LabError>> {
        // By way of its text: what the find's file shows is then what was measured.
        let run = || {
            let scenario = Scenario::from_toml("the path", text, &mut trace_files())?;
            Ok(simulate(&scenario, &mut (), clock)?.map(|outcome| self.figure(&outcome)))
        };
        run().transpose()
    }
}

/// Trials that are done, so that none is done twice.
pub(super) struct Trials<'a> {
    trial: &'a Trial<'a>,
    known: HashMap<AttackPath, AttackScore>,
    /// Simulated runs so far.
    pub(super) runs: u64,
}

impl<'a> Trials<'a> {
    pub(super) fn new(trial: &'a Trial<'a>) -> Self {
        Self { trial, known: HashMap::new(), runs: 0 }
    }

    /// The scores of paths, all cores at work; `None`: the sink is cancelled.
    ///
    /// # Errors
    /// When a run fails, or a controller panics on a path.
    pub(super) fn scores(
        &mut self,
        paths: &[AttackPath],
        sink: &mut dyn WorkSink<()>,
    ) -> Result<Option<Vec<AttackScore>>, LabError> {
        let mut new: Vec<&AttackPath> = Vec::new();
        for path in paths.iter().filter(|path| !self.known.contains_key(path)) {
            if !new.contains(&path) {
                new.push(path);
            }
        }
        let runs = self.trial.runs();
        let texts: Vec<String> = new
            .iter()
            .flat_map(|path| runs.iter().map(|flows| self.trial.written(path, flows)))
            .collect();
        let Some(figures) = self.figures(&texts, sink)? else { return Ok(None) };
        for (path, figures) in new.into_iter().zip(figures.chunks(runs.len())) {
            let score = AttackScore { figure: figures[0], rival: figures.get(1).copied() };
            self.known.insert(path.clone(), score);
        }
        Ok(Some(paths.iter().map(|path| self.known[path]).collect()))
    }

    fn figures(
        &mut self,
        texts: &[String],
        sink: &mut dyn WorkSink<()>,
    ) -> Result<Option<Vec<f64>>, LabError> {
        let work = |index: usize, clock: &WorkClock| self.trial.run(&texts[index], clock);
        let mut counted = Counted { sink, before: self.runs };
        let results = run_all(texts.len(), self.trial.threads, Span::ZERO, work, &mut counted)?;
        // Before results are looked at: those of runs that were stopped are missing, and not by a
        // panic.
        if sink.is_cancelled() {
            return Ok(None);
        }
        self.runs += texts.len() as u64;
        let of = |(result, text): (Option<Result<f64, LabError>>, &String)| {
            result.unwrap_or_else(|| {
                let text = text.replace('\n', "; ");
                Err(LabError::Failed(format!("a run ended in a panic, of: {text}")))
            })
        };
        results.into_iter().zip(texts).map(of).collect::<Result<_, _>>().map(Some)
    }
}

/// Passes on how many runs of all are done.
struct Counted<'a> {
    sink: &'a mut dyn WorkSink<()>,
    before: u64,
}

impl WorkSink<Result<f64, LabError>> for Counted<'_> {
    fn on_done(&mut self, index: usize, _: &Result<f64, LabError>) {
        self.sink.on_done(self.before as usize + index, &());
    }

    fn is_cancelled(&self) -> bool {
        self.sink.is_cancelled()
    }
}
