//! What the page asks for: one controller on one path, in the words of `cellpace compare`.

use std::fmt::Display;

use cellpace_base::{ParamValue, parse_span};
use cellpace_path::FieldError;
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{FlowSpec, PathText, Scenario, SimError, read_controller};
use serde::{Deserialize, Serialize};

/// Flows that share the link at most: the charts have a line for each.
const MAX_FLOWS: u64 = 16;
/// The longest run: what a page should keep in memory and can draw.
const MAX_DURATION: &str = "600s";

/// What stands for a trace that is left out.
pub(crate) const TRACE: &str = "lte-driving";

/// One run. Every field but `cc` is an option of `cellpace compare` with its default and its form.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Query {
    /// The controller.
    pub cc: String,
    /// The path; without a trace `lte-driving`.
    #[serde(flatten)]
    pub path: PathText,
    /// Flows of the controller that share the link, 1 to 16.
    pub flows: String,
    /// Length of the run, at most 600 s.
    pub duration: String,
    /// Seed of everything random.
    pub seed: String,
}

impl Default for Query {
    fn default() -> Self {
        let scenario = Scenario::default();
        Self {
            cc: String::new(),
            path: PathText::default(),
            flows: "1".to_owned(),
            duration: scenario.duration.to_string(),
            seed: scenario.seed.to_string(),
        }
    }
}

/// Why there is no run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryError {
    /// The field of the query that is to blame; empty: none alone.
    pub field: &'static str,
    /// What is wrong.
    pub error: String,
}

impl QueryError {
    /// An error that no field alone is to blame for.
    pub(crate) fn of_all(error: impl Display) -> Self {
        Self { field: "", error: error.to_string() }
    }
}

fn named<T>(field: &'static str, read: Result<T, impl Display>) -> Result<T, QueryError> {
    read.map_err(|error| QueryError { field, error: error.to_string() })
}

/// Reads a whole number between two ends.
fn whole(field: &'static str, text: &str, low: u64, high: u64) -> Result<u64, QueryError> {
    let read = named(field, u64::read(text.trim(), &(low..=high)))?;
    read.ok_or_else(|| {
        let error = format!("`{text}` is no whole number from {low} to {high}");
        QueryError { field, error }
    })
}

impl Query {
    /// The scenario that `cellpace compare` makes of the same options.
    ///
    /// # Errors
    /// When a field does not read, the scenario contradicts itself, or it is larger than a page
    /// should run.
    pub fn scenario(&self, files: &mut TraceFiles<'_>) -> Result<Scenario, QueryError> {
        let cc = named("cc", read_controller(&self.cc, files))?;
        let duration = named("duration", parse_span(&self.duration))?;
        if parse_span(MAX_DURATION).is_ok_and(|most| duration > most) {
            let error = format!("`{}`: the page runs {MAX_DURATION} at most", self.duration);
            return Err(QueryError { field: "duration", error });
        }
        let flows = whole("flows", &self.flows, 1, MAX_FLOWS)?;
        let mut path = self.path.clone();
        if path.texts("trace").is_empty() {
            path.set("trace", vec![TRACE.to_owned()]).map_err(QueryError::of_all)?;
        }
        let scenario = Scenario {
            flows: vec![FlowSpec::bulk(cc); flows as usize],
            duration,
            seed: whole("seed", &self.seed, 0, u64::MAX)?,
            ..path.conditions(files)?
        };
        let checked = scenario.check().and_then(|()| scenario.check_delivers());
        checked.map_err(|error| match error {
            SimError::Field(error) => error.into(),
            error => QueryError::of_all(error),
        })?;
        Ok(scenario)
    }
}

impl From<FieldError> for QueryError {
    fn from(FieldError { field, why }: FieldError) -> Self {
        Self { field, error: why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(query: &str) -> QueryError {
        let query: Query = serde_json::from_str(query).unwrap();
        query.scenario(&mut TraceFiles::none()).unwrap_err()
    }

    #[test]
    fn what_is_left_out_is_as_in_the_program() {
        let query: Query = serde_json::from_str(r#"{"cc":"cubic"}"#).unwrap();
        let scenario = query.scenario(&mut TraceFiles::none()).unwrap();
        let default = Scenario::default();
        assert_eq!(scenario.trace().to_string(), "lte-driving");
        assert_eq!(scenario.link.rtt().to_string(), "40ms");
        assert_eq!(scenario.link.down.queue.to_string(), "droptail:2MB");
        assert_eq!((scenario.duration, scenario.skip), (default.duration, default.skip));
        assert_eq!((scenario.seed, scenario.bin), (default.seed, default.bin));
    }

    #[test]
    fn errors_name_the_field() {
        for (query, field, error) in [
            (r#"{"cc":"verbus"}"#, "cc", "there is no controller `verbus`; did you mean `verus`?"),
            (r#"{"cc":"bbr","rtt":"40"}"#, "rtt", "`40` needs a unit"),
            (r#"{"cc":"bbr","queue":"codel:5ms"}"#, "queue", "should be key=value"),
            (r#"{"cc":"bbr","trace":"constant:0mbit"}"#, "trace", "a rate of zero"),
            (r#"{"cc":"bbr","trace":"drive.down"}"#, "trace", "drive.down"),
            (r#"{"cc":"bbr","loss":"100%"}"#, "loss", "nothing arrives"),
            (r#"{"cc":"bbr","handover":["9s","3s"]}"#, "handover", "order of time"),
            (r#"{"cc":"bbr","handover":["90s"]}"#, "handover", "before the end of the run"),
            (r#"{"cc":"bbr","duration":"0s"}"#, "duration", "at least a millisecond"),
            (r#"{"cc":"bbr","duration":"1h"}"#, "duration", "600s at most"),
            (r#"{"cc":"bbr","flows":"17"}"#, "flows", "from 1 to 16"),
            (r#"{"cc":"bbr","seed":"-1"}"#, "seed", "no whole number"),
            (r#"{"cc":"bbr","duration":"1s"}"#, "skip", "skip (2s) leaves nothing"),
        ] {
            let found = error_of(query);
            assert_eq!(found.field, field, "{query}: {found:?}");
            assert!(found.error.contains(error), "{query}: {found:?}");
        }
    }
}
