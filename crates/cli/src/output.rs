//! Text out.

use std::io::{self, Write};
use std::path::Path;

use cellpace_report::write_atomically;

use crate::error::Failure;

/// Prints to standard output. A reader that went away (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes to a file, or to standard output for `-`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(text);
    }
    write_atomically(path, text.as_bytes()).map_err(Failure::failed)
}
