//! The time after which a trace repeats: that of its last opportunity.

use cellpace_base::Span;
use cellpace_path::schedule::Trace;

/// In whole milliseconds, rounded down; `None` beyond what a trace can count.
pub fn whole_millis(span: Span) -> Option<u32> {
    u32::try_from(span.as_nanos() / 1_000_000).ok()
}

/// The trace of these sorted opportunities that repeats after `end`.
pub(super) fn ending_at(mut millis: Vec<u32>, end: u32) -> Result<Trace, String> {
    // The format has no field for the period, so that an opportunity has to mark it.
    // One too many where the link was silent at the end, in return for the right length.
    if millis.last().is_some_and(|last| *last < end) {
        millis.push(end);
    }
    Trace::from_millis(millis).map_err(|error| error.to_string())
}
