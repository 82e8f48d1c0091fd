//! Requests to the kernel that answer with nothing but yes or no.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

const HEADER: usize = 16;
const ALIGN: usize = 4;

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// A request: the netlink header, the family's own header, attributes.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    pub(crate) fn new(kind: u16, flags: i32, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(header);
        Self { bytes }
    }

    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        attribute(&mut self.bytes, kind, value);
        self
    }

    fn wants_answer(&self) -> bool {
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]);
        i32::from(flags) & libc::NLM_F_ACK != 0
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

/// Attributes as the value of another.
pub(crate) fn nested<V: AsRef<[u8]>>(attributes: &[(u16, V)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in attributes {
        attribute(&mut bytes, *kind, value.as_ref());
    }
    bytes
}

impl Netlink {
    /// A socket for routes and rules, or for nftables.
    pub(crate) fn open(protocol: SockProtocol) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends requests at once, and waits for the acknowledgments of those that want one.
    pub(crate) fn tell(&mut self, requests: Vec<Request>) -> io::Result<()> {
        let mut awaited = requests.iter().filter(|request| request.wants_answer()).count();
        let mut bytes = Vec::new();
        for request in requests {
            self.sequence += 1;
            bytes.extend(request.finish(self.sequence));
        }
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        let mut buffer = vec![0; 1 << 16];
        while awaited > 0 {
            let received = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            for code in codes(&buffer[..received]) {
                match code {
                    0 => awaited = awaited.saturating_sub(1),
                    code => return Err(io::Error::from_raw_os_error(code.saturating_neg())),
                }
            }
        }
        Ok(())
    }
}

/// The codes of the acknowledgments among messages.
fn codes(mut bytes: &[u8]) -> impl Iterator<Item = i32> {
    std::iter::from_fn(move || {
        loop {
            let length = u32::from_ne_bytes(bytes.get(0..4)?.try_into().ok()?) as usize;
            let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
            let body = bytes.get(HEADER..length)?;
            bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or(&[]);
            if i32::from(kind) == libc::NLMSG_ERROR {
                return Some(i32::from_ne_bytes(body.get(0..4)?.try_into().ok()?));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded() {
        let bytes = nested(&[(3, b"abcde".as_slice()), (7, &[1])]);
        assert_eq!(bytes.len(), 12 + 8);
        assert_eq!(&bytes[2..10], &[3, 0, b'a', b'b', b'c', b'd', b'e', 0]);
    }

    #[test]
    fn acknowledgments_are_found_and_cut_ones_are_not() {
        let ack = |code: i32| {
            let body = [code.to_ne_bytes(), [0; 4]].concat();
            Request::new(libc::NLMSG_ERROR as u16, 0, &body).finish(1)
        };
        let bytes = [ack(0), Request::new(20, 0, &[1, 2, 3, 4]).finish(2), ack(-17)].concat();
        assert_eq!(codes(&bytes).collect::<Vec<_>>(), [0, -17]);
        for end in 0..16 {
            assert_eq!(codes(&bytes[..end]).count(), 0, "{end}");
        }
    }
}
