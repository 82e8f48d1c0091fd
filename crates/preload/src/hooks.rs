//! The calls that programs make and that we stand in front of.

use libc::{c_int, c_long, c_ulong, c_void, sockaddr, socklen_t};

use crate::client::{adopt, adopt_opening, fetch, flow_of};
use crate::config::config;
use crate::epoll::EpollRegistrations;
use crate::options::{OptionRoute, is_about_the_peer, is_special, route};
use crate::sys::{
    Fd, KeepErrno, NameSide, SIOCOUTQ, SocketName, errno, number_option, set_errno, unread,
    write_address,
};

/// `accept(2)`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the kernel checks the pointers.
    let accepted = unsafe { cancellable(libc::SYS_accept, fd, address, len, 0) };
    taken_over(accepted, 0)
}

/// `accept4(2)`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the kernel checks the pointers.
    let accepted = unsafe { cancellable(libc::SYS_accept4, fd, address, len, flags) };
    taken_over(accepted, flags)
}

/// `connect(2)`. With a connection that is not there when it returns, the program's end of the
/// pair takes the socket's place all the same; what the program waits for, that it can be written
/// to, comes about when the connection does.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the kernel checks the pointer, which it only reads from.
    let result = unsafe {
        cancellable(libc::SYS_connect, fd, address.cast_mut(), len as usize as *mut socklen_t, 0)
    };
    if result == 0 {
        take_over_opened(fd);
        return 0;
    }
    match errno() {
        libc::EINPROGRESS => take_over_opening(fd),
        // No local socket takes an internet address.
        libc::EINVAL => return connect_again(fd, address, len).unwrap_or(result),
        _ => {}
    }
    result
}

/// `getpeername(2)`: for a taken-over connection, TCP's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { name(fd, address, len, NameSide::Peer) }
}

/// `getsockname(2)`: for a taken-over connection, TCP's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { name(fd, address, len, NameSide::Own) }
}

/// `getsockopt(2)`: for a taken-over connection, of the TCP socket where the option is about it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let get = |fd: c_int| {
        // SAFETY: the kernel checks the pointers.
        unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, option, value, len) as c_int }
    };
    let Some(kept) = elsewhere(fd, level, option, || get(fd)) else { return get(fd) };
    let (flow, first) = match kept {
        Elsewhere::Done(result) => return result,
        Elsewhere::Flow(flow) => (flow, route(level, option)),
    };
    let is_error = (level, option) == (libc::SOL_SOCKET, libc::SO_ERROR);
    match first {
        OptionRoute::Refused(error) => fail(error),
        // SAFETY: the kernel has written what `len` says to `value`, or the call has failed.
        OptionRoute::Both if is_error && unsafe { is_set(get(fd), value, len) } => 0,
        _ => match fetch(&flow, fd, is_linger(level, option)) {
            Some(lent) => get(lent.tcp.raw()),
            // Better no answer than who the launcher is.
            None if level == libc::SOL_SOCKET && is_about_the_peer(option) => fail(libc::ENOTCONN),
            None => get(fd),
        },
    }
}

/// `setsockopt(2)`: for a taken-over connection, of the TCP socket where the option is about it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let set = |fd: c_int| {
        // SAFETY: the kernel checks the pointer.
        unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, option, value, len) as c_int }
    };
    let Some(kept) = elsewhere(fd, level, option, || set(fd)) else { return set(fd) };
    let flow = match kept {
        Elsewhere::Done(result) => return result,
        Elsewhere::Flow(flow) => flow,
    };
    match route(level, option) {
        OptionRoute::Refused(error) => fail(error),
        // As the kernel checks it before it does anything.
        OptionRoute::Ours if (len as usize) < size_of::<c_int>() => fail(libc::EINVAL),
        OptionRoute::Ours => 0,
        way => {
            if way == OptionRoute::Both {
                set(fd);
            }
            // Of a connection that has ended, options may still be set.
            let lent = fetch(&flow, fd, is_linger(level, option));
            lent.map_or(0, |lent| set(lent.tcp.raw()))
        }
    }
}

/// While a flow holds bytes, this option has a value of the launcher's.
fn is_linger(level: c_int, option: c_int) -> bool {
    (level, option) == (libc::SOL_SOCKET, libc::SO_LINGER)
}

/// `ioctl(2)`: for a taken-over connection, the amount of data that has not reached the peer is
/// that of TCP and of what waits in front of it. Declared with three arguments: where we are
/// built for, variable arguments come in the same places.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let call = |fd: c_int| {
        // SAFETY: the kernel checks the argument, as far as the request has it do so.
        unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) as c_int }
    };
    // Callers may extend the number's sign.
    let result = call(fd);
    if !matches!(request as u32, SIOCOUTQ | SIOCOUTQNSD) || argument.is_null() {
        return result;
    }
    let before = KeepErrno::now();
    let Some(flow) = flow_of(fd) else { return result };
    let here = unread(fd);
    let Some(lent) = fetch(&flow, fd, false) else { return result };
    drop(before);
    if call(lent.tcp.raw()) != 0 {
        return result;
    }
    let number: *mut c_int = argument.cast();
    // SAFETY: the kernel has just written a number there.
    let in_tcp = unsafe { number.read_unaligned() };
    let queued = c_int::try_from(lent.queued).unwrap_or(c_int::MAX);
    let all = in_tcp.saturating_add(here).saturating_add(queued);
    // SAFETY: as above.
    unsafe { number.write_unaligned(all) };
    0
}

const SIOCOUTQNSD: u32 = 0x894b;

/// A system call that a thread may be cancelled in, as in the C library's calls.
///
/// A thread that is cancelled between the system call's return and the end of this function loses
/// the descriptor that it has just accepted, as in glibc before 2.41. Only the C library can close
/// that window, as its signal handler must know at which instruction a thread was; its own calls
/// cannot be used here, because to look them up may allocate.
///
/// Nothing in this function's frame needs to be dropped, so that it may be unwound.
unsafe fn cancellable(
    call: c_long,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let mut before: c_int = 0;
    // SAFETY: only this thread is concerned, and only for the system call.
    unsafe { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &mut before) };
    // SAFETY: the kernel checks the pointers.
    let result = unsafe { raw_syscall(call, fd, address, len, flags) };
    // SAFETY: puts back what was; this does not touch `errno`.
    unsafe { pthread_setcanceltype(before, std::ptr::null_mut()) };
    result as c_int
}

const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;

unsafe extern "C-unwind" {
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    /// The C library's, through which a cancelled thread is unwound.
    #[link_name = "syscall"]
    fn raw_syscall(number: c_long, ...) -> c_long;
}

/// What an `accept` that succeeded returns.
fn taken_over(accepted: c_int, flags: c_int) -> c_int {
    if accepted < 0 {
        return accepted;
    }
    let _errno = KeepErrno::now();
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let Some(end) = take_over(accepted, nonblocking, false) else { return accepted };
    let kept = flags & libc::SOCK_CLOEXEC;
    match replace(&end, accepted, kept) {
        true => accepted,
        // The connection is the launcher's: what is left is the application's end itself.
        false => {
            drop(Fd::from_result(accepted.into()));
            if kept == 0 {
                // SAFETY: numbers only.
                unsafe { libc::syscall(libc::SYS_fcntl, end.raw(), libc::F_SETFD, 0) };
            }
            end.release()
        }
    }
}

fn take_over_opened(fd: c_int) {
    let _errno = KeepErrno::now();
    let is_wanted = config().is_some_and(|config| config.rules.covers(true));
    if !is_wanted {
        return;
    }
    let Some((status, flags)) = flags(fd) else { return };
    // Without waiting it is there at once only with data in the first packet, or the second time.
    if status & libc::O_NONBLOCK != 0 {
        return;
    }
    let Some(end) = take_over(fd, false, true) else { return };
    replace(&end, fd, flags);
}

/// The program goes on while its connection is being made.
fn take_over_opening(fd: c_int) {
    let _errno = KeepErrno::now();
    let Some(config) = config().filter(|config| config.rules.covers(true)) else { return };
    let Some((status, flags)) = flags(fd) else { return };
    // A blocking connect that was given too little time looks the same. Who wants a signal when
    // it is there (O_ASYNC) would get none.
    if status & libc::O_NONBLOCK == 0 || status & libc::O_ASYNC != 0 || !is_tcp(fd) {
        return;
    }
    let local = SocketName::of(fd, NameSide::Own).and_then(|name| name.internet());
    let peer = SocketName::of_future_peer(fd).and_then(|name| name.internet());
    let (Some(local), Some(peer)) = (local, peer) else { return };
    if !config.rules.take(true, local, peer) {
        return;
    }
    // The program may have registered the descriptor before.
    let Some(places) = EpollRegistrations::of(fd) else { return };
    let Some(end) = adopt_opening(fd) else { return };
    places.remove();
    replace(&end, fd, flags);
    places.add();
}

/// Asks a taken-over connection how it stands, as programs do by a second call.
fn connect_again(fd: c_int, address: *const sockaddr, len: socklen_t) -> Option<c_int> {
    let before = KeepErrno::now();
    let flow = flow_of(fd)?;
    let lent = fetch(&flow, fd, false)?;
    drop(before);
    // SAFETY: the kernel checks the pointer.
    Some(unsafe { libc::syscall(libc::SYS_connect, lent.tcp.raw(), address, len) as c_int })
}

/// A descriptor's status flags, and the flag that a duplicate does not get by itself.
fn flags(fd: c_int) -> Option<(c_int, c_int)> {
    // SAFETY: numbers only.
    let status = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    // SAFETY: numbers only.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) };
    if status < 0 || flags < 0 {
        return None;
    }
    let close_on_exec = flags as c_int & libc::FD_CLOEXEC != 0;
    Some((status as c_int, if close_on_exec { libc::O_CLOEXEC } else { 0 }))
}

fn is_tcp(fd: c_int) -> bool {
    number_option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

/// Hands a connection to the launcher if the rules are for it.
fn take_over(fd: c_int, nonblocking: bool, outgoing: bool) -> Option<Fd> {
    let rules = &config()?.rules;
    if !rules.covers(outgoing) {
        return None;
    }
    let local = SocketName::of(fd, NameSide::Own)?.internet()?;
    let peer = SocketName::of(fd, NameSide::Peer)?.internet()?;
    if !is_tcp(fd) || !rules.take(outgoing, local, peer) {
        return None;
    }
    adopt(fd, nonblocking, outgoing)
}

/// Lets a descriptor stand for another file.
fn replace(end: &Fd, fd: c_int, flags: c_int) -> bool {
    for _ in 0..1000 {
        // SAFETY: the program asked for the descriptor; what it stood for is the launcher's now.
        if unsafe { libc::syscall(libc::SYS_dup3, end.raw(), fd, flags) } >= 0 {
            return true;
        }
        if !matches!(errno(), libc::EINTR | libc::EBUSY) {
            return false;
        }
    }
    false
}

unsafe fn name(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, side: NameSide) -> c_int {
    let before = KeepErrno::now();
    let found = if address.is_null() || len.is_null() { None } else { flow_of(fd) };
    drop(before);
    let Some(flow) = found else {
        // SAFETY: the kernel checks the pointers.
        return unsafe { libc::syscall(side.call(), fd, address, len) as c_int };
    };
    // SAFETY: the caller's promise; neither is null.
    if unsafe { *len }.cast_signed() < 0 {
        return fail(libc::EINVAL);
    }
    if let (NameSide::Peer, true) = (side, flow.not_awaited)
        && let Some(lent) = fetch(&flow, fd, false)
    {
        // Whether there is a peer, and why there is none.
        // SAFETY: the kernel checks the pointers.
        return unsafe { libc::syscall(side.call(), lent.tcp.raw(), address, len) as c_int };
    }
    let shown = match side {
        NameSide::Own => flow.local,
        NameSide::Peer => flow.peer,
    };
    // SAFETY: the caller's promise.
    unsafe { write_address(shown, address, len) };
    0
}

/// Who answers a call for an option.
enum Elsewhere {
    /// It is answered.
    Done(c_int),
    /// It is about this connection.
    Flow(cellpace_control::FlowName),
}

/// Whether an option may be about a taken-over connection; `None` if not, and the call is still to
/// be made. Other sockets are hardly to notice, so those levels that a local socket does not know
/// at all are tried there first.
fn elsewhere(
    fd: c_int,
    level: c_int,
    option: c_int,
    call: impl FnOnce() -> c_int,
) -> Option<Elsewhere> {
    if level == libc::SOL_SOCKET {
        if !is_special(option) {
            return None;
        }
        let _errno = KeepErrno::now();
        return flow_of(fd).map(Elsewhere::Flow);
    }
    let result = call();
    if result == 0 || !matches!(errno(), libc::EOPNOTSUPP | libc::ENOPROTOOPT) {
        return Some(Elsewhere::Done(result));
    }
    let _errno = KeepErrno::now();
    Some(flow_of(fd).map_or(Elsewhere::Done(result), Elsewhere::Flow))
}

/// Whether a call has returned a number other than 0. The program may give room for less than a
/// whole number, down to none at all, with a null pointer: only what the kernel wrote is read.
///
/// # Safety
/// If the result is 0, the kernel has written to `len`, and that many bytes to `value`.
unsafe fn is_set(result: c_int, value: *const c_void, len: *const socklen_t) -> bool {
    if result != 0 {
        return false;
    }
    // SAFETY: the caller's promise.
    let written = unsafe { len.read_unaligned() } as usize;
    (0..written.min(size_of::<c_int>())).any(|index| {
        // SAFETY: the caller's promise: the kernel has written as many bytes.
        let byte = unsafe { value.cast::<u8>().add(index) };
        // SAFETY: as above.
        unsafe { byte.read() != 0 }
    })
}

fn fail(error: c_int) -> c_int {
    set_errno(error);
    -1
}
