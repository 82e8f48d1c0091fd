//! Readers of option values that several commands share.

use cellpace_base::{Span, parse_span};

/// A length of time with its unit.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|error| error.to_string())
}
