//! What can go wrong when results are written, or read back.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a result could not be written or read. Every variant names the file, or what is missing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The path names no file, such as `..` or the empty text.
    #[error("cannot write {}: not the name of a file", path.display())]
    NoFileName {
        /// The path as given.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file that was asked for, not the one written aside.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A stored result is none, or of a kind that is not known.
    #[error("{name}: {why}")]
    Document {
        /// The file.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A chart could not be drawn.
    #[error("a chart as PNG: {why}")]
    Picture {
        /// What is wrong with it.
        why: String,
    },
    /// Left out when cellpace was built.
    #[error(
        "this cellpace was built without the feature `{feature}`, which {output} needs; build it with \
         `cargo build --features {feature}`"
    )]
    Missing {
        /// Of the program.
        feature: &'static str,
        /// What was asked for, with its article.
        output: &'static str,
    },
    /// The columns of a log could not be encoded.
    #[cfg(feature = "parquet")]
    #[error("cannot write the log {}: {source}", path.display())]
    Parquet {
        /// The file that was asked for.
        path: PathBuf,
        /// The encoder's error.
        source: parquet::errors::ParquetError,
    },
}

impl ReportError {
    /// The stored result `name` cannot be shown.
    pub fn document(name: &str, why: String) -> Self {
        Self::Document { name: name.to_owned(), why }
    }

    /// The file system refused to write `path`.
    pub fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
