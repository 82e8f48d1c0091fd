//! A profile from a trace, and how like the trace what it generates is.

use cellpace_base::Span;
use cellpace_path::profile::LinkProfile;
use cellpace_path::schedule::Trace;
use cellpace_path::stats::{StatsRow, compare};

/// Generated traces are as long as the source, up to this: a mean over seeds does not gain
/// from more.
const MAX_GENERATED: Span = Span::from_secs(3600);

/// Returns the figures of the source beside the mean of those of `seeds` traces that the profile
/// generates; calls `step` after each.
pub fn compare_fit(
    source: &Trace,
    profile: &LinkProfile,
    seeds: u32,
    mut step: impl FnMut(),
) -> Vec<StatsRow> {
    let length = source.period().min(MAX_GENERATED);
    let mut rows: Vec<StatsRow> = Vec::new();
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
