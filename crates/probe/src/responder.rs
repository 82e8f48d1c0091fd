//! The side that answers. It must not become a weapon in an amplification attack: it stores and
//! sends next to nothing for an address that has not returned a cookie, it stops when nothing
//! arrives, and it limits sessions, rates and durations.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use cellpace_base::quota::ClientNetwork;
use cellpace_base::{Ecn, Rate, Span, Time};
use cellpace_udp::wire::{Cookie, HELLO_BYTES, Ids};
use cellpace_udp::{
    Cookies, DatagramGuard, Engine, LocalPath, OutgoingDatagram, Protection, SenderSide,
};

use crate::plan::Plan;
use crate::prober::overhead;
use crate::session::{ProbeSession, QUIET, SILENCE, belongs};
use crate::wire::{self, ProbePacket, VERSION};

/// Maximum number of answers to unknown addresses in the queue.
const MAX_REPLIES: usize = 256;

/// A session is removed when no packet of it arrives for this long.
const FORGET_AFTER: Span = Span::from_secs(30);

/// A session may last this much longer than its plan.
const MAX_OVERTIME: Span = Span::from_secs(60);

/// A session is removed when it is not confirmed with both ids within this time.
const CONFIRM_WITHIN: Span = Span::from_secs(5);

/// Limits of a responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponderLimits {
    /// Maximum number of concurrent sessions.
    pub sessions: usize,
    /// Maximum number for one client: an IPv4 address or an IPv6 network of 64 bits.
    pub sessions_per_client: usize,
    /// Maximum rate to one peer.
    pub rate: Rate,
    /// Maximum duration of a session's plan.
    pub duration: Span,
}

impl Default for ResponderLimits {
    fn default() -> Self {
        Self {
            sessions: 4,
            sessions_per_client: 2,
            rate: Rate::from_bps(200_000_000),
            duration: Span::from_secs(3600),
        }
    }
}

struct SessionSlot {
    session: ProbeSession,
    peer: SocketAddr,
    way: LocalPath,
    plan: Plan,
    began: Time,
    /// The peer has shown that it knows the id which was sent to it.
    confirmed: bool,
}

/// Answers probers.
pub struct Responder {
    limits: ResponderLimits,
    cookies: Cookies,
    new_id: Box<dyn FnMut() -> u64 + Send>,
    slots: HashMap<u64, SessionSlot>,
    /// Our id of each session, by the address and the id of the prober.
    begun: HashMap<(SocketAddr, u64), u64>,
    replies: VecDeque<(SocketAddr, LocalPath, Vec<u8>)>,
    /// The session that sends next.
    turn: u64,
    now: Time,
    lines: VecDeque<String>,
    guard: DatagramGuard,
    /// What the last datagram was decrypted into.
    clear: Vec<u8>,
}

impl Responder {
    /// Returns a responder with a secret for cookies and a source of ids that nobody can guess.
    pub fn new(
        limits: ResponderLimits,
        secret: [u8; 32],
        new_id: impl FnMut() -> u64 + Send + 'static,
    ) -> Self {
        Self {
            limits,
            cookies: Cookies::new(secret),
            new_id: Box::new(new_id),
            slots: HashMap::new(),
            begun: HashMap::new(),
            replies: VecDeque::new(),
            turn: 0,
            now: Time::ZERO,
            lines: VecDeque::new(),
            guard: DatagramGuard::default(),
            clear: Vec::new(),
        }
    }

    /// Answers only probers that protect their datagrams in the same way.
    pub fn protected(mut self, protection: &Protection) -> Self {
        self.guard = protection.guard(self.cookies.first_nonce());
        self
    }

    /// Number of open sessions.
    pub fn sessions(&self) -> usize {
        self.slots.len()
    }

    /// Returns the next line of the log.
    pub fn poll_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    fn log(&mut self, line: String) {
        if self.lines.len() < MAX_REPLIES {
            self.lines.push_back(line);
        }
    }

    fn on_hello(
        &mut self,
        from: SocketAddr,
        way: LocalPath,
        peer_id: u64,
        hello: (u32, Cookie, Option<Plan>),
        bytes: usize,
    ) {
        if bytes < HELLO_BYTES || peer_id == 0 {
            return;
        }
        let (version, cookie, plan) = hello;
        let (now, ids) = (self.now, Ids { to: peer_id, from: 0 });
        let mut reply = Vec::new();
        let Some(plan) = plan.filter(|_| version == VERSION) else {
            wire::write_refuse(&mut reply, ids, &format!("version {VERSION} is spoken here"));
            return self.reply(from, way, reply);
        };
        if !self.cookies.is_good(now, from, peer_id, &cookie) {
            wire::write_retry(&mut reply, ids, &self.cookies.issue(now, from, peer_id));
            return self.reply(from, way, reply);
        }
        match self.begin(from, way, peer_id, plan) {
            Ok(id) => wire::write_accept(&mut reply, Ids { to: peer_id, from: id }),
            Err(why) => wire::write_refuse(&mut reply, ids, &why),
        };
        self.reply(from, way, reply);
    }

    /// Begins a session, or finds the one that has begun.
    fn begin(
        &mut self,
        from: SocketAddr,
        way: LocalPath,
        peer_id: u64,
        plan: Plan,
    ) -> Result<u64, String> {
        if let Some(id) = self.begun.get(&(from, peer_id)) {
            return Ok(*id);
        }
        plan.check().map_err(|error| error.to_string())?;
        if self.slots.len() >= self.limits.sessions {
            return Err(format!("it has {} sessions already", self.slots.len()));
        }
        let of_client = self
            .slots
            .values()
            .filter(|slot| ClientNetwork::of(slot.peer) == ClientNetwork::of(from));
        if of_client.count() >= self.limits.sessions_per_client {
            let most = self.limits.sessions_per_client;
            return Err(format!("it has {most} sessions of this address already"));
        }
        if plan.duration > self.limits.duration {
            return Err(format!("it allows {} at most", self.limits.duration));
        }
        if plan.down && plan.rate().is_some_and(|rate| rate > self.limits.rate) {
            return Err(format!("it sends {} at most", self.limits.rate));
        }
        let rival = plan.rival.map(|rival| Plan {
            pattern: crate::Pattern::Every(rival.interval),
            rival: None,
            ..plan
        });
        if plan.down && rival.and_then(|r| r.rate()).is_some_and(|rate| rate > self.limits.rate) {
            return Err(format!("it sends {} at most", self.limits.rate));
        }
        let id = loop {
            let id = (self.new_id)();
            if id != 0 && !self.slots.contains_key(&id) {
                break id;
            }
        };
        let gap = self.limits.rate.time_for(u64::from(plan.size));
        let ids = Ids { to: peer_id, from: id };
        let overhead = self.overhead(from);
        let session = ProbeSession::new(ids, &plan, plan.down, gap, overhead, self.now);
        let slot =
            SessionSlot { session, peer: from, way, plan, began: self.now, confirmed: false };
        self.slots.insert(id, slot);
        self.begun.insert((from, peer_id), id);
        Ok(id)
    }

    /// By how much an IP packet to `peer` is longer than its datagram without a key.
    fn overhead(&self, peer: SocketAddr) -> usize {
        overhead(peer) + self.guard.extra_bytes()
    }

    fn reply(&mut self, to: SocketAddr, way: LocalPath, reply: Vec<u8>) {
        if self.replies.len() < MAX_REPLIES {
            self.replies.push_back((to, way, reply));
        }
    }

    fn forget(&mut self, id: u64, why: &str) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.begun.remove(&(slot.peer, slot.session.ids.to));
        if slot.confirmed {
            self.log(format!("{}: {why}", slot.peer));
        }
    }

    /// Handles a packet of `bytes` without headers and what encryption adds, which came with the
    /// codepoint `ecn`.
    fn on_packet(
        &mut self,
        at: Time,
        from: SocketAddr,
        way: LocalPath,
        ids: Ids,
        packet: ProbePacket<'_>,
        (bytes, ecn): (usize, Ecn),
    ) {
        let overhead = self.overhead(from);
        if let ProbePacket::Hello(version, cookie, plan) = packet {
            return self.on_hello(from, way, ids.from, (version, cookie, plan), bytes);
        }
        let Some(slot) = self.slots.get_mut(&ids.to) else { return };
        if slot.peer != from || !belongs(&slot.session, ids, &packet) {
            return;
        }
        let is_first = !slot.confirmed;
        if is_first {
            slot.confirmed = true;
            // The plan begins when both sides know each other.
            let (session, plan) = (&slot.session, &slot.plan);
            let gap = self.limits.rate.time_for(u64::from(plan.size));
            slot.session = ProbeSession::new(session.ids, plan, plan.down, gap, overhead, self.now);
        }
        match &packet {
            ProbePacket::Probe(probe) => {
                slot.session.on_probe(at, probe, ecn);
                slot.session.record(at, probe);
            }
            ProbePacket::Report(report) => {
                slot.session.on_report(at, report);
                if slot.plan.up {
                    slot.session.record_report(at, bytes);
                }
            }
            _ => return self.forget(ids.to, "done"),
        }
        if is_first {
            self.log(format!("{from}: measuring"));
        }
    }
}

impl Engine for Responder {
    fn handle_datagram(
        &mut self,
        at: Time,
        from: SocketAddr,
        way: LocalPath,
        ecn: Ecn,
        datagram: &[u8],
    ) {
        self.now = self.now.max(at);
        let mut clear = std::mem::take(&mut self.clear);
        let opened = self.guard.open(SenderSide::Initiator, datagram, &mut clear);
        if let Some((ids, packet)) = opened.and_then(wire::read) {
            let bytes = datagram.len() - self.guard.extra_bytes();
            self.on_packet(at, from, way, ids, packet, (bytes, ecn));
        }
        self.clear = clear;
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<OutgoingDatagram> {
        self.now = self.now.max(now);
        let now = self.now;
        if let Some((to, way, reply)) = self.replies.pop_front() {
            out.extend_from_slice(&reply);
            let bytes = self.guard.seal(SenderSide::Responder, out, reply.len());
            return Some(OutgoingDatagram { to, way, bytes, ecn: Ecn::NotEct });
        }
        // Few sessions: one after the other, so that none waits for another's backlog.
        let mut ids: Vec<u64> = self.slots.keys().copied().collect();
        ids.sort_unstable();
        let first = ids.partition_point(|id| *id <= self.turn);
        ids.rotate_left(first);
        for id in ids {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if !slot.confirmed || slot.session.is_peer_silent(now) {
                continue;
            }
            if let Some((bytes, probe)) = slot.session.poll(now, out) {
                self.turn = id;
                let bytes = self.guard.seal(SenderSide::Responder, out, bytes);
                return Some(OutgoingDatagram {
                    to: slot.peer,
                    way: slot.way,
                    bytes,
                    ecn: probe.map_or(Ecn::NotEct, |_| slot.plan.ecn),
                });
            }
        }
        None
    }

    fn next_deadline(&self) -> Option<Time> {
        if !self.replies.is_empty() {
            return Some(Time::ZERO);
        }
        let due = |slot: &SessionSlot| {
            let ends = if slot.confirmed { FORGET_AFTER } else { CONFIRM_WITHIN };
            let ends = slot.session.last_arrival + ends;
            if slot.confirmed && !slot.session.is_peer_silent(self.now) {
                slot.session.next_deadline().min(ends).min(slot.session.last_arrival + SILENCE)
            } else {
                ends
            }
        };
        self.slots.values().map(due).min()
    }

    fn on_timer(&mut self, now: Time) {
        self.now = self.now.max(now);
        let now = self.now;
        let mut over = Vec::new();
        for (id, slot) in &mut self.slots {
            let silence = now - slot.session.last_arrival;
            let patience = if slot.confirmed { FORGET_AFTER } else { CONFIRM_WITHIN };
            if silence >= patience {
                over.push((*id, "silent, forgotten"));
            } else if now - slot.began > QUIET + slot.plan.duration + MAX_OVERTIME {
                over.push((*id, "longer than planned, forgotten"));
            }
            let is_silent = slot.session.is_peer_silent(now);
            if let Some(sender) = &mut slot.session.sender {
                sender.pause(is_silent);
            }
        }
        for (id, why) in over {
            self.forget(id, why);
        }
    }

    fn has_events(&self) -> bool {
        !self.lines.is_empty()
    }
}
