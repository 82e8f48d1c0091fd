//! The result as one HTML file that needs nothing else: no server, no network.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use cellpace_base::utc_text;

use serde::Serialize;

use crate::difference::ResultDifference;
use crate::document::Document;
use crate::escape::escape;
use crate::groups::controllers;
use crate::heatmap::Heatmap;
use crate::joined::{distinct, side_by_side};
use crate::page::{Look, looks, page_json};
use crate::section::{Chart, DrawnChart, MadeBy, Matrix, PageTable, Section};
use crate::sentence::sentence;
use crate::sequence::{PacketSequence, thin_all};
use crate::thin::thinned;
use crate::views::{RUNS, answers, has_front, sections};
use crate::{Comparison, ReportError, SCHEMA, comparisons, palette};

const TEMPLATE: &str = include_str!("../assets/page.html");
pub(crate) const STYLE: &str = include_str!("../assets/page.css");
/// What draws a chart: plain files, each using those before it.
pub(crate) const CHARTS: [&str; 6] = [
    include_str!("../assets/page/numbers.js"),
    include_str!("../assets/page/plot.js"),
    include_str!("../assets/page/axes.js"),
    include_str!("../assets/page/dom.js"),
    include_str!("../assets/page/looks.js"),
    include_str!("../assets/page/chart.js"),
];
/// The rest of the page's script.
const SCRIPTS: [&str; 19] = [
    include_str!("../assets/page/save.js"),
    include_str!("../assets/page/card.js"),
    include_str!("../assets/page/heatmap.js"),
    include_str!("../assets/page/embed.js"),
    include_str!("../assets/page/sequence.js"),
    include_str!("../assets/page/legend.js"),
    include_str!("../assets/page/still.js"),
    include_str!("../assets/page/events.js"),
    include_str!("../assets/page/table.js"),
    include_str!("../assets/page/time.js"),
    include_str!("../assets/page/scatter.js"),
    include_str!("../assets/page/matrix.js"),
    include_str!("../assets/page/cdf.js"),
    include_str!("../assets/page/pairs.js"),
    include_str!("../assets/page/flows.js"),
    include_str!("../assets/page/profiles.js"),
    include_str!("../assets/page/probe.js"),
    include_str!("../assets/page/sections.js"),
    include_str!("../assets/page/comparison.js"),
];
/// Looks of different colours and dashes.
pub(crate) const MAX_LOOKS: usize = 56;

pub(crate) const UPLOT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
pub(crate) const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
pub(crate) const UPLOT_LICENCE: &str = include_str!("../assets/uplot/LICENSE");

/// Results as one page: those of one kind side by side, those of several kinds one after the
/// other. The page is one file that needs nothing else, and stays below 1.5 MB.
///
/// # Errors
/// When there is no document, or one of them is of a kind that is not known, or not what its
/// schema says.
pub fn page(documents: &[Document]) -> Result<String, ReportError> {
    Ok(whole(documents)?.html())
}

/// The same with an index of the documents at its head, and what was left out: names and reasons.
///
/// # Errors
/// Those of [`page`].
pub fn page_with_index(
    documents: &[Document],
    left_out: &[(String, String)],
) -> Result<String, ReportError> {
    let index = Some(Index::of(documents, left_out));
    Ok(Whole { index, ..whole(documents)? }.html())
}

impl ResultDifference {
    /// The difference as a page, as [`page`] makes them.
    pub fn page(&self) -> String {
        let sections = vec![self.section().clone()];
        let kinds = vec!["difference".to_owned()];
        let (comparison, index, is_fronted) = (None, None, false);
        Whole { comparison, sections, has_runs_of_one: false, kinds, is_fronted, index }.html()
    }
}

fn whole(documents: &[Document]) -> Result<Whole, ReportError> {
    if documents.is_empty() {
        return Err(ReportError::document("a page", "needs at least one result".to_owned()));
    }
    // The parts of a sweep are one result.
    let (parts, mut all): (Vec<Document>, Vec<Document>) =
        documents.iter().cloned().partition(|document| document.schema == RUNS);
    all.extend(Document::joined(&parts));
    let documents = &all[..];
    let names = short_names(documents);
    let mut compared = Vec::new();
    let mut kinds: Vec<(&str, Vec<(String, Section)>)> = Vec::new();
    for (document, name) in documents.iter().zip(&names) {
        if document.schema == SCHEMA {
            let results: Vec<Comparison> = document.typed()?;
            compared.extend(results.into_iter().map(|result| (name.clone(), result)));
            continue;
        }
        let shown = sections(document)?;
        let shown = shown.into_iter().map(|section| (name.clone(), section));
        match kinds.iter_mut().find(|(schema, _)| *schema == document.schema) {
            Some((_, kind)) => kind.extend(shown),
            None => kinds.push((&document.schema, shown.collect())),
        }
    }
    let has_runs_of_one = compared.len() == 1;
    let comparison = (!compared.is_empty()).then(|| thinned(&comparisons::joined(compared)));
    let answers = comparison.iter().flat_map(answers).collect::<Vec<_>>();
    let sections = kinds.into_iter().flat_map(|(schema, kind)| match schema {
        schema if has_front(schema) => kind.into_iter().map(|(_, section)| section).collect(),
        _ => vec![Section { id: part_id(schema), ..side_by_side(kind) }],
    });
    let mut sections: Vec<Section> = answers.into_iter().chain(sections).collect();
    if documents.len() > 1 {
        thin_all(sections.iter_mut().flat_map(|section| &mut section.sequences));
    }
    let is_fronted = documents.iter().all(|document| has_front(&document.schema));
    let kinds = documents.iter().map(|document| kind_name(&document.schema)).collect();
    Ok(Whole { comparison, sections, has_runs_of_one, kinds, is_fronted, index: None })
}

/// What a result is, in a word or two.
fn kind_name(schema: &str) -> String {
    let name = schema.trim_start_matches("cellpace.");
    let name = name.split_once('/').map_or(name, |(name, _)| name);
    match name {
        "compare" => "comparison",
        "transfer" => "UDP transfer",
        "transfers" => "transfer log",
        "packets" => "packet log",
        "mdi.show" => "Markov table",
        "run" | "attach" | "proxy" => "connection log",
        "conform" => "conformance test",
        "runs" => "sweep",
        name => name,
    }
    .to_owned()
}

/// `2 comparisons and a probe`, with a capital letter.
fn kinds_in_words(kinds: &[String]) -> String {
    let words = distinct(kinds.iter().cloned()).into_iter().map(|kind| {
        match kinds.iter().filter(|other| **other == kind).count() {
            1 if kind.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {kind}"),
            1 => format!("a {kind}"),
            count => format!("{count} {kind}s"),
        }
    });
    let words: Vec<String> = words.collect();
    let text = match &words[..] {
        [] => "no result".to_owned(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    };
    text[..1].to_uppercase() + &text[1..]
}

/// Where links lead to the results of a kind.
fn part_id(schema: &str) -> String {
    match schema {
        SCHEMA => "comparison".to_owned(),
        other => other.trim_start_matches("cellpace.").replace('/', "-"),
    }
}

/// What files there are, and what was left out of them.
#[derive(Serialize)]
struct Index {
    files: PageTable,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<PageTable>,
}

impl Index {
    fn of(documents: &[Document], left_out: &[(String, String)]) -> Self {
        let row = |document: &Document| vec![document.name.clone(), kind_name(&document.schema)];
        let header = |names: [&str; 2]| names.map(str::to_owned).into();
        let left_out = (!left_out.is_empty()).then(|| PageTable {
            title: "Left out".to_owned(),
            header: header(["file", "why"]),
            rows: left_out.iter().map(|(name, why)| vec![name.clone(), why.clone()]).collect(),
            ..PageTable::default()
        });
        let files = PageTable {
            title: "Files".to_owned(),
            header: header(["file", "result"]),
            rows: documents.iter().map(row).collect(),
            links: documents.iter().map(|each| format!("#{}", part_id(&each.schema))).collect(),
            ..PageTable::default()
        };
        Self { files, left_out }
    }
}

impl Document {
    /// Whether there is a page of it.
    ///
    /// # Errors
    /// When it is of a kind that is not known, or not what its schema says.
    pub fn check(&self) -> Result<(), ReportError> {
        whole(std::slice::from_ref(self)).map(|_| ())
    }
}

/// What a page is made of.
struct Whole {
    comparison: Option<Comparison>,
    sections: Vec<Section>,
    /// The comparison's runs have the numbers of one command's, which its packet log has, too.
    has_runs_of_one: bool,
    /// What each result is.
    kinds: Vec<String>,
    /// The first section is about the others.
    is_fronted: bool,
    index: Option<Index>,
}

/// What the script gets besides a comparison.
#[derive(Serialize)]
struct Drawn<'a> {
    looks: Vec<Look>,
    /// The names that have the first of these.
    names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<&'a Index>,
    sections: Vec<DrawnSection<'a>>,
    made_by: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct DrawnSection<'a> {
    /// Its title, sentence and facts are those of the page.
    alone: bool,
    /// It stands before the comparison.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    first: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    badge: &'a str,
    sentence: &'a str,
    facts: &'a [(String, String)],
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    matrix: Option<&'a Matrix>,
    charts: Vec<DrawnChart<'a>>,
    maps: Vec<DrawnMap<'a>>,
    tables: &'a [PageTable],
    folds_tables: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sequences: &'a [PacketSequence],
    /// The runs of the packets are those of the page's comparison.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    of_runs: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    results: &'a [String],
}

#[derive(Serialize)]
struct DrawnMap<'a> {
    #[serde(flatten)]
    map: Heatmap,
    note: &'a str,
}

impl<'a> DrawnSection<'a> {
    fn of(section: &'a Section, alone: bool, has_runs_of_one: bool) -> Self {
        let charts = section.charts.iter().filter(|chart| chart.has_values());
        let map = |(map, note): &'a (Heatmap, String)| DrawnMap { map: map.thinned(), note };
        Self {
            alone,
            first: section.is_answer,
            id: &section.id,
            title: &section.title,
            badge: &section.badge,
            sentence: &section.sentence,
            facts: &section.facts,
            text: &section.text,
            matrix: section.matrix.as_ref(),
            charts: charts.map(Chart::drawn).collect(),
            maps: section.maps.iter().map(map).collect(),
            tables: &section.tables,
            folds_tables: section.folds_tables,
            sequences: &section.sequences,
            of_runs: has_runs_of_one && section.results.is_empty(),
            results: &section.results,
        }
    }
}

impl Whole {
    fn html(&self) -> String {
        let title = escape(&self.title());
        let version = escape(env!("CARGO_PKG_VERSION"));
        let sentence = escape(&self.sentence());
        let has_others = !self.others().is_empty();
        let data = self.comparison.as_ref().map(|comparison| page_json(comparison, has_others));
        let data = data.unwrap_or_else(|| "null".to_owned());
        fill(
            TEMPLATE,
            &[
                ("title", &title),
                ("version", &version),
                ("sentence", &sentence),
                ("uplot-licence", UPLOT_LICENCE),
                ("uplot-style", UPLOT_STYLE),
                ("colours", &palette_css()),
                ("style", STYLE),
                ("data", &data),
                ("sections", &crate::json::embeddable(&self.drawn())),
                ("uplot", UPLOT),
                (
                    "script",
                    &format!(
                        "\"use strict\";\n(() => {{\n{}{}}})();\n",
                        script(&CHARTS),
                        script(&SCRIPTS)
                    ),
                ),
            ],
        )
    }

    fn title(&self) -> String {
        if let Some(front) = self.front() {
            return front.title.clone();
        }
        match (&self.comparison, self.others()) {
            (Some(comparison), []) => comparisons::title(comparison),
            (None, [section]) => section.title.clone(),
            _ => kinds_in_words(&self.kinds),
        }
    }

    /// The sections of results that are no comparison.
    fn others(&self) -> &[Section] {
        let answers = self.sections.iter().take_while(|section| section.is_answer).count();
        &self.sections[answers..]
    }

    /// The section that is about the others: the page has its title and sentence.
    fn front(&self) -> Option<&Section> {
        self.sections.first().filter(|_| self.is_fronted)
    }

    /// The only result's; several have theirs beside them.
    fn sentence(&self) -> String {
        match (&self.comparison, self.others()) {
            (None, [front, ..]) if self.is_fronted => front.sentence.clone(),
            (Some(comparison), []) => sentence(comparison),
            (None, [section]) => section.sentence.clone(),
            _ => String::new(),
        }
    }

    /// Those whose looks are their own.
    fn controllers(&self) -> Vec<&str> {
        let compared = self.comparison.iter().flat_map(controllers);
        let only = self.sections.first().filter(|_| self.sections.len() == 1);
        let named = only.iter().flat_map(|section| section.controllers.iter().map(String::as_str));
        compared.chain(named.filter(|_| self.comparison.is_none())).collect()
    }

    fn drawn(&self) -> Drawn<'_> {
        let is_alone = |at: usize| {
            let is_only = self.comparison.is_none() && self.sections.len() == 1;
            is_only || (at == 0 && self.is_fronted)
        };
        let mut made_by: Vec<(&'static str, String)> = Vec::new();
        let compared = self.comparison.iter().map(comparisons::made_by);
        for made in compared.chain(self.sections.iter().map(|section| section.made_by.clone())) {
            made_by.extend(foot(&made));
        }
        made_by.extend(date().map(|date| ("Date", date)));
        made_by.dedup();
        let names = self.controllers();
        Drawn {
            looks: looks(MAX_LOOKS.max(names.len())),
            names,
            index: self.index.as_ref(),
            sections: self
                .sections
                .iter()
                .enumerate()
                .map(|(at, section)| DrawnSection::of(section, is_alone(at), self.has_runs_of_one))
                .collect(),
            made_by,
        }
    }
}

/// What stands at the foot of the page about what made a result.
fn foot(made: &MadeBy) -> Vec<(&'static str, String)> {
    let seeds = match made.seeds {
        None => String::new(),
        Some((least, most)) if least == most => least.to_string(),
        Some((least, most)) => format!("{least} to {most}"),
    };
    let version = if made.version.is_empty() { "" } else { "cellpace " };
    [
        ("Command", made.command.clone()),
        ("Made by", format!("{version}{}", made.version)),
        ("Seed", seeds),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

/// When the page is made, in UTC: `SOURCE_DATE_EPOCH` if that is set to seconds since 1970, else the
/// clock. Only the page has it: figures do not depend on the day.
fn date() -> Option<String> {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    given.or_else(clock).map(utc_text)
}

/// The documents' names without folder and ending, where that tells them apart.
fn short_names(documents: &[Document]) -> Vec<String> {
    let stem = |document: &Document| {
        let path = std::path::Path::new(&document.name);
        path.file_stem()
            .map_or_else(|| document.name.clone(), |stem| stem.to_string_lossy().into_owned())
    };
    let stems: Vec<String> = documents.iter().map(stem).collect();
    let is_one_of_several = |stem: &String| stems.iter().filter(|other| *other == stem).count() > 1;
    match stems.iter().any(is_one_of_several) {
        true => documents.iter().map(|document| document.name.clone()).collect(),
        false => stems,
    }
}

/// Scripts without the lines that only explain them, and without indentation: no text of them has several lines.
pub(crate) fn script(files: &[&str]) -> String {
    let is_comment =
        |line: &str| line.starts_with("//") || (line.starts_with("/**") && line.ends_with("*/"));
    let lines = files.iter().flat_map(|file| file.lines()).map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !is_comment(line)).fold(
        String::new(),
        |mut script, line| {
            script.push_str(line);
            script.push('\n');
            script
        },
    )
}

/// Puts the parts into their places in one pass: what looks like a place within a part stays.
fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let length = parts.iter().map(|(_, text)| text.len()).sum::<usize>() + template.len();
    let mut page = String::with_capacity(length);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = after.split_once("}}") else { break };
        let part = parts.iter().find(|(known, _)| *known == name);
        page.push_str(part.map_or("", |(_, text)| text));
        rest = after;
    }
    page.push_str(rest);
    page
}

/// The palette as CSS variables `--c0`, `--c1`, and so on, for light and dark.
pub fn palette_css() -> String {
    let declare = |colours: &[&str]| {
        colours.iter().enumerate().fold(String::new(), |mut css, (index, colour)| {
            let _ = write!(css, "--c{index}:{colour};");
            css
        })
    };
    let (light, dark) = (declare(&palette::ON_LIGHT), declare(&palette::ON_DARK));
    format!(
        ":root{{{light}}}@media(prefers-color-scheme:dark){{:root:not(.paper){{{dark}}}}}@media print{{:root:root{{{light}}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::to_json;

    /// The page of a comparison by way of its JSON, as the program makes it.
    fn html(comparison: &Comparison) -> String {
        page(&[Document::read("a.json", to_json(comparison)).unwrap()]).unwrap()
    }

    #[test]
    fn six_controllers_over_300_s_stay_below_1_5_mb() {
        let page = html(&example::large("drive", 6, 1, 300));
        println!("6 x 300 s: {} bytes", page.len());
        assert!(page.len() < 1_500_000, "{}", page.len());
    }

    #[test]
    fn a_large_sweep_stays_below_1_5_mb_too() {
        let page = html(&example::sweep());
        println!("6 x 300 s x 8 traces x 5 seeds: {} bytes", page.len());
        assert!(page.len() < 1_500_000, "{}", page.len());
    }

    #[test]
    fn names_from_users_cannot_become_markup() {
        let mut comparison = example::comparison();
        let nasty = "</script><script>alert(1)</script><b><img src=x>{{script}}";
        comparison.runs[0].cc = nasty.to_owned();
        comparison.runs.iter_mut().for_each(|run| run.trace = nasty.to_owned());
        comparison.command = nasty.to_owned();
        let page = html(&comparison);
        let plain = html(&example::comparison());
        let scripts = |page: &str| page.matches("<script").count();
        assert_eq!(scripts(&page), scripts(&plain));
        assert_eq!(page.matches("</script").count(), plain.matches("</script").count());
        assert!(!page.contains("<img") && page.contains("&lt;img src=x"));
        assert_eq!(page.matches("uPlot (v1.6.32)").count(), 1, "a name must not fill a place");
    }

    #[test]
    fn the_page_asks_for_nothing_outside() {
        let page = html(&example::comparison());
        for outside in [
            "src=",
            "@import",
            "url(h",
            "url(/",
            "fetch(",
            "XMLHttpRequest",
            "<link rel=\"stylesheet",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
        assert!(page.contains("Permission is hereby granted"), "uPlot's licence goes with it");
    }

    #[test]
    fn every_place_of_the_template_is_filled() {
        let page = html(&example::comparison());
        assert!(!page.contains("{{"), "{:?}", page.split_once("{{").map(|(_, rest)| &rest[..40]));
    }
}
