//! The smallest or largest value of a sliding window, in a memory that a socket of the kernel has room for.

/// Samples at most.
pub(super) const ENTRIES: usize = 64;

/// A monotone queue: an older sample stays only while it is better than all younger ones. Of samples that fall into
/// one cell of the window, at most 1/31 of it, the better one stays, with the time of the youngest: the extreme is never
/// forgotten too early, and too late by a cell at most.
#[derive(Debug, Clone)]
pub(super) struct Recent<const MAX: bool> {
    at: [u64; ENTRIES],
    value: [u64; ENTRIES],
    length: usize,
}

/// Largest value of a window.
pub(super) type RecentMax = Recent<true>;
/// Smallest value of a window.
pub(super) type RecentMin = Recent<false>;

impl<const MAX: bool> Recent<MAX> {
    pub(super) fn new() -> Self {
        Self { at: [0; ENTRIES], value: [0; ENTRIES], length: 0 }
    }

    /// Takes a sample and forgets those older than `window` nanoseconds, but never the last one.
    pub(super) fn push(&mut self, now: u64, value: u64, window: u64) {
        self.length = self.better_than(value);
        let shift = cell_bits(window);
        let joins = self
            .length
            .checked_sub(1)
            .filter(|&last| self.length == ENTRIES || self.at[last] >> shift == now >> shift);
        if let Some(last) = joins {
            self.at[last] = now;
        } else {
            (self.at[self.length], self.value[self.length]) = (now, value);
            self.length += 1;
        }
        self.expire(now.saturating_sub(window));
    }

    /// The extreme as of the last sample; 0 before the first.
    pub(super) fn extreme(&self) -> u64 {
        if self.length == 0 { 0 } else { self.value[0] }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// How many entries are better than a value: they stand first.
    fn better_than(&self, value: u64) -> usize {
        let better = |other: &u64| if MAX { *other > value } else { *other < value };
        self.value[..self.length].partition_point(better)
    }

    fn expire(&mut self, oldest: u64) {
        let gone = self.at[..self.length].partition_point(|at| *at < oldest);
        let gone = gone.min(self.length.saturating_sub(1));
        self.at.copy_within(gone..self.length, 0);
        self.value.copy_within(gone..self.length, 0);
        self.length -= gone;
    }
}

/// The smallest power of two of which a window has at most 61.
fn cell_bits(window: u64) -> u32 {
    (0..64).find(|shift| window >> shift <= 61).unwrap_or(63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn copa_t5_windowed_minimum() {
        const WINDOW: u64 = 10_000;
        let mut min = RecentMin::new();
        assert_eq!(min.extreme(), 0);
        for (at, value) in [(0, 50), (100, 40), (5_000, 45)] {
            min.push(at, value, WINDOW);
        }
        assert_eq!(min.extreme(), 40);
        min.push(10_150, 47, WINDOW);
        assert_eq!(min.extreme(), 45);
        let mut lone = RecentMin::new();
        lone.push(0, 50, WINDOW);
        lone.push(20_000, 80, WINDOW);
        assert_eq!(lone.extreme(), 80);
    }

    proptest! {
        /// Not too early, and too late by a cell at most, as long as the window does not change.
        #[test]
        fn an_extreme_is_that_of_the_window_or_of_one_cell_more(
            steps in prop::collection::vec((0_u64..40, 0_u64..1000), 1..400),
            window in 1_u64..1000,
        ) {
            let cell = 1 << cell_bits(window);
            prop_assert!(31 * cell <= window.max(31));
            let (mut min, mut max) = (RecentMin::new(), RecentMax::new());
            let (mut seen, mut now) = (Vec::new(), 0);
            for (gap, value) in steps {
                now += gap;
                seen.push((now, value));
                min.push(now, value, window);
                max.push(now, value, window);
                let within = |span: u64| {
                    let seen = seen.iter();
                    let values = seen.filter(move |(at, _)| now - at <= span).map(|(_, value)| *value);
                    (values.clone().min().unwrap(), values.max().unwrap())
                };
                let (strict, loose) = (within(window), within(window + cell));
                prop_assert!((loose.0..=strict.0).contains(&min.extreme()), "{:?}", min);
                prop_assert!((strict.1..=loose.1).contains(&max.extreme()), "{:?}", max);
            }
        }
    }
}
