//! The C interface: a program's own connections under a controller, with an engine in the
//! program itself. The calls are those of the ALCC paper (section 3), their errors those of the
//! system's calls.

mod error;
mod flows;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use cellpace_tcp::FlowStats;
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};

use error::{CallFailure, last_error, remember};
use flows::process_flows;
pub(crate) use flows::{lend, token};

// The calls' version. A program that was linked with it says so when it finds a library that is too
// old, before it calls anything. In this module, as the directives must stand in the same object as
// what they are about.
#[cfg(all(symbol_versions, not(test)))]
core::arch::global_asm!(
    ".symver alcc_default_cc, alcc_default_cc@@@CELLPACE_0",
    ".symver alcc_set_cc, alcc_set_cc@@@CELLPACE_0",
    ".symver alcc_accept, alcc_accept@@@CELLPACE_0",
    ".symver alcc_connect, alcc_connect@@@CELLPACE_0",
    ".symver alcc_send, alcc_send@@@CELLPACE_0",
    ".symver alcc_recv, alcc_recv@@@CELLPACE_0",
    ".symver alcc_close, alcc_close@@@CELLPACE_0",
    ".symver alcc_statistics, alcc_statistics@@@CELLPACE_0",
    ".symver alcc_last_error, alcc_last_error@@@CELLPACE_0",
);

/// Figures of a connection. Where a figure is not known, it is `UINT64_MAX`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct alcc_statistics {
    /// Bytes that TCP took.
    pub sent_bytes: u64,
    /// Bytes that the peer acknowledged.
    pub acked_bytes: u64,
    /// Bytes that came from the peer.
    pub received_bytes: u64,
    /// Bytes that wait for the controller.
    pub queued_bytes: u64,
    /// The controller's window in bytes, headers included.
    pub cwnd_bytes: u64,
    /// TCP's own window in bytes, headers included.
    pub tcp_cwnd_bytes: u64,
    /// Bytes in flight, headers included.
    pub in_flight_bytes: u64,
    /// Smoothed round-trip time in microseconds, as the controller sees it.
    pub srtt_us: u64,
    /// Smallest round-trip time in microseconds.
    pub min_rtt_us: u64,
    /// Segments that TCP sent again.
    pub retransmissions: u64,
    /// How often TCP refused data that the controller allowed.
    pub blocks: u64,
    /// Zero; for figures to come.
    pub reserved: [u64; 5],
}

impl From<FlowStats> for alcc_statistics {
    fn from(stats: FlowStats) -> Self {
        let micros = |span: Option<cellpace_base::Span>| {
            span.map_or(u64::MAX, |span| span.as_nanos() / 1000)
        };
        Self {
            sent_bytes: stats.sent_bytes,
            acked_bytes: stats.acked_bytes,
            received_bytes: stats.received_bytes,
            queued_bytes: stats.queued_bytes,
            cwnd_bytes: stats.cwnd,
            tcp_cwnd_bytes: stats.tcp_cwnd,
            in_flight_bytes: stats.in_flight,
            srtt_us: micros(stats.srtt),
            min_rtt_us: micros(stats.min_rtt),
            retransmissions: stats.retransmissions,
            blocks: stats.blocks,
            reserved: [0; 5],
        }
    }
}

/// Chooses the controller of connections for which none is chosen by alcc_set_cc: `verus:r=2`,
/// `copa`, ... The default is `pace`.
///
/// Returns 0, or -1 with errno EINVAL if there is no such controller; alcc_last_error says more.
///
/// # Safety
/// `controller` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_default_cc(controller: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    status(|| process_flows()?.set_default(unsafe { text(controller) }?))
}

/// Chooses the controller of a socket: one that is not connected yet, for its connection; one
/// that listens, for the connections that it will accept.
///
/// Returns 0, or -1 with errno EINVAL if there is no such controller, EISCONN if the connection
/// is under one already, EBADF or ENOTSOCK if it is no socket.
///
/// # Safety
/// `controller` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_set_cc(fd: c_int, controller: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    status(|| process_flows()?.set_for(fd, unsafe { text(controller) }?))
}

/// accept(2), and the connection is under a controller. If it cannot be (no descriptors, no
/// memory, no TCP), it is accepted all the same, as a plain one: alcc_statistics fails for it, and
/// alcc_last_error says why.
///
/// # Safety
/// As accept(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_accept(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the kernel checks the pointers.
    let accepted = unsafe { libc::syscall(libc::SYS_accept, fd, address, len) as c_int };
    if accepted >= 0 {
        // The connection is there in any case.
        let _ = guarded(|| process_flows()?.take_over(accepted, Some(fd)));
    }
    accepted
}

/// connect(2), and the connection is under a controller. The socket must block until it is
/// connected (errno EOPNOTSUPP otherwise); it may be made non-blocking after that.
///
/// Returns 0, or -1 with errno as connect(2) has it. If the connection is there but cannot be
/// put under a controller, it is a plain one, as with alcc_accept.
///
/// # Safety
/// As connect(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    let blocks = status(|| flows::must_block(fd));
    if blocks != 0 {
        return blocks;
    }
    // SAFETY: the kernel checks the pointer.
    let result = unsafe { libc::syscall(libc::SYS_connect, fd, address, len) as c_int };
    if result == 0 {
        let _ = guarded(|| process_flows()?.take_over(fd, None));
    }
    result
}

/// send(2). Every other way to write to a socket serves as well.
///
/// # Safety
/// As send(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_send(
    fd: c_int,
    data: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { libc::send(fd, data, len, flags) }
}

/// recv(2). Every other way to read from a socket serves as well.
///
/// # Safety
/// As recv(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_recv(
    fd: c_int,
    data: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { libc::recv(fd, data, len, flags) }
}

/// Closes a connection and waits until the peer has acknowledged all that was sent, for so many
/// milliseconds at most; without end if negative. close(2) does the same without waiting: what
/// was sent is then delivered as long as the process lives.
///
/// Returns 0, or -1 with errno ETIMEDOUT if it took too long (delivery goes on as long as the
/// process lives), or the error that ended the connection. The descriptor is closed in any case,
/// but for EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_close(fd: c_int, timeout_ms: c_int) -> c_int {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    status(|| process_flows()?.close(fd, timeout))
}

/// Figures of a connection.
///
/// Returns 0, or -1 with errno ENOENT if the descriptor is none that alcc_accept or alcc_connect
/// put under a controller in this process.
///
/// # Safety
/// `statistics` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_statistics(fd: c_int, statistics: *mut alcc_statistics) -> c_int {
    status(|| {
        let stats = process_flows()?.statistics(fd)?;
        if statistics.is_null() {
            return Err(CallFailure::new(libc::EFAULT, "no place for the statistics"));
        }
        // SAFETY: the caller's promise.
        unsafe { statistics.write(stats.into()) };
        Ok(())
    })
}

/// What the last call of this thread that failed has to say; never null. It holds until the next
/// call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn alcc_last_error() -> *const c_char {
    last_error()
}

fn status(call: impl FnOnce() -> Result<(), CallFailure>) -> c_int {
    match guarded(call) {
        Ok(()) => 0,
        Err(number) => {
            crate::sys::set_errno(number);
            -1
        }
    }
}

/// Remembers a failure, and lets no panic reach the program.
fn guarded(call: impl FnOnce() -> Result<(), CallFailure>) -> Result<(), c_int> {
    let before = crate::sys::KeepErrno::now();
    let result = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(CallFailure::new(libc::EIO, "a fault within cellpace")));
    drop(before);
    result.map_err(|failure| remember(&failure))
}

/// # Safety
/// `text` is null or a string.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, CallFailure> {
    if text.is_null() {
        return Err(CallFailure::new(libc::EINVAL, "no controller is named"));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| CallFailure::new(libc::EINVAL, "the controller's name is not UTF-8"))
}
