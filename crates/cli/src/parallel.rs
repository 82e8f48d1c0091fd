//! Many runs on all cores, with progress and a clean end on Ctrl-C.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rayon::ThreadPoolBuilder;

use crate::error::Failure;
use crate::progress::{Progress, interrupted};

/// How often to look whether Ctrl-C was pressed.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls `work` with 0 to `runs`, `threads` at a time and started in this order, until all is
/// done or Ctrl-C was pressed. `share` tells how much of the whole is done, from 0 to 1. What was
/// not done, or ended in a panic, is `None`.
///
/// Nobody waits for the threads: when Ctrl-C is pressed, the runs they are in the middle of end
/// with the program.
pub(crate) fn run_all<T: Send + 'static>(
    runs: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Send + Sync + 'static,
    share: impl Fn() -> f64,
) -> Result<Vec<Option<T>>, Failure> {
    let pool = ThreadPoolBuilder::new().num_threads(threads.min(runs)).build();
    let pool = pool.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    let work = Arc::new(work);
    let (sender, finished) = channel();
    for index in 0..runs {
        let (work, sender) = (Arc::clone(&work), sender.clone());
        // Whoever no longer listens does not want the result.
        pool.spawn_fifo(move || drop(sender.send((index, work(index)))));
    }
    drop(sender);
    let mut results: Vec<Option<T>> = (0..runs).map(|_| None).collect();
    let progress = Progress::new(runs, "runs");
    while !interrupted() {
        match finished.recv_timeout(PAUSE) {
            Ok((index, result)) => {
                results[index] = Some(result);
                progress.step();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        progress.reached(share());
    }
    for (index, result) in finished.try_iter() {
        results[index] = Some(result);
    }
    progress.finish();
    Ok(results)
}

/// Threads to use: as many as asked for, else one per core.
pub(crate) fn threads(jobs: Option<u16>) -> usize {
    jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Virtual time that has passed in all runs together.
#[derive(Default)]
pub(crate) struct Simulated(std::sync::atomic::AtomicU64);

impl Simulated {
    /// More has passed.
    pub(crate) fn add(&self, ms: u64) {
        self.0.fetch_add(ms, std::sync::atomic::Ordering::Relaxed);
    }

    /// All of it.
    pub(crate) fn ms(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}
