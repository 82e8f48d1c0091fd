//! Opportunities of a rate that changes in steps.

use cellpace_base::{Random, Rate, Time};

use super::Schedule;
use crate::OPPORTUNITY_BYTES;
use crate::steps::{Steps, StepsWalk};

/// A rate that changes in steps: opportunity number `n` comes when the rate, summed up from time
/// zero, has reached `n` packets. A packet that is half through when the rate changes keeps its
/// half. The sum is kept in whole bit-nanoseconds, so nothing drifts.
///
/// A rate that gives no opportunity within a million steps is taken to have ended.
#[derive(Debug, Clone)]
pub struct Piecewise {
    walk: StepsWalk<Rate>,
    /// Bit-nanoseconds from the last opportunity taken before this step up to its start.
    carry: u128,
    /// Opportunities of this step that were taken or let go.
    passed: u128,
    next: Option<Time>,
    lap_bits: u128,
}

const PACKET: u128 = OPPORTUNITY_BYTES as u128 * 8 * 1_000_000_000;
const MAX_STEPS_WITHOUT: u32 = 1_000_000;

impl Piecewise {
    /// From time zero, with the draws of `random`.
    pub fn new(steps: &Steps<Rate>, random: &mut Random) -> Self {
        let walk = steps.walk(random);
        // Only what whole packets leave over matters for the time of the next one.
        let lap_bits = walk.lap_sum(|rate, length| bits(rate, length.as_nanos())) % PACKET;
        let mut schedule = Self { walk, carry: 0, passed: 0, next: None, lap_bits };
        schedule.find_next();
        schedule
    }

    fn find_next(&mut self) {
        self.next = None;
        for _ in 0..MAX_STEPS_WITHOUT {
            let step = self.walk.step();
            // Less than a packet is ever carried, so something is always needed.
            let needed = PACKET * (self.passed + 1) - self.carry;
            if needed <= self.bits_of_step() {
                // A rate of zero has no bits, and a packet always needs some.
                let wait = needed / u128::from(step.value.as_bps());
                let at =
                    u64::try_from(wait).ok().and_then(|w| step.start.as_nanos().checked_add(w));
                self.next = at.map(Time::from_nanos);
                return;
            }
            if step.end == Time::MAX {
                return;
            }
            self.leave_step();
        }
    }

    fn bits_of_step(&self) -> u128 {
        let step = self.walk.step();
        match step.end {
            Time::MAX if step.value > Rate::from_bps(0) => u128::MAX,
            end => bits(step.value, (end - step.start).as_nanos()),
        }
    }

    fn leave_step(&mut self) {
        // What is half sent is carried on, so that a change of the rate loses nothing.
        self.carry = self.carry + self.bits_of_step() - PACKET * self.passed;
        self.passed = 0;
        self.walk.advance();
    }
}

fn bits(rate: Rate, nanos: u64) -> u128 {
    u128::from(rate.as_bps()) * u128::from(nanos)
}

impl Schedule for Piecewise {
    fn peek(&self) -> Option<Time> {
        self.next
    }

    fn take(&mut self) {
        self.passed += 1;
        self.find_next();
    }

    fn skip_through(&mut self, now: Time) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        while self.walk.step().end <= now && self.walk.step().end < Time::MAX {
            self.leave_step();
            let laps = self.walk.skip_laps(now);
            self.carry = (self.carry + u128::from(laps) * self.lap_bits) % PACKET;
        }
        let step = self.walk.step();
        let gone = (self.carry + bits(step.value, (now - step.start).as_nanos())) / PACKET;
        // Never back: opportunities that were taken stay so.
        self.passed = self.passed.max(gone);
        self.find_next();
        // Times are rounded down to nanoseconds: one more may read as passed.
        while self.next.is_some_and(|next| next <= now) {
            self.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Constant;
    use cellpace_base::Span;
    use proptest::prelude::*;

    fn schedule(text: &str, seed: u64) -> Piecewise {
        Piecewise::new(&Steps::parse(text, "rate").unwrap(), &mut Random::seeded(seed, 0))
    }

    fn taken(schedule: &mut Piecewise, count: usize) -> Vec<u64> {
        let next = |_| {
            let at = schedule.peek().unwrap().as_nanos();
            schedule.take();
            at / 1_000
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn opportunities_follow_the_rate_of_their_step() {
        // One packet a millisecond for three, then two a millisecond for one.
        let mut steps = schedule("step:12mbit/3ms,24mbit/1ms", 1);
        assert_eq!(taken(&mut steps, 6), [1_000, 2_000, 3_000, 3_500, 4_000, 5_000]);
    }

    #[test]
    fn half_a_packet_is_kept_over_a_change_and_over_an_outage() {
        let mut steps = schedule("step:12mbit/1500us,0bit/10ms,6mbit/10ms", 1);
        // Half a packet by 1.5 ms; the other half takes 1 ms from 11.5 ms on.
        assert_eq!(taken(&mut steps, 3), [1_000, 12_500, 14_500]);
    }

    #[test]
    fn a_step_without_change_is_a_constant_rate() {
        let mut steps = schedule("step:7mbit/30ms,7mbit/1700us", 1);
        let mut constant = Constant::new(Rate::from_bps(7_000_000));
        for _ in 0..100_000 {
            let (changing, still) = (steps.peek().unwrap(), constant.peek().unwrap());
            // Both round down, from different starting points.
            assert!(
                changing - still <= Span::from_nanos(1) && still - changing <= Span::from_nanos(1)
            );
            steps.take();
            constant.take();
        }
    }

    #[test]
    fn long_runs_do_not_drift() {
        let mut steps = schedule("step:10mbit/5s,100mbit/5s", 1);
        steps.skip_through(Time::from_secs(3600 * 10_000));
        let start = steps.peek().unwrap();
        for _ in 0..10 * 55_000_000 / 12_000 {
            steps.take();
        }
        // Ten seconds carry 45 833 and a third packets.
        let off = (steps.peek().unwrap() - start).as_secs_f64() - 10.0;
        assert!(off.abs() < 0.002, "{off}");
        assert_eq!(start, Time::from_nanos(36_000_000_000_000_000 + 1_200_000));
    }

    #[test]
    fn a_dead_link_has_no_opportunities_and_comes_to_an_end() {
        for text in ["0bit", "step:0bit/1ms,0bit/2ms", "random:0bit..0bit/1ms"] {
            let mut dead = schedule(text, 1);
            assert_eq!(dead.peek(), None, "{text}");
            dead.skip_through(Time::from_secs(5));
            assert_eq!(dead.peek(), None, "{text}");
        }
        let mut live = schedule("step:5mbit/1s,1mbit/1s", 1);
        live.skip_through(Time::MAX);
        assert_eq!(live.peek(), None);
    }

    #[test]
    fn the_highest_rate_ends_with_time_too() {
        let highest = Rate::from_bps(u64::MAX);
        let changing = Steps::cycle([(highest, Span::from_secs(1))]).unwrap();
        for steps in [Steps::constant(highest), changing] {
            let mut live = Piecewise::new(&steps, &mut Random::seeded(1, 0));
            live.skip_through(Time::MAX);
            // At most the opportunities of the last nanosecond are left.
            assert!(live.peek().is_none_or(|next| next == Time::MAX), "{steps}");
        }
    }

    proptest! {
        #[test]
        fn times_do_not_decrease_and_skipping_is_taking(
            seed: u64,
            random: bool,
            skips in prop::collection::vec(0_u64..40_000, 1..30),
        ) {
            let text =
                if random { "random:0bit..30mbit/7ms" } else { "step:9mbit/7ms,0bit/3ms,31mbit/2ms" };
            let (mut skipping, mut taking) = (schedule(text, seed), schedule(text, seed));
            let mut now = Time::ZERO;
            for skip in skips {
                now += Span::from_micros(skip);
                skipping.skip_through(now);
                let mut last = Time::ZERO;
                while taking.peek().unwrap() <= now {
                    prop_assert!(taking.peek().unwrap() >= last);
                    last = taking.peek().unwrap();
                    taking.take();
                }
                prop_assert_eq!(skipping.peek(), taking.peek());
            }
        }
    }
}
