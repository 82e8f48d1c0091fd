//! The packets of one flow in their order, over time: as many as a page holds.

use serde::{Deserialize, Serialize};

/// What a page draws of a flow's packets. Times are in units of 10 microseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct PacketSequence {
    /// The flow's name, the same as in the other charts.
    pub(crate) name: String,
    /// Of so many packets that arrived, one is drawn.
    pub(crate) every: u64,
    /// When each was sent: the first, and the time from each to the next.
    pub(crate) sent: Vec<i64>,
    /// How long each took until it had left the link.
    pub(crate) took: Vec<i64>,
    /// Bytes that had arrived with it since the one before.
    pub(crate) bytes: Vec<u64>,
    /// When lost packets were sent.
    pub(crate) lost: Vec<i64>,
    /// How many were lost, also those that are not in `lost`.
    pub(crate) losses: u64,
}

/// How a flow of a log is called; `None` is all that are taken together.
pub(crate) fn flow_name(number: Option<u32>, cc: &str) -> String {
    match number {
        Some(number) => format!("flow {number}: {cc}"),
        None => "all others".to_owned(),
    }
}
