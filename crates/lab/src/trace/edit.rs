//! Parts of traces, other rates, other formats.

use std::io::BufRead;
use std::path::Path;

use cellpace_base::Span;
use cellpace_path::schedule::{MAX_OPPORTUNITIES, Recording, Trace, TraceError};

use super::period::{ending_at, whole_millis};
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

/// Returns the part of a trace from `start` on, at most `duration` long (`None`: to the end).
///
/// # Errors
/// When `start` is not within the trace ([`LabError::Invalid`]) or nothing is in the part.
pub fn cut_trace(trace: &Trace, start: Span, duration: Option<Span>) -> Result<Trace, LabError> {
    let period = trace.period();
    if start >= period {
        let problem = format!("--start {start} is not before the end of the trace, {period}");
        return Err(LabError::Invalid(problem));
    }
    let end = (start + duration.unwrap_or(Span::MAX)).min(period);
    let [from, to] = [start, end].map(|span| whole_millis(span).unwrap_or(u32::MAX));
    // What ends with the start belongs to what comes before it, except at the very beginning.
    let within = |at: &&u32| (**at > from || from == 0) && **at <= to;
    let millis: Vec<u32> = trace.millis().iter().filter(within).map(|at| at - from).collect();
    if millis.is_empty() {
        let problem = format!("there is no opportunity between {start} and {end}");
        return Err(LabError::Failed(problem));
    }
    ending_at(millis, to - from).map_err(LabError::Failed)
}

/// Returns a trace of `factor` times the rate: each opportunity becomes `factor` of them on
/// average, spread evenly.
///
/// # Errors
/// When that makes none or too many.
pub fn scale_trace(trace: &Trace, factor: f64) -> Result<Trace, LabError> {
    let wanted = factor * trace.millis().len() as f64;
    if wanted > MAX_OPPORTUNITIES as f64 {
        let problem = format!("--scale {factor} makes more than {MAX_OPPORTUNITIES} opportunities");
        return Err(LabError::Failed(problem));
    }
    let mut millis = Vec::with_capacity(wanted as usize + 1);
    for (index, at) in trace.millis().iter().enumerate() {
        // Products, not a sum, so that nothing drifts.
        let upto = |index: usize| (index as f64 * factor).floor() as usize;
        millis.extend(std::iter::repeat_n(*at, upto(index + 1) - upto(index)));
    }
    if millis.is_empty() {
        return Err(LabError::Failed(format!("--scale {factor} leaves no opportunity")));
    }
    ending_at(millis, trace.millis().last().copied().unwrap_or(0)).map_err(LabError::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(millis: impl IntoIterator<Item = u32>) -> Trace {
        Trace::from_millis(millis.into_iter().collect()).unwrap()
    }

    #[test]
    fn scaling_spreads_evenly_and_keeps_the_period() {
        let scaled = |millis: &[u32], factor| {
            scale_trace(&trace(millis.to_vec()), factor).unwrap().millis().to_vec()
        };
        assert_eq!(scaled(&[1, 2, 3, 4], 2.0), [1, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(scaled(&[1, 2, 3, 4], 0.5), [2, 4]);
        assert_eq!(scaled(&[1, 2, 3, 4], 1.5), [1, 2, 2, 3, 4, 4]);
        assert_eq!(scaled(&[1, 2, 3], 0.5), [2, 3], "the end is kept");
        assert!(scale_trace(&trace([1, 2]), 0.001).is_err());
        // A factor without an exact binary form does not drift.
        assert_eq!(scaled(&(1..=100_000).collect::<Vec<_>>(), 1.1).len(), 110_000);
    }
}
