//! The limit on descriptors, and descriptors that are passed between processes.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on descriptors to what the process may have at all; the lower one is there for
/// programs that use `select`. Returns the limit before.
pub fn raise_limit() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Callers get along with fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before
}

/// Returns how many descriptors the process may have at the moment.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Checks that the process may open `count` more descriptors at this moment.
///
/// # Errors
/// When it may not.
pub fn check_free(count: usize) -> io::Result<()> {
    let file = fs::File::open("/dev/null")?;
    let more: io::Result<Vec<_>> = (1..count).map(|_| file.try_clone()).collect();
    more.map(drop)
}

/// As [`raise_limit`], and with privilege as far as the system goes (`fs.nr_open`).
pub fn raise_limit_to_system() -> Rlimit {
    let before = raise_limit();
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most: Option<u64> = most.and_then(|text| text.trim().parse().ok());
    if let Some(most) = most {
        let wanted = before.maximum.map(|have| have.max(most));
        // Refused without privilege.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted });
    }
    before
}

/// Receives a message of at most `bytes` without waiting, and the one descriptor that came with
/// it. Returns how many bytes it had; `None` if there is no message, or with none or several
/// descriptors, which are closed.
pub fn receive_with_descriptor(socket: impl AsFd, bytes: &mut [u8]) -> Option<(usize, OwnedFd)> {
    // Room for more, to see when there are several.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags).ok()?;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).ok()?;
    Some((received.bytes, descriptor))
}

/// Sends a message, and a descriptor with it where there is one, without waiting.
///
/// # Errors
/// When the socket takes no message now, or never will.
pub fn send_with_descriptor(
    socket: impl AsFd,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if descriptor.is_some() {
        // There is room for one.
        let _ = ancillary.push(SendAncillaryMessage::ScmRights(descriptor.as_slice()));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    #[test]
    fn a_descriptor_is_received_with_its_message() {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        let (mut kept, passed) = UnixStream::pair().unwrap();
        send_with_descriptor(&sender, b"take this", Some(passed.as_fd())).unwrap();
        drop(passed);
        let mut bytes = [0; 32];
        let (count, descriptor) = receive_with_descriptor(&receiver, &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"take this");
        drop(descriptor);
        assert_eq!(kept.read(&mut [0; 1]).unwrap(), 0, "nobody else holds it");
    }

    #[test]
    fn a_message_without_a_descriptor_is_none() {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        assert!(receive_with_descriptor(&receiver, &mut [0; 32]).is_none());
        send_with_descriptor(&sender, b"alone", None).unwrap();
        assert!(receive_with_descriptor(&receiver, &mut [0; 32]).is_none());
    }

    #[test]
    fn raising_the_limit_returns_what_it_was() {
        let before = raise_limit();
        let after = getrlimit(Resource::Nofile);
        assert_eq!((after.current, after.maximum), (before.maximum, before.maximum));
        assert_eq!(limit(), before.maximum.unwrap_or(u64::MAX));
    }
}
