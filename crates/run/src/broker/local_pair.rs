//! The local socket pair that takes a TCP socket's place in the program.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellpace_control::FlowName;
use cellpace_control::message::Token;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_cookie, socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recv, send,
    socketpair,
};

/// A TCP socket, the same as the engine's, that is lent to the holder of the application's end.
#[derive(Debug, Clone)]
pub(super) struct LendableSocket {
    pub(super) tcp: Arc<OwnedFd>,
    /// `SO_COOKIE` of the application's end: the kernel gives it to no other socket.
    end: u64,
}

impl LendableSocket {
    /// Whether this is the application's end, which entitles its holder to the TCP socket. Every
    /// process of the program knows the token, and flows' numbers are easily guessed.
    pub(super) fn belongs_to(&self, end: &OwnedFd) -> bool {
        socket_cookie(end) == Ok(self.end)
    }
}

/// A pair, and the TCP socket whose place it takes.
#[derive(Debug)]
pub(super) struct LocalPair {
    /// The application's end.
    pub(super) application: OwnedFd,
    /// Our end, which bears the flow's name.
    pub(super) far: OwnedFd,
    pub(super) tcp: LendableSocket,
}

impl LocalPair {
    /// Makes the pair for a TCP socket.
    pub(super) fn new(
        tcp: Arc<OwnedFd>,
        name: &FlowName,
        token: &Token,
        nonblocking: bool,
    ) -> Result<Self, Errno> {
        let (application, far) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&far, &SocketAddrUnix::new_abstract_name(&name.encode(token))?)?;
        // How long reads and writes wait is the program's choice, perhaps made at the listening
        // socket.
        for timeout in [Timeout::Recv, Timeout::Send] {
            if let Some(chosen) = socket_timeout(&tcp, timeout)? {
                set_socket_timeout(&application, timeout, Some(chosen))?;
            }
        }
        if nonblocking {
            fcntl_setfl(&application, OFlags::RDWR | OFlags::NONBLOCK)?;
        }
        let tcp = LendableSocket { tcp, end: socket_cookie(&application)? };
        Ok(Self { application, far, tcp })
    }
}

/// Writes until a socket accepts no more bytes. Returns the number of bytes written.
pub(super) fn fill(socket: &OwnedFd) -> Option<usize> {
    static NOTHING: [u8; 32 << 10] = [0; 32 << 10];
    /// Far above every limit that a system has.
    const MAX_FILLED: usize = 1 << 30;
    let mut filled = 0;
    for piece in [NOTHING.len(), 1] {
        while filled < MAX_FILLED {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(socket, &NOTHING[..piece], flags) {
                Ok(count) => filled += count,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
    Some(filled)
}

/// Reads and drops the bytes that [`fill`] wrote. Returns whether all of them were there.
pub(super) fn drain(far: &OwnedFd, mut filler: usize) -> bool {
    let mut place = [0; 32 << 10];
    while filler > 0 {
        let most = filler.min(place.len());
        match recv(far, &mut place[..most], RecvFlags::DONTWAIT) {
            Ok((count @ 1.., _)) => filler -= count,
            Err(Errno::INTR) => {}
            _ => return false,
        }
    }
    true
}

/// Returns whether no process has the other end open.
pub(super) fn is_abandoned(far: &OwnedFd) -> bool {
    polled(far, PollFlags::empty()).contains(PollFlags::HUP)
}

/// Whether the other end was closed, or will send nothing more.
pub(super) fn has_hung_up(client: &OwnedFd) -> bool {
    !polled(client, PollFlags::RDHUP).is_empty()
}

/// Whether a client has asked something, and is there for the answer.
pub(super) fn has_request(client: &OwnedFd) -> bool {
    polled(client, PollFlags::IN | PollFlags::RDHUP) == PollFlags::IN
}

fn polled(socket: &OwnedFd, events: PollFlags) -> PollFlags {
    let mut fds = [PollFd::new(socket, events)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) => fds[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::tests::{TOKEN, flow_name, tcp_pair};
    use rustix::net::getpeername;
    use std::time::Duration;

    #[test]
    fn the_applications_end_tells_the_flow_and_owns_the_tcp_socket() {
        let (ours, _peer) = tcp_pair();
        ours.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
        let name = flow_name(3);
        let pair = LocalPair::new(Arc::new(ours.into()), &name, &TOKEN, true).unwrap();
        let bound = getpeername(&pair.application).unwrap().unwrap();
        let bound = SocketAddrUnix::try_from(bound).unwrap();
        assert_eq!(FlowName::decode(bound.abstract_name().unwrap(), &TOKEN), Some(name));
        let timeout = socket_timeout(&pair.application, Timeout::Recv).unwrap();
        assert_eq!(timeout, Some(Duration::from_secs(7)));
        assert!(pair.tcp.belongs_to(&pair.application.try_clone().unwrap()));
        assert!(!pair.tcp.belongs_to(&pair.far));
    }

    #[test]
    fn a_filled_pair_is_drained_to_the_byte() {
        let (ours, _peer) = tcp_pair();
        let pair = LocalPair::new(Arc::new(ours.into()), &flow_name(1), &TOKEN, true).unwrap();
        let filled = fill(&pair.application).unwrap();
        assert_eq!(send(&pair.application, b"x", SendFlags::DONTWAIT), Err(Errno::AGAIN));
        assert!(drain(&pair.far, filled));
        assert_eq!(recv(&pair.far, &mut [0; 1], RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        assert!(!drain(&pair.far, 1), "nothing is left");
        assert!(!is_abandoned(&pair.far));
        drop(pair.application);
        assert!(is_abandoned(&pair.far) && has_hung_up(&pair.far));
    }
}
