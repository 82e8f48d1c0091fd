//! The receiver's half: infers the link's rate from arrivals per tick and reports a forecast.

use std::collections::VecDeque;

use crate::{Arrival, Receiver, Setup, Span, Time};

use super::belief::{Belief, Forecast};
use super::model::{ModelSpec, SproutModel};
use super::params::{MaxRate, SproutObservation, SproutParams};
use super::wire::{Next, SproutReport, Word};

/// Reports continue for this long after the last arrival.
const REPORTS_FOR: Span = Span::from_secs(1);

/// More missed ticks than this are not caught up: whatever was believed is out of date.
const MAX_MISSED_TICKS: u64 = 100;

/// Ticks in a row that lean on the top of the grid before it grows.
const LEANING_TICKS: u32 = 5;

/// The receiver's half of Sprout.
pub(super) struct SproutReceiver {
    params: SproutParams,
    mss: u64,
    belief: Belief,
    clock: Option<TickClock>,
    /// Bytes that arrived in the tick in progress.
    arrived: u64,
    /// What rounding left of earlier ticks, in packets.
    carry: f64,
    /// When the sender's silence begins to count; `None`: not before it sends again.
    score_from: Option<Time>,
    seen: SeenNumbers,
    sequences: Sequences,
    leaning: u32,
    forecast: Forecast,
    /// The newest tick has not been reported.
    unreported: bool,
}

/// Where the ticks are. They lie on a grid that starts with the first arrival.
#[derive(Debug, Clone, Copy)]
struct TickClock {
    tick_start: Time,
    tick: u32,
    last_arrival: Time,
}

impl SproutReceiver {
    pub(super) fn new(params: &SproutParams, setup: &Setup) -> Self {
        let belief = Belief::uniform(SproutModel::shared(&ModelSpec::new(params)));
        Self {
            forecast: belief.forecast(params.confidence),
            params: params.clone(),
            mss: setup.mss.max(1),
            belief,
            clock: None,
            arrived: 0,
            carry: 0.0,
            score_from: Some(Time::ZERO),
            seen: SeenNumbers::new(),
            sequences: Sequences::default(),
            leaning: 0,
            unreported: false,
        }
    }

    /// Processes the ticks that ended before `now`.
    fn advance(&mut self, now: Time) {
        let Some(mut clock) = self.clock else { return };
        let length = self.params.tick.as_nanos();
        // A packet at the very end of a tick still belongs to it.
        let ended = now.since(clock.tick_start).as_nanos().saturating_sub(1) / length;
        if ended == 0 {
            return;
        }
        if ended > MAX_MISSED_TICKS {
            self.start_over();
            clock.tick_start += self.params.tick * ended;
        } else {
            for _ in 0..ended {
                self.end_tick(clock.tick_start);
                clock.tick_start += self.params.tick;
            }
        }
        clock.tick = clock.tick.wrapping_add(ended as u32);
        self.clock = Some(clock);
        self.forecast = self.belief.forecast(self.params.confidence);
        self.unreported = true;
    }

    fn start_over(&mut self) {
        self.belief.reset();
        self.arrived = 0;
        self.carry = 0.0;
        self.leaning = 0;
    }

    fn end_tick(&mut self, start: Time) {
        self.belief.evolve();
        let silence_counts = self.score_from.is_some_and(|from| from <= start);
        let arrived = std::mem::take(&mut self.arrived);
        if arrived > 0 {
            let count = self.round(arrived);
            if self.params.observation == SproutObservation::Censored && !silence_counts {
                self.belief.observe_at_least(count);
            } else {
                self.belief.observe(count);
            }
        } else if silence_counts {
            self.belief.observe(0);
        }
        self.grow_if_leaning();
    }

    /// Whole packets of a tick in which something arrived. The original forgets the rest.
    fn round(&mut self, arrived: u64) -> usize {
        let packets = arrived as f64 / self.mss as f64 + self.carry;
        let count = round(packets);
        self.carry = (packets - count as f64).clamp(-0.5, 0.5);
        count
    }

    /// The original could not see rates above its grid.
    fn grow_if_leaning(&mut self) {
        if self.params.max_rate != MaxRate::Auto {
            return;
        }
        self.leaning = if self.belief.leans_on_top() { self.leaning + 1 } else { 0 };
        if self.leaning < LEANING_TICKS {
            return;
        }
        self.leaning = 0;
        if let Some(larger) = self.belief.spec().grown() {
            self.belief.grow(SproutModel::shared(&larger));
        }
    }

    #[cfg(test)]
    pub(super) fn belief(&self) -> &Belief {
        &self.belief
    }

    #[cfg(test)]
    pub(super) fn throwaway_before(&self) -> u64 {
        self.sequences.throwaway_before
    }
}

/// To the nearest, but something is at least one: nothing would mean that an outage is possible.
pub(super) fn round(packets: f64) -> usize {
    ((packets + 0.5) as usize).max(1)
}

impl Receiver for SproutReceiver {
    fn on_arrival(&mut self, arrival: &Arrival) {
        let now = arrival.now;
        self.advance(now);
        if !self.seen.insert(arrival.number) {
            return;
        }
        let clock =
            self.clock.get_or_insert(TickClock { tick_start: now, tick: 0, last_arrival: now });
        clock.last_arrival = now;
        self.arrived = self.arrived.saturating_add(arrival.bytes);
        let word = Word::decode(arrival.wire);
        let until = match word.next {
            Next::Within(ms) => Some(clock.tick_start + Span::from_millis(u64::from(ms))),
            Next::Unknown => None,
        };
        self.score_from = if self.params.observation == SproutObservation::Censored {
            // The latest packet counts: it may end a pause that an earlier one announced.
            until
        } else {
            self.score_from.zip(until).map(|(was, until)| was.max(until)).or(until)
        };
        self.sequences.insert(&word, arrival.bytes);
    }

    fn next_deadline(&self) -> Option<Time> {
        let clock = self.clock?;
        let reports = clock.tick_start < clock.last_arrival + REPORTS_FOR;
        reports.then(|| clock.tick_start + self.params.tick + Span::from_nanos(1))
    }

    fn on_deadline(&mut self, now: Time) {
        self.advance(now);
    }

    fn poll_report(&mut self, _now: Time, report: &mut Vec<u8>) -> bool {
        let Some(clock) = self.clock else { return false };
        if !std::mem::take(&mut self.unreported) {
            return false;
        }
        let written = SproutReport {
            tick: clock.tick,
            received_or_lost: self.sequences.received_or_lost(),
            forecast: self.forecast,
        };
        written.encode(report);
        true
    }
}

/// Which of the newest packet numbers have arrived. A packet that arrives twice, or whose number
/// is too old to be recorded here, must not count as delivered again.
#[derive(Debug, Clone)]
struct SeenNumbers {
    /// One above the largest number.
    end: u64,
    /// Numbers modulo [`Self::WINDOW`].
    bits: [u64; Self::WINDOW as usize / 64],
}

impl SeenNumbers {
    const WINDOW: u64 = 4096;

    fn new() -> Self {
        Self { end: 0, bits: [0; Self::WINDOW as usize / 64] }
    }

    /// Whether `number` is new.
    fn insert(&mut self, number: u64) -> bool {
        if number.saturating_add(Self::WINDOW) < self.end {
            return false;
        }
        if number >= self.end {
            let ahead = number.saturating_add(1) - self.end;
            for skipped in self.end..self.end + ahead.min(Self::WINDOW) {
                self.set(skipped, false);
            }
            if ahead > Self::WINDOW {
                self.bits.fill(0);
            }
            self.end = number.saturating_add(1);
        }
        let new = !self.has(number);
        self.set(number, true);
        new
    }

    fn has(&self, number: u64) -> bool {
        self.bits[(number % Self::WINDOW / 64) as usize] >> (number % 64) & 1 == 1
    }

    fn set(&mut self, number: u64, to: bool) {
        let word = &mut self.bits[(number % Self::WINDOW / 64) as usize];
        *word = *word & !(1 << (number % 64)) | u64::from(to) << (number % 64);
    }
}

/// What is no longer in flight, in bytes of sequence numbers.
#[derive(Debug, Clone, Default)]
struct Sequences {
    /// All before this has arrived or never will.
    throwaway_before: u64,
    /// Packets from there on that have arrived, in order: sequence number, bytes.
    arrived: VecDeque<(u64, u64)>,
    arrived_bytes: u64,
    newest: u64,
}

impl Sequences {
    /// More packets than this within the sender's reorder limit are counted as if those before
    /// had arrived.
    const MAX: usize = 4096;

    fn insert(&mut self, word: &Word, bytes: u64) {
        let sequence = word.unwrapped(self.newest);
        self.newest = self.newest.max(sequence);
        let place = self.arrived.partition_point(|(other, _)| *other < sequence);
        self.arrived.insert(place, (sequence, bytes));
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
        self.throw_away_before(sequence.saturating_sub(word.throwaway));
        if self.arrived.len() > Self::MAX {
            let second = self.arrived.get(1).map_or(sequence, |(second, _)| *second);
            self.throw_away_before(second);
        }
    }

    fn throw_away_before(&mut self, sequence: u64) {
        self.throwaway_before = self.throwaway_before.max(sequence);
        while let Some((first, bytes)) = self.arrived.front()
            && *first < self.throwaway_before
        {
            self.arrived_bytes = self.arrived_bytes.saturating_sub(*bytes);
            self.arrived.pop_front();
        }
    }

    fn received_or_lost(&self) -> u64 {
        self.throwaway_before.saturating_add(self.arrived_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::params;
    use super::*;
    use crate::drive::setup;

    const MTU: u64 = 1500;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// A receiver and what a sender would number.
    struct Link {
        half: SproutReceiver,
        number: u64,
        sequence: u64,
    }

    impl Link {
        fn new(rest: &str) -> Self {
            let half = SproutReceiver::new(&params(rest), &setup());
            Self { half, number: 0, sequence: 0 }
        }

        fn arrive(&mut self, at_ms: u64, next: Next) {
            self.arrive_bytes(at_ms, next, MTU);
        }

        fn arrive_bytes(&mut self, at_ms: u64, next: Next, bytes: u64) {
            let word = Word { sequence: self.sequence, throwaway: 0, next };
            self.half.on_arrival(&Arrival {
                now: ms(at_ms),
                number: self.number,
                bytes,
                wire: word.encode(),
                ecn: Default::default(),
            });
            self.number += 1;
            self.sequence += bytes;
        }

        /// Constant load, all ticks exactly observed.
        fn run(&mut self, from_ms: u64, ticks: u64, per_tick: u64) {
            for tick in 0..ticks {
                for packet in 0..per_tick {
                    // The very first arrival begins the grid; what comes at the end of a tick
                    // belongs to it.
                    let into_tick = packet * 18 / per_tick + u64::from(from_ms + tick > 0);
                    self.arrive(from_ms + tick * 20 + into_tick, Next::Within(0));
                }
            }
            self.half.on_deadline(ms(from_ms + ticks * 20) + Span::from_nanos(1));
        }

        fn report(&mut self, at_ms: u64) -> Option<SproutReport> {
            let mut bytes = Vec::new();
            self.half
                .poll_report(ms(at_ms), &mut bytes)
                .then(|| SproutReport::decode(&bytes).expect("its own report"))
        }
    }

    /// The same ticks by hand: `None` is a tick without observation.
    fn believed(counts: &[Option<usize>]) -> Belief {
        let mut belief = Belief::uniform(SproutModel::shared(&ModelSpec::new(&params(""))));
        for count in counts {
            belief.evolve();
            if let Some(count) = count {
                belief.observe(*count);
            }
        }
        belief
    }

    fn assert_same(ours: &Belief, theirs: &Belief) {
        assert!((ours.mean() - theirs.mean()).abs() < 1e-9, "{} {}", ours.mean(), theirs.mean());
        assert!((ours.deviation() - theirs.deviation()).abs() < 1e-9);
    }

    #[test]
    fn sprout_t8_arrivals_count_in_the_tick_in_progress() {
        // The spec's first packet comes at 1 ms; here it begins the ticks at 0.
        let mut link = Link::new("");
        for at in [0, 5, 19, 20, 41] {
            link.arrive(at, Next::Within(0));
        }
        assert_same(link.half.belief(), &believed(&[Some(4), Some(0)]));
    }

    #[test]
    fn a_tick_ends_after_its_last_instant() {
        let mut link = Link::new("");
        link.arrive(0, Next::Within(0));
        link.half.on_deadline(ms(20));
        assert_same(link.half.belief(), &believed(&[]));
        link.half.on_deadline(ms(20) + Span::from_nanos(1));
        assert_same(link.half.belief(), &believed(&[Some(1)]));
    }

    #[test]
    fn sprout_t9_announced_pauses_are_not_observed() {
        for mode in ["", "observation=exact"] {
            let mut link = Link::new(mode);
            link.arrive(0, Next::Within(0));
            link.arrive(5, Next::Within(50));
            link.half.on_deadline(ms(81));
            let mut expected = Belief::uniform(SproutModel::shared(&ModelSpec::new(&params(""))));
            expected.evolve();
            if mode.is_empty() {
                expected.observe_at_least(2);
            } else {
                expected.observe(2);
            }
            expected.evolve();
            expected.evolve();
            expected.evolve();
            expected.observe(0);
            assert_same(link.half.belief(), &expected);
        }
    }

    #[test]
    fn the_latest_packet_ends_a_pause_that_an_earlier_one_announced() {
        let mut link = Link::new("");
        link.arrive(0, Next::Within(50));
        link.arrive(5, Next::Within(0));
        link.half.on_deadline(ms(41));
        assert_same(link.half.belief(), &believed(&[Some(2), Some(0)]));
    }

    #[test]
    fn silence_of_a_sender_without_data_is_no_outage() {
        let mut link = Link::new("");
        link.run(0, 50, 10);
        link.arrive(1001, Next::Unknown);
        let before = link.half.belief().mean();
        link.half.on_deadline(ms(1900));
        let after = link.half.belief().mean();
        assert!(after > before, "{after} after {before}");
        let mut outage = Link::new("");
        outage.run(0, 50, 10);
        outage.arrive(1001, Next::Within(0));
        outage.half.on_deadline(ms(1900));
        assert!(outage.half.belief().mean() < 10.0);
    }

    #[test]
    fn sprout_t12_counts_are_rounded_and_something_is_never_nothing() {
        for (packets, count) in [(0.3, 1), (1.49, 1), (1.5, 2)] {
            assert_eq!(round(packets), count, "{packets}");
        }
        // Nothing is nothing: an empty tick does not get that far.
        let mut link = Link::new("");
        link.arrive(0, Next::Within(0));
        link.half.on_deadline(ms(41));
        assert_same(link.half.belief(), &believed(&[Some(1), Some(0)]));
    }

    #[test]
    fn what_rounding_leaves_counts_in_the_next_tick() {
        let mut link = Link::new("");
        // 1.4 packets per tick: 1, 2, 1, 2, 1.
        for tick in 0..5 {
            link.arrive_bytes(tick * 20 + u64::from(tick > 0), Next::Within(0), 2100);
        }
        link.half.on_deadline(ms(101));
        let counts = [1, 2, 1, 2, 1].map(Some);
        assert_same(link.half.belief(), &believed(&counts));
    }

    #[test]
    fn one_report_per_tick_until_a_second_after_the_last_arrival() {
        let mut link = Link::new("");
        assert_eq!(link.report(0), None);
        assert_eq!(link.half.next_deadline(), None);
        link.arrive(0, Next::Within(0));
        assert_eq!(link.report(0), None, "no tick has passed");
        let mut ticks = Vec::new();
        while let Some(deadline) = link.half.next_deadline() {
            link.half.on_deadline(deadline);
            ticks.push(link.report(0).expect("one per tick").tick);
            assert_eq!(link.report(0), None, "one is enough");
        }
        assert_eq!(ticks, (1..=50).collect::<Vec<_>>());
        link.arrive(1500, Next::Within(0));
        assert_eq!(link.report(1500).expect("it has something to report again").tick, 74);
    }

    #[test]
    fn a_hundred_missed_ticks_are_caught_up_and_more_start_over_on_the_same_grid() {
        let mut link = Link::new("");
        link.run(0, 100, 10);
        link.half.on_deadline(ms(2000 + 100 * 20) + Span::from_nanos(1));
        assert!(link.half.belief().probability(0) > 0.9);
        let mut link = Link::new("");
        link.run(0, 100, 10);
        link.arrive(2003, Next::Within(0));
        link.half.on_deadline(ms(100_007));
        assert_same(link.half.belief(), &believed(&[]));
        // What had arrived before is forgotten too, and ticks end where they did.
        link.arrive(100_010, Next::Within(0));
        assert_eq!(link.half.next_deadline(), Some(ms(100_020) + Span::from_nanos(1)));
        link.half.on_deadline(ms(100_021));
        assert_same(link.half.belief(), &believed(&[Some(1)]));
    }

    #[test]
    fn a_late_call_is_as_good_as_many_in_time() {
        let mut late = Link::new("");
        let mut often = Link::new("");
        for link in [&mut late, &mut often] {
            link.run(0, 20, 7);
        }
        for at in 401..=900 {
            often.half.on_deadline(ms(at));
        }
        late.half.on_deadline(ms(900));
        assert_same(late.half.belief(), often.half.belief());
    }

    #[test]
    fn packets_that_come_twice_count_once() {
        let mut link = Link::new("");
        let word = Word { sequence: 0, throwaway: 0, next: Next::Within(0) }.encode();
        for now in [0, 1, 2] {
            link.half.on_arrival(&Arrival {
                now: ms(now),
                number: 0,
                bytes: MTU,
                wire: word,
                ecn: Default::default(),
            });
        }
        link.half.on_deadline(ms(21));
        assert_same(link.half.belief(), &believed(&[Some(1)]));
        assert_eq!(link.report(21).unwrap().received_or_lost, MTU);
    }

    #[test]
    fn numbers_are_new_once_in_any_order_within_the_window() {
        let mut seen = SeenNumbers::new();
        for number in [3, 0, 2, 4100, 4099, 5, 20_000, u64::MAX] {
            assert!(seen.insert(number), "{number}");
            assert!(!seen.insert(number), "{number} again");
        }
        assert!(!seen.insert(20_000), "too old to know");
    }

    fn insert(sequences: &mut Sequences, sequence: u64, throwaway: u64) {
        sequences.insert(&Word { sequence, throwaway, next: Next::Within(0) }, MTU);
    }

    #[test]
    fn sprout_t11_the_receiver_throws_away_what_the_sender_announces() {
        let mut link = Link::new("");
        let word = Word { sequence: 3000, throwaway: 1500, next: Next::Within(0) };
        link.half.on_arrival(&Arrival {
            now: ms(12),
            number: 2,
            bytes: MTU,
            wire: word.encode(),
            ecn: Default::default(),
        });
        assert_eq!(link.half.throwaway_before(), 1500);
    }

    #[test]
    fn gaps_count_as_received_or_lost_once_they_are_old_enough() {
        let mut sequences = Sequences::default();
        insert(&mut sequences, 0, 0);
        // 1500 is missing, and may still come.
        insert(&mut sequences, 3000, 3000);
        assert_eq!(sequences.received_or_lost(), 3000);
        // It comes late.
        insert(&mut sequences, 1500, 1500);
        assert_eq!(sequences.received_or_lost(), 4500);
        // 4500 is missing, 6000 came; the sender has given up on all before 6000.
        insert(&mut sequences, 6000, 0);
        assert_eq!(sequences.received_or_lost(), 7500);
        // Whatever comes from before then changes nothing.
        insert(&mut sequences, 4500, 0);
        assert_eq!(sequences.received_or_lost(), 7500);
    }

    #[test]
    fn a_sender_that_never_throws_away_costs_no_memory() {
        let mut sequences = Sequences::default();
        for sequence in 0..20_000 {
            let word = Word { sequence, throwaway: Word::FARTHEST, next: Next::Within(0) };
            sequences.insert(&word, 1);
        }
        assert!(sequences.arrived.len() <= Sequences::MAX);
        assert_eq!(sequences.received_or_lost(), 20_000);
    }

    #[test]
    fn whatever_packets_say_reports_are_reports() {
        let mut random = crate::Random::seeded(5, 5);
        let mut link = Link::new("max_rate=auto");
        let mut now = Time::ZERO;
        for _ in 0..5_000 {
            // Mostly a millisecond, sometimes minutes.
            let bits = if random.unit() < 0.01 { 28 } else { 12 };
            now += Span::from_micros(1 << random.below(bits));
            let number = random.bits() >> random.below(64);
            let bytes = random.bits() >> random.below(64);
            link.half.on_arrival(&Arrival {
                now,
                number,
                bytes,
                wire: random.bits(),
                ecn: Default::default(),
            });
            let mut report = Vec::new();
            if link.half.poll_report(now, &mut report) {
                assert!(SproutReport::decode(&report).is_some());
            }
            assert!(link.half.next_deadline().is_none_or(|deadline| deadline > now));
            assert!(link.half.belief().mean().is_finite());
        }
    }

    #[test]
    fn an_automatic_grid_grows_under_a_fast_link_and_keeps_what_it_knows() {
        let mut fixed = Link::new("max_rate=1000");
        let mut auto = Link::new("max_rate=auto");
        for link in [&mut fixed, &mut auto] {
            link.run(0, 100, 10);
        }
        assert_same(auto.half.belief(), fixed.half.belief());
        for link in [&mut fixed, &mut auto] {
            link.run(2000, 100, 50);
        }
        assert!(fixed.half.belief().mean() < 1002.0);
        let mean = auto.half.belief().mean();
        assert!((2400.0..2600.0).contains(&mean), "{mean}");
        assert_eq!(auto.half.belief().spec().max_rate, 4000);
        // And back: the larger grid sees slow links as the small one does.
        for link in [&mut fixed, &mut auto] {
            link.run(4000, 100, 5);
        }
        assert!((auto.half.belief().mean() - fixed.half.belief().mean()).abs() < 0.5);
    }

    #[test]
    fn a_grid_ends_at_the_largest_rate() {
        let mut link = Link::new("max_rate=auto");
        link.run(0, 150, 500);
        assert_eq!(link.half.belief().spec().max_rate, 16_000);
        let report = link.report(3000).unwrap();
        assert!(report.forecast[0] > 280, "{report:?}");
    }
}
