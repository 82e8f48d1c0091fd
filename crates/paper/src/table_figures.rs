//! What a Markov table and the samples of which it was made are like.

use std::ops::Range;

use cellpace_base::statistics::quantile;
use cellpace_lab::ModelPictures;
use cellpace_mdi::{
    Counts, Empty, Flat, LoggedFlows, Model, OutOfRange, Sample, States, Table, TableShape,
    TransitionCount, TransitionMatrix,
};
use cellpace_report::short;
use serde_json::{Value, json};

/// Delays that figure 5 of the MDI paper shows.
const FIRST_DELAYS: u32 = 10;
/// Windows that are near each other.
const NEAR: u32 = 5;
/// Samples that are kept for charts.
const KEPT_SAMPLES: usize = 400;
/// Of delays and windows half a percent lies beyond each side of the box that has the rest.
const BEYOND: f64 = 0.005;

/// The record of a training: figures of its table and samples, values along `delay`, `window` and
/// `sample`, and pictures of the matrix.
pub(crate) fn table_figures(name: &str, logged: &[LoggedFlows], model: &Model) -> Value {
    let counts = model.combined();
    let states = model.states;
    let m = f64::from(states.len());
    let mut record = json!({
        "samples": model.samples(),
        "states": states.len(),
        "cells": counts.cells().len(),
        "transitions": counts.total(),
        // The paper's form: a probability of four bytes for each pair of states.
        "dense_bytes": m * m * 4.0,
        "file_bytes": model.to_bytes().len(),
        "memory_bytes": memory_bytes(model, &counts),
    });
    let shares = Shares { states, cells: counts.cells() };
    let first = 0..FIRST_DELAYS.min(states.delays());
    record["diagonal"] = shares.of(0..states.delays(), |from, to| from == to).into();
    record["above"] = shares.of(first.clone(), |from, to| to > from).into();
    record["below"] = shares.of(first.clone(), |from, to| to < from).into();
    record["window"] = shares.by_window(first);
    record["delay"] = shares.by_delay();
    let samples: Vec<Sample> =
        logged.iter().flat_map(|flows| flows.chains.iter().flatten().copied()).collect();
    record["area"] = area(&samples).into();
    record["sample"] = kept(&samples);
    record["maps"] = maps(name, model, &counts);
    record
}

/// The table in the form in which the kernel and other runtimes have it in memory.
fn memory_bytes(model: &Model, counts: &Counts) -> usize {
    let flat = Flat {
        table: Table::new(model.states, counts, TableShape::default()),
        epoch_us: model.about.epoch_us,
        empty: Empty::default(),
        out_of_range: OutOfRange::default(),
        loss_factor: 0,
    };
    flat.to_bytes().len()
}

/// The transitions of a table, and where they lie in its matrix.
struct Shares<'a> {
    states: States,
    cells: &'a [TransitionCount],
}

impl Shares<'_> {
    fn delays(&self, cell: &TransitionCount) -> (u32, u32) {
        (self.states.delay_of(cell.from), self.states.delay_of(cell.to))
    }

    /// Of the transitions among some delays, the share for whose delays this holds.
    fn of(&self, among: Range<u32>, holds: impl Fn(u32, u32) -> bool) -> f64 {
        let (mut all, mut found) = (0, 0);
        for cell in self.cells {
            let (from, to) = self.delays(cell);
            if among.contains(&from) && among.contains(&to) {
                all += cell.count;
                found += if holds(from, to) { cell.count } else { 0 };
            }
        }
        found as f64 / all as f64
    }

    /// For each window the filled cells of a row, of rows and columns among some delays.
    fn by_window(&self, among: Range<u32>) -> Value {
        let mut cells = vec![0_u32; self.states.windows() as usize];
        for cell in self.cells {
            let (from, to) = self.delays(cell);
            if among.contains(&from) && among.contains(&to) {
                cells[self.states.window_of(cell.from) as usize] += 1;
            }
        }
        let rows = f64::from(among.end - among.start);
        let packets = (0..self.states.windows()).map(|window| self.states.window_value(window));
        json!({
            "place": packets.clone().map(short).collect::<Vec<_>>(),
            "packets": packets.collect::<Vec<_>>(),
            "cells_per_row": cells.iter().map(|cells| f64::from(*cells) / rows).collect::<Vec<_>>(),
        })
    }

    /// For each delay that was seen the filled cells of a row, and of the transitions that stay at
    /// the delay the share to a window that is near.
    fn by_delay(&self) -> Value {
        let mut cells = vec![0_u32; self.states.delays() as usize];
        let (mut staying, mut near) = (vec![0_u64; cells.len()], vec![0_u64; cells.len()]);
        for cell in self.cells {
            let (from, to) = self.delays(cell);
            cells[from as usize] += 1;
            if from == to {
                let windows = [cell.from, cell.to].map(|state| self.states.window_of(state));
                let is_near = windows[0].abs_diff(windows[1]) <= NEAR;
                staying[from as usize] += cell.count;
                near[from as usize] += if is_near { cell.count } else { 0 };
            }
        }
        let seen: Vec<usize> = (0..cells.len()).filter(|delay| staying[*delay] > 0).collect();
        let value = |delay: &usize| self.states.delay_value(*delay as u32);
        let rows = f64::from(self.states.windows());
        let per_row = |delay: &usize| f64::from(cells[*delay]) / rows;
        let share = |delay: &usize| near[*delay] as f64 / staying[*delay] as f64;
        json!({
            "place": seen.iter().map(value).map(short).collect::<Vec<_>>(),
            "value": seen.iter().map(value).collect::<Vec<_>>(),
            "cells_per_row": seen.iter().map(per_row).collect::<Vec<_>>(),
            "near": seen.iter().map(share).collect::<Vec<_>>(),
        })
    }
}

fn delay_ms(sample: &Sample) -> f64 {
    f64::from(sample.delay_us) / 1000.0
}

fn window_packets(sample: &Sample) -> f64 {
    f64::from(sample.window) / 65536.0
}

/// The area of the box that has 99 % of the delays and 99 % of the windows, in ms times packets.
fn area(samples: &[Sample]) -> f64 {
    let side = |value: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        quantile(&values, 1.0 - BEYOND) - quantile(&values, BEYOND)
    };
    if samples.is_empty() { f64::NAN } else { side(delay_ms) * side(window_packets) }
}

/// Some of the samples, evenly chosen.
fn kept(samples: &[Sample]) -> Value {
    let every = samples.len().div_ceil(KEPT_SAMPLES).max(1);
    let kept: Vec<&Sample> = samples.iter().step_by(every).collect();
    json!({
        "place": (0..kept.len()).map(|at| at.to_string()).collect::<Vec<_>>(),
        "delay_ms": kept.iter().map(|sample| delay_ms(sample)).collect::<Vec<_>>(),
        "window_packets": kept.iter().map(|sample| window_packets(sample)).collect::<Vec<_>>(),
    })
}

/// Pictures of the matrix, as figures 5 and 6 of the paper are.
fn maps(name: &str, model: &Model, counts: &Counts) -> Value {
    let matrix = TransitionMatrix::new(&model.states, counts);
    let pictures = ModelPictures { name, states: model.states, matrix: &matrix };
    let [overview, zoom] = pictures.overview_and_zoom(None).map(|map| map.thinned());
    json!({ "transitions": overview, "zoom": zoom })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_mdi::{About, Absolute, ModelPart};

    #[test]
    fn figures_of_a_small_table() {
        let states = States::Absolute(Absolute {
            d_min: 20,
            d_max: 22,
            quantization: 1,
            w_min: 0,
            w_max: 9,
        });
        let sample = |d: u32, sent| Sample { delay_us: d * 1000, window: sent << 16, sent };
        // Stays near, stays far away, goes up, comes down.
        let chain = vec![sample(20, 1), sample(20, 2), sample(20, 9), sample(21, 9), sample(20, 9)];
        let logged = vec![LoggedFlows { users: 1, chains: vec![chain] }];
        let counts = Counts::of(&states, &logged[0].chains, None);
        let part = ModelPart { users: 1, samples: 5, counts };
        let model = Model { about: About::default(), states, parts: vec![part] };
        let record = table_figures("teacher", &logged, &model);
        let at = |pointer: &str| record.pointer(pointer).unwrap().as_f64().unwrap();
        assert_eq!((at("/samples"), at("/states"), at("/cells")), (5.0, 30.0, 4.0));
        assert_eq!(at("/dense_bytes"), 3600.0);
        assert_eq!((at("/diagonal"), at("/above"), at("/below")), (0.5, 0.25, 0.25));
        assert_eq!(record["delay"]["place"], json!(["20"]));
        assert_eq!((at("/delay/near/0"), at("/delay/cells_per_row/0")), (0.5, 0.3));
        assert_eq!(
            (at("/window/cells_per_row/1"), at("/window/cells_per_row/9")),
            (1.0 / 3.0, 2.0 / 3.0)
        );
        assert_eq!(record["sample"]["window_packets"], json!([1.0, 2.0, 9.0, 9.0, 9.0]));
        assert!(at("/area") > 6.0 && at("/area") <= 8.0, "{record}");
    }
}
