//! `cellpace trace convert`: other formats, parts, other rates.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_base::{Span, parse_span};
use cellpace_path::TraceSpec;
use cellpace_path::schedule::{MAX_OPPORTUNITIES, Trace, TraceError};
use clap::{Args, ValueEnum};

use super::figures::Figures;
use super::show::describe;
use super::source::{duration, ending_at, whole_millis};
use super::{csv, is_stdout, json};
use crate::error::Failure;
use crate::output::{print, write};

/// Arguments of `cellpace trace convert`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace convert city-drive.down -o rates.csv --bin 1s
  cellpace trace convert measured.csv -o measured.down
  cellpace trace convert drive.down -o part.down --start 60s --duration 30s --scale 2

Formats:
  mahimahi  a line per opportunity of 1500 bytes: milliseconds since the start
  csv       time_s,mbps: start and mean rate of each bin; when read, a rate holds until the next
            line, and the last as long as the one before it
  json      {\"name\", \"period_ms\", \"opportunities_ms\": [...]}

The output appears whole or not at all, so it may be the input itself. A part that ends without
an opportunity gets one there: the last line of a trace sets its period.")]
pub(crate) struct ConvertArgs {
    /// The trace (`-`: standard input)
    #[arg(value_name = "IN")]
    input: String,
    /// Where to write it (`-`: standard output)
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Format of the input [default: by its ending .csv or .json, else mahimahi]
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Format of the output [default: by its ending .csv or .json, else mahimahi]
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// Length of a line of CSV, in whole milliseconds [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    bin: Option<Span>,
    /// Leave out what comes before
    #[arg(long, value_name = "TIME", value_parser = start)]
    start: Option<Span>,
    /// How much to keep, at most to the end
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Span>,
    /// Multiply the rate, e.g. 2 or 0.5
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    scale: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Mahimahi,
    Csv,
    Json,
}

impl Format {
    fn by_ending(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some(ending) if ending.eq_ignore_ascii_case("csv") => Self::Csv,
            Some(ending) if ending.eq_ignore_ascii_case("json") => Self::Json,
            _ => Self::Mahimahi,
        }
    }
}

fn start(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|error| error.to_string())
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(factor),
        _ => Err(format!("`{text}` is not a number above 0, up to 1000")),
    }
}

pub(crate) fn run(args: &ConvertArgs) -> Result<ExitCode, Failure> {
    let to = args.to.unwrap_or_else(|| Format::by_ending(&args.output));
    if args.bin.is_some() && to != Format::Csv {
        return Err(Failure::usage("--bin is the length of a line of CSV; add --to csv"));
    }
    let mut trace = read(args)?;
    if args.start.is_some() || args.duration.is_some() {
        trace = cut(args, &trace)?;
    }
    if let Some(factor) = args.scale {
        trace = scale(&trace, factor).map_err(|problem| refused(args, problem))?;
    }
    let text = match to {
        Format::Mahimahi => lines(&trace)?,
        Format::Csv => csv::write(&trace, bin(args, &trace)?),
        Format::Json => json::write_trace(&cellpace_lab::shown_name(&args.input), &trace),
    };
    deliver(&args.output, &text, &trace)
}

/// Writes the file and says what is in it.
pub(super) fn deliver(output: &Path, text: &str, trace: &Trace) -> Result<ExitCode, Failure> {
    write(output, text)?;
    if !is_stdout(output) {
        let name = output.display().to_string();
        print(&describe(&name, &Figures::of(&name, trace)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of a trace file.
pub(super) fn lines(trace: &Trace) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).map_err(Failure::failed)?;
    String::from_utf8(bytes).map_err(Failure::failed)
}

fn refused(args: &ConvertArgs, problem: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("{}: {problem}", args.input))
}

fn read(args: &ConvertArgs) -> Result<Trace, Failure> {
    let name = if args.input == "-" { "standard input" } else { &args.input };
    let reader = open(&args.input)?;
    let trace = match args.from.unwrap_or_else(|| Format::by_ending(Path::new(&args.input))) {
        Format::Mahimahi => Trace::read(name, reader),
        Format::Csv => csv::read(name, reader),
        Format::Json => read_json(name, reader),
    };
    trace.map_err(Failure::failed)
}

fn open(input: &str) -> Result<Box<dyn BufRead>, Failure> {
    if input == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    cellpace_lab::open_file(input).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if input.parse::<TraceSpec>().is_ok() => Failure::usage(format!(
            "there is no file `{input}`; to write a generated trace, use `cellpace trace make`"
        )),
        io::ErrorKind::NotFound => Failure::usage(format!("there is no file `{input}`")),
        _ => Failure::failed(format!("{input}: {error}")),
    })
}

fn read_json(name: &str, reader: impl BufRead) -> Result<Trace, TraceError> {
    let wrong = |problem: String| TraceError::Unreadable { name: name.to_owned(), problem };
    let read = serde_json::from_reader::<_, json::Read>(reader);
    let json::Read { period_ms, opportunities_ms: millis } =
        read.map_err(|error| wrong(error.to_string()))?;
    let Some(last) = millis.last().copied() else {
        return Err(wrong("opportunities_ms: empty".to_owned()));
    };
    let period = period_ms.unwrap_or(last);
    if period < last {
        return Err(wrong(format!("period_ms: {period} is before the last opportunity, {last}")));
    }
    ending_at(millis, period).map_err(wrong)
}

fn cut(args: &ConvertArgs, trace: &Trace) -> Result<Trace, Failure> {
    let period = trace.period();
    let start = args.start.unwrap_or(Span::ZERO);
    if start >= period {
        let problem = format!("--start {start} is not before the end of the trace, {period}");
        return Err(Failure::usage(problem));
    }
    let end = (start + args.duration.unwrap_or(Span::MAX)).min(period);
    let [from, to] = [start, end].map(|span| whole_millis(span).unwrap_or(u32::MAX));
    // What ends with the start belongs to what comes before it, except at the very beginning.
    let within = |at: &&u32| (**at > from || from == 0) && **at <= to;
    let millis: Vec<u32> = trace.millis().iter().filter(within).map(|at| at - from).collect();
    if millis.is_empty() {
        return Err(refused(args, format!("there is no opportunity between {start} and {end}")));
    }
    ending_at(millis, to - from).map_err(|problem| refused(args, problem))
}

/// Each opportunity becomes `factor` of them on average, spread evenly.
fn scale(trace: &Trace, factor: f64) -> Result<Trace, String> {
    let wanted = factor * trace.millis().len() as f64;
    if wanted > MAX_OPPORTUNITIES as f64 {
        return Err(format!("--scale {factor} makes more than {MAX_OPPORTUNITIES} opportunities"));
    }
    let mut millis = Vec::with_capacity(wanted as usize + 1);
    for (index, at) in trace.millis().iter().enumerate() {
        // Products, not a sum, so that nothing drifts.
        let upto = |index: usize| (index as f64 * factor).floor() as usize;
        millis.extend(std::iter::repeat_n(*at, upto(index + 1) - upto(index)));
    }
    if millis.is_empty() {
        return Err(format!("--scale {factor} leaves no opportunity"));
    }
    ending_at(millis, trace.millis().last().copied().unwrap_or(0))
}

fn bin(args: &ConvertArgs, trace: &Trace) -> Result<u32, Failure> {
    let bin = args.bin.unwrap_or(Span::from_millis(100));
    if !bin.as_nanos().is_multiple_of(1_000_000) {
        return Err(Failure::usage(format!("--bin: {bin} is not in whole milliseconds")));
    }
    let millis = whole_millis(bin).unwrap_or(u32::MAX);
    let lines = whole_millis(trace.period()).unwrap_or(u32::MAX).div_ceil(millis);
    if lines > csv::MAX_LINES {
        let most = csv::MAX_LINES;
        let problem = format!("--bin {bin} makes {lines} lines, more than {most}; choose more");
        return Err(Failure::usage(problem));
    }
    Ok(millis)
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
            scale(&trace(millis.to_vec()), factor).unwrap().millis().to_vec()
        };
        assert_eq!(scaled(&[1, 2, 3, 4], 2.0), [1, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(scaled(&[1, 2, 3, 4], 0.5), [2, 4]);
        assert_eq!(scaled(&[1, 2, 3, 4], 1.5), [1, 2, 2, 3, 4, 4]);
        assert_eq!(scaled(&[1, 2, 3], 0.5), [2, 3], "the end is kept");
        assert!(scale(&trace([1, 2]), 0.001).is_err());
        // A factor without an exact binary form does not drift.
        assert_eq!(scaled(&(1..=100_000).collect::<Vec<_>>(), 1.1).len(), 110_000);
    }

    #[test]
    fn documents_are_checked_when_read() {
        let read = |text: &str| read_json("t", text.as_bytes());
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(read(r#"{"opportunities_ms": [1, 2]}"#).unwrap(), trace([1, 2]));
        let longer = r#"{"name": "x", "period_ms": 5, "opportunities_ms": [1, 2]}"#;
        assert_eq!(read(longer).unwrap(), trace([1, 2, 5]));
        let written = json::write_trace("t", &trace([0, 3, 3]));
        assert_eq!(written, "{\"name\":\"t\",\"period_ms\":3,\"opportunities_ms\":[0,3,3]}\n");
        assert_eq!(read(&written).unwrap(), trace([0, 3, 3]));
        assert!(said(r#"{"opportunities_ms": [1, -2]}"#).contains("line 1 column"));
        assert!(said("{}").contains("missing field `opportunities_ms`"));
        assert!(said("").starts_with("t: EOF"));
        assert!(said(r#"{"opportunities_ms": []}"#).contains("empty"));
        assert!(said(r#"{"opportunities_ms": [0]}"#).contains("above 0"));
        assert!(said(r#"{"opportunities_ms": [5, 3]}"#).contains("3 comes after 5"));
        assert!(said(r#"{"period_ms": 1, "opportunities_ms": [5]}"#).contains("before the last"));
    }
}
