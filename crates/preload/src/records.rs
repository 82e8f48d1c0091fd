//! Records on the control socket, with a descriptor or without.

use std::mem::MaybeUninit;

use cellpace_control::message::{ANSWER_LEN, Answer};
use libc::{c_int, c_long, c_void};

use crate::sys::{Fd, retry_interrupted};

/// Room for one descriptor beside a message, aligned as its header.
#[repr(C)]
union Rights {
    bytes: [u8; RIGHTS_LEN],
    _header: libc::cmsghdr,
}

// SAFETY: computes a number.
const RIGHTS_LEN: usize = unsafe { libc::CMSG_SPACE(size_of::<c_int>() as u32) } as usize;

/// Sends a record, with a descriptor or without.
pub(crate) fn send(socket: &Fd, bytes: &[u8], descriptor: Option<c_int>) -> Option<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut c_void, iov_len: bytes.len() };
    let mut rights = Rights { bytes: [0; RIGHTS_LEN] };
    let mut message = empty_message(&mut part);
    if let Some(descriptor) = descriptor {
        message.msg_control = (&raw mut rights).cast();
        message.msg_controllen = RIGHTS_LEN as _;
        // SAFETY: the message has room for a header.
        let header = unsafe { libc::CMSG_FIRSTHDR(&message) };
        // SAFETY: computes a number.
        let len = unsafe { libc::CMSG_LEN(size_of::<c_int>() as u32) };
        // SAFETY: the header is in `rights`, aligned for it.
        let fields = unsafe { &mut *header };
        (fields.cmsg_level, fields.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        fields.cmsg_len = len as _;
        // SAFETY: the data follow the header, in `rights`.
        let place = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: there is room for one descriptor, aligned or not.
        unsafe { place.cast::<c_int>().write_unaligned(descriptor) };
    }
    let flags = libc::MSG_NOSIGNAL;
    let sent = retry_interrupted(|| {
        // SAFETY: the message points to what is alive here.
        unsafe { libc::syscall(libc::SYS_sendmsg, socket.raw(), &raw const message, flags) }
    })?;
    (sent == bytes.len() as c_long).then_some(())
}

/// Waits for an answer, and leaves it where it is.
pub(crate) fn is_answered(socket: &Fd) -> Option<()> {
    let mut byte = 0_u8;
    // SAFETY: the kernel writes at most one byte.
    let count = unsafe { recv(socket, &raw mut byte, 1, libc::MSG_PEEK) };
    (count >= 0).then_some(())
}

/// Takes away a record that was looked at, and whatever descriptor comes along.
pub(crate) fn drop_record(socket: &Fd) {
    let mut byte = 0_u8;
    // SAFETY: the kernel writes at most one byte.
    unsafe { recv(socket, &raw mut byte, 1, libc::MSG_DONTWAIT) };
}

/// # Safety
/// There are `len` bytes at `place`.
unsafe fn recv(socket: &Fd, place: *mut u8, len: usize, flags: c_int) -> c_long {
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the caller's promise; the kernel writes at most `len` bytes.
    unsafe { libc::syscall(libc::SYS_recvfrom, socket.raw(), place, len, flags, none, none) }
}

/// The answer that is there, and its descriptor; leaves it: where there is no place for the descriptor, it
/// can be looked at again.
pub(crate) fn peek(socket: &Fd) -> Option<(Answer, Option<Fd>)> {
    let mut bytes = [0_u8; ANSWER_LEN + 1];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut rights = Rights { bytes: [0; RIGHTS_LEN] };
    let mut message = empty_message(&mut part);
    message.msg_control = (&raw mut rights).cast();
    message.msg_controllen = RIGHTS_LEN as _;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message points to what is alive here, with its lengths.
    let count = unsafe { libc::syscall(libc::SYS_recvmsg, socket.raw(), &raw mut message, flags) };
    let fd = if count > 0 { received_fd(&message) } else { None };
    let answer = Answer::decode(bytes.get(..usize::try_from(count).ok()?)?)?;
    Some((answer, fd))
}

fn received_fd(message: &libc::msghdr) -> Option<Fd> {
    // SAFETY: the kernel wrote the message.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the pointer is null or to a header that the kernel wrote.
    let fields = unsafe { header.as_ref() }?;
    if (fields.cmsg_level, fields.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
        return None;
    }
    // SAFETY: the data follow the header.
    let place = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: such a message has at least one descriptor.
    Fd::from_result(unsafe { place.cast::<c_int>().read_unaligned() }.into())
}

fn empty_message(part: &mut libc::iovec) -> libc::msghdr {
    let message = MaybeUninit::<libc::msghdr>::zeroed();
    // SAFETY: a message of zeros is an empty one.
    let mut message = unsafe { message.assume_init() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message
}
