//! Runs of more flows than are drawn one by one: how they share the link, as distributions.

use cellpace_base::statistics::quantile;
use cellpace_measure::FlowFigures;

use crate::groups::{controllers, groups, shares};
use crate::number::{fixed, short};
use crate::section::{Chart, Form, Line, PageTable, Section};
use crate::thin::MAX_FLOWS;
use crate::{Comparison, Run};

/// Runs that are drawn.
const MAX_DRAWN: usize = 12;

/// Percentiles in the table.
const LEVELS: [u8; 7] = [0, 5, 25, 50, 75, 95, 100];

/// How many flows share their links; `None` where all flows are drawn one by one.
pub(crate) fn answer(comparison: &Comparison) -> Option<Section> {
    let groups = groups(comparison);
    let named = groups.iter().flat_map(|group| {
        let first = |run: &&&Run| run.seed == group.runs[0].seed;
        group.runs.iter().filter(first).map(|run| {
            let name = match groups.len() {
                1 => run.cc.clone(),
                _ => format!("{} on {}", run.cc, group.name),
            };
            (name, *run)
        })
    });
    let runs: Vec<(String, &Run)> =
        named.filter(|(_, run)| run.figures.per_flow.len() > MAX_FLOWS).collect();
    if runs.is_empty() {
        return None;
    }
    let names = controllers(comparison);
    let chart = |title: &str, unit: &str, log_x, of: fn(&FlowFigures) -> Option<f64>| {
        let line = |(name, run): &(String, &Run)| {
            let x = sorted(run, of);
            let count = x.len() as f32;
            let y = (1..=x.len()).map(|place| 100.0 * place as f32 / count).collect();
            let look = names.iter().position(|cc| *cc == run.cc).filter(|_| groups.len() == 1);
            Line { name: name.clone(), x, y, look, ..Line::default() }
        };
        Chart {
            title: title.to_owned(),
            unit: "% of the flows below".to_owned(),
            x_label: unit.to_owned(),
            lines: runs.iter().take(MAX_DRAWN).map(line).collect(),
            form: Form::Stairs,
            log_x,
            y_range: Some([0.0, 100.0]),
            ..Chart::default()
        }
    };
    let row = |(name, run): &(String, &Run)| {
        let rates = sorted(run, rate);
        let jain = if shares(run) { fixed(run.figures.jain, 3) } else { "–".to_owned() };
        let levels = LEVELS.map(|level| short(quantile(&rates, f64::from(level) / 100.0)));
        [name.clone(), rates.len().to_string(), jain].into_iter().chain(levels).collect()
    };
    let levels = LEVELS.map(|level| match level {
        0 => "least, Mbit/s".to_owned(),
        100 => "most".to_owned(),
        level => format!("p{level}"),
    });
    let header = ["run", "flows", "Jain's index"].map(str::to_owned);
    Some(Section {
        title: "How the flows share the link".to_owned(),
        charts: vec![
            chart("Rate of the flows", "Mbit/s", false, rate),
            chart("Queue delay of the flows", "95th percentile, ms", true, delay),
        ],
        tables: vec![PageTable {
            title: "Rates".to_owned(),
            note: "Of the first seed, each flow while it was on.".to_owned(),
            header: header.into_iter().chain(levels).collect(),
            rows: runs.iter().map(row).collect(),
            ..PageTable::default()
        }],
        ..Section::default()
    })
}

fn sorted(run: &Run, of: fn(&FlowFigures) -> Option<f64>) -> Vec<f64> {
    let mut values: Vec<f64> = run.figures.per_flow.iter().filter_map(of).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn rate(flow: &FlowFigures) -> Option<f64> {
    Some(flow.throughput_mbps).filter(|rate| rate.is_finite())
}

/// None of a flow of which nothing arrived.
fn delay(flow: &FlowFigures) -> Option<f64> {
    Some(flow.queue_delay_ms.p95).filter(|ms| flow.throughput_mbps > 0.0 && ms.is_finite())
}
