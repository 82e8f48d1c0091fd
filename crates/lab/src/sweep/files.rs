//! The files that a plan names, each read once, with what identifies their contents.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Cursor, Read};
use std::sync::Arc;

use cellpace_cc::ControllerSpec;
use cellpace_path::schedule::TraceFiles;

use crate::open_file;
use crate::trace::read_trace;

/// A file that a plan names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepFile {
    /// Its contents, uncompressed; none where only their hash is kept.
    pub bytes: Option<Arc<[u8]>>,
    /// BLAKE3 of the contents, in hexadecimal digits.
    pub hash: String,
    /// Length of the contents.
    pub length: u64,
}

impl SweepFile {
    fn of(bytes: &Arc<[u8]>, keeps: bool) -> Self {
        Self {
            hash: blake3::hash(bytes).to_hex().to_string(),
            length: bytes.len() as u64,
            // Traces are large: only a sweep that hands its files on to other machines keeps them.
            bytes: keeps.then(|| Arc::clone(bytes)),
        }
    }
}

/// Where the contents of a plan's files come from.
#[derive(Debug, Clone, Default)]
pub struct PlanFiles {
    files: BTreeMap<String, SweepFile>,
    /// Whether files of this machine are read.
    opens: bool,
    /// Whether contents are kept, to be handed on to other machines.
    keeps: bool,
    /// Controllers that the caller brings along, by the names that the plan has for them.
    own: BTreeMap<String, ControllerSpec>,
}

impl PlanFiles {
    /// Files of this machine. With `keeps`, their contents stay in memory, for other machines.
    pub fn of_machine(keeps: bool) -> Self {
        Self { opens: true, keeps, ..Self::default() }
    }

    /// Files that are already there, by the names that the plan has for them. No other is read.
    pub fn given(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let file = |(name, bytes): (String, Vec<u8>)| (name, SweepFile::of(&bytes.into(), true));
        Self { files: files.into_iter().map(file).collect(), keeps: true, ..Self::default() }
    }

    /// With controllers of the caller: what the plan calls them, the source that tells their versions
    /// apart, and what makes them.
    #[must_use]
    pub fn with_own(
        mut self,
        own: impl IntoIterator<Item = (String, Vec<u8>, ControllerSpec)>,
    ) -> Self {
        for (name, source, spec) in own {
            self.files.insert(name.clone(), SweepFile::of(&source.into(), true));
            self.own.insert(name, spec);
        }
        self
    }

    /// The caller's controller of this name.
    pub(super) fn own(&self, name: &str) -> Option<&ControllerSpec> {
        self.own.get(name)
    }

    /// The files that were read, by name.
    pub fn files(&self) -> &BTreeMap<String, SweepFile> {
        &self.files
    }

    /// Calls `read` with a reader of files, and returns the names of those that it opened with
    /// what it returned.
    pub(super) fn reading<T>(
        &mut self,
        read: impl FnOnce(&mut TraceFiles<'_>) -> T,
    ) -> (T, Vec<String>) {
        let mut opened = Vec::new();
        let files = TraceFiles::new(|name| {
            let bytes = self.contents(name)?;
            opened.push(name.to_owned());
            Ok(Box::new(Cursor::new(bytes)) as Box<dyn BufRead>)
        });
        let result = read(&mut files.read_by(read_trace));
        (result, opened)
    }

    fn contents(&mut self, name: &str) -> io::Result<Arc<[u8]>> {
        // Given files have no other source: a worker must not read its own machine's.
        if let Some(bytes) = self.files.get(name).and_then(|file| file.bytes.as_ref()) {
            return Ok(Arc::clone(bytes));
        }
        if !self.opens {
            return Err(io::Error::new(io::ErrorKind::NotFound, "not among the plan's files"));
        }
        if name == "-" {
            return Err(io::Error::other("a plan cannot read standard input: name a file"));
        }
        let mut bytes = Vec::new();
        // Whole and uncompressed, as its hash is part of each cell's id.
        open_file(name)?.read_to_end(&mut bytes)?;
        let bytes: Arc<[u8]> = bytes.into();
        self.files.insert(name.to_owned(), SweepFile::of(&bytes, self.keeps));
        Ok(bytes)
    }
}
