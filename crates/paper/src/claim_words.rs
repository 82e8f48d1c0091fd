//! Values of runs: texts and numbers, one or several.

use serde::Deserialize;

/// One value or several, each of which is a place on an axis.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One value.
    One(Word),
    /// Several.
    Many(Vec<Word>),
}

/// A text or a number in its place.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Word {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A number.
    Float(f64),
}

impl Word {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
        }
    }
}

impl OneOrMany {
    pub(crate) fn texts(&self) -> Vec<String> {
        match self {
            Self::One(word) => vec![word.text()],
            Self::Many(words) => words.iter().map(Word::text).collect(),
        }
    }
}
