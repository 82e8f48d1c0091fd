//! Means and quantiles.

use crate::Random;

/// Returns the mean; NaN when there are no values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let add = |(sum, count), value| (sum + value, count + 1.0);
    let (sum, count) = values.into_iter().fold((0.0, 0.0), add);
    sum / count
}

/// Returns the quantile of sorted values at `level` (0 to 1), linear between order statistics;
/// 0 when there are no values.
pub fn quantile<T: Copy + Into<f64>>(sorted: &[T], level: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let rank = level * last as f64;
    let below: f64 = sorted[rank as usize].into();
    let above: f64 = sorted[(rank.ceil() as usize).min(last)].into();
    below + (rank - rank.floor()) * (above - below)
}

/// Returns the value of nearest rank at `level` (0 to 1): the smallest one that is not exceeded by
/// at least that share of the values. `None` when there are none. Reorders them.
pub fn nearest_rank<T: Copy + Into<f64>>(values: &mut [T], level: f64) -> Option<T> {
    let rank = (values.len() as f64 * level).ceil() as usize;
    let index = rank.max(1) - 1;
    if index >= values.len() {
        return None;
    }
    let order = |a: &T, b: &T| f64::total_cmp(&(*a).into(), &(*b).into());
    let (_, value, _) = values.select_nth_unstable_by(index, order);
    Some(*value)
}

/// Returns the place of each value from the least on, 1 the first. Equal values share the mean of their places, and NaN
/// counts as the largest.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let worth = |at: &usize| if values[*at].is_nan() { f64::INFINITY } else { values[*at] };
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for same in order.chunk_by(|a, b| worth(a) == worth(b)) {
        let place = before as f64 + (same.len() + 1) as f64 / 2.0;
        same.iter().for_each(|at| ranks[*at] = place);
        before += same.len();
    }
    ranks
}

/// Values of each side without which there is no interval of a difference.
const MIN_VALUES: usize = 8;

/// How often values are drawn again: fewer times where there are many.
const MAX_RESAMPLES: usize = 1000;
const MIN_RESAMPLES: usize = 200;
const MAX_DRAWN: usize = 10_000_000;

/// Returns the interval that holds the median of `b` less that of `a` in 95 of 100 such experiments, by a bootstrap: the
/// values of each side are drawn again, independently of the other's. `None` of fewer than eight values a side.
pub fn median_difference(a: &[f64], b: &[f64]) -> Option<[f64; 2]> {
    if a.len().min(b.len()) < MIN_VALUES {
        return None;
    }
    let mut random = Random::seeded(1, 0);
    let resamples = (MAX_DRAWN / (a.len() + b.len())).clamp(MIN_RESAMPLES, MAX_RESAMPLES);
    let mut median = |values: &[f64]| {
        let draw = |_| values[random.below(values.len() as u64) as usize];
        let mut drawn: Vec<f64> = (0..values.len()).map(draw).collect();
        nearest_rank(&mut drawn, 0.5)
    };
    let differences = (0..resamples).filter_map(|_| Some(median(b)? - median(a)?));
    let mut differences: Vec<f64> = differences.collect();
    differences.sort_by(f64::total_cmp);
    Some([0.025, 0.975].map(|level| quantile(&differences, level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_order_statistics() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1_u32, 2, 4], 0.75), 3.0);
        assert_eq!((quantile(&[1_u32, 9], 0.0), quantile(&[1_u32, 9], 1.0)), (1.0, 9.0));
        assert_eq!(quantile::<f64>(&[], 0.5), 0.0);
    }

    #[test]
    fn the_nearest_rank_is_one_of_the_values() {
        let mut values = [30_u32, 10, 20, 40];
        assert_eq!(
            [0.0, 0.5, 0.51, 1.0].map(|level| nearest_rank(&mut values, level)),
            [10, 20, 30, 40].map(Some)
        );
        assert_eq!(nearest_rank(&mut [2.0_f32, 1.0, 3.0], 0.5), Some(2.0));
        assert_eq!(nearest_rank::<u32>(&mut [], 0.5), None);
    }

    #[test]
    fn equal_values_share_the_mean_of_their_places() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, f64::NAN, 0.0, -0.0]), [4.5, 3.0, 4.5, 6.0, 1.5, 1.5]);
        assert!(ranks(&[]).is_empty());
    }

    #[test]
    fn the_difference_of_medians_has_an_interval_that_holds_it() {
        let values = |from: f64| (0..101).map(|i| from + f64::from(i)).collect::<Vec<_>>();
        let [low, high] = median_difference(&values(0.0), &values(200.0)).unwrap();
        assert!(low < 200.0 && 200.0 < high && high - low < 60.0, "{low} to {high}");
        let [low, high] = median_difference(&values(0.0), &values(0.0)).unwrap();
        assert!(low < 0.0 && 0.0 < high, "{low} to {high}");
        assert_eq!(median_difference(&[1.0; 7], &values(0.0)), None);
        assert_eq!(median_difference(&[1.0; 8], &[3.0; 8]), Some([2.0, 2.0]));
    }

    #[test]
    fn the_mean_of_nothing_is_no_number() {
        assert_eq!(mean([1.0, 2.0, 6.0]), 3.0);
        assert!(mean([]).is_nan());
    }
}
