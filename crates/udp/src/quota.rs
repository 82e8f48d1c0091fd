//! What one address may take of an endpoint, and what all flows take together.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of memory that may be in use: of all flows, or of those of one network as a part of it.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
    whole: Option<Arc<Self>>,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0), whole: None })
    }

    fn part(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0), whole: Some(self.clone()) })
    }

    /// Takes `bytes` if they are within the budget and within the one that it is a part of.
    /// Returns whether they are.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let fits = self.has_room(bytes);
        if fits {
            self.take(bytes);
        }
        fits
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) <= self.limit
            && self.whole.as_ref().is_none_or(|whole| whole.has_room(bytes))
    }

    /// Takes `bytes` even if they are beyond the budget.
    pub(crate) fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.take(bytes);
        }
    }

    /// `bytes` that were taken are free again.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Those whom a quota takes for one: an IPv4 address, or an IPv6 network of 64 bits, of which
/// everybody in it has all addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Network(IpAddr);

impl Network {
    pub(crate) fn of(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            IpAddr::V6(ip) => {
                let bits = ip.to_bits() & !u128::from(u64::MAX);
                Self(Ipv6Addr::from_bits(bits).into())
            }
            ip @ IpAddr::V4(_) => Self(ip),
        }
    }
}

struct Share {
    flows: usize,
    memory: Arc<Budget>,
}

/// What the flows of each network take.
pub(crate) struct Shares {
    memory: Arc<Budget>,
    per_network: u64,
    shares: HashMap<Network, Share>,
}

impl Shares {
    /// Shares of `memory` bytes, of which the flows of one network may take `per_network`.
    pub(crate) fn new(memory: u64, per_network: u64) -> Self {
        Self { memory: Budget::new(memory), per_network, shares: HashMap::new() }
    }

    /// Bytes in use.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// How many flows a network has.
    pub(crate) fn flows(&self, network: Network) -> usize {
        self.shares.get(&network).map_or(0, |share| share.flows)
    }

    /// A flow of a network begins.
    pub(crate) fn enter(&mut self, network: Network) {
        self.share(network).flows += 1;
    }

    /// The memory that the flows of a network may take.
    pub(crate) fn memory_of(&mut self, network: Network) -> Arc<Budget> {
        self.share(network).memory.clone()
    }

    fn share(&mut self, network: Network) -> &mut Share {
        let (memory, most) = (&self.memory, self.per_network);
        let share = self.shares.entry(network);
        share.or_insert_with(|| Share { flows: 0, memory: memory.part(most) })
    }

    /// A flow of a network is forgotten.
    pub(crate) fn leave(&mut self, network: Network) {
        let Some(share) = self.shares.get_mut(&network) else { return };
        share.flows -= 1;
        if share.flows == 0 {
            self.shares.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_takes_its_part_and_all_together_the_whole() {
        let mut shares = Shares::new(100, 60);
        let [one, two] = ["192.0.2.1:1", "192.0.2.2:1"].map(network);
        [one, two].into_iter().for_each(|network| shares.enter(network));
        let (first, second) = (shares.memory_of(one), shares.memory_of(two));
        assert!(first.try_take(60) && !first.try_take(1));
        assert!(second.try_take(40) && !second.try_take(1), "the whole is used up");
        second.take(5);
        first.give_back(60);
        assert_eq!(shares.memory(), 45);
        assert!(!first.try_take(56) && first.try_take(55));
        shares.leave(one);
        assert_eq!((shares.flows(one), shares.flows(two)), (0, 1));
    }

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_and_so_is_an_ipv4_address_in_either_form() {
        assert_eq!(network("[2001:db8::1]:1"), network("[2001:db8::ffff:2]:9"));
        assert_ne!(network("[2001:db8::1]:1"), network("[2001:db8:0:1::1]:1"));
        assert_eq!(network("192.0.2.1:1"), network("[::ffff:192.0.2.1]:2"));
        assert_ne!(network("192.0.2.1:1"), network("192.0.2.2:1"));
    }

    fn network(address: &str) -> Network {
        Network::of(address.parse().unwrap())
    }
}
