//! A flow: connections one after the other, or cross traffic without any.

use cellpace_base::{Random, Rate, Span, Time};
use cellpace_path::{OPPORTUNITY_BYTES, Packet};

use crate::connection::{Connection, WrapController, generation_of};
use crate::host::HostShare;
use crate::{AckPolicy, FlowSpec, FlowTraffic};

/// One flow at run time.
pub(crate) struct SimFlow {
    index: u32,
    spec: FlowSpec,
    acks: AckPolicy,
    random: Random,
    pub(crate) connection: Option<Connection>,
    connections: u16,
    /// When the flow itself has something to do: start, stop, begin or end of a file, the next
    /// packet of cross traffic.
    next: Option<Time>,
    cross: CrossTraffic,
    retransmissions: u64,
    /// Its own delay in each direction, on top of the path's.
    pub(crate) own_delay: OwnDelay,
    /// What it has in the host's queue, where the bottleneck is there.
    pub(crate) host: Option<HostShare>,
}

/// A flow's own delay in each direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnDelay {
    pub(crate) forward: Span,
    pub(crate) reverse: Span,
}

/// An ON period that takes no time would end and begin again for ever in one instant.
const MIN_ON: Span = Span::from_millis(1);

#[derive(Default)]
struct CrossTraffic {
    packets: u64,
}

impl SimFlow {
    pub(crate) fn new(
        index: u32,
        spec: FlowSpec,
        acks: AckPolicy,
        own_delay: OwnDelay,
        host: Option<HostShare>,
        random: Random,
    ) -> Self {
        let next = Some(spec.start);
        Self {
            index,
            spec,
            acks,
            random,
            connection: None,
            connections: 0,
            next,
            cross: CrossTraffic::default(),
            retransmissions: 0,
            own_delay,
            host,
        }
    }

    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let connection = self.connection.as_ref().and_then(Connection::next_deadline);
        match (self.next, connection) {
            (Some(own), Some(connection)) => Some(own.min(connection)),
            (own, connection) => own.or(connection),
        }
    }

    /// Runs the timers that are due and sends packets; `send` returns whether there is room for more.
    pub(crate) fn on_timer(
        &mut self,
        now: Time,
        send: &mut impl FnMut(Packet) -> bool,
        connect: &mut WrapController<'_>,
    ) {
        if self.next.is_some_and(|time| time <= now) {
            self.next = None;
            self.step(now, send, connect);
        }
        if let Some(connection) = &mut self.connection {
            connection.on_timer(now);
        }
        self.pump(now, send);
    }

    /// Sends what may leave, and ends a file that has arrived.
    pub(crate) fn pump(&mut self, now: Time, send: &mut impl FnMut(Packet) -> bool) {
        let Some(connection) = &mut self.connection else { return };
        if now >= self.spec.stop {
            // An ack may come at that very instant, before the flow's own timer.
            connection.close();
        }
        connection.pump(now, self.index, &mut self.host, send);
        if connection.is_done() {
            self.end_file(now);
        }
    }

    /// The connection that `packet` belongs to, if it still exists.
    pub(crate) fn connection_of(&mut self, packet: &Packet) -> Option<&mut Connection> {
        let generation = generation_of(packet);
        self.connection.as_mut().filter(|connection| connection.generation == generation)
    }

    /// The flow's own next step.
    fn step(
        &mut self,
        now: Time,
        send: &mut impl FnMut(Packet) -> bool,
        connect: &mut WrapController<'_>,
    ) {
        if now >= self.spec.stop {
            self.stop();
            return;
        }
        match self.spec.traffic.clone() {
            FlowTraffic::ConstantRate(rate) => self.send_cross(now, rate, send),
            FlowTraffic::Bulk => {
                self.open(now, None, connect);
                self.next = Some(self.spec.stop);
            }
            FlowTraffic::OnOffFiles(onoff) if self.connection.is_none() => {
                let file = onoff.file(&mut self.random);
                let timed = onoff.rate.map(|rate| now + rate.time_for(file).max(MIN_ON));
                self.open(now, if timed.is_some() { None } else { Some(file) }, connect);
                self.next = Some(timed.unwrap_or(Time::MAX).min(self.spec.stop));
            }
            FlowTraffic::OnOffFiles(_) => self.end_file(now),
        }
    }

    fn open(&mut self, now: Time, file: Option<u64>, connect: &mut WrapController<'_>) {
        let Some(cc) = &self.spec.cc else { return };
        self.connections = self.connections.wrapping_add(1);
        let generation = self.connections;
        let connection =
            Connection::new(cc, now, file, self.acks, generation, &mut self.random, connect);
        self.connection = Some(connection);
    }

    /// An ON period is over; the next one begins after a pause.
    fn end_file(&mut self, now: Time) {
        let FlowTraffic::OnOffFiles(onoff) = &self.spec.traffic else { return };
        let pause = onoff.pause(&mut self.random);
        self.forget_connection();
        self.next = Some(now + pause);
    }

    fn stop(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.close();
        }
        self.next = None;
    }

    fn forget_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.retransmissions += connection.retransmissions;
        }
    }

    /// One packet of cross traffic; the times are computed from the count, so they do not drift.
    fn send_cross(&mut self, now: Time, rate: Rate, send: &mut impl FnMut(Packet) -> bool) {
        let bytes = u64::from(OPPORTUNITY_BYTES);
        if self.host.as_mut().is_none_or(|host| host.admit_plain(bytes)) {
            send(Packet::new(self.cross.packets, self.index, OPPORTUNITY_BYTES, now));
        }
        self.cross.packets += 1;
        let sent = self.cross.packets.saturating_mul(u64::from(OPPORTUNITY_BYTES));
        self.next = Some((self.spec.start + rate.time_for(sent)).min(self.spec.stop));
    }

    /// Data packets sent again so far.
    pub(crate) fn retransmissions(&self) -> u64 {
        let open = self.connection.as_ref().map_or(0, |connection| connection.retransmissions);
        self.retransmissions + open
    }

    /// Packets that it keeps in memory.
    pub(crate) fn remembered(&self) -> u64 {
        self.connection.as_ref().map_or(0, Connection::remembered)
    }

    /// Window in packets, while there is a connection that sends.
    pub(crate) fn cwnd_packets(&self) -> Option<f32> {
        let connection = self.connection.as_ref().filter(|connection| connection.is_open())?;
        Some((connection.controller().cwnd() as f64 / f64::from(OPPORTUNITY_BYTES)) as f32)
    }
}
