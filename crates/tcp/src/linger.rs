//! `SO_LINGER` of a flow's TCP socket, which is ours while the flow holds bytes.
//!
//! When a process is killed, the kernel closes its sockets in order. A peer would take what it got
//! so far for everything, although bytes that this process held are lost. With `SO_LINGER` on and a
//! time of zero the kernel resets the connection instead.

use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cellpace_base::{Span, Time};
use socket2::SockRef;

/// Time that a program has for reading or setting the option.
const LENT: Span = Span::from_secs(1);

/// Who the option belongs to at present.
#[derive(Debug, Default)]
pub(crate) struct Linger(Mutex<LingerState>);

#[derive(Debug, Default)]
struct LingerState {
    /// The program's own value while the option is set for a reset, and the program did not want one.
    replaced: Option<Option<Duration>>,
    /// Until then the program may be reading or setting it.
    lent_until: Time,
}

impl Linger {
    /// Has the kernel reset the connection when this process ends.
    pub(crate) fn arm(&self, tcp: BorrowedFd<'_>, now: Time) {
        let mut state = self.lock();
        if state.replaced.is_some() || now < state.lent_until {
            return;
        }
        let socket = SockRef::from(&tcp);
        // Where this fails, the connection is over.
        let Ok(own) = socket.linger() else { return };
        // A program that wants a reset itself has set all that is needed.
        if own == Some(Duration::ZERO) || socket.set_linger(Some(Duration::ZERO)).is_ok() {
            state.replaced = Some(own);
        }
    }

    /// Puts the program's own value back.
    pub(crate) fn disarm(&self, tcp: BorrowedFd<'_>) {
        restore(&mut self.lock(), tcp);
    }

    /// Puts the program's own value back for as long as the program needs to read or set it.
    pub(crate) fn lend(&self, tcp: BorrowedFd<'_>, now: Time) {
        let mut state = self.lock();
        restore(&mut state, tcp);
        state.lent_until = now + LENT;
    }

    /// Whether the program wants a reset when it closes the connection.
    pub(crate) fn resets_on_close(&self, tcp: BorrowedFd<'_>) -> bool {
        let own = match self.lock().replaced {
            Some(own) => own,
            None => SockRef::from(&tcp).linger().ok().flatten(),
        };
        own.is_some_and(|time| time.is_zero())
    }

    fn lock(&self) -> MutexGuard<'_, LingerState> {
        // Nothing that panics happens while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn restore(state: &mut LingerState, tcp: BorrowedFd<'_>) {
    let Some(own) = state.replaced.take() else { return };
    if own != Some(Duration::ZERO) {
        // Where this fails, the connection is over.
        let _ = SockRef::from(&tcp).set_linger(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tests::pair;
    use std::os::fd::AsFd;

    const RESET: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn the_programs_value_comes_back_and_decides_meanwhile() {
        for own in [None, Some(Duration::from_secs(3)), RESET] {
            let (one, _other) = pair();
            let value = || SockRef::from(&one).linger().unwrap();
            SockRef::from(&one).set_linger(own).unwrap();
            let linger = Linger::default();
            assert_eq!(linger.resets_on_close(one.as_fd()), own == RESET);
            linger.arm(one.as_fd(), Time::ZERO);
            assert_eq!(value(), RESET);
            assert_eq!(linger.resets_on_close(one.as_fd()), own == RESET, "{own:?}");
            linger.arm(one.as_fd(), Time::ZERO);
            linger.disarm(one.as_fd());
            assert_eq!(value(), own);
            linger.disarm(one.as_fd());
            assert_eq!(value(), own);
        }
    }

    #[test]
    fn what_the_program_sets_while_it_has_the_option_is_kept() {
        let (one, _other) = pair();
        let value = || SockRef::from(&one).linger().unwrap();
        let linger = Linger::default();
        linger.arm(one.as_fd(), Time::ZERO);
        linger.lend(one.as_fd(), Time::from_millis(10));
        assert_eq!(value(), None, "what the program reads is its own");
        SockRef::from(&one).set_linger(RESET).unwrap();
        linger.arm(one.as_fd(), Time::from_millis(500));
        linger.disarm(one.as_fd());
        assert_eq!(value(), RESET, "it was not replaced");
        linger.arm(one.as_fd(), Time::from_millis(1010));
        assert!(linger.resets_on_close(one.as_fd()));
        linger.disarm(one.as_fd());
        assert_eq!(value(), RESET);
    }
}
