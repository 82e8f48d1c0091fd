//! Charts of claims: values of expressions, as lines, marks, bars or a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellpace_base::statistics::quantile;
use cellpace_report::{Heatmap, HeatmapAxis, HeatmapCell, PageTable, short};
use serde::Serialize;
use serde_json::{Value, json};

use crate::PaperError;
use crate::check::{FieldValues, MAPS};
use crate::claim::{Chart, Claim, OriginalPoint};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    x_range: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y_range: Option<[f64; 2]>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct DrawnLine {
    name: String,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
    /// The line whose colour it has, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    look: Option<usize>,
    /// Whether it has what the paper prints.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    printed: bool,
    /// Around each value: least and most along the axis below, least and most of the values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spread: Vec<[f64; 4]>,
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
    if chart.kind == "heatmap" && MAPS.contains(&&*chart.y) {
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
    let is_distribution = matches!(&*chart.kind, "cdf" | "ccdf" | "histogram");
    let of_y = label(&readable(&chart.y), y_unit);
    let (unit, x_label) = match &chart.x {
        _ if is_distribution => ("share".to_owned(), of_y.clone()),
        Some(x) => (of_y.clone(), label(&readable(x), &x_unit)),
        None => (of_y.clone(), String::new()),
    };
    let has_names = matches!(&*chart.kind, "bars" | "table" | "heatmap");
    let names = if has_names { places(&marks, |mark| &mark.x_name) } else { Vec::new() };
    let groups = places(&marks, |mark| &mark.group);
    let table = has_names.then(|| table(chart, &marks, &groups, &names, y_unit));
    let mut lines = lines(chart, &marks, &groups, &names);
    if !is_distribution && !matches!(&*chart.kind, "table" | "heatmap") {
        lines.extend(printed(chart, &groups, &names));
    }
    let maps = match &*chart.kind {
        "heatmap" => vec![json!(heatmap(chart, &marks, &groups, &names, &of_y))],
        _ => Vec::new(),
    };
    Ok(DrawnChart {
        kind: chart.kind.clone(),
        title: String::new(),
        unit,
        x_label,
        caption: chart.caption.clone(),
        log: chart.log.clone(),
        lines,
        maps,
        names: if chart.kind == "bars" { names } else { Vec::new() },
        table,
        x_range: chart.axes.x,
        y_range: chart.axes.y,
    })
}

fn lines(chart: &Chart, marks: &[Mark], groups: &[String], names: &[String]) -> Vec<DrawnLine> {
    let each = |line: &dyn Fn(usize, &String) -> DrawnLine| {
        groups.iter().enumerate().map(|(at, group)| line(at, group)).collect()
    };
    match &*chart.kind {
        "table" | "heatmap" => Vec::new(),
        "cdf" => each(&|_, group| distribution(group, marks, |below| below)),
        "ccdf" => each(&|_, group| distribution(group, marks, |below| 1.0 - below)),
        "histogram" => each(&|_, group| histogram(group, marks, chart.log.contains('x'))),
        "regions" => each(&|_, group| region(group, marks)),
        _ => each(&|at, group| line((at, group), groups.len(), marks, names)),
    }
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

/// How far from the middle of its place a bar stands.
fn bar_offset(at: usize, groups: usize) -> f64 {
    (at as f64 - (groups as f64 - 1.0) / 2.0) * BAR_ROOM / groups as f64
}

fn line(
    (at, group): (usize, &String),
    groups: usize,
    marks: &[Mark],
    names: &[String],
) -> DrawnLine {
    let own = marks.iter().filter(|mark| *mark.group == **group);
    let offset = bar_offset(at, groups);
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
        ..DrawnLine::default()
    }
}

/// What the paper prints, beside the series of the same name.
fn printed(chart: &Chart, groups: &[String], names: &[String]) -> Vec<DrawnLine> {
    let of_group = |(at, group): (usize, &String)| {
        let own = chart.original.iter().filter(|point| point.group == *group);
        let x = |point: &OriginalPoint| match names.iter().position(|name| *name == point.x.text())
        {
            Some(place) => place as f64 + bar_offset(at, groups.len()),
            None => read_quantity(&point.x.text()).map_or(f64::NAN, |(number, _)| number),
        };
        let mut points: Vec<(f64, f64)> = own.map(|point| (x(point), point.y)).collect();
        points.retain(|(x, _)| x.is_finite());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (!points.is_empty()).then(|| DrawnLine {
            name: format!("{group}, as the paper prints it"),
            x: points.iter().map(|(x, _)| *x).collect(),
            y: points.iter().map(|(_, y)| Some(*y)).collect(),
            look: Some(at),
            printed: true,
            ..DrawnLine::default()
        })
    };
    groups.iter().enumerate().filter_map(of_group).collect()
}

/// The finite values of a series, ascending.
fn ascending(group: &str, marks: &[Mark], value: fn(&Mark) -> f64) -> Vec<f64> {
    let own = marks.iter().filter(|mark| *mark.group == *group);
    let mut values: Vec<f64> = own.map(value).filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The share of the values up to each, or what `share` makes of that.
fn distribution(group: &str, marks: &[Mark], share: fn(f64) -> f64) -> DrawnLine {
    let values = ascending(group, marks, |mark| mark.y);
    let y = (0..values.len()).map(|at| share((at + 1) as f64 / values.len() as f64));
    DrawnLine {
        name: group.to_owned(),
        y: y.map(|y| Some(y).filter(|y| *y > 0.0)).collect(),
        x: values,
        ..DrawnLine::default()
    }
}

/// Bins of a histogram.
const BINS: usize = 40;

/// The share of the values in each of equally wide bins, in the logarithm where the axis has that. It
/// ends with 0 at the end of the last bin.
fn histogram(group: &str, marks: &[Mark], is_log: bool) -> DrawnLine {
    let into = |x: f64| if is_log { x.ln() } else { x };
    let back = |x: f64| if is_log { x.exp() } else { x };
    let mut values = ascending(group, marks, |mark| mark.y);
    values.retain(|value| into(*value).is_finite());
    let (Some(least), Some(most)) = (values.first(), values.last()) else {
        return DrawnLine { name: group.to_owned(), ..DrawnLine::default() };
    };
    let (least, most) = (into(*least), into(*most));
    let width = ((most - least) / BINS as f64).max(f64::MIN_POSITIVE);
    let mut counts = [0_usize; BINS];
    for value in &values {
        let bin = ((into(*value) - least) / width) as usize;
        counts[bin.min(BINS - 1)] += 1;
    }
    let share = |count: &usize| Some(*count as f64 / values.len() as f64);
    DrawnLine {
        name: group.to_owned(),
        x: (0..=BINS).map(|bin| back(least + width * bin as f64)).collect(),
        y: counts.iter().map(share).chain([Some(0.0)]).collect(),
        ..DrawnLine::default()
    }
}

/// The medians of both fields, and the region from their 25th to their 75th percentiles.
fn region(group: &str, marks: &[Mark]) -> DrawnLine {
    let [x, y] = [ascending(group, marks, |mark| mark.x), ascending(group, marks, |mark| mark.y)];
    let at = |values: &[f64], percent: f64| quantile(values, percent / 100.0);
    if x.is_empty() || y.is_empty() {
        return DrawnLine { name: group.to_owned(), ..DrawnLine::default() };
    }
    DrawnLine {
        name: group.to_owned(),
        x: vec![at(&x, 50.0)],
        y: vec![Some(at(&y, 50.0))],
        spread: vec![[at(&x, 25.0), at(&x, 75.0), at(&y, 25.0), at(&y, 75.0)]],
        ..DrawnLine::default()
    }
}

/// A row for each series, a column for each place.
fn heatmap(
    chart: &Chart,
    marks: &[Mark],
    groups: &[String],
    names: &[String],
    unit: &str,
) -> Heatmap {
    let axis = |title: &Option<String>, places: &[String]| HeatmapAxis {
        title: title.clone().unwrap_or_default(),
        len: places.len() as u32,
        labels: places
            .iter()
            .enumerate()
            .map(|(at, name)| (at as f64 + 0.5, name.clone()))
            .collect(),
        lines: Vec::new(),
    };
    let cell = |mark: &Mark| {
        let place = |names: &[String], name: &str| names.iter().position(|known| known == name);
        let (row, column) = (place(groups, &mark.group)?, place(names, &mark.x_name)?);
        Some(HeatmapCell { row: row as u32, column: column as u32, value: mark.y })
    };
    Heatmap {
        title: String::new(),
        unit: unit.to_owned(),
        columns: axis(&chart.x, names),
        rows: axis(&chart.group, groups),
        cells: marks.iter().filter_map(cell).collect(),
    }
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
        ..PageTable::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(values: &[f64]) -> Vec<Mark> {
        let mark = |y: &f64| Mark { group: "a".into(), x: 2.0 * y, x_name: "".into(), y: *y };
        values.iter().map(mark).collect()
    }

    #[test]
    fn distributions_are_shares_below_and_above() {
        let values = marks(&[3.0, 1.0, 2.0, f64::NAN, 4.0]);
        let below = distribution("a", &values, |below| below);
        assert_eq!(below.x, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(below.y, [Some(0.25), Some(0.5), Some(0.75), Some(1.0)]);
        let above = distribution("a", &values, |below| 1.0 - below);
        assert_eq!(
            above.y,
            [Some(0.75), Some(0.5), Some(0.25), None],
            "0 has no place on a log axis"
        );
    }

    #[test]
    fn histograms_have_shares_of_bins_and_end_at_zero() {
        let bars = histogram("a", &marks(&[1.0, 1.0, 10.0, 100.0]), true);
        assert_eq!((bars.x.len(), bars.y.len()), (BINS + 1, BINS + 1));
        assert!((bars.x[0] - 1.0).abs() < 1e-9 && (bars.x[BINS] - 100.0).abs() < 1e-9);
        assert_eq!((bars.y[0], bars.y[BINS - 1], bars.y[BINS]), (Some(0.5), Some(0.25), Some(0.0)));
        let sum: f64 = bars.y.iter().flatten().sum();
        assert!((sum - 1.0).abs() < 1e-12);
        assert_eq!(histogram("a", &marks(&[5.0]), false).y[0], Some(1.0), "one value is one bin");
        assert!(histogram("a", &marks(&[0.0, -1.0]), true).x.is_empty(), "nothing on a log axis");
    }

    #[test]
    fn regions_are_from_the_first_to_the_third_quartile() {
        let region = region("a", &marks(&[1.0, 2.0, 3.0, 4.0, 5.0]));
        assert_eq!((region.x[0], region.y[0]), (6.0, Some(3.0)));
        assert_eq!(region.spread, [[4.0, 8.0, 2.0, 4.0]]);
    }
}
