//! Lines on standard output that never hold up the server.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::server::{ConnectionFigures, RequestFigures, ServerView};

/// Lines that wait for whoever reads them.
const MAX_WAITING: usize = 1024;
/// Lines a second: a stranger must not fill the disk.
const MAX_PER_SECOND: u64 = 1000;
/// Characters of a path that are shown.
const MAX_PATH: usize = 200;

/// Writes a line for each request and each connection, from a thread of its own. Lines that come faster
/// than they are read, or more than 1000 in a second, are counted and left out.
pub struct RequestLog {
    lines: SyncSender<String>,
    dropped: Arc<AtomicU64>,
    /// The second that is counted, and its lines.
    second: Mutex<(Instant, u64)>,
}

impl RequestLog {
    /// A log that writes to `out`, whose last line may come after this has been dropped.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn new(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(MAX_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let theirs = dropped.clone();
        let thread = std::thread::Builder::new().name("h3-log".to_owned());
        thread.spawn(move || write(out, &waiting, &theirs))?;
        Ok(Self { lines, dropped, second: Mutex::new((Instant::now(), 0)) })
    }

    /// Takes a line, or counts it as left out.
    pub fn line(&self, text: String) {
        let is_written = self.is_within_the_second()
            && !matches!(self.lines.try_send(text), Err(TrySendError::Full(_)));
        if !is_written {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_within_the_second(&self) -> bool {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now.duration_since(second.0) >= Duration::from_secs(1) {
            *second = (now, 0);
        }
        second.1 += 1;
        second.1 <= MAX_PER_SECOND
    }
}

fn write(mut out: impl Write, waiting: &Receiver<String>, dropped: &AtomicU64) {
    // A reader that is gone does not end the server.
    while let Ok(line) = waiting.recv() {
        let left_out = dropped.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let _ = writeln!(out, "{left_out} lines were left out");
        }
        let _ = writeln!(out, "{line}");
        let _ = out.flush();
    }
}

impl ServerView for RequestLog {
    fn on_request(&self, figures: &RequestFigures) {
        let RequestFigures { peer, method, path, status, bytes, took, is_cut } = figures;
        let (path, cut) = (shown(path), if *is_cut { ", cut short" } else { "" });
        let seconds = took.as_secs_f64();
        self.line(format!(
            "{peer} {method} {path}: {status}, {bytes} bytes in {seconds:.2} s{cut}"
        ));
    }

    fn on_connection(&self, figures: &ConnectionFigures) {
        let ConnectionFigures { peer, requests, took, packets, lost, .. } = figures;
        let mut line = format!(
            "{peer} closed after {:.2} s: {requests} requests, {packets} packets, {lost} lost",
            took.as_secs_f64()
        );
        if let (Some(least), Some(queue)) = (figures.min_rtt, &figures.queue_delay) {
            line += &format!(
                ", rtt min {:.1} ms, queue delay p50 {:.1} p95 {:.1} p99 {:.1} ms",
                least.as_millis_f64(),
                queue.p50,
                queue.p95,
                queue.p99,
            );
        }
        self.line(line);
    }
}

/// A path as a terminal may show it: printable, and short enough that the status stays in sight.
fn shown(path: &str) -> String {
    let printable = |c: char| if c.is_control() { '?' } else { c };
    let mut shown: String = path.chars().take(MAX_PATH).map(printable).collect();
    let left_out = path.chars().count().saturating_sub(MAX_PATH);
    if left_out > 0 {
        shown += &format!("... ({left_out} more)");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_stays_in_sight_whatever_the_path() {
        assert_eq!(shown("/a b"), "/a b");
        assert_eq!(shown("/\u{1b}[2J\n"), "/?[2J?");
        let long = shown(&format!("/{}", "a".repeat(4000)));
        assert!(long.len() < 230 && long.ends_with("a... (3801 more)"), "{long}");
    }

    /// Never takes anything until it may.
    struct Blocked(Receiver<()>, std::sync::mpsc::Sender<Vec<u8>>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // An error: the test goes on without blocking.
            let _ = self.0.recv();
            let _ = self.1.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn output_that_is_not_read_holds_nothing_up_and_what_is_left_out_is_counted() {
        let (unblock, blocked) = std::sync::mpsc::channel();
        let (out, written) = std::sync::mpsc::channel();
        let log = RequestLog::new(Blocked(blocked, out)).unwrap();
        let all = 5000;
        for number in 0..all {
            log.line(format!("line {number}"));
        }
        drop(unblock);
        log.line("the last one".to_owned());
        // In a second with 1000 lines already it may be left out as well; its thread ends then.
        drop(log);
        let text: Vec<u8> = written.iter().flatten().collect();
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("line")).count();
        assert!((1..=MAX_WAITING + 1).contains(&lines), "{lines}");
        assert!(text.contains(" lines were left out"), "{text}");
    }
}
