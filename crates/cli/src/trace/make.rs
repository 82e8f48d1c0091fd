//! `cellpace trace make`: generated traces as files.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_base::Span;
use cellpace_lab::trace::{TraceFormat, drive, load_trace, radio_csv};
use clap::Args;

use super::{deliver, duration};
use crate::error::CommandError;
use crate::options::seed;
use crate::output::{check_files, write};

/// Arguments of `cellpace trace make`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace make lte-driving -o lte.down --seed 7
  cellpace trace make random:2mbit..20mbit/5s -o random.down --duration 300s
  cellpace trace make radio:highway-700 --seed 3 -o x.down --radio x.csv

The file is in Mahimahi format. Opportunities are rounded up to whole milliseconds, and there is
one at the end, which sets the period after which the trace repeats. A profile's file gives what
the profile gives: `compare --trace lte.down` is `compare --trace lte-driving --seed 7`.")]
pub(crate) struct MakeArgs {
    /// What to generate: a profile (lte-driving, ...), a radio layer
    /// (radio:highway-700, ...) or another form that `cellpace trace list`
    /// shows; a file is repeated
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Where to write it (`-`: standard output)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Length [default: profiles and radio layers 300s, what has no end 60s, files once]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Span>,
    /// Seed: the same seed gives the same file
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = seed)]
    seed: u64,
    /// Of a radio layer: write position, cell, RSRP, SINR, CQI, modulation, share and bytes of each
    /// 10 ms, and handovers, as CSV
    #[arg(long, value_name = "FILE")]
    radio: Option<PathBuf>,
}

pub(crate) fn run(args: &MakeArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--output", Some(&args.output)), ("--radio", args.radio.as_deref())])?;
    if let Some(file) = &args.radio {
        let Some(drive) = drive(&args.trace, args.duration, args.seed)? else {
            let why = "--radio: only radio layers (radio:highway-700, ...) have such a series";
            return Err(CommandError::usage(why));
        };
        write(file, &radio_csv(&drive))?;
    }
    let trace = load_trace(&args.trace, args.duration, args.seed)?;
    let text = TraceFormat::Mahimahi.write(&args.trace, &trace, Span::ZERO)?;
    deliver(&args.output, &text, &trace)
}
