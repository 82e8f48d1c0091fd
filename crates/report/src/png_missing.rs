//! The place of pictures as PNG in a program that was built without the feature `png`.

use crate::ReportError;

/// Fails: [`ReportError::Missing`].
pub fn png(_: &str) -> Result<Vec<u8>, ReportError> {
    Err(ReportError::Missing { feature: "png", output: "a chart as PNG" })
}
