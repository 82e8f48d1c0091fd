//! How well the rate of a trace is predicted.

use std::sync::Arc;

use cellpace_base::Span;
use cellpace_lab::trace::predict_trace;
use cellpace_path::schedule::Trace;
use serde_json::{Map, Value, json};

/// Widths of the windows, in milliseconds.
const WIDTHS_MS: [u64; 2] = [20, 100];

/// For each width the least error and the most of the variance explained of all predictors, and how
/// much of it the line explains.
pub(crate) fn predictions(trace: &Arc<Trace>) -> Value {
    let widths = WIDTHS_MS.map(Span::from_millis);
    let predicted = predict_trace("", trace, &widths);
    let mut figures = Map::new();
    for (width, windows) in WIDTHS_MS.iter().zip(&predicted.windows) {
        let all = &windows.predictions;
        let nrmse = all.iter().map(|one| one.nrmse).fold(f64::INFINITY, f64::min);
        let r2 = all.iter().map(|one| one.r2).fold(f64::NEG_INFINITY, f64::max);
        let line = all.iter().find(|one| one.predictor == "linear").map(|one| one.r2);
        figures.insert(format!("least_nrmse_{width}ms"), json!(nrmse));
        figures.insert(format!("most_r2_{width}ms"), json!(r2));
        figures.insert(format!("linear_r2_{width}ms"), json!(line));
    }
    json!({ "predict": figures })
}
