//! The grammar `NAME[:key=value[,key=value...]]` and the tables of parameters it is checked
//! against. Controllers and queues describe their parameters once, in a static table; parsing,
//! range checks, defaults, help and error messages all come from it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::quantity::{
    QuantityError, Rate, Window, format_bytes, parse_bytes, parse_fraction, parse_number,
    parse_span, parse_window,
};
use crate::time::Span;

/// What is wrong with a `NAME:key=value` text.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ArgsError {
    /// A key without `=value`.
    #[error("`{owner}`: `{part}` should be key=value")]
    NotKeyValue {
        /// The name in front of the colon.
        owner: String,
        /// The part that is wrong.
        part: String,
    },
    /// A key that the owner does not have.
    #[error("`{owner}` has no parameter `{key}`{hint}")]
    UnknownKey {
        /// The name in front of the colon.
        owner: String,
        /// The unknown key.
        key: String,
        /// The nearest known keys, as a half sentence.
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

/// A parsed value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A plain number.
    Number(f64),
    /// A whole number.
    Integer(u64),
    /// Yes or no.
    Bool(bool),
    /// A time span.
    Span(Span),
    /// A size in bytes.
    Bytes(u64),
    /// A rate.
    Rate(Rate),
    /// A window in bytes or packets.
    Window(Window),
    /// A fraction from 0 to 1.
    Fraction(f64),
    /// One of a fixed set of words.
    Word(&'static str),
    /// Free text, such as a file name.
    Text(String),
    /// Not set, where the parameter may be left out.
    Unset,
}

/// What a parameter may be: its kind and its range, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A plain number between two ends.
    Number(f64, f64),
    /// A whole number between two ends.
    Integer(u64, u64),
    /// `true` or `false`.
    Bool,
    /// A span between two ends.
    Span(Span, Span),
    /// Bytes between two ends.
    Bytes(u64, u64),
    /// A rate between two ends.
    Rate(Rate, Rate),
    /// A window in bytes or packets, at least one packet or byte.
    Window,
    /// A fraction from 0 to 1, also written in percent.
    Fraction,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Free text.
    Text,
}

/// One parameter: everything that help, checks and documentation need to know about it.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// The key.
    pub key: &'static str,
    /// Kind and range.
    pub kind: Kind,
    /// The default as it would be written; empty: unset.
    pub default: &'static str,
    /// The unit of plain numbers, for people (`ms`, `pkt`, `1/pkt`; empty: none).
    pub unit: &'static str,
    /// What it does, in a half sentence.
    pub help: &'static str,
    /// Where it comes from: paper and equation or section, RFC section, or the original code.
    pub source: &'static str,
}

/// The name in front of the colon and the text behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a> {
    /// In front of the first colon.
    pub name: &'a str,
    /// Behind the first colon; empty if there is none.
    pub rest: &'a str,
}

/// Splits `NAME:rest` at the first colon.
pub fn split_name(text: &str) -> Name<'_> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    Name { name: name.trim(), rest: rest.trim() }
}

/// The candidate nearest to `word` in edits, whatever the case, if one is near enough to be what
/// was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Counting edits takes memory in proportion to both lengths, and no name is that long.
    if word.len() > 64 {
        return None;
    }
    let word = &word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, &candidate.to_lowercase()), candidate))
        .min()
        .filter(|(edits, candidate)| *edits <= 1 + candidate.len().max(word.len()) / 3)
        .map(|(_, candidate)| candidate)
}

/// The values of one `NAME:key=value,...`, complete with defaults and checked against a table.
#[derive(Clone)]
pub struct Args {
    values: Vec<(&'static str, Value)>,
    /// What a loader made of the files that parameters name, shared by all clones.
    loaded: Option<Arc<dyn Any + Send + Sync>>,
}

/// Equal is what has the same values; what was loaded follows from them.
impl PartialEq for Args {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.values.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl Args {
    /// Reads `rest` (the text behind `NAME:`) against `params`.
    ///
    /// # Errors
    /// When a key is unknown (the nearest is named), given twice, or its value does not read or
    /// is out of range.
    pub fn parse(owner: &str, rest: &str, params: &'static [Param]) -> Result<Self, ArgsError> {
        let mut args = Self::defaults(params);
        let mut given: Vec<&str> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, text)) = part.split_once('=') else {
                return Err(ArgsError::NotKeyValue { owner: owner.into(), part: part.into() });
            };
            let (key, text) = (key.trim(), text.trim());
            let Some(index) = params.iter().position(|param| param.key == key) else {
                return Err(unknown_key(owner, key, params));
            };
            if given.contains(&key) {
                return Err(ArgsError::Twice { owner: owner.into(), key: key.into() });
            }
            given.push(key);
            args.values[index].1 = params[index].read(owner, text)?;
        }
        Ok(args)
    }

    /// All parameters at their defaults.
    ///
    /// # Panics
    /// When a default in the table does not fit its own kind; a test reads every table.
    pub fn defaults(params: &'static [Param]) -> Self {
        let value = |param: &Param| match param.default {
            "" => Value::Unset,
            text => match param.read("default", text) {
                Ok(value) => value,
                Err(error) => panic!("the default of a parameter table does not fit: {error}"),
            },
        };
        let values = params.iter().map(|param| (param.key, value(param))).collect();
        Self { values, loaded: None }
    }

    /// The value of `key`.
    ///
    /// # Panics
    /// When the table has no such key, which is a mistake in the program.
    pub fn value(&self, key: &str) -> &Value {
        match self.values.iter().find(|(known, _)| *known == key) {
            Some((_, value)) => value,
            None => panic!("no parameter `{key}` in the table"),
        }
    }

    /// A number, integer or fraction as `f64`.
    pub fn number(&self, key: &str) -> f64 {
        match self.value(key) {
            Value::Number(x) | Value::Fraction(x) => *x,
            Value::Integer(n) => *n as f64,
            other => wrong_kind(key, other),
        }
    }

    /// A whole number.
    pub fn integer(&self, key: &str) -> u64 {
        match self.value(key) {
            Value::Integer(n) => *n,
            other => wrong_kind(key, other),
        }
    }

    /// Yes or no.
    pub fn flag(&self, key: &str) -> bool {
        match self.value(key) {
            Value::Bool(yes) => *yes,
            other => wrong_kind(key, other),
        }
    }

    /// A span.
    pub fn span(&self, key: &str) -> Span {
        match self.value(key) {
            Value::Span(span) => *span,
            other => wrong_kind(key, other),
        }
    }

    /// A number or fraction, or `None` where it was left out and has no default.
    pub fn optional_number(&self, key: &str) -> Option<f64> {
        match self.value(key) {
            Value::Unset => None,
            _ => Some(self.number(key)),
        }
    }

    /// A span, or `None` where it was left out and has no default.
    pub fn optional_span(&self, key: &str) -> Option<Span> {
        match self.value(key) {
            Value::Unset => None,
            _ => Some(self.span(key)),
        }
    }

    /// A size in bytes.
    pub fn bytes(&self, key: &str) -> u64 {
        match self.value(key) {
            Value::Bytes(bytes) => *bytes,
            other => wrong_kind(key, other),
        }
    }

    /// A window in bytes or packets.
    pub fn window(&self, key: &str) -> Window {
        match self.value(key) {
            Value::Window(window) => *window,
            other => wrong_kind(key, other),
        }
    }

    /// A window, or `None` where it was left out and has no default.
    pub fn optional_window(&self, key: &str) -> Option<Window> {
        match self.value(key) {
            Value::Unset => None,
            _ => Some(self.window(key)),
        }
    }

    /// A rate.
    pub fn rate(&self, key: &str) -> Rate {
        match self.value(key) {
            Value::Rate(rate) => *rate,
            other => wrong_kind(key, other),
        }
    }

    /// One of the words of the parameter.
    pub fn word(&self, key: &str) -> &'static str {
        match self.value(key) {
            Value::Word(word) => word,
            other => wrong_kind(key, other),
        }
    }

    /// Free text, or `None` where it was left out.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Value::Text(text) => Some(text),
            Value::Unset => None,
            other => wrong_kind(key, other),
        }
    }

    /// Keeps what was made of the files that parameters name.
    pub fn load<T: Any + Send + Sync>(&mut self, content: Arc<T>) {
        self.loaded = Some(content);
    }

    /// What [`load`](Self::load) kept.
    ///
    /// # Panics
    /// When nothing was loaded or something of another type, which is a mistake in the program.
    pub fn loaded<T: Any + Send + Sync>(&self) -> Arc<T> {
        let loaded = self.loaded.clone().and_then(|content| content.downcast().ok());
        match loaded {
            Some(content) => content,
            None => panic!("nothing of that type was loaded"),
        }
    }
}

fn wrong_kind<T>(key: &str, value: &Value) -> T {
    panic!("parameter `{key}` is read as another kind than its table says: {value:?}")
}

fn unknown_key(owner: &str, key: &str, params: &[Param]) -> ArgsError {
    let keys = || params.iter().map(|param| param.key);
    let hint = match nearest(key, keys()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if params.is_empty() => "; it has none".to_owned(),
        None => format!("; it has {}", keys().collect::<Vec<_>>().join(", ")),
    };
    ArgsError::UnknownKey { owner: owner.into(), key: key.into(), hint }
}

impl Param {
    /// Reads and checks one written value.
    fn read(&self, owner: &str, text: &str) -> Result<Value, ArgsError> {
        let value = self.kind.read(text).map_err(|source| ArgsError::Quantity {
            owner: owner.into(),
            key: self.key.into(),
            source,
        })?;
        match value {
            Some(value) if self.kind.allows(&value) => Ok(value),
            _ => Err(ArgsError::OutOfRange {
                owner: owner.into(),
                key: self.key.into(),
                value: text.into(),
                range: self.kind.to_string(),
            }),
        }
    }
}

impl Kind {
    /// Reads `text`; `None` when it is a word that is not among those allowed.
    fn read(self, text: &str) -> Result<Option<Value>, QuantityError> {
        Ok(Some(match self {
            Self::Number(..) => Value::Number(parse_number(text)?),
            Self::Integer(..) => match text.parse() {
                Ok(n) => Value::Integer(n),
                Err(_) => return Ok(None),
            },
            Self::Bool => match text {
                "true" | "on" | "yes" | "1" => Value::Bool(true),
                "false" | "off" | "no" | "0" => Value::Bool(false),
                _ => return Ok(None),
            },
            Self::Span(..) => Value::Span(parse_span(text)?),
            Self::Bytes(..) => Value::Bytes(parse_bytes(text)?),
            Self::Rate(..) => Value::Rate(text.parse()?),
            Self::Window => Value::Window(parse_window(text)?),
            Self::Fraction => Value::Fraction(parse_fraction(text)?),
            Self::Word(words) => match words.iter().find(|word| **word == text) {
                Some(word) => Value::Word(word),
                None => return Ok(None),
            },
            Self::Text => Value::Text(text.to_owned()),
        }))
    }

    fn allows(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Number(low, high), Value::Number(x)) => (low..=high).contains(x),
            (Self::Integer(low, high), Value::Integer(n)) => (low..=high).contains(n),
            (Self::Span(low, high), Value::Span(span)) => (low..=high).contains(span),
            (Self::Bytes(low, high), Value::Bytes(bytes)) => (low..=high).contains(bytes),
            (Self::Rate(low, high), Value::Rate(rate)) => (low..=high).contains(rate),
            (Self::Window, Value::Window(window)) => window.bytes(1) > 0,
            (Self::Text, Value::Text(text)) => !text.is_empty(),
            _ => true,
        }
    }
}

/// The range, as help and error messages show it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(low, high) => write!(f, "{low}..{high}"),
            Self::Integer(low, high) => write!(f, "{low}..{high}"),
            Self::Bool => f.write_str("true, false"),
            Self::Span(low, high) => write!(f, "{low}..{high}"),
            Self::Bytes(low, high) => {
                write!(f, "{}..{}", format_bytes(*low), format_bytes(*high))
            }
            Self::Rate(low, high) => write!(f, "{low}..{high}"),
            Self::Window => f.write_str("bytes or pkts, from 1"),
            Self::Fraction => f.write_str("0..1 or 0%..100%"),
            Self::Word(words) => f.write_str(&words.join(", ")),
            Self::Text => f.write_str("text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PARAMS: &[Param] = &[
        Param {
            key: "ratio",
            kind: Kind::Number(1.0, 100.0),
            default: "6",
            unit: "",
            help: "",
            source: "",
        },
        Param {
            key: "epoch",
            kind: Kind::Span(Span::from_millis(1), Span::from_secs(1)),
            default: "5ms",
            unit: "",
            help: "",
            source: "",
        },
        Param {
            key: "mode",
            kind: Kind::Word(&["paper", "code"]),
            default: "paper",
            unit: "",
            help: "",
            source: "",
        },
        Param { key: "file", kind: Kind::Text, default: "", unit: "", help: "", source: "" },
    ];

    fn said(rest: &str) -> String {
        Args::parse("x", rest, PARAMS).unwrap_err().to_string()
    }

    #[test]
    fn defaults_fill_what_is_not_given() {
        let args = Args::parse("x", "epoch=20ms", PARAMS).unwrap();
        assert_eq!(args.number("ratio"), 6.0);
        assert_eq!(args.span("epoch"), Span::from_millis(20));
        assert_eq!(args.word("mode"), "paper");
        assert_eq!(args.text("file"), None);
    }

    #[test]
    fn what_was_loaded_is_shared() {
        let mut args = Args::parse("x", "file=a", PARAMS).unwrap();
        args.load(Arc::new(7_u32));
        let other = args.clone();
        assert!(Arc::ptr_eq(&args.loaded::<u32>(), &other.loaded::<u32>()));
        assert_eq!(args.text("file"), Some("a"));
        assert_eq!(args, Args::parse("x", "file=a", PARAMS).unwrap());
    }

    #[test]
    fn errors_name_the_key_and_the_nearest() {
        assert_eq!(said("epcoh=5ms"), "`x` has no parameter `epcoh`; did you mean `epoch`?");
        assert_eq!(
            said("zzzzzzzz=5"),
            "`x` has no parameter `zzzzzzzz`; it has ratio, epoch, mode, file"
        );
        assert_eq!(said("ratio"), "`x`: `ratio` should be key=value");
        assert_eq!(said("ratio=2,ratio=3"), "`x`: `ratio` is given twice");
        assert_eq!(said("ratio=0.5"), "`x`: ratio=0.5 is out of range; allowed: 1..100");
        assert_eq!(said("epoch=5"), "`x`: epoch: `5` needs a unit; write a time like 40ms or 60s");
        assert_eq!(said("mode=both"), "`x`: mode=both is out of range; allowed: paper, code");
        assert!(said("ratio=NaN").contains("ratio"));
    }

    #[test]
    fn nearest_is_silent_when_nothing_is_near() {
        assert_eq!(nearest("cubik", ["cubic", "copa"]), Some("cubic"));
        assert_eq!(nearest("warp-drive", ["cubic", "copa"]), None);
        assert_eq!(nearest("R", ["m", "r"]), Some("r"));
        assert_eq!(nearest("CUBIC", ["cubic", "copa"]), Some("cubic"));
        assert_eq!(nearest(&"cubic".repeat(1 << 20), ["cubic"]), None);
    }
}
