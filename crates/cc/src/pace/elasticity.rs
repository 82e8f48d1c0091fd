//! Section 7: whether the delivered rate follows the window. Where it does, the link is not full, and
//! what the RTT has above the base is no queue of ours: the path is longer than it was.

use super::units::{ONE, TwoMinima, micros};
use crate::{Span, Time};

/// Durations in microseconds, elasticities with 16 bits behind the point: 1 where the rate follows
/// the window in full, 0 where it does not change.
#[derive(Debug, Clone)]
pub(super) struct Elasticity {
    /// The round that is being sent; its sign says whether the window is larger or smaller.
    round: u64,
    /// What had been delivered when it began.
    began_at: u64,
    tally: Tally,
    /// The rate of the first round of a pair.
    first: Option<u64>,
    jumps: Jumps,
    answers: Answers,
    /// Mean RTT, with 6 bits behind the point.
    rtt: u64,
    /// The smallest RTT of the last 300 to 600 ms.
    low: TwoMinima,
    /// The RTT that the window serves; 0 where that is the base.
    reach: u64,
    /// The link has been far from full; it must be full before that is forgotten.
    proven: bool,
    rest: Rest,
}

/// What one round of packets has shown.
#[derive(Debug, Clone, Copy)]
struct Tally {
    /// Packets delivered during the flights of its packets, and the length of these flights.
    delivered: u64,
    flights: u64,
    /// Whether all of it counts.
    valid: bool,
}

/// RTTs that grow by more than the time between two packets: a queue behind a link of constant rate
/// cannot do that.
#[derive(Debug, Clone, Copy)]
struct Jumps {
    /// Departure and RTT of the packet before.
    last: Option<(Time, u64)>,
    /// The first and the last of a series.
    first_at: Time,
    last_at: Option<Time>,
    /// All bits set less the jump: the smallest value is the largest jump.
    largest: TwoMinima,
}

/// The elasticities of pairs of rounds, and how far they speak for more or for less.
#[derive(Debug, Clone, Copy)]
struct Answers {
    pairs: u64,
    mean: i64,
    variance: u64,
    /// Sums of what was above, far above and below the bounds.
    more: u64,
    surely: u64,
    less: u64,
}

/// A full link is not asked again for a while.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Time,
    length: Span,
    /// The delivery rate at its beginning.
    rate: u64,
}

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlightSample {
    pub(super) sent_at: Time,
    pub(super) rtt: u64,
    /// Delivered in all, when the packet was sent and now.
    pub(super) delivered_before: u64,
    pub(super) delivered: u64,
    /// Packets delivered during its flight.
    pub(super) flight: u64,
    /// The window was the limit, and that of this law.
    pub(super) valid: bool,
    pub(super) base: u64,
    /// What a packet takes at the flow's own rate.
    pub(super) packet: u64,
    /// The measured rate.
    pub(super) rate: u64,
}

/// The window is larger and smaller by 5/64.
const STEP: u64 = 5 * ONE / 64;
/// A jump is longer than 1/32 of the base, 500 us, and two packets at the flow's own rate.
const JUMP: (u64, u64, u64) = (32, 500, 2);
/// Jumps that are a second apart, the last one in the last ten.
const SERIES: (Span, Span) = (Span::from_secs(1), Span::from_secs(10));
/// Elasticities above the first speak for a longer path, below the second for a full link; the third
/// proves that the link was not full. Once that is proven, the fourth and fifth take the place of the
/// first two.
const MORE: i64 = 5 * ONE as i64 / 16;
const LESS: i64 = 5 * ONE as i64 / 32;
const SURELY: i64 = 3 * ONE as i64 / 8;
const MORE_PROVEN: i64 = 5 * ONE as i64 / 64;
const LESS_PROVEN: i64 = ONE as i64 / 64;
/// A sum is an answer above one half and this multiple of the variance (Wald 1945, cumulative sums).
const ANSWER_MORE: u64 = 24;
const ANSWER_LESS: u64 = 3;
/// Where the variance is above this, the rate of the link varies by itself. Several flows that share
/// such a link each see their rate follow their window, and see jumps, although the link is full.
const NOISY: u64 = 5 * ONE / 4;
/// An RTT that stays above the base by a quarter for 300 to 600 ms stands.
const STANDS: (u64, Span) = (4, Span::from_millis(300));
/// Elasticities beyond this are taken for it.
const MOST: u64 = 4 * ONE;
/// At a mean elasticity above one half all of the RTT is the path's, otherwise half of the excess.
const SURE: i64 = ONE as i64 / 2;
/// The reach grows by 1/16 at least, up to four bases and up to the base and two of the largest jumps.
const REACH_PARTS: u64 = 16;
const REACH_BASES: u64 = 4;
const REACH_JUMPS: u64 = 2;
/// A reach within 1/32 of the base is the base.
const AT_BASE_PARTS: u64 = 32;
/// The shortest and the longest rest; it ends when the rate has fallen by an eighth.
const REST: (Span, Span) = (Span::from_secs(2), Span::from_secs(8));

impl Elasticity {
    pub(super) fn new(now: Time) -> Self {
        Self {
            round: 0,
            began_at: 0,
            tally: Tally::EMPTY,
            first: None,
            jumps: Jumps { last: None, first_at: now, last_at: None, largest: TwoMinima::new(now) },
            answers: Answers::EMPTY,
            rtt: 0,
            low: TwoMinima::new(now),
            reach: 0,
            proven: false,
            rest: Rest { until: now, length: Span::ZERO, rate: 0 },
        }
    }

    /// The RTT that the window serves: the base, or more where the path has become longer.
    pub(super) fn reach(&self, base: u64) -> u64 {
        self.reach.max(base)
    }

    /// Whether the rate of the link varies by itself, so that no answer is to be trusted.
    pub(super) fn noisy(&self) -> bool {
        self.answers.variance > NOISY
    }

    /// Whether the RTT has not been near the base lately: what moves by itself comes back to it, and the
    /// queue of several flows stays.
    fn stands(&self, base: u64) -> bool {
        self.low.smallest() > base + base / STANDS.0
    }

    /// The window of the round that is being sent.
    pub(super) fn scale(&self, now: Time, window: u64) -> u64 {
        if !self.asks(now) {
            return window;
        }
        let step = window / ONE * STEP + window % ONE * STEP / ONE;
        if is_larger(self.round) { window + step } else { window - step }
    }

    fn asks(&self, now: Time) -> bool {
        self.jumps.go_on(now) && now >= self.rest.until
    }

    pub(super) fn on_ack(&mut self, now: Time, sample: &FlightSample) {
        self.jumps.take(now, sample);
        if !self.jumps.go_on(now) {
            (self.reach, self.proven) = (0, false);
        }
        self.rtt = self.rtt + sample.rtt - self.rtt / 64;
        self.low.push(now, sample.rtt, STANDS.1);
        if sample.rate < self.rest.rate - self.rest.rate / 8 {
            self.rest = Rest { until: now, rate: 0, ..self.rest };
        }
        let asks = self.asks(now);
        if sample.delivered_before >= self.began_at {
            self.begin_round(now, sample);
        }
        self.tally.take(sample, asks);
    }

    /// The first packet of the round has arrived: the next round is sent, and this one is counted.
    fn begin_round(&mut self, now: Time, sample: &FlightSample) {
        self.round += 1;
        self.began_at = sample.delivered;
        let ended = std::mem::replace(&mut self.tally, Tally::EMPTY);
        // The round that has been counted is the one before the one that was sent.
        let counted = self.round.saturating_sub(2);
        let Some(rate) = ended.rate() else {
            self.first = None;
            return;
        };
        if counted.is_multiple_of(2) {
            self.first = Some(rate);
        } else if let Some(first) = self.first.take() {
            let (larger, smaller) = if is_larger(counted) { (rate, first) } else { (first, rate) };
            self.judge(now, elasticity(larger, smaller), sample);
        }
    }

    fn judge(&mut self, now: Time, elasticity: i64, sample: &FlightSample) {
        let (more, less) = if self.proven { (MORE_PROVEN, LESS_PROVEN) } else { (MORE, LESS) };
        self.answers.take(elasticity, more, less);
        if self.noisy() && self.stands(sample.base) {
            self.shorten(now, sample);
        } else if self.answers.prove() {
            self.proven = true;
            self.answers.surely = 0;
            self.lengthen(sample.base);
        } else if self.answers.speak_for_more() {
            self.lengthen(sample.base);
        } else if self.answers.speak_for_less() {
            self.shorten(now, sample);
        }
    }

    /// What the RTT has above the reach is the path's, all of it or half of it.
    fn lengthen(&mut self, base: u64) {
        let reach = self.reach(base);
        let excess = (self.rtt / 64).saturating_sub(reach);
        let part = if self.answers.mean > SURE { excess } else { excess / 2 };
        let most = (REACH_BASES * base).min(base + REACH_JUMPS * self.jumps.largest());
        self.reach = (reach + part.max(reach / REACH_PARTS)).min(most);
        self.rest.length = Span::ZERO;
        self.answers.restart();
    }

    /// A quarter of what the reach has above the base goes; at the base the link is left in peace.
    fn shorten(&mut self, now: Time, sample: &FlightSample) {
        let base = sample.base;
        let reach = self.reach(base);
        if reach == base {
            let length = (self.rest.length * 2).clamp(REST.0, REST.1);
            self.rest = Rest { until: now + length, length, rate: sample.rate };
        }
        self.reach = base + (reach - base) * 3 / 4;
        if self.reach <= base + base / AT_BASE_PARTS {
            self.reach = 0;
            self.proven = false;
        }
        self.answers.restart();
    }
}

/// Thue and Morse's sequence: each pair of rounds has both signs, and what drifts cancels.
fn is_larger(round: u64) -> bool {
    round.count_ones().is_multiple_of(2)
}

/// (x+ - x-) / (x+ + x-), in steps of the window.
fn elasticity(larger: u64, smaller: u64) -> i64 {
    let size = larger.abs_diff(smaller) * ONE / STEP * ONE / (larger + smaller).max(1);
    let size = size.min(MOST) as i64;
    if larger >= smaller { size } else { -size }
}

impl Tally {
    const EMPTY: Self = Self { delivered: 0, flights: 0, valid: true };

    fn take(&mut self, sample: &FlightSample, asks: bool) {
        self.delivered += sample.flight.min(1 << 20);
        self.flights += sample.rtt;
        self.valid &= asks && sample.valid;
    }

    /// Packets in flight over the RTT, in a unit that cancels.
    fn rate(&self) -> Option<u64> {
        // Rounds of 2^20 packets with 2^20 in flight: 40 bits and 20 more.
        let rate = (self.delivered.min(1 << 40) << 20) / (self.flights / 16).max(1);
        (self.valid && self.flights > 0).then_some(rate.min(1 << 40))
    }
}

impl Jumps {
    fn take(&mut self, now: Time, sample: &FlightSample) {
        let Some((sent_at, rtt)) = self.last.replace((sample.sent_at, sample.rtt)) else { return };
        let grown = sample.rtt.saturating_sub(rtt);
        let jump = grown.saturating_sub(micros(sample.sent_at - sent_at));
        let (base_parts, least, packets) = JUMP;
        if jump <= (sample.base / base_parts).max(least).max(packets * sample.packet) {
            return;
        }
        if self.last_at.is_none_or(|at| now - at > SERIES.1) {
            self.first_at = now;
        }
        self.last_at = Some(now);
        self.largest.push(now, TwoMinima::NONE - jump, SERIES.1);
    }

    fn largest(&self) -> u64 {
        TwoMinima::NONE - self.largest.smallest()
    }

    /// Whether there are jumps again and again; what joins with a burst makes one.
    fn go_on(&self, now: Time) -> bool {
        self.last_at.is_some_and(|at| now - at < SERIES.1 && at - self.first_at > SERIES.0)
    }
}

impl Answers {
    const EMPTY: Self = Self { pairs: 0, mean: 0, variance: ONE, more: 0, surely: 0, less: 0 };

    fn take(&mut self, elasticity: i64, more: i64, less: i64) {
        self.pairs += 1;
        // The gain is 1/n, as a power of two, and 1/32 at least.
        let shift = self.pairs.ilog2().min(5);
        let error = elasticity - self.mean;
        self.mean += error >> shift;
        let square = (error.unsigned_abs() * error.unsigned_abs()) / ONE;
        self.variance = self.variance - (self.variance >> shift) + (square >> shift);
        self.more = add(self.more, elasticity - more);
        self.surely = add(self.surely, elasticity - SURELY);
        self.less = add(self.less, less - elasticity);
    }

    fn prove(&self) -> bool {
        self.surely > self.bar(ANSWER_MORE)
    }

    fn speak_for_more(&self) -> bool {
        self.more > self.bar(ANSWER_MORE)
    }

    fn speak_for_less(&self) -> bool {
        self.less > self.bar(ANSWER_LESS)
    }

    fn bar(&self, variances: u64) -> u64 {
        ONE / 2 + variances * self.variance
    }

    fn restart(&mut self) {
        (self.more, self.less) = (0, 0);
    }
}

/// A sum that does not fall below 0.
fn add(sum: u64, value: i64) -> u64 {
    sum.saturating_add_signed(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 40_000;

    /// A path in rounds: what a window of packets gives, and what the RTT is.
    struct Rounds {
        law: Elasticity,
        now: Time,
        delivered: u64,
        rtt: u64,
    }

    impl Rounds {
        fn new() -> Self {
            let now = Time::from_secs(1);
            Self { law: Elasticity::new(now), now, delivered: 0, rtt: 50_000 }
        }

        /// An ack whose packet left `rtt` ago, with `flight` packets delivered meanwhile.
        fn ack(&mut self, flight: u64, rtt: u64) {
            let sample = FlightSample {
                sent_at: self.now - Span::from_micros(rtt),
                rtt,
                delivered_before: self.delivered,
                delivered: self.delivered + 1,
                flight,
                valid: true,
                base: BASE,
                packet: 250,
                rate: 4000 * ONE,
            };
            self.delivered += 1;
            self.law.on_ack(self.now, &sample);
        }

        /// Two jumps of 8 ms, 1.2 s apart, and 50 ms after each.
        fn jump_twice(&mut self) {
            for _ in 0..2 {
                self.now += Span::from_millis(600);
                self.ack(160, BASE);
                self.now += Span::from_millis(600);
                self.ack(160, BASE);
                self.now += Span::from_micros(self.rtt - BASE);
                self.ack(160, self.rtt);
            }
        }

        /// Rounds of one packet each. `follows`: the rate follows the window, else the RTT does.
        fn run(&mut self, rounds: u64, follows: bool) {
            for _ in 0..rounds {
                self.now += Span::from_micros(self.rtt);
                // This ack is of the round before the one that is sent now.
                let window = if is_larger(self.law.round) { 172 } else { 148 };
                let rtt = if follows { self.rtt } else { self.rtt * window / 160 };
                self.ack(window, rtt);
            }
        }
    }

    #[test]
    fn pace_t12_a_rate_that_follows_the_window_lengthens_the_path() {
        let mut path = Rounds::new();
        path.jump_twice();
        assert!(path.law.jumps.go_on(path.now));
        path.run(64, true);
        // 12 packets of 160 are 0.96 steps of 5/64, so that all of the excess is the path's.
        assert!((94..=97).contains(&(path.law.answers.mean * 100 / ONE as i64)));
        assert!(path.law.proven);
        // It goes on for as long as the rate follows: the base and two jumps of 10 ms.
        assert_eq!(path.law.reach(BASE), 60_000);
        // A full link takes it back, a quarter at a time.
        path.run(400, false);
        assert_eq!((path.law.reach(BASE), path.law.proven), (BASE, false));
    }

    #[test]
    fn pace_t13_a_full_link_is_left_in_peace_for_two_to_eight_seconds() {
        let mut path = Rounds::new();
        path.jump_twice();
        path.run(60, false);
        assert_eq!(path.law.reach(BASE), BASE);
        assert!(path.law.rest.length >= REST.0, "{:?}", path.law.rest);
        assert_eq!(
            path.law.scale(path.law.rest.until - Span::from_millis(1), 160 * ONE),
            160 * ONE
        );
    }

    #[test]
    fn pace_t14_where_the_rate_varies_an_rtt_that_stands_is_no_longer_path() {
        for comes_back in [false, true] {
            let mut path = Rounds::new();
            path.rtt = 52_000;
            path.jump_twice();
            // The rate follows the window, and is 7/6 or 5/6 of that in turn.
            for round in 1..320 {
                path.now += Span::from_micros(path.rtt);
                let window = if is_larger(path.law.round) { 172 } else { 148 };
                let flight = if round % 3 == 0 { window * 7 / 6 } else { window * 5 / 6 };
                path.ack(flight, path.rtt);
                if comes_back && round % 6 == 0 {
                    path.ack(160, BASE);
                    path.now += Span::from_micros(path.rtt - BASE);
                    path.ack(160, path.rtt);
                }
            }
            assert!(path.law.noisy(), "{:?}", path.law.answers);
            assert_eq!(path.law.reach(BASE) > BASE, comes_back, "{:?}", path.law);
        }
    }

    #[test]
    fn a_path_without_jumps_is_not_asked() {
        let mut path = Rounds::new();
        path.run(200, true);
        assert_eq!((path.law.reach(BASE), path.law.answers.pairs), (BASE, 0));
        assert_eq!(path.law.scale(path.now, 160 * ONE), 160 * ONE);
    }

    #[test]
    fn each_pair_of_rounds_has_both_signs() {
        assert!((0..1000).all(|pair| is_larger(2 * pair) != is_larger(2 * pair + 1)));
        let larger = (0..1024).filter(|&round| is_larger(round)).count();
        assert_eq!(larger, 512);
    }

    #[test]
    fn an_elasticity_is_one_where_the_rate_takes_the_steps_of_the_window() {
        assert!((elasticity(69_000, 59_000) - ONE as i64).abs() < 200);
        assert_eq!(elasticity(64_000, 64_000), 0);
        assert_eq!(elasticity(1, 1 << 40), -(MOST as i64));
    }
}
