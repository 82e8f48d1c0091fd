//! The guided random walk: a delay in, a window out, once per epoch.

use std::sync::Arc;

use crate::change::{ONE_PACKET, delay_change, relative_step, window_change};
use crate::mixture::Mixture;
use crate::table::OriginChoice;
use crate::{Absolute, Base, Empty, Levels, Relative, States, Table, WindowQ16};

/// The random numbers of a walk (xorshift64*), part of the flat form: three shifts and one
/// multiplication that every runtime has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draws(u64);

impl Draws {
    /// The sequence of a seed.
    pub fn seeded(seed: u64) -> Self {
        // The state must not be 0.
        Self(if seed == 0 { 0x9e37_79b9_7f4a_7c15 } else { seed })
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

/// What happens where the delay changes by more than the table knows (section 6 step 4 of the
/// specification; relative states only).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange {
    /// A larger rise multiplies the window by this, in 1/65536.
    pub factor: u32,
    /// A larger fall adds this to it.
    pub add: WindowQ16,
}

impl Default for OutOfRange {
    /// 0.975 and 21 packets.
    fn default() -> Self {
        Self { factor: 63_898, add: 21 << 16 }
    }
}

/// A walk over a table.
#[derive(Debug, Clone)]
pub struct TableWalk {
    tables: Mixture,
    states: States,
    empty: Empty,
    out_of_range: OutOfRange,
    draws: Draws,
    place: WalkState,
}

/// Where a walk is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WalkState {
    /// The delay's bin and the packets of the last epoch.
    Absolute { bin: Option<u32>, w: u32 },
    /// The last two delays and windows, and the window now (docs/spec/mdi.md 4).
    Relative { d1: u32, d2: u32, w: WindowQ16, w1: WindowQ16, w2: WindowQ16 },
    /// The base delay, the last level, and the last two windows.
    Levels { base: Base, level: Option<u32>, w: WindowQ16, w1: WindowQ16 },
}

/// Windows begin at ten packets (docs/spec/mdi.md 4).
const FIRST_WINDOW: WindowQ16 = 10 << 16;

impl TableWalk {
    /// A walk at its beginning: a window of ten packets, no delay seen yet.
    pub fn new(table: Arc<Table>, empty: Empty, out_of_range: OutOfRange, seed: u64) -> Self {
        Self::among(vec![table], empty, out_of_range, seed)
    }

    /// The same over the one of several tables, learnt with other numbers of users, that explains
    /// best how the delay moves.
    ///
    /// # Panics
    /// When there is no table, or their states differ.
    pub fn among(
        tables: Vec<Arc<Table>>,
        empty: Empty,
        out_of_range: OutOfRange,
        seed: u64,
    ) -> Self {
        let states = *tables[0].states();
        assert!(tables.iter().all(|table| *table.states() == states), "tables of other states");
        let place = match states {
            States::Absolute(states) => {
                WalkState::Absolute { bin: None, w: states.clamped_packets(FIRST_WINDOW >> 16) }
            }
            States::Relative(_) => {
                let w = FIRST_WINDOW;
                WalkState::Relative { d1: 0, d2: 0, w, w1: w, w2: w }
            }
            States::Levels(_) => {
                let w = FIRST_WINDOW;
                WalkState::Levels { base: Base::default(), level: None, w, w1: w }
            }
        };
        let tables = Mixture::new(tables);
        Self { tables, states, empty, out_of_range, draws: Draws::seeded(seed), place }
    }

    /// One epoch: the largest RTT acked in it in microseconds, or, with `acked` false, the larger
    /// of the last epoch's and the time since the last ack. Returns the window: packets in flight
    /// of relative states, packets to send in this epoch of absolute ones.
    pub fn step(&mut self, delay_us: u32, acked: bool) -> WindowQ16 {
        match self.states {
            States::Absolute(states) => self.step_absolute(&states, delay_us),
            States::Relative(states) => self.step_relative(&states, delay_us, acked),
            States::Levels(states) => self.step_levels(&states, delay_us, acked),
        }
    }

    /// Which of the tables the walk goes by.
    pub fn table(&self) -> usize {
        self.tables.cheapest().0
    }

    /// The window now, as [`step`](Self::step) returned it.
    pub fn window(&self) -> WindowQ16 {
        match self.place {
            WalkState::Absolute { w, .. } => w << 16,
            WalkState::Relative { w, .. } | WalkState::Levels { w, .. } => w,
        }
    }

    /// Packets that may leave after an epoch (docs/spec/mdi.md 6, step 6): with absolute states the
    /// window, else the share of the window that this epoch releases.
    ///
    /// `credit` packets were allowed before and have not left, `in_flight` packets are not
    /// acknowledged yet, and a round trip has `epochs` epochs.
    pub fn release(&self, credit: u32, in_flight: u32, epochs: u32) -> u32 {
        let window = self.window() >> 16;
        if let States::Absolute(_) = self.states {
            // "The obtained w is then sent", section 5.1 of the 2017 paper.
            return window;
        }
        let kept = match epochs {
            0 | 1 => in_flight,
            // Eq. 5, Verus, with the packets in flight in place of the current window. At most what
            // is in flight, so it fits.
            n => (u64::from(in_flight) * u64::from(n - 2) / u64::from(n - 1)) as u32,
        };
        // Spent at once by a sender that has data; one that comes late gets one window.
        credit.saturating_add(window.saturating_sub(kept)).min(window)
    }

    /// Sets the window from which the walk goes on, after a loss (docs/spec/mdi.md 8).
    /// `forget` also removes the change that led to it, after a timeout.
    pub fn set_window(&mut self, window: WindowQ16, forget: bool) {
        match (&mut self.place, self.states) {
            (WalkState::Absolute { w, .. }, States::Absolute(states)) => {
                *w = states.clamped_packets(window >> 16);
            }
            (WalkState::Relative { w, w1, w2, .. }, _) => {
                *w = window.max(ONE_PACKET);
                *w1 = *w;
                if forget {
                    *w2 = *w;
                }
            }
            (WalkState::Levels { w, w1, .. }, _) => {
                let window = window.max(ONE_PACKET);
                *w1 = if forget { window } else { *w };
                *w = window;
            }
            (WalkState::Absolute { .. }, _) => {
                unreachable!("a walk begins at a place of its table's kind")
            }
        }
    }

    fn step_absolute(&mut self, states: &Absolute, delay_us: u32) -> WindowQ16 {
        let WalkState::Absolute { bin, w } = &mut self.place else {
            unreachable!("a walk begins at a place of its table's kind")
        };
        let now = states.clamped_bin(delay_us);
        // The first delay is used at once.
        let from = self.states.index(bin.unwrap_or(now), *w - states.w_min);
        *bin = Some(now);
        self.tables.observe(from, now);
        let (_, table) = self.tables.cheapest();
        match table.find(from, now, self.empty) {
            OriginChoice::Origin(origin) => {
                *w = states.w_min + table.draw(origin, self.draws.bits());
            }
            OriginChoice::Keep => {}
            OriginChoice::Collapse => *w = states.clamped_packets(1),
        }
        *w << 16
    }

    fn step_levels(&mut self, states: &Levels, delay_us: u32, acked: bool) -> WindowQ16 {
        let WalkState::Levels { base, level, w, w1 } = &mut self.place else {
            unreachable!("a walk begins at a place of its table's kind")
        };
        base.step(acked.then_some(delay_us));
        let now = states.level(delay_us, base);
        let change = states.w.clamped(window_change(*w, *w1));
        let from = self.states.index(level.replace(now).unwrap_or(now), change);
        *w1 = *w;
        self.tables.observe(from, now);
        let (_, table) = self.tables.cheapest();
        match table.find(from, now, self.empty) {
            OriginChoice::Origin(origin) => {
                let drawn = table.draw(origin, self.draws.bits());
                *w = relative_step(*w, states.w.value(drawn));
            }
            OriginChoice::Keep => {}
            OriginChoice::Collapse => *w = ONE_PACKET,
        }
        *w
    }

    fn step_relative(&mut self, states: &Relative, delay_us: u32, acked: bool) -> WindowQ16 {
        let WalkState::Relative { d1, d2, w, w1, w2 } = &mut self.place else {
            unreachable!("a walk begins at a place of its table's kind")
        };
        if *d1 == 0 {
            // [CHOICE] of T13: the first delay is no change.
            (*d1, *d2) = (delay_us, delay_us);
        }
        // docs/spec/mdi.md 6, steps 3 to 7.
        let change = delay_change(delay_us, *d1);
        if change > states.d.max() {
            *w = ((u64::from(*w) * u64::from(self.out_of_range.factor)) >> 16) as WindowQ16;
        } else if change < states.d.min() {
            *w = w.saturating_add(self.out_of_range.add);
        } else {
            let a = states.d.clamped(delay_change(*d1, *d2));
            let b = states.w.clamped(window_change(*w1, *w2));
            let block = states.d.clamped(change);
            let from = self.states.index(a, b);
            self.tables.observe(from, block);
            let (_, table) = self.tables.cheapest();
            match table.find(from, block, self.empty) {
                OriginChoice::Origin(origin) => {
                    let drawn = table.draw(origin, self.draws.bits());
                    *w = relative_step(*w1, states.w.value(drawn));
                }
                OriginChoice::Keep => *w = *w1,
                OriginChoice::Collapse => *w = ONE_PACKET,
            }
        }
        *w = (*w).max(ONE_PACKET);
        if acked {
            (*d2, *d1) = (*d1, delay_us);
        }
        (*w2, *w1) = (*w1, *w);
        *w
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Counts, TableShape, TransitionCount};
    use proptest::prelude::*;

    fn published() -> States {
        let d = Axis::new("delay", -10_000, 10_000, 2000).unwrap();
        let w = Axis::new("window", -20_000, 20_000, 2000).unwrap();
        States::Relative(Relative { d, w })
    }

    fn walk_over(cells: &[(u32, u32, u64)], states: States, seed: u64) -> TableWalk {
        let cells =
            cells.iter().map(|&(from, to, count)| TransitionCount { from, to, count }).collect();
        let table = Table::new(states, &Counts::from_cells(cells), TableShape::default());
        TableWalk::new(Arc::new(table), Empty::Near, OutOfRange::default(), seed)
    }

    /// A walk that has had one delay of `d1` ms and a window of `w` packets.
    fn standing(d1: u32, w: u32) -> TableWalk {
        let mut walk = walk_over(&[(115, 115, 1)], published(), 1);
        walk.step(d1 * 1000, true);
        walk.set_window(w << 16, true);
        walk
    }

    fn packets(window: WindowQ16) -> f64 {
        f64::from(window) / 65536.0
    }

    #[test]
    fn mdi_t11_out_of_range() {
        // rel(d, 100) = 2 (d - 100): 106 ms is a change of 12, 94 ms of -12, 105 ms of 10.
        assert!((packets(standing(100, 40).step(106_000, true)) - 39.0).abs() < 0.001);
        assert_eq!(packets(standing(100, 40).step(94_000, true)), 61.0);
        assert_eq!(packets(standing(100, 40).step(105_000, true)), 40.0);
        let mut walk = standing(100, 100);
        for epoch in 0..40 {
            walk.step(200_000 + 5000 * epoch, false);
        }
        assert!((packets(walk.window()) - 36.32).abs() < 0.02, "{}", packets(walk.window()));
    }

    #[test]
    fn mdi_t10_the_window_stays_where_nothing_is_known() {
        let mut walk = walk_over(&[], published(), 1);
        for _ in 0..100 {
            assert_eq!(packets(walk.step(30_000, true)), 10.0);
        }
    }

    #[test]
    fn mdi_t12_the_same_seed_the_same_windows() {
        let cells: Vec<_> = (0..231).flat_map(|from| [(from, 114, 1), (from, 116, 1)]).collect();
        let windows = |seed| {
            let mut walk = walk_over(&cells, published(), seed);
            (0..2000).map(|i| walk.step(50_000 + 100 * (i % 3), true)).collect::<Vec<_>>()
        };
        assert!(windows(1) == windows(1));
        assert!(windows(1) != windows(2));
        assert!(windows(3).iter().all(|window| *window >= ONE_PACKET));
    }

    #[test]
    fn mdi_t13_a_constant_teacher_stays_constant() {
        let mut walk = walk_over(&[(115, 115, 1000)], published(), 5);
        for _ in 0..10_000 {
            assert_eq!(packets(walk.step(20_000, true)), 10.0);
        }
    }

    #[test]
    fn mdi_t13_silence_shrinks_the_window() {
        let mut walk = walk_over(&[(115, 115, 1)], published(), 5);
        walk.step(20_000, true);
        // rel(25, 20) = 32.5 is out of range.
        assert!((packets(walk.step(25_000, false)) - 9.75).abs() < 0.001);
    }

    fn levels() -> States {
        let d = Axis::new("delay", 0, 1000, 100).unwrap();
        let w = Axis::new("window", -20_000, 20_000, 10_000).unwrap();
        States::Levels(Levels { d, w })
    }

    /// Up by 10 at the base delay, down by 10 from twice it on, whatever came before.
    fn controller() -> Vec<(u32, u32, u64)> {
        let to = |level: u32| 5 * level + if level < 3 { 3 } else { 1 };
        (0..55).flat_map(|from| (0..11).map(move |level| (from, to(level), 1))).collect()
    }

    #[test]
    fn a_walk_over_levels_follows_the_level_of_the_delay() {
        let mut walk = walk_over(&controller(), levels(), 1);
        assert_eq!(packets(walk.step(20_000, true)), 11.0);
        assert!((packets(walk.step(20_000, true)) - 12.056).abs() < 0.001);
        assert!(packets(walk.step(45_000, true)) < 11.1);
        // Silence counts, and no ack makes it the base.
        assert!(packets(walk.step(90_000, false)) < 10.1);
        // A smaller base, and the same delay is a higher level.
        let before = walk.window();
        assert!(walk.step(10_000, true) > before);
        let before = walk.window();
        assert!(walk.step(20_000, true) < before);
    }

    #[test]
    fn a_longer_path_becomes_the_base() {
        let mut walk = walk_over(&controller(), levels(), 1);
        walk.step(20_000, true);
        for _ in 0..100 {
            walk.step(40_000, true);
        }
        let mut epochs = 100;
        while walk.step(40_000, true) <= 2 * ONE_PACKET {
            epochs += 1;
            assert!(epochs < 60_000, "it never finds out");
        }
        // 40 ms are twice the base until 0.6 % a second have made it 22.5 ms: log10 of the ratio
        // is 0.25 there and rounds to 0.2.
        assert!((3_500..4_200).contains(&epochs), "{epochs}");
    }

    #[test]
    fn an_absolute_walk_goes_from_delay_to_delay() {
        let absolute = Absolute { d_min: 20, d_max: 29, quantization: 1, w_min: 0, w_max: 9 };
        // (20, 9) -> (21, 4) -> (20, 7).
        let cells = [(9, 14, 1), (14, 7, 1), (9, 9, 1)];
        let mut walk = walk_over(&cells, States::Absolute(absolute), 1);
        assert_eq!(packets(walk.window()), 9.0);
        assert_eq!(packets(walk.step(20_500, true)), 9.0);
        assert_eq!(packets(walk.step(21_500, true)), 4.0);
        assert_eq!(packets(walk.step(0, true)), 7.0);
        // Nothing leads to the last delay.
        assert_eq!(packets(walk.step(u32::MAX, false)), 7.0);
        walk.set_window(100 << 16, false);
        assert_eq!(packets(walk.window()), 9.0);
    }

    proptest! {
        #[test]
        fn no_delay_makes_the_window_fall_below_one_or_overflow(
            delays in prop::collection::vec((any::<u32>(), any::<bool>()), 0..200),
            cells in prop::collection::vec((0_u32..231, 0_u32..231, 1_u64..9), 0..60),
            seed in any::<u64>(),
            levels in any::<bool>(),
        ) {
            let states = if levels { self::levels() } else { published() };
            let (cells, most) = (cells, states.len() - 1);
            let cells: Vec<_> = cells.iter().map(|c| (c.0.min(most), c.1.min(most), c.2)).collect();
            let mut walk = walk_over(&cells, states, seed);
            for (delay, acked) in delays {
                prop_assert!(walk.step(delay, acked) >= ONE_PACKET);
                if delay % 7 == 0 {
                    walk.set_window(delay, delay % 2 == 0);
                }
            }
        }
    }
}
