//! The addresses of links. None is in use elsewhere, and links can nest.
//!
//! A link takes a block of 100.64.0.0/10 (RFC 6598: shared address space, which neither the
//! internet nor home networks use). Its first address is the far side's, its second the
//! inside's, and the rest is for links that are started inside: the far side already sends the
//! whole block through the link, so that nested links need no address translation. IPv6
//! addresses are the same blocks behind a prefix of their own (RFC 4193).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::EmuError;
use crate::devices::UsedNetwork;

/// The pool: 100.64.0.0/10.
const POOL: AddressBlock = AddressBlock { base: 0x6440_0000, prefix: 10 };

/// Length of the blocks of links that are not inside another.
const OUTERMOST: u8 = 20;

/// How much longer the prefix of a nested link's block is than that around it: eight blocks, the
/// first of which is taken by the addresses of the link around.
const STEP: u8 = 3;

/// The longest prefix: a network address, two ends, and room.
const MAX_PREFIX: u8 = 29;

/// Prefix of the IPv6 addresses: fd63:656c:6c70::/96, from the letters `cellp`.
const V6_PREFIX: u128 = 0xfd63_656c_6c70 << 80;

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressBlock {
    base: u32,
    prefix: u8,
}

impl AddressBlock {
    /// The blocks a link may take in a namespace with these networks, best first, beginning with
    /// number `start`: links that start at the same moment should not try the same one.
    pub(crate) fn candidates(networks: &[UsedNetwork], start: u32) -> Result<Vec<Self>, EmuError> {
        let around = Self::around(networks);
        let (space, prefix) = match around {
            Some(block) => (block, block.prefix + STEP),
            None => (POOL, OUTERMOST),
        };
        if prefix > MAX_PREFIX {
            return Err(EmuError::TooDeep);
        }
        let taken: Vec<Self> = networks
            .iter()
            .filter(|network| network.prefix > 0 && !network.unreachable)
            .filter_map(Self::of)
            .collect();
        let number = 1_u32 << (prefix - space.prefix);
        let block = |index: u32| Self { base: space.base + (index << (32 - prefix)), prefix };
        let free: Vec<Self> = (0..number)
            .map(|offset| block(start.wrapping_add(offset) % number))
            .filter(|block| !taken.iter().any(|other| other.overlaps(*block)))
            .collect();
        if free.is_empty() { Err(EmuError::NoAddress) } else { Ok(free) }
    }

    /// The block of the link in which this namespace is the inside.
    fn around(networks: &[UsedNetwork]) -> Option<Self> {
        let given = networks.iter().filter(|network| network.unreachable).filter_map(Self::of);
        given.filter(|block| POOL.contains(*block)).max_by_key(|block| block.prefix)
    }

    /// The block that a network is; `None` for IPv6.
    pub(crate) fn of(network: &UsedNetwork) -> Option<Self> {
        match network.address {
            IpAddr::V4(address) => {
                let base = address.to_bits() & mask(network.prefix);
                Some(Self { base, prefix: network.prefix })
            }
            IpAddr::V6(_) => None,
        }
    }

    fn contains(self, other: Self) -> bool {
        other.prefix >= self.prefix && other.base & mask(self.prefix) == self.base
    }

    fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// The network in both families, with its prefix length.
    pub(crate) fn networks(self) -> [(IpAddr, u8); 2] {
        let [v4, v6] = both(self.base);
        [(v4, self.prefix), (v6, 96 + self.prefix)]
    }

    /// Addresses of the far side, IPv4 and IPv6.
    pub(crate) fn far(self) -> [IpAddr; 2] {
        both(self.base + 1)
    }

    /// Addresses of the inside, IPv4 and IPv6.
    pub(crate) fn inside(self) -> [IpAddr; 2] {
        both(self.base + 2)
    }
}

/// Whether an address can be that of a far side.
pub(crate) fn is_ours(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.to_bits() & mask(POOL.prefix) == POOL.base,
        IpAddr::V6(address) => address.to_bits() >> 32 == V6_PREFIX >> 32,
    }
}

fn both(bits: u32) -> [IpAddr; 2] {
    let v6 = Ipv6Addr::from_bits(V6_PREFIX | u128::from(bits));
    [Ipv4Addr::from_bits(bits).into(), v6.into()]
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(text: &str) -> UsedNetwork {
        let (address, prefix) = text.split_once('/').unwrap();
        let unreachable = prefix.ends_with('!');
        UsedNetwork {
            address: address.parse().unwrap(),
            prefix: prefix.trim_end_matches('!').parse().unwrap(),
            unreachable,
        }
    }

    fn first(networks: &[&str]) -> AddressBlock {
        let networks: Vec<_> = networks.iter().map(|text| network(text)).collect();
        AddressBlock::candidates(&networks, 0).unwrap()[0]
    }

    #[test]
    fn a_link_takes_what_nobody_has() {
        let free = first(&["10.0.0.5/24", "0.0.0.0/0"]);
        assert_eq!(free.far().map(|ip| ip.to_string()), ["100.64.0.1", "fd63:656c:6c70::6440:1"]);
        assert_eq!(free.inside()[0].to_string(), "100.64.0.2");
        // A carrier's network, and a link that is there already.
        let free = first(&["100.64.0.0/12", "100.80.0.1/32", "100.80.16.0/20"]);
        assert_eq!(free.networks()[0], ("100.80.32.0".parse().unwrap(), 20));
    }

    #[test]
    fn nested_links_take_parts_of_the_block_around_them() {
        let block = |nets: &[&str]| first(nets).networks()[0];
        let outer = ["100.64.16.2/32", "100.64.16.1/32", "100.64.16.0/20!"];
        assert_eq!(block(&outer), ("100.64.18.0".parse().unwrap(), 23));
        let sibling = [&outer[..], &["100.64.18.0/23"]].concat();
        assert_eq!(block(&sibling), ("100.64.20.0".parse().unwrap(), 23));
        let deeper = ["100.64.18.2/32", "100.64.18.1/32", "100.64.18.0/23!"];
        assert_eq!(block(&deeper), ("100.64.18.64".parse().unwrap(), 26));
        let deepest = network("100.64.18.72/29!");
        assert!(matches!(AddressBlock::candidates(&[deepest], 0), Err(EmuError::TooDeep)));
    }

    #[test]
    fn a_full_pool_is_an_error() {
        let all = network("100.64.0.0/10");
        assert!(matches!(AddressBlock::candidates(&[all], 0), Err(EmuError::NoAddress)));
    }

    proptest! {
        #[test]
        fn candidates_never_overlap_what_is_there(
            taken in prop::collection::vec((0x6440_0000_u32..0x6480_0000, 12_u8..=32), 0..40),
            start: u32,
        ) {
            let taken: Vec<_> = taken
                .into_iter()
                .map(|(bits, prefix)| UsedNetwork {
                    address: Ipv4Addr::from_bits(bits).into(), prefix, unreachable: false,
                })
                .collect();
            if let Ok(free) = AddressBlock::candidates(&taken, start) {
                for block in free {
                    prop_assert!(POOL.contains(block));
                    for other in taken.iter().filter_map(AddressBlock::of) {
                        prop_assert!(!block.overlaps(other));
                    }
                    prop_assert!(is_ours(block.far()[0]) && is_ours(block.inside()[1]));
                }
            }
        }
    }
}
