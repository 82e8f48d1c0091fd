//! The configuration of a proxy.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use cellpace_tcp::{ControlOptions, Trial};

use crate::access::Access;
use crate::network::AddressRange;
use crate::proxy_header::Version;
use crate::socks5::{Credentials, Target};

/// The configuration of a proxy.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    /// Where clients connect.
    pub listen: Vec<SocketAddr>,
    /// How the destination of a connection is found.
    pub mode: ProxyMode,
    /// How the controlled sides are controlled. Flows get seeds from this one upwards. With the
    /// client/server driver upstream must answer our hello, and a client that says none is served as by
    /// the gate; clients that speak SOCKS or a header of the PROXY protocol first cannot use it.
    pub flow: ControlOptions,
    /// Which side is under the controller.
    pub control: ControlledSide,
    /// Which of these sides are: all of them as `flow` says, without.
    pub trial: Option<Trial>,
    /// Sends a header of the PROXY protocol upstream before any other byte.
    pub send_proxy: Option<Version>,
    /// From clients in these networks a header of the PROXY protocol is required; from others,
    /// none is expected.
    pub accept_proxy: Vec<AddressRange>,
    /// Which destinations clients of SOCKS may name.
    pub access: Access,
    /// Bounds.
    pub limits: ProxyLimits,
}

impl ProxyConfig {
    /// A proxy with default limits, with the controller towards the clients.
    pub fn new(listen: SocketAddr, mode: ProxyMode, flow: ControlOptions) -> Self {
        Self {
            listen: vec![listen],
            mode,
            flow,
            control: ControlledSide::Client,
            trial: None,
            send_proxy: None,
            accept_proxy: Vec::new(),
            access: Access::default(),
            limits: ProxyLimits::default(),
        }
    }
}

/// How the destination of a connection is found.
#[derive(Debug, Clone)]
pub enum ProxyMode {
    /// It is always the same. A name is resolved for each connection.
    Forward(Target),
    /// The client names it by SOCKS 5, after it has shown who it is where that is required.
    Socks5(Option<Credentials>),
    /// It is the address that the client connected to, which the system redirected to us.
    Transparent,
}

/// Which side of a connection is under the controller. The radio link should be on that side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlledSide {
    /// Towards those who connected to the proxy.
    Client,
    /// Towards those whom the proxy connects to.
    Upstream,
    /// Both, each by a controller of its own.
    Both,
}

impl ControlledSide {
    pub(crate) fn client(self) -> bool {
        matches!(self, Self::Client | Self::Both)
    }

    pub(crate) fn upstream(self) -> bool {
        matches!(self, Self::Upstream | Self::Both)
    }
}

impl FromStr for ControlledSide {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "client" => Ok(Self::Client),
            "upstream" => Ok(Self::Upstream),
            "both" => Ok(Self::Both),
            _ => Err(format!("{text}: client, upstream or both")),
        }
    }
}

/// Bounds on numbers and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Connections at once; more wait in the kernel's backlog.
    pub connections: usize,
    /// Connections at once of one client, by its IPv4 address or the first 64 bits of its IPv6 address;
    /// more are reset. `None`: as many as there may be.
    pub per_client: Option<usize>,
    /// A connection is closed when no byte moves for this long.
    pub idle: Duration,
    /// The idle time while more than seven eighths of `connections` are open, if that is shorter.
    pub crowded_idle: Duration,
    /// Time for finding and reaching the destination.
    pub connect: Duration,
    /// Time that a client has for SOCKS and for a header of the PROXY protocol.
    pub handshake: Duration,
    /// Time that open connections get to end after the proxy is asked to stop.
    pub drain: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_client: Some(256),
            idle: Duration::from_secs(300),
            crowded_idle: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            drain: Duration::from_secs(30),
        }
    }
}

/// `host:80`, `192.0.2.1:80`, `[2001:db8::1]:80`.
impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return match address.port() {
                0 => Err("write HOST:PORT, the port from 1 to 65535".to_owned()),
                _ => Ok(Self::Address(address)),
            };
        }
        let (name, port) = text
            .rsplit_once(':')
            .ok_or_else(|| "write HOST:PORT: the port is missing".to_owned())?;
        let port: u16 = match port.parse() {
            Ok(port @ 1..) if port.to_string().len() <= 5 => port,
            _ => return Err("write HOST:PORT, the port from 1 to 65535".to_owned()),
        };
        if name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            return Err(format!("{text}: IPv6 addresses are written [{name}]:{port}"));
        }
        let is_name = (1..=253).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        match is_name {
            true => Ok(Self::Name(name.to_owned(), port)),
            false => Err("write HOST:PORT: this is no name of a host".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hosts_with_ports() {
        let read = |text: &str| text.parse::<Target>();
        assert_eq!(read("example.com:80"), Ok(Target::Name("example.com".into(), 80)));
        assert_eq!(read("192.0.2.1:80"), Ok(Target::Address("192.0.2.1:80".parse().unwrap())));
        assert_eq!(read("[::1]:443"), Ok(Target::Address("[::1]:443".parse().unwrap())));
        for text in ["", "host", "host:", "host:0", "host:65536", "host:+1x", ":80", "a b:80"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("::1:80").unwrap_err().contains("[::1]:80"));
    }

    #[test]
    fn sides_have_names() {
        assert_eq!("both".parse(), Ok(ControlledSide::Both));
        assert!("downstream".parse::<ControlledSide>().is_err());
        assert!(ControlledSide::Both.client() && ControlledSide::Both.upstream());
        assert!(ControlledSide::Client.client() && !ControlledSide::Client.upstream());
    }
}
