//! The few netlink requests that set up a device, in the network namespace of the thread that
//! opened the socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// A netlink socket and the namespace it was opened in.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// A request being written: the netlink header, the family's own header, attributes.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

const HEADER: usize = 16;
const ALIGN: usize = 4;

impl Request {
    /// A request of a kind with the family's own header.
    pub(crate) fn new(kind: u16, flags: i32, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(header);
        Self { bytes }
    }

    /// Adds an attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        attribute(&mut self.bytes, kind, value);
        self
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// Appends an attribute: length, kind, value, padding.
pub(crate) fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
}

/// An attribute that holds attributes.
pub(crate) fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in attributes {
        attribute(&mut bytes, *kind, value);
    }
    bytes
}

/// Attribute kind and value, one after the other; stops at what does not read.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// What a device counted, from its own point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// Packets that were to be sent and never reached the reader of the TUN device.
    pub(crate) tx_dropped: u64,
    /// Packets written to the TUN device that the kernel did not take.
    pub(crate) rx_dropped: u64,
}

/// An address or a route: where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
    /// Packets for it are refused: the block that a link around this one gave away.
    pub(crate) unreachable: bool,
}

const INTERFACE_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;
/// IFLA_INET6_ADDR_GEN_MODE and its value for "no address of its own".
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_NONE: u8 = 1;
/// In `rtnl_link_stats64`: the index of the 64-bit counters.
const STATS_RX_ERRORS: usize = 4;
const STATS_RX_DROPPED: usize = 6;
const STATS_TX_DROPPED: usize = 7;

impl Netlink {
    /// A socket for devices, addresses and routes.
    pub(crate) fn open() -> io::Result<Self> {
        Self::with_protocol(SockProtocol::NetlinkRoute)
    }

    /// A socket for nftables.
    pub(crate) fn open_netfilter() -> io::Result<Self> {
        Self::with_protocol(SockProtocol::NetlinkNetFilter)
    }

    fn with_protocol(protocol: SockProtocol) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The number of a device.
    pub(crate) fn index(&mut self, name: &str) -> io::Result<u32> {
        Ok(self.device(name)?.0)
    }

    /// What a device counted.
    pub(crate) fn counters(&mut self, name: &str) -> io::Result<Counters> {
        Ok(self.device(name)?.1)
    }

    fn device(&mut self, name: &str) -> io::Result<(u32, Counters)> {
        let request = Request::new(libc::RTM_GETLINK, 0, &interface_header(0, 0, 0))
            .with(libc::IFLA_IFNAME, &c_text(name));
        let mut found = None;
        self.ask(request, |kind, body| {
            if kind != libc::RTM_NEWLINK || body.len() < INTERFACE_HEADER {
                return;
            }
            let index = u32::from_ne_bytes([body[4], body[5], body[6], body[7]]);
            let stats = attributes(&body[INTERFACE_HEADER..])
                .find(|(kind, _)| *kind == libc::IFLA_STATS64)
                .map_or_else(Counters::default, |(_, value)| counters(value));
            found = Some((index, stats));
        })?;
        found.ok_or_else(|| io::Error::other(format!("there is no device {name}")))
    }

    /// Sets MTU and queue length of a device and switches it on, without multicast and without
    /// addresses of its own making: what the kernel says unasked is no traffic of the program.
    pub(crate) fn switch_on(&mut self, index: u32, mtu: u32, queue: u32) -> io::Result<()> {
        let no_own_address = nested(&[(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_NONE])]);
        let families = nested(&[(libc::AF_INET6 as u16, &no_own_address)]);
        let quiet =
            Request::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &interface_header(index, 0, 0))
                .with(libc::IFLA_AF_SPEC, &families);
        // A kernel without IPv6 refuses, and has nothing to be kept quiet either.
        let _ = self.tell(quiet);
        let up = libc::IFF_UP as u32;
        let header = interface_header(index, up, up | libc::IFF_MULTICAST as u32);
        let request = Request::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &header)
            .with(libc::IFLA_MTU, &mtu.to_ne_bytes())
            .with(libc::IFLA_TXQLEN, &queue.to_ne_bytes());
        self.tell(request)
    }

    /// Switches the loopback device on.
    pub(crate) fn switch_loopback_on(&mut self) -> io::Result<()> {
        let index = self.index("lo")?;
        let up = libc::IFF_UP as u32;
        let header = interface_header(index, up, up);
        self.tell(Request::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &header))
    }

    /// Gives a device an address with one peer at the other end.
    pub(crate) fn add_address(
        &mut self,
        index: u32,
        local: IpAddr,
        peer: IpAddr,
    ) -> io::Result<()> {
        /// No duplicate address detection: nobody else can be there.
        const NODAD: u8 = 0x02;
        let flags = if local.is_ipv6() { NODAD } else { 0 };
        let (family, bits) = family_of(local);
        let mut header = vec![family, bits, flags, 0];
        header.extend_from_slice(&index.to_ne_bytes());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = Request::new(libc::RTM_NEWADDR, flags, &header)
            .with(libc::IFA_LOCAL, &octets(local))
            .with(libc::IFA_ADDRESS, &octets(peer));
        self.tell(request)
    }

    /// Sends packets for a network through a device. Fails where that network has a route.
    pub(crate) fn add_route(&mut self, index: u32, to: IpAddr, prefix: u8) -> io::Result<()> {
        let request = Self::route(to, prefix, libc::RTN_UNICAST);
        self.tell(request.with(libc::RTA_OIF, &index.to_ne_bytes()))
    }

    /// Refuses packets for a network, where nothing more exact is known.
    pub(crate) fn add_unreachable(&mut self, to: IpAddr, prefix: u8) -> io::Result<()> {
        self.tell(Self::route(to, prefix, libc::RTN_UNREACHABLE))
    }

    fn route(to: IpAddr, prefix: u8, kind: u8) -> Request {
        let (family, _) = family_of(to);
        let scope = match (kind, family) {
            (libc::RTN_UNICAST, _) if to.is_ipv4() => libc::RT_SCOPE_LINK,
            _ => libc::RT_SCOPE_UNIVERSE,
        };
        let table = libc::RT_TABLE_MAIN;
        let mut header = vec![family, prefix, 0, 0, table, libc::RTPROT_STATIC, scope, kind];
        header.extend_from_slice(&0_u32.to_ne_bytes());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = Request::new(libc::RTM_NEWROUTE, flags, &header);
        if prefix == 0 { request } else { request.with(libc::RTA_DST, &octets(to)) }
    }

    /// All addresses and all routes but default routes, of IPv4.
    pub(crate) fn networks(&mut self) -> io::Result<Vec<Network>> {
        let mut networks = Vec::new();
        let family = libc::AF_INET as u8;
        let mut address_header = vec![0_u8; ADDRESS_HEADER];
        address_header[0] = family;
        let mut route_header = vec![0_u8; ROUTE_HEADER];
        route_header[0] = family;
        for (kind, header) in
            [(libc::RTM_GETADDR, address_header), (libc::RTM_GETROUTE, route_header)]
        {
            let request = Request::new(kind, libc::NLM_F_DUMP, &header);
            self.ask(request, |kind, body| networks.extend(network(kind, body)))?;
        }
        Ok(networks)
    }

    /// Sends a request and waits for its acknowledgment.
    fn tell(&mut self, request: Request) -> io::Result<()> {
        self.ask(request, |_, _| {})
    }

    /// Sends a request and gives each message of the answer, kind and body, to `each`.
    fn ask(&mut self, request: Request, each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.sequence += 1;
        let bytes = request.finish(self.sequence);
        self.exchange(&bytes, 1, each)
    }

    /// Sends requests as one batch; `answers` of them ask for an acknowledgment.
    pub(crate) fn batch(&mut self, requests: Vec<Request>, answers: usize) -> io::Result<()> {
        let mut bytes = Vec::new();
        for request in requests {
            self.sequence += 1;
            bytes.extend(request.finish(self.sequence));
        }
        self.exchange(&bytes, answers, |_, _| {})
    }

    fn exchange(
        &mut self,
        bytes: &[u8],
        answers: usize,
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        send(self.socket.as_raw_fd(), bytes, MsgFlags::empty())?;
        let mut buffer = vec![0; 1 << 16];
        let mut awaited = answers;
        while awaited > 0 {
            let received = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            for (kind, flags, body) in messages(&buffer[..received]) {
                match i32::from(kind) {
                    libc::NLMSG_ERROR => {
                        let code = body.get(0..4).and_then(|code| code.try_into().ok());
                        match code.map_or(0, i32::from_ne_bytes) {
                            0 => awaited -= 1,
                            code => return Err(io::Error::from_raw_os_error(-code)),
                        }
                    }
                    libc::NLMSG_DONE => awaited -= 1,
                    _ => {
                        each(kind, body);
                        // An answer of one message without an acknowledgment.
                        if i32::from(flags) & libc::NLM_F_MULTI == 0 && kind == libc::RTM_NEWLINK {
                            awaited -= 1;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Kind, flags and body of each message.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(0..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let flags = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or(&[]);
        Some((kind, flags, body))
    })
}

fn network(kind: u16, body: &[u8]) -> Option<Network> {
    let (prefix, header, wanted, unreachable) = match kind {
        libc::RTM_NEWADDR => (*body.get(1)?, ADDRESS_HEADER, libc::IFA_LOCAL, false),
        libc::RTM_NEWROUTE => {
            (*body.get(1)?, ROUTE_HEADER, libc::RTA_DST, *body.get(7)? == libc::RTN_UNREACHABLE)
        }
        _ => return None,
    };
    let (_, value) = attributes(body.get(header..)?).find(|(kind, _)| *kind == wanted)?;
    let octets: [u8; 4] = value.try_into().ok()?;
    Some(Network { address: Ipv4Addr::from(octets).into(), prefix, unreachable })
}

fn counters(stats: &[u8]) -> Counters {
    let counter = |index: usize| {
        let value = stats.get(index * 8..index * 8 + 8).and_then(|value| value.try_into().ok());
        value.map_or(0, u64::from_ne_bytes)
    };
    Counters {
        tx_dropped: counter(STATS_TX_DROPPED),
        rx_dropped: counter(STATS_RX_DROPPED) + counter(STATS_RX_ERRORS),
    }
}

fn interface_header(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut header = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
    for word in [index, flags, change] {
        header.extend_from_slice(&word.to_ne_bytes());
    }
    header
}

fn c_text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn family_of(address: IpAddr) -> (u8, u8) {
    match address {
        IpAddr::V4(_) => (libc::AF_INET as u8, Ipv4Addr::BITS as u8),
        IpAddr::V6(_) => (libc::AF_INET6 as u8, Ipv6Addr::BITS as u8),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let bytes = nested(&[(3, b"abcde"), (7, &[1]), (9, &[])]);
        assert_eq!(bytes.len(), 12 + 8 + 4);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(3, b"abcde".as_slice()), (7, &[1]), (9, &[])]);
    }

    #[test]
    fn what_is_cut_short_reads_as_nothing() {
        let bytes = nested(&[(3, b"abcde")]);
        for end in 0..8 {
            assert_eq!(attributes(&bytes[..end]).count(), 0, "{end}");
        }
        assert_eq!(attributes(&[0, 0, 0, 0, 1, 2]).count(), 0, "a length of nothing");
        let message = Request::new(5, 0, &[1, 2, 3]).finish(9);
        for end in 0..message.len() {
            assert_eq!(messages(&message[..end]).count(), 0, "{end}");
        }
        let (kind, flags, body) = messages(&message).next().unwrap();
        assert_eq!((kind, i32::from(flags), body), (5, libc::NLM_F_REQUEST, [1, 2, 3].as_slice()));
    }

    #[test]
    fn this_namespace_has_a_loopback_device() {
        let mut netlink = Netlink::open().unwrap();
        assert_eq!(netlink.index("lo").unwrap(), 1);
        assert_eq!(netlink.counters("lo").unwrap().tx_dropped, 0);
        assert!(netlink.index("no-such-device").is_err());
        let networks = netlink.networks().unwrap();
        assert!(networks.iter().all(|network| network.prefix <= 32));
    }
}
