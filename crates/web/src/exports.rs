//! How bytes come into the module and out of it.
//!
//! The page asks for room with [`reserve`], writes there, calls one of the functions, and reads the
//! answer at [`answer_address`]: JSON in UTF-8. No address is ever taken from the page.
#![allow(unsafe_code, reason = "exported names are `unsafe` attributes; there is no unsafe block")]

use std::cell::RefCell;

use cellpace_base::Span;
use serde::Serialize;

use crate::{QueryError, Session};

/// What stays reserved between two calls at most: the memory of a large file is given back.
const MAX_KEPT: usize = 1 << 20;

#[derive(Default)]
struct Instance {
    session: Session,
    input: Vec<u8>,
    answer: Vec<u8>,
}

thread_local! {
    static INSTANCE: RefCell<Instance> = RefCell::default();
}

impl Instance {
    /// Takes the input of a call.
    fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Has the session keep the file in the input, and answers with what it says of it.
    fn keep<T: Serialize>(
        &mut self,
        name_length: usize,
        keep: impl FnOnce(&mut Session, &str, &[u8]) -> Result<T, QueryError>,
    ) -> usize {
        let input = self.take_input();
        let (name, bytes) = input.split_at(name_length.min(input.len()));
        match keep(&mut self.session, &String::from_utf8_lossy(name), bytes) {
            Ok(kept) => self.answer(&kept),
            Err(error) => self.answer(&error),
        }
    }

    /// Keeps the answer until the next call and returns its length.
    fn answer(&mut self, answer: &impl Serialize) -> usize {
        self.answer.clear();
        self.answer.shrink_to(MAX_KEPT);
        // Maps have texts as keys and writing to memory does not fail.
        let _ = serde_json::to_writer(&mut self.answer, answer);
        self.answer.len()
    }
}

/// Makes room for `length` bytes of input and returns where.
#[unsafe(no_mangle)]
pub extern "C" fn reserve(length: usize) -> *mut u8 {
    INSTANCE.with_borrow_mut(|instance| {
        instance.input = vec![0; length];
        instance.input.as_mut_ptr()
    })
}

/// Returns where the answer to the last call begins.
#[unsafe(no_mangle)]
pub extern "C" fn answer_address() -> *const u8 {
    INSTANCE.with_borrow(|instance| instance.answer.as_ptr())
}

/// Answers with what there is to choose; returns the answer's length, as all that follow.
#[unsafe(no_mangle)]
pub extern "C" fn describe() -> usize {
    INSTANCE.with_borrow_mut(|instance| {
        instance.answer = instance.session.describe().into_bytes();
        instance.answer.len()
    })
}

/// Keeps a file: the first `name_length` bytes of the input are its name, the others its contents.
#[unsafe(no_mangle)]
pub extern "C" fn store(name_length: usize) -> usize {
    INSTANCE.with_borrow_mut(|instance| instance.keep(name_length, Session::store))
}

/// Keeps a module, given like a file, and answers with the controller in it.
#[unsafe(no_mangle)]
pub extern "C" fn store_module(name_length: usize) -> usize {
    INSTANCE.with_borrow_mut(|instance| instance.keep(name_length, Session::store_module))
}

/// Begins the run that the input describes.
#[unsafe(no_mangle)]
pub extern "C" fn begin() -> usize {
    INSTANCE.with_borrow_mut(|instance| {
        let input = instance.take_input();
        let answer = instance.session.begin(&input);
        instance.answer(&answer)
    })
}

/// Simulates the next `milliseconds` of the run.
#[unsafe(no_mangle)]
pub extern "C" fn advance(milliseconds: u32) -> usize {
    INSTANCE.with_borrow_mut(|instance| {
        let answer = instance.session.advance(Span::from_millis(milliseconds.into()));
        instance.answer(&answer)
    })
}
