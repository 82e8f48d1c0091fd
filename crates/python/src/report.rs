//! Pages of results.

use cellpace_measure::Interval;
use cellpace_report::Document;
use pyo3::prelude::*;

use crate::error::{Failure, refused, without_python};

fn documents(texts: &[(String, String)]) -> Result<Vec<Document>, Failure> {
    let read = |(name, text): &(String, String)| Document::read(name, text.as_str());
    let documents: Result<_, _> = texts.iter().map(read).collect();
    documents.map_err(|error| Failure::Refused(error.to_string()))
}

/// The page of results, each with its name and the text of its document.
#[pyfunction]
pub(crate) fn page(py: Python<'_>, texts: Vec<(String, String)>) -> PyResult<String> {
    without_python(py, move || {
        let page = cellpace_report::page(&documents(&texts)?);
        page.map_err(|error| Failure::Refused(error.to_string()))
    })
}

/// The mean of samples and the half width of its 95 % interval (Student's t); 0 of a single sample.
#[pyfunction]
pub(crate) fn interval(samples: Vec<f64>) -> PyResult<(f64, f64)> {
    let interval = Interval::of(&samples).ok_or_else(|| refused("no sample has no interval"))?;
    Ok((interval.mean, interval.half_width))
}

/// A number as tables show it: three significant digits, a dash for what is none.
#[pyfunction]
pub(crate) fn short(value: f64) -> String {
    cellpace_report::short(value)
}
