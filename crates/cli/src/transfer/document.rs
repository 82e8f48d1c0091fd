//! The result document, schema `cellpace.transfer/1`.

use cellpace_measure::Summary;
use serde::Serialize;

/// Name and version of the schema. Fields are only added within a version.
pub(crate) const SCHEMA: &str = "cellpace.transfer/1";

/// One run of `send` or `recv`.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    /// [`SCHEMA`].
    pub(crate) schema: &'static str,
    /// The program's version.
    pub(crate) version: &'static str,
    /// `send` or `recv`.
    pub(crate) role: &'static str,
    /// `reliable` or `unreliable`.
    pub(crate) mode: &'static str,
    /// Largest IP packet in bytes on this side.
    pub(crate) mtu: u16,
    /// Seed of the controllers.
    pub(crate) seed: u64,
    /// From the first flow's beginning to the last one's end.
    pub(crate) duration_s: f64,
    /// Datagrams that the system refused to send; to the flows they were lost.
    pub(crate) refused_by_system: u64,
    /// Each flow, in the order of their beginning.
    pub(crate) flows: Vec<FlowDocument>,
}

/// One flow.
#[derive(Debug, Serialize)]
pub(crate) struct FlowDocument {
    /// The controller's text; empty at a receiver.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cc: String,
    /// The other side's address.
    pub(crate) peer: String,
    /// When it began, in seconds from the start of the run; null: never.
    pub(crate) start_s: Option<f64>,
    /// When it ended.
    pub(crate) stop_s: Option<f64>,
    /// Why it failed; null: it did not.
    pub(crate) error: Option<String>,
    /// Payload bytes that arrived.
    pub(crate) bytes: u64,
    /// Rate of the packets that arrived, IP headers included, in Mbit/s, from start to stop.
    pub(crate) throughput_mbps: f64,
    /// Rate of the payload that arrived, in Mbit/s.
    pub(crate) goodput_mbps: f64,
    /// Packets that left, or at a receiver those that arrived.
    pub(crate) packets: u64,
    /// Packets that were lost. A receiver counts those that never came.
    pub(crate) lost: u64,
    /// Packets that carried data sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retransmissions: Option<u64>,
    /// Retransmission timeouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeouts: Option<u64>,
    /// RTT as the sender saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rtt_ms_seen: Option<Summary>,
    /// Packets that came twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duplicates: Option<u64>,
    /// Acknowledgments that left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acks: Option<u64>,
    /// BLAKE3 hash of what arrived, at a receiver of a reliable flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blake3: Option<String>,
    /// Second by second.
    pub(crate) intervals: Vec<Interval>,
}

/// One flow during about a second.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Interval {
    /// From, in seconds from the flow's beginning.
    pub(crate) start_s: f64,
    /// To.
    pub(crate) stop_s: f64,
    /// Payload bytes that arrived.
    pub(crate) bytes: u64,
    /// Rate of the packets that arrived, IP headers included, in Mbit/s.
    pub(crate) throughput_mbps: f64,
    /// Packets lost.
    pub(crate) lost: u64,
    /// Mean RTT; null: no sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rtt_ms: Option<f64>,
    /// Bytes in flight at its end, IP headers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<u64>,
    /// Congestion window in bytes at its end; null: the controller has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwnd: Option<u64>,
}
