//! `cellpace trace show`: figures and a picture.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use cellpace_base::Span;
use cellpace_lab::shown_name;
use cellpace_path::schedule::Trace;
use cellpace_path::stats::{OUTAGE_MS, Row, compare};
use cellpace_report::{TracePreview, short, trace_svg};
use clap::Args;

use super::chart::{chart, rates, terminal_width};
use super::figures::{Figures, Spread};
use super::source::{duration, load};
use super::text::{side_by_side, time};
use super::{is_stdout, json};
use crate::error::Failure;
use crate::output::{print, write};

/// Columns in front of the figures.
const LABEL: usize = 20;

/// Bins of a picture: as many as are drawn.
const PLOT_BINS: u32 = 300;

/// Arguments of `cellpace trace show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace trace show city-drive.down
  cellpace trace show city-drive.down lte-driving        # and side by side
  cellpace trace show random:2mbit..20mbit/5s --duration 2min --plot random.svg

A burst is a run of opportunities in the same or in back-to-back milliseconds; an outage is a gap
of more than 100 ms; CV is the standard deviation of the rate over its mean.")]
pub(crate) struct ShowArgs {
    /// Traces: files in Mahimahi format, profiles (lte-driving, ...) or generated ones
    /// (constant:12mbit, step:..., random:..., onoff:..., profile:FILE)
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// How much to look at; a shorter file repeats [default: files all, profiles 300s, what has
    /// no end 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Span>,
    /// Seed of generated traces
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Draw the rate over time as SVG (of one trace)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the figures as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &ShowArgs) -> Result<ExitCode, Failure> {
    if args.plot.is_some() && args.traces.len() > 1 {
        return Err(Failure::usage("--plot draws one trace; give one"));
    }
    let names = names(&args.traces);
    let width = terminal_width();
    let mut kept: Vec<Arc<Trace>> = Vec::new();
    let mut figures = Vec::new();
    let mut text = String::new();
    for (index, (written, name)) in args.traces.iter().zip(&names).enumerate() {
        let trace = load(written, args.duration, args.seed)?;
        let of_trace = Figures::of(written, &trace);
        if let Some(path) = &args.plot {
            write(path, &plot(name, &trace))?;
        }
        let blank = if index > 0 { "\n" } else { "" };
        text += &format!("{blank}{}\n{}\n", describe(name, &of_trace), chart(&trace, width));
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
    deliver(args, &text, &figures, &rows)
}

fn deliver(
    args: &ShowArgs,
    text: &str,
    figures: &[Figures],
    rows: &[Row],
) -> Result<ExitCode, Failure> {
    let to_stdout = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| is_stdout(path));
    if let Some(path) = &args.json {
        write(path, &json::statistics(figures, rows))?;
    }
    if !to_stdout(&args.json) && !to_stdout(&args.plot) {
        print(text)?;
        if let Some(path) = &args.plot {
            print(&format!("\nplot: {}\n", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Files without their folder, unless that makes two the same.
fn names(traces: &[String]) -> Vec<String> {
    let short: Vec<String> = traces.iter().map(|trace| shown_name(trace)).collect();
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let pairs = short.iter().zip(traces);
    pairs.map(|(name, full)| if is_alone(name) { name } else { full }.clone()).collect()
}

fn plot(name: &str, trace: &Trace) -> String {
    let period = trace.millis().last().copied().unwrap_or(1);
    let bin = period.div_ceil(PLOT_BINS).max(1);
    trace_svg(&TracePreview {
        name: name.to_owned(),
        bin_s: f64::from(bin) / 1000.0,
        capacity_mbps: rates(trace, bin).into_iter().map(|rate| rate as f32).collect(),
    })
}

/// One line that says which trace this is.
pub(super) fn describe(name: &str, figures: &Figures) -> String {
    let (length, rate) = (time(figures.seconds * 1000.0), short(figures.mean_mbps));
    let number = figures.opportunities;
    let plural = if number == 1 { "y" } else { "ies" };
    format!("{name}: {length}, {rate} Mbit/s on average, {number} opportunit{plural}\n")
}

/// The figures, one quantity per line.
fn table(figures: &Figures) -> String {
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

fn outages(figures: &Figures) -> String {
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

fn spread(of: &Spread) -> Vec<(&'static str, f64)> {
    vec![("mean", of.mean), ("p50", of.p50), ("p90", of.p90), ("p99", of.p99), ("max", of.max)]
}

/// A figure behind its name, as wide as the others.
fn cell(name: &str, value: f64) -> String {
    format!("{:<12}", format!("{name} {}", short(value)))
}
