//! Figures to people: the result document, tables, JSON, Parquet, one-file HTML pages, SVG.

mod schema;

pub use schema::{Comparison, Repeated, Run, SCHEMA, TracePreview};
