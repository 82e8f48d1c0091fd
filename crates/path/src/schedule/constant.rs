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
    /// When opportunity `number` comes; kept because it is asked for more often than taken.
    next: Option<Time>,
}

impl Constant {
    /// A schedule that starts at time zero. Rate zero never delivers.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, number: 1, next: time_of(1, rate) }
    }
}

const PACKET_BITS_NANOS: u128 = OPPORTUNITY_BYTES as u128 * 8 * 1_000_000_000;

const fn time_of(number: u64, rate: Rate) -> Option<Time> {
    if rate.as_bps() == 0 {
        return None;
    }
    let nanos = number as u128 * PACKET_BITS_NANOS / rate.as_bps() as u128;
    if nanos > u64::MAX as u128 { None } else { Some(Time::from_nanos(nanos as u64)) }
}

impl Schedule for Constant {
    fn peek(&self) -> Option<Time> {
        self.next
    }

    fn take(&mut self) {
        // A schedule that runs out of numbers ends, as one that runs out of time does.
        self.next = self.number.checked_add(1).and_then(|number| {
            self.number = number;
            time_of(number, self.rate)
        });
    }

    fn skip_through(&mut self, now: Time) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        let passed =
            u128::from(now.as_nanos()) * u128::from(self.rate.as_bps()) / PACKET_BITS_NANOS;
        self.number = self.number.max(u64::try_from(passed).unwrap_or(u64::MAX));
        self.next = time_of(self.number, self.rate);
        // The quotient of rounded-down times may be one short; the loop takes the last step.
        while self.next.is_some_and(|next| next <= now) {
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

    #[test]
    fn the_end_of_time_ends_the_schedule() {
        for bps in [1, 7_000_000, u64::MAX] {
            let mut constant = Constant::new(Rate::from_bps(bps));
            constant.skip_through(Time::MAX);
            assert_eq!(constant.peek(), None, "{bps}");
        }
    }
}
