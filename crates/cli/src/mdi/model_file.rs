//! Markov tables in files, and which part of them is meant.

use std::path::Path;
use std::str::FromStr;

use cellpace_cc::MAX_FILE_BYTES;
use cellpace_lab::trace_files;
use cellpace_mdi::{Counts, Model};
use cellpace_report::write_atomically;

use crate::error::CommandError;
use crate::output::{check_files, is_stdout, refuse_stdout};

/// Reads a model, and returns it with the size of its file. A file that cannot be read or is none is
/// wrong usage.
pub(super) fn read_model(path: &Path) -> Result<(Model, usize), CommandError> {
    let bytes = read_bytes(path)?;
    let model = Model::from_bytes(&bytes);
    let name =
        if is_stdout(path) { "standard input".to_owned() } else { path.display().to_string() };
    let model = model.map_err(|error| CommandError::usage(format!("{name}: {error}")))?;
    Ok((model, bytes.len()))
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, CommandError> {
    trace_files().bytes(&path.to_string_lossy(), MAX_FILE_BYTES).map_err(CommandError::usage)
}

/// Writes a model, whole or not at all. Returns its size in bytes.
pub(super) fn save_model(path: &Path, model: &Model) -> Result<usize, CommandError> {
    let bytes = model.to_bytes();
    write_atomically(path, &bytes).map_err(CommandError::failed)?;
    Ok(bytes.len())
}

/// Refuses what cannot be written before the work is done, not after.
pub(super) fn check_output(path: &Path) -> Result<(), CommandError> {
    refuse_stdout("--output", Some(path), "a table")?;
    check_files(&[("--output", Some(path))])
}

/// Whether the name of a file ends so, whatever the case.
pub(super) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// Which part of a model: `all` or a number of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserSelection {
    /// All numbers of users together.
    All,
    /// One.
    Only(u32),
}

impl FromStr for UserSelection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::Only).map_err(|_| "give `all` or a number".to_owned()),
        }
    }
}

impl UserSelection {
    /// Returns the model with this part only.
    pub(super) fn of(self, mut model: Model) -> Result<Model, CommandError> {
        let Self::Only(users) = self else { return Ok(model) };
        if model.matching(users).is_none() {
            let known: Vec<String> =
                model.parts.iter().map(|part| part.users.to_string()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(CommandError::usage(format!(
                "--users {users}: this table has no such part; it has {known} (0: unknown)"
            )));
        }
        model.parts.retain(|part| part.users == users);
        Ok(model)
    }
}

/// Returns the counts of all parts.
pub(super) fn all_counts(model: &Model) -> Counts {
    match &model.parts[..] {
        [part] => part.counts.clone(),
        _ => model.combined(),
    }
}
