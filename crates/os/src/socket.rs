//! What the kernel knows of a socket.

#![allow(unsafe_code, reason = "socket options that no safe wrapper has")]

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

/// States of a TCP connection (`linux/tcp_states.h`) that callers ask for.
pub mod tcp_state {
    /// The first packet of an active open was sent.
    pub const SYN_SENT: u8 = 2;
    /// The first packet of the other side has come.
    pub const SYN_RECEIVED: u8 = 3;
    /// There is no connection, or none any more.
    pub const CLOSED: u8 = 7;
}

/// Reads an option into `value`, and returns how many bytes of it the kernel wrote.
fn option<T>(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: &mut MaybeUninit<T>,
    most: usize,
) -> io::Result<usize> {
    let mut length = most.min(size_of::<T>()) as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which `value` has room for.
    let result = unsafe {
        libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(length as usize) }
}

/// The state that TCP is in, see [`tcp_state`].
///
/// # Errors
/// When this is no TCP socket.
pub fn state_of_tcp(socket: impl AsFd) -> io::Result<u8> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info, usize::MAX)?;
    // SAFETY: any bytes are a valid `tcp_info`, and all were set to zero at first.
    Ok(unsafe { info.assume_init() }.tcpi_state)
}

/// Names the network namespace of this thread as no other one is named until the next boot: by the
/// number of its inode, which is used again, and from Linux 5.14 on by its cookie, which is not.
///
/// # Errors
/// When the system does not tell, or allows no socket.
pub fn network_namespace() -> io::Result<String> {
    /// `asm-generic/socket.h`.
    const SO_NETNS_COOKIE: i32 = 71;
    let inode = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    let any = UnixDatagram::unbound()?;
    let mut cookie = MaybeUninit::<u64>::zeroed();
    let has_cookie = option(&any, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie, usize::MAX);
    // SAFETY: any bytes are a number, and all were set to zero at first.
    let cookie = if has_cookie.is_ok() { unsafe { cookie.assume_init() } } else { 0 };
    Ok(format!("{inode}:{cookie}"))
}

/// The address that a socket is being connected to, or is connected to.
pub fn future_peer(socket: impl AsFd) -> Option<SocketAddr> {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    // More room than the address takes is refused.
    let mut lengths = [size_of::<libc::sockaddr_in6>(), size_of::<libc::sockaddr_in>()].into_iter();
    lengths.find(|length| {
        option(&socket, libc::SOL_SOCKET, libc::SO_PEERNAME, &mut storage, *length).is_ok()
    })?;
    // SAFETY: any bytes are valid, and all were set to zero at first.
    let storage = unsafe { storage.assume_init() };
    let place = &raw const storage;
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is, and the storage is large and aligned enough.
            let address = unsafe { *place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { *place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_network_namespace_has_a_name() {
        let name = network_namespace().unwrap();
        assert_eq!(network_namespace().unwrap(), name);
        assert!(name.split(':').all(|part| part.parse::<u64>().is_ok()), "{name}");
    }

    #[test]
    fn a_connection_has_a_peer_and_a_state() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may lack IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let there = listener.local_addr().unwrap();
            let stream = TcpStream::connect(there).unwrap();
            assert_eq!(future_peer(&stream), Some(there));
            assert_eq!(state_of_tcp(&stream).unwrap(), 1);
            assert_eq!(future_peer(&listener), None);
        }
        let (other, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(future_peer(&other), None);
        assert!(state_of_tcp(&other).is_err());
    }
}
