//! Devices, addresses and routes in the network namespace of the thread that asks first.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cellpace_os::netlink::{Netlink, NetlinkRequest, attributes, nested};

/// What a device counted, from its own point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeviceCounters {
    /// Packets to send that never reached the reader of the TUN device.
    pub(crate) tx_dropped: u64,
    /// Packets written to the TUN device that the kernel did not accept.
    pub(crate) rx_dropped: u64,
}

/// An address or a route: where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsedNetwork {
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

/// The route that a packet takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundRoute {
    /// It ends in this namespace.
    pub(crate) is_local: bool,
    /// Length of the prefix by which it was found; 0: the default route.
    pub(crate) prefix: u8,
}

/// What a namespace has of devices, and a way to set them up.
#[derive(Debug)]
pub(crate) struct Devices(Netlink);

impl Devices {
    /// Those of this thread's namespace.
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::open_route().map(Self)
    }

    /// The number of a device.
    pub(crate) fn index(&mut self, name: &str) -> io::Result<u32> {
        Ok(self.device(name)?.0)
    }

    /// What a device counted.
    pub(crate) fn counters(&mut self, name: &str) -> io::Result<DeviceCounters> {
        Ok(self.device(name)?.1)
    }

    fn device(&mut self, name: &str) -> io::Result<(u32, DeviceCounters)> {
        let request =
            NetlinkRequest::new(libc::RTM_GETLINK, libc::NLM_F_ACK, &interface_header(0, 0, 0))
                .with(libc::IFLA_IFNAME, &c_text(name));
        let mut found = None;
        self.0.ask(request, |kind, body| {
            if kind != libc::RTM_NEWLINK || body.len() < INTERFACE_HEADER {
                return;
            }
            let index = u32::from_ne_bytes([body[4], body[5], body[6], body[7]]);
            let stats = attributes(&body[INTERFACE_HEADER..])
                .find(|(kind, _)| *kind == libc::IFLA_STATS64)
                .map_or_else(DeviceCounters::default, |(_, value)| counters(value));
            found = Some((index, stats));
        })?;
        found.ok_or_else(|| io::Error::other(format!("there is no device {name}")))
    }

    /// Sets MTU and queue length of a device and switches it on, without multicast and without
    /// addresses of its own making: what the kernel sends by itself is no traffic of the program.
    pub(crate) fn switch_on(&mut self, index: u32, mtu: u32, queue: u32) -> io::Result<()> {
        let no_own_address = nested(&[(IFLA_INET6_ADDR_GEN_MODE, [ADDR_GEN_NONE])]);
        let families = nested(&[(libc::AF_INET6 as u16, &no_own_address)]);
        let quiet =
            NetlinkRequest::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &interface_header(index, 0, 0))
                .with(libc::IFLA_AF_SPEC, &families);
        // A kernel without IPv6 refuses, and has nothing to be kept quiet either.
        let _ = self.0.request(quiet);
        let up = libc::IFF_UP as u32;
        let header = interface_header(index, up, up | libc::IFF_MULTICAST as u32);
        let request = NetlinkRequest::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &header)
            .with(libc::IFLA_MTU, &mtu.to_ne_bytes())
            .with(libc::IFLA_TXQLEN, &queue.to_ne_bytes());
        self.0.request(request)
    }

    /// Switches the loopback device on.
    pub(crate) fn switch_loopback_on(&mut self) -> io::Result<()> {
        let index = self.index("lo")?;
        let up = libc::IFF_UP as u32;
        let header = interface_header(index, up, up);
        self.0.request(NetlinkRequest::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &header))
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
        let request = NetlinkRequest::new(libc::RTM_NEWADDR, flags, &header)
            .with(libc::IFA_LOCAL, &octets(local))
            .with(libc::IFA_ADDRESS, &octets(peer));
        self.0.request(request)
    }

    /// Sends packets for a network through a device. Fails where that network has a route.
    pub(crate) fn add_route(&mut self, index: u32, to: IpAddr, prefix: u8) -> io::Result<()> {
        let request = Self::route(to, prefix, libc::RTN_UNICAST);
        self.0.request(request.with(libc::RTA_OIF, &index.to_ne_bytes()))
    }

    /// Refuses packets for a network, where nothing more exact is known.
    pub(crate) fn add_unreachable(&mut self, to: IpAddr, prefix: u8) -> io::Result<()> {
        self.0.request(Self::route(to, prefix, libc::RTN_UNREACHABLE))
    }

    fn route(to: IpAddr, prefix: u8, kind: u8) -> NetlinkRequest {
        let (family, _) = family_of(to);
        let scope = match (kind, family) {
            (libc::RTN_UNICAST, _) if to.is_ipv4() => libc::RT_SCOPE_LINK,
            _ => libc::RT_SCOPE_UNIVERSE,
        };
        let table = libc::RT_TABLE_MAIN;
        let mut header = vec![family, prefix, 0, 0, table, libc::RTPROT_STATIC, scope, kind];
        header.extend_from_slice(&0_u32.to_ne_bytes());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = NetlinkRequest::new(libc::RTM_NEWROUTE, flags, &header);
        if prefix == 0 { request } else { request.with(libc::RTA_DST, &octets(to)) }
    }

    /// The route of a packet to `to` that comes from `from` by the device of number `index`;
    /// `None` where there is none, or packets from devices are not forwarded.
    pub(crate) fn find_route(
        &mut self,
        to: IpAddr,
        from: IpAddr,
        index: u32,
    ) -> io::Result<Option<FoundRoute>> {
        /// RTM_F_FIB_MATCH: answer with the entry that was found.
        const FIB_MATCH: u32 = 0x2000;
        let (family, bits) = family_of(to);
        let mut header = vec![family, bits, bits, 0, 0, 0, 0, 0];
        header.extend_from_slice(&FIB_MATCH.to_ne_bytes());
        let request = NetlinkRequest::new(libc::RTM_GETROUTE, libc::NLM_F_ACK, &header)
            .with(libc::RTA_DST, &octets(to))
            .with(libc::RTA_SRC, &octets(from))
            .with(libc::RTA_IIF, &index.to_ne_bytes());
        let mut found = None;
        let asked = self.0.ask(request, |kind, body| {
            if kind == libc::RTM_NEWROUTE && body.len() >= ROUTE_HEADER {
                let is_local = body[7] == libc::RTN_LOCAL;
                let is_way = is_local || body[7] == libc::RTN_UNICAST;
                found = is_way.then_some(FoundRoute { is_local, prefix: body[1] });
            }
        });
        match asked.map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) => Ok(found),
            Err((Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES), _)) => Ok(None),
            Err((_, error)) => Err(error),
        }
    }

    /// All addresses and all routes but default routes, of IPv4.
    pub(crate) fn networks(&mut self) -> io::Result<Vec<UsedNetwork>> {
        let mut networks = Vec::new();
        let family = libc::AF_INET as u8;
        let mut address_header = vec![0_u8; ADDRESS_HEADER];
        address_header[0] = family;
        let mut route_header = vec![0_u8; ROUTE_HEADER];
        route_header[0] = family;
        for (kind, header) in
            [(libc::RTM_GETADDR, address_header), (libc::RTM_GETROUTE, route_header)]
        {
            let request = NetlinkRequest::new(kind, libc::NLM_F_DUMP, &header);
            self.0.ask(request, |kind, body| networks.extend(network(kind, body)))?;
        }
        Ok(networks)
    }
}

fn network(kind: u16, body: &[u8]) -> Option<UsedNetwork> {
    let (prefix, header, wanted, unreachable) = match kind {
        libc::RTM_NEWADDR => (*body.get(1)?, ADDRESS_HEADER, libc::IFA_LOCAL, false),
        libc::RTM_NEWROUTE => {
            (*body.get(1)?, ROUTE_HEADER, libc::RTA_DST, *body.get(7)? == libc::RTN_UNREACHABLE)
        }
        _ => return None,
    };
    let (_, value) = attributes(body.get(header..)?).find(|(kind, _)| *kind == wanted)?;
    let octets: [u8; 4] = value.try_into().ok()?;
    Some(UsedNetwork { address: Ipv4Addr::from(octets).into(), prefix, unreachable })
}

fn counters(stats: &[u8]) -> DeviceCounters {
    let counter = |index: usize| {
        let value = stats.get(index * 8..index * 8 + 8).and_then(|value| value.try_into().ok());
        value.map_or(0, u64::from_ne_bytes)
    };
    DeviceCounters {
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
    fn this_namespace_has_a_loopback_device() {
        let mut devices = Devices::open().unwrap();
        assert_eq!(devices.index("lo").unwrap(), 1);
        assert_eq!(devices.counters("lo").unwrap().tx_dropped, 0);
        assert!(devices.index("no-such-device").is_err());
        let networks = devices.networks().unwrap();
        assert!(networks.iter().all(|network| network.prefix <= 32));
    }

    #[test]
    fn routes_are_found() {
        let mut devices = Devices::open().unwrap();
        let here = IpAddr::from([127, 0, 0, 1]);
        // As if it had come by loopback from an address of ours, which is no way for packets.
        let local = devices.find_route(here, here, 1);
        assert!(matches!(local, Ok(None | Some(FoundRoute { is_local: true, .. })) | Err(_)));
        assert!(devices.find_route(here, here, u32::MAX).is_err());
    }
}
