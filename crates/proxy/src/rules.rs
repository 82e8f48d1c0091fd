//! The rules that bring connections to others to a transparent proxy: a table of nftables that
//! gives their packets to our socket, and a route that keeps marked packets on this machine.
//!
//! The same can be printed as commands, for those who keep their rules elsewhere.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};

use cellpace_os::netlink::{Netlink, NetlinkRequest};
use cellpace_os::nftables::{self, ChainHook, Expression, NftTable};

use crate::error::ProxyError;

/// Which connections come to the proxy.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// Where the proxy listens; the port must be known. IPv4 listeners get IPv4 connections,
    /// IPv6 listeners those of IPv6.
    pub listen: Vec<SocketAddr>,
    /// Destination ports, at least one.
    pub ports: Vec<u16>,
    /// Only what arrives at this device.
    pub device: Option<String>,
}

/// The longest name of a device (IFNAMSIZ without the final zero).
pub const MAX_DEVICE_NAME: usize = 15;

/// Marks and tables of different listeners differ by their port, so proxies do not remove each
/// other's.
const MARK: u32 = 0x6370_0000;

const CHAIN: &[u8] = b"redirect\0";
/// Before routing decides, after connections are known: the priority by the name of mangle.
const BEFORE_ROUTING: ChainHook<'_> = ChainHook { kind: b"filter\0", hook: 0, priority: -150 };
/// Of the TCP header.
const DESTINATION_PORT_OFFSET: u32 = 2;

impl Redirect {
    /// The commands for a shell, with those that undo them as comments.
    pub fn commands(&self) -> String {
        self.listen.iter().map(|listen| self.commands_for(*listen)).collect()
    }

    fn commands_for(&self, listen: SocketAddr) -> String {
        let names = RedirectNames::of(listen);
        let RedirectNames { family, option, any, name, mark, .. } = &names;
        let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
        let ports = ports.join(", ");
        let to = match listen.ip().is_unspecified() {
            true => format!(":{}", listen.port()),
            false => listen.to_string(),
        };
        let mut text = format!(
            "nft -f - <<'END'\n\
             table {family} {name} {{\n\
             \tchain redirect {{\n\
             \t\ttype filter hook prerouting priority mangle; policy accept;\n"
        );
        if let Some(device) = &self.device {
            // Writing to a string does not fail.
            let _ = writeln!(text, "\t\tiifname != \"{device}\" return");
        }
        let _ = write!(
            text,
            "\t\tfib daddr type local return\n\
             \t\ttcp dport {{ {ports} }} tproxy to {to} meta mark set {mark:#x} accept\n\
             \t}}\n\
             }}\n\
             END\n\
             ip {option} rule add fwmark {mark:#x} lookup {mark}\n\
             ip {option} route add local {any} dev lo table {mark}\n\
             # To undo:\n\
             # nft delete table {family} {name}\n\
             # ip {option} rule del fwmark {mark:#x} lookup {mark}\n\
             # ip {option} route del local {any} dev lo table {mark}\n"
        );
        text
    }

    /// Makes the rules. They go when what is returned is dropped; the table also goes when the
    /// process is killed, and without the table the route has no packets.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, or where the kernel has no nftables or TPROXY.
    pub fn apply(&self) -> Result<Applied, ProxyError> {
        let wrong = |what| move |source| ProxyError::Rules { what, source };
        let route = Netlink::open_route().map_err(wrong("netlink"))?;
        let mut owner = Netlink::open_netfilter().map_err(wrong("nftables"))?;
        let mut applied = Applied { route, table: None, undo: Vec::new() };
        for listen in &self.listen {
            let names = RedirectNames::of(*listen);
            applied.add("route", names.route(true), names.route(false))?;
            applied.add("rule", names.rule(true), names.rule(false))?;
        }
        for listen in &self.listen {
            self.table(*listen).install(&mut owner).map_err(wrong("nftables"))?;
        }
        applied.table = Some(owner);
        Ok(applied)
    }

    /// The table for one listener.
    fn table(&self, listen: SocketAddr) -> NftTable {
        let names = RedirectNames::of(listen);
        let mut table = NftTable::new(names.nf_family, &names.name);
        table.chain(CHAIN, BEFORE_ROUTING);
        if let Some(device) = &self.device {
            let others = [
                nftables::meta(nftables::META_FROM_DEVICE),
                nftables::differs(&nftables::device_name(device)),
                nftables::verdict(nftables::RETURN),
            ];
            table.rule(CHAIN, &others);
        }
        let to_this_machine = [
            nftables::destination_type(),
            nftables::equals(&u32::from(libc::RTN_LOCAL).to_ne_bytes()),
            nftables::verdict(nftables::RETURN),
        ];
        table.rule(CHAIN, &to_this_machine);
        for port in &self.ports {
            table.rule(CHAIN, &to_proxy(&names, listen, *port));
        }
        table
    }
}

/// The rule for one port: TCP, that port, to our socket, marked, accepted.
fn to_proxy(names: &RedirectNames, listen: SocketAddr, port: u16) -> Vec<Expression> {
    let mut rule = vec![
        nftables::meta(nftables::META_PROTOCOL),
        nftables::equals(&[libc::IPPROTO_TCP as u8]),
        nftables::payload(nftables::TRANSPORT_HEADER, DESTINATION_PORT_OFFSET, 2),
        nftables::equals(&port.to_be_bytes()),
    ];
    let has_address = !listen.ip().is_unspecified();
    if has_address {
        rule.push(match listen.ip() {
            IpAddr::V4(ip) => nftables::load(nftables::REGISTER, &ip.octets()),
            IpAddr::V6(ip) => nftables::load(nftables::REGISTER, &ip.octets()),
        });
    }
    rule.push(nftables::load(nftables::REGISTER2, &listen.port().to_be_bytes()));
    rule.push(nftables::to_local_socket(names.nf_family, has_address));
    rule.push(nftables::load(nftables::REGISTER, &names.mark.to_ne_bytes()));
    rule.push(nftables::set_mark());
    rule.push(nftables::verdict(nftables::ACCEPT));
    rule
}

/// What has another name or number for each listener or family.
struct RedirectNames {
    family: &'static str,
    option: &'static str,
    any: &'static str,
    nf_family: u8,
    name: String,
    mark: u32,
}

impl RedirectNames {
    fn of(listen: SocketAddr) -> Self {
        let (family, option, any, nf_family) = match listen {
            SocketAddr::V4(_) => ("ip", "-4", "0.0.0.0/0", libc::AF_INET as u8),
            SocketAddr::V6(_) => ("ip6", "-6", "::/0", libc::AF_INET6 as u8),
        };
        let port = listen.port();
        let name = format!("cellpace-proxy-{port}");
        Self { family, option, any, nf_family, name, mark: MARK | u32::from(port) }
    }

    /// `ip rule add fwmark MARK lookup TABLE`, or its removal.
    fn rule(&self, add: bool) -> NetlinkRequest {
        const TO_TABLE: u8 = 1;
        const FRA_FWMARK: u16 = 10;
        const FRA_TABLE: u16 = 15;
        let header = [self.nf_family, 0, 0, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0];
        request(add, libc::RTM_NEWRULE, libc::RTM_DELRULE, &header)
            .with(FRA_FWMARK, &self.mark.to_ne_bytes())
            .with(FRA_TABLE, &self.mark.to_ne_bytes())
    }

    /// `ip route add local ANY dev lo table TABLE`, or its removal.
    fn route(&self, add: bool) -> NetlinkRequest {
        /// Loopback is the first device of every network namespace.
        const LOOPBACK: u32 = 1;
        let (scope, kind) = (libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
        let header = [self.nf_family, 0, 0, 0, 0, libc::RTPROT_STATIC, scope, kind, 0, 0, 0, 0];
        request(add, libc::RTM_NEWROUTE, libc::RTM_DELROUTE, &header)
            .with(libc::RTA_OIF, &LOOPBACK.to_ne_bytes())
            .with(libc::RTA_TABLE, &self.mark.to_ne_bytes())
    }
}

fn request(add: bool, new: u16, delete: u16, header: &[u8]) -> NetlinkRequest {
    match add {
        true => {
            let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
            NetlinkRequest::new(new, flags, header)
        }
        false => NetlinkRequest::new(delete, libc::NLM_F_ACK, header),
    }
}

/// Rules that hold until this is dropped.
#[derive(Debug)]
pub struct Applied {
    route: Netlink,
    /// The kernel removes the tables with this socket.
    table: Option<Netlink>,
    undo: Vec<NetlinkRequest>,
}

impl Applied {
    fn add(
        &mut self,
        what: &'static str,
        add: NetlinkRequest,
        undo: NetlinkRequest,
    ) -> Result<(), ProxyError> {
        match self.route.request(add) {
            Ok(()) => {}
            // Left by a proxy at the same port that was killed.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            Err(source) => return Err(ProxyError::Rules { what, source }),
        }
        self.undo.push(undo);
        Ok(())
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        // First the table, so that no marked packet is without a route.
        self.table = None;
        while let Some(undo) = self.undo.pop() {
            // Somebody else may have removed it.
            let _: io::Result<()> = self.route.request(undo);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(listen: &[&str], device: Option<&str>) -> Redirect {
        Redirect {
            listen: listen.iter().map(|text| text.parse().unwrap()).collect(),
            ports: vec![80, 443],
            device: device.map(str::to_owned),
        }
    }

    #[test]
    fn commands_name_the_listener_and_the_ports() {
        let text = redirect(&["127.0.0.1:8080"], Some("eth1")).commands();
        for line in [
            "table ip cellpace-proxy-8080 {",
            "\t\tiifname != \"eth1\" return",
            "\t\tfib daddr type local return",
            "\t\ttcp dport { 80, 443 } tproxy to 127.0.0.1:8080 meta mark set 0x63701f90 accept",
            "ip -4 rule add fwmark 0x63701f90 lookup 1668292496",
            "ip -4 route add local 0.0.0.0/0 dev lo table 1668292496",
            "# nft delete table ip cellpace-proxy-8080",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn each_family_has_its_own_table() {
        let text = redirect(&["0.0.0.0:8080", "[::1]:8081"], None).commands();
        assert!(text.contains("table ip cellpace-proxy-8080 {"));
        assert!(text.contains("tproxy to :8080 "));
        assert!(text.contains("table ip6 cellpace-proxy-8081 {"));
        assert!(text.contains("tproxy to [::1]:8081 "));
        assert!(text.contains("ip -6 route add local ::/0 dev lo"));
        assert!(!text.contains("iifname"));
    }
}
