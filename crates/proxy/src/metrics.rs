//! Figures in the text format of Prometheus.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::Span;
use cellpace_tcp::{FlowHandle, FlowStats};
use prometheus::core::Collector;
use prometheus::{GaugeVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};

/// What a proxy counts.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    connections_open: IntGauge,
    connections: IntCounter,
    accept_errors: IntCounter,
    refused: IntCounterVec,
    ended: IntCounterVec,
    to_client: IntCounter,
    to_upstream: IntCounter,
    flows_open: IntGauge,
    flows: IntCounter,
    uncontrolled: IntCounter,
    rtt: GaugeVec,
    window: GaugeVec,
    in_flight: IntGauge,
    queued: IntGauge,
    retransmissions: IntCounter,
    blocks: IntCounter,
    open: Mutex<OpenFlows>,
}

/// Flows that are open, with what of them is counted already.
#[derive(Debug, Default)]
struct OpenFlows {
    next: u64,
    flows: HashMap<u64, (FlowHandle, Counted)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    retransmissions: u64,
    blocks: u64,
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
        let gauges = |name, help, label: &str| {
            registered(&registry, GaugeVec::new(opts(name, help), &[label]))
        };
        let bytes = counters("bytes_total", "Bytes passed on.", "direction");
        let inner = Inner {
            connections_open: gauge("connections_open", "Connections of clients that are open."),
            connections: counter("connections_total", "Connections of clients taken."),
            accept_errors: counter(
                "accept_errors_total",
                "Connections that could not be taken, mostly for want of descriptors.",
            ),
            refused: counters("refused_total", "Connections that were not served.", "reason"),
            ended: counters("ended_total", "Connections that were served and ended.", "how"),
            to_client: bytes.with_label_values(&["to_client"]),
            to_upstream: bytes.with_label_values(&["to_upstream"]),
            flows_open: gauge("flows_open", "TCP connections under a controller that are open."),
            flows: counter("flows_total", "TCP connections put under a controller."),
            uncontrolled: counter(
                "uncontrolled_total",
                "TCP connections that could not be put under a controller and stayed plain.",
            ),
            rtt: gauges("rtt_seconds", "Smoothed RTT over open flows.", "stat"),
            window: gauges("window_bytes", "Controllers' windows over open flows.", "stat"),
            in_flight: gauge("in_flight_bytes", "Bytes in flight, all open flows."),
            queued: gauge("queued_bytes", "Bytes that wait for controllers, all open flows."),
            retransmissions: counter("retransmissions_total", "Segments that TCP sent again."),
            blocks: counter("blocks_total", "How often TCP refused what a controller allowed."),
            open: Mutex::default(),
            registry,
        };
        Self(Arc::new(inner))
    }

    /// The figures of now, in the text format 0.0.4.
    pub fn text(&self) -> String {
        self.refresh();
        let families = self.0.registry.gather();
        // Encoding fails only for families without a name or metrics, and there are none.
        TextEncoder::new().encode_to_string(&families).unwrap_or_default()
    }

    pub(crate) fn accepted(&self) -> OpenConnection {
        self.0.connections.inc();
        self.0.connections_open.inc();
        OpenConnection(self.clone())
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

    pub(crate) fn stayed_plain(&self) {
        self.0.uncontrolled.inc();
    }

    pub(crate) fn to_client(&self) -> &IntCounter {
        &self.0.to_client
    }

    pub(crate) fn to_upstream(&self) -> &IntCounter {
        &self.0.to_upstream
    }

    /// Follows a flow until the returned guard is dropped.
    pub(crate) fn follow(&self, flow: FlowHandle) -> OpenFlow {
        self.0.flows.inc();
        self.0.flows_open.inc();
        let mut open = self.open();
        let id = open.next;
        open.next += 1;
        open.flows.insert(id, (flow, Counted::default()));
        OpenFlow { metrics: self.clone(), id }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, OpenFlows> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings what belongs to flows up to date.
    fn refresh(&self) {
        let mut open = self.open();
        let mut all = Vec::with_capacity(open.flows.len());
        for (flow, counted) in open.flows.values_mut() {
            let stats = flow.stats();
            self.count(&stats, counted);
            all.push(stats);
        }
        drop(open);
        let sum = |figure: fn(&FlowStats) -> u64| -> i64 {
            let sum = all.iter().map(figure).fold(0, u64::saturating_add);
            i64::try_from(sum).unwrap_or(i64::MAX)
        };
        self.0.in_flight.set(sum(|stats| stats.in_flight));
        self.0.queued.set(sum(|stats| stats.queued_bytes));
        let rtts = all.iter().filter_map(|stats| stats.srtt).map(Span::as_secs_f64);
        set(&self.0.rtt, &rtts.collect::<Vec<_>>());
        let windows = all.iter().map(|stats| stats.cwnd).filter(|&cwnd| cwnd != u64::MAX);
        set(&self.0.window, &windows.map(|cwnd| cwnd as f64).collect::<Vec<_>>());
    }

    /// Adds what has happened since the last time.
    fn count(&self, stats: &FlowStats, counted: &mut Counted) {
        let newer = |now: u64, then: &mut u64| now.saturating_sub(std::mem::replace(then, now));
        self.0.retransmissions.inc_by(newer(stats.retransmissions, &mut counted.retransmissions));
        self.0.blocks.inc_by(newer(stats.blocks, &mut counted.blocks));
    }
}

/// Smallest, mean and largest; nothing where there is no value.
fn set(gauges: &GaugeVec, values: &[f64]) {
    gauges.reset();
    if values.is_empty() {
        return;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(0.0, f64::max);
    for (stat, value) in [("min", min), ("mean", mean), ("max", max)] {
        gauges.with_label_values(&[stat]).set(value);
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

/// Is followed until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenFlow {
    metrics: Metrics,
    id: u64,
}

impl Drop for OpenFlow {
    fn drop(&mut self) {
        self.metrics.0.flows_open.dec();
        let ended = self.metrics.open().flows.remove(&self.id);
        if let Some((flow, mut counted)) = ended {
            self.metrics.count(&flow.stats(), &mut counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_and_closed_connections_are_counted_apart() {
        let metrics = Metrics::new();
        let (one, two) = (metrics.accepted(), metrics.accepted());
        drop(one);
        metrics.refused("socks");
        metrics.to_client().inc_by(7);
        let text = metrics.text();
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
        assert!(metrics.text().contains("cellpace_proxy_connections_open 0\n"));
    }

    #[test]
    fn figures_over_flows_are_absent_without_flows() {
        let metrics = Metrics::new();
        assert!(!metrics.text().contains("rtt_seconds{"));
        set(&metrics.0.rtt, &[0.5, 0.25]);
        assert_eq!(metrics.0.rtt.with_label_values(&["mean"]).get(), 0.375);
        assert_eq!(metrics.0.rtt.with_label_values(&["min"]).get(), 0.25);
        assert_eq!(metrics.0.rtt.with_label_values(&["max"]).get(), 0.5);
    }

    #[test]
    fn counters_of_flows_count_each_event_once() {
        let metrics = Metrics::new();
        let mut counted = Counted::default();
        for retransmissions in [2, 2, 5] {
            let stats = FlowStats { retransmissions, ..FlowStats::default() };
            metrics.count(&stats, &mut counted);
        }
        assert_eq!(metrics.0.retransmissions.get(), 5);
    }
}
