//! What the page shows of each kind of result.

mod conformance;
mod connection_samples;
mod connections;
mod connections_over_time;
mod experiment;
mod logged_transfers;
mod many_flows;
mod markov;
mod packets;
mod paper;
mod probe;
mod recorded;
mod sweep;
mod transfer;
mod video;

use cellpace_experiment::EXPERIMENT_SCHEMA;
use serde::de::DeserializeOwned;

pub(crate) use self::connection_samples::{ConnectionSamples, SampledFigure};
pub use self::experiment::experiment_plan_text;

use crate::conformance::{CONFORMANCE_SCHEMA, Conformance};
use crate::document::Document;
use crate::section::Section;
use crate::{Comparison, ReportError};

/// The schema of claims of papers.
const PAPER: &str = "cellpace.paper/1";

/// The schema of a sweep's runs.
pub(crate) const RUNS: &str = "cellpace.runs/1";

/// Whether results of this schema have a front and many parts, which stand one under the other.
pub(crate) fn has_front(schema: &str) -> bool {
    [PAPER, CONFORMANCE_SCHEMA].contains(&schema)
}

/// What the page shows of `document`, which is no comparison.
pub(crate) fn sections(document: &Document) -> Result<Vec<Section>, ReportError> {
    match document.schema.as_str() {
        "cellpace.transfer/1" => each(document, transfer::ReportedTransfer::section),
        "cellpace.mdi.show/2" => each(document, markov::MarkovTable::section),
        PAPER => {
            let papers: Vec<paper::Paper> = document.typed()?;
            Ok(papers.iter().flat_map(paper::Paper::sections).collect())
        }
        CONFORMANCE_SCHEMA => {
            let results: Vec<Conformance> = document.typed()?;
            Ok(results.iter().flat_map(Conformance::sections).collect())
        }
        EXPERIMENT_SCHEMA => {
            let result = document.experiment()?;
            Ok(result.iter().map(experiment::section).collect())
        }
        "cellpace.probe/1" => each(document, probe::ProbeResult::section),
        "cellpace.run/1" | "cellpace.attach/1" | "cellpace.proxy/1" => {
            let command = document.schema.trim_start_matches("cellpace.").trim_end_matches("/1");
            Ok(vec![connections::section(command, &document.typed()?)])
        }
        "cellpace.recorded/1" => each(document, recorded::Recorded::section),
        "cellpace.packets/1" => Ok(vec![packets::section(&document.typed()?)]),
        RUNS => Ok(vec![sweep::section(&document.typed()?)]),
        "cellpace.transfers/1" => Ok(vec![logged_transfers::section(&document.typed()?)]),
        other => {
            let why = format!("a result of the kind `{other}`, of which there is no page");
            Err(ReportError::document(&document.name, why))
        }
    }
}

/// The connections of `document`, to be compared with others; `None` of a kind that has none.
pub(crate) fn connection_samples(
    document: &Document,
) -> Result<Option<ConnectionSamples>, ReportError> {
    match document.schema.as_str() {
        "cellpace.run/1" | "cellpace.attach/1" | "cellpace.proxy/1" => {
            Ok(Some(connections::samples(&document.typed()?)))
        }
        "cellpace.transfer/1" => {
            let results: Vec<transfer::ReportedTransfer> = document.typed()?;
            Ok(results.first().map(transfer::ReportedTransfer::samples))
        }
        _ => Ok(None),
    }
}

fn each<T: DeserializeOwned>(
    document: &Document,
    section: fn(&T) -> Section,
) -> Result<Vec<Section>, ReportError> {
    Ok(document.typed()?.iter().map(section).collect())
}

/// What answers the question of a comparison, where that is not what the link did with packets.
pub(crate) fn answers(comparison: &Comparison) -> Vec<Section> {
    let all = [
        logged_transfers::answer(comparison),
        video::answer(comparison),
        video::players(comparison),
        many_flows::answer(comparison),
    ];
    let answers = all.into_iter().flatten();
    answers.map(|section| Section { is_answer: true, ..section }).collect()
}

/// Names of columns, written in one line.
fn header(names: &str) -> Vec<String> {
    names.split('|').map(str::to_owned).collect()
}

impl Document {
    /// Facts, tables and sentence for a terminal. A comparison has [`table`](crate::table).
    ///
    /// # Errors
    /// When the result is of a kind without, or not what its schema says.
    pub fn text(&self) -> Result<String, ReportError> {
        Ok(sections(self)?.iter().map(Section::text).collect())
    }
}
