//! The place of Parquet files as results in a program that was built without the feature `parquet`.

use std::fs::File;

use crate::{Document, ReportError};

impl Document {
    /// Fails: [`ReportError::Missing`].
    ///
    /// # Errors
    /// Always.
    pub fn read_parquet(_: &str, _: &File) -> Result<Self, ReportError> {
        Err(ReportError::Missing { feature: "parquet", output: "a packet log" })
    }
}
