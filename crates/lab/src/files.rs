//! Files that traces, controllers and profiles name, and how traces are shown.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

use cellpace_cc::{ControllerSpec, SpecError};
use cellpace_path::schedule::TraceFiles;

use crate::trace::read_trace;

/// The largest trace file that is read, and as much is read of what a compressed one holds: days of
/// a fast link.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// What a file that gzip has written begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Returns a reader of this machine's files, which reads each of them once.
pub fn trace_files() -> TraceFiles<'static> {
    TraceFiles::new(open_file).read_by(read_trace)
}

/// Reads a controller such as `verus:r=2`, and the files that it names.
///
/// # Errors
/// When the text is no controller's, or a file is missing or no model.
pub fn read_controller(text: &str) -> Result<ControllerSpec, SpecError> {
    cellpace_sim::read_controller(text, &mut trace_files())
}

/// Opens a file for reading, or standard input for `-`. What gzip has compressed is uncompressed
/// as it is read.
///
/// # Errors
/// When there is none, or it is a folder or larger than 512 MB. Reading fails where more than that
/// comes out of a compressed file or standard input.
pub fn open_file(name: &str) -> io::Result<Box<dyn BufRead>> {
    if name == "-" {
        return uncompressed(BufReader::new(io::stdin()));
    }
    let file = File::open(name)?;
    let facts = file.metadata()?;
    if facts.is_dir() {
        return Err(io::Error::other("this is a folder, not a file"));
    }
    // Only saves the reading: a pipe has no length, and a file may grow, so that what is read is
    // counted as well.
    if facts.len() > MAX_FILE_BYTES {
        return Err(io::Error::other(format!(
            "{} MB is more than the {} MB that are read",
            facts.len() >> 20,
            MAX_FILE_BYTES >> 20
        )));
    }
    uncompressed(BufReader::with_capacity(1 << 16, file))
}

fn uncompressed(mut reader: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    // By its first bytes, since standard input has no name, and names may be wrong.
    if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
        // The bound is on what comes out: a small file may hold any number of bytes.
        let bounded = Bounded { inner: MultiGzDecoder::new(reader), left: MAX_FILE_BYTES };
        return Ok(Box::new(BufReader::with_capacity(1 << 16, bounded)));
    }
    Ok(Box::new(BufReader::new(Bounded { inner: reader, left: MAX_FILE_BYTES })))
}

/// A reader that fails beyond a number of bytes.
struct Bounded<R> {
    inner: R,
    /// Bytes that may still come.
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        // An error and no end: a trace that is cut short would pass for a whole one.
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            let most = MAX_FILE_BYTES >> 20;
            io::Error::other(format!("holds more than the {most} MB that are read"))
        })?;
        Ok(count)
    }
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
    // Two files of one name in different folders would else be one line of the table.
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let pairs = short.iter().zip(traces);
    pairs.map(|(name, whole)| if is_alone(name) { name } else { whole }.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn compressed_files_read_as_what_they_hold_up_to_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, blocks: usize| {
            let path = folder.path().join(name);
            let mut encoder = GzEncoder::new(File::create(&path).unwrap(), Compression::fast());
            for _ in 0..blocks {
                encoder.write_all(&b"1\n2\n".repeat(1 << 18)).unwrap();
            }
            encoder.finish().unwrap();
            path.to_str().unwrap().to_owned()
        };
        let mut text = String::new();
        open_file(&write("small.gz", 1)).unwrap().read_to_string(&mut text).unwrap();
        assert!(text == "1\n2\n".repeat(1 << 18));
        let large = open_file(&write("large.gz", 520)).unwrap();
        let error = io::copy(&mut { large }, &mut io::sink()).unwrap_err();
        assert_eq!(error.to_string(), "holds more than the 512 MB that are read");
    }

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
