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
    /// What rounding has taken from that, in nanoseconds over the rate: with it the next one takes no
    /// division of 128 bits.
    rest: u64,
    /// From one opportunity to the next: nanoseconds, and what is left over.
    interval: (u64, u64),
}

impl Constant {
    /// A schedule that starts at time zero. Rate zero never delivers.
    pub const fn new(rate: Rate) -> Self {
        let bps = rate.as_bps();
        if bps == 0 {
            return Self { rate, number: 1, next: None, rest: 0, interval: (0, 0) };
        }
        let interval = (PACKET_BITS_NANOS / bps, PACKET_BITS_NANOS % bps);
        Self {
            rate,
            number: 1,
            next: Some(Time::from_nanos(interval.0)),
            rest: interval.1,
            interval,
        }
    }

    /// Goes to opportunity `number`.
    fn seek(&mut self, number: u64) {
        let bps = u128::from(self.rate.as_bps());
        let bit_nanos = u128::from(number) * u128::from(PACKET_BITS_NANOS);
        self.number = number;
        self.next = u64::try_from(bit_nanos / bps).ok().map(Time::from_nanos);
        self.rest = (bit_nanos % bps) as u64;
    }

    /// The time of the opportunity behind `next`, and what rounding takes from it.
    fn following(&self, next: Time) -> (Option<u64>, u64) {
        let (nanos, rest) = self.interval;
        // The sum of both rests may pass 64 bits, so it is compared by a difference.
        let (carry, rest) = match self.rest.checked_sub(self.rate.as_bps() - rest) {
            Some(rest) => (1, rest),
            None => (0, self.rest + rest),
        };
        (next.as_nanos().checked_add(nanos + carry), rest)
    }
}

/// Bits of an opportunity times nanoseconds of a second: over a rate in bit/s it is a time in ns.
const PACKET_BITS_NANOS: u64 = OPPORTUNITY_BYTES as u64 * 8 * 1_000_000_000;

impl Schedule for Constant {
    fn peek(&self) -> Option<Time> {
        self.next
    }

    fn take(&mut self) {
        let Some(next) = self.next else { return };
        // A schedule that runs out of numbers ends, as one that runs out of time does.
        let Some(number) = self.number.checked_add(1) else { return self.next = None };
        self.number = number;
        let (next, rest) = self.following(next);
        self.next = next.map(Time::from_nanos);
        self.rest = rest;
    }

    fn skip_through(&mut self, now: Time) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        // Most gaps are short.
        for _ in 0..2 {
            self.take();
            if self.next.is_none_or(|next| next > now) {
                return;
            }
        }
        // After a long pause the number is computed: steps would take as long as the pause.
        let passed = u128::from(now.as_nanos()) * u128::from(self.rate.as_bps())
            / u128::from(PACKET_BITS_NANOS);
        self.seek(self.number.max(u64::try_from(passed).unwrap_or(u64::MAX)));
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
    fn each_opportunity_comes_at_the_rounded_down_time_of_its_number() {
        for bps in [1, 7, 999_983, 7_000_000, 100_000_000, 11_999_999_999_999, u64::MAX] {
            let nanos = |n: u128| n * u128::from(PACKET_BITS_NANOS) / u128::from(bps);
            let mut constant = Constant::new(Rate::from_bps(bps));
            let mut number = 1;
            for step in 0..2_000 {
                let time = u64::try_from(nanos(number)).ok().map(Time::from_nanos);
                assert_eq!(constant.peek(), time, "{bps}, {number}");
                if step % 100 < 99 {
                    constant.take();
                    number += 1;
                    continue;
                }
                // To the instant of one of the next twenty.
                let Ok(now) = u64::try_from(nanos(number + step / 100)) else { break };
                constant.skip_through(Time::from_nanos(now));
                while nanos(number) <= u128::from(now) {
                    number += 1;
                }
            }
        }
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
