//! The base RTT, how it is looked for when the queue has not been empty for long, and what it
//! means when the queue is not ours.

use crate::{Span, Time};

/// Seconds throughout.
#[derive(Debug, Clone)]
pub(super) struct BaseRtt {
    /// What queueing delay counts from.
    base: f64,
    /// The smallest RTT of this path, below the base after a search that did not find it again.
    floor: f64,
    raised_at: Time,
    /// When an RTT near the base was last seen, or a search for it ended.
    seen_at: Time,
    searched_at: Time,
    every: Span,
    search: Option<Search>,
    /// Until then what arrives was sent with the window of a search.
    settles_at: Time,
    rivals: bool,
    /// Whether the last search has ended above the floor.
    suspected: bool,
    stretch: Stretch,
    lately: TwoMinima,
}

/// A search: the window is small, so that our own queue goes.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// Our queue is gone from then on.
    from: Time,
    until: Time,
    low: f64,
    high: f64,
    samples: u32,
}

/// Range of the RTT.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    since: Time,
    low: f64,
    high: f64,
}

/// The smallest value of the period that runs, and that of the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoMinima {
    since: Time,
    now: f64,
    before: f64,
}

/// How near to the base an RTT counts as one.
const NEAR: (f64, f64) = (1.0 / 64.0, 1e-4);
/// A path that has not had its old RTT for this long has become another.
const RAISED_FOR: Span = Span::from_secs(30);
/// Samples that a search needs, and those that end it.
const SAMPLES: (u32, u32) = (2, 4);
/// The longest RTT for which a search waits.
const MAX_WAIT: f64 = 1.0;
/// A queue above this share of the floor, and this many seconds, after ours has gone is not ours.
const RIVALS: (f64, f64) = (0.6, 0.004);
/// Share of the queueing delay that goes when somebody else has begun a search.
const JOIN: f64 = 0.04;

impl BaseRtt {
    pub(super) fn new(now: Time, every: Span) -> Self {
        Self {
            base: 0.0,
            floor: 0.0,
            raised_at: now,
            seen_at: now,
            searched_at: now,
            every,
            search: None,
            settles_at: now,
            rivals: false,
            suspected: false,
            stretch: Stretch::new(now),
            lately: TwoMinima::new(now),
        }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.base
    }

    pub(super) fn floor(&self) -> f64 {
        self.floor
    }

    pub(super) fn searching(&self) -> bool {
        self.search.is_some()
    }

    /// Whether what arrives says less than usual, because of a search.
    pub(super) fn settling(&self, now: Time) -> bool {
        self.searching() || now < self.settles_at
    }

    /// Section 7: whether others keep the queue full.
    pub(super) fn rivals(&self) -> bool {
        self.rivals
    }

    pub(super) fn clear(&mut self, now: Time) {
        *self = Self::new(now, self.every);
    }

    /// Takes the RTT of a packet, and what a packet takes at the flow's own rate.
    pub(super) fn sample(&mut self, now: Time, sent_at: Time, rtt: f64, packet: f64) {
        if self.base == 0.0 {
            (self.base, self.floor) = (rtt, rtt);
        }
        self.base = self.base.min(rtt);
        self.floor = self.floor.min(rtt);
        if rtt <= self.base * (1.0 + NEAR.0) + NEAR.1 {
            self.seen_at = now;
        }
        if rtt <= self.floor * 1.125 + 0.002 {
            self.rivals = false;
            self.suspected = false;
        }
        if self.raised() && now - self.raised_at > RAISED_FOR {
            self.floor = self.base;
        }
        let standing = self.stands(now, rtt, packet);
        let joins = self.joins(now, rtt);
        match self.search {
            Some(search) => self.continue_search(search, now, sent_at, rtt),
            None if standing || joins || self.overdue(now) => self.begin_search(now, rtt),
            None => {}
        }
    }

    fn raised(&self) -> bool {
        self.base > self.floor * 1.1
    }

    fn overdue(&self, now: Time) -> bool {
        // What may be somebody else's queue is looked at more often, whatever is seen.
        let doubtful = self.raised() || self.rivals;
        now - self.seen_at >= self.every
            || doubtful && now - self.searched_at >= self.every / 2
            || self.suspected && !self.rivals && now - self.searched_at >= self.every / 10
    }

    /// Section 6: whether the RTT has been above the base for eight round trips and hardly moved,
    /// as that of another path does. One packet of our own in front of another is no other path.
    fn stands(&mut self, now: Time, rtt: f64, packet: f64) -> bool {
        let stretch = &mut self.stretch;
        stretch.low = stretch.low.min(rtt);
        stretch.high = stretch.high.max(rtt);
        if now - stretch.since < Span::from_secs_f64((8.0 * rtt).max(0.3)) {
            return false;
        }
        let Stretch { low, high, .. } = std::mem::replace(stretch, Stretch::new(now));
        let queue = low - self.base;
        queue > self.base / 8.0 + packet.max(0.004)
            && high - low < queue / 2.0
            && now - self.searched_at > Span::from_secs_f64(16.0 * rtt)
    }

    /// Section 7: whether the queue shrinks although we keep our part of it. Flows that take each
    /// other for rivals then search together, and find that nobody is there.
    fn joins(&mut self, now: Time, rtt: f64) -> bool {
        let before = self.lately.push(now, rtt, Span::from_secs_f64(2.0 * rtt));
        self.rivals
            && now - self.searched_at > Span::from_secs_f64(8.0 * rtt)
            && before.is_finite()
            && rtt < before - JOIN * (before - self.floor)
    }

    fn begin_search(&mut self, now: Time, rtt: f64) {
        let rtt = rtt.min(MAX_WAIT);
        let from = now + Span::from_secs_f64((rtt - self.floor).max(0.0));
        let until = from + Span::from_secs_f64(2.0 * rtt);
        self.search = Some(Search { from, until, low: f64::INFINITY, high: 0.0, samples: 0 });
    }

    fn continue_search(&mut self, mut search: Search, now: Time, sent_at: Time, rtt: f64) {
        if sent_at >= search.from {
            search.low = search.low.min(rtt);
            search.high = search.high.max(rtt);
            search.samples += 1;
        }
        if now < search.until && search.samples < SAMPLES.1 {
            self.search = Some(search);
            return;
        }
        self.search = None;
        self.seen_at = now;
        self.searched_at = now;
        self.settles_at = now + Span::from_secs_f64(2.0 * self.base);
        self.lately = TwoMinima::new(now);
        if search.samples >= SAMPLES.0 {
            self.conclude(now, search);
        }
    }

    fn conclude(&mut self, now: Time, search: Search) {
        // Once may be an outage, or others of our own kind.
        let suspected = search.low > self.floor * (1.0 + RIVALS.0) + RIVALS.1;
        self.rivals = suspected && self.suspected;
        self.suspected = suspected;
        // In an outage RTTs differ by more.
        if search.high - search.low <= search.low / 4.0 {
            if search.low > self.base {
                self.raised_at = now;
            }
            self.base = search.low;
        }
    }
}

impl Stretch {
    fn new(since: Time) -> Self {
        Self { since, low: f64::INFINITY, high: 0.0 }
    }
}

impl TwoMinima {
    pub(super) fn new(since: Time) -> Self {
        Self { since, now: f64::INFINITY, before: f64::INFINITY }
    }

    /// Takes a value and returns the smallest of the period before.
    pub(super) fn push(&mut self, now: Time, value: f64, period: Span) -> f64 {
        if now - self.since > period {
            *self = Self { since: now, now: f64::INFINITY, before: self.now };
        }
        self.now = self.now.min(value);
        self.before
    }

    /// Returns the smallest value of both periods.
    pub(super) fn smallest(&self) -> f64 {
        self.now.min(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Span = Span::from_secs(5);

    /// An ack every 10 ms from `from_ms` on; what each was sent with is in the past by its RTT.
    fn feed(base: &mut BaseRtt, from_ms: u64, count: u64, rtt: impl Fn(u64, &BaseRtt) -> f64) {
        for ack in 0..count {
            let now = Time::from_millis(from_ms + 10 * ack);
            let rtt = rtt(ack, base);
            base.sample(now, now - Span::from_secs_f64(rtt), rtt, 0.001);
        }
    }

    #[test]
    fn pace_t7_a_queue_of_ours_goes_in_a_search_and_the_base_stays() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 10, |_, _| 0.040);
        // 3 ms stand; in a search they go.
        feed(&mut base, 1100, 600, |_, base| if base.searching() { 0.040 } else { 0.043 });
        assert!(base.searched_at > Time::from_secs(5));
        assert_eq!((base.seconds(), base.floor(), base.rivals()), (0.040, 0.040, false));
    }

    #[test]
    fn pace_t8_a_longer_path_is_found_within_a_second() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 100, |_, _| 0.040);
        feed(&mut base, 2000, 200, |_, _| 0.058);
        assert_eq!((base.seconds(), base.floor(), base.rivals()), (0.058, 0.040, false));
        // 30 s later it is the only one there is.
        feed(&mut base, 4000, 4000, |_, _| 0.058);
        assert_eq!(base.floor(), 0.058);
    }

    #[test]
    fn a_packet_of_our_own_is_no_longer_path() {
        // 1 Mbit/s: 12 ms of queue are one packet.
        for (packet, searches) in [(0.012, false), (0.001, true)] {
            let mut base = BaseRtt::new(Time::ZERO, EVERY);
            for ack in 0..300 {
                let now = Time::from_millis(1000 + 10 * ack);
                let rtt = if ack < 100 { 0.040 } else { 0.052 };
                base.sample(now, now - Span::from_secs_f64(rtt), rtt, packet);
            }
            assert_eq!(base.searched_at > Time::ZERO, searches, "{packet}");
        }
    }

    #[test]
    fn pace_t9_a_queue_that_stays_in_a_search_is_that_of_rivals() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 100, |_, _| 0.040);
        let saw = |ack: u64, _: &BaseRtt| 0.150 + 0.001 * (ack % 50) as f64;
        feed(&mut base, 2000, 700, saw);
        assert!(base.rivals());
        feed(&mut base, 9000, 1, |_, _| 0.040);
        assert!(!base.rivals());
        assert_eq!(base.seconds(), 0.040);
    }

    #[test]
    fn pace_t10_an_outage_does_not_change_the_base() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 100, |_, _| 0.040);
        // A packet per second, each later than the one before.
        for ack in 0..20 {
            let now = Time::from_secs(3 + ack);
            let rtt = 1.0 + ack as f64;
            base.sample(now, now - Span::from_secs_f64(rtt), rtt, 1.0);
        }
        assert_eq!((base.seconds(), base.floor()), (0.040, 0.040));
    }
}
