//! An adversary: searches the paths on which a controller does worst, and makes the find simple.

mod bounds;
mod path;
mod search;
mod shrink;
mod trial;

use std::fmt::Write;

use cellpace_cc::ControllerSpec;
use serde::Serialize;

use crate::parallel::WorkSink;
use crate::{LabError, threads};

pub use bounds::{AttackBounds, LevelRange};
pub use path::{AttackPath, AttackStep};
pub use search::AttackBudget;
pub use trial::{AttackScore, Worst};

use trial::{Trial, Trials};

/// What to attack, and how.
#[derive(Debug, Clone)]
pub struct Attack {
    /// The controller.
    pub cc: ControllerSpec,
    /// With [`Worst::Fairness`] who is beside it, by default another of its own kind. Otherwise the controller is to do worse
    /// than this one, alone on the same path: a path on which nobody does well does not count then.
    pub against: Option<ControllerSpec>,
    /// By what.
    pub worst: Worst,
    /// Within what the paths lie.
    pub bounds: AttackBounds,
    /// How long to search. To make the find simple takes some hundred runs more.
    pub budget: AttackBudget,
    /// The seed of the search and of each run.
    pub seed: u64,
}

/// What an attack found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttackFind {
    /// The score of the worst path that the search met.
    pub found: AttackScore,
    /// The simple path that was made of it.
    pub path: AttackPath,
    /// Its score.
    pub shrunk: AttackScore,
    /// Its scores with other seeds.
    pub other_seeds: Vec<AttackScore>,
    /// Simulated runs in all.
    pub runs: u64,
    /// The scenario that shows the controller's figure, as TOML.
    pub scenario: String,
}

/// What an attack found, and what it was asked.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    command: &'a str,
    cc: String,
    against: Option<String>,
    worst: Worst,
    seed: u64,
    #[serde(flatten)]
    find: &'a AttackFind,
}

/// Other seeds with which a find is looked at.
const OTHER_SEEDS: u64 = 4;

impl Attack {
    /// Searches, `jobs` runs at a time (`None`: one per core). With a budget in runs the find depends on nothing but the
    /// attack. `None`: the sink was cancelled.
    ///
    /// # Errors
    /// When there is no path within the bounds, or a run fails; the path on which a controller panics is named.
    pub fn run(
        &self,
        jobs: Option<u16>,
        sink: &mut dyn WorkSink<()>,
    ) -> Result<Option<AttackFind>, LabError> {
        self.bounds.check()?;
        let trial = self.trial(self.seed, jobs);
        let mut trials = Trials::new(&trial);
        let asked = (self.worst, &self.bounds, self.budget);
        let Some(find) = search::search(&mut trials, asked, self.seed, sink)? else {
            return Ok(None);
        };
        let found = find.1;
        let shrunk = shrink::shrink(&mut trials, self.worst, &self.bounds, find, sink)?;
        let Some((path, shrunk)) = shrunk else { return Ok(None) };
        let (mut runs, mut other_seeds) = (trials.runs, Vec::new());
        for other in 1..=OTHER_SEEDS {
            let trial = self.trial(self.seed.wrapping_add(other), jobs);
            let mut trials = Trials::new(&trial);
            let Some(scores) = trials.scores(std::slice::from_ref(&path), sink)? else {
                return Ok(None);
            };
            other_seeds.extend(scores);
            runs += trials.runs;
        }
        // The figure with other seeds stands in the file: a find that holds for one seed alone is
        // chance.
        let scenario = format!("{}{}", self.header(shrunk, &other_seeds), trial.scenario(&path));
        Ok(Some(AttackFind { found, path, shrunk, other_seeds, runs, scenario }))
    }

    /// The find as a JSON document; `command` is the command line that asked for it.
    pub fn json(&self, find: &AttackFind, command: &str) -> String {
        let document = Document {
            schema: "cellpace.attack/1",
            version: env!("CARGO_PKG_VERSION"),
            command,
            cc: self.cc.to_string(),
            against: self.against.as_ref().map(ToString::to_string),
            worst: self.worst,
            seed: self.seed,
            find,
        };
        let text = serde_json::to_string_pretty(&document);
        text.expect("strings and finite numbers are always written") + "\n"
    }

    fn trial(&self, seed: u64, jobs: Option<u16>) -> Trial<'_> {
        Trial {
            cc: &self.cc,
            against: self.against.as_ref(),
            worst: self.worst,
            skip: self.bounds.skip,
            threads: threads(jobs),
            seed,
        }
    }

    /// Comments on top of a scenario: what it shows.
    fn header(&self, score: AttackScore, others: &[AttackScore]) -> String {
        let mut text = format!("# {}\n", self.sentence(score));
        let figures = || others.iter().map(|score| score.figure);
        let (low, high) = (figures().fold(f64::MAX, f64::min), figures().fold(f64::MIN, f64::max));
        let (low, high) = (self.worst.written(low), self.worst.written(high));
        let _ = writeln!(text, "# with {} other seeds: {low} to {high}", others.len());
        text
    }

    /// What a score says.
    pub fn sentence(&self, score: AttackScore) -> String {
        let (cc, figure) = (shown(&self.cc), self.worst.written(score.figure));
        let what = match (self.worst, &self.against) {
            (Worst::Utilization, _) => format!("{cc}: utilization {figure}"),
            (Worst::Delay, _) => format!("{cc}: p95 of the queue delay {figure}"),
            (Worst::Fairness, Some(rival)) => {
                format!("{cc}: share beside {} {figure}", shown(rival))
            }
            (Worst::Fairness, None) => format!("{cc}: share beside another of its kind {figure}"),
        };
        match (score.rival, &self.against) {
            (Some(of_rival), Some(rival)) => {
                let of_rival = self.worst.written(of_rival);
                format!("{what}; {} alone on the same path: {of_rival}", shown(rival))
            }
            _ => what,
        }
    }
}

/// A controller in a comment: files may have any name.
fn shown(cc: &ControllerSpec) -> String {
    cc.to_string().replace(char::is_control, "?")
}

impl Worst {
    /// A figure with its unit.
    pub fn written(self, figure: f64) -> String {
        match self {
            Self::Utilization | Self::Fairness => format!("{:.1} %", figure * 100.0),
            Self::Delay => format!("{figure:.1} ms"),
        }
    }
}
