//! A page of facts, tables and charts, as one HTML file that needs nothing else.

use cellpace_base::statistics::mean;
use serde::Serialize;

use crate::heatmap::{PageTable, fact, table};
use crate::html::{UPLOT, UPLOT_LICENCE, UPLOT_STYLE, colours, escape, fill};
use crate::page::{Number, thin};

const TEMPLATE: &str = include_str!("../assets/charts.html");
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/charts.js");

/// More points than this a line does not get: a wide screen has no more columns.
const MAX_POINTS: usize = 3_000;

/// Facts, tables and charts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChartPage {
    /// Its heading.
    pub title: String,
    /// Version of the program.
    pub version: String,
    /// Names and values that stand below the heading.
    pub facts: Vec<(String, String)>,
    /// Tables.
    pub tables: Vec<PageTable>,
    /// Charts.
    pub charts: Vec<Chart>,
}

/// Lines or bars over a common axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// A note, which may be empty.
    pub note: String,
    /// What the axis below shows, with its unit.
    pub x_label: String,
    /// Places on the axis, increasing.
    pub x: Vec<f64>,
    /// Names and values, one for each place; NaN where there is none.
    pub lines: Vec<(String, Vec<f32>)>,
    /// The axis below is logarithmic.
    pub log_x: bool,
    /// Bars instead of lines.
    pub bars: bool,
}

#[derive(Serialize)]
struct DrawnChart<'a> {
    title: &'a str,
    unit: &'a str,
    note: &'a str,
    x_label: &'a str,
    x: Vec<Number>,
    lines: Vec<DrawnLine<'a>>,
    log_x: bool,
    bars: bool,
}

#[derive(Serialize)]
struct DrawnLine<'a> {
    name: &'a str,
    y: Vec<Number>,
}

impl Chart {
    /// Long lines get the mean of what falls on one column.
    fn drawn(&self) -> DrawnChart<'_> {
        let merge = self.x.len().div_ceil(MAX_POINTS).max(1);
        let line =
            |(name, y): &'_ (String, Vec<f32>)| (name.clone(), thin(y, merge, mean_of_known));
        let lines = self.lines.iter().map(line);
        let lines = self.lines.iter().zip(lines);
        DrawnChart {
            title: &self.title,
            unit: &self.unit,
            note: &self.note,
            x_label: &self.x_label,
            x: self.x.iter().step_by(merge).map(|x| Number(*x)).collect(),
            lines: lines.map(|((name, _), (_, y))| DrawnLine { name, y }).collect(),
            log_x: self.log_x,
            bars: self.bars,
        }
    }
}

fn mean_of_known(values: &[f32]) -> f64 {
    mean(values.iter().filter(|value| !value.is_nan()).copied().map(f64::from))
}

/// The page as one file: no network, light and dark as the reader's system is.
pub fn chart_html(page: &ChartPage) -> String {
    let (title, version) = (escape(&page.title), escape(&page.version));
    let facts: String = page.facts.iter().map(|(name, value)| fact(name, value)).collect();
    let tables: String = page.tables.iter().map(table).collect();
    let charts: Vec<DrawnChart<'_>> = page.charts.iter().map(Chart::drawn).collect();
    fill(
        TEMPLATE,
        &[
            ("title", &title),
            ("version", &version),
            ("uplot-licence", UPLOT_LICENCE),
            ("uplot-style", UPLOT_STYLE),
            ("colours", &colours()),
            ("style", STYLE),
            ("facts", &facts),
            ("tables", &tables),
            ("data", &crate::json::embeddable(&charts)),
            ("uplot", UPLOT),
            ("script", SCRIPT),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(points: usize, name: &str) -> ChartPage {
        let x = (0..points).map(|index| index as f64).collect();
        let y = (0..points).map(|index| if index % 4 == 0 { f32::NAN } else { 2.0 }).collect();
        let chart =
            Chart { title: name.into(), x, lines: vec![(name.into(), y)], ..Chart::default() };
        ChartPage { title: name.into(), charts: vec![chart], ..ChartPage::default() }
    }

    fn data(page: &ChartPage) -> serde_json::Value {
        let html = chart_html(page);
        let (_, rest) = html.split_once("id=\"data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn short_lines_keep_their_gaps_and_long_ones_get_means() {
        let short = data(&page(5, "a"));
        assert_eq!(short[0]["lines"][0]["y"].to_string(), "[null,2,2,2,null]");
        let long = data(&page(6_000, "a"));
        assert_eq!(long[0]["x"].as_array().unwrap().len(), 3_000);
        assert_eq!(long[0]["x"][2], 4);
        assert!(long[0]["lines"][0]["y"].as_array().unwrap().iter().all(|y| *y == 2));
    }

    #[test]
    fn names_cannot_become_markup_and_every_place_is_filled() {
        let nasty = "</script><script>alert(1)</script>{{script}}";
        let (plain, nasty) = (chart_html(&page(3, "a")), chart_html(&page(3, nasty)));
        assert_eq!(plain.matches("<script").count(), nasty.matches("<script").count());
        assert!(!plain.contains("{{"));
    }
}
