//! A model as it runs: flat arrays of integers.

use crate::change::log10_q16;
use crate::{Counts, States, TransitionCount};

/// How a subset's counts become chances (docs/spec/mdi.md 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowSampler {
    /// In proportion to the counts: inversion of their distribution function.
    #[default]
    Cumulative,
    /// As the 2017 paper: a number drawn between the smallest and the largest probability takes
    /// the state whose probability is nearest to it. Over-picks rare states.
    ClosestMatch,
}

/// How counts become a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableShape {
    /// How windows are drawn.
    pub sampler: WindowSampler,
    /// Windows with a smaller share of their subset are left out (docs/spec/mdi.md 3: 0.02).
    pub prune: f64,
}

impl Default for TableShape {
    fn default() -> Self {
        Self { sampler: WindowSampler::Cumulative, prune: 0.02 }
    }
}

/// Where to look when nothing was ever seen to lead from a state to a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Empty {
    /// The nearest smaller window of the same delay, then the nearest larger one, then the same
    /// window at the nearest delay; else the window stays (the choice of docs/spec/mdi.md 7).
    #[default]
    Near,
    /// The nearest smaller window of the same delay; else the window stays (the 2017 paper).
    Paper,
    /// The nearest state below, whatever its delay, but never state 0; else the window collapses
    /// to one packet (the 2021 code).
    Code,
}

/// What was found for a state and the next delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OriginChoice {
    /// Draw from this origin's windows.
    Origin(u32),
    /// Keep the window.
    Keep,
    /// Go down to one packet.
    Collapse,
}

/// A Markov table, ready to run. For each next delay, the states that were seen to lead there
/// ("origins"), and for each of those the windows that came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub(crate) states: States,
    /// Per delay: its first origin. One more at the end.
    pub(crate) blocks: Vec<u32>,
    /// States, ascending within each delay.
    pub(crate) origins: Vec<u32>,
    /// Per origin of a delay: the numbers of its origins in the order of window, then delay.
    pub(crate) by_window: Vec<u32>,
    /// Per origin: its first entry. One more at the end.
    pub(crate) starts: Vec<u32>,
    /// Per origin: how unlikely its delay is to follow it, as minus log10 of the share of its
    /// transitions that lead there, in 1/65536.
    pub(crate) surprises: Vec<u32>,
    /// Per entry: index of the window.
    pub(crate) windows: Vec<u16>,
    /// Per entry: it is taken by draws below this, unless an earlier one is. An origin's last
    /// takes all that is left.
    pub(crate) limits: Vec<u32>,
}

impl Table {
    /// Turns counts into a table.
    pub fn new(states: States, counts: &Counts, shape: TableShape) -> Self {
        let mut cells: Vec<TransitionCount> = counts.cells().to_vec();
        cells.sort_by_cached_key(|cell| {
            u64::from(states.delay_of(cell.to)) << 32 | u64::from(cell.from)
        });
        let mut table = Self {
            states,
            blocks: Vec::with_capacity(states.delays() as usize + 1),
            origins: Vec::new(),
            by_window: Vec::new(),
            starts: Vec::new(),
            surprises: Vec::new(),
            windows: Vec::new(),
            limits: Vec::new(),
        };
        let mut subsets = cells
            .chunk_by(|a, b| (states.delay_of(a.to), a.from) == (states.delay_of(b.to), b.from))
            .peekable();
        for delay in 0..states.delays() {
            table.blocks.push(table.origins.len() as u32);
            while let Some(subset) = subsets.next_if(|it| states.delay_of(it[0].to) == delay) {
                let row = counts.row(subset[0].from);
                table.surprises.push(surprise(sum(subset), sum(row)));
                table.add_origin(subset, shape);
            }
            table.order_by_window();
        }
        table.blocks.push(table.origins.len() as u32);
        table.starts.push(table.windows.len() as u32);
        table
    }

    fn add_origin(&mut self, subset: &[TransitionCount], shape: TableShape) {
        self.origins.push(subset[0].from);
        self.starts.push(self.windows.len() as u32);
        let mut entries: Vec<(u64, u16)> =
            subset.iter().map(|cell| (cell.count, self.states.window_of(cell.to) as u16)).collect();
        prune(&mut entries, shape.prune);
        // Both samplers take the states in ascending order of their probability.
        entries.sort_unstable();
        self.windows.extend(entries.iter().map(|(_, window)| *window));
        let counts: Vec<u64> = entries.iter().map(|(count, _)| *count).collect();
        match shape.sampler {
            WindowSampler::Cumulative => cumulative_limits(&counts, &mut self.limits),
            WindowSampler::ClosestMatch => closest_limits(&counts, &mut self.limits),
        }
    }

    /// The order in which the origins of the delay just added stand by window.
    fn order_by_window(&mut self) {
        let first = self.by_window.len() as u32;
        let mut order: Vec<u32> = (first..self.origins.len() as u32).collect();
        order.sort_unstable_by_key(|origin| self.by_window_key(*origin));
        self.by_window.extend(order);
    }

    fn by_window_key(&self, origin: u32) -> (u32, u32) {
        let state = self.origins[origin as usize];
        (self.states.window_of(state), self.states.delay_of(state))
    }

    /// Its states.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// The window that follows `state` at the delay number `delay`, for a draw of 32 random
    /// bits.
    pub(crate) fn draw(&self, found: u32, bits: u32) -> u32 {
        let entries =
            self.starts[found as usize] as usize..self.starts[found as usize + 1] as usize;
        let taken = self.limits[entries.clone()].partition_point(|limit| *limit <= bits);
        u32::from(self.windows[(entries.start + taken).min(entries.end - 1)])
    }

    /// How unlikely the delay number `delay` was to follow `state`: minus log10 of its probability,
    /// in 1/65536, and at most [`UNSEEN`].
    pub(crate) fn surprise(&self, state: u32, delay: u32) -> u32 {
        let block = self.blocks[delay as usize] as usize..self.blocks[delay as usize + 1] as usize;
        match self.origins[block.clone()].binary_search(&state) {
            Ok(index) => self.surprises[block.start + index].min(UNSEEN),
            Err(_) => UNSEEN,
        }
    }

    /// Where to draw from (docs/spec/mdi.md 7).
    pub(crate) fn find(&self, state: u32, delay: u32, empty: Empty) -> OriginChoice {
        let first = self.blocks[delay as usize];
        let block = first as usize..self.blocks[delay as usize + 1] as usize;
        let origins = &self.origins[block.clone()];
        // All origins before `next` are at or below the state.
        let next = origins.partition_point(|origin| *origin <= state);
        let group = self.states.delay_of(state);
        let same_group = |index: usize| {
            let origin = origins.get(index)?;
            (self.states.delay_of(*origin) == group)
                .then_some(OriginChoice::Origin(first + index as u32))
        };
        let below = next.checked_sub(1);
        match empty {
            Empty::Near => below
                .and_then(same_group)
                .or_else(|| same_group(next))
                .or_else(|| self.nearest_delay(state, &self.by_window[block]))
                .unwrap_or(OriginChoice::Keep),
            Empty::Paper => below.and_then(same_group).unwrap_or(OriginChoice::Keep),
            Empty::Code => match below {
                Some(index) if origins[index] == state || origins[index] > 0 => {
                    OriginChoice::Origin(first + index as u32)
                }
                _ => OriginChoice::Collapse,
            },
        }
    }

    /// The origin with the window of `state` whose delay is nearest; the larger of two.
    fn nearest_delay(&self, state: u32, ordered: &[u32]) -> Option<OriginChoice> {
        let (window, delay) = (self.states.window_of(state), self.states.delay_of(state));
        let next = ordered.partition_point(|origin| self.by_window_key(*origin) <= (window, delay));
        let candidate = |index: usize| {
            let origin = *ordered.get(index)?;
            let (w, d) = self.by_window_key(origin);
            (w == window).then_some((d.abs_diff(delay), origin))
        };
        let larger = candidate(next);
        let smaller = next.checked_sub(1).and_then(candidate);
        let nearest = match (larger, smaller) {
            (Some(up), Some(down)) => {
                if up.0 <= down.0 {
                    up
                } else {
                    down
                }
            }
            (up, down) => up.or(down)?,
        };
        Some(OriginChoice::Origin(nearest.1))
    }
}

/// What was never seen counts as one in 65536: impossible is a strong word for a sample.
const UNSEEN: u32 = 315_653;

fn sum(cells: &[TransitionCount]) -> u64 {
    cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.count))
}

/// Minus log10 of the share of `part` in `whole`, in 1/65536.
fn surprise(part: u64, whole: u64) -> u32 {
    // Only the ratio matters, so both may lose the same bits.
    let shift = (64 - whole.leading_zeros()).saturating_sub(32);
    let log = |count: u64| log10_q16((count >> shift).max(1) as u32);
    log(whole).saturating_sub(log(part))
}

/// Leaves out what has less than `share` of all. The largest always stays.
fn prune(entries: &mut Vec<(u64, u16)>, share: f64) {
    let total: u64 = entries.iter().fold(0, |sum, (count, _)| sum.saturating_add(*count));
    let largest = entries.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let least = total as f64 * share;
    entries.retain(|(count, _)| *count as f64 >= least || *count == largest);
}

/// 2^32 times `part / whole`, rounded down, at most 2^32 - 1.
fn limit(part: u128, whole: u128) -> u32 {
    u32::try_from((part << 32) / whole.max(1)).unwrap_or(u32::MAX)
}

/// Limits in proportion to the counts.
fn cumulative_limits(counts: &[u64], limits: &mut Vec<u32>) {
    let total: u128 = counts.iter().copied().map(u128::from).sum();
    let mut sum = 0;
    for count in counts {
        sum += u128::from(*count);
        limits.push(limit(sum, total));
    }
}

/// Limits of the closest match: each distinct count has the numbers nearer to it than to any
/// other between the smallest and the largest, and equal counts share theirs. `counts` ascend.
fn closest_limits(counts: &[u64], limits: &mut Vec<u32>) {
    let (Some(&least), Some(&most)) = (counts.first(), counts.last()) else { return };
    if least == most {
        return cumulative_limits(&vec![1; counts.len()], limits);
    }
    let groups: Vec<&[u64]> = counts.chunk_by(|a, b| a == b).collect();
    let value = |group: usize| u128::from(groups[group][0]);
    let whole = 2 * u128::from(most - least);
    // Twice the distance from the smallest count to the end of the cell before.
    let mut start = 0;
    for (index, group) in groups.iter().enumerate() {
        let end = match index + 1 < groups.len() {
            true => value(index) + value(index + 1) - 2 * u128::from(least),
            false => whole,
        };
        let members = group.len() as u128;
        let share = |member| start * members + (end - start) * member;
        limits.extend((1..=members).map(|member| limit(share(member), whole * members)));
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Absolute, Axis, Draws, Relative};
    use proptest::prelude::*;

    /// 4 delays, 10 windows.
    fn states() -> States {
        let absolute = Absolute { d_min: 0, d_max: 3, quantization: 1, w_min: 0, w_max: 9 };
        States::Absolute(absolute).check().unwrap()
    }

    fn table(cells: &[(u32, u32, u64)], shape: TableShape) -> Table {
        let cells =
            cells.iter().map(|&(from, to, count)| TransitionCount { from, to, count }).collect();
        Table::new(states(), &Counts::from_cells(cells), shape)
    }

    /// Shares of the windows drawn from state 5 at delay 1.
    fn shares(counts: &[u64], sampler: WindowSampler) -> Vec<f64> {
        let cells: Vec<_> = (0..).zip(counts).map(|(w, count)| (5, 10 + w, *count)).collect();
        let table = table(&cells, TableShape { sampler, prune: 0.0 });
        let OriginChoice::Origin(origin) = table.find(5, 1, Empty::Near) else { unreachable!() };
        let mut draws = Draws::seeded(7);
        let mut drawn = vec![0_u32; counts.len()];
        for _ in 0..100_000 {
            drawn[table.draw(origin, draws.bits()) as usize] += 1;
        }
        drawn.iter().map(|n| f64::from(*n) / 1e5).collect()
    }

    #[track_caller]
    fn assert_shares(drawn: &[f64], expected: &[f64]) {
        let near = drawn.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.005);
        assert!(near, "{drawn:?}, not {expected:?}");
    }

    #[test]
    fn mdi_t6_draws_by_inversion() {
        let table = table(&[(5, 10, 1), (5, 11, 2), (5, 12, 7)], TableShape::default());
        let at = |share: f64| table.draw(0, (share * 4_294_967_296.0) as u32);
        assert_eq!([at(0.05), at(0.15), at(0.95)], [0, 1, 2]);
        assert_eq!([at(0.0), at(0.999_999_999)], [0, 2]);
        assert_shares(&shares(&[1, 2, 7], WindowSampler::Cumulative), &[0.1, 0.2, 0.7]);
    }

    #[test]
    fn mdi_t7_draws_by_closest_match() {
        let expected = [0.0833, 0.5, 0.4167];
        assert_shares(&shares(&[1, 2, 7], WindowSampler::ClosestMatch), &expected);
        // The scale of the probabilities does not matter.
        assert_shares(&shares(&[1000, 2000, 7000], WindowSampler::ClosestMatch), &expected);
        assert_shares(&shares(&[4, 4], WindowSampler::ClosestMatch), &[0.5, 0.5]);
        assert_shares(&shares(&[4], WindowSampler::ClosestMatch), &[1.0]);
        // 1 has [1, 2], both 3 share [2, 3].
        assert_shares(&shares(&[3, 1, 3], WindowSampler::ClosestMatch), &[0.25, 0.5, 0.25]);
    }

    #[test]
    fn mdi_t5_what_is_rare_is_pruned() {
        let kept = |counts: &[u64]| {
            let mut entries: Vec<_> = counts.iter().copied().zip(0_u16..).collect();
            prune(&mut entries, 0.02);
            entries.iter().map(|(_, window)| *window).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[1, 49, 50]), [1, 2]);
        assert_eq!(kept(&[1, 1, 98]), [2]);
        assert_eq!(kept(&[]), Vec::<u16>::new());
        // With more than fifty equal windows all are below the share: the largest stay.
        assert_eq!(kept(&[3; 60]).len(), 60);
        let table = table(&[(5, 10, 1), (5, 11, 49), (5, 12, 50)], TableShape::default());
        assert_eq!(table.limits, [(49_u64 * (1 << 32) / 99) as u32, u32::MAX]);
    }

    #[test]
    fn surprise_is_the_logarithm_of_a_rows_share() {
        let table = table(&[(5, 10, 1), (5, 11, 9), (5, 21, 90)], TableShape::default());
        assert_eq!(table.surprise(5, 1), 65_536);
        assert!(table.surprise(5, 2) < 3100);
        assert_eq!(table.surprise(5, 0), UNSEEN);
        assert_eq!(surprise(u64::MAX >> 10, u64::MAX), log10_q16(1024));
        assert_eq!(surprise(1, 1), 0);
    }

    #[test]
    fn mdi_t10_an_empty_subset_goes_down_first() {
        // Delay 2, origins 27 and 26 empty for delay 1; 25 leads to window 3 only.
        let table = table(&[(25, 13, 1), (28, 14, 9), (17, 15, 9)], TableShape::default());
        for empty in [Empty::Near, Empty::Paper, Empty::Code] {
            let OriginChoice::Origin(origin) = table.find(27, 1, empty) else {
                panic!("{empty:?}")
            };
            assert_eq!(table.draw(origin, 0), 3, "{empty:?}");
        }
    }

    #[test]
    fn mdi_t10_then_up_then_to_the_nearest_delay_then_nowhere() {
        let table = table(&[(28, 13, 1), (7, 14, 1), (37, 15, 1)], TableShape::default());
        let drawn = |state, delay, empty| match table.find(state, delay, empty) {
            OriginChoice::Origin(origin) => Some(table.draw(origin, 0)),
            _ => None,
        };
        // Up within the delay.
        assert_eq!(drawn(27, 1, Empty::Near), Some(3));
        assert_eq!(drawn(27, 1, Empty::Paper), None);
        assert_eq!(drawn(27, 1, Empty::Code), Some(4));
        // WindowQ16 7: delays 0 and 3 have it; from 1 the nearer is 0.
        assert_eq!(drawn(17, 1, Empty::Near), Some(4));
        // Nobody leads to delay 0.
        assert_eq!(table.find(27, 0, Empty::Near), OriginChoice::Keep);
        assert_eq!(table.find(27, 0, Empty::Code), OriginChoice::Collapse);
        // No origin of that window anywhere.
        assert_eq!(table.find(12, 1, Empty::Near), OriginChoice::Keep);
    }

    #[test]
    fn of_two_delays_at_the_same_distance_the_larger_is_taken() {
        let table = table(&[(7, 14, 1), (27, 15, 1)], TableShape::default());
        let OriginChoice::Origin(origin) = table.find(17, 1, Empty::Near) else { unreachable!() };
        assert_eq!(table.draw(origin, 0), 5);
    }

    #[test]
    fn the_codes_walk_never_looks_at_state_zero() {
        let table = table(&[(0, 13, 1)], TableShape::default());
        assert_eq!(table.find(3, 1, Empty::Code), OriginChoice::Collapse);
        assert!(matches!(table.find(0, 1, Empty::Code), OriginChoice::Origin(_)));
    }

    #[test]
    fn a_table_without_counts_keeps_the_window() {
        let axis = |name| Axis::new(name, -1000, 1000, 1000).unwrap();
        let states = States::Relative(Relative { d: axis("delay"), w: axis("window") });
        let table = Table::new(states, &Counts::default(), TableShape::default());
        assert_eq!(table.find(4, 1, Empty::Near), OriginChoice::Keep);
        assert_eq!(table.origins.len(), 0);
    }

    proptest! {
        /// The search against the procedure written out.
        #[test]
        fn near_is_what_the_procedure_says(
            cells in prop::collection::vec((0_u32..40, 0_u32..40), 0..25),
            state in 0_u32..40,
            delay in 0_u32..4,
        ) {
            let cells: Vec<_> = cells.iter().map(|&(from, to)| (from, to, 1)).collect();
            let table = table(&cells, TableShape::default());
            let leads = |d: i64, w: i64| {
                let inside = (0..4).contains(&d) && (0..10).contains(&w);
                let found = |from| cells.iter().any(|c| c.0 == from && c.1 / 10 == delay);
                inside && found((10 * d + w) as u32)
            };
            let (d, w) = (i64::from(state / 10), i64::from(state % 10));
            let down = (0..=w).map(|n| (d, w - n));
            let up = (1..10).map(|n| (d, w + n));
            let across = (1..4).flat_map(|n| [(d + n, w), (d - n, w)]);
            let expected = down.chain(up).chain(across).find(|&(d, w)| leads(d, w));
            let found = match table.find(state, delay, Empty::Near) {
                OriginChoice::Origin(origin) => Some(i64::from(table.origins[origin as usize])),
                _ => None,
            };
            prop_assert_eq!(found, expected.map(|(d, w)| 10 * d + w));
        }

        #[test]
        fn every_draw_finds_a_window_that_was_seen(
            cells in prop::collection::vec((0_u32..40, 0_u32..40, 1_u64..1000), 1..60),
            bits in any::<u32>(),
            closest in any::<bool>(),
        ) {
            let sampler = if closest { WindowSampler::ClosestMatch } else { WindowSampler::Cumulative };
            let table = table(&cells, TableShape { sampler, prune: 0.02 });
            for (from, to, _) in &cells {
                let OriginChoice::Origin(origin) = table.find(*from, to / 10, Empty::Near) else {
                    panic!("{from} to {to}")
                };
                let window = table.draw(origin, bits);
                let seen = cells.iter().any(|c| c.0 == *from && c.1 == to / 10 * 10 + window);
                prop_assert!(seen);
            }
        }
    }
}
