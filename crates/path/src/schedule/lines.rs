//! Reading tables of short lines from a stream, with bounds.

use std::io::BufRead;

use crate::error::TraceError;

/// The longest line: several times what any format here needs.
pub(super) const MAX_LINE_BYTES: usize = 256;

/// Cuts a stream into lines without their blanks and line ends. Keeps one line at most.
pub struct LineReader<'a> {
    name: &'a str,
    line: u64,
    /// The first of the empty lines just read.
    empty_from: Option<u64>,
    longest: usize,
}

impl<'a> LineReader<'a> {
    /// A reader whose errors name `name`.
    pub const fn new(name: &'a str) -> Self {
        Self { name, line: 0, empty_from: None, longest: MAX_LINE_BYTES }
    }

    /// Takes lines up to this length, in bytes.
    pub const fn longest(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// Gives every line to `take` with its number. Empty lines are accepted at the end only.
    ///
    /// # Errors
    /// When the stream cannot be read, a line is too long or empty, or `take` fails.
    pub fn read(
        mut self,
        mut reader: impl BufRead,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let mut carry = Vec::new();
        loop {
            let chunk = match reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unreadable(&error)),
            };
            if chunk.is_empty() {
                break;
            }
            let mut rest = chunk;
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                // A line that lies whole in the chunk is not copied: nearly all do.
                if carry.is_empty() {
                    self.line(&rest[..end], &mut take)?;
                } else {
                    self.append(&mut carry, &rest[..end])?;
                    self.line(&carry, &mut take)?;
                    carry.clear();
                }
                rest = &rest[end + 1..];
            }
            // Checked for its length as it grows: a stream without line ends must not fill the
            // memory.
            self.append(&mut carry, rest)?;
            let length = chunk.len();
            reader.consume(length);
        }
        if carry.is_empty() { Ok(()) } else { self.line(&carry, &mut take) }
    }

    fn append(&self, carry: &mut Vec<u8>, part: &[u8]) -> Result<(), TraceError> {
        if carry.len() + part.len() > self.longest {
            return Err(self.too_long(self.line + 1));
        }
        carry.extend_from_slice(part);
        Ok(())
    }

    fn line(
        &mut self,
        text: &[u8],
        take: &mut impl FnMut(u64, &[u8]) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.line += 1;
        if text.len() > self.longest {
            return Err(self.too_long(self.line));
        }
        // Spreadsheets write a byte order mark.
        let marked = (self.line == 1).then(|| text.strip_prefix(b"\xef\xbb\xbf")).flatten();
        let text = marked.unwrap_or(text).trim_ascii();
        if text.is_empty() {
            // Only known to be a mistake once another line follows: editors add empty ones at the
            // end.
            self.empty_from.get_or_insert(self.line);
            return Ok(());
        }
        match self.empty_from {
            Some(line) => Err(TraceError::line(self.name, line, "empty line in the middle")),
            None => take(self.line, text),
        }
    }

    fn too_long(&self, line: u64) -> TraceError {
        TraceError::line(self.name, line, format!("longer than {} bytes", self.longest))
    }

    fn unreadable(&self, error: &std::io::Error) -> TraceError {
        TraceError::Unreadable { name: self.name.to_owned(), problem: error.to_string() }
    }
}
