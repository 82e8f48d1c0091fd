//! Sets of numbers that come mostly in order: packet numbers, offsets of a stream.

use std::collections::VecDeque;
use std::ops::Range;

/// A set of numbers as ranges that do not touch, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range<u64>>,
}

impl RangeSet {
    /// Adds `range`. Returns how many of its numbers are new.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        if let Some(last) = self.ranges.back_mut()
            && last.end == range.start
        {
            last.end = range.end;
            return range.end - range.start;
        }
        // The ranges that touch or overlap become one.
        let from = self.ranges.partition_point(|held| held.end < range.start);
        let to = self.ranges.partition_point(|held| held.start <= range.end);
        if from == to {
            let new = range.end - range.start;
            self.ranges.insert(from, range);
            return new;
        }
        let start = self.ranges[from].start.min(range.start);
        let end = self.ranges[to - 1].end.max(range.end);
        let held: u64 = self.ranges.range(from..to).map(|held| held.end - held.start).sum();
        self.ranges[from] = start..end;
        self.ranges.drain(from + 1..to);
        end - start - held
    }

    /// Forgets the numbers below `floor`.
    pub(crate) fn remove_below(&mut self, floor: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.end > floor {
                first.start = first.start.max(floor);
                return;
            }
            self.ranges.pop_front();
        }
    }

    /// Takes out the lowest range.
    pub(crate) fn pop_first(&mut self) -> Option<Range<u64>> {
        self.ranges.pop_front()
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let after = self.ranges.partition_point(|held| held.start <= number);
        after.checked_sub(1).is_some_and(|index| number < self.ranges[index].end)
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<&Range<u64>> {
        self.ranges.front()
    }

    /// Returns the number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> {
        self.ranges.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0u64..120, 0u64..20, any::<bool>()), 1..80)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (start, length, insert) in steps {
                if insert {
                    let new = (start..start + length).filter(|n| model.insert(*n)).count();
                    prop_assert_eq!(set.insert(start..start + length), new as u64);
                } else {
                    set.remove_below(start);
                    model.retain(|n| *n >= start);
                }
                let held: Vec<u64> = set.iter().cloned().flatten().collect();
                prop_assert_eq!(&held, &model.iter().copied().collect::<Vec<_>>());
                prop_assert!((0..150).all(|n| set.contains(n) == model.contains(&n)));
                let apart = set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.end < b.start);
                prop_assert!(apart, "{:?}", set);
            }
        }
    }
}
