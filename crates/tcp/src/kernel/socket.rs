//! A socket that the kernel driver holds, and where a program has it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellpace_os::netlink::{Netlink, NetlinkRequest};

use crate::flow::{FlowOutcome, SharedFlow};
use crate::kernel::remote_socket::RemoteSocket;

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
    pub(crate) cookie: u64,
    local: SocketAddr,
    peer: SocketAddr,
    remote: Mutex<Option<RemoteSocket>>,
}

impl KernelSocket {
    pub(crate) fn new(
        cookie: u64,
        local: SocketAddr,
        peer: SocketAddr,
        remote: Option<RemoteSocket>,
    ) -> Self {
        Self { cookie, local, peer, remote: Mutex::new(remote) }
    }

    /// Where a program has the socket, where that is known.
    pub(crate) fn remote(&self) -> MutexGuard<'_, Option<RemoteSocket>> {
        // Nothing that panics happens while it is held.
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reset(&self) -> io::Result<()> {
        let remote = self.remote().clone();
        match remote.map(|remote| remote.reset(self.cookie)) {
            Some(Ok(())) => Ok(()),
            // No descriptor is in reach. With CAP_NET_ADMIN the kernel does it by name.
            _ => destroy(self.cookie, self.local, self.peer),
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

/// Has the kernel reset a connection of this network namespace (`SOCK_DESTROY`, sock_diag(7)).
fn destroy(cookie: u64, local: SocketAddr, peer: SocketAddr) -> io::Result<()> {
    const SOCK_DESTROY: u16 = 21;
    // struct inet_diag_req_v2: family, protocol, extensions, padding, states, and the socket.
    let family = if local.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    request.extend(u32::MAX.to_ne_bytes());
    for address in [local, peer] {
        request.extend(address.port().to_be_bytes());
    }
    for address in [local, peer] {
        request.extend(octets(address.ip()));
    }
    // Any device.
    request.extend(0_u32.to_ne_bytes());
    // The lower half of the cookie comes first.
    request.extend((cookie as u32).to_ne_bytes());
    request.extend(((cookie >> 32) as u32).to_ne_bytes());
    Netlink::open_sock_diag()?.request(NetlinkRequest::new(SOCK_DESTROY, libc::NLM_F_ACK, &request))
}

/// An address in the sixteen bytes of `inet_diag_sockid`.
fn octets(ip: IpAddr) -> [u8; 16] {
    let mut octets = [0; 16];
    match ip {
        IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => octets = ip.octets(),
    }
    octets
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
