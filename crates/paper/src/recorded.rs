//! Recorded traces of a folder: one alone, several one after the other, or at another rate.

use std::cell::Cell;
use std::io::{BufRead, Cursor, Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cellpace_lab::open_file;
use cellpace_lab::trace::scale_trace;
use cellpace_path::schedule::Trace;

use crate::trace_sets::{file_name, is_recorded};

/// The recorded traces that claims may name.
#[derive(Debug, Clone)]
pub(crate) struct RecordedFiles {
    /// The folder; `None`: there are none.
    pub(crate) folder: Option<PathBuf>,
    /// Set when one is asked for that is not there.
    pub(crate) is_missing: Rc<Cell<bool>>,
}

impl RecordedFiles {
    /// Opens a recorded trace.
    ///
    /// # Errors
    /// When no claim may name it, or it is not there.
    pub(crate) fn open(&self, name: &str) -> Result<Box<dyn BufRead>> {
        if !is_recorded(name) {
            return Err(Error::other("claims name recorded traces only"));
        }
        let opened = match &self.folder {
            Some(folder) => open_recorded(folder, name),
            None => Err(Error::new(ErrorKind::NotFound, "CELLPACE_TRACES names no folder")),
        };
        let is_missing = matches!(&opened, Err(error) if error.kind() == ErrorKind::NotFound);
        self.is_missing.set(self.is_missing.get() || is_missing);
        opened
    }
}

/// Opens `NAME`, `NAME*0.5` (half of its rate), or several of these joined by `+`.
fn open_recorded(folder: &Path, name: &str) -> Result<Box<dyn BufRead>> {
    let open = |name: &str| open_file(&folder.join(file_name(name)).to_string_lossy());
    if !name.contains(['+', '*']) {
        return open(name);
    }
    let mut millis: Vec<u32> = Vec::new();
    let mut end = 0_u32;
    for part in name.split('+') {
        let (file, factor) = part.split_once('*').unwrap_or((part, "1"));
        let factor: f64 = factor.parse().map_err(|_| {
            Error::other(format!("`{part}`: behind * stands a factor of the rate, such as 0.5"))
        })?;
        let trace = Trace::read(file, open(file)?).map_err(Error::other)?;
        let trace = scale_trace(&trace, factor).map_err(Error::other)?;
        let shifted: Option<Vec<u32>> =
            trace.millis().iter().map(|at| at.checked_add(end)).collect();
        millis.extend(shifted.ok_or_else(|| Error::other("the traces together are too long"))?);
        end = millis.last().copied().unwrap_or(end);
    }
    let mut bytes = Vec::new();
    Trace::from_millis(millis).map_err(Error::other)?.write(&mut bytes)?;
    Ok(Box::new(Cursor::new(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(name: &str) -> std::result::Result<Vec<u32>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.down"), "1\n2\n3\n4\n").unwrap();
        std::fs::write(folder.path().join("b.down"), "5\n5\n").unwrap();
        let reader = open_recorded(folder.path(), name).map_err(|error| error.to_string())?;
        Ok(Trace::read(name, reader).unwrap().millis().to_vec())
    }

    #[test]
    fn traces_are_joined_and_scaled() {
        assert_eq!(millis("a").unwrap(), [1, 2, 3, 4]);
        assert_eq!(millis("a+b").unwrap(), [1, 2, 3, 4, 9, 9]);
        assert_eq!(millis("b+a*0.5").unwrap(), [5, 5, 7, 9]);
        assert_eq!(millis("a*0.5").unwrap(), [2, 4]);
        assert!(millis("a*half").unwrap_err().contains("`a*half`: behind *"));
        assert!(millis("a+c").is_err());
    }
}
