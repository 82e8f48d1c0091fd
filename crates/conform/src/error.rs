//! What can go wrong.

use std::fmt::Display;

use cellpace_lab::LabError;
use thiserror::Error;

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConformError {
    /// A scenario or a controller contradicts itself.
    #[error("{0}")]
    Invalid(String),
    /// A simulated run failed.
    #[error(transparent)]
    Simulation(#[from] LabError),
}

impl ConformError {
    pub(crate) fn invalid(error: impl Display) -> Self {
        Self::Invalid(error.to_string())
    }
}
