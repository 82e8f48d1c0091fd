//! Why a run could not be.

use crate::FactoryError;

/// Why a run could not be.
#[derive(Debug, thiserror::Error)]
pub enum VirtualTimeError {
    /// The controller cannot run inside QUIC.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The scenario contradicts itself or has what a QUIC library does not do, or a connection ended
    /// before its time.
    #[error(transparent)]
    Scenario(#[from] cellpace_sim::SimError),
    /// The library refused its configuration.
    #[error("the QUIC library: {0}")]
    Library(String),
}
