//! `cellpace trace show`: figures and a picture.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use cellpace_base::Span;
use cellpace_lab::shown_names;
use cellpace_lab::trace::{TraceFigures, TraceSpread, load_trace, preview, show_json};
use cellpace_path::schedule::Trace;
use cellpace_path::stats::{OUTAGE_MS, compare};
use cellpace_report::{short, side_by_side, time, trace_text, trace_text_bins};
use clap::Args;
use terminal_size::{Width, terminal_size_of};

use super::{describe, duration};
use crate::error::CommandError;
use crate::options::seed;
use crate::output::{check_files, print, write_json};

/// Columns in front of the figures.
const LABEL: usize = 20;

/// Arguments of `cellpace trace show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace show lte-driving
  cellpace trace show umts-driving lte-driving        # and side by side
  cellpace trace show random:2mbit..20mbit/5s --duration 2min

A burst is a run of opportunities in the same or in back-to-back milliseconds; an outage is a gap
of more than 100 ms; CV is the standard deviation of the rate over its mean.")]
pub(crate) struct ShowArgs {
    /// Traces: profiles (lte-driving, ...), files in Mahimahi format (`-`: standard input), or
    /// other forms that `cellpace trace list` shows
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// How much to look at; a shorter file repeats [default: files all, profiles 300s, what has
    /// no end 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Span>,
    /// Seed of generated traces
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = seed)]
    seed: u64,
    /// Write the figures as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Columns where there is no terminal to ask.
const DEFAULT_WIDTH: usize = 80;
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=240;

/// Columns of the terminal that standard output is.
fn terminal_width() -> usize {
    let width = terminal_size_of(io::stdout()).map(|(Width(width), _)| usize::from(width));
    width.unwrap_or(DEFAULT_WIDTH).clamp(*WIDTHS.start(), *WIDTHS.end())
}

pub(crate) fn run(args: &ShowArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--json", args.json.as_deref())])?;
    let names = shown_names(&args.traces);
    let bins = trace_text_bins(terminal_width());
    let mut kept: Vec<Arc<Trace>> = Vec::new();
    let mut figures = Vec::new();
    let mut text = String::new();
    for (index, (written, name)) in args.traces.iter().zip(&names).enumerate() {
        let trace = load_trace(written, args.duration, args.seed)?;
        let of_trace = TraceFigures::of(written, &trace);
        let blank = if index > 0 { "\n" } else { "" };
        let picture = trace_text(&preview(name, &trace, bins));
        text += &format!("{blank}{}\n{picture}\n", describe(name, &of_trace));
        text += &table(&of_trace);
        figures.push(of_trace);
        if args.traces.len() == 2 {
            kept.push(trace);
        }
    }
    let rows = if let [left, right] = &kept[..] { compare(left, right) } else { Vec::new() };
    if !rows.is_empty() {
        text += &format!("\n{}", side_by_side([&names[0], &names[1]], &rows));
    }
    if write_json(args.json.as_deref(), || show_json(&figures, &rows))? {
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The figures, one quantity per line.
fn table(figures: &TraceFigures) -> String {
    let (rate, cv, acf) = (&figures.rate_1s_mbps, &figures.cv, &figures.autocorrelation);
    let rate = vec![("p5", rate.p5), ("p50", rate.p50), ("p95", rate.p95)];
    let cv = vec![("20ms", cv.short), ("100ms", cv.medium), ("1s", cv.long)];
    let acf = vec![("0.1s", acf.short), ("1s", acf.medium), ("5s", acf.long)];
    let lines = [
        ("rate in 1 s, Mbit/s", rate),
        ("variation (CV)", cv),
        ("autocorrelation", acf),
        ("gaps, ms", spread(&figures.gap_ms)),
        ("bursts, packets", spread(&figures.burst_packets)),
        ("between bursts, ms", spread(&figures.inter_burst_ms)),
    ];
    let line = |(what, cells): (&str, Vec<(&str, f64)>)| {
        let cells = cells.iter().map(|(name, value)| cell(name, *value)).collect::<String>();
        format!("{}\n", format!("{what:<LABEL$}{cells}").trim_end())
    };
    lines.into_iter().map(line).chain([outages(figures)]).collect()
}

fn outages(figures: &TraceFigures) -> String {
    let what = if figures.gap_ms.max.is_nan() {
        short(f64::NAN)
    } else if figures.gap_ms.max > f64::from(OUTAGE_MS) {
        let share = short(100.0 * figures.outage_share);
        format!("longest {}, {share} % of the time", time(figures.gap_ms.max))
    } else {
        format!("none: no gap of more than {OUTAGE_MS} ms")
    };
    format!("{:<LABEL$}{what}\n", "outages")
}

fn spread(of: &TraceSpread) -> Vec<(&'static str, f64)> {
    vec![("mean", of.mean), ("p50", of.p50), ("p90", of.p90), ("p99", of.p99), ("max", of.max)]
}

/// A figure behind its name, as wide as the others.
fn cell(name: &str, value: f64) -> String {
    format!("{:<12}", format!("{name} {}", short(value)))
}
