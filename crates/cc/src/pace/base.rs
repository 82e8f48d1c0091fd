//! The base RTT, how it is looked for when the queue has not been empty for long, and what it
//! means when the queue is not ours.

use super::units::{TwoMinima, micros};
use crate::{Span, Time};

/// RTTs in microseconds.
#[derive(Debug, Clone)]
pub(super) struct BaseRtt {
    /// What queueing delay counts from.
    base: u64,
    /// The smallest RTT of this path, below the base after a search that did not find it again.
    floor: u64,
    raised_at: Time,
    /// When an RTT near the base was last seen, or a search for it ended.
    seen_at: Time,
    searched_at: Time,
    every: Span,
    search: Option<BaseSearch>,
    /// Until then what arrives was sent with the window of a search.
    settles_at: Time,
    rivals: bool,
    /// Whether the last search has ended above the floor, and where.
    suspected: bool,
    suspect: u64,
    stretch: Stretch,
    lately: TwoMinima,
}

/// What a sample shows beside the RTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// An RTT near the base: the delivery rate belongs to a path that is known.
    Base,
    /// A search has found that the path is longer by a tenth or more.
    LongerPath,
    Nothing,
}

/// A search: the window is small, so that our own queue goes.
#[derive(Debug, Clone, Copy)]
struct BaseSearch {
    /// Our queue is gone from then on.
    from: Time,
    until: Time,
    range: Range,
    samples: u32,
}

/// A stretch of eight round trips, in which the RTT may hardly move.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    since: Time,
    range: Range,
}

/// Range of the RTT.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
}

/// An RTT above the base by less than 1/64 and 100 us is near it.
const NEAR: (u64, u64) = (64, 100);
/// A path that has not had its old RTT for this long has become another.
const RAISED_FOR: Span = Span::from_secs(30);
/// Samples that a search needs, and those that end it.
const SAMPLES: (u32, u32) = (2, 4);
/// The longest RTT for which a search waits.
const MAX_WAIT: u64 = 1_000_000;
/// Round trips, and at least this long, in which an RTT stands.
const STRETCH: (u64, u64) = (8, 300_000);
/// A queue above an eighth of the base and this long may be another path.
const STANDING: u64 = 4000;
/// A queue above six tenths of the floor and this long, after ours has gone, is not ours.
const RIVALS: u64 = 4000;
/// A twenty-fifth of the queueing delay goes when others have begun a search.
const JOIN_PARTS: u64 = 25;

impl BaseRtt {
    pub(super) fn new(now: Time, every: Span) -> Self {
        Self {
            base: 0,
            floor: 0,
            raised_at: now,
            seen_at: now,
            searched_at: now,
            every,
            search: None,
            settles_at: now,
            rivals: false,
            suspected: false,
            suspect: 0,
            stretch: Stretch { since: now, range: Range::EMPTY },
            lately: TwoMinima::new(now),
        }
    }

    /// The base RTT in microseconds; 0 before the first sample.
    pub(super) fn micros(&self) -> u64 {
        self.base
    }

    pub(super) fn floor(&self) -> u64 {
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

    /// Takes the RTT of a packet, what a packet takes at the flow's own rate, and whether the rate of
    /// the link varies by itself.
    pub(super) fn sample(
        &mut self,
        now: Time,
        sent_at: Time,
        rtt: u64,
        packet: u64,
        noisy: bool,
    ) -> Seen {
        if self.base == 0 {
            (self.base, self.floor) = (rtt, rtt);
        }
        self.base = self.base.min(rtt);
        self.floor = self.floor.min(rtt);
        let near = rtt <= self.base + self.base / NEAR.0 + NEAR.1;
        if near {
            self.seen_at = now;
        }
        if rtt <= self.floor + self.floor / 8 + RIVALS / 2 {
            self.rivals = false;
            self.suspected = false;
        }
        if self.raised() && now - self.raised_at > RAISED_FOR {
            self.floor = self.base;
        }
        let standing = self.stands(now, rtt, packet);
        let joins = self.joins(now, rtt);
        let longer = match self.search {
            Some(search) => self.continue_search(search, now, sent_at, rtt, noisy),
            None => {
                if standing || joins || self.overdue(now) {
                    self.begin_search(now, rtt, micros(now - sent_at));
                }
                false
            }
        };
        match (longer, near) {
            (true, _) => Seen::LongerPath,
            (false, true) => Seen::Base,
            (false, false) => Seen::Nothing,
        }
    }

    fn raised(&self) -> bool {
        self.base > self.floor + self.floor / 10
    }

    fn overdue(&self, now: Time) -> bool {
        // What may be the queue of others is looked at more often, whatever is seen.
        let doubtful = self.raised() || self.rivals;
        now - self.seen_at >= self.every
            || doubtful && now - self.searched_at >= self.every / 2
            || self.suspected && !self.rivals && now - self.searched_at >= self.every / 10
    }

    /// Section 6: whether the RTT has been above the base for five round trips and hardly moved,
    /// as that of another path does. One packet of our own in front of another is no other path.
    fn stands(&mut self, now: Time, rtt: u64, packet: u64) -> bool {
        self.stretch.range.take(rtt);
        if micros(now - self.stretch.since) < (STRETCH.0 * rtt).max(STRETCH.1) {
            return false;
        }
        let ended = Stretch { since: now, range: Range::EMPTY };
        let range = std::mem::replace(&mut self.stretch, ended).range;
        let queue = range.low.saturating_sub(self.base);
        queue > self.base / 8 + packet.max(STANDING)
            && range.width() < queue / 2
            && micros(now - self.searched_at) > 16 * rtt
    }

    /// Section 7: whether the queue shrinks although we keep our part of it. Flows that take each
    /// other for rivals then search together, and find an empty queue.
    fn joins(&mut self, now: Time, rtt: u64) -> bool {
        let before = self.lately.push(now, rtt, Span::from_micros(2 * rtt));
        self.rivals
            && micros(now - self.searched_at) > 8 * rtt
            && before != TwoMinima::NONE
            && rtt < before - before.saturating_sub(self.floor) / JOIN_PARTS
    }

    /// Our queue goes in what the RTT has above the floor; the packets that a search counts come back
    /// after the whole round trip, with what the ack took.
    fn begin_search(&mut self, now: Time, rtt: u64, round_trip: u64) {
        let rtt = rtt.min(MAX_WAIT);
        let from = now + Span::from_micros(rtt.saturating_sub(self.floor));
        let until = from + Span::from_micros(2 * round_trip.min(MAX_WAIT));
        self.search = Some(BaseSearch { from, until, range: Range::EMPTY, samples: 0 });
    }

    /// Whether the search has ended with a longer path.
    fn continue_search(
        &mut self,
        mut search: BaseSearch,
        now: Time,
        sent_at: Time,
        rtt: u64,
        noisy: bool,
    ) -> bool {
        if sent_at >= search.from {
            search.range.take(rtt);
            search.samples += 1;
        }
        if now < search.until && search.samples < SAMPLES.1 {
            self.search = Some(search);
            return false;
        }
        self.search = None;
        self.seen_at = now;
        self.searched_at = now;
        self.settles_at = now + Span::from_micros(2 * self.base);
        self.lately = TwoMinima::new(now);
        search.samples >= SAMPLES.0 && self.conclude(now, search.range, noisy)
    }

    fn conclude(&mut self, now: Time, found: Range, noisy: bool) -> bool {
        // Once may be an outage, or others of our own kind; twice the same is another path.
        let suspected = found.low > self.floor * 8 / 5 + RIVALS;
        let same = found.low.abs_diff(self.suspect) <= found.low / 32;
        let again = self.suspected && same;
        self.rivals = suspected && self.suspected && (self.rivals || !same);
        self.suspected = suspected;
        self.suspect = found.low;
        // In an outage RTTs differ by more. Where the rate varies by itself, a queue of flows of our own
        // kind may last for a search, too.
        if found.width() > found.low / 4 || noisy && suspected && !again {
            return false;
        }
        let longer = found.low > self.base + self.base / 10;
        if found.low > self.base {
            self.raised_at = now;
        }
        self.base = found.low;
        longer
    }
}

impl Range {
    const EMPTY: Self = Self { low: u64::MAX, high: 0 };

    fn take(&mut self, value: u64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    fn width(&self) -> u64 {
        self.high.saturating_sub(self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Span = Span::from_secs(5);

    /// An ack every 10 ms from `from_ms` on; what each was sent with is in the past by its RTT.
    fn feed(base: &mut BaseRtt, from_ms: u64, count: u64, rtt: impl Fn(u64, &BaseRtt) -> u64) {
        feed_over(false, base, from_ms, count, rtt);
    }

    /// The same over a link whose rate varies by itself, or not.
    fn feed_over(
        noisy: bool,
        base: &mut BaseRtt,
        from_ms: u64,
        count: u64,
        rtt: impl Fn(u64, &BaseRtt) -> u64,
    ) {
        for ack in 0..count {
            let now = Time::from_millis(from_ms + 10 * ack);
            let rtt = rtt(ack, base);
            base.sample(now, now - Span::from_micros(rtt), rtt, 1000, noisy);
        }
    }

    #[test]
    fn pace_t7_a_queue_of_ours_goes_in_a_search_and_the_base_stays() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 10, |_, _| 40_000);
        // 3 ms stand; in a search they go.
        feed(&mut base, 1100, 600, |_, base| if base.searching() { 40_000 } else { 43_000 });
        assert!(base.searched_at > Time::from_secs(5));
        assert_eq!((base.micros(), base.floor(), base.rivals()), (40_000, 40_000, false));
    }

    #[test]
    fn pace_t8_a_longer_path_is_found_within_a_second() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 100, |_, _| 40_000);
        feed(&mut base, 2000, 200, |_, _| 58_000);
        assert_eq!((base.micros(), base.floor(), base.rivals()), (58_000, 40_000, false));
        // 30 s later it is the only one there is.
        feed(&mut base, 4000, 4000, |_, _| 58_000);
        assert_eq!(base.floor(), 58_000);
    }

    #[test]
    fn a_packet_of_our_own_is_no_longer_path() {
        // 1 Mbit/s: 12 ms of queue are one packet.
        for (packet, searches) in [(12_000, false), (1_000, true)] {
            let mut base = BaseRtt::new(Time::ZERO, EVERY);
            for ack in 0..300 {
                let now = Time::from_millis(1000 + 10 * ack);
                let rtt = if ack < 100 { 40_000 } else { 52_000 };
                base.sample(now, now - Span::from_micros(rtt), rtt, packet, false);
            }
            assert_eq!(base.searched_at > Time::ZERO, searches, "{packet}");
        }
    }

    #[test]
    fn a_longer_way_back_is_waited_for_in_a_search() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 100, |_, _| 25_000);
        // 17.5 ms more each way, the way back not in the RTT; few packets, as after a rate that fell.
        for ack in 0..40 {
            let now = Time::from_millis(2000 + 60 * ack);
            base.sample(now, now - Span::from_millis(60), 42_500, 1000, false);
        }
        assert_eq!(base.micros(), 42_500);
    }

    #[test]
    fn pace_t9_a_queue_that_stays_in_a_search_is_that_of_rivals() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 100, |_, _| 40_000);
        let saw = |ack: u64, _: &BaseRtt| 150_000 + 1000 * (ack % 50);
        feed(&mut base, 2000, 700, saw);
        assert!(base.rivals());
        feed(&mut base, 9000, 1, |_, _| 40_000);
        assert!(!base.rivals());
        assert_eq!(base.micros(), 40_000);
    }

    #[test]
    fn pace_t15_where_the_rate_varies_one_search_does_not_make_a_path_much_longer() {
        for (noisy, once) in [(false, 100_000), (true, 40_000)] {
            let mut base = BaseRtt::new(Time::ZERO, EVERY);
            feed(&mut base, 1000, 100, |_, _| 40_000);
            // Until the first search has ended.
            let from = (0..200)
                .map(|ack| 2000 + 10 * ack)
                .find(|&ms| {
                    feed_over(noisy, &mut base, ms, 1, |_, _| 100_000);
                    base.searched_at > Time::from_secs(2)
                })
                .unwrap();
            assert_eq!(base.micros(), once);
            // The second finds the same: the path is longer.
            feed_over(noisy, &mut base, from + 10, 300, |_, _| 100_000);
            assert_eq!(base.micros(), 100_000);
        }
    }

    #[test]
    fn pace_t10_an_outage_does_not_change_the_base() {
        let mut base = BaseRtt::new(Time::ZERO, EVERY);
        feed(&mut base, 1000, 100, |_, _| 40_000);
        // A packet per second, each later than the one before.
        for ack in 0..20 {
            let now = Time::from_secs(3 + ack);
            let rtt = 1_000_000 * (1 + ack);
            base.sample(now, now - Span::from_micros(rtt), rtt, 1_000_000, false);
        }
        assert_eq!((base.micros(), base.floor()), (40_000, 40_000));
    }
}
