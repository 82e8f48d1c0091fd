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
use std::net::IpAddr;

use crate::address::Block;
use crate::namespace::DEVICES;
use crate::netlink::{Netlink, Request, nested};
use crate::rests::Rests;

/// Translates addresses for as long as it lives.
pub(crate) struct Nat {
    // Dropped first: nothing is forwarded any more when the rules go.
    _rests: Rests,
    _table: Netlink,
}

impl Nat {
    /// Lets a block out to the world from the device `device` of the far side.
    pub(crate) fn start(block: Block, device: &str) -> io::Result<Self> {
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
        let mut table = Netlink::open_netfilter()?;
        let name = format!("cellpace-{}", std::process::id());
        let requests = requests(block, &opened, &name);
        // All are answered but those that begin and end the batch.
        let answers = requests.len().saturating_sub(2);
        table.batch(requests, answers)?;
        fs::write(forwarding(device), "1")?;
        for device in &opened {
            rests.set(&forwarding(device), "1")?;
        }
        Ok(Self { _rests: rests, _table: table })
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
const FORWARD: u32 = 2;
const POST_ROUTING: u32 = 4;
/// Where packets are let through or not.
const FILTER: u32 = 0;
/// Where source addresses are translated.
const SOURCE_NAT: u32 = 100;
const VERDICT: u32 = 0;
const REGISTER: u32 = 1;
const NETWORK_HEADER: u32 = 1;
const SOURCE_OFFSET: u32 = 12;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
/// What is looked at: the device that a packet came by, and that it leaves by.
const FROM_DEVICE: u32 = 6;
const TO_DEVICE: u32 = 7;
/// Bytes of a device's name, zeros at its end.
const DEVICE_BYTES: usize = 16;
/// What is looked at: the state of a packet's connection.
const STATE: u32 = 0;
/// The packet belongs to a connection that was let through before.
const ESTABLISHED_OR_RELATED: u32 = 2 | 4;

/// A table in which what comes from the block gets the address of the device that it leaves
/// through. Of what comes by the `opened` devices, for which this machine forwards nothing without
/// us, only answers to links get through.
fn requests(block: Block, opened: &[String], name: &str) -> Vec<Request> {
    let (IpAddr::V4(network), prefix) = block.networks()[0] else { return Vec::new() };
    let name = [name.as_bytes(), &[0]].concat();
    let begin_or_end = |kind| Request::new(kind, 0, &[0, 0, 0, SUBSYSTEM as u8]);
    // Rules come one after the other: without this flag, each would be before the others.
    let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND | libc::NLM_F_ACK;
    let made = |kind| Request::new(kind, flags, &[IPV4, 0, 0, 0]).with(1, &name);
    let chain = |chain: &[u8], kind: &[u8], hook: u32, priority: u32| {
        let hook = numbers(&[(1, hook), (2, priority)]);
        made(NEW_CHAIN).with(3, chain).with(4, &hook).with(7, kind)
    };
    let rule = |chain: &[u8], expressions: &[Vec<u8>]| {
        let expressions: Vec<_> = expressions.iter().map(|one| (1, one.as_slice())).collect();
        made(NEW_RULE).with(2, chain).with(4, &nested(&expressions))
    };
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    let source = [(1, REGISTER), (2, NETWORK_HEADER), (3, SOURCE_OFFSET), (4, 4)];
    let translate = [
        expression(b"payload\0", &numbers(&source)),
        keep_bits(mask.to_be_bytes()),
        compare(EQUAL, &network.octets()),
        expression(b"masq\0", &[]),
    ];
    let mut requests = vec![
        begin_or_end(BATCH_BEGIN),
        made(NEW_TABLE).with(2, &TABLE_OWNER.to_be_bytes()),
        chain(b"world\0", b"nat\0", POST_ROUTING, SOURCE_NAT),
        rule(b"world\0", &translate),
    ];
    if !opened.is_empty() {
        let answers = [
            expression(b"meta\0", &numbers(&[(1, REGISTER), (2, TO_DEVICE)])),
            // The beginning of the name: other links' answers are none of our business.
            compare(EQUAL, DEVICES.as_bytes()),
            expression(b"ct\0", &numbers(&[(1, REGISTER), (2, STATE)])),
            keep_bits(ESTABLISHED_OR_RELATED.to_ne_bytes()),
            compare(NOT_EQUAL, &[0; 4]),
            verdict(ACCEPT),
        ];
        requests.push(chain(b"through\0", b"filter\0", FORWARD, FILTER));
        requests.push(rule(b"through\0", &answers));
    }
    for device in opened {
        let mut name = device.as_bytes().to_vec();
        name.resize(DEVICE_BYTES, 0);
        let others = [
            expression(b"meta\0", &numbers(&[(1, REGISTER), (2, FROM_DEVICE)])),
            compare(EQUAL, &name),
            verdict(DROP),
        ];
        requests.push(rule(b"through\0", &others));
    }
    requests.push(begin_or_end(BATCH_END));
    requests
}

fn expression(name: &[u8], data: &[u8]) -> Vec<u8> {
    nested(&[(1, name), (2, data)])
}

/// Goes on with the rule if the register, or its beginning, is this, or is not.
fn compare(operation: u32, with: &[u8]) -> Vec<u8> {
    let registers = numbers(&[(1, REGISTER), (2, operation)]);
    let value = nested(&[(3, &nested(&[(1, with)]))]);
    expression(b"cmp\0", &[registers, value].concat())
}

/// Clears other bits of the register.
fn keep_bits(mask: [u8; 4]) -> Vec<u8> {
    let registers = numbers(&[(1, REGISTER), (2, REGISTER), (3, 4)]);
    let bits = nested(&[(4, &nested(&[(1, &mask)])), (5, &nested(&[(1, &[0; 4])]))]);
    expression(b"bitwise\0", &[registers, bits].concat())
}

fn verdict(code: u32) -> Vec<u8> {
    let verdict = nested(&[(2, &numbers(&[(1, code)]))]);
    let data = [numbers(&[(1, VERDICT)]), nested(&[(2, &verdict)])].concat();
    expression(b"immediate\0", &data)
}

/// Attributes that are numbers.
fn numbers(numbers: &[(u16, u32)]) -> Vec<u8> {
    numbers.iter().flat_map(|(kind, value)| nested(&[(*kind, &value.to_be_bytes())])).collect()
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
