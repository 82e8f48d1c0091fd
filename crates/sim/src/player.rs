//! A video that a player fetches in chunks, at rates that it chooses by its buffer.

use cellpace_base::{Rate, Span, Time};
use cellpace_measure::PlayerFigures;

/// A video in chunks, each encoded at every rate of a ladder.
///
/// The player chooses by its buffer alone: BBA-0 (Huang et al., A buffer-based approach to rate adaptation, SIGCOMM
/// 2014, algorithm 1), with reservoir and cushion in that paper's proportions to the buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayerSpec {
    /// The ladder's rates, rising.
    pub rates: Vec<Rate>,
    /// Playing time of a chunk.
    pub chunk: Span,
    /// The most that waits to be played.
    pub buffer: Span,
}

/// Rates of a ladder, at most.
const MAX_RATES: usize = 100;
/// 90 s of 240 s: below it the lowest rate is fetched.
const RESERVOIR: f64 = 90.0 / 240.0;
/// 216 s of 240 s: above it the highest.
const UPPER_RESERVOIR: f64 = 216.0 / 240.0;

impl PlayerSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        let rises = self.rates.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = (1..=MAX_RATES).contains(&self.rates.len()) && self.rates[0].as_bps() > 0;
        if !fits || !rises {
            return Err(format!("size: `rates` are 1 to {MAX_RATES}, each above the one before"));
        }
        if self.chunk < Span::from_millis(1) || self.buffer < self.chunk * 2 {
            return Err("size: `chunk` from 1ms, and `buffer` of two chunks at least".into());
        }
        Ok(())
    }

    /// Bytes of a chunk at the rate with this place in the ladder.
    pub(crate) fn chunk_bytes(&self, place: usize) -> u64 {
        (self.rates[place].as_bytes_per_sec() * self.chunk.as_secs_f64()).round().max(1.0) as u64
    }

    /// The place in the ladder of the chunk after one of `previous`, with `buffered` to play.
    fn next(&self, previous: usize, buffered: Span) -> usize {
        let share = buffered.as_secs_f64() / self.buffer.as_secs_f64();
        let top = self.rates.len() - 1;
        if share <= RESERVOIR {
            return 0;
        }
        if share >= UPPER_RESERVOIR {
            return top;
        }
        let bps = |place: usize| self.rates[place].as_bps() as f64;
        // f(B) of the paper: a line from the lowest rate to the highest over the cushion.
        let along = (share - RESERVOIR) / (UPPER_RESERVOIR - RESERVOIR);
        let mapped = bps(0) + along * (bps(top) - bps(0));
        if mapped >= bps((previous + 1).min(top)) {
            return (0..=top).rev().find(|place| bps(*place) < mapped).unwrap_or(0);
        }
        if mapped <= bps(previous.saturating_sub(1)) {
            return (0..=top).find(|place| bps(*place) > mapped).unwrap_or(top);
        }
        previous
    }
}

/// A player at work.
#[derive(Debug)]
pub(crate) struct Player {
    spec: PlayerSpec,
    /// Place in the ladder of the chunk that was asked for last.
    place: usize,
    asked: Option<Time>,
    /// When the first chunk was complete, from which on it plays.
    shown: Option<Time>,
    /// What was left to play at `last`.
    buffered: Span,
    last: Time,
    /// When the buffer ran empty.
    empty_since: Option<Time>,
    stalls: u64,
    stalled: Span,
    chunks: u64,
    mbps_sum: f64,
    /// Place of the chunk that was complete last.
    shown_place: usize,
    switches: u64,
}

impl Player {
    pub(crate) fn new(spec: PlayerSpec) -> Self {
        Self {
            spec,
            place: 0,
            asked: None,
            shown: None,
            buffered: Span::ZERO,
            last: Time::ZERO,
            empty_since: None,
            stalls: 0,
            stalled: Span::ZERO,
            chunks: 0,
            mbps_sum: 0.0,
            shown_place: 0,
            switches: 0,
        }
    }

    /// Bytes of the chunk that it asks for now.
    pub(crate) fn ask(&mut self, now: Time) -> u64 {
        self.play_until(now);
        self.asked.get_or_insert(now);
        self.place = self.spec.next(self.place, self.buffered);
        self.spec.chunk_bytes(self.place)
    }

    /// A chunk is complete. How long it waits before it asks for the next one: until that has room.
    pub(crate) fn on_chunk(&mut self, now: Time) -> Span {
        self.play_until(now);
        if let Some(empty) = self.empty_since.take() {
            self.stalled += now - empty;
        }
        self.shown.get_or_insert(now);
        self.buffered += self.spec.chunk;
        if self.chunks > 0 && self.place != self.shown_place {
            self.switches += 1;
        }
        self.shown_place = self.place;
        self.chunks += 1;
        self.mbps_sum += self.spec.rates[self.place].as_mbps();
        self.buffered + self.spec.chunk - self.spec.buffer
    }

    fn play_until(&mut self, now: Time) {
        let passed = now - self.last;
        if self.shown.is_some() && self.empty_since.is_none() && passed > self.buffered {
            self.empty_since = Some(self.last + self.buffered);
            self.stalls += 1;
        }
        self.buffered = if self.shown.is_some() { self.buffered - passed } else { Span::ZERO };
        self.last = now;
    }

    /// Its figures up to `end`.
    pub(crate) fn figures(&mut self, end: Time) -> PlayerFigures {
        self.play_until(end);
        let stalled = self.stalled + self.empty_since.map_or(Span::ZERO, |empty| end - empty);
        let startup = self.asked.zip(self.shown).map(|(asked, shown)| shown - asked);
        PlayerFigures {
            chunks: self.chunks,
            bitrate_mbps: thousandths(self.mbps_sum / self.chunks.max(1) as f64),
            startup_s: startup.map(|span| thousandths(span.as_secs_f64())),
            stalls: self.stalls,
            stalled_s: thousandths(stalled.as_secs_f64()),
            switches: self.switches,
        }
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> PlayerSpec {
        let rates = [1, 2, 4, 8].map(|mbit| Rate::from_bps(mbit * 1_000_000)).to_vec();
        PlayerSpec { rates, chunk: Span::from_secs(4), buffer: Span::from_secs(240) }
    }

    #[test]
    fn the_rate_follows_the_buffer_with_the_barriers_of_bba_0() {
        let next = |previous, seconds| spec().next(previous, Span::from_secs(seconds));
        // Reservoir of 90 s, and the upper one from 216 s on.
        assert_eq!([next(3, 0), next(3, 90), next(0, 216), next(0, 240)], [0, 0, 3, 3]);
        // f(B) is 1 Mbit/s at 90 s and 8 at 216 s: one more per 18 s. Between 1 and 4 the rate of 2 stays.
        assert_eq!([next(1, 100), next(1, 120), next(1, 143)], [1, 1, 1]);
        // At 4 Mbit/s (144 s) and above the highest rate below f(B).
        assert_eq!([next(1, 145), next(1, 161), next(0, 150)], [2, 2, 2]);
        // At or below the rate beneath (2 Mbit/s at 108 s): the lowest above f(B).
        assert_eq!([next(2, 109), next(2, 108), next(2, 100), next(3, 143)], [2, 2, 1, 2]);
    }

    #[test]
    fn stalls_are_counted_from_the_empty_buffer_to_the_next_chunk() {
        let at = Time::from_secs;
        let mut player = Player::new(spec());
        assert_eq!(player.ask(at(0)), 500_000);
        assert_eq!(player.on_chunk(at(2)), Span::ZERO);
        player.ask(at(2));
        // Empty at 6 s.
        player.on_chunk(at(9));
        player.ask(at(9));
        let figures = player.figures(at(15));
        assert_eq!((figures.chunks, figures.bitrate_mbps, figures.switches), (2, 1.0, 0));
        assert_eq!((figures.startup_s, figures.stalls), (Some(2.0), 2));
        // From 6 s to 9 s, and from 13 s to the end.
        assert_eq!(figures.stalled_s, 5.0);
    }

    #[test]
    fn a_full_buffer_waits_for_room() {
        let spec = PlayerSpec { buffer: Span::from_secs(10), ..spec() };
        let mut player = Player::new(spec);
        let second = Time::from_secs(1);
        player.ask(Time::ZERO);
        assert_eq!(player.on_chunk(second), Span::ZERO);
        player.ask(second);
        // 8 s are there, and 4 more are to come: 2 s too many.
        assert_eq!(player.on_chunk(second), Span::from_secs(2));
        assert_eq!(player.figures(Time::from_secs(3)).stalls, 0);
    }
}
