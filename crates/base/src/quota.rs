//! Quotas of listeners: what one client network may take, and what all of them may take together.
//!
//! Every listener of the program takes its limits from here: places for connections, and memory for
//! what arrives.

// Addresses as numbers: no sockets.
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page: as many as are hashed at once, and not many times those of a packet, which is
/// what it takes to have a page kept.
pub const PAGE: u64 = 16 << 10;

/// Bytes of memory for what arrives at a listener, all of its connections together.
pub const LISTENER_MEMORY: u64 = 1 << 30;

/// The part of places and memory that one client network may take: one in this many.
const NETWORK_PART: usize = 4;

/// Places that one network may have in any case: several flows or requests side by side are common.
const MIN_NETWORK_PLACES: usize = 64;

/// Pages that are kept for the next flow or the next round trip, 16 MB: memory that is returned to
/// the system and taken again thousands of times a second halves the throughput.
const MAX_SPARE: usize = 1024;

/// The places that one network may have of `all`: a quarter, but at least 64.
pub fn network_places(all: usize) -> usize {
    (all / NETWORK_PART).max(MIN_NETWORK_PLACES)
}

/// The memory that one network may have of `all` bytes: a quarter, but at least `least`.
pub fn network_memory(all: u64, least: u64) -> u64 {
    (all / NETWORK_PART as u64).max(least)
}

/// Memory that may be in use: of all flows, or of those of one network as a part of it.
#[derive(Debug)]
pub struct MemoryBudget {
    /// Bytes.
    limit: u64,
    used: AtomicU64,
    whole: Option<Arc<Self>>,
    /// Pages that are not in use; only the whole budget has any.
    spare: Mutex<Vec<Box<[u8]>>>,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
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
    pub fn page(self: &Arc<Self>, needed: bool) -> Option<HeldMemory> {
        match needed {
            true => self.take(PAGE),
            false => self.try_take(PAGE).then_some(())?,
        }
        let spare = self.whole().spare().pop();
        let bytes = spare.unwrap_or_else(|| vec![0; PAGE as usize].into_boxed_slice());
        Some(HeldMemory { bytes, budget: self.clone() })
    }

    /// Memory of this budget that its owner counts, none at first.
    pub fn tally(self: &Arc<Self>) -> MemoryTally {
        MemoryTally { bytes: 0, budget: self.clone() }
    }

    fn try_take(&self, bytes: u64) -> bool {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before.saturating_add(bytes) <= self.limit
            && self.whole.as_ref().is_none_or(|whole| whole.try_take(bytes));
        if !has_room {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_room
    }

    fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.take(bytes);
        }
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
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
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// Memory that counts towards a budget for as long as it is held.
#[derive(Debug)]
pub struct HeldMemory {
    /// The page.
    pub bytes: Box<[u8]>,
    budget: Arc<MemoryBudget>,
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.budget.give_back(PAGE);
        let mut spare = self.budget.whole().spare();
        if spare.len() < MAX_SPARE {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Bytes that an owner holds of a budget, given back when it is dropped.
#[derive(Debug)]
pub struct MemoryTally {
    bytes: u64,
    budget: Arc<MemoryBudget>,
}

impl MemoryTally {
    /// Counts so many bytes more, if they are within the budget. Returns whether they are.
    #[must_use]
    pub fn add(&mut self, bytes: u64) -> bool {
        let has_room = self.budget.try_take(bytes);
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Gives so many bytes back, at most those that are held.
    pub fn subtract(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.give_back(bytes);
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for MemoryTally {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// The unit of a quota: an IPv4 address, or an IPv6 network of 64 bits, as a host has all addresses
/// of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// The network of an address; an IPv4 address in IPv6 form is the IPv4 address.
    pub fn of(address: SocketAddr) -> Self {
        Self::of_ip(address.ip())
    }

    /// The same of an address without a port.
    pub fn of_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V6(ip) => {
                let bits = ip.to_bits() & !u128::from(u64::MAX);
                Self(Ipv6Addr::from_bits(bits).into())
            }
            ip @ IpAddr::V4(_) => Self(ip),
        }
    }
}

#[derive(Debug)]
struct Share {
    flows: usize,
    memory: Arc<MemoryBudget>,
}

/// What the flows of each network take.
#[derive(Debug)]
pub struct NetworkShares {
    memory: Arc<MemoryBudget>,
    per_network: u64,
    shares: HashMap<ClientNetwork, Share>,
}

impl NetworkShares {
    /// Shares of `memory` bytes, of which the flows of one network may take `per_network`.
    pub fn new(memory: u64, per_network: u64) -> Self {
        Self { memory: MemoryBudget::new(memory), per_network, shares: HashMap::new() }
    }

    /// Bytes in use.
    pub fn memory(&self) -> u64 {
        self.memory.used()
    }

    /// How many flows a network has.
    pub fn flows(&self, network: ClientNetwork) -> usize {
        self.shares.get(&network).map_or(0, |share| share.flows)
    }

    /// A flow of a network begins.
    pub fn enter(&mut self, network: ClientNetwork) {
        self.share(network).flows += 1;
    }

    /// The memory that the flows of a network may take.
    pub fn memory_of(&mut self, network: ClientNetwork) -> Arc<MemoryBudget> {
        self.share(network).memory.clone()
    }

    fn share(&mut self, network: ClientNetwork) -> &mut Share {
        let (memory, most) = (&self.memory, self.per_network);
        let share = self.shares.entry(network);
        share.or_insert_with(|| Share { flows: 0, memory: memory.part(most) })
    }

    /// A flow of a network is forgotten.
    pub fn leave(&mut self, network: ClientNetwork) {
        let Some(share) = self.shares.get_mut(&network) else { return };
        share.flows -= 1;
        if share.flows == 0 {
            self.shares.remove(&network);
        }
    }
}

/// Places for connections, shared among threads: so many in all, and so many of one network.
#[derive(Debug)]
pub struct Places {
    most: usize,
    most_per_network: usize,
    taken: Mutex<(usize, NetworkShares)>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// All are taken.
    #[error("it has {0} connections already")]
    All(usize),
    /// The network has all that it may have.
    #[error("it has {0} connections of this address already")]
    Network(usize),
}

impl Places {
    /// So many places, of which one network may have `most_per_network`, and memory for what arrives.
    pub fn new(most: usize, most_per_network: usize, memory: u64) -> Arc<Self> {
        let shares = NetworkShares::new(memory, network_memory(memory, 0));
        Arc::new(Self { most, most_per_network, taken: Mutex::new((0, shares)) })
    }

    /// Takes a place for a connection from `address`.
    ///
    /// # Errors
    /// When there is none.
    pub fn take(self: &Arc<Self>, address: SocketAddr) -> Result<Place, NoPlace> {
        let network = ClientNetwork::of(address);
        let mut taken = self.lock();
        if taken.0 >= self.most {
            return Err(NoPlace::All(self.most));
        }
        if taken.1.flows(network) >= self.most_per_network {
            return Err(NoPlace::Network(self.most_per_network));
        }
        taken.0 += 1;
        taken.1.enter(network);
        let memory = taken.1.memory_of(network);
        Ok(Place { places: self.clone(), network, memory })
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.lock().0
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> u64 {
        self.lock().1.memory()
    }

    fn lock(&self) -> MutexGuard<'_, (usize, NetworkShares)> {
        // Nothing that panics happens while it is held.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    network: ClientNetwork,
    memory: Arc<MemoryBudget>,
}

impl Place {
    /// The memory of its network.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.0 -= 1;
        taken.1.leave(self.network);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn places_are_bounded_in_all_and_for_each_network_and_come_back() {
        let places = Places::new(5, 2, 1 << 20);
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let [one, same] = ["[2001:db8::1]:1", "[2001:db8::2]:2"].map(address);
        let first = places.take(one).unwrap();
        let _second = places.take(same).unwrap();
        assert_eq!(places.take(one).unwrap_err(), NoPlace::Network(2));
        let others: Vec<Place> =
            (1..4).map(|host| places.take(([192, 0, 2, host], 9).into()).unwrap()).collect();
        assert_eq!(places.take(address("192.0.2.9:1")).unwrap_err(), NoPlace::All(5));
        drop((first, others));
        assert_eq!(places.taken(), 1);
        assert!(places.take(same).is_ok());
    }

    #[test]
    fn a_quarter_is_at_least_64_places() {
        assert_eq!([0, 8, 256, 1024, 4096].map(network_places), [64, 64, 64, 256, 1024]);
        assert_eq!((network_memory(1024, 0), network_memory(1024, 512)), (256, 512));
    }

    /// One thing that a connection does with its memory, and how many bytes it is about.
    #[derive(Debug, Clone, Copy)]
    enum Act {
        Add(u64),
        Subtract(u64),
        Leave,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => (0_u64..3000).prop_map(Act::Add),
            2 => (0_u64..3000).prop_map(Act::Subtract),
            1 => Just(Act::Leave),
        ]
    }

    proptest! {
        #[test]
        fn memory_of_all_connections_stays_within_the_whole_and_that_of_a_network_within_its_part(
            acts in prop::collection::vec((0_usize..6, act()), 1..200),
        ) {
            const WHOLE: u64 = 16_000;
            let places = Places::new(6, 6, WHOLE);
            // Two connections of each of three networks.
            let address = |at: usize| SocketAddr::from(([192, 0, 2, (at / 2) as u8], at as u16));
            let enter = |at| {
                let place = places.take(address(at)).unwrap();
                let tally = place.memory().tally();
                (place, tally)
            };
            let mut all: Vec<_> = (0..6).map(enter).collect();
            for (at, act) in acts {
                match act {
                    Act::Add(bytes) => {
                        let room = WHOLE / 4 - all[at].0.memory().used();
                        let before = all[at].1.bytes();
                        let is_taken = all[at].1.add(bytes);
                        prop_assert!(!is_taken || bytes <= room);
                        prop_assert_eq!(all[at].1.bytes(), before + bytes * u64::from(is_taken));
                    }
                    Act::Subtract(bytes) => all[at].1.subtract(bytes),
                    Act::Leave => {
                        // The old one gives back what it had before the new one comes.
                        let gone = all.remove(at);
                        drop(gone);
                        all.insert(at, enter(at));
                    }
                }
                let held: u64 = all.iter().map(|(_, tally)| tally.bytes()).sum();
                prop_assert_eq!(places.memory(), held);
                for (place, _) in &all {
                    prop_assert!(place.memory().used() <= WHOLE / 4);
                }
            }
            drop(all);
            prop_assert_eq!((places.taken(), places.memory()), (0, 0));
        }
    }
}
