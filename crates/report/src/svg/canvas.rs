//! The pen: one plot with its axes, or several panels, as SVG text.

use std::fmt::Write;

use super::scale::AxisScale;
use crate::number::short;
use crate::palette;
use crate::svg_writer::SvgWriter;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const PANEL: (f64, f64) = (240.0, 190.0);

/// Em widths differ by font; what is laid out by this leaves some air.
const LETTER: f64 = 6.6;

const STYLE: &str = "\
text{font:12px Helvetica,Arial,'Liberation Sans',sans-serif;fill:#333}\
.title{font-size:14px;font-weight:bold;fill:#000}\
.name{fill:#000}\
.label{fill:#000;font-weight:bold;paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\
.grid{stroke:#e6e6e6;fill:none}.axis{stroke:#888;fill:none}\
.area{fill:#e3e8ee;stroke:#a9b4c0}\
.level{stroke:#888;stroke-width:1.4;stroke-dasharray:6 4}\
.line,.curve{fill:none;stroke-linejoin:round}.line{stroke-width:1.5}.curve{stroke-width:2.2}\
.marker,.point{stroke:#fff;stroke-width:.8}\
.whisker{fill:none;stroke-width:1.4}.minor{opacity:.45}\
.frontier{fill:none;stroke:#a9b4c0;stroke-width:2;stroke-linejoin:round}\
.dots{fill:none;stroke:#777;stroke-width:3;stroke-linecap:round;stroke-opacity:.55}\
.bar{stroke:none}.region{fill-opacity:.2}.hollow{fill:#fff;stroke-width:2}\
.better{fill:#e4f3ec}.arrow{fill:none;stroke:#0a6b4c;stroke-width:1.7;stroke-linecap:round}\
.better-word{fill:#0a6b4c;font-weight:bold}";

/// A line over the x axis; NaN breaks it.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) look: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// The start of a name that would take too much room.
pub(super) fn short_name(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

/// One picture with one pair of axes.
pub(super) struct Plot {
    body: SvgWriter,
    height: f64,
    frame: Frame,
    /// Rectangles that labels keep clear of: left, top, right, bottom.
    taken: Vec<[f64; 4]>,
}

#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: AxisScale,
    y: AxisScale,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = self.left + (self.right - self.left) * self.x.share(x);
        (across, self.bottom - (self.bottom - self.top) * self.y.share(y))
    }

    fn grid(&self, body: &mut SvgWriter, ticks: (usize, usize), names: &[String]) {
        let Self { left, right, top, bottom, .. } = *self;
        for tick in self.y.ticks(ticks.1) {
            let y = bottom - (bottom - top) * self.y.share(tick);
            body.add(&format!("<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/>"));
            body.text((left - 7.0, y + 4.0), "end", "", &short(tick));
        }
        let room = ((right - left) / names.len().max(1) as f64 / LETTER) as usize;
        for (place, name) in names.iter().enumerate() {
            let x = left + (right - left) * self.x.share(place as f64);
            body.text((x, bottom + 17.0), "middle", "", &short_name(name, room.max(2)));
        }
        let ticks = if names.is_empty() { self.x.ticks(ticks.0) } else { Vec::new() };
        for tick in ticks {
            let x = left + (right - left) * self.x.share(tick);
            body.add(&format!("<path class=\"axis\" d=\"M{x:.1} {bottom}v4\"/>"));
            body.text((x, bottom + 17.0), "middle", "", &short(tick));
        }
        body.add(&format!("<path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>"));
    }

    /// A stroke for each stretch without gaps; a lonely point becomes a short one.
    fn path(&self, points: &[(f64, f64)]) -> String {
        let is_known = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
        let mut path = String::new();
        for stretch in points.chunk_by(|a, b| is_known(a) && is_known(b)) {
            if !is_known(&stretch[0]) {
                continue;
            }
            for (place, point) in stretch.iter().enumerate() {
                let (x, y) = self.at(*point);
                let _ = write!(path, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
            }
            if stretch.len() == 1 {
                path.push_str("h2");
            }
        }
        path
    }
}

impl Plot {
    /// Axes with a title, what the y axis and the x axis show, a legend of `lines`, and names at the
    /// places 0, 1, ... of the axis below, if there are any.
    pub(super) fn new(
        (title, y, x): (&str, &str, &str),
        across: AxisScale,
        up: AxisScale,
        lines: &[Line],
        names: &[String],
    ) -> Self {
        let mut body = SvgWriter::default();
        body.text((12.0, 22.0), "start", "title", &short_name(title, 84));
        let legend = legend(&mut body, lines, 44.0);
        body.text((12.0, legend + 4.0), "start", "", y);
        let top = legend + 14.0;
        let height = HEIGHT + legend - 44.0;
        let frame =
            Frame { left: 52.0, right: WIDTH - 18.0, top, bottom: height - 42.0, x: across, y: up };
        frame.grid(&mut body, (10, 7), names);
        body.text(((frame.left + frame.right) / 2.0, height - 8.0), "middle", "", x);
        Self { body, height, frame, taken: Vec::new() }
    }

    pub(super) fn finish(self) -> String {
        self.body.document((WIDTH, self.height), STYLE)
    }

    /// A shaded area below `outline`.
    pub(super) fn area(&mut self, outline: &[(f64, f64)]) {
        let (Some(first), Some(last)) = (outline.first(), outline.last()) else { return };
        let path = self.frame.path(outline).replacen('M', "L", 1);
        let bottom = self.frame.bottom;
        let (from, to) = (self.frame.at(*first).0, self.frame.at(*last).0);
        self.body.add(&format!(
            "<path class=\"area\" d=\"M{from:.1} {bottom}{path}L{to:.1} {bottom}Z\"/>"
        ));
    }

    pub(super) fn lines(&mut self, lines: &[Line]) {
        for line in lines {
            let path = self.frame.path(&line.points);
            let (stroke, dashes) = (stroke(line.look), dash_array(line.look));
            self.body.add(&format!("<path class=\"line\" {stroke}{dashes} d=\"{path}\"/>"));
        }
        for (place, line) in lines.iter().enumerate() {
            self.markers(line, (place as f64 + 0.5) / lines.len() as f64);
        }
    }

    /// A few markers along a line, those of different lines at different places.
    fn markers(&mut self, line: &Line, offset: f64) {
        const MARKERS: usize = 5;
        let count = line.points.len();
        for k in 0..MARKERS {
            let wanted = ((k as f64 + offset) / MARKERS as f64 * count as f64) as usize;
            let stretch = &line.points[wanted.min(count)..(wanted + count / 15 + 1).min(count)];
            if let Some(point) = stretch.iter().find(|point| point.1.is_finite()) {
                let at = self.frame.at(*point);
                marker(&mut self.body, "marker", line.look, at, 4.3);
            }
        }
    }

    /// Marks the upper right corner as where one wants to be.
    pub(super) fn better_corner(&mut self) {
        let Frame { right, top, .. } = self.frame;
        let (left, below) = (right - 190.0, top + 130.0);
        // Behind everything that follows; the grid shows through at the border.
        self.body.add(&format!(
                "<path class=\"better\" fill-opacity=\".75\" d=\"M{right} {top}V{below}A190 130 0 0 1 {left} {top}Z\"/>"
            ),
        );
        self.body.text((right - 30.0, top + 19.0), "end", "better-word", "better");
        self.body.add(&format!(
            "<path class=\"arrow\" d=\"M{} {}l14-14m-9 0h9v9\"/>",
            right - 24.0,
            top + 21.0
        ));
        self.taken.push([right - 76.0, top, right, top + 26.0]);
    }

    /// A dashed line at the height `value`, named.
    pub(super) fn level(&mut self, value: f64, name: &str) {
        if !value.is_finite() || value <= 0.0 {
            return;
        }
        let Frame { left, right, .. } = self.frame;
        let (_, y) = self.frame.at((1.0, value));
        self.body.add(&format!("<path class=\"level\" d=\"M{left} {y:.1}H{right}\"/>"));
        self.body.text((left + 6.0, y - 5.0), "start", "", name);
        self.taken.push([left, y - 18.0, left + 6.0 + name.len() as f64 * LETTER, y]);
    }

    /// A bar from the foot of the chart, or from zero where that lies above it.
    pub(super) fn bar(&mut self, look: usize, (from, to): (f64, f64), value: f64) {
        let (left, top) = self.frame.at((from, value));
        let (right, zero) = self.frame.at((to, 0.0));
        let foot = if zero.is_finite() { zero.min(self.frame.bottom) } else { self.frame.bottom };
        self.rectangle("bar", look, [left, top.min(foot), right, top.max(foot)]);
    }

    /// The region between two corners.
    pub(super) fn region(&mut self, look: usize, low: (f64, f64), high: (f64, f64)) {
        let ((left, bottom), (right, top)) = (self.frame.at(low), self.frame.at(high));
        self.rectangle("region", look, [left, top, right, bottom]);
    }

    fn rectangle(&mut self, class: &str, look: usize, corners: [f64; 4]) {
        if corners.iter().any(|corner| !corner.is_finite()) {
            return;
        }
        let [left, top, right, bottom] = corners;
        let (width, height) = (right - left, bottom - top);
        let colour = palette::ON_LIGHT[palette::colour(look)];
        self.body.add(&format!(
            "<rect class=\"{class}\" fill=\"{colour}\" stroke=\"{colour}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    /// A mark; hollow, where another source prints it.
    pub(super) fn mark(&mut self, look: usize, at: (f64, f64), is_hollow: bool) {
        let at = self.frame.at(at);
        if !is_hollow {
            marker(&mut self.body, "point", look, at, 4.3);
            return;
        }
        let (x, y) = at;
        let stroke = stroke(look);
        let circle =
            format!("<circle class=\"hollow\" {stroke} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>");
        self.body.add(&circle);
    }

    /// The line through those that no other beats.
    pub(super) fn frontier(&mut self, points: &[(f64, f64)]) {
        let path = self.frame.path(points);
        self.body.add(&format!("<path class=\"frontier\" d=\"{path}\"/>"));
    }

    /// One of several that a point is the mean of.
    pub(super) fn minor(&mut self, look: usize, at: (f64, f64)) {
        let at = self.frame.at(at);
        if at.0.is_finite() && at.1.is_finite() {
            marker(&mut self.body, "minor", look, at, 3.0);
        }
    }

    pub(super) fn point(&mut self, look: usize, at: (f64, f64)) {
        let (x, y) = self.frame.at(at);
        marker(&mut self.body, "point", look, (x, y), 6.5);
        self.taken.push([x - 8.0, y - 8.0, x + 8.0, y + 8.0]);
    }

    /// Lines through a point to the ends of its intervals: left, right, low, high.
    pub(super) fn whiskers(&mut self, look: usize, at: (f64, f64), ends: [f64; 4]) {
        let [left, right, low, high] = ends;
        let (west, south) = self.frame.at((left, low));
        let (east, north) = self.frame.at((right, high));
        let (x, y) = self.frame.at(at);
        if [west, south, east, north].iter().any(|end| !end.is_finite()) {
            return;
        }
        let path = format!("M{west:.1} {y:.1}H{east:.1}M{x:.1} {south:.1}V{north:.1}");
        self.body.add(&format!("<path class=\"whisker\" {} d=\"{path}\"/>", stroke(look)));
    }

    /// A name beside a point, where nothing else is.
    pub(super) fn label(&mut self, name: &str, at: (f64, f64)) {
        let name = short_name(name, 44);
        let (x, y) = self.frame.at(at);
        let (width, height) = (name.chars().count() as f64 * LETTER * 1.1, 14.0);
        let beside = [0.0, 13.0, 26.0, 40.0, 54.0].into_iter().flat_map(|far: f64| {
            [-far, far].into_iter().flat_map(move |shift| {
                [(x + 11.0, y - 7.0 + shift), (x - 11.0 - width, y - 7.0 + shift)]
            })
        });
        let Frame { left, right, top, bottom, .. } = self.frame;
        let is_free = |(x, y): &(f64, f64)| {
            let (to, below) = (x + width, y + height);
            let is_inside = *x >= left && to <= right && *y >= top && below <= bottom;
            let clear = |t: &[f64; 4]| *x > t[2] || to < t[0] || *y > t[3] || below < t[1];
            is_inside && self.taken.iter().all(clear)
        };
        let (x, y) = beside.into_iter().find(is_free).unwrap_or((x + 11.0, y - 7.0));
        self.taken.push([x, y, x + width, y + height]);
        self.body.text((x, y + 11.0), "start", "label", &name);
    }
}

/// A picture of several panels.
pub(super) struct Canvas {
    body: SvgWriter,
    columns: usize,
    height: f64,
}

impl Canvas {
    pub(super) fn panels(title: &str, count: usize) -> Self {
        let columns = count.clamp(1, 3);
        let height = 34.0 + PANEL.1 * count.div_ceil(columns) as f64;
        let mut body = SvgWriter::default();
        body.text((12.0, 22.0), "start", "title", &short_name(title, 28 * columns));
        Self { body, columns, height }
    }

    /// The panel number `place` with its title, and what the y axis and the x axis show.
    pub(super) fn panel(
        &mut self,
        place: usize,
        (title, up, across): (&str, &str, &str),
        (x, y): (AxisScale, AxisScale),
    ) -> Panel<'_> {
        let left = (place % self.columns) as f64 * PANEL.0;
        let top = 34.0 + (place / self.columns) as f64 * PANEL.1;
        let frame = Frame {
            left: left + 46.0,
            right: left + PANEL.0 - 12.0,
            top: top + 24.0,
            bottom: top + PANEL.1 - 42.0,
            x,
            y,
        };
        frame.grid(&mut self.body, (4, 3), &[]);
        self.body.text((frame.left, top + 15.0), "start", "name", title);
        self.body.text((frame.right, top + 15.0), "end", "", up);
        let middle = (frame.left + frame.right) / 2.0;
        self.body.text((middle, frame.bottom + 33.0), "middle", "", across);
        Panel { body: &mut self.body, frame }
    }

    pub(super) fn finish(self) -> String {
        self.body.document((PANEL.0 * self.columns as f64, self.height), STYLE)
    }
}

pub(super) struct Panel<'a> {
    body: &'a mut SvgWriter,
    frame: Frame,
}

impl Panel<'_> {
    pub(super) fn dots<'p>(&mut self, points: impl Iterator<Item = &'p (f64, f64)>) {
        let mut path = String::new();
        for point in points.filter(|point| point.0.is_finite() && point.1.is_finite()) {
            let (x, y) = self.frame.at(*point);
            let _ = write!(path, "M{x:.1} {y:.1}h0");
        }
        self.body.add(&format!("<path class=\"dots\" d=\"{path}\"/>"));
    }

    pub(super) fn curve<'p>(&mut self, look: usize, points: impl Iterator<Item = &'p (f64, f64)>) {
        let points: Vec<(f64, f64)> = points.copied().collect();
        let path = self.frame.path(&points);
        self.body.add(&format!("<path class=\"curve\" {} d=\"{path}\"/>", stroke(look)));
    }
}

/// Swatches and names in rows from `top` down; returns the base line of the next text.
fn legend(body: &mut SvgWriter, lines: &[Line], top: f64) -> f64 {
    if lines.is_empty() {
        return top;
    }
    let (mut x, mut y) = (12.0, top);
    for line in lines {
        let width = 44.0 + line.name.chars().count() as f64 * LETTER + 16.0;
        if x > 12.0 && x + width > WIDTH {
            (x, y) = (12.0, y + 18.0);
        }
        let (stroke, dashes) = (stroke(line.look), dash_array(line.look));
        body.add(&format!(
            "<path {stroke}{dashes} stroke-width=\"1.8\" d=\"M{x} {}h36\"/>",
            y - 4.0
        ));
        marker(body, "marker", line.look, (x + 18.0, y - 4.0), 4.3);
        body.text((x + 43.0, y), "start", "name", &line.name);
        x += width;
    }
    y + 22.0
}

fn marker(body: &mut SvgWriter, class: &str, look: usize, (x, y): (f64, f64), radius: f64) {
    let outline = palette::marker_path(palette::marker(look), radius);
    let colour = palette::ON_LIGHT[palette::colour(look)];
    body.add(&format!(
            "<path class=\"{class}\" fill=\"{colour}\" transform=\"translate({x:.1} {y:.1})\" d=\"{outline}\"/>"
        ),
    );
}

fn stroke(look: usize) -> String {
    format!("stroke=\"{}\"", palette::ON_LIGHT[palette::colour(look)])
}

fn dash_array(look: usize) -> String {
    let dashes: Vec<String> = palette::dashes(look).iter().map(u8::to_string).collect();
    if dashes.is_empty() {
        String::new()
    } else {
        format!(" stroke-dasharray=\"{}\"", dashes.join(" "))
    }
}
