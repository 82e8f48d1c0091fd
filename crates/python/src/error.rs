//! What is raised, and what comes of a panic.

use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cellpace_lab::{FieldError, LabError};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;

create_exception!(
    cellpace,
    CellpaceError,
    PyValueError,
    "What was asked for makes no sense, cannot be read or did not work. The text is the program's."
);
create_exception!(
    cellpace,
    InternalError,
    PyRuntimeError,
    "A fault of cellpace itself. Please report it with what led to it."
);

/// An error of the lab with the program's sentence.
pub(crate) fn refused(error: impl std::fmt::Display) -> PyErr {
    CellpaceError::new_err(error.to_string())
}

/// What may go wrong without Python.
pub(crate) enum Failure {
    /// The lab's own error.
    Refused(String),
    /// Python raised something, or was interrupted.
    Raised(PyErr),
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<FieldError> for Failure {
    fn from(error: FieldError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(text) => CellpaceError::new_err(text),
            Failure::Raised(error) => error,
        }
    }
}

/// Does work that needs no Python while other threads of Python go on. A panic becomes an
/// [`InternalError`], which `except Exception` catches.
pub(crate) fn without_python<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    match done {
        Ok(result) => result.map_err(PyErr::from),
        Err(panic) => Err(InternalError::new_err(panic_text(&*panic))),
    }
}

/// Warns of what was guessed about a file.
pub(crate) fn warn(text: &str) {
    Python::attach(|py| {
        // A text with a zero byte is none of ours, and no reason to fail.
        let text = CString::new(text).unwrap_or_default();
        let warned = PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1);
        // A filter may turn warnings into errors, but there is nothing to return one from.
        warned.unwrap_or_else(|error| error.write_unraisable(py, None));
    });
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}
