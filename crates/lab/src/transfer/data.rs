//! Where the bytes of a flow come from, and where they go.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cellpace_report::{Aside, ReportError};
use cellpace_udp::UdpFlow;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;
/// Bytes that a pipe takes without waiting when it is writable.
const PIPE_PIECE: usize = 4096;

/// What a flow sends.
pub enum DataSource {
    /// Bytes that are made up, so many, or for as long as the flow lasts.
    Made {
        /// Bytes that are left.
        left: Option<u64>,
        /// What is repeated.
        pattern: Box<[u8]>,
        /// Where in it the next bytes are, so that they are the same in pieces of any size.
        at: usize,
    },
    /// A file, and room for a piece of it.
    File {
        /// The file.
        file: File,
        /// Its name, for errors.
        path: Box<Path>,
        /// Room for a piece.
        buffer: Box<[u8]>,
    },
    /// Something that may not be ready: a pipe, a terminal.
    Pipe {
        /// The pipe.
        file: File,
        /// Its name, for errors.
        path: Box<Path>,
        /// Whether one read would not block.
        ready: bool,
        /// Room for a piece.
        buffer: Box<[u8]>,
    },
    /// Nothing: an unreliable flow makes its own.
    None,
}

/// Whether a source has more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// It has.
    Yes,
    /// Not just now.
    Later,
    /// It has ended.
    No,
}

impl DataSource {
    /// Bytes made up.
    pub fn made(bytes: Option<u64>) -> Self {
        // A page of zeros would be kind to links that compress.
        let mut random = cellpace_base::Random::seeded(1, 1);
        // The same seed at all times: what is measured must not depend on the bytes.
        let pattern = (0..PIECE).map(|_| random.bits() as u8).collect();
        Self::Made { left: bytes, pattern, at: 0 }
    }

    /// A file, or standard input for `-`.
    ///
    /// # Errors
    /// When it cannot be opened or is a folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            // A copy of the descriptor: dropping the file would else close standard input for the
            // whole process.
            let stdin: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
            return Ok(Self::of(File::from(stdin), Path::new("standard input")));
        }
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::other("this is a folder, not a file"));
        }
        Ok(Self::of(file, path))
    }

    fn of(file: File, path: &Path) -> Self {
        let path = path.into();
        let buffer = vec![0; PIECE].into_boxed_slice();
        match file.metadata() {
            // A regular file is always ready; everything else may let a read wait.
            Ok(facts) if facts.is_file() => Self::File { file, path, buffer },
            _ => Self::Pipe { file, path, ready: false, buffer },
        }
    }

    /// What to wait for, if the flow has room for more.
    pub fn pollable(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pipe { file, .. } => Some(file.as_fd()),
            _ => None,
        }
    }

    /// It is readable now.
    pub fn on_readable(&mut self) {
        if let Self::Pipe { ready, .. } = self {
            *ready = true;
        }
    }

    /// Reads the next bytes into `piece`, waiting for them if they must come; 0: it has ended.
    ///
    /// # Errors
    /// When it cannot be read; the error names it.
    #[cfg(feature = "quic")]
    pub(super) fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::None => Ok(0),
            Self::Made { left, pattern, at } => {
                let made = made(left, pattern, at, piece.len());
                piece[..made.len()].copy_from_slice(made);
                Ok(made.len())
            }
            Self::File { file, path, .. } | Self::Pipe { file, path, .. } => loop {
                match file.read(piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => return read.map_err(|error| named(path, &error)),
                }
            },
        }
    }

    /// Gives the flow what it has room for.
    ///
    /// # Errors
    /// When it cannot be read; the error names it.
    pub fn fill(&mut self, flow: &mut UdpFlow) -> io::Result<SourceState> {
        loop {
            let room = flow.room().min(PIECE);
            if room == 0 {
                return Ok(SourceState::Yes);
            }
            let (read, path, buffer) = match self {
                Self::None => return Ok(SourceState::Later),
                Self::Made { left, pattern, at } => {
                    flow.write(made(left, pattern, at, room));
                    if *left == Some(0) {
                        return Ok(SourceState::No);
                    }
                    continue;
                }
                Self::File { file, path, buffer } => (file.read(&mut buffer[..room]), path, buffer),
                // What was written so far leaves: more may not come for a long time.
                Self::Pipe { ready: false, .. } => {
                    flow.flush();
                    return Ok(SourceState::Later);
                }
                Self::Pipe { file, path, ready, buffer } => {
                    // One call does not block, and the next might.
                    *ready = false;
                    (file.read(&mut buffer[..room]), path, buffer)
                }
            };
            match read {
                Ok(0) => return Ok(SourceState::No),
                Ok(count) => {
                    flow.write(&buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Readable a moment ago and empty now, where another program reads the same pipe:
                // the next turn answers `Later`.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(named(path, &error)),
            }
        }
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The next bytes of a pattern that is repeated, `most` at most.
fn made<'a>(left: &mut Option<u64>, pattern: &'a [u8], at: &mut usize, most: usize) -> &'a [u8] {
    let room = most.min(pattern.len() - *at);
    let count = left.map_or(room, |left| (room as u64).min(left) as usize);
    let made = &pattern[*at..*at + count];
    *at = (*at + count) % pattern.len();
    if let Some(left) = left {
        *left -= count as u64;
    }
    made
}

/// Why there is no place for what a flow brings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct SinkError {
    /// The reason.
    pub text: String,
    /// Whether there may be one later: descriptors or memory ran out.
    pub is_busy: bool,
}

impl From<ReportError> for SinkError {
    fn from(error: ReportError) -> Self {
        let errno = match &error {
            ReportError::Io { source, .. } => Errno::from_io_error(source),
            _ => None,
        };
        let is_busy = matches!(
            errno,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::AGAIN)
        );
        let text = match is_busy {
            true => format!("it has no room for this now: {error}"),
            false => error.to_string(),
        };
        Self { text, is_busy }
    }
}

impl From<&str> for SinkError {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), is_busy: false }
    }
}

/// Where the bytes of a flow go.
pub enum DataSink {
    /// Nowhere: only their number counts.
    Nowhere,
    /// Something whose reader may be slow or stop: standard output, a named pipe, a device.
    Pipe {
        /// The pipe.
        file: File,
        /// Whether it took less than there was.
        is_full: bool,
    },
    /// A file, which gets its name when all of it is there.
    File(Aside),
}

impl DataSink {
    /// A file that gets its name when all of it is there, something that is there and is no file, or
    /// standard output for `-`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, SinkError> {
        let opened = if path == Path::new("-") {
            // Past the buffer of `io::stdout`: what counts as taken has to be in the pipe.
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else if path.metadata().is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
            // A device or a named pipe is written as it is: a file aside would take its place.
            File::options().write(true).open(path)
        } else {
            return Ok(Self::File(Aside::create(path)?));
        };
        let file = opened.map_err(|source| ReportError::Io { path: path.to_owned(), source })?;
        Ok(Self::Pipe { file, is_full: false })
    }

    /// Whether it waits for its reader.
    pub(super) const fn is_full(&self) -> bool {
        matches!(self, Self::Pipe { is_full: true, .. })
    }

    /// Takes what the flow has to read and the reader of a pipe takes now. It is not read when it
    /// cannot be written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn drain(&mut self, flow: &mut UdpFlow) -> io::Result<()> {
        loop {
            let (first, _) = flow.readable();
            if first.is_empty() {
                return Ok(());
            }
            // Consumed only once written: what a slow reader does not take closes the peer's
            // window.
            let count = self.write_some(first)?;
            if count == 0 {
                return Ok(());
            }
            flow.consume(count);
        }
    }

    /// Takes the next bytes on a thread of tokio's, and waits for a pipe's reader as long as the flow
    /// is waited for.
    ///
    /// # Errors
    /// When they cannot be written.
    #[cfg(feature = "quic")]
    pub(super) fn write(&mut self, mut bytes: &[u8], is_over: impl Fn() -> bool) -> io::Result<()> {
        const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        while !bytes.is_empty() {
            let count = self.write_some(bytes)?;
            bytes = &bytes[count..];
            if let (0, Self::Pipe { file, .. }) = (count, &mut *self) {
                if is_over() {
                    return Err(io::Error::other("its reader does not read"));
                }
                tokio::task::block_in_place(|| is_writable(file, WAIT))?;
            }
        }
        Ok(())
    }

    /// Takes of the next bytes what can be written without waiting. Returns how many.
    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Nowhere => Ok(bytes.len()),
            Self::File(aside) => match aside.write_all(bytes) {
                Ok(()) => Ok(bytes.len()),
                Err(error) => {
                    let text = format!("{}: {error}", aside.path().display());
                    Err(io::Error::new(error.kind(), text))
                }
            },
            Self::Pipe { file, is_full } => {
                *is_full = false;
                let written = match is_writable(file, Timespec::default())? {
                    // A pipe that is writable takes this much without waiting (pipe(7): PIPE_BUF).
                    true => file.write(&bytes[..bytes.len().min(PIPE_PIECE)]),
                    false => Err(io::ErrorKind::WouldBlock.into()),
                };
                match written {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        *is_full = true;
                        Ok(0)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                    written => written,
                }
            }
        }
    }

    /// Gives the file its name: all of it is there.
    ///
    /// # Errors
    /// When that fails.
    pub fn commit(&mut self) -> Result<(), SinkError> {
        // Taken out first: nothing can be written to a file that has its name, or could not get it.
        match std::mem::replace(self, Self::Nowhere) {
            Self::File(aside) => Ok(aside.commit()?),
            _ => Ok(()),
        }
    }
}

/// Whether a write would not wait, at the latest after `wait`. An error counts, as a write reports it.
fn is_writable(file: &File, wait: Timespec) -> io::Result<bool> {
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        // A signal, perhaps Ctrl-C: the caller sees to it before it asks again.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pipe_takes_nothing_and_does_not_wait() {
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(OwnedFd::from(writer));
        let mut sink = DataSink::Pipe { file, is_full: false };
        let mut written = 0;
        loop {
            match sink.write_some(&[7; 1 << 20]).unwrap() {
                0 => break,
                count => written += count,
            }
        }
        assert!(written > 0 && sink.is_full());
        let mut read = vec![0; written];
        File::from(OwnedFd::from(reader)).read_exact(&mut read).unwrap();
        let error = sink.write_some(&[7]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "its reader has gone");
    }

    #[test]
    fn what_runs_out_is_busy_and_what_is_missing_is_not() {
        let of = |errno: Errno| {
            let source = io::Error::from_raw_os_error(errno.raw_os_error());
            SinkError::from(ReportError::Io { path: "copy".into(), source })
        };
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            let error = of(errno);
            assert!(error.is_busy && error.text.starts_with("it has no room for this now: "));
        }
        for errno in [Errno::NOENT, Errno::NOSPC, Errno::ACCESS] {
            let error = of(errno);
            assert!(!error.is_busy && error.text.starts_with("cannot write copy: "), "{error}");
        }
    }

    #[test]
    fn what_is_made_is_the_same_in_pieces_of_any_size() {
        let pattern: Vec<u8> = (0..7).collect();
        let taken = |sizes: &[usize]| {
            let (mut left, mut at, mut all) = (Some(20), 0, Vec::new());
            for size in sizes.iter().cycle() {
                all.extend_from_slice(made(&mut left, &pattern, &mut at, *size));
                if left == Some(0) {
                    break;
                }
            }
            all
        };
        let whole: Vec<u8> = pattern.iter().copied().cycle().take(20).collect();
        for sizes in [[100, 1].as_slice(), &[3], &[1, 5, 2], &[7]] {
            assert_eq!(taken(sizes), whole, "{sizes:?}");
        }
    }
}
