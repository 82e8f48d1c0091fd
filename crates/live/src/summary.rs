//! What all connections add up to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ByteSums {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
}

/// What all connections add up to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    pub(crate) open: u64,
    /// Connections up to now.
    pub(crate) total: u64,
    /// Those that have ended included.
    pub(crate) sums: ByteSums,
    /// Bit/s between the last two readings.
    pub(crate) rate_bps: Option<f64>,
    pub(crate) in_flight: u64,
    pub(crate) queued: u64,
    pub(crate) rtt: Option<MedianAndTail>,
    pub(crate) queue_delay: Option<MedianAndTail>,
    pub(crate) cwnd: Option<MedianAndTail>,
    /// Open connections by their controllers' phases.
    pub(crate) phases: BTreeMap<&'static str, u64>,
}

/// Median and 95th percentile over the open connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MedianAndTail {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
}

impl Summary {
    pub(crate) fn to_json(&self) -> Value {
        let scaled = |quantiles: Option<MedianAndTail>| {
            quantiles
                .map(|both| json!({ "p50": round(both.p50 * 1e3), "p95": round(both.p95 * 1e3) }))
        };
        json!({
            "open": self.open,
            "total": self.total,
            "rate_mbps": self.rate_bps.map(|rate| round(rate / 1e6)),
            "sent_bytes": self.sums.sent,
            "delivered_bytes": self.sums.delivered,
            "received_bytes": self.sums.received,
            "lost": self.sums.lost,
            "in_flight_bytes": self.in_flight,
            "queued_bytes": self.queued,
            "rtt_ms": scaled(self.rtt),
            "queue_ms": scaled(self.queue_delay),
            "phases": self.phases,
        })
    }
}

/// To three digits after the point: more would only pretend.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
