//! Sets of parameters: the grammar `[PRESET][,key=value...]` behind a name's colon, its errors,
//! and the macro that declares a set.

use thiserror::Error;

use crate::name::nearest;
use crate::param::{Param, ParamValue, Preset};
use crate::quantity::QuantityError;

/// What is wrong with the parameters of a `NAME:key=value` text.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ParamError {
    /// A key without `=value` that is no preset either.
    #[error("`{owner}`: `{part}` should be key=value{hint}")]
    NotKeyValue {
        /// The name in front of the colon.
        owner: String,
        /// The part that is wrong.
        part: String,
        /// The presets that exist, as a half sentence.
        hint: String,
    },
    /// A preset that does not stand in front of all values.
    #[error("`{owner}`: the preset `{preset}` should come first: `{owner}:{preset},key=value`")]
    PresetNotFirst {
        /// The name in front of the colon.
        owner: String,
        /// The preset.
        preset: String,
    },
    /// A key that the owner does not have.
    #[error("`{owner}` has no parameter `{key}`{hint}")]
    UnknownKey {
        /// The name in front of the colon.
        owner: String,
        /// The unknown key.
        key: String,
        /// What the key is called now or the nearest known keys, as a half sentence.
        hint: String,
    },
    /// The same key twice.
    #[error("`{owner}`: `{key}` is given twice")]
    Twice {
        /// The name in front of the colon.
        owner: String,
        /// The repeated key.
        key: String,
    },
    /// The value does not read as what the parameter is.
    #[error("`{owner}`: {key}: {source}")]
    Quantity {
        /// The name in front of the colon.
        owner: String,
        /// The key.
        key: String,
        /// Why the value does not read.
        source: QuantityError,
    },
    /// The value reads, but is not allowed.
    #[error("`{owner}`: {key}={value} is out of range; allowed: {range}")]
    OutOfRange {
        /// The name in front of the colon.
        owner: String,
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What would be allowed.
        range: String,
    },
}

/// A set of parameters, declared with [`params!`](crate::params).
pub trait ParamSet: Sized {
    /// The named combinations of values.
    const PRESETS: &'static [Preset];

    /// Describes the parameters, those for experts last.
    fn table() -> &'static [Param];

    /// Takes each parameter's value or default.
    ///
    /// # Errors
    /// When a value does not read or is out of range.
    fn take(given: &GivenValues<'_>) -> Result<Self, ParamError>;

    /// Reads `rest` (the text behind `NAME:`); `owner` is the name, for error messages.
    ///
    /// # Errors
    /// When a key is unknown (the nearest is named), given twice, or its value does not read or
    /// is out of range.
    fn parse(owner: &str, rest: &str) -> Result<Self, ParamError> {
        Self::take(&GivenValues::parse(owner, rest, Self::table(), Self::PRESETS)?)
    }

    /// Returns the set with every parameter at its default.
    fn defaults() -> Self {
        let given = GivenValues { owner: "", values: Vec::new() };
        Self::take(&given).expect("declared defaults are in range: a test reads those of every set")
    }
}

/// The values that a text gives, presets included, not yet read.
#[derive(Debug)]
pub struct GivenValues<'a> {
    owner: &'a str,
    /// Keys and values. Of several values of one key the last counts.
    values: Vec<(&'static str, &'a str)>,
}

impl<'a> GivenValues<'a> {
    /// Reads `rest` for a table that no type declares; [`ParamSet::parse`] is for those that have one.
    ///
    /// # Errors
    /// When a key is unknown, given twice, or without a value.
    pub fn parse(
        owner: &'a str,
        rest: &'a str,
        table: &'static [Param],
        presets: &'static [Preset],
    ) -> Result<Self, ParamError> {
        let mut parts = parts(rest).peekable();
        let preset = parts.peek().and_then(|name| presets.iter().find(|known| known.name == *name));
        let mut values = Vec::new();
        if let Some(preset) = preset {
            parts.next();
            for part in self::parts(preset.values) {
                values.push(assignment(owner, part, table, presets)?);
            }
        }
        let first_given = values.len();
        for part in parts {
            let (key, text) = assignment(owner, part, table, presets)?;
            if values[first_given..].iter().any(|(known, _)| *known == key) {
                return Err(ParamError::Twice { owner: owner.into(), key: key.into() });
            }
            values.push((key, text));
        }
        Ok(Self { owner, values })
    }

    /// Reads the value of `key`, or else its default.
    ///
    /// # Errors
    /// When the value does not read or is out of range.
    pub fn value<T: ParamValue>(
        &self,
        key: &str,
        default: &str,
        bounds: &T::Bounds,
    ) -> Result<T, ParamError> {
        let given = self.values.iter().rev().find(|(known, _)| *known == key);
        let text = given.map_or(default, |(_, text)| text);
        if given.is_none()
            && text.is_empty()
            && let Some(unset) = T::unset()
        {
            return Ok(unset);
        }
        let (owner, key) = (self.owner.to_owned(), key.to_owned());
        match T::read(text, bounds) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => {
                let range = T::kind(bounds).to_string();
                Err(ParamError::OutOfRange { owner, key, value: text.to_owned(), range })
            }
            Err(source) => Err(ParamError::Quantity { owner, key, source }),
        }
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Splits `key=value`; the key is one of the table's.
fn assignment<'a>(
    owner: &str,
    part: &'a str,
    table: &'static [Param],
    presets: &'static [Preset],
) -> Result<(&'static str, &'a str), ParamError> {
    let Some((key, text)) = part.split_once('=') else {
        return Err(no_assignment(owner, part, presets));
    };
    let key = key.trim();
    match table.iter().find(|param| param.key == key) {
        Some(param) => Ok((param.key, text.trim())),
        None => Err(unknown_key(owner, key, table)),
    }
}

fn no_assignment(owner: &str, part: &str, presets: &[Preset]) -> ParamError {
    let (owner, part) = (owner.to_owned(), part.to_owned());
    let names = || presets.iter().map(|preset| preset.name);
    if names().any(|name| name == part) {
        return ParamError::PresetNotFirst { owner, preset: part };
    }
    let hint = match nearest(&part, names()) {
        Some(near) => format!(" or a preset; did you mean `{near}`?"),
        None if presets.is_empty() => String::new(),
        None => format!(" or a preset: {}", names().collect::<Vec<_>>().join(", ")),
    };
    ParamError::NotKeyValue { owner, part, hint }
}

fn unknown_key(owner: &str, key: &str, table: &[Param]) -> ParamError {
    let keys = || table.iter().map(|param| param.key);
    let hint = match nearest(key, keys()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if table.is_empty() => "; it has none".to_owned(),
        None => format!("; it has {}", keys().collect::<Vec<_>>().join(", ")),
    };
    ParamError::UnknownKey { owner: owner.into(), key: key.into(), hint }
}

/// Declares a set of parameters: one declaration makes the table for help and checks, the struct
/// with typed fields, and its reader.
///
/// Each parameter has its help as documentation, a type (see [`ParamValue`]), its default as it
/// would be written (`""`: unset, for an `Option`), a range where the type needs one, perhaps a
/// unit, and its source. `logarithmic` is for those
/// who search for good values. Parameters in `expert` are shown on request, those of other sets
/// in `with` become fields that hold these sets.
///
/// ```
/// use cellpace_base::{ParamSet, Span, params, words};
///
/// words! {
///     /// Whose version of the equation counts.
///     pub enum Version { Paper = "paper", Code = "code" }
/// }
///
/// params! {
///     /// The parameters of an example.
///     pub struct ExampleParams {
///         /// Delay over base delay
///         ratio: f64 = "6" in 1.0..=100.0, from "Eq. 4", logarithmic;
///         /// Time between two decisions
///         epoch: Span = "5ms" in Span::from_millis(1)..=Span::from_secs(1), from "section 5";
///     }
///     expert {
///         /// As printed or as programmed
///         version: Version = "paper", from "Eq. 4";
///     }
///     presets {
///         code = "version=code,ratio=4", "as the original program decides", from "its code";
///     }
/// }
///
/// let params = ExampleParams::parse("example", "code,epoch=20ms")?;
/// assert_eq!((params.ratio, params.version), (4.0, Version::Code));
/// let refused = ExampleParams::parse("example", "ratoi=2").unwrap_err();
/// assert_eq!(refused.to_string(), "`example` has no parameter `ratoi`; did you mean `ratio`?");
/// # Ok::<(), cellpace_base::ParamError>(())
/// ```
#[macro_export]
macro_rules! params {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                $key:ident : $type:ty = $default:literal $(in $range:expr)?
                $(, unit $unit:literal)?
                , from $source:expr $(, $mark:ident)? ;
            )*
        }
        $(expert {
            $(
                $(#[doc = $expert_help:literal])+
                $expert:ident : $expert_type:ty = $expert_default:literal $(in $expert_range:expr)?
                $(, unit $expert_unit:literal)?
                , from $expert_source:expr $(, $expert_mark:ident)? ;
            )*
        })?
        $(with { $($group:ident : $group_type:ty),+ $(,)? })?
        $(presets {
            $($preset:ident = $values:literal, $summary:literal, from $preset_source:expr;)+
        })?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            $($(#[doc = $help])+ $vis $key: $type,)*
            $($($(#[doc = $expert_help])+ $vis $expert: $expert_type,)*)?
            $($(#[doc = "Parameters that other sets have, too."] $vis $group: $group_type,)+)?
        }

        impl $crate::ParamSet for $name {
            const PRESETS: &'static [$crate::Preset] = &[$($($crate::Preset {
                name: stringify!($preset),
                values: $values,
                summary: $summary,
                source: $preset_source,
            },)+)?];

            fn table() -> &'static [$crate::Param] {
                static TABLE: std::sync::LazyLock<Vec<$crate::Param>> =
                    std::sync::LazyLock::new(|| {
                        let groups: &[&[$crate::Param]] = &[
                            &[$($crate::params!(@param false
                                $key, concat!($($help),+), $type, $default, [$($range)?],
                                [$($unit)?], $source, [$($mark)?])),*],
                            $($(<$group_type as $crate::ParamSet>::table(),)+)?
                            $(&[$($crate::params!(@param true
                                $expert, concat!($($expert_help),+), $expert_type,
                                $expert_default, [$($expert_range)?], [$($expert_unit)?],
                                $expert_source, [$($expert_mark)?])),*],)?
                        ];
                        let mut table = groups.concat();
                        table.sort_by_key(|param| param.expert);
                        table
                    });
                &TABLE
            }

            fn take(given: &$crate::GivenValues<'_>) -> Result<Self, $crate::ParamError> {
                Ok(Self {
                    $($key: given.value(
                        stringify!($key), $default, &$crate::params!(@bounds $($range)?))?,)*
                    $($($expert: given.value(
                        stringify!($expert), $expert_default,
                        &$crate::params!(@bounds $($expert_range)?))?,)*)?
                    $($($group: <$group_type as $crate::ParamSet>::take(given)?,)+)?
                })
            }
        }
    };

    (@bounds) => { () };
    (@bounds $range:expr) => { $range };

    (@param $is_expert:literal $key:ident, $help:expr, $type:ty, $default:literal,
        [$($range:expr)?], [$($unit:literal)?], $source:expr, [$($mark:ident)?]
    ) => {
        $crate::Param {
            key: stringify!($key),
            kind: <$type as $crate::ParamValue>::kind(&$crate::params!(@bounds $($range)?)),
            default: $default,
            unit: concat!($($unit)?),
            help: str::trim_ascii_start($help),
            source: $source,
            expert: $is_expert,
            logarithmic: $crate::params!(@is_logarithmic $($mark)?),
        }
    };

    (@is_logarithmic) => { false };
    (@is_logarithmic logarithmic) => { true };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteCount, ParamKind, Rate, Span, Window, words};

    words! {
        /// Whose version counts.
        enum Version {
            Paper = "paper",
            Code = "code",
        }
    }

    params! {
        /// Parameters that two sets share.
        struct SharedParams {
            /// Most that is in flight
            max_window: Option<Window> = "", from "RFC 9293";
        }
        expert {
            /// Bytes per turn
            quantum: ByteCount = "1514B" in 64..=1_000_000, from "RFC 8290";
        }
    }

    params! {
        /// Parameters of every type.
        struct TestParams {
            /// Delay over base delay,
            /// in two lines
            ratio: f64 = "6" in 1.0..=100.0, unit "RTT", from "Eq. 4", logarithmic;
            /// Share that is left
            share: f64 = "0.7" in 0.1..=1.0, from "Eq. 6";
            /// Time between decisions
            epoch: Span = "5ms" in Span::from_millis(1)..=Span::from_secs(1), from "section 5";
            /// File
            file: Option<String> = "", from "us";
        }
        expert {
            /// Rounds
            rounds: u64 = "3" in 1..=9, from "us";
            /// Whether it is on
            enabled: bool = "true", from "us";
            /// As printed or as programmed
            version: Version = "paper", from "us";
            /// Rate
            rate: Option<Rate> = "" in Rate::from_bps(1)..=Rate::from_bps(9_000), from "us";
        }
        with { shared: SharedParams }
        presets {
            original = "version=code,ratio=4", "as the program", from "the program";
            other = "", "as the defaults", from "us";
        }
    }

    fn parse(rest: &str) -> TestParams {
        TestParams::parse("x", rest).unwrap()
    }

    fn refused(rest: &str) -> String {
        TestParams::parse("x", rest).unwrap_err().to_string()
    }

    #[test]
    fn defaults_fill_what_is_not_given() {
        let params = parse("epoch=20ms, share = 50%");
        assert_eq!((params.ratio, params.share), (6.0, 0.5));
        assert_eq!(params.epoch, Span::from_millis(20));
        assert_eq!((params.rounds, params.enabled, params.version), (3, true, Version::Paper));
        assert_eq!((params.file, params.rate, params.shared.max_window), (None, None, None));
        assert_eq!(params.shared.quantum, ByteCount(1514));
        assert_eq!(TestParams::defaults().ratio, 6.0);
    }

    #[test]
    fn every_type_reads() {
        let params = parse("file=a b,enabled=off,rate=1kbit,max_window=20pkts,quantum=1kB");
        assert_eq!((params.file.as_deref(), params.enabled), (Some("a b"), false));
        assert_eq!(params.rate, Some(Rate::from_bps(1_000)));
        assert_eq!(params.shared.max_window, Some(Window::Packets(20)));
        assert_eq!(params.shared.quantum, ByteCount(1000));
    }

    #[test]
    fn presets_come_first_and_what_is_given_overrides_them() {
        let params = parse("original");
        assert_eq!((params.ratio, params.version), (4.0, Version::Code));
        let params = parse(" original , ratio=2,rounds=1 ");
        assert_eq!((params.ratio, params.version, params.rounds), (2.0, Version::Code, 1));
        assert_eq!(parse("other").ratio, 6.0);
        let first = "`x`: the preset `original` should come first: `x:original,key=value`";
        assert_eq!(refused("ratio=2,original"), first);
        assert_eq!(
            refused("orignal"),
            "`x`: `orignal` should be key=value or a preset; did you mean `original`?"
        );
        let known = "`x`: `ratio` should be key=value or a preset: original, other";
        assert_eq!(refused("ratio"), known);
        assert_eq!(refused("original,ratio=2,ratio=2"), "`x`: `ratio` is given twice");
        let none = SharedParams::parse("y", "paper").unwrap_err().to_string();
        assert_eq!(none, "`y`: `paper` should be key=value");
    }

    #[test]
    fn errors_name_the_key_and_the_nearest() {
        assert_eq!(refused("epcoh=5ms"), "`x` has no parameter `epcoh`; did you mean `epoch`?");
        assert_eq!(
            refused("zzzzzzzzzzzz=5"),
            "`x` has no parameter `zzzzzzzzzzzz`; it has ratio, share, epoch, file, max_window, \
             quantum, rounds, enabled, version, rate"
        );
        assert_eq!(refused("ratio=2,ratio=3"), "`x`: `ratio` is given twice");
        assert_eq!(refused("ratio=0.5"), "`x`: ratio=0.5 is out of range; allowed: 1..100");
        assert_eq!(
            refused("epoch=5"),
            "`x`: epoch: `5` needs a unit; write a time like 40ms or 60s"
        );
        assert_eq!(
            refused("version=both"),
            "`x`: version=both is out of range; allowed: paper, code"
        );
        assert_eq!(
            refused("share=200%"),
            "`x`: share=200% is out of range; allowed: 0.1..1 or 10%..100%"
        );
        assert_eq!(refused("rounds=0"), "`x`: rounds=0 is out of range; allowed: 1..9");
        assert!(refused("ratio=50%").contains("does not start with a number"));
        assert!(refused("ratio=NaN").contains("ratio"));
        assert!(refused("file=").contains("file"));
        assert!(refused("max_window=0pkts").contains("from 1"));
    }

    #[test]
    fn the_table_says_what_was_declared() {
        let table = TestParams::table();
        let ratio = &table[0];
        assert_eq!((ratio.key, ratio.default, ratio.unit), ("ratio", "6", "RTT"));
        assert_eq!(ratio.kind, ParamKind::Number(1.0, 100.0));
        assert_eq!((ratio.help, ratio.source), ("Delay over base delay, in two lines", "Eq. 4"));
        assert!(ratio.logarithmic && !table[1].logarithmic);
        let public: Vec<_> =
            table.iter().filter(|param| !param.expert).map(|param| param.key).collect();
        assert_eq!(public, ["ratio", "share", "epoch", "file", "max_window"]);
        assert!(table[5..].iter().all(|param| param.expert));
    }
}
