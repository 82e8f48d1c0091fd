//! Charts of claims: values of expressions, as lines, marks, bars or a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellpace_report::{PageTable, short};
use serde::Serialize;
use serde_json::Value;

use crate::PaperError;
use crate::check::FieldValues;
use crate::claim::{Chart, Claim};
use crate::expression::{Kind, Row, Table, evaluate, parse};
use crate::records::Records;
use crate::unit::{Unit, read_quantity};

/// A chart as pages draw it.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DrawnChart {
    kind: String,
    title: String,
    unit: String,
    x_label: String,
    caption: String,
    log: String,
    lines: Vec<DrawnLine>,
    names: Vec<String>,
    table: Option<PageTable>,
    /// Pictures of matrices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    maps: Vec<Value>,
}

#[derive(Debug, Clone, Serialize)]
struct DrawnLine {
    name: String,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
}

/// A value with its series and its place on the horizontal axis.
struct Mark {
    group: Arc<str>,
    x: f64,
    x_name: Arc<str>,
    y: f64,
}

/// The charts of a claim with the values of its runs.
pub(crate) fn charts(
    claim: &Claim,
    records: &BTreeMap<String, Records>,
) -> Result<Vec<DrawnChart>, PaperError> {
    let drawn = claim.charts.iter().enumerate().map(|(at, chart)| {
        let drawn = drawn(chart, records)
            .map_err(|why| PaperError::Failed(format!("{}: chart {}: {why}", claim.id, at + 1)))?;
        let title = match claim.charts.len() {
            1 => claim.place.clone(),
            _ => format!("{} ({})", claim.place, at + 1),
        };
        Ok(DrawnChart { title, ..drawn })
    });
    drawn.collect()
}

/// The pictures of the tables of a run.
fn heatmaps(chart: &Chart, records: &BTreeMap<String, Records>) -> DrawnChart {
    let cells = records.get(&chart.run).map_or(&[][..], |records| &records.cells);
    DrawnChart {
        kind: chart.kind.clone(),
        caption: chart.caption.clone(),
        maps: cells.iter().map(|(_, record)| record["maps"][&chart.y].clone()).collect(),
        ..DrawnChart::default()
    }
}

fn drawn(chart: &Chart, records: &BTreeMap<String, Records>) -> Result<DrawnChart, String> {
    if chart.kind == "heatmap" {
        return Ok(heatmaps(chart, records));
    }
    let source = FieldValues { records, run: &chart.run, only: None };
    let y = evaluate(&parse(&chart.y)?, &source)?;
    let (y_unit, y_scale) = unit(&y);
    let (x_unit, marks) = match &chart.x {
        Some(x) if y.axis(x).is_some() => (String::new(), along(&y, x, chart)),
        Some(x) => against(&y, &evaluate(&parse(x)?, &source)?, chart)?,
        None => (String::new(), sorted(&y, chart)),
    };
    let mut marks = marks;
    marks.iter_mut().for_each(|mark| mark.y *= y_scale);
    let x_label = match (&chart.x, chart.kind.as_str()) {
        (_, "cdf") => label("value", y_unit),
        (Some(x), _) => label(&readable(x), &x_unit),
        (None, _) => String::new(),
    };
    let has_names = chart.kind == "bars" || chart.kind == "table";
    let names = if has_names { places(&marks, |mark| &mark.x_name) } else { Vec::new() };
    let groups = places(&marks, |mark| &mark.group);
    let table = has_names.then(|| table(chart, &marks, &groups, &names, y_unit));
    let lines = match chart.kind.as_str() {
        "table" => Vec::new(),
        "cdf" => groups.iter().map(|group| distribution(group, &marks)).collect(),
        _ => groups.iter().enumerate().map(|at| line(at, groups.len(), &marks, &names)).collect(),
    };
    Ok(DrawnChart {
        kind: chart.kind.clone(),
        title: String::new(),
        unit: label(&readable(&chart.y), y_unit),
        x_label,
        caption: chart.caption.clone(),
        log: chart.log.clone(),
        lines,
        names: if chart.kind == "bars" { names } else { Vec::new() },
        table,
        maps: Vec::new(),
    })
}

fn unit(table: &Table) -> (&'static str, f64) {
    match table.kind {
        Kind::Quantity(unit) => unit.of_charts(),
        Kind::Truth => Unit::NONE.of_charts(),
    }
}

fn label(what: &str, unit: &str) -> String {
    if unit.is_empty() { what.to_owned() } else { format!("{what} ({unit})") }
}

/// What an expression is about: `mean(queue_delay_ms.p95; start)` is `queue delay p95`.
fn readable(expression: &str) -> String {
    let inner = expression.rsplit('(').next().unwrap_or(expression);
    let inner = inner.split([';', ')', '[']).next().unwrap_or(inner);
    let inner = inner.replace("_ms_seen", "").replace("_ms", "").replace("_mbps", "");
    inner.replace(['.', '_'], " ").trim().to_owned()
}

fn group_of(table: &Table, row: &Row, chart: &Chart) -> Arc<str> {
    let at = chart.group.as_ref().and_then(|group| table.axis(group));
    at.map_or_else(|| "".into(), |at| Arc::clone(&row.coordinates[at]))
}

/// Values along an axis: its places are numbers, or names in their order.
fn along(y: &Table, axis: &str, chart: &Chart) -> Vec<Mark> {
    let at = y.axis(axis).unwrap_or(0);
    let mark = |row: &Row| Mark {
        group: group_of(y, row, chart),
        x: read_quantity(&row.coordinates[at]).map_or(f64::NAN, |(number, _)| number),
        x_name: Arc::clone(&row.coordinates[at]),
        y: row.value,
    };
    y.rows.iter().map(mark).collect()
}

/// Values against others at the same places.
fn against(y: &Table, x: &Table, chart: &Chart) -> Result<(String, Vec<Mark>), String> {
    let (x_unit, x_scale) = unit(x);
    let mut values = Vec::new();
    let (axes, rows) = y.join(x, |y, x, coordinates| {
        values.push(x.value * x_scale);
        Row::new(coordinates, y.value)
    })?;
    let joined = Table { kind: y.kind, axes, rows: Vec::new() };
    let mark = |(row, x): (Row, f64)| Mark {
        group: group_of(&joined, &row, chart),
        x,
        x_name: "".into(),
        y: row.value,
    };
    Ok((x_unit.to_owned(), rows.into_iter().zip(values).map(mark).collect()))
}

/// Values without an axis, for distributions.
fn sorted(y: &Table, chart: &Chart) -> Vec<Mark> {
    let mark = |row: &Row| Mark {
        group: group_of(y, row, chart),
        x: f64::NAN,
        x_name: "".into(),
        y: row.value,
    };
    y.rows.iter().map(mark).collect()
}

/// The distinct names, in their order.
fn places(marks: &[Mark], name: fn(&Mark) -> &Arc<str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for mark in marks {
        if !found.iter().any(|known| **known == **name(mark)) {
            found.push(name(mark).to_string());
        }
    }
    found
}

/// How much of the room between two names bars take up.
const BAR_ROOM: f64 = 0.8;

fn line(
    (at, group): (usize, &String),
    groups: usize,
    marks: &[Mark],
    names: &[String],
) -> DrawnLine {
    let own = marks.iter().filter(|mark| *mark.group == **group);
    let offset = (at as f64 - (groups as f64 - 1.0) / 2.0) * BAR_ROOM / groups as f64;
    let x = |mark: &Mark| match names.iter().position(|name| **name == *mark.x_name) {
        Some(place) => place as f64 + offset,
        None => mark.x,
    };
    let mut points: Vec<(f64, f64)> = own.map(|mark| (x(mark), mark.y)).collect();
    points.retain(|(x, _)| x.is_finite());
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    DrawnLine {
        name: group.clone(),
        x: points.iter().map(|(x, _)| *x).collect(),
        y: points.iter().map(|(_, y)| Some(*y).filter(|y| y.is_finite())).collect(),
    }
}

fn distribution(group: &str, marks: &[Mark]) -> DrawnLine {
    let own = marks.iter().filter(|mark| *mark.group == *group && mark.y.is_finite());
    let mut values: Vec<f64> = own.map(|mark| mark.y).collect();
    values.sort_by(f64::total_cmp);
    let share = |at: usize| Some((at + 1) as f64 / values.len() as f64);
    DrawnLine { name: group.to_owned(), y: (0..values.len()).map(share).collect(), x: values }
}

/// A row for each series, a column for each place; in brackets what the paper prints.
fn table(
    chart: &Chart,
    marks: &[Mark],
    groups: &[String],
    names: &[String],
    unit: &str,
) -> PageTable {
    let cell = |group: &String, name: &String| {
        let own = marks.iter().find(|mark| *mark.group == **group && *mark.x_name == **name);
        let ours = own.map_or_else(|| "–".to_owned(), |mark| short(mark.y));
        let printed = chart.original.iter();
        let mut printed = printed.filter(|point| point.group == *group && point.x.text() == *name);
        match printed.next() {
            Some(point) => format!("{ours} ({})", short(point.y)),
            None => ours,
        }
    };
    let row = |group: &String| {
        let cells = names.iter().map(|name| cell(group, name));
        std::iter::once(group.clone()).chain(cells).collect()
    };
    let axis = chart.x.clone().unwrap_or_default();
    let first = format!("{} by {axis}", chart.group.clone().unwrap_or_default());
    PageTable {
        title: label(&readable(&chart.y), unit),
        note: chart.caption.clone(),
        header: std::iter::once(first).chain(names.iter().cloned()).collect(),
        rows: groups.iter().map(row).collect(),
    }
}
