//! Weighted max-min fairness.

/// One flow's claim to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WindowClaim {
    pub(super) weight: u32,
    /// Bytes that it could use.
    pub(super) demand: u64,
    /// Bytes that it gets.
    pub(super) share: u64,
}

/// Divides `window` by weighted max-min fairness: no member gets more than it can use, and what that
/// leaves over goes to the others in the proportion of their weights. The shares never sum up to
/// more than the window.
pub(super) fn divide(window: u64, claims: &mut [WindowClaim]) {
    let mut left = u128::from(window);
    let mut weights: u128 = claims.iter().map(|claim| u128::from(claim.weight)).sum();
    for claim in &mut *claims {
        claim.share = u64::MAX;
    }
    loop {
        let (level, of) = (left, weights.max(1));
        let mut contented = false;
        for claim in claims.iter_mut().filter(|claim| claim.share == u64::MAX) {
            let fair = level * u128::from(claim.weight) / of;
            if u128::from(claim.demand) <= fair {
                claim.share = claim.demand;
                left -= u128::from(claim.demand);
                weights -= u128::from(claim.weight);
                contented = true;
            }
        }
        if !contented {
            break;
        }
    }
    for claim in claims.iter_mut().filter(|claim| claim.share == u64::MAX) {
        claim.share = (left * u128::from(claim.weight) / weights.max(1)) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(window: u64, claims: &[(u32, u64)]) -> Vec<u64> {
        let claim = |&(weight, demand)| WindowClaim { weight, demand, share: 0 };
        let mut claims: Vec<WindowClaim> = claims.iter().map(claim).collect();
        divide(window, &mut claims);
        claims.iter().map(|claim| claim.share).collect()
    }

    #[test]
    fn the_window_is_divided_by_weight() {
        assert_eq!(shares(400, &[(1, 1000), (1, 1000), (2, 1000)]), [100, 100, 200]);
    }

    #[test]
    fn an_idle_flows_share_goes_to_the_others() {
        assert_eq!(shares(400, &[(1, 1000), (1, 1000), (2, 0)]), [200, 200, 0]);
        assert_eq!(shares(400, &[(1, 1000), (1, 1000), (2, 40)]), [180, 180, 40]);
    }

    #[test]
    fn what_is_left_over_twice_is_divided_twice() {
        // 10 is content at once; 95 only when that has raised the level from 75 to 97.
        assert_eq!(shares(300, &[(1, 10), (1, 95), (1, 1000), (1, 1000)]), [10, 95, 97, 97]);
    }

    proptest! {
        #[test]
        fn max_min_fairness_holds(
            window in 0..1u64 << 50,
            claims in prop::collection::vec((1u32..100, 0u64..1 << 40), 1..20),
        ) {
            let shares = shares(window, &claims);
            prop_assert!(shares.iter().map(|share| u128::from(*share)).sum::<u128>() <= window.into());
            // Who does not get all it could use gets, for its weight, no less than anybody.
            for (at, (weight, demand)) in claims.iter().enumerate() {
                prop_assert!(shares[at] <= *demand);
                if shares[at] == *demand {
                    continue;
                }
                for (other, (other_weight, _)) in claims.iter().enumerate() {
                    let own = u128::from(shares[at] + 1) * u128::from(*other_weight);
                    prop_assert!(own + u128::from(*other_weight) >= u128::from(shares[other]) * u128::from(*weight));
                }
            }
        }
    }
}
