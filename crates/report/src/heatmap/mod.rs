//! Grids of values on a logarithmic colour scale: transition matrices, distributions.

mod colours;
mod draw;
mod grid;
mod page;
#[cfg_attr(not(feature = "png"), path = "png_missing.rs")]
mod png;
mod svg;

pub use self::page::{HeatmapPage, PageTable, heatmap_html};
pub(crate) use self::page::{fact, table};
pub use self::png::heatmap_png;
pub use self::svg::heatmap_svg;

/// A grid of values. What is not listed, or not above 0, stays white.
#[derive(Debug, Clone, PartialEq, Default)]
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
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeatmapAxis {
    /// What the axis tells, with its unit.
    pub title: String,
    /// Number of cells.
    pub len: u32,
    /// Names of cells or of groups of them, ascending, and where they stand in cells from the
    /// start: the middle of the first cell is at 0.5. As many are drawn as have room.
    pub labels: Vec<(f64, String)>,
    /// Boundaries between groups of cells, where lines are drawn.
    pub lines: Vec<u32>,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeatmapCell {
    /// Counted from the top.
    pub row: u32,
    /// Counted from the left.
    pub column: u32,
    /// Dark if large.
    pub value: f64,
}

#[cfg(test)]
pub(crate) mod example {
    use super::*;

    /// Ten groups of 36 cells each way, most of them filled near the diagonal.
    pub(crate) fn matrix() -> Heatmap {
        let labels = |_: ()| (0..10).map(|i| (18.0 + 36.0 * f64::from(i), (20 + i).to_string()));
        let axis = |title: &str| HeatmapAxis {
            title: title.to_owned(),
            len: 360,
            labels: labels(()).collect(),
            lines: (1..10).map(|i| 36 * i).collect(),
        };
        let cell = |i: u32| {
            let (row, column) = (i * 7919 % 360, i * 104_729 % 360);
            let far = f64::from(row.abs_diff(column));
            HeatmapCell { row, column, value: (-far / 30.0).exp() / 7.0 }
        };
        Heatmap {
            title: "verus:r=2: transitions of the first 10 delays".to_owned(),
            unit: "probability".to_owned(),
            columns: axis("to: delay [ms], in each the windows 0..35"),
            rows: axis("from: delay [ms], in each the windows 0..35"),
            cells: (0..12_000).map(cell).filter(|cell| cell.value > 1e-5).collect(),
        }
    }

    /// Fewer cells, larger.
    pub(crate) fn zoom() -> Heatmap {
        let axis = |title: &str| HeatmapAxis {
            title: title.to_owned(),
            len: 36,
            labels: (0..36).map(|i| (f64::from(i) + 0.5, i.to_string())).collect(),
            lines: Vec::new(),
        };
        let cell = |i: u32| HeatmapCell {
            row: i / 36,
            column: i % 36,
            value: 0.4 / f64::from(1 + (i / 36).abs_diff(i % 36)).powi(3),
        };
        Heatmap {
            title: "21 to 22 ms".to_owned(),
            unit: "probability".to_owned(),
            columns: axis("to: window [packets]"),
            rows: axis("from: window [packets]"),
            cells: (0..36 * 36).filter(|i| i % 3 > 0).map(cell).collect(),
        }
    }
}
