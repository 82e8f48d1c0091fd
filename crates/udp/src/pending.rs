//! Flows that were accepted and not yet confirmed by their initiators.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use cellpace_base::{Span, Time};
use cellpace_cc::PeerHalf;

use crate::local_path::{FlowId, LocalPath};
use cellpace_base::quota::ClientNetwork;

/// After this time an unconfirmed flow gives way to another one that needs its place.
const FRESH: Span = Span::from_secs(3);

/// Unconfirmed flows at most. Beyond that the oldest one is forgotten.
const MAX_PENDING: usize = 4096;

/// A flow that was accepted.
#[derive(Debug)]
pub(crate) struct PendingFlow {
    pub(crate) peer: SocketAddr,
    pub(crate) peer_id: u64,
    pub(crate) way: LocalPath,
    /// The answer, kept in case it is lost.
    pub(crate) accept: Vec<u8>,
    /// The smaller one of both sides.
    pub(crate) mtu: u16,
    pub(crate) unreliable: bool,
    /// Whether acks report codepoints.
    pub(crate) ecn: bool,
    pub(crate) kind: PendingRole,
}

/// What this side will do.
#[derive(Debug)]
pub(crate) enum PendingRole {
    /// Receive from a sender under this controller.
    Receive(PeerHalf),
    /// Send the flow of the offer that has this number.
    Send {
        index: usize,
        /// Bytes that the receiver takes.
        window: u64,
        /// Whether the receiver delays its acks.
        delayed_acks: bool,
    },
}

impl PendingFlow {
    fn index(&self) -> Option<usize> {
        match self.kind {
            PendingRole::Receive(_) => None,
            PendingRole::Send { index, .. } => Some(index),
        }
    }
}

/// All unconfirmed flows. They are small, and do not count towards the limits of confirmed flows.
#[derive(Debug)]
pub(crate) struct PendingFlows {
    lifetime: Span,
    flows: HashMap<FlowId, PendingFlow>,
    by_peer: HashMap<(SocketAddr, u64), FlowId>,
    /// From the oldest to the newest.
    per_network: HashMap<ClientNetwork, VecDeque<(Time, FlowId)>>,
    /// The same of all networks, with those that have been confirmed since.
    order: VecDeque<(Time, FlowId)>,
}

impl PendingFlows {
    /// Flows that are forgotten after `lifetime`: the path may be down just when the initiator
    /// confirms.
    pub(crate) fn new(lifetime: Span) -> Self {
        Self {
            lifetime,
            flows: HashMap::new(),
            by_peer: HashMap::new(),
            per_network: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Forgets the flows whose time is over.
    pub(crate) fn expire(&mut self, now: Time) {
        while let Some((accepted, id)) = self.order.front().copied() {
            let is_known = self.flows.contains_key(&id);
            let too_many = self.flows.len() > MAX_PENDING;
            if is_known && !too_many && now < accepted + self.lifetime {
                return;
            }
            self.order.pop_front();
            self.remove(id);
        }
    }

    pub(crate) fn contains(&self, id: FlowId) -> bool {
        self.flows.contains_key(&id)
    }

    /// Returns the answer that was sent to this initiator.
    pub(crate) fn accept(&self, peer: SocketAddr, peer_id: u64) -> Option<&[u8]> {
        let id = self.by_peer.get(&(peer, peer_id))?;
        self.flows.get(id).map(|pending| pending.accept.as_slice())
    }

    /// Makes room for another flow of a network, which may have `most`. Returns whether there is
    /// room.
    pub(crate) fn make_room(&mut self, now: Time, network: ClientNetwork, most: usize) -> bool {
        let Some(flows) = self.per_network.get(&network) else { return true };
        let oldest = flows.front().copied();
        if flows.len() >= most
            && let Some((accepted, id)) = oldest
        {
            if now < accepted + FRESH {
                return false;
            }
            self.remove(id);
        }
        true
    }

    /// Counts the unconfirmed flows that wait for each flow of the offer.
    pub(crate) fn claims(&self, flows: usize) -> Vec<usize> {
        let mut claims = vec![0; flows];
        for index in self.flows.values().filter_map(PendingFlow::index) {
            if let Some(count) = claims.get_mut(index) {
                *count += 1;
            }
        }
        claims
    }

    pub(crate) fn insert(&mut self, now: Time, id: FlowId, pending: PendingFlow) {
        self.by_peer.insert((pending.peer, pending.peer_id), id);
        self.per_network.entry(ClientNetwork::of(pending.peer)).or_default().push_back((now, id));
        self.flows.insert(id, pending);
        self.order.push_back((now, id));
        self.expire(now);
    }

    /// Removes and returns the flow with this id, if a packet with both ids arrived from the right
    /// address.
    pub(crate) fn confirm(
        &mut self,
        now: Time,
        id: FlowId,
        peer: SocketAddr,
        peer_id: u64,
    ) -> Option<PendingFlow> {
        self.expire(now);
        let pending = self.flows.get(&id)?;
        if pending.peer != peer || pending.peer_id != peer_id {
            return None;
        }
        self.remove(id)
    }

    fn remove(&mut self, id: FlowId) -> Option<PendingFlow> {
        let pending = self.flows.remove(&id)?;
        self.by_peer.remove(&(pending.peer, pending.peer_id));
        let network = ClientNetwork::of(pending.peer);
        let others = self.per_network.get_mut(&network)?;
        others.retain(|(_, other)| *other != id);
        if others.is_empty() {
            self.per_network.remove(&network);
        }
        Some(pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(host: u32, peer_id: u64) -> PendingFlow {
        PendingFlow {
            peer: SocketAddr::from((host.to_be_bytes(), 9)),
            peer_id,
            way: LocalPath::from(0),
            accept: vec![1],
            mtu: 1500,
            unreliable: false,
            ecn: false,
            kind: PendingRole::Send { index: 0, window: 0, delayed_acks: false },
        }
    }

    fn insert(waiting: &mut PendingFlows, ms: u64, host: u32, id: u64) -> bool {
        let (now, pending) = (Time::from_millis(ms), pending(host, id));
        let has_room = waiting.make_room(now, ClientNetwork::of(pending.peer), 64);
        if has_room {
            waiting.insert(now, FlowId(id), pending);
        }
        has_room
    }

    fn is_known(waiting: &PendingFlows, id: u64) -> bool {
        waiting.accept(pending(1, id).peer, id).is_some()
    }

    #[test]
    fn they_are_limited_in_number_and_time() {
        let mut waiting = PendingFlows::new(Span::from_secs(30));
        let taken = (1..200).filter(|id| insert(&mut waiting, 1000, 1, *id)).count();
        assert_eq!((taken, waiting.claims(1)), (64, vec![64]));
        assert!(insert(&mut waiting, 1001, 2, 1000), "others are let in");
        assert!(is_known(&waiting, 1) && !insert(&mut waiting, 3999, 1, 500));
        assert!(insert(&mut waiting, 4000, 1, 500), "the oldest one gives way");
        assert!(!is_known(&waiting, 1) && is_known(&waiting, 2) && is_known(&waiting, 500));
        waiting.expire(Time::from_millis(31_000));
        assert_eq!((waiting.claims(2), waiting.per_network.len()), (vec![2, 0], 2));
        for host in 10..10_000 {
            insert(&mut waiting, 31_000, host, u64::from(host) + 5000);
        }
        assert_eq!((waiting.claims(1), waiting.order.len()), (vec![MAX_PENDING], MAX_PENDING));
    }

    #[test]
    fn who_confirms_must_know_both_ids_and_be_where_the_hello_came_from() {
        let mut waiting = PendingFlows::new(Span::from_secs(3));
        insert(&mut waiting, 0, 1, 7);
        let (now, id) = (Time::from_millis(5), FlowId(7));
        let (right, wrong) = (pending(1, 7).peer, pending(2, 7).peer);
        assert!(waiting.confirm(now, id, wrong, 7).is_none());
        assert!(waiting.confirm(now, id, right, 8).is_none());
        assert!(waiting.confirm(now, FlowId(8), right, 7).is_none());
        assert!(waiting.confirm(now, id, right, 7).is_some());
        assert!(waiting.confirm(now, id, right, 7).is_none() && waiting.flows.is_empty());
    }
}
