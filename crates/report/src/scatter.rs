//! Throughput against delay, declared once for the page, SVG and PNG.

use cellpace_base::statistics;

use crate::groups::{FigureRow, Group, queue_delay};
use crate::number::short;
use crate::section::{Chart, Form, Level, Line};
use crate::{Comparison, Run};

/// A logarithmic axis has no zero; in ms.
pub(crate) const MIN_DELAY: f64 = 0.1;

/// Whether runs differ in capacity, so that only shares of it can be compared.
pub(crate) fn differ_in_capacity(comparison: &Comparison) -> bool {
    let offered = comparison.runs.iter().map(|run| run.figures.capacity_mbps);
    let offered = offered.filter(|rate| rate.is_finite());
    let most = offered.clone().fold(0.0, f64::max);
    most > 1.02 * offered.fold(f64::INFINITY, f64::min)
}

/// The controllers of a group, each at the 95th percentile of its queue delay and its throughput; where
/// seeds were repeated, with intervals and each seed. `in_shares`: of the capacity, in percent.
pub(crate) fn scatter(
    group: &Group<'_>,
    rows: &[FigureRow<'_>],
    names: &[&str],
    in_shares: bool,
) -> Chart {
    let seeds = |row: &FigureRow<'_>| {
        let own = group.runs.iter().filter(|run| run.cc == row.cc && row.seed.is_none());
        own.filter_map(|run| point(run, in_shares)).collect()
    };
    let line = |row: &FigureRow<'_>| {
        let (x, y) = (row.p95, if in_shares { row.utilization } else { row.throughput });
        let is_known = x.value.is_finite() && y.value.is_finite();
        is_known.then(|| Line {
            name: row.cc.to_owned(),
            look: names.iter().position(|name| *name == row.cc),
            x: vec![x.value.max(MIN_DELAY)],
            y: vec![y.value as f32],
            spread: x.half_width.zip(y.half_width).map_or_else(Vec::new, |(across, up)| {
                // On a logarithmic axis an interval may reach below every value.
                let left = (x.value - across).max(x.value / 4.0).max(MIN_DELAY);
                vec![[left, x.value + across, y.value - up, y.value + up]]
            }),
            minor: seeds(row),
            ..Line::default()
        })
    };
    Chart {
        title: format!("{}: throughput against queue delay", group.name),
        unit: if in_shares { "% of the capacity" } else { "Mbit/s" }.to_owned(),
        x_label: "95th percentile of the queue delay [ms, log scale, less to the right]".to_owned(),
        lines: rows.iter().filter_map(line).collect(),
        log_x: true,
        reversed_x: true,
        form: Form::Scatter,
        levels: capacity(group, in_shares).into_iter().collect(),
        ..Chart::default()
    }
}

/// Where a single run lies; `None` when nothing was delivered.
fn point(run: &Run, in_shares: bool) -> Option<[f64; 2]> {
    let (delay, figures) = (queue_delay(run).p95, &run.figures);
    let rate = if in_shares { 100.0 * figures.utilization } else { figures.throughput_mbps };
    (delay.is_finite() && rate.is_finite()).then_some([delay.max(MIN_DELAY), rate])
}

fn capacity(group: &Group<'_>, in_shares: bool) -> Option<Level> {
    if in_shares {
        return Some(Level { at: 100.0, words: "capacity".to_owned() });
    }
    let offered = group.runs.iter().map(|run| run.figures.capacity_mbps);
    let offered: Vec<f64> = offered.filter(|rate| rate.is_finite()).collect();
    // Seeds of a random trace differ; the line is their mean, as the points are.
    let mean = statistics::mean(offered.iter().copied());
    let fewest = short(offered.iter().copied().fold(f64::INFINITY, f64::min));
    let most = short(offered.iter().copied().fold(0.0, f64::max));
    let words = match fewest == most {
        true => format!("capacity {}", short(mean)),
        false => format!("mean capacity {} ({fewest} to {most})", short(mean)),
    };
    (mean > 0.0).then_some(Level { at: mean, words })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::groups::{controllers, groups, rows};

    fn of(comparison: &Comparison) -> Chart {
        let names = controllers(comparison);
        let group = &groups(comparison)[0];
        let rows = rows(&group.runs, &comparison.repeated);
        scatter(group, &rows, &names, differ_in_capacity(comparison))
    }

    #[test]
    fn a_run_is_a_mark_and_repeated_ones_have_an_interval_and_their_seeds() {
        let single = of(&example::comparison());
        assert_eq!(single.lines.len(), 2);
        assert!(single.lines.iter().all(|line| line.spread.is_empty() && line.minor.is_empty()));
        assert!(single.levels[0].words.contains("capacity 8.19"), "{:?}", single.levels);
        let repeated = of(&example::repeated());
        for line in &repeated.lines {
            let [[left, right, low, high]] = line.spread[..] else { panic!("{line:?}") };
            assert!(left < line.x[0] && line.x[0] < right && low < high, "{line:?}");
            assert!(line.minor.len() > 1);
        }
    }

    #[test]
    fn traces_of_different_capacity_are_compared_by_shares() {
        let mut comparison = example::comparison();
        comparison.runs[1].figures.capacity_mbps *= 2.0;
        let chart = of(&comparison);
        assert_eq!((chart.unit.as_str(), chart.levels[0].at), ("% of the capacity", 100.0));
        let share = 100.0 * comparison.runs[0].figures.utilization;
        assert!((f64::from(chart.lines[0].y[0]) - share).abs() < 1e-3);
    }

    #[test]
    fn a_controller_that_delivered_nothing_has_no_mark() {
        let mut comparison = example::comparison();
        comparison.runs[0].figures.packets = 0;
        let chart = of(&comparison);
        assert_eq!((chart.lines.len(), chart.lines[0].look), (1, Some(1)));
    }
}
