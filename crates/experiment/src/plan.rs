//! How long an experiment must run, before it starts.

use std::collections::BTreeMap;

use cellpace_base::Span;
use cellpace_base::math::ln;
use cellpace_base::statistics::{mean, quantile};
use serde::Serialize;

use crate::figure::{Figure, FigureKind};
use crate::record::{ConnectionRecord, ExperimentRecords};

/// The schema's name and version. Fields are only added within a version.
pub const EXPERIMENT_PLAN_SCHEMA: &str = "cellpace.experiment.plan/1";

/// Differences in percent for which times are given.
pub const PLAN_DIFFERENCES: [f64; 5] = [2.0, 5.0, 10.0, 20.0, 50.0];

/// An interval of 95 % excludes 0 in 80 % of experiments: quantiles of the normal distribution.
const CERTAINTY: f64 = 1.959_964;
const POWER: f64 = 0.841_621;

/// Slots of each arm at least: with fewer, intervals are as wide as those of Student's t.
const MIN_SLOTS: f64 = 8.0;
/// Slots of the baseline at least.
const MIN_BASELINE: usize = 8;

/// How long an experiment of two equal arms must run, by figure and difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentPlan {
    /// [`EXPERIMENT_PLAN_SCHEMA`].
    pub schema: &'static str,
    /// Length of a slot in seconds.
    pub slot_s: f64,
    /// Share of slots in the experiment, from 0 to 1.
    pub share: f64,
    /// Slots of the baseline.
    pub slots: usize,
    /// The figures that the baseline has.
    pub figures: Vec<PlannedFigure>,
}

/// A figure of a baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedFigure {
    /// Its name.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Mean over slots.
    pub mean: f64,
    /// Standard deviation from slot to slot, in percent of the mean.
    pub deviation: f64,
    /// Hours for each of [`PLAN_DIFFERENCES`].
    pub hours: Vec<f64>,
}

impl ExperimentPlan {
    /// Plans by the connections of the control of an experiment, or of a run with arms that are all plain.
    ///
    /// # Errors
    /// When the baseline is too short to say how slots differ.
    pub fn of(records: &ExperimentRecords, slot: Span, share: f64) -> Result<Self, String> {
        let control = &records.start.arms[0].name;
        let mut slots: BTreeMap<u64, Vec<&ConnectionRecord>> = BTreeMap::new();
        for record in records.connections.iter().filter(|record| record.arm == *control) {
            slots.entry((record.start_s / slot.as_secs_f64()) as u64).or_default().push(record);
        }
        if slots.len() < MIN_BASELINE {
            return Err(format!(
                "the arm `{control}` has connections in {} slots of {slot}; {MIN_BASELINE} or more say how slots \
                 differ",
                slots.len()
            ));
        }
        let of_figure = |figure| planned(figure, slots.values(), slot, share);
        Ok(Self {
            schema: EXPERIMENT_PLAN_SCHEMA,
            slot_s: slot.as_secs_f64(),
            share,
            slots: slots.len(),
            figures: Figure::ALL.into_iter().filter_map(of_figure).collect(),
        })
    }
}

fn planned<'a>(
    figure: Figure,
    slots: impl Iterator<Item = &'a Vec<&'a ConnectionRecord>>,
    slot: Span,
    share: f64,
) -> Option<PlannedFigure> {
    let values: Vec<f64> = slots.filter_map(|records| of_slot(figure, records)).collect();
    let mean = mean(values.iter().copied());
    if values.len() < MIN_BASELINE || mean <= 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let relative = (squares / (values.len() - 1) as f64).sqrt() / mean;
    let hours = |difference: &f64| {
        // Differences are ratios: those of logarithms.
        let ratio = ln(1.0 + difference / 100.0);
        let each = 2.0 * ((CERTAINTY + POWER) * relative / ratio).powi(2);
        2.0 * each.ceil().max(MIN_SLOTS) * slot.as_secs_f64() / share / 3600.0
    };
    Some(PlannedFigure {
        figure: figure.name(),
        unit: figure.unit(),
        mean,
        deviation: relative * 100.0,
        hours: PLAN_DIFFERENCES.iter().map(hours).collect(),
    })
}

fn of_slot(figure: Figure, records: &[&ConnectionRecord]) -> Option<f64> {
    let parts = records.iter().filter_map(|record| record.part(figure));
    match figure.kind() {
        FigureKind::Share | FigureKind::Rate => {
            let sums = parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
            figure.kind().of_sums(sums)
        }
        FigureKind::Quantile(level) => {
            let mut values: Vec<f64> = parts.map(|(value, _)| value).collect();
            values.sort_by(f64::total_cmp);
            (!values.is_empty()).then(|| quantile(&values, level))
        }
    }
}
