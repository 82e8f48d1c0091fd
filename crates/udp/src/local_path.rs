//! Names of flows and of ways to the network.

use std::net::{IpAddr, SocketAddr};

use cellpace_base::Ecn;

/// Names a flow within its endpoint. This is the connection id, which is secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub(crate) u64);

impl std::fmt::Debug for FlowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowId(..)")
    }
}

/// A way to the network: one of the owner's sockets, and which of its addresses is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalPath {
    /// Number of the socket, given by the owner.
    pub socket: usize,
    /// The address of this side that the other side knows. A socket may have several, and an
    /// answer must come from the one that was asked.
    pub local: Option<IpAddr>,
}

impl From<usize> for LocalPath {
    fn from(socket: usize) -> Self {
        Self { socket, local: None }
    }
}

/// A datagram that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingDatagram {
    /// Destination address.
    pub to: SocketAddr,
    /// The way it takes.
    pub way: LocalPath,
    /// Length in bytes.
    pub bytes: usize,
    /// The codepoint of its IP header.
    pub ecn: Ecn,
}

/// Bytes of the IP and UDP headers of a packet to `peer`.
pub(crate) fn headers(peer: SocketAddr) -> usize {
    if peer.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 }
}
