//! Text out.

use std::io::{self, Write};
use std::path::Path;

use cellpace_report::write_atomically;

use crate::error::Failure;

/// Prints to standard output. A reader that went away (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The longest complaint that is shown whole.
const LONGEST_COMPLAINT: usize = 1000;

/// Says on standard error, in one line, what a person should know. A standard error that is gone
/// must not end the program in another way than it would have ended.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "cellpace: {}", one_line(text));
}

/// Names come from outside: line ends and control characters in them are shown, not obeyed.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
        if line.len() > LONGEST_COMPLAINT {
            return line + "...";
        }
    }
    line
}

/// Writes to a file, or to standard output for `-`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_bytes(path, text.as_bytes())
}

/// The same with what is no text.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print_bytes(bytes);
    }
    write_atomically(path, bytes).map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_line_whatever_is_in_it() {
        assert_eq!(one_line("a\nb\u{1b}[31m µs"), "a\\nb\\u{1b}[31m µs");
        assert_eq!(one_line(&"x".repeat(1 << 20)).len(), LONGEST_COMPLAINT + 4);
    }
}
