//! Many pieces of work on all cores, from which the results come back to one thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use cellpace_base::Span;
use cellpace_sim::{Observer, Outcome, Scenario, SimError, Simulation};

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

/// What runs that go on at the same time share: how far they are, and whether to stop.
#[derive(Debug, Default)]
pub struct WorkClock {
    passed_ns: AtomicU64,
    is_stopped: AtomicBool,
}

impl WorkClock {
    /// Adds virtual time that has passed in one of the runs.
    pub fn add(&self, passed: Span) {
        // Relaxed is enough: the count is for people, and results come by the channel.
        self.passed_ns.fetch_add(passed.as_nanos(), Ordering::Relaxed);
    }

    /// Whether the runs are to end as they are.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn share_of(&self, total: Span) -> f64 {
        self.passed_ns.load(Ordering::Relaxed) as f64 / total.as_nanos().max(1) as f64
    }
}

/// Virtual time between two looks at whether to stop, at most.
const MAX_STEP: Span = Span::from_secs(1);

/// Virtual time between two looks at whether to stop.
pub(crate) fn step_of(scenario: &Scenario) -> Span {
    // A hundredth, so that the progress of short runs moves, too.
    (scenario.duration / 100).min(MAX_STEP).max(Span::from_nanos(1))
}

/// Simulates a scenario and reports to `clock` how far it is. `None`: stopped by the clock.
///
/// # Errors
/// When the scenario contradicts itself, or memory does not suffice.
pub fn simulate(
    scenario: &Scenario,
    observer: &mut impl Observer,
    clock: &WorkClock,
) -> Result<Option<Outcome>, SimError> {
    run_to_end(Simulation::new(scenario)?, step_of(scenario), observer, clock)
}

/// Does the same with a run that has begun, in steps of `step`.
pub(crate) fn run_to_end(
    mut simulation: Simulation,
    step: Span,
    observer: &mut impl Observer,
    clock: &WorkClock,
) -> Result<Option<Outcome>, SimError> {
    while !simulation.is_over() {
        if clock.is_stopped() {
            return Ok(None);
        }
        // In steps, since a run is stopped and its progress counted only between them.
        let before = simulation.now();
        simulation.advance_observed(before + step, observer)?;
        clock.add(simulation.now() - before);
    }
    simulation.finish().map(Some)
}

/// Returns the number of threads to use: as many as asked for, else one per core.
pub fn threads(jobs: Option<u16>) -> usize {
    jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Calls `work` with 0 to `count`, `threads` at a time and started in this order, until all is
/// done or the sink is cancelled. `total` is the virtual time of all runs together. What was not
/// done, was stopped by its clock, or ended in a panic is `None`.
///
/// # Errors
/// When a thread cannot be started.
pub fn run_all<T: Send>(
    count: usize,
    threads: usize,
    total: Span,
    work: impl Fn(usize, &WorkClock) -> Option<T> + Sync,
    sink: &mut dyn WorkSink<T>,
) -> Result<Vec<Option<T>>, LabError> {
    let (clock, next) = (WorkClock::default(), AtomicUsize::new(0));
    let (sender, finished) = channel();
    let work_on = |sender: Sender<(usize, T)>| {
        while !clock.is_stopped() {
            // One piece at a time, as pieces differ much in length: no thread gets a share in
            // advance.
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            // A panic is one result that is missing, and the thread goes on.
            let result = catch_unwind(AssertUnwindSafe(|| work(index, &clock)));
            if let Ok(Some(result)) = result {
                // The receiver lives as long as this thread.
                let _ = sender.send((index, result));
            }
        }
    };
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            let (sender, work_on) = (sender.clone(), &work_on);
            let thread = std::thread::Builder::new().name("cellpace-run".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, move || work_on(sender)) {
                // Threads that already run end first, as the scope waits for them.
                clock.is_stopped.store(true, Ordering::Relaxed);
                return Err(LabError::failed(format!("cannot start a thread: {error}")));
            }
        }
        // Only threads hold senders now, so that the channel ends with the last of them.
        drop(sender);
        loop {
            // With a time, since the sink is asked whether to stop also while no piece ends.
            match finished.recv_timeout(PAUSE) {
                Ok((index, result)) => {
                    sink.on_done(index, &result);
                    results[index] = Some(result);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            sink.on_progress(clock.share_of(total));
            // Once stopped it stays so, whatever the sink answers later.
            clock.is_stopped.fetch_or(sink.is_cancelled(), Ordering::Relaxed);
        }
    })?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Span = Span::ZERO;

    /// The number of results after which it stops.
    struct Until(usize);

    impl WorkSink<usize> for Until {
        fn on_done(&mut self, _: usize, _: &usize) {
            self.0 = self.0.saturating_sub(1);
        }

        fn is_cancelled(&self) -> bool {
            self.0 == 0
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_work_whatever_the_number_of_threads() {
        for threads in [1, 3, 100] {
            let results =
                run_all(20, threads, NONE, |index, _| Some(index * index), &mut ()).unwrap();
            assert!(results.into_iter().eq((0..20).map(|index| Some(index * index))));
        }
        assert_eq!(run_all(0, 1, NONE, |index, _| Some(index), &mut ()).unwrap(), []);
    }

    #[test]
    fn what_is_done_is_kept_when_the_rest_is_cancelled() {
        let slow = |index, _: &WorkClock| {
            std::thread::sleep(Duration::from_millis(5));
            Some(index)
        };
        let results = run_all(1000, 1, NONE, slow, &mut Until(3)).unwrap();
        let done = results.iter().flatten().count();
        assert!((3..1000).contains(&done), "{done}");
    }

    #[test]
    fn a_run_in_the_middle_is_stopped_by_its_clock() {
        let cc = "cubic".parse().unwrap();
        let scenario =
            Scenario { flows: vec![cellpace_sim::FlowSpec::bulk(cc)], ..Scenario::default() };
        let clock = WorkClock::default();
        assert!(simulate(&scenario, &mut (), &clock).unwrap().is_some());
        assert_eq!(clock.share_of(scenario.duration), 1.0);
        clock.is_stopped.store(true, Ordering::Relaxed);
        assert_eq!(simulate(&scenario, &mut (), &clock).unwrap(), None);
    }

    #[test]
    fn a_panic_is_one_result_that_is_missing() {
        let work = |index, _: &WorkClock| if index == 1 { panic!("made up") } else { Some(index) };
        assert_eq!(run_all(3, 2, NONE, work, &mut ()).unwrap(), [Some(0), None, Some(2)]);
    }
}
