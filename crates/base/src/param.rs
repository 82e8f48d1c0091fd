//! Parameters: what one is, the types that one may have, and the words between which some choose.
//! Sets of them are declared with [`params!`](crate::params), once for help, checks and code.

use std::fmt;
use std::ops::RangeInclusive;

use crate::quantity::{
    QuantityError, Rate, Window, format_bytes, parse_bytes, parse_number, parse_span, parse_window,
};
use crate::time::Span;

/// What values a parameter may have, for help, error messages and searches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParamKind {
    /// A number between two ends. Where it cannot exceed 1, it may also be written in percent.
    Number(f64, f64),
    /// A whole number between two ends.
    Integer(u64, u64),
    /// `true` or `false`.
    Bool,
    /// A time span between two ends.
    Span(Span, Span),
    /// A size in bytes between two ends.
    Bytes(u64, u64),
    /// A rate between two ends.
    Rate(Rate, Rate),
    /// A window in bytes or packets, at least one packet or byte.
    Window,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Text in the form that is described here.
    Text(&'static str),
}

/// The range, as help and error messages show it.
impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(low, high) if is_share(*low, *high) => {
                write!(f, "{low}..{high} or {}%..{}%", low * 100.0, high * 100.0)
            }
            Self::Number(low, high) => write!(f, "{low}..{high}"),
            Self::Integer(low, high) => write!(f, "{low}..{high}"),
            Self::Bool => f.write_str("true, false"),
            Self::Span(low, high) => write!(f, "{low}..{high}"),
            Self::Bytes(low, high) => write!(f, "{}..{}", format_bytes(*low), format_bytes(*high)),
            Self::Rate(low, high) => write!(f, "{low}..{high}"),
            Self::Window => f.write_str("bytes or pkts, from 1"),
            Self::Word(words) => f.write_str(&words.join(", ")),
            Self::Text(form) => f.write_str(form),
        }
    }
}

/// One parameter: everything that help, checks and documentation need to know about it.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// The key.
    pub key: &'static str,
    /// Type and range.
    pub kind: ParamKind,
    /// The default as it would be written; empty: unset.
    pub default: &'static str,
    /// The unit of plain numbers, for people (`pkt`, `1/pkt`; empty: none).
    pub unit: &'static str,
    /// What it does, in a half sentence.
    pub help: &'static str,
    /// Where it comes from: paper and equation or section, RFC section, or the original code.
    pub source: &'static str,
    /// Whether only experts need it: help shows it on request.
    pub expert: bool,
    /// Whether a search should try its values on a logarithmic scale.
    pub logarithmic: bool,
}

/// A named combination of values.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The name behind the colon.
    pub name: &'static str,
    /// The values, as they would be written without it.
    pub values: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// A type that parameters may have.
pub trait ParamValue: Sized {
    /// What bounds the values: a range for quantities, `()` for the rest.
    type Bounds;

    /// Describes the values.
    fn kind(bounds: &Self::Bounds) -> ParamKind;

    /// Reads a written value. `None` when it is outside of the bounds or not among the words.
    ///
    /// # Errors
    /// When the text is no value of this type.
    fn read(text: &str, bounds: &Self::Bounds) -> Result<Option<Self>, QuantityError>;

    /// Returns the value of a parameter that is left out and has no default, for types that have
    /// such a value.
    fn unset() -> Option<Self> {
        None
    }
}

fn is_share(low: f64, high: f64) -> bool {
    low >= 0.0 && high <= 1.0
}

fn within<T: PartialOrd>(value: T, bounds: &RangeInclusive<T>) -> Option<T> {
    bounds.contains(&value).then_some(value)
}

impl ParamValue for f64 {
    type Bounds = RangeInclusive<Self>;

    fn kind(bounds: &Self::Bounds) -> ParamKind {
        ParamKind::Number(*bounds.start(), *bounds.end())
    }

    fn read(text: &str, bounds: &Self::Bounds) -> Result<Option<Self>, QuantityError> {
        let value = match text.strip_suffix('%') {
            Some(percent) if is_share(*bounds.start(), *bounds.end()) => {
                parse_number(percent)? / 100.0
            }
            _ => parse_number(text)?,
        };
        Ok(within(value, bounds))
    }
}

impl ParamValue for u64 {
    type Bounds = RangeInclusive<Self>;

    fn kind(bounds: &Self::Bounds) -> ParamKind {
        ParamKind::Integer(*bounds.start(), *bounds.end())
    }

    fn read(text: &str, bounds: &Self::Bounds) -> Result<Option<Self>, QuantityError> {
        Ok(text.parse().ok().and_then(|value| within(value, bounds)))
    }
}

impl ParamValue for bool {
    type Bounds = ();

    fn kind((): &()) -> ParamKind {
        ParamKind::Bool
    }

    fn read(text: &str, (): &()) -> Result<Option<Self>, QuantityError> {
        Ok(match text {
            "true" | "on" | "yes" | "1" => Some(true),
            "false" | "off" | "no" | "0" => Some(false),
            _ => None,
        })
    }
}

impl ParamValue for Span {
    type Bounds = RangeInclusive<Self>;

    fn kind(bounds: &Self::Bounds) -> ParamKind {
        ParamKind::Span(*bounds.start(), *bounds.end())
    }

    fn read(text: &str, bounds: &Self::Bounds) -> Result<Option<Self>, QuantityError> {
        Ok(within(parse_span(text)?, bounds))
    }
}

impl ParamValue for Rate {
    type Bounds = RangeInclusive<Self>;

    fn kind(bounds: &Self::Bounds) -> ParamKind {
        ParamKind::Rate(*bounds.start(), *bounds.end())
    }

    fn read(text: &str, bounds: &Self::Bounds) -> Result<Option<Self>, QuantityError> {
        Ok(within(text.parse()?, bounds))
    }
}

impl ParamValue for Window {
    type Bounds = ();

    fn kind((): &()) -> ParamKind {
        ParamKind::Window
    }

    fn read(text: &str, (): &()) -> Result<Option<Self>, QuantityError> {
        Ok(Some(parse_window(text)?).filter(|window| window.bytes(1) > 0))
    }
}

/// A number of bytes as a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteCount(pub u64);

impl ParamValue for ByteCount {
    type Bounds = RangeInclusive<u64>;

    fn kind(bounds: &Self::Bounds) -> ParamKind {
        ParamKind::Bytes(*bounds.start(), *bounds.end())
    }

    fn read(text: &str, bounds: &Self::Bounds) -> Result<Option<Self>, QuantityError> {
        Ok(within(parse_bytes(text)?, bounds).map(Self))
    }
}

impl ParamValue for String {
    type Bounds = ();

    fn kind((): &()) -> ParamKind {
        ParamKind::Text("text")
    }

    fn read(text: &str, (): &()) -> Result<Option<Self>, QuantityError> {
        Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
    }
}

impl<T: ParamValue> ParamValue for Option<T> {
    type Bounds = T::Bounds;

    fn kind(bounds: &Self::Bounds) -> ParamKind {
        T::kind(bounds)
    }

    fn read(text: &str, bounds: &Self::Bounds) -> Result<Option<Self>, QuantityError> {
        Ok(T::read(text, bounds)?.map(Some))
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

/// Declares an enum whose variants are the words of a parameter.
///
/// ```
/// cellpace_base::words! {
///     /// What a loss event takes its share of.
///     pub enum ReductionBase {
///         /// The bytes in flight.
///         Flight = "flight",
///         /// The window.
///         Window = "window",
///     }
/// }
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $crate::ParamValue for $name {
            type Bounds = ();

            fn kind((): &()) -> $crate::ParamKind {
                $crate::ParamKind::Word(&[$($word),+])
            }

            fn read(text: &str, (): &()) -> Result<Option<Self>, $crate::QuantityError> {
                Ok(match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                })
            }
        }
    };
}
