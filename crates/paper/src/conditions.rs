//! On what machine a recording was made, and when.

use serde::{Deserialize, Serialize};

use crate::machine::{Lateness, Machine};

/// Where the conditions of recordings are kept, as `NAME.json`.
pub(crate) const FOLDER: &str = "papers/recorded";
/// Their schema.
pub(crate) const SCHEMA: &str = "cellpace.recording/1";

/// Under what conditions a recording was made: `cellpace.recording/1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    pub(crate) schema: String,
    /// The day in UTC, as `2026-11-23`.
    pub date: String,
    /// The version of the program.
    pub version: String,
    /// A short name of what the recording was to be: where it is another now, the recording is stale.
    pub description: String,
    /// The commands.
    pub commands: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// How much later than asked timers fired, before or after, whichever is more; in microseconds.
    pub lateness_us: Lateness,
    /// How many processes wanted to run at the start.
    pub load: f64,
    /// Why it does not count; empty where it does.
    pub invalid: Vec<String>,
}

impl Conditions {
    pub(crate) fn read(name: &str, text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("{FOLDER}/{name}.json: {why}");
        let read: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match &*read.schema {
            SCHEMA => Ok(read),
            other => Err(wrong(format!("has the schema `{other}`, not `{SCHEMA}`"))),
        }
    }
}
