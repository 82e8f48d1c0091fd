//! Pictures for papers and slides: plain SVG on white, no script, no fonts of their own. Drawn by
//! hand rather than with a plotting crate for dashes, markers and an inverted logarithmic axis,
//! the same look as the page's.

mod canvas;
mod chart;
mod scale;

use std::collections::HashSet;

use cellpace_measure::{ProfileSample, Series};

pub(crate) use self::chart::chart_svg;
use self::chart::panels_svg;
use crate::Comparison;
use crate::groups::{Group, controllers, groups, rows};
use crate::number::short;
use crate::profile::profile_charts;
use crate::scatter::{MIN_DELAY, differ_in_capacity, scatter};
use crate::section::{Chart, Line};
use crate::thin::{evenly, highest, mean, thin};

/// Points along a line; more would only make noise at the width of a page.
const MAX_POINTS: usize = 300;

/// Delay profiles drawn of one run.
const MAX_PROFILES: usize = 6;

/// Adds the pictures of a comparison: for each trace (set of conditions)
/// throughput over capacity, queue delay over time, its distribution, throughput against delay, the flows of runs
/// that have several, and learnt delay profiles. Runs without series only have the scatter. Of
/// several seeds the first is drawn over time.
pub(crate) fn svg_files(comparison: &Comparison, files: &mut SvgFiles) {
    let names = controllers(comparison);
    let in_shares = differ_in_capacity(comparison);
    for group in groups(comparison) {
        let runs = drawn_runs(&group, &names);
        if !runs.is_empty() {
            files.add(&[&group.name, "throughput"], chart_svg(&throughput(&group, &runs)));
            files.add(&[&group.name, "delay"], chart_svg(&delay(&group, &runs)));
        }
        let distribution = distribution(&group, &runs);
        if distribution.has_values() {
            files.add(&[&group.name, "distribution"], chart_svg(&distribution));
        }
        let rows = rows(&group.runs, &comparison.repeated);
        let scatter = scatter(&group, &rows, &names, in_shares);
        files.add(&[&group.name, "scatter"], chart_svg(&scatter));
        for run in &runs {
            if (2..=16).contains(&run.series.flow_throughput_mbps.len()) {
                files.add(&[&group.name, "flows", run.cc], chart_svg(&flows(&group, run)));
            }
            if !run.series.profiles.is_empty() {
                files.add(&[&group.name, "profiles", run.cc], profiles(run));
            }
        }
    }
}

/// A run over time: what is drawn of it.
struct DrawnRun<'a> {
    cc: &'a str,
    look: usize,
    flows: Vec<&'a str>,
    series: &'a Series,
}

/// The first seed's runs that have series.
fn drawn_runs<'a>(group: &Group<'a>, names: &[&str]) -> Vec<DrawnRun<'a>> {
    let seed = group.runs[0].seed;
    let drawn = |run: &&'a crate::Run| {
        let series = run.series.as_ref().filter(|series| !series.throughput_mbps.is_empty())?;
        let look = names.iter().position(|name| *name == run.cc)?;
        let flows = run.figures.per_flow.iter().map(|flow| flow.cc.as_str()).collect();
        Some(DrawnRun { cc: &run.cc, look, flows, series })
    };
    group.runs.iter().filter(|run| run.seed == seed).filter_map(drawn).collect()
}

fn throughput(group: &Group<'_>, runs: &[DrawnRun<'_>]) -> Chart {
    let lines = runs.iter().map(|run| over_time(run, &run.series.throughput_mbps, mean));
    over_capacity(format!("{}: throughput", group.name), runs[0].series, lines)
}

fn flows(group: &Group<'_>, run: &DrawnRun<'_>) -> Chart {
    let flows = run.series.flow_throughput_mbps.iter().enumerate();
    let lines = flows.map(|(flow, values)| {
        let cc = run.flows.get(flow).copied().unwrap_or_default();
        let name = format!("{} {cc}", flow + 1).trim_end().to_owned();
        Line { name, look: Some(flow), ..over_time(run, values, mean) }
    });
    let title = format!("{}: throughput of each flow, {}", group.name, run.cc);
    over_capacity(title, run.series, lines)
}

fn over_capacity(title: String, series: &Series, lines: impl Iterator<Item = Line>) -> Chart {
    let capacity = Line { is_area: true, ..binned(series, &series.capacity_mbps, mean) };
    let width = seconds(series.bin_s * merge_for(series.throughput_mbps.len()) as f64);
    Chart {
        title,
        unit: format!("Mbit/s, mean of each {width}; shaded: capacity"),
        lines: std::iter::once(capacity).chain(lines).collect(),
        ..chart_over_time(series)
    }
}

fn delay(group: &Group<'_>, runs: &[DrawnRun<'_>]) -> Chart {
    let series = runs[0].series;
    let line = |run: &DrawnRun<'_>| {
        let mut line = over_time(run, &run.series.queue_delay_p95_ms, highest);
        // `f32::max` would turn a gap into a number.
        let known = line.y.iter_mut().filter(|delay| !delay.is_nan());
        known.for_each(|delay| *delay = delay.max(MIN_DELAY as f32));
        line
    };
    let merge = merge_for(series.throughput_mbps.len());
    let width = seconds(series.bin_s * merge as f64);
    let of = if merge > 1 { format!(", highest in each {width}") } else { String::new() };
    Chart {
        title: format!("{}: queue delay", group.name),
        unit: format!("ms, log scale; 95th percentile of each {}{of}", seconds(series.bin_s)),
        lines: runs.iter().map(line).collect(),
        log_y: true,
        ..chart_over_time(series)
    }
}

fn distribution(group: &Group<'_>, runs: &[DrawnRun<'_>]) -> Chart {
    let line = |run: &DrawnRun<'_>| {
        let delays = &run.series.quantiles.queue_delay_ms;
        let percent = |place: usize| 100.0 * place as f32 / (delays.len() - 1).max(1) as f32;
        Line {
            name: run.cc.to_owned(),
            look: Some(run.look),
            x: delays.iter().map(|delay| f64::from(*delay).max(MIN_DELAY)).collect(),
            y: (0..delays.len()).map(percent).collect(),
            ..Line::default()
        }
    };
    Chart {
        title: format!("{}: distribution of the queue delay", group.name),
        unit: "% of the packets below".to_owned(),
        x_label: "queue delay [ms, log scale]".to_owned(),
        lines: runs.iter().map(line).collect(),
        log_x: true,
        y_range: Some([0.0, 100.0]),
        ..Chart::default()
    }
}

fn chart_over_time(series: &Series) -> Chart {
    let length = series.bin_s * series.throughput_mbps.len() as f64;
    let (x_label, x_range) = ("time [s]".to_owned(), Some([0.0, length]));
    Chart { x_label, x_range, ..Chart::default() }
}

fn over_time(run: &DrawnRun<'_>, values: &[f32], merged: fn(&[f32]) -> f64) -> Line {
    let line = binned(run.series, values, merged);
    Line { name: run.cc.to_owned(), look: Some(run.look), ..line }
}

/// Values merged to as many bins as a picture shows, each at the middle of its bin.
fn binned(series: &Series, values: &[f32], merged: fn(&[f32]) -> f64) -> Line {
    let merge = merge_for(values.len());
    let (y, width) = (thin(values, merge, merged), series.bin_s * merge as f64);
    Line { x: (0..y.len()).map(|bin| (bin as f64 + 0.5) * width).collect(), y, ..Line::default() }
}

/// Several small charts of what a run's controllers have learnt.
fn profiles(run: &DrawnRun<'_>) -> String {
    let chosen: Vec<&ProfileSample> = evenly(&run.series.profiles, MAX_PROFILES).collect();
    let charts = profile_charts(&chosen, run.look, run.flows.len() > 1);
    panels_svg(&format!("{}: learnt delay profiles", run.cc), &charts)
}

fn merge_for(bins: usize) -> usize {
    bins.div_ceil(MAX_POINTS).max(1)
}

fn seconds(width: f64) -> String {
    if width < 1.0 { format!("{} ms", short(width * 1e3)) } else { format!("{} s", short(width)) }
}

/// Files with names that every file system takes and that differ from each other.
#[derive(Default)]
pub(crate) struct SvgFiles {
    pub(crate) files: Vec<(String, String)>,
    taken: HashSet<String>,
}

impl SvgFiles {
    pub(crate) fn add(&mut self, parts: &[&str], svg: String) {
        let parts: Vec<String> = parts.iter().map(|part| file_name(part)).collect();
        let stem = parts.join("-");
        let mut name = format!("{stem}.svg");
        let mut number = 2;
        // Names that differ in case only are one file on some systems.
        while !self.taken.insert(name.to_lowercase()) {
            name = format!("{stem}-{number}.svg");
            number += 1;
        }
        self.files.push((name, svg));
    }
}

fn file_name(text: &str) -> String {
    let safe = |letter: char| {
        if letter.is_alphanumeric() || "._=".contains(letter) { letter } else { '-' }
    };
    let name: String = text.chars().take(60).map(safe).collect();
    let name = name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let name = name.trim_matches('.');
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn svg_files(comparison: &Comparison) -> Vec<(String, String)> {
        let mut files = SvgFiles::default();
        super::svg_files(comparison, &mut files);
        files.files
    }

    fn names(files: &[(String, String)]) -> Vec<&str> {
        files.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn every_group_has_its_pictures() {
        let files = svg_files(&example::large("drive.down", 4, 1, 20));
        assert_eq!(
            names(&files),
            [
                "drive.down-throughput.svg",
                "drive.down-delay.svg",
                "drive.down-distribution.svg",
                "drive.down-scatter.svg",
                "drive.down-profiles-verus-r=2.svg",
                "drive.down-profiles-sprout.svg",
            ]
        );
        let files = svg_files(&example::large("shared", 1, 3, 20));
        assert!(names(&files).contains(&"shared-flows-verus-r=2.svg"));
    }

    #[test]
    fn every_controller_has_a_line_with_dashes_of_its_own() {
        let files = svg_files(&example::large("drive", 6, 1, 60));
        for (name, svg) in &files[..3] {
            assert_eq!(svg.matches("class=\"line\"").count(), 6, "{name}");
        }
        assert_eq!(files[3].1.matches("class=\"point\"").count(), 6);
        assert_eq!(files[4].1.matches("class=\"curve\"").count(), 6);
    }

    #[test]
    fn gaps_stay_gaps_and_zero_delay_is_at_the_foot_of_the_axis() {
        let files = svg_files(&example::comparison());
        let delay = &files[1].1;
        assert!(!delay.contains("NaN") && !delay.contains("inf"), "{delay}");
        // Bins 0-2, a gap, bin 4: two strokes.
        let line = delay.lines().find(|line| line.contains("class=\"line\"")).unwrap();
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert_eq!(line.matches("h2").count(), 1, "a lonely bin must be seen: {line}");
    }

    #[test]
    fn odd_results_make_no_odd_numbers() {
        let mut odd = example::comparison();
        for run in &mut odd.runs {
            run.figures.packets = 0;
            run.figures.capacity_mbps = 0.0;
            let series = run.series.as_mut().unwrap();
            series.capacity_mbps.fill(0.0);
            series.throughput_mbps.fill(0.0);
            series.queue_delay_p95_ms.fill(f32::NAN);
        }
        odd.runs[1].series = None;
        let pictures = svg_files(&odd);
        assert_eq!(pictures.len(), 3);
        for (name, svg) in pictures {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}: {svg}");
        }
    }

    #[test]
    fn names_from_users_become_safe_files_and_plain_text() {
        let mut comparison = example::large("../../etc/passwd", 1, 1, 5);
        comparison.runs[0].cc = "<b>\u{1}&".to_owned();
        let files = svg_files(&comparison);
        for (name, svg) in &files {
            assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
            assert!(!svg.contains("<b>") && !svg.contains('\u{1}'));
        }
        let mut twice = SvgFiles::default();
        ["a:b", "a/b", "A b"].iter().for_each(|name| twice.add(&[name], String::new()));
        assert_eq!(names(&twice.files), ["a-b.svg", "a-b-2.svg", "A-b-3.svg"]);
    }
}
