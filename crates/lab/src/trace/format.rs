//! Formats of traces: which one a file has, and what reads and writes it.

use std::io::BufRead;
use std::path::Path;

use cellpace_base::Span;
use cellpace_path::schedule::{Recording, Trace, TraceError};

use super::period::whole_millis;
use super::table::TableOptions;
use super::{arrivals, csv, json, table};
use crate::LabError;
use crate::notice::notice;

/// How a trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// A line per opportunity of 1500 bytes: milliseconds since the start.
    Mahimahi,
    /// A table: written as `time_s,mbps`, the start and the mean rate of each bin.
    Csv,
    /// `{"name", "period_ms", "opportunities_ms": [...]}`; iperf3's and netem-trace's are read, too.
    Json,
    /// A capture of packets, pcap or pcapng: what arrived of its busiest flow. Not written.
    Capture,
}

impl TraceFormat {
    /// Returns the format of a file by its ending: `.csv`, `.json`, `.pcap` and `.pcapng`, and Mahimahi's for all
    /// others.
    pub fn by_ending(path: &Path) -> Self {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "csv" => Self::Csv,
            "json" => Self::Json,
            "pcap" | "pcapng" => Self::Capture,
            _ => Self::Mahimahi,
        }
    }

    /// Reads a trace, and says what a table or a capture was taken for, if there was a choice. Bounded in memory,
    /// whatever the input is.
    ///
    /// # Errors
    /// When it is not in this format; they name `name` and the line.
    pub fn read(
        self,
        name: &str,
        reader: impl BufRead,
        options: &TableOptions,
    ) -> Result<(Recording, Option<String>), TraceError> {
        match self {
            Self::Mahimahi => Ok((Trace::read(name, reader)?.into(), None)),
            Self::Csv => {
                let (recording, reading) = table::read(name, reader, options)?;
                Ok((recording, (!reading.is_plain()).then(|| reading.to_string())))
            }
            Self::Json => Ok((json::read(name, reader)?.into(), None)),
            Self::Capture => {
                let (trace, reading) = arrivals::read(name, reader)?;
                Ok((trace.into(), Some(reading.to_string())))
            }
        }
    }

    /// Writes a trace that is called `name`, as CSV in bins of this width.
    ///
    /// # Errors
    /// When the bins of CSV are not in whole milliseconds or too many, or it is a capture.
    pub fn write(self, name: &str, trace: &Trace, bin: Span) -> Result<String, LabError> {
        match self {
            Self::Mahimahi => {
                let mut bytes = Vec::new();
                trace.write(&mut bytes).map_err(LabError::failed)?;
                String::from_utf8(bytes).map_err(LabError::failed)
            }
            Self::Csv => Ok(csv::write(trace, bin_millis(bin, trace)?)),
            Self::Json => Ok(json::write(name, trace)),
            Self::Capture => {
                Err(LabError::Invalid("--output: a trace is not written as a capture".to_owned()))
            }
        }
    }
}

/// Reads a trace in the format that its name's ending says, with RTTs and losses that a table has
/// beside rates. Columns and units of a table are guessed, and a [notice](crate::hand_notices_to)
/// says how.
///
/// # Errors
/// As [`TraceFormat::read`].
pub fn read_trace(name: &str, reader: Box<dyn BufRead>) -> Result<Recording, TraceError> {
    let format = TraceFormat::by_ending(Path::new(name.trim_end_matches(".gz")));
    let (recording, reading) = format.read(name, reader, &TableOptions::default())?;
    if let Some(reading) = reading {
        notice(&format!("{name}: {reading}"));
    }
    Ok(recording)
}

fn bin_millis(bin: Span, trace: &Trace) -> Result<u32, LabError> {
    if !bin.as_nanos().is_multiple_of(1_000_000) {
        return Err(LabError::Invalid(format!("--bin: {bin} is not in whole milliseconds")));
    }
    let millis = whole_millis(bin).unwrap_or(u32::MAX);
    let lines = whole_millis(trace.period()).unwrap_or(u32::MAX).div_ceil(millis);
    if lines > csv::MAX_CSV_LINES {
        let most = csv::MAX_CSV_LINES;
        let problem = format!("--bin {bin} makes {lines} lines, more than {most}; choose more");
        return Err(LabError::Invalid(problem));
    }
    Ok(millis)
}
