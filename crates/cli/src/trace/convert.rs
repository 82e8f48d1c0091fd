//! `cellpace trace convert`: other formats, parts, other rates.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cellpace_base::Span;
use cellpace_lab::trace::{
    Column, Gap, RateUnit, TableOptions, TraceFormat, cut_trace, scale_trace,
};
use cellpace_lab::{LabError, open_file, shown_name};
use cellpace_path::TraceSpec;
use cellpace_path::schedule::{Trace, TraceError};
use clap::Args;

use super::{deliver, duration};
use crate::error::CommandError;
use crate::line_writer::complain;
use crate::options::span;
use crate::output::check_files;

/// Arguments of `cellpace trace convert`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace make lte-driving -o drive.down
  cellpace trace convert drive.down -o rates.csv --bin 1s
  cellpace trace convert rates.csv -o copy.down
  cellpace trace convert drive.down -o part.down --start 60s --duration 30s --scale 2
  cellpace trace convert phone.csv -o phone.down --time Timestamp --rate DL_bitrate --unit kbit/s
  cellpace trace convert ghent.log -o bus.down --time 1 --rate 5 --unit bytes
  cellpace trace convert iperf3.json -o run.down

Formats, by how the names of files end (.csv, .json, .pcap, .pcapng, anything else: mahimahi; also
with .gz):
  mahimahi  a line per opportunity of 1500 bytes: milliseconds since the start
  csv       time_s,mbps: start and mean rate of each bin. Read are tables of any separator, with
            columns by name or number; --time, --rate or --unit make a table of any file. A rate
            holds until the next line, the last as long as is usual; lines of one time count as
            their mean
  json      {\"name\", \"period_ms\", \"opportunities_ms\": [...]}; read are also the reports of
            iperf3 and the traces of netem-trace (rattan)
  pcap      read only: each 1500 bytes of the busiest flow are an opportunity when they arrived, so
            capture at the receiver while something fills the link; also pcapng

The output appears whole or not at all, so it may be the input itself. A part that ends without
an opportunity gets one there: the last line of a trace sets its period.")]
pub(crate) struct ConvertArgs {
    /// The trace (`-`: standard input)
    #[arg(value_name = "IN")]
    input: String,
    /// Where to write it (`-`: standard output)
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Length of a line of CSV, in whole milliseconds [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    bin: Option<Span>,
    /// Leave out what comes before
    #[arg(long, value_name = "TIME", value_parser = span)]
    start: Option<Span>,
    /// How much to keep, at most to the end
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Span>,
    /// The column of times of a table, by its name or its number from 1 on: seconds, ms since 1970 or dates
    /// [default: by the header]
    #[arg(long, value_name = "COLUMN")]
    time: Option<Column>,
    /// The column of rates [default: by the header]
    #[arg(long, value_name = "COLUMN")]
    rate: Option<Column>,
    /// What the rates count: bit/s, kbit/s, Mbit/s, Gbit/s, byte/s, kbyte/s, Mbyte/s, or per line bytes or
    /// packets (of 1500 bytes) [default: by the header]
    #[arg(long, value_name = "UNIT")]
    unit: Option<RateUnit>,
    /// What counts where a table has no lines: hold (the last rate) or zero [default: hold]
    #[arg(long, value_name = "HOW")]
    gap: Option<Gap>,
    /// Multiply the rate, e.g. 2 or 0.5
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    scale: Option<f64>,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1000.0 => Ok(factor),
        _ => Err(format!("`{text}` is not a number above 0, up to 1000")),
    }
}

pub(crate) fn run(args: &ConvertArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--output", Some(&args.output))])?;
    let to = TraceFormat::by_ending(&args.output);
    if args.bin.is_some() && to != TraceFormat::Csv {
        return Err(CommandError::usage(
            "--bin is the length of a line of CSV: name an output that ends with .csv",
        ));
    }
    let mut trace = read(args)?;
    let named = |error| match error {
        LabError::Failed(problem) => CommandError::failed(format!("{}: {problem}", args.input)),
        error => CommandError::from(error),
    };
    if args.start.is_some() || args.duration.is_some() {
        trace =
            cut_trace(&trace, args.start.unwrap_or(Span::ZERO), args.duration).map_err(named)?;
    }
    if let Some(factor) = args.scale {
        trace = scale_trace(&trace, factor).map_err(named)?;
    }
    let bin = args.bin.unwrap_or(Span::from_millis(100));
    deliver(&args.output, &to.write(&shown_name(&args.input), &trace, bin)?, &trace)
}

fn read(args: &ConvertArgs) -> Result<Trace, CommandError> {
    let name = if args.input == "-" { "standard input" } else { &args.input };
    let ConvertArgs { time, rate, unit, gap, .. } = args;
    let asked = time.is_some() || rate.is_some() || unit.is_some() || gap.is_some();
    let from = match TraceFormat::by_ending(Path::new(args.input.trim_end_matches(".gz"))) {
        TraceFormat::Json | TraceFormat::Capture if asked => {
            return Err(CommandError::usage(format!(
                "{name}: --time, --rate, --unit and --gap are for tables"
            )));
        }
        _ if asked => TraceFormat::Csv,
        by_ending => by_ending,
    };
    let options = TableOptions {
        time: time.clone(),
        rate: rate.clone(),
        unit: *unit,
        gap: gap.unwrap_or_default(),
    };
    let hint = match from {
        TraceFormat::Mahimahi => {
            "; of a table of rates, name the columns: --time 1 --rate 2 --unit kbit/s"
        }
        TraceFormat::Csv | TraceFormat::Json | TraceFormat::Capture => "",
    };
    let read = from.read(name, open(&args.input)?, &options);
    let (recording, reading) = read.map_err(|error| match error {
        error @ TraceError::Line { line: 1, .. } => CommandError::usage(format!("{error}{hint}")),
        error => CommandError::usage(error),
    })?;
    let has_more = recording.rtt.is_some() || recording.loss.is_some();
    if has_more && is_same_file(&args.input, &args.output) {
        return Err(CommandError::usage(format!(
            "{name}: its RTTs and losses would be lost, since a trace has rates alone: name another output"
        )));
    }
    if let Some(reading) = reading {
        complain(&format!("{name}: {reading}"));
    }
    if has_more {
        complain(&format!("{name}: RTTs and losses are left out, since a trace has rates alone"));
    }
    Ok(Arc::unwrap_or_clone(recording.trace))
}

fn is_same_file(input: &str, output: &Path) -> bool {
    let [input, output] = [Path::new(input), output].map(|path| path.canonicalize().ok());
    input.is_some() && input == output
}

fn open(input: &str) -> Result<Box<dyn BufRead>, CommandError> {
    open_file(input).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if input.parse::<TraceSpec>().is_ok() => {
            CommandError::usage(format!(
                "there is no file `{input}`; to write a generated trace, use `cellpace trace make`"
            ))
        }
        io::ErrorKind::NotFound => CommandError::usage(format!("there is no file `{input}`")),
        _ => CommandError::usage(format!("{input}: {error}")),
    })
}
