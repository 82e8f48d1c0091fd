//! The name of the engine's end of a flow's socket pair. It contains the flow's owner and
//! addresses, so that any process that has the application's end can ask
//! the kernel for its peer's name and know, without any table.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use data_encoding::BASE64URL_NOPAD;

use crate::message::Token;

/// Length of a name in bytes, without the zero that abstract names begin with.
pub const NAME_LEN: usize = PREFIX.len() + TEXT_LEN;

const PREFIX: &[u8; 9] = b"cellpace/";
/// Version and kind, flow, two addresses with ports, scope.
const BODY_LEN: usize = 1 + 8 + 2 * 18 + 4;
const TAG_LEN: usize = 8;
const BINARY_LEN: usize = BODY_LEN + TAG_LEN;
const TEXT_LEN: usize = (BINARY_LEN * 4).div_ceil(3);

const VERSION: u8 = 1;
const IN_PROCESS: u8 = 1 << 4;
const IPV6: u8 = 1 << 5;
const NOT_AWAITED: u8 = 1 << 6;

/// Who runs the flow's engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The launcher.
    Launcher,
    /// The process that made the flow, through the C interface.
    Process,
}

/// A flow, as its name identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowName {
    /// The flow's number, unique for its owner.
    pub flow: u64,
    /// Who runs it.
    pub owner: Owner,
    /// The program opened the connection and did not wait for it: it may not be there yet, or
    /// never have come about.
    pub not_awaited: bool,
    /// Our address of the TCP connection.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}

impl FlowName {
    /// The name, signed: only who has the token can make a name that others with it believe, so
    /// that no stranger's socket passes for a TCP connection from an address of its choice.
    pub fn encode(&self, token: &Token) -> [u8; NAME_LEN] {
        let mut binary = [0; BINARY_LEN];
        let in_process = if self.owner == Owner::Process { IN_PROCESS } else { 0 };
        let ipv6 = if self.peer.is_ipv6() { IPV6 } else { 0 };
        let not_awaited = if self.not_awaited { NOT_AWAITED } else { 0 };
        binary[0] = VERSION | in_process | ipv6 | not_awaited;
        binary[1..9].copy_from_slice(&self.flow.to_be_bytes());
        put_address(&mut binary[9..27], self.local);
        put_address(&mut binary[27..45], self.peer);
        binary[45..49].copy_from_slice(&scope(self.peer).to_be_bytes());
        let tag = tag(&binary[..BODY_LEN], token);
        binary[BODY_LEN..].copy_from_slice(&tag);
        let mut name = [0; NAME_LEN];
        name[..PREFIX.len()].copy_from_slice(PREFIX);
        BASE64URL_NOPAD.encode_mut(&binary, &mut name[PREFIX.len()..]);
        name
    }

    /// Reads a name; `None` for any other socket's. Neither allocates nor panics.
    pub fn decode(name: &[u8], token: &Token) -> Option<Self> {
        let text: &[u8; TEXT_LEN] = name.strip_prefix(PREFIX)?.try_into().ok()?;
        let mut binary = [0; BINARY_LEN];
        BASE64URL_NOPAD.decode_mut(text, &mut binary).ok()?;
        if binary[BODY_LEN..] != tag(&binary[..BODY_LEN], token) || binary[0] & 0xf != VERSION {
            return None;
        }
        let ipv6 = binary[0] & IPV6 != 0;
        let scope = u32::from_be_bytes(binary[45..49].try_into().ok()?);
        Some(Self {
            flow: u64::from_be_bytes(binary[1..9].try_into().ok()?),
            owner: if binary[0] & IN_PROCESS != 0 { Owner::Process } else { Owner::Launcher },
            not_awaited: binary[0] & NOT_AWAITED != 0,
            local: address(binary[9..27].try_into().ok()?, ipv6, scope),
            peer: address(binary[27..45].try_into().ok()?, ipv6, scope),
        })
    }
}

fn tag(body: &[u8], token: &Token) -> [u8; TAG_LEN] {
    let hash = blake3::keyed_hash(token, body);
    std::array::from_fn(|index| hash.as_bytes()[index])
}

fn put_address(place: &mut [u8], address: SocketAddr) {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let (ip_place, port_place) = place.split_at_mut(16);
    ip_place.copy_from_slice(&ip.octets());
    port_place.copy_from_slice(&address.port().to_be_bytes());
}

fn address(bytes: &[u8; 18], ipv6: bool, scope: u32) -> SocketAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[..16]);
    let ip = Ipv6Addr::from(octets);
    let port = u16::from_be_bytes([bytes[16], bytes[17]]);
    match ip.to_ipv4_mapped() {
        Some(ip) if !ipv6 => SocketAddrV4::new(ip, port).into(),
        _ => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: Token = [3; 32];

    fn name(local: &str, peer: &str) -> FlowName {
        let [local, peer] = [local, peer].map(|text| text.parse().unwrap());
        FlowName { flow: 77, owner: Owner::Launcher, not_awaited: true, local, peer }
    }

    #[test]
    fn names_survive_for_both_families_and_mapped_addresses() {
        for name in [
            name("192.0.2.1:80", "198.51.100.7:51234"),
            name("[2001:db8::1]:443", "[2001:db8::2]:1"),
            name("[::ffff:192.0.2.1]:80", "[::ffff:198.51.100.7]:51234"),
            name("[fe80::1%3]:80", "[fe80::2%3]:65535"),
        ] {
            assert_eq!(FlowName::decode(&name.encode(&TOKEN), &TOKEN), Some(name));
        }
    }

    #[test]
    fn names_fit_into_a_socket_address_and_are_text() {
        let name = name("[fe80::1%3]:80", "[fe80::2%3]:65535").encode(&TOKEN);
        assert!(name.len() <= 107);
        assert!(name.iter().all(u8::is_ascii_graphic));
    }

    #[test]
    fn names_of_others_are_not_believed() {
        let name = name("192.0.2.1:80", "198.51.100.7:51234");
        let encoded = name.encode(&TOKEN);
        assert_eq!(FlowName::decode(&encoded, &[4; 32]), None);
        for place in 0..encoded.len() {
            let mut forged = encoded;
            forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
            assert_ne!(FlowName::decode(&forged, &TOKEN), Some(name), "byte {place}");
        }
        assert_eq!(FlowName::decode(&encoded[..encoded.len() - 1], &TOKEN), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            prop_assert_eq!(FlowName::decode(&bytes, &TOKEN), None);
        }
    }
}
