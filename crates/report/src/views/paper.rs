//! Claims of papers and what came out of them: `cellpace.paper/1`.

use serde::Deserialize;

use crate::heatmap::Heatmap;
use crate::section::{Chart, Form, Line, MadeBy, PageTable, Section};

#[derive(Deserialize)]
pub(crate) struct Paper {
    version: String,
    #[serde(default)]
    front: Option<Front>,
    claims: Vec<Claim>,
}

/// What stands above the claims.
#[derive(Deserialize)]
struct Front {
    title: String,
    sentence: String,
    tables: Vec<PageTable>,
}

#[derive(Deserialize)]
struct Claim {
    id: String,
    r#where: String,
    says: String,
    /// The few words of a front page; what it says, values and charts are then enough.
    #[serde(default)]
    headline: Option<String>,
    /// The page that has all of it.
    #[serde(default)]
    page: Option<String>,
    shown: String,
    because: String,
    run_it: String,
    original: Vec<(String, String)>,
    checks: Vec<Check>,
    #[serde(default)]
    charts: Vec<ClaimChart>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    level: String,
    setup: String,
    passed: bool,
    is_noise: bool,
    value: String,
    bound: String,
    place: String,
}

#[derive(Deserialize)]
struct ClaimChart {
    kind: String,
    title: String,
    unit: String,
    x_label: String,
    caption: String,
    log: String,
    lines: Vec<ClaimLine>,
    names: Vec<String>,
    table: Option<PageTable>,
    #[serde(default)]
    maps: Vec<Heatmap>,
    #[serde(default)]
    x_range: Option<[f64; 2]>,
    #[serde(default)]
    y_range: Option<[f64; 2]>,
}

#[derive(Deserialize)]
struct ClaimLine {
    name: String,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
    #[serde(default)]
    look: Option<usize>,
    #[serde(default)]
    printed: bool,
    #[serde(default)]
    spread: Vec<[f64; 4]>,
}

impl Paper {
    /// The front, if there is one, and a section for each claim.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let made_by = || MadeBy { version: self.version.clone(), ..MadeBy::default() };
        let front = self.front.iter().map(|front| Section {
            title: front.title.clone(),
            sentence: front.sentence.clone(),
            tables: front.tables.clone(),
            made_by: made_by(),
            ..Section::default()
        });
        front.chain(self.claims.iter().map(Claim::section)).collect()
    }
}

impl Claim {
    fn section(&self) -> Section {
        let charts = || self.charts.iter().filter(|chart| chart.maps.is_empty());
        let section = Section {
            id: self.id.clone(),
            title: self.r#where.clone(),
            badge: self.shown.clone(),
            sentence: self.says.clone(),
            made_by: MadeBy::default(),
            ..Section::default()
        };
        if let Some(headline) = &self.headline {
            return Section {
                title: headline.clone(),
                charts: charts().take(1).map(ClaimChart::chart).collect(),
                tables: self.tables().take(1).chain(self.page_table()).collect(),
                ..section
            };
        }
        let tables = self.tables();
        Section {
            facts: self.facts(),
            text: self.because.clone(),
            charts: charts().map(ClaimChart::chart).collect(),
            maps: self.charts.iter().flat_map(ClaimChart::maps).collect(),
            tables: tables.chain(self.check_table()).collect(),
            ..section
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![("Claim".to_owned(), self.id.clone())];
        if !self.run_it.is_empty() {
            facts.push(("Run it".to_owned(), self.run_it.clone()));
        }
        facts.extend(self.original.iter().map(|(name, value)| {
            (format!("The paper: {}", name.replace('_', " ")), value.trim_matches('"').to_owned())
        }));
        facts
    }

    /// The tables of its charts, but those that repeat what bars show.
    fn tables(&self) -> impl Iterator<Item = PageTable> {
        self.charts.iter().filter_map(|chart| chart.table.clone())
    }

    /// The check that decides, with the way to all of them.
    fn page_table(&self) -> Option<PageTable> {
        let check = self.checks.first()?;
        let cells = [&self.id, &check.name, &check.value, &check.bound];
        Some(PageTable {
            title: "The figure that decides".to_owned(),
            header: super::header("claim|check|value|bound"),
            rows: vec![cells.map(String::clone).to_vec()],
            links: self.page.iter().map(|page| format!("{page}.html#{}", self.id)).collect(),
            ..PageTable::default()
        })
    }

    fn check_table(&self) -> Option<PageTable> {
        let row = |check: &Check| {
            let noise = if check.is_noise { " ~" } else { "" };
            let passed = if check.passed { "yes" } else { "no" };
            vec![
                check.name.clone(),
                format!("{passed}{noise}"),
                check.value.clone(),
                check.bound.clone(),
                check.place.clone(),
                check.level.clone(),
                check.setup.clone(),
            ]
        };
        let is_noisy = self.checks.iter().any(|check| check.is_noise);
        let note = if is_noisy { "~: the bound lies within the noise of the value." } else { "" };
        let header = ["check", "holds", "value", "bound", "where", "level", "set-up"];
        (!self.checks.is_empty()).then(|| PageTable {
            title: "Checks".to_owned(),
            note: note.to_owned(),
            header: header.map(str::to_owned).to_vec(),
            rows: self.checks.iter().map(row).collect(),
            ..PageTable::default()
        })
    }
}

impl ClaimChart {
    fn chart(&self) -> Chart {
        let line = |line: &ClaimLine| Line {
            name: line.name.clone(),
            x: line.x.clone(),
            y: line.y.iter().map(|y| y.map_or(f32::NAN, |y| y as f32)).collect(),
            look: line.look,
            hollow: line.printed,
            spread: line.spread.clone(),
            ..Line::default()
        };
        Chart {
            title: self.unit.clone(),
            note: self.caption.clone(),
            x_label: self.x_label.clone(),
            lines: self.lines.iter().map(line).collect(),
            log_x: self.log.contains('x'),
            log_y: self.log.contains('y'),
            form: self.form(),
            x_range: self.x_range,
            y_range: self.y_range,
            names: self.names.clone(),
            ..Chart::default()
        }
    }

    fn form(&self) -> Form {
        match self.kind.as_str() {
            "scatter" => Form::Marks,
            "regions" => Form::Regions,
            "stairs" | "cdf" | "ccdf" => Form::Stairs,
            "histogram" => Form::Steps,
            _ => Form::Lines,
        }
    }

    /// Its pictures, under its own title where they have none.
    fn maps(&self) -> impl Iterator<Item = (Heatmap, String)> {
        self.maps.iter().map(|map| {
            let title = if map.title.is_empty() { &self.title } else { &map.title };
            (Heatmap { title: title.clone(), ..map.clone() }, self.caption.clone())
        })
    }
}
