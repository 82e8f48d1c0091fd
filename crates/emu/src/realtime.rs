//! What makes a thread wake up in time.

#![allow(unsafe_code, reason = "the scheduling class has no safe wrapper")]

/// Priority among real-time threads: low, since what the kernel itself runs there comes first.
const PRIORITY: libc::c_int = 5;

/// Asks for exact timers and real-time priority for the calling thread. Returns whether it got the
/// priority. The thread is not pinned to a core: with two links on a machine both would choose
/// the same, while the scheduler finds a free one.
pub(crate) fn prepare() -> bool {
    // Timers of ordinary threads may be 50 us late on purpose.
    let _ = nix::sys::prctl::set_timerslack(1);
    // SAFETY: numbers alone, of which musl has more than glibc; zero is a value of each.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = PRIORITY;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: reads the parameters; zero stands for the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}
