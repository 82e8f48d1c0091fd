//! A progress bar for work of more than two seconds, and a clean end on Ctrl-C.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress over a known number of steps; on a terminal only, and only when it takes long.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    const PATIENCE: Duration = Duration::from_secs(2);

    pub(crate) fn new(steps: usize, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::hidden());
        let template = format!("{{bar:30}} {{pos}}/{{len}} {unit}, {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now() }
    }

    pub(crate) fn step(&self) {
        self.bar.inc(1);
        if self.bar.is_hidden() && self.started.elapsed() > Self::PATIENCE {
            // Draws on a terminal only.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on the first Ctrl-C asks for a clean end; the second ends at once.
pub(crate) fn end_cleanly_on_ctrl_c() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let installed = ctrlc::set_handler(|| {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        // Without a handler Ctrl-C ends the program the hard way, which is no reason to refuse
        // to work.
        drop(installed);
    });
}

/// Whether Ctrl-C was pressed.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
