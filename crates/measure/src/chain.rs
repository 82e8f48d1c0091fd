//! Figures of links in series, and of a proxy between them.

use serde::{Deserialize, Serialize};

use crate::Summary;

/// What happened on the links of a chain, and in the proxy in front of the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChainFigures {
    /// The links in the order of data.
    pub segments: Vec<SegmentFigures>,
    /// The proxy in front of the last, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyFigures>,
}

/// One link of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentFigures {
    /// Its name.
    pub name: String,
    /// Mean rate that left it, in Mbit/s, IP headers included.
    pub throughput_mbps: f64,
    /// From arrival at its queue to leaving it.
    pub queue_delay_ms: Summary,
    /// Packets that it dropped.
    pub lost: u64,
}

/// A proxy that ends connections and begins others towards the receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProxyFigures {
    /// From a packet's arrival in order to its first leaving.
    pub time_ms: Summary,
    /// The most that one connection kept: received, and not acknowledged by the receiver.
    pub held_max_bytes: u64,
    /// Connections from the servers to the proxy.
    pub wired: LegFigures,
    /// Connections from the proxy to the receivers.
    pub radio: LegFigures,
}

/// The connections on one side of a proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LegFigures {
    /// RTT as the senders saw it.
    pub rtt_ms: Summary,
    /// Retransmission timeout after each ack.
    pub rto_ms: Summary,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}
