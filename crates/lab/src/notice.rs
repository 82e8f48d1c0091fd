//! What people should know of an input that was read, such as which columns of a table were taken.

use std::sync::OnceLock;

static RECEIVER: OnceLock<fn(&str)> = OnceLock::new();

/// Hands a sentence on each guess about a file that is read to `receiver`, in the whole program and
/// for good: a first call decides. Without one nobody is told.
pub fn hand_notices_to(receiver: fn(&str)) {
    // A program decides once; whoever comes later is a part of it.
    let _ = RECEIVER.set(receiver);
}

/// Hands one on.
pub(crate) fn notice(text: &str) {
    if let Some(receiver) = RECEIVER.get() {
        receiver(text);
    }
}
