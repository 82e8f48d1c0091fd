//! Rates over time as CSV: `time_s,mbps`, a line for each bin with its start and its mean rate.

use std::fmt::Write;
use std::io::BufRead;

use cellpace_path::schedule::{LineReader, MAX_OPPORTUNITIES, Trace, TraceError};

use super::figures::rates;
use super::source::ending_at;

const HEADER: [&str; 2] = ["time_s", "mbps"];

/// The most lines that are written.
pub(super) const MAX_CSV_LINES: u32 = 10_000_000;

/// Bits of a packet in units of Mbit/s times ms.
const PACKET: f64 = 12.0;

/// Rounding errors of a time in ms, and of a count of packets, are less than this.
const ROUNDING: f64 = 1e-6;

/// The trace in bins of `bin` ms; a last bin that the end of the trace cuts has the rate of what
/// is left of it.
pub(super) fn write(trace: &Trace, bin: u32) -> String {
    let mut text = HEADER.join(",") + "\n";
    for (index, rate) in rates(trace, bin).into_iter().enumerate() {
        let start = (index as u64 * u64::from(bin)) as f64 / 1000.0;
        writeln!(text, "{start},{rate}").expect("a text takes every write");
    }
    text
}

/// Reads such a table, with or without its header. A rate holds until the next line, the last as
/// long as the one before it; times count from the first line. What is half a packet at the end
/// of a line is continued in the next.
///
/// Keeps one line and the opportunities made so far, so an endless input ends with an error.
pub(super) fn read(name: &str, reader: impl BufRead) -> Result<Trace, TraceError> {
    let mut filler = RateFiller::default();
    let (mut first, mut before, mut step) = (None, None, None);
    LineReader::new(name).read(reader, |number, text| {
        let line = CsvLine { name, number, fields: fields(text) };
        let Some((time, rate)) = line.row()? else { return Ok(()) };
        let start = *first.get_or_insert(time);
        let at = time - start;
        if at > f64::from(u32::MAX) {
            return Err(line.wrong(0, "is more than 49 days after the first"));
        }
        if let Some((from, held)) = before.replace((at, rate)) {
            if at <= from {
                return Err(line.wrong(0, "does not come after the time before it"));
            }
            step = Some(at - from);
            filler.fill(from, at, held).map_err(|()| too_long(name))?;
        }
        Ok(())
    })?;
    let (Some((from, held)), Some(step)) = (before, step) else {
        let problem = "needs at least two lines with numbers, to know how long one lasts".into();
        return Err(TraceError::Unreadable { name: name.to_owned(), problem });
    };
    let end = (from + step).min(f64::from(u32::MAX));
    filler.fill(from, end, held).map_err(|()| too_long(name))?;
    filler.finish(end).map_err(|problem| TraceError::Unreadable { name: name.to_owned(), problem })
}

fn fields(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    text.split(',').map(|field| field.trim().to_owned()).collect()
}

fn too_long(name: &str) -> TraceError {
    let problem = format!("the rates make more than {MAX_OPPORTUNITIES} opportunities");
    TraceError::Unreadable { name: name.to_owned(), problem }
}

struct CsvLine<'a> {
    name: &'a str,
    number: u64,
    fields: Vec<String>,
}

impl CsvLine<'_> {
    /// Time in ms and rate in Mbit/s; nothing for the header.
    fn row(&self) -> Result<Option<(f64, f64)>, TraceError> {
        let fields = &self.fields;
        if self.number == 1 && fields.iter().map(|f| f.to_lowercase()).eq(HEADER) {
            return Ok(None);
        }
        if self.number == 1 && is_header(fields) {
            let problem = format!(
                "`{}` is a header that is not read; it must be time_s,mbps (seconds, Mbit/s), or \
                 left out",
                shortened(&fields.join(","))
            );
            return Err(TraceError::line(self.name, self.number, problem));
        }
        if fields.len() != HEADER.len() {
            let found = fields.len();
            let hint = if fields[0].contains(';') { ", separated by a comma" } else { "" };
            let problem = format!("has {found} fields; it needs time_s,mbps{hint}");
            return Err(TraceError::line(self.name, self.number, problem));
        }
        let number = |which: usize| match fields[which].parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(self.wrong(which, "is not a number from 0")),
        };
        Ok(Some((number(0)? * 1000.0, number(1)?)))
    }

    fn wrong(&self, which: usize, problem: &str) -> TraceError {
        let shown = self.fields.get(which).map(|field| field.escape_debug().to_string());
        let problem = format!("{}: `{}` {problem}", HEADER[which], shown.unwrap_or_default());
        TraceError::line(self.name, self.number, problem)
    }
}

/// Whether a first line names columns: not one of its fields begins as a number does.
fn is_header(fields: &[String]) -> bool {
    let is_number = |field: &String| field.parse::<f64>().is_ok();
    let begins =
        |field: &String| field.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    !fields.iter().any(|field| is_number(field) || begins(field))
}

/// The beginning of a line, as an error shows it.
fn shortened(text: &str) -> String {
    const MAX_SHOWN: usize = 60;
    let escaped = text.escape_debug().to_string();
    match escaped.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &escaped[..end]),
        None => escaped,
    }
}

/// Makes opportunities of rates.
#[derive(Default)]
struct RateFiller {
    millis: Vec<u32>,
    /// Packets that were due and have not come; less than one.
    due: f64,
}

impl RateFiller {
    /// Goes on with this rate between two times in ms. Fails when there are too many.
    fn fill(&mut self, from: f64, to: f64, mbps: f64) -> Result<(), ()> {
        let per_ms = mbps / PACKET;
        let total = self.due + per_ms * (to - from);
        let whole = (total + ROUNDING).floor();
        if whole > (MAX_OPPORTUNITIES - self.millis.len()) as f64 {
            return Err(());
        }
        for packet in 1..=whole as u32 {
            let at = from + (f64::from(packet) - self.due) / per_ms;
            // Rounding must not move an opportunity out of its rate's time.
            self.millis.push((at.clamp(from, to) - ROUNDING).ceil().max(0.0) as u32);
        }
        self.due = total - whole;
        Ok(())
    }

    fn finish(self, end: f64) -> Result<Trace, String> {
        if self.millis.is_empty() {
            return Err("the rates do not add up to a single packet".to_owned());
        }
        ending_at(self.millis, (end - ROUNDING).ceil() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(millis: impl IntoIterator<Item = u32>) -> Trace {
        Trace::from_millis(millis.into_iter().collect()).unwrap()
    }

    fn millis(text: &str) -> Vec<u32> {
        read("t", text.as_bytes()).unwrap().millis().to_vec()
    }

    fn said(text: &str) -> String {
        read("t", text.as_bytes()).unwrap_err().to_string()
    }

    /// Some milliseconds with none, one or several opportunities.
    fn uneven() -> Trace {
        trace((1..20_000).flat_map(|ms| std::iter::repeat_n(ms, (ms * ms / 7 % 5) as usize)))
    }

    #[test]
    fn bins_of_a_millisecond_lose_nothing() {
        let trace = uneven();
        assert_eq!(read("t", write(&trace, 1).as_bytes()).unwrap(), trace);
    }

    #[test]
    fn what_was_read_is_written_again() {
        for bin in [7, 10, 100, 333] {
            let text = write(&uneven(), bin);
            let again = read("t", text.as_bytes()).unwrap();
            let (rows, others) = (text.lines(), write(&again, bin));
            let whole = rows.clone().count() - 2;
            assert!(rows.take(whole).eq(others.lines().take(whole)), "{bin}");
        }
    }

    #[test]
    fn rates_become_opportunities() {
        assert_eq!(millis("time_s,mbps\n0,12\n0.002,24\n"), [1, 2, 3, 3, 4, 4]);
        assert_eq!(millis("0,6\r\n0.003, 6 \r\n\r\n\n"), [2, 4, 6], "half packets go on");
        assert_eq!(millis("10.5,12\n10.501,0\n10.503,0"), [1, 5], "and the end is kept");
        assert_eq!(millis("TIME_S,Mbps\n0,12\n0.001,12"), [1, 2]);
        assert_eq!(millis("\u{feff}time_s,mbps\r\n0,12\r\n0.001,12"), [1, 2], "as Excel writes it");
        assert_eq!(millis("\u{feff}0,12\n0.001,12"), [1, 2]);
    }

    #[test]
    fn mistakes_are_named_with_line_and_field() {
        assert_eq!(said("0,1\n0.1,nan\n"), "t, line 2: mbps: `nan` is not a number from 0");
        assert_eq!(said("0,-3\n"), "t, line 1: mbps: `-3` is not a number from 0");
        assert_eq!(said("0,inf\n"), "t, line 1: mbps: `inf` is not a number from 0");
        assert_eq!(said("x,1\n"), "t, line 1: time_s: `x` is not a number from 0");
        assert_eq!(
            said("time,throughput\n0,1\n"),
            "t, line 1: `time,throughput` is a header that is not read; it must be time_s,mbps \
             (seconds, Mbit/s), or left out"
        );
        let wide = said(&format!("Timestamp,{}\n0,1\n", "Longitude,".repeat(20)));
        assert!(
            wide.contains("`Timestamp,Longitude,") && wide.contains("...` is a header"),
            "{wide}"
        );
        assert_eq!(said("time_s,mbps\n-1,1\n"), "t, line 2: time_s: `-1` is not a number from 0");
        assert_eq!(
            said("0,1\n1,1\n1,1\n"),
            "t, line 3: time_s: `1` does not come after the time before it"
        );
        assert_eq!(said("0,1,2\n"), "t, line 1: has 3 fields; it needs time_s,mbps");
        assert!(
            said("0;1\n").ends_with("has 1 fields; it needs time_s,mbps, separated by a comma")
        );
        assert_eq!(said("0,1\n\n1,1\n"), "t, line 2: empty line in the middle");
        assert_eq!(
            said("0,1\n1e9,1\n"),
            "t, line 2: time_s: `1e9` is more than 49 days after the first"
        );
        assert_eq!(said(&"1".repeat(1000)), "t, line 1: longer than 256 bytes");
        for text in ["", "\n", "time_s,mbps\n", "0,1\n"] {
            assert!(said(text).contains("at least two lines"), "{text:?}");
        }
        assert_eq!(said("0,0\n1,0\n"), "t: the rates do not add up to a single packet");
        assert!(said("0,1e300\n1,0\n").contains("more than 50000000"), "and memory is bounded");
        assert!(said("0,1e300\n1e-320,0\n").contains("t"), "no panic");
    }
}
