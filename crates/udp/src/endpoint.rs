//! All flows of one process: which flow a datagram is for, who may begin a flow, which flow sends
//! next.

mod handshake;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use cellpace_base::{Ecn, Time};

use crate::assembly::first_window;
use crate::config::{EndpointConfig, FlowRequest, Listen, MTU_RANGE, Offer};
use crate::connection::{FlowError, FlowEvent, FlowHalf, UdpFlow, Wish};
use crate::cookie::Cookies;
use crate::local_path::{FlowId, LocalPath, OutgoingDatagram};
use crate::parts::{HalfParts, peer_controller, wants_ecn};
use crate::pending::PendingFlows;
use crate::protection::{DatagramGuard, SenderSide};
use crate::wire::{self, AcceptPacket, Ids, WirePacket};
use cellpace_base::quota::{ClientNetwork, NetworkShares};

/// Counts of datagrams that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strays {
    /// Damaged, or of another protocol.
    pub garbage: u64,
    /// Of this protocol, but of no flow here, or from another address.
    pub unknown: u64,
    /// Hellos that were not accepted: too short, of another version, or without room for the flow.
    pub refused: u64,
    /// Answers that were not sent because too many waited.
    pub unanswered: u64,
}

/// Answers to unknown senders that wait to be sent at most.
const MAX_REPLIES: usize = 256;

/// Packets of one flow in a row at most, while others wait.
const IN_A_ROW: usize = 64;

struct FlowSlot {
    flow: UdpFlow,
    peer: SocketAddr,
    way: LocalPath,
    deadline: Option<Time>,
    ready: bool,
}

/// All flows of one process.
pub struct Endpoint {
    config: EndpointConfig,
    listen: Option<Listen>,
    /// Which flows of an offer have begun.
    taken: Vec<bool>,
    cookies: Cookies,
    guard: DatagramGuard,
    /// What the last datagram was decrypted into.
    clear: Vec<u8>,
    new_id: Box<dyn FnMut() -> u64 + Send>,
    slots: HashMap<FlowId, FlowSlot>,
    /// Flows that others want to begin.
    waiting: PendingFlows,
    /// What the flows of each network take.
    shares: NetworkShares,
    /// When an unknown sender may make this side compute tables again.
    tables_at: Time,
    /// Flows that others began, by their address and their id.
    begun: HashMap<(SocketAddr, u64), FlowId>,
    /// Flows that may have something to send.
    ready: VecDeque<FlowId>,
    in_a_row: usize,
    deadlines: BTreeSet<(Time, FlowId)>,
    replies: VecDeque<(SocketAddr, LocalPath, Vec<u8>)>,
    events: VecDeque<(FlowId, FlowEvent)>,
    flows_begun: u64,
    strays: Strays,
    /// Time never goes back for a flow, although datagrams bring the time of their arrival.
    now: Time,
}

impl Endpoint {
    /// An endpoint that seals its cookies with `secret` and takes its connection ids from
    /// `new_id`; both must be unguessable where datagrams come from a network.
    pub fn new(
        config: EndpointConfig,
        secret: [u8; 32],
        new_id: impl FnMut() -> u64 + Send + 'static,
    ) -> Self {
        let cookies = Cookies::new(secret);
        Self {
            guard: config.protection.guard(cookies.first_nonce()),
            clear: Vec::new(),
            shares: config.shares(),
            waiting: PendingFlows::new(config.patience.silence),
            config,
            listen: None,
            taken: Vec::new(),
            tables_at: Time::ZERO,
            cookies,
            new_id: Box::new(new_id),
            slots: HashMap::new(),
            begun: HashMap::new(),
            ready: VecDeque::new(),
            in_a_row: 0,
            deadlines: BTreeSet::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            flows_begun: 0,
            strays: Strays::default(),
            now: Time::ZERO,
        }
    }

    /// Lets others begin flows from now on.
    pub fn listen(&mut self, listen: Listen) {
        let offered = match &listen.offer {
            Offer::Receive => 0,
            Offer::Send { controllers, .. } => controllers.len(),
        };
        self.taken = vec![false; offered];
        self.listen = Some(listen);
    }

    /// Lets others begin no more flows.
    pub fn stop_listening(&mut self) {
        self.listen = None;
    }

    /// Begins a flow to `peer`, by this way.
    pub fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        way: impl Into<LocalPath>,
        connect: &FlowRequest,
    ) -> FlowId {
        let id = self.unused_id();
        let wish = Wish {
            unreliable: connect.unreliable,
            reverse: connect.controller.is_none(),
            delayed_acks: connect.controller.is_none() && self.config.delays_acks(),
            ecn: connect.controller.as_ref().is_none_or(wants_ecn),
            mtu: self.config.mtu,
            window: first_window(self.config.buffer),
            controller: connect.controller.as_ref().map(ToString::to_string).unwrap_or_default(),
            spec: connect.controller.clone(),
            video: None,
        };
        let overhead = self.config.overhead(peer);
        let flow = UdpFlow::asking(id.0, wish, self.config.patience, overhead, now);
        self.insert(id, flow, peer, way.into());
        id
    }

    /// The flow with this id, as long as it is not over.
    pub fn flow(&self, id: FlowId) -> Option<&UdpFlow> {
        self.slots.get(&id).map(|slot| &slot.flow)
    }

    /// Returns the flow with this id for taking its figures and events; nothing is sent on that
    /// account.
    pub fn observe(&mut self, id: FlowId) -> Option<&mut UdpFlow> {
        self.slots.get_mut(&id).map(|slot| &mut slot.flow)
    }

    /// Returns the flow with this id for writing, reading or ending it. Afterwards it may have
    /// something to send.
    pub fn flow_mut(&mut self, id: FlowId) -> Option<&mut UdpFlow> {
        let slot = self.slots.get_mut(&id)?;
        mark_ready(&mut self.ready, id, slot);
        Some(&mut slot.flow)
    }

    /// The other side's address.
    pub fn peer(&self, id: FlowId) -> Option<SocketAddr> {
        self.slots.get(&id).map(|slot| slot.peer)
    }

    /// Flows that are not over.
    pub fn flows(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory that hold what has arrived and was not read, of all flows.
    pub fn memory(&self) -> u64 {
        self.shares.memory()
    }

    /// Datagrams that were of no use so far.
    pub fn strays(&self) -> Strays {
        self.strays
    }

    /// Whether there are events that nobody has taken.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<(FlowId, FlowEvent)> {
        self.events.pop_front()
    }

    /// Handles a datagram that arrived from `from` by the way `way`, without ECN.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: impl Into<LocalPath>,
        datagram: &[u8],
    ) {
        self.handle_datagram_with(now, from, way, Ecn::NotEct, datagram);
    }

    /// The same for a datagram with this codepoint in its IP header.
    pub fn handle_datagram_with(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: impl Into<LocalPath>,
        ecn: Ecn,
        datagram: &[u8],
    ) {
        let now = self.advance(now);
        let mut clear = std::mem::take(&mut self.clear);
        let opened = self.guard.open(self.sender_of(datagram), datagram, &mut clear);
        match opened.and_then(wire::read) {
            Some((ids, packet)) => {
                let bytes = datagram.len() - self.config.protection.extra_bytes();
                self.on_packet(now, from, way.into(), ids, &packet, (bytes, ecn));
            }
            None => self.strays.garbage += 1,
        }
        self.clear = clear;
    }

    /// Handles a packet of `bytes` without headers and what encryption adds, with this codepoint.
    fn on_packet(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: LocalPath,
        ids: Ids,
        packet: &WirePacket<'_>,
        (bytes, ecn): (usize, Ecn),
    ) {
        if let WirePacket::Hello(hello) = packet {
            return self.on_hello(now, from, way, ids.from, hello, bytes);
        }
        let id = FlowId(ids.to);
        if self.waiting.contains(id) {
            self.confirm(now, id, from, ids.from);
        }
        let known = self.slots.get_mut(&id).filter(|slot| slot.peer == from);
        let Some(slot) = known else {
            self.strays.unknown += 1;
            return;
        };
        let flow = &mut slot.flow;
        match packet {
            WirePacket::Retry(cookie) => flow.on_retry(now, *cookie),
            WirePacket::Version(version) => flow.on_refusal(FlowError::Version(*version)),
            WirePacket::Refuse(_, reason) => {
                flow.on_refusal(FlowError::Refused((*reason).to_owned()));
            }
            WirePacket::Accept(accept) => {
                if flow.is_asking() && ids.from != 0 {
                    self.flows_begun += 1;
                    let stream = self.flows_begun;
                    let parts = HalfParts {
                        config: &self.config,
                        now,
                        mtu: self.config.mtu.min(accept.mtu),
                        peer: from,
                        stream,
                        memory: self.shares.memory_of(ClientNetwork::of(from)),
                        key: self.cookies.flow_key(id.0),
                    };
                    accept_flow(&parts, flow, ids.from, accept);
                }
            }
            _ if ids.from != 0 && ids.from == flow.ids().from => {
                flow.on_packet(now, packet, bytes, ecn);
            }
            _ => {
                self.strays.unknown += 1;
                return;
            }
        }
        mark_ready(&mut self.ready, id, slot);
    }

    /// Returns the side that sent a datagram, if it belongs here: the one that this side is not.
    fn sender_of(&self, datagram: &[u8]) -> SenderSide {
        let to = wire::header(datagram).map(|(_, ids, _)| FlowId(ids.to));
        let slot = to.and_then(|id| self.slots.get(&id));
        slot.map_or(SenderSide::Initiator, |slot| slot.flow.side().other())
    }

    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    fn reply(&mut self, to: SocketAddr, way: LocalPath, reply: Vec<u8>) {
        if self.replies.len() >= MAX_REPLIES {
            self.strays.unanswered += 1;
            return;
        }
        self.replies.push_back((to, way, reply));
    }

    fn insert(&mut self, id: FlowId, flow: UdpFlow, peer: SocketAddr, way: LocalPath) {
        self.shares.enter(ClientNetwork::of(peer));
        let mut slot = FlowSlot { flow, peer, way, deadline: None, ready: false };
        mark_ready(&mut self.ready, id, &mut slot);
        self.slots.insert(id, slot);
    }

    fn unused_id(&mut self) -> FlowId {
        loop {
            let id = FlowId((self.new_id)());
            if id.0 != 0 && !self.slots.contains_key(&id) && !self.waiting.contains(id) {
                return id;
            }
        }
    }

    /// When something is due. A flow that was touched is due at once: first
    /// [`poll_transmit`](Self::poll_transmit) until it has nothing more.
    pub fn next_deadline(&self) -> Option<Time> {
        if !self.ready.is_empty() || !self.replies.is_empty() {
            return Some(Time::ZERO);
        }
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Returns until when datagrams may wait in the socket: a later time only while every flow is a
    /// receiver in a pause. Deadlines hold nevertheless.
    pub fn rest_until(&self) -> Time {
        let rests = self.slots.values().map(|slot| slot.flow.rest_until());
        rests.min().flatten().unwrap_or(Time::ZERO)
    }

    /// Reports to the flows that send to `to` by the way `way` that the system takes nothing more
    /// for now.
    pub fn on_blocked(&mut self, now: Time, to: SocketAddr, way: impl Into<LocalPath>) {
        let (now, way) = (self.advance(now), way.into());
        for (id, slot) in &mut self.slots {
            if slot.peer == to && slot.way.socket == way.socket {
                slot.flow.on_blocked(now);
                mark_ready(&mut self.ready, *id, slot);
            }
        }
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Time) {
        let now = self.advance(now);
        while let Some((time, id)) = self.deadlines.first().copied() {
            if time > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.deadline = None;
            slot.flow.on_timer(now);
            mark_ready(&mut self.ready, id, slot);
        }
    }

    /// Writes the next datagram that may leave now at the end of `out`.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<OutgoingDatagram> {
        let now = self.advance(now);
        if let Some((to, way, reply)) = self.replies.pop_front() {
            out.extend_from_slice(&reply);
            let bytes = self.guard.seal(SenderSide::Responder, out, reply.len());
            return Some(OutgoingDatagram { to, way, bytes, ecn: Ecn::NotEct });
        }
        while let Some(id) = self.ready.front().copied() {
            if let Some(slot) = self.slots.get_mut(&id) {
                if let Some((bytes, ecn)) = slot.flow.poll_transmit(now, out) {
                    let bytes = self.guard.seal(slot.flow.side(), out, bytes);
                    let (to, way) = (slot.peer, slot.way);
                    let departure = OutgoingDatagram { to, way, bytes, ecn };
                    self.in_a_row += 1;
                    if self.in_a_row >= IN_A_ROW {
                        self.in_a_row = 0;
                        self.ready.rotate_left(1);
                    }
                    return Some(departure);
                }
                self.settle(id);
            }
            self.in_a_row = 0;
            self.ready.pop_front();
        }
        None
    }

    /// Collects the events and the next deadline of a flow that has nothing more to send now.
    fn settle(&mut self, id: FlowId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.ready = false;
        while let Some(event) = slot.flow.poll_event() {
            self.events.push_back((id, event));
        }
        let deadline = slot.flow.next_deadline();
        if deadline != slot.deadline {
            if let Some(old) = slot.deadline {
                self.deadlines.remove(&(old, id));
            }
            if let Some(new) = deadline {
                self.deadlines.insert((new, id));
            }
            slot.deadline = deadline;
        }
    }

    /// Forgets a flow that is over. Until then its figures can be asked for.
    pub fn forget(&mut self, id: FlowId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        if let Some(deadline) = slot.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.begun.remove(&(slot.peer, slot.flow.ids().from));
        self.shares.leave(ClientNetwork::of(slot.peer));
    }
}

fn mark_ready(ready: &mut VecDeque<FlowId>, id: FlowId, slot: &mut FlowSlot) {
    if !slot.ready {
        slot.ready = true;
        ready.push_back(id);
    }
}

/// Passes an acceptance to the initiator's flow.
fn accept_flow(parts: &HalfParts<'_>, flow: &mut UdpFlow, from: u64, accept: &AcceptPacket<'_>) {
    let Some(wish) = flow.wish() else { return };
    if !MTU_RANGE.contains(&accept.mtu) {
        return;
    }
    let half = match &wish.spec {
        None => peer_controller(accept.controller)
            .map(|(spec, _)| parts.incoming(&spec, accept.unreliable, accept.ecn && wish.ecn)),
        Some(spec) => {
            let AcceptPacket { window, delayed_acks, .. } = *accept;
            let ecn = accept.ecn && wish.ecn;
            let mut outgoing = parts.outgoing(spec, wish.unreliable, window, delayed_acks, ecn);
            if let Some(video) = &wish.video {
                outgoing.begin_video(video, parts.now, parts.video_random());
            }
            Ok(FlowHalf::Out(Box::new(outgoing)))
        }
    };
    match half {
        Ok(half) => flow.on_accept(parts.now, from, accept.flows, half),
        Err(reason) => flow.on_refusal(FlowError::Refused(reason)),
    }
}
