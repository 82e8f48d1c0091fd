//! What can be wrong with a path and its parts.

use std::fmt::Display;

use cellpace_base::{ParamError, QuantityError};
use thiserror::Error;

/// Which field was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {why}")]
pub struct FieldError {
    /// The field as scenario files call it, with `_` between words.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl FieldError {
    /// Names the field whose text was read.
    ///
    /// # Errors
    /// When `read` is one.
    pub fn of<T>(field: &'static str, read: Result<T, impl Display>) -> Result<T, Self> {
        read.map_err(|why| Self::new(field, why))
    }

    /// What is wrong with a field.
    pub fn new(field: &'static str, why: impl Display) -> Self {
        Self { field, why: why.to_string() }
    }

    /// The option that sets the field: `--uplink-loss`.
    pub fn option(&self) -> String {
        format!("--{}", self.field.replace('_', "-"))
    }
}

/// What can be wrong with a path.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// A queue, trace or loss model that does not exist.
    #[error("there is no {what} `{name}`{hint}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The nearest name, or all, as a half sentence.
        hint: String,
    },
    /// A quantity does not read.
    #[error("{what}: {source}")]
    Quantity {
        /// Whose.
        what: String,
        /// Why.
        source: QuantityError,
    },
    /// A value that is all there is, and does not read.
    #[error(transparent)]
    Value(QuantityError),
    /// A quantity below zero.
    #[error("`{text}`: a {what} is not negative")]
    Negative {
        /// What was written.
        text: String,
        /// What it should have been.
        what: &'static str,
    },
    /// A parameter of a queue or trace.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A queue that holds no packet.
    #[error("{what}: `{text}` is smaller than one 1500-byte packet, so nothing would get through")]
    TooSmall {
        /// Whose.
        what: String,
        /// The size as written.
        text: String,
    },
    /// An impairment of every packet.
    #[error("{what}: nothing would get through")]
    NothingPasses {
        /// What was written.
        what: String,
    },
    /// A written form with its parts in the wrong order or number.
    #[error("`{text}` does not read; write {form}")]
    Form {
        /// What was written.
        text: String,
        /// The right form.
        form: &'static str,
    },
    /// A file that does not exist.
    #[error("there is no file `{name}`")]
    NoFile {
        /// The file.
        name: String,
    },
    /// A file where files are not available.
    #[error("`{name}` is a file, and only generated traces and delays can be used here")]
    FileNotAllowed {
        /// The file.
        name: String,
    },
    /// A file that cannot be read, or is not what it should be.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl PathError {
    pub(crate) fn unknown(
        what: &'static str,
        name: &str,
        near: Option<&str>,
        known: &[&str],
    ) -> Self {
        let hint = match near {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; there are {}", known.join(", ")),
        };
        Self::Unknown { what, name: name.to_owned(), hint }
    }
}

/// What is wrong with a trace, or another table of lines.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Nothing in it.
    #[error("{name}: empty; a trace needs at least one line")]
    Empty {
        /// The file.
        name: String,
    },
    /// All opportunities at time zero: the trace could not be repeated.
    #[error("{name}: needs a last timestamp above 0, which is the period after which it repeats")]
    NoPeriod {
        /// The file.
        name: String,
    },
    /// A line that is not what it should be.
    #[error("{name}, line {line}: {problem}")]
    Line {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong, with what was found.
        problem: String,
    },
    /// More than a trace may hold.
    #[error("{name}: more than {limit} lines; cut it into shorter traces")]
    TooLong {
        /// The file.
        name: String,
        /// The most lines there may be.
        limit: usize,
    },
    /// The file could not be opened or read.
    #[error("{name}: {problem}")]
    Unreadable {
        /// The file.
        name: String,
        /// The error of the system.
        problem: String,
    },
}

impl TraceError {
    /// A problem in a line of the input `name`, counted from 1.
    pub fn line(name: &str, line: u64, problem: impl Into<String>) -> Self {
        Self::Line { name: name.to_owned(), line, problem: problem.into() }
    }

    /// Adds how a table of rates becomes a trace, if the file is named like one.
    pub(crate) fn with_csv_hint(self) -> Self {
        match self {
            Self::Line { name, line, problem } if name.ends_with(".csv") => {
                let stem = name.strip_suffix(".csv").unwrap_or(&name);
                let convert = format!("cellpace trace convert {name} -o {stem}.down");
                let problem = format!("{problem}; make a trace of the CSV: {convert}");
                Self::Line { name, line, problem }
            }
            error => error,
        }
    }
}
