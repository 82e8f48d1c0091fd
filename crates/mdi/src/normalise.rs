//! Counts to probabilities, for exports and pictures. What runs stays in integers.

/// A smaller share of its subset than this was left out by the 2021 code (docs/spec/mdi.md 3).
pub const PRUNE: f64 = 0.02;

/// The probabilities of the cells of a subset or a row: each count over the sum of all. Shares
/// below `prune` (0: none) become 0 and the rest is divided by its sum again (docs/spec/mdi.md 3).
/// The most frequent always stay, so that only what was never seen becomes all
/// zero.
pub fn normalise(counts: &[u64], prune: f64) -> Vec<f64> {
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.map(u128::from).sum::<u128>() as f64;
    let least = prune * sum(&mut counts.iter().copied());
    let largest = counts.iter().copied().max().unwrap_or(0);
    let stays = |count: u64| count as f64 >= least || count == largest;
    let total = sum(&mut counts.iter().copied().filter(|count| stays(*count)));
    let share = |count: &u64| if stays(*count) && *count > 0 { *count as f64 / total } else { 0.0 };
    counts.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn assert_near(values: &[f64], expected: &[f64]) {
        assert_eq!(values.len(), expected.len());
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-6, "{values:?}");
        }
    }

    #[test]
    fn mdi_t5_small_shares_are_left_out() {
        assert_near(&normalise(&[1, 49, 50, 0], PRUNE), &[0.0, 0.494_949, 0.505_051, 0.0]);
        assert_near(&normalise(&[1, 1, 98], PRUNE), &[0.0, 0.0, 1.0]);
    }

    #[test]
    fn mdi_t5_a_block_of_zeros_stays_zero() {
        assert_eq!(normalise(&[0, 0, 0], PRUNE), [0.0; 3]);
        assert_eq!(normalise(&[], PRUNE), [0.0; 0]);
    }

    #[test]
    fn a_share_of_exactly_the_limit_stays() {
        assert_eq!(normalise(&[2, 98], PRUNE), [0.02, 0.98]);
        assert_eq!(normalise(&[2, 98], 0.0), [0.02, 0.98]);
        assert_eq!(normalise(&[1, 99], 0.0), [0.01, 0.99]);
    }

    #[test]
    fn pruning_never_empties_a_subset() {
        let even = normalise(&[1; 100], PRUNE);
        assert!(even.iter().all(|share| *share == 0.01));
        assert_eq!(normalise(&[u64::MAX, u64::MAX], PRUNE), [0.5, 0.5]);
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one(
            counts in prop::collection::vec(any::<u64>(), 0..60),
            prune in 0.0..1.0,
        ) {
            let shares = normalise(&counts, prune);
            let sum: f64 = shares.iter().sum();
            let expected = if counts.iter().all(|count| *count == 0) { 0.0 } else { 1.0 };
            prop_assert!((sum - expected).abs() < 1e-9, "{sum}");
            prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }
}
