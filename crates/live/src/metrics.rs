//! Figures for Prometheus. They name no peers: there may be ten thousand.

use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, MetricFamily, MetricType};

use crate::connections::LiveConnections;
use crate::summary::{Group, Totals};

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
    /// The label that tells apart the samples of one controller and driver; empty where there is one.
    pub label: &'static str,
    samples: fn(&Totals) -> Vec<(&'static str, f64)>,
}

fn one(value: u64) -> Vec<(&'static str, f64)> {
    vec![("", value as f64)]
}

/// Counts and sums, in the order of the answer. Before the first connection they have no samples.
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
        name: "cellpace_phase_connections",
        kind: MetricKind::Gauge,
        help: "Open connections by the phase of their controllers.",
        label: "phase",
        samples: |all| all.phases.iter().map(|(phase, count)| (*phase, *count as f64)).collect(),
    },
];

/// The figures of now.
pub(crate) fn families(connections: &LiveConnections) -> Vec<MetricFamily> {
    let (command, summary) = (connections.about().command, connections.summary());
    let family = |metric: &Metric| {
        let samples =
            summary.groups.iter().flat_map(|(group, totals)| samples_of(metric, group, totals));
        metric_family(metric.name, metric.kind, metric.help, samples)
    };
    let mut families: Vec<MetricFamily> = METRICS.iter().map(family).collect();
    families.extend(connections.histograms().families());
    families.push(metric_family(
        "cellpace_build_info",
        MetricKind::Gauge,
        "The version that runs; always 1.",
        [(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)],
    ));
    families.iter_mut().for_each(|family| name_command(family, command));
    families
}

fn samples_of<'a>(
    metric: &Metric,
    group: &'a Group,
    totals: &Totals,
) -> Vec<(Vec<(&'a str, &'a str)>, f64)> {
    let of_group = [("controller", &*group.controller), ("driver", group.driver)];
    let samples = (metric.samples)(totals).into_iter();
    samples.map(|(of, value)| ([&of_group[..], &[(metric.label, of)]].concat(), value)).collect()
}

/// Puts the command in front of the labels of each sample, and leaves out labels that say nothing.
fn name_command(family: &mut MetricFamily, command: &str) {
    for metric in family.mut_metric() {
        let labels = metric.take_label().into_iter().filter(|pair| !pair.value().is_empty());
        let labels = std::iter::once(label("command", command)).chain(labels).collect();
        metric.set_label(labels);
    }
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

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

fn sample(kind: MetricKind, labels: &[(&str, &str)], value: f64) -> prometheus::proto::Metric {
    let pairs = labels.iter().map(|(name, value)| label(name, value));
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
    use crate::{HISTOGRAMS, LiveAbout, LiveConnection, NewConnection, SharedFigures};
    use cellpace_base::Span;

    #[test]
    fn the_text_has_figures_with_their_heads_and_nothing_of_what_is_not_known() {
        let about = LiveAbout { command: "run", ..LiveAbout::default() };
        let connections = LiveConnections::new(about);
        let figures = SharedFigures::default();
        figures.update(|figures| {
            figures.phase = Some("avoidance");
            figures.delivered_bytes = 1 << 20;
            figures.rtt = Some(Span::from_millis(40));
        });
        for number in [1, 2] {
            connections.opened(NewConnection {
                number,
                name: String::new(),
                controller: "copa".into(),
                driver: "gate",
                source: Box::new(figures.clone()),
            });
        }
        connections.closed(2, figures.figures(), "finished");
        let text = text(families(&connections));
        let version = env!("CARGO_PKG_VERSION");
        for line in [
            "# TYPE cellpace_connections_open gauge",
            "cellpace_connections_open{command=\"run\",controller=\"copa\",driver=\"gate\"} 1",
            "cellpace_phase_connections{command=\"run\",controller=\"copa\",driver=\"gate\",phase=\"avoidance\"} 1",
            "# TYPE cellpace_rtt_seconds histogram",
            "cellpace_rtt_seconds_bucket{command=\"run\",controller=\"copa\",driver=\"gate\",le=\"0.03\"} 0",
            "cellpace_rtt_seconds_bucket{command=\"run\",controller=\"copa\",driver=\"gate\",le=\"0.05\"} 1",
            "cellpace_rtt_seconds_count{command=\"run\",controller=\"copa\",driver=\"gate\"} 1",
            &format!("cellpace_build_info{{command=\"run\",version=\"{version}\"}} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let unknown = ["cellpace_min_rtt", "cellpace_queue_delay", "cellpace_window"];
        assert!(unknown.iter().all(|name| !text.contains(name)), "{text}");
        assert_eq!(
            text.matches("# HELP").count(),
            METRICS.len() + HISTOGRAMS.len() + 1 - unknown.len()
        );
    }

    #[test]
    fn names_are_those_that_prometheus_wants() {
        let metrics = METRICS.iter().map(|metric| (metric.name, metric.kind.name(), metric.help));
        let histograms = HISTOGRAMS.iter().map(|of| (of.name, "histogram", of.help));
        let mut names = Vec::new();
        for (name, kind, help) in metrics.chain(histograms) {
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
            names.push(name);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "each once");
    }
}
