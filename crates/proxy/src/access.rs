//! Which destinations clients of SOCKS may name.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;

use crate::network::AddressRange;

/// Networks that clients of SOCKS may reach and may not.
///
/// The longest matching prefix decides; of two of the same length `deny` does. What matches nothing
/// may be reached, but for loopback and link-local addresses and this machine's own, when the proxy
/// listens for other machines: those need a prefix in `allow` that is no shorter than theirs (8 bits
/// for 127.0.0.0/8, 16 for 169.254.0.0/16, 10 for fe80::/10, all bits for addresses of interfaces).
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// May be reached.
    pub allow: Vec<AddressRange>,
    /// May not.
    pub deny: Vec<AddressRange>,
}

impl Access {
    /// Whether an address may be reached through a proxy that listens at these.
    pub(crate) fn check(&self, target: SocketAddr, listen: &[SocketAddr]) -> io::Result<()> {
        let ip = target.ip().to_canonical();
        if is_ourselves(target, listen) {
            return denied("it is the proxy itself");
        }
        let is_public = listen.iter().any(|at| !at.ip().to_canonical().is_loopback());
        match self.permits(ip, is_public) {
            true => Ok(()),
            false => denied("this destination is not allowed"),
        }
    }

    fn permits(&self, ip: IpAddr, is_public: bool) -> bool {
        let longest = |networks: &[AddressRange]| {
            networks.iter().filter(|network| network.contains(ip)).map(AddressRange::prefix).max()
        };
        let denied = longest(&self.deny);
        let local = if is_public { local_prefix(ip) } else { None };
        match longest(&self.allow) {
            None => denied.is_none() && local.is_none(),
            allowed => allowed > denied && allowed >= local,
        }
    }
}

fn denied(why: &'static str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Whether a connection to `target` would be one to the proxy itself: going on would be to connect
/// to ourselves, again and again.
pub(crate) fn is_ourselves(target: SocketAddr, listen: &[SocketAddr]) -> bool {
    let is_our_port = listen.iter().any(|at| at.port() == target.port());
    let ip = target.ip().to_canonical();
    is_our_port && (ip.is_unspecified() || is_here(ip))
}

/// Whether a connection to `target` would arrive at one of these listeners. Another program may
/// listen at the same port of another address of this machine.
pub fn is_listener(target: SocketAddr, listen: &[SocketAddr]) -> bool {
    let ip = match target.ip().to_canonical() {
        // Connecting to "any address" is connecting to the loopback interface.
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    listen.iter().any(|at| {
        let there = at.ip().to_canonical();
        let takes_all = there.is_unspecified() && (there.is_ipv6() || ip.is_ipv4());
        let is_there = there == ip || takes_all && is_here(ip);
        at.port() == target.port() && is_there
    })
}

/// The prefix of the network of addresses that mean this machine or its link, if `ip` is of one.
fn local_prefix(ip: IpAddr) -> Option<u8> {
    match ip {
        // Connecting to "any address" is connecting to the loopback interface.
        IpAddr::V4(v4) if v4.is_loopback() || v4.octets()[0] == 0 => Some(8),
        IpAddr::V4(v4) if v4.is_link_local() => Some(16),
        IpAddr::V6(v6) if v6.is_loopback() || v6.is_unspecified() => Some(128),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(10),
        _ if !is_own(ip) => None,
        IpAddr::V4(_) => Some(32),
        IpAddr::V6(_) => Some(128),
    }
}

/// Whether the address is of this machine. That it can be bound to would not show it: with
/// `net.ipv4.ip_nonlocal_bind` every address can.
fn is_here(ip: IpAddr) -> bool {
    ip.is_loopback() || is_own(ip)
}

/// Whether an interface has the address. They come and go, so the kernel is asked each time.
fn is_own(ip: IpAddr) -> bool {
    let Ok(mut interfaces) = getifaddrs() else {
        // Without netlink. This is true for every address where the system lets us bind to any.
        return UdpSocket::bind((ip, 0)).is_ok();
    };
    interfaces.any(|interface| {
        let Some(address) = interface.address else { return false };
        let v4 = address.as_sockaddr_in().map(|at| IpAddr::V4(at.ip()));
        let v6 = address.as_sockaddr_in6().map(|at| IpAddr::V6(at.ip()));
        v4.or(v6) == Some(ip)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_known_by_any_address_that_leads_to_it() {
        let leads = |target: &str, listen: &str| {
            is_listener(target.parse().unwrap(), &[listen.parse().unwrap()])
        };
        for (target, listen) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "0.0.0.0:80"),
            ("127.0.0.9:80", "0.0.0.0:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "[::]:80"),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ] {
            assert!(leads(target, listen), "{target} {listen}");
        }
        for (target, listen) in [
            ("127.0.0.1:81", "127.0.0.1:80"),
            ("127.0.0.2:80", "127.0.0.1:80"),
            ("192.0.2.1:80", "0.0.0.0:80"),
            ("[::1]:80", "0.0.0.0:80"),
        ] {
            assert!(!leads(target, listen), "{target} {listen}");
        }
    }

    fn access(allow: &[&str], deny: &[&str]) -> Access {
        let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Access { allow: networks(allow), deny: networks(deny) }
    }

    fn permits(access: &Access, ip: &str, is_public: bool) -> bool {
        access.permits(ip.parse::<IpAddr>().unwrap().to_canonical(), is_public)
    }

    #[test]
    fn the_longest_prefix_decides_and_of_equal_ones_that_which_denies() {
        let access =
            access(&["10.1.0.0/16", "10.2.3.4"], &["10.0.0.0/8", "10.1.2.0/24", "10.2.3.4"]);
        for (ip, may) in [
            ("10.9.9.9", false),
            ("10.1.1.1", true),
            ("10.1.2.1", false),
            ("10.2.3.4", false),
            ("203.0.113.1", true),
            ("::ffff:10.9.9.9", false),
            ("2001:db8::1", true),
        ] {
            assert_eq!(permits(&access, ip, false), may, "{ip}");
        }
    }

    #[test]
    fn this_machine_and_its_links_are_not_for_others_unless_allowed() {
        let local =
            ["127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "::1", "::", "fe80::1"];
        let open = access(&[], &[]);
        let wide = access(&["0.0.0.0/0", "::/0"], &[]);
        for ip in local.iter().chain(&["::ffff:127.0.0.1"]) {
            assert!(permits(&open, ip, false) && !permits(&open, ip, true), "{ip}");
            assert!(!permits(&wide, ip, true), "{ip} is of a longer prefix than everything");
        }
        assert!(permits(&open, "203.0.113.1", true) && permits(&open, "2001:db8::1", true));
        let one = access(&["127.0.0.1", "169.254.0.0/16"], &[]);
        assert!(permits(&one, "127.0.0.1", true) && !permits(&one, "127.0.0.2", true));
        assert!(permits(&one, "169.254.1.1", true));
    }

    #[test]
    fn addresses_of_interfaces_are_found() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("203.0.113.77".parse().unwrap()));
    }

    #[test]
    fn a_listener_is_found_by_its_port_at_every_address_of_this_machine() {
        let listen = ["0.0.0.0:1080".parse().unwrap()];
        assert!(is_ourselves("127.0.0.3:1080".parse().unwrap(), &listen));
        assert!(!is_ourselves("127.0.0.3:1081".parse().unwrap(), &listen));
        assert!(!is_ourselves("203.0.113.77:1080".parse().unwrap(), &listen));
    }
}
