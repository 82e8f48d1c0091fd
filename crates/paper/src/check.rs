//! Checks: whether they make sense, and what comes out of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellpace_measure::Interval;
use serde::Serialize;

use crate::PaperError;
use crate::claim::{Chart, Check, Claim, ClaimRun, Level, Setup};
use crate::depth::Depth;
use crate::expression::{
    Expression, Kind, Source, Table, Type, TypeSource, evaluate, parse, type_of,
};
use crate::fields::{self, Place};
use crate::recording::Recording;
use crate::records::{LABELS, Records, TRANSFER_LABELS};
use crate::unit::of_field;

/// What came out of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// What it says.
    pub name: String,
    /// `core` or `full`.
    #[serde(serialize_with = "level_name")]
    pub level: Level,
    /// The run.
    pub run: String,
    /// Where the conditions are from.
    #[serde(serialize_with = "setup_name")]
    pub setup: Setup,
    /// Whether it is so.
    pub passed: bool,
    /// Whether the bound lies within the 95 % interval of the value over repetitions.
    pub is_noise: bool,
    /// What was compared; of several comparisons the one that decides.
    pub value: String,
    /// What it was compared with.
    pub bound: String,
    /// Where on the axes that was: a trace, a controller.
    pub place: String,
}

fn level_name<S: serde::Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.name())
}

fn setup_name<S: serde::Serializer>(setup: &Setup, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(setup.name())
}

/// Refuses checks that do not read, name what is not there, or compare different units.
pub(crate) fn check_tests(claim: &Claim) -> Result<(), PaperError> {
    for check in &claim.checks {
        let wrong = |why| PaperError::of(&claim.id, format!("check \"{}\": {why}", check.name));
        let source = FieldTypes { claim, run: &check.run };
        let expression = parse(&check.test).map_err(wrong)?;
        let found = type_of(&expression, &source).map_err(wrong)?;
        if found.kind != Kind::Truth {
            return Err(wrong("compares nothing".to_owned()));
        }
        let wide: Vec<&str> = found.wide_axes().collect();
        if !wide.is_empty() {
            let axes = wide.join(", ");
            return Err(wrong(format!(
                "has an answer for each {axes}: write all(...) or any(...)"
            )));
        }
    }
    for (name, run) in &claim.runs {
        run.axes().map_err(|why| PaperError::of(&claim.id, format!("run.{name}: {why}")))?;
    }
    for chart in &claim.charts {
        let source = FieldTypes { claim, run: &chart.run };
        check_chart(chart, &source)
            .map_err(|why| PaperError::of(&claim.id, format!("chart: {why}")))?;
    }
    Ok(())
}

/// The forms that charts have.
const CHARTS: [&str; 10] = [
    "scatter",
    "lines",
    "stairs",
    "bars",
    "histogram",
    "cdf",
    "ccdf",
    "regions",
    "heatmap",
    "table",
];

/// The pictures of a table.
pub(crate) const MAPS: [&str; 2] = ["transitions", "zoom"];

fn check_chart(chart: &Chart, source: &FieldTypes<'_>) -> Result<(), String> {
    if !CHARTS.contains(&&*chart.kind) {
        return Err(format!("unknown kind `{}`; there are {}", chart.kind, CHARTS.join(", ")));
    }
    let has_table = source.claim.runs.get(source.run).is_some_and(|run| run.train.is_some());
    if chart.kind == "heatmap" && has_table {
        return match MAPS.contains(&&*chart.y) {
            true => Ok(()),
            false => Err(format!("a heatmap of a run of `train` has y = {}", MAPS.join(" or "))),
        };
    }
    let y = type_of(&parse(&chart.y)?, source)?;
    let is_axis = |name: &str| y.axes.iter().any(|(axis, _)| axis == name);
    if let Some(x) = chart.x.as_ref().filter(|x| !is_axis(x)) {
        type_of(&parse(x)?, source)?;
    }
    let has_axis_below = chart.x.as_deref().is_some_and(is_axis);
    match &*chart.kind {
        "heatmap" if !has_axis_below || chart.group.is_none() => {
            return Err("a heatmap has an axis as `x` and another as `group`".to_owned());
        }
        "regions" if has_axis_below || chart.x.is_none() => {
            return Err("regions have another field as `x`".to_owned());
        }
        _ => {}
    }
    for (name, ends) in [("x", chart.axes.x), ("y", chart.axes.y)] {
        let is_log = chart.log.contains(name);
        if ends.is_some_and(|[from, to]| from >= to || (is_log && from <= 0.0)) {
            return Err(format!("axes.{name}: from less to more, above 0 where it is logarithmic"));
        }
    }
    match chart.group.as_ref().filter(|group| !is_axis(group)) {
        Some(group) => Err(format!("`{}` has no axis `{group}`", chart.y)),
        None => Ok(()),
    }
}

/// The types of the fields of a claim's runs.
struct FieldTypes<'a> {
    claim: &'a Claim,
    run: &'a str,
}

impl TypeSource for FieldTypes<'_> {
    fn field_type(&self, name: &str, run: Option<&str>) -> Result<Type, String> {
        let run_name = run.unwrap_or(self.run);
        let run: &ClaimRun =
            self.claim.runs.get(run_name).ok_or_else(|| format!("there is no run `{run_name}`"))?;
        if let Some(recording) = &run.recording {
            return Recording::named(recording)?.field_type(name);
        }
        let (place, rest) = fields::find(name)?;
        if matches!(place, Place::Series | Place::FlowSeries) && run.series.is_none() {
            return Err(format!("`{name}` needs `series` in run.{run_name}"));
        }
        let texts = |places: &[Arc<str>]| places.iter().map(ToString::to_string).collect();
        let mut axes: Vec<(String, Vec<String>)> =
            run.axes()?.iter().map(|axis| (axis.name.to_string(), texts(&axis.places))).collect();
        let starts = if run.starts.is_none() { vec!["0s".to_owned()] } else { Vec::new() };
        axes.push(("start".to_owned(), starts));
        let seeds = run.seeds(Depth::AsWritten);
        axes.push(("seed".to_owned(), seeds.iter().map(ToString::to_string).collect()));
        if matches!(place, Place::Flow | Place::FlowSeries) {
            axes.push(("flow".to_owned(), Vec::new()));
        }
        let is_of_table = matches!(place, Place::Along(_)) || name.starts_with("table.");
        if is_of_table != run.train.is_some() {
            return Err(format!(
                "`{name}` is one of runs with `train` or of the others, but not of run.{run_name}"
            ));
        }
        if let Place::Along(axis) = place {
            axes.push((axis.to_owned(), Vec::new()));
        }
        if place == Place::Transfer {
            axes.push(("transfer".to_owned(), Vec::new()));
        }
        if matches!(place, Place::Series | Place::FlowSeries) {
            axes.push(("time".to_owned(), Vec::new()));
        }
        let labels: &[&str] = match place {
            Place::Run | Place::Series | Place::Along(_) => &[],
            Place::Transfer => &TRANSFER_LABELS,
            Place::Flow | Place::FlowSeries => &LABELS,
        };
        Ok(Type { kind: Kind::Quantity(of_field(rest).0), axes, labels })
    }
}

/// The values of the records of a claim's runs.
pub(crate) struct FieldValues<'a> {
    pub(crate) records: &'a BTreeMap<String, Records>,
    pub(crate) run: &'a str,
    /// The only place of an axis that counts.
    pub(crate) only: Option<(&'a str, &'a str)>,
}

impl Source for FieldValues<'_> {
    fn field(&self, name: &str, run: Option<&str>) -> Result<Table, String> {
        let run = run.unwrap_or(self.run);
        let records = self.records.get(run).ok_or_else(|| format!("there is no run `{run}`"))?;
        records.field(name, self.only)
    }
}

/// Evaluates a check.
pub(crate) fn run_check(
    claim: &Claim,
    check: &Check,
    records: &BTreeMap<String, Records>,
) -> Result<CheckResult, String> {
    let wrong = |why| format!("check \"{}\": {why}", check.name);
    let expression = parse(&check.test).map_err(wrong)?;
    let source = FieldValues { records, run: &check.run, only: None };
    let table = evaluate(&expression, &source).map_err(wrong)?;
    let [row] = table.rows.as_slice() else {
        return Err(wrong(format!("has {} answers", table.rows.len())));
    };
    let mut result = CheckResult {
        name: check.name.clone(),
        level: check.level,
        run: check.run.clone(),
        setup: claim.runs[&check.run].setup,
        passed: row.value == 1.0,
        is_noise: false,
        value: String::new(),
        bound: String::new(),
        place: String::new(),
    };
    if let Some(margin) = &row.margin {
        result.value = margin.unit.show(margin.value);
        result.bound = margin.unit.show(margin.bound);
        let places = margin.place.iter().filter(|place| ***place != *"0ms").map(|place| &**place);
        result.place = places.collect::<Vec<_>>().join(", ");
        result.is_noise = is_noise(&expression, &source, margin.value - margin.bound);
    }
    Ok(result)
}

/// Fewer repetitions have no interval.
const MIN_REPETITIONS: usize = 5;

/// Whether the bound lies within the 95 % interval of the value: the expression is evaluated for
/// each repetition alone.
fn is_noise(expression: &Expression, source: &FieldValues<'_>, distance: f64) -> bool {
    let records = &source.records[source.run];
    for axis in ["seed", "start", "run"] {
        let places = records.places(axis);
        if places.len() < MIN_REPETITIONS {
            continue;
        }
        let alone = |place: &Arc<str>| {
            let source = FieldValues { only: Some((axis, place)), ..*source };
            let table = evaluate(expression, &source).ok()?;
            let margin = table.rows.first()?.margin.as_ref()?;
            Some(margin.value - margin.bound).filter(|distance| distance.is_finite())
        };
        let distances: Vec<f64> = places.iter().filter_map(alone).collect();
        if distances.len() < MIN_REPETITIONS {
            continue;
        }
        return Interval::of(&distances).is_some_and(|of| distance.abs() <= of.half_width);
    }
    false
}
