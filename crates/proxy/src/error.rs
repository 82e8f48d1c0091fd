//! What can go wrong.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::proxy_header::HeaderError;
use crate::socks5::SocksError;

/// Why a proxy does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A service manager passed a socket that the configuration does not name.
    #[error("the service manager passed a socket for {0}, where this proxy does not listen")]
    Passed(SocketAddr),
    /// The system does not let us take connections to others.
    #[error("cannot take connections to other addresses (that needs CAP_NET_ADMIN): {0}")]
    Transparent(#[source] io::Error),
    /// The rules that redirect connections cannot be made.
    #[error("cannot make the rules that redirect connections ({what}): {source}")]
    Rules {
        /// Which one.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why a connection was not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The client's SOCKS is wrong, or it may not be served.
    #[error("SOCKS: {0}")]
    Socks(#[from] SocksError),
    /// The header of the PROXY protocol is wrong or missing.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The client's request did not arrive in time.
    #[error("the client did not send its request in time")]
    Silent,
    /// The client went away before it was served.
    #[error("the client went away: {0}")]
    Gone(#[source] io::Error),
    /// The destination cannot be reached.
    #[error("cannot reach {target}: {source}")]
    Unreachable {
        /// The destination.
        target: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The client has the maximum number of connections.
    #[error("the client has the maximum number of connections")]
    TooMany,
    /// The destination is the proxy itself.
    #[error("the connection was made to the proxy itself")]
    Loop,
    /// Something that a connection needs is missing.
    #[error("cannot set up the connection: {0}")]
    Setup(#[source] io::Error),
}

impl ConnectionError {
    /// A word for the metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Socks(_) => "socks",
            Self::Header(_) => "proxy_header",
            Self::Silent => "handshake_timeout",
            Self::Gone(_) => "client_gone",
            Self::TooMany => "client_limit",
            Self::Unreachable { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                "denied"
            }
            Self::Unreachable { .. } => "unreachable",
            Self::Loop => "loop",
            Self::Setup(_) => "setup",
        }
    }
}
