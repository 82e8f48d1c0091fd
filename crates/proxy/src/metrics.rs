//! Figures for Prometheus: those of connections of clients. The command's live view has those of the
//! flows under controllers.

use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// What a proxy counts.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    connections_open: IntGauge,
    connections_max: IntGauge,
    config_read: IntGauge,
    connections: IntCounter,
    accept_errors: IntCounter,
    refused: IntCounterVec,
    ended: IntCounterVec,
    to_client: IntCounter,
    to_upstream: IntCounter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

const FIXED: &str = "names are fixed, valid and different";

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(format!("cellpace_proxy_{name}"), help)
}

/// Something to register, registered.
fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    made: prometheus::Result<C>,
) -> C {
    let made = made.expect(FIXED);
    registry.register(Box::new(made.clone())).expect(FIXED);
    made
}

impl Metrics {
    /// All zeros.
    pub fn new() -> Self {
        let registry = Registry::new();
        let counter = |name, help| registered(&registry, IntCounter::with_opts(opts(name, help)));
        let gauge = |name, help| registered(&registry, IntGauge::with_opts(opts(name, help)));
        let counters = |name, help, label: &str| {
            registered(&registry, IntCounterVec::new(opts(name, help), &[label]))
        };
        let bytes = counters("bytes_total", "Bytes passed on.", "direction");
        let inner = Inner {
            connections_open: gauge("connections_open", "Connections of clients that are open."),
            connections_max: gauge("connections_max", "Connections of clients that may be open."),
            config_read: gauge(
                "config_last_reload_successful",
                "Whether the configuration could be read when it last was: 1 or 0.",
            ),
            connections: counter("connections_total", "Connections of clients taken."),
            accept_errors: counter(
                "accept_errors_total",
                "Connections that could not be taken, mostly for want of descriptors.",
            ),
            refused: counters("refused_total", "Connections that were not served.", "reason"),
            ended: counters("ended_total", "Connections that were served and ended.", "how"),
            to_client: bytes.with_label_values(&["to_client"]),
            to_upstream: bytes.with_label_values(&["to_upstream"]),
            registry,
        };
        inner.config_read.set(1);
        Self(Arc::new(inner))
    }

    /// Returns the figures of now.
    pub fn families(&self) -> Vec<MetricFamily> {
        self.0.registry.gather()
    }

    /// The configuration was read again, or could not be.
    pub fn reloaded(&self, is_read: bool) {
        self.0.config_read.set(is_read.into());
    }

    pub(crate) fn accepted(&self) -> OpenConnection {
        self.0.connections.inc();
        self.0.connections_open.inc();
        OpenConnection(self.clone())
    }

    pub(crate) fn set_max(&self, connections: usize) {
        self.0.connections_max.set(i64::try_from(connections).unwrap_or(i64::MAX));
    }

    pub(crate) fn accept_failed(&self) {
        self.0.accept_errors.inc();
    }

    pub(crate) fn refused(&self, reason: &str) {
        self.0.refused.with_label_values(&[reason]).inc();
    }

    pub(crate) fn ended(&self, how: &str) {
        self.0.ended.with_label_values(&[how]).inc();
    }

    pub(crate) fn to_client(&self) -> &IntCounter {
        &self.0.to_client
    }

    pub(crate) fn to_upstream(&self) -> &IntCounter {
        &self.0.to_upstream
    }
}

/// Counts as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Metrics);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.0.connections_open.dec();
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        TextEncoder::new().encode_to_string(&metrics.families()).unwrap()
    }

    #[test]
    fn open_and_closed_connections_are_counted_apart() {
        let metrics = Metrics::new();
        let (one, two) = (metrics.accepted(), metrics.accepted());
        drop(one);
        metrics.refused("socks");
        metrics.to_client().inc_by(7);
        let text = text(&metrics);
        for line in [
            "# TYPE cellpace_proxy_connections_open gauge",
            "cellpace_proxy_connections_open 1",
            "cellpace_proxy_connections_total 2",
            "cellpace_proxy_refused_total{reason=\"socks\"} 1",
            "cellpace_proxy_bytes_total{direction=\"to_client\"} 7",
            "cellpace_proxy_bytes_total{direction=\"to_upstream\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        drop(two);
        assert!(self::text(&metrics).contains("cellpace_proxy_connections_open 0\n"));
    }
}
