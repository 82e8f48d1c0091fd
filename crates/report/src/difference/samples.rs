//! The values of two results that are compared, and what is drawn of them.

use cellpace_measure::{Series, Summary, TransferSummary};

use crate::document::Document;
use crate::groups::{VideoCells, conditions, lost_percent, queue_delay, shares};
use crate::joined::{distinct, listed_facts};
use crate::section::{Chart, Form, Line};
use crate::thin::thinned;
use crate::views::{ConnectionSamples, SampledFigure, connection_samples};
use crate::{Comparison, ReportError, Run, SCHEMA};

/// What is compared.
pub(super) struct Sides {
    pub(super) labels: [String; 2],
    /// Where, with a colon; empty where there are several places.
    pub(super) place: String,
    pub(super) facts: Vec<(String, String)>,
    /// Those of which the sentence speaks first.
    pub(super) figures: Vec<Sampled>,
    /// The values of one place in both lists were measured under the same conditions.
    pub(super) are_paired: bool,
    /// They differ in nothing else.
    pub(super) are_alike: bool,
    pub(super) of: &'static str,
    pub(super) charts: Vec<Chart>,
    pub(super) commands: Vec<String>,
}

/// The values of a figure on both sides.
pub(super) struct Sampled {
    pub(super) figure: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) is_better_high: bool,
    pub(super) values: [Vec<f64>; 2],
}

/// The error about the last of these results.
pub(super) fn refused(documents: &[Document], why: &str) -> ReportError {
    let name = documents.last().map_or("--diff", |document| &document.name);
    ReportError::document(name, why.to_owned())
}

impl Sides {
    pub(super) fn of(documents: &[Document]) -> Result<Self, ReportError> {
        let wrong = |why: &str| Err(refused(documents, why));
        match documents {
            [] | [_, _, _, ..] => wrong("a difference is of one or two results"),
            [first, .., last] if first.schema != last.schema => {
                wrong(&format!("of another kind than {}", first.name))
            }
            [first, ..] if first.schema == SCHEMA => of_runs(documents),
            [first, second] => {
                let [Some(a), Some(b)] = [connection_samples(first)?, connection_samples(second)?]
                else {
                    return wrong("there are no differences of this kind of results");
                };
                Ok(of_connections(&[a, b], documents))
            }
            [_] => wrong("a difference is of two results, or of one with two controllers"),
        }
    }
}

/// What both are called: names that differ, else the files.
fn labels(names: [Option<&str>; 2], documents: &[Document]) -> [String; 2] {
    match names {
        [Some(a), Some(b)] if a != b => [a.to_owned(), b.to_owned()],
        _ => {
            let name = |document: &Document| {
                let stem = std::path::Path::new(&document.name).file_stem();
                stem.map_or(document.name.clone(), |stem| stem.to_string_lossy().into_owned())
            };
            let [a, b] = [&documents[0], &documents[documents.len() - 1]];
            match name(a) == name(b) {
                true => [a.name.clone(), b.name.clone()],
                false => [name(a), name(b)],
            }
        }
    }
}

fn of_runs(documents: &[Document]) -> Result<Sides, ReportError> {
    let wrong = |why: &str| Err(refused(documents, why));
    let mut sides: Vec<Vec<Run>> = Vec::new();
    let mut commands = Vec::new();
    for document in documents {
        let results: Vec<Comparison> = document.typed()?;
        commands.extend(results.iter().map(|result| result.command.clone()));
        sides.push(results.iter().flat_map(|result| thinned(result).runs).collect());
    }
    if let [both] = &mut sides[..] {
        let ccs = distinct(both.iter().map(|run| run.cc.clone()));
        let [_, second] = &ccs[..] else {
            return wrong(&format!(
                "one result has a difference where it is of two controllers, and it is of {}",
                ccs.len()
            ));
        };
        let (b, a) = std::mem::take(both).into_iter().partition(|run| run.cc == *second);
        sides = vec![a, b];
    }
    let ccs = [0, 1].map(|side: usize| distinct(sides[side].iter().map(|run| run.cc.clone())));
    let names = ccs.each_ref().map(|ccs| match &ccs[..] {
        [cc] => Some(cc.clone()),
        _ => None,
    });
    let are_single = names.iter().all(Option::is_some);
    let are_same = ccs[0].len() == ccs[1].len() && ccs[0].iter().all(|cc| ccs[1].contains(cc));
    if !(are_single || are_same) {
        let [a, b] = ccs.each_ref().map(|ccs| ccs.join(", "));
        return wrong(&format!(
            "of {b}, and {} of {a}: both need the same controllers, or one each",
            documents[0].name
        ));
    }
    let Pairs { pairs, are_alike } = pairs(&sides[0], &sides[1], are_single);
    if pairs.is_empty() {
        let first = &documents[0].name;
        return wrong(&format!("no run on a trace and with a seed of {first}"));
    }
    let labels = labels(names.each_ref().map(Option::as_deref), documents);
    let traces = distinct(pairs.iter().map(|(a, _)| a.trace.clone()));
    let place = if let [trace] = &traces[..] { format!("{trace}: ") } else { String::new() };
    commands.retain(|command| !command.is_empty());
    commands.dedup();
    Ok(Sides {
        place,
        facts: listed_facts(pairs.iter().flat_map(|(a, b)| [a, b]).map(|run| conditions(run))),
        figures: run_figures(&pairs),
        are_paired: true,
        are_alike,
        of: "runs",
        charts: run_charts(&pairs, &labels),
        labels,
        commands,
    })
}

struct Pairs<'a> {
    pairs: Vec<(&'a Run, &'a Run)>,
    /// All conditions are the same.
    are_alike: bool,
}

/// The runs under the same conditions, or at least on the same trace with the same seed. `of_any`: whichever controllers.
fn pairs<'a>(a: &'a [Run], b: &'a [Run], of_any: bool) -> Pairs<'a> {
    let pair = |are_alike: &dyn Fn(&Run, &Run) -> bool| -> Vec<(&'a Run, &'a Run)> {
        let mut left: Vec<&Run> = b.iter().collect();
        let take = |run: &'a Run| {
            let is_other = |other: &&Run| {
                (of_any || other.cc == run.cc) && other.seed == run.seed && are_alike(run, other)
            };
            let found = left.iter().position(is_other)?;
            Some((run, left.remove(found)))
        };
        a.iter().filter_map(take).collect()
    };
    // Files of one name in two folders are different links.
    let is_one_link = |a: &Run, b: &Run| {
        let [a, b] = [a, b].map(|run| run.figures.capacity_mbps);
        (a - b).abs() <= 0.01 * a.abs()
    };
    let strict = pair(&|a, b| conditions(a) == conditions(b) && is_one_link(a, b));
    match strict.is_empty() {
        true => Pairs { pairs: pair(&|a, b| a.trace == b.trace), are_alike: false },
        false => Pairs { pairs: strict, are_alike: true },
    }
}

/// A figure of a run; `None` where it has none.
type RunFigure = (&'static str, &'static str, &'static str, bool, fn(&Run) -> Option<f64>);

const RUN_FIGURES: [RunFigure; 12] = [
    ("completion_p50_ms", "median completion time", "ms", false, |run| completion(run)?.p50.into()),
    ("completion_p95_ms", "95 % completion time", "ms", false, |run| completion(run)?.p95.into()),
    ("frame_delay_p95_ms", "95 % frame delay", "ms", false, |run| {
        video(run)?.frame_p95.value.into()
    }),
    ("frames_late_percent", "late frames", "%", false, |run| video(run)?.late.value.into()),
    ("freezes", "freezes", "a run", false, |run| video(run)?.freezes.value.into()),
    ("rtt_p50_ms", "median RTT", "ms", false, |run| rtt(run)?.p50.into()),
    ("throughput_mbps", "rate", "Mbit/s", true, |run| run.figures.throughput_mbps.into()),
    ("queue_delay_p50_ms", "median queue delay", "ms", false, |run| queue_delay(run).p50.into()),
    ("queue_delay_p95_ms", "95 % queue delay", "ms", false, |run| queue_delay(run).p95.into()),
    ("queue_delay_p99_ms", "99 % queue delay", "ms", false, |run| queue_delay(run).p99.into()),
    ("lost_percent", "lost", "%", false, |run| lost_percent(run).into()),
    ("jain", "Jain's index", "of 1", true, |run| {
        (run.figures.per_flow.len() > 1 && shares(run)).then_some(run.figures.jain)
    }),
];

fn completion(run: &Run) -> Option<cellpace_measure::Spread> {
    let of = TransferSummary::of(&run.cc, run.transfers.iter()).filter(|of| of.complete > 0)?;
    Some(of.completion_ms)
}

fn video(run: &Run) -> Option<VideoCells> {
    VideoCells::of(std::iter::once(run))
}

fn rtt(run: &Run) -> Option<Summary> {
    Some(run.figures.rtt_ms_seen).filter(|rtt| rtt.max > 0.0)
}

/// Those figures that a pair has on both sides.
fn run_figures(pairs: &[(&Run, &Run)]) -> Vec<Sampled> {
    let sampled = |(figure, title, unit, is_better_high, of): &RunFigure| {
        let value = |run: &Run| of(run).filter(|value| value.is_finite());
        let (a, b) = pairs.iter().filter_map(|(a, b)| value(a).zip(value(b))).unzip();
        Sampled { figure, title, unit, is_better_high: *is_better_high, values: [a, b] }
    };
    RUN_FIGURES.iter().map(sampled).filter(|one| !one.values[0].is_empty()).collect()
}

fn run_charts(pairs: &[(&Run, &Run)], labels: &[String; 2]) -> Vec<Chart> {
    let mut charts = vec![distribution(pairs, labels)];
    let drawn = pairs.iter().find_map(|(a, b)| Some((*a, a.series.as_ref()?, b.series.as_ref()?)));
    if let Some((run, a, b)) = drawn {
        let of = format!("Of {} with seed {}.", run.trace, run.seed);
        let note = if pairs.len() > 1 { of } else { String::new() };
        charts.extend(over_time([a, b], labels, &note));
    }
    if pairs.len() > 1 {
        charts.extend(pair_by_pair(pairs, labels));
    }
    charts
}

/// The mean over the pairs of each percentile of the RTT.
fn distribution(pairs: &[(&Run, &Run)], labels: &[String; 2]) -> Chart {
    let rtts = |run: &Run| {
        let quantiles = &run.series.as_ref()?.quantiles.rtt_ms_seen;
        (quantiles.len() > 1).then(|| quantiles.clone())
    };
    let both: Vec<[Vec<f32>; 2]> =
        pairs.iter().filter_map(|(a, b)| Some([rtts(a)?, rtts(b)?])).collect();
    let line = |side: usize| {
        let count = both.iter().map(|pair| pair[side].len()).min().unwrap_or(0);
        let at = |place: usize| {
            let values = both.iter().map(|pair| f64::from(pair[side][place]));
            cellpace_base::statistics::mean(values)
        };
        Line {
            name: labels[side].clone(),
            x: (0..count).map(at).collect(),
            y: (0..count).map(|place| 100.0 * place as f32 / (count - 1) as f32).collect(),
            ..Line::default()
        }
    };
    Chart {
        title: "Distribution of the RTT".to_owned(),
        unit: "% of the packets".to_owned(),
        x_label: "RTT, ms".to_owned(),
        note: if both.len() > 1 { "Mean over the pairs." } else { "" }.to_owned(),
        lines: [0, 1].map(line).into(),
        log_x: true,
        y_range: Some([0.0, 100.0]),
        ..Chart::default()
    }
}

fn over_time(series: [&Series; 2], labels: &[String; 2], note: &str) -> [Chart; 2] {
    let chart = |title: &str, unit: &str, log_y: bool, of: fn(&Series) -> &Vec<f32>| {
        let line = |side: usize| {
            let Series { bin_s, .. } = *series[side];
            Line::of_bins(&labels[side], bin_s, of(series[side]).clone())
        };
        Chart {
            title: title.to_owned(),
            unit: unit.to_owned(),
            note: note.to_owned(),
            x_label: "time, s".to_owned(),
            lines: [0, 1].map(line).into(),
            log_y,
            ..Chart::default()
        }
    };
    [
        chart("Throughput", "Mbit/s", false, |series| &series.throughput_mbps),
        chart("Queue delay", "95th percentile, ms", true, |series| &series.queue_delay_p95_ms),
    ]
}

/// Figures that are drawn for each pair.
const DRAWN: [&str; 2] = ["rtt_p50_ms", "throughput_mbps"];

fn pair_by_pair(pairs: &[(&Run, &Run)], labels: &[String; 2]) -> Vec<Chart> {
    let figures = run_figures(pairs);
    let chart = |sampled: &Sampled| {
        let line = |side: usize| Line {
            name: labels[side].clone(),
            x: (1..=sampled.values[side].len()).map(|place| place as f64).collect(),
            y: sampled.values[side].iter().map(|value| *value as f32).collect(),
            ..Line::default()
        };
        Chart {
            title: format!("Pair by pair: {}", sampled.title),
            unit: sampled.unit.to_owned(),
            x_label: "pairs in the order of their runs".to_owned(),
            lines: [0, 1].map(line).into(),
            form: Form::Marks,
            ..Chart::default()
        }
    };
    figures.iter().filter(|sampled| DRAWN.contains(&sampled.figure)).map(chart).collect()
}

fn of_connections(both: &[ConnectionSamples; 2], documents: &[Document]) -> Sides {
    let names = both.each_ref().map(|side| match &side.ccs[..] {
        [cc] => Some(cc.as_str()),
        _ => None,
    });
    let labels = labels(names, documents);
    let figure = |at: usize| {
        let SampledFigure { figure, title, unit, is_better_high, .. } = both[0].figures[at];
        let values = both.each_ref().map(|side| side.figures[at].values.clone());
        Sampled { figure, title, unit, is_better_high, values }
    };
    let count = both[0].figures.len().min(both[1].figures.len());
    let figures: Vec<Sampled> = (0..count)
        .map(figure)
        .filter(|one| one.values.iter().all(|values| !values.is_empty()))
        .collect();
    let mut commands = both.each_ref().map(|side| side.command.clone()).to_vec();
    commands.retain(|command| !command.is_empty());
    let mut charts: Vec<Chart> =
        figures.iter().filter_map(|sampled| shares_below(sampled, &labels)).collect();
    charts.extend(charts_of_both(both, &labels));
    Sides {
        place: String::new(),
        facts: listed_facts(both.iter().map(|side| side.facts.clone())),
        figures,
        are_paired: false,
        are_alike: false,
        of: both[0].of,
        charts,
        labels,
        commands,
    }
}

/// The distribution over connections; of a few it says nothing.
fn shares_below(sampled: &Sampled, labels: &[String; 2]) -> Option<Chart> {
    if sampled.values.iter().any(|values| values.len() < 3) {
        return None;
    }
    let line = |side: usize| {
        let mut x = sampled.values[side].clone();
        x.sort_by(f64::total_cmp);
        let count = x.len() as f32;
        let y = (1..=x.len()).map(|place| 100.0 * place as f32 / count).collect();
        Line { name: labels[side].clone(), x, y, ..Line::default() }
    };
    Some(Chart {
        title: format!("Distribution: {}", sampled.title.trim_start_matches("median ")),
        unit: "%".to_owned(),
        x_label: format!("{}, {}", sampled.title.trim_start_matches("median "), sampled.unit),
        lines: [0, 1].map(line).into(),
        log_x: true,
        form: Form::Stairs,
        y_range: Some([0.0, 100.0]),
        ..Chart::default()
    })
}

/// The charts over time of both, with the line of each that comes first: the connection that delivered most.
fn charts_of_both(both: &[ConnectionSamples; 2], labels: &[String; 2]) -> Vec<Chart> {
    let of_title = |chart: &Chart| {
        let other = both[1].charts.iter().find(|other| other.title == chart.title)?;
        let line = |side: usize, chart: &Chart| {
            chart.lines.first().map(|line| Line { name: labels[side].clone(), ..line.clone() })
        };
        let lines = vec![line(0, chart)?, line(1, other)?];
        Some(Chart { lines, note: String::new(), ..chart.clone() })
    };
    both[0].charts.iter().filter_map(of_title).collect()
}
