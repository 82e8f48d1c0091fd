//! Failures, as C programs see them.

use std::cell::RefCell;
use std::ffi::c_char;
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

/// Bytes of a text that are kept, with the zero at its end.
const MAX_TEXT: usize = 512;

thread_local! {
    // Nothing that must be dropped: to have that done, the C library allocates, and ends a process that
    // is out of memory.
    static LAST: RefCell<[u8; MAX_TEXT]> = const { RefCell::new([0; MAX_TEXT]) };
}

/// Keeps the text for `alcc_last_error`; returns the number.
pub(crate) fn remember(failure: &CallFailure) -> c_int {
    let mut end = failure.text.len().min(MAX_TEXT - 1);
    while !failure.text.is_char_boundary(end) {
        end -= 1;
    }
    LAST.with_borrow_mut(|last| {
        last.fill(0);
        last[..end].copy_from_slice(&failure.text.as_bytes()[..end]);
    });
    failure.number
}

pub(crate) fn last_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr().cast())
}
