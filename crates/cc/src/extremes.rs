//! The largest or smallest sample of a sliding window, exactly.

use std::collections::VecDeque;

/// Largest sample of a window.
pub(crate) type WindowedMax = Extremes<true>;
/// Smallest sample of a window.
pub(crate) type WindowedMin = Extremes<false>;

/// A monotone deque: an older sample stays only while it is better than all younger ones, so the
/// extreme is always at the front. The axis (`at`, `window`) is whatever the user counts in:
/// nanoseconds, rounds.
///
/// Memory grows up to a bound. A run of samples that get worse and worse can fill it; those of one cell
/// of a grid are then merged, the best value with the youngest time. The extreme is then never
/// forgotten too early, and too late by at most one cell: 1/64 of the window with 256 entries.
#[derive(Debug, Clone)]
pub(crate) struct Extremes<const MAX: bool> {
    entries: VecDeque<ExtremeSample>,
    capacity: usize,
}

#[derive(Debug, Clone, Copy)]
struct ExtremeSample {
    at: u64,
    value: u64,
}

impl<const MAX: bool> Extremes<MAX> {
    /// Exact as long as no more than `capacity` samples (at least eight) in a row get worse.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::with_capacity(8), capacity: capacity.max(8) }
    }

    /// Takes a sample and forgets those older than `window`, but never the last one.
    pub(crate) fn push(&mut self, at: u64, value: u64, window: u64) {
        while self.entries.back().is_some_and(|last| !Self::better(last.value, value)) {
            self.entries.pop_back();
        }
        // A worse sample of the same moment would outlive no other.
        if self.entries.back().is_none_or(|last| last.at < at) {
            self.make_room(at, window);
            self.entries.push_back(ExtremeSample { at, value });
        }
        self.expire(at.saturating_sub(window));
    }

    /// The extreme as of the last sample; `None` before the first.
    pub(crate) fn extreme(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.value)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    fn better(a: u64, b: u64) -> bool {
        if MAX { a > b } else { a < b }
    }

    fn expire(&mut self, oldest: u64) {
        while self.entries.len() > 1 && self.entries[0].at < oldest {
            self.entries.pop_front();
        }
    }

    /// Merges once the bound is reached. At least half of it is free afterwards, so the cost per
    /// sample stays constant on average.
    fn make_room(&mut self, at: u64, window: u64) {
        if self.entries.len() < self.capacity {
            return;
        }
        self.expire(at.saturating_sub(window));
        // Powers of two: cells of different windows nest, so merging again and again does not
        // carry a value from cell to cell. Two cells are only partly inside the window.
        let most = self.capacity as u64 / 2 - 2;
        let mut shift = 0;
        while window >> shift > most {
            shift += 1;
        }
        let mut kept = 0;
        for index in 1..self.entries.len() {
            let entry = self.entries[index];
            if entry.at >> shift == self.entries[kept].at >> shift {
                self.entries[kept].at = entry.at;
            } else {
                kept += 1;
                self.entries[kept] = entry;
            }
        }
        self.entries.truncate(kept + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_windowed_minimum_forgets_old_samples_but_never_the_last() {
        const WINDOW: u64 = 10_000;
        let mut min = WindowedMin::new(64);
        assert_eq!(min.extreme(), None);
        for (at, value) in [(0, 50), (100, 40), (5_000, 45)] {
            min.push(at, value, WINDOW);
        }
        assert_eq!(min.extreme(), Some(40));
        min.push(10_150, 47, WINDOW);
        assert_eq!(min.extreme(), Some(45));

        let mut lone = WindowedMin::new(64);
        lone.push(0, 50, WINDOW);
        assert_eq!(lone.extreme(), Some(50));
        lone.push(20_000, 80, WINDOW);
        assert_eq!(lone.extreme(), Some(80));
    }

    #[test]
    fn a_sample_exactly_as_old_as_the_window_still_counts() {
        let mut max = WindowedMax::new(16);
        max.push(5, 100, 10);
        max.push(15, 50, 10);
        assert_eq!(max.extreme(), Some(100));
        max.push(16, 40, 10);
        assert_eq!(max.extreme(), Some(50));
    }

    #[test]
    fn worse_samples_of_the_same_round_take_no_room() {
        let mut max = WindowedMax::new(16);
        for value in (0..1000).rev() {
            max.push(7, value, 10);
        }
        assert_eq!((max.extreme(), max.entries.len()), (Some(999), 1));
    }

    #[test]
    fn a_full_memory_forgets_late_rather_than_early() {
        const WINDOW: u64 = 1000;
        let mut min = WindowedMin::new(16);
        for at in 0..10_000 {
            min.push(at, at, WINDOW);
            assert!(min.entries.len() <= 16);
            let exact = u64::saturating_sub(at, WINDOW);
            // Six cells of 256 cover the window.
            assert!((exact.saturating_sub(256)..=exact).contains(&min.extreme().unwrap()));
        }
        assert!(min.entries.capacity() <= 16);
    }

    proptest! {
        #[test]
        fn the_deque_agrees_with_looking_at_all_samples(
            samples in prop::collection::vec((0u64..20, 0u64..50), 1..200),
            window in 0u64..100,
        ) {
            let (mut min, mut max) = (WindowedMin::new(256), WindowedMax::new(256));
            let (mut at, mut seen) = (0, Vec::new());
            for (step, value) in samples {
                at += step;
                seen.push((at, value));
                min.push(at, value, window);
                max.push(at, value, window);
                let inside = || {
                    seen.iter().filter(|(then, _)| *then + window >= at).map(|(_, value)| *value)
                };
                prop_assert_eq!(min.extreme(), inside().min());
                prop_assert_eq!(max.extreme(), inside().max());
            }
        }
    }
}
