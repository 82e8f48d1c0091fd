//! Results as a plain text table: for a terminal, a mail, a lab book.

use cellpace_measure::{FlowFigures, TransferSummary, VideoFigures};

use crate::groups::{
    Cell, FigureRow, FlowRow, PlayerCells, VideoCells, conditions, flow_rows, groups, rows,
    trace_name,
};
use crate::number::fixed;
use crate::sentence::sentence;
use crate::{Comparison, Run};

/// The comparison as aligned text without colour: what was run, then one row a run, or one row for
/// several seeds with the half width of the 95 % interval behind each figure that has one, and
/// what came out in a sentence. Units stand below the names of the columns.
pub fn table(comparison: &Comparison) -> String {
    laid_out(comparison, usize::MAX, false)
}

/// What stands before and after the best value of a column in [`table_for_terminal`]: characters that no text has.
pub const BEST_MARKS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// The same for a terminal of `room` columns: a wider table is broken into blocks, long names are cut, and the best
/// values on each trace stand between [`BEST_MARKS`], which take no room.
pub fn table_for_terminal(comparison: &Comparison, room: usize) -> String {
    laid_out(comparison, room, true)
}

fn laid_out(comparison: &Comparison, room: usize, is_marked: bool) -> String {
    let runs: Vec<&Run> = comparison.runs.iter().collect();
    let rows = rows(&runs, &comparison.repeated);
    let columns = columns(&rows);
    let cells: Vec<Vec<String>> = columns
        .iter()
        .map(|column| {
            let header = [column.name.to_owned(), column.unit.to_owned()];
            header.into_iter().chain(rows.iter().map(|row| (column.text)(row))).collect()
        })
        .collect();
    let best: Vec<Vec<bool>> = match is_marked {
        true => columns.iter().map(|column| best(column, &rows)).collect(),
        false => Vec::new(),
    };
    let flows = repetitions(comparison).into_iter().filter(|runs| is_mixed(runs[0]));
    let mut text = format!("{}\n\n", what_was_run(comparison));
    text += &lay_out(&columns, &cells, &best, room);
    let text = flows.fold(text, |text, runs| text + &flow_table(&runs, room));
    format!("{text}\n{}\n", sentence(comparison))
}

/// Which cells hold the best of their traces: none where all have the same.
fn best(column: &FigureColumn, rows: &[FigureRow<'_>]) -> Vec<bool> {
    let value = |row: &FigureRow<'_>| (column.text)(row).parse::<f64>().ok();
    let is_best = |row: &FigureRow<'_>| {
        let rivals = rows.iter().filter(|rival| rival.trace == row.trace).filter_map(value);
        let worths: Vec<f64> = rivals.map(|value| column.better.worth(value)).collect();
        let most = worths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_different = worths.iter().any(|worth| *worth < most);
        is_different && value(row).is_some_and(|value| column.better.worth(value) >= most)
    };
    let all = rows.iter().map(|row| column.better != Better::Neither && is_best(row));
    [false; HEADER_LINES].into_iter().chain(all).collect()
}

/// The conditions that all runs have in common, in a line.
fn what_was_run(comparison: &Comparison) -> String {
    let groups = groups(comparison);
    let [first, others @ ..] = &groups[..] else { return "no runs".to_owned() };
    let all: Vec<_> = groups.iter().map(|group| conditions(group.runs[0])).collect();
    let is_shared =
        |condition: &&(String, String)| all.iter().all(|other| other.contains(condition));
    let mut parts: Vec<String> = Vec::new();
    if !others.is_empty() {
        parts.push(format!("{} conditions", groups.len()));
    }
    for (name, value) in all[0].iter().filter(is_shared) {
        match name.as_str() {
            "Random loss" if first.runs[0].loss == 0.0 => {}
            "Flows" if first.runs[0].flows == 1 => {}
            "Trace" => parts.push(trace_name(value).to_owned()),
            "Duration" => parts.push(value.clone()),
            "Flows" => parts.push(format!("{value} flows")),
            "Left out at the start" => parts.push(format!("the first {value} left out")),
            "RTT" => parts.push(format!("RTT {value}")),
            name => parts.push(format!("{} {value}", name.to_lowercase())),
        }
    }
    parts.push(seeds(comparison));
    parts.join(", ")
}

fn seeds(comparison: &Comparison) -> String {
    let mut seeds: Vec<u64> = comparison.runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    match seeds[..] {
        [] => String::new(),
        [seed] => format!("seed {seed}"),
        [first, .., last] => format!("{} seeds from {first} to {last}", seeds.len()),
    }
}

/// Maximum number of flows that are shown one by one.
const MAX_FLOWS: usize = 50;

/// Whether the flows of a run are of different kinds or times, so that their sum means little.
fn is_mixed(run: &Run) -> bool {
    let flows = &run.figures.per_flow;
    let alike = |flow: &FlowFigures| {
        (&flow.cc, flow.start_s, flow.stop_s) == (&flows[0].cc, flows[0].start_s, flows[0].stop_s)
    };
    flows.len() <= MAX_FLOWS && !flows.iter().all(alike)
}

/// The runs, those together that differ in nothing but their seeds.
fn repetitions(comparison: &Comparison) -> Vec<Vec<&Run>> {
    let mut all: Vec<Vec<&Run>> = Vec::new();
    for group in groups(comparison) {
        let of_group = all.len();
        for run in group.runs {
            let others = all[of_group..].iter_mut();
            match others.into_iter().find(|others| others[0].cc == run.cc) {
                Some(others) => others.push(run),
                None => all.push(vec![run]),
            }
        }
    }
    all
}

/// One line a flow: what it got while it was on, in the mean over the runs.
fn flow_table(runs: &[&Run], room: usize) -> String {
    let rows = flow_rows(runs);
    let mut columns: Vec<(&str, &str, bool, Vec<String>)> = Vec::new();
    let mut words = |name, unit, is_text, text: &dyn Fn(usize, &FlowFigures) -> String| {
        let cells = rows.iter().enumerate().map(|(index, row)| text(index, row.flow)).collect();
        columns.push((name, unit, is_text, cells));
    };
    words("flow", "", false, &|index, _| (index + 1).to_string());
    words("cc", "", true, &|_, flow| flow.name().to_owned());
    words("on", "s", false, &|_, flow| format!("{}..{}", flow.start_s, flow.stop_s));
    for (name, unit, decimals, cell) in FLOW_FIGURES {
        let decimals = if runs.len() > 1 { decimals.max(1) } else { decimals };
        columns.push((name, unit, false, rows.iter().map(|r| value(cell(r), decimals)).collect()));
        if runs.len() > 1 {
            let halves = rows.iter().map(|row| half(cell(row), decimals)).collect();
            columns.push(("±", unit, false, halves));
        }
    }
    // Of frames there are no intervals.
    if runs.len() == 1 && rows.iter().any(|row| row.flow.video.is_some()) {
        for (at, (name, unit, _)) in VIDEO_COLUMNS.into_iter().enumerate() {
            let cell = |row: &FlowRow<'_>| video_cells(row.flow.video.as_ref())[at].clone();
            columns.push((name, unit, false, rows.iter().map(cell).collect()));
        }
    }
    let laid_out: Vec<FigureColumn> = columns
        .iter()
        .map(|(name, unit, is_text, _)| FigureColumn {
            name,
            unit,
            text: |_| String::new(),
            is_text: *is_text,
            better: Better::Neither,
        })
        .collect();
    let cells: Vec<Vec<String>> = columns
        .iter()
        .map(|(name, unit, _, cells)| {
            [(*name).to_owned(), (*unit).to_owned()]
                .into_iter()
                .chain(cells.iter().cloned())
                .collect()
        })
        .collect();
    format!("\n{}", lay_out(&laid_out, &cells, &[], room))
}

/// Name, unit, decimals and value of a figure of a flow.
type FlowFigure = (&'static str, &'static str, usize, fn(&FlowRow<'_>) -> Cell);

/// What the table says of each flow.
const FLOW_FIGURES: [FlowFigure; 5] = [
    ("throughput", "Mbit/s", 2, |row| row.throughput),
    ("delay p50", "ms", 1, |row| row.p50),
    ("p95", "ms", 1, |row| row.p95),
    ("RTT p50", "ms", 1, |row| row.rtt),
    ("lost", "packets", 0, |row| row.lost),
];

/// A flow's frames, in the columns of [`VIDEO_COLUMNS`].
fn video_cells(video: Option<&VideoFigures>) -> [String; 5] {
    let Some(video) = video else { return Default::default() };
    let delay = video.frame_delay_ms;
    [
        fixed(video.bitrate_mbps, 2),
        fixed(delay.p50, 1),
        fixed(delay.p95, 1),
        fixed(video.late * 100.0, 1),
        video.freezes.to_string(),
    ]
}

/// Lines above the figures: names and units.
const HEADER_LINES: usize = 2;

/// Which values of a column are good ones.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
    Neither,
}

impl Better {
    fn worth(self, value: f64) -> f64 {
        if self == Self::Less { -value } else { value }
    }

    /// Of a column of this name.
    fn of(name: &str) -> Self {
        match name {
            "throughput" | "util" | "Jain" | "goodput" | "frames" | "video" => Self::More,
            "delay p50" | "p95" | "p99" | "lost" | "time p50" | "frame p50" | "late"
            | "freezes" | "stalled" => Self::Less,
            _ => Self::Neither,
        }
    }
}

struct FigureColumn {
    name: &'static str,
    unit: &'static str,
    text: fn(&FigureRow<'_>) -> String,
    is_text: bool,
    better: Better,
}

type FigureForms = (
    &'static str,
    &'static str,
    fn(&FigureRow<'_>) -> Cell,
    fn(&FigureRow<'_>) -> String,
    fn(&FigureRow<'_>) -> String,
);

/// Name, unit, figure, its text, the text of its interval.
const FIGURES: [FigureForms; 7] = [
    (
        "throughput",
        "Mbit/s",
        |r| r.throughput,
        |r| value(r.throughput, 2),
        |r| half(r.throughput, 2),
    ),
    ("util", "%", |r| r.utilization, |r| value(r.utilization, 1), |r| half(r.utilization, 1)),
    ("delay p50", "ms", |r| r.p50, |r| value(r.p50, 1), |r| half(r.p50, 1)),
    ("p95", "ms", |r| r.p95, |r| value(r.p95, 1), |r| half(r.p95, 1)),
    ("p99", "ms", |r| r.p99, |r| value(r.p99, 1), |r| half(r.p99, 1)),
    ("lost", "%", |r| r.loss, |r| value(r.loss, 2), |r| half(r.loss, 2)),
    ("Jain", "", |r| r.jain, |r| value(r.jain, 3), |r| half(r.jain, 3)),
];

type TextColumn = (&'static str, &'static str, fn(&FigureRow<'_>) -> String);

/// What the table says of transfers.
const TRANSFER_COLUMNS: [TextColumn; 4] = [
    ("transfers", "done", |row| {
        row.transfers.as_ref().map_or(String::new(), |of| format!("{}/{}", of.complete, of.count))
    }),
    ("time p50", "s", |row| of_transfers(row, 2, |of| of.completion_ms.p50 / 1e3)),
    ("p95", "s", |row| of_transfers(row, 2, |of| of.completion_ms.p95 / 1e3)),
    ("goodput", "Mbit/s", |row| of_transfers(row, 2, |of| of.goodput_mbps.mean)),
];

/// What the table says of videos that players fetch.
const PLAYER_COLUMNS: [TextColumn; 3] = [
    ("video", "Mbit/s", |row| of_player(row, 2, |of| of.bitrate)),
    ("stalled", "s", |row| of_player(row, 1, |of| of.stalled)),
    ("switches", "", |row| of_player(row, 1, |of| of.switches)),
];

fn of_player(row: &FigureRow<'_>, decimals: usize, of: fn(&PlayerCells) -> f64) -> String {
    row.player.as_ref().map_or(String::new(), |player| fixed(of(player), decimals))
}

/// What the table says of videos.
const VIDEO_COLUMNS: [TextColumn; 5] = [
    ("frames", "Mbit/s", |row| of_video(row, 2, |of| of.frame_rate)),
    ("frame p50", "ms", |row| of_video(row, 1, |of| of.frame_p50)),
    ("p95", "ms", |row| of_video(row, 1, |of| of.frame_p95)),
    ("late", "%", |row| of_video(row, 1, |of| of.late)),
    ("freezes", "", |row| of_video(row, 1, |of| of.freezes)),
];

fn of_video(row: &FigureRow<'_>, decimals: usize, of: fn(&VideoCells) -> Cell) -> String {
    row.video.as_ref().map_or(String::new(), |video| value(of(video), decimals))
}

/// A figure of the row's complete transfers; none where there are none.
fn of_transfers(row: &FigureRow<'_>, decimals: usize, of: fn(&TransferSummary) -> f64) -> String {
    let Some(transfers) = &row.transfers else { return String::new() };
    fixed(if transfers.complete > 0 { of(transfers) } else { f64::NAN }, decimals)
}

fn columns(rows: &[FigureRow<'_>]) -> Vec<FigureColumn> {
    let words =
        |name, text| FigureColumn { name, unit: "", text, is_text: true, better: Better::Neither };
    let number = |name, unit, text| {
        let better = Better::of(name);
        FigureColumn { name, unit, text, is_text: false, better }
    };
    let mut columns = vec![words("cc", |row| row.cc.to_owned())];
    if rows.iter().any(|row| row.trace != rows[0].trace) {
        columns.push(words("trace", |row| trace_name(row.trace).to_owned()));
    }
    if rows.iter().any(|row| row.seed != rows[0].seed) {
        let text: fn(&FigureRow<'_>) -> String =
            |row| row.seed.map_or(String::new(), |s| s.to_string());
        columns.push(number("seed", "", text));
    }
    let has_flows = rows.iter().any(|row| row.flows > 1);
    for (name, unit, figure, text, interval) in FIGURES {
        if name == "Jain" && !has_flows {
            continue;
        }
        columns.push(number(name, unit, text));
        if rows.iter().any(|row| figure(row).half_width.is_some()) {
            columns.push(number("±", unit, interval));
        }
    }
    if rows.iter().any(|row| row.transfers.is_some()) {
        columns.extend(TRANSFER_COLUMNS.map(|(name, unit, text)| number(name, unit, text)));
    }
    if rows.iter().any(|row| row.player.is_some()) {
        columns.extend(PLAYER_COLUMNS.map(|(name, unit, text)| number(name, unit, text)));
    }
    if rows.iter().any(|row| row.video.is_some()) {
        columns.extend(VIDEO_COLUMNS.map(|(name, unit, text)| number(name, unit, text)));
    }
    if rows.iter().any(|row| row.wall_s.is_some()) {
        let seconds: fn(&FigureRow<'_>) -> String =
            |row| row.wall_s.map_or(String::new(), |s| fixed(s, 3));
        let speed: fn(&FigureRow<'_>) -> String =
            |row| row.speed.map_or(String::new(), |s| fixed(s, 2));
        columns.push(number("wall", "s", seconds));
        columns.push(number("speed", "Mpkt/s", speed));
    }
    columns
}

fn value(cell: Cell, decimals: usize) -> String {
    fixed(cell.value, decimals)
}

fn half(cell: Cell, decimals: usize) -> String {
    cell.half_width.map_or(String::new(), |half| fixed(half, decimals))
}

/// The rows, in blocks one below the other where they are wider than `room`; each begins with the names. `best`: cells
/// by column that are marked.
fn lay_out(
    columns: &[FigureColumn],
    cells: &[Vec<String>],
    best: &[Vec<bool>],
    room: usize,
) -> String {
    let lines = cells.first().map_or(0, Vec::len);
    let names = columns.iter().take_while(|column| column.is_text).count().max(1);
    let longest = room / 3;
    let cut = |(at, column): (usize, &Vec<String>)| {
        let cell = |cell: &String| if at < names { shortened(cell, longest) } else { cell.clone() };
        column.iter().map(cell).collect()
    };
    let cells: Vec<Vec<String>> = cells.iter().enumerate().map(cut).collect();
    let width = |cells: &Vec<String>| cells.iter().map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = cells.iter().map(|column| width(column).unwrap_or(0) + 2).collect();
    let blocks = blocks(columns, &widths, names, room);
    let block = |shown: &Vec<usize>| {
        let line = |line: usize| {
            let row = shown.iter().map(|&at| {
                let (cell, width) = (&cells[at][line], widths[at] - 2);
                let is_best = best.get(at).is_some_and(|column| column[line]);
                match (columns[at].is_text, is_best) {
                    (true, _) => format!("{cell:<width$}  "),
                    (false, false) => format!("{cell:>width$}  "),
                    (false, true) => {
                        let before = " ".repeat(width - cell.chars().count());
                        format!("{before}{}{cell}{}  ", BEST_MARKS[0], BEST_MARKS[1])
                    }
                }
            });
            row.collect::<String>().trim_end().to_owned() + "\n"
        };
        (0..lines).map(line).collect::<String>()
    };
    blocks.iter().map(block).collect::<Vec<_>>().join("\n")
}

/// The columns of each block. An interval stays beside its figure.
fn blocks(
    columns: &[FigureColumn],
    widths: &[usize],
    names: usize,
    room: usize,
) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..columns.len()).collect();
    let (lead, figures) = all.split_at(names.min(all.len()));
    let taken = |columns: &[usize]| columns.iter().map(|&at| widths[at]).sum::<usize>();
    let mut blocks = vec![lead.to_vec()];
    for figure in figures.chunk_by(|_, &next| columns[next].name == "±") {
        let is_full = blocks.last().is_some_and(|block| {
            block.len() > lead.len() && taken(block) + taken(figure) > room.saturating_add(2)
        });
        if is_full {
            blocks.push(lead.to_vec());
        }
        if let Some(block) = blocks.last_mut() {
            block.extend(figure);
        }
    }
    blocks
}

/// A name of at most so many characters: its middle is left out.
fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most || most < 3 {
        return name.to_owned();
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    let parts = letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]);
    parts.collect()
}

#[cfg(test)]
mod tests {
    use cellpace_measure::Summary;

    use super::*;
    use crate::example;

    /// The lines of the table itself.
    fn lines(comparison: &Comparison) -> Vec<String> {
        let text = table(comparison);
        let lines = text.lines().skip(2).take_while(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn the_best_of_each_trace_is_marked_where_values_differ() {
        let mut comparison = example::comparison();
        comparison.runs[0].figures.queue_delay_ms.p95 = 10.0;
        comparison.runs[1].figures.queue_delay_ms.p95 = 70.0;
        let text = table_for_terminal(&comparison, usize::MAX);
        assert!(text.contains("\u{e000}10.0\u{e001}"), "{text}");
        assert!(!text.contains("\u{e000}70.0"), "{text}");
        let plain = text.replace(BEST_MARKS, "");
        assert_eq!(plain, table(&comparison), "marks take no room");
        comparison.runs.truncate(1);
        let alone = table_for_terminal(&comparison, usize::MAX);
        assert!(!alone.contains(BEST_MARKS[0]), "{alone}");
    }

    #[test]
    fn a_wide_table_is_broken_into_blocks_that_fit() {
        let mut comparison = example::repeated();
        let long = "a-drive-along-the-coast-with-a-name-of-fifty-letters.down";
        let mut other = comparison.runs.clone();
        other.iter_mut().for_each(|run| run.trace = long.to_owned());
        comparison.runs.extend(other);
        let comparison = Comparison::of(comparison.runs);
        let text = table_for_terminal(&comparison, 80).replace(BEST_MARKS, "");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("cubic ")).collect();
        assert_eq!(rows.len(), 4, "two traces in two blocks: {text}");
        assert!(
            text.lines()
                .filter(|line| !line.contains(". ") && !line.contains("keeps"))
                .all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(rows[1].contains("a-drive-along…"), "{text}");
        let figures = |text: &str| {
            let mut cells: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            cells.retain(|cell| cell.parse::<f64>().is_ok());
            cells.sort();
            cells
        };
        assert_eq!(figures(&text), figures(&table(&comparison)), "no figure is left out");
        assert!(table_for_terminal(&comparison, 200).contains(long));
    }

    #[test]
    fn flows_of_different_kinds_are_shown_one_by_one() {
        let mut comparison = example::comparison();
        let flow = comparison.runs[0].figures.per_flow[0].clone();
        comparison.runs.truncate(1);
        comparison.runs[0].figures.per_flow = vec![flow.clone(), flow.clone()];
        assert_eq!(table(&comparison).lines().count(), 7, "alike: their sum will do");
        comparison.runs[0].figures.per_flow[1].cc = "udp:2mbit".into();
        comparison.runs[0].figures.per_flow[1].rtt_ms_seen = Summary::default();
        let text = table(&comparison);
        let flow = text.lines().rev().nth(2).unwrap();
        assert!(flow.trim_start().starts_with("2  udp:2mbit"), "{text}");
        assert!(flow.contains("  –  "), "UDP sees no RTT: {text}");
    }

    #[test]
    fn flows_of_several_seeds_have_means_with_their_intervals() {
        let mut comparison = example::comparison();
        comparison.runs.truncate(1);
        let mut flow = comparison.runs[0].figures.per_flow[0].clone();
        flow.throughput_mbps = 2.0;
        comparison.runs[0].figures.per_flow.push(FlowFigures { cc: "copa".into(), ..flow });
        let mut other = comparison.runs[0].clone();
        other.seed = 2;
        other.figures.per_flow[1].throughput_mbps = 3.0;
        comparison.runs.push(other);
        let comparison = Comparison::of(comparison.runs);
        let text = table(&comparison);
        let line = text.lines().find(|line| line.trim_start().starts_with("2  copa")).unwrap();
        // Half of the difference, times Student's t with one degree of freedom: 0.5 * 12.706.
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[3..5], ["2.50", "6.35"], "{text}");
    }

    #[test]
    fn one_flow_on_one_trace() {
        let expected = "\
step:10mbit/5s, RTT 40 ms, queue droptail:2MB, 0.5 s, seed 1

cc         throughput  util  delay p50    p95    p99   lost
               Mbit/s     %         ms     ms     ms      %
verus:r=2        7.20  88.0       21.5   60.2   90.0   0.30
cubic            8.10  98.9      310.0  820.0  900.0  10.71

On step:10mbit/5s verus:r=2 keeps 95 % of the packets below 60 ms at 88 % of the capacity, with 0.3 % lost; \
cubic uses 99 % and makes them wait up to 820 ms, with 10.7 % lost.
";
        assert_eq!(table(&example::comparison()), expected);
    }

    #[test]
    fn several_seeds_show_their_interval() {
        let text = table(&example::repeated());
        let expected = [
            "step:10mbit/5s, RTT 40 ms, queue droptail:2MB, 0.5 s, 3 seeds from 1 to 3",
            "",
            "cc         throughput       ±  util    ±  delay p50    ±    p95     ±    p99   lost",
            "               Mbit/s  Mbit/s     %    %         ms   ms     ms    ms     ms      %",
            "verus:r=2        7.20    0.25  88.0  0.0       21.5  0.0   60.2  12.4   90.0   0.30",
            "cubic            8.10    0.25  98.9  0.0      310.0  0.0  820.0  12.4  900.0  10.71",
        ];
        assert_eq!(text.lines().take(6).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn traces_flows_and_missing_figures_have_their_columns() {
        let mut comparison = example::comparison();
        comparison.runs[1].trace = "onoff".to_owned();
        comparison.runs[1].flows = 2;
        comparison.runs[1].figures.jain = 0.9876;
        comparison.runs[1].figures.packets = 0;
        let lines = lines(&comparison);
        assert!(
            lines[0].starts_with("cc         trace ") && lines[0].ends_with("Jain"),
            "{lines:?}"
        );
        assert!(lines[3].contains("onoff") && lines[3].ends_with("0.988"), "{lines:?}");
        assert_eq!(lines[3].matches('–').count(), 3, "{lines:?}");
        let text = table(&comparison);
        assert!(text.starts_with("2 conditions, RTT 40 ms, queue droptail:2MB, 0.5 s, seed 1\n"));
    }

    #[test]
    fn nothing_run_is_a_header() {
        let mut comparison = example::comparison();
        comparison.runs.clear();
        assert_eq!(lines(&comparison).len(), 2);
        assert!(table(&comparison).ends_with("\nNothing was run.\n"));
    }
}
