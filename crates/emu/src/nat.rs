//! The outside world for the inside: address translation by nftables, forwarding by two sysctls.
//!
//! Forwarding for the device towards the world would make this machine a router between all its
//! networks. Rules in the same table let nothing but answers to links through.
//!
//! The table belongs to a netlink socket of ours, so the kernel removes it with the process. The
//! sysctl of the device towards the world is put back at the end; see [`crate::rests`] for when
//! there was no such end.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use cellpace_os::netlink::Netlink;
use cellpace_os::nftables::{self, ChainHook, NftTable};

use crate::address::AddressBlock;
use crate::namespace::DEVICES;
use crate::rests::Rests;

/// Translates addresses for as long as it lives.
pub(crate) struct Nat {
    // Dropped first: nothing is forwarded any more when the rules go.
    _rests: Rests,
    _table: Netlink,
}

impl Nat {
    /// Lets a block out to the world from the device `device` of the far side.
    pub(crate) fn start(block: AddressBlock, device: &str) -> io::Result<Self> {
        let mut rests = Rests::open()?;
        // IPv4 only: forwarding of IPv6 can only be switched on for all devices together, and
        // would then make this machine a router that no longer learns its own routes.
        let mut opened = Vec::new();
        for device in default_devices()? {
            if rests.would_change(&forwarding(&device), "1")? {
                opened.push(device);
            }
        }
        // The rules first, so that at no time others get through.
        let mut owner = Netlink::open_netfilter()?;
        let name = format!("cellpace-{}", std::process::id());
        if let (IpAddr::V4(network), prefix) = block.networks()[0] {
            table(network, prefix, &opened, &name).install(&mut owner)?;
        }
        fs::write(forwarding(device), "1")?;
        for device in &opened {
            rests.set(&forwarding(device), "1")?;
        }
        Ok(Self { _rests: rests, _table: owner })
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

/// Where packets are let through or not.
const FORWARD: ChainHook<'_> = ChainHook { kind: b"filter\0", hook: 2, priority: 0 };
/// Where source addresses are translated.
const SOURCE_NAT: ChainHook<'_> = ChainHook { kind: b"nat\0", hook: 4, priority: 100 };
/// Of the IPv4 header.
const SOURCE_OFFSET: u32 = 12;
/// The packet belongs to a connection that was let through before.
const ESTABLISHED_OR_RELATED: u32 = 2 | 4;

/// A table in which what comes from the block gets the address of the device that it leaves
/// through. Of what comes by the `opened` devices, for which this machine forwards nothing without
/// us, only answers to links get through.
fn table(network: Ipv4Addr, prefix: u8, opened: &[String], name: &str) -> NftTable {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    let mut table = NftTable::new(libc::AF_INET as u8, name);
    table.chain(b"world\0", SOURCE_NAT);
    let translate = [
        nftables::payload(nftables::NETWORK_HEADER, SOURCE_OFFSET, 4),
        nftables::keep_bits(mask.to_be_bytes()),
        nftables::equals(&network.octets()),
        nftables::masquerade(),
    ];
    table.rule(b"world\0", &translate);
    if !opened.is_empty() {
        table.chain(b"through\0", FORWARD);
        let answers = [
            nftables::meta(nftables::META_TO_DEVICE),
            // The beginning of the name: other links' answers are none of our business.
            nftables::equals(DEVICES.as_bytes()),
            nftables::connection_state(),
            nftables::keep_bits(ESTABLISHED_OR_RELATED.to_ne_bytes()),
            nftables::differs(&[0; 4]),
            nftables::verdict(nftables::ACCEPT),
        ];
        table.rule(b"through\0", &answers);
    }
    for device in opened {
        let others = [
            nftables::meta(nftables::META_FROM_DEVICE),
            nftables::equals(&nftables::device_name(device)),
            nftables::verdict(nftables::DROP),
        ];
        table.rule(b"through\0", &others);
    }
    table
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
