//! Models into files.

use std::path::Path;

use cellpace_mdi::Model;
use cellpace_report::write_atomically;

use crate::error::Failure;
use crate::outputs::check_file;

/// Writes a model, whole or not at all. Returns its size in bytes.
pub(super) fn save(path: &Path, model: &Model) -> Result<usize, Failure> {
    let bytes = model.to_bytes();
    write_atomically(path, &bytes).map_err(Failure::failed)?;
    Ok(bytes.len())
}

/// Refuses what cannot be written before the work is done, not after.
pub(super) fn check_output(option: &str, path: &Path) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return Err(Failure::usage(format!("{option}: needs a file, not `-`")));
    }
    check_file(path)
}
