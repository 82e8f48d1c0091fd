//! A stack's congestion control in many scenarios: `cellpace.conform/1`.

use crate::conformance::{
    Conformance, ConformanceCheck, ConformanceLine, ConformanceReference, ConformanceScenario,
    ConformanceVerdict,
};
use crate::number::short;
use crate::section::{Chart, Line, MadeBy, PageTable, Section};

impl Conformance {
    /// All scenarios in a table and a sentence, as text.
    pub fn text(&self) -> String {
        self.front().text()
    }

    /// The table of all scenarios, and a section for each of them.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let mut front = self.front();
        front.tables.push(self.questions());
        let each = self.scenarios.iter().map(|scenario| scenario.section(&self.server));
        std::iter::once(front).chain(each).collect()
    }

    fn front(&self) -> Section {
        Section {
            title: format!("Conformance of {}", self.server),
            sentence: self.sentence(),
            facts: vec![
                ("Client".to_owned(), self.client.clone()),
                ("TCP of the kernel".to_owned(), self.kernel_cc.clone()),
            ],
            text: self.warnings.join(" "),
            tables: vec![self.verdicts()],
            made_by: MadeBy {
                command: self.command.clone(),
                version: self.version.clone(),
                ..MadeBy::default()
            },
            ..Section::default()
        }
    }

    /// Which scenarios pass, and how those fail that do not.
    fn sentence(&self) -> String {
        let number = |verdict| self.scenarios.iter().filter(|of| of.verdict == verdict).count();
        let (passed, all) = (number(ConformanceVerdict::Pass), self.scenarios.len());
        let mut text = format!("{} passes {passed} of {all} scenarios", self.server);
        let failed = self.scenarios.iter().filter(|of| of.verdict == ConformanceVerdict::Fail);
        let failed: Vec<String> = failed.map(ConformanceScenario::failure).collect();
        if !failed.is_empty() {
            text += &format!("; it fails {}", failed.join(", "));
        }
        let left_out = number(ConformanceVerdict::NotRun);
        if left_out > 0 {
            text += &format!("; {left_out} could not be run");
        }
        text + "."
    }

    /// Every figure with its bound, and the same under controllers of ours.
    fn verdicts(&self) -> PageTable {
        let controllers = self.controllers();
        let mut header = super::header("scenario|verdict|figure|bound|measured");
        header.extend(controllers.iter().map(|cc| format!("{cc} (sim)")));
        let mut table = PageTable {
            title: "Verdicts".to_owned(),
            note: "The verdict is that of the figure; a scenario passes where all of its figures do. (sim): a \
                   controller of ours in the same scenario, in virtual time; * out of bounds."
                .to_owned(),
            header,
            ..PageTable::default()
        };
        for scenario in &self.scenarios {
            for check in &scenario.checks {
                let verdict = scenario.verdict_of(check).name().to_owned();
                let figure = check.figure.clone();
                let mut row =
                    vec![scenario.name.clone(), verdict, figure, check.bound(), check.measured()];
                row.extend(controllers.iter().map(|cc| check.of(cc)));
                table.rows.push(row);
                table.links.push(format!("#{}", scenario.name));
            }
        }
        table
    }

    fn questions(&self) -> PageTable {
        let row = |scenario: &ConformanceScenario| {
            let ConformanceScenario { name, question, rfc, .. } = scenario;
            vec![name.clone(), question.clone(), rfc.clone()]
        };
        PageTable {
            title: "Questions".to_owned(),
            header: super::header("scenario|question|heading in RFC 9743"),
            rows: self.scenarios.iter().map(row).collect(),
            links: self.scenarios.iter().map(|scenario| format!("#{}", scenario.name)).collect(),
            ..PageTable::default()
        }
    }

    /// The controllers of ours, as written.
    fn controllers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let checks = self.scenarios.iter().flat_map(|scenario| &scenario.checks);
        for reference in checks.flat_map(|check| &check.reference) {
            if !names.contains(&reference.cc.as_str()) {
                names.push(&reference.cc);
            }
        }
        names
    }
}

impl ConformanceScenario {
    /// The verdict on one of its figures.
    fn verdict_of(&self, check: &ConformanceCheck) -> ConformanceVerdict {
        match self.verdict {
            ConformanceVerdict::NotRun => ConformanceVerdict::NotRun,
            _ if check.passed => ConformanceVerdict::Pass,
            _ => ConformanceVerdict::Fail,
        }
    }

    /// What it fails by, with its name.
    fn failure(&self) -> String {
        let failed = self.checks.iter().filter(|check| !check.passed);
        let failed: Vec<String> = failed
            .map(|check| format!("{} {} of {}", check.figure, check.measured(), check.bound()))
            .collect();
        format!("{} ({})", self.name, failed.join("; "))
    }

    fn section(&self, server: &str) -> Section {
        let mut facts = vec![
            ("Heading in RFC 9743".to_owned(), self.rfc.clone()),
            ("The path".to_owned(), self.command.clone()),
        ];
        facts.extend(self.problem.iter().map(|why| ("Not run".to_owned(), why.clone())));
        Section {
            id: self.name.clone(),
            title: self.title.clone(),
            badge: self.verdict.name().to_owned(),
            sentence: self.question.clone(),
            facts,
            charts: self.charts(server),
            tables: vec![self.table()],
            ..Section::default()
        }
    }

    fn table(&self) -> PageTable {
        let row = |check: &ConformanceCheck| {
            let passed = if check.passed { "yes" } else { "no" };
            vec![
                check.figure.clone(),
                check.measured(),
                check.bound(),
                passed.to_owned(),
                check.reason.clone(),
            ]
        };
        PageTable {
            title: "Figures".to_owned(),
            header: super::header("figure|measured|bound|holds|why this bound"),
            rows: self.checks.iter().map(row).collect(),
            ..PageTable::default()
        }
    }

    fn charts(&self, server: &str) -> Vec<Chart> {
        let chart = |title: &str, unit: &str, of: fn(&ConformanceLine) -> &[Option<f64>]| {
            let line = |line: &ConformanceLine, name: String| {
                Line::of_bins(name, self.bin_s, values(of(line)))
            };
            let measured = self.measured.iter().map(|of| line(of, server.to_owned()));
            let ours = self.reference.iter().map(|of| line(of, format!("{} (sim)", of.cc)));
            Chart {
                title: title.to_owned(),
                unit: unit.to_owned(),
                x_label: "Time in s".to_owned(),
                lines: measured.chain(ours).collect(),
                ..Chart::default()
            }
        };
        let mut throughput = chart("Throughput", "Mbit/s", |line| &line.throughput_mbps);
        let capacity = Line::of_bins("capacity", self.bin_s, values(&self.capacity_mbps));
        throughput.lines.insert(0, Line { is_area: true, ..capacity });
        let delay = chart("Queue delay (median)", "ms", |line| &line.queue_delay_ms);
        [throughput, delay].into_iter().filter(|chart| chart.lines.len() > 1).collect()
    }
}

impl ConformanceCheck {
    fn measured(&self) -> String {
        self.shown(self.value)
    }

    fn of(&self, cc: &str) -> String {
        let Some(found) = self.reference.iter().find(|of| of.cc == cc) else {
            return "–".to_owned();
        };
        let ConformanceReference { value, passed, .. } = found;
        let mark = if *passed { "" } else { " *" };
        format!("{}{mark}", self.shown(*value))
    }

    fn shown(&self, value: Option<f64>) -> String {
        let text = value.map_or_else(|| "–".to_owned(), short);
        if self.unit.is_empty() { text } else { format!("{text} {}", self.unit) }
    }

    fn bound(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{} to {}", short(min), self.shown(Some(max))),
            (Some(min), None) => format!("at least {}", self.shown(Some(min))),
            (None, Some(max)) => format!("at most {}", self.shown(Some(max))),
            (None, None) => String::new(),
        }
    }
}

fn values(values: &[Option<f64>]) -> Vec<f32> {
    values.iter().map(|value| value.map_or(f32::NAN, |value| value as f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::CONFORMANCE_SCHEMA;
    use crate::{Document, page};

    fn check(value: Option<f64>, passed: bool) -> ConformanceCheck {
        ConformanceCheck {
            figure: "queue delay p95".to_owned(),
            unit: "ms".to_owned(),
            min: None,
            max: Some(150.0),
            reason: "speech".to_owned(),
            value,
            passed,
            reference: vec![ConformanceReference {
                cc: "copa".to_owned(),
                value: Some(7.25),
                passed: true,
            }],
        }
    }

    fn scenario(
        name: &str,
        verdict: ConformanceVerdict,
        value: Option<f64>,
    ) -> ConformanceScenario {
        let line = ConformanceLine {
            cc: "copa".to_owned(),
            throughput_mbps: vec![Some(1.0), None],
            queue_delay_ms: vec![None, Some(2.0)],
        };
        ConformanceScenario {
            name: name.to_owned(),
            title: "A title".to_owned(),
            rfc: "Short Flows".to_owned(),
            question: "Does it?".to_owned(),
            command: "cellpace link".to_owned(),
            duration_s: 5.0,
            verdict,
            problem: None,
            checks: vec![check(value, verdict == ConformanceVerdict::Pass)],
            bin_s: 0.1,
            capacity_mbps: vec![Some(12.0); 2],
            measured: None,
            reference: vec![line],
        }
    }

    fn conformance() -> Conformance {
        Conformance {
            schema: CONFORMANCE_SCHEMA.to_owned(),
            version: "0".to_owned(),
            command: "cellpace conform".to_owned(),
            server: "a server".to_owned(),
            client: "curl".to_owned(),
            kernel_cc: "cubic".to_owned(),
            scenarios: vec![
                scenario("good", ConformanceVerdict::Pass, Some(12.5)),
                scenario("bad", ConformanceVerdict::Fail, Some(1_300.0)),
                scenario("none", ConformanceVerdict::NotRun, None),
            ],
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_sentence_says_what_fails_and_by_how_much() {
        assert_eq!(
            conformance().front().sentence,
            "a server passes 1 of 3 scenarios; it fails bad (queue delay p95 1300 ms of at most 150 \
             ms); 1 could not be run."
        );
    }

    #[test]
    fn the_text_has_a_row_for_each_figure_with_the_reference_beside() {
        let text = conformance().text();
        let row = text.lines().find(|line| line.contains("bad") && line.contains("fail")).unwrap();
        for part in ["at most 150 ms", "1300 ms", "7.25 ms"] {
            assert!(row.contains(part), "{row}");
        }
    }

    #[test]
    fn each_figure_has_a_verdict_of_its_own() {
        let mut conformance = conformance();
        let kept =
            ConformanceCheck { figure: "utilization".to_owned(), ..check(Some(100.0), true) };
        conformance.scenarios[1].checks.push(kept);
        let rows = conformance.verdicts().rows;
        let verdicts: Vec<[&str; 3]> =
            rows.iter().map(|row| [row[0].as_str(), row[1].as_str(), row[2].as_str()]).collect();
        assert_eq!(
            verdicts,
            [
                ["good", "pass", "queue delay p95"],
                ["bad", "fail", "queue delay p95"],
                ["bad", "pass", "utilization"],
                ["none", "not run", "queue delay p95"],
            ]
        );
    }

    #[test]
    fn the_page_reads_what_is_written() {
        let text = crate::indented(&conformance());
        let document = Document::read("conform.json", &text).unwrap();
        let page = page(&[document]).unwrap();
        assert!(page.contains("Does it?") && page.contains("\"#bad\""));
    }
}
