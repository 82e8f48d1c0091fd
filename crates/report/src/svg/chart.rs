//! A chart of a page as a picture: the same description, drawn on white.

use super::canvas::{Canvas, Line as DrawnLine, Plot, short_name};
use super::scale::AxisScale;
use crate::section::{Chart, Form, Line};
use crate::thin::evenly;

/// Points along a line; more would only make noise at the width of a page.
const MAX_POINTS: usize = 600;

/// The same of small charts.
const MAX_DOTS: usize = 250;
const MAX_CURVE_POINTS: usize = 120;

/// The picture of a chart.
pub(crate) fn chart_svg(chart: &Chart) -> String {
    if chart.form == Form::Scatter {
        return scatter_svg(chart);
    }
    let (areas, lines): (Vec<&Line>, Vec<&Line>) =
        chart.lines.iter().partition(|line| line.is_area);
    let areas: Vec<_> = areas.into_iter().map(outline).collect();
    let looks: Vec<DrawnLine> =
        lines.iter().enumerate().map(|(at, line)| drawn(chart, at, line)).collect();
    let points = || {
        let own = looks.iter().flat_map(|line| line.points.iter().copied());
        let spread = chart.lines.iter().flat_map(|line| &line.spread);
        let areas = areas.iter().flatten().copied();
        own.chain(areas)
            .chain(spread.flat_map(|[left, right, low, high]| [(*left, *low), (*right, *high)]))
    };
    let finite = |value: &f64| value.is_finite();
    let x = match chart.names.len() {
        0 => scale(points().map(|point| point.0).filter(finite), chart.log_x, chart.x_range, false),
        count => AxisScale::linear(-0.6, count as f64 - 0.4),
    };
    let y = scale(points().map(|point| point.1).filter(finite), chart.log_y, chart.y_range, true);
    let mut plot =
        Plot::new((&chart.title, &chart.unit, &chart.x_label), x, y, &looks, &chart.names);
    areas.iter().for_each(|outline| plot.area(outline));
    let width = 0.8 / chart.lines.len().max(1) as f64;
    for (line, look) in lines.iter().zip(&looks) {
        for [left, right, low, high] in &line.spread {
            plot.region(look.look, (*left, *low), (*right, *high));
        }
        if !chart.names.is_empty() && !line.hollow {
            for (x, y) in look.points.iter().filter(|(_, y)| y.is_finite()) {
                plot.bar(look.look, (x - width / 2.0, x + width / 2.0), *y);
            }
        }
        if line.hollow || matches!(chart.form, Form::Marks | Form::Regions) {
            for point in look.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
                plot.mark(look.look, *point, line.hollow);
            }
        }
    }
    if chart.names.is_empty() && matches!(chart.form, Form::Lines | Form::Stairs | Form::Steps) {
        let is_line = |(line, _): &(&&Line, DrawnLine)| !line.hollow;
        let lines = lines.iter().zip(looks).filter(is_line).map(|(_, line)| line);
        plot.lines(&lines.collect::<Vec<_>>());
    }
    plot.finish()
}

/// Marks with names, intervals and what they are means of.
fn scatter_svg(chart: &Chart) -> String {
    let marks: Vec<(usize, &Line, (f64, f64))> = marks_of(chart).collect();
    let (x, y) = scatter_scales(chart, &marks);
    let words = (chart.title.as_str(), chart.unit.as_str(), chart.x_label.as_str());
    let mut plot = Plot::new(words, x, y, &[], &[]);
    plot.better_corner();
    chart.levels.iter().for_each(|level| plot.level(level.at, &level.words));
    plot.frontier(&frontier(marks.iter().map(|(.., at)| *at).collect()));
    for (look, line, _) in &marks {
        line.minor.iter().for_each(|[x, y]| plot.minor(*look, (*x, *y)));
    }
    for (look, line, at) in &marks {
        line.spread.iter().for_each(|ends| plot.whiskers(*look, *at, *ends));
        plot.point(*look, *at);
    }
    marks.iter().for_each(|(_, line, at)| plot.label(&line.name, *at));
    plot.finish()
}

/// Look, line and place of each mark.
fn marks_of(chart: &Chart) -> impl Iterator<Item = (usize, &Line, (f64, f64))> {
    chart.lines.iter().enumerate().flat_map(|(at, line)| {
        let marks = line.x.iter().copied().zip(line.y.iter().map(|y| f64::from(*y)));
        marks
            .filter(|(x, y)| *x > 0.0 && x.is_finite() && y.is_finite())
            .map(move |mark| (line.look.unwrap_or(at), line, mark))
    })
}

/// Points that crowd at the top get the room: a scatter needs no zero.
fn scatter_scales(chart: &Chart, marks: &[(usize, &Line, (f64, f64))]) -> (AxisScale, AxisScale) {
    let spread = || marks.iter().flat_map(|(_, line, _)| &line.spread);
    let minor = || marks.iter().flat_map(|(_, line, _)| &line.minor);
    let across = marks.iter().map(|(.., (x, _))| *x).chain(minor().map(|point| point[0]));
    let across: Vec<f64> = across.chain(spread().flat_map(|ends| [ends[0], ends[1]])).collect();
    let up =
        marks.iter().map(|(.., (_, y))| *y).chain(spread().flat_map(|ends| [ends[2], ends[3]]));
    let up: Vec<f64> = up.chain(chart.levels.iter().map(|level| level.at)).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let (top, foot) = (most(&up).max(1e-3) * 1.08, least(&up));
    let is_crowded = foot.is_finite() && foot > 0.45 * top;
    let ground = if is_crowded { foot - 0.45 * (top - foot) } else { 0.0 };
    let x = AxisScale::log_around(least(&across), most(&across), 1.9);
    let x = if chart.reversed_x { x.inverted() } else { x };
    (x, AxisScale::linear(ground, top))
}

/// Those that no other beats by as much value at a smaller place; ascending.
fn frontier(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut best = f64::NEG_INFINITY;
    points.retain(|(_, y)| {
        let is_better = *y > best;
        best = best.max(*y);
        is_better
    });
    points
}

/// Small charts side by side under one title.
pub(super) fn panels_svg(title: &str, charts: &[Chart]) -> String {
    let mut canvas = Canvas::panels(title, charts.len());
    for (place, chart) in charts.iter().enumerate() {
        let [x, y] = [chart.x_range, chart.y_range].map(|range| range.unwrap_or([0.0, 1.0]));
        let scales = (AxisScale::linear(x[0], x[1]), AxisScale::linear(y[0], y[1]));
        let words = (chart.title.as_str(), chart.unit.as_str(), chart.x_label.as_str());
        let mut panel = canvas.panel(place, words, scales);
        for (at, line) in chart.lines.iter().enumerate() {
            let points = line.x.iter().copied().zip(line.y.iter().map(|y| f64::from(*y)));
            let points: Vec<(f64, f64)> = points.collect();
            match line.are_dots {
                true => panel.dots(evenly(&points, MAX_DOTS)),
                false => panel.curve(line.look.unwrap_or(at), evenly(&points, MAX_CURVE_POINTS)),
            }
        }
    }
    canvas.finish()
}

/// The outline of an area that is level over each bin, around whose middle its place lies.
fn outline(line: &Line) -> Vec<(f64, f64)> {
    let half = match line.x[..] {
        [first, second, ..] => (second - first) / 2.0,
        [only] => only,
        [] => 0.0,
    };
    let level = |(x, y): (&f64, &f32)| {
        let value = if y.is_finite() { f64::from(*y) } else { 0.0 };
        [(x - half, value), (x + half, value)]
    };
    line.x.iter().zip(&line.y).flat_map(level).collect()
}

fn drawn(chart: &Chart, at: usize, line: &Line) -> DrawnLine {
    // What a logarithmic axis has no place for is a gap.
    let has_place = |(x, y): (f64, f64)| (!chart.log_x || x > 0.0) && (!chart.log_y || y > 0.0);
    let values = line.x.iter().copied().zip(line.y.iter().map(|y| f64::from(*y)));
    let all: Vec<(f64, f64)> =
        values.map(|point| if has_place(point) { point } else { (f64::NAN, f64::NAN) }).collect();
    let points: Vec<(f64, f64)> = evenly(&all, MAX_POINTS).copied().collect();
    let steps = || {
        let pairs = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
        pairs.chain(points.last().copied()).collect()
    };
    DrawnLine {
        name: short_name(&line.name, 40),
        look: line.look.unwrap_or(at),
        points: match chart.form {
            Form::Stairs | Form::Steps => steps(),
            _ => points,
        },
    }
}

/// An axis over these values, or over the range that is given. A linear one begins at zero where it has values.
fn scale(
    values: impl Iterator<Item = f64> + Clone,
    is_log: bool,
    range: Option<[f64; 2]>,
    has_values: bool,
) -> AxisScale {
    let values = values.filter(|value| !is_log || *value > 0.0);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    match (range, is_log) {
        (Some([from, to]), true) => AxisScale::log_around(from, to, 1.0),
        (Some([from, to]), false) => AxisScale::linear(from, to),
        (None, true) => AxisScale::log_around(least, most, 1.2),
        (None, false) if has_values => AxisScale::linear(least.min(0.0), 1.06 * most),
        (None, false) => AxisScale::linear(least, most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(form: Form) -> Chart {
        let line = |name: &str, y: &[f32]| Line {
            name: name.to_owned(),
            x: (1..=y.len()).map(|x| x as f64).collect(),
            y: y.to_vec(),
            ..Line::default()
        };
        Chart {
            title: "a <b> & c".to_owned(),
            unit: "Mbit/s".to_owned(),
            lines: vec![line("one", &[1.0, 2.0, f32::NAN, 4.0]), line("two", &[3.0, 1.0])],
            form,
            ..Chart::default()
        }
    }

    #[test]
    fn every_form_is_drawn_as_on_the_page() {
        let count = |chart: &Chart, what: &str| chart_svg(chart).matches(what).count();
        for form in [Form::Lines, Form::Stairs, Form::Steps] {
            assert_eq!(count(&chart(form), "class=\"line\""), 2, "{form:?}");
        }
        assert_eq!(count(&chart(Form::Marks), "class=\"point\""), 5, "a gap has no mark");
        let mut regions = chart(Form::Regions);
        regions.lines[0].spread = vec![[0.5, 1.5, 0.5, 2.0]];
        assert_eq!(count(&regions, "class=\"region\""), 1);
        let mut bars = chart(Form::Lines);
        bars.names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!((count(&bars, "class=\"bar\""), count(&bars, ">d</text>")), (5, 1));
        let mut printed = chart(Form::Lines);
        printed.lines[1].hollow = true;
        assert_eq!(
            (count(&printed, "class=\"line\""), count(&printed, "class=\"hollow\"")),
            (1, 2)
        );
    }

    #[test]
    fn the_frontier_has_those_that_no_other_beats_in_both() {
        let points = vec![(5.0, 2.0), (1.0, 1.0), (2.0, 3.0), (2.0, 4.0), (9.0, 9.0)];
        assert_eq!(frontier(points), [(1.0, 1.0), (2.0, 4.0), (9.0, 9.0)]);
        assert_eq!(frontier(Vec::new()), []);
    }

    #[test]
    fn odd_values_make_no_odd_numbers() {
        for values in [vec![], vec![f32::NAN], vec![0.0, 0.0], vec![f32::INFINITY, 1.0]] {
            let mut odd = chart(Form::Lines);
            odd.lines[0].y.clone_from(&values);
            odd.lines.truncate(1);
            odd.lines[0].x.truncate(values.len());
            for (log_x, log_y) in [(false, false), (true, true)] {
                for form in [Form::Lines, Form::Scatter] {
                    let svg = chart_svg(&Chart { log_x, log_y, form, ..odd.clone() });
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{values:?}: {svg}");
                }
            }
        }
    }
}
