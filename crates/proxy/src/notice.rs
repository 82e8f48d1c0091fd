//! How a proxy is asked to stop, and the notices that it reports.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cellpace_experiment::ConnectionRecord;
use cellpace_tcp::{FlowHandle, TcpError};
use tokio::sync::watch;

use crate::error::ConnectionError;
use crate::socks5::Target;

/// What became of a connection.
#[derive(Debug)]
pub struct ServedConnection {
    /// The client: from a header of the PROXY protocol, or else the peer of the connection.
    pub client: SocketAddr,
    /// The destination, if it became known.
    pub target: Option<Target>,
    /// Bytes that were passed on towards the client.
    pub to_client: u64,
    /// Bytes that were passed on towards the destination.
    pub to_upstream: u64,
    /// From accepting to closing.
    pub lasted: Duration,
    /// How it ended, or why it was not served.
    pub how: Result<ConnectionEnd, ConnectionError>,
}

/// A side of a connection that is under a controller from now on.
#[derive(Debug, Clone)]
pub struct ControlledFlow {
    /// Its number, from 0.
    pub number: u64,
    /// Whether the proxy opened it, towards the destination.
    pub outgoing: bool,
    /// The proxy's address.
    pub local: SocketAddr,
    /// The address of the peer: the client, or the destination.
    pub peer: SocketAddr,
    /// Its figures and its end.
    pub flow: FlowHandle,
}

/// How a connection that was served ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Both directions ended in order.
    Finished,
    /// One side was reset, and so the other was.
    Reset,
    /// No byte moved for too long.
    Idle,
    /// The proxy ended before it.
    Cut,
}

impl ConnectionEnd {
    /// A word for logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Reset => "reset",
            Self::Idle => "idle",
            Self::Cut => "cut",
        }
    }
}

/// How urgently a proxy must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum StopUrgency {
    /// Not at all.
    #[default]
    No,
    /// Take no more connections, and let those that are open end.
    Drain,
    /// Cut them.
    Now,
}

/// An event that the caller may want to log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// A side of a connection is under a controller.
    Controlled(ControlledFlow),
    /// A connection ended.
    Closed(ServedConnection),
    /// The same of one in an experiment.
    Recorded(ConnectionRecord),
    /// No connection can be accepted; reported once until one is accepted again.
    AcceptFailed(io::Error),
    /// A connection continues without a controller.
    Uncontrolled(TcpError),
}

pub(crate) type NoticeSink = Arc<dyn Fn(Notice) + Send + Sync>;

/// Waits until it is at least that urgent.
pub(crate) async fn at_least(stop: &mut watch::Receiver<StopUrgency>, urgency: StopUrgency) {
    // An error means that the sender was dropped, after which the urgency counts as the highest.
    let _ = stop.wait_for(|now| *now >= urgency).await;
}
