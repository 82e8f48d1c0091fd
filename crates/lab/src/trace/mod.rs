//! Traces: read, checked, described, changed, written.

mod check;
mod csv;
mod documents;
mod edit;
mod figures;
mod fit;
mod json;
mod predict;
mod source;

pub use check::{CheckedTrace, TraceFinding, TraceVerdict, check_json, check_trace};
pub use documents::{fit_json, show_json};
pub use edit::{TraceFormat, cut_trace, scale_trace};
pub use figures::{RateMemory, RatePercentiles, RateVariation, TraceFigures, TraceSpread, preview};
pub use fit::compare_fit;
pub use predict::{PredictedTrace, PredictedWindows, predict_json, predict_trace};
pub use source::{TraceSourceError, load_trace, whole_millis};
