//! Requests to the kernel over netlink, in the network namespace of the thread that opens the
//! socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    socket,
};

/// Bytes of a message's header.
const HEADER: usize = 16;
/// Messages and attributes begin at multiples of this.
const ALIGN: usize = 4;

/// A request being written: the header of netlink, that of the family, attributes.
#[derive(Debug, Clone)]
pub struct NetlinkRequest {
    bytes: Vec<u8>,
}

impl NetlinkRequest {
    /// A request of a kind, with the flags of netlink(7) and the header of the family.
    pub fn new(kind: u16, flags: i32, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(header);
        Self { bytes }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        attribute(&mut self.bytes, kind, value);
        self
    }

    /// Whether the kernel ends its answer with a message that says so.
    fn is_answered(&self) -> bool {
        let flags = i32::from(u16::from_ne_bytes([self.bytes[6], self.bytes[7]]));
        flags & libc::NLM_F_ACK != 0 || flags & libc::NLM_F_DUMP == libc::NLM_F_DUMP
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// Appends an attribute: length, kind, value, padding.
fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
}

/// Returns attributes as the value of another.
pub fn nested<V: AsRef<[u8]>>(attributes: &[(u16, V)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in attributes {
        attribute(&mut bytes, *kind, value.as_ref());
    }
    bytes
}

/// Reads attributes, kind and value, and stops at what is none.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// A netlink socket. What the kernel ties to it, such as a table of nftables, goes with it.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket for devices, addresses, routes and rules.
    ///
    /// # Errors
    /// When the system has no netlink.
    pub fn open_route() -> io::Result<Self> {
        Self::open(SockProtocol::NetlinkRoute)
    }

    /// Opens a socket for nftables.
    ///
    /// # Errors
    /// When the system has no nftables.
    pub fn open_netfilter() -> io::Result<Self> {
        Self::open(SockProtocol::NetlinkNetFilter)
    }

    /// Opens a socket for questions about sockets, sock_diag(7).
    ///
    /// # Errors
    /// When the system does not answer any.
    pub fn open_sock_diag() -> io::Result<Self> {
        Self::open(SockProtocol::NetlinkSockDiag)
    }

    /// Opens a socket that [`receive`](Self::receive)s a message, as sock_diag(7) answers, for each TCP socket
    /// of the network namespace that is gone.
    ///
    /// # Errors
    /// When the system does not report them.
    pub fn open_ends_of_tcp() -> io::Result<Self> {
        // linux/sock_diag.h: the bits of SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY.
        const GROUPS: u32 = 0b101;
        let ends = Self::open_sock_diag()?;
        bind(ends.socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(ends)
    }

    /// Gives each message that has come without being asked for, kind and body, to `each`.
    ///
    /// # Errors
    /// `ENOBUFS` when there was no room for some.
    pub fn receive(&self, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(received) => {
                    messages(&buffer[..received]).for_each(|(kind, body)| each(kind, body));
                }
                Err(nix::errno::Errno::EAGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn open(protocol: SockProtocol) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request and waits until it is acknowledged.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn request(&mut self, request: NetlinkRequest) -> io::Result<()> {
        self.batch(vec![request])
    }

    /// Sends requests at once, and waits for the acknowledgments of those that ask for one.
    ///
    /// # Errors
    /// The first that the kernel answers with.
    pub fn batch(&mut self, requests: Vec<NetlinkRequest>) -> io::Result<()> {
        self.exchange(requests, |_, _| {})
    }

    /// Sends a request, which must ask for an acknowledgment or a dump, and gives each message of
    /// the answer, kind and body, to `each`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn ask(&mut self, request: NetlinkRequest, each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.exchange(vec![request], each)
    }

    fn exchange(
        &mut self,
        requests: Vec<NetlinkRequest>,
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        let mut awaited = requests.iter().filter(|request| request.is_answered()).count();
        let mut bytes = Vec::new();
        for request in requests {
            self.sequence += 1;
            bytes.extend(request.finish(self.sequence));
        }
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut buffer = vec![0; 1 << 16];
        while awaited > 0 {
            let received = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            for (kind, body) in messages(&buffer[..received]) {
                match i32::from(kind) {
                    libc::NLMSG_ERROR => match error_code(body) {
                        0 => awaited = awaited.saturating_sub(1),
                        code => return Err(io::Error::from_raw_os_error(code.saturating_neg())),
                    },
                    libc::NLMSG_DONE => awaited = awaited.saturating_sub(1),
                    _ => each(kind, body),
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads the code of an acknowledgment, 0 or a negative error number.
fn error_code(body: &[u8]) -> i32 {
    let code = body.get(0..4).and_then(|code| code.try_into().ok());
    code.map_or(0, i32::from_ne_bytes)
}

/// Reads the kind and body of each message.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(0..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        Some((kind, body))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let bytes = nested(&[(3, b"abcde".as_slice()), (7, &[1]), (9, &[])]);
        assert_eq!(bytes.len(), 12 + 8 + 4);
        assert_eq!(&bytes[2..10], &[3, 0, b'a', b'b', b'c', b'd', b'e', 0]);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(3, b"abcde".as_slice()), (7, &[1]), (9, &[])]);
    }

    #[test]
    fn what_is_cut_short_reads_as_nothing() {
        let bytes = nested(&[(3, b"abcde")]);
        for end in 0..8 {
            assert_eq!(attributes(&bytes[..end]).count(), 0, "{end}");
        }
        assert_eq!(attributes(&[0, 0, 0, 0, 1, 2]).count(), 0, "a length of nothing");
        let message = NetlinkRequest::new(5, 0, &[1, 2, 3]).finish(9);
        for end in 0..message.len() {
            assert_eq!(messages(&message[..end]).count(), 0, "{end}");
        }
        assert_eq!(messages(&message).next().unwrap(), (5, [1, 2, 3].as_slice()));
    }

    #[test]
    fn acknowledgments_are_found_among_messages() {
        let ack = |code: i32| {
            let body = [code.to_ne_bytes(), [0; 4]].concat();
            NetlinkRequest::new(libc::NLMSG_ERROR as u16, 0, &body).finish(1)
        };
        let other = NetlinkRequest::new(20, 0, &[1, 2, 3, 4]).finish(2);
        let bytes = [ack(0), other, ack(-17)].concat();
        let codes = messages(&bytes)
            .filter(|(kind, _)| i32::from(*kind) == libc::NLMSG_ERROR)
            .map(|(_, body)| error_code(body));
        assert_eq!(codes.collect::<Vec<_>>(), [0, -17]);
    }

    #[test]
    fn only_acknowledged_requests_and_dumps_are_waited_for() {
        let is_answered = |flags| NetlinkRequest::new(1, flags, &[]).is_answered();
        assert!(is_answered(libc::NLM_F_ACK) && is_answered(libc::NLM_F_DUMP));
        assert!(!is_answered(0) && !is_answered(libc::NLM_F_EXCL | libc::NLM_F_CREATE));
    }
}
