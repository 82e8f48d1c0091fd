//! The receiver's memory of a stream: what arrived out of order, and what has not been read yet.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::ranges::RangeSet;
use cellpace_base::quota::{HeldMemory, MemoryBudget, PAGE};

/// Pieces of a stream, in pages that exist once something has arrived for them.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// The pages of the stream from the one of `consumed` on.
    pages: VecDeque<Option<HeldMemory>>,
    budget: Arc<MemoryBudget>,
    /// The largest window.
    limit: u64,
    consumed: u64,
    held: RangeSet,
}

/// Holes that are remembered at most: a sender that causes more does so on purpose.
const MAX_RANGES: usize = 8192;

/// In-order bytes that a flow may hold beyond the budget: what may arrive until somebody reads.
const RESERVE: u64 = 256 << 10;

/// The window of a new flow. It grows by what is read, which is as much as slow start needs: a
/// sender whose window doubles in each round trip has in flight what has arrived and as much again.
const FIRST_WINDOW: u64 = 1 << 20;

/// The window of a new flow that holds at most `limit` bytes.
pub(crate) fn first_window(limit: u64) -> u64 {
    limit.min(FIRST_WINDOW)
}

impl Assembly {
    /// Holds at most `limit` bytes, and those within a budget.
    pub(crate) fn new(limit: u64, budget: Arc<MemoryBudget>) -> Self {
        let held = RangeSet::default();
        Self { pages: VecDeque::new(), budget, limit, consumed: 0, held }
    }

    /// The offset up to which bytes are taken. It never goes back.
    pub(crate) fn window(&self) -> u64 {
        let size = self.limit.min(FIRST_WINDOW.saturating_add(self.consumed));
        self.consumed.saturating_add(size)
    }

    /// Bytes read so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let pages = self.pages.iter().flatten().count() * PAGE as usize;
        pages
            + self.pages.capacity() * size_of::<Option<HeldMemory>>()
            + self.held.len() * size_of::<Range<u64>>()
    }

    /// Takes a piece. Returns whether it was taken. A piece beyond the window is not, nor is a
    /// piece behind a hole if there are too many holes or the budget is used up. The piece that
    /// comes next always is taken, so that the stream goes on.
    pub(crate) fn insert(&mut self, offset: u64, piece: &[u8]) -> bool {
        let Some(end) = offset.checked_add(piece.len() as u64) else { return false };
        if end > self.window() {
            return false;
        }
        let start = offset.max(self.consumed);
        if start >= end {
            return true;
        }
        let in_order = start <= self.in_order_until();
        if !in_order && self.held.len() >= MAX_RANGES {
            return false;
        }
        let needed = in_order && end - self.consumed <= RESERVE;
        if !self.open(start..end, needed) {
            return false;
        }
        self.put(start, &piece[(start - offset) as usize..]);
        self.held.insert(start..end);
        true
    }

    /// Where the first hole begins.
    fn in_order_until(&self) -> u64 {
        let first = self.held.first().filter(|held| held.start == self.consumed);
        first.map_or(self.consumed, |held| held.end)
    }

    /// The bytes that come next, as far as two pages hold them.
    pub(crate) fn readable(&self) -> (&[u8], &[u8]) {
        let Some(held) = self.held.first().filter(|held| held.start == self.consumed) else {
            return (&[], &[]);
        };
        let edge = (self.consumed / PAGE + 1) * PAGE;
        let (first, second) = (held.start..held.end.min(edge), edge..held.end.min(edge + PAGE));
        (self.part(first), self.part(second))
    }

    /// Removes the first `count` readable bytes, which were read. `take` gets each page of which
    /// all was read.
    pub(crate) fn consume(&mut self, count: usize, mut take: impl FnMut(&[u8])) {
        let pages = (self.consumed + count as u64) / PAGE - self.consumed / PAGE;
        let read = self.pages.drain(..self.pages.len().min(pages as usize));
        read.flatten().for_each(|page| take(&page.bytes));
        self.consumed += count as u64;
        self.held.remove_below(self.consumed);
    }

    /// What was read of the page that holds the next byte.
    pub(crate) fn read_of_page(&self) -> &[u8] {
        let page = self.pages.front().and_then(Option::as_ref);
        page.map_or(&[], |page| &page.bytes[..(self.consumed % PAGE) as usize])
    }

    /// Drops all that is held: nobody will read it.
    pub(crate) fn clear(&mut self) {
        self.pages = VecDeque::new();
        self.held = RangeSet::default();
    }

    /// Allocates pages for a range. Returns whether they exist.
    fn open(&mut self, range: Range<u64>, needed: bool) -> bool {
        for index in self.index(range.start)..=self.index(range.end - 1) {
            if self.pages.len() <= index {
                self.pages.resize_with(index + 1, || None);
            }
            if self.pages[index].is_none() {
                self.pages[index] = self.budget.page(needed);
            }
            if self.pages[index].is_none() {
                return false;
            }
        }
        true
    }

    /// A range within one page.
    fn part(&self, range: Range<u64>) -> &[u8] {
        if range.is_empty() {
            return &[];
        }
        let page = self.pages.get(self.index(range.start)).and_then(Option::as_ref);
        let start = (range.start % PAGE) as usize;
        page.map_or(&[], |page| &page.bytes[start..start + (range.end - range.start) as usize])
    }

    /// Copies a piece into pages that are there.
    fn put(&mut self, mut offset: u64, mut piece: &[u8]) {
        while !piece.is_empty() {
            let index = self.index(offset);
            let start = (offset % PAGE) as usize;
            let (now, later) = piece.split_at(piece.len().min(PAGE as usize - start));
            if let Some(Some(page)) = self.pages.get_mut(index) {
                page.bytes[start..start + now.len()].copy_from_slice(now);
            }
            offset += now.len() as u64;
            piece = later;
        }
    }

    /// Where the page of an offset is.
    fn index(&self, offset: u64) -> usize {
        (offset / PAGE - self.consumed / PAGE) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assembly(limit: u64) -> Assembly {
        Assembly::new(limit, MemoryBudget::new(u64::MAX))
    }

    fn content(range: Range<u64>) -> Vec<u8> {
        range.map(|offset| (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    fn read(assembly: &mut Assembly, most: usize) -> Vec<u8> {
        let (first, second) = assembly.readable();
        let mut bytes = [first, second].concat();
        bytes.truncate(most);
        assembly.consume(bytes.len(), |_| {});
        bytes
    }

    #[test]
    fn what_lies_beyond_the_window_is_refused() {
        let mut assembly = assembly(100);
        assert!(assembly.insert(90, &content(90..100)));
        assert!(!assembly.insert(91, &content(91..101)));
        assert!(!assembly.insert(u64::MAX, &[1, 2]));
        assert!(assembly.insert(0, &content(0..90)));
        assert_eq!(read(&mut assembly, 50), content(0..50));
        assert_eq!(assembly.window(), 150);
        assert!(assembly.insert(100, &content(100..150)));
        assert_eq!(read(&mut assembly, 500), content(50..150));
    }

    #[test]
    fn holes_are_bounded_and_the_piece_that_comes_next_is_always_taken() {
        let mut assembly = assembly(1 << 24);
        let mut pieces = 0..20_000;
        let taken =
            pieces.by_ref().filter(|hole| assembly.insert(1 + 20 * hole, &content(0..10))).count();
        assert_eq!(taken, MAX_RANGES);
        assert!(assembly.memory() < 1 << 19, "{}", assembly.memory());
        assert!(!assembly.insert(11, &[0; 3]), "not even this one");
        assert!(assembly.insert(0, &[0; 1]), "the first hole");
        assert_eq!(assembly.held.len(), MAX_RANGES);
        let (first, _) = assembly.readable();
        assert_eq!(first.len(), 11);
        assembly.consume(11, |_| {});
        assert!(assembly.insert(11, &[0; 10]), "and so the next one");
    }

    #[test]
    fn memory_is_in_proportion_to_what_arrived() {
        let mut assembly = assembly(16_000_000);
        assert!(!assembly.insert(16_000_000 - 1400, &[1; 1400]), "the window begins small");
        assert!(assembly.insert(FIRST_WINDOW - 1400, &[1; 1400]));
        assert!(assembly.memory() < 2 * PAGE as usize, "{}", assembly.memory());
        assert_eq!(assembly.budget.used(), PAGE);
    }

    #[test]
    fn the_window_grows_with_what_is_read() {
        let mut assembly = assembly(16_000_000);
        let mut windows = vec![assembly.window()];
        while assembly.consumed() < 40_000_000 {
            let consumed = assembly.consumed();
            assert!(assembly.insert(consumed, &content(consumed..consumed + 9000)));
            while !read(&mut assembly, usize::MAX).is_empty() {}
            windows.push(assembly.window());
        }
        assert_eq!(windows[0], FIRST_WINDOW);
        assert!(windows.is_sorted(), "it never goes back");
        assert_eq!(assembly.window() - assembly.consumed(), 16_000_000);
        assert!(assembly.budget.used() <= PAGE, "what was read is given back");
    }

    #[test]
    fn beyond_the_budget_only_what_comes_in_order_is_taken() {
        let budget = MemoryBudget::new(3 * PAGE);
        let mut assembly = Assembly::new(1 << 20, budget.clone());
        assert!(assembly.insert(33 * PAGE, &[1]) && assembly.insert(35 * PAGE, &[1]));
        assert!(assembly.insert(37 * PAGE, &[1]));
        assert!(!assembly.insert(39 * PAGE, &[1]), "the budget is used up");
        assert!(assembly.insert(33 * PAGE + 1, &[1]), "this needs no page");
        // Nobody reads.
        let taken = (0..1000).take_while(|at| assembly.insert(at * 1000, &[1; 1000])).count();
        assert_eq!(taken as u64, RESERVE / 1000);
        assert_eq!(budget.used(), 3 * PAGE + RESERVE);
        // Somebody reads a little at a time.
        let mut at = taken as u64 * 1000;
        while at < 60 * PAGE {
            read(&mut assembly, 1000);
            assert!(assembly.insert(at, &[1; 1000]), "{at}");
            at += 1000;
        }
        assembly.clear();
        assert_eq!((budget.used(), assembly.readable().0.len()), (0, 0));
    }

    proptest! {
        /// Whatever comes in whatever order and however often, what is read is the stream.
        #[test]
        fn pieces_become_the_stream(
            limit in 1u64..70_000,
            steps in prop::collection::vec((0u64..90_000, 0u64..3000, 0usize..4000), 1..200),
        ) {
            let mut assembly = assembly(limit);
            let (mut seen, mut base) = (0, 0);
            for (start, length, most) in steps {
                let start = (base + start % (limit + 10)).saturating_sub(5);
                let taken = assembly.insert(start, &content(start..start + length));
                prop_assert_eq!(taken, start + length <= assembly.window());
                let bytes = read(&mut assembly, most);
                prop_assert_eq!(&bytes, &content(seen..seen + bytes.len() as u64));
                seen += bytes.len() as u64;
                base = seen;
                prop_assert!(assembly.memory() <= limit as usize + 3 * PAGE as usize + (1 << 14));
            }
        }
    }
}
