//! Many pieces of work on all cores, from which the results come back to one thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::LabError;

/// How often the calling thread looks whether it was asked to stop.
const PAUSE: Duration = Duration::from_millis(50);

/// What work reports to the thread that began it.
pub trait WorkSink<T> {
    /// A piece of work is done.
    fn on_done(&mut self, index: usize, result: &T) {
        let _ = (index, result);
    }

    /// This share of all work is done, from 0 to 1. Called about twenty times a second.
    fn on_progress(&mut self, share: f64) {
        let _ = share;
    }

    /// Whether to stop. What is done by then is kept.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Reports nothing.
impl<T> WorkSink<T> for () {}

/// Virtual time that has passed in all runs together, in milliseconds.
#[derive(Debug, Default)]
pub struct VirtualTime(AtomicU64);

impl VirtualTime {
    /// Adds what has passed in one of the runs.
    pub fn add(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }

    /// Returns how much has passed in all of them.
    pub fn ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns the number of threads to use: as many as asked for, else one per core.
pub fn threads(jobs: Option<u16>) -> usize {
    jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Calls `work` with 0 to `count`, `threads` at a time and started in this order, until all is
/// done or the sink is cancelled. `share` returns how much of the whole is done, from 0 to 1. What
/// was not done, or ended in a panic, is `None`.
///
/// Does not wait for the threads when it is cancelled: they go on with the piece that they are at,
/// and begin no other.
///
/// # Errors
/// When a thread cannot be started.
pub fn run_all<T: Send + 'static>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Send + Sync + 'static,
    share: impl Fn() -> f64,
    sink: &mut dyn WorkSink<T>,
) -> Result<Vec<Option<T>>, LabError> {
    let shared = Arc::new(Shared { work, next: AtomicUsize::new(0), stop: AtomicBool::new(false) });
    let (sender, finished) = channel();
    for _ in 0..threads.clamp(1, count.max(1)) {
        let (shared, sender) = (Arc::clone(&shared), sender.clone());
        let work_on = move || {
            while let Some(index) = shared.take(count) {
                // A panic is one result that is missing, and the thread goes on.
                let result = catch_unwind(AssertUnwindSafe(|| (shared.work)(index)));
                let Ok(result) = result else { continue };
                // Nobody wants the result any more if nobody receives it.
                let _ = sender.send((index, result));
            }
        };
        let thread = std::thread::Builder::new().name("cellpace-run".to_owned()).spawn(work_on);
        thread.map_err(|error| LabError::failed(format!("cannot start a thread: {error}")))?;
    }
    drop(sender);
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while !sink.is_cancelled() {
        match finished.recv_timeout(PAUSE) {
            Ok((index, result)) => {
                sink.on_done(index, &result);
                results[index] = Some(result);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        sink.on_progress(share());
    }
    shared.stop.store(true, Ordering::Relaxed);
    for (index, result) in finished.try_iter() {
        results[index] = Some(result);
    }
    Ok(results)
}

/// What the threads share.
struct Shared<W> {
    work: W,
    next: AtomicUsize,
    stop: AtomicBool,
}

impl<W> Shared<W> {
    /// Takes the next piece of work, if there is one and it is still wanted.
    fn take(&self, count: usize) -> Option<usize> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < count && !self.stop.load(Ordering::Relaxed)).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stops after so many results.
    struct Until(usize);

    impl WorkSink<usize> for Until {
        fn on_done(&mut self, _: usize, _: &usize) {
            self.0 -= 1;
        }

        fn is_cancelled(&self) -> bool {
            self.0 == 0
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_work_whatever_the_number_of_threads() {
        for threads in [1, 3, 100] {
            let results = run_all(20, threads, |index| index * index, || 0.0, &mut ()).unwrap();
            assert!(results.into_iter().eq((0..20).map(|index| Some(index * index))));
        }
        assert_eq!(run_all(0, 1, |index| index, || 0.0, &mut ()).unwrap(), []);
    }

    #[test]
    fn what_is_done_is_kept_when_the_rest_is_cancelled() {
        let slow = |index| {
            std::thread::sleep(Duration::from_millis(5));
            index
        };
        let results = run_all(1000, 1, slow, || 0.0, &mut Until(3)).unwrap();
        let done = results.iter().flatten().count();
        assert!((3..1000).contains(&done), "{done}");
    }

    #[test]
    fn a_panic_is_one_result_that_is_missing() {
        let work = |index| if index == 1 { panic!("made up") } else { index };
        assert_eq!(run_all(3, 2, work, || 0.0, &mut ()).unwrap(), [Some(0), None, Some(2)]);
    }
}
