//! What TCP itself uses below a controller.

use std::convert::Infallible;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::OnceLock;

use socket2::{Domain, SockRef, Socket, Type};

use crate::socket::TcpInfo;

/// The kernel's controller that ends its slow start at signs of delay (`HyStart`).
const CUBIC: &str = "cubic";

/// Ends its slow start at a loss only, and may be chosen by everybody.
const RENO: &str = "reno";

/// Which congestion control of the kernel stands below the controller (`TCP_CONGESTION`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TcpCongestionControl {
    /// As the socket has it, but in place of Cubic Reno until the first loss. Cubic ends its slow
    /// start when delay grows, which is the business of the controller above: it would stay held
    /// down for many round trips by a window that no congestion has set. From the first loss on
    /// it is Cubic.
    #[default]
    StartByReno,
    /// As the socket has it.
    Kept,
    /// This one.
    Named(String),
}

impl FromStr for TcpCongestionControl {
    type Err = Infallible;

    /// `auto`, `keep`, or the kernel's name of a congestion control.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "auto" => Self::StartByReno,
            "keep" => Self::Kept,
            name => Self::Named(name.to_owned()),
        })
    }
}

impl TcpCongestionControl {
    /// Checks that the kernel has it and lets us choose it.
    ///
    /// # Errors
    /// With what is wrong and which ones there are, for people.
    pub fn check(&self) -> Result<(), String> {
        let Self::Named(name) = self else { return Ok(()) };
        let there = |list: &str| {
            let path = format!("/proc/sys/net/ipv4/tcp_{list}_congestion_control");
            std::fs::read_to_string(path).unwrap_or_default().trim().replace(' ', ", ")
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
        // A module that is not loaded is loaded by this, if that is allowed.
        match socket.and_then(|socket| socket.set_tcp_congestion(name.as_bytes())) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(format!(
                "only root may choose `{name}`; everybody may choose {}",
                there("allowed")
            )),
            Err(_) => Err(format!(
                "this kernel has no congestion control `{name}`: write auto, keep or one of {}",
                there("available")
            )),
        }
    }
}

/// Gives a socket what [`TcpCongestionControl::Named`] says.
pub(crate) fn set_named(tcp: BorrowedFd<'_>, below: &TcpCongestionControl) -> io::Result<()> {
    let TcpCongestionControl::Named(name) = below else { return Ok(()) };
    SockRef::from(&tcp).set_tcp_congestion(name.as_bytes())
}

/// Reno's time in place of Cubic on one connection.
#[derive(Debug)]
pub(crate) struct RenoStart {
    /// Cubic is to come back after the first loss.
    is_reno: bool,
}

impl RenoStart {
    /// Begins it if that is wanted and TCP has not left its slow start.
    pub(crate) fn new(tcp: BorrowedFd<'_>, below: &TcpCongestionControl, info: &TcpInfo) -> Self {
        let wanted = *below == TcpCongestionControl::StartByReno && info.in_first_slow_start();
        Self { is_reno: wanted && start_by_reno(&SockRef::from(&tcp)) }
    }

    /// The kernel reports the state of the connection.
    pub(crate) fn on_info(&mut self, tcp: BorrowedFd<'_>, info: &TcpInfo) {
        // Not during a recovery: what it would restore if the loss was none is Reno's.
        if !self.is_reno || !info.is_open || info.in_first_slow_start() {
            return;
        }
        self.is_reno = false;
        // It was allowed when the connection began; if it is no longer, Reno is as safe.
        let _ = SockRef::from(&tcp).set_tcp_congestion(CUBIC.as_bytes());
    }
}

/// Whether the connection is now under Reno and Cubic has to come back. Where anything stands in
/// the way, the connection is left as it is.
fn start_by_reno(socket: &SockRef<'_>) -> bool {
    let is_cubic = socket.tcp_congestion().is_ok_and(|name| is_named(&name, CUBIC));
    is_cubic && may_choose_cubic() && socket.set_tcp_congestion(RENO.as_bytes()).is_ok()
}

/// The kernel pads names with zeros.
fn is_named(raw: &[u8], name: &str) -> bool {
    raw.split(|byte| *byte == 0).next() == Some(name.as_bytes())
}

/// Whether the way back is open: where another is the system's default, Cubic may be reserved for
/// the administrator, although a socket has it.
fn may_choose_cubic() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
        socket.is_ok_and(|socket| socket.set_tcp_congestion(CUBIC.as_bytes()).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_words_of_the_option() {
        assert_eq!("auto".parse(), Ok(TcpCongestionControl::StartByReno));
        assert_eq!("keep".parse(), Ok(TcpCongestionControl::Kept));
        assert_eq!("bbr".parse(), Ok(TcpCongestionControl::Named("bbr".to_owned())));
    }

    #[test]
    fn names_that_the_kernel_does_not_have_are_refused_with_those_that_it_has() {
        let check = |text: &str| text.parse::<TcpCongestionControl>().unwrap().check();
        assert_eq!((check("auto"), check("keep"), check("reno")), (Ok(()), Ok(()), Ok(())));
        for name in ["nosuchcc", "", "a_name_of_more_than_sixteen_letters"] {
            let error = check(name).unwrap_err();
            assert!(error.contains(&format!("`{name}`")) && error.contains("reno"), "{error}");
        }
    }

    /// A connection under Cubic; none where that may not be chosen.
    fn under_cubic() -> Option<std::net::TcpStream> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        if SockRef::from(&stream).set_tcp_congestion(CUBIC.as_bytes()).is_err() {
            cellpace_testing::skip("Cubic may not be chosen here");
            return None;
        }
        Some(stream)
    }

    fn is_under(stream: &std::net::TcpStream, name: &str) -> bool {
        is_named(&SockRef::from(stream).tcp_congestion().unwrap(), name)
    }

    #[test]
    fn cubic_is_back_after_the_first_loss() {
        let Some(stream) = under_cubic() else { return };
        let started = TcpInfo { ssthresh: u32::MAX >> 1, is_open: true, ..TcpInfo::default() };
        let mut start =
            RenoStart::new(stream.as_fd(), &TcpCongestionControl::StartByReno, &started);
        assert!(is_under(&stream, RENO));
        start.on_info(stream.as_fd(), &started);
        assert!(is_under(&stream, RENO), "no loss so far");
        let recovers = TcpInfo { ssthresh: 20, is_open: false, ..started };
        start.on_info(stream.as_fd(), &recovers);
        assert!(is_under(&stream, RENO), "the loss may prove to be none");
        start.on_info(stream.as_fd(), &TcpInfo { is_open: true, ..recovers });
        assert!(is_under(&stream, CUBIC));
    }

    #[test]
    fn what_was_chosen_or_has_lost_already_is_kept() {
        let Some(stream) = under_cubic() else { return };
        let started = TcpInfo { ssthresh: u32::MAX >> 1, is_open: true, ..TcpInfo::default() };
        RenoStart::new(stream.as_fd(), &TcpCongestionControl::Kept, &started);
        RenoStart::new(stream.as_fd(), &TcpCongestionControl::Named(CUBIC.to_owned()), &started);
        RenoStart::new(
            stream.as_fd(),
            &TcpCongestionControl::StartByReno,
            &TcpInfo { ssthresh: 20, ..started },
        );
        assert!(is_under(&stream, CUBIC));
    }

    #[test]
    fn names_are_compared_up_to_the_padding() {
        assert!(is_named(b"cubic\0\0\0", CUBIC));
        assert!(is_named(b"cubic", CUBIC));
        assert!(!is_named(b"cubic2\0", CUBIC));
        assert!(!is_named(b"", CUBIC));
    }
}
