//! How figures of connections are distributed, for Prometheus.

use std::time::Duration;

use cellpace_base::Span;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec};

use crate::figures::ConnectionFigures;
use crate::summary::Group;

/// A histogram at `/metrics`.
pub struct Histogram {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// The upper ends of its buckets, rising.
    bounds: &'static [f64],
    /// What a reading adds; `None` where connections add their goodput at their ends.
    reading: Option<fn(&ConnectionFigures) -> Option<f64>>,
}

/// From loopback to a bloated queue.
const SECONDS: &[f64] = &[
    0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5,
    1.0, 2.0, 5.0,
];
/// 4 kB to 16 MB.
const BYTES: &[f64] = &[
    4096.0,
    8192.0,
    16384.0,
    32768.0,
    65536.0,
    131_072.0,
    262_144.0,
    524_288.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];
/// 0.1 Mbit/s to 10 Gbit/s.
const BYTES_PER_SECOND: &[f64] = &[
    12_500.0, 25_000.0, 62_500.0, 125e3, 250e3, 625e3, 1.25e6, 2.5e6, 6.25e6, 12.5e6, 25e6, 62.5e6,
    125e6, 1.25e9,
];

/// Shorter transfers say more about the RTT than about the rate.
const MIN_GOODPUT_BYTES: u64 = 64 << 10;

fn seconds(span: Option<Span>) -> Option<f64> {
    span.map(Span::as_secs_f64)
}

/// All of them, in the order of the answer.
pub const HISTOGRAMS: &[Histogram] = &[
    Histogram {
        name: "cellpace_rtt_seconds",
        help: "Smoothed RTT of each connection to which something was delivered, every five seconds and at \
               its end.",
        bounds: SECONDS,
        reading: Some(|figures| seconds(figures.rtt)),
    },
    Histogram {
        name: "cellpace_min_rtt_seconds",
        help: "Smallest RTT of each connection, likewise.",
        bounds: SECONDS,
        reading: Some(|figures| seconds(figures.min_rtt)),
    },
    Histogram {
        name: "cellpace_queue_delay_seconds",
        help: "Estimated time in queues (RTT above the smallest) of each connection, likewise.",
        bounds: SECONDS,
        reading: Some(|figures| seconds(figures.queue_delay)),
    },
    Histogram {
        name: "cellpace_window_bytes",
        help: "Controller's window of each connection, likewise.",
        bounds: BYTES,
        reading: Some(|figures| figures.cwnd.map(|cwnd| cwnd as f64)),
    },
    Histogram {
        name: "cellpace_goodput_bytes_per_second",
        help: "Bytes delivered by the time from opening to the last delivery, of each connection that ended \
               with 64 KiB or more.",
        bounds: BYTES_PER_SECOND,
        reading: None,
    },
];

/// The histograms of a command's connections. Copies are the same ones.
#[derive(Clone)]
pub(crate) struct ConnectionHistograms(Vec<HistogramVec>);

impl Default for ConnectionHistograms {
    fn default() -> Self {
        let new = |histogram: &Histogram| {
            let options = HistogramOpts::new(histogram.name, histogram.help);
            HistogramVec::new(options.buckets(histogram.bounds.to_vec()), &["controller", "driver"])
                .expect("names and bounds are constants")
        };
        Self(HISTOGRAMS.iter().map(new).collect())
    }
}

impl ConnectionHistograms {
    /// Takes the figures of a reading.
    pub(crate) fn observe(&self, group: &Group, figures: &ConnectionFigures) {
        for (of, values) in HISTOGRAMS.iter().zip(&self.0) {
            if let Some(value) = of.reading.and_then(|reading| reading(figures)) {
                add(values, group, value);
            }
        }
    }

    /// Takes a connection that has ended, with what was delivered within the time `lasted`.
    pub(crate) fn observe_end(&self, group: &Group, delivered: u64, lasted: Duration) {
        if delivered < MIN_GOODPUT_BYTES || lasted.is_zero() {
            return;
        }
        for (_, values) in HISTOGRAMS.iter().zip(&self.0).filter(|(of, _)| of.reading.is_none()) {
            add(values, group, delivered as f64 / lasted.as_secs_f64());
        }
    }

    /// What there is up to now.
    pub(crate) fn families(&self) -> impl Iterator<Item = MetricFamily> {
        self.0.iter().flat_map(Collector::collect)
    }

    /// How many values the first and the last one have.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> [(&'static str, u64); 2] {
        let count = |place: usize| {
            let metrics = self.0[place].collect();
            let metrics = metrics.iter().flat_map(MetricFamily::get_metric);
            metrics.map(|metric| metric.get_histogram().get_sample_count()).sum()
        };
        let last = HISTOGRAMS.len() - 1;
        [(HISTOGRAMS[0].name, count(0)), (HISTOGRAMS[last].name, count(last))]
    }
}

fn add(values: &HistogramVec, group: &Group, value: f64) {
    values.with_label_values(&[&*group.controller, group.driver]).observe(value);
}
