//! Makes a find as simple as it can be and still be one.

use crate::LabError;
use crate::parallel::WorkSink;

use super::bounds::AttackBounds;
use super::path::AttackPath;
use super::trial::{AttackScore, Trials, Worst};

/// What a simpler path keeps of how bad the find is.
const KEPT_SHARE: f64 = 0.9;

/// The simplest path that is still nearly as bad: the simplest of all that are simpler in one respect, as long as there is one.
/// `None`: the sink is cancelled.
///
/// # Errors
/// When a run fails.
pub(super) fn shrink(
    trials: &mut Trials<'_>,
    worst: Worst,
    bounds: &AttackBounds,
    find: (AttackPath, AttackScore),
    sink: &mut dyn WorkSink<()>,
) -> Result<Option<(AttackPath, AttackScore)>, LabError> {
    // Of the first find, not of the path before: else a tenth would be lost in each step.
    let enough = find.1.badness(worst) * KEPT_SHARE;
    let mut simplest = find;
    loop {
        let paths = simplest.0.simpler(bounds);
        let Some(scores) = trials.scores(&paths, sink)? else { return Ok(None) };
        let still =
            paths.into_iter().zip(scores).filter(|(_, score)| score.badness(worst) >= enough);
        match still.min_by_key(|(path, _)| path.complexity()) {
            Some(simpler) => simplest = simpler,
            None => return Ok(Some(simplest)),
        }
    }
}
