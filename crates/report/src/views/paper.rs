//! Claims of papers and what came out of them: `cellpace.paper/1`.

use serde::Deserialize;

use crate::heatmap::Heatmap;
use crate::section::{Chart, Line, MadeBy, PageTable, Section};

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
}

#[derive(Deserialize)]
struct ClaimLine {
    name: String,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
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
        let mut facts = vec![("Verdict".to_owned(), self.shown.clone())];
        facts.push(("Claim".to_owned(), self.id.clone()));
        if !self.run_it.is_empty() {
            facts.push(("Run it".to_owned(), self.run_it.clone()));
        }
        facts.extend(self.original.iter().map(|(name, value)| {
            (format!("The paper: {}", name.replace('_', " ")), value.clone())
        }));
        if !self.because.is_empty() {
            facts.push(("Because".to_owned(), self.because.clone()));
        }
        let tables = self.charts.iter().filter_map(|chart| chart.table.clone());
        let maps = self
            .charts
            .iter()
            .flat_map(|chart| chart.maps.iter().map(|map| (map.clone(), chart.caption.clone())));
        Section {
            title: self.r#where.clone(),
            sentence: self.says.clone(),
            facts,
            charts: self.charts.iter().map(ClaimChart::chart).collect(),
            maps: maps.collect(),
            tables: tables.chain(self.check_table()).collect(),
            ..Section::default()
        }
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
        })
    }
}

impl ClaimChart {
    fn chart(&self) -> Chart {
        let line = |line: &ClaimLine| Line {
            name: line.name.clone(),
            x: line.x.clone(),
            y: line.y.iter().map(|y| y.map_or(f32::NAN, |y| y as f32)).collect(),
        };
        Chart {
            title: self.title.clone(),
            unit: self.unit.clone(),
            note: self.caption.clone(),
            x_label: self.x_label.clone(),
            lines: self.lines.iter().map(line).collect(),
            log_x: self.log.contains('x'),
            log_y: self.log.contains('y'),
            marks: self.kind == "scatter",
            names: self.names.clone(),
            ..Chart::default()
        }
    }
}
