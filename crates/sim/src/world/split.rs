//! What happens to connections that a proxy splits: over all links but the last under the flow's
//! controller, and over the last under the proxy's.

use cellpace_base::Time;
use cellpace_path::{Fate, Packet, PacketRecord};

use super::World;
use crate::connection::generation_of;
use crate::observer::Observer;
use crate::proxy::SplitProxy;
use crate::relay::Relay;
use crate::timers::AckMessage;
use crate::transfers::Leg;

impl World {
    fn proxy(&mut self) -> &mut SplitProxy {
        self.proxy.as_mut().expect("only connections through a proxy come here")
    }

    /// The last link in front of the proxy.
    fn wired_end(&self) -> usize {
        self.links.last() - 1
    }

    /// A packet is at the proxy or at the receiver, or was dropped on its way there.
    pub(super) fn arrive_split(
        &mut self,
        link: usize,
        record: &mut PacketRecord,
        observer: &mut impl Observer,
    ) {
        let (packet, is_last) = (record.packet, link == self.links.last());
        let arrives = !matches!(record.fate, Fate::Dropped(_));
        if is_last && let Some(sent_at) = self.sent_by_server(&packet) {
            // End to end it began at the server.
            record.packet.sent_at = sent_at;
        }
        // A packet counts once: at the receiver, or where it was dropped.
        if is_last || !arrives {
            self.collector.record(record);
            observer.on_record(record);
        }
        match is_last {
            _ if !arrives => {}
            true => self.arrive_radio(&packet),
            false => self.arrive_wired(packet, observer),
        }
    }

    /// When the server sent what a packet of the radio leg carries, while the proxy keeps it.
    fn sent_by_server(&mut self, packet: &Packet) -> Option<Time> {
        if Leg::of_packet(packet.id).is_some() {
            return None;
        }
        let proxy = self.proxy();
        let relay = &proxy.relays[proxy.relay_of(packet.flow as usize, generation_of(packet))?];
        Some(relay.piece(relay.radio.piece_of(packet)?)?.sent_at)
    }

    /// A packet of a server is at the proxy.
    fn arrive_wired(&mut self, packet: Packet, observer: &mut impl Observer) {
        let (now, index, generation) = (self.now, packet.flow as usize, generation_of(&packet));
        if Leg::of_packet(packet.id).is_some() {
            // Packets of handshakes cross the proxy as they are: only data is split.
            return self.push_down(self.links.last(), Packet { sent_at: now, ..packet });
        }
        if SplitProxy::is_probe(&packet) {
            if let Some(relay) = self.proxy().relay_of(index, generation) {
                self.send_window(relay);
            }
            return;
        }
        // Before the ack: the relay, which may open only now, says in it how much room there is.
        self.relay(packet, observer);
        let Some(connection) = self.flows[index].connection_of(generation) else { return };
        let acks = connection.on_arrival(now, &packet);
        self.answer(index, generation, acks);
        self.timers.arm(index, self.flows[index].receiving_deadline(generation));
    }

    /// The proxy takes a packet in.
    fn relay(&mut self, packet: Packet, observer: &mut impl Observer) {
        let (now, flow, generation) = (self.now, packet.flow as usize, generation_of(&packet));
        let Some(connection) = self.flows[flow].connection_of(generation) else { return };
        let Some(piece) = connection.piece_of(&packet) else { return };
        let proxy = self.proxy();
        let index = proxy.relay_or_open((flow, generation), now, &mut |controller, setup| {
            observer.on_connect(flow as u32, controller, setup)
        });
        let relay = &mut proxy.relays[index];
        relay.on_piece(now, piece, &packet);
        let held = relay.held;
        proxy.held_max = proxy.held_max.max(held);
        self.room.remember(held);
        self.pump_relay(index, observer);
    }

    fn arrive_radio(&mut self, packet: &Packet) {
        let (now, index) = (self.now, packet.flow as usize);
        if let Some(leg) = Leg::of_packet(packet.id) {
            return self.deliver_leg(index, leg);
        }
        let generation = generation_of(packet);
        let proxy = self.proxy();
        let Some(relay) = proxy.relay_of(index, generation) else { return };
        let radio = &mut proxy.relays[relay].radio;
        let acks = radio.on_arrival(now, packet);
        let below = radio.received_below();
        self.flows[index].on_received(now, generation, below);
        self.answer_relay(relay, acks);
        self.timers.arm(index, self.flows[index].next_deadline());
    }

    /// The receiver behind the proxy sends what is due.
    fn answer_relay(&mut self, index: usize, ack: bool) {
        let now = self.now;
        let Relay { flow, generation, radio, .. } = &mut self.proxy().relays[index];
        let (flow, generation) = (*flow, *generation);
        let upto = ack.then(|| radio.receiver.ack());
        let report = radio.receiver.poll_report(now);
        if upto.is_some() || report.is_some() {
            let message = AckMessage { upto, report, ..AckMessage::of(generation) };
            self.push_up(self.links.last(), flow, message);
        }
    }

    /// A message of the receiver is at the proxy.
    pub(super) fn receive_at_proxy(
        &mut self,
        flow: usize,
        message: AckMessage,
        observer: &mut impl Observer,
    ) {
        let Some(leg) = message.leg else {
            return self.acknowledge_proxy(flow, message, observer);
        };
        let (now, is_syn) = (self.now, self.flows[flow].begins_with_syn());
        if self.proxy().answers(now, flow, leg, is_syn) {
            self.flows[flow].on_leg(now, leg);
            self.send_legs(flow, self.links.last());
            self.timers.arm(flow, self.flows[flow].next_deadline());
        } else if !self.proxy().holds(now, flow, leg) {
            self.push_up(self.wired_end(), flow, AckMessage::leg(leg));
        }
    }

    fn acknowledge_proxy(
        &mut self,
        flow: usize,
        message: AckMessage,
        observer: &mut impl Observer,
    ) {
        let (now, counts) = (self.now, self.window.contains(self.now));
        let Some(proxy) = &mut self.proxy else { return };
        let Some(index) = proxy.relay_of(flow, message.generation) else { return };
        let (radio, leg) = (&mut proxy.relays[index].radio, &mut proxy.legs[1]);
        let connection = self.flows[flow].connection_of(message.generation);
        let mut tally = connection.and_then(|connection| connection.tally_mut());
        if let Some(upto) = message.upto {
            let collector = &mut self.collector;
            radio.on_ack(now, upto, |rtt| {
                collector.rtt(now, flow, rtt);
                if counts {
                    leg.rtt.record(rtt);
                }
                if let Some(tally) = &mut tally {
                    tally.on_rtt(rtt);
                }
            });
            if counts {
                leg.rto.record(radio.rto());
            }
            if let Some(tally) = &mut tally {
                tally.on_rto(radio.rto());
            }
        }
        if let Some(report) = message.report {
            radio.controller_mut().on_report(now, &report);
        }
        self.pump_relay(index, observer);
        if self.proxy().relays[index].release() {
            self.send_window(index);
        }
    }

    /// Tells the server how much room there is.
    fn send_window(&mut self, index: usize) {
        let relay = &mut self.proxy().relays[index];
        let (flow, generation, offer) = (relay.flow, relay.generation, Some(relay.offer()));
        let message = AckMessage { offer, ..AckMessage::of(generation) };
        self.push_up(self.wired_end(), flow, message);
    }

    /// Sends what waited for connections of the proxy, and what servers with a closed window ask.
    pub(super) fn run_proxy(&mut self) {
        let now = self.now;
        while let Some((flow, leg)) = self.proxy().due_leg(now) {
            self.push_up(self.wired_end(), flow, AckMessage::leg(leg));
        }
        for probe in self.proxy().due_probes(now) {
            self.push_down(0, probe);
        }
    }

    pub(super) fn run_relays(&mut self, observer: &mut impl Observer) {
        let now = self.now;
        for index in 0..self.proxy().relays.len() {
            let radio = &mut self.proxy().relays[index].radio;
            if radio.next_deadline().is_some_and(|due| due <= now) {
                let acks = radio.receiver.on_deadline(now);
                self.answer_relay(index, acks);
                self.proxy().relays[index].radio.on_timer(now);
                self.pump_relay(index, observer);
            }
        }
    }

    /// Reports the new path to the proxy, which is in front of it.
    pub(super) fn report_path_change_to_proxy(&mut self, observer: &mut impl Observer) {
        let now = self.now;
        for index in 0..self.proxy().relays.len() {
            self.proxy().relays[index].radio.on_path_change(now);
            self.pump_relay(index, observer);
        }
    }

    /// The proxy sends on what its controller lets it.
    fn pump_relay(&mut self, index: usize, observer: &mut impl Observer) {
        let (now, counts) = (self.now, self.window.contains(self.now));
        let Some(proxy) = &mut self.proxy else { return };
        let relay = &mut proxy.relays[index];
        let flow = relay.flow;
        let mut sent = Vec::new();
        relay.radio.pump(now, flow as u32, &mut None, &mut |packet| {
            // Collected, as the relay is borrowed from the world that the packets enter.
            sent.push(packet);
            true
        });
        for packet in &sent {
            let piece = relay.radio.piece_of(packet);
            if let Some(held) = piece.and_then(|piece| relay.leaves(piece))
                && counts
            {
                proxy.in_proxy.record(now - held.in_order_at);
            }
        }
        self.room.remember(relay.radio.remembered());
        if let Some(connection) = self.flows[flow].connection_of(relay.generation) {
            connection.note_relayed(relay.radio.own_counts());
            if let Some(tally) = connection.tally_mut().filter(|_| !sent.is_empty()) {
                tally.on_sent(now, relay.radio.in_flight());
            }
        }
        while let Some((at, event)) = relay.radio.controller_mut().poll_event() {
            observer.on_event(flow as u32, at, event);
        }
        let last = self.links.last();
        sent.into_iter().for_each(|packet| self.push_down(last, packet));
    }

    /// Relays end with their connections: when the receiver has everything, or when they are given
    /// up.
    pub(super) fn end_relays(&mut self, observer: &mut impl Observer) {
        let mut index = 0;
        while let Some(relay) = self.proxy.as_ref().and_then(|proxy| proxy.relays.get(index)) {
            let flow = relay.flow;
            let ends = match self.flows[flow].connection_of(relay.generation) {
                None => true,
                Some(connection) if relay.is_empty() && connection.is_at_proxy() => {
                    connection.release();
                    true
                }
                Some(_) => false,
            };
            if !ends {
                index += 1;
                continue;
            }
            // The next relay has this index now, so the index stays.
            self.proxy().end_relay(index);
            self.pump(flow, observer);
        }
    }
}
