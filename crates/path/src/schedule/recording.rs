//! What was recorded of a path at once.

use std::sync::Arc;

use cellpace_base::Span;

use super::Trace;
use crate::error::TraceError;
use crate::steps::Steps;

/// A rate over time, and the RTT and loss that were recorded with it, if they were.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// When the link delivered.
    pub trace: Arc<Trace>,
    /// The RTT, as long as the trace.
    pub rtt: Option<Steps<Span>>,
    /// The share of packets that were lost, as long as the trace.
    pub loss: Option<Steps<f64>>,
    /// What is wrong with RTTs or losses that are there; who wants the rate alone need not know.
    pub problem: Option<TraceError>,
    /// The names of a table's columns, as its first line has them.
    pub header: Option<String>,
}

impl From<Trace> for Recording {
    /// A trace alone.
    fn from(trace: Trace) -> Self {
        Self { trace: Arc::new(trace), rtt: None, loss: None, problem: None, header: None }
    }
}
