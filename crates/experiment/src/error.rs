//! What is wrong with an experiment's file or its records.

use thiserror::Error;

/// What is wrong with the file of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExperimentError {
    /// It is no TOML, lacks a field, or has one that is not known.
    #[error("line {line}: {reason}")]
    Syntax {
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A field has a value that it cannot have.
    #[error("line {line}: {field}: {reason}")]
    Field {
        /// Where, from 1.
        line: usize,
        /// The field's name.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// What is wrong with a line of an experiment's records.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct RecordError {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}
