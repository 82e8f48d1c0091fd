//! A profile from a trace, and how like the trace what it generates is.

use std::sync::Arc;

use cellpace_base::statistics::quantile;
use cellpace_base::{Random, Span, Time};
use cellpace_path::fit::{FitError, fit};
use cellpace_path::fit_steps::{fit_loss, fit_rtt, seconds_of_losses, seconds_of_rtts};
use cellpace_path::profile::LinkProfile;
use cellpace_path::schedule::Trace;
use cellpace_path::stats::{StatsRow, compare};
use cellpace_path::steps::Level;
use cellpace_path::{DelaySpec, LossSpec, Steps, TraceSpec};

use super::source::load_trace;
use crate::{LabError, trace_files};

/// What a profile is fitted to.
#[derive(Debug, Clone)]
pub struct FitSource {
    /// When the link delivered.
    pub trace: Arc<Trace>,
    /// The RTT over time, if it is fitted as well.
    pub rtt: Option<Steps<Span>>,
    /// The share of loss over time, if it is fitted as well.
    pub loss: Option<Steps<f64>>,
}

impl FitSource {
    /// Reads a trace, and RTTs and losses: those of the same file, or of other recordings, in the form of the options
    /// `--rtt` and `--loss`.
    ///
    /// # Errors
    /// When one of them does not read, or is no recording.
    pub fn read(trace: &str, rtt: Option<&str>, loss: Option<&str>) -> Result<Self, LabError> {
        let mut files = trace_files();
        let wanted = |option: &str, text: &str| {
            let why = format!("{option}: `{text}` is no recording; write file:NAME");
            text.strip_prefix("file:").ok_or(LabError::Invalid(why)).map(|_| ())
        };
        rtt.map_or(Ok(()), |text| wanted("--rtt", text))?;
        loss.map_or(Ok(()), |text| wanted("--loss", text))?;
        let spec = TraceSpec::parse(trace, &mut files).map_err(LabError::invalid)?;
        let beside = match spec.trace() {
            Some(_) => Some(files.recording(trace.trim()).map_err(LabError::invalid)?),
            None => None,
        };
        if let Some(problem) = beside.as_ref().and_then(|beside| beside.problem.clone()) {
            return Err(LabError::invalid(problem));
        }
        let rtt = rtt.map(|text| DelaySpec::parse(text, &mut files)).transpose();
        let loss = loss.map(|text| LossSpec::parse(text, &mut files)).transpose();
        let (rtt, loss) = (rtt.map_err(LabError::invalid)?, loss.map_err(LabError::invalid)?);
        let recorded = beside.as_ref().map(|beside| Ok(Arc::clone(&beside.trace)));
        let recorded = recorded.unwrap_or_else(|| load_trace(trace, None, 1));
        let (own_rtt, own_loss) = beside.map_or((None, None), |it| (it.rtt, it.loss));
        Ok(Self {
            trace: recorded.map_err(LabError::invalid)?,
            rtt: rtt.map(|rtt| rtt.steps().clone()).or(own_rtt),
            loss: loss.and_then(|loss| loss.steps().cloned()).or(own_loss),
        })
    }

    /// The profile.
    ///
    /// # Errors
    /// When the trace is too short, or does not change.
    pub fn fit(&self) -> Result<LinkProfile, FitError> {
        let (rtt, loss) = (self.rtt.as_ref().map(fit_rtt), self.loss.as_ref().map(fit_loss));
        Ok(fit(&self.trace)?.with_path(rtt, loss))
    }

    /// Figures of RTTs and losses beside those that the profile draws for as long.
    fn compare_path(&self, profile: &LinkProfile, seeds: u32) -> Vec<StatsRow> {
        let mut rows = Vec::new();
        if let (Some(source), Some(drawn)) = (&self.rtt, profile.rtt()) {
            let source = seconds_of_rtts(source);
            let generated = drawn_seconds(drawn, source.len(), seeds, Span::as_millis_f64);
            let figures =
                [("base RTT p5 ms", 0.05), ("base RTT p50 ms", 0.5), ("base RTT p95 ms", 0.95)];
            rows.extend(figures.map(|(what, level)| StatsRow {
                what,
                left: level_of(&source, level),
                right: level_of(&generated, level),
            }));
        }
        if let (Some(source), Some(drawn)) = (&self.loss, profile.loss()) {
            let source = seconds_of_losses(source);
            let generated = drawn_seconds(drawn, source.len(), seeds, |share| share);
            let mean =
                |shares: &[f64]| 100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            rows.push(StatsRow {
                what: "loss mean %",
                left: mean(&source),
                right: mean(&generated),
            });
        }
        rows
    }
}

/// The value of each second that a draw has with each of the seeds.
fn drawn_seconds<T: Level>(
    drawn: &Steps<T>,
    seconds: usize,
    seeds: u32,
    number: impl Fn(T) -> f64,
) -> Vec<f64> {
    let one = |seed: u32| {
        let mut walk = drawn.walk(&mut Random::seeded(seed.into(), 0));
        (0..seconds as u64).map(|at| number(walk.at(Time::from_secs(at)))).collect::<Vec<_>>()
    };
    (1..=seeds).flat_map(one).collect()
}

fn level_of(values: &[f64], level: f64) -> f64 {
    let mut ranked = values.to_vec();
    ranked.sort_by(f64::total_cmp);
    if ranked.is_empty() { f64::NAN } else { quantile(&ranked, level) }
}

/// Generated traces are as long as the source, up to this: a mean over seeds does not gain
/// from more.
const MAX_GENERATED: Span = Span::from_secs(3600);
/// Rates of a log may differ a hundredfold for seconds, so their mean over a few minutes says little:
/// each generated trace has this many opportunities then.
const MIN_OPPORTUNITIES: f64 = 3e6;

/// Returns the figures of the source beside the mean of those of `seeds` traces that the profile
/// generates; calls `step` after each.
pub fn compare_fit(
    fitted: &FitSource,
    profile: &LinkProfile,
    seeds: u32,
    mut step: impl FnMut(),
) -> Vec<StatsRow> {
    let source = &*fitted.trace;
    let length = generated_length(source, profile);
    let mut rows: Vec<StatsRow> = Vec::new();
    // The same seeds for every source, so that a fit that is repeated prints the same figures.
    for seed in 1..=u64::from(seeds) {
        let one = compare(source, &profile.generate(seed, length));
        if rows.is_empty() {
            rows = one;
        } else {
            rows.iter_mut().zip(one).for_each(|(sum, row)| sum.right += row.right);
        }
        step();
    }
    rows.iter_mut().for_each(|row| row.right /= f64::from(seeds));
    rows.extend(fitted.compare_path(profile, seeds));
    rows
}

fn generated_length(source: &Trace, profile: &LinkProfile) -> Span {
    let period = source.period();
    // A recording of packets says enough in its own length; a log of rates needs more.
    if profile.has_bursts() {
        return period.min(MAX_GENERATED);
    }
    let per_second = source.millis().len() as f64 / period.as_secs_f64();
    period.max(Span::from_secs_f64(MIN_OPPORTUNITIES / per_second)).min(MAX_GENERATED)
}

/// By how much a generated mean may differ from the source's: ten traces of some minutes whose rate
/// remembers 30 s differ by a tenth.
const MAX_CHANGE: f64 = 0.2;
/// The same for the 95th percentile of the rate, which varies more.
const MAX_PEAK_CHANGE: f64 = 0.5;
/// The same for the RTT and the loss that are drawn anew every so often.
const MAX_PATH_CHANGE: f64 = 0.2;

/// Returns a sentence for each figure of [`compare_fit`] in which the profile is unlike its source:
/// the mean rate, the highest rates, the base RTT, and the loss.
pub fn fit_warnings(rows: &[StatsRow]) -> Vec<String> {
    let limits = [
        ("mean Mbit/s", MAX_CHANGE),
        ("1-s rate p95 Mbit/s", MAX_PEAK_CHANGE),
        ("base RTT p50 ms", MAX_PATH_CHANGE),
        ("base RTT p95 ms", MAX_PATH_CHANGE),
        ("loss mean %", MAX_PATH_CHANGE),
    ];
    let is_unlike = |row: &&StatsRow| {
        let limit = limits.iter().find(|(what, _)| *what == row.what);
        limit.zip(row.change()).is_some_and(|((_, limit), change)| change.abs() > *limit)
    };
    let sentence = |row: &StatsRow| {
        format!(
            "this profile is unlike its trace: {} of what it generates is {:.2}, of the trace {:.2}",
            row.what, row.right, row.left
        )
    };
    rows.iter().filter(is_unlike).map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_is_unlike_its_trace_is_named() {
        let row = |what, left, right| StatsRow { what, left, right };
        let rows = |mean, peak| {
            [
                row("mean Mbit/s", 73.6, mean),
                row("1-s rate p95 Mbit/s", 200.0, peak),
                row("burst size mean", 1.0, 9.0),
            ]
        };
        assert_eq!(fit_warnings(&rows(80.0, 250.0)), Vec::<String>::new());
        assert_eq!(
            fit_warnings(&rows(418.0, 250.0)),
            [
                "this profile is unlike its trace: mean Mbit/s of what it generates is 418.00, of the \
              trace 73.60"
            ]
        );
        assert_eq!(fit_warnings(&rows(50.0, 1000.0)).len(), 2);
    }
}
