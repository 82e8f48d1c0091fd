//! The threads of the drivers, and their clock.

use std::io;
use std::time::Instant;

use cellpace_base::Time;
use nix::sys::signal::{SigSet, SigmaskHow};

/// Starts a thread with all signals blocked: handlers belong to the application's threads. Its
/// timers are as exact as may be; those of ordinary threads may be 50 us late on purpose.
pub(crate) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    // Set before the thread starts, which inherits it: no signal can come in between.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
        let _ = nix::sys::prctl::set_timerslack(1);
        run();
    });
    if let Ok(before) = before {
        // It was a valid mask a moment ago.
        let _ = before.thread_set_mask();
    }
    thread
}

/// The time on the clock of all drivers of a process: nanoseconds since the first call.
pub(crate) fn now() -> Time {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    Time::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}
