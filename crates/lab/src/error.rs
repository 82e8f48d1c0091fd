//! Why an experiment was not done.

use std::fmt::Display;

use cellpace_path::FieldError;
use cellpace_sim::SimError;
use thiserror::Error;

/// Why an experiment was not done, or not all of it. The text names what was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LabError {
    /// What was asked for makes no sense or cannot be read; nothing was done.
    #[error("{0}")]
    Invalid(String),
    /// The same, and one field is to blame.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// It was begun and did not work.
    #[error("{0}")]
    Failed(String),
}

impl From<SimError> for LabError {
    /// A scenario that contradicts itself.
    fn from(error: SimError) -> Self {
        match error {
            SimError::Field(error) => Self::Field(error),
            error @ SimError::Stopped { .. } => Self::failed(error),
            error => Self::invalid(error),
        }
    }
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
