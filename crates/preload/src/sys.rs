//! System calls, made directly.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{c_int, c_long, c_void, sockaddr, socklen_t};

/// Puts `errno` back when it goes: what we do besides must not be seen.
pub(crate) struct KeepErrno(c_int);

impl KeepErrno {
    pub(crate) fn now() -> Self {
        Self(errno())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

pub(crate) fn errno() -> c_int {
    // SAFETY: the C library's answer is a valid pointer for this thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library's answer is a valid pointer for this thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = value };
}

/// A descriptor that is ours and closed when it goes. Not the library's `OwnedFd`, which in debug
/// builds aborts when somebody else closed it.
pub(crate) struct Fd(c_int);

impl Fd {
    /// The result of a system call.
    pub(crate) fn from_result(result: c_long) -> Option<Self> {
        c_int::try_from(result).ok().filter(|fd| *fd >= 0).map(Self)
    }

    pub(crate) fn raw(&self) -> c_int {
        self.0
    }

    /// Gives up ownership.
    pub(crate) fn release(self) -> c_int {
        let fd = self.0;
        std::mem::forget(self);
        fd
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// A flow's TCP socket, and what the flow holds that TCP has not got yet.
pub(crate) struct Lent {
    pub(crate) tcp: Fd,
    pub(crate) queued: u64,
}

/// Which of a socket's two names.
#[derive(Clone, Copy)]
pub(crate) enum NameSide {
    Own,
    Peer,
}

impl NameSide {
    pub(crate) fn call(self) -> c_long {
        match self {
            Self::Own => libc::SYS_getsockname,
            Self::Peer => libc::SYS_getpeername,
        }
    }
}

/// A socket's name of any family.
pub(crate) struct SocketName {
    storage: libc::sockaddr_storage,
    len: usize,
}

impl SocketName {
    pub(crate) fn of(fd: c_int, side: NameSide) -> Option<Self> {
        let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
        // SAFETY: the kernel writes at most `len` bytes, which `storage` has room for.
        let result = unsafe { libc::syscall(side.call(), fd, storage.as_mut_ptr(), &mut len) };
        // SAFETY: any bytes are valid, and all were set to zero at first.
        let storage = unsafe { storage.assume_init() };
        (result == 0).then_some(Self { storage, len: len as usize })
    }

    /// Whom a socket is being connected to: before it is, it has no peer.
    pub(crate) fn of_future_peer(fd: c_int) -> Option<Self> {
        let mut storage = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let (level, option, place) = (libc::SOL_SOCKET, libc::SO_PEERNAME, storage.as_mut_ptr());
        // More room than the address takes is refused.
        let mut lens =
            [size_of::<libc::sockaddr_in6>(), size_of::<libc::sockaddr_in>()].into_iter();
        let len = lens.find(|len| {
            let mut len = *len as socklen_t;
            // SAFETY: the kernel writes at most `len` bytes, which `storage` has room for.
            0 == unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, option, place, &mut len) }
        })?;
        // SAFETY: any bytes are valid, and all were set to zero at first.
        Some(Self { storage: unsafe { storage.assume_init() }, len })
    }

    pub(crate) fn family(&self) -> c_int {
        c_int::from(self.storage.ss_family)
    }

    /// The name of a UNIX socket in the abstract space, without its zero.
    pub(crate) fn abstract_name(&self) -> Option<&[u8]> {
        if self.family() != libc::AF_UNIX {
            return None;
        }
        let bytes: *const u8 = (&raw const self.storage).cast();
        let len = self.len.min(size_of::<libc::sockaddr_storage>());
        // SAFETY: `storage` is that long, and initialised.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
        bytes.get(size_of::<libc::sa_family_t>()..)?.strip_prefix(&[0])
    }

    /// An internet address.
    pub(crate) fn internet(&self) -> Option<SocketAddr> {
        let place = &raw const self.storage;
        match self.family() {
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
}

/// Writes an address where a program wants it, cut to the room there is, as the kernel does.
///
/// # Safety
/// `len` is valid, and `place` has as many bytes as it says.
pub(crate) unsafe fn write_address(address: SocketAddr, place: *mut sockaddr, len: *mut socklen_t) {
    // SAFETY: the caller's promise.
    let room = unsafe { *len } as usize;
    let full = match address {
        SocketAddr::V4(address) => {
            let value = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the caller's promise; a plain value is copied as bytes.
            unsafe { copy(&value, place, room) }
        }
        SocketAddr::V6(address) => {
            let value = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { copy(&value, place, room) }
        }
    };
    // SAFETY: the caller's promise.
    unsafe { *len = full as socklen_t };
}

/// # Safety
/// `place` has `room` bytes.
unsafe fn copy<T>(value: &T, place: *mut sockaddr, room: usize) -> usize {
    let count = room.min(size_of::<T>());
    // SAFETY: both are at least that long, and apart.
    unsafe { std::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>(), place.cast(), count) };
    size_of::<T>()
}

/// An option that is a number.
pub(crate) fn number_option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    let place: *mut c_void = (&raw mut value).cast();
    // SAFETY: the kernel writes at most four bytes to `value`.
    let result = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, place, &mut len) };
    (result == 0).then_some(value)
}

/// Milliseconds of a clock that only goes forward.
pub(crate) fn now_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid; it stays zero if there were no such clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec.cast_unsigned() * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000
}

/// Repeats what signals interrupt, until it is too late.
pub(crate) fn retry_until<T>(until: u64, mut call: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        // A call that succeeds leaves it, and what it brings may still be rubbish.
        set_errno(0);
        let result = call();
        if result.is_some() || errno() != libc::EINTR || now_ms() > until {
            return result;
        }
    }
}

/// Repeats a system call that signals interrupt.
pub(crate) fn retry_interrupted(mut call: impl FnMut() -> c_long) -> Option<c_long> {
    for _ in 0..1000 {
        let result = call();
        if result >= 0 {
            return Some(result);
        }
        if errno() != libc::EINTR {
            return None;
        }
    }
    None
}

/// The kernel's number of a socket, which is never another one's.
pub(crate) fn socket_cookie(fd: c_int) -> Option<u64> {
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as socklen_t;
    let (level, name, place) = (libc::SOL_SOCKET, libc::SO_COOKIE, &raw mut cookie);
    // SAFETY: the kernel writes at most eight bytes to `cookie`.
    let result = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, place, &mut len) };
    (result == 0 && len as usize == size_of::<u64>()).then_some(cookie)
}

/// Asks for what a socket has sent and its peer has not read (a local one), or not acknowledged.
pub(crate) const SIOCOUTQ: u32 = 0x5411;

/// What the reader of a local socket has not read yet. The kernel counts the memory that it takes, which
/// is more; it is zero when there is nothing.
pub(crate) fn unread(fd: c_int) -> c_int {
    let mut waiting: c_int = 0;
    let request = libc::c_ulong::from(SIOCOUTQ);
    // SAFETY: the kernel writes a number.
    unsafe { libc::syscall(libc::SYS_ioctl, fd, request, &raw mut waiting) };
    waiting
}

/// Another descriptor of the same file, with a number from `least` on.
pub(crate) fn copy_to(fd: &Fd, least: c_int) -> Option<Fd> {
    let command = libc::F_DUPFD_CLOEXEC;
    // SAFETY: numbers only.
    Fd::from_result(unsafe { libc::syscall(libc::SYS_fcntl, fd.raw(), command, least) })
}

/// Lets others run for a millisecond.
pub(crate) fn pause() {
    let millisecond = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let none = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: the kernel reads the time.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const millisecond, none) };
}
