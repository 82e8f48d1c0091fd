//! What the program behind a link writes while the terminal shows the link.

use std::io::{self, IsTerminal, PipeReader, Read, Write, stderr, stdin, stdout};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// What the program writes while the view has the terminal: kept, and printed afterwards.
#[derive(Clone, Default)]
pub(crate) struct ProgramOutput(Arc<Mutex<Vec<OutputPart>>>);

/// What was written at a time, and where.
type OutputPart = (OutputStream, Vec<u8>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputStream {
    Out,
    Error,
}

/// The threads that read what the program writes.
pub(crate) struct OutputReaders(Vec<JoinHandle<()>>);

/// Bytes that are kept at most; the oldest go first.
const KEPT: usize = 4 << 20;

impl ProgramOutput {
    /// Has a program write to us where it would write to the terminal.
    pub(crate) fn redirect(&self, command: &mut Command) -> io::Result<OutputReaders> {
        let mut readers = Vec::new();
        if stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        if stdout().is_terminal() {
            let (reader, writer) = io::pipe()?;
            command.stdout(writer);
            readers.push(self.read(reader, OutputStream::Out));
        }
        if stderr().is_terminal() {
            let (reader, writer) = io::pipe()?;
            command.stderr(writer);
            readers.push(self.read(reader, OutputStream::Error));
        }
        Ok(OutputReaders(readers))
    }

    fn read(&self, mut pipe: PipeReader, stream: OutputStream) -> JoinHandle<()> {
        let output = self.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 14];
            while let Ok(length) = pipe.read(&mut buffer) {
                if length == 0 {
                    return;
                }
                output.keep(stream, &buffer[..length]);
            }
        })
    }

    fn keep(&self, stream: OutputStream, bytes: &[u8]) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push((stream, bytes.to_vec()));
        while parts.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > KEPT {
            parts.remove(0);
        }
    }

    #[cfg(feature = "live")]
    pub(crate) fn last_lines(&self, number: usize) -> Vec<String> {
        /// Enough for a screen.
        const LOOKED_AT: usize = 1 << 14;
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: Vec<u8> = Vec::new();
        let mut first = parts.len();
        while first > 0 && bytes.len() < LOOKED_AT {
            first -= 1;
            bytes.splice(0..0, parts[first].1.iter().copied());
        }
        let text = String::from_utf8_lossy(&bytes);
        let clean = |line: &str| line.chars().filter(|c| !c.is_control()).collect();
        let lines: Vec<String> = text.lines().map(clean).collect();
        lines[lines.len().saturating_sub(number)..].to_vec()
    }

    /// Prints what was written, each part where it belongs.
    pub(crate) fn print(&self, readers: OutputReaders) {
        readers.0.into_iter().for_each(|reader| drop(reader.join()));
        for (stream, bytes) in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Nobody may be there to read it.
            let _ = match stream {
                OutputStream::Out => stdout().write_all(&bytes),
                OutputStream::Error => stderr().write_all(&bytes),
            };
        }
        let _ = stdout().flush();
    }
}

#[cfg(all(test, feature = "live"))]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_up_to_a_limit_and_shown_without_control_characters() {
        let output = ProgramOutput::default();
        output.keep(OutputStream::Out, b"one\ntw");
        output.keep(OutputStream::Error, b"o\n\x1b[31mthree");
        assert_eq!(output.last_lines(2), ["two", "[31mthree"]);
        for _ in 0..5 {
            output.keep(OutputStream::Out, &vec![b'x'; 1 << 20]);
        }
        let kept: usize = output.0.lock().unwrap().iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(kept, KEPT);
    }
}
