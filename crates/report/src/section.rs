//! What a page shows of a result, declared: a title, a sentence, facts, charts, pictures, tables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::heatmap::Heatmap;
use crate::number::{Number, short, significant};
use crate::sequence::PacketSequence;
use crate::thin::{mean_of_known, thin};

/// More points than this a line does not get: a wide screen has no more columns.
const MAX_POINTS: usize = 3_000;

/// Significant digits of a place on an axis: more than of a value, since places must differ.
const X_DIGITS: i32 = 7;

/// What a page shows of one result.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Section {
    /// Where links lead to it; may be empty.
    pub(crate) id: String,
    /// What it is, in a few words; empty where the page has it in its head.
    pub(crate) title: String,
    /// A word beside the title; may be empty.
    pub(crate) badge: String,
    /// What came out, in one sentence.
    pub(crate) sentence: String,
    /// The conditions: names and values.
    pub(crate) facts: Vec<(String, String)>,
    /// More to read below the facts; may be empty.
    pub(crate) text: String,
    /// Controllers against conditions, in front of all else.
    pub(crate) matrix: Option<Matrix>,
    pub(crate) charts: Vec<Chart>,
    /// Pictures, each with a note, which may be empty.
    pub(crate) maps: Vec<(Heatmap, String)>,
    pub(crate) tables: Vec<PageTable>,
    /// Packets in their order, of which the reader chooses one flow's.
    pub(crate) sequences: Vec<PacketSequence>,
    /// It answers the question of the comparison that it is of, and stands before that.
    pub(crate) is_answer: bool,
    /// The page shows its tables only to whoever opens them.
    pub(crate) folds_tables: bool,
    pub(crate) made_by: MadeBy,
    /// The controllers whose lines are the first of each chart, in this order.
    pub(crate) controllers: Vec<String>,
    /// Names of the results that stand side by side in it; empty where it is of one.
    pub(crate) results: Vec<String>,
}

/// What made a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MadeBy {
    /// The command line; may be empty.
    pub(crate) command: String,
    /// The version of the program; may be empty.
    pub(crate) version: String,
    /// The smallest and the largest seed.
    pub(crate) seeds: Option<(u64, u64)>,
}

/// A table: names in the first column, numbers in the others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PageTable {
    /// Its heading.
    pub title: String,
    /// A note, which may be empty.
    pub note: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// Where the first word of each row leads: a page beside this one, or a part of it. None, or one a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The command line that does again what a row is of, which the page unfolds; may be empty. None, or one a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

/// Figures of controllers under conditions. The page shows one at a time, with mean ranks and means.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Matrix {
    pub(crate) controllers: Vec<String>,
    pub(crate) conditions: Vec<MatrixCondition>,
}

/// A condition of a [`Matrix`].
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct MatrixCondition {
    pub(crate) name: String,
    /// The command line that runs all controllers under it again; may be empty.
    pub(crate) command: String,
    /// By their names in the script of the page (`matrix.js`): a value for each controller, NaN where there is none.
    pub(crate) figures: BTreeMap<&'static str, Vec<Number>>,
}

/// How the values of a [`Chart`] are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// Straight lines from value to value.
    #[default]
    Lines,
    /// A value holds until the next place.
    Stairs,
    /// The same, filled to the foot of the chart: a histogram.
    Steps,
    /// Marks without lines.
    Marks,
    /// Marks with the region around each.
    Regions,
    /// Marks with their lines' names, intervals as whiskers, and the efficient frontier. Better is up and
    /// to the right.
    Scatter,
}

/// A height of a [`Chart`] with a name.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Level {
    pub(crate) at: f64,
    pub(crate) words: String,
}

/// Lines or bars over a common axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Chart {
    /// Its heading.
    pub(crate) title: String,
    /// Unit of the values.
    pub(crate) unit: String,
    /// A note, which may be empty.
    pub(crate) note: String,
    /// What the axis below shows, with its unit.
    pub(crate) x_label: String,
    pub(crate) lines: Vec<Line>,
    /// The axis below is logarithmic.
    pub(crate) log_x: bool,
    /// The axis below begins with its largest place.
    pub(crate) reversed_x: bool,
    /// The axis of the values is logarithmic.
    pub(crate) log_y: bool,
    /// How the values are drawn, unless they are bars.
    pub(crate) form: Form,
    /// Where the axis below begins and ends, if that is given.
    pub(crate) x_range: Option<[f64; 2]>,
    /// Where the axis of the values begins and ends, if that is given.
    pub(crate) y_range: Option<[f64; 2]>,
    /// Names of the places 0, 1, ... on the axis below; the values are then bars.
    pub(crate) names: Vec<String>,
    /// Dashed lines across it.
    pub(crate) levels: Vec<Level>,
    /// Lines with colour between them: the upper and the lower one.
    pub(crate) bands: Vec<[usize; 2]>,
}

/// A line of a [`Chart`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Places on the axis, increasing.
    pub(crate) x: Vec<f64>,
    /// One value for each place; NaN where there is none.
    pub(crate) y: Vec<f32>,
    /// The line of this number has the same colour; its own number, if none is given.
    pub(crate) look: Option<usize>,
    /// A shaded area behind the lines, level over each bin.
    pub(crate) is_area: bool,
    /// Marks that are not filled: what another source prints.
    pub(crate) hollow: bool,
    /// The place of its result in [`Section::results`].
    pub(crate) result: usize,
    /// The region around each value: least and most along the axis below, least and most of the values.
    pub(crate) spread: Vec<[f64; 4]>,
    /// Small marks of what the values are means of: places and values.
    pub(crate) minor: Vec<[f64; 2]>,
    /// Its values are small dots, in any order.
    pub(crate) are_dots: bool,
}

impl Line {
    /// A value for each bin of `bin_s` seconds.
    pub(crate) fn of_bins(name: impl Into<String>, bin_s: f64, values: Vec<f32>) -> Self {
        let x = (0..values.len()).map(|bin| bin as f64 * bin_s).collect();
        Self { name: name.into(), x, y: values, ..Self::default() }
    }
}

/// What the script of the page gets of a chart.
#[derive(Debug, Serialize)]
pub(crate) struct DrawnChart<'a> {
    title: &'a str,
    unit: &'a str,
    note: String,
    x_label: &'a str,
    lines: Vec<DrawnLine<'a>>,
    log_x: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reversed_x: bool,
    log_y: bool,
    form: Form,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_range: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y_range: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    levels: &'a [Level],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    bands: &'a [[usize; 2]],
}

#[derive(Debug, Serialize)]
struct DrawnLine<'a> {
    name: &'a str,
    x: Vec<f64>,
    y: Vec<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    look: Option<usize>,
    #[serde(rename = "area", skip_serializing_if = "std::ops::Not::not")]
    is_area: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hollow: bool,
    #[serde(skip_serializing_if = "is_first")]
    result: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    spread: &'a [[f64; 4]],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    minor: Vec<[Number; 2]>,
    #[serde(rename = "dots", skip_serializing_if = "std::ops::Not::not")]
    are_dots: bool,
}

fn is_first(place: &usize) -> bool {
    *place == 0
}

/// A chart as the script of the page gets it.
pub(crate) fn serialize_drawn<S: Serializer>(chart: &Chart, to: S) -> Result<S::Ok, S::Error> {
    chart.drawn().serialize(to)
}

impl Chart {
    /// Whether there is anything to draw.
    pub(crate) fn has_values(&self) -> bool {
        self.lines.iter().any(|line| line.y.iter().any(|y| y.is_finite()))
    }

    /// Long lines get the mean of what falls on one column.
    pub(crate) fn drawn(&self) -> DrawnChart<'_> {
        let foot = self.foot();
        let place = |x: f64| foot.map_or(x, |foot| x.max(foot));
        let line = |line: &'_ Line| {
            let merge = line.x.len().div_ceil(MAX_POINTS).max(1);
            let y = match self.form {
                // A mean of marks is no mark.
                Form::Marks | Form::Regions | Form::Scatter => {
                    line.y.iter().step_by(merge).copied().collect()
                }
                _ => thin(&line.y, merge, mean_of_known),
            };
            (
                line.x.iter().step_by(merge).map(|x| significant(place(*x), X_DIGITS)).collect(),
                y.into_iter().map(|y| Number(f64::from(y))).collect(),
            )
        };
        let lines = self.lines.iter().map(|each| {
            let (x, y) = line(each);
            let Line { look, is_area, hollow, result, are_dots, .. } = *each;
            DrawnLine {
                name: &each.name,
                x,
                y,
                look,
                is_area,
                hollow,
                result,
                spread: &each.spread,
                minor: each.minor.iter().map(|point| point.map(Number)).collect(),
                are_dots,
            }
        });
        DrawnChart {
            title: &self.title,
            unit: &self.unit,
            note: self.note_with(foot),
            x_label: &self.x_label,
            lines: lines.collect(),
            log_x: self.log_x,
            reversed_x: self.reversed_x,
            log_y: self.log_y,
            form: self.form,
            x_range: self.x_range,
            y_range: self.y_range,
            names: &self.names,
            levels: &self.levels,
            bands: &self.bands,
        }
    }
}

impl Chart {
    /// Where 0 stands on a logarithmic axis below, which has none: at a decade below all that is larger.
    /// `None`: nothing is 0, or the axis is not logarithmic.
    fn foot(&self) -> Option<f64> {
        let places = || self.lines.iter().flat_map(|line| line.x.iter().copied());
        if !self.log_x || places().all(|x| x > 0.0) {
            return None;
        }
        let least = places().filter(|x| *x > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { least } else { 1.0 };
        let decade = 10_f64.powf(least.log10().ceil() - 1.0);
        Some(self.x_range.map_or(decade, |[from, _]| if from > 0.0 { from } else { decade }))
    }

    fn note_with(&self, foot: Option<f64>) -> String {
        let zero = foot.map(|foot| format!("0 stands at {}.", short(foot)));
        let parts = [Some(self.note.clone()), zero].into_iter().flatten();
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl Section {
    /// Title, facts, tables and sentence as plain text.
    pub(crate) fn text(&self) -> String {
        let width = self.facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut text = format!("{}\n", self.title);
        for (name, value) in &self.facts {
            text += &format!("  {name:width$}  {value}\n");
        }
        for table in &self.tables {
            text += &format!("\n{}\n{}", table.title, table.text());
            if !table.note.is_empty() {
                text += &format!("  {}\n", table.note);
            }
        }
        if !self.sentence.is_empty() {
            text += &format!("\n{}\n", self.sentence);
        }
        text
    }
}

impl PageTable {
    /// Aligned columns, the numbers to the right.
    fn text(&self) -> String {
        let all = || std::iter::once(&self.header).chain(&self.rows);
        let width = |column: usize| {
            let cells = all().filter_map(|row| row.get(column));
            cells.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let line = |row: &Vec<String>| {
            let cells =
                row.iter().enumerate().map(|(column, text)| format!("  {text:>0$}", width(column)));
            cells.collect::<String>() + "\n"
        };
        all().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_a_place_on_a_logarithmic_axis() {
        let line = |x: &[f64]| Line { x: x.to_vec(), y: vec![1.0; x.len()], ..Line::default() };
        let chart = |x: &[f64]| Chart { lines: vec![line(x)], log_x: true, ..Chart::default() };
        let drawn = |x: &[f64]| serde_json::to_value(chart(x).drawn()).unwrap();
        assert_eq!(
            drawn(&[0.0, 0.0, 10.0, 20.0])["lines"][0]["x"],
            serde_json::json!([1.0, 1.0, 10.0, 20.0])
        );
        assert_eq!(drawn(&[0.0, 35.0])["lines"][0]["x"], serde_json::json!([10.0, 35.0]));
        assert_eq!(drawn(&[0.0])["note"], "0 stands at 0.1.");
        assert_eq!(drawn(&[0.5, 2.0])["lines"][0]["x"], serde_json::json!([0.5, 2.0]));
        assert_eq!(drawn(&[0.5, 2.0])["note"], "");
    }
}
