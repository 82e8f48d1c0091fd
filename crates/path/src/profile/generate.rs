//! From a profile to a trace.

use cellpace_base::{Random, Span};

use super::normal::Normal;
use super::{
    BAND_ENDS, BAND_SHARES, LEVELS, LinkProfile, MAX_GAP_MS, MEMORY_S, SCORES, ShapeTable,
    at_score, blend, table_mean, table_quantile,
};
use crate::OPPORTUNITY_BYTES;
use crate::schedule::Trace;
use cellpace_base::math::{exp, pow, sin_cos};

/// Longest trace that is made, in milliseconds: longer runs repeat it.
const MAX_MILLIS: u64 = 24 * 3600 * 1000;
/// Most opportunities that are made (128 MB); a trace that has them ends there.
const MAX_OPPORTUNITIES: usize = 1 << 25;

/// How often the quality changes, in milliseconds.
const TICK_MS: u32 = 10;
/// A burst needs a gap of at least this to be seen as one, in milliseconds.
const MIN_GAP_MS: f64 = 2.0;
/// Least and most rate to catch up, relative to the rate that is due.
const MIN_HURRY: f64 = 0.5;
const MAX_HURRY: f64 = 4.0;

impl LinkProfile {
    /// A trace of `duration` (whole milliseconds, from 1 ms to 24 h, rounded down) by the model.
    ///
    /// The same seed gives the same trace on every platform, and a longer duration continues a
    /// shorter one. The last opportunity is put at the end, so that the trace's period is
    /// `duration`. A trace that reaches 33 million opportunities ends with them.
    pub fn generate(&self, seed: u64, duration: Span) -> Trace {
        let end = (duration.as_nanos() / 1_000_000).clamp(1, MAX_MILLIS) as u32;
        let mut millis = Vec::new();
        // A stream for each of both: how the scheduler draws does not move the quality.
        let mut quality = Quality::new(self, Random::seeded(seed, 0x7072_6f66));
        let mut scheduler = Scheduler::new(self, Random::seeded(seed, 0x7474_6973));
        let mut now = 0;
        while let Some(next) = scheduler.burst(now, end, quality.at(now), &mut millis) {
            now = next;
        }
        let full = millis.len() >= MAX_OPPORTUNITIES;
        // The last opportunity of a trace sets its period.
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
    parts: Vec<QualityPart>,
    wave: Option<Wave>,
}

/// An AR(1) process that keeps its variance: x <- keep x + stir N(0, 1).
struct QualityPart {
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
    fn new(profile: &LinkProfile, random: Random) -> Self {
        let mut quality = Self {
            random,
            normal: Normal::default(),
            tick: 0,
            score: 0.0,
            parts: vec![],
            wave: None,
        };
        let sum = profile.memory_weight.iter().sum::<f64>() + profile.wave_weight;
        for (weight, relaxation_s) in profile.memory_weight.iter().zip(MEMORY_S) {
            let deviation = (weight / sum).sqrt();
            let keep = per_tick(relaxation_s);
            let stir = deviation * (1.0 - keep * keep).sqrt();
            // Drawn from the long run, so that the process has no beginning to settle from.
            let value = deviation * quality.normal.draw(&mut quality.random);
            quality.parts.push(QualityPart { value, keep, stir });
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
        // Step by step also through an outage: quality goes on changing meanwhile.
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
    profile: &'a LinkProfile,
    random: Random,
    /// Rate at the normal scores, in opportunities per millisecond.
    rate: [f64; SCORES],
    /// Mean burst size there.
    size: [f64; SCORES],
    burst_excess: ShapeTable,
    gap_excess: [ShapeTable; 2],
    /// Opportunities that the rate promised outside outages and that are still missing.
    behind: f64,
    /// Gaps that the present blackout still has.
    blackout_left: u32,
    /// Until when the risk of an outage is accounted for.
    risked_until: u32,
}

impl<'a> Scheduler<'a> {
    fn new(profile: &'a LinkProfile, random: Random) -> Self {
        let per_ms = |mbps: f64| mbps * 1000.0 / (f64::from(OPPORTUNITY_BYTES) * 8.0);
        let median = profile.rate_mbps[SCORES / 2];
        let size = |mbps: f64| {
            1.0 + (profile.burst_mean - 1.0) * pow(mbps / median, profile.burst_exponent)
        };
        Self {
            profile,
            random,
            rate: profile.rate_mbps.map(per_ms),
            size: profile.rate_mbps.map(size),
            burst_excess: to_mean_one(profile.burst_excess),
            gap_excess: profile.gap_excess.map(to_mean_one),
            behind: 0.0,
            blackout_left: 0,
            risked_until: 0,
        }
    }

    /// Adds the burst that begins at `now`; returns when the next one begins, unless it is over.
    fn burst(&mut self, now: u32, end: u32, score: f64, millis: &mut Vec<u32>) -> Option<u32> {
        let due = at_score(&self.rate, score);
        // What is missing is served within `catch_up_ms` on top of the rate (see the module).
        let hurry = 1.0 + self.behind / (due * self.profile.catch_up_ms);
        let rate = due * hurry.clamp(MIN_HURRY, MAX_HURRY);
        // Above half the opportunities of a ms the bursts must grow for gaps of 2 ms to remain.
        let mean_size = at_score(&self.size, score).max(4.0 * rate - 1.0);
        let same_ms = self.profile.burst_same_ms.max(1.0 - 0.5 / rate);

        let drawn = (mean_size - 1.0) * table_quantile(&self.burst_excess, self.random.unit());
        // Rounding at random keeps the mean.
        let more = (drawn + self.random.unit()) as u64;
        let last = self.serve(now, more, same_ms, end, millis)?;
        let next = match self.outage(last, score) {
            Some(outage) => last.saturating_add(outage),
            None => {
                // The mean cycle S/r is a burst's mean length and the mean gap behind it.
                let gap = self.gap(score, mean_size / rate - (mean_size - 1.0) * (1.0 - same_ms));
                let promised = due * f64::from(last - now + gap);
                let most = due * f64::from(MAX_GAP_MS);
                // At most what the longest gap may leave: what is older is forgotten.
                self.behind = (self.behind + promised - (more + 1) as f64).clamp(-most, most);
                last.saturating_add(gap)
            }
        };
        (next < end).then_some(next)
    }

    /// Adds one opportunity at `now` and `more` behind it; `None` when there is no room for them.
    fn serve(
        &mut self,
        now: u32,
        more: u64,
        same_ms: f64,
        end: u32,
        millis: &mut Vec<u32>,
    ) -> Option<u32> {
        let mut last = now;
        for step in 0..=more {
            if step > 0 && self.random.unit() >= same_ms {
                last += 1;
            }
            if last >= end || millis.len() >= MAX_OPPORTUNITIES {
                return None;
            }
            millis.push(last);
        }
        Some(last)
    }

    /// A gap of mean `mean` ms.
    fn gap(&mut self, score: f64, mean: f64) -> u32 {
        let excess = (mean - MIN_GAP_MS).max(0.0);
        let drawn = excess * blend(&self.gap_excess, score, self.random.unit());
        // Rounding at random keeps the mean.
        ((MIN_GAP_MS + drawn + self.random.unit()) as u32).min(MAX_GAP_MS)
    }

    /// The length in ms of the gap of an outage that begins or goes on at `now`.
    fn outage(&mut self, now: u32, score: f64) -> Option<u32> {
        let band = BAND_ENDS.partition_point(|end| *end <= score).min(BAND_SHARES.len() - 1);
        // The risk grows with the time of service since it was last drawn for.
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
        // Outages begin in service only: their own time carries no risk.
        self.risked_until = now.saturating_add(length);
        Some(length.max(1))
    }

    fn draw(&mut self, table: fn(&LinkProfile) -> &[f64; LEVELS.len()]) -> f64 {
        table_quantile(table(self.profile), self.random.unit())
    }
}

fn to_mean_one(table: ShapeTable) -> ShapeTable {
    let mean = table_mean(&table);
    if mean > 0.0 { table.map(|value| value / mean) } else { [1.0; LEVELS.len()] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{NAMES, builtin};
    use crate::stats::TraceStats;

    /// FNV-1a over the times.
    fn hash(trace: &Trace) -> u64 {
        let bytes = trace.millis().iter().flat_map(|ms| ms.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// A profile whose quality forgets fast, so that a few minutes show its distributions.
    fn brisk(extra: &str) -> LinkProfile {
        let flat = "1 1 1 1 1 1 1 1 1 1";
        let mut text = String::from("about = a test\nwave_weight = 0\nwave_period_s = 1\n");
        text += "wave_coherence_s = 1\nmemory_weight = 0.5 0.5 0 0 0 0\n";
        text += "rate_mbps = 3 4 5 6 7 8 9 10 11 12 13 14 15\nblackout_share = 0\n";
        text += "blackout_gaps = 1 1 1 1 1 1 1 1 1 1\n";
        text += "blackout_ms = 101 101 101 101 101 101 101 101 101 101\n";
        text += "burst_exponent = 0.5\nburst_same_ms = 0.5\ncatch_up_ms = 1000\n";
        text += "gap_slow_excess = 0 0.05 0.2 0.6 1.35 2.3 3.05 4.7 7 9\n";
        text += "gap_fast_excess = 0 0.05 0.2 0.6 1.35 2.3 3.05 4.7 7 9\n";
        text += &format!("burst_excess = {flat}\n");
        (text + extra).parse().unwrap()
    }

    const NO_OUTAGES: &str =
        "outage_per_s = 0 0 0 0\noutage_ms = 200 200 200 200 200 200 200 200 200 200\n";

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let hashes = NAMES.map(|name| {
            let profile = builtin(name).unwrap();
            let trace = profile.generate(1, Span::from_secs(20));
            assert_eq!(trace, profile.generate(1, Span::from_secs(20)), "{name}");
            assert_ne!(trace, profile.generate(2, Span::from_secs(20)), "{name}");
            hash(&trace)
        });
        // A changed hash means that published results can no longer be repeated with this seed.
        assert_eq!(hashes, SNAPSHOT);
    }

    const SNAPSHOT: [u64; NAMES.len()] = [
        927068570064031219,
        7701236745393545332,
        15091340343205574207,
        13034706015296585610,
        2812442160085900419,
        1174337717514510853,
        2045030054390612531,
        10339681344177954687,
        9775273521013051019,
        498821083790256529,
        7817728756182981807,
        18353915679387889903,
        7064977379960611704,
    ];

    #[test]
    fn a_longer_trace_continues_a_shorter_one() {
        let profile = builtin("umts-driving").unwrap();
        let short = profile.generate(5, Span::from_secs(30));
        let long = profile.generate(5, Span::from_secs(60));
        let common = short.millis().len() - 1;
        assert_eq!(short.millis()[..common], long.millis()[..common]);
        assert!(long.millis()[common] >= 30_000);
    }

    #[test]
    fn the_period_is_the_duration() {
        for name in NAMES {
            let profile = builtin(name).unwrap();
            for ms in [1, 17, 1000, 61_234] {
                let trace = profile.generate(3, Span::from_millis(ms));
                assert_eq!(trace.period(), Span::from_millis(ms), "{name}");
            }
        }
        let profile = builtin("umts-driving").unwrap();
        assert_eq!(profile.generate(1, Span::ZERO).millis().last(), Some(&1));
    }

    #[test]
    fn marginals_are_those_of_the_parameters() {
        let profile = brisk(&format!("burst_mean = 3\n{NO_OUTAGES}"));
        let trace = profile.generate(11, Span::from_secs(600));
        let stats = TraceStats::of(&trace);
        // A straight table: mean 9, deviation 2 times the quality's.
        assert!((stats.mean_mbps / 9.0 - 1.0).abs() < 0.03, "{}", stats.mean_mbps);
        assert_eq!(stats.outage_share, 0.0);
        assert!((stats.burst_size.mean / 3.0 - 1.0).abs() < 0.05, "{:?}", stats.burst_size);
        // Means over 0.1 s of the two Ornstein-Uhlenbeck processes, (1-e^-x)^2 / (2 (x-1+e^-x))
        // with x = 1 and 1/3, have correlations 0.54 and 0.81, together 0.69; noise takes some.
        assert!((0.5..0.69).contains(&stats.acf_100ms), "{}", stats.acf_100ms);
        assert!(stats.acf_5s.abs() < 0.05, "{}", stats.acf_5s);
        // Of windows of 1 s only a part of the deviation of 2 in 9 is left.
        assert!((0.05..0.2).contains(&stats.cv_1s), "{}", stats.cv_1s);
    }

    #[test]
    fn outages_take_the_share_they_should() {
        let outages = "outage_per_s = 0.5 0.5 0.5 0.5\n\
                       outage_ms = 200 200 200 200 200 200 200 200 200 200\n";
        let profile = brisk(&format!("burst_mean = 3\n{outages}"));
        // Every 2 s of service 0.2 s: 1 in 11.
        assert!((profile.served_share() - 10.0 / 11.0).abs() < 1e-12);
        let stats = TraceStats::of(&profile.generate(2, Span::from_secs(1200)));
        assert!((stats.outage_share / (1.0 / 11.0) - 1.0).abs() < 0.12, "{}", stats.outage_share);
        assert!((stats.mean_mbps / (9.0 * 10.0 / 11.0) - 1.0).abs() < 0.03, "{}", stats.mean_mbps);
        assert_eq!(stats.gap_ms.max, 200.0);
    }

    #[test]
    fn the_faster_the_scheduler_catches_up_the_less_a_window_varies() {
        let mut profile = brisk(&format!("burst_mean = 6\n{NO_OUTAGES}"));
        profile.rate_mbps = [9.0; SCORES];
        profile.burst_excess = [0.0, 0.05, 0.2, 0.6, 1.35, 2.3, 3.05, 4.7, 7.0, 9.0];
        let mut cv = |catch_up_ms| {
            profile.catch_up_ms = catch_up_ms;
            TraceStats::of(&profile.generate(1, Span::from_secs(300))).cv_1s
        };
        let (never, soon) = (cv(100_000.0), cv(80.0));
        assert!(soon < 0.6 * never && soon > 0.1 * never, "{soon} {never}");
    }

    #[test]
    fn a_wave_shows_in_the_autocorrelation() {
        let mut profile = brisk(&format!("burst_mean = 3\n{NO_OUTAGES}"));
        (profile.wave_weight, profile.wave_period_s, profile.wave_coherence_s) = (4.0, 1.0, 20.0);
        let stats = TraceStats::of(&profile.generate(1, Span::from_secs(600)));
        assert!(stats.acf_1s > 0.5, "{}", stats.acf_1s);
        profile.wave_period_s = 2.0;
        let stats = TraceStats::of(&profile.generate(1, Span::from_secs(600)));
        assert!(stats.acf_1s < -0.5, "{}", stats.acf_1s);
    }

    #[test]
    fn extreme_profiles_end_and_stay_bounded() {
        let top =
            brisk("burst_mean = 10000\noutage_per_s = 5 5 5 5\noutage_ms = 1 1 1 1 1 1 1 1 1 1\n");
        for (same, exponent, rate) in [(1.0, 3.0, 10_000.0), (0.0, 0.0, 0.12), (1.0, 0.0, 0.12)] {
            let mut profile = top.clone();
            profile.burst_same_ms = same;
            profile.burst_exponent = exponent;
            profile.catch_up_ms = 1.0;
            profile.rate_mbps = [rate; SCORES];
            profile.rate_mbps[0] = 0.12;
            let trace = profile.generate(1, Span::from_millis(300));
            assert!(trace.millis().len() <= MAX_OPPORTUNITIES + 1);
        }
    }

    #[test]
    fn a_trace_that_is_full_ends_with_its_opportunities() {
        let mut profile = brisk(&format!("burst_mean = 10000\n{NO_OUTAGES}"));
        profile.rate_mbps = [10_000.0; SCORES];
        let trace = profile.generate(1, Span::from_secs(24 * 3600));
        assert_eq!(trace.millis().len(), MAX_OPPORTUNITIES + 1);
        assert!(trace.period() < Span::from_secs(60));
    }
}
