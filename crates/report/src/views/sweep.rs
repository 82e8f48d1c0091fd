//! The runs of a sweep, a row a run: `cellpace.runs/1`, which [`Document::read_parquet`] makes of its parts.
//!
//! [`Document::read_parquet`]: crate::Document::read_parquet

mod command;
mod run;

use std::collections::HashMap;

use cellpace_base::statistics::{mean, ranks};

use self::command::command;
pub(crate) use self::run::SweptRun;
use crate::heatmap::{Heatmap, HeatmapAxis, HeatmapCell};
use crate::number::{Number, fixed, short, significant, time};
use crate::section::{Chart, Form, Line, Matrix, MatrixCondition, PageTable, Section};

/// Controllers that have a picture, and rows that are listed.
const MAX_PICTURES: usize = 6;
const MAX_LISTED: usize = 1_500;
/// Controllers times conditions of a matrix.
const MAX_MATRIX: usize = 4_000;
/// Values of a condition beside which a picture has no names.
const MAX_SIDE: usize = 60;
/// A controller below this share of the best one's utilization is no answer, however short its delay.
const MIN_SHARE_OF_BEST: f64 = 0.5;

/// Digits by which figures are ranked: those that the page has.
const RANKED_DIGITS: i32 = 4;
/// The figures of a matrix.
const FIGURES: [&str; 5] = ["p95", "p50", "utilization", "throughput", "loss"];

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

    fn p95(&self) -> f64 {
        self.mean(|run| run.delay(run.queue_delay_ms_p95))
    }

    fn utilization(&self) -> f64 {
        100.0 * self.mean(|run| run.utilization)
    }

    /// A figure by its name in the script of the page.
    fn figure(&self, name: &str) -> f64 {
        match name {
            "p95" => self.p95(),
            "p50" => self.mean(|run| run.delay(run.queue_delay_ms_p50)),
            "utilization" => self.utilization(),
            "throughput" => self.mean(|run| run.throughput_mbps),
            _ => self.mean(SweptRun::lost_percent),
        }
    }
}

/// A controller over all settings.
struct SweptController<'a> {
    cc: &'a str,
    p95: f64,
    utilization: f64,
    /// The means of its ranks by delay and by utilization.
    ranks: [f64; 2],
    is_on_frontier: bool,
}

/// The page of a sweep.
pub(crate) fn section(runs: &[SweptRun]) -> Section {
    let conditions = conditions(runs);
    let cells = cells(runs, &conditions);
    let settings = settings(&cells);
    let controllers = controllers(&cells, &settings);
    let failed = runs.iter().filter(|run| run.throughput_mbps.is_none()).count();
    let mut facts = vec![
        ("Runs".to_owned(), runs.len().to_string()),
        ("Controllers".to_owned(), controllers.len().to_string()),
        ("Conditions".to_owned(), settings.len().to_string()),
    ];
    for SweepCondition { name, values } in &conditions {
        let written: Vec<&str> =
            values.iter().map(String::as_str).filter(|value| !value.is_empty()).collect();
        let shown = if values.len() <= 6 { written.join(", ") } else { values.len().to_string() };
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
        matrix: matrix(&settings, &conditions, &controllers),
        maps: maps(&cells, &conditions, &controllers),
        tables: vec![overall(&controllers), table(&cells, &conditions)],
        controllers: controllers.iter().map(|of| of.cc.to_owned()).collect(),
        ..Section::default()
    }
}

/// What varies beside controller and seed.
fn conditions(runs: &[SweptRun]) -> Vec<SweepCondition> {
    let mut names: Vec<&str> = Vec::new();
    // Those of all runs: the parts of a sweep may be read alone.
    for (name, _) in runs.iter().flat_map(SweptRun::plan) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_by_key(|name| SweptRun::field_place(name));
    // A path is called after the trace that it brings.
    let has_traces = names.contains(&"trace");
    names.retain(|name| *name != "trace" && (*name != "path" || has_traces));
    // What has a column of its own is not in the plan's, but for what is written in several ways.
    for (own, plan) in [("rtt_ms", "rtt"), ("queue", "queue"), ("loss", "loss"), ("flows", "flows")]
    {
        if !names.contains(&plan) {
            names.push(own);
        }
    }
    let mut known: Vec<SweepCondition> = Vec::new();
    for name in std::iter::once("trace").chain(names) {
        let values = distinct(runs.iter().map(|run| run.value(name)));
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
            places.get(run.value(&condition.name).as_str()).copied().unwrap_or(0)
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

/// The cells of each setting of all conditions, in the order of the runs.
fn settings<'a, 'b>(cells: &'b [SweepCell<'a>]) -> Vec<Vec<&'b SweepCell<'a>>> {
    let mut known: HashMap<&[usize], usize> = HashMap::new();
    let mut settings: Vec<Vec<&SweepCell<'a>>> = Vec::new();
    for cell in cells {
        let found = *known.entry(&cell.places).or_insert(settings.len());
        if found == settings.len() {
            settings.push(Vec::new());
        }
        settings[found].push(cell);
    }
    settings
}

/// The best first, by the ratios of their delays: else the slowest condition alone would decide.
fn controllers<'a>(
    cells: &[SweepCell<'a>],
    settings: &[Vec<&SweepCell<'a>>],
) -> Vec<SweptController<'a>> {
    let mut own: HashMap<&str, Vec<&SweepCell<'a>>> = HashMap::new();
    cells.iter().for_each(|cell| own.entry(cell.cc).or_default().push(cell));
    let delays = mean_ranks(settings, |cell| significant(cell.p95(), RANKED_DIGITS));
    let used = mean_ranks(settings, |cell| -significant(cell.utilization(), RANKED_DIGITS));
    let of_name = |(cc, own): (&'a str, Vec<&SweepCell<'a>>)| {
        let logs = own.iter().map(|cell| cell.p95()).filter(|p95| p95.is_finite());
        let shares = own.iter().map(|cell| cell.utilization()).filter(|used| used.is_finite());
        SweptController {
            cc,
            p95: mean(logs.map(|p95| p95.max(0.1).ln())).exp(),
            utilization: mean(shares),
            ranks: [&delays, &used].map(|ranks| ranks[cc]),
            is_on_frontier: false,
        }
    };
    let names = distinct(cells.iter().map(|cell| cell.cc.to_owned()));
    let named = names.iter().filter_map(|name| own.remove_entry(name.as_str()));
    let mut all: Vec<SweptController<'a>> = named.map(of_name).collect();
    all.sort_by(|a, b| a.p95.total_cmp(&b.p95));
    let mut most = f64::NEG_INFINITY;
    for controller in &mut all {
        controller.is_on_frontier = controller.p95.is_finite() && controller.utilization > most;
        most = most.max(controller.utilization);
    }
    all
}

/// The mean of the ranks of each controller over all settings, the least figure first.
fn mean_ranks<'a>(
    settings: &[Vec<&SweepCell<'a>>],
    of: impl Fn(&SweepCell<'a>) -> f64,
) -> HashMap<&'a str, f64> {
    let mut places: HashMap<&str, Vec<f64>> = HashMap::new();
    for own in settings {
        let figures: Vec<f64> = own.iter().map(|cell| of(cell)).collect();
        for (cell, rank) in own.iter().zip(ranks(&figures)) {
            places.entry(cell.cc).or_default().push(rank);
        }
    }
    places.into_iter().map(|(cc, ranks)| (cc, mean(ranks))).collect()
}

/// Controllers against conditions, where there are several of both and the page has room for it.
fn matrix(
    settings: &[Vec<&SweepCell<'_>>],
    conditions: &[SweepCondition],
    controllers: &[SweptController<'_>],
) -> Option<Matrix> {
    let has_several = settings.len() > 1 && controllers.len() > 1;
    if !has_several || settings.len().saturating_mul(controllers.len()) > MAX_MATRIX {
        return None;
    }
    let condition = |own: &Vec<&SweepCell<'_>>| {
        let of_name: HashMap<&str, &SweepCell<'_>> =
            own.iter().map(|cell| (cell.cc, *cell)).collect();
        let figure = |name: &'static str| {
            let value = |of: &SweptController<'_>| {
                Number(of_name.get(of.cc).map_or(f64::NAN, |cell| cell.figure(name)))
            };
            (name, controllers.iter().map(value).collect())
        };
        let runs: Vec<&SweptRun> = own.iter().flat_map(|cell| cell.runs.iter().copied()).collect();
        MatrixCondition {
            name: runs.first().map_or(String::new(), |run| setting_name(run, conditions)),
            command: command(&runs),
            figures: FIGURES.map(figure).into(),
        }
    };
    Some(Matrix {
        controllers: controllers.iter().map(|of| of.cc.to_owned()).collect(),
        conditions: settings.iter().map(condition).collect(),
    })
}

/// The values of all conditions, as far as they were written.
fn setting_name(run: &SweptRun, conditions: &[SweepCondition]) -> String {
    let words = |of: &SweepCondition| match (of.name.as_str(), run.written(&of.name)) {
        (_, value) if value.is_empty() => None,
        ("trace" | "queue", value) => Some(value),
        (name, value) => Some(format!("{} {value}", name.replace('_', " "))),
    };
    conditions.iter().filter_map(words).collect::<Vec<_>>().join(", ")
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
    let mut text = ranking(controllers, settings);
    text += &format!(
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

/// Who has the best mean ranks, where there is something to rank over.
fn ranking(controllers: &[SweptController<'_>], settings: usize) -> String {
    let first = |figure: usize| {
        let by_rank = |a: &&SweptController<'_>, b: &&SweptController<'_>| {
            a.ranks[figure].total_cmp(&b.ranks[figure])
        };
        let first = controllers.iter().min_by(by_rank);
        first.map(|of| format!("{} ({})", of.cc, short(of.ranks[figure])))
    };
    match [first(0), first(1)] {
        [Some(delay), Some(used)] if settings > 1 && controllers.len() > 1 => format!(
            "Of {} controllers, {delay} has the best mean rank by delay and {used} by utilization. ",
            controllers.len()
        ),
        _ => String::new(),
    }
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
        let figures = [of.ranks[0], of.ranks[1], of.p95, of.utilization].map(short);
        [of.cc.to_owned()].into_iter().chain(figures).chain([frontier.to_owned()]).collect()
    };
    PageTable {
        title: "Over all conditions".to_owned(),
        note: "Ranks are means over the conditions; the delay is a geometric mean. On the frontier: no other has less delay and more utilization."
            .to_owned(),
        header: super::header(
            "controller|mean rank by delay|mean rank by utilization|95 % queue delay, ms|utilization, %|on the frontier",
        ),
        rows: controllers.iter().map(row).collect(),
        ..PageTable::default()
    }
}

fn table(cells: &[SweepCell<'_>], conditions: &[SweepCondition]) -> PageTable {
    let row = |cell: &SweepCell<'_>| {
        let values = conditions.iter().zip(&cell.places).map(|(of, at)| of.values[*at].clone());
        let figures = [
            cell.runs.len().to_string(),
            short(cell.figure("throughput")),
            short(cell.figure("utilization")),
            short(cell.figure("p50")),
            short(cell.figure("p95")),
            short(cell.figure("loss")),
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
        commands: cells.iter().take(MAX_LISTED).map(|cell| command(&cell.runs)).collect(),
        ..PageTable::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cc: &str, rtt: &str, queue: &str, p95: f64, utilization: f64) -> SweptRun {
        let row = serde_json::json!({
            "cc": cc, "trace": "lte", "seed": 1, "plan_trace": "lte", "plan_rtt": rtt, "plan_queue": queue,
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
            "Of 4 controllers, idle (1) has the best mean rank by delay and cubic (1) by utilization. Over 4 conditions copa keeps 95 % of the packets below 20 ms at 80 % of the capacity, in the \
             geometric mean; cubic below 500 ms at 100 % of the capacity."
        );
        assert_eq!(section.title, "Sweep: 4 controllers under 4 conditions");
        let (copa, _) = section.maps.iter().find(|(map, _)| map.title.starts_with("copa")).unwrap();
        assert_eq!((copa.rows.len, copa.columns.len, copa.cells.len()), (2, 2, 4));
        let values: Vec<f64> = copa.cells.iter().map(|cell| cell.value).collect();
        assert!(values.contains(&10.0) && values.contains(&40.0), "{values:?}");
        let frontier =
            |cc: &str| section.tables[0].rows.iter().find(|row| row[0] == cc).unwrap()[5].clone();
        assert_eq!(["idle", "copa", "cubic", "slow"].map(frontier), ["yes", "yes", "yes", "no"]);
        assert_eq!(section.tables[1].rows.len(), 16);
        let ranks = |cc: &str| {
            section.tables[0].rows.iter().find(|row| row[0] == cc).unwrap()[1..3].to_vec()
        };
        assert_eq!(ranks("slow"), ["4", "3"]);
        assert_eq!(ranks("copa"), ["2", "2"]);

        let matrix = section.matrix.unwrap();
        assert_eq!(matrix.controllers, ["idle", "copa", "cubic", "slow"]);
        let last = &matrix.conditions[3];
        assert_eq!(last.name, "rtt 40ms, droptail");
        assert_eq!(last.figures["p95"], [1.0, 40.0, 500.0, 900.0].map(Number));
        let line = "cellpace compare --trace lte --rtt 40ms --queue droptail";
        let all = format!("{line} --cc copa --cc cubic --cc slow --cc idle --seed 1");
        assert_eq!(last.command, all);
        assert_eq!(section.tables[1].commands[15], format!("{line} --cc idle --seed 1"));
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
