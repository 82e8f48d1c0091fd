//! Which connections are taken over.
//!
//! Rules are plain values of fixed size: the preloaded library reads them before the program's
//! `main` and must not allocate.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// Maximum number of port ranges or networks in a rule.
const MAX_RULES: usize = 64;

/// Why rules do not read. The text names the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// Not a port or a range of ports.
    #[error("ports are written as 443, 80,8000-8100 or all, each from 1 to 65535")]
    Ports,
    /// Not a network.
    #[error("a network is written as 10.0.0.0/8, 2001:db8::/32 or a single address")]
    Network,
    /// Bits are set behind the prefix.
    #[error("the address has bits set behind the network's prefix length")]
    HostBits,
    /// Not a direction.
    #[error("the direction is in, out or both")]
    Direction,
    /// More than there is room for.
    #[error("more than 64 entries")]
    TooMany,
    /// A field that there is none of, or twice.
    #[error("unknown, missing or repeated field")]
    Field,
}

/// Who opened the connections that are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectionDirection {
    /// The peer: the program accepts.
    #[default]
    In,
    /// The program.
    Out,
    /// Either.
    Both,
}

impl ConnectionDirection {
    fn covers(self, outgoing: bool) -> bool {
        match self {
            Self::In => !outgoing,
            Self::Out => outgoing,
            Self::Both => true,
        }
    }
}

impl FromStr for ConnectionDirection {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        match text {
            "in" => Ok(Self::In),
            "out" => Ok(Self::Out),
            "both" => Ok(Self::Both),
            _ => Err(RuleError::Direction),
        }
    }
}

impl fmt::Display for ConnectionDirection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Both => "both",
        })
    }
}

/// Up to 64 values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct List<T: Copy> {
    items: [T; MAX_RULES],
    len: usize,
}

impl<T: Copy + Default> Default for List<T> {
    fn default() -> Self {
        Self { items: [T::default(); MAX_RULES], len: 0 }
    }
}

impl<T: Copy> List<T> {
    fn as_slice(&self) -> &[T] {
        self.items.get(..self.len).unwrap_or_default()
    }

    fn push(&mut self, item: T) -> Result<(), RuleError> {
        *self.items.get_mut(self.len).ok_or(RuleError::TooMany)? = item;
        self.len += 1;
        Ok(())
    }
}

/// A set of ports; the empty one stands for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ports(List<(u16, u16)>);

impl Ports {
    /// Whether no port is named.
    pub fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// What was named: first and last port of each range.
    pub fn ranges(&self) -> &[(u16, u16)] {
        self.0.as_slice()
    }

    fn has(&self, port: u16) -> bool {
        self.is_empty()
            || self.0.as_slice().iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

impl FromStr for Ports {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut ports = List::default();
        if text == "all" {
            ports.push((1, u16::MAX))?;
            return Ok(Self(ports));
        }
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let [first, last] = [port(first)?, port(last)?];
            if first > last {
                return Err(RuleError::Ports);
            }
            ports.push((first, last))?;
        }
        Ok(Self(ports))
    }
}

fn port(text: &str) -> Result<u16, RuleError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0).ok_or(RuleError::Ports)
}

impl fmt::Display for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.as_slice().iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match first == last {
                true => write!(out, "{comma}{first}")?,
                false => write!(out, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// A range of addresses. IPv4 is kept as mapped into IPv6, so that both kinds of socket that an
/// IPv4 peer can arrive at are covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleNetwork {
    bits: u128,
    prefix: u8,
}

impl Default for RuleNetwork {
    fn default() -> Self {
        Self { bits: 0, prefix: 128 }
    }
}

/// Length of the prefix that IPv4 addresses have when mapped into IPv6.
const MAPPED: u8 = 96;

impl RuleNetwork {
    fn has(&self, ip: IpAddr) -> bool {
        (mapped(ip) ^ self.bits) & mask(self.prefix) == 0
    }
}

fn mapped(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for RuleNetwork {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| RuleError::Network)?;
        let (longest, offset) = if ip.is_ipv4() { (32, MAPPED) } else { (128, 0) };
        let prefix = match prefix {
            None => longest,
            Some(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map_err(|_| RuleError::Network)?
            }
            Some(_) => return Err(RuleError::Network),
        };
        if prefix > longest {
            return Err(RuleError::Network);
        }
        let network = Self { bits: mapped(ip), prefix: prefix + offset };
        let rest = network.bits & !mask(network.prefix);
        if rest == 0 { Ok(network) } else { Err(RuleError::HostBits) }
    }
}

impl fmt::Display for RuleNetwork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = Ipv6Addr::from_bits(self.bits);
        match ip.to_ipv4_mapped() {
            Some(ip) if self.prefix >= MAPPED => write!(out, "{ip}/{}", self.prefix - MAPPED),
            _ => write!(out, "{ip}/{}", self.prefix),
        }
    }
}

/// Several ranges of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Networks(List<RuleNetwork>);

impl Networks {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// Adds one.
    ///
    /// # Errors
    /// When there are 64 already.
    pub fn push(&mut self, network: RuleNetwork) -> Result<(), RuleError> {
        self.0.push(network)
    }

    fn has(&self, ip: IpAddr) -> bool {
        self.0.as_slice().iter().any(|network| network.has(ip))
    }
}

impl FromStr for Networks {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut networks = Self::default();
        for part in text.split(',') {
            networks.push(part.parse()?)?;
        }
        Ok(networks)
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, network) in self.0.as_slice().iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(out, "{comma}{network}")?;
        }
        Ok(())
    }
}

/// Which connections are taken over: those for which all of it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Who opened the connection.
    pub direction: ConnectionDirection,
    /// Our port, for accepted connections.
    pub incoming: Ports,
    /// The peer's port, for opened connections.
    pub outgoing: Ports,
    /// The peer's address is in one of these, unless there is none.
    pub only: Networks,
    /// The peer's address is in none of these.
    pub not: Networks,
}

impl Rules {
    /// Whether accepted, or opened, connections are looked at at all.
    pub fn covers(&self, outgoing: bool) -> bool {
        self.direction.covers(outgoing)
    }

    /// Whether a connection is taken over.
    pub fn take(&self, outgoing: bool, local: SocketAddr, peer: SocketAddr) -> bool {
        let port = match outgoing {
            true => self.outgoing.has(peer.port()),
            false => self.incoming.has(local.port()),
        };
        self.covers(outgoing)
            && port
            && (self.only.is_empty() || self.only.has(peer.ip()))
            && !self.not.has(peer.ip())
    }
}

/// As the library finds them in its environment.
impl fmt::Display for Rules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { direction, incoming, outgoing, only, not } = self;
        write!(out, "direction={direction};in={incoming};out={outgoing};only={only};not={not}")
    }
}

/// Reads what [`Display`](fmt::Display) writes. Allocates nothing.
impl FromStr for Rules {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut fields = text.split(';');
        let mut field = |name: &str| {
            let value = fields.next().and_then(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.ok_or(RuleError::Field)
        };
        let rules = Self {
            direction: field("direction")?.parse()?,
            incoming: or_none(field("in")?)?,
            outgoing: or_none(field("out")?)?,
            only: or_none(field("only")?)?,
            not: or_none(field("not")?)?,
        };
        if fields.next().is_none() { Ok(rules) } else { Err(RuleError::Field) }
    }
}

fn or_none<T: Default + FromStr<Err = RuleError>>(text: &str) -> Result<T, RuleError> {
    if text.is_empty() { Ok(T::default()) } else { text.parse() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(text: &str) -> Rules {
        text.parse().unwrap()
    }

    fn takes(rules: &Rules, outgoing: bool, local: &str, peer: &str) -> bool {
        rules.take(outgoing, local.parse().unwrap(), peer.parse().unwrap())
    }

    #[test]
    fn by_default_all_accepted_connections_are_taken() {
        let rules = Rules::default();
        assert!(takes(&rules, false, "127.0.0.1:80", "127.0.0.1:5000"));
        assert!(takes(&rules, false, "[::1]:80", "[::1]:5000"));
        assert!(!takes(&rules, true, "127.0.0.1:80", "127.0.0.1:5000"));
    }

    #[test]
    fn ports_are_ours_for_accepted_and_the_peers_for_opened_connections() {
        let rules = rules("direction=both;in=80,8000-8100;out=443;only=;not=");
        for (local, peer, incoming, outgoing) in [
            ("10.0.0.1:80", "10.0.0.2:443", true, true),
            ("10.0.0.1:8000", "10.0.0.2:80", true, false),
            ("10.0.0.1:8100", "10.0.0.2:444", true, false),
            ("10.0.0.1:8101", "10.0.0.2:443", false, true),
            ("10.0.0.1:443", "10.0.0.2:8000", false, false),
        ] {
            assert_eq!(takes(&rules, false, local, peer), incoming, "{local} <- {peer}");
            assert_eq!(takes(&rules, true, local, peer), outgoing, "{local} -> {peer}");
        }
    }

    #[test]
    fn networks_hold_for_ipv4_peers_on_ipv6_sockets_too() {
        let rules = rules("direction=in;in=;out=;only=10.0.0.0/8,2001:db8::/32;not=10.1.0.0/16");
        for (peer, taken) in [
            ("10.0.0.1:1", true),
            ("[::ffff:10.0.0.1]:1", true),
            ("10.1.2.3:1", false),
            ("[::ffff:10.1.2.3]:1", false),
            ("11.0.0.1:1", false),
            ("[2001:db8:1::1]:1", true),
            ("[2001:db9::1]:1", false),
        ] {
            assert_eq!(takes(&rules, false, "[::1]:80", peer), taken, "{peer}");
        }
    }

    #[test]
    fn what_does_not_read_says_what_would() {
        for wrong in ["", "0", "65536", "80,", "90-80", "80-", "+80", "80 ", "http"] {
            assert_eq!(wrong.parse::<Ports>(), Err(RuleError::Ports), "{wrong}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/+8", "x/8"] {
            assert_eq!(wrong.parse::<RuleNetwork>(), Err(RuleError::Network), "{wrong}");
        }
        assert_eq!("10.0.0.1/8".parse::<RuleNetwork>(), Err(RuleError::HostBits));
        assert_eq!("inwards".parse::<ConnectionDirection>(), Err(RuleError::Direction));
        let many = vec!["80"; 65].join(",");
        assert_eq!(many.parse::<Ports>(), Err(RuleError::TooMany));
        for wrong in ["", "direction=in", "direction=in;in=;out=;only=;not=;x=", "in=80"] {
            assert_eq!(wrong.parse::<Rules>(), Err(RuleError::Field), "{wrong}");
        }
    }

    #[test]
    fn a_network_of_everything_holds_everything() {
        let all: RuleNetwork = "::/0".parse().unwrap();
        assert!(all.has("10.0.0.1".parse().unwrap()) && all.has("::1".parse().unwrap()));
        let ipv4: RuleNetwork = "0.0.0.0/0".parse().unwrap();
        assert!(ipv4.has("10.0.0.1".parse().unwrap()) && !ipv4.has("::1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn rules_survive_their_text(
            ports in prop::collection::vec((1_u16..=65_535, 0_u16..100), 1..9),
            networks in prop::collection::vec((any::<u128>(), 0_u8..=128), 1..9),
        ) {
            let mut written = Rules { direction: ConnectionDirection::Both, ..Rules::default() };
            for (first, more) in ports {
                written.incoming.0.push((first, first.saturating_add(more))).unwrap();
            }
            for (bits, prefix) in networks {
                let network = RuleNetwork { bits: bits & mask(prefix), prefix };
                written.only.push(network).unwrap();
            }
            let text = written.to_string();
            prop_assert_eq!(text.parse::<Rules>().unwrap(), written, "{}", text);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text: String) {
            let _ = text.parse::<Rules>();
            let _ = text.parse::<Networks>();
            let _ = text.parse::<Ports>();
        }
    }
}
