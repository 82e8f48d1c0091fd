//! Fairness.

/// Jain's fairness index of the flows' throughputs: 1 when all are equal, `1/n` when one has
/// everything (Eq. 7 of the Verus paper). 1 when no flow got anything.
pub fn jain_index(throughputs: &[f64]) -> f64 {
    let sum: f64 = throughputs.iter().sum();
    let squares: f64 = throughputs.iter().map(|x| x * x).sum();
    if squares == 0.0 {
        return 1.0;
    }
    // Eq. 7, Verus
    sum * sum / (throughputs.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_index_lies_between_one_share_and_all_and_knows_no_unit(
            throughputs in prop::collection::vec(0.0..1e9, 1..50),
            unit in 1e-6..1e6,
        ) {
            let index = jain_index(&throughputs);
            let least = 1.0 / throughputs.len() as f64;
            prop_assert!((least - 1e-12..=1.0 + 1e-12).contains(&index), "{index}");
            let scaled: Vec<f64> = throughputs.iter().map(|x| x * unit).collect();
            prop_assert!((jain_index(&scaled) - index).abs() < 1e-9);
        }
    }

    #[test]
    fn verus_eq_7() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain_index(&[9.0, 0.0, 0.0]), 1.0 / 3.0);
        assert!((jain_index(&[1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!(jain_index(&[0.0, 0.0]), 1.0);
    }
}
