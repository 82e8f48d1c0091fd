//! Sequence numbers that wrap (docs/spec/alcc.md 5).

/// Follows a 32-bit sequence number, or any counter of bytes that wraps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SequenceUnwrap {
    start: u32,
    offset: u64,
}

impl SequenceUnwrap {
    /// `start` is the number of the first byte.
    pub(crate) fn new(start: u32) -> Self {
        Self { start, offset: 0 }
    }

    /// The offset that `number` stands for if it is ahead of all before; `None` for old numbers,
    /// repetitions and steps of more than 2^31, which are old numbers, too.
    pub(crate) fn advance(&mut self, number: u32) -> Option<u64> {
        // offset = (A - S) mod 2^32, unwrapped
        let step = number.wrapping_sub(self.start).wrapping_sub(self.offset as u32);
        // Half of the numbers are ahead and half behind, as in TCP (RFC 9293 section 3.4).
        if step == 0 || step > 1 << 31 {
            return None;
        }
        self.offset += u64::from(step);
        Some(self.offset)
    }
}
