//! What a claim asks for: its runs, and the tables that are trained for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::PaperError;
use crate::claim_words::{OneOrMany, Word};
use crate::recording::Recording;
use crate::trainings::Trainings;

/// The runs of a claim of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `PAPER-NAME`.
    pub id: String,
    /// Whether only the recorded traces that it names decide it, and no generated ones in their place.
    #[serde(default)]
    pub needs_traces: bool,
    /// Markov tables that are trained for it, by their names: runs name them `train.NAME`.
    #[serde(default)]
    pub trainings: Trainings,
    /// The runs by their names.
    pub runs: BTreeMap<String, ClaimRun>,
}

/// How often a run is repeated elsewhere in its trace.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Starts {
    /// So often, spread evenly over the trace.
    Number(u32),
    /// From these times on.
    Times(Vec<String>),
}

/// What is looked at besides the figures of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Analysis {
    /// The trace alone, as `trace show` has it; nothing is simulated.
    Trace,
    /// How well the trace's rate is predicted, as `trace predict` has it; nothing is simulated.
    Predict,
    /// The delay profile that the first flow learns.
    Profile,
    /// The radio layer alone: SINR, modulation and rate of the drive; nothing is simulated.
    Radio,
    /// When packets arrive after `skip`.
    Arrivals,
}

/// Runs of one scenario over all combinations of what is given as a list.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimRun {
    /// Conditions that many claims share: `CELL`, `OPNET`, `OPNET-10`.
    pub block: Option<String>,
    /// The traces: names, sets of them, generated ones.
    pub trace: Option<OneOrMany>,
    /// The reverse direction's.
    pub uplink: Option<OneOrMany>,
    /// The controllers of all flows.
    pub cc: Option<OneOrMany>,
    /// The number of flows.
    pub flows: Option<OneOrMany>,
    /// As in a scenario.
    pub queue: Option<OneOrMany>,
    /// As in a scenario.
    pub rtt: Option<OneOrMany>,
    /// As in a scenario.
    pub loss: Option<OneOrMany>,
    /// As in a scenario.
    pub acks: Option<OneOrMany>,
    /// As in a scenario.
    pub duration: Option<OneOrMany>,
    /// As in a scenario.
    pub skip: Option<OneOrMany>,
    /// The time between the starts of flows.
    pub spacing: Option<OneOrMany>,
    /// Flows start at random within this time.
    pub starts_within: Option<String>,
    /// Whether `duration` and `skip` count from the last flow's start.
    pub after_last_start: bool,
    /// More fields of the scenario.
    pub path: Option<String>,
    /// More fields of each flow.
    pub flow: Option<String>,
    /// A scenario in place of all that.
    pub scenario: Option<String>,
    /// Trainings whose tables are looked at, in place of simulating anything.
    pub train: Option<OneOrMany>,
    /// Figures that were measured with real packets, in place of running anything: a name in
    /// `evaluation/recordings.toml`.
    pub recording: Option<String>,
    /// Axes of its own: `{name}` stands in texts for their values.
    pub sweep: BTreeMap<String, Vec<Word>>,
    /// Where in the trace it begins.
    pub starts: Option<Starts>,
    /// The seeds.
    pub seeds: Option<Vec<u64>>,
    /// What is looked at besides the figures of the run.
    pub analysis: Option<Analysis>,
    /// The width of bins of figures over time, where they are kept.
    pub series: Option<String>,
}

impl Claim {
    /// Reads claims, a JSON array.
    ///
    /// # Errors
    /// When the text is none, or a run contradicts itself; the error names claim and run.
    pub fn read_all(text: &str) -> Result<Vec<Self>, PaperError> {
        let claims: Vec<serde_json::Value> =
            serde_json::from_str(text).map_err(|error| PaperError::Invalid(error.to_string()))?;
        claims.into_iter().map(Self::read).collect()
    }

    fn read(claim: serde_json::Value) -> Result<Self, PaperError> {
        let id = claim["id"].as_str().unwrap_or("a claim without an id").to_owned();
        let wrong = |why: String| PaperError::Invalid(format!("{id}: {why}"));
        let claim: Self = serde_json::from_value(claim).map_err(|error| wrong(error.to_string()))?;
        for (name, training) in &claim.trainings {
            training.check().map_err(|why| wrong(format!("train.{name}: {why}")))?;
        }
        for (name, run) in &claim.runs {
            let wrong = |why: String| wrong(format!("run.{name}: {why}"));
            run.check_form().map_err(wrong)?;
            run.axes().map_err(wrong)?;
            let trained = run.train.iter().flat_map(OneOrMany::texts);
            if let Some(unknown) = { trained }.find(|name| !claim.trainings.contains_key(name)) {
                return Err(wrong(format!("there is no training `{unknown}`")));
            }
        }
        Ok(claim)
    }

    /// What was measured for it with real packets.
    pub fn recordings(&self) -> Vec<Arc<Recording>> {
        let names = self.runs.values().filter_map(|run| run.recording.as_deref());
        names.filter_map(|name| Recording::named(name).ok()).collect()
    }
}

impl ClaimRun {
    fn check_form(&self) -> Result<(), String> {
        let conditions = [self.scenario.is_some(), self.trace.is_some() || self.cc.is_some()];
        if let Some(recording) = &self.recording {
            Recording::named(recording)?;
            return match conditions.contains(&true) {
                true => Err("a `recording` has its conditions: leave out others".to_owned()),
                false => Ok(()),
            };
        }
        if self.train.is_some() {
            return match conditions.contains(&true) {
                true => Err("a run of `train` simulates nothing: leave out others".to_owned()),
                false => Ok(()),
            };
        }
        if self.scenario.is_none() && (self.trace.is_none() || self.cc.is_none()) {
            return Err(
                "a run has `trace` and `cc`, or `scenario`, or `train`, or `recording`".to_owned()
            );
        }
        Ok(())
    }
}
