//! What a chain is like: how full, where it stays, how fast it forgets (section 3 of the
//! specification, "Analysis by-products", and section 6.2 of the paper). For people only; floating
//! point, and bounded work.

use std::cmp::Reverse;

use crate::{Counts, Levels, Relative, States};

/// Multiplications for a stationary distribution at most: about a second.
const STATIONARY_WORK: u64 = 400_000_000;

/// Multiplications for mixing times at most.
const MIXING_WORK: u64 = 400_000_000;

/// A stationary distribution has been found when a step changes no probability by more.
const SETTLED: f64 = 1e-12;

/// Steps from one start at most. A chain that goes round in circles never mixes.
const MOST_STEPS: u32 = 20_000;

/// The changes below which docs/spec/mdi.md 3 calls a chain mixed.
const MIXED: [f64; 3] = [1e-3, 1e-5, 1e-7];

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

/// How many steps it takes until a step changes no state's probability by `change`, from a
/// certain start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixing {
    /// The limit.
    pub change: f64,
    /// From the start from which it takes longest; `None`: more than were tried.
    pub longest: Option<u32>,
    /// From the median of the starts; `None`: more than were tried.
    pub median: Option<u32>,
    /// States that were tried as a start; all unseen ones count, since they do the same.
    pub starts: u32,
    /// Steps from a start at most.
    pub most_steps: u32,
}

/// The matrix by whole rows: each divided by its sum, those never seen uniform.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionMatrix {
    /// All states.
    states: u32,
    /// Those that any transition leads from or to, ascending. The others are all alike, so that
    /// one number stands for all of them.
    named: Vec<u32>,
    /// Per named state: where its entries begin. One more at the end.
    starts: Vec<usize>,
    /// Named state, by its place, and probability.
    entries: Vec<(u32, f64)>,
}

/// Shares of the states of a [`TransitionMatrix`].
#[derive(Debug, Clone)]
struct Shares {
    named: Vec<f64>,
    /// Of each other state.
    other: f64,
}

impl TransitionMatrix {
    /// Normalises every row.
    pub fn new(states: &States, counts: &Counts) -> Self {
        let mut named: Vec<u32> =
            counts.cells().iter().flat_map(|cell| [cell.from, cell.to]).collect();
        named.sort_unstable();
        named.dedup();
        let mut starts = Vec::with_capacity(named.len() + 1);
        let mut entries = Vec::with_capacity(counts.cells().len());
        let mut rows = counts.cells().chunk_by(|a, b| a.from == b.from).peekable();
        for state in &named {
            starts.push(entries.len());
            if let Some(row) = rows.next_if(|row| row[0].from == *state) {
                let total = row.iter().map(|cell| cell.count as f64).sum::<f64>();
                let place = |to| named.partition_point(|state| *state < to) as u32;
                entries.extend(row.iter().map(|cell| (place(cell.to), cell.count as f64 / total)));
            }
        }
        starts.push(entries.len());
        Self { states: states.len(), named, starts, entries }
    }

    /// Where a state leads, and with which probabilities; nothing if it was never seen, which
    /// counts as leading everywhere.
    pub fn row(&self, state: u32) -> impl Iterator<Item = (u32, f64)> {
        let row = self.named.binary_search(&state).map_or(&[][..], |place| self.entries(place));
        row.iter().map(|(to, probability)| (self.named[*to as usize], *probability))
    }

    fn entries(&self, place: usize) -> &[(u32, f64)] {
        &self.entries[self.starts[place]..self.starts[place + 1]]
    }

    /// States without a name.
    fn others(&self) -> usize {
        self.states as usize - self.named.len()
    }

    /// Multiplications of a step, about.
    fn work(&self) -> u64 {
        (self.entries.len() + 2 * self.named.len() + 1) as u64
    }

    fn even(&self) -> Shares {
        let share = 1.0 / f64::from(self.states);
        Shares { named: vec![share; self.named.len()], other: share }
    }

    /// One step: `next` becomes `now` times the matrix. Returns the largest change.
    fn step(&self, now: &Shares, next: &mut Shares) -> f64 {
        next.named.fill(0.0);
        let mut everywhere = now.other * self.others() as f64;
        for (place, share) in now.named.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let row = self.entries(place);
            if row.is_empty() {
                everywhere += share;
            }
            for (to, probability) in row {
                next.named[*to as usize] += share * probability;
            }
        }
        next.other = everywhere / f64::from(self.states);
        let mut change = if self.others() > 0 { (next.other - now.other).abs() } else { 0.0 };
        for (before, after) in now.named.iter().zip(&mut next.named) {
            *after += next.other;
            change = change.max((*after - before).abs());
        }
        change
    }

    /// The leading left eigenvector, by power iteration from an even distribution. Half of every
    /// step stays where it is, which changes nothing about the result, and lets a chain settle
    /// that goes round in circles. Where a chain falls into parts that never meet, each part
    /// keeps the share that it began with.
    pub fn stationary(&self) -> Stationary {
        let most = (STATIONARY_WORK / self.work()).clamp(1, 1_000_000) as u32;
        let mut now = self.even();
        let mut next = now.clone();
        let (mut steps, mut change) = (0, f64::INFINITY);
        while steps < most && change > SETTLED {
            change = self.step(&now, &mut next) / 2.0;
            steps += 1;
            now.named
                .iter_mut()
                .zip(&next.named)
                .for_each(|(now, next)| *now = (*now + next) / 2.0);
            now.other = (now.other + next.other) / 2.0;
        }
        let mut shares = vec![now.other; self.states as usize];
        for (state, share) in self.named.iter().zip(now.named) {
            shares[*state as usize] = share;
        }
        Stationary { shares, steps, change }
    }

    /// Mixing times for changes of 1e-3, 1e-5 and 1e-7, from every state as a start if there is
    /// time for that, else from states spread evenly.
    pub fn mixing(&self) -> [Mixing; 3] {
        let seen = (0..self.named.len()).filter(|place| !self.entries(*place).is_empty());
        let seen: Vec<usize> = seen.collect();
        let unseen = self.states - seen.len() as u32;
        let (mut times, mut work, mut tried) = (Vec::new(), 0, 0);
        for start in spread(&seen) {
            if tried > 0 && work >= MIXING_WORK {
                break;
            }
            let mut now = Shares { named: vec![0.0; self.named.len()], other: 0.0 };
            now.named[start] = 1.0;
            times.push(Times { weight: 0.0, steps: self.steps(now, 0, &mut work) });
            tried += 1;
        }
        let weight = seen.len() as f64 / f64::from(tried.max(1));
        times.iter_mut().for_each(|times| times.weight = weight);
        if unseen > 0 {
            // All unseen starts are everywhere after a first step, which changes much unless
            // there is only one state.
            let done = u32::from(self.states > 1);
            let steps = self.steps(self.even(), done, &mut work);
            times.push(Times { weight: unseen.into(), steps });
        }
        [0, 1, 2].map(|limit| summary(limit, &mut times, tried + unseen, self.most_steps()))
    }

    /// So many that one start alone cannot take too long.
    fn most_steps(&self) -> u32 {
        (MIXING_WORK / 4 / self.work()).clamp(100, MOST_STEPS.into()) as u32
    }

    /// Steps from `now` until the changes are below each limit, of which some are `done`.
    fn steps(&self, mut now: Shares, done: u32, work: &mut u64) -> [Option<u32>; 3] {
        let mut next = now.clone();
        let mut steps = [None; 3];
        for step in done + 1..=self.most_steps() {
            let change = self.step(&now, &mut next);
            std::mem::swap(&mut now, &mut next);
            *work += self.work();
            for (steps, limit) in steps.iter_mut().zip(MIXED) {
                if change < limit {
                    steps.get_or_insert(step);
                }
            }
            if steps[2].is_some() {
                break;
            }
        }
        steps
    }
}

/// Mixing times from a start.
#[derive(Debug)]
struct Times {
    /// Starts that this one stands for.
    weight: f64,
    steps: [Option<u32>; 3],
}

fn summary(limit: usize, times: &mut [Times], starts: u32, most_steps: u32) -> Mixing {
    let steps = |times: &Times| times.steps[limit].unwrap_or(u32::MAX);
    times.sort_by_key(steps);
    let all: f64 = times.iter().map(|times| times.weight).sum();
    let mut below = 0.0;
    let median = times.iter().find(|times| {
        below += times.weight;
        below >= all / 2.0
    });
    Mixing {
        change: MIXED[limit],
        longest: times.last().and_then(|times| times.steps[limit]),
        median: median.and_then(|times| times.steps[limit]),
        starts,
        most_steps,
    }
}

/// All items, in an order of which every beginning is spread over them: in strides of the golden
/// ratio.
fn spread(items: &[usize]) -> impl Iterator<Item = usize> {
    let count = items.len();
    let near = (count as f64 * 0.618_034) as usize;
    let stride = (near.max(1)..).find(|stride| gcd(*stride, count) == 1).unwrap_or(1);
    (0..count).map(move |place| items[place * stride % count])
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Absolute, Axis, Cell, Relative};
    use proptest::prelude::*;

    /// Delays of one window each.
    fn line(states: u32) -> States {
        let d_max = 20 + states - 1;
        States::Absolute(Absolute { d_min: 20, d_max, quantization: 1, w_min: 1, w_max: 1 })
    }

    fn counts(cells: &[(u32, u32, u64)]) -> Counts {
        let cell = |&(from, to, count): &(u32, u32, u64)| Cell { from, to, count };
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

    fn steps(mixing: &[Mixing; 3]) -> [(Option<u32>, Option<u32>); 3] {
        mixing.map(|mixing| (mixing.median, mixing.longest))
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
        // The second eigenvalue is 1/4: step k changes 4^(1-k)/4 from the first state and
        // 4^(1-k)/2 from the second.
        let mixing = matrix.mixing();
        assert_eq!(steps(&mixing)[0], (Some(5), Some(6)), "4^-5 and 4^-5/2 are below 1e-3");
        assert_eq!(steps(&mixing)[1], (Some(9), Some(9)));
        assert_eq!(steps(&mixing)[2], (Some(12), Some(13)));
        assert_eq!(mixing[0].starts, 2);
    }

    #[test]
    fn a_periodic_chain_settles_and_never_mixes() {
        let matrix = matrix(3, &[(0, 1, 1), (1, 2, 1), (2, 0, 1)]);
        assert_near(&matrix.stationary().shares, &[1.0 / 3.0; 3]);
        let mixing = matrix.mixing();
        assert_eq!(steps(&mixing), [(None, None); 3]);
        assert_eq!(mixing[0].most_steps, MOST_STEPS);
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
        let seen = matrix(2, &[(0, 0, 3), (0, 1, 1), (1, 0, 1), (1, 1, 1)]);
        assert_eq!(steps(&unseen.mixing()), steps(&seen.mixing()));
        let nothing = matrix(5, &[]);
        assert_near(&nothing.stationary().shares, &[0.2; 5]);
        let mixing = nothing.mixing();
        assert_eq!(steps(&mixing), [(Some(2), Some(2)); 3]);
        assert_eq!(mixing[0].starts, 5);
    }

    #[test]
    fn states_that_nothing_leads_to_are_alike() {
        // The same chain with the unnamed states written out as leading everywhere.
        let cells = [(1, 3, 2), (3, 1, 1), (3, 3, 1), (1, 4, 1)];
        let everywhere =
            [0, 2, 4, 5].into_iter().flat_map(|from| (0..6).map(move |to| (from, to, 1)));
        let written: Vec<_> = cells.into_iter().chain(everywhere).collect();
        let (lumped, whole) = (matrix(6, &cells), matrix(6, &written));
        assert_eq!((lumped.others(), whole.others()), (3, 0));
        assert_near(&lumped.stationary().shares, &whole.stationary().shares);
        assert_eq!(lumped.mixing(), whole.mixing());
        assert_eq!(lumped.row(1).map(|(to, _)| to).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(lumped.row(0).count(), 0);
    }

    #[test]
    fn a_single_state_is_there_at_once() {
        let one = matrix(1, &[(0, 0, 9)]);
        assert_near(&one.stationary().shares, &[1.0]);
        assert_eq!(steps(&one.mixing()), [(Some(1), Some(1)); 3]);
    }

    #[test]
    fn the_work_for_large_chains_is_bounded() {
        // A slow walk along a line at the size of the paper's largest matrix.
        let step =
            |state: u32| [(state, (state + 1).min(25_487), 1), (state, state.saturating_sub(1), 1)];
        let cells: Vec<_> = (0..25_488).flat_map(step).collect();
        let matrix = matrix(25_488, &cells);
        assert_eq!(steps(&matrix.mixing())[2], (None, None));
        let mixing = matrix.mixing();
        assert!((1..100).contains(&mixing[0].starts), "{mixing:?}");
        let stationary = matrix.stationary();
        assert_near(&[stationary.shares.iter().sum()], &[1.0]);
    }

    #[test]
    fn a_spread_order_has_everything_once() {
        for count in [0, 1, 2, 3, 8, 34, 100, 231] {
            let items: Vec<usize> = (0..count).collect();
            let mut all: Vec<usize> = spread(&items).collect();
            assert!(count < 8 || all[1].abs_diff(all[0]) > count / 4);
            all.sort_unstable();
            assert_eq!(all, items);
        }
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
            let even = matrix.even();
            let named = matrix.named.iter().map(|state| found.shares[*state as usize]).collect();
            let other = (0..12).find(|state| !matrix.named.contains(state));
            let other = other.map_or(0.0, |state| found.shares[state as usize]);
            let (now, mut next) = (Shares { named, other }, even);
            // Chains that hardly mix are left where a million steps have brought them.
            prop_assert!(found.change < 1e-8, "{found:?}");
            // Half of a step was tried; a whole one changes twice as much.
            prop_assert!(matrix.step(&now, &mut next) < 3.0 * found.change + 1e-12);
        }
    }
}
