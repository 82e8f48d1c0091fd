//! Where the contents of named files come from. This crate opens nothing itself.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use cellpace_base::Span;

use super::cellreplay::LightTrains;
use super::step_file::{read_delays, read_delays_every, read_losses};
use super::{Recording, Trace};
use crate::error::{PathError, TraceError};
use crate::profile::{LinkProfile, ProfileError};
use crate::steps::Steps;

/// Many times the size of any profile.
const MAX_PROFILE_BYTES: u64 = 1 << 18;

/// Reads a recording with the name that errors show.
type RecordingReader = fn(&str, Box<dyn BufRead>) -> Result<Recording, TraceError>;

type OpenFile<'a> = Box<dyn FnMut(&str) -> io::Result<Box<dyn BufRead>> + 'a>;

/// Both forms of what a link delivers to sparse traffic.
pub(super) enum LightRecording {
    /// Cut into trains where it pauses.
    Trace(Arc<Trace>),
    /// As CellReplay has them.
    Trains(LightTrains),
}

/// The files that traces, delays and losses may name. Each trace and delay file is read once, however often it is asked for,
/// and shared.
///
/// ```
/// use cellpace_path::schedule::TraceFiles;
/// use cellpace_path::TraceSpec;
///
/// // A program would open a file here.
/// let mut files = TraceFiles::new(|_name| Ok(Box::new("1\n2\n4\n".as_bytes())));
/// let spec = TraceSpec::parse("drive.down", &mut files)?;
/// assert_eq!(spec.to_string(), "drive.down");
/// assert_eq!(spec.trace().unwrap().millis(), [1, 2, 4]);
/// # Ok::<(), cellpace_path::PathError>(())
/// ```
pub struct TraceFiles<'a> {
    open: Option<OpenFile<'a>>,
    read: RecordingReader,
    recordings: HashMap<String, Recording>,
    delays: HashMap<String, Steps<Span>>,
}

impl<'a> TraceFiles<'a> {
    /// Files opened by `open`.
    pub fn new(open: impl FnMut(&str) -> io::Result<Box<dyn BufRead>> + 'a) -> Self {
        Self { open: Some(Box::new(open)), ..Self::none() }
    }

    /// Traces are read so, of other formats than Mahimahi's.
    #[must_use]
    pub fn read_by(self, read: RecordingReader) -> Self {
        Self { read, ..self }
    }

    /// No files at all: whatever names one is refused.
    pub fn none() -> Self {
        let read: RecordingReader =
            |name, reader| Ok(Trace::read(name, reader).map_err(TraceError::with_csv_hint)?.into());
        Self { open: None, read, recordings: HashMap::new(), delays: HashMap::new() }
    }

    /// The trace in the file `name`.
    ///
    /// # Errors
    /// When there is no such file, files are not available, or its contents are not a trace.
    pub fn trace(&mut self, name: &str) -> Result<Arc<Trace>, PathError> {
        Ok(self.recording(name)?.trace)
    }

    /// The trace in the file `name`, with the RTT and the loss beside it.
    ///
    /// # Errors
    /// As for [`trace`](Self::trace).
    pub fn recording(&mut self, name: &str) -> Result<Recording, PathError> {
        if let Some(recording) = self.recordings.get(name) {
            return Ok(recording.clone());
        }
        let shown = if name == "-" { "standard input" } else { name };
        let reader = self.reader(name)?;
        let recording = (self.read)(shown, reader)?;
        self.recordings.insert(name.to_owned(), recording.clone());
        Ok(recording)
    }

    /// The delays in the file `name`; [`DelaySpec`](crate::DelaySpec) has the format.
    ///
    /// # Errors
    /// As for [`trace`](Self::trace).
    pub fn delays(&mut self, name: &str) -> Result<Steps<Span>, PathError> {
        if let Some(delays) = self.delays.get(name) {
            return Ok(delays.clone());
        }
        let delays = read_delays(name, self.reader(name)?)?;
        self.delays.insert(name.to_owned(), delays.clone());
        Ok(delays)
    }

    /// The delays in the file `name`, of which there is one a line, `every` so far apart.
    ///
    /// # Errors
    /// As for [`trace`](Self::trace).
    pub(crate) fn delays_every(
        &mut self,
        name: &str,
        every: Span,
    ) -> Result<Steps<Span>, PathError> {
        Ok(read_delays_every(name, self.reader(name)?, every)?)
    }

    /// What a link delivers to sparse traffic, in the file `name`.
    ///
    /// # Errors
    /// As for [`trace`](Self::trace).
    pub(super) fn light(&mut self, name: &str) -> Result<LightRecording, PathError> {
        let mut reader = self.reader(name)?;
        let problem = |problem: String| TraceError::Unreadable { name: name.to_owned(), problem };
        let beginning = reader.fill_buf().map_err(|error| problem(error.to_string()))?;
        if LightTrains::is_one(beginning) {
            return Ok(LightRecording::Trains(LightTrains::read(name, reader)?));
        }
        Ok(LightRecording::Trace((self.read)(name, reader)?.trace))
    }

    /// The shares of loss in the file `name`; [`LossSpec`](crate::LossSpec) has the format.
    ///
    /// # Errors
    /// As for [`trace`](Self::trace).
    pub fn losses(&mut self, name: &str) -> Result<Steps<f64>, PathError> {
        Ok(read_losses(name, self.reader(name)?)?)
    }

    /// The profile in the file `name`.
    ///
    /// # Errors
    /// As for [`trace`](Self::trace).
    pub fn profile(&mut self, name: &str) -> Result<LinkProfile, PathError> {
        let problem = |problem: String| TraceError::Unreadable { name: name.to_owned(), problem };
        let mut text = String::new();
        let reader = self.reader(name)?;
        let read = reader.take(MAX_PROFILE_BYTES).read_to_string(&mut text);
        read.map_err(|error| problem(error.to_string()))?;
        text.parse().map_err(|error: ProfileError| problem(error.to_string()).into())
    }

    /// All bytes of the file `name`, for what is no trace but named beside one. Not kept.
    ///
    /// # Errors
    /// When there is no such file, files are not available, or it has more than `most` bytes.
    pub fn bytes(&mut self, name: &str, most: u64) -> Result<Vec<u8>, PathError> {
        let problem = |problem: String| TraceError::Unreadable { name: name.to_owned(), problem };
        let mut bytes = Vec::new();
        // One more than allowed is read, to tell a file that is just as long from a longer one.
        let read = self.reader(name)?.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| problem(error.to_string()))?;
        if bytes.len() as u64 > most {
            return Err(problem(format!("more than {most} bytes")).into());
        }
        Ok(bytes)
    }

    fn reader(&mut self, name: &str) -> Result<Box<dyn BufRead>, PathError> {
        let Some(open) = &mut self.open else {
            return Err(PathError::FileNotAllowed { name: name.to_owned() });
        };
        open(name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => PathError::NoFile { name: name.to_owned() },
            _ => {
                TraceError::Unreadable { name: name.to_owned(), problem: error.to_string() }.into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_file_is_opened_once_and_shared() {
        let opened = Cell::new(0);
        let mut files = TraceFiles::new(|_| {
            opened.set(opened.get() + 1);
            Ok(Box::new("1\n2\n".as_bytes()))
        });
        let (one, two) = (files.trace("a").unwrap(), files.trace("a").unwrap());
        assert!(Arc::ptr_eq(&one, &two));
        files.trace("b").unwrap();
        drop(files);
        assert_eq!(opened.get(), 2);
    }

    #[test]
    fn bytes_are_read_up_to_a_limit() {
        let mut files = TraceFiles::new(|_| Ok(Box::new("12345".as_bytes())));
        assert_eq!(files.bytes("a", 5).unwrap(), b"12345");
        assert_eq!(files.bytes("a", 4).unwrap_err().to_string(), "a: more than 4 bytes");
    }

    #[test]
    fn files_that_cannot_be_opened_are_reported() {
        let mut files = TraceFiles::new(|name| {
            Err(match name {
                "gone" => io::ErrorKind::NotFound.into(),
                _ => io::Error::new(io::ErrorKind::PermissionDenied, "permission denied"),
            })
        });
        assert!(matches!(files.trace("gone"), Err(PathError::NoFile { .. })));
        let message = files.trace("shut").unwrap_err().to_string();
        assert_eq!(message, "shut: permission denied");
    }
}
