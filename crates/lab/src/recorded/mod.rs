//! What other programs recorded of their flows: qlog, the reports of iperf3, captures of packets. All become the same
//! series, on the page that results of this program get.

mod flow;
mod iperf3;
mod packets;
mod qlog;

use std::io::BufRead;

use cellpace_report::{Document, ReportError};
use serde::Serialize;
use serde_json::json;

use flow::RecordedFlow;

/// The schema of the document.
const SCHEMA: &str = "cellpace.recorded/1";
/// Flows of a recording that are shown: those with the most bytes.
const MAX_SHOWN: usize = 8;

/// A recording, and what it is.
#[derive(Debug, Serialize)]
struct Recorded {
    /// `qlog`, `iperf3` or `capture`.
    kind: &'static str,
    flows: Vec<RecordedFlow>,
    /// What else is to be said.
    notes: Vec<String>,
}

/// Reads a text if it is a qlog or a report of iperf3; `None`: it is neither.
///
/// # Errors
/// When it is one that does not read; they name `name` and the line, record or entry.
pub fn read_recorded(name: &str, text: &str) -> Option<Result<Document, ReportError>> {
    let read = if qlog::is_one(text) {
        qlog::read(text)
    } else if iperf3::is_one(text) {
        iperf3::read(text)
    } else {
        return None;
    };
    Some(document(name, read))
}

/// Whether a file begins as a capture does, pcap or pcapng.
pub fn is_capture(beginning: &[u8]) -> bool {
    const PCAP: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];
    const PCAPNG: u32 = 0x0a0d_0d0a;
    let Some(magic) = beginning.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else {
        return false;
    };
    magic == PCAPNG || PCAP.contains(&magic) || PCAP.contains(&magic.swap_bytes())
}

/// Reads a capture, pcap or pcapng, of TCP and UDP.
///
/// # Errors
/// When it is none, or there is nothing in it; they name `name` and the packet.
pub fn read_recorded_capture(name: &str, reader: impl BufRead) -> Result<Document, ReportError> {
    document(name, packets::read(reader))
}

fn document(name: &str, read: Result<Recorded, String>) -> Result<Document, ReportError> {
    let refused = |why: String| ReportError::document(name, why);
    let mut recorded = read.map_err(refused)?;
    recorded
        .flows
        .sort_by(|a, b| b.bytes().total_cmp(&a.bytes()).then_with(|| a.name.cmp(&b.name)));
    if recorded.flows.len() > MAX_SHOWN {
        let more = recorded.flows.len() - MAX_SHOWN;
        recorded.notes.push(format!("{more} flows with fewer bytes are left out."));
        recorded.flows.truncate(MAX_SHOWN);
    }
    if recorded.flows.iter().all(RecordedFlow::is_empty) {
        return Err(refused(format!(
            "{}: nothing was sent, received or measured in it",
            recorded.kind
        )));
    }
    let Recorded { kind, flows, notes } = recorded;
    Document::of(name, &[json!({ "schema": SCHEMA, "kind": kind, "flows": flows, "notes": notes })])
}
