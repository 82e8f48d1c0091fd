//! One result beside another: `cellpace.difference/1`, its sentence, and what the page shows.

mod samples;

use cellpace_base::statistics::{mean, median_difference, nearest_rank};
use cellpace_measure::Interval;
use serde::Serialize;

use self::samples::{Sampled, Sides};
use crate::ReportError;
use crate::document::Document;
use crate::number::short;
use crate::section::{MadeBy, PageTable, Section};

/// The schema's name and version. Fields are only added within a version.
pub const DIFFERENCE_SCHEMA: &str = "cellpace.difference/1";

/// Two results beside each other, figure by figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultDifference {
    /// [`DIFFERENCE_SCHEMA`].
    pub schema: &'static str,
    /// The version of the program.
    pub version: &'static str,
    /// What the first result is called: its controller, or its file where both have the same.
    pub a: String,
    /// The same of the second, which is what the differences are of.
    pub b: String,
    /// What came out, in one sentence.
    pub sentence: String,
    /// How many values each figure has of the first and of the second.
    pub values: [usize; 2],
    /// What the values are of: pairs of `runs` under the same conditions, `connections` or `flows`.
    pub of: &'static str,
    /// The figures, those of the sentence first.
    pub figures: Vec<FigureDifference>,
    #[serde(skip)]
    section: Section,
}

/// A figure of both results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FigureDifference {
    /// Its name.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub is_better_high: bool,
    /// Of the first result.
    pub a: f64,
    /// Of the second.
    pub b: f64,
    /// The second's less the first's.
    pub difference: f64,
    /// What holds the difference in 95 of 100 such experiments; `null` where there are too few values.
    pub interval: Option<[f64; 2]>,
    #[serde(skip)]
    title: &'static str,
}

impl ResultDifference {
    /// The difference of two results of one kind, or of the two controllers of one.
    ///
    /// # Errors
    /// When there are not two to compare, or nothing in them that can be compared.
    pub fn of(documents: &[Document]) -> Result<Self, ReportError> {
        let sides = Sides::of(documents)?;
        let figures: Vec<_> =
            sides.figures.iter().filter_map(|one| compared(one, &sides)).collect();
        if figures.is_empty() {
            return Err(samples::refused(documents, "nothing was delivered in both of them"));
        }
        let values = [0, 1]
            .map(|side| sides.figures.iter().map(|one| one.values[side].len()).max().unwrap_or(0));
        let [a, b] = sides.labels.clone();
        let sentence = sentence(&sides, &figures);
        let section = section(&sides, &sentence, &figures, values);
        Ok(Self {
            schema: DIFFERENCE_SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            a,
            b,
            sentence,
            values,
            of: sides.of,
            figures,
            section,
        })
    }

    /// Conditions, table and sentence for a terminal.
    pub fn text(&self) -> String {
        self.section.text()
    }

    pub(crate) fn section(&self) -> &Section {
        &self.section
    }
}

/// Of pairs the means and the mean difference with Student's interval, of others the medians with that of a bootstrap.
fn compared(sampled: &Sampled, sides: &Sides) -> Option<FigureDifference> {
    let [a, b] = &sampled.values;
    let (of_a, of_b, interval) = if sides.are_paired {
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
        let found = Interval::of(&differences)?;
        let ends = [found.mean - found.half_width, found.mean + found.half_width];
        // Differences that are all the same say nothing about chance: nothing in these runs was random.
        let is_random = found.half_width > 1e-9 * found.mean.abs();
        (mean(a.iter().copied()), mean(b.iter().copied()), is_random.then_some(ends))
    } else {
        let median = |values: &[f64]| nearest_rank(&mut values.to_vec(), 0.5);
        (median(a)?, median(b)?, median_difference(a, b))
    };
    let Sampled { figure, unit, is_better_high, title, .. } = *sampled;
    let difference = of_b - of_a;
    Some(FigureDifference {
        figure,
        unit,
        is_better_high,
        a: of_a,
        b: of_b,
        difference,
        interval,
        title,
    })
}

impl FigureDifference {
    /// Whether the interval excludes 0.
    fn is_sure(&self) -> bool {
        self.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    }

    /// `median RTT 199 to 52 ms (−147, 95 %: −160 to −134)`.
    fn said(&self) -> String {
        let Self { title, unit, difference, interval, .. } = self;
        let [a, b] = [self.a, self.b].map(short);
        let far = match interval {
            None => String::new(),
            Some([low, high]) => {
                let doubt = if self.is_sure() { "" } else { ", which may be chance" };
                format!(
                    " ({}, 95 %: {} to {}{doubt})",
                    signed(*difference),
                    signed(*low),
                    signed(*high)
                )
            }
        };
        format!("{title} {a} to {b} {unit}{far}")
    }

    fn row(&self) -> Vec<String> {
        let interval = self.interval.map_or("–".to_owned(), |[low, high]| {
            let mark = if self.is_sure() { " *" } else { "" };
            format!("{} to {}{mark}", signed(low), signed(high))
        });
        let change = match self.a {
            a if a > 0.0 && self.unit != "%" => {
                format!("{} %", signed((self.difference / a * 100.0).round()))
            }
            _ => "–".to_owned(),
        };
        let name = format!("{}, {}", self.title, self.unit);
        let numbers = [short(self.a), short(self.b), signed(self.difference)];
        [name].into_iter().chain(numbers).chain([interval, change]).collect()
    }
}

fn signed(value: f64) -> String {
    let text = short(value);
    if value > 0.0 && text != "0" { format!("+{text}") } else { text.replace('-', "−") }
}

/// Figures of which the sentence speaks.
const SPOKEN: usize = 2;

fn sentence(sides: &Sides, figures: &[FigureDifference]) -> String {
    let spoken: Vec<String> = figures.iter().take(SPOKEN).map(FigureDifference::said).collect();
    let [a, b] = &sides.labels;
    let caution = match sides.are_paired && !sides.are_alike {
        true => " The conditions differ, too.",
        false => "",
    };
    format!("{b} instead of {a}: {}.{caution}", spoken.join(", "))
}

fn section(
    sides: &Sides,
    sentence: &str,
    figures: &[FigureDifference],
    values: [usize; 2],
) -> Section {
    let [a, b] = &sides.labels;
    let counts = match sides.are_paired {
        true => {
            let pairs =
                if values[0] == 1 { "1 pair".to_owned() } else { format!("{} pairs", values[0]) };
            let conditions = if sides.are_alike { "the same" } else { "different" };
            format!("{pairs} under {conditions} conditions")
        }
        false => format!("{} of {a}, {} of {b}", values[0], values[1]),
    };
    let noun = sides.of[..1].to_uppercase() + &sides.of[1..];
    let mut facts = sides.facts.clone();
    facts.push((noun, counts));
    let how = match sides.are_paired {
        true => "Means over the pairs; intervals of 95 % of the mean difference, by Student's t.",
        false => "Medians; intervals of 95 % of their difference, by a bootstrap.",
    };
    let header = ["figure", a, b, "difference", "95 %", "change"].map(str::to_owned);
    Section {
        title: format!("{}{b} instead of {a}", sides.place),
        controllers: sides.labels.to_vec(),
        sentence: sentence.to_owned(),
        facts,
        charts: sides.charts.clone(),
        tables: vec![PageTable {
            title: "Differences".to_owned(),
            note: format!("{how} * the interval excludes 0."),
            header: header.into(),
            rows: figures.iter().map(FigureDifference::row).collect(),
            ..PageTable::default()
        }],
        made_by: MadeBy {
            command: sides.commands.join("; "),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seeds: None,
        },
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comparison, example, to_json};

    fn document(name: &str, comparison: &Comparison) -> Document {
        Document::read(name, to_json(comparison)).unwrap()
    }

    /// The runs of one controller.
    fn alone(comparison: &Comparison, cc: &str) -> Comparison {
        Comparison::of(comparison.runs.iter().filter(|run| run.cc == cc).cloned().collect())
    }

    fn figure<'a>(difference: &'a ResultDifference, name: &str) -> &'a FigureDifference {
        difference.figures.iter().find(|one| one.figure == name).unwrap()
    }

    #[test]
    fn runs_are_compared_seed_by_seed() {
        let mut all = example::repeated();
        let certain = ResultDifference::of(&[document("both.json", &all)]).unwrap();
        assert_eq!(figure(&certain, "queue_delay_p95_ms").interval, None, "all have the same");
        all.runs[0].figures.queue_delay_ms.p95 += 0.3;
        let files = ["verus:r=2", "cubic"].map(|cc| document(cc, &alone(&all, cc)));
        let difference = ResultDifference::of(&files).unwrap();
        assert_eq!((&*difference.a, &*difference.b), ("verus:r=2", "cubic"));
        assert_eq!(difference.values, [3, 3]);
        let p95 = figure(&difference, "queue_delay_p95_ms");
        // Each seed has 759.8 ms more, one 759.5, though the seeds differ by far more.
        assert!((p95.difference - 759.7).abs() < 1e-6, "{p95:?}");
        let [low, high] = p95.interval.unwrap();
        assert!((low - 759.27).abs() < 0.01 && (high - 760.13).abs() < 0.01, "{p95:?}");
        let both = ResultDifference::of(&[document("both.json", &all)]).unwrap();
        assert_eq!((&both.figures, &both.sentence), (&difference.figures, &difference.sentence));
        assert!(difference.sentence.starts_with("cubic instead of verus:r=2: median RTT "));
        assert!(difference.text().contains(" *\n") || difference.text().contains(" * "));
    }

    #[test]
    fn single_runs_have_no_interval_and_equal_controllers_the_names_of_their_files() {
        let one = example::comparison();
        let files = ["old.json", "new.json"].map(|name| document(name, &one));
        let difference = ResultDifference::of(&files).unwrap();
        assert_eq!((&*difference.a, &*difference.b, difference.values), ("old", "new", [2, 2]));
        assert!(difference.figures.iter().all(|one| one.difference == 0.0));
        let single = ResultDifference::of(&[document("c.json", &one)]).unwrap();
        assert!(single.figures.iter().all(|one| one.interval.is_none()), "{single:?}");
        assert!(!single.sentence.contains("95 %"), "{}", single.sentence);
    }

    #[test]
    fn other_conditions_are_said() {
        let one = example::comparison();
        let verus = alone(&one, "verus:r=2");
        let of = |other: &Comparison| {
            let files = [document("a.json", &verus), document("b.json", other)];
            let difference = ResultDifference::of(&files).unwrap();
            (difference.sentence.contains("The conditions differ"), difference.text())
        };
        let (are_said, text) = of(&verus);
        assert!(!are_said && text.contains("under the same conditions"), "{text}");
        let mut slower = verus.clone();
        slower.runs[0].rtt_ms *= 2.0;
        let mut other_link = verus.clone();
        other_link.runs[0].figures.capacity_mbps *= 1.1;
        for other in [slower, other_link] {
            let (are_said, text) = of(&other);
            assert!(are_said && text.contains("under different conditions"), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_a_reason() {
        let one = example::comparison();
        let said = |files: &[Document]| ResultDifference::of(files).unwrap_err().to_string();
        let verus = alone(&one, "verus:r=2");
        assert!(said(&[document("a.json", &verus)]).contains("two controllers"));
        let mut other = alone(&one, "cubic");
        other.runs[0].trace = "umts".to_owned();
        let files = [document("a.json", &verus), document("b.json", &other)];
        assert_eq!(said(&files), "b.json: no run on a trace and with a seed of a.json");
        let files = [document("a.json", &one), document("b.json", &other)];
        assert_eq!(
            said(&files),
            "b.json: of cubic, and a.json of verus:r=2, cubic: both need the same controllers, or one each"
        );
        let probe = include_str!("../tests/it/browser/probe.json");
        let files = [document("a.json", &verus), Document::read("p.json", probe).unwrap()];
        assert!(said(&files).contains("another kind"), "{}", said(&files));
        let probe = Document::read("p.json", probe).unwrap();
        assert!(said(&[probe.clone(), probe]).contains("no differences of"));
        assert!(said(&[]).contains("one or two results"));
    }

    #[test]
    fn connections_are_compared_by_their_medians() {
        let lines = |cc: &str, rtt: f64| {
            let line = |flow: u32| {
                format!(
                    r#"{{"schema":"cellpace.run/1","cc":"{cc}","flow":{flow},"direction":"out","local":"a:1","peer":"b:2","duration_s":1.0,"acked_bytes":125000,"rtt_ms":{},"min_rtt_ms":40.0}}"#,
                    rtt + f64::from(flow)
                )
            };
            Document::read(cc, (0..9).map(line).collect::<Vec<_>>().join("\n")).unwrap()
        };
        let difference =
            ResultDifference::of(&[lines("cubic", 195.0), lines("copa", 48.0)]).unwrap();
        let rtt = figure(&difference, "rtt_ms");
        assert_eq!((rtt.a, rtt.b, difference.of), (199.0, 52.0, "connections"));
        let [low, high] = rtt.interval.unwrap();
        assert!(low < -140.0 && -155.0 < low && high > -147.0 && high < -135.0, "{low} {high}");
        assert!(
            difference
                .sentence
                .starts_with("copa instead of cubic: median RTT 199 to 52 ms (−147, 95 %: ")
        );
        assert!(
            difference
                .sentence
                .contains("median rate 1 to 1 Mbit/s (0, 95 %: 0 to 0, which may be chance)")
        );
    }
}
