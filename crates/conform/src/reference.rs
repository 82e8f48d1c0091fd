//! The same scenarios in virtual time, under controllers of ours.

use std::sync::Arc;

use cellpace_cc::ControllerSpec;
use cellpace_lab::{Batch, PlannedRun, RunResult, StackSpec, WorkSink, threads};
use cellpace_report::Run;

use crate::{ConformError, Trial};

/// Simulates each scenario under each controller; the runs of a scenario stand together, in the order
/// of the controllers. When the sink is cancelled, there are none.
///
/// # Errors
/// When a scenario contradicts itself, or a run fails.
pub fn reference(
    trials: &[&Trial],
    controllers: &[ControllerSpec],
    sink: &mut dyn WorkSink<RunResult>,
) -> Result<Vec<Vec<Run>>, ConformError> {
    let mut runs = Vec::new();
    for trial in trials {
        for cc in controllers {
            let scenario = trial.simulated(cc)?;
            let seed = scenario.seed;
            let (cc, trace, scenario) = (cc.to_string(), trial.trace.clone(), Arc::new(scenario));
            runs.push(PlannedRun { cc, trace, scenario, seed, stack: StackSpec::Builtin });
        }
    }
    let batch = Batch { series: true, ..Batch::new(runs) };
    let done = batch.run(threads(None), sink)?;
    if let Some(error) = done.failed.into_iter().next() {
        return Err(error.into());
    }
    if done.missing > 0 || controllers.is_empty() {
        return Ok(trials.iter().map(|_| Vec::new()).collect());
    }
    let mut runs = done.comparison.runs.into_iter();
    Ok(trials.iter().map(|_| runs.by_ref().take(controllers.len()).collect()).collect())
}
