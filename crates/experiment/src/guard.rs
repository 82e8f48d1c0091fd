//! Ends an experiment whose arm is worse than its file allows.
//!
//! It looks at the end of every slot, so a test at 95 % would alarm sooner or later. Its bound holds at
//! all looks together: the one-sided asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha,
//! Kennedy and Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", Annals
//! of Statistics 52(6), 2024. The 5 % are divided among figures and arms.

use std::collections::BTreeMap;

use cellpace_base::Random;
use cellpace_base::math::{exp, ln};
use cellpace_base::statistics::quantile;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::config::{AssignBy, Experiment, GuardLimit};
use crate::figure::{Figure, FigureKind};
use crate::record::{ArmDescription, ConnectionRecord, GuardLook};

/// The risk that an arm that is no worse ends the experiment, at all looks together.
const RISK: f64 = 0.05;
/// Slots or clients that each arm has before the guard judges.
const MIN_UNITS: usize = 4;
/// Slots and clients of both arms for which the bound is narrowest.
const TUNED_FOR: f64 = 60.0;
/// Slots or clients that are kept; what comes later is not guarded.
const MAX_UNITS: usize = 20_000;
/// Values that are kept of a slot, and of a client: a sample of all where there are more.
const MAX_OF_SLOT: usize = 200;
const MAX_OF_CLIENT: usize = 32;
/// Looks that are kept.
const MAX_LOOKS: usize = 2_000;

/// The guard of an experiment.
#[derive(Debug, Clone)]
pub struct Guard {
    experiment: String,
    by_time: bool,
    limits: Vec<GuardLimit>,
    arms: Vec<String>,
    state: GuardState,
}

/// What a guard knows, and keeps in a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct GuardState {
    experiment: String,
    /// What ended the experiment.
    fired: Option<GuardLook>,
    looks: Vec<GuardLook>,
    /// The slot of the last look.
    looked: Option<u64>,
    /// Slots or clients, by arm.
    arms: BTreeMap<String, BTreeMap<String, Unit>>,
    /// What the arms are: figures of others are no figures of theirs.
    described: Vec<ArmDescription>,
}

/// The parts of each guarded figure, by the figure's name.
type Unit = BTreeMap<String, Parts>;

/// What the connections of a slot or client add to a figure.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Parts {
    count: u64,
    sums: (f64, f64),
    values: Vec<f32>,
}

fn described(experiment: &Experiment) -> Vec<ArmDescription> {
    experiment.arms.iter().map(ArmDescription::of).collect()
}

impl Guard {
    /// The guard of an experiment that begins.
    pub fn new(experiment: &Experiment) -> Self {
        let (name, described) = (experiment.name.clone(), described(experiment));
        Self::with(experiment, GuardState { experiment: name, described, ..GuardState::default() })
    }

    /// The guard of an experiment that goes on: `state` is what [`to_json`](Self::to_json) gave.
    ///
    /// # Errors
    /// When the text is no state of a guard, or that of another experiment, or of this one with other arms.
    pub fn restore(experiment: &Experiment, state: &str) -> Result<Self, String> {
        let state: GuardState = serde_json::from_str(state).map_err(|error| {
            format!("not the state of a guard ({error}): name another log, or remove the file")
        })?;
        if state.experiment != experiment.name {
            return Err(format!("of the experiment `{}`: name another log", state.experiment));
        }
        match state.described == described(experiment) {
            true => Ok(Self::with(experiment, state)),
            false => {
                Err("the experiment's arms have changed since it began: give it another name \
                      and another log"
                    .to_owned())
            }
        }
    }

    fn with(experiment: &Experiment, state: GuardState) -> Self {
        Self {
            experiment: experiment.name.clone(),
            by_time: experiment.assign == AssignBy::Time,
            limits: experiment.guard.clone(),
            arms: experiment.arms.iter().map(|arm| arm.name.clone()).collect(),
            state,
        }
    }

    /// Returns what it knows, to be kept in a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.state).expect("texts, numbers, and maps with texts as keys")
    }

    /// Returns what ended the experiment. It is final.
    pub fn fired(&self) -> Option<&GuardLook> {
        self.state.fired.as_ref()
    }

    /// Whether there is anything to guard.
    pub fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Adds a connection.
    pub fn record(&mut self, record: &ConnectionRecord) {
        if !record.counts() || self.limits.is_empty() {
            return;
        }
        let unit = match self.by_time {
            true => record.slot.to_string(),
            false => record.client.clone(),
        };
        let most = if self.by_time { MAX_OF_SLOT } else { MAX_OF_CLIENT };
        let units = self.state.arms.entry(record.arm.clone()).or_default();
        if units.len() >= MAX_UNITS && !units.contains_key(&unit) {
            return;
        }
        let unit = units.entry(unit).or_default();
        for limit in &self.limits {
            if let Some(part) = record.part(limit.figure) {
                unit.entry(limit.figure.name().to_owned()).or_default().add(part, most);
            }
        }
    }

    /// Judges once for each slot: `slot` is that of now, `at_s` seconds since 1970. Returns what it found
    /// now, nothing if it has looked before in this slot, or ended the experiment.
    pub fn look(&mut self, at_s: f64, slot: u64) -> Vec<GuardLook> {
        if self.limits.is_empty() || self.state.fired.is_some() || self.state.looked == Some(slot) {
            return Vec::new();
        }
        self.state.looked = Some(slot);
        let mut looks = Vec::new();
        for arm in &self.arms[1..] {
            for limit in &self.limits {
                looks.extend(self.judge(at_s, slot, arm, *limit));
            }
        }
        self.state.fired = looks.iter().find(|look| look.fired).cloned();
        self.state.looks.extend(looks.iter().cloned());
        let old = self.state.looks.len().saturating_sub(MAX_LOOKS);
        self.state.looks.drain(..old);
        looks
    }

    fn judge(&self, at_s: f64, slot: u64, arm: &str, limit: GuardLimit) -> Option<GuardLook> {
        let control = self.values(&self.arms[0], slot, limit.figure);
        let treated = self.values(arm, slot, limit.figure);
        if control.is_empty() || treated.is_empty() {
            return None;
        }
        let sign = if limit.figure.is_better_high() { -1.0 } else { 1.0 };
        let (control, treated) = (Moments::of(&control), Moments::of(&treated));
        let worse = sign * (treated.mean - control.mean);
        let comparisons = self.limits.len() * (self.arms.len() - 1);
        let at_least = (control.count.min(treated.count) >= MIN_UNITS)
            .then(|| worse - bound(RISK / comparisons as f64, &control, &treated));
        let shown = |worse: f64| shown(limit.figure, worse);
        let is_over = shown(worse) > limit.worse;
        Some(GuardLook {
            at_s,
            figure: limit.figure.name().to_owned(),
            arm: arm.to_owned(),
            units: (control.count + treated.count) as u64,
            worse: shown(worse),
            at_least: at_least.map(shown),
            limit: limit.worse,
            fired: is_over && at_least.is_some_and(|least| least > 0.0),
        })
    }

    /// The figure of each slot that has ended, or of each client.
    fn values(&self, arm: &str, slot: u64, figure: Figure) -> Vec<f64> {
        let Some(units) = self.state.arms.get(arm) else { return Vec::new() };
        let has_ended = |unit: &str| !self.by_time || unit.parse::<u64>().is_ok_and(|it| it < slot);
        let ended = units.iter().filter(|(unit, _)| has_ended(unit));
        ended.filter_map(|(_, unit)| unit.get(figure.name())?.value(figure)).collect()
    }

    /// The experiment's name.
    pub fn experiment(&self) -> &str {
        &self.experiment
    }
}

impl Parts {
    fn add(&mut self, part: (f64, f64), most: usize) {
        self.count += 1;
        self.sums = (self.sums.0 + part.0, self.sums.1 + part.1);
        // A sample in which each value is as likely: Vitter's reservoir.
        let place = match self.values.len() < most {
            true => self.values.len(),
            false => Random::seeded(self.count, 0).below(self.count) as usize,
        };
        match self.values.get_mut(place) {
            Some(value) => *value = part.0 as f32,
            None if place < most => self.values.push(part.0 as f32),
            None => {}
        }
    }

    /// Points of percent, or the logarithm: relative differences are then differences.
    fn value(&self, figure: Figure) -> Option<f64> {
        match figure.kind() {
            FigureKind::Share | FigureKind::Rate => figure.kind().of_sums(self.sums),
            FigureKind::Quantile(level) => {
                let mut values = self.values.clone();
                values.sort_by(f32::total_cmp);
                let floor = if figure.is_better_high() { 1e-3 } else { 0.1 };
                (!values.is_empty()).then(|| ln(quantile(&values, level).max(floor)))
            }
        }
    }
}

/// What is worse by this much, in points of percent or in percent.
fn shown(figure: Figure, worse: f64) -> f64 {
    match figure.kind() {
        FigureKind::Share | FigureKind::Rate => worse,
        FigureKind::Quantile(_) if figure.is_better_high() => (1.0 - exp(-worse)) * 100.0,
        FigureKind::Quantile(_) => (exp(worse) - 1.0) * 100.0,
    }
}

struct Moments {
    count: usize,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Self {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count, mean, variance: squares / (count.max(2) - 1) as f64 }
    }
}

/// How much the difference of two means may be too large at any look, with this risk.
fn bound(risk: f64, one: &Moments, other: &Moments) -> f64 {
    let error = (one.variance / one.count as f64 + other.variance / other.count as f64).sqrt();
    let units = (one.count + other.count) as f64;
    // Waudby-Smith et al., equation (10), and Proposition 2.6 for one side.
    let tuned = -2.0 * ln(2.0 * risk);
    let rho = (tuned + ln(tuned + 1.0)) / TUNED_FOR;
    let spread = units * rho + 1.0;
    let width = (2.0 * spread / (units * rho) * ln(1.0 + spread.sqrt() / (2.0 * risk))).sqrt();
    error * width * of_few(width, units - 2.0)
}

/// The sequence holds in the limit; with few units a deviation is as likely as one of Student's t.
fn of_few(width: f64, freedom: f64) -> f64 {
    let normal = Normal::standard();
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else { return 1.0 };
    // Beyond this the tail is lost to rounding, and the factor no longer matters.
    let width_there = width.min(6.0);
    student.inverse_cdf(normal.cdf(width_there)) / width_there
}
