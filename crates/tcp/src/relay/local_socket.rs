//! The application's socket, the engine's end of it.

use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// What is known of a descriptor, from the edges that the kernel reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Readiness {
    /// Nothing is known: both have to be tried.
    pub(crate) const UNKNOWN: Self = Self { readable: true, writable: true };

    pub(crate) fn on_report(&mut self, report: SocketEvents) {
        // The next call returns the error: it has to be made.
        let broken = report.error || report.hung_up;
        self.readable |= report.readable || broken;
        self.writable |= report.writable || broken;
    }
}

/// What the kernel reports of one of a flow's two descriptors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketEvents {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// For TCP: stamps wait, or the connection broke. For the application's socket: broken.
    pub(crate) error: bool,
    /// The other end is closed in both directions.
    pub(crate) hung_up: bool,
}

/// The application's socket.
pub(crate) struct LocalSocket {
    socket: OwnedFd,
    ready: Readiness,
    ended: bool,
    gone: bool,
    dropped: u64,
}

impl LocalSocket {
    /// `socket` does not block.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, ready: Readiness::UNKNOWN, ended: false, gone: false, dropped: 0 }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn on_report(&mut self, report: SocketEvents) {
        self.ready.on_report(report);
        self.gone |= report.hung_up;
    }

    /// The application sends no more.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// The application has closed.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Bytes for the application that came after it had closed.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether reading may bring something.
    pub(crate) fn is_readable(&self) -> bool {
        self.ready.readable && !self.ended
    }

    /// Reads what the application wrote: 0 bytes if there is nothing now, or never again.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                self.ended = true;
                // An end may be half a close or all of it, which only the system can tell.
                self.gone |= is_hung_up(&self.socket);
                0
            }
            Ok((count, _)) => count,
            Err(Errno::INTR) => 0,
            Err(Errno::AGAIN) => {
                self.ready.readable = false;
                0
            }
            // Closed with unread data: what was written before it was all read above.
            Err(_) => {
                self.ended = true;
                self.gone = true;
                0
            }
        }
    }

    /// Gives bytes to the application, and returns how many it took: all if it has
    /// closed and wants no more.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> usize {
        let mut given = 0;
        while given < bytes.len() && self.ready.writable && !self.gone {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.socket, &bytes[given..], flags) {
                Ok(taken) => given += taken,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.ready.writable = false,
                // It reads no more. What it wrote before is still to be sent.
                Err(_) => self.gone = true,
            }
        }
        if self.gone {
            self.dropped += (bytes.len() - given) as u64;
            return bytes.len();
        }
        given
    }

    /// The application gets nothing more.
    pub(crate) fn end(&self) {
        // A program that has closed its end does not need it.
        let _ = socket2::SockRef::from(&self.socket).shutdown(Shutdown::Write);
    }

    /// What the application writes from now on fails.
    pub(crate) fn refuse(&mut self) {
        let _ = socket2::SockRef::from(&self.socket).shutdown(Shutdown::Read);
        self.ended = true;
    }
}

/// Whether the other end is closed. The end of the stream can be read before it is reported.
fn is_hung_up(socket: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = poll(&mut asked, Some(&now));
    asked[0].revents().contains(PollFlags::HUP)
}
