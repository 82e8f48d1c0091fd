//! The result document, schema `cellpace.transfer/1`.

use cellpace_measure::{Summary, VideoFigures};
use serde::Serialize;

use super::series::TransferSeries;

/// Name and version of the schema. Fields are only added within a version.
pub const SCHEMA: &str = "cellpace.transfer/1";

/// One run of `send` or `recv`.
#[derive(Debug, Serialize)]
pub struct TransferDocument {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The program's version.
    pub version: &'static str,
    /// The command line, without where results go.
    pub command: String,
    /// `send` or `recv`.
    pub role: &'static str,
    /// `reliable` or `unreliable`.
    pub mode: &'static str,
    /// `quic` where the flows were inside QUIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'static str>,
    /// Largest IP packet in bytes on this side.
    pub mtu: u16,
    /// Seed of the controllers.
    pub seed: u64,
    /// From the first flow's beginning to the last one's end.
    pub duration_s: f64,
    /// Datagrams that the system refused to send; to the flows they were lost.
    pub refused_by_system: u64,
    /// Each flow, in the order of their beginning.
    pub flows: Vec<TransferFlowDocument>,
}

/// One flow.
#[derive(Debug, Serialize)]
pub struct TransferFlowDocument {
    /// The controller's text; empty at a receiver.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cc: String,
    /// The other side's address.
    pub peer: String,
    /// When it began, in seconds from the start of the run; null: never.
    pub start_s: Option<f64>,
    /// When it ended.
    pub stop_s: Option<f64>,
    /// Why it failed; null: it did not.
    pub error: Option<String>,
    /// Payload bytes that arrived. Of a flow over QUIC that was cut, its sender knows the packets that
    /// arrived, and takes 34 bytes of each for QUIC's own.
    pub bytes: u64,
    /// Rate of the packets that arrived, IP headers included, in Mbit/s, from start to stop.
    pub throughput_mbps: f64,
    /// Rate of the payload that arrived, in Mbit/s.
    pub goodput_mbps: f64,
    /// Packets that left, or at a receiver those that arrived.
    pub packets: u64,
    /// Packets that were lost. A receiver counts those that never came; over QUIC it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Packets that arrived marked (ECN), where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<u64>,
    /// Whether the path carries ECN, where this side sends and its controller wants it: `untested`,
    /// `capable`, or why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<&'static str>,
    /// Packets that carried data sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
    /// Retransmission timeouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// RTT as the sender saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms_seen: Option<Summary>,
    /// Smallest RTT in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ms: Option<f64>,
    /// RTT above the smallest: how long packets waited in queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_delay_ms: Option<Summary>,
    /// Packets that came twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<u64>,
    /// Acknowledgments that left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<u64>,
    /// BLAKE3 hash of what arrived, at a receiver of a reliable flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
    /// Its frames, where it is a video that this side sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoFigures>,
    /// Second by second.
    pub intervals: Vec<TransferInterval>,
    /// The flow over time, finer and in a bounded number of bins.
    pub series: TransferSeries,
}

/// One flow during about a second.
#[derive(Debug, Clone, Serialize)]
pub struct TransferInterval {
    /// From, in seconds from the flow's beginning.
    pub start_s: f64,
    /// To.
    pub stop_s: f64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Rate of the packets that arrived, IP headers included, in Mbit/s.
    pub throughput_mbps: f64,
    /// Packets lost; not at a receiver over QUIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Mean RTT; null: no sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Bytes in flight at its end, IP headers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Congestion window in bytes at its end; null: the controller has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd: Option<u64>,
}
