//! Limits of flows and memory: those of one address, and those of all flows together.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page: as many as are hashed at once, and not many times those of a packet, which is
/// what it takes to have a page kept.
pub(crate) const PAGE: u64 = 16 << 10;

/// Pages that are kept for the next flow or the next round trip, 16 MB: memory that is returned to
/// the system and taken again thousands of times a second halves the throughput.
const MAX_SPARE: usize = 1024;

/// Memory that may be in use: of all flows, or of those of one network as a part of it.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    /// Bytes.
    limit: u64,
    used: AtomicU64,
    whole: Option<Arc<Self>>,
    /// Pages that are not in use; only the whole budget has any.
    spare: Mutex<Vec<Box<[u8]>>>,
}

impl MemoryBudget {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Self::of(limit, None)
    }

    fn part(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        Self::of(limit, Some(self.clone()))
    }

    fn of(limit: u64, whole: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0), whole, spare: Mutex::default() })
    }

    /// Returns a page, with any content, if it is within the budget and within the one that this is
    /// a part of, or beyond both if it is `needed`.
    pub(crate) fn page(self: &Arc<Self>, needed: bool) -> Option<HeldMemory> {
        if !needed && !self.has_room() {
            return None;
        }
        self.take();
        let spare = self.whole().spare().pop();
        let bytes = spare.unwrap_or_else(|| vec![0; PAGE as usize].into_boxed_slice());
        Some(HeldMemory { bytes, budget: self.clone() })
    }

    fn has_room(&self) -> bool {
        self.used() + PAGE <= self.limit && self.whole.as_ref().is_none_or(|whole| whole.has_room())
    }

    fn take(&self) {
        self.used.fetch_add(PAGE, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.take();
        }
    }

    fn give_back(&self) {
        self.used.fetch_sub(PAGE, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back();
        }
    }

    fn whole(&self) -> &Self {
        self.whole.as_ref().map_or(self, |whole| whole.whole())
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        // Whatever is in a page is overwritten before it is read.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Memory that counts towards a budget for as long as it is held.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    pub(crate) bytes: Box<[u8]>,
    budget: Arc<MemoryBudget>,
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.budget.give_back();
        let mut spare = self.budget.whole().spare();
        if spare.len() < MAX_SPARE {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// The unit of a quota: an IPv4 address, or an IPv6 network of 64 bits, as a host has all addresses
/// of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// The network of an address; an IPv4 address in IPv6 form is the IPv4 address.
    pub fn of(address: SocketAddr) -> Self {
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
    memory: Arc<MemoryBudget>,
}

/// What the flows of each network take.
pub(crate) struct NetworkShares {
    memory: Arc<MemoryBudget>,
    per_network: u64,
    shares: HashMap<ClientNetwork, Share>,
}

impl NetworkShares {
    /// Shares of `memory` bytes, of which the flows of one network may take `per_network`.
    pub(crate) fn new(memory: u64, per_network: u64) -> Self {
        Self { memory: MemoryBudget::new(memory), per_network, shares: HashMap::new() }
    }

    /// Bytes in use.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// How many flows a network has.
    pub(crate) fn flows(&self, network: ClientNetwork) -> usize {
        self.shares.get(&network).map_or(0, |share| share.flows)
    }

    /// A flow of a network begins.
    pub(crate) fn enter(&mut self, network: ClientNetwork) {
        self.share(network).flows += 1;
    }

    /// The memory that the flows of a network may take.
    pub(crate) fn memory_of(&mut self, network: ClientNetwork) -> Arc<MemoryBudget> {
        self.share(network).memory.clone()
    }

    fn share(&mut self, network: ClientNetwork) -> &mut Share {
        let (memory, most) = (&self.memory, self.per_network);
        let share = self.shares.entry(network);
        share.or_insert_with(|| Share { flows: 0, memory: memory.part(most) })
    }

    /// A flow of a network is forgotten.
    pub(crate) fn leave(&mut self, network: ClientNetwork) {
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
        let mut shares = NetworkShares::new(5 * PAGE, 3 * PAGE);
        let [one, two] = ["192.0.2.1:1", "192.0.2.2:1"].map(network);
        [one, two].into_iter().for_each(|network| shares.enter(network));
        let (first, second) = (shares.memory_of(one), shares.memory_of(two));
        let pages = |budget: &Arc<MemoryBudget>, needed| -> Vec<HeldMemory> {
            std::iter::from_fn(|| budget.page(needed)).take(10).collect()
        };
        let firsts = pages(&first, false);
        let seconds = pages(&second, false);
        assert_eq!((firsts.len(), seconds.len()), (3, 2), "the whole is used up");
        let needed = pages(&second, true);
        assert_eq!((needed.len(), shares.memory()), (10, 15 * PAGE));
        drop((firsts, needed));
        assert_eq!((shares.memory(), first.used(), second.used()), (2 * PAGE, 0, 2 * PAGE));
        shares.leave(one);
        assert_eq!((shares.flows(one), shares.flows(two)), (0, 1));
    }

    #[test]
    fn pages_are_used_again_and_not_all_are_kept() {
        let budget = MemoryBudget::new(u64::MAX);
        let part = budget.part(u64::MAX);
        let at = part.page(false).map(|page| page.bytes.as_ptr());
        let again = budget.page(false);
        assert_eq!(again.as_ref().map(|page| page.bytes.as_ptr()), at);
        let many: Vec<_> = (0..MAX_SPARE + 100).map(|_| part.page(false)).collect();
        drop((again, many));
        assert_eq!((budget.spare().len(), part.spare().len(), budget.used()), (MAX_SPARE, 0, 0));
    }

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_and_so_is_an_ipv4_address_in_either_form() {
        assert_eq!(network("[2001:db8::1]:1"), network("[2001:db8::ffff:2]:9"));
        assert_ne!(network("[2001:db8::1]:1"), network("[2001:db8:0:1::1]:1"));
        assert_eq!(network("192.0.2.1:1"), network("[::ffff:192.0.2.1]:2"));
        assert_ne!(network("192.0.2.1:1"), network("192.0.2.2:1"));
    }

    fn network(address: &str) -> ClientNetwork {
        ClientNetwork::of(address.parse().unwrap())
    }
}
