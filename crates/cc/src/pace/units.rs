//! The law's whole numbers, as a kernel can compute with them: durations in microseconds, packets
//! and rates (packets per second) with 16 bits behind the point.

use crate::Span;

/// One packet, one packet per second, one of a ratio.
pub(super) const ONE: u64 = 1 << 16;
/// More packets than any path holds; keeps everything finite.
pub(super) const MAX_WINDOW: u64 = ONE << 20;
/// Microseconds of a second.
pub(super) const SECOND: u64 = 1_000_000;

pub(super) fn micros(span: Span) -> u64 {
    span.as_nanos() / 1000
}

pub(super) fn packets_of(bytes: u64, mss: u64) -> u64 {
    bytes.min(1 << 47) * ONE / mss
}

/// The smallest value of the period that runs, and that of the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoMinima {
    since: crate::Time,
    now: u64,
    before: u64,
}

impl TwoMinima {
    /// Stands for no value.
    pub(super) const NONE: u64 = u64::MAX;

    pub(super) fn new(since: crate::Time) -> Self {
        Self { since, now: Self::NONE, before: Self::NONE }
    }

    /// Takes a value and returns the smallest of the period before.
    pub(super) fn push(&mut self, now: crate::Time, value: u64, period: Span) -> u64 {
        if now - self.since > period {
            *self = Self { since: now, now: Self::NONE, before: self.now };
        }
        self.now = self.now.min(value);
        self.before
    }

    /// Returns the smallest value of both periods.
    pub(super) fn smallest(&self) -> u64 {
        self.now.min(self.before)
    }
}
