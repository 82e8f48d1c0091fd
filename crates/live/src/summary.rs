//! What all connections add up to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::figures::ConnectionFigures;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ByteSums {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
}

/// Which controller connections have, and who keeps to its window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// Empty where that means nothing, as the driver.
    pub(crate) controller: Arc<str>,
    pub(crate) driver: &'static str,
}

/// Counts and sums of connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub(crate) open: u64,
    /// Connections up to now.
    pub(crate) total: u64,
    /// Those that have ended included.
    pub(crate) sums: ByteSums,
    pub(crate) in_flight: u64,
    pub(crate) queued: u64,
    /// Open connections by their controllers' phases.
    pub(crate) phases: BTreeMap<&'static str, u64>,
}

/// What all connections add up to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    pub(crate) all: Totals,
    pub(crate) groups: BTreeMap<Group, Totals>,
    /// Bit/s between the last two readings.
    pub(crate) rate_bps: Option<f64>,
    pub(crate) rtt: Option<MedianAndTail>,
    pub(crate) queue_delay: Option<MedianAndTail>,
    /// Bit/s that the link offers, where the command knows.
    pub(crate) capacity_bps: Option<f64>,
}

/// Median and 95th percentile over the open connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MedianAndTail {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
}

impl ByteSums {
    fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.received = self.received.saturating_add(other.received);
        self.lost = self.lost.saturating_add(other.lost);
    }
}

impl From<&ConnectionFigures> for ByteSums {
    fn from(figures: &ConnectionFigures) -> Self {
        Self {
            sent: figures.sent_bytes,
            delivered: figures.delivered_bytes,
            received: figures.received_bytes,
            lost: figures.lost,
        }
    }
}

impl Totals {
    /// Adds a connection that is open, and counted.
    pub(crate) fn add_open(&mut self, figures: &ConnectionFigures) {
        self.add_bytes(figures);
        self.in_flight += figures.in_flight.unwrap_or(0);
        self.queued += figures.queued.unwrap_or(0);
        if let Some(phase) = figures.phase {
            *self.phases.entry(phase).or_default() += 1;
        }
    }

    /// Adds what a connection has moved.
    pub(crate) fn add_bytes(&mut self, figures: &ConnectionFigures) {
        self.sums.add(&figures.into());
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.open += other.open;
        self.total += other.total;
        self.sums.add(&other.sums);
        self.in_flight += other.in_flight;
        self.queued += other.queued;
        for (phase, count) in &other.phases {
            *self.phases.entry(phase).or_default() += count;
        }
    }
}

impl Summary {
    pub(crate) fn to_json(&self) -> Value {
        let scaled = |quantiles: Option<MedianAndTail>| {
            quantiles
                .map(|both| json!({ "p50": round(both.p50 * 1e3), "p95": round(both.p95 * 1e3) }))
        };
        json!({
            "open": self.all.open,
            "total": self.all.total,
            "rate_mbps": self.rate_bps.map(|rate| round(rate / 1e6)),
            "sent_bytes": self.all.sums.sent,
            "delivered_bytes": self.all.sums.delivered,
            "received_bytes": self.all.sums.received,
            "lost": self.all.sums.lost,
            "in_flight_bytes": self.all.in_flight,
            "queued_bytes": self.all.queued,
            "rtt_ms": scaled(self.rtt),
            "queue_ms": scaled(self.queue_delay),
            "phases": self.all.phases,
            "capacity_mbps": self.capacity_bps.map(|rate| round(rate / 1e6)),
            "controllers": self.controllers(),
        })
    }

    /// Sums for each controller, where there are several: the arms of an experiment.
    fn controllers(&self) -> Vec<Value> {
        let mut all: BTreeMap<&str, Totals> = BTreeMap::new();
        for (group, totals) in &self.groups {
            all.entry(&group.controller).or_default().add(totals);
        }
        let one = |(controller, totals): (&&str, &Totals)| {
            json!({
                "controller": controller,
                "open": totals.open,
                "total": totals.total,
                "delivered_bytes": totals.sums.delivered,
                "lost": totals.sums.lost,
            })
        };
        if all.len() > 1 { all.iter().map(one).collect() } else { Vec::new() }
    }
}

/// To three digits after the point: more would only pretend.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
