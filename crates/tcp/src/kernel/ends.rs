//! News of sockets of this network namespace that are gone.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use cellpace_os::netlink::Netlink;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::kernel::sock_diag;
use crate::socket::TcpInfo;

/// Ends that come together cost one wakeup.
const TOGETHER: Duration = Duration::from_millis(2);

/// What [`follow_ends`] reports.
pub(crate) enum SocketNews {
    /// A socket of this cookie is gone; what TCP knew of it last.
    Gone(u64, TcpInfo),
    /// More ends at once than there was room for: any socket may be gone.
    SomeGone,
    /// The time has passed after which one wants to be woken.
    Look,
}

/// Reports what happens until `wake` is written to; at least once in the time `every`, if there is one.
pub(crate) fn follow_ends(
    ends: &Netlink,
    wake: &OwnedFd,
    every: Option<Duration>,
    mut each: impl FnMut(SocketNews),
) {
    let timeout = every.map(|every| Timespec {
        tv_sec: every.as_secs().cast_signed(),
        tv_nsec: every.subsec_nanos().into(),
    });
    loop {
        let mut fds = [
            PollFd::new(wake, PollFlags::IN),
            PollFd::from_borrowed_fd(ends.as_fd(), PollFlags::IN),
        ];
        let polled = poll(&mut fds, timeout.as_ref());
        if polled.is_ok() && !fds[0].revents().is_empty() {
            return;
        }
        let received = ends.receive(|_, body| {
            if let Some((cookie, info)) = sock_diag::read(body) {
                each(SocketNews::Gone(cookie, info));
            }
        });
        match received.map_err(|error| error.raw_os_error()) {
            Ok(()) => std::thread::sleep(TOGETHER),
            Err(Some(libc::EINTR | libc::EAGAIN)) => {}
            Err(Some(libc::ENOBUFS)) => each(SocketNews::SomeGone),
            Err(_) => return,
        }
        if every.is_some() {
            each(SocketNews::Look);
        }
    }
}
