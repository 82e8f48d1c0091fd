//! One connection: a controller, its packets in flight, and what it still has to send.

use std::collections::VecDeque;

use cellpace_base::{Random, Time};
use cellpace_cc::{Arrival, Block, Controller, ControllerSpec, RttEstimator, Setup, Span, Stamp};
use cellpace_path::{OPPORTUNITY_BYTES, Packet};
use cellpace_recovery::{AckGenerator, AckPolicy, Arrived, PacedSender, Sending};

use crate::host::{Admission, HostShare};

/// Full packets, IP header included.
const PACKET_BYTES: u64 = OPPORTUNITY_BYTES as u64;

/// May put something around the controller of a connection that begins.
pub(crate) type WrapController<'a> =
    dyn FnMut(Box<dyn Controller>, &Setup) -> Box<dyn Controller> + 'a;

/// The connection of a flow, or the present one of an ON/OFF flow.
pub(crate) struct Connection {
    /// Distinguishes packets of this connection from those of earlier ones of the same flow.
    pub(crate) generation: u16,
    pub(crate) receiver: AckGenerator,
    sender: PacedSender<u64>,
    source: PieceSource,
    arrived: Vec<Arrived>,
    pub(crate) retransmissions: u64,
}

/// Data in pieces of one packet each, numbered from zero.
struct PieceSource {
    next_piece: u64,
    /// Size of the file in bytes; `None`: endless.
    file: Option<u64>,
    /// All pieces below this one have arrived.
    done_below: u64,
    /// Which of the pieces from there on have arrived, as far as any has been sent: a file is far
    /// longer than what is in flight.
    done: VecDeque<bool>,
    pieces: u64,
    open: bool,
}

impl Connection {
    pub(crate) fn new(
        cc: &ControllerSpec,
        now: Time,
        file: Option<u64>,
        acks: AckPolicy,
        generation: u16,
        random: &mut Random,
        connect: &mut WrapController<'_>,
    ) -> Self {
        let mut setup = || Setup {
            mss: PACKET_BYTES,
            start: now,
            random: Random::seeded(random.bits(), u64::from(generation)),
        };
        let own = setup();
        Self {
            generation,
            sender: PacedSender::new(connect(cc.build(own.clone()), &own), now),
            receiver: AckGenerator::new(acks, cc.build_receiver(setup())),
            source: PieceSource::new(file),
            arrived: Vec::new(),
            retransmissions: 0,
        }
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        self.sender.controller()
    }

    /// Bytes in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.sender.sent().in_flight()
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        self.sender.sent().rtt()
    }

    pub(crate) fn on_path_change(&mut self, now: Time) {
        self.sender.on_path_change(now);
    }

    pub(crate) fn controller_mut(&mut self) -> &mut dyn Controller {
        self.sender.controller_mut()
    }

    /// Sends packets for as long as `send` returns that there is room, and the host, if the
    /// bottleneck is inside it, takes them.
    pub(crate) fn pump(
        &mut self,
        now: Time,
        flow: u32,
        host: &mut Option<HostShare>,
        send: &mut impl FnMut(Packet) -> bool,
    ) {
        loop {
            let retransmission = self.sender.sent_mut().has_lost();
            if !self.source.open || !(retransmission || self.source.has_more()) {
                self.sender.rest();
                return;
            }
            let bytes = self.source.next_bytes(retransmission);
            if !self.sender.ready(now, bytes) {
                return;
            }
            if host.as_mut().is_some_and(|host| !self.enters(now, bytes, host)) {
                return;
            }
            if !send(self.send_one(now, flow, bytes, retransmission)) {
                return;
            }
        }
    }

    /// Whether the host takes another packet. A controller over UDP is told if it does not.
    fn enters(&mut self, now: Time, bytes: u64, host: &mut HostShare) -> bool {
        match host.admit(bytes, self.controller(), self.rtt()) {
            Admission::Enters => true,
            Admission::Waits => false,
            Admission::Refused => {
                // Nothing was stamped, so that there is nothing to take back.
                let stamp = Stamp::default();
                self.sender.controller_mut().on_block(&Block { now, stamp, waits: false });
                false
            }
        }
    }

    fn send_one(&mut self, now: Time, flow: u32, bytes: u64, retransmission: bool) -> Packet {
        let lost = if retransmission { self.sender.sent_mut().next_lost() } else { None };
        let data = lost.unwrap_or_else(|| self.source.take());
        self.retransmissions += u64::from(lost.is_some());
        let sending = Sending {
            now,
            bytes,
            data,
            retransmission: lost.is_some(),
            app_limited: !self.source.has_more() && !self.sender.sent_mut().has_lost(),
        };
        let (number, stamp) = self.sender.send(&sending);
        let id = packet_id(self.generation, number);
        Packet { tag: stamp.wire, ..Packet::new(id, flow, bytes as u32, now) }
    }

    /// A packet of this connection reached its receiver. Returns whether an ack goes out.
    pub(crate) fn on_arrival(&mut self, now: Time, packet: &Packet) -> bool {
        self.receiver.on_packet(&Arrival {
            now,
            number: packet.id & NUMBER_MASK,
            bytes: u64::from(packet.size),
            wire: packet.tag,
        })
    }

    /// An ack that covers the receiver's log up to `upto` arrived. `on_rtt` gets each sample.
    pub(crate) fn on_ack(&mut self, now: Time, upto: u64, mut on_rtt: impl FnMut(Span)) {
        self.arrived.clear();
        self.receiver.take_until(upto, &mut self.arrived);
        let source = &mut self.source;
        self.sender.on_ack(now, &self.arrived, |piece, rtt| {
            source.arrived(piece);
            on_rtt(rtt);
        });
    }

    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let or_never = |time: Option<Time>| time.unwrap_or(Time::MAX);
        // A sender that has closed needs no epochs.
        let epoch = if self.source.open { self.sender.controller_deadline() } else { None };
        let next = or_never(epoch)
            .min(or_never(self.sender.packet_deadline()))
            .min(or_never(self.receiver.next_deadline()));
        (next != Time::MAX).then_some(next)
    }

    /// Does what is due at the sender. The receiver's deadlines are the caller's, as their acks
    /// go over the path.
    pub(crate) fn on_timer(&mut self, now: Time) {
        self.sender.on_timer(now);
    }

    /// Whether all of the file has arrived.
    pub(crate) fn is_done(&self) -> bool {
        self.source.file.is_some() && self.source.done_below == self.source.pieces
    }

    /// Whether it may send.
    pub(crate) fn is_open(&self) -> bool {
        self.source.open
    }

    /// Packets that it keeps in memory.
    pub(crate) fn remembered(&self) -> u64 {
        self.sender.sent().remembered()
    }

    /// Stops sending; acks still count.
    pub(crate) fn close(&mut self) {
        self.source.open = false;
        self.sender.rest();
    }
}

/// Packet numbers stay below 2^48, the generation of the connection lies above.
const NUMBER_MASK: u64 = (1 << 48) - 1;

fn packet_id(generation: u16, number: u64) -> u64 {
    u64::from(generation) << 48 | (number & NUMBER_MASK)
}

/// Which connection of its flow a packet belongs to.
pub(crate) fn generation_of(packet: &Packet) -> u16 {
    (packet.id >> 48) as u16
}

impl PieceSource {
    fn new(file: Option<u64>) -> Self {
        let pieces = file.map_or(u64::MAX, |bytes| bytes.div_ceil(PACKET_BYTES));
        Self { next_piece: 0, file, done_below: 0, done: VecDeque::new(), pieces, open: true }
    }

    fn has_more(&self) -> bool {
        self.next_piece < self.pieces
    }

    /// Size of the next packet. Only the last piece of a file is smaller; when it is sent again
    /// it counts as a full one, which errs on the safe side of the window.
    fn next_bytes(&self, retransmission: bool) -> u64 {
        match self.file {
            Some(bytes) if !retransmission => {
                (bytes - self.next_piece * PACKET_BYTES).min(PACKET_BYTES)
            }
            _ => PACKET_BYTES,
        }
    }

    fn take(&mut self) -> u64 {
        self.next_piece += 1;
        if self.file.is_some() {
            self.done.push_back(false);
        }
        self.next_piece - 1
    }

    fn arrived(&mut self, piece: u64) {
        let Some(index) = piece.checked_sub(self.done_below) else { return };
        let Some(done) = self.done.get_mut(index as usize) else { return };
        *done = true;
        while self.done.front() == Some(&true) {
            self.done.pop_front();
            self.done_below += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_done_when_each_of_its_pieces_has_arrived() {
        let mut source = PieceSource::new(Some(2 * PACKET_BYTES + 1));
        let taken: Vec<u64> = std::iter::from_fn(|| {
            let bytes = source.has_more().then(|| source.next_bytes(false))?;
            source.take();
            Some(bytes)
        })
        .collect();
        assert_eq!(taken, [1500, 1500, 1]);
        for (piece, done_below) in [(2, 0), (2, 0), (0, 1), (0, 1), (7, 1), (1, 3)] {
            source.arrived(piece);
            assert_eq!(source.done_below, done_below, "{piece}");
        }
        assert_eq!(source.pieces, 3);
    }

    #[test]
    fn a_file_larger_than_any_disk_costs_what_is_in_flight() {
        let mut source = PieceSource::new(Some(u64::MAX));
        for piece in 0..100_000 {
            assert_eq!(source.take(), piece);
            if piece >= 20 {
                source.arrived(piece - 20);
            }
        }
        assert_eq!(source.done.len(), 20);
        assert!(source.has_more());
    }
}
