//! What can be wrong with a scenario.

use cellpace_cc::{Span, SpecError};
use cellpace_path::{FieldError, PathError};
use thiserror::Error;

/// What can be wrong with a scenario.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A controller.
    #[error(transparent)]
    Controller(#[from] SpecError),
    /// A controller that is code from outside did not go on.
    #[error("flow {flow}, {:.3} s after the start: {reason}", at.as_secs_f64())]
    Stopped {
        /// The flow, from 1.
        flow: usize,
        /// When.
        at: Span,
        /// The controller's file, and what happened.
        reason: String,
    },
    /// A field of the scenario.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The parts are fine, but not together.
    #[error("{0}")]
    Invalid(String),
    /// A scenario file.
    #[error("{file}:{line}: {reason}")]
    Toml {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The field and what is wrong with it.
        reason: String,
    },
}
