//! One line that a person can act on, and the exit code that scripts rely on.

use std::process::ExitCode;

use cellpace_lab::{FieldError, LabError};
use thiserror::Error;

/// Why a command ended without doing what it was asked.
#[derive(Debug, Error)]
pub(crate) enum CommandError {
    /// The command line is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The command line is right, and yet it did not work: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl CommandError {
    /// Wrong usage.
    pub(crate) fn usage(error: impl std::fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// A failed run.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// The same error of what `text` names.
    pub(crate) fn before(self, text: &str) -> Self {
        match self {
            Self::Usage(error) => Self::Usage(format!("{text}{error}")),
            Self::Failed(error) => Self::Failed(format!("{text}{error}")),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
        })
    }
}

impl From<LabError> for CommandError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Invalid(text) => Self::Usage(text),
            LabError::Field(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

/// A field of a scenario is an option of the same name.
impl From<FieldError> for CommandError {
    fn from(error: FieldError) -> Self {
        Self::Usage(format!("{}: {}", error.option(), error.why))
    }
}

/// Says which option an error is about.
pub(crate) fn named<T>(
    option: &str,
    result: Result<T, impl std::fmt::Display>,
) -> Result<T, CommandError> {
    result.map_err(|error| CommandError::usage(format!("{option}: {error}")))
}
