//! Lines that a service writes, each stream by a thread of its own. What serves never waits for a
//! reader or a disk: lines wait in a bounded queue, and those for which it has no room are dropped,
//! counted and reported.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cellpace_live::{MetricFamily, MetricKind, metric_family};
use cellpace_os::signals::hangups;
use rustix::fs::{FlockOperation, flock};

use crate::complaint::{one_line, without_numbers};
use crate::error::CommandError;

/// Bytes that wait for one reader at most.
const MAX_WAITING: usize = 16 << 20;

/// How long the end of the program waits for a reader that takes nothing.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// From one report of dropped lines to the next, at least.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// All writers of the process, for `/metrics`, and to reopen their files.
static WRITERS: Mutex<Vec<LineWriter>> = Mutex::new(Vec::new());

/// Writes whole lines to a stream or a file by a thread of its own. A clone is the same writer.
#[derive(Clone)]
pub(crate) struct LineWriter(Arc<LineQueue>);

/// What waits for the thread.
struct LineQueue {
    /// The option or stream, as reports and metrics name it.
    name: &'static str,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<u8>,
    /// The thread is writing what it took.
    is_writing: bool,
    /// Counts what the thread has done, to tell a slow reader from one that takes nothing.
    progress: u64,
    dropped: u64,
    /// Dropped lines that nothing has reported so far.
    unreported: u64,
    reported_at: Option<Instant>,
    /// The file is to be opened anew before more is written.
    reopen: bool,
    /// The first failure of the file.
    failed: Option<String>,
    /// The reader has closed its end: nothing more is written, and nothing is missed.
    is_gone: bool,
}

/// Where a writer's lines go.
enum LineTarget {
    Stdout,
    Stderr,
    File(AppendedFile),
}

impl LineWriter {
    /// Writes to standard output.
    pub(crate) fn stdout() -> io::Result<Self> {
        Self::start("stdout", LineTarget::Stdout)
    }

    /// Writes to standard error.
    pub(crate) fn stderr() -> io::Result<Self> {
        Self::start("stderr", LineTarget::Stderr)
    }

    /// Appends to a file, which is reopened when the process gets SIGHUP. `header` is written first
    /// whenever the file is empty. Returns how many bytes of an incomplete last line were removed,
    /// which a killed process had left.
    pub(crate) fn append(
        name: &'static str,
        path: &Path,
        header: Vec<u8>,
    ) -> io::Result<(Self, u64)> {
        let (file, removed) = AppendedFile::open(path, header)?;
        Ok((Self::start(name, LineTarget::File(file))?, removed))
    }

    fn start(name: &'static str, target: LineTarget) -> io::Result<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let writer = Self(Arc::new(LineQueue { name, state, changed }));
        let queue = writer.0.clone();
        let thread = thread::Builder::new().name("cellpace-output".to_owned());
        thread.spawn(move || queue.write_to(target))?;
        locked(&WRITERS).push(writer.clone());
        Ok(writer)
    }

    /// Hands whole lines over, and returns at once. Those for which there is no room are dropped.
    pub(crate) fn put(&self, lines: &[u8]) {
        let Some(report) = self.0.put(lines) else { return };
        complain(&report);
    }

    /// Waits until everything is written, but no longer for a reader that takes nothing. Returns
    /// what failed.
    pub(crate) fn finish(&self) -> Option<String> {
        self.0.finish()
    }
}

impl Write for LineWriter {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.put(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves lines unwritten, at worst.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LineQueue {
    /// Queues lines, or drops them; returns what is to be reported about dropped ones.
    fn put(&self, lines: &[u8]) -> Option<String> {
        let mut state = locked(&self.state);
        if state.is_gone {
            return None;
        }
        // A document may be larger than all that may wait.
        if state.waiting.is_empty() || state.waiting.len() + lines.len() <= MAX_WAITING {
            state.waiting.extend_from_slice(lines);
            self.changed.notify_all();
            return None;
        }
        state.drop_lines(count(lines));
        self.report(&mut state)
    }

    /// A report of dropped lines, if one is due. Those of standard error itself can only be reported
    /// once it takes lines again.
    fn report(&self, state: &mut QueueState) -> Option<String> {
        let is_due = state.reported_at.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if self.name == "stderr" || state.unreported == 0 || !is_due {
            return None;
        }
        state.reported_at = Some(Instant::now());
        let dropped = std::mem::take(&mut state.unreported);
        let why = state.failed.as_deref().unwrap_or("its reader does not read");
        Some(format!("{}: {} dropped: {why}", self.name, lines_were(dropped)))
    }

    fn write_to(&self, mut target: LineTarget) {
        loop {
            let (lines, reopen) = self.next();
            if reopen && let LineTarget::File(file) = &mut target {
                let reopened = file.reopen();
                self.note_failure(reopened.err());
            }
            let written = target.write(&lines);
            self.note_written(&lines, written);
        }
    }

    /// Waits for work: the lines to write, and whether the file is to be opened anew before.
    fn next(&self) -> (Vec<u8>, bool) {
        let mut state = locked(&self.state);
        while state.waiting.is_empty() && !state.reopen {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_writing = true;
        let mut lines = std::mem::take(&mut state.waiting);
        if self.name == "stderr" && state.unreported > 0 {
            let dropped = std::mem::take(&mut state.unreported);
            let text =
                format!("cellpace: {} dropped before these: nothing read\n", lines_were(dropped));
            lines.splice(0..0, text.into_bytes());
        }
        (lines, std::mem::take(&mut state.reopen))
    }

    fn note_written(&self, lines: &[u8], written: Result<(), WriteFailure>) {
        let mut state = locked(&self.state);
        state.is_writing = false;
        state.progress += 1;
        let mut report = None;
        if let Err(WriteFailure { error, whole }) = written {
            if error.kind() == ErrorKind::BrokenPipe {
                state.is_gone = true;
                state.waiting = Vec::new();
            } else {
                state.failed.get_or_insert(error.to_string());
                state.drop_lines(count(&lines[whole..]));
                report = self.report(&mut state);
            }
        }
        self.changed.notify_all();
        drop(state);
        if let Some(report) = report {
            complain(&report);
        }
    }

    fn note_failure(&self, error: Option<io::Error>) {
        let Some(error) = error else { return };
        let text = format!("{}: opening the file anew: {error}; the old one is kept", self.name);
        complain(&text);
    }

    fn finish(&self) -> Option<String> {
        let mut state = locked(&self.state);
        let (mut progress, mut since) = (state.progress, Instant::now());
        while (state.is_writing || !state.waiting.is_empty()) && since.elapsed() < LAST_WAIT {
            let left = LAST_WAIT.saturating_sub(since.elapsed());
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.progress != progress {
                (progress, since) = (state.progress, Instant::now());
            }
        }
        let left = count(&state.waiting);
        state.drop_lines(left);
        state.reported_at = None;
        let report = self.report(&mut state);
        let failed = state.failed.clone();
        drop(state);
        match (failed, report) {
            (Some(failed), _) => Some(format!("{}: {failed}", self.name)),
            (None, Some(report)) => {
                complain(&report);
                None
            }
            (None, None) => None,
        }
    }
}

impl QueueState {
    fn drop_lines(&mut self, count: u64) {
        self.dropped += count;
        self.unreported += count;
    }
}

/// Lines of a text, a last one without an end among them.
fn count(lines: &[u8]) -> u64 {
    let ends = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
    ends + u64::from(lines.last().is_some_and(|last| *last != b'\n'))
}

/// Why lines were not written, and up to which byte they were.
struct WriteFailure {
    error: io::Error,
    whole: usize,
}

impl LineTarget {
    fn write(&mut self, lines: &[u8]) -> Result<(), WriteFailure> {
        match self {
            // Not by the standard library's streams: others would wait for their locks.
            Self::Stdout => write_in_parts(rustix::stdio::stdout(), lines),
            Self::Stderr => write_in_parts(rustix::stdio::stderr(), lines),
            Self::File(file) => file.write(lines),
        }
    }
}

/// Writes a few lines in a call: those of other processes must not stand within one of ours, which
/// pipes ensure up to this size.
fn write_in_parts(to: BorrowedFd<'_>, lines: &[u8]) -> Result<(), WriteFailure> {
    const PART: usize = 4096;
    let mut done = 0;
    while done < lines.len() {
        let rest = &lines[done..];
        let end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'\n');
        let part = end(&rest[..rest.len().min(PART)]).map_or_else(
            || rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1),
            |at| at + 1,
        );
        write_all(to, &rest[..part]).map_err(|WriteFailure { error, .. }| failure(error, done))?;
        done += part;
    }
    Ok(())
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), WriteFailure> {
    let all = bytes.len();
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(0) => return Err(failure(ErrorKind::WriteZero.into(), all - bytes.len())),
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            // A terminal that another program has made non-blocking, say.
            Err(rustix::io::Errno::AGAIN) => thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(failure(error.into(), all - bytes.len())),
        }
    }
    Ok(())
}

fn failure(error: io::Error, whole: usize) -> WriteFailure {
    WriteFailure { error, whole }
}

/// A file that grows by whole lines.
struct AppendedFile {
    path: PathBuf,
    header: Vec<u8>,
    file: File,
}

impl AppendedFile {
    /// Opens it, and removes an incomplete last line unless another process writes the file.
    fn open(path: &Path, header: Vec<u8>) -> io::Result<(Self, u64)> {
        let file = open_to_append(path)?;
        let removed = match file.metadata()?.is_file() {
            true => remove_torn_line(path, &file)?,
            false => 0,
        };
        let mut appended = Self { path: path.to_owned(), header, file };
        appended.write_header().map_err(|failure| failure.error)?;
        Ok((appended, removed))
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open_to_append(&self.path)?;
        let _ = flock(&self.file, FlockOperation::NonBlockingLockShared);
        self.write_header().map_err(|failure| failure.error)
    }

    /// A file that is new, or that something has emptied, begins with the header.
    fn write_header(&mut self) -> Result<(), WriteFailure> {
        let is_empty = self.file.metadata().is_ok_and(|facts| facts.is_file() && facts.len() == 0);
        if self.header.is_empty() || !is_empty {
            return Ok(());
        }
        write_all(self.file.as_fd(), &self.header)
    }

    /// Appends lines; of those that do not fit no part stays.
    fn write(&mut self, lines: &[u8]) -> Result<(), WriteFailure> {
        if lines.is_empty() {
            return Ok(());
        }
        self.write_header().map_err(|error| failure(error.error, 0))?;
        let before = self.file.metadata().map(|facts| facts.len());
        write_all(self.file.as_fd(), lines).map_err(|WriteFailure { error, whole: written }| {
            let whole =
                lines[..written].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let facts = self.file.metadata();
            // Another process may have appended since.
            if let (Ok(before), Ok(facts)) = (before, facts)
                && facts.is_file()
                && facts.len() == before + written as u64
            {
                let _ = self.file.set_len(before + whole as u64);
            }
            failure(error, whole)
        })
    }
}

fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Removes what a killed process has written of its last line, and keeps a lock that tells others
/// that this process writes the file. Returns how many bytes those were.
fn remove_torn_line(path: &Path, file: &File) -> io::Result<u64> {
    let is_alone = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let tail = if is_alone { tail(path)? } else { FileTail::Whole };
    let removed = match tail {
        FileTail::Whole => 0,
        FileTail::Torn(count) => {
            file.set_len(file.metadata()?.len().saturating_sub(count))?;
            count
        }
        FileTail::Foreign => {
            write_all(file.as_fd(), b"\n").map_err(|failure| failure.error)?;
            0
        }
    };
    // File systems without locks: then nothing tells others.
    let _ = flock(file, FlockOperation::NonBlockingLockShared);
    Ok(removed)
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileTail {
    /// With a whole line, or it is empty.
    Whole,
    /// With so many bytes of a record that is not whole.
    Torn(u64),
    /// With a line that is not ours and has no end.
    Foreign,
}

fn tail(path: &Path) -> io::Result<FileTail> {
    const STEP: u64 = 64 << 10;
    // A file that may be written and not read is left as it is.
    let Ok(mut file) = File::open(path) else { return Ok(FileTail::Whole) };
    let length = file.metadata()?.len();
    let mut start = length;
    let mut bytes = Vec::new();
    while start > 0 {
        let end = start;
        start = end.saturating_sub(STEP);
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        (&mut file).take(end - start).read_to_end(&mut bytes)?;
        let line = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        // What a record begins with: an object, in qlog behind a separator.
        let first = bytes.get(line.unwrap_or(0));
        match (line, first) {
            (Some(_), None) => return Ok(FileTail::Whole),
            (Some(at), Some(b'{' | b'\x1e')) => {
                return Ok(FileTail::Torn(length - start - at as u64));
            }
            (None, Some(b'{' | b'\x1e')) if start == 0 => return Ok(FileTail::Torn(length)),
            (None, _) if start > 0 => {}
            _ => return Ok(FileTail::Foreign),
        }
    }
    Ok(FileTail::Whole)
}

/// Writers of standard output and standard error, from [`serve`] on.
static STREAMS: OnceLock<(LineWriter, LineWriter)> = OnceLock::new();

/// From now on what the program prints waits for no reader: it is a service. To be called before
/// it serves, and after it has given up privileges, which threads keep that run already.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn serve() -> io::Result<()> {
    if STREAMS.get().is_none() {
        let _ = STREAMS.set((LineWriter::stdout()?, LineWriter::stderr()?));
    }
    Ok(())
}

/// Begins a service that writes no files of lines: as [`serve`], and SIGHUP does not end it.
///
/// # Errors
/// When the system refuses.
pub(crate) fn begin_service() -> Result<(), CommandError> {
    let begun = serve().and_then(|()| reopen_on_hangup());
    begun.map_err(|error| CommandError::failed(format!("output: {error}")))
}

/// Says on standard error, in one line, what a person should know. A standard error that is gone
/// must not end the program in another way than it would have ended.
pub(crate) fn complain(text: &str) {
    let line = format!("cellpace: {}\n", one_line(&without_numbers(text)));
    if let Some(stderr) = service_stderr() {
        return stderr.put(line.as_bytes());
    }
    // In one call: the programs that we run write to it, too, and lines must not mix.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// The writer of standard output, in a service.
pub(crate) fn service_stdout() -> Option<&'static LineWriter> {
    STREAMS.get().map(|(stdout, _)| stdout)
}

/// The writer of standard error, in a service.
pub(crate) fn service_stderr() -> Option<&'static LineWriter> {
    STREAMS.get().map(|(_, stderr)| stderr)
}

/// Has all files opened anew, which have another name by now or are gone.
pub(crate) fn reopen_all() {
    for writer in locked(&WRITERS).iter() {
        locked(&writer.0.state).reopen = true;
        writer.0.changed.notify_all();
    }
}

/// From now on SIGHUP has all files opened anew, and does not end the process.
///
/// # Errors
/// When the system refuses.
fn reopen_on_hangup() -> io::Result<()> {
    let mut hangups = hangups()?;
    let thread = thread::Builder::new().name("cellpace-hangup".to_owned());
    thread.spawn(move || {
        let mut bytes = [0; 64];
        while hangups.read(&mut bytes).is_ok_and(|count| count > 0) {
            reopen_all();
        }
    })?;
    Ok(())
}

/// Waits at the end of the program for what is not written yet, but not for readers that take
/// nothing.
pub(crate) fn finish_streams() {
    let Some((stdout, stderr)) = STREAMS.get() else { return };
    // What fails here has nobody to be reported to.
    let _ = (stdout.finish(), stderr.finish());
}

/// The dropped lines of each output, for Prometheus.
pub(crate) fn dropped_lines(command: &str) -> MetricFamily {
    let writers = locked(&WRITERS);
    let samples = writers.iter().map(|writer| {
        let labels = vec![("command", command), ("output", writer.0.name)];
        (labels, locked(&writer.0.state).dropped as f64)
    });
    metric_family(
        "cellpace_dropped_lines_total",
        MetricKind::Counter,
        "Lines that were not written, as their reader did not read or the disk is full.",
        samples,
    )
}

fn lines_were(count: u64) -> String {
    if count == 1 { "1 line was".to_owned() } else { format!("{count} lines were") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &'static str) -> LineQueue {
        LineQueue { name, state: Mutex::default(), changed: Condvar::new() }
    }

    #[test]
    fn lines_without_room_are_dropped_counted_and_reported_once() {
        let queue = queue("--json");
        let line = vec![b'x'; MAX_WAITING / 2];
        assert_eq!((queue.put(&line), queue.put(&line)), (None, None));
        let report = queue.put(b"a\nb\n").unwrap();
        assert_eq!(report, "--json: 2 lines were dropped: its reader does not read");
        assert_eq!(queue.put(b"c\n"), None, "not again at once");
        let state = locked(&queue.state);
        assert_eq!((state.dropped, state.unreported), (3, 1));
        assert_eq!(state.waiting.len(), MAX_WAITING);
    }

    #[test]
    fn standard_error_reports_its_own_losses_when_it_is_read_again() {
        let queue = queue("stderr");
        queue.put(&vec![b'x'; MAX_WAITING]);
        assert_eq!(queue.put(b"a\n"), None);
        let (lines, _) = queue.next();
        assert!(lines.starts_with(b"cellpace: 1 line was dropped before these: nothing read\nx"));
    }

    #[test]
    fn a_document_of_any_size_is_taken_by_an_empty_queue() {
        let queue = queue("stdout");
        assert_eq!(queue.put(&vec![b'x'; MAX_WAITING + 1]), None);
        assert_eq!(locked(&queue.state).dropped, 0);
    }

    #[test]
    fn the_end_does_not_wait_for_a_reader_that_takes_nothing() {
        let queue = queue("stdout");
        queue.put(b"a\nb\n");
        let start = Instant::now();
        assert_eq!(queue.finish(), None);
        assert!(start.elapsed() >= LAST_WAIT);
        assert_eq!(locked(&queue.state).dropped, 2);
    }

    fn appended(path: &Path, lines: &str) -> u64 {
        let (mut file, removed) = AppendedFile::open(path, Vec::new()).unwrap();
        assert!(file.write(lines.as_bytes()).is_ok());
        removed
    }

    #[test]
    fn a_file_grows_and_a_torn_last_line_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let read = || std::fs::read_to_string(&path).unwrap();
        assert_eq!(appended(&path, "{1}\n"), 0);
        assert_eq!(appended(&path, "{2}\n"), 0);
        assert_eq!(read(), "{1}\n{2}\n");
        std::fs::write(&path, format!("{{1}}\n{{{}", "x".repeat(200_000))).unwrap();
        assert_eq!(appended(&path, "{3}\n"), 200_001);
        assert_eq!(read(), "{1}\n{3}\n");
        std::fs::write(&path, "{\"torn").unwrap();
        assert_eq!(appended(&path, "{4}\n"), 6);
        assert_eq!(read(), "{4}\n");
        std::fs::write(&path, "a note").unwrap();
        assert_eq!(appended(&path, "{5}\n"), 0, "it is not ours");
        assert_eq!(read(), "a note\n{5}\n");
    }

    #[test]
    fn what_another_process_writes_at_the_moment_is_not_torn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let (other, _) = AppendedFile::open(&path, Vec::new()).unwrap();
        assert!(write_all(other.file.as_fd(), b"{half").is_ok());
        assert_eq!(AppendedFile::open(&path, Vec::new()).unwrap().1, 0);
        assert_eq!(std::fs::read(&path).unwrap(), b"{half");
    }

    #[test]
    fn a_file_that_is_emptied_or_renamed_begins_with_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("a.sqlog"), folder.path().join("a.1"));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let (mut file, _) = AppendedFile::open(&path, b"head\n".to_vec()).unwrap();
        assert!(file.write(b"1\n").is_ok());
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert!(file.write(b"2\n").is_ok());
        assert_eq!(read(&path), "head\n2\n", "copytruncate");
        std::fs::rename(&path, &old).unwrap();
        assert!(file.write(b"3\n").is_ok());
        file.reopen().unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("head\n2\n3\n", "head\n"));
        drop(file);
        let (mut file, _) = AppendedFile::open(&path, b"head\n".to_vec()).unwrap();
        assert!(file.write(b"4\n").is_ok());
        assert_eq!(read(&path), "head\n4\n", "one header after a restart, too");
    }

    #[test]
    fn lines_that_a_full_device_refuses_are_counted() {
        let (writer, _) = LineWriter::append("--json", Path::new("/dev/full"), Vec::new()).unwrap();
        writer.put(b"{1}\n{2}\n");
        let failed = writer.finish().unwrap();
        assert!(failed.starts_with("--json: No space left"), "{failed}");
        assert_eq!(locked(&writer.0.state).dropped, 2);
    }
}
