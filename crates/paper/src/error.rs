//! Why a claim could not be read or run.

use thiserror::Error;

/// Why a claim could not be read or run. The text names the claim and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PaperError {
    /// What was asked for, or a claim file, makes no sense; nothing was run.
    #[error("{0}")]
    Invalid(String),
    /// A run failed.
    #[error("{0}")]
    Failed(String),
}
