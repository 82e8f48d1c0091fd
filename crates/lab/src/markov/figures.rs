//! What a model holds, as text, as JSON and for a page.

use cellpace_mdi::{Analysis, Counts, Model, ModelPart, States, Stationary, TransitionMatrix};
use cellpace_report::{PageTable, short};
use serde_json::{Value, json};

use super::json::{about_to_json, states_to_json};
use super::pictures::{delay_text, window_text};

/// States that are listed.
const LISTED: usize = 10;

/// Traces that are named.
const NAMED: usize = 4;

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

    /// Returns names and values, one a line.
    pub fn facts(&self) -> Vec<(String, String)> {
        let (about, analysis) = (&self.model.about, &self.analysis);
        let known = |text: &str| {
            if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
        };
        let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
        let m = u64::from(analysis.states);
        let pairs = [
            ("teacher", known(&about.teacher)),
            ("learnt on", self.traces()),
            ("scenario", known(&about.scenario)),
            ("users", self.users()),
            ("epoch", format!("{} ms", short(f64::from(about.epoch_us) / 1e3))),
            ("states", self.states()),
            ("transitions", analysis.transitions.to_string()),
            ("cells", format!("{} of {m} x {m} ({})", analysis.cells, percent(analysis.density))),
            (
                "unseen rows",
                format!(
                    "{} of {m} ({})",
                    analysis.unseen_rows,
                    share(analysis.unseen_rows.into(), m)
                ),
            ),
            (
                "subsets",
                format!(
                    "{}: {} empty, {} with one window",
                    analysis.subsets,
                    share(analysis.empty_subsets, analysis.subsets),
                    share(analysis.single_subsets, analysis.subsets)
                ),
            ),
            ("file", format!("{} bytes", self.bytes)),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn traces(&self) -> String {
        let traces = &self.model.about.traces;
        let names: Vec<&str> = traces.iter().take(NAMED).map(|trace| &trace.name[..]).collect();
        match traces.len() {
            0 => "unknown".to_owned(),
            1..=NAMED => names.join(", "),
            count => format!("{} and {} more", names.join(", "), count - NAMED),
        }
    }

    fn users(&self) -> String {
        let part = |part: &ModelPart| {
            let users = if part.users == 0 { "unknown".to_owned() } else { part.users.to_string() };
            if part.samples == 0 { users } else { format!("{users} ({} samples)", part.samples) }
        };
        let parts: Vec<String> = self.model.parts.iter().map(part).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }

    fn states(&self) -> String {
        let states = &self.model.states;
        let (m, delays, windows) = (states.len(), states.delays(), states.windows());
        format!("{m}, {delays} delays x {windows} windows: {states}")
    }

    /// Returns the tables below the facts.
    pub fn tables(&self) -> Vec<PageTable> {
        vec![self.most_used(), self.most_likely()]
    }

    fn most_used(&self) -> PageTable {
        let total = self.analysis.transitions.max(1) as f64;
        let row = |(state, count): &(u32, u64)| {
            let share = percent(*count as f64 / total);
            let [delay, window] = self.names(*state);
            vec![delay, window, count.to_string(), share]
        };
        PageTable {
            title: "Most used states".to_owned(),
            note: String::new(),
            header: texts([self.delay_name(), self.window_name(), "transitions", "share"]),
            rows: self.analysis.most_used.iter().map(row).collect(),
        }
    }

    fn most_likely(&self) -> PageTable {
        let row = |(state, share): (u32, f64)| {
            let [delay, window] = self.names(state);
            vec![delay, window, percent(share)]
        };
        let Stationary { steps, change, .. } = &self.stationary;
        let note = match *change <= 1e-12 {
            true => format!(
                "Power iteration, settled after {steps} steps; unseen rows lead everywhere."
            ),
            false => format!(
                "Power iteration, not settled: step {steps}, the last, changed a share by {change:.1e}; \
                 unseen rows lead everywhere."
            ),
        };
        PageTable {
            title: "Stationary distribution, the most likely states".to_owned(),
            note,
            header: texts([self.delay_name(), self.window_name(), "share"]),
            rows: self.likely().into_iter().map(row).collect(),
        }
    }

    fn likely(&self) -> Vec<(u32, f64)> {
        let shares = self.stationary.shares.iter().copied().enumerate();
        let mut shares: Vec<(u32, f64)> =
            shares.map(|(state, share)| (state as u32, share)).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        shares.truncate(LISTED);
        shares
    }

    fn names(&self, state: u32) -> [String; 2] {
        let states = &self.model.states;
        [delay_text(states, states.delay_of(state)), window_text(states, states.window_of(state))]
    }

    fn delay_name(&self) -> &'static str {
        match self.model.states {
            States::Absolute(_) => "delay",
            States::Levels(_) => "level of delay",
            _ => "change of delay",
        }
    }

    fn window_name(&self) -> &'static str {
        match self.model.states {
            States::Absolute(_) => "window",
            States::Levels(_) => "change of window",
            _ => "of window",
        }
    }

    /// Returns facts and tables as they are printed, below `name`.
    pub fn to_text(&self, name: &str) -> String {
        let facts = self.facts();
        let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = format!("{name}\n");
        for (name, value) in facts {
            text += &format!("  {name:width$}  {value}\n");
        }
        for table in self.tables() {
            text += &format!("\n{}\n{}", table.title, columns(&table));
            if !table.note.is_empty() {
                text += &format!("  {}\n", table.note);
            }
        }
        text
    }

    /// Returns the figures as a JSON document.
    pub fn to_json(&self) -> Value {
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
        json!({
            "schema": "cellpace.mdi.show/2",
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
        })
    }
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

/// A table as text, the numbers to the right.
fn columns(table: &PageTable) -> String {
    let all = || std::iter::once(&table.header).chain(&table.rows);
    let width = |column: usize| {
        all().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let cells =
            row.iter().enumerate().map(|(column, text)| format!("  {text:>0$}", width(column)));
        cells.collect::<String>() + "\n"
    };
    all().map(line).collect()
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        small if small > 0.0 && small < 0.001 => "below 0.001 %".to_owned(),
        percent => format!("{} %", short(percent)),
    }
}
