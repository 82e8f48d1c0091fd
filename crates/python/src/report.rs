//! Pages of results.

use cellpace_report::Document;
use pyo3::prelude::*;

use crate::error::{Failure, without_python};

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
