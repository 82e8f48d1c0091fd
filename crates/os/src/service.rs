//! What a service manager such as systemd has for services: sockets that it passes on, and states that
//! it is told.

#![allow(unsafe_code, reason = "descriptors that the parent of this process opened")]

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use sd_notify::NotifyState;

/// Takes the listening TCP sockets that the service manager passed (`LISTEN_FDS`, sd_listen_fds(3)), in
/// nonblocking mode. Only the first call gets them.
///
/// # Errors
/// When the variables make no sense, or a descriptor is not a listening TCP socket.
pub fn passed_listeners() -> io::Result<Vec<TcpListener>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    // SAFETY: the variables name this process, so its parent opened these descriptors for it, and nothing
    // else here owns them: they are taken once.
    let passed = sd_notify::listen_fds()?.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    passed.map(|fd| listening(TcpListener::from(fd))).collect()
}

fn listening(listener: TcpListener) -> io::Result<TcpListener> {
    let is_listening = rustix::net::sockopt::socket_acceptconn(&listener).unwrap_or(false);
    if !is_listening || listener.local_addr().is_err() {
        return Err(io::Error::other("a descriptor that was passed is no listening TCP socket"));
    }
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Has the kernel give connections to the second of two sockets that listen at one address
/// (`SO_REUSEPORT`), so that the first is without handshakes when it closes. With one socket left, that one
/// gets them.
///
/// # Errors
/// When the system refuses.
pub fn prefer_second_listener(listener: &TcpListener) -> io::Result<()> {
    /// `BPF_RET | BPF_K`: returns a constant, here the place in the order of listening.
    const RETURN: u16 = 0x06;
    let mut filter = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 1 }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    // SAFETY: the program is as long as it says, and the kernel copies it.
    let result = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A state of this service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceState {
    /// It serves.
    Ready,
    /// It reads its configuration again, and serves.
    Reloading,
    /// It was asked to end.
    Stopping,
}

/// Tells the service manager, where there is one (`NOTIFY_SOCKET`, sd_notify(3)).
pub fn tell(state: ServiceState) {
    let states = match state {
        ServiceState::Ready => vec![NotifyState::Ready],
        ServiceState::Stopping => vec![NotifyState::Stopping],
        ServiceState::Reloading => {
            let since = NotifyState::monotonic_usec_now().ok();
            [NotifyState::Reloading].into_iter().chain(since).collect()
        }
    };
    // A manager that does not listen is no reason to stop serving.
    let _ = sd_notify::notify(&states);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_are_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(listening(TcpListener::from(OwnedFd::from(client))).is_err());
        assert!(listening(listener).is_ok());
    }
}
