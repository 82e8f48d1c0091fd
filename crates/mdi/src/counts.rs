//! How often which state followed which.

use crate::{Chain, States};

/// One transition and how often it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransitionCount {
    /// The state before.
    pub from: u32,
    /// The state after.
    pub to: u32,
    /// How often; never 0.
    pub count: u64,
}

/// Counts of transitions, sparse: at most one cell per transition seen, sorted by `from`, then
/// `to`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    cells: Vec<TransitionCount>,
}

impl Counts {
    /// Counts the [transitions](States::count_transitions) of chains.
    pub fn of(states: &States, chains: &[Chain], rejoin: Option<usize>) -> Self {
        let mut seen: Vec<u64> = Vec::with_capacity(chains.iter().map(Vec::len).sum());
        for chain in chains {
            states.count_transitions(chain, rejoin, |from, to| {
                seen.push(u64::from(from) << 32 | u64::from(to));
            });
        }
        seen.sort_unstable();
        let cell = |run: &[u64]| TransitionCount {
            from: (run[0] >> 32) as u32,
            to: run[0] as u32,
            count: run.len() as u64,
        };
        Self { cells: seen.chunk_by(|a, b| a == b).map(cell).collect() }
    }

    /// Takes cells in any order; the same transition twice adds up, a count of 0 is dropped.
    pub fn from_cells(mut cells: Vec<TransitionCount>) -> Self {
        // Stable, because that sort is fast where sorted pieces stand one after the other.
        cells.sort_by_key(|cell| u64::from(cell.from) << 32 | u64::from(cell.to));
        cells.dedup_by(|next, kept| {
            let same = (next.from, next.to) == (kept.from, kept.to);
            if same {
                kept.count = kept.count.saturating_add(next.count);
            }
            same
        });
        cells.retain(|cell| cell.count > 0);
        Self { cells }
    }

    /// The cells, sorted by `from`, then `to`.
    pub fn cells(&self) -> &[TransitionCount] {
        &self.cells
    }

    /// The cells of one state, sorted by `to`.
    pub fn row(&self, from: u32) -> &[TransitionCount] {
        let start = self.cells.partition_point(|cell| cell.from < from);
        let end = self.cells.partition_point(|cell| cell.from <= from);
        &self.cells[start..end]
    }

    /// Both together.
    pub fn merged(&self, other: &Self) -> Self {
        Self::from_cells([self.cells.as_slice(), &other.cells].concat())
    }

    /// All transitions counted.
    pub fn total(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Absolute, Sample};
    use proptest::prelude::*;

    fn cells(list: &[(u32, u32, u64)]) -> Vec<TransitionCount> {
        list.iter().map(|&(from, to, count)| TransitionCount { from, to, count }).collect()
    }

    #[test]
    fn mdi_t9_counts_of_a_sequence() {
        let states = Absolute { d_min: 20, d_max: 727, quantization: 1, w_min: 0, w_max: 35 };
        let sample = |d: u32, sent| Sample { delay_us: d * 1000, window: 1 << 16, sent };
        let chain = vec![sample(20, 1), sample(20, 1), sample(21, 2), sample(20, 1)];
        let counts = Counts::of(&States::Absolute(states), &[chain], None);
        assert_eq!(counts.cells(), cells(&[(1, 1, 1), (1, 38, 1), (38, 1, 1)]));
        assert_eq!(counts.row(1).len(), 2);
        assert_eq!(counts.row(2).len(), 0);
        assert_eq!(counts.total(), 3);
    }

    #[test]
    fn cells_in_any_order_add_up() {
        let counts = Counts::from_cells(cells(&[(3, 1, 2), (0, 0, 0), (3, 1, 5), (1, 9, 1)]));
        assert_eq!(counts.cells(), cells(&[(1, 9, 1), (3, 1, 7)]));
    }

    proptest! {
        #[test]
        fn merging_is_exact_whatever_the_order(
            a in prop::collection::vec((0_u32..20, 0_u32..20, 1_u64..9), 0..40),
            b in prop::collection::vec((0_u32..20, 0_u32..20, 1_u64..9), 0..40),
        ) {
            let (a, b) = (Counts::from_cells(cells(&a)), Counts::from_cells(cells(&b)));
            let both = a.merged(&b);
            prop_assert_eq!(&both, &b.merged(&a));
            prop_assert_eq!(both.total(), a.total() + b.total());
            prop_assert!(both.cells().is_sorted_by_key(|cell| (cell.from, cell.to)));
        }
    }
}
