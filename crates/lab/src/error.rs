//! Why an experiment was not done.

use std::fmt::Display;

use thiserror::Error;

/// Why an experiment was not done, or not all of it. The text names what was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LabError {
    /// What was asked for makes no sense or cannot be read; nothing was done.
    #[error("{0}")]
    Invalid(String),
    /// It was begun and did not work.
    #[error("{0}")]
    Failed(String),
}

impl LabError {
    /// What was asked for makes no sense.
    pub fn invalid(error: impl Display) -> Self {
        Self::Invalid(error.to_string())
    }

    /// It did not work.
    pub fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }
}
