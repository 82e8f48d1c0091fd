//! Random loss.

use std::fmt;
use std::str::FromStr;

use cellpace_base::{Random, parse_fraction};

use crate::PathError;

/// Random loss by its written form: `1%` (independent) or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum LossSpec {
    /// None.
    #[default]
    None,
    /// Each packet with the same probability, independently.
    Independent(f64),
}

impl LossSpec {
    /// The model itself.
    pub fn build(self, random: Random) -> LossModel {
        LossModel { spec: self, random }
    }

    /// The share of packets lost in the long run.
    pub fn mean(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Independent(p) => p,
        }
    }
}

impl FromStr for LossSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        match parse_fraction(text) {
            Ok(p) if p <= 0.0 => Ok(Self::None),
            Ok(p) => Ok(Self::Independent(p)),
            Err(source) => Err(PathError::Quantity { what: "loss".into(), source }),
        }
    }
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0"),
            Self::Independent(p) => write!(f, "{}%", p * 100.0),
        }
    }
}

/// A running loss process.
#[derive(Debug, Clone)]
pub struct LossModel {
    spec: LossSpec,
    random: Random,
}

impl LossModel {
    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        match self.spec {
            LossSpec::None => false,
            LossSpec::Independent(p) => self.random.unit() < p,
        }
    }
}
