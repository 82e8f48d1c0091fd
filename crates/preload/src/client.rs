//! Talking to the launcher.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use cellpace_control::message::{
    ANSWER_LEN, Answer, Ask, ControlSession, GREETING_LEN, Nonce, Token, hello,
};
use cellpace_control::{FlowName, Owner};
use libc::{c_int, c_long, c_void};

use crate::alcc;
use crate::config::{PreloadConfig, config};
use crate::sys::{Fd, Lent, NameSide, SocketName, errno, now_ms, set_errno};

/// How long a program waits for the launcher, which is stopped or on a very busy machine.
const PATIENCE_MS: u64 = 5000;
/// How long it is left alone after that.
const PAUSE_MS: u64 = 30_000;

/// When to ask again.
static AWAY_UNTIL: AtomicU64 = AtomicU64::new(0);
/// The launcher has ended. Anybody may bind its name from now on, so nobody is asked any more.
static GONE: AtomicBool = AtomicBool::new(false);

/// Hands a TCP socket to the launcher. With success it is the launcher's, and the application's
/// end is returned; otherwise it is as it was.
pub(crate) fn adopt(tcp: c_int, nonblocking: bool, outgoing: bool) -> Option<Fd> {
    let descriptor = tcp.cast_unsigned();
    hand_over(Ask::Adopt { nonblocking, outgoing, connecting: false, descriptor }, tcp)
}

/// Hands a TCP socket over that is being connected. The application's end cannot be written to
/// until it is, or until that has failed.
pub(crate) fn adopt_opening(tcp: c_int) -> Option<Fd> {
    let descriptor = tcp.cast_unsigned();
    let ask = Ask::Adopt { nonblocking: true, outgoing: true, connecting: true, descriptor };
    hand_over(ask, tcp)
}

/// Each worker of the launcher gets its share; one that is full has the next one asked.
fn hand_over(what: Ask, tcp: c_int) -> Option<Fd> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let workers = config()?.workers;
    let first = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut asked = (0..workers).map(|index| first.wrapping_add(index) % workers);
    asked.find_map(|worker| ask(worker, what, tcp).map(|(_, fd)| fd))
}

/// Borrows the TCP socket of a flow, whose application's end `fd` is; `linger` says that it is for
/// `SO_LINGER`.
pub(crate) fn fetch(flow: &FlowName, fd: c_int, linger: bool) -> Option<Lent> {
    match flow.owner {
        Owner::Launcher => {
            let workers = u64::from(config()?.workers);
            let worker = (flow.flow.checked_sub(1)? % workers) as u32;
            let (answer, tcp) = ask(worker, Ask::Fetch { flow: flow.flow, linger }, fd)?;
            Some(Lent { tcp, queued: answer.queued })
        }
        Owner::Process => alcc::lend(flow.flow, linger),
    }
}

/// The flow whose application's end a descriptor is.
pub(crate) fn flow_of(fd: c_int) -> Option<FlowName> {
    let tokens = [config().map(|config| &config.token), alcc::token()];
    if tokens == [None, None] {
        return None;
    }
    let peer = SocketName::of(fd, NameSide::Peer)?;
    let name = peer.abstract_name()?;
    tokens.into_iter().flatten().find_map(|token| FlowName::decode(name, token))
}

/// Asks a worker of the launcher, which gets a descriptor and sends one.
fn ask(worker: u32, ask: Ask, fd: c_int) -> Option<(Answer, Fd)> {
    let config = config()?;
    let now = now_ms();
    if GONE.load(Ordering::Relaxed) || now < AWAY_UNTIL.load(Ordering::Relaxed) {
        return None;
    }
    let until = now + PATIENCE_MS;
    let greeted = connect(config, worker)
        .and_then(|socket| greet(&socket, &config.token, until).map(|session| (socket, session)));
    let (socket, session) = match greeted {
        Ok(greeted) => greeted,
        Err(LauncherFailure::Gone) => {
            GONE.store(true, Ordering::Relaxed);
            return None;
        }
        Err(LauncherFailure::Now) => {
            if now_ms() >= until {
                AWAY_UNTIL.store(now_ms() + PAUSE_MS, Ordering::Relaxed);
            }
            return None;
        }
    };
    send(&socket, &session.request(&config.token, ask), Some(fd))?;
    let answered = retry_until(until, || receive(&socket, 0));
    let (answer, fd) = answered.or_else(|| {
        // From here on the launcher sees that we gave up; but it may have answered before.
        // SAFETY: the socket is ours.
        unsafe { libc::syscall(libc::SYS_shutdown, socket.raw(), libc::SHUT_RDWR) };
        receive(&socket, libc::MSG_DONTWAIT)
    })?;
    if answer.done { fd.map(|fd| (answer, fd)) } else { None }
}

/// Why the launcher cannot be asked.
enum LauncherFailure {
    /// Not this time.
    Now,
    /// There is none, or another process has its name.
    Gone,
}

/// Repeats what signals interrupt, until it is too late.
fn retry_until<T>(until: u64, mut call: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        // A call that succeeds leaves it, and what it brings may still be rubbish.
        set_errno(0);
        let result = call();
        if result.is_some() || errno() != libc::EINTR || now_ms() > until {
            return result;
        }
    }
}

/// Sends the launcher our nonce and checks its proof, before anything else is sent.
fn greet(socket: &Fd, token: &Token, until: u64) -> Result<ControlSession, LauncherFailure> {
    let nonce = nonce().ok_or(LauncherFailure::Now)?;
    send(socket, &hello(&nonce), None).ok_or(LauncherFailure::Now)?;
    let mut bytes = [0_u8; GREETING_LEN + 1];
    let (place, len) = (bytes.as_mut_ptr(), bytes.len());
    let count = retry_until(until, || {
        let (none, flags) = (std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: the kernel writes at most `len` bytes to `bytes`.
        let count = unsafe {
            libc::syscall(libc::SYS_recvfrom, socket.raw(), place, len, flags, none, none)
        };
        usize::try_from(count).ok()
    });
    match count {
        // The launcher has no room for us.
        None | Some(0) => Err(LauncherFailure::Now),
        Some(count) => {
            ControlSession::greeted(nonce, &bytes[..count], token).ok_or(LauncherFailure::Gone)
        }
    }
}

fn nonce() -> Option<Nonce> {
    let mut nonce = Nonce::default();
    let (place, len) = (nonce.as_mut_ptr(), nonce.len());
    // SAFETY: the kernel writes at most `len` bytes to `nonce`.
    let count = retry_interrupted(|| unsafe { libc::syscall(libc::SYS_getrandom, place, len, 0) })?;
    (count == len as c_long).then_some(nonce)
}

fn connect(config: &PreloadConfig, worker: u32) -> Result<Fd, LauncherFailure> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: numbers only.
    let socket = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
    let socket = Fd::from_result(socket).ok_or(LauncherFailure::Now)?;
    let patience = libc::timeval { tv_sec: (PATIENCE_MS / 1000).cast_signed(), tv_usec: 0 };
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let (level, len) = (libc::SOL_SOCKET, size_of::<libc::timeval>());
        // SAFETY: the kernel reads `len` bytes of `patience`.
        unsafe {
            libc::syscall(libc::SYS_setsockopt, socket.raw(), level, name, &raw const patience, len)
        };
    }
    let (address, len) = config.control(worker).ok_or(LauncherFailure::Now)?;
    let address = &raw const address;
    let connected = retry_interrupted(|| {
        // SAFETY: the kernel reads as many bytes of the address as `len` says.
        unsafe { libc::syscall(libc::SYS_connect, socket.raw(), address, len) }
    });
    match connected {
        None if errno() == libc::ECONNREFUSED => Err(LauncherFailure::Gone),
        None => Err(LauncherFailure::Now),
        Some(_) if is_trusted(&socket) => Ok(socket),
        Some(_) => Err(LauncherFailure::Gone),
    }
}

/// Whether who listens is our own user or root: the launcher was, when it started the program.
fn is_trusted(socket: &Fd) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name, place) = (libc::SOL_SOCKET, libc::SO_PEERCRED, &raw mut peer);
    // SAFETY: the kernel writes at most `len` bytes to `peer`.
    let result = unsafe {
        libc::syscall(libc::SYS_getsockopt, socket.raw(), level, name, place, &raw mut len)
    };
    // SAFETY: it only returns a number.
    result == 0 && (peer.uid == 0 || peer.uid == unsafe { libc::geteuid() })
}

/// Repeats a system call that signals interrupt.
fn retry_interrupted(mut call: impl FnMut() -> c_long) -> Option<c_long> {
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

/// Room for one descriptor beside a message, aligned as its header.
#[repr(C)]
union Rights {
    bytes: [u8; RIGHTS_LEN],
    _header: libc::cmsghdr,
}

// SAFETY: computes a number.
const RIGHTS_LEN: usize = unsafe { libc::CMSG_SPACE(size_of::<c_int>() as u32) } as usize;

/// Sends a record, with a descriptor or without.
fn send(socket: &Fd, bytes: &[u8], descriptor: Option<c_int>) -> Option<()> {
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

fn receive(socket: &Fd, flags: c_int) -> Option<(Answer, Option<Fd>)> {
    let mut bytes = [0_u8; ANSWER_LEN + 1];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut rights = Rights { bytes: [0; RIGHTS_LEN] };
    let mut message = empty_message(&mut part);
    message.msg_control = (&raw mut rights).cast();
    message.msg_controllen = RIGHTS_LEN as _;
    let flags = flags | libc::MSG_CMSG_CLOEXEC;
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
