//! Signals as events.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

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
    /// Catches signals from now on, and the ends of children. To be called before there are other
    /// threads, which would take the signals otherwise. Returns the mask before with it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch(signals: &[Signal]) -> nix::Result<(Self, SigSet)> {
        let mut set = SigSet::empty();
        signals.iter().chain(&[Signal::SIGCHLD]).for_each(|signal| set.add(*signal));
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
        use Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        matches!(self.signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::pthread::{pthread_kill, pthread_self};

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
