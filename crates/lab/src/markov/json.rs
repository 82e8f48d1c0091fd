//! Models as JSON.

use cellpace_mdi::{About, Axis, Model, ModelPart, States, TransitionCount};
use serde_json::{Value, json};

/// Name and version of the form.
const SCHEMA: &str = "cellpace.mdi.model/1";

/// Returns a model without loss, as docs/mdi-format.md describes it.
pub fn model_to_json(model: &Model) -> Value {
    json!({
        "schema": SCHEMA,
        "about": about_to_json(&model.about),
        "states": states_to_json(&model.states),
        "parts": model.parts.iter().map(part_to_json).collect::<Vec<_>>(),
    })
}

/// Where a model comes from, as JSON.
pub(super) fn about_to_json(about: &About) -> Value {
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
pub(super) fn states_to_json(states: &States) -> Value {
    let axis = |axis: &Axis| {
        let [min, max, step] =
            // Files count axes in whole thousandths, so that models merge exactly; people write
            // decimals.
            [axis.min(), axis.max(), axis.step()].map(|value| value as f64 / 1e3);
        json!({ "min": min, "max": max, "step": step, "values": axis.len() })
    };
    let (size, written) = (states.len(), states.to_string());
    match states {
        States::Absolute(s) => json!({
            "kind": "absolute",
            "size": size,
            "written": written,
            "delay_ms": { "min": s.d_min, "max": s.d_max, "step": s.quantization, "values": s.bins() },
            "window_packets": { "min": s.w_min, "max": s.w_max, "step": 1, "values": states.windows() },
        }),
        States::Relative(s) => json!({
            "kind": "relative",
            "size": size,
            "written": written,
            "delay_change": axis(&s.d),
            "window_change": axis(&s.w),
        }),
        States::Levels(s) => json!({
            "kind": "levels",
            "size": size,
            "written": written,
            "delay_decades": axis(&s.d),
            "window_change": axis(&s.w),
        }),
        _ => json!({ "kind": "unknown", "size": size }),
    }
}

fn part_to_json(part: &ModelPart) -> Value {
    let cell = |cell: &TransitionCount| json!([cell.from, cell.to, cell.count]);
    json!({
        "users": part.users,
        "samples": part.samples,
        "cells": part.counts.cells().iter().map(cell).collect::<Vec<_>>(),
    })
}
