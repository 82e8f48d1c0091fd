//! Functions that make one value of many.

use cellpace_base::statistics::{mean, quantile};
use cellpace_measure::{Interval, jain_index};

use super::table::Kind;
use crate::statistics::spearman;
use crate::unit::Unit;

/// A function that reduces tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Mean,
    Min,
    Max,
    Median,
    StandardDeviation,
    Percentile,
    Count,
    Share,
    Jain,
    Spearman,
    Overlap,
    All,
    Any,
}

/// The functions by their names.
pub(crate) const REDUCTIONS: [(&str, Reduction); 14] = [
    ("sum", Reduction::Sum),
    ("mean", Reduction::Mean),
    ("min", Reduction::Min),
    ("max", Reduction::Max),
    ("median", Reduction::Median),
    ("sd", Reduction::StandardDeviation),
    ("p", Reduction::Percentile),
    ("count", Reduction::Count),
    ("share", Reduction::Share),
    ("jain", Reduction::Jain),
    ("spearman", Reduction::Spearman),
    ("overlap", Reduction::Overlap),
    ("all", Reduction::All),
    ("any", Reduction::Any),
];

impl Reduction {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        REDUCTIONS.iter().find(|(known, _)| *known == name).map(|(_, reduction)| *reduction)
    }

    /// Number of arguments.
    pub(crate) fn arity(self) -> usize {
        if matches!(self, Self::Percentile | Self::Spearman | Self::Overlap) { 2 } else { 1 }
    }

    /// What the result is, or why these arguments do not fit.
    pub(crate) fn kind(self, arguments: &[Kind]) -> Result<Kind, String> {
        let takes_truth = matches!(self, Self::Count | Self::Share | Self::All | Self::Any);
        let last = arguments.last().copied().unwrap_or(Kind::Truth);
        if takes_truth != (last == Kind::Truth) {
            let wants = if takes_truth { "a comparison" } else { "quantities" };
            return Err(format!("takes {wants}, not {}", last.what()));
        }
        if self == Self::Percentile && arguments[0] != Kind::Quantity(Unit::NONE) {
            return Err("takes the percentile as a number first: p(95, x)".to_owned());
        }
        if self == Self::Overlap && arguments[0] != arguments[1] {
            let [left, right] = [arguments[0], arguments[1]].map(Kind::what);
            return Err(format!("compares {left} with {right}"));
        }
        Ok(match self {
            Self::Sum
            | Self::Mean
            | Self::Min
            | Self::Max
            | Self::Median
            | Self::StandardDeviation
            | Self::Percentile => last,
            Self::Count | Self::Share | Self::Jain | Self::Spearman => Kind::Quantity(Unit::NONE),
            Self::Overlap | Self::All | Self::Any => Kind::Truth,
        })
    }

    /// The result for values, of two arguments in pairs. A value that is none makes none.
    pub(crate) fn apply(self, x: &[f64], y: &[f64]) -> f64 {
        if x.iter().chain(y).any(|value| value.is_nan()) {
            return f64::NAN;
        }
        let sorted = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        match self {
            Self::Mean | Self::Share => mean(x.iter().copied()),
            Self::Min => x.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Max => x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Self::Median => quantile(&sorted(x), 0.5),
            Self::StandardDeviation => deviation(x),
            Self::Percentile => quantile(&sorted(y), x[0] / 100.0),
            Self::Count | Self::Sum => x.iter().sum(),
            Self::Jain => jain_index(x),
            Self::Spearman => spearman(x, y),
            Self::Overlap => f64::from(u8::from(do_overlap(x, y))),
            Self::All => x.iter().copied().fold(1.0, f64::min),
            Self::Any => x.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The standard deviation of a sample; none of fewer than two.
fn deviation(x: &[f64]) -> f64 {
    let mean = mean(x.iter().copied());
    (x.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (x.len() as f64 - 1.0)).sqrt()
}

/// Whether the 95 % intervals of the two means overlap.
fn do_overlap(x: &[f64], y: &[f64]) -> bool {
    let (Some(x), Some(y)) = (Interval::of(x), Interval::of(y)) else { return false };
    (x.mean - y.mean).abs() <= x.half_width + y.half_width
}
