//! A socket that the kernel driver holds, and where a program has it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::flow::{FlowOutcome, SharedFlow};
use crate::kernel::remote_socket::RemoteSocket;
use crate::kernel::sock_diag::SocketName;

/// Which process has a socket that the kernel driver is to control, and continues to read and write it.
#[derive(Debug)]
pub enum SocketOwner {
    /// This process, for as long as the descriptor is open.
    ThisProcess,
    /// A program that may be reached.
    Remote(RemoteSocket),
    /// It is not known or out of reach: TCP learns of a window with the next ack only.
    Unknown,
}

/// A socket that the kernel driver holds, as the driver's thread and the flow's handles share it.
#[derive(Debug)]
pub(crate) struct KernelSocket {
    pub(crate) name: SocketName,
    remote: Mutex<Option<RemoteSocket>>,
}

impl KernelSocket {
    pub(crate) fn new(
        cookie: u64,
        local: SocketAddr,
        peer: SocketAddr,
        remote: Option<RemoteSocket>,
    ) -> Self {
        Self { name: SocketName { cookie, local, peer }, remote: Mutex::new(remote) }
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.name.cookie
    }

    /// Where a program has the socket, where that is known.
    pub(crate) fn remote(&self) -> MutexGuard<'_, Option<RemoteSocket>> {
        // Nothing that panics happens while it is held.
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reset(&self) -> io::Result<()> {
        let remote = self.remote().clone();
        match remote.map(|remote| remote.reset(self.cookie())) {
            Some(Ok(())) => Ok(()),
            // No descriptor is in reach. With CAP_NET_ADMIN the kernel does it by name.
            _ => self.name.destroy(),
        }
    }

    /// Resets the connection of a flow: [`FlowHandle::abort`](crate::FlowHandle::abort).
    pub(crate) fn abort(&self, shared: &Arc<SharedFlow>) -> io::Result<()> {
        if shared.lock().outcome.is_some() {
            return Ok(());
        }
        match self.reset() {
            Ok(()) => {
                // A record reports its release only when its program closes it.
                shared.end(FlowOutcome::Failed(libc::ECONNABORTED));
                Ok(())
            }
            // It has ended meanwhile.
            Err(_) if shared.lock().outcome.is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tests::pair;
    use std::io::{ErrorKind, Read};

    #[test]
    fn a_connection_in_nobodys_reach_is_reset_by_name() {
        let (one, mut other) = pair();
        let cookie = rustix::net::sockopt::socket_cookie(&one).unwrap();
        let (local, peer) = (one.local_addr().unwrap(), one.peer_addr().unwrap());
        let stranger = KernelSocket::new(cookie + 1, local, peer, None);
        let socket = KernelSocket::new(cookie, local, peer, None);
        match socket.reset() {
            Ok(()) => {}
            Err(error) => {
                println!("skipped: not root, or a kernel without SOCK_DESTROY: {error}");
                return;
            }
        }
        assert!(stranger.reset().is_err(), "another socket's cookie");
        assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}
