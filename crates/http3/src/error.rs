//! Why something failed.

use cellpace_quic::FactoryError;
use cellpace_quic::identity::IdentityError;

/// Why a server cannot be started, or a download failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Http3Error {
    /// The controller cannot run inside QUIC.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A file, a folder or a socket.
    #[error("{name}: {error}")]
    System {
        /// Which one.
        name: String,
        /// The system's words.
        error: std::io::Error,
    },
    /// There is no connection, or it ended.
    #[error("{0}")]
    Connection(String),
    /// The server answers otherwise than with the file.
    #[error("the server answers {0}")]
    Status(http::StatusCode),
    /// Fewer or more bytes came than the server has announced.
    #[error("{received} bytes came of {announced}")]
    Length {
        /// The header content-length.
        announced: u64,
        /// What came.
        received: u64,
    },
}

impl Http3Error {
    pub(crate) fn system(name: impl Into<String>, error: std::io::Error) -> Self {
        Self::System { name: name.into(), error }
    }

    pub(crate) fn connection(error: impl Into<Box<dyn std::error::Error>>) -> Self {
        Self::Connection(error.into().to_string())
    }
}
