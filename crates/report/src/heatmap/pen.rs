//! SVG elements of a heatmap.

use std::fmt::Write;

use super::grid::PointRun;
use crate::html::escape;

/// What something is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// Titles.
    Title,
    /// All other text.
    Text,
    /// The frame and ticks.
    Axis,
    /// Lines between groups.
    Grid,
    /// A value.
    Level(usize),
}

/// Where a text stands, seen from its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Writes the elements of a picture. Units are CSS pixels.
#[derive(Default)]
pub(super) struct Pen {
    pub(super) body: String,
}

impl Pen {
    fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), ink: Ink) {
        let class = class(ink);
        self.add(&format!(
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>"
        ));
    }

    /// `y` is the base line.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, ink: Ink, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (class, words) = (class(ink), escape(words));
        self.add(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        ));
    }

    /// Equal neighbours in their rows; `origin` is the corner of the map, `cell` the size of a point.
    pub(super) fn stretches(
        &mut self,
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
        self.add(&format!(
            "<path class=\"h{level}\" shape-rendering=\"crispEdges\" fill=\"none\" transform=\"matrix({across} 0 0 {down} {x} {})\" d=\"{path}\"/>",
            y + down / 2.0
        ));
    }
}

fn class(ink: Ink) -> String {
    match ink {
        Ink::Title => "title".to_owned(),
        Ink::Text => "text".to_owned(),
        Ink::Axis => "axis".to_owned(),
        Ink::Grid => "grid".to_owned(),
        Ink::Level(level) => format!("f{level}"),
    }
}
