//! A search that keeps the worst paths and changes them: random draws first, then an evolution strategy with crossing,
//! whose parents and children compete (`μ + λ`: Beyer and Schwefel 2002).

use std::time::{Duration, Instant};

use cellpace_base::Random;

use crate::LabError;
use crate::parallel::WorkSink;

use super::bounds::AttackBounds;
use super::path::AttackPath;
use super::trial::{AttackScore, Trials, Worst};

/// When a search ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttackBudget {
    /// After so many simulated runs.
    Runs(u64),
    /// After so long. What is found then depends on the machine.
    Time(Duration),
}

/// Paths of a generation, whatever the number of cores: the same seed has the same find everywhere.
const GENERATION: usize = 24;
/// Paths that are kept.
const KEPT: usize = 12;
/// The share of the budget in which paths are drawn anywhere.
const RANDOM_SHARE: f64 = 0.3;
/// The share of later paths that are drawn anywhere, too.
const FRESH: f64 = 0.1;
/// The share of children with two parents.
const CROSSED: f64 = 0.3;

/// The stream of the draws.
const SEARCH_STREAM: u64 = 0xa77ac;

/// The worst path within the bounds that the budget finds; `None`: the sink is cancelled.
///
/// # Errors
/// When a run fails.
pub(super) fn search(
    trials: &mut Trials<'_>,
    (worst, bounds, budget): (Worst, &AttackBounds, AttackBudget),
    seed: u64,
    sink: &mut dyn WorkSink<()>,
) -> Result<Option<(AttackPath, AttackScore)>, LabError> {
    let mut random = Random::seeded(seed, SEARCH_STREAM);
    let mut kept: Vec<(AttackPath, AttackScore)> = Vec::new();
    let started = Instant::now();
    loop {
        let spent = match budget {
            AttackBudget::Runs(runs) => trials.runs as f64 / runs.max(1) as f64,
            AttackBudget::Time(time) => started.elapsed().as_secs_f64() / time.as_secs_f64(),
        };
        // At least one generation, also where the time is over before the first run ends.
        if spent >= 1.0 && !kept.is_empty() {
            return Ok(kept.into_iter().next());
        }
        let is_random = spent < RANDOM_SHARE || kept.is_empty();
        let mut child = || match is_random || random.unit() < FRESH {
            true => AttackPath::draw(bounds, &mut random),
            false => child(&kept, bounds, &mut random),
        };
        let paths: Vec<AttackPath> = (0..GENERATION).map(|_| child()).collect();
        let before = trials.runs;
        let Some(scores) = trials.scores(&paths, sink)? else { return Ok(None) };
        // A small range of paths is known soon.
        let is_exhausted = trials.runs == before;
        for (path, score) in paths.into_iter().zip(scores) {
            // Equal paths would fill the places of the kept ones, and their children be the same
            // draws again.
            if kept.iter().all(|(other, _)| *other != path) {
                kept.push((path, score));
            }
        }
        kept.sort_by(|(_, one), (_, other)| other.badness(worst).total_cmp(&one.badness(worst)));
        kept.truncate(KEPT);
        if is_exhausted {
            return Ok(kept.into_iter().next());
        }
    }
}

fn child(
    kept: &[(AttackPath, AttackScore)],
    bounds: &AttackBounds,
    random: &mut Random,
) -> AttackPath {
    // The better of two, since they are in order.
    let parent = |random: &mut Random| {
        let count = kept.len() as u64;
        &kept[random.below(count).min(random.below(count)) as usize].0
    };
    let mut path = parent(random).clone();
    if random.unit() < CROSSED {
        path = path.crossed(parent(random), bounds, random);
    }
    // Up to three changes: where no single one makes it worse, two together may.
    for _ in 0..=random.below(3) {
        path = path.changed(bounds, random);
    }
    path
}
