//! What Copa knows about delay: one smoothed RTT and four windowed extremes (spec section 3).

use super::params::{CopaParams, NearEmpty};
use crate::extremes::{WindowedMax, WindowedMin};
use crate::{Span, Time};

/// RTT statistics, all in milliseconds to the outside.
pub(super) struct CopaDelays {
    /// How the delay is compared with the bound below which the queue is nearly empty.
    near_empty: NearEmpty,
    srtt: Option<f64>,
    latest: Span,
    minimum: WindowedMin,
    standing: WindowedMin,
    near_min: WindowedMin,
    near_max: WindowedMax,
    /// The extremes that every ack asks for, in milliseconds.
    minimum_ms: f64,
    standing_ms: f64,
}

/// Weight of a new sample in the smoothed RTT (genericCC; RFC 6298 would be 0.125).
const SRTT_GAIN: f64 = 0.0625;

/// Window of the minimum RTT (Copa section 2), and how many minimum RTTs it has at least
/// (genericCC).
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
const MIN_RTT_RTTS: f64 = 20.0;

/// Window of the standing RTT: the smoothed RTT divided by this (Copa section 2).
const STANDING_DIVISOR: f64 = 2.0;

/// Smoothed RTTs in the windows of the smallest and the largest RTT of the near-empty rule, and
/// the share of its range below which a queue counts as nearly empty (Copa section 2.2).
const NEAR_MIN_RTTS: f64 = 5.0;
const NEAR_MAX_RTTS: f64 = 4.0;
const NEAR_SHARE: f64 = 0.1;

impl CopaDelays {
    /// Samples in a row that may get worse before a window loses exactness: more than one window
    /// of a fast cellular link.
    const CAPACITY: usize = 512;

    pub(super) fn new(params: &CopaParams) -> Self {
        Self {
            near_empty: params.near_empty,
            srtt: None,
            latest: Span::ZERO,
            minimum: WindowedMin::new(Self::CAPACITY),
            standing: WindowedMin::new(Self::CAPACITY),
            near_min: WindowedMin::new(Self::CAPACITY),
            near_max: WindowedMax::new(Self::CAPACITY),
            minimum_ms: 0.0,
            standing_ms: 0.0,
        }
    }

    /// Takes one RTT sample. Returns the minimum if this sample changed it.
    pub(super) fn sample(&mut self, now: Time, rtt: Span) -> Option<Span> {
        let sample = rtt.as_millis_f64();
        // Section 3: gain 1/16 after the first sample.
        let srtt = self.srtt.map_or(sample, |old| old + SRTT_GAIN * (sample - old));
        self.srtt = Some(srtt);
        self.latest = rtt;

        let long = self.long_window();
        let rtts = |n: f64| Span::from_millis_f64(n * srtt).min(long).as_nanos();
        let standing = self.standing_window().min(long).as_nanos();
        let (at, value) = (now.as_nanos(), rtt.as_nanos());
        let before = self.minimum.extreme();
        self.minimum.push(at, value, long.as_nanos());
        self.standing.push(at, value, standing);
        self.near_min.push(at, value, rtts(NEAR_MIN_RTTS));
        self.near_max.push(at, value, rtts(NEAR_MAX_RTTS));
        let after = self.minimum.extreme();
        if after != before {
            self.minimum_ms = millis(after);
        }
        self.standing_ms = millis(self.standing.extreme());
        after.filter(|_| after != before).map(Span::from_nanos)
    }

    /// Forgets all but the minimum: an outage does not change the length of the path.
    pub(super) fn restart(&mut self) {
        self.srtt = None;
        self.latest = Span::ZERO;
        self.standing.clear();
        self.standing_ms = 0.0;
        self.near_min.clear();
        self.near_max.clear();
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.restart();
        self.minimum.clear();
        self.minimum_ms = 0.0;
    }

    pub(super) fn srtt(&self) -> Option<f64> {
        self.srtt
    }

    pub(super) fn latest(&self) -> Span {
        self.latest
    }

    /// The windowed minimum; zero before the first sample.
    pub(super) fn minimum(&self) -> f64 {
        self.minimum_ms
    }

    /// The standing RTT; zero before the first sample.
    pub(super) fn standing(&self) -> f64 {
        self.standing_ms
    }

    /// Queueing delay of the standing queue.
    pub(super) fn queueing(&self) -> f64 {
        (self.standing() - self.minimum()).max(0.0)
    }

    /// Section 7: whether the queue was nearly empty within the last RTTs.
    pub(super) fn near_empty(&self) -> bool {
        // In nanoseconds: the comparison needs no unit, and this runs on every ack.
        let nanos = |extreme: Option<u64>| extreme.unwrap_or(0) as f64;
        let base = nanos(self.minimum.extreme());
        let limit = base + NEAR_SHARE * (nanos(self.near_max.extreme()) - base);
        let recent = nanos(self.near_min.extreme());
        match self.near_empty {
            NearEmpty::Strict => recent < limit,
            NearEmpty::Inclusive => recent <= limit,
        }
    }

    /// Section 3: max(10 s, 20 rtt_min), from the minimum before the sample.
    fn long_window(&self) -> Span {
        let old = Span::from_nanos(self.minimum.extreme().unwrap_or(0));
        MIN_RTT_WINDOW.max(old.mul_f64(MIN_RTT_RTTS))
    }

    /// Section 3: srtt / 2.
    fn standing_window(&self) -> Span {
        Span::from_millis_f64(self.srtt.unwrap_or(0.0) / STANDING_DIVISOR)
    }
}

fn millis(nanos: Option<u64>) -> f64 {
    nanos.map_or(0.0, |nanos| Span::from_nanos(nanos).as_millis_f64())
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
        assert_eq!(short.minimum(), 40.0);
        feed(&mut short, &[(10_150, 47.0)]);
        assert_eq!(short.minimum(), 45.0);

        let mut long = delays("");
        feed(&mut long, &[(0, 600.0), (11_900, 700.0)]);
        assert_eq!((long.long_window(), long.minimum()), (Span::from_secs(12), 600.0));
        feed(&mut long, &[(12_100, 700.0)]);
        assert_eq!(long.minimum(), 700.0);
    }

    #[test]
    fn copa_t6_smoothing_and_the_standing_window() {
        let mut delays = delays("");
        feed(&mut delays, &[(0, 100.0)]);
        assert_eq!(delays.srtt(), Some(100.0));
        feed(&mut delays, &[(10, 180.0)]);
        assert_eq!(delays.srtt(), Some(105.0));
        assert_eq!(delays.standing_window(), Span::from_millis_f64(52.5));
        assert_eq!(delays.standing(), 100.0);
        feed(&mut delays, &[(70, 180.0)]);
        assert_eq!(delays.standing(), 180.0);
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
        assert_eq!((delays.minimum(), delays.standing()), (40.0, 500.0));
        delays.clear();
        feed(&mut delays, &[(3_100, 500.0)]);
        assert_eq!(delays.minimum(), 500.0);
    }
}
