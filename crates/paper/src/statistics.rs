//! Statistics of pairs of values.

use cellpace_base::statistics::mean;

/// Spearman's rank correlation; not a number where one side does not vary.
pub(crate) fn spearman(x: &[f64], y: &[f64]) -> f64 {
    correlation(&ranks(x), &ranks(y))
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        below + f64::midpoint(equal, 1.0)
    };
    values.iter().map(rank).collect()
}

/// Pearson's correlation.
fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let (mean_x, mean_y) = (mean(x.iter().copied()), mean(y.iter().copied()));
    let products = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    let square =
        |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    products / (square(x, mean_x) * square(y, mean_y)).sqrt()
}
