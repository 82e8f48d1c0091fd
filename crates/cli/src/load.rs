//! Files that traces name.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use cellpace_path::TraceSpec;
use cellpace_path::schedule::TraceFiles;

/// The largest trace file that is read: days of a fast link.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// Files on this machine, each read once.
pub(crate) fn files() -> TraceFiles<'static> {
    TraceFiles::new(open)
}

/// Opens a file for reading, if it is one and not too large.
pub(crate) fn open(name: &str) -> io::Result<Box<dyn BufRead>> {
    let file = File::open(name)?;
    let facts = file.metadata()?;
    if facts.is_dir() {
        return Err(io::Error::other("this is a folder, not a trace"));
    }
    if facts.len() > MAX_FILE_BYTES {
        return Err(io::Error::other(format!(
            "{} MB is more than the {} MB that are read; cut the trace",
            facts.len() >> 20,
            MAX_FILE_BYTES >> 20
        )));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// A trace as it is shown: a file without its folder.
pub(crate) fn shown(trace: &str) -> String {
    // The slash of `random:2mbit..20mbit/5s` is not a folder's.
    if trace.parse::<TraceSpec>().is_ok() {
        return trace.to_owned();
    }
    trace.rsplit('/').next().unwrap_or(trace).to_owned()
}
