//! Where everything stands in the picture of a heatmap.

use std::fmt::Write;

use super::colours::LEVELS;
use super::grid::{PointGrid, PointRun, tick_text};
use super::map::{Heatmap, HeatmapAxis};
use crate::svg_writer::SvgWriter;

/// Width of a letter, about, as in the other pictures.
const LETTER: f64 = 6.6;

/// Maximum width and height of the map itself.
const SIDE: f64 = 380.0;

/// A lonely cell is not drawn larger.
const MAX_CELL: f64 = 40.0;

/// Room for the title of the rows.
const TOP: f64 = 30.0;
const BAR: f64 = 14.0;
const GAP: f64 = 16.0;

/// A heatmap with its measures.
pub(super) struct MapPanel<'a> {
    map: &'a Heatmap,
    grid: PointGrid,
    cell: (f64, f64),
    /// Left edge of the map in the panel.
    left: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl<'a> MapPanel<'a> {
    pub(super) fn of(map: &'a Heatmap) -> Self {
        let grid = PointGrid::of(map);
        let cell = (cell_size(grid.columns), cell_size(grid.rows));
        let widest = map.rows.labels.iter().map(|(_, text)| letters(text)).fold(0.0, f64::max);
        let left = (widest + 14.0).max(30.0);
        let map_width = cell.0 * f64::from(grid.columns);
        let title = letters(&map.rows.title) + 24.0;
        let below = letters(&map.columns.title).max(grid.note().map_or(0.0, |note| letters(&note)));
        let width = (left + map_width + GAP + BAR + 52.0)
            .max(title + letters(&map.unit) + 12.0)
            .max(left + map_width / 2.0 + below / 2.0 + 12.0)
            .ceil();
        let note = if grid.note().is_some() { 18.0 } else { 0.0 };
        let height = TOP + cell.1 * f64::from(grid.rows) + 46.0 + note;
        Self { map, grid, cell, left, width, height }
    }

    pub(super) fn draw(&self, pen: &mut SvgWriter) {
        let origin = (self.left, TOP);
        pen.text((12.0, TOP - 10.0), "start", "text", &self.map.rows.title);
        self.lines(pen, origin);
        for (level, stretches) in self.grid.stretches.iter().enumerate() {
            if !stretches.is_empty() {
                draw_stretches(pen, origin, self.cell, level, stretches);
            }
        }
        outline(pen, origin, self.size());
        self.labels(pen, origin);
        self.bar(pen, origin);
        if self.grid.is_empty() {
            let (width, height) = self.size();
            let middle = (origin.0 + width / 2.0, origin.1 + height / 2.0);
            pen.text(middle, "middle", "text", "nothing was seen here");
        }
    }

    fn size(&self) -> (f64, f64) {
        (self.cell.0 * f64::from(self.grid.columns), self.cell.1 * f64::from(self.grid.rows))
    }

    /// Lines between groups, and ticks that show where they end.
    fn lines(&self, pen: &mut SvgWriter, (x, y): (f64, f64)) {
        let (width, height) = self.size();
        for line in thinned(&self.map.columns.lines) {
            let at = x + self.cell.0 * f64::from(line) / f64::from(self.grid.bins.0);
            pen.rectangle((at - 0.25, y), (0.5, height), "grid");
            pen.rectangle((at - 0.25, y + height), (0.5, 5.0), "axis");
        }
        for line in thinned(&self.map.rows.lines) {
            let at = y + self.cell.1 * f64::from(line) / f64::from(self.grid.bins.1);
            pen.rectangle((x, at - 0.25), (width, 0.5), "grid");
            pen.rectangle((x - 5.0, at - 0.25), (5.0, 0.5), "axis");
        }
    }

    fn labels(&self, pen: &mut SvgWriter, (x, y): (f64, f64)) {
        let (width, height) = self.size();
        let across = |at: f64| x + self.cell.0 * at / f64::from(self.grid.bins.0);
        for (at, label) in with_room(&self.map.columns, |at, label| {
            let half = letters(label) / 2.0 + 4.0;
            (across(at) - half, across(at) + half)
        }) {
            pen.text((across(at), y + height + 17.0), "middle", "text", label);
        }
        let down = |at: f64| y + self.cell.1 * at / f64::from(self.grid.bins.1);
        for (at, label) in with_room(&self.map.rows, |at, _| (down(at) - 7.0, down(at) + 7.0)) {
            pen.text((x - 7.0, down(at) + 4.0), "end", "text", label);
        }
        let middle = x + width / 2.0;
        let below = y + height + 36.0;
        pen.text((middle, below), "middle", "text", &self.map.columns.title);
        if let Some(note) = self.grid.note() {
            pen.text((middle, below + 18.0), "middle", "text", &note);
        }
    }

    /// The colour bar, the highest value at the top.
    fn bar(&self, pen: &mut SvgWriter, (x, y): (f64, f64)) {
        if self.grid.is_empty() {
            return;
        }
        let (width, height) = self.size();
        let height = height.clamp(120.0, 240.0);
        let left = x + width + GAP;
        for level in 0..LEVELS {
            let [from, to] = [level + 1, level].map(|level| {
                // On half pixels, so that no seam shows between the steps.
                (2.0 * height * (1.0 - level as f64 / LEVELS as f64)).round() / 2.0
            });
            pen.rectangle((left, y + from), (BAR, to - from), &format!("f{level}"));
        }
        outline(pen, (left, y), (BAR, height));
        for tick in self.grid.scale.ticks() {
            let at = y + height * (1.0 - self.grid.scale.share(tick));
            pen.rectangle((left + BAR, at - 0.25), (4.0, 0.5), "axis");
            pen.text((left + BAR + 7.0, at + 4.0), "start", "text", &tick_text(tick));
        }
        // Above the bar, or as far to the right as the title beside it needs.
        let clear = x - self.left + letters(&self.map.rows.title) + 24.0;
        let start = (left + BAR + 2.0 - letters(&self.map.unit)).max(clear);
        pen.text((start, y - 10.0), "start", "text", &self.map.unit);
    }
}

/// Equal neighbours in their rows; `origin` is the corner of the map, `cell` the size of a point.
fn draw_stretches(
    pen: &mut SvgWriter,
    (x, y): (f64, f64),
    cell: (f64, f64),
    level: usize,
    of: &[PointRun],
) {
    let mut path = String::new();
    for PointRun { row, column, len } in of {
        // Writing to a text cannot fail.
        let _ = write!(path, "M{column} {row}h{len}");
    }
    // A line as thick as a row, through its middle. Crisp edges leave no seams.
    let (across, down) = cell;
    pen.add(&format!(
        "<path class=\"h{level}\" shape-rendering=\"crispEdges\" fill=\"none\" transform=\"matrix({across} 0 0 {down} {x} {})\" d=\"{path}\"/>",
        y + down / 2.0
    ));
}

fn outline(pen: &mut SvgWriter, (x, y): (f64, f64), (width, height): (f64, f64)) {
    for (at, size) in [
        ((x - 0.5, y - 0.5), (width + 1.0, 0.5)),
        ((x - 0.5, y + height), (width + 1.0, 0.5)),
        ((x - 0.5, y - 0.5), (0.5, height + 1.0)),
        ((x + width, y - 0.5), (0.5, height + 1.0)),
    ] {
        pen.rectangle(at, size, "axis");
    }
}

/// The side of a point in half pixels: whole pixels on a screen with two to a unit.
fn cell_size(points: u32) -> f64 {
    let fits = (2.0 * SIDE / f64::from(points.max(1))).floor() / 2.0;
    fits.clamp(0.5, MAX_CELL)
}

fn letters(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Returns the lines, or none where they would be too close to be seen.
fn thinned(lines: &[u32]) -> impl Iterator<Item = u32> {
    let few = lines.len() <= 60;
    lines.iter().copied().filter(move |_| few)
}

/// Every second, third, ... label, so that none runs into the next; `room` is what one takes.
fn with_room(
    axis: &HeatmapAxis,
    room: impl Fn(f64, &str) -> (f64, f64),
) -> impl Iterator<Item = (f64, &str)> {
    let labels = &axis.labels;
    let fits = |every: usize| {
        let mut end = f64::NEG_INFINITY;
        labels.iter().step_by(every).all(|(at, label)| {
            let (from, to) = room(*at, label);
            let clear = from >= end;
            end = to;
            clear
        })
    };
    // Steps that people count in.
    let steps = (0..9).flat_map(|power| [1, 2, 5].map(|step| step * 10_usize.pow(power)));
    let every = steps.take_while(|step| *step < labels.len()).find(|step| fits(*step));
    let every = every.unwrap_or(labels.len().max(1));
    labels.iter().step_by(every).map(|(at, label)| (*at, label.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_clear_of_each_other() {
        let labels = (0..100).map(|i| (f64::from(i), i.to_string())).collect();
        let axis = HeatmapAxis { labels, len: 100, ..HeatmapAxis::default() };
        let shown = |size: f64| {
            let room = |at: f64, _: &str| (at - size / 2.0, at + size / 2.0);
            with_room(&axis, room).map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(shown(1.0).len(), 100);
        assert_eq!(shown(1.5)[..3], ["0", "2", "4"]);
        assert_eq!(shown(12.0)[..3], ["0", "20", "40"]);
        assert_eq!(shown(1e9), ["0"]);
    }

    #[test]
    fn points_are_half_pixels_or_more() {
        for (points, size) in [(0, 40.0), (1, 40.0), (36, 10.5), (231, 1.5), (360, 1.0), (380, 1.0)]
        {
            assert_eq!(cell_size(points), size);
        }
    }
}
