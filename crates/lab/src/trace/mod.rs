//! Traces: read, checked, described, changed, written.

mod arrivals;
mod beside;
mod check;
mod csv;
mod documents;
mod edit;
mod figures;
mod fit;
mod format;
mod json;
mod period;
mod predict;
mod radio;
mod source;
mod table;

pub use check::{CheckedTrace, TraceFinding, TraceVerdict, check_json, check_trace};
pub use documents::{fit_json, show_json};
pub use edit::{cut_trace, scale_trace};
pub use figures::{RateMemory, RatePercentiles, RateVariation, TraceFigures, TraceSpread, preview};
pub use fit::{FitSource, compare_fit, fit_warnings};
pub use format::{TraceFormat, read_trace};
pub use period::whole_millis;
pub use predict::{PredictedTrace, PredictedWindows, predict_json, predict_trace};
pub use radio::radio_csv;
pub use source::{TraceSourceError, drive, load_trace};
pub use table::{Column, Gap, RateUnit, TableOptions, trace_of_rates};
