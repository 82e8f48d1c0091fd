//! What belongs together: runs under the same conditions, and the rows of a table.

use cellpace_base::statistics::mean;
use cellpace_measure::{
    FlowFigures, Interval, PlayerFigures, Summary, TransferSummary, VideoFigures,
};
use serde::Serialize;

use crate::number::short;
use crate::{Comparison, RealTimeDirection, Repeated, Run};

/// The runs under the same conditions; they differ in controller and seed only.
pub(crate) struct Group<'a> {
    /// The trace, with whatever else distinguishes it from the other groups.
    pub(crate) name: String,
    pub(crate) runs: Vec<&'a Run>,
    conditions: Vec<(String, String)>,
}

/// A longer row of steps was drawn, or made by a program: nobody reads it.
const MAX_STEPS_TEXT: usize = 60;

/// What a trace is called.
pub(crate) fn trace_name(trace: &str) -> &str {
    let is_drawn = trace.starts_with("step:") && trace.len() > MAX_STEPS_TEXT;
    if is_drawn { "drawn trace" } else { trace }
}

/// The groups in the order of their first runs.
pub(crate) fn groups(comparison: &Comparison) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &comparison.runs {
        match groups.iter_mut().find(|group| group.contains(run)) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group {
                name: name(run, &groups),
                runs: vec![run],
                conditions: conditions(run),
            }),
        }
    }
    name_apart(&mut groups);
    groups
}

/// The trace and the direction; several drawn traces are numbered.
fn name(run: &Run, others: &[Group<'_>]) -> String {
    let name = trace_name(&run.trace);
    let mut alike: Vec<&str> = others.iter().map(|group| group.runs[0].trace.as_str()).collect();
    alike.retain(|other| *other != run.trace && trace_name(other) == name);
    alike.dedup();
    let number = if alike.is_empty() { String::new() } else { format!(" {}", alike.len() + 1) };
    let direction = if is_uplink(run) { " (up)" } else { "" };
    format!("{name}{number}{direction}")
}

/// Every controller's text once, in the order of first appearance: its place is its look.
pub(crate) fn controllers(comparison: &Comparison) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in &comparison.runs {
        if !names.contains(&run.cc.as_str()) {
            names.push(&run.cc);
        }
    }
    names
}

/// Whether the run is of what a program behind a link sent.
pub(crate) fn is_uplink(run: &Run) -> bool {
    run.real_time.is_some_and(|real| real.direction == RealTimeDirection::Up)
}

/// The conditions of a run in words, with units.
pub(crate) fn conditions(run: &Run) -> Vec<(String, String)> {
    let mut conditions = vec![
        ("Trace", run.trace.clone()),
        ("RTT", format!("{} ms", short(run.rtt_ms))),
        ("Queue", run.queue.clone()),
        ("Random loss", format!("{} %", short(run.loss * 100.0))),
        ("Flows", run.flows.to_string()),
        ("Duration", format!("{} s", short(run.duration_s))),
    ];
    if is_uplink(run) {
        conditions.push(("Direction", "up".to_owned()));
    }
    if run.skip_s > 0.0 {
        conditions.push(("Left out at the start", format!("{} s", short(run.skip_s))));
    }
    let conditions = conditions.into_iter().map(|(name, value)| (name.to_owned(), value));
    let title = |name: &str| name[..1].to_uppercase() + &name[1..].replace('_', " ");
    let path = run.path.iter().filter(|(name, _)| name.is_char_boundary(1));
    let path = path.map(|(name, value)| (title(name), value.clone()));
    conditions.chain(path).collect()
}

impl Group<'_> {
    /// Whether the conditions of `run` read as those of this group. Runs in real time differ by
    /// milliseconds in what was to be alike.
    pub(crate) fn contains(&self, run: &Run) -> bool {
        self.runs[0].trace == run.trace && self.conditions == conditions(run)
    }
}

/// Adds to the names of groups on the same trace those conditions in which they differ.
fn name_apart(groups: &mut [Group<'_>]) {
    let all: Vec<_> = groups.iter().map(|group| group.conditions.clone()).collect();
    for (group, own) in groups.iter_mut().zip(&all) {
        let rivals: Vec<_> = all.iter().filter(|other| other[0] == own[0]).collect();
        for condition in &own[1..] {
            // The name has the direction already.
            let is_new = condition.0 != "Direction";
            if is_new && rivals.iter().any(|rival| !rival.contains(condition)) {
                group.name.push_str(&format!(", {} {}", condition.0.to_lowercase(), condition.1));
            }
        }
    }
}

/// One row of a result table: a run, or one controller on one trace over several seeds.
#[derive(Debug, Serialize)]
pub(crate) struct FigureRow<'a> {
    pub(crate) cc: &'a str,
    pub(crate) trace: &'a str,
    /// The seed, when the row is a single run.
    pub(crate) seed: Option<u64>,
    pub(crate) flows: usize,
    /// Mbit/s.
    pub(crate) throughput: Cell,
    /// Percent.
    pub(crate) utilization: Cell,
    /// Queue delay in ms, as the two that follow.
    pub(crate) p50: Cell,
    pub(crate) p95: Cell,
    pub(crate) p99: Cell,
    /// Percent of the packets that were lost.
    pub(crate) loss: Cell,
    pub(crate) jain: Cell,
    /// All transfers of the row, where there are any.
    #[serde(skip)]
    pub(crate) transfers: Option<TransferSummary>,
    /// Means over what its players showed, where there are any.
    #[serde(skip)]
    pub(crate) player: Option<PlayerCells>,
    /// Means over its videos, where there are any.
    #[serde(flatten)]
    pub(crate) video: Option<VideoCells>,
    /// Wall time of the computation in seconds, where it was taken.
    #[serde(skip)]
    pub(crate) wall_s: Option<f64>,
    /// Packets that left the link per second of wall time, in millions.
    #[serde(skip)]
    pub(crate) speed: Option<f64>,
}

/// Figures of players, as means over flows and seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlayerCells {
    /// Rate of the video in Mbit/s.
    pub(crate) bitrate: f64,
    /// Time in s in which the buffer was empty.
    pub(crate) stalled: f64,
    /// Changes of the rate.
    pub(crate) switches: f64,
}

impl PlayerCells {
    fn of<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<Self> {
        let flows = runs.flat_map(|run| &run.figures.per_flow);
        let players: Vec<&PlayerFigures> = flows.filter_map(|flow| flow.player.as_ref()).collect();
        let of = |figure: fn(&PlayerFigures) -> f64| mean(players.iter().map(|of| figure(of)));
        (!players.is_empty()).then(|| Self {
            bitrate: of(|player| player.bitrate_mbps),
            stalled: of(|player| player.stalled_s),
            switches: of(|player| player.switches as f64),
        })
    }
}

/// Figures of videos, as means over flows and seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct VideoCells {
    /// Rate of the frames in Mbit/s.
    pub(crate) frame_rate: Cell,
    /// Frame delay in ms.
    pub(crate) frame_p50: Cell,
    pub(crate) frame_p95: Cell,
    /// Percent of the frames.
    pub(crate) late: Cell,
    pub(crate) freezes: Cell,
}

impl VideoCells {
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<Self> {
        let flows = runs.flat_map(|run| &run.figures.per_flow);
        let videos: Vec<&VideoFigures> = flows.filter_map(|flow| flow.video.as_ref()).collect();
        let of = |figure: fn(&VideoFigures) -> f64| {
            Cell::plain(mean(videos.iter().map(|video| figure(video))))
        };
        (!videos.is_empty()).then(|| Self {
            frame_rate: of(|video| video.bitrate_mbps),
            frame_p50: of(|video| delay(video, |summary| summary.p50)),
            frame_p95: of(|video| delay(video, |summary| summary.p95)),
            late: of(|video| video.late * 100.0),
            freezes: of(|video| video.freezes as f64),
        })
    }
}

/// A figure of the delay of frames; none where no frame is complete.
fn delay(video: &VideoFigures, of: fn(&Summary) -> f64) -> f64 {
    if video.incomplete < video.frames { of(&video.frame_delay_ms) } else { f64::NAN }
}

/// A figure with the half width of its 95 % interval where there is one. NaN is serialized as
/// `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Cell {
    #[serde(rename = "v")]
    pub(crate) value: f64,
    #[serde(rename = "ci", skip_serializing_if = "Option::is_none")]
    pub(crate) half_width: Option<f64>,
}

impl Cell {
    pub(crate) fn plain(value: f64) -> Self {
        Self { value, half_width: None }
    }

    fn of(interval: &Interval, scale: f64) -> Self {
        Self { value: interval.mean * scale, half_width: Some(interval.half_width * scale) }
    }
}

/// What a flow got: in one run, or in the mean over those of several seeds.
#[derive(Debug, Serialize)]
pub(crate) struct FlowRow<'a> {
    #[serde(skip)]
    pub(crate) flow: &'a FlowFigures,
    pub(crate) throughput: Cell,
    pub(crate) p50: Cell,
    pub(crate) p95: Cell,
    #[serde(skip)]
    pub(crate) rtt: Cell,
    pub(crate) lost: Cell,
}

/// The flows of runs that differ in nothing but their seeds.
pub(crate) fn flow_rows<'a>(runs: &[&'a Run]) -> Vec<FlowRow<'a>> {
    let [first, ..] = runs else { return Vec::new() };
    let flows = first.figures.per_flow.iter().enumerate();
    flows
        .map(|(index, flow)| {
            let seeds: Vec<&FlowFigures> =
                runs.iter().filter_map(|run| run.figures.per_flow.get(index)).collect();
            let of = |figure: fn(&FlowFigures) -> f64| over_seeds(&seeds, figure);
            FlowRow {
                flow,
                throughput: of(|flow| flow.throughput_mbps),
                p50: of(|flow| delay_of(flow).p50),
                p95: of(|flow| delay_of(flow).p95),
                rtt: of(median_rtt),
                lost: of(|flow| flow.lost as f64),
            }
        })
        .collect()
}

/// A figure of a flow, over the seeds that have it.
fn over_seeds(seeds: &[&FlowFigures], figure: fn(&FlowFigures) -> f64) -> Cell {
    let values: Vec<f64> =
        seeds.iter().map(|flow| figure(flow)).filter(|v| v.is_finite()).collect();
    match (seeds.len(), Interval::of(&values)) {
        (_, None) => Cell::plain(f64::NAN),
        (1, Some(interval)) => Cell::plain(interval.mean),
        (_, Some(interval)) => Cell::of(&interval, 1.0),
    }
}

/// The queue delay of a flow; none where nothing arrived, as zeros would make it look like the best.
fn delay_of(flow: &FlowFigures) -> Summary {
    match flow.throughput_mbps > 0.0 {
        true => flow.queue_delay_ms,
        false => Summary { p50: f64::NAN, p95: f64::NAN, ..flow.queue_delay_ms },
    }
}

/// The median RTT; none where no ack came back, as with UDP that nobody controls.
fn median_rtt(flow: &FlowFigures) -> f64 {
    let rtt = flow.rtt_ms_seen;
    if rtt.max > 0.0 { rtt.p50 } else { f64::NAN }
}

/// The rows for `runs`: repeated ones become one row in the place of the first.
pub(crate) fn rows<'a>(runs: &[&'a Run], repeated: &'a [Repeated]) -> Vec<FigureRow<'a>> {
    let mut rows: Vec<FigureRow<'a>> = Vec::new();
    for run in runs {
        let same = |other: &Repeated| other.cc == run.cc && other.trace == run.trace;
        let Some(interval) = repeated.iter().find(|other| same(other)) else {
            rows.push(single(run));
            continue;
        };
        if rows.iter().any(|row| row.cc == run.cc && row.trace == run.trace) {
            continue;
        }
        let seeds: Vec<&Run> = runs
            .iter()
            .copied()
            .filter(|other| other.cc == run.cc && other.trace == run.trace)
            .collect();
        rows.push(several(run, interval, &seeds));
    }
    rows
}

fn single(run: &Run) -> FigureRow<'_> {
    let figures = &run.figures;
    let delay = queue_delay(run);
    FigureRow {
        cc: &run.cc,
        trace: &run.trace,
        seed: Some(run.seed),
        flows: run.flows,
        throughput: Cell::plain(figures.throughput_mbps),
        utilization: Cell::plain(if has_limit(run) {
            figures.utilization * 100.0
        } else {
            f64::NAN
        }),
        p50: Cell::plain(delay.p50),
        p95: Cell::plain(delay.p95),
        p99: Cell::plain(delay.p99),
        loss: Cell::plain(lost_percent(run)),
        jain: Cell::plain(if shares(run) { figures.jain } else { f64::NAN }),
        transfers: TransferSummary::of(&run.cc, run.transfers.iter()),
        player: PlayerCells::of(std::iter::once(run)),
        video: VideoCells::of(std::iter::once(run)),
        wall_s: run.wall_s,
        speed: run.wall_s.map(|wall| figures.packets as f64 / wall / 1e6),
    }
}

fn several<'a>(first: &'a Run, interval: &Repeated, seeds: &[&Run]) -> FigureRow<'a> {
    let mean = |figure: fn(&Run) -> f64| Cell::plain(mean(seeds.iter().map(|run| figure(run))));
    FigureRow {
        seed: None,
        throughput: Cell::of(&interval.throughput_mbps, 1.0),
        utilization: match seeds.iter().all(|run| has_limit(run)) {
            true => Cell::of(&interval.utilization, 100.0),
            false => Cell::plain(f64::NAN),
        },
        p50: Cell::of(&interval.queue_delay_p50_ms, 1.0),
        p95: Cell::of(&interval.queue_delay_p95_ms, 1.0),
        p99: mean(|run| queue_delay(run).p99),
        loss: mean(lost_percent),
        jain: match seeds.iter().any(|run| shares(run)) {
            true => Cell::of(&interval.jain, 1.0),
            false => Cell::plain(f64::NAN),
        },
        transfers: TransferSummary::of(&first.cc, seeds.iter().flat_map(|run| &run.transfers)),
        player: PlayerCells::of(seeds.iter().copied()),
        video: VideoCells::of(seeds.iter().copied()),
        wall_s: first.wall_s.map(|_| mean(|run| run.wall_s.unwrap_or(f64::NAN)).value),
        speed: None,
        ..single(first)
    }
}

/// Whether the link offered anything of which a share could be used: not where it has no limit.
pub(crate) fn has_limit(run: &Run) -> bool {
    run.figures.capacity_mbps > 0.0
}

/// Whether there was a second in which flows shared the link: else there is nothing of which Jain's index
/// could be.
pub(crate) fn shares(run: &Run) -> bool {
    run.figures.jain_seconds != Some(0)
}

/// The queue delay of a run; NaN when nothing was delivered, since the zeros that stand there
/// would make the worst run look like the best.
pub(crate) fn queue_delay(run: &Run) -> Summary {
    if run.figures.packets > 0 {
        return run.figures.queue_delay_ms;
    }
    Summary { mean: f64::NAN, p50: f64::NAN, p95: f64::NAN, p99: f64::NAN, max: f64::NAN }
}

/// Of the packets that left the link or were dropped, those that were dropped.
pub(crate) fn lost_percent(run: &Run) -> f64 {
    let all = run.figures.packets + run.figures.lost;
    if all > 0 { 100.0 * run.figures.lost as f64 / all as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn groups_are_named_by_what_tells_them_apart() {
        let mut comparison = example::comparison();
        let mut other = comparison.runs.clone();
        other.iter_mut().for_each(|run| run.rtt_ms = 80.0);
        comparison.runs.extend(other);
        let groups = groups(&comparison);
        let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["step:10mbit/5s, rtt 40 ms", "step:10mbit/5s, rtt 80 ms"]);
        assert_eq!(groups[1].runs.len(), 2);
    }

    #[test]
    fn a_drawn_trace_is_called_so() {
        let mut comparison = example::comparison();
        for (run, at) in comparison.runs.iter_mut().zip([1, 2]) {
            run.trace = "step:".to_owned() + &format!("{at}mbit/1s,").repeat(30);
        }
        let groups = groups(&comparison);
        let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["drawn trace", "drawn trace 2"]);
        assert!(crate::sentence(&comparison).len() < 300, "{}", crate::sentence(&comparison));
        comparison.runs.truncate(1);
        assert_eq!(crate::comparisons::title(&comparison), "drawn trace: verus:r=2");
        assert!(crate::table(&comparison).starts_with("drawn trace, RTT 40 ms"));
    }

    #[test]
    fn real_runs_that_took_milliseconds_more_are_compared() {
        let mut comparison = example::comparison();
        comparison.runs[0].duration_s = 15.028;
        comparison.runs[1].duration_s = 15.021;
        assert_eq!(groups(&comparison).len(), 1);
        comparison.runs[1].duration_s = 16.0;
        assert_eq!(groups(&comparison).len(), 2);
    }

    #[test]
    fn seeds_become_one_row_with_the_interval() {
        let comparison = example::repeated();
        let runs: Vec<&Run> = comparison.runs.iter().collect();
        let rows = rows(&runs, &comparison.repeated);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].seed, None);
        assert!(rows[0].throughput.half_width.is_some_and(|half| half > 0.0));
        assert_eq!(rows[0].p99.half_width, None);
    }

    #[test]
    fn a_run_that_delivered_nothing_has_no_delay() {
        let mut comparison = example::comparison();
        comparison.runs[0].figures.packets = 0;
        comparison.runs[0].figures.queue_delay_ms = Summary::default();
        let row = single(&comparison.runs[0]);
        assert!(row.p95.value.is_nan() && row.p50.value.is_nan());
    }
}
