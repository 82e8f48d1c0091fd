//! Claim files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::PaperError;
use crate::claim_words::{OneOrMany, Word};
use crate::recording::Recording;
use crate::trainings::Trainings;
use crate::verdict::Verdict;

/// What a claim is checked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Runs in virtual time.
    Virtual,
    /// Runs with real packets, recorded.
    Real,
    /// Runs in virtual time on a model of a network that the paper measured.
    Model,
    /// It needs a live network; runs are what stands in for it.
    Field,
    /// Tests of the project.
    Component,
}

/// Where the conditions of a run are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setup {
    /// As the paper prints them.
    #[default]
    Printed,
    /// As the paper's figures imply.
    Inferred,
    /// The product's own.
    Ours,
}

impl Setup {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Inferred => "inferred",
            Self::Ours => "ours",
        }
    }
}

/// What a check decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Whether the sentence is true at all.
    Core,
    /// Whether it is so to the extent that the paper gives.
    Full,
}

impl Level {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Full => "full",
        }
    }
}

/// One sentence, figure or table of a paper, and how it is checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `PAPER-NAME`; it never changes.
    pub id: String,
    /// Where in the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// What the paper says.
    pub says: String,
    /// `figure`, `table`, `text` or `component`.
    pub kind: ClaimKind,
    /// What it is checked on.
    pub mode: Mode,
    /// The verdict that its runs are expected to give.
    pub expected: Verdict,
    /// The same with one seed and one start, where that is another.
    pub expected_quick: Option<Verdict>,
    /// Whether only the recorded traces that it names decide it, and no generated ones in their place.
    #[serde(default)]
    pub needs_traces: bool,
    /// The verdict of what stands in for a network that is not there.
    pub stand_in: Option<Verdict>,
    /// Why it is so.
    #[serde(default)]
    pub because: String,
    /// What the front page says of it, if it is one of a paper's main claims.
    pub headline: Option<String>,
    /// Where it stands among the claims of its paper.
    #[serde(default)]
    pub order: u32,
    /// What the paper prints, for comparison.
    #[serde(default)]
    pub original: toml::Table,
    /// Markov tables that are trained for it, by their names: runs name them `train.NAME`.
    #[serde(default, rename = "train")]
    pub trainings: Trainings,
    /// The runs by their names.
    #[serde(default, rename = "run")]
    pub runs: BTreeMap<String, ClaimRun>,
    /// The checks of their figures.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    /// The charts of the page.
    #[serde(default, rename = "chart")]
    pub charts: Vec<Chart>,
    /// The tests that stand for it.
    pub tests: Option<ClaimTests>,
}

/// What a claim is in its paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimKind {
    /// A figure.
    Figure,
    /// A table.
    Table,
    /// A sentence.
    Text,
    /// A part of a program.
    Component,
}

/// Tests of the project that stand for a claim.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimTests {
    /// How the names of the test functions begin.
    pub names: Vec<String>,
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
    /// Where the conditions are from.
    pub setup: Setup,
    /// Why they are so, where they are inferred.
    pub evidence: String,
    /// Whether an inferred set-up decides in place of the printed one.
    pub decides: bool,
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

/// A check.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What it says.
    pub name: String,
    /// What it decides.
    pub level: Level,
    /// The run whose fields it names.
    pub run: String,
    /// The expression.
    pub test: String,
}

/// A chart of the page.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// `scatter`, `lines`, `stairs`, `bars`, `histogram`, `cdf`, `ccdf`, `regions`, `heatmap`, `table`.
    pub kind: String,
    /// The run.
    pub run: String,
    /// An expression, or an axis in quotes of its own: the horizontal axis.
    pub x: Option<String>,
    /// An expression; of a heatmap `transitions` or `zoom`: which picture of the run's table.
    pub y: String,
    /// The axis whose places are the series.
    pub group: Option<String>,
    /// The caption.
    #[serde(default)]
    pub caption: String,
    /// Which axes are logarithmic: `x`, `y`, `xy`.
    #[serde(default)]
    pub log: String,
    /// Where the axes begin and end in the paper, in the units of the chart.
    #[serde(default)]
    pub axes: ChartAxes,
    /// What the paper prints: points drawn hollow, as `[x, y]`, or rows of a table.
    #[serde(default)]
    pub original: Vec<OriginalPoint>,
}

/// The ends of the axes of a chart; what is not given follows from the values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChartAxes {
    /// The axis below.
    pub x: Option<[f64; 2]>,
    /// The axis of the values.
    pub y: Option<[f64; 2]>,
}

/// A point that the paper prints.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginalPoint {
    /// The series.
    pub group: String,
    /// Where on the horizontal axis.
    pub x: Word,
    /// The value.
    pub y: f64,
}

impl Claim {
    /// Reads a claim file; `name` is `PAPER/NAME`, as which it is stored.
    ///
    /// # Errors
    /// When the text is no claim or contradicts itself; the error names what is wrong.
    pub fn read(name: &str, text: &str) -> Result<Self, PaperError> {
        let claim: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            PaperError::Invalid(format!("{name}.toml:{line}: {}", error.message()))
        })?;
        let wanted = name.replace('/', "-");
        if claim.id != wanted {
            let id = &claim.id;
            return Err(PaperError::Invalid(format!("{name}.toml: id is `{id}`, not `{wanted}`")));
        }
        claim.check_form().map_err(|why| PaperError::of(&claim.id, why))?;
        Ok(claim)
    }

    /// The paper that it is from.
    pub fn paper(&self) -> &str {
        self.id.split_once('-').map_or(&*self.id, |(paper, _)| paper)
    }

    /// When the figures were measured that it rests on, if any were.
    pub fn recorded_on(&self) -> Option<String> {
        let recordings = self.recordings();
        let text = |recording: &Arc<Recording>| recording.date().to_owned() + recording.note();
        recordings.iter().map(text).max()
    }

    /// What was measured for it with real packets.
    pub fn recordings(&self) -> Vec<Arc<Recording>> {
        let names = self.runs.values().filter_map(|run| run.recording.as_deref());
        names.filter_map(|name| Recording::named(name).ok()).collect()
    }

    fn check_form(&self) -> Result<(), String> {
        let explains_itself = matches!(self.expected, Verdict::Reproduced | Verdict::Built);
        if self.because.trim().is_empty() && !explains_itself {
            return Err(format!("`{}` needs `because`", self.expected.name()));
        }
        if (self.mode == Mode::Component) != self.tests.is_some() {
            return Err("[tests] belongs to mode component, and only there".to_owned());
        }
        if (self.mode == Mode::Component) != (self.expected == Verdict::Built) {
            return Err("a component is expected to be built, and only that".to_owned());
        }
        for (name, training) in &self.trainings {
            training.check().map_err(|why| format!("train.{name}: {why}"))?;
        }
        for (name, run) in &self.runs {
            run.check_form().map_err(|why| format!("run.{name}: {why}"))?;
            let trained = run.train.iter().flat_map(OneOrMany::texts);
            if let Some(unknown) = { trained }.find(|name| !self.trainings.contains_key(name)) {
                return Err(format!("run.{name}: there is no [train.{unknown}]"));
            }
        }
        if self.mode == Mode::Virtual && self.checks.is_empty() && self.expected != Verdict::Open {
            return Err("there is no check".to_owned());
        }
        let runs = self.checks.iter().map(|check| &check.run);
        let mut runs = runs.chain(self.charts.iter().map(|chart| &chart.run));
        match runs.find(|run| !self.runs.contains_key(*run)) {
            Some(unknown) => Err(format!("there is no run `{unknown}`")),
            None => Ok(()),
        }
    }
}

impl ClaimRun {
    fn check_form(&self) -> Result<(), String> {
        if self.setup == Setup::Inferred && self.evidence.trim().is_empty() {
            return Err("an inferred set-up needs `evidence`".to_owned());
        }
        if self.decides && self.setup != Setup::Inferred {
            return Err("`decides` is for inferred set-ups".to_owned());
        }
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
