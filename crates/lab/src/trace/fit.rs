//! A profile from a trace, and how like the trace what it generates is.

use cellpace_base::Span;
use cellpace_path::profile::LinkProfile;
use cellpace_path::schedule::Trace;
use cellpace_path::stats::{StatsRow, compare};

/// Generated traces are as long as the source, up to this: a mean over seeds does not gain
/// from more.
const MAX_GENERATED: Span = Span::from_secs(3600);
/// Rates of a log may differ a hundredfold for seconds, so their mean over a few minutes says little:
/// each generated trace has this many opportunities then.
const MIN_OPPORTUNITIES: f64 = 3e6;

/// Returns the figures of the source beside the mean of those of `seeds` traces that the profile
/// generates; calls `step` after each.
pub fn compare_fit(
    source: &Trace,
    profile: &LinkProfile,
    seeds: u32,
    mut step: impl FnMut(),
) -> Vec<StatsRow> {
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

/// Returns a sentence for each figure of [`compare_fit`] in which the profile is unlike its source:
/// the mean rate, and the highest rates.
pub fn fit_warnings(rows: &[StatsRow]) -> Vec<String> {
    let limits = [("mean Mbit/s", MAX_CHANGE), ("1-s rate p95 Mbit/s", MAX_PEAK_CHANGE)];
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
