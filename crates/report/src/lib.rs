//! Figures to people: the result document, tables, JSON, Parquet, one-file HTML pages.

#![forbid(unsafe_code)]

mod atomic;
mod comparisons;
mod conformance;
mod csv;
mod difference;
mod document;
mod error;
mod escape;
#[cfg(test)]
#[path = "../tests/it/example/mod.rs"]
mod example;
mod groups;
mod heatmap;
mod html;
mod joined;
mod json;
mod number;
mod packet_ack;
#[cfg_attr(not(feature = "parquet"), path = "packet_log_missing.rs")]
mod packet_log;
mod page;
pub mod page_basis;
mod palette;
#[cfg_attr(not(feature = "parquet"), path = "parquet_file_missing.rs")]
mod parquet_file;
mod profile;
#[cfg(feature = "parquet")]
mod run_table;
mod scatter;
mod schema;
mod section;
mod sentence;
mod sequence;
mod side_by_side;
mod table;
mod thin;
mod trace_text;
#[cfg_attr(not(feature = "parquet"), path = "transfer_log_missing.rs")]
mod transfer_log;
mod unvaried;
mod views;

// The made-up results are shared with the integration tests and name the crate as they do.
#[cfg(test)]
extern crate self as cellpace_report;

pub use atomic::{Aside, write_atomically};
pub use conformance::{
    CONFORMANCE_SCHEMA, Conformance, ConformanceCheck, ConformanceLine, ConformanceReference,
    ConformanceScenario, ConformanceVerdict,
};
pub use csv::csv;
pub use difference::{DIFFERENCE_SCHEMA, FigureDifference, ResultDifference};
pub use document::Document;
pub use error::ReportError;
pub use heatmap::{Heatmap, HeatmapAxis, HeatmapCell};
pub use html::{page, page_with_index, palette_css};
pub use json::{indented, to_json};
pub use number::{short, time};
pub use packet_ack::PacketAck;
pub use packet_log::PacketLog;
pub use page::looks_json;
#[cfg(feature = "parquet")]
pub use run_table::{
    LeadingColumn, RUN_TABLE_SCHEMA, RunNumbers, RunRequest, RunRow, run_table, write_run_table,
};
pub use schema::{Comparison, RealTime, RealTimeDirection, Repeated, Run, SCHEMA, TracePreview};
pub use section::PageTable;
pub use sentence::sentence;
pub use side_by_side::side_by_side;
pub use table::{BEST_MARKS, table, table_for_terminal};
pub use trace_text::{trace_text, trace_text_bins};
pub use transfer_log::TransferLog;
pub use views::experiment_plan_text;
