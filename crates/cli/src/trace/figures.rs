//! The statistics of a trace as they are shown. Those that a trace is too short for are not a
//! number: a dash in text, `null` in JSON.

use cellpace_path::schedule::Trace;
use cellpace_path::stats::{Bar, Percentiles, TraceStats};
use serde::Serialize;

/// What is known of a trace.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) trace: String,
    pub(super) seconds: f64,
    pub(super) opportunities: usize,
    pub(super) mean_mbps: f64,
    pub(super) rate_1s_mbps: Rates,
    pub(super) cv: Variation,
    pub(super) autocorrelation: Memory,
    pub(super) gap_ms: Spread,
    pub(super) outage_share: f64,
    pub(super) burst_packets: Spread,
    pub(super) inter_burst_ms: Spread,
    burst_packets_histogram: Vec<Share>,
    inter_burst_ms_histogram: Vec<Share>,
}

/// Percentiles of the rate.
#[derive(Debug, Serialize)]
pub(super) struct Rates {
    pub(super) p5: f64,
    pub(super) p50: f64,
    pub(super) p95: f64,
}

/// Coefficients of variation by the width of the windows.
#[derive(Debug, Serialize)]
pub(super) struct Variation {
    #[serde(rename = "20ms")]
    pub(super) short: f64,
    #[serde(rename = "100ms")]
    pub(super) medium: f64,
    #[serde(rename = "1s")]
    pub(super) long: f64,
}

/// Autocorrelations by the lag.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    #[serde(rename = "100ms")]
    pub(super) short: f64,
    #[serde(rename = "1s")]
    pub(super) medium: f64,
    #[serde(rename = "5s")]
    pub(super) long: f64,
}

/// How a quantity is distributed.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

#[derive(Debug, Serialize)]
struct Share {
    from: u32,
    to: u32,
    share: f64,
}

impl Figures {
    pub(super) fn of(name: &str, trace: &Trace) -> Self {
        let stats = TraceStats::of(trace);
        // A rate needs a whole window, and a correlation two windows of 100 ms that lie apart.
        let from = |least: f64, figure: f64| if stats.seconds < least { f64::NAN } else { figure };
        Self {
            trace: name.to_owned(),
            seconds: stats.seconds,
            opportunities: stats.opportunities,
            mean_mbps: stats.mean_mbps,
            rate_1s_mbps: Rates {
                p5: from(1.0, stats.rate_p5_mbps),
                p50: from(1.0, stats.rate_p50_mbps),
                p95: from(1.0, stats.rate_p95_mbps),
            },
            cv: Variation {
                short: from(0.02, stats.cv_20ms),
                medium: from(0.1, stats.cv_100ms),
                long: from(1.0, stats.cv_1s),
            },
            autocorrelation: Memory {
                short: from(0.2, stats.acf_100ms),
                medium: from(1.1, stats.acf_1s),
                long: from(5.1, stats.acf_5s),
            },
            gap_ms: Spread::of(&stats.gap_ms),
            outage_share: stats.outage_share,
            burst_packets: Spread::of(&stats.burst_size),
            inter_burst_ms: Spread::of(&stats.inter_burst_ms),
            burst_packets_histogram: shares(&stats.burst_size_bars),
            inter_burst_ms_histogram: shares(&stats.inter_burst_bars),
        }
    }
}

impl Spread {
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

fn shares(bars: &[Bar]) -> Vec<Share> {
    bars.iter().map(|bar| Share { from: bar.from, to: bar.to, share: bar.share }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(millis: Vec<u32>) -> Figures {
        Figures::of("t", &Trace::from_millis(millis).unwrap())
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
    fn a_long_one_tells_all() {
        let figures = figures((1..10_000).filter(|ms| ms / 10 % 3 > 0).collect());
        let text = serde_json::to_string(&figures).unwrap();
        assert!(!text.contains("null"), "{text}");
    }
}
