//! Lets packets go at the controller's pacing rate.

use cellpace_cc::{Pacing, Span, Time};

/// How late the timers of a host fire. What leaves in this time at the pacing rate may leave at once:
/// if it could not, the timers would hold the rate down. Two full packets in this time are 480 Mbit/s.
const TIMER_LATENESS: Span = Span::from_micros(50);

/// A bucket that fills at the pacing rate and holds one burst.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// Bytes that may leave now.
    level: f64,
    filled_at: Time,
}

impl Pacer {
    /// A pacer that lets the first packet go at once.
    pub const fn new(now: Time) -> Self {
        Self { level: f64::MAX, filled_at: now }
    }

    /// When a packet of `bytes` may leave: `now` or later, `None` for as long as the rate is zero.
    #[inline]
    pub fn release_at(&mut self, now: Time, bytes: u64, pacing: Option<Pacing>) -> Option<Time> {
        match pacing {
            Some(pacing) => self.paced_release(now, bytes, pacing),
            None => Some(now),
        }
    }

    fn paced_release(&mut self, now: Time, bytes: u64, pacing: Pacing) -> Option<Time> {
        self.fill(now, bytes, pacing);
        let lacking = bytes as f64 - self.level;
        if lacking <= 0.0 {
            return Some(now);
        }
        let rate = pacing.rate.as_bytes_per_sec();
        if rate <= 0.0 {
            return None;
        }
        let nanos = (lacking / rate * 1e9).ceil().min(1e18);
        Some(now + Span::from_nanos((nanos as u64).max(1)))
    }

    /// A packet left.
    #[inline]
    pub fn on_sent(&mut self, bytes: u64, pacing: Option<Pacing>) {
        if pacing.is_some() {
            self.level -= bytes as f64;
        }
    }

    /// The bucket holds the burst, and never less than the packet that waits.
    fn fill(&mut self, now: Time, bytes: u64, pacing: Pacing) {
        let rate = pacing.rate.as_bytes_per_sec();
        let gained = rate * (now - self.filled_at).as_secs_f64();
        let late = rate * TIMER_LATENESS.as_secs_f64();
        self.level = (self.level + gained).min(late.max(pacing.burst.max(bytes) as f64));
        self.filled_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::Rate;

    fn pacing(mbit: u64, burst: u64) -> Option<Pacing> {
        Some(Pacing { rate: Rate::from_bps(mbit * 1_000_000), burst })
    }

    /// Times at which `n` packets of 1500 bytes leave.
    fn departures(pacing: Option<Pacing>, n: usize) -> Vec<Time> {
        let mut pacer = Pacer::new(Time::ZERO);
        let mut now = Time::ZERO;
        let mut left = Vec::new();
        while left.len() < n {
            let at = pacer.release_at(now, 1500, pacing).unwrap();
            if at > now {
                now = at;
                continue;
            }
            pacer.on_sent(1500, pacing);
            left.push(now);
        }
        left
    }

    #[test]
    fn packets_leave_one_by_one_at_the_rate() {
        let left = departures(pacing(12, 1500), 1001);
        let last = left[1000].as_millis_f64();
        assert!((last - 1000.0).abs() < 0.1, "{last}");
    }

    #[test]
    fn a_burst_leaves_at_once_and_no_more() {
        let left = departures(pacing(12, 15_000), 12);
        assert_eq!(left[9], Time::ZERO);
        assert!(left[10] > Time::ZERO);
    }

    #[test]
    fn late_timers_do_not_hold_a_high_rate_down() {
        // Looked at every 50 us, for 5 ms.
        let sent = |mbit: u64| {
            let mut pacer = Pacer::new(Time::ZERO);
            let pacing = pacing(mbit, 3_000);
            let times = (0..100).map(|at| Time::from_micros(50 * at));
            times
                .map(|now| {
                    let mut packets = 0;
                    while pacer.release_at(now, 1500, pacing) == Some(now) {
                        pacer.on_sent(1500, pacing);
                        packets += 1;
                    }
                    packets
                })
                .collect::<Vec<u64>>()
        };
        assert_eq!(sent(4_800), [20; 100]);
        assert_eq!(sent(480), [2; 100], "the burst alone");
        assert_eq!(sent(240).iter().sum::<u64>(), 101, "and no more than the rate");
    }

    #[test]
    fn without_pacing_nothing_waits_and_at_rate_zero_nothing_leaves() {
        assert_eq!(*departures(None, 100).last().unwrap(), Time::ZERO);
        let mut pacer = Pacer::new(Time::ZERO);
        pacer.on_sent(1, pacing(0, 0));
        pacer.release_at(Time::ZERO, 1500, pacing(0, 0));
        pacer.on_sent(1500, pacing(0, 0));
        assert_eq!(pacer.release_at(Time::from_secs(9), 1500, pacing(0, 0)), None);
    }

    #[test]
    fn a_higher_rate_takes_effect_at_once() {
        let mut pacer = Pacer::new(Time::ZERO);
        let slow = pacing(1, 1500);
        pacer.release_at(Time::ZERO, 1500, slow);
        pacer.on_sent(1500, slow);
        let waits = pacer.release_at(Time::ZERO, 1500, pacing(1000, 1500)).unwrap();
        assert!(waits - Time::ZERO <= Span::from_micros(13));
    }
}
