//! Handshakes of flows that others begin: who may begin one, and how little is stored until it is
//! certain that the initiator receives what is sent to it.

use std::net::SocketAddr;

use cellpace_base::{Span, Time};
use cellpace_cc::PeerCost;

use super::Endpoint;
use crate::assembly::first_window;
use crate::config::{Listen, MTU_RANGE, Offer};
use crate::connection::{FlowHalf, UdpFlow};
use crate::local_path::{FlowId, LocalPath};
use crate::parts::{HalfParts, peer_controller, wants_ecn};
use crate::pending::{PendingFlow, PendingRole};
use crate::wire::{self, AcceptPacket, CloseCode, Cookie, HELLO_BYTES, Hello, Ids, VERSION};
use cellpace_base::quota::ClientNetwork;

/// Unknown senders can make this side compute the tables of a receiver half at most this often; one
/// computation takes a tenth of this time.
const TABLES_EVERY: Span = Span::from_millis(250);

/// The reason sent to an initiator when no flow of an offer is left.
const ALL_TAKEN: &str = "all its flows are taken";

/// Why a hello gets no flow.
enum Denial {
    /// The initiator receives the reason.
    Refused(CloseCode, String),
    /// The initiator gets no answer and sends its hello again: there may be room in a moment.
    Later,
}

impl Denial {
    fn busy(reason: String) -> Self {
        Self::Refused(CloseCode::Busy, reason)
    }

    fn unsupported(reason: impl Into<String>) -> Self {
        Self::Refused(CloseCode::Unsupported, reason.into())
    }
}

impl Endpoint {
    /// Handles a hello.
    pub(super) fn on_hello(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: LocalPath,
        peer_id: u64,
        hello: &Hello<'_>,
        bytes: usize,
    ) {
        if self.listen.is_none() {
            self.strays.unknown += 1;
            return;
        }
        if bytes < HELLO_BYTES || peer_id == 0 {
            self.strays.refused += 1;
            return;
        }
        let ids = Ids { to: peer_id, from: 0 };
        let mut reply = Vec::new();
        if hello.version != VERSION {
            self.strays.refused += 1;
            wire::write_version(&mut reply, ids, VERSION);
            return self.reply(from, way, reply);
        }
        if hello.cookie == Cookie::default()
            || !self.cookies.is_good(now, from, peer_id, &hello.cookie)
        {
            let cookie = self.cookies.issue(now, from, peer_id);
            wire::write_retry(&mut reply, ids, &cookie);
            return self.reply(from, way, reply);
        }
        if self.begun.contains_key(&(from, peer_id)) {
            // The hello was repeated before its answer arrived.
            return;
        }
        self.waiting.expire(now);
        if let Some(accept) = self.waiting.accept(from, peer_id) {
            let accept = accept.to_vec();
            return self.reply(from, way, accept);
        }
        let Err(denial) = self.accept(now, from, way, peer_id, hello) else { return };
        self.strays.refused += 1;
        if let Denial::Refused(code, reason) = denial {
            wire::write_refuse(&mut reply, ids, code, &reason);
            self.reply(from, way, reply);
        }
    }

    /// Accepts the flow that a hello with a good cookie asks for. Little is kept until its initiator
    /// confirms that it has the answer.
    fn accept(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: LocalPath,
        peer_id: u64,
        hello: &Hello<'_>,
    ) -> Result<(), Denial> {
        let (kind, cost) = self.plan(now, ClientNetwork::of(from), hello)?;
        let Some(listen) = &self.listen else { return Ok(()) };
        let (unreliable, flows, controller) = match (&listen.offer, &kind) {
            (Offer::Send { controllers, unreliable, .. }, PendingRole::Send { index, .. }) => {
                (*unreliable, controllers.len() as u16, controllers[*index].to_string())
            }
            _ => (hello.unreliable, 1, String::new()),
        };
        if cost == PeerCost::Tables {
            self.tables_at = now + TABLES_EVERY;
        }
        let mtu = self.config.mtu.min(hello.mtu);
        let ecn = hello.ecn
            && match (&listen.offer, &kind) {
                (Offer::Send { controllers, .. }, PendingRole::Send { index, .. }) => {
                    wants_ecn(&controllers[*index])
                }
                _ => true,
            };
        let accept = AcceptPacket {
            unreliable,
            delayed_acks: !hello.reverse && self.config.delays_acks(),
            ecn,
            mtu,
            window: first_window(self.config.buffer),
            flows,
            controller: &controller,
        };
        let id = self.unused_id();
        let mut reply = Vec::new();
        wire::write_accept(&mut reply, Ids { to: peer_id, from: id.0 }, &accept);
        let accept = reply.clone();
        let pending = PendingFlow { peer: from, peer_id, way, accept, mtu, unreliable, ecn, kind };
        self.waiting.insert(now, id, pending);
        self.reply(from, way, reply);
        Ok(())
    }

    /// What this side will do in the flow that a hello asks for, and what that costs.
    fn plan(
        &mut self,
        now: Time,
        network: ClientNetwork,
        hello: &Hello<'_>,
    ) -> Result<(PendingRole, PeerCost), Denial> {
        let Some(listen) = &self.listen else { return Err(Denial::Later) };
        // All flows of one `send` send their hellos at the same moment.
        if !self.waiting.make_room(now, network, listen.network_flows()) {
            return Err(Denial::Later);
        }
        self.has_room(listen, network).map_err(Denial::busy)?;
        if !MTU_RANGE.contains(&hello.mtu) {
            return Err(Denial::unsupported("the size of its packets is out of range"));
        }
        match (&listen.offer, hello.reverse) {
            (Offer::Receive, false) => {
                let (half, cost) =
                    peer_controller(hello.controller).map_err(Denial::unsupported)?;
                if cost == PeerCost::Tables && now < self.tables_at {
                    return Err(Denial::Later);
                }
                Ok((PendingRole::Receive(half), cost))
            }
            (Offer::Send { .. }, true) => {
                let index = self.free_index().map_err(Denial::busy)?;
                let Hello { window, delayed_acks, .. } = *hello;
                Ok((PendingRole::Send { index, window, delayed_acks }, PeerCost::Shared))
            }
            (Offer::Receive, true) => {
                Err(Denial::unsupported("it receives, and so does this side"))
            }
            (Offer::Send { .. }, false) => {
                Err(Denial::unsupported("it sends, and so does this side"))
            }
        }
    }

    /// Checks that there is room for another flow of a network; the error is the reason why not.
    fn has_room(&self, listen: &Listen, network: ClientNetwork) -> Result<(), String> {
        let most = listen.most_flows;
        if self.begun.len() >= most {
            return Err(format!("it has {most} flows already"));
        }
        let share = listen.network_flows();
        match listen.offer {
            Offer::Receive if self.shares.flows(network) >= share => {
                Err(format!("it has {share} flows of this address already"))
            }
            _ => Ok(()),
        }
    }

    /// The flow of the offer that has not begun and that the fewest others wait for: they may never
    /// confirm.
    fn free_index(&self) -> Result<usize, String> {
        let claims = self.waiting.claims(self.taken.len());
        let free = (0..self.taken.len()).filter(|index| !self.taken[*index]);
        free.min_by_key(|index| claims[*index]).ok_or_else(|| ALL_TAKEN.to_owned())
    }

    /// Handles a packet for an accepted flow: if its initiator sent it, the flow begins.
    pub(super) fn confirm(&mut self, now: Time, id: FlowId, from: SocketAddr, peer_id: u64) {
        let Some(pending) = self.waiting.confirm(now, id, from, peer_id) else { return };
        let way = pending.way;
        let Err(reason) = self.begin(now, id, pending) else { return };
        self.strays.refused += 1;
        let mut reply = Vec::new();
        let ids = Ids { to: peer_id, from: id.0 };
        wire::write_close(&mut reply, ids, CloseCode::Busy, &reason);
        self.reply(from, way, reply);
    }

    /// Begins a flow that was confirmed, or returns why there is no room for it any more.
    fn begin(&mut self, now: Time, id: FlowId, pending: PendingFlow) -> Result<(), String> {
        let PendingFlow { peer, peer_id, way, mtu, unreliable, ecn, .. } = pending;
        let network = ClientNetwork::of(peer);
        let Some(listen) = &self.listen else { return Err("it takes no more flows".into()) };
        self.has_room(listen, network)?;
        if let PendingRole::Send { index, .. } = pending.kind {
            let free = self.taken.get_mut(index).filter(|taken| !**taken);
            *free.ok_or(ALL_TAKEN)? = true;
        }
        self.flows_begun += 1;
        let parts = HalfParts {
            config: &self.config,
            now,
            mtu,
            peer,
            stream: self.flows_begun,
            memory: self.shares.memory_of(network),
            key: self.cookies.flow_key(id.0),
        };
        let half = match (pending.kind, &listen.offer) {
            (PendingRole::Receive(half), _) => parts.incoming(&half, unreliable, ecn),
            (
                PendingRole::Send { index, window, delayed_acks },
                Offer::Send { controllers, bytes, video, .. },
            ) => {
                let spec = &controllers[index];
                let mut half = parts.outgoing(spec, unreliable, window, delayed_acks, ecn);
                if let Some(bytes) = bytes {
                    half.limit_to(*bytes);
                }
                if let Some(video) = video {
                    half.begin_video(video, now, parts.video_random());
                }
                FlowHalf::Out(Box::new(half))
            }
            _ => return Err(ALL_TAKEN.into()),
        };
        let ids = Ids { to: id.0, from: peer_id };
        let overhead = self.config.overhead(peer);
        let flow = UdpFlow::confirmed(ids, mtu, half, self.config.patience, overhead, now);
        self.begun.insert((peer, peer_id), id);
        self.insert(id, flow, peer, way);
        Ok(())
    }
}
