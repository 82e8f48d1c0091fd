//! Models in files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cellpace_mdi::Model;
use cellpace_report::write_atomically;

use crate::error::Failure;
use crate::results::check_file;

/// Many times the largest model of the paper.
const MAX_MODEL_BYTES: u64 = 256 << 20;

/// Reads a model. What cannot be had or is none is wrong usage.
pub(super) fn load(path: &Path) -> Result<Model, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let mut bytes = Vec::new();
    // What is no regular file (a pipe, a device) does not tell its size.
    let read = file.take(MAX_MODEL_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(|error| wrong(&error))? as u64 > MAX_MODEL_BYTES {
        return Err(wrong(&format!("more than {} MB are no model", MAX_MODEL_BYTES >> 20)));
    }
    Model::from_bytes(&bytes).map_err(|error| wrong(&error))
}

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
