//! The states of the chain: which delays and windows a model distinguishes.

use std::fmt;

use thiserror::Error;

use crate::change::{ONE_PACKET, delay_change, log10_q16, relative_step, window_change};
use crate::{Chain, Sample};

/// States of a model at most, so that an index fits 32 bits and a file cannot ask for more.
pub(crate) const MAX_STATES: u64 = 1 << 24;

/// Windows of a model at most: a table keeps their indices in 16 bits.
const MAX_WINDOWS: u32 = 1 << 16;

/// Why there are no such states.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StatesError {
    /// An axis whose ends are not in order or not multiples of its step.
    #[error("the {axis} axis {min}..{max} by {step}: {reason}")]
    Axis {
        /// `delay` or `window`.
        axis: &'static str,
        /// Its lower end.
        min: String,
        /// Its upper end.
        max: String,
        /// Its step.
        step: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// More states than can be numbered.
    #[error(
        "{states} states are more than the {MAX_STATES} that a table can have; take wider steps"
    )]
    TooMany {
        /// How many there would be.
        states: u64,
    },
    /// More windows than can be numbered.
    #[error(
        "{windows} windows are more than the {MAX_WINDOWS} that a table can distinguish; take wider \
         steps"
    )]
    TooManyWindows {
        /// How many there would be.
        windows: u32,
    },
    /// No sample to choose from.
    #[error("there are no samples to choose ranges from")]
    NoSamples,
}

/// Evenly spaced values, both ends included, in thousandths of the measure of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    min: i64,
    max: i64,
    step: i64,
}

impl Axis {
    /// Values from `min` to `max` by `step`, all in thousandths.
    ///
    /// # Errors
    /// When the step is not positive, the ends are in the wrong order or no multiples of the step.
    pub fn new(axis: &'static str, min: i64, max: i64, step: i64) -> Result<Self, StatesError> {
        let wrong = |reason| {
            let shown = |thousandths: i64| format!("{}", thousandths as f64 / 1000.0);
            let (min, max, step) = (shown(min), shown(max), shown(step));
            Err(StatesError::Axis { axis, min, max, step, reason })
        };
        if step <= 0 {
            return wrong("the step must be above 0");
        }
        if min > max {
            return wrong("the lower end lies above the upper end");
        }
        // So that each number fits a word of the flat form.
        if min.unsigned_abs().max(max.unsigned_abs()).max(step.unsigned_abs()) > 1 << 30 {
            return wrong("the ends are too far out");
        }
        if min % step != 0 || max % step != 0 {
            return wrong("both ends must be multiples of the step");
        }
        Ok(Self { min, max, step })
    }

    /// The lowest value, in thousandths.
    pub fn min(&self) -> i64 {
        self.min
    }

    /// The highest value, in thousandths.
    pub fn max(&self) -> i64 {
        self.max
    }

    /// From one value to the next, in thousandths.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// How many values there are.
    pub fn len(&self) -> u32 {
        u32::try_from((self.max - self.min) / self.step + 1).unwrap_or(u32::MAX)
    }

    /// Never true: an axis has at least one value.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The value number `index`, in thousandths.
    pub fn value(&self, index: u32) -> i64 {
        self.min + i64::from(index) * self.step
    }

    /// The nearest multiple of the step, half to even (docs/spec/mdi.md 3), as an
    /// index; `None` outside of the range.
    pub fn index(&self, change: i64) -> Option<u32> {
        let rounded = self.rounded(change);
        let inside = (self.min..=self.max).contains(&rounded);
        inside.then(|| ((rounded - self.min) / self.step) as u32)
    }

    /// As [`index`](Self::index), with what lies outside taken to the nearer end.
    pub fn clamped(&self, change: i64) -> u32 {
        let rounded = self.rounded(change).clamp(self.min, self.max);
        ((rounded - self.min) / self.step) as u32
    }

    fn rounded(&self, change: i64) -> i64 {
        // On the size, because not every runtime divides signed numbers.
        let (size, step) = (change.unsigned_abs(), self.step as u64);
        let (whole, rest) = (size / step, size % step);
        let up = 2 * rest > step || (2 * rest == step && whole % 2 == 1);
        let rounded = ((whole + u64::from(up)) * step) as i64;
        if change < 0 { -rounded } else { rounded }
    }
}

impl fmt::Display for Axis {
    /// `-10..10/2`: both ends and the step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [min, max, step] =
            [self.min, self.max, self.step].map(|thousandths| thousandths as f64 / 1000.0);
        write!(f, "{min}..{max}/{step}")
    }
}

/// States of the 2017 paper: the delay of an epoch and the packets sent in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absolute {
    /// The least delay, in ms.
    pub d_min: u32,
    /// The largest delay, in ms.
    pub d_max: u32,
    /// Width of a bin of delays, in ms.
    pub quantization: u32,
    /// The least number of packets.
    pub w_min: u32,
    /// The largest number of packets.
    pub w_max: u32,
}

impl Absolute {
    /// Number of delay bins.
    pub fn bins(&self) -> u32 {
        // docs/spec/mdi.md 2.
        (self.d_max - self.d_min + 1).div_ceil(self.quantization)
    }

    /// The bin of a delay in microseconds; `None` outside of the range.
    pub fn bin(&self, delay_us: u32) -> Option<u32> {
        let delay = delay_us / 1000;
        let inside = (self.d_min..=self.d_max).contains(&delay);
        inside.then(|| (delay - self.d_min) / self.quantization)
    }

    /// As [`bin`](Self::bin), with what lies outside taken to the nearer end.
    pub fn clamped_bin(&self, delay_us: u32) -> u32 {
        let delay = (delay_us / 1000).clamp(self.d_min, self.d_max);
        (delay - self.d_min) / self.quantization
    }

    /// A number of packets, taken into the range.
    pub fn clamped_packets(&self, packets: u32) -> u32 {
        packets.clamp(self.w_min, self.w_max)
    }
}

/// States of the 2021 code: the change of the delay and the change of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relative {
    /// Changes of the delay.
    pub d: Axis,
    /// Changes of the window.
    pub w: Axis,
}

/// States of our own: how far the delay is above the least one, and the change of the window.
///
/// Absolute states know how full the queue is but only on links as fast as those they were learnt
/// on; relative ones go with any link but do not know how full its queue is. These know both: the
/// level of the delay is a ratio, and so is the change of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// Levels of the delay: log10 of its ratio to the [base](Base), in thousandths. What is
    /// above counts as the highest.
    pub d: Axis,
    /// Changes of the window. What is beyond counts as the end and is made up for in the epochs
    /// that follow.
    pub w: Axis,
}

/// The highest level at which a chain that has begun again is learnt from: 10^0.9, eight times the
/// base, in thousandths.
const HIGHEST_REJOINED: i64 = 900;

impl Levels {
    /// The level of a delay, as an index.
    pub(crate) fn level(&self, delay_us: u32, base: &Base) -> u32 {
        self.d.clamped(base.level(delay_us))
    }
}

/// The recent minimum delay: it takes any smaller one at once, and otherwise rises by a share of
/// 2^-15 per epoch (0.6 % a second), so that a path that became longer is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Base {
    /// In 1/256 us; 0: none yet.
    delay_q8: u64,
}

impl Base {
    /// One epoch, with its delay in microseconds if there was an ack.
    pub(crate) fn step(&mut self, delay_us: Option<u32>) {
        self.delay_q8 += self.delay_q8 >> 15;
        let Some(delay) = delay_us else { return };
        let delay = u64::from(delay.max(1000)) << 8;
        self.delay_q8 = if self.delay_q8 == 0 { delay } else { self.delay_q8.min(delay) };
    }

    /// log10 of the ratio of a delay to the base, in thousandths; 0 below it.
    fn level(&self, delay_us: u32) -> i64 {
        let base = u32::try_from(self.delay_q8 >> 8).unwrap_or(u32::MAX);
        let above = log10_q16(delay_us.max(base)).saturating_sub(log10_q16(base));
        (i64::from(above) * 1000 + (1 << 15)) >> 16
    }
}

/// How samples become states. All states of one delay are contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum States {
    /// Absolute values (variant A of the specification).
    Absolute(Absolute),
    /// Changes (variant B).
    Relative(Relative),
    /// Levels of the delay and changes of the window.
    Levels(Levels),
}

impl fmt::Display for States {
    /// As `cellpace mdi train --states` reads them: `levels:delay=0..1.4/0.01,window=-60..60/4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(Absolute { d_min, d_max, quantization, w_min, w_max }) => {
                write!(
                    f,
                    "absolute:delay={d_min}..{d_max}/{quantization},window={w_min}..{w_max}/1"
                )
            }
            Self::Relative(Relative { d, w }) => write!(f, "relative:delay={d},window={w}"),
            Self::Levels(Levels { d, w }) => write!(f, "levels:delay={d},window={w}"),
        }
    }
}

impl States {
    /// Checks ranges and size.
    ///
    /// # Errors
    /// When a range is empty or there would be too many states.
    pub fn check(self) -> Result<Self, StatesError> {
        if let Self::Absolute(states) = &self {
            let wrong = |axis, min: u32, max: u32, step: u32, reason| {
                let (min, max, step) = (min.to_string(), max.to_string(), step.to_string());
                Err(StatesError::Axis { axis, min, max, step, reason })
            };
            let Absolute { d_min, d_max, quantization, w_min, w_max } = *states;
            if quantization == 0 {
                return wrong("delay", d_min, d_max, 0, "the quantization must be above 0");
            }
            if d_min > d_max || d_max > 1 << 22 {
                let reason = "the ends must be in order and below 70 minutes";
                return wrong("delay", d_min, d_max, quantization, reason);
            }
            if w_min > w_max || w_max > 0xffff {
                let reason = "the ends must be in order and below 65536 packets";
                return wrong("window", w_min, w_max, 1, reason);
            }
        }
        let states = u64::from(self.delays()) * u64::from(self.windows());
        if states > MAX_STATES {
            return Err(StatesError::TooMany { states });
        }
        if self.windows() > MAX_WINDOWS {
            return Err(StatesError::TooManyWindows { windows: self.windows() });
        }
        Ok(self)
    }

    /// Returns how many delays are distinguished.
    pub fn delays(&self) -> u32 {
        match self {
            Self::Absolute(states) => states.bins(),
            Self::Relative(states) => states.d.len(),
            Self::Levels(states) => states.d.len(),
        }
    }

    /// Returns how many windows are distinguished.
    pub fn windows(&self) -> u32 {
        match self {
            Self::Absolute(states) => states.w_max - states.w_min + 1,
            Self::Relative(states) => states.w.len(),
            Self::Levels(states) => states.w.len(),
        }
    }

    /// How many states there are: m of Eq. 6, MDI.
    pub fn len(&self) -> u32 {
        self.delays() * self.windows()
    }

    /// Never true: there is at least one state.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The number of the state of the delay and the window with these indices.
    pub fn index(&self, delay: u32, window: u32) -> u32 {
        delay * self.windows() + window
    }

    /// The delay's index of a state.
    pub fn delay_of(&self, state: u32) -> u32 {
        state / self.windows()
    }

    /// The window's index of a state.
    pub fn window_of(&self, state: u32) -> u32 {
        state % self.windows()
    }

    /// Calls `count` with each transition of a chain, from one state to the next. Samples outside of
    /// the ranges break the chain.
    ///
    /// With levels a window of one packet ends the chain. It begins again `rejoin` epochs later
    /// (`None`: never), or when the window is above one packet again, if that is later; from then on
    /// it leaves out delays of more than eight times the base. Other states have no such ends.
    pub fn count_transitions(
        &self,
        chain: &Chain,
        rejoin: Option<usize>,
        mut count: impl FnMut(u32, u32),
    ) {
        if let Self::Levels(states) = self {
            return self.level_transitions(states, chain, rejoin, count);
        }
        let mut before = None;
        let mut pairs = chain.windows(2);
        // The first epoch of the relative states only gives the old values.
        let first = match self {
            Self::Absolute(_) => chain.first().map(|sample| self.state(sample, sample)),
            _ => None,
        };
        let rest = std::iter::from_fn(|| {
            let pair = pairs.next()?;
            Some(self.state(&pair[1], &pair[0]))
        });
        for state in first.into_iter().chain(rest) {
            if let (Some(from), Some(to)) = (before, state) {
                count(from, to);
            }
            before = state;
        }
    }

    /// The state of an epoch, given the one before.
    fn state(&self, sample: &Sample, old: &Sample) -> Option<u32> {
        match self {
            Self::Absolute(states) => {
                let inside = (states.w_min..=states.w_max).contains(&sample.sent);
                let delay = states.bin(sample.delay_us).filter(|_| inside)?;
                Some(self.index(delay, sample.sent - states.w_min))
            }
            Self::Relative(states) => {
                let delay = states.d.index(delay_change(sample.delay_us, old.delay_us))?;
                let window = states.w.index(window_change(sample.window, old.window))?;
                Some(self.index(delay, window))
            }
            // A level needs the whole past.
            Self::Levels(_) => None,
        }
    }

    /// The change of the window is that from where the changes so far lead, not from the last
    /// sample: what rounding leaves over is part of the next change, so that small changes add up
    /// and a walk drifts no more than its teacher.
    ///
    /// A window of one packet ends the chain: from there every change has the measure 0
    /// (docs/spec/mdi.md 3), so the window that is followed here would stay at one packet, and
    /// everything that the teacher does afterwards would count as no change. The chain begins again
    /// only after `rejoin` epochs. Until then acks report the delay of the window that the teacher
    /// has just given up; a table that learns to grow at such delays would also grow in a queue that
    /// it has filled itself. For the same reason long queues are learnt from first chains only.
    fn level_transitions(
        &self,
        states: &Levels,
        chain: &Chain,
        rejoin: Option<usize>,
        mut count: impl FnMut(u32, u32),
    ) {
        let (mut base, mut reached, mut before) = (Base::default(), None, None);
        let (mut waiting, mut rejoined) = (0_usize, false);
        for sample in chain {
            base.step(Some(sample.delay_us));
            if waiting > 0 {
                waiting -= 1;
                continue;
            }
            if rejoined && base.level(sample.delay_us) > HIGHEST_REJOINED {
                (reached, before) = (None, None);
                continue;
            }
            match reached {
                None if sample.window <= ONE_PACKET => continue,
                Some(last) if sample.window.min(last) <= ONE_PACKET => {
                    let Some(epochs) = rejoin else { return };
                    (waiting, rejoined) = (epochs, true);
                    (reached, before) = (None, None);
                    continue;
                }
                _ => {}
            }
            let from = reached.unwrap_or(sample.window);
            let change = states.w.clamped(window_change(sample.window, from));
            reached = Some(relative_step(from, states.w.value(change)));
            let state = self.index(states.level(sample.delay_us, &base), change);
            if let Some(from) = before.replace(state) {
                count(from, state);
            }
        }
    }

    /// Absolute states for these samples: delays up to their 99.9th percentile (section 4.2 of
    /// the paper) in bins of `quantization` ms, all numbers of packets of what remains.
    ///
    /// # Errors
    /// When there are no samples, or too many states.
    pub fn absolute_for(chains: &[&Chain], quantization: u32) -> Result<Self, StatesError> {
        let mut delays: Vec<u32> =
            chains.iter().copied().flatten().map(|sample| sample.delay_us / 1000).collect();
        let d_max = percentile(&mut delays, 0.999).ok_or(StatesError::NoSamples)?;
        let d_min = delays.iter().copied().min().unwrap_or(d_max);
        let kept =
            chains.iter().copied().flatten().filter(|sample| sample.delay_us / 1000 <= d_max);
        let (w_min, w_max) = kept
            .map(|sample| sample.sent)
            .fold((u32::MAX, 0), |(low, high), sent| (low.min(sent), high.max(sent)));
        Self::Absolute(Absolute { d_min, d_max, quantization, w_min, w_max }).check()
    }

    /// Levels for these samples: of the delay in steps of a hundredth of a decade (2.3 %) up to the
    /// 99.9th percentile, and 21 changes of the window that reach the 98th percentile.
    ///
    /// # Errors
    /// When there are no samples.
    pub fn levels_for(
        chains: &[&Chain],
        d: Option<Axis>,
        w: Option<Axis>,
    ) -> Result<Self, StatesError> {
        let Self::Relative(changes) = Self::relative_for(chains, None, w)? else {
            return Err(StatesError::NoSamples);
        };
        let w = changes.w;
        if let Some(d) = d {
            return Self::Levels(Levels { d, w }).check();
        }
        let mut levels = Vec::new();
        for chain in chains {
            let mut base = Base::default();
            levels.extend(chain.iter().map(|sample| {
                base.step(Some(sample.delay_us));
                base.level(sample.delay_us)
            }));
        }
        const STEP: i64 = 10;
        let top = percentile(&mut levels, 0.999).ok_or(StatesError::NoSamples)?;
        let d = Axis::new("delay", 0, (top / STEP + 1) * STEP, STEP)?;
        Self::Levels(Levels { d, w }).check()
    }

    /// Relative states for these samples. Where nothing is given, both axes have the published
    /// numbers of values (11 for the delay, 21 for the window), symmetric around no change, and
    /// reach the 1st and 99th percentile of the changes that are not zero.
    ///
    /// # Errors
    /// When there are no samples.
    pub fn relative_for(
        chains: &[&Chain],
        d: Option<Axis>,
        w: Option<Axis>,
    ) -> Result<Self, StatesError> {
        let pairs = || chains.iter().flat_map(|chain| chain.windows(2));
        let chosen = |axis, half: i64, change: fn(&Sample, &Sample) -> i64| {
            let sizes = pairs().map(|pair| change(&pair[1], &pair[0]).unsigned_abs());
            let mut sizes: Vec<u64> = sizes.filter(|size| *size > 0).collect();
            if pairs().next().is_none() {
                return Err(StatesError::NoSamples);
            }
            let reach = percentile(&mut sizes, 0.98).unwrap_or(0);
            // A whole number of the measure, as the published tables have, and at least 1.
            let step = ((reach as f64 / half as f64 / 1000.0).round().max(1.0) * 1000.0) as i64;
            Axis::new(axis, -half * step, half * step, step)
        };
        let d = match d {
            Some(axis) => axis,
            None => chosen("delay", 5, |new, old| delay_change(new.delay_us, old.delay_us))?,
        };
        let w = match w {
            Some(axis) => axis,
            None => chosen("window", 10, |new, old| window_change(new.window, old.window))?,
        };
        Self::Relative(Relative { d, w }).check()
    }
}

/// The smallest value that at least `share` of the values do not exceed.
fn percentile<T: Ord + Copy>(values: &mut [T], share: f64) -> Option<T> {
    let last = values.len().checked_sub(1)?;
    let rank = ((values.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last);
    Some(*values.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paper(quantization: u32) -> States {
        let d = Absolute { d_min: 20, d_max: 727, quantization, w_min: 0, w_max: 35 };
        States::Absolute(d).check().unwrap()
    }

    fn published() -> States {
        let d = Axis::new("delay", -10_000, 10_000, 2000).unwrap();
        let w = Axis::new("window", -20_000, 20_000, 2000).unwrap();
        States::Relative(Relative { d, w }).check().unwrap()
    }

    fn sample(delay_ms: u32, sent: u32) -> Sample {
        Sample { delay_us: delay_ms * 1000, window: 10 << 16, sent }
    }

    fn counted(states: &States, chain: &Chain) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        states.count_transitions(chain, None, |from, to| all.push((from, to)));
        all
    }

    #[test]
    fn mdi_t2_rounding_half_to_even() {
        let axis = Axis::new("delay", -20_000, 20_000, 2000).unwrap();
        for (change, rounded) in [
            (13_010, 14_000),
            (16_990, 16_000),
            (1000, 0),
            (3000, 4000),
            (5000, 4000),
            (-1000, 0),
            (-3000, -4000),
            (1900, 2000),
        ] {
            assert_eq!(axis.value(axis.index(change).unwrap()), rounded, "{change}");
        }
        assert_eq!(axis.index(21_001), None);
        assert_eq!(axis.clamped(21_001), 20);
        assert_eq!(axis.clamped(-90_000), 0);
    }

    #[test]
    fn mdi_t4_indices_of_relative_states() {
        let states = published();
        let States::Relative(Relative { d, w }) = states else { unreachable!() };
        let index = |dp, wp| states.index(d.index(dp).unwrap(), w.index(wp).unwrap());
        assert_eq!(states.len(), 231);
        assert_eq!(index(0, 0), 115);
        assert_eq!(index(-10_000, -20_000), 0);
        assert_eq!(index(10_000, 20_000), 230);
        assert_eq!(index(2000, -4000), 134);
        assert_eq!((states.delay_of(134), states.window_of(134)), (6, 8));
    }

    #[test]
    fn mdi_t8_sizes_of_absolute_states() {
        let sizes = [(1, 25_488), (2, 12_744), (5, 5112), (10, 2556), (20, 1296)];
        for (quantization, size) in sizes {
            assert_eq!(paper(quantization).len(), size);
        }
        let States::Absolute(states) = paper(20) else { unreachable!() };
        assert_eq!(states.bin(20_000), Some(0));
        assert_eq!(states.bin(727_999), Some(35));
        assert_eq!(paper(20).index(35, 35), 1295);
        assert_eq!((states.bin(39_999), states.bin(40_000)), (Some(0), Some(1)));
        assert_eq!((states.bin(19_999), states.bin(728_000)), (None, None));
        assert_eq!((states.clamped_bin(0), states.clamped_bin(u32::MAX)), (0, 35));
    }

    #[test]
    fn mdi_t9_transitions_of_a_sequence() {
        let chain = vec![sample(20, 1), sample(20, 1), sample(21, 2), sample(20, 1)];
        let states = paper(1);
        let (a, b) = (states.index(0, 1), states.index(1, 2));
        assert_eq!(counted(&states, &chain), [(a, a), (a, b), (b, a)]);
    }

    #[test]
    fn an_epoch_outside_of_the_ranges_breaks_the_chain() {
        let chain = vec![sample(20, 1), sample(900, 1), sample(21, 1), sample(22, 1)];
        assert_eq!(counted(&paper(1), &chain), [(37, 73)]);
        // Relative: 20 -> 22 is a change of 13, out of range; the old values move on all the same.
        let chain: Chain = [20, 20, 22, 22, 22].iter().map(|d| sample(*d, 1)).collect();
        assert_eq!(counted(&published(), &chain), [(115, 115)]);
    }

    #[test]
    fn absolute_ranges_come_from_the_samples() {
        let mut chain: Chain = (0..2000).map(|i| sample(30 + i % 50, i % 7)).collect();
        chain[500] = sample(5000, 300);
        let States::Absolute(states) = States::absolute_for(&[&chain], 2).unwrap() else {
            unreachable!()
        };
        let expected = Absolute { d_min: 30, d_max: 79, quantization: 2, w_min: 0, w_max: 6 };
        assert_eq!(states, expected);
        assert_eq!(States::absolute_for(&[&vec![]], 2), Err(StatesError::NoSamples));
    }

    #[test]
    fn relative_ranges_come_from_the_samples() {
        let chain: Chain = (0..1000).map(|i| sample(100 + i % 5, 1)).collect();
        let States::Relative(states) = States::relative_for(&[&chain], None, None).unwrap() else {
            unreachable!()
        };
        // One percent up, four percent down, weighted by two: 2 and 8.
        assert_eq!((states.d.step(), states.d.max()), (2000, 10_000));
        assert_eq!((states.w.step(), states.w.len()), (1000, 21));
        assert!(States::relative_for(&[], None, None).is_err());
    }

    fn levels() -> States {
        let d = Axis::new("delay", 0, 1000, 10).unwrap();
        let w = Axis::new("window", -30_000, 30_000, 3000).unwrap();
        States::Levels(Levels { d, w }).check().unwrap()
    }

    #[test]
    fn the_base_falls_at_once_and_rises_slowly() {
        let mut base = Base::default();
        base.step(Some(40_000));
        for _ in 0..200 {
            base.step(None);
        }
        // 200 epochs of 2^-15: 0.6 %.
        assert_eq!(base.delay_q8 >> 8, 40_244);
        assert_eq!(base.level(39_000), 0);
        // log10(44.9 / 40.24) = 0.0476.
        assert_eq!(base.level(44_900), 48);
        assert_eq!(base.level(10 * 40_244), 1000);
        base.step(Some(30_000));
        assert_eq!(base.level(60_000), 301);
        base.step(Some(0));
        assert_eq!(base.delay_q8, 1000 << 8);
    }

    #[test]
    fn changes_too_small_for_the_axis_add_up() {
        // 0.2 % an epoch is a change of 0.28 at 25 packets: all of them would round to none.
        let grown = |epoch: i32| (25.0 * 1.002_f64.powi(epoch) * 65_536.0) as u32;
        let sample = |epoch| Sample { delay_us: 50_000, window: grown(epoch), sent: 1 };
        let chain: Chain = (0..500).map(sample).collect();
        let states = levels();
        let mut window = grown(0);
        states.count_transitions(&chain, None, |_, to| {
            assert_eq!(states.delay_of(to), 0);
            let change = states.window_value(states.window_of(to)) * 1000.0;
            window = relative_step(window, change as i64);
        });
        let (reached, teacher) = (f64::from(window) / 65_536.0, f64::from(grown(499)) / 65_536.0);
        assert!((reached / teacher - 1.0).abs() < 0.02, "{reached} {teacher}");
    }

    #[test]
    fn a_leap_of_the_window_is_made_up_for() {
        let sample = |w: u32| Sample { delay_us: 50_000, window: w << 16, sent: 1 };
        let chain: Chain = [10, 30, 30, 30, 30, 30].map(sample).into();
        let changes: Vec<f64> = counted(&levels(), &chain)
            .iter()
            .map(|(_, to)| levels().window_value(levels().window_of(*to)))
            .collect();
        // At most 30, which is 30 % of 10; log10 of 30 is 1.48.
        assert_eq!(changes, [30.0, 30.0, 30.0, 30.0, 27.0]);
    }

    #[test]
    fn a_window_of_one_packet_ends_the_chain() {
        let sample = |w: u32| Sample { delay_us: 50_000, window: w << 16, sent: 1 };
        let changes = |windows: &[u32]| -> Vec<f64> {
            let chain: Chain = windows.iter().copied().map(sample).collect();
            let value = |to| levels().window_value(levels().window_of(to));
            counted(&levels(), &chain).iter().map(|(_, to)| value(*to)).collect()
        };
        assert_eq!(changes(&[10, 10, 11, 1, 1, 20, 21]), [0.0, 9.0]);
        assert_eq!(changes(&[1, 1, 10, 10, 11]), [0.0, 9.0], "it begins above one packet");
        assert!(changes(&[1; 9]).is_empty());
        // The steps that follow the teacher may be the ones that get there.
        assert!(changes(&[3, 2, 2, 2, 2, 2]).len() <= 5);
    }

    #[test]
    fn a_chain_begins_anew_some_epochs_after_a_window_of_one_packet() {
        let sample = |w: u32| Sample { delay_us: 50_000, window: w << 16, sent: 1 };
        let changes = |windows: &[u32], rejoin| -> Vec<f64> {
            let chain: Chain = windows.iter().copied().map(sample).collect();
            let mut all = Vec::new();
            levels().count_transitions(&chain, rejoin, |from, to| {
                all.push((from, levels().window_value(levels().window_of(to))));
            });
            // No transition leads over the gap: each chain begins with no change.
            assert!(all.first().is_none_or(|(from, _)| levels().window_of(*from) == 10));
            all.into_iter().map(|(_, change)| change).collect()
        };
        let windows = [10, 10, 11, 1, 20, 20, 40, 40, 44];
        assert_eq!(changes(&windows, None), [0.0, 9.0]);
        // 100 % of 20 packets is a change of 130, which the axis cuts to 30.
        assert_eq!(changes(&windows, Some(0)), [0.0, 9.0, 0.0, 30.0, 30.0, 30.0]);
        assert_eq!(changes(&windows, Some(3)), [0.0, 9.0, 15.0]);
        assert_eq!(changes(&windows, Some(usize::MAX)), [0.0, 9.0]);
        // It waits for the teacher, too, however early it may begin.
        assert_eq!(changes(&[10, 10, 1, 1, 1, 10, 11], Some(0)), [0.0, 9.0]);
        assert_eq!(changes(&[10, 10, 1, 20, 20, 1, 30, 30], Some(0)), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_chain_that_began_anew_leaves_out_long_queues() {
        let sample = |(d, w): &(u32, u32)| Sample { delay_us: d * 1000, window: w << 16, sent: 1 };
        let epochs =
            [(50, 10), (500, 10), (500, 11), (500, 1), (50, 9), (50, 9), (500, 9), (50, 9)];
        let chain: Chain = epochs.iter().map(sample).collect();
        let levels_reached = |rejoin| {
            let mut all = Vec::new();
            let count = |_, to| all.push(levels().delay_of(to));
            levels().count_transitions(&chain, rejoin, count);
            all
        };
        assert_eq!(levels_reached(None), [100, 100], "the beginning is learnt whole");
        assert_eq!(levels_reached(Some(0)), [100, 100, 0]);
    }

    #[test]
    fn levels_come_from_the_samples() {
        let chain: Chain =
            (0..5000).map(|i| sample(if i % 10 == 0 { 80 } else { 40 }, 1)).collect();
        let States::Levels(states) = States::levels_for(&[&chain], None, None).unwrap() else {
            unreachable!()
        };
        // log10(2) = 0.301, in steps of 0.01, and one more.
        assert_eq!((states.d.min(), states.d.max(), states.d.step()), (0, 310, 10));
        assert!(States::levels_for(&[], None, None).is_err());
    }

    #[test]
    fn contradictory_ranges_are_refused() {
        for (min, max, step) in [(0, 1, 0), (5, -5, 1), (-3, 4, 2), (i64::MIN, 0, 1)] {
            assert!(Axis::new("delay", min, max, step).is_err(), "{min} {max} {step}");
        }
        let said = Axis::new("window", -3000, 4000, 2000).unwrap_err().to_string();
        let expected = "the window axis -3..4 by 2: both ends must be multiples of the step";
        assert_eq!(said, expected);
        let huge = Absolute { d_min: 0, d_max: 1 << 20, quantization: 1, w_min: 0, w_max: 60_000 };
        assert!(matches!(States::Absolute(huge).check(), Err(StatesError::TooMany { .. })));
    }

    proptest! {
        #[test]
        fn states_stay_in_their_range(
            samples in prop::collection::vec((any::<u32>(), any::<u32>(), 0_u32..100), 0..60),
            quantization in 1_u32..30,
        ) {
            let chain: Chain = samples
                .iter()
                .map(|(delay_us, window, sent)| Sample {
                    delay_us: *delay_us,
                    window: *window,
                    sent: *sent,
                })
                .collect();
            for states in [paper(quantization), published(), levels()] {
                states.count_transitions(&chain, None, |from, to| assert!(from.max(to) < states.len()));
            }
        }
    }
}
