//! Questions about single TCP sockets of this network namespace, sock_diag(7).

use std::io;
use std::net::{IpAddr, SocketAddr};

use cellpace_os::netlink::{Netlink, NetlinkRequest, attributes};

use crate::socket::TcpInfo;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
/// `INET_DIAG_INFO`
const INFO: u16 = 2;
/// Bytes of `struct inet_diag_msg`, and where the cookie is in it.
const ANSWER: usize = 72;
const COOKIE: usize = 44;

/// How the kernel finds a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketName {
    pub(crate) cookie: u64,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl SocketName {
    /// Has the kernel reset the connection, which takes CAP_NET_ADMIN.
    pub(crate) fn destroy(&self) -> io::Result<()> {
        Netlink::open_sock_diag()?.request(self.request(SOCK_DESTROY, 0))
    }

    /// What TCP knows of it; `None` when it is gone.
    pub(crate) fn ask(&self, netlink: &mut Netlink) -> io::Result<Option<TcpInfo>> {
        let mut found = None;
        let asked = netlink.ask(self.request(SOCK_DIAG_BY_FAMILY, 1 << (INFO - 1)), |_, body| {
            found = read(body).map(|(_, info)| info);
        });
        match asked {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(found),
        }
    }

    /// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states, and the socket.
    fn request(&self, kind: u16, extensions: u8) -> NetlinkRequest {
        let Self { cookie, local, peer } = *self;
        let family = if local.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
        let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, extensions, 0];
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
        NetlinkRequest::new(kind, libc::NLM_F_ACK, &request)
    }
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

/// The cookie of the socket that a message is about, and what TCP knew of it.
pub(crate) fn read(body: &[u8]) -> Option<(u64, TcpInfo)> {
    let half = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let cookie = u64::from(half(COOKIE)?) | u64::from(half(COOKIE + 4)?) << 32;
    let (_, info) = attributes(body.get(ANSWER..)?).find(|(kind, _)| *kind == INFO)?;
    Some((cookie, TcpInfo::read(info)))
}
