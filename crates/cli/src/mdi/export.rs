//! `cellpace mdi export`: tables for other programs.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_cc::ControllerSpec;
use cellpace_mdi::{
    About, Axis, Cell, Model, PRUNE, Part, States, VectorEvent, VectorStep, matrix_csv, test_vector,
};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::read::{Users, counts, read};
use crate::error::Failure;
use crate::output::{write, write_bytes};

/// Name and version of the JSON form.
const SCHEMA: &str = "cellpace.mdi.model/1";

/// Arguments of `cellpace mdi export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace mdi export verus.mdi --format json -o verus.json
  cellpace mdi export verus.mdi --format csv --users 2 -o matrix.csv
  cellpace mdi export verus.mdi --format flat -o verus.flat --vectors verus.json

docs/mdi-format.md describes the forms.")]
pub(crate) struct ExportArgs {
    /// A Markov table, or a matrix in CSV
    #[arg(value_name = "FILE")]
    table: PathBuf,
    /// json: header and counted cells; csv: dense probabilities, in the layout of the original
    /// for relative states; flat: table and rules as 32-bit words, for other runtimes
    #[arg(long, value_enum)]
    format: Format,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What was learnt with this number of users; `all`: together in csv, one by one in json
    #[arg(long, default_value = "all", value_name = "all|N")]
    users: Users,
    /// Leave out windows with a smaller share of their subset (csv; the original's: 0.02)
    #[arg(long, default_value_t = PRUNE, value_name = "SHARE", value_parser = share)]
    prune: f64,
    /// Rules of the walk as in a controller string, e.g. sampler=closest,empty=paper (flat)
    #[arg(long, default_value = "", value_name = "KEY=VALUE,...")]
    rules: String,
    /// Also write a test vector: events, and the window after each (flat)
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Seed of the walk in the test vector
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Forms of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Csv,
    Flat,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "give a share from 0 to below 1".to_owned())
}

pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    if args.format == Format::Flat {
        return export_flat(args);
    }
    if !args.rules.is_empty() || args.vectors.is_some() {
        return Err(Failure::usage("--rules and --vectors are for --format flat"));
    }
    let model = args.users.of(read(&args.table)?.model)?;
    let text = match args.format {
        Format::Json | Format::Flat => json_text(&model),
        Format::Csv => matrix_csv(&model.states, &counts(&model), args.prune)
            .map_err(|error| Failure::failed(format!("{}: {error}", args.table.display())))?,
    };
    let stdout = PathBuf::from("-");
    write(args.output.as_ref().unwrap_or(&stdout), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Steps of a test vector.
const VECTOR_STEPS: usize = 2000;

fn export_flat(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let model = args.users.of(read(&args.table)?.model)?;
    let bytes = model.to_bytes();
    // The rules are those of the controller, and so are their errors.
    let spec =
        ControllerSpec::parse(&format!("mdi:model=-,{}", args.rules), &mut |_| Ok(bytes.clone()));
    let spec = spec.map_err(|error| Failure::usage(format!("--rules: {error}")))?;
    let walk = spec.markov_walk().filter(|walk| !walk.slow_start);
    let flat = walk
        .map(|walk| walk.flat)
        .ok_or_else(|| Failure::usage("--rules: users=adapt and start=slow have no flat form"))?;
    let stdout = PathBuf::from("-");
    write_bytes(args.output.as_ref().unwrap_or(&stdout), &flat.to_bytes())?;
    if let Some(path) = &args.vectors {
        let steps = test_vector(&flat, args.seed, VECTOR_STEPS);
        write(path, &vector_text(args.seed, &steps))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One step a line, so that a difference is found by eye.
fn vector_text(seed: u64, steps: &[VectorStep]) -> String {
    let step = |step: &VectorStep| {
        match step.event {
            VectorEvent::Epoch { delay_us, acked, sent, in_flight, epochs } => json!({
                "epoch": delay_us, "acked": acked, "sent": sent, "in_flight": in_flight,
                "epochs": epochs, "window": step.window, "credit": step.credit,
            }),
            VectorEvent::Set { window, forget } => json!({
                "set": window, "forget": forget, "window": step.window, "credit": step.credit,
            }),
        }
        .to_string()
    };
    let lines: Vec<String> = steps.iter().map(step).collect();
    // As a text, because not every reader of JSON has whole numbers of 64 bits.
    format!("{{\"seed\": \"{seed}\", \"steps\": [\n{}\n]}}\n", lines.join(",\n"))
}

/// The model without loss.
fn json_text(model: &Model) -> String {
    let all = json!({
        "schema": SCHEMA,
        "about": about(&model.about),
        "states": states(&model.states),
        "parts": model.parts.iter().map(part).collect::<Vec<_>>(),
    });
    format!("{all}\n")
}

/// Where a model comes from, as JSON.
pub(super) fn about(about: &About) -> Value {
    let traces = about.traces.iter().map(|trace| {
        let hash: String = trace.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "name": trace.name, "sha256": hash })
    });
    json!({
        "teacher": about.teacher,
        "scenario": about.scenario,
        "seed": about.seed,
        "epoch_us": about.epoch_us,
        "traces": traces.collect::<Vec<_>>(),
    })
}

/// What the states are, as JSON.
pub(super) fn states(states: &States) -> Value {
    let axis = |axis: &Axis| {
        let [min, max, step] =
            [axis.min(), axis.max(), axis.step()].map(|value| value as f64 / 1e3);
        json!({ "min": min, "max": max, "step": step, "values": axis.len() })
    };
    let size = states.len();
    match states {
        States::Absolute(s) => json!({
            "kind": "absolute",
            "size": size,
            "delay_ms": { "min": s.d_min, "max": s.d_max, "step": s.quantization, "values": s.bins() },
            "window_packets": { "min": s.w_min, "max": s.w_max, "step": 1, "values": states.windows() },
        }),
        States::Relative(s) => json!({
            "kind": "relative",
            "size": size,
            "delay_change": axis(&s.d),
            "window_change": axis(&s.w),
        }),
        States::Levels(s) => json!({
            "kind": "levels",
            "size": size,
            "delay_decades": axis(&s.d),
            "window_change": axis(&s.w),
        }),
        _ => json!({ "kind": "unknown", "size": size }),
    }
}

fn part(part: &Part) -> Value {
    let cell = |cell: &Cell| json!([cell.from, cell.to, cell.count]);
    json!({
        "users": part.users,
        "samples": part.samples,
        "cells": part.counts.cells().iter().map(cell).collect::<Vec<_>>(),
    })
}
