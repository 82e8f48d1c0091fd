//! Why a run could not be.

use cellpace_base::Time;

use crate::FactoryError;

/// Why a run could not be.
#[derive(Debug, thiserror::Error)]
pub enum VirtualTimeError {
    /// The controller cannot run inside QUIC.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The scenario contradicts itself or has what a QUIC library does not do.
    #[error(transparent)]
    Scenario(#[from] cellpace_sim::SimError),
    /// The library refused its configuration.
    #[error("the QUIC library: {0}")]
    Library(String),
    /// The connection ended before its time.
    #[error("the connection ended after {:.3} s: {reason}", at.as_secs_f64())]
    Ended {
        /// When.
        at: Time,
        /// The library's words.
        reason: String,
    },
    /// A timer fires again and again at the same instant.
    #[error("the connection makes no progress after {:.3} s", .0.as_secs_f64())]
    Stuck(Time),
}
