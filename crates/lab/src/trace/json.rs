//! A trace as JSON: its name, its period and the times of its opportunities. Also read: what iperf3 reports, and
//! the traces of rattan and netem-trace.

use std::fmt;
use std::io::BufRead;

use cellpace_path::schedule::{MAX_OPPORTUNITIES, Trace, TraceError};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::csv::fill;
use super::period::ending_at;

/// A trace as a document.
#[derive(Debug, Serialize)]
struct WrittenTrace<'a> {
    name: &'a str,
    period_ms: u32,
    opportunities_ms: &'a [u32],
}

/// What is read of one: the members of one of the three.
#[derive(Debug, Deserialize)]
struct ReadTrace {
    period_ms: Option<u32>,
    #[serde(default, deserialize_with = "opportunities")]
    opportunities_ms: Option<Vec<u32>>,
    /// iperf3's.
    intervals: Option<Vec<IperfInterval>>,
    /// netem-trace's.
    #[serde(rename = "RepeatedBwPatternConfig")]
    pattern: Option<RatePattern>,
}

/// A report of iperf3 about a part of its run.
#[derive(Debug, Deserialize)]
struct IperfInterval {
    sum: IntervalSum,
}

#[derive(Debug, Deserialize)]
struct IntervalSum {
    start: f64,
    end: f64,
    bits_per_second: f64,
    #[serde(default)]
    omitted: bool,
}

#[derive(Debug, Deserialize)]
struct RatePattern {
    pattern: Vec<PatternPart>,
}

#[derive(Debug, Deserialize)]
struct PatternPart {
    #[serde(rename = "StaticBwConfig")]
    constant: ConstantRate,
}

#[derive(Debug, Deserialize)]
struct ConstantRate {
    bw: WrittenRate,
    duration: WrittenTime,
}

#[derive(Debug, Deserialize)]
struct WrittenRate {
    #[serde(default)]
    gbps: u64,
    #[serde(default)]
    bps: u64,
}

#[derive(Debug, Deserialize)]
struct WrittenTime {
    secs: u64,
    #[serde(default)]
    nanos: u32,
}

fn opportunities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u32>>, D::Error> {
    deserializer.deserialize_seq(OpportunityList).map(Some)
}

/// Reads a list as long as a trace may be, so that an endless one ends with an error.
struct OpportunityList;

impl<'de> Visitor<'de> for OpportunityList {
    type Value = Vec<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of times in milliseconds")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u32>, A::Error> {
        let mut millis = Vec::new();
        let mut last = 0;
        while let Some(at) = list.next_element::<u32>()? {
            if at < last {
                let problem = format!("{at} comes after {last}, but times must not decrease,");
                return Err(A::Error::custom(problem));
            }
            // Before the push: an endless list must not fill the memory.
            if millis.len() == MAX_OPPORTUNITIES {
                let problem = format!("more than {MAX_OPPORTUNITIES} opportunities");
                return Err(A::Error::custom(problem));
            }
            last = at;
            millis.push(at);
        }
        Ok(millis)
    }
}

/// Writes it on one line: nobody reads a hundred thousand lines with a number each.
pub(super) fn write(name: &str, trace: &Trace) -> String {
    let millis = trace.millis();
    let period_ms = millis.last().copied().unwrap_or(0);
    let text = serde_json::to_string(&WrittenTrace { name, period_ms, opportunities_ms: millis });
    text.expect("numbers and a text have a written form") + "\n"
}

/// Reads such a document; without a period it ends with its last opportunity.
pub(super) fn read(name: &str, reader: impl BufRead) -> Result<Trace, TraceError> {
    let wrong = |problem: String| TraceError::Unreadable { name: name.to_owned(), problem };
    let read = serde_json::from_reader::<_, ReadTrace>(reader);
    let found = read.map_err(|error| wrong(error.to_string()))?;
    let trace = match found {
        ReadTrace { opportunities_ms: Some(millis), period_ms, .. } => {
            of_opportunities(millis, period_ms)
        }
        ReadTrace { intervals: Some(intervals), .. } => of_intervals(&intervals),
        ReadTrace { pattern: Some(RatePattern { pattern }), .. } => of_pattern(&pattern),
        _ => Err("has neither `opportunities_ms`, nor iperf3's `intervals`, nor netem-trace's \
                  `RepeatedBwPatternConfig`"
            .to_owned()),
    };
    trace.map_err(wrong)
}

fn of_opportunities(millis: Vec<u32>, period_ms: Option<u32>) -> Result<Trace, String> {
    let last = *millis.last().ok_or("opportunities_ms: empty")?;
    // As in Mahimahi's format, where the last timestamp is the period.
    let period = period_ms.unwrap_or(last);
    if period < last {
        return Err(format!("period_ms: {period} is before the last opportunity, {last}"));
    }
    ending_at(millis, period)
}

/// The sums of all streams, without what iperf3 was asked to omit.
fn of_intervals(intervals: &[IperfInterval]) -> Result<Trace, String> {
    let counted = intervals.iter().map(|interval| &interval.sum).filter(|sum| !sum.omitted);
    let (mut rows, mut end, mut first) = (Vec::new(), 0.0, None);
    for (number, sum) in counted.enumerate() {
        let (from, to) = (sum.start * 1000.0, sum.end * 1000.0);
        // Omitted intervals come first, and times count from the first that is kept.
        let start = *first.get_or_insert(from);
        // iperf3 rounds its times: half a millisecond of overlap is none.
        let is_next = to > from && from - start >= end - 0.5;
        if !is_next || sum.bits_per_second < 0.0 || to - start > f64::from(u32::MAX) {
            return Err(format!("intervals: entry {} is not after the one before it", number + 1));
        }
        rows.push((from - start, sum.bits_per_second / 1e6));
        end = to - start;
    }
    if rows.is_empty() {
        return Err("intervals: empty".to_owned());
    }
    fill(&rows, end)
}

fn of_pattern(parts: &[PatternPart]) -> Result<Trace, String> {
    let (mut rows, mut end) = (Vec::with_capacity(parts.len()), 0.0);
    for PatternPart { constant: ConstantRate { bw, duration } } in parts {
        // netem-trace writes a rate as whole Gbit/s and the bit/s beside them.
        rows.push((end, bw.gbps as f64 * 1e3 + bw.bps as f64 / 1e6));
        end += duration.secs as f64 * 1e3 + f64::from(duration.nanos) / 1e6;
        if end > f64::from(u32::MAX) {
            return Err("RepeatedBwPatternConfig: is longer than 49 days".to_owned());
        }
    }
    if end <= 0.0 {
        return Err("RepeatedBwPatternConfig: empty".to_owned());
    }
    fill(&rows, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(millis: impl IntoIterator<Item = u32>) -> Trace {
        Trace::from_millis(millis.into_iter().collect()).unwrap()
    }

    #[test]
    fn documents_are_checked_when_read() {
        let read = |text: &str| read("t", text.as_bytes());
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(read(r#"{"opportunities_ms": [1, 2]}"#).unwrap(), trace([1, 2]));
        let longer = r#"{"name": "x", "period_ms": 5, "opportunities_ms": [1, 2]}"#;
        assert_eq!(read(longer).unwrap(), trace([1, 2, 5]));
        let written = write("t", &trace([0, 3, 3]));
        assert_eq!(written, "{\"name\":\"t\",\"period_ms\":3,\"opportunities_ms\":[0,3,3]}\n");
        assert_eq!(read(&written).unwrap(), trace([0, 3, 3]));
        assert!(said(r#"{"opportunities_ms": [1, -2]}"#).contains("line 1 column"));
        assert!(said("{}").contains("has neither `opportunities_ms`, nor iperf3's `intervals`"));
        assert!(said("").starts_with("t: EOF"));
        assert!(said(r#"{"opportunities_ms": []}"#).contains("empty"));
        assert!(said(r#"{"opportunities_ms": [0]}"#).contains("above 0"));
        assert!(said(r#"{"opportunities_ms": [5, 3]}"#).contains("3 comes after 5"));
        assert!(said(r#"{"period_ms": 1, "opportunities_ms": [5]}"#).contains("before the last"));
    }

    #[test]
    fn reports_of_iperf3_are_traces() {
        let interval = |start: f64, end: f64, bits: f64, omitted: bool| {
            format!(
                r#"{{"streams": [], "sum": {{"start": {start}, "end": {end}, "bits_per_second": {bits:.1},
                "omitted": {omitted}}}}}"#
            )
        };
        let document = |intervals: &[String]| {
            format!(r#"{{"start": {{}}, "intervals": [{}]}}"#, intervals.join(","))
        };
        let text = document(&[
            interval(0.0, 1.0, 99e9, true),
            interval(1.0, 1.002, 12e6, false),
            interval(1.002, 1.004, 24e6, false),
        ]);
        assert_eq!(read("t", text.as_bytes()).unwrap(), trace([1, 2, 3, 3, 4, 4]));
        for (text, problem) in [
            (document(&[interval(2.0, 1.0, 1.0, false)]), "entry 1 is not after"),
            (
                document(&[interval(0.0, 2.0, 1.0, false), interval(1.0, 3.0, 1.0, false)]),
                "entry 2 is not after",
            ),
            (document(&[interval(0.0, 9e9, 1.0, false)]), "entry 1 is not after"),
            (document(&[]), "intervals: empty"),
        ] {
            let said = read("t", text.as_bytes()).unwrap_err().to_string();
            assert!(said.contains(problem), "{said}");
        }
    }

    #[test]
    fn patterns_of_netem_trace_are_traces() {
        let part = |bps: u64, nanos: u32| {
            format!(
                r#"{{"StaticBwConfig": {{"bw": {{"gbps": 0, "bps": {bps}}}, "duration": {{"secs": 0, "nanos": {nanos}}}}}}}"#
            )
        };
        let document = |parts: &[String]| {
            format!(
                r#"{{"RepeatedBwPatternConfig": {{"pattern": [{}], "count": 0}}}}"#,
                parts.join(",")
            )
        };
        let text = document(&[part(12_000_000, 2_000_000), part(24_000_000, 2_000_000)]);
        assert_eq!(read("t", text.as_bytes()).unwrap(), trace([1, 2, 3, 3, 4, 4]));
        let said = |text: &str| read("t", text.as_bytes()).unwrap_err().to_string();
        assert!(said(&document(&[])).contains("empty"));
        let other = r#"{"RepeatedBwPatternConfig": {"pattern": [{"SawtoothBwConfig": {}}]}}"#;
        assert!(said(other).contains("missing field `StaticBwConfig`"));
    }
}
