//! An experiment on live traffic: `cellpace.experiment/1`.

use cellpace_experiment::{
    ArmComparison, ArmCounts, ArmDescription, ArmFigure, AssignBy, EXPERIMENT_SCHEMA, Estimate,
    ExperimentLine, ExperimentPlan, ExperimentRecords, ExperimentResult, Figure, FigureComparison,
    FigureKind, GroupComparison, GuardLook, LEVELS, PLAN_DIFFERENCES,
};

use crate::ReportError;
use crate::document::Document;
use crate::number::{bytes, short};
use crate::section::{Chart, Form, Line, MadeBy, PageTable, Section};

/// Looks of the guard that are listed: the last ones.
const MAX_LOOKS: usize = 100;

impl Document {
    /// What the records of an experiment say; `None` of another kind of result.
    ///
    /// # Errors
    /// When a line does not belong to the others.
    pub fn experiment(&self) -> Result<Option<ExperimentResult>, ReportError> {
        Ok(self.experiment_records()?.as_ref().map(ExperimentResult::of))
    }

    /// The records of an experiment; `None` of another kind of result.
    ///
    /// # Errors
    /// Those of [`experiment`](Self::experiment).
    pub fn experiment_records(&self) -> Result<Option<ExperimentRecords>, ReportError> {
        if self.schema != EXPERIMENT_SCHEMA {
            return Ok(None);
        }
        let lines: Vec<ExperimentLine> = self.typed()?;
        let records = ExperimentRecords::of(lines);
        records.map(Some).map_err(|error| ReportError::document(&self.name, error.to_string()))
    }
}

/// What the page shows.
pub(crate) fn section(result: &ExperimentResult) -> Section {
    let mut tables = vec![arms(result)];
    for comparison in &result.comparisons {
        for (by, title) in [
            ("all", "All connections"),
            ("size", "By size of the transfer"),
            ("base RTT", "By the smallest RTT"),
        ] {
            tables.extend(table(result, comparison, by, title));
        }
        tables.extend(distributions(result, comparison));
    }
    tables.extend(looks(&result.looks));
    let [control, others @ ..] = &result.start.arms[..] else { return Section::default() };
    let others: Vec<String> = others.iter().map(in_words).collect();
    Section {
        title: format!(
            "{}: {} instead of {}",
            result.experiment,
            others.join(", "),
            in_words(control)
        ),
        sentence: sentence(result),
        facts: facts(result),
        charts: result.comparisons.iter().flat_map(|other| charts(result, other)).collect(),
        tables,
        made_by: MadeBy { version: result.start.version.clone(), ..MadeBy::default() },
        ..Section::default()
    }
}

fn in_words(arm: &ArmDescription) -> String {
    let what = match (&arm.cc, &arm.tcp) {
        (Some(cc), _) => cc.clone(),
        (None, Some(tcp)) => format!("TCP {tcp}"),
        (None, None) => "plain TCP".to_owned(),
    };
    if what == arm.name { what } else { format!("{} ({what})", arm.name) }
}

/// The figures of which the sentence speaks.
const SPOKEN: [Figure; 4] =
    [Figure::QueueDelayP95, Figure::GoodputP50, Figure::Retransmitted, Figure::ProcessorTime];

fn sentence(result: &ExperimentResult) -> String {
    let mut text: Vec<String> = result.looks.iter().filter(|look| look.fired).map(ending).collect();
    for comparison in &result.comparisons {
        let all = &comparison.groups[0];
        let spoken = SPOKEN.iter().filter_map(|figure| {
            all.figures.iter().find(|found| found.figure == figure.name()).map(said)
        });
        let spoken: Vec<String> = spoken.collect();
        let control = &result.arms[0].arm;
        text.push(match spoken.is_empty() {
            true => format!("No connection of both `{}` and `{control}` counts.", comparison.arm),
            false => format!("{} instead of {control}: {}.", comparison.arm, spoken.join(", ")),
        });
    }
    text.extend((!result.caveat().is_empty()).then(|| result.caveat().to_owned()));
    text.join(" ")
}

fn ending(look: &GuardLook) -> String {
    format!("The guard ended the experiment: {} of `{}`.", look.figure, look.arm)
}

/// `p95 of the queue delay 310 -> 88 ms (-72 %, -75 to -68)`.
fn said(figure: &FigureComparison) -> String {
    let title = Figure::named(figure.figure).map_or(figure.figure, Figure::title);
    let change = match (&figure.relative, is_share(figure)) {
        (Some(relative), false) => format!("{} %{}", signed(relative.value), range(relative)),
        _ => format!(
            "{} {}{}",
            signed(figure.difference.value),
            unit(figure),
            range(&figure.difference)
        ),
    };
    let (control, arm) = (short(figure.control.value), short(figure.arm.value));
    format!("{title} {control} → {arm} {} ({change})", figure.unit)
}

fn is_share(figure: &FigureComparison) -> bool {
    Figure::named(figure.figure).is_some_and(|figure| figure.kind() == FigureKind::Share)
}

/// The unit of a difference: of shares it is not a share of anything.
fn unit(figure: &FigureComparison) -> &str {
    if is_share(figure) { "points" } else { figure.unit }
}

fn signed(value: f64) -> String {
    let text = short(value);
    if value > 0.0 && text != "0" { format!("+{text}") } else { text.replace('-', "−") }
}

/// The interval behind a comma; that there is none, where there is none.
fn range(estimate: &Estimate) -> String {
    match estimate.interval {
        Some([low, high]) => format!(", {} to {}", signed(low), signed(high)),
        None => ", too few to say".to_owned(),
    }
}

fn interval(estimate: &Estimate) -> String {
    match estimate.interval {
        Some([low, high]) => {
            let mark = if estimate.differs() { " *" } else { "" };
            format!("{} to {}{mark}", signed(low), signed(high))
        }
        None => "–".to_owned(),
    }
}

fn facts(result: &ExperimentResult) -> Vec<(String, String)> {
    let start = &result.start;
    let assigned = match start.assign {
        AssignBy::Time => format!("slots of {} s", short(start.slot_s)),
        AssignBy::Client => "clients (IPv4 /24, IPv6 /64)".to_owned(),
        AssignBy::Connection => "connections".to_owned(),
    };
    let guard = match result.looks.iter().find(|look| look.fired) {
        Some(look) => ending(look),
        None if result.looks.is_empty() => "has not looked".to_owned(),
        None => "has not ended it".to_owned(),
    };
    let apart = |count: fn(&ArmCounts) -> usize| -> usize { result.arms.iter().map(count).sum() };
    let (crossed, washout) = (apart(|arm| arm.crossed), apart(|arm| arm.washout));
    [
        ("Arms drawn for", assigned),
        ("In the experiment", format!("{} %", short(start.share * 100.0))),
        ("Washout", format!("{} s", short(start.washout_s))),
        ("Kept apart", format!("{crossed} that crossed a border, {washout} in a washout")),
        ("Intervals", format!("95 %, bootstrap over {}", result.units)),
        ("Guard", guard),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn arms(result: &ExperimentResult) -> PageTable {
    let rows = result.arms.iter().zip(&result.start.arms).map(|(counts, arm)| {
        vec![
            in_words(arm),
            counts.connections.to_string(),
            counts.clients.to_string(),
            counts.slots.to_string(),
            bytes(counts.acked_bytes),
            counts.crossed.to_string(),
            counts.washout.to_string(),
        ]
    });
    PageTable {
        title: "Arms".to_owned(),
        header: super::header(
            "arm|connections|clients|slots|acknowledged|crossed a border|in a washout",
        ),
        rows: rows.collect(),
        ..PageTable::default()
    }
}

fn table(
    result: &ExperimentResult,
    comparison: &ArmComparison,
    by: &str,
    title: &str,
) -> Option<PageTable> {
    let groups: Vec<&GroupComparison> =
        comparison.groups.iter().filter(|group| group.by == by).collect();
    let rows =
        groups.iter().flat_map(|group| group.figures.iter().map(move |figure| (group, figure)));
    let rows = rows.map(|(group, figure)| {
        let title = Figure::named(figure.figure).map_or(figure.figure, Figure::title);
        let mut row = vec![format!("{title}, {}", figure.unit)];
        if by != "all" {
            row[0] = format!("{}: {}", group.group, row[0]);
            row.push(format!("{} / {}", group.connections[0], group.connections[1]));
        }
        row.extend([short(figure.control.value), short(figure.arm.value)]);
        row.extend([signed(figure.difference.value), interval(&figure.difference)]);
        let relative = figure.relative.as_ref();
        row.push(relative.map_or("–".to_owned(), |of| signed(of.value)));
        row.push(relative.map_or("–".to_owned(), interval));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let (control, arm) = (&result.arms[0].arm, &comparison.arm);
    let mut header = super::header(if by == "all" { "figure" } else { "figure|connections" });
    header.extend([control.clone(), arm.clone()]);
    header.extend(super::header("difference|95 %|relative, %|95 %"));
    (!rows.is_empty()).then(|| PageTable {
        title: format!("{title}: {arm} beside {control}"),
        note: "* the interval excludes 0: so does one of 20 where there is no difference."
            .to_owned(),
        header,
        rows,
        ..PageTable::default()
    })
}

/// The connections' own values of each figure.
fn distributions(result: &ExperimentResult, comparison: &ArmComparison) -> Option<PageTable> {
    let figures =
        comparison.groups[0].figures.iter().filter(|figure| !figure.arm.levels.is_empty());
    let row = |figure: &FigureComparison, name: &str, of: &ArmFigure| {
        let mut row = vec![format!("{}, {} ({name})", figure.figure, figure.unit)];
        row.extend(of.levels.iter().map(|value| short(*value)));
        row
    };
    let rows: Vec<Vec<String>> = figures
        .flat_map(|figure| {
            [
                row(figure, &result.arms[0].arm, &figure.control),
                row(figure, &comparison.arm, &figure.arm),
            ]
        })
        .collect();
    let mut header = vec!["figure".to_owned()];
    header.extend(LEVELS.map(|level| format!("p{level}")));
    (!rows.is_empty()).then(|| PageTable {
        title: format!("Distributions over connections: {}", comparison.arm),
        header,
        rows,
        ..PageTable::default()
    })
}

fn charts(result: &ExperimentResult, comparison: &ArmComparison) -> Vec<Chart> {
    let drawn = [Figure::QueueDelayP95, Figure::GoodputP50].map(Figure::name);
    let figures = comparison.groups[0].figures.iter();
    let figures =
        figures.filter(|figure| drawn.contains(&figure.figure) && !figure.arm.levels.is_empty());
    let line = |name: &str, of: &ArmFigure| Line {
        name: name.to_owned(),
        x: of.levels.clone(),
        y: LEVELS.iter().map(|level| f32::from(*level)).collect(),
        ..Line::default()
    };
    let chart = |figure: &FigureComparison| Chart {
        title: format!("{}, {}", figure.figure.replace('_', " "), figure.unit),
        unit: "% of connections".to_owned(),
        x_label: figure.unit.to_owned(),
        log_x: true,
        form: Form::Lines,
        lines: vec![line(&result.arms[0].arm, &figure.control), line(&comparison.arm, &figure.arm)],
        ..Chart::default()
    };
    figures.map(chart).collect()
}

fn looks(looks: &[GuardLook]) -> Option<PageTable> {
    let row = |look: &GuardLook| {
        vec![
            cellpace_base::utc_text(look.at_s as u64),
            look.arm.clone(),
            look.figure.clone(),
            look.units.to_string(),
            signed(look.worse),
            look.at_least.map_or("–".to_owned(), signed),
            short(look.limit),
            if look.fired { "yes" } else { "no" }.to_owned(),
        ]
    };
    let rows: Vec<_> = looks[looks.len().saturating_sub(MAX_LOOKS)..].iter().map(row).collect();
    (!rows.is_empty()).then(|| PageTable {
        title: "What the guard found".to_owned(),
        note: "Points of shares, percent of other figures. It ends the experiment where an arm is more worse than \
               allowed, and certainly worse at all, all looks together at 95 %."
            .to_owned(),
        header: super::header("when|arm|figure|slots or clients|worse by|at least|allowed|ended"),
        rows,
        ..PageTable::default()
    })
}

/// How long an experiment must run, for a terminal.
pub fn experiment_plan_text(plan: &ExperimentPlan) -> String {
    let mut header = super::header("figure|mean|from slot to slot, %");
    header.extend(PLAN_DIFFERENCES.map(|difference| format!("{} %", short(difference))));
    let time = |hours: f64| match hours {
        hours if hours >= 48.0 => format!("{} d", short(hours / 24.0)),
        hours => format!("{} h", short(hours)),
    };
    let rows = plan.figures.iter().map(|figure| {
        let title = Figure::named(figure.figure).map_or(figure.figure, Figure::title);
        let mut row =
            vec![format!("{title}, {}", figure.unit), short(figure.mean), short(figure.deviation)];
        row.extend(figure.hours.iter().map(|hours| time(*hours)));
        row
    });
    let table = PageTable {
        title: "Time to find a difference of".to_owned(),
        note: "An interval of 95 % then excludes 0 in 80 of 100 experiments of two equal arms."
            .to_owned(),
        header,
        rows: rows.collect(),
        ..PageTable::default()
    };
    let facts = [
        ("Slots of the baseline", plan.slots.to_string()),
        ("Length of a slot", format!("{} s", short(plan.slot_s))),
        ("In the experiment", format!("{} %", short(plan.share * 100.0))),
    ];
    Section {
        title: "How long the experiment must run".to_owned(),
        facts: facts.map(|(name, value)| (name.to_owned(), value)).into(),
        tables: vec![table],
        ..Section::default()
    }
    .text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    fn lines(assign: &str, slots: u32) -> String {
        let start = format!(
            r#"{{"schema":"cellpace.experiment/1","experiment":"trial","kind":"start","version":"1","assign":"{assign}","slot_s":600.0,"washout_s":0.0,"share":1.0,"arms":[{{"name":"bbr","cc":null,"tcp":"bbr"}},{{"name":"pace","cc":"pace","tcp":null}}]}}"#
        );
        let mut text = start + "\n";
        for slot in 0..slots {
            for number in 0..10 {
                let (arm, delay) = if slot % 2 == 0 { ("bbr", 300) } else { ("pace", 100) };
                let delay = delay + slot * 2 + number;
                text += &format!(
                    r#"{{"schema":"cellpace.experiment/1","experiment":"trial","kind":"connection","arm":"{arm}","slot":{slot},"client":"c{slot}","start_s":1.0,"duration_s":1.0,"driver":"gate","outcome":"finished","acked_bytes":5000000,"received_bytes":1,"tcp_sent_bytes":5000000,"retransmitted_bytes":100,"goodput_mbps":8.0,"first_byte_ms":1.0,"min_rtt_ms":40.0,"rtt_p50_ms":50.0,"rtt_p95_ms":60.0,"queue_delay_p50_ms":10.0,"queue_delay_p95_ms":{delay}}}"#
                );
                text.push('\n');
            }
        }
        text
    }

    fn document(assign: &str, slots: u32) -> Document {
        Document::read("e.jsonl", lines(assign, slots)).unwrap()
    }

    #[test]
    fn the_sentence_says_by_how_much_and_how_certainly() {
        let section = section(&document("time", 40).experiment().unwrap().unwrap());
        // 10 of the 200 connections of bbr have 379 ms or more, 10 of pace 181 ms or more.
        assert!(
            section
                .sentence
                .starts_with("pace instead of bbr: p95 of the queue delay 378 → 180 ms"),
            "{}",
            section.sentence
        );
        assert!(section.sentence.contains(" ms (−5"), "{}", section.sentence);
        assert!(
            section.sentence.ends_with("retransmitted bytes 0.002 → 0.002 % (0 points, 0 to 0).")
        );
        assert_eq!(section.title, "trial: pace instead of bbr (TCP bbr)");
    }

    #[test]
    fn few_slots_have_no_interval_and_connections_a_caveat() {
        let few = section(&document("time", 4).experiment().unwrap().unwrap());
        assert!(few.sentence.contains("too few to say"), "{}", few.sentence);
        let each = section(&document("connection", 40).experiment().unwrap().unwrap());
        assert!(each.sentence.ends_with("assign = \"time\" can."), "{}", each.sentence);
        assert!(document("connection", 40).text().unwrap().contains("It cannot tell"));
    }

    #[test]
    fn the_page_has_the_tables_and_wrong_lines_are_named() {
        let document = document("time", 40);
        let page = page(&[document]).unwrap();
        assert!(page.contains("Distributions over connections") && page.contains("Arms drawn for"));
        let wrong = lines("time", 2).replace("\"arm\":\"pace\"", "\"arm\":\"pacy\"");
        let error = Document::read("e.jsonl", wrong).unwrap().check().unwrap_err().to_string();
        assert!(error.contains("line 12") && error.contains("pacy"), "{error}");
    }
}
