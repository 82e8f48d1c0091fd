//! A proxy in front of the last link: the connections that it splits, and what it has done.

use std::collections::{HashMap, VecDeque};

use cellpace_base::{Random, Span, Time};
use cellpace_measure::{DelaySketch, LegFigures, ProxyFigures};
use cellpace_path::Packet;

use crate::chain_spec::{ChainSpec, ProxySpec};
use crate::connection::{Connection, EndRules, WrapController, packet_id};
use crate::pieces::PACKET_BYTES;
use crate::relay::Relay;
use crate::timers::ACK_BYTES;
use crate::transfer_tally::SenderCounts;
use crate::transfers::Leg;

/// The proxy's own random stream.
const PROXY_STREAM: u64 = 1 << 42;

/// A server that knows of no more room asks again and again.
struct WindowProbe {
    flow: usize,
    generation: u16,
    at: Time,
    wait: Span,
}

impl WindowProbe {
    /// Set in the number of its packets. Those of data are far smaller.
    const MARK: u64 = 1 << 46;
    /// Between two of them at most (RFC 9293 section 3.8.6.1 leaves it open).
    const MAX_WAIT: Span = Span::from_secs(60);
}

#[derive(Default)]
pub(crate) struct LegTally {
    pub(crate) rtt: DelaySketch,
    pub(crate) rto: DelaySketch,
}

impl LegTally {
    fn figures(&self, counts: SenderCounts) -> LegFigures {
        LegFigures {
            rtt_ms: self.rtt.summary(),
            rto_ms: self.rto.summary(),
            retransmitted: counts.retransmitted,
            timeouts: counts.timeouts,
        }
    }
}

/// The proxy at run time.
pub(crate) struct SplitProxy {
    spec: ProxySpec,
    ends: EndRules,
    random: Random,
    pub(crate) relays: Vec<Relay>,
    /// Packets of handshakes that wait for the proxy's connection to the server.
    waiting_legs: VecDeque<(Time, usize, Leg)>,
    /// When the proxy is connected to the server of a transfer, by flow and transfer.
    connected_at: HashMap<(usize, u64), Time>,
    probes: Vec<WindowProbe>,
    wired_rtt: Span,
    pub(crate) in_proxy: DelaySketch,
    /// The most pieces of one connection that it kept.
    pub(crate) held_max: u64,
    /// That of the servers, and its own.
    pub(crate) legs: [LegTally; 2],
    /// What the senders of relays that are over have done.
    past: SenderCounts,
}

impl SplitProxy {
    /// The proxy of a chain that has one.
    pub(crate) fn new(chain: &ChainSpec, ends: EndRules, seed: u64) -> Option<Self> {
        Some(Self {
            spec: chain.proxy.clone()?,
            ends,
            random: Random::seeded(seed, PROXY_STREAM),
            relays: Vec::new(),
            waiting_legs: VecDeque::new(),
            connected_at: HashMap::new(),
            probes: Vec::new(),
            wired_rtt: chain.rtt_before(),
            in_proxy: DelaySketch::new(),
            held_max: 0,
            legs: <[LegTally; 2]>::default(),
            past: SenderCounts::default(),
        })
    }

    /// When it has something to do, or `Time::MAX`.
    pub(crate) fn next_deadline(&self) -> Time {
        let relays = self.relays.iter().filter_map(|relay| relay.radio.next_deadline());
        let legs = self.waiting_legs.iter().map(|(at, ..)| *at);
        let probes = self.probes.iter().map(|probe| probe.at);
        relays.chain(legs).chain(probes).min().unwrap_or(Time::MAX)
    }

    pub(crate) fn relay_of(&self, flow: usize, generation: u16) -> Option<usize> {
        self.relays.iter().position(|relay| relay.flow == flow && relay.generation == generation)
    }

    /// The number below which the server of this connection may send from now on.
    pub(crate) fn offer(&mut self, flow: usize, generation: u16) -> Option<u64> {
        let relay = self.relay_of(flow, generation)?;
        Some(self.relays[relay].offer())
    }

    /// The number of the relay of this connection, which may begin now.
    pub(crate) fn relay_or_open(
        &mut self,
        (flow, generation): (usize, u16),
        now: Time,
        connect: &mut WrapController<'_>,
    ) -> usize {
        self.relay_of(flow, generation).unwrap_or_else(|| {
            let (spec, ends, random) = (&self.spec, self.ends, &mut self.random);
            let relay = Relay::new((flow, generation), spec, ends, now, random, connect);
            self.relays.push(relay);
            self.relays.len() - 1
        })
    }

    pub(crate) fn end_relay(&mut self, index: usize) {
        // Figures are those of all connections, also of the ones that are over.
        self.past += self.relays.remove(index).radio.own_counts();
    }

    /// It answers a SYN itself, and connects to the server meanwhile. Returns whether it does.
    pub(crate) fn answers(&mut self, now: Time, flow: usize, leg: Leg, is_syn: bool) -> bool {
        let answers = self.spec.is_early && leg.place == 0 && is_syn;
        if answers {
            self.connected_at.entry((flow, leg.transfer)).or_insert(now + self.wired_rtt);
        }
        answers
    }

    /// A packet of a handshake or a request is on its way to the server. Returns whether it waits for
    /// the proxy's connection to it.
    pub(crate) fn holds(&mut self, now: Time, flow: usize, leg: Leg) -> bool {
        let connected = self.connected_at.remove(&(flow, leg.transfer)).filter(|at| *at > now);
        self.waiting_legs.extend(connected.map(|at| (at, flow, leg)));
        connected.is_some()
    }

    /// The next packet of those that waited for a connection which is there now.
    pub(crate) fn due_leg(&mut self, now: Time) -> Option<(usize, Leg)> {
        let place = self.waiting_legs.iter().position(|(at, ..)| *at <= now)?;
        let (_, flow, leg) = self.waiting_legs.remove(place)?;
        Some((flow, leg))
    }

    /// Packets of servers whose window is closed, and whose data has all been acknowledged: they ask
    /// for more, since the message that there is room may have been lost.
    pub(crate) fn due_probes(&mut self, now: Time) -> Vec<Packet> {
        let due = self.probes.iter_mut().filter(|probe| probe.at <= now);
        let ask = |probe: &mut WindowProbe| {
            let id = packet_id(probe.generation, WindowProbe::MARK);
            probe.at = now + probe.wait;
            // Backs off as retransmissions do (RFC 9293 section 3.8.6.1).
            probe.wait = (probe.wait * 2).min(WindowProbe::MAX_WAIT);
            Packet::new(id, probe.flow as u32, ACK_BYTES, now)
        };
        due.map(ask).collect()
    }

    pub(crate) fn is_probe(packet: &Packet) -> bool {
        packet.id & WindowProbe::MARK != 0
    }

    /// Sets and removes the probes of a flow's connections.
    pub(crate) fn watch_windows(&mut self, now: Time, flow: usize, connections: &[Connection]) {
        let waits = |generation: u16| {
            let mut all = connections.iter();
            all.any(|c| c.generation == generation && c.waits_for_window())
        };
        self.probes.retain(|probe| probe.flow != flow || waits(probe.generation));
        for connection in connections.iter().filter(|connection| connection.waits_for_window()) {
            let generation = connection.generation;
            let mut known = self.probes.iter();
            if !known.any(|probe| probe.flow == flow && probe.generation == generation) {
                // The first probe after one timeout, as the persist timer has it (RFC 9293 section
                // 3.8.6.1).
                let wait = connection.rto();
                self.probes.push(WindowProbe { flow, generation, at: now + wait, wait: wait * 2 });
            }
        }
    }

    /// What it has done, behind servers that have done this.
    pub(crate) fn figures(&self, of_servers: SenderCounts) -> ProxyFigures {
        let mut own = self.past;
        self.relays.iter().for_each(|relay| own += relay.radio.own_counts());
        ProxyFigures {
            time_ms: self.in_proxy.summary(),
            held_max_bytes: self.held_max * PACKET_BYTES,
            wired: self.legs[0].figures(of_servers),
            radio: self.legs[1].figures(own),
        }
    }
}
