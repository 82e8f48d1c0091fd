//! Transfers over UDP: what flows send, where what they receive goes, and their figures.

mod data;
mod document;
mod flow;
mod flows;
mod series;
mod session;

pub use data::{DataSink, DataSource, SourceState};
pub use document::{SCHEMA, TransferDocument, TransferFlowDocument, TransferInterval};
pub use flow::{FlowData, TransferFlow};
pub use flows::TransferFlows;
pub use series::TransferSeries;
pub use session::{
    Another, Transfer, TransferConditions, TransferResult, TransferView, Welcome, made_up,
    shown_address,
};
