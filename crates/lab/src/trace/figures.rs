//! The statistics of a trace as they are shown. Those that a trace is too short for are not a
//! number: a dash in text, `null` in JSON.

use cellpace_path::schedule::Trace;
use cellpace_path::stats::{Bar, Percentiles, TraceStats};
use cellpace_report::TracePreview;
use serde::Serialize;

/// What is known of a trace.
#[derive(Debug, Serialize)]
pub struct TraceFigures {
    /// The trace as written.
    pub trace: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// Opportunities to send 1500 bytes.
    pub opportunities: usize,
    /// Mean rate in Mbit/s.
    pub mean_mbps: f64,
    /// Rate in windows of 1 s, in Mbit/s.
    pub rate_1s_mbps: RatePercentiles,
    /// Coefficient of variation of the rate.
    pub cv: RateVariation,
    /// Autocorrelation of the rate.
    pub autocorrelation: RateMemory,
    /// Gaps between opportunities, in ms.
    pub gap_ms: TraceSpread,
    /// Share of the time in gaps of more than 100 ms.
    pub outage_share: f64,
    /// Sizes of bursts, in packets.
    pub burst_packets: TraceSpread,
    /// Gaps between bursts, in ms.
    pub inter_burst_ms: TraceSpread,
    burst_packets_histogram: Vec<BarShare>,
    inter_burst_ms_histogram: Vec<BarShare>,
}

/// Percentiles of the rate.
#[derive(Debug, Serialize)]
pub struct RatePercentiles {
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
}

/// Coefficients of variation by the width of the windows.
#[derive(Debug, Serialize)]
pub struct RateVariation {
    /// In windows of 20 ms.
    #[serde(rename = "20ms")]
    pub short: f64,
    /// In windows of 100 ms.
    #[serde(rename = "100ms")]
    pub medium: f64,
    /// In windows of 1 s.
    #[serde(rename = "1s")]
    pub long: f64,
}

/// Autocorrelations by the lag.
#[derive(Debug, Serialize)]
pub struct RateMemory {
    /// After 100 ms.
    #[serde(rename = "100ms")]
    pub short: f64,
    /// After 1 s.
    #[serde(rename = "1s")]
    pub medium: f64,
    /// After 5 s.
    #[serde(rename = "5s")]
    pub long: f64,
}

/// How a quantity is distributed.
#[derive(Debug, Serialize)]
pub struct TraceSpread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

#[derive(Debug, Serialize)]
struct BarShare {
    from: u32,
    to: u32,
    share: f64,
}

impl TraceFigures {
    /// Computes the figures of a trace that is shown as `name`.
    pub fn of(name: &str, trace: &Trace) -> Self {
        let stats = TraceStats::of(trace);
        // A rate needs a whole window, and a correlation two windows of 100 ms that lie apart.
        let from = |least: f64, figure: f64| if stats.seconds < least { f64::NAN } else { figure };
        Self {
            trace: name.to_owned(),
            seconds: stats.seconds,
            opportunities: stats.opportunities,
            mean_mbps: stats.mean_mbps,
            rate_1s_mbps: RatePercentiles {
                p5: from(1.0, stats.rate_p5_mbps),
                p50: from(1.0, stats.rate_p50_mbps),
                p95: from(1.0, stats.rate_p95_mbps),
            },
            cv: RateVariation {
                short: from(0.02, stats.cv_20ms),
                medium: from(0.1, stats.cv_100ms),
                long: from(1.0, stats.cv_1s),
            },
            autocorrelation: RateMemory {
                short: from(0.2, stats.acf_100ms),
                medium: from(1.1, stats.acf_1s),
                long: from(5.1, stats.acf_5s),
            },
            gap_ms: TraceSpread::of(&stats.gap_ms),
            outage_share: stats.outage_share,
            burst_packets: TraceSpread::of(&stats.burst_size),
            inter_burst_ms: TraceSpread::of(&stats.inter_burst_ms),
            burst_packets_histogram: shares(&stats.burst_size_bars),
            inter_burst_ms_histogram: shares(&stats.inter_burst_bars),
        }
    }
}

impl TraceSpread {
    fn of(figures: &Percentiles) -> Self {
        // Each of these quantities is at least 1, so a maximum of 0 means that there are none.
        let known = |figure: f64| if figures.max > 0.0 { figure } else { f64::NAN };
        Self {
            mean: known(figures.mean),
            p50: known(figures.p50),
            p90: known(figures.p90),
            p99: known(figures.p99),
            p999: known(figures.p999),
            max: known(figures.max),
        }
    }
}

fn shares(bars: &[Bar]) -> Vec<BarShare> {
    bars.iter().map(|bar| BarShare { from: bar.from, to: bar.to, share: bar.share }).collect()
}

/// Returns a picture's data: at most `bins` mean rates over the whole trace.
pub fn preview(name: &str, trace: &Trace, bins: u32) -> TracePreview {
    let period = trace.millis().last().copied().unwrap_or(1);
    let bin = period.div_ceil(bins).max(1);
    TracePreview {
        name: name.to_owned(),
        bin_s: f64::from(bin) / 1000.0,
        period_s: f64::from(period) / 1000.0,
        capacity_mbps: rates(trace, bin).into_iter().map(|rate| rate as f32).collect(),
    }
}

/// Mean rates in Mbit/s over bins of `bin` ms. A bin has the opportunities behind its start up to
/// and including its end, the first also those at 0; the last ends with the trace.
pub(super) fn rates(trace: &Trace, bin: u32) -> Vec<f64> {
    let period = trace.millis().last().copied().unwrap_or(0);
    let mut counts = vec![0_u32; period.div_ceil(bin) as usize];
    for at in trace.millis() {
        // An opportunity belongs to the time that ends with it.
        counts[(at.saturating_sub(1) / bin) as usize] += 1;
    }
    // The last bin may be shorter, and its rate is over what it has.
    let width = |index: usize| bin.min(period - index as u32 * bin);
    let rate = |(index, count): (usize, &u32)| mbps(*count, width(index));
    counts.iter().enumerate().map(rate).collect()
}

/// Returns the rate in Mbit/s of a number of opportunities of 1500 bytes in `ms` milliseconds.
fn mbps(opportunities: u32, ms: u32) -> f64 {
    f64::from(opportunities) * 12.0 / f64::from(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(millis: Vec<u32>) -> TraceFigures {
        TraceFigures::of("t", &Trace::from_millis(millis).unwrap())
    }

    #[test]
    fn what_a_short_trace_cannot_tell_is_not_told() {
        let figures = figures(vec![500]);
        assert!(figures.rate_1s_mbps.p50.is_nan() && figures.cv.long.is_nan());
        assert!(figures.gap_ms.max.is_nan() && figures.inter_burst_ms.p50.is_nan());
        assert_eq!((figures.cv.short > 0.0, figures.burst_packets.max), (false, 1.0));
        let text = serde_json::to_string(&figures).unwrap();
        assert!(text.contains(r#""rate_1s_mbps":{"p5":null,"p50":null,"p95":null}"#), "{text}");
    }

    #[test]
    fn rates_count_what_ends_in_a_bin() {
        let trace = |millis: &[u32]| Trace::from_millis(millis.to_vec()).unwrap();
        assert_eq!(rates(&trace(&[0, 1, 2, 3, 10]), 2), [18.0, 6.0, 0.0, 0.0, 6.0]);
        assert_eq!(rates(&trace(&[2, 4, 5]), 2), [6.0, 6.0, 12.0], "the last bin is 1 ms");
        assert_eq!(rates(&trace(&[u32::MAX]), u32::MAX).len(), 1);
    }

    #[test]
    fn a_long_one_tells_all() {
        let figures = figures((1..10_000).filter(|ms| ms / 10 % 3 > 0).collect());
        let text = serde_json::to_string(&figures).unwrap();
        assert!(!text.contains("null"), "{text}");
    }
}
