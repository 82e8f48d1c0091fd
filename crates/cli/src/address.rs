//! Addresses on the command line: `HOST`, `HOST:PORT`, and where to listen.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use cellpace_lab::transfer::shown_address;
use cellpace_udp::{Driver, Engine};

use crate::error::CommandError;

/// The port of `cellpace recv` and `cellpace send --listen`.
pub(crate) const TRANSFER_PORT: u16 = 5260;

/// The port of `cellpace probe --listen`.
pub(crate) const PROBE_PORT: u16 = 5261;

/// A host with or without a port, as written. Names are looked up later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// A name, or an address without brackets.
    host: String,
    port: Option<u16>,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.parse::<IpAddr>().is_ok() {
            return Ok(Self { host: text.to_owned(), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, digits)) if !text.ends_with(']') => (host, Some(port(digits)?)),
            _ => (text, None),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || bare.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("the host is missing: write HOST or HOST:PORT".to_owned());
        }
        if bare.contains(':') && (bare == host || bare.parse::<Ipv6Addr>().is_err()) {
            return Err("an IPv6 address with a port is written [ADDR]:PORT".to_owned());
        }
        Ok(Self { host: bare.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':') && self.port.is_some();
        if brackets { write!(f, "[{}]", self.host) } else { f.write_str(&self.host) }?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A port in digits.
fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text:?} is no port: a port is a number from 0 to 65535"))
}

/// Why a name has no address, in the system's words.
pub(crate) fn resolve_problem(error: &io::Error) -> String {
    error.to_string().replacen("failed to lookup address information: ", "", 1)
}

impl HostPort {
    /// Looks up the address to connect to, at `default_port` where none is written.
    pub(crate) fn resolve(&self, default_port: u16) -> Result<SocketAddr, CommandError> {
        let port = self.port.unwrap_or(default_port);
        if port == 0 {
            return Err(CommandError::usage(format!("{self}: port 0 is none to connect to")));
        }
        self.look_up(port)
    }

    fn look_up(&self, port: u16) -> Result<SocketAddr, CommandError> {
        let unknown = |why: &dyn fmt::Display| {
            CommandError::usage(format!("the host {:?} is not known here: {why}", self.host))
        };
        let found = (self.host.as_str(), port).to_socket_addrs();
        found
            .map_err(|error| unknown(&resolve_problem(&error)))?
            .next()
            .ok_or_else(|| unknown(&"no address"))
    }
}

/// Where to listen: a port alone, or an address with or without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// A port alone.
    Port(u16),
    /// An address of this machine.
    At(HostPort),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = text.strip_prefix('-').unwrap_or(text);
        if is_number.bytes().all(|byte| byte.is_ascii_digit()) {
            return port(text).map(Self::Port);
        }
        text.parse().map(Self::At)
    }
}

impl ListenAddress {
    /// Where to listen, as [`bind`](Self::bind) does.
    #[cfg(feature = "quic")]
    pub(crate) fn addresses(
        &self,
        default_port: u16,
        is_keyed: bool,
    ) -> Result<Vec<SocketAddr>, CommandError> {
        Ok(match self {
            Self::Port(port) if is_keyed => vec![(Ipv6Addr::UNSPECIFIED, *port).into()],
            // Two sockets would get two ports.
            Self::Port(0) => vec![(Ipv4Addr::LOCALHOST, 0).into()],
            Self::Port(port) => {
                vec![(Ipv4Addr::LOCALHOST, *port).into(), (Ipv6Addr::LOCALHOST, *port).into()]
            }
            Self::At(at) => vec![at.look_up(at.port.unwrap_or(default_port))?],
        })
    }

    /// Opens the sockets to listen at, and returns where that is. A port alone means every address
    /// where strangers get no answer (`is_keyed`), and otherwise loopback.
    pub(crate) fn bind<E: Engine>(
        &self,
        driver: &mut Driver<E>,
        default_port: u16,
        is_keyed: bool,
    ) -> Result<String, CommandError> {
        let (bound, shown, hint) = match self {
            Self::Port(port) if is_keyed => {
                (bind_everywhere(driver, *port), format!("port {port}"), "")
            }
            Self::Port(port) => (bind_loopback(driver, *port), format!("port {port}"), ONLY_HERE),
            Self::At(at) => {
                let address = at.look_up(at.port.unwrap_or(default_port))?;
                (driver.bind(address), at.to_string(), "")
            }
        };
        let at = bound.and_then(|way| driver.local_address(way));
        let at = at.map_err(|error| {
            CommandError::failed(format!("cannot listen at {shown}: {}", bind_error(&error)))
        })?;
        Ok(format!("{}{hint}", shown_address(at)))
    }
}

fn bind_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        io::ErrorKind::AddrInUse => "another program uses that port".to_owned(),
        _ => error.to_string(),
    }
}

/// What loopback means to who expects other machines.
pub(crate) const ONLY_HERE: &str =
    ", for this machine only; for others give --key, or --listen with an address";

fn bind_everywhere<E: Engine>(driver: &mut Driver<E>, port: u16) -> io::Result<usize> {
    let six = driver.bind((Ipv6Addr::UNSPECIFIED, port).into());
    // Where there is no IPv6.
    six.or_else(|_| driver.bind((Ipv4Addr::UNSPECIFIED, port).into()))
}

fn bind_loopback<E: Engine>(driver: &mut Driver<E>, port: u16) -> io::Result<usize> {
    let way = driver.bind((Ipv4Addr::LOCALHOST, port).into())?;
    let port = driver.local_address(way)?.port();
    match driver.bind((Ipv6Addr::LOCALHOST, port).into()) {
        // Somebody else would get what is sent to `localhost`.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // Where there is no IPv6.
        _ => Ok(way),
    }
}

/// Opens a socket towards `peer`.
pub(crate) fn connect_to<E: Engine>(
    driver: &mut Driver<E>,
    peer: SocketAddr,
) -> Result<usize, CommandError> {
    let named = |error| CommandError::failed(format!("{}: {error}", shown_address(peer)));
    driver.connect(peer).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_a_port_and_written_as_they_were_read() {
        for (text, host, port) in [
            ("there", "there", None),
            ("there:80", "there", Some(80)),
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:65535", "10.0.0.1", Some(65_535)),
            ("::1", "::1", None),
            ("[::1]:80", "::1", Some(80)),
            ("[fe80::1]:0", "fe80::1", Some(0)),
        ] {
            let read: HostPort = text.parse().unwrap();
            assert_eq!((read.host.as_str(), read.port), (host, port), "{text}");
            assert_eq!(read.to_string(), text);
        }
        let read: HostPort = "[::1]".parse().unwrap();
        assert_eq!((read.host.as_str(), read.port), ("::1", None));
    }

    #[test]
    fn a_port_is_a_number_from_0_to_65535_and_a_host_is_none() {
        for text in ["there:65536", "there:-1", "there:http", "there:", "::1:x", "a:99999"] {
            let error = text.parse::<HostPort>().unwrap_err();
            assert!(error.contains("from 0 to 65535"), "{text}: {error}");
        }
        for text in ["", ":80", "5260", "99999", "[]:80"] {
            let error = text.parse::<HostPort>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
        for text in ["[there]:80:90", "1:2:80", "[::g]:80"] {
            let error = text.parse::<HostPort>().unwrap_err();
            assert!(error.contains("[ADDR]:PORT"), "{text}: {error}");
        }
        for text in ["99999", "65536", "-1", ""] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains("from 0 to 65535"), "{text}: {error}");
        }
        assert_eq!("0".parse(), Ok(ListenAddress::Port(0)));
        let error = "there:0".parse::<HostPort>().unwrap().resolve(1).unwrap_err();
        assert!(error.to_string().contains("there:0: port 0"), "{error}");
    }
}
