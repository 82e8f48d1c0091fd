//! What a model holds, as JSON.

use cellpace_mdi::{Analysis, Counts, Model, ModelPart, Stationary, TransitionMatrix};
use cellpace_report::Heatmap;
use serde_json::{Value, json};

use super::json::{about_to_json, states_to_json};

/// States that are listed.
const LISTED: usize = 10;

/// Size, density, the states used most, and the stationary distribution of a model.
#[derive(Debug, Clone)]
pub struct ModelFigures<'a> {
    model: &'a Model,
    bytes: usize,
    analysis: Analysis,
    stationary: Stationary,
}

impl<'a> ModelFigures<'a> {
    /// Computes them, in a second or two where there are many states. `bytes` is the size of the
    /// model's file, `counts` what is looked at of the model, and `matrix` the same.
    pub fn of(model: &'a Model, bytes: usize, counts: &Counts, matrix: &TransitionMatrix) -> Self {
        Self {
            model,
            bytes,
            analysis: Analysis::of(&model.states, counts, LISTED),
            stationary: matrix.stationary(),
        }
    }

    /// Returns the share of time of each state in the long run.
    pub fn distribution(&self) -> &[f64] {
        &self.stationary.shares
    }

    /// Returns the figures as a JSON document, `name` being the table's, with these pictures, each
    /// with a note.
    pub fn to_json(&self, name: &str, pictures: Vec<(Heatmap, &str)>) -> Value {
        let analysis = &self.analysis;
        let state = |state: u32| {
            let states = &self.model.states;
            let (delay, window) = (states.delay_of(state), states.window_of(state));
            json!({
                "state": state,
                "delay": states.delay_value(delay),
                "window": states.window_value(window),
            })
        };
        let with = |mut value: Value, key: &str, more: Value| {
            value[key] = more;
            value
        };
        let used = analysis.most_used.iter();
        let used = used.map(|(number, count)| with(state(*number), "transitions", (*count).into()));
        let likely = self.likely().into_iter();
        let likely = likely.map(|(number, share)| with(state(number), "share", share.into()));
        let part = |part: &ModelPart| {
            json!({
                "users": part.users,
                "samples": part.samples,
                "cells": part.counts.cells().len(),
                "transitions": part.counts.total(),
            })
        };
        let picture = |(map, note): (Heatmap, &str)| json!({ "map": map.thinned(), "note": note });
        json!({
            "schema": "cellpace.mdi.show/2",
            "version": env!("CARGO_PKG_VERSION"),
            "name": name,
            "file_bytes": self.bytes,
            "about": about_to_json(&self.model.about),
            "states": states_to_json(&self.model.states),
            "parts": self.model.parts.iter().map(part).collect::<Vec<_>>(),
            "cells": analysis.cells,
            "transitions": analysis.transitions,
            "density": analysis.density,
            "unseen_rows": analysis.unseen_rows,
            "subsets": analysis.subsets,
            "empty_subsets": analysis.empty_subsets,
            "single_subsets": analysis.single_subsets,
            "most_used": used.collect::<Vec<_>>(),
            "stationary": {
                "most_likely": likely.collect::<Vec<_>>(),
                "steps": self.stationary.steps,
                "last_change": self.stationary.change,
            },
            "pictures": pictures.into_iter().map(picture).collect::<Vec<_>>(),
        })
    }

    fn likely(&self) -> Vec<(u32, f64)> {
        let shares = self.stationary.shares.iter().copied().enumerate();
        let mut shares: Vec<(u32, f64)> =
            shares.map(|(state, share)| (state as u32, share)).collect();
        // Ties by number, so that a list is the same each time.
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        shares.truncate(LISTED);
        shares
    }
}
