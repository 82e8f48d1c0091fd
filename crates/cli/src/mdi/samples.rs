//! Samples and traces in files.

use std::io::{self, BufRead, Read};
use std::path::Path;

use cellpace_mdi::{SamplesError, TraceName, Watched, read_samples, write_samples};
use cellpace_report::write_atomically;
use sha2::{Digest, Sha256};

use crate::error::Failure;

/// Reads samples in the format of `cellpace_mdi::read_samples`.
pub(super) fn read(name: &str) -> Result<Vec<Watched>, Failure> {
    let file = cellpace_lab::open_file(name)
        .map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    read_samples(file).map_err(|error| match error {
        SamplesError::Io { .. } => Failure::failed(format!("{name}:{error}")),
        _ => Failure::usage(format!("{name}:{error}")),
    })
}

/// Writes samples, whole or not at all.
pub(super) fn save(path: &Path, all: &[Watched]) -> Result<(), Failure> {
    let mut text = Vec::new();
    write_samples(&mut text, all).map_err(Failure::failed)?;
    write_atomically(path, &text).map_err(Failure::failed)
}

/// Name and hash of a file.
pub(super) fn named_file(name: &str) -> Result<TraceName, Failure> {
    let file = cellpace_lab::open_file(name).and_then(hash);
    let sha256 = file.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    Ok(TraceName { name: cellpace_lab::shown_name(name), sha256 })
}

fn hash(mut file: Box<dyn BufRead>) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut piece = [0; 1 << 14];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&piece[..read]),
        }
    }
}
