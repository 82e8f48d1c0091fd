//! Grids of values on a logarithmic colour scale: transition matrices, distributions.

mod colours;
mod draw;
mod grid;
mod map;
mod svg;

pub(crate) use self::colours::{level_classes, levels};
pub use self::map::{Heatmap, HeatmapAxis, HeatmapCell};
pub(crate) use self::svg::inline;

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
