//! Reads from a packet's bytes to which flow it belongs.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use cellpace_base::Ecn;

/// A flow: addresses and ports, whichever way the packet goes, so that both directions of a
/// connection have one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowKey {
    near: PacketAddress,
    far: PacketAddress,
    protocol: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PacketAddress {
    address: u128,
    port: u16,
}

/// `TCP 100.64.0.2:5000 - 192.0.2.1:80`, the end inside first.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: PacketAddress| match (u32::try_from(end.address), self.protocol) {
            (Ok(v4), TCP | UDP) => SocketAddr::from((Ipv4Addr::from(v4), end.port)).to_string(),
            (Err(_), TCP | UDP) => {
                SocketAddr::from((Ipv6Addr::from(end.address), end.port)).to_string()
            }
            (Ok(v4), _) => Ipv4Addr::from(v4).to_string(),
            (Err(_), _) => Ipv6Addr::from(end.address).to_string(),
        };
        let protocol = match self.protocol {
            TCP => "TCP".to_owned(),
            UDP => "UDP".to_owned(),
            1 | ICMPV6 => "ICMP".to_owned(),
            other => format!("protocol {other}"),
        };
        write!(f, "{protocol} {} - {}", end(self.near), end(self.far))
    }
}

/// Flips a bit of a packet behind its header: checksums of TCP, UDP and ICMP then do not fit.
pub(crate) fn corrupt(packet: &mut [u8]) {
    if let Some(last) = packet.last_mut() {
        *last ^= 1;
    }
}

/// The codepoint of an IP packet. What is none, and a fragment, has none: a mark on a part would be
/// lost or doubled when the parts are put together.
pub(crate) fn ecn(packet: &[u8]) -> Ecn {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 && !is_fragment_v4(packet) => Ecn::from_bits(packet[1]),
        // The traffic class: the four bits behind the version, and the next four.
        Some(6) if packet.len() >= 40 => Ecn::from_bits(packet[1] >> 4),
        _ => Ecn::NotEct,
    }
}

/// Writes a codepoint to a packet from which [`ecn`] can read one. DSCP stays, and IPv4's header
/// checksum is right again.
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 && !is_fragment_v4(packet) => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] = packet[1] & !0b11 | ecn.bits();
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            // RFC 1624 equation 3: HC' = ~(~HC + ~m + m')
            let sum = u16::from_be_bytes([packet[10], packet[11]]);
            let words = [!sum, !before, after].map(u16::to_be_bytes).concat();
            packet[10..12].copy_from_slice(&checksum(&words, 0).to_be_bytes());
        }
        Some(6) if packet.len() >= 40 => packet[1] = packet[1] & !0b11_0000 | ecn.bits() << 4,
        _ => {}
    }
}

/// Whether it is the first or a later part of a packet.
fn is_fragment_v4(packet: &[u8]) -> bool {
    u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0
}

/// The address to which a packet goes, with its port, if it is one that the link takes.
pub(crate) fn destination(packet: &[u8]) -> Option<SocketAddr> {
    let is_v4 = packet.first()? >> 4 == 4;
    let PacketKind::Flow(FlowKey { far: PacketAddress { address, port }, .. }) = read(packet, true)
    else {
        return None;
    };
    let ip = match is_v4 {
        true => IpAddr::V4(Ipv4Addr::from_bits(address as u32)),
        false => IpAddr::V6(Ipv6Addr::from_bits(address)),
    };
    Some(SocketAddr::new(ip, port))
}

/// The protocol numbers of ICMP.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Bytes of the packet that the answer repeats at most: all answers fit into the smallest MTU of
/// IPv6 (RFC 4443 section 3.1), and those of IPv4 into the 576 bytes of RFC 1812 section 4.3.2.3.
const REPEATED: [usize; 2] = [548, 1232];

/// The answer `from` a router that a packet has no way: ICMP destination unreachable. `None` for
/// packets that must not be answered (RFC 1122 section 3.2.2): errors, and later fragments.
pub(crate) fn unreachable(packet: &[u8], from: IpAddr) -> Option<Vec<u8>> {
    match from {
        IpAddr::V4(from) => unreachable_v4(packet, from),
        IpAddr::V6(from) => unreachable_v6(packet, from),
    }
}

fn unreachable_v4(packet: &[u8], from: Ipv4Addr) -> Option<Vec<u8>> {
    /// Type 3, code 9: network administratively prohibited. To UDP sockets, too, this is an error,
    /// while they take code 0 for a passing trouble.
    const PROHIBITED: [u8; 2] = [3, 9];
    let header: &[u8; 20] = packet.first_chunk()?;
    let payload = packet.get(usize::from(header[0] & 15) * 4..)?;
    let is_later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let is_query = matches!(payload.first(), Some(8 | 13 | 15 | 17));
    let is_error = header[9] == ICMP && !is_query;
    let is_broadcast = header[16..20] == [255; 4];
    if is_later_fragment || is_error || is_broadcast {
        return None;
    }
    let mut message = PROHIBITED.to_vec();
    message.extend_from_slice(&[0; 6]);
    message.extend_from_slice(&packet[..packet.len().min(REPEATED[0])]);
    let sum = checksum(&message, 0);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut answer = vec![0x45, 0];
    answer.extend_from_slice(&(20 + message.len() as u16).to_be_bytes());
    answer.extend_from_slice(&[0, 0, 0, 0, 64, ICMP, 0, 0]);
    answer.extend_from_slice(&from.octets());
    answer.extend_from_slice(&header[12..16]);
    let sum = checksum(&answer, 0);
    answer[10..12].copy_from_slice(&sum.to_be_bytes());
    answer.extend(message);
    Some(answer)
}

fn unreachable_v6(packet: &[u8], from: Ipv6Addr) -> Option<Vec<u8>> {
    /// Type 1, code 0: no route to destination.
    const NO_ROUTE: [u8; 2] = [1, 0];
    let header: &[u8; 40] = packet.first_chunk()?;
    // Errors have types below 128.
    if header[6] == ICMPV6 && packet.get(40).is_none_or(|kind| *kind < 128) {
        return None;
    }
    let mut message = NO_ROUTE.to_vec();
    message.extend_from_slice(&[0; 6]);
    message.extend_from_slice(&packet[..packet.len().min(REPEATED[1])]);
    let mut answer = vec![0x60, 0, 0, 0];
    answer.extend_from_slice(&(message.len() as u16).to_be_bytes());
    answer.extend_from_slice(&[ICMPV6, 64]);
    answer.extend_from_slice(&from.octets());
    answer.extend_from_slice(&header[8..24]);
    // The sum covers the addresses, the length and the protocol (RFC 8200 section 8.1).
    let pseudo = sum_words(&answer[8..40]) + message.len() as u32 + u32::from(ICMPV6);
    let sum = checksum(&message, pseudo);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    answer.extend(message);
    Some(answer)
}

fn sum_words(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

/// The internet checksum (RFC 1071), begun with a sum of other words.
fn checksum(bytes: &[u8], begun: u32) -> u16 {
    let mut sum = begun + sum_words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
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

fn read_v4(packet: &[u8]) -> Option<(PacketAddress, PacketAddress, u8)> {
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

fn read_v6(packet: &[u8]) -> Option<(PacketAddress, PacketAddress, u8)> {
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

const fn end(address: u128, port: u16) -> PacketAddress {
    PacketAddress { address, port }
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
    /// The number of a flow, and whether it has just been given to it.
    pub(crate) fn number(&mut self, key: FlowKey) -> (u32, bool) {
        if let Some((last, number)) = self.last
            && last == key
        {
            return (number, false);
        }
        let next = self.numbers.len() as u32;
        let (number, is_new) = match self.numbers.get(&key) {
            Some(number) => (*number, false),
            None if next < MAX_FLOWS => (*self.numbers.entry(key).or_insert(next), true),
            None => (MAX_FLOWS, false),
        };
        self.last = Some((key, number));
        (number, is_new)
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
    fn a_flow_is_named_by_its_ends() {
        let name = |protocol, ports| key(&v4(A, B, protocol, ports), true).to_string();
        assert_eq!(name(TCP, [5000, 80]), "TCP 100.64.0.1:5000 - 100.64.0.2:80");
        assert_eq!(name(1, [0, 0]), "ICMP 100.64.0.1 - 100.64.0.2");
    }

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
    fn ecn_is_read_and_written_and_the_checksum_stays_right() {
        // The header of docs/spec/l4s.md section 1.
        let mut packet = vec![
            0x45, 0x02, 0x00, 0x5c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x11, 0xb1, 0xb9, 0xac, 0x10,
            0x0a, 0x63, 0xac, 0x10, 0x0a, 0x0c,
        ];
        assert_eq!((checksum(&packet, 0), ecn(&packet)), (0, Ecn::Ect0));
        set_ecn(&mut packet, Ecn::Ce);
        assert_eq!(packet[10..12], [0xb1, 0xb8]);
        assert_eq!((checksum(&packet, 0), ecn(&packet)), (0, Ecn::Ce));
        packet[1] = 0xb8;
        for bits in 0..4 {
            let sum = checksum(&[&packet[..10], &[0, 0], &packet[12..]].concat(), 0);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            set_ecn(&mut packet, Ecn::from_bits(bits));
            assert_eq!((packet[1], checksum(&packet, 0)), (0xb8 | bits, 0), "DSCP stays");
        }
        let mut packet = vec![0; 40];
        (packet[0], packet[1]) = (0x6b, 0x9a);
        assert_eq!(ecn(&packet), Ecn::Ect1);
        set_ecn(&mut packet, Ecn::Ce);
        assert_eq!((packet[0], packet[1], ecn(&packet)), (0x6b, 0xba, Ecn::Ce));
    }

    #[test]
    fn fragments_and_what_is_no_ip_packet_are_never_marked() {
        let mut fragment = v4(B, A, UDP, [7, 8]);
        (fragment[1], fragment[6]) = (2, 0x20);
        for packet in [fragment, vec![], vec![0x45; 19], vec![0x60; 39], vec![0x85; 60]] {
            assert_eq!(ecn(&packet), Ecn::NotEct);
            let mut written = packet.clone();
            set_ecn(&mut written, Ecn::Ce);
            assert_eq!(written, packet);
        }
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
        assert_eq!([0, 1, 0, 2, 1].map(|n| table.number(key(n)).0), [0, 1, 0, 2, 1]);
        for n in 0..MAX_FLOWS + 10 {
            assert_eq!(table.number(key(n)).0, n.min(MAX_FLOWS));
        }
        assert_eq!(table.number(key(5)), (5, false), "those that are known stay known");
    }

    #[test]
    fn a_packet_without_a_way_is_answered() {
        let packet = v4(B, [192, 0, 2, 1], TCP, [40_000, 80]);
        assert_eq!(destination(&packet), Some("192.0.2.1:80".parse().unwrap()));
        let answer = unreachable(&packet, A.into()).unwrap();
        assert_eq!(
            (&answer[12..16], &answer[16..20], &answer[20..22]),
            (&A[..], &B[..], &[3, 9][..])
        );
        assert_eq!(&answer[28..], packet, "with what was refused");
        assert_eq!(u16::from_be_bytes([answer[2], answer[3]]) as usize, answer.len());
        // A sum over a part with its checksum is zero.
        assert_eq!((checksum(&answer[..20], 0), checksum(&answer[20..], 0)), (0, 0));

        let long = [v4(B, [192, 0, 2, 1], UDP, [1, 2]), vec![7; 1400]].concat();
        assert_eq!(unreachable(&long, A.into()).unwrap().len(), 576);
    }

    #[test]
    fn a_packet_of_ipv6_without_a_way_is_answered() {
        let mut packet = vec![0; 61];
        (packet[0], packet[6], packet[23], packet[39]) = (0x60, TCP, 1, 2);
        let from: Ipv6Addr = "fd63::1".parse().unwrap();
        let answer = unreachable(&packet, from.into()).unwrap();
        assert_eq!((answer[6], &answer[40..42]), (ICMPV6, &[1, 0][..]));
        assert_eq!((&answer[8..24], &answer[24..40]), (&from.octets()[..], &packet[8..24]));
        let pseudo = sum_words(&answer[8..40]) + (answer.len() - 40) as u32 + 58;
        assert_eq!(checksum(&answer[40..], pseudo), 0);
        assert_eq!(destination(&packet).unwrap().to_string(), "[::2]:0");
    }

    #[test]
    fn errors_and_later_fragments_are_not_answered() {
        let mut error = v4(B, [192, 0, 2, 1], ICMP, [0, 0]);
        error[20] = 3;
        assert_eq!(unreachable(&error, A.into()), None);
        error[20] = 8;
        assert!(unreachable(&error, A.into()).is_some(), "an echo request is");
        let mut fragment = v4(B, [192, 0, 2, 1], UDP, [1, 2]);
        fragment[7] = 9;
        assert_eq!(unreachable(&fragment, A.into()), None);
        assert_eq!(unreachable(&v4(B, [255; 4], UDP, [68, 67]), A.into()), None);
        let mut error = vec![0; 48];
        (error[0], error[6], error[40]) = (0x60, ICMPV6, 1);
        assert_eq!(unreachable(&error, IpAddr::V6(Ipv6Addr::LOCALHOST)), None);
    }

    #[test]
    fn a_corrupted_packet_differs_behind_its_header() {
        let packet = v4(B, A, UDP, [1, 2]);
        let mut other = packet.clone();
        corrupt(&mut other);
        assert!(other[..20] == packet[..20] && other != packet);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..80), outwards: bool) {
            let _ = read(&bytes, outwards);
            let _ = (destination(&bytes), unreachable(&bytes, A.into()));
            let _ = unreachable(&bytes, IpAddr::V6(Ipv6Addr::LOCALHOST));
            corrupt(&mut bytes);
        }
    }
}
