//! Signals: as events, as requests to end, and those that the parent made this process ignore, which
//! stay ignored (background jobs of scripts, `nohup`).

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
pub use nix::sys::signal::Signal;
pub use nix::sys::signal::Signal::{SIGINT, SIGTERM};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// Returns whether this process ignores a signal: as its parent made it, as long as nothing here
/// has set a handler.
pub fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (signal as i32 - 1)) & 1 == 1)
}

/// What asked this process to end, as an exit code; 0 if nothing has.
static END_REQUEST: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// From now on the first Ctrl-C or SIGTERM asks for a clean end; the second ends the process at once.
/// Those that the parent made it ignore stay ignored.
pub fn end_cleanly_on_ctrl_c() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let is_asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            if is_ignored(signal) {
                continue;
            }
            let (number, code) = (signal as i32, 128 + signal as i32);
            // The order matters: the second signal finds the flag that the first has set. Without
            // a handler the signal ends the program the hard way, which is no reason to refuse
            // to work.
            let _ = flag::register_conditional_shutdown(number, code, is_asked.clone());
            let _ = flag::register(number, is_asked.clone());
            let _ = flag::register_usize(number, END_REQUEST.clone(), code as usize);
        }
    });
}

/// Notes that a signal asked this process to end, for programs with handlers of their own.
pub fn note_interrupt(signal: Signal) {
    END_REQUEST.store(128 + signal as usize, Ordering::Relaxed);
}

/// Returns whether Ctrl-C was pressed, or the process was asked to end by SIGTERM.
pub fn interrupted() -> bool {
    END_REQUEST.load(Ordering::Relaxed) > 0
}

/// Returns the exit code of a command that ended early because it was asked to: 130 after Ctrl-C,
/// 143 after SIGTERM.
pub fn interrupted_code() -> u8 {
    u8::try_from(END_REQUEST.load(Ordering::Relaxed)).unwrap_or(u8::MAX)
}

/// From now on SIGHUP does not end this process: after each, bytes can be read from the stream that is
/// returned. Where the parent made this process ignore it, it stays ignored and nothing ever comes.
///
/// # Errors
/// When the system refuses.
pub fn hangups() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    write.set_nonblocking(true)?;
    if is_ignored(Signal::SIGHUP) {
        // A closed end would read as the end of the stream.
        std::mem::forget(write);
        return Ok(read);
    }
    pipe::register(Signal::SIGHUP as i32, write)?;
    Ok(read)
}

/// Signals that wait to be read rather than interrupt.
#[derive(Debug)]
pub struct Signals(SignalFd);

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaughtSignal {
    /// Which one.
    pub signal: Signal,
    /// The terminal sent it, and so to the whole process group.
    pub from_terminal: bool,
}

impl Signals {
    /// Catches signals from now on, and the ends of children; signals that the parent made this
    /// process ignore stay ignored. To be called before there are other threads, which would take
    /// the signals otherwise. Returns the mask before with it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch(signals: &[Signal]) -> nix::Result<(Self, SigSet)> {
        let mut set = SigSet::empty();
        let heeded = signals.iter().filter(|signal| !is_ignored(**signal));
        heeded.chain(&[Signal::SIGCHLD]).for_each(|signal| set.add(*signal));
        let before = SigSet::thread_get_mask()?;
        set.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok((Self(SignalFd::with_flags(&set, flags)?), before))
    }

    /// Waits for the next signal; `None` when the time is over, or for no reason.
    ///
    /// # Errors
    /// When the system does not let us wait.
    pub fn next(&self, timeout: Option<Duration>) -> nix::Result<Option<CaughtSignal>> {
        let timeout = timeout.map_or(PollTimeout::NONE, |wait| {
            // Rounded up, so that time is really over after it.
            let nanos = wait.as_nanos().next_multiple_of(1_000_000);
            PollTimeout::try_from(nanos / 1_000_000).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let info = match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => self.0.read_signal()?,
            Err(error) => return Err(error),
        };
        Ok(info.and_then(|info| {
            let signal = Signal::try_from(info.ssi_signo.cast_signed()).ok()?;
            Some(CaughtSignal { signal, from_terminal: info.ssi_code == libc::SI_KERNEL })
        }))
    }
}

impl CaughtSignal {
    /// Whether it asks the process to end.
    pub fn is_end(self) -> bool {
        matches!(self.signal, SIGINT | SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use nix::sys::pthread::{pthread_kill, pthread_self};

    #[test]
    fn a_hangup_is_read_and_ends_nothing() {
        let mut stream = hangups().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        nix::sys::signal::raise(Signal::SIGHUP).unwrap();
        assert!(stream.read(&mut [0; 8]).unwrap() > 0);
    }

    #[test]
    fn a_signal_is_read_and_waiting_ends_in_time() {
        let (signals, _) = Signals::catch(&[Signal::SIGUSR1]).unwrap();
        assert_eq!(signals.next(Some(Duration::from_micros(1))).unwrap(), None);
        pthread_kill(pthread_self(), Signal::SIGUSR1).unwrap();
        let caught = signals.next(None).unwrap().unwrap();
        assert_eq!(caught, CaughtSignal { signal: Signal::SIGUSR1, from_terminal: false });
        assert!(!caught.is_end());
    }
}
