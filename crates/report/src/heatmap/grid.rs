//! From values to coloured points: binned to what a picture shows, on a logarithmic scale.

use super::colours::LEVELS;
use super::map::{Heatmap, HeatmapCell};
use crate::number::significant;

/// Maximum number of points along a side.
const MAX_POINTS: u32 = 380;

/// A heatmap as it is drawn.
pub(super) struct PointGrid {
    pub(super) columns: u32,
    pub(super) rows: u32,
    /// Cells that a point stands for: across, down.
    pub(super) bins: (u32, u32),
    pub(super) scale: LogScale,
    /// By level: stretches of equal points.
    pub(super) stretches: Vec<Vec<PointRun>>,
}

/// Neighbours in a row.
#[derive(Debug, PartialEq)]
pub(super) struct PointRun {
    pub(super) row: u32,
    pub(super) column: u32,
    pub(super) len: u32,
}

/// Cells that a point stands for: across, down.
fn bins_of(map: &Heatmap) -> (u32, u32) {
    let bin = |len: u32| len.div_ceil(MAX_POINTS).max(1);
    (bin(map.columns.len), bin(map.rows.len))
}

impl Heatmap {
    /// Keeps of the cells what a picture shows: the largest of those that fall on one point, with
    /// three digits.
    pub fn thin(&mut self) {
        let bins = bins_of(self);
        for cell in &mut self.cells {
            let place = |at: u32, bin: u32| at / bin * bin;
            (cell.row, cell.column) = (place(cell.row, bins.1), place(cell.column, bins.0));
            cell.value = significant(cell.value, 3);
        }
        let key = |cell: &HeatmapCell| (cell.row, cell.column);
        self.cells.sort_by(|a, b| key(a).cmp(&key(b)).then(b.value.total_cmp(&a.value)));
        self.cells.dedup_by_key(|cell| key(cell));
    }
}

impl PointGrid {
    pub(super) fn of(map: &Heatmap) -> Self {
        let bins = bins_of(map);
        let (columns, rows) = (map.columns.len.div_ceil(bins.0), map.rows.len.div_ceil(bins.1));
        let mut values = vec![0.0_f64; columns as usize * rows as usize];
        for cell in &map.cells {
            let inside = cell.row < map.rows.len && cell.column < map.columns.len;
            if inside && cell.value.is_finite() {
                let place = (cell.row / bins.1) as usize * columns as usize;
                let value = &mut values[place + (cell.column / bins.0) as usize];
                *value = value.max(cell.value);
            }
        }
        let scale = LogScale::around(&values);
        let mut stretches: Vec<Vec<PointRun>> = (0..LEVELS).map(|_| Vec::new()).collect();
        for (row, values) in values.chunks(columns.max(1) as usize).enumerate() {
            let mut column = 0;
            for same in values.chunk_by(|a, b| scale.level(*a) == scale.level(*b)) {
                let len = same.len() as u32;
                if let Some(level) = scale.level(same[0]) {
                    stretches[level].push(PointRun { row: row as u32, column, len });
                }
                column += len;
            }
        }
        Self { columns, rows, bins, scale, stretches }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stretches.iter().all(Vec::is_empty)
    }

    /// What a reader must know if points stand for several cells.
    pub(super) fn note(&self) -> Option<String> {
        let (across, down) = self.bins;
        (across * down > 1).then(|| format!("each point: the highest of {across} x {down} cells"))
    }
}

/// A logarithmic scale that reaches from the lowest value above 0 to the highest.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogScale {
    low: f64,
    high: f64,
}

impl LogScale {
    fn around(values: &[f64]) -> Self {
        let seen = || values.iter().copied().filter(|value| *value > 0.0);
        let low = seen().fold(f64::INFINITY, f64::min);
        let high = seen().fold(0.0, f64::max);
        match (low <= high, low < high) {
            (false, _) => Self { low: -1.0, high: 0.0 },
            // One value only: dark, at the end of its decade.
            (_, false) => Self { low: high.log10() - 1.0, high: high.log10() },
            _ => Self { low: low.log10(), high: high.log10() },
        }
    }

    fn level(&self, value: f64) -> Option<usize> {
        (value > 0.0).then(|| ((self.share(value) * LEVELS as f64) as usize).min(LEVELS - 1))
    }

    /// From 0 at the lowest to 1 at the highest value.
    pub(super) fn share(&self, value: f64) -> f64 {
        ((value.log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Values for the colour bar: powers of ten, and what is between if those are few.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let decades = (self.low.floor() as i32)..=(self.high.ceil() as i32);
        let every = (decades.clone().count() / 9 + 1) as i32;
        let within = |factors: &[f64], every: i32| -> Vec<f64> {
            let decades = decades.clone().filter(|decade| decade % every == 0);
            let values = decades.flat_map(|d| factors.iter().map(move |f| power(*f, d)));
            let slack = 1e-9;
            let inside =
                |value: &f64| (self.low - slack..=self.high + slack).contains(&value.log10());
            values.filter(inside).collect()
        };
        for factors in [&[1.0][..], &[1.0, 3.0], &[1.0, 2.0, 5.0]] {
            let ticks = within(factors, every);
            if ticks.len() >= 3 {
                return ticks;
            }
        }
        vec![10_f64.powf(self.low), 10_f64.powf(self.high)]
    }
}

/// Rounded as it is written: multiplying by 0.1 would show.
fn power(factor: f64, decade: i32) -> f64 {
    if decade < 0 { factor / 10_f64.powi(-decade) } else { factor * 10_f64.powi(decade) }
}

/// A value at the colour bar.
pub(super) fn tick_text(value: f64) -> String {
    match value {
        1e-4..1e5 => crate::number::short(value),
        _ => {
            let text = format!("{value:.1e}");
            text.replace(".0e", "e")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heatmap::HeatmapAxis;

    fn map(len: u32, cells: &[(u32, u32, f64)]) -> Heatmap {
        let axis = || HeatmapAxis { len, ..HeatmapAxis::default() };
        let cell = |&(row, column, value): &(u32, u32, f64)| HeatmapCell { row, column, value };
        Heatmap {
            columns: axis(),
            rows: axis(),
            cells: cells.iter().map(cell).collect(),
            ..Heatmap::default()
        }
    }

    #[test]
    fn small_grids_keep_every_cell() {
        let grid = PointGrid::of(&map(4, &[(1, 1, 1.0), (1, 2, 1.0), (1, 3, 0.01), (3, 0, 0.1)]));
        assert_eq!(grid.stretches[LEVELS - 1], [PointRun { row: 1, column: 1, len: 2 }]);
        assert_eq!(grid.stretches[0], [PointRun { row: 1, column: 3, len: 1 }]);
        assert_eq!(grid.stretches[LEVELS / 2], [PointRun { row: 3, column: 0, len: 1 }]);
        assert_eq!(grid.note(), None);
    }

    #[test]
    fn large_grids_show_the_highest_of_what_falls_together() {
        let grid = PointGrid::of(&map(25_488, &[(0, 0, 0.1), (67, 67, 1.0), (25_487, 0, 0.01)]));
        assert_eq!((grid.columns, grid.rows, grid.bins), (375, 375, (68, 68)));
        assert_eq!(grid.stretches[LEVELS - 1], [PointRun { row: 0, column: 0, len: 1 }]);
        assert_eq!(grid.stretches[0], [PointRun { row: 374, column: 0, len: 1 }]);
        assert_eq!(grid.note().as_deref(), Some("each point: the highest of 68 x 68 cells"));
    }

    #[test]
    fn a_thinned_map_is_drawn_the_same() {
        let mut map = map(25_488, &[(67, 3, 0.1), (66, 5, 0.3), (70, 3, 0.5), (25_487, 0, 1.0)]);
        let drawn = |map: &Heatmap| PointGrid::of(map).stretches;
        let before = drawn(&map);
        map.thin();
        assert_eq!(map.cells.len(), 3);
        assert_eq!(drawn(&map), before);
    }

    #[test]
    fn what_is_no_value_stays_empty() {
        let odd = [(0, 0, 0.0), (0, 1, -1.0), (1, 1, f64::NAN), (9, 0, 1.0), (0, 2, f64::INFINITY)];
        assert!(PointGrid::of(&map(3, &odd)).is_empty());
        assert!(PointGrid::of(&map(0, &[])).is_empty());
        assert!(!PointGrid::of(&map(1, &[(0, 0, 0.5)])).is_empty());
    }

    #[test]
    fn ticks_are_powers_of_ten_where_those_are_enough() {
        let ticks = |low: f64, high: f64| {
            let texts = LogScale::around(&[low, high]).ticks().into_iter().map(tick_text);
            texts.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(1e-4, 1.0), "0.0001 0.001 0.01 0.1 1");
        assert_eq!(ticks(2e-6, 0.9), "1e-5 0.0001 0.001 0.01 0.1");
        assert_eq!(ticks(0.02, 0.7), "0.03 0.1 0.3");
        assert_eq!(ticks(0.3, 0.4), "0.3 0.4");
        assert_eq!(ticks(0.5, 0.5), "0.05 0.1 0.2 0.5");
        assert_eq!(ticks(1e-12, 1.0), "1e-12 1e-10 1e-8 1e-6 0.0001 0.01 1");
    }
}
