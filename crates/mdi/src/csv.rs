//! What both kinds of CSV have in common.

/// Returns the lines of a text without their ends, numbered from 1, or the number of the line that
/// is no UTF-8.
pub(crate) fn numbered_lines(bytes: &[u8]) -> Result<impl Iterator<Item = (usize, &str)>, usize> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let ends = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n');
        ends.count() + 1
    })?;
    Ok((1..).zip(text.trim_start_matches('\u{feff}').lines().map(str::trim)))
}

/// Returns what of a field stands in a message.
pub(crate) fn shorten(field: &str) -> String {
    const MAX: usize = 40;
    let start: String = field.chars().take(MAX).collect();
    if start.len() < field.len() { start + "..." } else { start }
}
