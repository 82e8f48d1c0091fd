//! What Copa knows about delay: one smoothed RTT and four windowed extremes (spec section 3), in whole
//! microseconds, as a kernel can compute with them.

use super::params::{CopaParams, NearEmpty};
use super::recent::{RecentMax, RecentMin};
use crate::{Span, Time};

/// RTT statistics, in microseconds but for the latest.
pub(super) struct CopaDelays {
    /// How the delay is compared with the bound below which the queue is nearly empty.
    near_empty: NearEmpty,
    /// Smoothed RTT in sixteenths; 0 before the first sample.
    srtt: u64,
    /// To the nanosecond: an ack that comes an RTT after a step may be the answer to it, or not yet.
    latest: Span,
    minimum: RecentMin,
    standing: RecentMin,
    near_min: RecentMin,
    near_max: RecentMax,
}

/// Parts of a new sample in the smoothed RTT (genericCC; RFC 6298 would be 8).
const SRTT_PARTS: u64 = 16;

/// Window of the minimum RTT (Copa section 2) in nanoseconds, and how many minimum RTTs it has at least
/// (genericCC).
const MIN_RTT_WINDOW: u64 = 10_000_000_000;
const MIN_RTT_RTTS: u64 = 20;

/// Window of the standing RTT: the smoothed RTT divided by this (Copa section 2).
const STANDING_DIVISOR: u64 = 2;

/// Smoothed RTTs in the windows of the smallest and the largest RTT of the near-empty rule, and
/// the part of its range below which a queue counts as nearly empty (Copa section 2.2).
const NEAR_MIN_RTTS: u64 = 5;
const NEAR_MAX_RTTS: u64 = 4;
const NEAR_PARTS: u64 = 10;

/// Longer RTTs count as this: 18 minutes.
const MAX_RTT: u64 = 1 << 30;

impl CopaDelays {
    pub(super) fn new(params: &CopaParams) -> Self {
        Self {
            near_empty: params.near_empty,
            srtt: 0,
            latest: Span::ZERO,
            minimum: RecentMin::new(),
            standing: RecentMin::new(),
            near_min: RecentMin::new(),
            near_max: RecentMax::new(),
        }
    }

    /// Takes one RTT sample. Returns the minimum if this sample changed it.
    pub(super) fn sample(&mut self, now: Time, rtt: Span) -> Option<Span> {
        let rtt = rtt.min(Span::from_micros(MAX_RTT));
        self.latest = rtt;
        let rtt = rtt.as_nanos() / 1000;
        // Section 3: gain 1/16 after the first sample.
        self.srtt = match self.srtt {
            0 => SRTT_PARTS * rtt,
            srtt => srtt - srtt / SRTT_PARTS + rtt,
        };

        let long = self.long_window();
        let rtts = |parts: u64| (parts * self.srtt * 1000 / SRTT_PARTS).min(long);
        let windows = [rtts(NEAR_MIN_RTTS), rtts(NEAR_MAX_RTTS), self.standing_window().min(long)];
        let now = now.as_nanos();
        let before = self.minimum.extreme();
        self.minimum.push(now, rtt, long);
        self.near_min.push(now, rtt, windows[0]);
        self.near_max.push(now, rtt, windows[1]);
        self.standing.push(now, rtt, windows[2]);
        let after = self.minimum.extreme();
        (after != before).then(|| Span::from_micros(after))
    }

    /// Forgets all but the minimum: an outage does not change the length of the path.
    pub(super) fn restart(&mut self) {
        self.srtt = 0;
        self.latest = Span::ZERO;
        self.standing.clear();
        self.near_min.clear();
        self.near_max.clear();
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.restart();
        self.minimum.clear();
    }

    /// The smoothed RTT; 0 before the first sample.
    pub(super) fn srtt(&self) -> u64 {
        self.srtt / SRTT_PARTS
    }

    pub(super) fn latest(&self) -> Span {
        self.latest
    }

    /// The windowed minimum; 0 before the first sample.
    pub(super) fn minimum(&self) -> u64 {
        self.minimum.extreme()
    }

    /// The standing RTT; 0 before the first sample.
    pub(super) fn standing(&self) -> u64 {
        self.standing.extreme()
    }

    /// Queueing delay of the standing queue.
    pub(super) fn queueing(&self) -> u64 {
        self.standing().saturating_sub(self.minimum())
    }

    /// Section 7: whether the queue was nearly empty within the last RTTs.
    pub(super) fn near_empty(&self) -> bool {
        let base = self.minimum.extreme();
        let recent = NEAR_PARTS * self.near_min.extreme().saturating_sub(base);
        let range = self.near_max.extreme().saturating_sub(base);
        match self.near_empty {
            NearEmpty::Strict => recent < range,
            NearEmpty::Inclusive => recent <= range,
        }
    }

    /// Section 3: max(10 s, 20 rtt_min), from the minimum before the sample, in nanoseconds.
    fn long_window(&self) -> u64 {
        MIN_RTT_WINDOW.max(MIN_RTT_RTTS * self.minimum.extreme() * 1000)
    }

    /// Section 3: srtt / 2, in nanoseconds.
    fn standing_window(&self) -> u64 {
        self.srtt * 1000 / (SRTT_PARTS * STANDING_DIVISOR)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::params;
    use super::*;

    fn delays(text: &str) -> CopaDelays {
        CopaDelays::new(&params(text))
    }

    fn feed(delays: &mut CopaDelays, samples: &[(u64, f64)]) {
        for (at, rtt) in samples {
            delays.sample(Time::from_millis(*at), Span::from_millis_f64(*rtt));
        }
    }

    #[test]
    fn copa_t5_the_minimum_lives_ten_seconds_or_twenty_minima() {
        let mut short = delays("");
        feed(&mut short, &[(0, 50.0), (100, 40.0), (5_000, 45.0)]);
        assert_eq!(short.minimum(), 40_000);
        feed(&mut short, &[(10_150, 47.0)]);
        assert_eq!(short.minimum(), 45_000);

        let mut long = delays("");
        feed(&mut long, &[(0, 600.0), (11_900, 700.0)]);
        assert_eq!((long.long_window(), long.minimum()), (12_000_000_000, 600_000));
        feed(&mut long, &[(12_100, 700.0)]);
        assert_eq!(long.minimum(), 700_000);
    }

    #[test]
    fn copa_t6_smoothing_and_the_standing_window() {
        let mut delays = delays("");
        feed(&mut delays, &[(0, 100.0)]);
        assert_eq!(delays.srtt(), 100_000);
        feed(&mut delays, &[(10, 180.0)]);
        assert_eq!(delays.srtt(), 105_000);
        assert_eq!(delays.standing_window(), 52_500_000);
        assert_eq!(delays.standing(), 100_000);
        feed(&mut delays, &[(70, 180.0)]);
        assert_eq!(delays.standing(), 180_000);
    }

    #[test]
    fn copa_t7_near_empty() {
        let near_empty = |text: &str, recent: f64| {
            let mut delays = delays(text);
            // The minimum is old; 90 ms stays within four, the recent ones within five RTTs.
            feed(&mut delays, &[(0, 40.0), (2_000, 90.0), (2_100, 90.0), (2_200, recent)]);
            delays.near_empty()
        };
        assert!(near_empty("", 45.0));
        assert!(!near_empty("", 45.1));
        assert!(!near_empty("near_empty=strict", 45.0));

        let constant = |text: &str| {
            let mut delays = delays(text);
            feed(&mut delays, &[(0, 40.0), (10, 40.0), (20, 40.0)]);
            delays.near_empty()
        };
        assert!(constant(""));
        assert!(!constant("near_empty=strict"), "the code's rule misreads a constant RTT");
    }

    #[test]
    fn an_outage_keeps_the_minimum_and_a_new_path_does_not() {
        let mut delays = delays("");
        feed(&mut delays, &[(0, 40.0), (10, 60.0)]);
        delays.restart();
        feed(&mut delays, &[(3_000, 500.0)]);
        assert_eq!((delays.minimum(), delays.standing()), (40_000, 500_000));
        delays.clear();
        feed(&mut delays, &[(3_100, 500.0)]);
        assert_eq!(delays.minimum(), 500_000);
    }
}
