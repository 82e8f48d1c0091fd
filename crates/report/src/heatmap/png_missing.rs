//! The place of PNG in a program that was built without the feature `png`.

use super::Heatmap;
use crate::ReportError;

/// Fails: [`ReportError::Missing`].
pub fn heatmap_png(_: &[Heatmap]) -> Result<Vec<u8>, ReportError> {
    Err(ReportError::Missing { feature: "png", output: "a picture as PNG" })
}
