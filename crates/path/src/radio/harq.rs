//! Blocks of a millisecond that are repeated until they arrive, and delivered in order.

use std::collections::VecDeque;

use super::rate::CqiTable;

/// How blocks are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Milliseconds from a try to the next.
    pub rtt_ms: u64,
    /// Repetitions at most; then RLC delivers.
    pub retries: u64,
    /// Milliseconds from the last try until RLC has delivered.
    pub rlc_ms: u64,
}

/// A block that is not delivered yet.
#[derive(Debug, Clone)]
struct TransportBlock {
    bytes: f64,
    cqi: u8,
    /// Sum of the SINRs of its tries.
    sinr: f64,
    tries: u64,
    /// When it is there, once that is known.
    done_ms: Option<u64>,
}

/// Blocks from the base station to the phone, one try a millisecond.
#[derive(Debug, Clone)]
pub struct Harq {
    repetition: Repetition,
    /// Blocks that are not delivered yet, in order.
    blocks: VecDeque<TransportBlock>,
    /// Number of the first of them.
    first: u64,
    /// Blocks that failed: when the next try is, which.
    failed: VecDeque<(u64, u64)>,
}

impl Harq {
    /// Without any block.
    pub fn new(repetition: Repetition) -> Self {
        Self { repetition, blocks: VecDeque::new(), first: 0, failed: VecDeque::new() }
    }

    /// Whether a block is to be repeated at `now_ms`, in the place of a new one.
    pub fn is_taken(&self, now_ms: u64) -> bool {
        self.failed.front().is_some_and(|(at, _)| *at <= now_ms)
    }

    /// Sends a new block.
    pub fn send(&mut self, now_ms: u64, bytes: f64, cqi: u8, sinr: f64, table: &CqiTable) {
        let number = self.first + self.blocks.len() as u64;
        self.blocks.push_back(TransportBlock { bytes, cqi, sinr: 0.0, tries: 0, done_ms: None });
        self.attempt(now_ms, number, sinr, table);
    }

    /// Repeats the block whose turn it is.
    pub fn repeat(&mut self, now_ms: u64, sinr: f64, table: &CqiTable) {
        if let Some((_, number)) = self.failed.pop_front() {
            self.attempt(now_ms, number, sinr, table);
        }
    }

    fn attempt(&mut self, now_ms: u64, number: u64, sinr: f64, table: &CqiTable) {
        let Repetition { rtt_ms, retries, rlc_ms } = self.repetition;
        let block = &mut self.blocks[(number - self.first) as usize];
        block.tries += 1;
        // Chase combining: the energy of all tries counts.
        block.sinr += sinr;
        if table.suffices(block.sinr, block.cqi) {
            block.done_ms = Some(now_ms);
        } else if block.tries > retries {
            // RLC delivers for sure: to TCP a block that HARQ gave up is late, and not lost.
            block.done_ms = Some(now_ms + rlc_ms);
        } else {
            // All wait for the same time, so that the queue is in the order of the next tries.
            self.failed.push_back((now_ms + rtt_ms, number));
        }
    }

    /// Bytes that are delivered by `now_ms` and were not before.
    pub fn deliver(&mut self, now_ms: u64) -> f64 {
        let mut bytes = 0.0;
        while self.blocks.front().is_some_and(|b| b.done_ms.is_some_and(|done| done <= now_ms)) {
            bytes += self.blocks.pop_front().map_or(0.0, |block| block.bytes);
            self.first += 1;
        }
        bytes
    }

    /// Gives up all blocks and returns the bytes of blocks that had arrived out of order:
    /// a link that is left hands them up.
    pub fn reset(&mut self, now_ms: u64) -> f64 {
        self.failed.clear();
        // Numbers go on, so that a repetition that was planned finds no other block in its place.
        self.first += self.blocks.len() as u64;
        let done = |block: &TransportBlock| block.done_ms.is_some_and(|done| done <= now_ms);
        self.blocks.drain(..).filter(done).map(|block| block.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LTE: Repetition = Repetition { rtt_ms: 8, retries: 4, rlc_ms: 50 };

    #[test]
    fn a_late_block_holds_up_those_behind_it() {
        let (table, mut harq) = (CqiTable::new(5e-5), Harq::new(LTE));
        let good = 1e6;
        // CQI 15 needs 254: two tries with 200 suffice.
        harq.send(0, 100.0, 15, 200.0, &table);
        assert_eq!(harq.deliver(0), 0.0);
        for ms in 1..8 {
            assert!(!harq.is_taken(ms));
            harq.send(ms, 10.0, 15, good, &table);
            assert_eq!(harq.deliver(ms), 0.0);
        }
        assert!(harq.is_taken(8));
        harq.repeat(8, 200.0, &table);
        assert_eq!(harq.deliver(8), 170.0);
        assert!(!harq.is_taken(16));
    }

    #[test]
    fn rlc_delivers_after_the_last_repetition() {
        let (table, mut harq) = (CqiTable::new(5e-5), Harq::new(LTE));
        harq.send(0, 100.0, 15, 1.0, &table);
        for ms in (8..=32).step_by(8) {
            assert!(harq.is_taken(ms));
            harq.repeat(ms, 1.0, &table);
        }
        assert!(!harq.is_taken(40));
        assert_eq!((harq.deliver(81), harq.deliver(82)), (0.0, 100.0));
    }

    #[test]
    fn a_link_that_is_left_hands_up_what_has_arrived() {
        let (table, mut harq) = (CqiTable::new(5e-5), Harq::new(LTE));
        harq.send(0, 100.0, 15, 1.0, &table);
        harq.send(1, 10.0, 15, 1e6, &table);
        assert_eq!(harq.reset(2), 10.0);
        assert!(!harq.is_taken(8));
        harq.send(9, 1.0, 15, 1e6, &table);
        assert_eq!(harq.deliver(9), 1.0);
    }
}
