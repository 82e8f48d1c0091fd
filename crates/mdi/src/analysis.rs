//! What a chain is like: how full, where it stays (docs/spec/mdi.md 3, "Analysis by-products", and
//! section 6.2 of the paper). For people only; floating
//! point, and bounded work.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Counts, Levels, Relative, States, TransitionCount};

/// Multiplications for a stationary distribution at most: about a second.
const STATIONARY_WORK: u64 = 400_000_000;

/// A stationary distribution has been found when a step changes no probability by more.
const SETTLED: f64 = 1e-12;

/// Figures of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// States, m of Eq. 6, MDI.
    pub states: u32,
    /// Different transitions that were seen: cells of the matrix that are not zero.
    pub cells: u64,
    /// Transitions counted.
    pub transitions: u64,
    /// Cells over the square of the states.
    pub density: f64,
    /// States from which nothing was ever seen to lead on.
    pub unseen_rows: u32,
    /// Subsets: a state, and a delay that follows.
    pub subsets: u64,
    /// Those without a cell, for which a walk must look elsewhere.
    pub empty_subsets: u64,
    /// Those with one cell, which leave a walk no choice.
    pub single_subsets: u64,
    /// States by how many transitions lead on from them, the most first, then by number.
    pub most_used: Vec<(u32, u64)>,
}

impl Analysis {
    /// Counts everything that needs no iteration; lists at most `most_used` states.
    pub fn of(states: &States, counts: &Counts, most_used: usize) -> Self {
        let cells = counts.cells();
        let rows = cells.chunk_by(|a, b| a.from == b.from);
        let mut used: Vec<(u32, u64)> = rows
            .map(|row| {
                (row[0].from, row.iter().fold(0, |sum: u64, cell| sum.saturating_add(cell.count)))
            })
            .collect();
        let unseen_rows = states.len() - used.len() as u32;
        used.sort_unstable_by_key(|(state, count)| (Reverse(*count), *state));
        used.truncate(most_used);
        let delay = |to| states.delay_of(to);
        let blocks = cells.chunk_by(|a, b| (a.from, delay(a.to)) == (b.from, delay(b.to)));
        let (filled, single) = blocks.fold((0, 0), |(filled, single), block| {
            (filled + 1, single + u64::from(block.len() == 1))
        });
        let (m, subsets) = (states.len(), u64::from(states.len()) * u64::from(states.delays()));
        Self {
            states: m,
            cells: cells.len() as u64,
            transitions: counts.total(),
            density: cells.len() as f64 / f64::from(m).powi(2),
            unseen_rows,
            subsets,
            empty_subsets: subsets - filled,
            single_subsets: single,
            most_used: used,
        }
    }
}

impl States {
    /// The delay with this index: the lower end of its bin in ms, the change, or the ratio to the
    /// base delay.
    pub fn delay_value(&self, delay: u32) -> f64 {
        match self {
            Self::Absolute(states) => f64::from(states.d_min + delay * states.quantization),
            Self::Relative(states) => states.d.value(delay) as f64 / 1000.0,
            Self::Levels(states) => 10_f64.powf(states.d.value(delay) as f64 / 1000.0),
        }
    }

    /// The window with this index: packets, or the change.
    pub fn window_value(&self, window: u32) -> f64 {
        match self {
            Self::Absolute(states) => f64::from(states.w_min + window),
            Self::Relative(Relative { w, .. }) | Self::Levels(Levels { w, .. }) => {
                w.value(window) as f64 / 1000.0
            }
        }
    }
}

/// Where a chain is in the long run.
#[derive(Debug, Clone, PartialEq)]
pub struct Stationary {
    /// The share of time of each state.
    pub shares: Vec<f64>,
    /// Steps taken.
    pub steps: u32,
    /// The largest change of the last step; above 1e-12 where the work had to be bounded.
    pub change: f64,
}

/// The matrix by whole rows: each divided by its sum, those never seen uniform.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionMatrix {
    states: u32,
    /// Where the states lead that were seen to lead anywhere, and with which probabilities.
    rows: BTreeMap<u32, Vec<(u32, f64)>>,
}

impl TransitionMatrix {
    /// Normalises every row.
    pub fn new(states: &States, counts: &Counts) -> Self {
        let row = |cells: &[TransitionCount]| {
            let total = cells.iter().map(|cell| cell.count as f64).sum::<f64>();
            let row = cells.iter().map(|cell| (cell.to, cell.count as f64 / total)).collect();
            (cells[0].from, row)
        };
        let rows = counts.cells().chunk_by(|a, b| a.from == b.from);
        Self { states: states.len(), rows: rows.map(row).collect() }
    }

    /// Returns where a state leads, and with which probabilities; nothing if it was never seen, which
    /// counts as leading everywhere.
    pub fn row(&self, state: u32) -> &[(u32, f64)] {
        self.rows.get(&state).map_or(&[], Vec::as_slice)
    }

    /// One step: `next` becomes `now` times the matrix. Returns the largest change.
    fn step(&self, now: &[f64], next: &mut [f64]) -> f64 {
        let seen: f64 = self.rows.keys().map(|state| now[*state as usize]).sum();
        let everywhere = (now.iter().sum::<f64>() - seen).max(0.0);
        next.fill(everywhere / f64::from(self.states));
        for (state, row) in &self.rows {
            let share = now[*state as usize];
            for (to, probability) in row {
                next[*to as usize] += share * probability;
            }
        }
        now.iter().zip(next).fold(0.0, |change, (now, next)| (*next - now).abs().max(change))
    }

    /// The leading left eigenvector, by power iteration from an even distribution. Half of every
    /// step stays where it is, which changes nothing about the result, and lets a chain settle
    /// that goes round in circles. Where a chain falls into parts that never meet, each part
    /// keeps the share that it began with.
    pub fn stationary(&self) -> Stationary {
        let entries: usize = self.rows.values().map(Vec::len).sum();
        let work = entries as u64 + 4 * u64::from(self.states);
        let max_steps = (STATIONARY_WORK / work).clamp(1, 1_000_000) as u32;
        let mut now = vec![1.0 / f64::from(self.states); self.states as usize];
        let mut next = now.clone();
        let (mut steps, mut change) = (0, f64::INFINITY);
        while steps < max_steps && change > SETTLED {
            change = self.step(&now, &mut next) / 2.0;
            steps += 1;
            now.iter_mut().zip(&next).for_each(|(now, next)| *now = (*now + next) / 2.0);
        }
        Stationary { shares: now, steps, change }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Absolute, Axis, Relative};
    use proptest::prelude::*;

    /// Delays of one window each.
    fn line(states: u32) -> States {
        let d_max = 20 + states - 1;
        States::Absolute(Absolute { d_min: 20, d_max, quantization: 1, w_min: 1, w_max: 1 })
    }

    fn counts(cells: &[(u32, u32, u64)]) -> Counts {
        let cell = |&(from, to, count): &(u32, u32, u64)| TransitionCount { from, to, count };
        Counts::from_cells(cells.iter().map(cell).collect())
    }

    fn matrix(states: u32, cells: &[(u32, u32, u64)]) -> TransitionMatrix {
        TransitionMatrix::new(&line(states), &counts(cells))
    }

    #[track_caller]
    fn assert_near(values: &[f64], expected: &[f64]) {
        assert_eq!(values.len(), expected.len());
        for (value, expected) in values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-9, "{values:?}, not {expected:?}");
        }
    }

    #[test]
    fn cells_rows_and_subsets_are_counted() {
        let axis = |name, steps: i64| Axis::new(name, 0, (steps - 1) * 1000, 1000).unwrap();
        let states = States::Relative(Relative { d: axis("delay", 2), w: axis("window", 3) });
        let counts = counts(&[(0, 0, 5), (0, 2, 1), (0, 3, 1), (2, 5, 9), (3, 3, 7)]);
        let analysis = Analysis::of(&states, &counts, 2);
        assert_eq!((analysis.states, analysis.cells, analysis.transitions), (6, 5, 23));
        assert!((analysis.density - 5.0 / 36.0).abs() < 1e-12);
        assert_eq!(analysis.unseen_rows, 3);
        assert_eq!((analysis.subsets, analysis.empty_subsets), (12, 8));
        assert_eq!(analysis.single_subsets, 3);
        // 0 and 3 have seven each.
        assert_eq!(analysis.most_used, [(2, 9), (0, 7)]);
    }

    #[test]
    fn states_have_values() {
        let absolute = Absolute { d_min: 20, d_max: 727, quantization: 10, w_min: 1, w_max: 35 };
        let states = States::Absolute(absolute);
        assert_eq!((states.delay_value(2), states.window_value(2)), (40.0, 3.0));
        let axis = |min| Axis::new("delay", min, 2000, 500).unwrap();
        let states = States::Relative(Relative { d: axis(-1000), w: axis(0) });
        assert_eq!((states.delay_value(1), states.window_value(1)), (-0.5, 0.5));
    }

    #[test]
    fn a_chain_of_two_states_by_hand() {
        // Leaves the first with 1/4, the second with 1/2: 2/3 and 1/3 of the time.
        let matrix = matrix(2, &[(0, 0, 3), (0, 1, 1), (1, 0, 1), (1, 1, 1)]);
        let stationary = matrix.stationary();
        assert_near(&stationary.shares, &[2.0 / 3.0, 1.0 / 3.0]);
        assert!(stationary.change <= 1e-12);
    }

    #[test]
    fn a_periodic_chain_settles() {
        let matrix = matrix(3, &[(0, 1, 1), (1, 2, 1), (2, 0, 1)]);
        assert_near(&matrix.stationary().shares, &[1.0 / 3.0; 3]);
    }

    #[test]
    fn a_periodic_chain_with_uneven_shares_settles_too() {
        // A star: the middle every other step.
        let matrix = matrix(3, &[(0, 1, 1), (0, 2, 3), (1, 0, 1), (2, 0, 1)]);
        assert_near(&matrix.stationary().shares, &[0.5, 0.125, 0.375]);
    }

    #[test]
    fn an_unseen_row_leads_everywhere() {
        // From the second, to both with 1/2: as if it were (1, 0, 1), (1, 1, 1).
        let unseen = matrix(2, &[(0, 0, 3), (0, 1, 1)]);
        assert_near(&unseen.stationary().shares, &[2.0 / 3.0, 1.0 / 3.0]);
        let nothing = matrix(5, &[]);
        assert_near(&nothing.stationary().shares, &[0.2; 5]);
    }

    #[test]
    fn the_work_for_large_chains_is_bounded() {
        // A slow walk along a line at the size of the paper's largest matrix.
        let step =
            |state: u32| [(state, (state + 1).min(25_487), 1), (state, state.saturating_sub(1), 1)];
        let cells: Vec<_> = (0..25_488).flat_map(step).collect();
        let stationary = matrix(25_488, &cells).stationary();
        assert_near(&[stationary.shares.iter().sum()], &[1.0]);
    }

    proptest! {
        #[test]
        fn a_stationary_distribution_stays_as_it_is(
            cells in prop::collection::vec((0_u32..12, 0_u32..12, 1_u64..1000), 0..60),
        ) {
            let matrix = matrix(12, &cells);
            let found = matrix.stationary();
            let sum: f64 = found.shares.iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            let mut next = found.shares.clone();
            // Chains that hardly mix are left where a million steps have brought them.
            prop_assert!(found.change < 1e-8, "{found:?}");
            // Half of a step was tried; a whole one changes twice as much.
            prop_assert!(matrix.step(&found.shares, &mut next) < 3.0 * found.change + 1e-12);
        }
    }
}
