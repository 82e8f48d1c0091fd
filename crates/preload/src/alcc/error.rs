//! Failures, as C programs see them.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::io;

use libc::c_int;

/// A number for `errno`, and what it means here.
#[derive(Debug)]
pub(crate) struct CallFailure {
    number: c_int,
    text: String,
}

impl CallFailure {
    pub(crate) fn new(number: c_int, text: impl Into<String>) -> Self {
        Self { number, text: text.into() }
    }

    /// A system call that failed just now.
    pub(crate) fn last(what: &str) -> Self {
        Self::from_io(what, &io::Error::last_os_error())
    }

    pub(crate) fn from_io(what: &str, error: &io::Error) -> Self {
        Self::new(error.raw_os_error().unwrap_or(libc::EIO), format!("{what}: {error}"))
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the text for `alcc_last_error`; returns the number.
pub(crate) fn remember(failure: CallFailure) -> c_int {
    let text = CString::new(failure.text).unwrap_or_default();
    // While the thread ends, there is nobody left to ask.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    failure.number
}

pub(crate) fn last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
