//! One opportunity every so often.

use cellpace_base::{Rate, Time};

use super::Schedule;
use crate::OPPORTUNITY_BYTES;

/// A constant rate: opportunity number `n` (from 1) comes when `n` packets have been serialised.
/// Computed from the number, so that rounding does not add up.
#[derive(Debug, Clone)]
pub struct Constant {
    rate: Rate,
    number: u64,
}

impl Constant {
    /// A schedule that starts at time zero. Rate zero never delivers.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, number: 1 }
    }
}

const PACKET_BITS_NANOS: u128 = OPPORTUNITY_BYTES as u128 * 8 * 1_000_000_000;

impl Schedule for Constant {
    fn peek(&self) -> Option<Time> {
        let bps = u128::from(self.rate.as_bps());
        if bps == 0 {
            return None;
        }
        u64::try_from(u128::from(self.number) * PACKET_BITS_NANOS / bps).ok().map(Time::from_nanos)
    }

    fn take(&mut self) {
        self.number += 1;
    }

    fn skip_through(&mut self, now: Time) {
        let passed =
            u128::from(now.as_nanos()) * u128::from(self.rate.as_bps()) / PACKET_BITS_NANOS;
        // The quotient of rounded-down times may be one short; the loop takes the last step.
        self.number = self.number.max(u64::try_from(passed).unwrap_or(u64::MAX).max(1));
        while self.peek().is_some_and(|next| next <= now) {
            self.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opportunities_come_at_the_rate_without_drift() {
        let mut constant = Constant::new(Rate::from_bps(7_000_000));
        for _ in 0..7_000_000 / 12 {
            constant.take();
        }
        // 583 333 packets of 12 000 bits at 7 Mbit/s are just short of 1000 s.
        let next = constant.peek().unwrap().as_secs_f64();
        assert!((next - 1000.0).abs() < 0.002, "{next}");
    }

    #[test]
    fn skipping_lets_go_of_exactly_the_past() {
        let mut constant = Constant::new(Rate::from_bps(12_000_000));
        constant.skip_through(Time::from_millis(5));
        assert_eq!(constant.peek(), Some(Time::from_millis(6)));
        constant.skip_through(Time::from_micros(6_999));
        assert_eq!(constant.peek(), Some(Time::from_millis(7)));
        assert_eq!(Constant::new(Rate::from_bps(0)).peek(), None);
    }
}
