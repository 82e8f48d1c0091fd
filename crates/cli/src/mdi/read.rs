//! Markov tables from files, whatever their form, and which part of them is meant.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use cellpace_mdi::{Counts, Model};

use crate::error::Failure;

/// Many times the largest table of the papers.
const MAX_BYTES: u64 = 256 << 20;

/// A table, and how large its file is.
pub(super) struct Table {
    pub(super) model: Model,
    pub(super) bytes: usize,
}

/// Reads a table's file or a matrix in CSV. What cannot be had or is neither is wrong usage.
pub(super) fn read(path: &Path) -> Result<Table, Failure> {
    let wrong = |why: &dyn fmt::Display| Failure::usage(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let mut bytes = Vec::new();
    // What is no regular file (a pipe, a device) does not tell its size.
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if read as u64 > MAX_BYTES {
        return Err(wrong(&format!("more than {} MB are no Markov table", MAX_BYTES >> 20)));
    }
    let model = Model::read(&bytes).map_err(|error| wrong(&error))?;
    Ok(Table { model, bytes: bytes.len() })
}

/// Which part of a table: `all` or a number of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    /// All numbers of users together.
    All,
    /// One.
    Only(u32),
}

impl FromStr for Users {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::Only).map_err(|_| "give `all` or a number".to_owned()),
        }
    }
}

impl Users {
    /// The model with this part only.
    pub(super) fn of(self, mut model: Model) -> Result<Model, Failure> {
        let Self::Only(users) = self else { return Ok(model) };
        if model.matching(users).is_none() {
            let known: Vec<String> =
                model.parts.iter().map(|part| part.users.to_string()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Failure::usage(format!(
                "--users {users}: this table has no such part; it has {known} (0: unknown)"
            )));
        }
        model.parts.retain(|part| part.users == users);
        Ok(model)
    }
}

/// The counts of all parts.
pub(super) fn counts(model: &Model) -> Counts {
    match &model.parts[..] {
        [part] => part.counts.clone(),
        _ => model.combined(),
    }
}
