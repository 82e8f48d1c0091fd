//! What TCP itself uses below a controller.

use std::convert::Infallible;
use std::fmt;
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
    /// Cubic, and Reno in its place until the first loss. Cubic ends its slow start when delay grows,
    /// which is the business of the controller above: it would stay held down for many round trips
    /// by a window that no congestion has set. What sends at a rate of its own (BBR) or has another
    /// opinion of delay (Vegas) would be the controller in the place of the one above; a socket that
    /// has it gets Cubic, or Reno where only root may choose Cubic. Reno is kept.
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

/// The kernel's name of the congestion control of a connection; empty where it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CongestionControlName([u8; 16]);

impl CongestionControlName {
    /// Of a socket.
    pub(crate) fn of(tcp: BorrowedFd<'_>) -> Self {
        let mut name = [0; 16];
        let raw = SockRef::from(&tcp).tcp_congestion().unwrap_or_default();
        let length = raw.iter().position(|byte| *byte == 0).unwrap_or(raw.len()).min(name.len());
        name[..length].copy_from_slice(&raw[..length]);
        Self(name)
    }

    /// With a name, cut at what the kernel's may have.
    pub(crate) fn named(name: &str) -> Self {
        let mut bytes = [0; 16];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self(bytes)
    }

    /// The name; `None` where it is not known.
    pub fn as_str(&self) -> Option<&str> {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let name = str::from_utf8(&self.0[..length]).ok()?;
        (!name.is_empty()).then_some(name)
    }
}

impl fmt::Debug for CongestionControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str().unwrap_or("?"))
    }
}

/// Gives a socket what stands below the controller from the beginning.
pub(crate) fn set_below(tcp: BorrowedFd<'_>, below: &TcpCongestionControl) -> io::Result<()> {
    let socket = SockRef::from(&tcp);
    match below {
        TcpCongestionControl::Named(name) => socket.set_tcp_congestion(name.as_bytes()),
        TcpCongestionControl::Kept => Ok(()),
        TcpCongestionControl::StartByReno => {
            let own = CongestionControlName::of(tcp);
            if let Some(instead) = own.as_str().and_then(replacement) {
                // A user that may not choose it was warned when the command began.
                let _ = socket.set_tcp_congestion(instead.as_bytes());
            }
            Ok(())
        }
    }
}

/// What a connection gets in place of a congestion control that would do the controller's work.
fn replacement(own: &str) -> Option<&'static str> {
    match own {
        CUBIC | RENO => None,
        _ if may_choose_cubic() => Some(CUBIC),
        _ => Some(RENO),
    }
}

/// What TCP below a controller is on this system, where it is not what the system has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BelowOnSystem {
    /// Another one, as a sentence for people says.
    Replaced(String),
    /// What the system has, though it does the controller's work in its own way: a warning.
    Unfit(String),
}

impl BelowOnSystem {
    /// Finds out; `None` where the system has what connections get.
    pub fn find(below: &TcpCongestionControl) -> Option<Self> {
        if *below != TcpCongestionControl::StartByReno {
            return None;
        }
        let own = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
        let own = own.trim();
        let instead = replacement(own)?;
        if TcpCongestionControl::Named(instead.to_owned()).check().is_err() {
            return Some(Self::Unfit(format!(
                "warning: TCP below the controller is {own}, this system's default, which sends as it \
                 sees fit; this user may choose neither cubic nor reno \
                 (sysctl net.ipv4.tcp_allowed_congestion_control)"
            )));
        }
        Some(Self::Replaced(format!(
            "TCP below the controller is {instead} in place of {own}, this system's default, which \
             would do the controller's work in its own way; --below keep leaves it"
        )))
    }
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

    /// The kernel reports the state of the connection. Returns whether Cubic is back.
    pub(crate) fn on_info(&mut self, tcp: BorrowedFd<'_>, info: &TcpInfo) -> bool {
        // Not during a recovery: what it would restore if the loss was none is Reno's.
        if !self.is_reno || !info.is_open || info.in_first_slow_start() {
            return false;
        }
        self.is_reno = false;
        // It was allowed when the connection began; if it is no longer, Reno is as safe.
        SockRef::from(&tcp).set_tcp_congestion(CUBIC.as_bytes()).is_ok()
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
    fn what_would_do_the_controllers_work_is_replaced() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for other in ["bbr", "vegas"] {
            if SockRef::from(&stream).set_tcp_congestion(other.as_bytes()).is_err() {
                cellpace_testing::skip("the kernel has no other congestion control");
                continue;
            }
            set_below(stream.as_fd(), &TcpCongestionControl::Kept).unwrap();
            assert_eq!(CongestionControlName::of(stream.as_fd()).as_str(), Some(other));
            set_below(stream.as_fd(), &TcpCongestionControl::StartByReno).unwrap();
            let now = CongestionControlName::of(stream.as_fd());
            assert!(matches!(now.as_str(), Some(CUBIC | RENO)), "{now:?}");
        }
        set_below(stream.as_fd(), &"reno".parse().unwrap()).unwrap();
        set_below(stream.as_fd(), &TcpCongestionControl::StartByReno).unwrap();
        assert_eq!(CongestionControlName::of(stream.as_fd()).as_str(), Some(RENO), "it is kept");
        assert_eq!(CongestionControlName::default().as_str(), None);
    }

    #[test]
    fn names_are_compared_up_to_the_padding() {
        assert!(is_named(b"cubic\0\0\0", CUBIC));
        assert!(is_named(b"cubic", CUBIC));
        assert!(!is_named(b"cubic2\0", CUBIC));
        assert!(!is_named(b"", CUBIC));
    }
}
