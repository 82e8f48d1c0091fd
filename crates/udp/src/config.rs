//! Settings of an endpoint, and what it does with the flows of others.

use std::net::SocketAddr;

use cellpace_cc::ControllerSpec;
use cellpace_recovery::AckPolicy;
use cellpace_recovery::VideoSpec;

use crate::connection::Patience;
use crate::local_path::headers;
use crate::protection::Protection;
use cellpace_base::quota::{LISTENER_MEMORY, NetworkShares, network_memory, network_places};

/// The smallest and the largest IP packet that can be asked for.
pub const MTU_RANGE: std::ops::RangeInclusive<u16> = 1280..=9000;

/// Settings of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Largest IP packet in bytes, within [`MTU_RANGE`]; the smaller one of both sides counts.
    pub mtu: u16,
    /// Bytes of a stream that are held on either side of a flow at most.
    pub buffer: u64,
    /// Bytes of memory for what arrives, all flows together; at least [`buffer`](Self::buffer).
    /// The flows of one address (of 64 bits of an IPv6 address) get a quarter of it, or
    /// [`buffer`](Self::buffer) if that is more. When it is used up, what arrives out of order is
    /// dropped, and sent again later; what arrives in order is still taken.
    pub memory: u64,
    /// How long the other side may be silent.
    pub patience: Patience,
    /// Seed of the controllers' random numbers.
    pub seed: u64,
    /// When this side acknowledges, if it receives.
    pub acks: AckPolicy,
    /// How datagrams are protected; the same on both sides.
    pub protection: Protection,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            buffer: 16 << 20,
            memory: LISTENER_MEMORY,
            patience: Patience::default(),
            seed: 1,
            acks: AckPolicy::EveryPacket,
            protection: Protection::default(),
        }
    }
}

impl EndpointConfig {
    pub(crate) fn delays_acks(&self) -> bool {
        matches!(self.acks, AckPolicy::Delayed(_))
    }

    /// Returns by how many bytes an IP packet to `peer` is longer than its datagram without a key.
    pub(crate) fn overhead(&self, peer: SocketAddr) -> usize {
        headers(peer) + self.protection.extra_bytes()
    }

    pub(crate) fn shares(&self) -> NetworkShares {
        let memory = self.memory.max(self.buffer);
        NetworkShares::new(memory, network_memory(memory, self.buffer))
    }
}

/// Flows that others may begin.
#[derive(Debug, Clone)]
pub struct Listen {
    /// Flows at the same time.
    pub most_flows: usize,
    /// Flows of one address (64 bits of an IPv6 address) where this side receives; by default a quarter
    /// of all, but at least 64, as one sender may have so many side by side.
    pub max_per_client: Option<usize>,
    /// What the endpoint does with them.
    pub offer: Offer,
}

impl Listen {
    /// Flows that one address may have.
    pub(crate) fn network_flows(&self) -> usize {
        self.max_per_client.unwrap_or_else(|| network_places(self.most_flows))
    }
}

/// What a listening endpoint does with the flows of others.
#[derive(Debug, Clone)]
pub enum Offer {
    /// It receives.
    Receive,
    /// It sends, one flow under each controller, in turn.
    Send {
        /// The controllers.
        controllers: Vec<ControllerSpec>,
        /// Lost packets are not sent again.
        unreliable: bool,
        /// How long an unreliable flow is, if it ends by itself.
        bytes: Option<u64>,
        /// What an unreliable flow is made of, in place of bytes without an end.
        video: Option<VideoSpec>,
    },
}

/// The flow that an initiator wants.
#[derive(Debug, Clone)]
pub struct FlowRequest {
    /// The controller of this side, which sends; without one it receives.
    pub controller: Option<ControllerSpec>,
    /// Lost packets are not sent again. The sender decides this.
    pub unreliable: bool,
}
