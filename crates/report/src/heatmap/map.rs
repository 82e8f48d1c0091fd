//! What a heatmap shows.

use serde::{Deserialize, Serialize};

/// A grid of values. What is not listed, or not above 0, stays empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Heatmap {
    /// What is shown, in a line.
    pub title: String,
    /// What a value is, in a word or two; stands at the colour bar.
    pub unit: String,
    /// From left to right.
    pub columns: HeatmapAxis,
    /// From top to bottom.
    pub rows: HeatmapAxis,
    /// The values, in any order.
    pub cells: Vec<HeatmapCell>,
}

/// One side of a [`Heatmap`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HeatmapAxis {
    /// What the axis shows, with its unit.
    pub title: String,
    /// Number of cells.
    pub len: u32,
    /// Names of cells or of groups of them, ascending, and where they stand in cells from the
    /// start: the middle of the first cell is at 0.5. As many are drawn as have room.
    pub labels: Vec<(f64, String)>,
    /// Boundaries between groups of cells, where lines are drawn.
    pub lines: Vec<u32>,
}

/// A value; in JSON `[row, column, value]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, f64)", into = "(u32, u32, f64)")]
pub struct HeatmapCell {
    /// Counted from the top.
    pub row: u32,
    /// Counted from the left.
    pub column: u32,
    /// Dark if large.
    pub value: f64,
}

impl From<(u32, u32, f64)> for HeatmapCell {
    fn from((row, column, value): (u32, u32, f64)) -> Self {
        Self { row, column, value }
    }
}

impl From<HeatmapCell> for (u32, u32, f64) {
    fn from(cell: HeatmapCell) -> Self {
        (cell.row, cell.column, cell.value)
    }
}
