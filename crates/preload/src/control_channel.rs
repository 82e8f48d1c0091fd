//! Connections to the launcher, greeted once and kept for what a process asks next.
//!
//! A kept one is a descriptor that the program knows nothing of: it may close the number, or fork. So
//! it is used by the process that opened it only, and after a look at whether the number still stands
//! for the same socket. Its number is high, where it keeps no place that programs count on.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use cellpace_control::message::{ControlSession, GREETING_LEN, Nonce, Token, hello};
use libc::{c_int, c_long, c_void};

use crate::config::PreloadConfig;
use crate::records::send;
use crate::sys::{Fd, copy_to, errno, retry_interrupted, retry_until, socket_cookie};

/// How long a program waits for the launcher, which is stopped or on a very busy machine.
pub(crate) const PATIENCE_MS: u64 = 5000;

/// Kept for threads that ask at the same time, and for several workers.
const KEPT_CHANNELS: usize = 64;

/// Numbers from here on are for kept channels. A program whose limit is below needs all of them itself.
const HIGH_DESCRIPTOR: c_int = 512;

/// Locked for moments, and never waited for: a thread may be gone with a fork that holds one.
static KEPT: [Mutex<Option<ControlChannel>>; KEPT_CHANNELS] =
    [const { Mutex::new(None) }; KEPT_CHANNELS];

/// A connection to a worker of the launcher, which has proved that it is the launcher.
pub(crate) struct ControlChannel {
    pub(crate) socket: Fd,
    pub(crate) session: ControlSession,
    /// The launcher has said that connections stay with the program.
    pub(crate) stays: bool,
    worker: u32,
    process: c_long,
    /// The kernel's number of the socket, which no other one gets; none is not kept.
    cookie: Option<u64>,
}

/// Why the launcher cannot be asked.
pub(crate) enum LauncherFailure {
    /// Not this time.
    Now,
    /// There is none, or another process has its name.
    Gone,
}

impl ControlChannel {
    /// One that was kept for a worker.
    pub(crate) fn kept(worker: u32) -> Option<Self> {
        let process = process();
        slots(worker).find_map(|slot| {
            let mut slot = try_lock(slot)?;
            match &*slot {
                Some(channel) if channel.process != process => {
                    // A copy of the parent's.
                    slot.take()?.drop_if_ours();
                    None
                }
                Some(channel) if channel.worker == worker => {
                    let channel = slot.take()?;
                    drop(slot);
                    if channel.is_ours() { Some(channel) } else { channel.drop_if_ours() }
                }
                _ => None,
            }
        })
    }

    /// Opens one, and waits for the launcher's proof until `until`.
    pub(crate) fn open(
        config: &PreloadConfig,
        worker: u32,
        until: u64,
    ) -> Result<Self, LauncherFailure> {
        let socket = connect(config, worker)?;
        let session = greet(&socket, &config.token, until)?;
        Ok(Self { socket, session, stays: false, worker, process: process(), cookie: None })
    }

    /// Keeps it for the next question, if there is room for it.
    pub(crate) fn keep(mut self) {
        if self.cookie.is_none() {
            let Some(socket) = copy_to(&self.socket, HIGH_DESCRIPTOR) else { return };
            self.cookie = socket_cookie(socket.raw());
            self.socket = socket;
        }
        if self.cookie.is_none() {
            return;
        }
        for slot in slots(self.worker) {
            if let Some(mut slot) = try_lock(slot)
                && slot.is_none()
            {
                *slot = Some(self);
                return;
            }
        }
    }

    /// Whether the program has not closed it behind our back.
    fn is_ours(&self) -> bool {
        self.cookie.is_some() && socket_cookie(self.socket.raw()) == self.cookie
    }

    fn drop_if_ours(self) -> Option<Self> {
        if !self.is_ours() {
            // The number is the program's.
            self.socket.release();
        }
        None
    }
}

/// All slots, those first that are most likely a worker's.
fn slots(worker: u32) -> impl Iterator<Item = &'static Mutex<Option<ControlChannel>>> {
    (0..KEPT_CHANNELS).map(move |index| &KEPT[(worker as usize + index) % KEPT_CHANNELS])
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn process() -> c_long {
    // SAFETY: it only returns a number.
    unsafe { libc::syscall(libc::SYS_getpid) }
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
