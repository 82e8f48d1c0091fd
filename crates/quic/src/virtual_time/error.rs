//! Why a run could not be.

use cellpace_base::Time;

use crate::FactoryError;

/// Why a run could not be.
#[derive(Debug, thiserror::Error)]
pub enum VirtualTimeError {
    /// The controller cannot run inside QUIC.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The library refused its configuration.
    #[error("the QUIC library: {0}")]
    Library(String),
    /// A timer fires again and again at the same instant.
    #[error("the connection makes no progress at {0:?}")]
    Stuck(Time),
}
