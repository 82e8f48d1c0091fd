//! Reads from a packet's bytes to which flow it belongs.

use std::collections::HashMap;

/// A flow: addresses and ports, whichever way the packet goes, so that both directions of a
/// connection have one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowKey {
    near: PacketEnd,
    far: PacketEnd,
    protocol: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PacketEnd {
    address: u128,
    port: u16,
}

/// What a packet is to the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// It goes through the link.
    Flow(FlowKey),
    /// It does not: multicast and what is no IP packet.
    Ignored,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Reads a packet that goes from the near end to the far one (`outwards`) or back.
pub(crate) fn read(packet: &[u8], outwards: bool) -> PacketKind {
    let ends = match packet.first().map(|byte| byte >> 4) {
        Some(4) => read_v4(packet),
        Some(6) => read_v6(packet),
        _ => None,
    };
    let Some((source, destination, protocol)) = ends else { return PacketKind::Ignored };
    let (near, far) = if outwards { (source, destination) } else { (destination, source) };
    PacketKind::Flow(FlowKey { near, far, protocol })
}

fn read_v4(packet: &[u8]) -> Option<(PacketEnd, PacketEnd, u8)> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let (source, destination) = (word(12), word(16));
    if destination >> 28 == 0xe {
        return None;
    }
    let length = usize::from(header[0] & 15) * 4;
    let protocol = header[9];
    // Later fragments have no ports; they must not be taken for another flow's.
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let ports = if is_fragment { (0, 0) } else { ports(protocol, packet.get(length..)) };
    Some((end(u128::from(source), ports.0), end(u128::from(destination), ports.1), protocol))
}

fn read_v6(packet: &[u8]) -> Option<(PacketEnd, PacketEnd, u8)> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let address = |at: usize| -> u128 {
        header[at..at + 16].iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte))
    };
    let (source, destination) = (address(8), address(24));
    if destination >> 120 == 0xff {
        return None;
    }
    let protocol = header[6];
    let ports = ports(protocol, packet.get(40..));
    Some((end(source, ports.0), end(destination, ports.1), protocol))
}

const fn end(address: u128, port: u16) -> PacketEnd {
    PacketEnd { address, port }
}

fn ports(protocol: u8, payload: Option<&[u8]>) -> (u16, u16) {
    match payload.and_then(<[u8]>::first_chunk) {
        Some([a, b, c, d]) if matches!(protocol, TCP | UDP) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

/// Numbers flows in the order of their first packets. From [`MAX_FLOWS`] on they share one.
#[derive(Debug, Default)]
pub(crate) struct FlowNumbers {
    numbers: HashMap<FlowKey, u32>,
    last: Option<(FlowKey, u32)>,
}

/// Maximum number of flows with numbers of their own.
pub(crate) const MAX_FLOWS: u32 = 65_536;

impl FlowNumbers {
    pub(crate) fn number(&mut self, key: FlowKey) -> u32 {
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let next = self.numbers.len() as u32;
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if next < MAX_FLOWS => *self.numbers.entry(key).or_insert(next),
            None => MAX_FLOWS,
        };
        self.last = Some((key, number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(source: [u8; 4], destination: [u8; 4], protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
        packet[20..22].copy_from_slice(&ports[0].to_be_bytes());
        packet[22..24].copy_from_slice(&ports[1].to_be_bytes());
        packet
    }

    fn key(packet: &[u8], outwards: bool) -> FlowKey {
        match read(packet, outwards) {
            PacketKind::Flow(key) => key,
            PacketKind::Ignored => panic!("ignored {packet:?}"),
        }
    }

    const A: [u8; 4] = [100, 64, 0, 1];
    const B: [u8; 4] = [100, 64, 0, 2];

    #[test]
    fn both_directions_of_a_connection_are_one_flow() {
        let there = key(&v4(B, A, TCP, [40_000, 80]), true);
        assert_eq!(there, key(&v4(A, B, TCP, [80, 40_000]), false));
        assert_ne!(there, key(&v4(B, A, TCP, [40_001, 80]), true));
        assert_ne!(there, key(&v4(B, A, UDP, [40_000, 80]), true));
        assert_eq!(key(&v4(B, A, 1, [1, 2]), true), key(&v4(A, B, 1, [3, 4]), false), "ICMP");
    }

    #[test]
    fn options_move_the_ports_and_fragments_have_none() {
        let mut options = v4(B, A, TCP, [0, 0]);
        options[0] = 0x46;
        options[24..28].copy_from_slice(&[0x9c, 0x40, 0, 80]);
        assert_eq!(key(&options, true), key(&v4(B, A, TCP, [40_000, 80]), true));
        let mut fragment = v4(B, A, UDP, [7, 8]);
        fragment[7] = 9;
        assert_eq!(key(&fragment, true), key(&v4(B, A, UDP, [0, 0]), true));
    }

    #[test]
    fn ipv6_is_read_too() {
        let mut packet = vec![0; 48];
        packet[0] = 0x60;
        packet[6] = UDP;
        packet[23] = 1;
        packet[39] = 2;
        packet[40..44].copy_from_slice(&[0, 5, 0, 6]);
        let there = key(&packet, true);
        packet[23] = 2;
        packet[39] = 1;
        packet[40..44].copy_from_slice(&[0, 6, 0, 5]);
        assert_eq!(there, key(&packet, false));
    }

    #[test]
    fn multicast_and_garbage_do_not_go_through() {
        assert_eq!(read(&v4(B, [224, 0, 0, 22], 2, [0, 0]), true), PacketKind::Ignored);
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[24] = 0xff;
        assert_eq!(read(&packet, true), PacketKind::Ignored);
        assert_eq!(read(&[], true), PacketKind::Ignored);
        assert_eq!(read(&[0x45; 19], true), PacketKind::Ignored);
        assert_eq!(read(&[0x60; 39], true), PacketKind::Ignored);
    }

    #[test]
    fn numbers_are_dense_and_end() {
        let mut table = FlowNumbers::default();
        let key = |n: u32| FlowKey { near: end(u128::from(n), 1), far: end(0, 2), protocol: UDP };
        assert_eq!([0, 1, 0, 2, 1].map(|n| table.number(key(n))), [0, 1, 0, 2, 1]);
        for n in 0..MAX_FLOWS + 10 {
            assert_eq!(table.number(key(n)), n.min(MAX_FLOWS));
        }
        assert_eq!(table.number(key(5)), 5, "those that are known stay known");
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..80), outwards: bool) {
            let _ = read(&bytes, outwards);
        }
    }
}
