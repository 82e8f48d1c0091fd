//! Within what the paths of an attack lie, and how their values are drawn.

use std::fmt::Display;

use cellpace_base::math::{exp, ln};
use cellpace_base::{Random, Rate, Span, parse_bytes, parse_fraction, parse_span};

use crate::LabError;

/// A whole number from `low` to `high`, in the unit of the quantity. Values have two significant digits but where a bound
/// has more, so that a find can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelRange {
    low: u64,
    high: u64,
}

/// How far a value moves in one change, as a factor: about 2 either way.
const STEP: f64 = 0.7;

impl LevelRange {
    /// The range between two values, which may be the same.
    ///
    /// # Errors
    /// When the first is larger.
    pub fn new(low: u64, high: u64) -> Result<Self, LabError> {
        match low <= high {
            true => Ok(Self { low, high }),
            false => Err(LabError::invalid("write the smaller value first: LOW..HIGH")),
        }
    }

    /// Reads `LOW..HIGH`, or one value.
    fn read<E: Display>(
        text: &str,
        read: impl Fn(&str) -> Result<u64, E>,
    ) -> Result<Self, LabError> {
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let read = |text: &str| read(text.trim()).map_err(LabError::invalid);
        Self::new(read(low)?, read(high)?)
    }

    /// Reads `1mbit..50mbit`, in kbit/s.
    ///
    /// # Errors
    /// When a rate does not read, or is below 10 kbit/s or above 10 Gbit/s.
    pub fn rates(text: &str) -> Result<Self, LabError> {
        let range = Self::read(text, |text| text.parse::<Rate>().map(|rate| rate.as_bps() / 1000))?;
        range.within(10, 10_000_000, "rates are from 10kbit to 10gbit")
    }

    /// Reads `10ms..200ms`, in ms.
    ///
    /// # Errors
    /// When a time does not read, or is below 1 ms or above 10 s.
    pub fn rtts(text: &str) -> Result<Self, LabError> {
        let range =
            Self::read(text, |text| parse_span(text).map(|span| span.as_millis_f64() as u64))?;
        range.within(1, 10_000, "RTTs are from 1ms to 10s")
    }

    /// Reads `0%..1%`, in hundredths of a percent.
    ///
    /// # Errors
    /// When a share does not read, or is above 50 %.
    pub fn losses(text: &str) -> Result<Self, LabError> {
        let hundredths =
            |text: &str| parse_fraction(text).map(|share| (share * 1e4).round() as u64);
        Self::read(text, hundredths)?.within(0, 5000, "losses are up to 50%")
    }

    /// Reads `10kB..1MB`, in kB.
    ///
    /// # Errors
    /// When a size does not read, or is below 2 kB or above 1 GB.
    pub fn buffers(text: &str) -> Result<Self, LabError> {
        let range = Self::read(text, |text| parse_bytes(text).map(|bytes| bytes / 1000))?;
        range.within(2, 1_000_000, "buffers are from 2kB to 1GB")
    }

    fn within(self, low: u64, high: u64, why: &str) -> Result<Self, LabError> {
        match self.low >= low && self.high <= high {
            true => Ok(self),
            false => Err(LabError::invalid(why)),
        }
    }

    /// The nearest value of the range.
    pub(super) fn nearest(self, value: u64) -> u64 {
        value.clamp(self.low, self.high)
    }

    /// A value, each order of magnitude as likely as any other; where zero is allowed, half of them.
    pub(super) fn draw(self, random: &mut Random) -> u64 {
        if self.low == 0 && random.unit() < 0.5 {
            return 0;
        }
        // By the logarithm: evenly drawn, nine of ten rates up to 50 Mbit/s would be above 5.
        let (low, high) = (ln(self.low.max(1) as f64), ln(self.high.max(1) as f64));
        self.nearest(rounded(exp(low + (high - low) * random.unit()) as u64, 2))
    }

    /// A value near another.
    pub(super) fn near(self, value: u64, random: &mut Random) -> u64 {
        let moved = value as f64 * exp(STEP * random.normal());
        match value {
            // A factor never leaves zero.
            0 => self.draw(random),
            _ => self.nearest(rounded(moved.clamp(0.0, 1e12) as u64, 2)),
        }
    }
}

/// The number with so many significant digits, the others zero.
pub(super) fn rounded(value: u64, digits: u32) -> u64 {
    // Zero has no logarithm.
    let unit = 10_u64.pow((value.max(1).ilog10() + 1).saturating_sub(digits));
    (value + unit / 2) / unit * unit
}

/// Within what all paths of an attack lie.
#[derive(Debug, Clone, PartialEq)]
pub struct AttackBounds {
    /// The rate of the link, in kbit/s.
    pub rate: LevelRange,
    /// The base RTT, in ms.
    pub rtt: LevelRange,
    /// Random loss, in hundredths of a percent.
    pub loss: LevelRange,
    /// The drop-tail buffer, in kB.
    pub buffer: LevelRange,
    /// Steps of the path at most; with 1 nothing changes.
    pub steps: usize,
    /// Length of a run.
    pub duration: Span,
    /// Left out of the figures at the start.
    pub skip: Span,
}

/// What a step of the path is a multiple of, in ms.
pub(super) const GRAIN_MS: u64 = 100;

/// Steps of a path at most.
const MAX_STEPS: usize = 100;

impl AttackBounds {
    /// Refuses bounds within which there is no path.
    ///
    /// # Errors
    /// When the run is shorter than its steps or than what is left out of it.
    pub fn check(&self) -> Result<(), LabError> {
        if !(1..=MAX_STEPS).contains(&self.steps) {
            return Err(LabError::Invalid(format!("steps: a path has 1 to {MAX_STEPS}")));
        }
        if self.skip >= self.duration {
            return Err(LabError::invalid("skip: leaves nothing of the duration"));
        }
        if self.length_ms() < self.steps as u64 * GRAIN_MS {
            let why = format!("duration: each step takes at least {GRAIN_MS} ms");
            return Err(LabError::Invalid(why));
        }
        Ok(())
    }

    /// The length of a run in ms, in whole grains.
    pub(super) fn length_ms(&self) -> u64 {
        self.duration.as_millis_f64() as u64 / GRAIN_MS * GRAIN_MS
    }

    /// What shrinking leaves of it at least: enough behind the skipped part that a figure is more than a moment.
    pub(super) fn least_ms(&self) -> u64 {
        let skip = self.skip.as_millis_f64() as u64;
        let least = skip + self.length_ms().saturating_sub(skip) / 4;
        least.next_multiple_of(GRAIN_MS).min(self.length_ms())
    }
}

impl Default for AttackBounds {
    /// 1 to 50 Mbit/s, 10 to 200 ms, up to 1 % loss, 10 kB to 1 MB, six steps in 30 s, of which 5 s do not count.
    fn default() -> Self {
        Self {
            rate: LevelRange { low: 1000, high: 50_000 },
            rtt: LevelRange { low: 10, high: 200 },
            loss: LevelRange { low: 0, high: 100 },
            buffer: LevelRange { low: 10, high: 1000 },
            steps: 6,
            duration: Span::from_secs(30),
            skip: Span::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_two_digits_and_stay_in_their_range() {
        assert_eq!([rounded(12_345, 2), rounded(9_960, 2), rounded(7, 2)], [12_000, 10_000, 7]);
        assert_eq!([rounded(12_345, 1), rounded(0, 1)], [10_000, 0]);
        let (range, mut random) = (LevelRange::new(1001, 50_000).unwrap(), Random::seeded(1, 1));
        for _ in 0..1000 {
            let value = range.draw(&mut random);
            let near = range.near(value, &mut random);
            assert!((1001..=50_000).contains(&value) && (1001..=50_000).contains(&near));
        }
    }

    #[test]
    fn ranges_are_read_with_their_units() {
        let read = |range: Result<LevelRange, LabError>| range.map(|range| (range.low, range.high));
        assert_eq!(read(LevelRange::rates("1mbit..50mbit")), Ok((1000, 50_000)));
        assert_eq!(read(LevelRange::rtts("40ms")), Ok((40, 40)));
        assert_eq!(read(LevelRange::losses("0%..1.5%")), Ok((0, 150)));
        assert_eq!(read(LevelRange::buffers("10kB .. 1MB")), Ok((10, 1000)));
        for wrong in [
            LevelRange::rates("50mbit..1mbit"),
            LevelRange::rates("0mbit..1mbit"),
            LevelRange::rtts("10..20"),
            LevelRange::losses("0%..60%"),
            LevelRange::buffers("1kB..2kB"),
        ] {
            assert!(wrong.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn bounds_without_a_path_are_refused() {
        let bounds = AttackBounds::default();
        assert_eq!(bounds.check(), Ok(()));
        assert_eq!((bounds.length_ms(), bounds.least_ms()), (30_000, 11_300));
        for wrong in [
            AttackBounds { steps: 0, ..bounds.clone() },
            AttackBounds { skip: Span::from_secs(30), ..bounds.clone() },
            AttackBounds { duration: Span::from_millis(500), skip: Span::ZERO, ..bounds },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
