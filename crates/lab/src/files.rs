//! Files that traces, controllers and profiles name, and how traces are shown.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use cellpace_cc::{ControllerSpec, MAX_FILE_BYTES as MAX_MODEL_BYTES, SpecError};
use cellpace_path::schedule::TraceFiles;

/// The largest trace file that is read: days of a fast link.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// Returns a reader of this machine's files, which reads each of them once.
pub fn trace_files() -> TraceFiles<'static> {
    TraceFiles::new(open_file)
}

/// Reads a controller such as `verus:r=2`, and the files that it names.
///
/// # Errors
/// When the text is no controller's, or a file is missing or no model.
pub fn read_controller(text: &str) -> Result<ControllerSpec, SpecError> {
    ControllerSpec::parse(text, &mut |name| {
        trace_files().bytes(name, MAX_MODEL_BYTES).map_err(|error| error.to_string())
    })
}

/// Opens a file for reading.
///
/// # Errors
/// When there is none, or it is a folder or larger than 512 MB.
pub fn open_file(name: &str) -> io::Result<Box<dyn BufRead>> {
    let file = File::open(name)?;
    let facts = file.metadata()?;
    if facts.is_dir() {
        return Err(io::Error::other("this is a folder, not a file"));
    }
    if facts.len() > MAX_FILE_BYTES {
        return Err(io::Error::other(format!(
            "{} MB is more than the {} MB that are read",
            facts.len() >> 20,
            MAX_FILE_BYTES >> 20
        )));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// Returns a trace's name as it is shown: a file without its folder, anything else as written.
pub fn shown_name(trace: &str) -> String {
    let file = match trace.split_once(':') {
        // The slashes of `step:10mbit/5s` do not part folders.
        Some((generator, _)) if !generator.contains('/') => trace,
        _ => trace.rsplit('/').next().unwrap_or(trace),
    };
    file.to_owned()
}

/// Returns the names of several traces as they are shown: as [`shown_name`], but whole where two
/// would otherwise be the same.
pub fn shown_names(traces: &[String]) -> Vec<String> {
    let short: Vec<String> = traces.iter().map(|trace| shown_name(trace)).collect();
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let pairs = short.iter().zip(traces);
    pairs.map(|(name, whole)| if is_alone(name) { name } else { whole }.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shown_without_folders_and_generated_traces_whole() {
        for (trace, expected) in [
            ("lte-driving", "lte-driving"),
            ("a/b/drive.down", "drive.down"),
            ("./12:30/drive.down", "drive.down"),
            ("step:1mbit/5s,9mbit/5s", "step:1mbit/5s,9mbit/5s"),
            ("cellreplay:heavy=a/h,light=a/l", "cellreplay:heavy=a/h,light=a/l"),
        ] {
            assert_eq!(shown_name(trace), expected);
        }
    }
}
