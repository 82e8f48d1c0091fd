//! Whether the rate of a trace can be predicted from its past: figure 4 of the Verus paper.

use std::sync::Arc;

use cellpace_base::{Span, Time};
use cellpace_measure::{Prediction, predictions};
use cellpace_path::schedule::{Replay, Trace, capacity_bins};
use serde::Serialize;

use super::documents::to_text;

/// How predictors do on a trace.
#[derive(Debug, Serialize)]
pub struct PredictedTrace {
    /// The trace as written.
    pub trace: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// By the width of the windows.
    pub windows: Vec<PredictedWindows>,
}

/// How predictors do on the rate in windows of one width.
#[derive(Debug, Serialize)]
pub struct PredictedWindows {
    /// Their width in ms.
    pub width_ms: f64,
    /// How many whole windows there are.
    pub count: usize,
    /// Mean rate in Mbit/s.
    pub mean_mbps: f64,
    /// How each predictor did in the second half; none where there are less than 60 windows.
    pub predictions: Vec<Prediction>,
}

#[derive(Debug, Serialize)]
struct PredictDocument<'a> {
    schema: &'static str,
    traces: &'a [PredictedTrace],
}

/// Judges the predictors on the rate of `trace` in windows of each of these widths, which must not
/// be zero.
pub fn predict_trace(name: &str, trace: &Arc<Trace>, widths: &[Span]) -> PredictedTrace {
    PredictedTrace {
        trace: name.to_owned(),
        seconds: trace.period().as_secs_f64(),
        windows: widths.iter().map(|width| of_width(trace, *width)).collect(),
    }
}

fn of_width(trace: &Arc<Trace>, width: Span) -> PredictedWindows {
    // A part of a window at the end would have a part of the rate.
    let whole = trace.period().as_nanos() / width.as_nanos();
    let mut schedule = Replay::new(Arc::clone(trace));
    let bytes = capacity_bins(&mut schedule, width, Time::ZERO + width * whole);
    let to_mbps = 8.0 / 1e6 / width.as_secs_f64();
    // Four bytes each: a day in windows of 20 ms has four million.
    let mbps: Vec<f32> = bytes.iter().map(|bytes| (*bytes as f64 * to_mbps) as f32).collect();
    let sum: f64 = mbps.iter().map(|rate| f64::from(*rate)).sum();
    PredictedWindows {
        width_ms: width.as_millis_f64(),
        count: mbps.len(),
        mean_mbps: sum / mbps.len().max(1) as f64,
        predictions: predictions(&mbps),
    }
}

/// Returns the document `cellpace.trace-predict/1`.
pub fn predict_json(traces: &[PredictedTrace]) -> String {
    to_text(&PredictDocument { schema: "cellpace.trace-predict/1", traces })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::load_trace;

    #[test]
    fn g13_a_constant_rate_is_predicted_without_error() {
        let trace = load_trace("constant:12mbit", None, 1).unwrap();
        let predicted =
            predict_trace("t", &trace, &[Span::from_millis(100), Span::from_millis(20)]);
        for windows in &predicted.windows {
            assert!((windows.mean_mbps - 12.0).abs() < 1e-9);
            assert_eq!(windows.predictions.len(), 6);
            assert!(windows.predictions.iter().all(|one| one.nrmse < 1e-9), "{windows:?}");
        }
        let short = predict_trace("t", &trace, &[Span::from_secs(2)]);
        assert_eq!((short.windows[0].count, short.windows[0].predictions.len()), (30, 0));
    }
}
