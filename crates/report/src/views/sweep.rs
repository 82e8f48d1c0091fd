//! The runs of a sweep, a row a run: `cellpace.runs/1`, which [`Document::read_parquet`] makes of its parts.
//!
//! [`Document::read_parquet`]: crate::Document::read_parquet

use std::collections::HashMap;

use cellpace_base::statistics::mean;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::heatmap::{Heatmap, HeatmapAxis, HeatmapCell};
use crate::number::{fixed, short, significant, time};
use crate::section::{Chart, Form, Line, PageTable, Section};

/// One run; its figures are missing where it failed.
#[derive(Deserialize)]
pub(crate) struct SweptRun {
    cc: String,
    trace: String,
    throughput_mbps: Option<f64>,
    utilization: Option<f64>,
    queue_delay_ms_p50: Option<f64>,
    queue_delay_ms_p95: Option<f64>,
    packets: Option<u64>,
    lost: Option<u64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Controllers that have a picture, and rows that are listed.
const MAX_PICTURES: usize = 6;
const MAX_LISTED: usize = 500;
/// Values of a condition beside which a picture has no names.
const MAX_SIDE: usize = 60;
/// A controller below this share of the best one's utilization is no answer, however short its delay.
const MIN_SHARE_OF_BEST: f64 = 0.5;

/// What a row of the table is of: the runs of a controller under one setting of all conditions.
struct SweepCell<'a> {
    cc: &'a str,
    /// The place of the value of each condition among its values.
    places: Vec<usize>,
    runs: Vec<&'a SweptRun>,
}

/// Something that varies in a sweep.
struct SweepCondition {
    name: String,
    /// In the order of the rows.
    values: Vec<String>,
}

impl SweepCell<'_> {
    fn mean(&self, of: fn(&SweptRun) -> Option<f64>) -> f64 {
        mean(self.runs.iter().filter_map(|run| of(run)))
    }

    /// None where nothing was delivered: a delay of 0 would be the best.
    fn p95(&self) -> f64 {
        self.mean(|run| run.queue_delay_ms_p95.filter(|_| run.packets != Some(0)))
    }

    fn utilization(&self) -> f64 {
        100.0 * self.mean(|run| run.utilization)
    }
}

/// A controller over all settings.
struct SweptController<'a> {
    cc: &'a str,
    p95: f64,
    utilization: f64,
    is_on_frontier: bool,
}

/// The page of a sweep.
pub(crate) fn section(runs: &[SweptRun]) -> Section {
    let conditions = conditions(runs);
    let cells = cells(runs, &conditions);
    let controllers = controllers(&cells);
    let settings = cells.iter().map(|cell| &cell.places).collect::<std::collections::HashSet<_>>();
    let failed = runs.iter().filter(|run| run.throughput_mbps.is_none()).count();
    let mut facts = vec![
        ("Runs".to_owned(), runs.len().to_string()),
        ("Controllers".to_owned(), controllers.len().to_string()),
        ("Conditions".to_owned(), settings.len().to_string()),
    ];
    for SweepCondition { name, values } in &conditions {
        let shown = if values.len() <= 6 { values.join(", ") } else { values.len().to_string() };
        facts.push((name.clone(), shown));
    }
    if failed > 0 {
        facts.push(("Failed".to_owned(), failed.to_string()));
    }
    Section {
        title: format!(
            "Sweep: {} controllers under {} conditions",
            controllers.len(),
            settings.len()
        ),
        sentence: sentence(&controllers, settings.len()),
        facts,
        charts: vec![frontier(&controllers)],
        maps: maps(&cells, &conditions, &controllers),
        tables: vec![overall(&controllers), table(&cells, &conditions)],
        controllers: controllers.iter().map(|of| of.cc.to_owned()).collect(),
        ..Section::default()
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What varies beside controller and seed.
fn conditions(runs: &[SweptRun]) -> Vec<SweepCondition> {
    let plan = runs.first().into_iter().flat_map(|run| run.others.keys());
    let mut names: Vec<&str> =
        plan.map(String::as_str).filter(|name| name.starts_with("plan_")).collect();
    // What has a column of its own is not in the plan's, but for what is written in several ways.
    for (own, plan) in [
        ("rtt_ms", "plan_rtt"),
        ("queue", "plan_queue"),
        ("loss", "plan_loss"),
        ("flows", "plan_flows"),
    ] {
        if !names.contains(&plan) {
            names.push(own);
        }
    }
    let of_column = |name: &str| {
        distinct(runs.iter().map(|run| run.others.get(name).map_or(String::new(), text)))
    };
    let columns = names.into_iter().map(|name| (name.trim_start_matches("plan_"), of_column(name)));
    let trace = ("trace", distinct(runs.iter().map(|run| run.trace.clone())));
    let mut known: Vec<SweepCondition> = Vec::new();
    for (name, values) in [trace].into_iter().chain(columns.collect::<Vec<_>>()) {
        // A plan may name the trace, too.
        if values.len() > 1 && known.iter().all(|other| other.values != values) {
            known.push(SweepCondition { name: name.to_owned(), values });
        }
    }
    known
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for text in texts {
        let next = places.len();
        places.entry(text).or_insert(next);
    }
    let mut all: Vec<(String, usize)> = places.into_iter().collect();
    all.sort_by_key(|(_, place)| *place);
    all.into_iter().map(|(text, _)| text).collect()
}

fn cells<'a>(runs: &'a [SweptRun], conditions: &[SweepCondition]) -> Vec<SweepCell<'a>> {
    let places: Vec<HashMap<&str, usize>> = conditions
        .iter()
        .map(|of| of.values.iter().enumerate().map(|(at, value)| (value.as_str(), at)).collect())
        .collect();
    let mut known: HashMap<(&str, Vec<usize>), usize> = HashMap::new();
    let mut cells: Vec<SweepCell<'a>> = Vec::new();
    for run in runs {
        let place = |(condition, places): (&SweepCondition, &HashMap<&str, usize>)| {
            let plan = format!("plan_{}", condition.name);
            let value = match run.others.get(&plan).or_else(|| run.others.get(&condition.name)) {
                Some(value) if condition.name != "trace" => text(value),
                _ => run.trace.clone(),
            };
            places.get(value.as_str()).copied().unwrap_or(0)
        };
        let at: Vec<usize> = conditions.iter().zip(&places).map(place).collect();
        let next = cells.len();
        let found = *known.entry((run.cc.as_str(), at.clone())).or_insert(next);
        if found == next {
            cells.push(SweepCell { cc: &run.cc, places: at, runs: Vec::new() });
        }
        cells[found].runs.push(run);
    }
    cells
}

/// The best first, by the ratios of their delays: else the slowest condition alone would decide.
fn controllers<'a>(cells: &[SweepCell<'a>]) -> Vec<SweptController<'a>> {
    let names = distinct(cells.iter().map(|cell| cell.cc.to_owned()));
    let of_name = |name: &String| {
        let own: Vec<&SweepCell<'a>> = cells.iter().filter(|cell| cell.cc == name).collect();
        let logs = own.iter().map(|cell| cell.p95()).filter(|p95| p95.is_finite());
        let used = own.iter().map(|cell| cell.utilization()).filter(|used| used.is_finite());
        Some(SweptController {
            cc: own.first()?.cc,
            p95: mean(logs.map(|p95| p95.max(0.1).ln())).exp(),
            utilization: mean(used),
            is_on_frontier: false,
        })
    };
    let mut all: Vec<SweptController<'a>> = names.iter().filter_map(of_name).collect();
    all.sort_by(|a, b| a.p95.total_cmp(&b.p95));
    let mut most = f64::NEG_INFINITY;
    for controller in &mut all {
        controller.is_on_frontier = controller.p95.is_finite() && controller.utilization > most;
        most = most.max(controller.utilization);
    }
    all
}

fn sentence(controllers: &[SweptController<'_>], settings: usize) -> String {
    let most = controllers.iter().map(|of| of.utilization).fold(0.0, f64::max);
    let is_useful = |of: &&SweptController<'_>| {
        of.p95.is_finite() && of.utilization >= MIN_SHARE_OF_BEST * most
    };
    let Some(lead) = controllers.iter().find(is_useful) else {
        return "Nothing was delivered.".to_owned();
    };
    let keeps = |of: &SweptController<'_>| {
        format!(
            "{} at {} % of the capacity",
            time(significant(of.p95, 2)),
            fixed(of.utilization, 0)
        )
    };
    let mut text = format!(
        "Over {settings} conditions {} keeps 95 % of the packets below {}, in the geometric mean",
        lead.cc,
        keeps(lead)
    );
    let others = controllers.iter().filter(|of| of.cc != lead.cc && of.p95.is_finite());
    if let Some(other) = others.max_by(|a, b| a.utilization.total_cmp(&b.utilization)) {
        text += &format!("; {} below {}", other.cc, keeps(other));
    }
    text + "."
}

fn frontier(controllers: &[SweptController<'_>]) -> Chart {
    let line = |of: &SweptController<'_>| Line {
        name: of.cc.to_owned(),
        x: vec![of.p95.max(0.1)],
        y: vec![of.utilization as f32],
        ..Line::default()
    };
    Chart {
        title: "Utilization against queue delay".to_owned(),
        unit: "% of the capacity".to_owned(),
        x_label: "95th percentile of the queue delay, ms, geometric mean over the conditions"
            .to_owned(),
        lines: controllers.iter().filter(|of| of.p95.is_finite()).map(line).collect(),
        log_x: true,
        reversed_x: true,
        form: Form::Scatter,
        note: "The line joins those that no other beats in both.".to_owned(),
        ..Chart::default()
    }
}

/// The delay of each controller over the two conditions with most values; over one, all controllers in one picture.
fn maps(
    cells: &[SweepCell<'_>],
    conditions: &[SweepCondition],
    controllers: &[SweptController<'_>],
) -> Vec<(Heatmap, String)> {
    let mut order: Vec<usize> = (0..conditions.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(conditions[*at].values.len()));
    let names: Vec<String> = controllers.iter().map(|of| of.cc.to_owned()).collect();
    let place_of = |cc: &str| names.iter().position(|name| name == cc).unwrap_or(0);
    match order[..] {
        [] => Vec::new(),
        [only] => {
            let title = "95th percentile of the queue delay".to_owned();
            let all: Vec<&SweepCell<'_>> = cells.iter().collect();
            let rows = axis("controller", &names);
            vec![map(title, rows, &conditions[only], &all, &|cell| {
                (place_of(cell.cc), cell.places[only])
            })]
        }
        [across, down, ..] => {
            let picture = |of: &SweptController<'_>| {
                let own: Vec<&SweepCell<'_>> =
                    cells.iter().filter(|cell| cell.cc == of.cc).collect();
                let title = format!("{}: 95th percentile of the queue delay", of.cc);
                let rows = axis(&conditions[down].name, &conditions[down].values);
                map(title, rows, &conditions[across], &own, &|cell| {
                    (cell.places[down], cell.places[across])
                })
            };
            controllers.iter().take(MAX_PICTURES).map(picture).collect()
        }
    }
}

fn axis(title: &str, values: &[String]) -> HeatmapAxis {
    let labels = values.iter().take(MAX_SIDE).enumerate();
    HeatmapAxis {
        title: title.replace('_', " "),
        len: values.len() as u32,
        labels: labels.map(|(at, value)| (at as f64 + 0.5, value.clone())).collect(),
        lines: Vec::new(),
    }
}

fn map(
    title: String,
    rows: HeatmapAxis,
    across: &SweepCondition,
    cells: &[&SweepCell<'_>],
    place: &dyn Fn(&SweepCell<'_>) -> (usize, usize),
) -> (Heatmap, String) {
    let mut grid: HashMap<(usize, usize), Vec<f64>> = HashMap::new();
    for cell in cells.iter().filter(|cell| cell.p95().is_finite()) {
        grid.entry(place(cell)).or_default().push(cell.p95());
    }
    let mut values: Vec<HeatmapCell> = grid
        .into_iter()
        .map(|((row, column), p95)| HeatmapCell {
            row: row as u32,
            column: column as u32,
            value: mean(p95),
        })
        .collect();
    values.sort_by_key(|cell| (cell.row, cell.column));
    let columns = axis(&across.name, &across.values);
    (Heatmap { title, unit: "ms".to_owned(), columns, rows, cells: values }, String::new())
}

fn overall(controllers: &[SweptController<'_>]) -> PageTable {
    let row = |of: &SweptController<'_>| {
        let frontier = if of.is_on_frontier { "yes" } else { "no" };
        vec![of.cc.to_owned(), short(of.p95), short(of.utilization), frontier.to_owned()]
    };
    PageTable {
        title: "Over all conditions".to_owned(),
        note: "The delay is a geometric mean. On the frontier: no other has less delay and more utilization."
            .to_owned(),
        header: super::header("controller|95 % queue delay, ms|utilization, %|on the frontier"),
        rows: controllers.iter().map(row).collect(),
        ..PageTable::default()
    }
}

fn table(cells: &[SweepCell<'_>], conditions: &[SweepCondition]) -> PageTable {
    let row = |cell: &SweepCell<'_>| {
        let values = conditions.iter().zip(&cell.places).map(|(of, at)| of.values[*at].clone());
        let lost = mean(cell.runs.iter().filter_map(|run| {
            let (lost, packets) = (run.lost? as f64, run.packets? as f64);
            (lost + packets > 0.0).then(|| 100.0 * lost / (lost + packets))
        }));
        let figures = [
            cell.runs.len().to_string(),
            short(cell.mean(|run| run.throughput_mbps)),
            short(cell.utilization()),
            short(cell.mean(|run| run.queue_delay_ms_p50)),
            short(cell.p95()),
            short(lost),
        ];
        [cell.cc.to_owned()].into_iter().chain(values).chain(figures).collect()
    };
    let names = conditions.iter().map(|condition| condition.name.replace('_', " "));
    let figures = super::header("runs|Mbit/s|utilization, %|queue delay p50, ms|p95, ms|lost, %");
    let note = match cells.len() > MAX_LISTED {
        true => format!("The first {MAX_LISTED} of {}; means over the seeds.", cells.len()),
        false => "Means over the seeds.".to_owned(),
    };
    PageTable {
        title: "Each condition".to_owned(),
        note,
        header: ["controller".to_owned()].into_iter().chain(names).chain(figures).collect(),
        rows: cells.iter().take(MAX_LISTED).map(row).collect(),
        ..PageTable::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cc: &str, rtt: &str, queue: &str, p95: f64, utilization: f64) -> SweptRun {
        let row = serde_json::json!({
            "cc": cc, "trace": "lte", "seed": 1, "plan_rtt": rtt, "plan_queue": queue,
            "throughput_mbps": 5.0, "utilization": utilization, "queue_delay_ms_p50": p95 / 2.0,
            "queue_delay_ms_p95": p95, "packets": 99, "lost": 1,
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn a_sweep_says_who_keeps_the_delay_short_and_draws_two_conditions() {
        let mut runs = Vec::new();
        for (rtt, more) in [("20ms", 1.0), ("40ms", 4.0)] {
            for queue in ["codel", "droptail"] {
                runs.push(run("copa", rtt, queue, 10.0 * more, 0.8));
                runs.push(run("cubic", rtt, queue, 500.0, 1.0));
                runs.push(run("slow", rtt, queue, 900.0, 0.7));
                runs.push(run("idle", rtt, queue, 1.0, 0.1));
            }
        }
        let section = section(&runs);
        assert_eq!(
            section.sentence,
            "Over 4 conditions copa keeps 95 % of the packets below 20 ms at 80 % of the capacity, in the \
             geometric mean; cubic below 500 ms at 100 % of the capacity."
        );
        assert_eq!(section.title, "Sweep: 4 controllers under 4 conditions");
        let (copa, _) = section.maps.iter().find(|(map, _)| map.title.starts_with("copa")).unwrap();
        assert_eq!((copa.rows.len, copa.columns.len, copa.cells.len()), (2, 2, 4));
        let values: Vec<f64> = copa.cells.iter().map(|cell| cell.value).collect();
        assert!(values.contains(&10.0) && values.contains(&40.0), "{values:?}");
        let frontier =
            |cc: &str| section.tables[0].rows.iter().find(|row| row[0] == cc).unwrap()[3].clone();
        assert_eq!(["idle", "copa", "cubic", "slow"].map(frontier), ["yes", "yes", "yes", "no"]);
        assert_eq!(section.tables[1].rows.len(), 16);
    }

    #[test]
    fn a_sweep_of_one_condition_is_one_picture_and_failed_runs_are_counted() {
        let mut failed = run("copa", "40ms", "codel", 1.0, 1.0);
        (failed.throughput_mbps, failed.utilization, failed.queue_delay_ms_p95) =
            (None, None, None);
        let runs =
            [run("copa", "20ms", "codel", 8.0, 0.9), failed, run("bbr", "20ms", "codel", 9.0, 0.9)];
        let section = section(&runs);
        assert_eq!(section.maps.len(), 1);
        assert_eq!(section.maps[0].0.rows.len, 2);
        assert!(section.facts.contains(&("Failed".to_owned(), "1".to_owned())));
        assert!(self::section(&[]).sentence.contains("Nothing"));
    }
}
