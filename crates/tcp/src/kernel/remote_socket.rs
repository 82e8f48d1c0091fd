//! A reference to a socket that is another process's, without keeping it open.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::socket::{TcpProgress, progress, reset};

/// Where a program has a socket: its descriptor there. A descriptor of our own would keep the
/// connection from ending when the program closes its; so one is borrowed for each use, for some
/// microseconds.
///
/// Needs what tracing the program needs (ptrace(2), `PTRACE_MODE_ATTACH_REALCREDS`): the same user
/// and no privilege gained, or CAP_SYS_PTRACE.
#[derive(Debug, Clone)]
pub struct RemoteSocket {
    process: Arc<OwnedFd>,
    descriptor: RawFd,
}

impl RemoteSocket {
    /// A reference to `descriptor` of the process `pid`.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn new(pid: Pid, descriptor: RawFd) -> std::io::Result<Self> {
        let process = Arc::new(pidfd_open(pid, PidfdFlags::empty())?);
        Ok(Self { process, descriptor })
    }

    /// Another descriptor of the same process, which `pid` must be.
    #[must_use]
    pub fn with_descriptor(&self, descriptor: RawFd) -> Self {
        Self { process: self.process.clone(), descriptor }
    }

    /// Whether the process is there still, so that its number is not another one's.
    pub fn is_alive(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&now)) == Ok(0)
    }

    /// Checks whether the socket `cookie` exists and may be duplicated.
    ///
    /// # Errors
    /// `PERM` when the system does not let us; others when the process is gone, or has another
    /// socket there or none.
    pub fn check(&self, cookie: u64) -> Result<(), Errno> {
        self.borrow(cookie).map(drop)
    }

    fn borrow(&self, cookie: u64) -> Result<OwnedFd, Errno> {
        let socket = pidfd_getfd(&self.process, self.descriptor, PidfdGetfdFlags::empty())?;
        // The program may have closed it, and the number now be another socket's.
        if rustix::net::sockopt::socket_cookie(&socket)? != cookie {
            return Err(Errno::BADF);
        }
        Ok(socket)
    }

    /// Lets TCP send what the window of the socket `cookie` allows, and returns how far it is then.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn kick(&self, cookie: u64) -> Result<TcpProgress, Errno> {
        let socket = self.borrow(cookie)?;
        let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        cellpace_kernel::kick(&socket).map_err(errno)?;
        progress(socket.as_fd()).map_err(errno)
    }

    /// Resets the connection of the socket `cookie`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn reset(&self, cookie: u64) -> Result<(), Errno> {
        reset(self.borrow(cookie)?.as_fd());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tests::pair;
    use std::io::Write;
    use std::net::TcpStream;
    use std::os::fd::AsRawFd;

    fn cookie(socket: &TcpStream) -> u64 {
        rustix::net::sockopt::socket_cookie(socket).unwrap()
    }

    #[test]
    fn a_kick_reports_how_far_tcp_is_and_keeps_nothing_open() {
        let (mut one, mut other) = pair();
        let remote = RemoteSocket::new(rustix::process::getpid(), one.as_raw_fd()).unwrap();
        one.write_all(&[1; 1000]).unwrap();
        let now = remote.kick(cookie(&one)).unwrap();
        assert_eq!(now.waiting, 0);
        // An active connect counts for one.
        assert_eq!(now.acked + now.outstanding, 1001, "{now:?}");
        drop(one);
        let mut received = Vec::new();
        std::io::Read::read_to_end(&mut other, &mut received).unwrap();
        assert_eq!(received, [1; 1000], "and then the end");
    }

    #[test]
    fn another_socket_in_its_place_is_left_alone() {
        let (one, other) = pair();
        let remote = RemoteSocket::new(rustix::process::getpid(), other.as_raw_fd()).unwrap();
        assert_eq!(remote.kick(cookie(&one)), Err(Errno::BADF));
        assert_eq!(remote.check(cookie(&one)), Err(Errno::BADF));
        assert_eq!(remote.check(cookie(&other)), Ok(()));
        assert!(remote.with_descriptor(one.as_raw_fd()).kick(cookie(&one)).is_ok());
        assert_eq!(remote.with_descriptor(i32::MAX).kick(cookie(&one)), Err(Errno::BADF));
    }

    #[test]
    fn a_process_that_ended_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let remote = RemoteSocket::new(Pid::from_child(&child), 0).unwrap();
        child.wait().unwrap();
        assert!(!remote.is_alive());
        assert!(remote.kick(1).is_err());
        assert!(RemoteSocket::new(rustix::process::getpid(), 0).unwrap().is_alive());
    }
}
