//! What came out of a comparison, in one sentence. Its numbers are those of the table, rounded.

use cellpace_measure::{FlowFigures, TransferSummary};

use crate::groups::{
    Cell, FigureRow, Group, PlayerCells, VideoCells, groups, has_limit, rows, shares, trace_name,
};
use crate::number::{fixed, significant, time};
use crate::{Comparison, Run};

/// A controller below this share of the best one's utilization is no answer, however short its
/// delay: doing nothing has none.
const MIN_SHARE_OF_BEST: f64 = 0.5;

/// Losses below this percentage are not worth a word.
const MIN_LOSS: f64 = 0.05;

/// The answer to the question that a comparison asks: who keeps the delay short, and at which
/// price.
pub fn sentence(comparison: &Comparison) -> String {
    let groups = groups(comparison);
    match &groups[..] {
        [] => "Nothing was run.".to_owned(),
        [group] => of_one(comparison, group),
        groups if is_one_controller_on_all(groups) => of_traces(comparison, groups),
        groups => one_by_one(comparison, groups),
    }
}

/// Whether any controller ran under all conditions: else there is nothing to say over all of them.
fn is_one_controller_on_all(groups: &[Group<'_>]) -> bool {
    let mut ccs = groups[0].runs.iter().map(|run| &run.cc);
    ccs.any(|cc| groups.iter().all(|group| group.runs.iter().any(|run| run.cc == *cc)))
}

/// More conditions than this do not get a sentence each.
const MAX_SENTENCES: usize = 3;

/// A sentence for each of several conditions under which different controllers ran, such as the two
/// directions of a link.
fn one_by_one(comparison: &Comparison, groups: &[Group<'_>]) -> String {
    let each = groups.iter().take(MAX_SENTENCES);
    let mut sentences: Vec<String> = each.map(|group| of_one(comparison, group)).collect();
    if groups.len() > MAX_SENTENCES {
        let rest = groups.len() - MAX_SENTENCES;
        sentences.push(format!("The table has {rest} more."));
    }
    sentences.join(" ")
}

fn of_one(comparison: &Comparison, group: &Group<'_>) -> String {
    match &group.runs[..] {
        [run] if run.figures.per_flow.len() > 1 => of_flows(&group.name, run),
        _ => of_group(group, &rows(&group.runs, &comparison.repeated)),
    }
}

/// One trace.
fn of_group(group: &Group<'_>, rows: &[FigureRow<'_>]) -> String {
    let seeds = seeds(&group.runs);
    let place = match seeds {
        0 | 1 => format!("On {}", group.name),
        _ => format!("On {}, over {seeds} seeds,", group.name),
    };
    let players: Option<Vec<(&str, PlayerCells)>> =
        rows.iter().map(|row| Some((row.cc, row.player?))).collect();
    if let Some(text) = players.and_then(|players| of_players(&place, &players)) {
        return text;
    }
    let transfers: Option<Vec<&TransferSummary>> =
        rows.iter().map(|row| row.transfers.as_ref()).collect();
    if let Some(transfers) = transfers.filter(|transfers| !transfers.is_empty()) {
        return of_transfers(&place, &transfers);
    }
    let videos: Option<Vec<(&str, VideoCells)>> =
        rows.iter().map(|row| Some((row.cc, row.video?))).collect();
    if let Some(videos) = videos.filter(|videos| !videos.is_empty()) {
        return of_videos(&place, &videos);
    }
    let (delivered, nothing): (Vec<&FigureRow<'_>>, Vec<&FigureRow<'_>>) =
        rows.iter().partition(|row| row.p95.value.is_finite());
    let Some(lead) = best(&delivered) else {
        return match rows {
            [row] => format!("{place} nothing that {} sent was delivered.", row.cc),
            _ => format!("{place} no controller delivered anything."),
        };
    };
    let mut text = format!("{place} {}", keeps(lead));
    if let Some(other) = contrast(&delivered, lead) {
        text += &format!("; {}", against(lead, other));
    }
    if !nothing.is_empty() {
        let names: Vec<&str> = nothing.iter().map(|row| row.cc).collect();
        text += &format!("; nothing of {} was delivered", names.join(" and "));
    }
    text + "."
}

fn seeds(runs: &[&Run]) -> usize {
    let mut seeds: Vec<u64> = runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    seeds.len()
}

/// The controller that keeps the delay short, if anything was delivered.
pub(crate) fn lead<'a>(rows: &[FigureRow<'a>]) -> Option<&'a str> {
    let delivered: Vec<&FigureRow<'a>> =
        rows.iter().filter(|row| row.p95.value.is_finite()).collect();
    best(&delivered).map(|row| row.cc)
}

/// The shortest delay among those that use the link.
fn best<'r, 'a>(rows: &[&'r FigureRow<'a>]) -> Option<&'r FigureRow<'a>> {
    let most = rows.iter().map(|row| used(row)).fold(0.0, f64::max);
    rows.iter()
        .copied()
        .filter(|row| used(row) >= MIN_SHARE_OF_BEST * most)
        .min_by(|a, b| a.p95.value.total_cmp(&b.p95.value))
}

/// How much of the link a row uses: in percent, or in Mbit/s where the link has no limit.
fn used(row: &FigureRow<'_>) -> f64 {
    if row.utilization.value.is_finite() { row.utilization.value } else { row.throughput.value }
}

/// The same in words.
fn usage(row: &FigureRow<'_>) -> String {
    match row.utilization.value.is_finite() {
        true => percent(row.utilization),
        false => format!("{} Mbit/s", fixed(row.throughput.value, 2)),
    }
}

fn usage_of_capacity(row: &FigureRow<'_>) -> String {
    let of = if row.utilization.value.is_finite() { " of the capacity" } else { "" };
    usage(row) + of
}

/// The one that uses most of the link; of several the one with the longest delay.
fn contrast<'r, 'a>(rows: &[&'r FigureRow<'a>], lead: &FigureRow<'_>) -> Option<&'r FigureRow<'a>> {
    let used = |row: &FigureRow<'_>| used(row).round();
    let others = rows.iter().copied().filter(|row| !std::ptr::eq(*row, lead));
    others.max_by(|a, b| used(a).total_cmp(&used(b)).then(a.p95.value.total_cmp(&b.p95.value)))
}

fn keeps(row: &FigureRow<'_>) -> String {
    let who = match row.flows {
        0 | 1 => format!("{} keeps", row.cc),
        flows => format!("{flows} flows of {} keep", row.cc),
    };
    let mut text = format!(
        "{who} 95 % of the packets below {} at {}",
        with_interval(row.p95),
        usage_of_capacity(row)
    );
    if row.flows > 1 && row.jain.value.is_finite() {
        text += &format!(" and share it with a Jain's index of {}", fixed(row.jain.value, 2));
    }
    if row.loss.value >= MIN_LOSS {
        text += &format!(", with {} lost", loss(row.loss));
    }
    text
}

/// What the other one does, beside what the lead does.
fn against(lead: &FigureRow<'_>, other: &FigureRow<'_>) -> String {
    if !differs(lead.p95, other.p95) {
        return format!(
            "{} uses {}, and their delays do not differ within the 95 % intervals",
            other.cc,
            usage(other)
        );
    }
    let verb = if other.flows > 1 { "use" } else { "uses" };
    let who = if other.flows > 1 { format!("those of {}", other.cc) } else { other.cc.to_owned() };
    let waits = if other.flows > 1 { "make" } else { "makes" };
    let mut text = format!(
        "{who} {verb} {} and {waits} them wait up to {}",
        usage(other),
        with_interval(other.p95)
    );
    if other.loss.value >= MIN_LOSS {
        text += &format!(", with {} lost", loss(other.loss));
    }
    text
}

/// Whether two means lie apart; single runs do.
fn differs(a: Cell, b: Cell) -> bool {
    let (Some(wide_a), Some(wide_b)) = (a.half_width, b.half_width) else { return true };
    (a.value - b.value).abs() > wide_a + wide_b
}

/// Several traces: the range over these.
fn of_traces(comparison: &Comparison, groups: &[Group<'_>]) -> String {
    let all: Vec<FigureRow<'_>> =
        groups.iter().flat_map(|group| rows(&group.runs, &comparison.repeated)).collect();
    let has_limits = all.iter().all(|row| row.utilization.value.is_finite());
    let mut of_cc: Vec<(&str, Vec<FigureRow<'_>>)> = Vec::new();
    for row in all {
        match of_cc.iter_mut().find(|(cc, _)| *cc == row.cc) {
            Some((_, rows)) => rows.push(row),
            None => of_cc.push((row.cc, vec![row])),
        }
    }
    let count = groups.len();
    let place = match groups.iter().any(|group| group.runs[0].trace != groups[0].runs[0].trace) {
        true => format!("Over {count} traces"),
        false => {
            format!("Under {count} conditions on {}", trace_name(&groups[0].runs[0].trace))
        }
    };
    if let Some(text) = transfers_over_traces(&place, count, &of_cc) {
        return text;
    }
    // One that delivered on some traces only has no range over all.
    of_cc.retain(|(_, rows)| {
        rows.len() == count && rows.iter().all(|row| row.p95.value.is_finite())
    });
    let ccs: Vec<ControllerRanges<'_>> =
        of_cc.iter().map(|(cc, rows)| ControllerRanges::of(cc, rows, has_limits)).collect();
    let most = ccs.iter().map(ControllerRanges::mean_used).fold(0.0, f64::max);
    let useful = ccs.iter().filter(|cc| cc.mean_used() >= MIN_SHARE_OF_BEST * most);
    let Some(lead) = useful.min_by(|a, b| a.mean_log_p95().total_cmp(&b.mean_log_p95())) else {
        return format!("{place} no controller delivered on all.");
    };
    let others = ccs.iter().filter(|cc| !std::ptr::eq(*cc, lead));
    let other = others.max_by(|a, b| a.mean_used().total_cmp(&b.mean_used()));
    let against = other.map_or(String::new(), |other| {
        format!(
            "; {} uses {} and makes them wait up to {}",
            other.cc,
            other.usage(),
            times(&other.p95)
        )
    });
    format!(
        "{place} {} keeps 95 % of the packets below {} at {}{}{against}.",
        lead.cc,
        times(&lead.p95),
        lead.usage(),
        if lead.has_limits { " of the capacity" } else { "" }
    )
}

/// The same where everything was transfers: the range of their times.
fn transfers_over_traces(
    place: &str,
    count: usize,
    of_cc: &[(&str, Vec<FigureRow<'_>>)],
) -> Option<String> {
    let is_transfers = |row: &FigureRow<'_>| row.transfers.is_some();
    if !of_cc.iter().all(|(_, rows)| rows.iter().all(is_transfers)) {
        return None;
    }
    let p95 = |row: &FigureRow<'_>| {
        let complete = row.transfers.as_ref().filter(|of| of.complete > 0)?;
        Some(complete.completion_ms.p95)
    };
    let mut all: Vec<(&str, Vec<f64>)> = of_cc
        .iter()
        .map(|(cc, rows)| (*cc, rows.iter().filter_map(p95).collect::<Vec<_>>()))
        .filter(|(_, times)| times.len() == count)
        .collect();
    // By their ratios: else the slowest trace alone would decide.
    let mean = |times: &[f64]| times.iter().map(|ms| ms.max(0.1).ln()).sum::<f64>();
    all.sort_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)));
    let text = match &all[..] {
        [] => "no controller completed transfers on all".to_owned(),
        [(cc, all)] => format!("{cc} completes 95 % of its transfers within {}", times(all)),
        [(cc, all), .., (other, longest)] => format!(
            "{cc} completes 95 % of its transfers within {}; {other} takes up to {}",
            times(all),
            times(longest)
        ),
    };
    Some(format!("{place} {text}."))
}

/// A controller over several traces.
struct ControllerRanges<'a> {
    cc: &'a str,
    p95: Vec<f64>,
    /// In percent of the capacity, or in Mbit/s where some link has no limit.
    used: Vec<f64>,
    has_limits: bool,
}

impl<'a> ControllerRanges<'a> {
    fn of(cc: &'a str, rows: &[FigureRow<'_>], has_limits: bool) -> Self {
        let used = |row: &FigureRow<'_>| if has_limits { row.utilization } else { row.throughput };
        Self {
            cc,
            p95: rows.iter().map(|row| row.p95.value).collect(),
            used: rows.iter().map(|row| used(row).value).collect(),
            has_limits,
        }
    }

    fn mean_used(&self) -> f64 {
        self.used.iter().sum::<f64>() / self.used.len() as f64
    }

    fn usage(&self) -> String {
        if self.has_limits {
            return percents(&self.used);
        }
        let (low, high) = extremes(&self.used);
        let [low, high] = [low, high].map(|value| fixed(value, 2));
        if low == high { format!("{low} Mbit/s") } else { format!("{low} to {high} Mbit/s") }
    }

    /// Delays are compared by their ratios: else the slowest trace alone would decide.
    fn mean_log_p95(&self) -> f64 {
        self.p95.iter().map(|ms| ms.max(0.1).ln()).sum::<f64>() / self.p95.len() as f64
    }
}

/// Flows of one run: how they share the link.
fn of_flows(place: &str, run: &Run) -> String {
    let figures = &run.figures;
    let flows = figures.per_flow.len();
    if figures.packets == 0 {
        return format!("On {place} nothing of the {flows} flows was delivered.");
    }
    let has_transfers =
        |flow: &FlowFigures| run.transfer_summary.iter().any(|summary| summary.cc == flow.cc);
    if figures.per_flow.iter().all(has_transfers) {
        return of_transfers(
            &format!("On {place}"),
            &run.transfer_summary.iter().collect::<Vec<_>>(),
        );
    }
    let usage = match has_limit(run) {
        true => {
            format!("use {} of the capacity", percent(Cell::plain(figures.utilization * 100.0)))
        }
        false => format!("get {} Mbit/s", fixed(figures.throughput_mbps, 2)),
    };
    let mut text = format!(
        "On {place} the {flows} flows {usage} and keep 95 % of the packets below {}",
        rounded_time(figures.queue_delay_ms.p95)
    );
    let mut controlled: Vec<(usize, &FlowFigures)> =
        figures.per_flow.iter().enumerate().filter(|(_, flow)| flow.is_controlled()).collect();
    controlled.sort_by(|a, b| b.1.throughput_mbps.total_cmp(&a.1.throughput_mbps));
    let name = |(index, flow): &(usize, &FlowFigures)| {
        let name = if flow.name().is_empty() { &run.cc } else { flow.name() };
        format!("flow {} ({name})", index + 1)
    };
    let rate = |(_, flow): &(usize, &FlowFigures)| fixed(flow.throughput_mbps, 2);
    match &controlled[..] {
        [] => {}
        [one] => text += &format!("; {} gets {} Mbit/s", name(one), rate(one)),
        [most, .., least] => {
            let others =
                if controlled.len() < flows { " among those with a controller" } else { "" };
            text += &match shares(run) {
                true => format!("; Jain's index{others} is {}", fixed(figures.jain, 2)),
                false => "; no two of them were on for a whole second together".to_owned(),
            };
            text += &format!(
                ", {} gets the most, {} Mbit/s, {} the least, {} Mbit/s",
                name(most),
                rate(most),
                name(least),
                rate(least)
            );
        }
    }
    text + "."
}

/// Transfers of several controllers: how long these take, since the run idles between and after them.
fn of_transfers(place: &str, transfers: &[&TransferSummary]) -> String {
    let complete = || transfers.iter().copied().filter(|of| of.complete > 0);
    let p95 = |of: &TransferSummary| of.completion_ms.p95;
    let share = |of: &TransferSummary| of.complete as f64 / of.count as f64;
    let most = complete().map(share).fold(0.0, f64::max);
    // One that gives up on the long ones is not the fastest.
    let useful = complete().filter(|of| share(of) >= most);
    let Some(lead) = useful.min_by(|a, b| p95(a).total_cmp(&p95(b))) else {
        return format!("{place} no transfer was complete.");
    };
    let other = complete().filter(|of| !std::ptr::eq(*of, lead));
    let other = other.max_by(|a, b| p95(a).total_cmp(&p95(b)));
    let mut text = format!("{place} {} completes {}", lead.cc, completion(lead, true));
    if let Some(other) = other {
        text += &format!("; {} takes {}", other.cc, completion(other, false));
    }
    for of in transfers.iter().filter(|of| of.complete < of.count) {
        text +=
            &format!("; {} of {} of {} are not complete", of.count - of.complete, of.count, of.cc);
    }
    text + "."
}

/// What viewers saw under several controllers: how long the picture stood still, and at which rate. `None` of none.
fn of_players(place: &str, players: &[(&str, PlayerCells)]) -> Option<String> {
    let order = |(_, a): &&(&str, PlayerCells), (_, b): &&(&str, PlayerCells)| {
        a.stalled.total_cmp(&b.stalled).then(b.bitrate.total_cmp(&a.bitrate))
    };
    let lead = players.iter().min_by(order)?;
    let seen = |(cc, player): &(&str, PlayerCells)| {
        let (bitrate, stalled) = (fixed(player.bitrate, 2), fixed(player.stalled, 1));
        format!("{bitrate} Mbit/s under {cc} and stalls for {stalled} s")
    };
    let mut text = format!("{place} the video has {}", seen(lead));
    if let Some(other) = players.iter().filter(|other| !std::ptr::eq(*other, lead)).max_by(order) {
        text += &format!("; {}", seen(other));
    }
    Some(text + ".")
}

/// Videos of several controllers: how many frames come late, and how often the picture stands still.
fn of_videos(place: &str, videos: &[(&str, VideoCells)]) -> String {
    let late = |(_, video): &&(&str, VideoCells)| video.late.value;
    let order = |a: &&(&str, VideoCells), b: &&(&str, VideoCells)| late(a).total_cmp(&late(b));
    let complete = videos.iter().filter(|(_, video)| video.frame_p95.value.is_finite());
    let Some(lead) = complete.min_by(order) else {
        return format!("{place} no frame is complete.");
    };
    let (cc, video) = lead;
    let mut text = format!(
        "{place} {} % of the frames of {cc} are late, 95 % come within {}, {}",
        fixed(video.late.value, 1),
        rounded_time(video.frame_p95.value),
        freezes(video)
    );
    let others = videos.iter().filter(|other| !std::ptr::eq(*other, lead));
    if let Some((cc, video)) = others.max_by(order) {
        let late = fixed(video.late.value, 1);
        text += &format!("; of {cc} {late} %, {}", freezes(video));
    }
    text + "."
}

fn freezes(video: &VideoCells) -> String {
    format!("with {} freezes", fixed(video.freezes.value, 1))
}

/// How long the complete ones take; `is_first`: what they are, too.
fn completion(of: &TransferSummary, is_first: bool) -> String {
    let time = rounded_time(of.completion_ms.p95);
    match (of.complete, is_first) {
        (1, true) => format!("its transfer in {time}"),
        (1, false) => time,
        (number, true) => format!("95 % of its {number} transfers within {time}"),
        (_, false) => format!("up to {time}"),
    }
}

/// Two digits tell what a delay is like.
fn rounded_time(ms: f64) -> String {
    time(significant(ms, 2))
}

fn with_interval(cell: Cell) -> String {
    let Some(half) = cell.half_width.filter(|half| *half > 0.0) else {
        return rounded_time(cell.value);
    };
    // Both in the unit of the larger, with the decimals that the mean has.
    let (scale, unit) = if cell.value < 1000.0 { (1.0, "ms") } else { (1e-3, "s") };
    let decimals = if cell.value * scale < 10.0 { 1 } else { 0 };
    let text = |value: f64| fixed(value * scale, decimals);
    format!("{} ± {} {unit}", text(cell.value), text(half))
}

fn percent(cell: Cell) -> String {
    format!("{} %", fixed(cell.value, 0))
}

fn loss(cell: Cell) -> String {
    format!("{} %", fixed(cell.value, 1))
}

fn percents(values: &[f64]) -> String {
    let (low, high) = extremes(values);
    let [low, high] = [low, high].map(|value| fixed(value, 0));
    if low == high { format!("{low} %") } else { format!("{low} to {high} %") }
}

fn times(values: &[f64]) -> String {
    let (low, high) = extremes(values);
    let [low, high] = [low, high].map(rounded_time);
    let split = |text: &str| text.split_once(' ').map(|(n, unit)| (n.to_owned(), unit.to_owned()));
    match (split(&low), split(&high)) {
        _ if low == high => low,
        (Some((low, unit)), Some((_, same))) if unit == same => format!("{low} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn extremes(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{example, table};
    use cellpace_measure::Summary;

    /// The numbers of a text, those in seconds as milliseconds, each with how far rounding may
    /// have moved it.
    fn numbers(text: &str) -> Vec<(f64, f64)> {
        const ENDS: [char; 4] = [',', ';', '.', ')'];
        let words: Vec<&str> =
            text.split_whitespace().map(|word| word.trim_end_matches(ENDS)).collect();
        let number = |(at, word): (usize, &&str)| {
            let value: f64 = word.parse().ok()?;
            let digits = match word.split_once('.') {
                Some((_, decimals)) => -(decimals.len() as i32),
                None => (word.len() as i32 - 2).max(0),
            };
            let is_unit =
                |unit: &&&str| unit.parse::<f64>().is_err() && !["to", "±"].contains(*unit);
            let scale = match words[at + 1..].iter().find(is_unit) {
                Some(&"s") => 1000.0,
                _ => 1.0,
            };
            Some((value * scale, 0.500_001 * scale * 10_f64.powi(digits)))
        };
        words.iter().enumerate().filter_map(number).collect()
    }

    /// Every number of the sentence is one of the table's, rounded.
    fn check(comparison: &Comparison) -> String {
        let text = table(comparison);
        let (rows, sentence) = text.trim_end().rsplit_once('\n').unwrap();
        let known: Vec<f64> = numbers(rows).into_iter().map(|(value, _)| value).collect();
        // The percentile, the intervals and names are no figures; nor is how many flows or traces there are.
        let figures = sentence.replace("95 % of the packets", "").replace("95 % intervals", "");
        for (value, within) in numbers(&figures) {
            let rounded = known.iter().any(|known| (known - value).abs() <= within + 1e-9);
            assert!(rounded, "{value} is not in\n{text}");
        }
        sentence.to_owned()
    }

    #[test]
    fn one_controller() {
        let mut comparison = example::comparison();
        comparison.runs.truncate(1);
        comparison.runs[0].figures.lost = 0;
        let expected = "On step:10mbit/5s verus:r=2 keeps 95 % of the packets below 60 ms at 88 % of the capacity.";
        assert_eq!(check(&comparison), expected);
    }

    #[test]
    fn several_controllers_are_the_shortest_delay_and_the_highest_utilization() {
        let mut comparison = example::comparison();
        let mut idle = comparison.runs[0].clone();
        idle.cc = "idle".into();
        idle.figures.utilization = 0.05;
        idle.figures.queue_delay_ms = Summary { p95: 1.0, ..Summary::default() };
        comparison.runs.push(idle);
        comparison.runs[1].figures.queue_delay_ms.p95 = 8_312.4;
        comparison.runs.iter_mut().for_each(|run| run.figures.lost = 0);
        let sentence = check(&comparison);
        assert_eq!(
            sentence,
            "On step:10mbit/5s verus:r=2 keeps 95 % of the packets below 60 ms at 88 % of the capacity; \
             cubic uses 99 % and makes them wait up to 8.3 s."
        );
    }

    #[test]
    fn several_traces_are_ranges() {
        let mut comparison = example::comparison();
        let mut other = comparison.runs.clone();
        for run in &mut other {
            run.trace = "lte-driving".into();
            run.figures.utilization *= 0.5;
            run.figures.queue_delay_ms.p95 *= 2.0;
        }
        comparison.runs.extend(other);
        assert_eq!(
            check(&comparison),
            "Over 2 traces verus:r=2 keeps 95 % of the packets below 60 to 120 ms at 44 to 88 % of the \
             capacity; cubic uses 49 to 99 % and makes them wait up to 820 ms to 1.6 s."
        );
    }

    #[test]
    fn seeds_give_intervals_and_say_when_there_is_no_difference() {
        let mut comparison = example::repeated();
        let sentence = check(&comparison);
        assert!(
            sentence.starts_with("On step:10mbit/5s, over 3 seeds, verus:r=2 keeps"),
            "{sentence}"
        );
        assert!(sentence.contains("below 60 ± 12 ms at 88 % of the capacity"), "{sentence}");
        assert!(sentence.contains("wait up to 820 ± 12 ms"), "{sentence}");
        comparison.runs.retain(|run| run.cc != "cubic");
        let mut twin = comparison.runs.clone();
        twin.iter_mut().for_each(|run| run.cc = "twin".into());
        comparison.runs.extend(twin);
        let sentence = check(&Comparison::of(comparison.runs));
        assert!(sentence.contains("twin uses 88 %, and their delays do not differ"), "{sentence}");
    }

    #[test]
    fn flows_of_one_run_are_told_apart_and_those_without_a_controller_do_not_compete() {
        let mut comparison = example::comparison();
        comparison.runs.truncate(1);
        let run = &mut comparison.runs[0];
        let flow = |cc: &str, mbps: f64| {
            let mut flow = run.figures.per_flow[0].clone();
            (flow.cc, flow.throughput_mbps) = (cc.to_owned(), mbps);
            flow
        };
        run.figures.per_flow =
            vec![flow("verus", 2.31), flow("cubic", 4.92), flow("udp:1mbit", 0.5)];
        run.flows = 3;
        run.figures.jain = 0.871;
        assert_eq!(
            check(&comparison),
            "On step:10mbit/5s the 3 flows use 88 % of the capacity and keep 95 % of the packets below 60 ms; \
             Jain's index among those with a controller is 0.87, flow 2 (cubic) gets the most, 4.92 Mbit/s, flow 1 (verus) the least, \
             2.31 Mbit/s."
        );
        comparison.runs[0].figures.per_flow.remove(1);
        let sentence = check(&comparison);
        assert!(sentence.ends_with("; flow 1 (verus) gets 2.31 Mbit/s."), "{sentence}");
    }

    #[test]
    fn what_delivered_nothing_is_named_and_not_praised() {
        let mut comparison = example::comparison();
        comparison.runs[0].figures.packets = 0;
        comparison.runs[0].figures.queue_delay_ms = Summary::default();
        let sentence = check(&comparison);
        assert!(sentence.starts_with("On step:10mbit/5s cubic keeps"), "{sentence}");
        assert!(sentence.ends_with("; nothing of verus:r=2 was delivered."), "{sentence}");
        comparison.runs[1].figures.packets = 0;
        assert_eq!(check(&comparison), "On step:10mbit/5s no controller delivered anything.");
        comparison.runs.truncate(1);
        let nothing = "On step:10mbit/5s nothing that verus:r=2 sent was delivered.";
        assert_eq!(check(&comparison), nothing);
        comparison.runs.clear();
        assert_eq!(check(&comparison), "Nothing was run.");
    }
}
