//! A progress bar for work of more than two seconds, and a clean end on Ctrl-C.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cellpace_lab::WorkSink;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use cellpace_os::signals::interrupted_code;
pub(crate) use cellpace_os::signals::{end_cleanly_on_ctrl_c, interrupted};

use crate::error::CommandError;
use crate::options::Verbosity;

/// Progress over a known number of steps; on a terminal only, and only when it takes long.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    steps: usize,
    done: AtomicUsize,
    unit: String,
    verbosity: Verbosity,
}

impl Progress {
    const PATIENCE: Duration = Duration::from_secs(2);
    /// Positions of the bar within a step.
    const FINE: u64 = 1_000;

    pub(crate) fn new(steps: usize, unit: &str) -> Self {
        Self::with_verbosity(steps, unit, Verbosity::default())
    }

    /// Progress that is not shown to those who want nothing but errors.
    pub(crate) fn with_verbosity(steps: usize, unit: &str, verbosity: Verbosity) -> Self {
        let length = Some(steps as u64 * Self::FINE);
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}, {eta} left") {
            bar.set_style(style);
        }
        let (started, done, unit) = (Instant::now(), AtomicUsize::new(0), unit.to_owned());
        Self { bar, started, steps, done, unit, verbosity }
    }

    /// A step is done.
    pub(crate) fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bar.inc(Self::FINE);
        self.draw();
    }

    /// This share (0 to 1) of the whole is done, for steps that are long.
    pub(crate) fn reached(&self, share: f64) {
        self.bar.set_position((share * (self.steps as u64 * Self::FINE) as f64) as u64);
        self.draw();
    }

    fn draw(&self) {
        if self.verbosity.is_quiet() || self.started.elapsed() < Self::PATIENCE {
            return;
        }
        let done = self.done.load(Ordering::Relaxed);
        self.bar.set_message(format!("{done}/{} {}", self.steps, self.unit));
        if self.bar.is_hidden() {
            // Draws on a terminal only.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl<T> WorkSink<T> for Progress {
    fn on_done(&mut self, _index: usize, _result: &T) {
        self.step();
    }

    fn on_progress(&mut self, share: f64) {
        self.reached(share);
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}

/// Returns the exit code of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM.
pub(crate) fn interruption_code() -> ExitCode {
    ExitCode::from(interrupted_code())
}

/// The exit code of a service that was asked to end and did: after SIGTERM success, which is what
/// service managers expect, after Ctrl-C 130.
pub(crate) fn service_exit_code() -> ExitCode {
    match interrupted_code() {
        130 => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    }
}

/// What an asynchronous runtime opens: an epoll set, its waker, the sockets that signals wake, and some to spare.
const RUNTIME_DESCRIPTORS: usize = 8;

/// Checks that a runtime can begin: without descriptors tokio panics.
///
/// # Errors
/// When too few descriptors are left.
pub(crate) fn check_runtime() -> Result<(), CommandError> {
    cellpace_os::descriptors::check_free(RUNTIME_DESCRIPTORS).map_err(|error| {
        CommandError::failed(format!(
            "{RUNTIME_DESCRIPTORS} free descriptors are needed to begin (ulimit -n, or LimitNOFILE= of a unit): {error}"
        ))
    })
}
