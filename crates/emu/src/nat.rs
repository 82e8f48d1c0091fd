//! The outside world for the inside: address translation by nftables, forwarding by two sysctls.
//!
//! The table belongs to a netlink socket of ours, so the kernel removes it with the process. The
//! sysctl of the device towards the world is put back at the end; see [`crate::rests`] for when
//! there was no such end.

use std::fs;
use std::io;
use std::net::IpAddr;

use crate::address::Block;
use crate::netlink::{Netlink, Request, nested};
use crate::rests::Rests;

/// Translates addresses for as long as it lives.
pub(crate) struct Nat {
    _table: Netlink,
    _rests: Rests,
}

impl Nat {
    /// Lets a block out to the world from the device `device` of the far side.
    pub(crate) fn start(block: Block, device: &str) -> io::Result<Self> {
        let mut table = Netlink::open_netfilter()?;
        let (network, prefix) = block.networks()[0];
        table.batch(requests(network, prefix, &format!("cellpace-{}", std::process::id())), 3)?;
        fs::write(forwarding(device), "1")?;
        let mut rests = Rests::open()?;
        // IPv4 only: forwarding of IPv6 can only be switched on for all devices together, and
        // would then make this machine a router that no longer learns its own routes.
        for device in default_devices()? {
            rests.set(&forwarding(&device), "1")?;
        }
        Ok(Self { _table: table, _rests: rests })
    }
}

fn forwarding(device: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{device}/forwarding")
}

/// Devices of default routes.
fn default_devices() -> io::Result<Vec<String>> {
    Ok(default_devices_in(&fs::read_to_string("/proc/thread-self/net/route")?))
}

fn default_devices_in(routes: &str) -> Vec<String> {
    let mut devices: Vec<String> = Vec::new();
    for line in routes.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [device, "00000000", _, _, _, _, _, "00000000", ..] = fields[..]
            && !devices.iter().any(|known| known == device)
        {
            devices.push(device.to_owned());
        }
    }
    devices
}

// Numbers of linux/netfilter/nf_tables.h and nfnetlink.h.
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const IPV4: u8 = 2;
/// The table goes with the socket that made it.
const TABLE_OWNER: u32 = 2;
const POST_ROUTING: u32 = 4;
/// Where source addresses are translated.
const SOURCE_NAT: u32 = 100;
const REGISTER: u32 = 1;
const NETWORK_HEADER: u32 = 1;
const SOURCE_OFFSET: u32 = 12;
const EQUAL: u32 = 0;

/// A table with one chain and one rule: what comes from the block gets the address of the device
/// that it leaves through.
fn requests(network: IpAddr, prefix: u8, name: &str) -> Vec<Request> {
    let IpAddr::V4(network) = network else { return Vec::new() };
    let name = [name.as_bytes(), &[0]].concat();
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    let begin_or_end = |kind| Request::new(kind, 0, &[0, 0, 0, SUBSYSTEM as u8]);
    let made = |kind| Request::new(kind, libc::NLM_F_CREATE | libc::NLM_F_ACK, &[IPV4, 0, 0, 0]);
    let hook = nested(&[(1, &POST_ROUTING.to_be_bytes()), (2, &SOURCE_NAT.to_be_bytes())]);
    let number = |kind: u16, value: u32| (kind, value.to_be_bytes());
    let numbers = |numbers: &[(u16, [u8; 4])]| {
        let numbers: Vec<_> =
            numbers.iter().map(|(kind, value)| (*kind, value.as_slice())).collect();
        nested(&numbers)
    };
    let value = |bytes: [u8; 4]| nested(&[(1, &bytes)]);
    let load = numbers(&[
        number(1, REGISTER),
        number(2, NETWORK_HEADER),
        number(3, SOURCE_OFFSET),
        number(4, 4),
    ]);
    let keep_network = [
        numbers(&[number(1, REGISTER), number(2, REGISTER), number(3, 4)]),
        nested(&[(4, &value(mask.to_be_bytes())), (5, &value([0; 4]))]),
    ]
    .concat();
    let is_ours = [
        numbers(&[number(1, REGISTER), number(2, EQUAL)]),
        nested(&[(3, &value(network.octets()))]),
    ]
    .concat();
    let expression = |name: &[u8], data: &[u8]| nested(&[(1, name), (2, data)]);
    let expressions = nested(&[
        (1, &expression(b"payload\0", &load)),
        (1, &expression(b"bitwise\0", &keep_network)),
        (1, &expression(b"cmp\0", &is_ours)),
        (1, &expression(b"masq\0", &[])),
    ]);
    vec![
        begin_or_end(BATCH_BEGIN),
        made(NEW_TABLE).with(1, &name).with(2, &TABLE_OWNER.to_be_bytes()),
        made(NEW_CHAIN).with(1, &name).with(3, b"world\0").with(4, &hook).with(7, b"nat\0"),
        made(NEW_RULE).with(1, &name).with(2, b"world\0").with(4, &expressions),
        begin_or_end(BATCH_END),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_name_their_devices_once() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
            eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
            eth0\t00000000\t010300C0\t0003\t0\t0\t900\t00000000\t0\t0\t0\n\
            vpn\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n\
            eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(default_devices_in(routes), ["eth0", "wlan0"]);
        assert!(default_devices_in("").is_empty());
    }
}
