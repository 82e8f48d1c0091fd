//! What is said of a scenario in the end.

use cellpace_report::{
    ConformanceCheck, ConformanceLine, ConformanceReference, ConformanceScenario,
    ConformanceVerdict, Run,
};

use crate::{Check, Trial};

/// Returns what a document says of a scenario: `run` is what the server under test did, or why it did
/// nothing; `reference` are the runs of our controllers.
pub fn judge(
    trial: &Trial,
    run: Result<&Run, &str>,
    reference: &[Run],
    command: String,
) -> ConformanceScenario {
    let check = |check: &Check| {
        let value = run.ok().and_then(|run| check.figure.of(trial, run));
        ConformanceCheck {
            figure: check.figure.label().to_owned(),
            unit: check.figure.unit().to_owned(),
            min: check.min,
            max: check.max,
            reason: check.reason.clone(),
            value,
            passed: check.passes(value),
            reference: reference.iter().map(|run| refer(check, trial, run)).collect(),
        }
    };
    let checks: Vec<ConformanceCheck> = trial.checks.iter().map(check).collect();
    let verdict = match (run, checks.iter().all(|check| check.passed)) {
        (Err(_), _) => ConformanceVerdict::NotRun,
        (Ok(_), true) => ConformanceVerdict::Pass,
        (Ok(_), false) => ConformanceVerdict::Fail,
    };
    let measured = run.ok();
    let capacity = measured.or(reference.first()).and_then(|run| run.series.as_ref());
    ConformanceScenario {
        name: trial.name.clone(),
        title: trial.title.clone(),
        rfc: trial.rfc.clone(),
        question: trial.question.clone(),
        command,
        duration_s: trial.duration.as_secs_f64(),
        verdict,
        problem: run.err().map(str::to_owned),
        checks,
        bin_s: capacity.map_or(0.0, |series| series.bin_s),
        capacity_mbps: capacity.map(|series| values(&series.capacity_mbps)).unwrap_or_default(),
        measured: measured.and_then(line),
        reference: reference.iter().filter_map(line).collect(),
    }
}

fn refer(check: &Check, trial: &Trial, run: &Run) -> ConformanceReference {
    let value = check.figure.of(trial, run);
    ConformanceReference { cc: run.cc.clone(), value, passed: check.passes(value) }
}

fn line(run: &Run) -> Option<ConformanceLine> {
    let series = run.series.as_ref()?;
    Some(ConformanceLine {
        cc: run.cc.clone(),
        throughput_mbps: values(&series.throughput_mbps),
        queue_delay_ms: values(&series.queue_delay_p50_ms),
    })
}

/// To the hundredth, which no chart shows.
fn values(values: &[f32]) -> Vec<Option<f64>> {
    let round = |value: &f32| (f64::from(*value) * 100.0).round() / 100.0;
    values.iter().map(|value| value.is_finite().then(|| round(value))).collect()
}
