//! The place of the log of transfers in a program that was built without the feature `parquet`.

use std::convert::Infallible;
use std::path::Path;

use crate::{ReportError, Run};

/// A log of transfers that cannot be made: the feature `parquet` is off.
pub struct TransferLog(Infallible);

impl TransferLog {
    /// Fails: [`ReportError::Missing`].
    pub fn create(_: &Path) -> Result<Self, ReportError> {
        Err(ReportError::Missing { feature: "parquet", output: "a log of transfers" })
    }

    /// Never called, as there is no log.
    pub fn finish(self, _: &[Run]) -> Result<(), ReportError> {
        match self.0 {}
    }
}
