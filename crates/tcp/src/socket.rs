//! What the kernel reports of a TCP socket, and what can be set.

#![allow(unsafe_code, reason = "system calls that no safe wrapper has")]

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::TcpError;

/// `TCPI_OPT_TIMESTAMPS`.
const OPTION_TIMESTAMPS: u8 = 1;

/// `TCP_CLOSE` of the connection's states.
const CLOSED: u8 = 7;

/// `TCP_CA_Open`.
const CA_OPEN: u8 = 0;

/// `TCP_INFINITE_SSTHRESH`.
const INFINITE: u32 = 0x7fff_ffff;

/// IP and TCP headers without options, and the time stamp option with its padding, in bytes.
const IPV4_HEADERS: u64 = 40;
const IPV6_HEADERS: u64 = 60;
const TIMESTAMPS_OPTION: u64 = 12;

/// The fields of the kernel's `struct tcp_info` that matter here. Old kernels know fewer: what
/// they leave out is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TcpInfo {
    /// Payload of a full segment in bytes.
    pub(crate) mss: u32,
    /// Whether the connection is over for TCP: after both ends, or cut off.
    pub(crate) is_closed: bool,
    /// Whether TCP sees nothing amiss: no reordering, loss or recovery.
    pub(crate) is_open: bool,
    /// Whether segments carry the time stamp option.
    pub(crate) timestamps: bool,
    /// Segments that TCP takes to be in flight: neither acknowledged nor lost.
    pub(crate) in_network: u32,
    /// Segments reported by selective acks.
    pub(crate) sacked: u32,
    /// Segments that TCP takes for lost.
    pub(crate) lost: u32,
    /// TCP's own slow start threshold in segments, very large before the first loss.
    pub(crate) ssthresh: u32,
    /// TCP's own window in segments.
    pub(crate) cwnd: u32,
    /// Segments sent again, ever.
    pub(crate) retransmissions: u32,
    /// Bytes acknowledged, ever; one more than data after an active connect.
    pub(crate) bytes_acked: u64,
    /// Bytes of data that came, ever; one more after the peer's end.
    pub(crate) bytes_received: u64,
    /// Bytes of the application's data that were not sent yet.
    pub(crate) unsent: u32,
    /// What it reports of the connection as a whole.
    pub(crate) figures: TcpFigures,
}

/// What the kernel reports of a connection, whichever congestion control it has. Old kernels know
/// less: what they leave out is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFigures {
    /// Smoothed RTT in us; 0 before the first sample.
    pub rtt_us: u32,
    /// Smallest RTT of some minutes in us; `u32::MAX` before the first sample.
    pub min_rtt_us: u32,
    /// Bytes acknowledged, ever; one or two more than data.
    pub acked_bytes: u64,
    /// Bytes sent, ever, those sent again among them.
    pub sent_bytes: u64,
    /// Bytes sent again, ever.
    pub retransmitted_bytes: u64,
    /// Time since data were last sent, in ms.
    pub since_sent_ms: u32,
    /// Bytes that came, ever; one more after the peer's end.
    pub received_bytes: u64,
    /// Time in which anything waited to be sent or acknowledged, in us.
    pub busy_us: u64,
}

impl TcpFigures {
    /// Asks the kernel.
    ///
    /// # Errors
    /// When that is no TCP socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        TcpInfo::of(socket).map(|info| info.figures)
    }
}

impl TcpInfo {
    /// Asks the kernel.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut raw = [0u8; 232];
        let mut length = size_of_val(&raw) as libc::socklen_t;
        // SAFETY: the buffer is as long as `length` says, and the kernel writes no more.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                raw.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::read(&raw))
    }

    /// Of the kernel's bytes, as many as there are.
    pub(crate) fn read(raw: &[u8]) -> Self {
        let byte = |at: usize| raw.get(at).copied().unwrap_or_default();
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|next| byte(at + next)));
        let long = |at: usize| {
            let (low, high) = (word(at), word(at + 4));
            let (low, high) =
                if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
            u64::from(high) << 32 | u64::from(low)
        };
        Self {
            mss: word(16),
            is_closed: byte(0) == CLOSED,
            is_open: byte(1) == CA_OPEN,
            timestamps: byte(5) & OPTION_TIMESTAMPS != 0,
            // tcp_packets_in_flight(): unacked - sacked - lost + retrans
            in_network: (word(24) + word(36)).saturating_sub(word(28) + word(32)),
            sacked: word(28),
            lost: word(32),
            ssthresh: word(76),
            cwnd: word(80),
            retransmissions: word(100),
            bytes_acked: long(120),
            bytes_received: long(128),
            unsent: word(144),
            figures: TcpFigures {
                rtt_us: word(68),
                min_rtt_us: word(148),
                acked_bytes: long(120),
                sent_bytes: long(200),
                retransmitted_bytes: long(208),
                since_sent_ms: word(44),
                received_bytes: long(128),
                busy_us: long(168),
            },
        }
    }

    /// Whether nothing has ended TCP's first slow start yet.
    pub(crate) fn in_first_slow_start(&self) -> bool {
        self.ssthresh >= INFINITE
    }

    /// TCP's own slow start threshold in segments, once there is one.
    pub(crate) fn known_ssthresh(&self) -> Option<u64> {
        (!self.in_first_slow_start()).then_some(self.ssthresh.into())
    }

    /// Headers that go with every segment, in bytes.
    pub(crate) fn overhead(&self, ipv6: bool) -> u64 {
        let headers = if ipv6 { IPV6_HEADERS } else { IPV4_HEADERS };
        headers + if self.timestamps { TIMESTAMPS_OPTION } else { 0 }
    }
}

/// Number of the network namespace of a socket; `None` before Linux 5.14.
pub(crate) fn namespace_cookie(socket: BorrowedFd<'_>) -> Option<u64> {
    // asm-generic/socket.h
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes as many bytes as `length` says at most.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(cookie)
}

/// Payload of a full packet and the headers that go with it, in bytes.
pub(crate) fn packet_sizes(tcp: BorrowedFd<'_>, info: &TcpInfo) -> Result<(u64, u64), TcpError> {
    let address = socket2::SockRef::from(&tcp).local_addr().map_err(TcpError::NotTcp)?;
    let ipv6 = address.as_socket_ipv6().is_some_and(|a| a.ip().to_ipv4_mapped().is_none());
    Ok((u64::from(info.mss.max(1)), info.overhead(ipv6)))
}

/// Sets an option of four bytes.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: u32,
) -> io::Result<()> {
    // SAFETY: the kernel reads the four bytes of `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Bytes that TCP may hold unsent before it refuses more.
pub(crate) fn set_unsent_allowed(socket: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    set_option(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        u32::try_from(bytes).unwrap_or(u32::MAX),
    )
}

/// What a flow changes of a socket, as it was: where the flow does not come about, the connection
/// continues as if nothing had been tried. Stamps above all must end: they are reported as errors to
/// a program that waits for the socket.
#[derive(Debug)]
pub(crate) struct SavedOptions {
    nodelay: Option<bool>,
    congestion: Option<Vec<u8>>,
    nonblocking: Option<bool>,
}

impl SavedOptions {
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Self {
        let options = socket2::SockRef::from(&socket);
        let flags = rustix::fs::fcntl_getfl(socket).ok();
        Self {
            nodelay: options.tcp_nodelay().ok(),
            congestion: options.tcp_congestion().ok(),
            nonblocking: flags.map(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK)),
        }
    }

    pub(crate) fn restore(&self, socket: BorrowedFd<'_>) {
        // What cannot be put back was not changed either.
        let _ = set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0);
        let options = socket2::SockRef::from(&socket);
        if let Some(nodelay) = self.nodelay {
            let _ = options.set_tcp_nodelay(nodelay);
        }
        if let Some(name) = &self.congestion {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            let _ = options.set_tcp_congestion(name);
        }
        if let Some(nonblocking) = self.nonblocking {
            let _ = rustix::io::ioctl_fionbio(socket, nonblocking);
        }
    }
}

/// Bytes that TCP was given and the peer has not acknowledged, the end of the stream for one.
///
/// # Errors
/// When that is no TCP socket.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// How far TCP is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpProgress {
    /// Acknowledged, as [`TcpInfo::bytes_acked`] counts.
    pub(crate) acked: u64,
    /// Sent behind that, and not acknowledged.
    pub(crate) outstanding: u64,
    /// Of the application's data behind that, not sent yet.
    pub(crate) waiting: u64,
}

/// How far TCP is.
pub(crate) fn progress(socket: BorrowedFd<'_>) -> io::Result<TcpProgress> {
    let info = TcpInfo::of(socket)?;
    // What is acknowledged or sent between the questions is found to be sent later. What the program
    // writes between them is not sent: so what waits is asked before and after.
    let unacknowledged = unacknowledged(socket)?;
    let waiting = unsent(socket)?.max(info.unsent.into());
    let outstanding = unacknowledged.saturating_sub(waiting);
    Ok(TcpProgress { acked: info.bytes_acked, outstanding, waiting })
}

/// Bytes of the application's data that were not sent yet.
fn unsent(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // linux/sockios.h
    const SIOCOUTQNSD: libc::c_ulong = 0x894b;
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCOUTQNSD as _, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Resets a connection at once, also where others hold the descriptor: closing would not.
pub(crate) fn reset(socket: BorrowedFd<'_>) {
    // Where this fails, the connection is already over.
    let _ = socket2::SockRef::from(&socket).set_linger(Some(std::time::Duration::ZERO));
    let _ = rustix::net::connect_unspec(socket);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    /// A connection over the loopback device.
    pub(crate) fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn the_kernels_figures_are_read_from_the_right_places() {
        let (mut one, mut two) = pair();
        let before = TcpInfo::of(one.as_fd()).unwrap();
        one.write_all(&[7; 1000]).unwrap();
        two.read_exact(&mut [0; 1000]).unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while unacknowledged(one.as_fd()).unwrap() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let after = TcpInfo::of(one.as_fd()).unwrap();
        assert_eq!(after.bytes_acked - before.bytes_acked, 1000);
        assert!(after.mss > 500 && after.cwnd >= 2, "{after:?}");
        assert!(after.timestamps, "Linux' default");
        assert_eq!(after.in_network, 0);
        assert_eq!((after.sacked, after.lost, after.retransmissions), (0, 0, 0));
        let figures = TcpFigures::of(one.as_fd()).unwrap();
        assert_eq!((figures.sent_bytes, figures.retransmitted_bytes), (1000, 0));
        assert_eq!(figures.acked_bytes, after.bytes_acked);
        assert!((1..1_000_000).contains(&figures.rtt_us), "{figures:?}");
        assert!(
            figures.min_rtt_us <= figures.rtt_us && figures.since_sent_ms < 5_000,
            "{figures:?}"
        );
        assert_eq!(after.overhead(false), 52);
        assert_eq!(after.overhead(true), 72);
    }
}
