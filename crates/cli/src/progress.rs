//! A progress bar for work of more than two seconds, and a clean end on Ctrl-C.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once};
use std::time::{Duration, Instant};

use cellpace_lab::WorkSink;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

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

/// The signal that asked for the end; 0: none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on the first Ctrl-C or SIGTERM asks for a clean end; the second ends at once.
pub(crate) fn end_cleanly_on_ctrl_c() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the second signal finds the flag that the first has set. Without
            // a handler the signal ends the program the hard way, which is no reason to refuse
            // to work.
            let _ = flag::register_conditional_shutdown(signal, 128 + signal, INTERRUPTED.clone());
            let _ = flag::register(signal, INTERRUPTED.clone());
            let _ = flag::register_usize(signal, SIGNAL.clone(), signal as usize);
        }
    });
}

/// Returns the exit code of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM.
pub(crate) fn interruption_code() -> ExitCode {
    let signal = SIGNAL.load(Ordering::Relaxed);
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(130))
}

/// Whether Ctrl-C was pressed, or the program asked to end.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
