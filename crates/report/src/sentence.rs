//! What came out of a comparison, in one sentence. Its numbers are those of the table, rounded.

use cellpace_measure::FlowFigures;

use crate::groups::{Cell, FigureRow, Group, groups, rows};
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
        [group] => {
            let rows = rows(&group.runs, &comparison.repeated);
            match &group.runs[..] {
                [run] if run.figures.per_flow.len() > 1 => of_flows(run),
                _ => of_group(group, &rows),
            }
        }
        groups => of_traces(comparison, groups),
    }
}

/// One trace.
fn of_group(group: &Group<'_>, rows: &[FigureRow<'_>]) -> String {
    let seeds = seeds(&group.runs);
    let place = match seeds {
        0 | 1 => format!("On {}", group.name),
        _ => format!("On {}, over {seeds} seeds,", group.name),
    };
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

/// The shortest delay among those that use the link.
fn best<'r, 'a>(rows: &[&'r FigureRow<'a>]) -> Option<&'r FigureRow<'a>> {
    let most = rows.iter().map(|row| row.utilization.value).fold(0.0, f64::max);
    rows.iter()
        .copied()
        .filter(|row| row.utilization.value >= MIN_SHARE_OF_BEST * most)
        .min_by(|a, b| a.p95.value.total_cmp(&b.p95.value))
}

/// The one that uses most of the link; of several the one with the longest delay.
fn contrast<'r, 'a>(rows: &[&'r FigureRow<'a>], lead: &FigureRow<'_>) -> Option<&'r FigureRow<'a>> {
    let used = |row: &FigureRow<'_>| row.utilization.value.round();
    let others = rows.iter().copied().filter(|row| !std::ptr::eq(*row, lead));
    others.max_by(|a, b| used(a).total_cmp(&used(b)).then(a.p95.value.total_cmp(&b.p95.value)))
}

fn keeps(row: &FigureRow<'_>) -> String {
    let who = match row.flows {
        0 | 1 => format!("{} keeps", row.cc),
        flows => format!("{flows} flows of {} keep", row.cc),
    };
    let mut text = format!(
        "{who} 95 % of the packets below {} at {} of the capacity",
        with_interval(row.p95),
        percent(row.utilization)
    );
    if row.flows > 1 {
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
            percent(other.utilization)
        );
    }
    let verb = if other.flows > 1 { "use" } else { "uses" };
    let who = if other.flows > 1 { format!("those of {}", other.cc) } else { other.cc.to_owned() };
    let waits = if other.flows > 1 { "make" } else { "makes" };
    let mut text = format!(
        "{who} {verb} {} and {waits} them wait up to {}",
        percent(other.utilization),
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
    let mut ccs: Vec<Ranges<'_>> = Vec::new();
    for group in groups {
        for row in rows(&group.runs, &comparison.repeated) {
            if !row.p95.value.is_finite() {
                continue;
            }
            match ccs.iter_mut().find(|ranges| ranges.cc == row.cc) {
                Some(ranges) => ranges.add(&row),
                None => ccs.push(Ranges::of(&row)),
            }
        }
    }
    let count = groups.len();
    let place = match groups.iter().any(|group| group.runs[0].trace != groups[0].runs[0].trace) {
        true => format!("Over {count} traces"),
        false => format!("Under {count} conditions on {}", groups[0].runs[0].trace),
    };
    // One that delivered on some traces only has no range over all.
    ccs.retain(|ranges| ranges.p95.len() == count);
    let most = ccs.iter().map(Ranges::mean_utilization).fold(0.0, f64::max);
    let useful = ccs.iter().filter(|cc| cc.mean_utilization() >= MIN_SHARE_OF_BEST * most);
    let Some(lead) = useful.min_by(|a, b| a.mean_log_p95().total_cmp(&b.mean_log_p95())) else {
        return format!("{place} no controller delivered on all.");
    };
    let others = ccs.iter().filter(|cc| !std::ptr::eq(*cc, lead));
    let other = others.max_by(|a, b| a.mean_utilization().total_cmp(&b.mean_utilization()));
    let against = other.map_or(String::new(), |other| {
        format!(
            "; {} uses {} and makes them wait up to {}",
            other.cc,
            percents(&other.utilization),
            times(&other.p95)
        )
    });
    format!(
        "{place} {} keeps 95 % of the packets below {} at {} of the capacity{against}.",
        lead.cc,
        times(&lead.p95),
        percents(&lead.utilization)
    )
}

/// A controller over several traces.
struct Ranges<'a> {
    cc: &'a str,
    p95: Vec<f64>,
    utilization: Vec<f64>,
}

impl<'a> Ranges<'a> {
    fn of(row: &FigureRow<'a>) -> Self {
        Self { cc: row.cc, p95: vec![row.p95.value], utilization: vec![row.utilization.value] }
    }

    fn add(&mut self, row: &FigureRow<'_>) {
        self.p95.push(row.p95.value);
        self.utilization.push(row.utilization.value);
    }

    fn mean_utilization(&self) -> f64 {
        self.utilization.iter().sum::<f64>() / self.utilization.len() as f64
    }

    /// Delays are compared by their ratios: else the slowest trace alone would decide.
    fn mean_log_p95(&self) -> f64 {
        self.p95.iter().map(|ms| ms.max(0.1).ln()).sum::<f64>() / self.p95.len() as f64
    }
}

/// Flows of one run: how they share the link.
fn of_flows(run: &Run) -> String {
    let figures = &run.figures;
    let flows = figures.per_flow.len();
    if figures.packets == 0 {
        return format!("On {} nothing of the {flows} flows was delivered.", run.trace);
    }
    let utilization = Cell::plain(figures.utilization * 100.0);
    let mut text = format!(
        "On {} the {flows} flows use {} of the capacity and keep 95 % of the packets below {}",
        run.trace,
        percent(utilization),
        rounded_time(figures.queue_delay_ms.p95)
    );
    let mut controlled: Vec<(usize, &FlowFigures)> =
        figures.per_flow.iter().enumerate().filter(|(_, flow)| flow.is_controlled()).collect();
    controlled.sort_by(|a, b| b.1.throughput_mbps.total_cmp(&a.1.throughput_mbps));
    let name = |(index, flow): &(usize, &FlowFigures)| {
        let cc = if flow.cc.is_empty() { &run.cc } else { &flow.cc };
        format!("flow {} ({cc})", index + 1)
    };
    let rate = |(_, flow): &(usize, &FlowFigures)| fixed(flow.throughput_mbps, 2);
    match &controlled[..] {
        [] => {}
        [one] => text += &format!("; {} gets {} Mbit/s", name(one), rate(one)),
        [most, .., least] => {
            text += &format!(
                "; Jain's index is {}, {} gets the most, {} Mbit/s, {} the least, {} Mbit/s",
                fixed(figures.jain, 2),
                name(most),
                rate(most),
                name(least),
                rate(least)
            );
        }
    }
    text + "."
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
             Jain's index is 0.87, flow 2 (cubic) gets the most, 4.92 Mbit/s, flow 1 (verus) the least, \
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
