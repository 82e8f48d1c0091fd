//! Figures for Prometheus. They name no peers: there may be ten thousand.

use prometheus::TextEncoder;
use prometheus::core::Collector;
use prometheus::proto::{Counter, Gauge, LabelPair, MetricFamily, MetricType};
use prometheus::{HistogramOpts, HistogramVec};

use crate::connections::LiveAbout;
use crate::summary::{MedianAndTail, Summary};

/// Whether a figure only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, as long as the command runs.
    Counter,
    /// It goes up and down.
    Gauge,
}

impl MetricKind {
    /// Its name in the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// A figure at `/metrics`.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: MetricKind,
    /// What it means.
    pub help: &'static str,
    /// The label that tells its samples apart; empty where it has one sample.
    pub label: &'static str,
    samples: fn(&Summary) -> Vec<(&'static str, f64)>,
}

fn one(value: u64) -> Vec<(&'static str, f64)> {
    vec![("", value as f64)]
}

fn quantiles(both: Option<MedianAndTail>) -> Vec<(&'static str, f64)> {
    both.map_or_else(Vec::new, |MedianAndTail { p50, p95 }| vec![("0.5", p50), ("0.95", p95)])
}

/// All of them, in the order of the answer. What a command does not know has no samples.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "cellpace_connections_open",
        kind: MetricKind::Gauge,
        help: "Connections that are open.",
        label: "",
        samples: |all| one(all.open),
    },
    Metric {
        name: "cellpace_connections_total",
        kind: MetricKind::Counter,
        help: "Connections up to now.",
        label: "",
        samples: |all| one(all.total),
    },
    Metric {
        name: "cellpace_sent_bytes_total",
        kind: MetricKind::Counter,
        help: "Bytes that were sent.",
        label: "",
        samples: |all| one(all.sums.sent),
    },
    Metric {
        name: "cellpace_delivered_bytes_total",
        kind: MetricKind::Counter,
        help: "Bytes that arrived at the other end.",
        label: "",
        samples: |all| one(all.sums.delivered),
    },
    Metric {
        name: "cellpace_received_bytes_total",
        kind: MetricKind::Counter,
        help: "Bytes that came from peers.",
        label: "",
        samples: |all| one(all.sums.received),
    },
    Metric {
        name: "cellpace_lost_packets_total",
        kind: MetricKind::Counter,
        help: "Segments that TCP sent again, or packets that were dropped.",
        label: "",
        samples: |all| one(all.sums.lost),
    },
    Metric {
        name: "cellpace_in_flight_bytes",
        kind: MetricKind::Gauge,
        help: "Bytes in flight, all open connections.",
        label: "",
        samples: |all| one(all.in_flight),
    },
    Metric {
        name: "cellpace_queued_bytes",
        kind: MetricKind::Gauge,
        help: "Bytes that wait for controllers, all open connections.",
        label: "",
        samples: |all| one(all.queued),
    },
    Metric {
        name: "cellpace_rtt_seconds",
        kind: MetricKind::Gauge,
        help: "Smoothed RTT: median and 95th percentile over the open connections.",
        label: "quantile",
        samples: |all| quantiles(all.rtt),
    },
    Metric {
        name: "cellpace_queue_delay_seconds",
        kind: MetricKind::Gauge,
        help: "Estimated time in queues (RTT above the smallest): over the open connections.",
        label: "quantile",
        samples: |all| quantiles(all.queue_delay),
    },
    Metric {
        name: "cellpace_window_bytes",
        kind: MetricKind::Gauge,
        help: "Controllers' windows: median and 95th percentile over the open connections.",
        label: "quantile",
        samples: |all| quantiles(all.cwnd),
    },
    Metric {
        name: "cellpace_phase_connections",
        kind: MetricKind::Gauge,
        help: "Open connections by the phase of their controllers.",
        label: "phase",
        samples: |all| all.phases.iter().map(|(phase, count)| (*phase, *count as f64)).collect(),
    },
];

/// The figures of now.
pub(crate) fn families(about: &LiveAbout, summary: &Summary) -> Vec<MetricFamily> {
    let family = |metric: &Metric| {
        let samples = (metric.samples)(summary).into_iter().map(|(of, value)| {
            let labels = [("command", about.command), (metric.label, of)];
            let count = if metric.label.is_empty() { 1 } else { 2 };
            (labels[..count].to_vec(), value)
        });
        metric_family(metric.name, metric.kind, metric.help, samples)
    };
    METRICS.iter().map(family).collect()
}

/// Returns a figure of a command's own for `/metrics`: its samples, each with the names and values of
/// its labels.
pub fn metric_family<'a>(
    name: &str,
    kind: MetricKind,
    help: &str,
    samples: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, f64)>,
) -> MetricFamily {
    let metrics = samples.into_iter().map(|(labels, value)| sample(kind, &labels, value));
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(match kind {
        MetricKind::Counter => MetricType::COUNTER,
        MetricKind::Gauge => MetricType::GAUGE,
    });
    family.set_metric(metrics.collect());
    family
}

/// A histogram of samples by one label, for `/metrics`.
#[derive(Clone)]
pub struct SampleHistogram(HistogramVec);

impl SampleHistogram {
    /// An empty one. `bounds`: the upper ends of its buckets, rising.
    ///
    /// # Panics
    /// When the names or bounds are none that Prometheus takes.
    pub fn new(name: &str, help: &str, label: &str, bounds: &[f64]) -> Self {
        let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        Self(HistogramVec::new(options, &[label]).expect("the names and bounds are constants"))
    }

    /// Takes samples.
    pub fn observe(&self, label: &str, values: impl IntoIterator<Item = f64>) {
        // Counted here first, without a lock for each.
        let samples = self.0.with_label_values(&[label]).local();
        values.into_iter().for_each(|value| samples.observe(value));
    }

    /// Returns what there is up to now.
    pub fn families(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }
}

fn sample(kind: MetricKind, labels: &[(&str, &str)], value: f64) -> prometheus::proto::Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    let mut metric = prometheus::proto::Metric::from_label(pairs.collect());
    match kind {
        MetricKind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        }
        MetricKind::Gauge => {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
    }
    metric
}

/// Figures in the text format 0.0.4, without those that have no sample.
pub(crate) fn text(mut families: Vec<MetricFamily>) -> String {
    families.retain(|family| !family.get_metric().is_empty());
    // Encoding fails only for families without a name or samples, and there are none.
    TextEncoder::new().encode_to_string(&families).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_figures_with_their_heads_and_nothing_of_what_is_not_known() {
        let mut summary = Summary { open: 2, ..Summary::default() };
        summary.rtt = Some(MedianAndTail { p50: 0.04, p95: 0.5 });
        summary.phases.insert("avoidance", 2);
        let about = LiveAbout { command: "run", ..LiveAbout::default() };
        let text = text(families(&about, &summary));
        for line in [
            "# TYPE cellpace_connections_open gauge",
            "cellpace_connections_open{command=\"run\"} 2",
            "cellpace_rtt_seconds{command=\"run\",quantile=\"0.95\"} 0.5",
            "cellpace_phase_connections{command=\"run\",phase=\"avoidance\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("cellpace_window_bytes"));
        let unknown = ["window_bytes", "queue_delay_seconds"];
        assert_eq!(text.matches("# HELP").count(), METRICS.len() - unknown.len());
    }

    #[test]
    fn names_are_those_that_prometheus_wants() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        for metric in METRICS {
            let is_counter = metric.kind == MetricKind::Counter;
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
            assert!(metric.help.ends_with('.') && !metric.help.contains('\n'), "{}", metric.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len(), "each once");
    }
}
