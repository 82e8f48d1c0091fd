//! Grids of values: transition matrices, distributions. Pages draw them (`heatmap.js`).

use serde::{Deserialize, Serialize};

use crate::number::significant;

/// Maximum number of points that a picture has along a side.
const MAX_POINTS: u32 = 380;

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

impl Heatmap {
    /// What a picture shows of it: the largest of the cells that fall on one point, with three digits.
    #[must_use]
    pub fn thinned(&self) -> Self {
        let bin = |axis: &HeatmapAxis| axis.len.div_ceil(MAX_POINTS).max(1);
        let (across, down) = (bin(&self.columns), bin(&self.rows));
        let thin = |cell: &HeatmapCell| HeatmapCell {
            row: cell.row / down * down,
            column: cell.column / across * across,
            value: significant(cell.value, 3),
        };
        let mut cells: Vec<HeatmapCell> = self.cells.iter().map(thin).collect();
        let key = |cell: &HeatmapCell| (cell.row, cell.column);
        cells.sort_by(|a, b| key(a).cmp(&key(b)).then(b.value.total_cmp(&a.value)));
        cells.dedup_by_key(|cell| key(cell));
        Self { cells, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_map_has_the_largest_of_what_falls_on_a_point() {
        let axis = || HeatmapAxis { len: 25_488, ..HeatmapAxis::default() };
        let cell = |(row, column, value)| HeatmapCell { row, column, value };
        let cells = [(67, 3, 0.1), (66, 5, 0.3), (70, 3, 0.5), (25_487, 0, 1.0)].map(cell);
        let map =
            Heatmap { columns: axis(), rows: axis(), cells: cells.into(), ..Heatmap::default() };
        // Points of 68 x 68 cells.
        let thinned = [(0, 0, 0.3), (68, 0, 0.5), (25_432, 0, 1.0)].map(cell);
        assert_eq!(map.thinned().cells, thinned);
        assert_eq!(map.thinned().thinned(), map.thinned());
    }
}
