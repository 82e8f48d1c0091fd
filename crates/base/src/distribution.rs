//! Spans of time drawn at random, in their written forms.

use std::fmt;
use std::str::FromStr;

use crate::math::{exp, ln};
use crate::{QuantityError, Random, Span, parse_number, parse_span};

/// A span that is the same each time, or drawn anew: `40ms`, `exp:40s` (by its mean),
/// `uniform:20s..60s`, `normal:50ms,15ms` (mean and standard deviation) with `,min=20ms` if wanted,
/// `lognormal:median=45ms,sigma=0.4`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SpanDistribution {
    /// Always the same.
    Constant(Span),
    /// Exponential, by its mean.
    Exponential(Span),
    /// Uniform between two spans.
    Uniform(Span, Span),
    /// Normal; draws below `min` are drawn again.
    Normal {
        /// The mean before draws are rejected.
        mean: Span,
        /// The standard deviation before draws are rejected.
        deviation: Span,
        /// No draw is smaller.
        min: Span,
    },
    /// Log-normal.
    LogNormal {
        /// The median.
        median: Span,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
}

impl SpanDistribution {
    /// Draws a span.
    pub fn draw(&self, random: &mut Random) -> Span {
        match *self {
            Self::Constant(span) => span,
            // Inverse of the exponential distribution function.
            Self::Exponential(mean) => mean.mul_f64(-ln(1.0 - random.unit())),
            Self::Uniform(from, to) => from + (to - from).mul_f64(random.unit()),
            Self::Normal { mean, deviation, min } => {
                let draw = |random: &mut Random| {
                    mean.as_secs_f64() + deviation.as_secs_f64() * random.normal()
                };
                // The bound is for a minimum far above the mean.
                let fits = (0..1000).map(|_| draw(random)).find(|s| *s >= min.as_secs_f64());
                fits.map_or(min, |seconds| Span::from_secs_f64(seconds.max(0.0)))
            }
            Self::LogNormal { median, sigma } => median.mul_f64(exp(sigma * random.normal())),
        }
    }

    /// The span, if it is always the same.
    pub const fn as_constant(&self) -> Option<Span> {
        match self {
            Self::Constant(span) => Some(*span),
            _ => None,
        }
    }
}

const EXAMPLE: &str = "a time like 40ms, exp:40s, uniform:20s..60s, normal:50ms,15ms,min=20ms or \
                       lognormal:median=45ms,sigma=0.4";

impl FromStr for SpanDistribution {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let wrong = || QuantityError::NotANumber { text: text.to_owned(), example: EXAMPLE };
        let Some((kind, rest)) = text.trim().split_once(':') else {
            return parse_span(text).map(Self::Constant);
        };
        let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        let keyed = |place: usize, key: &str| {
            let part: &&str = parts.get(place)?;
            part.strip_prefix(key)?.trim_start().strip_prefix('=')
        };
        match (kind, parts.as_slice()) {
            ("exp", [mean]) => parse_span(mean).map(Self::Exponential),
            ("uniform", [range]) => {
                let (from, to) = range.split_once("..").ok_or_else(wrong)?;
                let (from, to) = (parse_span(from)?, parse_span(to)?);
                if from > to { Err(wrong()) } else { Ok(Self::Uniform(from, to)) }
            }
            ("normal", [mean, deviation, others @ ..]) if others.len() <= 1 => {
                let min = match others {
                    [] => Span::ZERO,
                    _ => parse_span(keyed(2, "min").ok_or_else(wrong)?)?,
                };
                let (mean, deviation) = (parse_span(mean)?, parse_span(deviation)?);
                Ok(Self::Normal { mean, deviation, min })
            }
            ("lognormal", [_, _]) => {
                let median = parse_span(keyed(0, "median").ok_or_else(wrong)?)?;
                let sigma = parse_number(keyed(1, "sigma").ok_or_else(wrong)?)?;
                if (0.0..=10.0).contains(&sigma) {
                    Ok(Self::LogNormal { median, sigma })
                } else {
                    Err(wrong())
                }
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for SpanDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => span.fmt(f),
            Self::Exponential(mean) => write!(f, "exp:{mean}"),
            Self::Uniform(from, to) => write!(f, "uniform:{from}..{to}"),
            Self::Normal { mean, deviation, min } if min.is_zero() => {
                write!(f, "normal:{mean},{deviation}")
            }
            Self::Normal { mean, deviation, min } => {
                write!(f, "normal:{mean},{deviation},min={min}")
            }
            Self::LogNormal { median, sigma } => {
                write!(f, "lognormal:median={median},sigma={sigma}")
            }
        }
    }
}

impl From<Span> for SpanDistribution {
    fn from(span: Span) -> Self {
        Self::Constant(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(text: &str) -> Vec<f64> {
        let distribution: SpanDistribution = text.parse().unwrap();
        let mut random = Random::seeded(3, 0);
        let mut draws: Vec<f64> =
            (0..20_000).map(|_| distribution.draw(&mut random).as_millis_f64()).collect();
        draws.sort_by(f64::total_cmp);
        draws
    }

    #[test]
    fn written_forms_read_and_show() {
        for text in [
            "40ms",
            "exp:40s",
            "uniform:20s..60s",
            "normal:50ms,15ms",
            "normal:50ms,15ms,min=20ms",
            "lognormal:median=45ms,sigma=0.4",
        ] {
            assert_eq!(text.parse::<SpanDistribution>().unwrap().to_string(), text);
        }
        for text in [
            "40",
            "exp:",
            "exp:3",
            "uniform:5s",
            "uniform:5s..1s",
            "normal:5s",
            "normal:5s,1s,max=3s",
            "normal:5s,1s,min=3s,4s",
            "lognormal:45ms,0.4",
            "lognormal:median=45ms,sigma=-1",
            "pareto:3s",
        ] {
            assert!(text.parse::<SpanDistribution>().is_err(), "{text}");
        }
    }

    #[test]
    fn draws_have_their_moments() {
        let mean = |draws: &[f64]| crate::statistics::mean(draws.iter().copied());
        let exponential = draws("exp:40ms");
        assert!((mean(&exponential) - 40.0).abs() < 1.0);
        assert!((exponential[10_000] - 40.0 * 2_f64.ln()).abs() < 1.0);
        let uniform = draws("uniform:20ms..60ms");
        assert!((mean(&uniform) - 40.0).abs() < 0.5);
        assert!(uniform[0] >= 20.0 && uniform[19_999] <= 60.0);
        let normal = draws("normal:50ms,15ms,min=20ms");
        assert!(normal[0] >= 20.0 && (normal[10_000] - 50.5).abs() < 1.0, "{}", normal[10_000]);
        let lognormal = draws("lognormal:median=45ms,sigma=0.4");
        assert!((lognormal[10_000] - 45.0).abs() < 0.7);
        // One standard deviation above the median lies e^0.4.
        assert!((lognormal[16_827] / 45.0 - 0.4_f64.exp()).abs() < 0.03);
    }

    #[test]
    fn a_minimum_out_of_reach_is_drawn_all_the_same() {
        let far: SpanDistribution = "normal:1ms,0ms,min=9ms".parse().unwrap();
        assert_eq!(far.draw(&mut Random::seeded(1, 0)), Span::from_millis(9));
    }
}
