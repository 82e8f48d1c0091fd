//! A connection over time, in bounded memory.

use cellpace_tcp::FlowStats;
use serde_json::{Value, json};

/// Number of bins at which two become one.
const MAX_BINS: usize = 600;

/// Bins of equal width from the beginning of a connection. There are 600 at most: when they are full,
/// each two become one, and the following ones are twice as wide.
#[derive(Debug, Default)]
pub(crate) struct FlowSeries {
    bins: Vec<Bin>,
    /// Samples in a bin, less one.
    more_samples: usize,
    /// Samples in the bin that is not full.
    pending: usize,
    /// What was acknowledged when the last bin ended.
    acked_before: u64,
}

#[derive(Debug, Clone, Copy)]
struct Bin {
    acked_bytes: u64,
    /// Smoothed RTT in ms at its end; none where nothing was acknowledged in it.
    rtt_ms: Option<f64>,
    /// The controller's window at its end; `u64::MAX` where it has none.
    cwnd: u64,
}

impl FlowSeries {
    /// Takes the figures of a moment. To be called at equal distances.
    pub(crate) fn sample(&mut self, stats: &FlowStats) {
        self.pending += 1;
        if self.pending > self.more_samples {
            self.end_bin(stats);
        }
        if self.bins.len() == MAX_BINS {
            self.bins = self.bins.chunks(2).map(merged).collect();
            self.more_samples = 2 * self.more_samples + 1;
        }
    }

    /// Ends the last bin, so that also what came after the last sample counts.
    pub(crate) fn end_bin(&mut self, stats: &FlowStats) {
        let acked_bytes = stats.acked_bytes.saturating_sub(self.acked_before);
        let srtt = stats.srtt.filter(|_| acked_bytes > 0);
        let rtt_ms = srtt.map(cellpace_base::Span::as_millis_f64);
        self.bins.push(Bin { acked_bytes, rtt_ms, cwnd: stats.cwnd });
        self.acked_before = stats.acked_bytes;
        self.pending = 0;
    }

    /// Mean, percentiles and maximum of the RTTs above `base_ms`, in ms; none without a sample.
    pub(crate) fn summary(&self, base_ms: f64) -> Option<Value> {
        let rtts = self.bins.iter().filter_map(|bin| bin.rtt_ms);
        let mut rtts: Vec<f64> = rtts.map(|rtt| (rtt - base_ms).max(0.0)).collect();
        rtts.sort_by(f64::total_cmp);
        let max = rtts.last().copied()?;
        let mean = rtts.iter().sum::<f64>() / rtts.len() as f64;
        let rank = |share: f64| rtts[((rtts.len() as f64 * share).ceil() as usize).max(1) - 1];
        Some(json!({
            "mean": round(mean),
            "p50": round(rank(0.5)),
            "p95": round(rank(0.95)),
            "p99": round(rank(0.99)),
            "max": round(max),
        }))
    }

    /// The series; `interval_s` is the time from sample to sample.
    pub(crate) fn to_json(&self, interval_s: f64) -> Value {
        let bin_s = interval_s * (self.more_samples + 1) as f64;
        let mbps = |bin: &Bin| round(bin.acked_bytes as f64 * 8e-6 / bin_s);
        let cwnd = |bin: &Bin| Some(bin.cwnd).filter(|cwnd| *cwnd < u64::MAX);
        json!({
            "bin_s": bin_s,
            "throughput_mbps": self.bins.iter().map(mbps).collect::<Vec<_>>(),
            "rtt_ms": self.bins.iter().map(|bin| bin.rtt_ms.map(round)).collect::<Vec<_>>(),
            "cwnd_bytes": self.bins.iter().map(cwnd).collect::<Vec<_>>(),
        })
    }
}

fn merged(bins: &[Bin]) -> Bin {
    let last = bins[bins.len() - 1];
    Bin {
        acked_bytes: bins.iter().map(|bin| bin.acked_bytes).sum(),
        rtt_ms: last.rtt_ms.or(bins[0].rtt_ms),
        cwnd: last.cwnd,
    }
}

/// To three digits after the point: more would only pretend.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Span;

    fn stats(acked_bytes: u64, ms: u64) -> FlowStats {
        FlowStats {
            acked_bytes,
            srtt: Some(Span::from_millis(ms)),
            cwnd: 30_000,
            ..FlowStats::default()
        }
    }

    #[test]
    fn memory_is_bounded_and_no_byte_is_lost() {
        let mut series = FlowSeries::default();
        for sample in 1..=100_000 {
            series.sample(&stats(sample * 25_000, 40 + sample % 10));
        }
        assert!(series.bins.len() < MAX_BINS, "{}", series.bins.len());
        let acked: u64 = series.bins.iter().map(|bin| bin.acked_bytes).sum();
        assert_eq!(acked, series.acked_before);
        let document = series.to_json(0.2);
        assert_eq!(document["throughput_mbps"][0], 1.0, "25 kB in each 200 ms");
        assert_eq!(document["rtt_ms"].as_array().unwrap().len(), series.bins.len());
        assert_eq!(document["cwnd_bytes"][7], 30_000);
    }

    #[test]
    fn percentiles_are_of_the_bins_in_which_something_was_acknowledged() {
        let mut series = FlowSeries::default();
        for sample in 1..=100 {
            series.sample(&stats(sample, 40 + sample));
            series.sample(&stats(sample, 40 + sample));
        }
        let rtt = series.summary(0.0).unwrap();
        assert_eq!(
            (&rtt["p50"], &rtt["p95"], &rtt["max"]),
            (&90.0.into(), &135.0.into(), &140.0.into())
        );
        assert_eq!(series.summary(41.0).unwrap()["p50"], 49.0, "above the smallest");
        assert_eq!(series.to_json(0.2)["rtt_ms"][1], Value::Null);
        assert_eq!(FlowSeries::default().summary(0.0), None);
    }
}
