//! The rules that bring connections to others to a transparent proxy: a table of nftables that
//! gives their packets to our socket, and a route that keeps marked packets on this machine.
//!
//! The same can be printed as commands, for those who keep their rules elsewhere.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::sys::socket::SockProtocol;

use crate::error::ProxyError;
use crate::netlink::{Netlink, Request, nested};

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
pub const LONGEST_DEVICE: usize = 15;

/// Marks and tables of different listeners differ by their port, so proxies do not remove each
/// other's.
const MARK: u32 = 0x6370_0000;

impl Redirect {
    /// The commands for a shell, with those that undo them as comments.
    pub fn commands(&self) -> String {
        self.listen.iter().map(|listen| self.commands_for(*listen)).collect()
    }

    fn commands_for(&self, listen: SocketAddr) -> String {
        let names = Names::of(listen);
        let Names { family, option, any, name, mark, .. } = &names;
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
        let route = Netlink::open(SockProtocol::NetlinkRoute).map_err(wrong("netlink"))?;
        let mut owner = Netlink::open(SockProtocol::NetlinkNetFilter).map_err(wrong("nftables"))?;
        let mut applied = Applied { route, table: None, undo: Vec::new() };
        for listen in &self.listen {
            let names = Names::of(*listen);
            applied.add("route", names.route(true), names.route(false))?;
            applied.add("rule", names.rule(true), names.rule(false))?;
        }
        for listen in &self.listen {
            owner.tell(self.table(*listen)).map_err(wrong("nftables"))?;
        }
        applied.table = Some(owner);
        Ok(applied)
    }

    /// The table for one listener, as one batch.
    fn table(&self, listen: SocketAddr) -> Vec<Request> {
        let names = Names::of(listen);
        let family = names.nf_family;
        // Each rule is put behind those before it.
        let flags = libc::NLM_F_CREATE | libc::NLM_F_ACK | libc::NLM_F_APPEND;
        let made = |kind| Request::new(kind, flags, &[family, 0, 0, 0]);
        let rule = |expressions: Vec<Vec<u8>>| {
            let list: Vec<_> = expressions.into_iter().map(|one| (1, one)).collect();
            made(NEW_RULE).with(1, &names.c_name()).with(2, CHAIN).with(4, &nested(&list))
        };
        let hook = nested(&[(1, PRE_ROUTING.to_be_bytes()), (2, MANGLE.to_be_bytes())]);
        let mut batch = vec![
            Request::new(BATCH_BEGIN, 0, &[0, 0, 0, SUBSYSTEM as u8]),
            made(NEW_TABLE).with(1, &names.c_name()).with(2, &TABLE_OWNER.to_be_bytes()),
            made(NEW_CHAIN)
                .with(1, &names.c_name())
                .with(3, CHAIN)
                .with(4, &hook)
                .with(7, b"filter\0"),
        ];
        if let Some(device) = &self.device {
            let mut padded = [0; LONGEST_DEVICE + 1];
            let bytes = device.as_bytes();
            let length = bytes.len().min(LONGEST_DEVICE);
            padded[..length].copy_from_slice(&bytes[..length]);
            batch.push(rule(vec![
                meta(META_IIFNAME),
                compare(DIFFERENT, &padded),
                verdict(RETURN),
            ]));
        }
        let local = u32::from(libc::RTN_LOCAL).to_ne_bytes();
        batch.push(rule(vec![address_type(), compare(EQUAL, &local), verdict(RETURN)]));
        for port in &self.ports {
            batch.push(rule(to_proxy(&names, listen, *port)));
        }
        batch.push(Request::new(BATCH_END, 0, &[0, 0, 0, SUBSYSTEM as u8]));
        batch
    }
}

/// The rule for one port: TCP, that port, to our socket, marked, accepted.
fn to_proxy(names: &Names, listen: SocketAddr, port: u16) -> Vec<Vec<u8>> {
    let mut expressions = vec![
        meta(META_L4PROTO),
        compare(EQUAL, &[libc::IPPROTO_TCP as u8]),
        destination_port(),
        compare(EQUAL, &port.to_be_bytes()),
    ];
    let mut tproxy = vec![(1, u32::from(names.nf_family).to_be_bytes())];
    if !listen.ip().is_unspecified() {
        let octets = match listen.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        expressions.push(load(REGISTER, &octets));
        tproxy.push((2, REGISTER.to_be_bytes()));
    }
    expressions.push(load(REGISTER2, &listen.port().to_be_bytes()));
    tproxy.push((3, REGISTER2.to_be_bytes()));
    expressions.push(expression(b"tproxy\0", &nested(&tproxy)));
    expressions.push(load(REGISTER, &names.mark.to_ne_bytes()));
    expressions.push(set_mark());
    expressions.push(verdict(libc::NF_ACCEPT));
    expressions
}

/// What has another name or number for each listener or family.
struct Names {
    family: &'static str,
    option: &'static str,
    any: &'static str,
    nf_family: u8,
    name: String,
    mark: u32,
}

impl Names {
    fn of(listen: SocketAddr) -> Self {
        let (family, option, any, nf_family) = match listen {
            SocketAddr::V4(_) => ("ip", "-4", "0.0.0.0/0", libc::AF_INET as u8),
            SocketAddr::V6(_) => ("ip6", "-6", "::/0", libc::AF_INET6 as u8),
        };
        let port = listen.port();
        let name = format!("cellpace-proxy-{port}");
        Self { family, option, any, nf_family, name, mark: MARK | u32::from(port) }
    }

    fn c_name(&self) -> Vec<u8> {
        [self.name.as_bytes(), &[0]].concat()
    }

    /// `ip rule add fwmark MARK lookup TABLE`, or its removal.
    fn rule(&self, add: bool) -> Request {
        const TO_TABLE: u8 = 1;
        const FRA_FWMARK: u16 = 10;
        const FRA_TABLE: u16 = 15;
        let header = [self.nf_family, 0, 0, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0];
        request(add, libc::RTM_NEWRULE, libc::RTM_DELRULE, &header)
            .with(FRA_FWMARK, &self.mark.to_ne_bytes())
            .with(FRA_TABLE, &self.mark.to_ne_bytes())
    }

    /// `ip route add local ANY dev lo table TABLE`, or its removal.
    fn route(&self, add: bool) -> Request {
        /// Loopback is the first device of every network namespace.
        const LOOPBACK: u32 = 1;
        let (scope, kind) = (libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
        let header = [self.nf_family, 0, 0, 0, 0, libc::RTPROT_STATIC, scope, kind, 0, 0, 0, 0];
        request(add, libc::RTM_NEWROUTE, libc::RTM_DELROUTE, &header)
            .with(libc::RTA_OIF, &LOOPBACK.to_ne_bytes())
            .with(libc::RTA_TABLE, &self.mark.to_ne_bytes())
    }
}

fn request(add: bool, new: u16, delete: u16, header: &[u8]) -> Request {
    match add {
        true => {
            let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
            Request::new(new, flags, header)
        }
        false => Request::new(delete, libc::NLM_F_ACK, header),
    }
}

/// Rules that hold until this is dropped.
#[derive(Debug)]
pub struct Applied {
    route: Netlink,
    /// The kernel removes the tables with this socket.
    table: Option<Netlink>,
    undo: Vec<Request>,
}

impl Applied {
    fn add(&mut self, what: &'static str, add: Request, undo: Request) -> Result<(), ProxyError> {
        match self.route.tell(vec![add]) {
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
            let _: io::Result<()> = self.route.tell(vec![undo]);
        }
    }
}

// Numbers of linux/netfilter/nftables.h and nfnetlink.h.
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// The table goes with the socket that made it.
const TABLE_OWNER: u32 = 2;
const CHAIN: &[u8] = b"redirect\0";
const PRE_ROUTING: u32 = 0;
/// The priority by that name: before routing decides, after connections are known.
const MANGLE: i32 = -150;
const REGISTER: u32 = 1;
const REGISTER2: u32 = 2;
const VERDICT_REGISTER: u32 = 0;
const META_MARK: u32 = 3;
const META_IIFNAME: u32 = 6;
const META_L4PROTO: u32 = 16;
const EQUAL: u32 = 0;
const DIFFERENT: u32 = 1;
const RETURN: i32 = -5;
const TRANSPORT_HEADER: u32 = 2;
const FIB_ADDRESS_TYPE: u32 = 3;
const FIB_DESTINATION: u32 = 2;

fn expression(name: &[u8], data: &[u8]) -> Vec<u8> {
    nested(&[(1, name), (2, data)])
}

/// An expression whose attributes are numbers.
fn numbers(name: &[u8], values: &[(u16, u32)]) -> Vec<u8> {
    let values: Vec<_> = values.iter().map(|(kind, value)| (*kind, value.to_be_bytes())).collect();
    expression(name, &nested(&values))
}

fn meta(key: u32) -> Vec<u8> {
    numbers(b"meta\0", &[(1, REGISTER), (2, key)])
}

fn set_mark() -> Vec<u8> {
    numbers(b"meta\0", &[(2, META_MARK), (3, REGISTER)])
}

/// Bytes 2 and 3 of the TCP header.
fn destination_port() -> Vec<u8> {
    numbers(b"payload\0", &[(1, REGISTER), (2, TRANSPORT_HEADER), (3, 2), (4, 2)])
}

/// Whether the destination is this machine.
fn address_type() -> Vec<u8> {
    numbers(b"fib\0", &[(1, REGISTER), (2, FIB_ADDRESS_TYPE), (3, FIB_DESTINATION)])
}

fn compare(how: u32, value: &[u8]) -> Vec<u8> {
    let data = nested(&[(1, value)]);
    let (register, how) = (REGISTER.to_be_bytes(), how.to_be_bytes());
    expression(b"cmp\0", &nested(&[(1, register.as_slice()), (2, &how), (3, &data)]))
}

fn load(register: u32, value: &[u8]) -> Vec<u8> {
    let data = nested(&[(1, value)]);
    expression(b"immediate\0", &nested(&[(1, register.to_be_bytes().as_slice()), (2, &data)]))
}

fn verdict(code: i32) -> Vec<u8> {
    let data = nested(&[(2, nested(&[(1, code.to_be_bytes())]))]);
    let register = VERDICT_REGISTER.to_be_bytes();
    expression(b"immediate\0", &nested(&[(1, register.as_slice()), (2, &data)]))
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
