//! A value that keeps still for a while and then jumps: the one implementation behind changing
//! rates, delays and loss rates.

use std::fmt;
use std::sync::Arc;

use cellpace_base::math::ln;
use cellpace_base::{
    QuantityError, Random, Rate, Span, Time, parse_fraction, parse_span, split_name,
};

use crate::error::PathError;

/// The shortest step. Shorter ones would cost time without being visible: a trace resolves one
/// millisecond, and so do the papers.
pub const MIN_STEP: Span = Span::from_millis(1);
/// Samples of a cycle at most: a day, ten in a second.
const MAX_SAMPLES: u64 = 864_000;
/// Quantiles of a drawn value at most.
pub const MAX_QUANTILES: usize = 101;

/// Something that can change in steps.
pub trait Level: Copy + PartialEq + PartialOrd + fmt::Debug + Send + Sync {
    /// Reads one written value.
    ///
    /// # Errors
    /// When it does not read.
    fn read(text: &str) -> Result<Self, QuantityError>;

    /// The value `share` (0 to 1) of the way from `low` to `high`.
    fn between(low: Self, high: Self, share: f64) -> Self;

    /// The value as a plain number, in the unit of the type: bit/s, nanoseconds, a fraction.
    fn number(self) -> f64;

    /// Writes it so that [`read`](Self::read) gives it back.
    fn written(self) -> String;
}

impl Level for Rate {
    fn read(text: &str) -> Result<Self, QuantityError> {
        text.parse()
    }

    fn between(low: Self, high: Self, share: f64) -> Self {
        Self::from_bps(whole_between(low.as_bps(), high.as_bps(), share))
    }

    fn number(self) -> f64 {
        self.as_bps() as f64
    }

    fn written(self) -> String {
        self.to_string()
    }
}

impl Level for Span {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_span(text)
    }

    fn between(low: Self, high: Self, share: f64) -> Self {
        Self::from_nanos(whole_between(low.as_nanos(), high.as_nanos(), share))
    }

    fn number(self) -> f64 {
        self.as_nanos() as f64
    }

    fn written(self) -> String {
        self.to_string()
    }
}

/// A fraction from 0 to 1, written in percent.
impl Level for f64 {
    fn read(text: &str) -> Result<Self, QuantityError> {
        parse_fraction(text)
    }

    fn between(low: Self, high: Self, share: f64) -> Self {
        low + (high - low) * share
    }

    fn number(self) -> f64 {
        self
    }

    fn written(self) -> String {
        // Rounding hides what the binary fraction adds (7.000000000000001%), unless it matters.
        let percent = format!("{}%", (self * 1e11).round() / 1e9);
        if parse_fraction(&percent) == Ok(self) {
            return percent;
        }
        let text = format!("{self:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{digits}e{}%", exponent.parse::<i32>().unwrap_or(0) + 2)
    }
}

fn whole_between(low: u64, high: u64, share: f64) -> u64 {
    low + (high.saturating_sub(low) as f64 * share).round() as u64
}

/// How a value changes: not at all, through a list again and again, or redrawn at random.
///
/// Written `V`, `step:V/TIME,V/TIME`, `random:LOW..HIGH/TIME` or, with quantiles at equal distances,
/// `random:LOW..V..HIGH/TIME`. Steps of equal length begin at
/// the same multiples of it whatever changes, so that a rate, a delay and a loss rate given with
/// the same TIME change together, as in the Verus paper's section 7.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps<T>(StepsForm<T>);

#[derive(Debug, Clone, PartialEq)]
enum StepsForm<T> {
    Constant(T),
    Cycle(Arc<StepCycle<T>>),
    /// Redrawn so often; the values are quantiles at equal distances, linear in between.
    Random {
        levels: Arc<[T]>,
        every: Span,
    },
    Switched {
        on: T,
        off: T,
        mean_on: Span,
        mean_off: Span,
    },
}

#[derive(Debug, PartialEq)]
struct StepCycle<T> {
    values: Vec<T>,
    /// Where each step ends, from the start of the cycle; as many as values.
    ends: Vec<Span>,
}

impl<T> StepCycle<T> {
    fn length(&self) -> Span {
        self.ends.last().copied().unwrap_or(Span::MAX)
    }
}

impl<T: Level> Steps<T> {
    /// Always `value`.
    pub const fn constant(value: T) -> Self {
        Self(StepsForm::Constant(value))
    }

    /// Each value for its span, over and over. `None` if there is no step, one is shorter than
    /// [`MIN_STEP`], or the whole is longer than time itself.
    pub fn cycle(steps: impl IntoIterator<Item = (T, Span)>) -> Option<Self> {
        let (mut values, mut ends, mut end) = (Vec::new(), Vec::new(), Span::ZERO);
        for (value, length) in steps {
            if length < MIN_STEP {
                return None;
            }
            end += length;
            values.push(value);
            ends.push(end);
        }
        let fits = !values.is_empty() && end < Span::MAX;
        fits.then(|| Self(StepsForm::Cycle(Arc::new(StepCycle { values, ends }))))
    }

    /// Redrawn uniformly between `low` and `high`, `every` so often. `None` if `every` is
    /// shorter than [`MIN_STEP`] or `low` is above `high`.
    pub fn random(low: T, high: T, every: Span) -> Option<Self> {
        Self::drawn(vec![low, high], every)
    }

    /// Redrawn `every` so often from the distribution with these quantiles, which are at equal distances from 0 to
    /// 100 %, linear in between. `None` if `every` is shorter than [`MIN_STEP`], or they are fewer than two, more than
    /// [`MAX_QUANTILES`], or not in order.
    pub fn drawn(quantiles: Vec<T>, every: Span) -> Option<Self> {
        let is_right = (2..=MAX_QUANTILES).contains(&quantiles.len())
            && quantiles.is_sorted()
            && every >= MIN_STEP;
        is_right.then(|| Self(StepsForm::Random { levels: quantiles.into(), every }))
    }

    /// `on` and `off` in turn, beginning with `on`, each for an exponentially distributed time
    /// of the given mean (rounded up to [`MIN_STEP`]). `None` if a mean is shorter than that.
    pub fn switched(on: T, off: T, mean_on: Span, mean_off: Span) -> Option<Self> {
        (mean_on.min(mean_off) >= MIN_STEP).then_some(Self(StepsForm::Switched {
            on,
            off,
            mean_on,
            mean_off,
        }))
    }

    /// Reads `V`, `step:...` or `random:...`; `what` names the quantity in errors.
    ///
    /// # Errors
    /// When a value, a time or the form does not read.
    pub fn parse(text: &str, what: &'static str) -> Result<Self, PathError> {
        let split = split_name(text);
        match split.name {
            "step" => Self::parse_cycle(split.rest, what),
            "random" => Self::parse_random(split.rest, what),
            _ => Ok(Self::constant(read(text.trim(), what)?)),
        }
    }

    /// Reads what stands behind `step:`.
    pub(crate) fn parse_cycle(rest: &str, what: &'static str) -> Result<Self, PathError> {
        let form = || PathError::Form {
            text: format!("step:{rest}"),
            form: "step:VALUE/TIME,VALUE/TIME with times from 1ms, e.g. step:A/5s,B/5s",
        };
        let steps = rest
            .split(',')
            .map(|part| {
                let (value, length) = split_at_time(part).ok_or_else(form)?;
                Ok((read(value, what)?, read_span(length, "step")?))
            })
            .collect::<Result<Vec<_>, PathError>>()?;
        Self::cycle(steps).ok_or_else(form)
    }

    /// Reads what stands behind `random:`.
    pub(crate) fn parse_random(rest: &str, what: &'static str) -> Result<Self, PathError> {
        let form = || PathError::Form {
            text: format!("random:{rest}"),
            form: "random:LOW..HIGH/TIME with LOW up to HIGH and a time from 1ms, \
                   e.g. random:A..B/5s",
        };
        let (range, every) = split_at_time(rest).ok_or_else(form)?;
        let quantiles = range.split("..").take(MAX_QUANTILES + 1);
        let quantiles = quantiles.map(|value| read(value.trim(), what));
        let quantiles = quantiles.collect::<Result<Vec<_>, _>>()?;
        Self::drawn(quantiles, read_span(every, "random")?).ok_or_else(form)
    }

    /// The value, if it never changes.
    pub fn as_constant(&self) -> Option<T> {
        match self.0 {
            StepsForm::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The mean over the first `length`, in the unit of [`Level::number`]; that over all time where values are
    /// drawn, or nothing is asked for.
    pub fn mean_until(&self, length: Span) -> f64 {
        let StepsForm::Cycle(cycle) = &self.0 else { return self.mean() };
        let Some(period) = cycle.ends.last().filter(|_| length > Span::ZERO) else {
            return self.mean();
        };
        let (whole, rest) =
            (length.as_nanos() / period.as_nanos(), length.as_nanos() % period.as_nanos());
        let mut start = 0;
        let of = |(value, end): (&T, &Span)| {
            let (from, to) = (start, end.as_nanos());
            start = to;
            let time = whole * (to - from) + rest.min(to).saturating_sub(from);
            value.number() * time as f64
        };
        cycle.values.iter().zip(&cycle.ends).map(of).sum::<f64>() / length.as_nanos() as f64
    }

    /// The mean over time, in the unit of [`Level::number`].
    pub fn mean(&self) -> f64 {
        let weighted = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
            let (sum, weight) = pairs.fold((0.0, 0.0), |(s, w), (x, l)| (s + x * l, w + l));
            sum / weight
        };
        match &self.0 {
            StepsForm::Constant(value) => value.number(),
            StepsForm::Cycle(cycle) => {
                let starts = std::iter::once(Span::ZERO).chain(cycle.ends.iter().copied());
                let lengths = cycle.ends.iter().zip(starts).map(|(end, start)| *end - start);
                weighted(
                    &mut cycle.values.iter().zip(lengths).map(|(v, l)| (v.number(), l.number())),
                )
            }
            StepsForm::Random { levels, .. } => {
                let pieces = levels.windows(2);
                let middles = pieces.map(|pair| f64::midpoint(pair[0].number(), pair[1].number()));
                middles.sum::<f64>() / (levels.len() - 1) as f64
            }
            StepsForm::Switched { on, off, mean_on, mean_off } => weighted(
                &mut [(on.number(), mean_on.number()), (off.number(), mean_off.number())]
                    .into_iter(),
            ),
        }
    }

    /// The same steps with every value changed by `change`, which must not turn the order of
    /// values around.
    pub fn map(&self, change: impl Fn(T) -> T) -> Self {
        Self(match &self.0 {
            StepsForm::Constant(value) => StepsForm::Constant(change(*value)),
            StepsForm::Cycle(cycle) => StepsForm::Cycle(Arc::new(StepCycle {
                values: cycle.values.iter().map(|value| change(*value)).collect(),
                ends: cycle.ends.clone(),
            })),
            StepsForm::Random { levels, every } => {
                let levels = levels.iter().map(|value| change(*value)).collect();
                StepsForm::Random { levels, every: *every }
            }
            StepsForm::Switched { on, off, mean_on, mean_off } => StepsForm::Switched {
                on: change(*on),
                off: change(*off),
                mean_on: *mean_on,
                mean_off: *mean_off,
            },
        })
    }

    /// The same steps, of which those before `start` come only with their next lap; what is drawn stays as it is.
    #[must_use]
    pub fn starting_at(&self, start: Span) -> Self {
        let StepsForm::Cycle(cycle) = &self.0 else { return self.clone() };
        let within = Span::from_nanos(start.as_nanos() % cycle.length().as_nanos());
        let first = cycle.ends.partition_point(|end| *end <= within);
        let length = |index: usize| {
            cycle.ends[index] - index.checked_sub(1).map_or(Span::ZERO, |it| cycle.ends[it])
        };
        let left = cycle.ends[first] - within;
        let cut = length(first) - left;
        // What is left of a step may be shorter than a step.
        let (left, cut) = if left < MIN_STEP || cut < MIN_STEP {
            (length(first), Span::ZERO)
        } else {
            (left, cut)
        };
        let rest = (first + 1..cycle.values.len()).chain(0..first);
        let steps = std::iter::once((cycle.values[first], left))
            .chain(rest.map(|index| (cycle.values[index], length(index))))
            .chain((!cut.is_zero()).then(|| (cycle.values[first], cut)));
        Self::cycle(steps).expect("no step is shorter than one of the cycle's, or than the least")
    }

    /// Values so far apart from the first to the end of the cycle; of what has no end none.
    pub(crate) fn sampled(&self, every: Span) -> Vec<T> {
        let StepsForm::Cycle(cycle) = &self.0 else { return Vec::new() };
        let count = (cycle.length().as_nanos() / every.as_nanos()).min(MAX_SAMPLES);
        let mut walk = self.walk(&mut Random::seeded(0, 0));
        (0..count).map(|index| walk.at(Time::ZERO + every * index)).collect()
    }

    /// Begins at time zero. All draws follow from `random`; the same source gives the same
    /// values at the same times, however the walk is moved.
    pub fn walk(&self, random: &mut Random) -> StepsWalk<T> {
        StepsWalk::new(self.clone(), random.bits())
    }
}

impl<T: Level> fmt::Display for Steps<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            StepsForm::Constant(value) => f.write_str(&value.written()),
            StepsForm::Cycle(cycle) => {
                let mut start = Span::ZERO;
                for (index, (value, end)) in cycle.values.iter().zip(&cycle.ends).enumerate() {
                    f.write_str(if index == 0 { "step:" } else { "," })?;
                    write!(f, "{}/{}", value.written(), *end - start)?;
                    start = *end;
                }
                Ok(())
            }
            StepsForm::Random { levels, every } => {
                let written: Vec<String> = levels.iter().map(|value| value.written()).collect();
                write!(f, "random:{}/{every}", written.join(".."))
            }
            StepsForm::Switched { on, mean_on, mean_off, .. } => {
                write!(f, "onoff:{},on={mean_on},off={mean_off},lengths=exp", on.written())
            }
        }
    }
}

/// Splits `VALUE/TIME` at the last slash: a rate may be written `12mbit/s`.
fn split_at_time(text: &str) -> Option<(&str, &str)> {
    let (value, time) = text.rsplit_once('/')?;
    Some((value.trim(), time.trim()))
}

fn read<T: Level>(text: &str, what: &'static str) -> Result<T, PathError> {
    T::read(text).map_err(|source| match source {
        QuantityError::Negative { text, .. } => PathError::Negative { text, what },
        source => PathError::Value(source),
    })
}

fn read_span(text: &str, what: &'static str) -> Result<Span, PathError> {
    let named = |source| PathError::Quantity { what: what.into(), source };
    match read(text, what) {
        Err(PathError::Value(source)) => Err(named(source)),
        read => read,
    }
}

/// One step: the value from `start` up to, but not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedStep<T> {
    /// What holds.
    pub value: T,
    /// From when.
    pub start: Time,
    /// Until when; [`Time::MAX`]: for good.
    pub end: Time,
}

/// A walk through the steps in the order of time.
#[derive(Debug, Clone)]
pub struct StepsWalk<T> {
    steps: Steps<T>,
    /// The draw of step `n` is made from this and `n` alone, so that walks may jump.
    seed: u64,
    number: u64,
    step: TimedStep<T>,
}

impl<T: Level> StepsWalk<T> {
    fn new(steps: Steps<T>, seed: u64) -> Self {
        let value = match &steps.0 {
            StepsForm::Constant(value) | StepsForm::Switched { on: value, .. } => *value,
            StepsForm::Random { levels, .. } => levels[0],
            StepsForm::Cycle(cycle) => cycle.values[0],
        };
        let step = TimedStep { value, start: Time::ZERO, end: Time::MAX };
        let mut walk = Self { steps, seed, number: 0, step };
        walk.enter(0, Time::ZERO);
        walk
    }

    /// The step the walk stands in.
    pub const fn step(&self) -> TimedStep<T> {
        self.step
    }

    /// The value at `now`; earlier times than that of an earlier call are answered with the
    /// value of the step the walk already stands in.
    pub fn at(&mut self, now: Time) -> T {
        self.seek(now);
        self.step.value
    }

    /// Goes on to the next step. A step that lasts for good is not left.
    pub fn advance(&mut self) {
        if self.step.end < Time::MAX {
            self.enter(self.number + 1, self.step.end);
        }
    }

    /// Goes on to the step that `now` is in.
    pub fn seek(&mut self, now: Time) {
        if now < self.step.end || self.step.end == Time::MAX {
            return;
        }
        let since_zero = now - Time::ZERO;
        match &self.steps.0 {
            StepsForm::Constant(_) => {}
            StepsForm::Cycle(cycle) => {
                let length = cycle.length();
                // Computed, not walked: a path may be idle for hours of steps of a millisecond.
                let laps = since_zero.as_nanos() / length.as_nanos();
                let within = since_zero - length * laps;
                let index = cycle.ends.partition_point(|end| *end <= within);
                let start = index.checked_sub(1).map_or(Span::ZERO, |before| cycle.ends[before]);
                let number = laps * cycle.ends.len() as u64 + index as u64;
                self.enter(number, Time::ZERO + length * laps + start);
            }
            StepsForm::Random { every, .. } => {
                let number = since_zero.as_nanos() / every.as_nanos();
                self.enter(number, Time::ZERO + *every * number);
            }
            // Lengths are drawn, so that the steps in between have to be gone through.
            StepsForm::Switched { .. } => {
                while now >= self.step.end && self.step.end < Time::MAX {
                    self.advance();
                }
            }
        }
    }

    /// Jumps over as many whole cycles as lie between the step the walk stands in and `now`,
    /// and returns how many. Nothing but a cycle can be jumped over.
    pub(crate) fn skip_laps(&mut self, now: Time) -> u64 {
        let StepsForm::Cycle(cycle) = &self.steps.0 else { return 0 };
        let laps = (now - self.step.start).as_nanos() / cycle.length().as_nanos();
        if laps > 0 {
            let start = self.step.start + cycle.length() * laps;
            self.enter(self.number + laps * cycle.ends.len() as u64, start);
        }
        laps
    }

    /// The sum over one cycle of what `weigh` makes of each step; zero for other kinds.
    pub(crate) fn lap_sum(&self, weigh: impl Fn(T, Span) -> u128) -> u128 {
        let StepsForm::Cycle(cycle) = &self.steps.0 else { return 0 };
        let starts = std::iter::once(Span::ZERO).chain(cycle.ends.iter().copied());
        let steps = cycle.values.iter().zip(cycle.ends.iter().zip(starts));
        steps.map(|(value, (end, start))| weigh(*value, *end - start)).sum()
    }

    fn enter(&mut self, number: u64, start: Time) {
        let (value, length) = match &self.steps.0 {
            StepsForm::Constant(value) => (*value, Span::MAX),
            StepsForm::Cycle(cycle) => {
                let index = (number % cycle.ends.len() as u64) as usize;
                let begins = index.checked_sub(1).map_or(Span::ZERO, |before| cycle.ends[before]);
                (cycle.values[index], cycle.ends[index] - begins)
            }
            StepsForm::Random { levels, every } => {
                (quantile(levels, draw(self.seed, number)), *every)
            }
            StepsForm::Switched { on, off, mean_on, mean_off } => {
                let (value, mean) =
                    if number.is_multiple_of(2) { (*on, *mean_on) } else { (*off, *mean_off) };
                // The inverse of the exponential distribution function.
                let length = mean.mul_f64(-ln(1.0 - draw(self.seed, number)));
                // Draws may come near zero, and a step without length would never end a walk.
                (value, length.max(MIN_STEP))
            }
        };
        self.number = number;
        self.step = TimedStep { value, start, end: start + length };
    }
}

/// The quantile at `level` of a distribution with these at equal distances, two at least.
fn quantile<T: Level>(levels: &[T], level: f64) -> T {
    let place = level * (levels.len() - 1) as f64;
    let below = (place as usize).min(levels.len() - 2);
    T::between(levels[below], levels[below + 1], place - below as f64)
}

fn draw(seed: u64, number: u64) -> f64 {
    Random::seeded(seed, number).unit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates(text: &str) -> Steps<Rate> {
        Steps::parse(text, "rate").unwrap()
    }

    fn walk<T: Level>(steps: &Steps<T>, seed: u64) -> StepsWalk<T> {
        steps.walk(&mut Random::seeded(seed, 0))
    }

    #[test]
    fn steps_change_at_the_right_times_and_cycle() {
        let mut walk = walk(&rates("step:10mbit/5s,100mbit/2s"), 1);
        let at = |walk: &mut StepsWalk<Rate>, ms| walk.at(Time::from_millis(ms)).as_mbps();
        assert_eq!(at(&mut walk, 0), 10.0);
        assert_eq!(at(&mut walk, 4_999), 10.0);
        assert_eq!(at(&mut walk, 5_000), 100.0);
        assert_eq!(at(&mut walk, 6_999), 100.0);
        assert_eq!(at(&mut walk, 7_000), 10.0);
        assert_eq!(at(&mut walk, 700_000_000 + 5_000), 100.0);
    }

    #[test]
    fn rate_delay_and_loss_of_the_same_period_change_in_step() {
        let rate = rates("random:10mbit..100mbit/5s");
        let delay = Steps::<Span>::parse("random:10ms..100ms/5s", "delay").unwrap();
        let loss = Steps::<f64>::parse("random:0%..1%/5s", "loss").unwrap();
        let (mut rate, mut delay, mut loss) = (walk(&rate, 1), walk(&delay, 2), walk(&loss, 3));
        for n in 1..100 {
            rate.advance();
            delay.advance();
            loss.advance();
            let start = Time::from_secs(5 * n);
            assert_eq!([rate.step().start, delay.step().start, loss.step().start], [start; 3]);
        }
    }

    #[test]
    fn quantiles_of_drawn_steps_are_kept() {
        let steps = rates("random:2mbit..4mbit..20mbit/5s");
        assert_eq!(steps.to_string(), "random:2mbit..4mbit..20mbit/5s");
        let mut walk = walk(&steps, 1);
        let draws: Vec<f64> =
            (0..20_000).map(|n| walk.at(Time::from_secs(5 * n)).as_mbps()).collect();
        let below = draws.iter().filter(|mbps| **mbps < 4.0).count();
        assert!((9_700..10_300).contains(&below), "{below}");
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - steps.mean() / 1e6).abs() < 0.1, "{mean}");
        assert_eq!(steps.mean(), 7.5e6);
        assert!(Steps::<Rate>::parse("random:2mbit..1mbit..3mbit/5s", "rate").is_err());
        let many = vec!["1mbit"; MAX_QUANTILES + 1].join("..");
        assert!(Steps::<Rate>::parse(&format!("random:{many}/5s"), "rate").is_err());
    }

    #[test]
    fn steps_begin_later_when_they_are_turned() {
        let steps = rates("step:10mbit/5s,100mbit/2s").starting_at(Span::from_secs(13));
        assert_eq!(steps.to_string(), "step:100mbit/1s,10mbit/5s,100mbit/1s");
        assert_eq!(rates("5mbit").starting_at(Span::from_secs(3)), rates("5mbit"));
        let whole = rates("step:10mbit/5s,100mbit/2s");
        assert_eq!(whole.starting_at(Span::from_secs(7)), whole);
    }

    #[test]
    fn random_steps_are_uniform_and_follow_the_seed() {
        let steps = rates("random:2mbit..20mbit/5s");
        let draws = |seed| {
            let mut walk = walk(&steps, seed);
            let next = |n: u64| walk.at(Time::from_secs(5 * n)).as_mbps();
            (0..20_000).map(next).collect::<Vec<_>>()
        };
        let one = draws(1);
        assert_eq!(one, draws(1));
        assert_ne!(one, draws(2));
        assert!(one.iter().all(|mbps| (2.0..=20.0).contains(mbps)));
        let mean = one.iter().sum::<f64>() / one.len() as f64;
        assert!((mean - 11.0).abs() < 0.15, "{mean}");
        let variance = one.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / one.len() as f64;
        assert!((variance - 27.0).abs() < 1.0, "of a uniform, 18^2 / 12: {variance}");
        let lagged = one.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>();
        assert!((lagged / variance / one.len() as f64).abs() < 0.03, "neighbours are correlated");
    }

    #[test]
    fn exponential_switching_keeps_its_means() {
        let steps = Steps::switched(1.0, 0.0, Span::from_secs(5), Span::from_secs(1)).unwrap();
        let mut walk = walk(&steps, 1);
        let (mut on, mut off) = (0.0, 0.0);
        for _ in 0..20_000 {
            let step = walk.step();
            *(if step.value > 0.5 { &mut on } else { &mut off }) +=
                (step.end - step.start).as_secs_f64();
            walk.advance();
        }
        assert!((on / 10_000.0 - 5.0).abs() < 0.2, "{on}");
        assert!((off / 10_000.0 - 1.0).abs() < 0.05, "{off}");
        assert!((steps.mean() - 5.0 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn means_are_weighted_by_time() {
        assert_eq!(rates("step:10mbit/3s,50mbit/1s").mean(), 20e6);
        assert_eq!(rates("random:2mbit..20mbit/5s").mean(), 11e6);
        assert_eq!(rates("7mbit").mean(), 7e6);
        let until = |text: &str, seconds| rates(text).mean_until(Span::from_secs(seconds));
        assert_eq!(until("step:10mbit/3s,50mbit/1s", 2), 10e6);
        assert_eq!(until("step:10mbit/3s,50mbit/1s", 4), 20e6);
        assert_eq!(until("step:10mbit/3s,50mbit/1s", 10), 18e6);
        assert_eq!(until("step:10mbit/3s,50mbit/1s", 0), 20e6);
        assert_eq!(until("7mbit", 1), 7e6);
    }

    #[test]
    fn the_end_of_time_is_the_end_of_a_step() {
        for text in ["step:1mbit/5s,2mbit/5s", "random:1mbit..2mbit/5s", "3mbit"] {
            let mut walk = walk(&rates(text), 1);
            walk.seek(Time::MAX);
            walk.advance();
            walk.advance();
            assert_eq!(walk.step().end, Time::MAX, "{text}");
        }
    }

    #[test]
    fn wrong_forms_are_refused_with_the_right_one() {
        for text in [
            "step:",
            "step:1mbit",
            "step:1mbit/5",
            "step:1mbit/0s",
            "step:1mbit/1us",
            "step:/5s",
            "step:1mbit/5s,",
            "random:",
            "random:1mbit/5s",
            "random:2mbit..1mbit/5s",
            "random:1mbit..2mbit",
            "random:1..2/5s",
            "random:1mbit..2mbit/0s",
            "12",
            "step:1mbit/s",
        ] {
            assert!(Steps::<Rate>::parse(text, "rate").is_err(), "{text}");
        }
        let message = Steps::<Rate>::parse("random:2mbit..20mbit", "rate").unwrap_err().to_string();
        assert!(message.contains("random:LOW..HIGH/TIME"), "{message}");
        let long = format!("step:1mbit/{}h", u64::MAX / 3_600_000_000_000);
        assert!(Steps::<Rate>::parse(&format!("{long},1mbit/2h"), "rate").is_err());
    }

    proptest! {
        #[test]
        fn jumping_and_walking_come_to_the_same(
            seed: u64, ms in 0_u64..200_000, random: bool,
        ) {
            let text =
                if random { "random:1mbit..9mbit/70ms" } else { "step:1mbit/70ms,2mbit/1500us" };
            let (mut jumping, mut walking) = (walk(&rates(text), seed), walk(&rates(text), seed));
            let now = Time::from_millis(ms);
            jumping.seek(now);
            while walking.step().end <= now {
                walking.advance();
            }
            prop_assert_eq!(jumping.step(), walking.step());
        }

        #[test]
        fn what_is_written_reads_back(
            low in 0_u64..1 << 40, more in 0_u64..1 << 40, ms in 1_u64..100_000, share in 0.0..1.0,
        ) {
            let every = Span::from_millis(ms);
            let (low, high) = (Span::from_nanos(low), Span::from_nanos(low + more));
            let random = Steps::random(low, high, every).unwrap();
            prop_assert_eq!(Steps::parse(&random.to_string(), "delay").unwrap(), random);
            let cycle = Steps::cycle([(share, every), (0.07, every * 2)]).unwrap();
            prop_assert_eq!(Steps::parse(&cycle.to_string(), "loss").unwrap(), cycle);
        }
    }
}
