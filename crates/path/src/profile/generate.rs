//! From a profile to a trace.

use cellpace_base::{Random, Span};

use super::math::{Normal, exp, pow, sin_cos};
use super::{
    BAND_ENDS, BAND_SHARES, LEVELS, LONGEST_GAP_MS, MEMORY_S, Profile, SCORES, Shape, at_score, blend, table_mean, table_quantile,
};
use crate::schedule::Trace;
use crate::OPPORTUNITY_BYTES;

/// Longest trace that is made, in milliseconds: longer runs repeat it.
const MAX_MILLIS: u64 = 24 * 3600 * 1000;
/// Most opportunities that are made (128 MB); a trace that has them ends there.
const MAX_OPPORTUNITIES: usize = 1 << 25;

/// How often the quality changes, in milliseconds.
const TICK_MS: u32 = 10;
/// A burst needs a gap of at least this to be seen as one, in milliseconds.
const MIN_GAP_MS: f64 = 2.0;

impl Profile {
    /// A trace of `duration` (whole milliseconds, from 1 ms to 24 h, rounded down) by the model.
    ///
    /// The same seed gives the same trace on every platform, and a longer duration continues a
    /// shorter one. The last opportunity is put at the end, so that the trace's period is
    /// `duration`. A trace that reaches 33 million opportunities ends with them.
    pub fn generate(&self, seed: u64, duration: Span) -> Trace {
        let end = (duration.as_nanos() / 1_000_000).clamp(1, MAX_MILLIS) as u32;
        let mut millis = Vec::new();
        let mut quality = Quality::new(self, Random::seeded(seed, 0x7072_6f66));
        let mut scheduler = Scheduler::new(self, Random::seeded(seed, 0x7474_6973));
        let mut now = 0;
        while let Some(next) = scheduler.burst(now, end, quality.at(now), &mut millis) {
            now = next;
        }
        let full = millis.len() >= MAX_OPPORTUNITIES;
        millis.push(millis.last().filter(|_| full).map_or(end, |last| last + 1));
        match Trace::from_millis(millis) {
            Ok(trace) => trace,
            Err(error) => unreachable!("opportunities are made in order and end after 0: {error}"),
        }
    }
}

/// The radio quality: a Gaussian process with variance 1.
struct Quality {
    random: Random,
    normal: Normal,
    /// Tick that `score` belongs to.
    tick: u32,
    score: f64,
    parts: Vec<Part>,
    wave: Option<Wave>,
}

/// An AR(1) process that keeps its variance: x <- keep x + stir N(0, 1).
struct Part {
    value: f64,
    keep: f64,
    stir: f64,
}

/// The same in the plane, turning: its first coordinate oscillates.
struct Wave {
    value: (f64, f64),
    turn: (f64, f64),
    stir: f64,
}

impl Quality {
    fn new(profile: &Profile, random: Random) -> Self {
        let mut quality =
            Self { random, normal: Normal::default(), tick: 0, score: 0.0, parts: vec![], wave: None };
        let sum = profile.memory_weight.iter().sum::<f64>() + profile.wave_weight;
        for (weight, relaxation_s) in profile.memory_weight.iter().zip(MEMORY_S) {
            let deviation = (weight / sum).sqrt();
            let keep = per_tick(relaxation_s);
            let stir = deviation * (1.0 - keep * keep).sqrt();
            let value = deviation * quality.normal.draw(&mut quality.random);
            quality.parts.push(Part { value, keep, stir });
        }
        if profile.wave_weight > 0.0 {
            let deviation = (profile.wave_weight / sum).sqrt();
            let keep = per_tick(profile.wave_coherence_s);
            let per_turn = f64::from(TICK_MS) / 1000.0 / profile.wave_period_s;
            let (sin, cos) = sin_cos(std::f64::consts::TAU * per_turn);
            let mut draw = || deviation * quality.normal.draw(&mut quality.random);
            quality.wave = Some(Wave {
                value: (draw(), draw()),
                turn: (keep * cos, keep * sin),
                stir: deviation * (1.0 - keep * keep).sqrt(),
            });
        }
        quality.sum_up();
        quality
    }

    /// Quality at `now`, which must not go back.
    fn at(&mut self, now: u32) -> f64 {
        while self.tick < now / TICK_MS {
            self.tick += 1;
            self.step();
        }
        self.score
    }

    fn step(&mut self) {
        for part in self.parts.iter_mut().filter(|part| part.stir > 0.0) {
            part.value = part.keep * part.value + part.stir * self.normal.draw(&mut self.random);
        }
        if let Some(wave) = &mut self.wave {
            let ((x, y), (cos, sin)) = (wave.value, wave.turn);
            let mut draw = || wave.stir * self.normal.draw(&mut self.random);
            wave.value = (cos * x - sin * y + draw(), sin * x + cos * y + draw());
        }
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let wave = self.wave.as_ref().map_or(0.0, |wave| wave.value.0);
        self.score = wave + self.parts.iter().map(|part| part.value).sum::<f64>();
    }
}

/// What is left of a value after one tick.
fn per_tick(relaxation_s: f64) -> f64 {
    exp(-f64::from(TICK_MS) / 1000.0 / relaxation_s)
}

/// The scheduler in the base station, and outages.
struct Scheduler<'a> {
    profile: &'a Profile,
    random: Random,
    /// Rate at the normal scores, in opportunities per millisecond.
    rate: [f64; SCORES],
    /// Mean burst size there.
    size: [f64; SCORES],
    burst_excess: Shape,
    gap_excess: [Shape; 2],
    /// Gaps that the present blackout still has.
    blackout_left: u32,
    /// Until when the risk of an outage is accounted for.
    risked_until: u32,
}

impl<'a> Scheduler<'a> {
    fn new(profile: &'a Profile, random: Random) -> Self {
        let per_ms = |mbps: f64| mbps * 1000.0 / (f64::from(OPPORTUNITY_BYTES) * 8.0);
        let median = profile.rate_mbps[SCORES / 2];
        let size =
            |mbps: f64| 1.0 + (profile.burst_mean - 1.0) * pow(mbps / median, profile.burst_exponent);
        Self {
            profile,
            random,
            rate: profile.rate_mbps.map(per_ms),
            size: profile.rate_mbps.map(size),
            burst_excess: to_mean_one(profile.burst_excess),
            gap_excess: profile.gap_excess.map(to_mean_one),
            blackout_left: 0,
            risked_until: 0,
        }
    }

    /// Adds the burst that begins at `now`; says when the next one begins, unless it is over.
    fn burst(&mut self, now: u32, end: u32, score: f64, millis: &mut Vec<u32>) -> Option<u32> {
        let rate = at_score(&self.rate, score);
        // Above half the opportunities of a ms the bursts must grow for gaps of 2 ms to remain.
        let mean = at_score(&self.size, score).max(4.0 * rate - 1.0);
        let same = self.profile.burst_same_ms.max(1.0 - 0.5 / rate);
        let drawn = (mean - 1.0) * table_quantile(&self.burst_excess, self.random.unit());
        let more = (drawn + self.random.unit()) as u64;
        let mut last = now;
        for step in 0..=more {
            if step > 0 && self.random.unit() >= same {
                last += 1;
            }
            if last >= end || millis.len() >= MAX_OPPORTUNITIES {
                return None;
            }
            millis.push(last);
        }
        let gap = match self.outage(last, score) {
            Some(outage) => outage,
            None => {
                let excess = mean / rate - (mean - 1.0) * (1.0 - same) - MIN_GAP_MS;
                let share = self.profile.gap_follows_burst;
                let follows = (more + 1) as f64 / mean;
                self.gap(score, excess.max(0.0) * (1.0 - share + share * follows))
            }
        };
        let next = last.saturating_add(gap);
        (next < end).then_some(next)
    }

    /// A gap that exceeds the shortest by `excess` ms on average.
    fn gap(&mut self, score: f64, excess: f64) -> u32 {
        let drawn = excess * blend(&self.gap_excess, score, self.random.unit());
        // Rounding at random keeps the mean.
        ((MIN_GAP_MS + drawn + self.random.unit()) as u32).min(LONGEST_GAP_MS)
    }

    /// The length in ms of the gap of an outage that begins or goes on at `now`.
    fn outage(&mut self, now: u32, score: f64) -> Option<u32> {
        let band = BAND_ENDS.partition_point(|end| *end <= score).min(BAND_SHARES.len() - 1);
        let seconds = f64::from(now.saturating_sub(self.risked_until)) / 1000.0;
        self.risked_until = now;
        if self.blackout_left == 0 {
            if self.random.unit() >= self.profile.outage_per_s[band] * seconds {
                return None;
            }
            if self.random.unit() < self.profile.blackout_share {
                let gaps = self.draw(|profile| &profile.blackout_gaps);
                self.blackout_left = (gaps + self.random.unit()) as u32;
            }
        }
        let length = if self.blackout_left > 0 {
            self.blackout_left -= 1;
            self.draw(|profile| &profile.blackout_ms) as u32
        } else {
            self.draw(|profile| &profile.outage_ms) as u32
        };
        self.risked_until = now.saturating_add(length);
        Some(length.max(1))
    }

    fn draw(&mut self, table: fn(&Profile) -> &[f64; LEVELS.len()]) -> f64 {
        table_quantile(table(self.profile), self.random.unit())
    }
}

fn to_mean_one(table: Shape) -> Shape {
    let mean = table_mean(&table);
    if mean > 0.0 { table.map(|value| value / mean) } else { [1.0; LEVELS.len()] }
}
