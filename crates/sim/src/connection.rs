//! One connection: a controller, its packets in flight, and what it still has to send.

use cellpace_base::{Random, Time};
use cellpace_cc::{
    Arrival, Block, Controller, ControllerSpec, RtoRule, RttEstimator, Setup, Span, Stamp,
};
use cellpace_path::Packet;
use cellpace_recovery::{
    AckGenerator, AckPolicy, Arrived, FrameRecord, PacedSender, PacketCounts, Sending, VideoSource,
    VideoSpec,
};

use crate::host::{Admission, HostShare};
use crate::pieces::{FRAME_PAYLOAD_BYTES, PACKET_BYTES, PieceSet, PieceSource};
use crate::transfer_tally::{SenderCounts, TransferTally};

/// May put something around the controller of a connection that begins.
pub(crate) type WrapController<'a> =
    dyn FnMut(Box<dyn Controller>, &Setup) -> Box<dyn Controller> + 'a;

/// What all connections of a run have in common at their ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndRules {
    pub(crate) acks: AckPolicy,
    pub(crate) rto_rule: RtoRule,
    /// Pieces that a proxy in front of the receiver has room for; `None`: there is no proxy.
    pub(crate) relay_room: Option<u64>,
}

/// The connection of a flow, or the present one of an ON/OFF flow.
pub(crate) struct Connection {
    /// Distinguishes packets of this connection from those of earlier ones of the same flow.
    pub(crate) generation: u16,
    pub(crate) receiver: AckGenerator,
    sender: PacedSender<u64>,
    source: PieceSource,
    arrived: Vec<Arrived>,
    pub(crate) retransmissions: u64,
    transfers: Option<Box<CarriedTransfers>>,
    video: Option<Box<VideoSource>>,
    /// What the sender of a proxy has done for it, which stands for its own in the figures of
    /// transfers.
    relayed: Option<SenderCounts>,
}

/// What a connection of transfers knows beside.
struct CarriedTransfers {
    /// Which pieces are at the receiver.
    received: PieceSet,
    handshake_rtt: Option<Span>,
    tally: TransferTally,
}

impl Connection {
    pub(crate) fn new(
        cc: &ControllerSpec,
        now: Time,
        source: PieceSource,
        ends: EndRules,
        generation: u16,
        random: &mut Random,
        connect: &mut WrapController<'_>,
    ) -> Self {
        let mut setup = || Setup {
            mss: PACKET_BYTES,
            start: now,
            random: Random::seeded(random.bits(), u64::from(generation)),
        };
        // Each call draws a seed: sender and receiver have random sources of their own.
        let own = setup();
        let controller = connect(cc.build(own.clone()), &own);
        let rtt = RttEstimator::default().with_rule(ends.rto_rule);
        let mut sender = PacedSender::with_rtt(controller, now, rtt);
        // Every simulated path can carry ECN: whether packets do is the controller's decision.
        sender.use_ecn();
        Self {
            generation,
            sender,
            receiver: AckGenerator::new(ends.acks, cc.build_receiver(setup())),
            source: match ends.relay_room {
                Some(room) => source.through_proxy(room),
                None => source,
            },
            arrived: Vec::new(),
            retransmissions: 0,
            transfers: None,
            video: None,
            relayed: ends.relay_room.map(|_| SenderCounts::default()),
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
            self.give_up_lost_frames();
            let retransmission = self.sender.sent_mut().has_lost();
            if !self.source.open || !(retransmission || self.source.has_more()) {
                self.sender.rest();
                return;
            }
            // The size is asked before anything is taken: a packet that may not leave stays in its
            // place.
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

    /// What a video has lost is not sent again.
    fn give_up_lost_frames(&mut self) {
        let Some(video) = &mut self.video else { return };
        while self.sender.sent_mut().next_lost().is_some() {
            video.on_lost();
        }
    }

    /// The connection carries a video from now on.
    pub(crate) fn begin_video(&mut self, spec: &VideoSpec, now: Time, random: Random) {
        let video = VideoSource::new(spec, now, FRAME_PAYLOAD_BYTES, random);
        self.video = Some(Box::new(video));
    }

    /// Captures a frame of the video. Returns when the next one is due.
    pub(crate) fn capture(&mut self, now: Time) -> Option<Time> {
        let video = self.video.as_mut()?;
        let rtt = self.sender.sent().rtt().clone();
        let sent = self.source.taken();
        let frame = video.capture(now, sent, self.sender.controller_mut(), &rtt);
        if frame.discards {
            self.source.drop_untaken();
        }
        self.source.append_frame(frame.bytes);
        Some(video.next_capture())
    }

    /// The frames of the video, where it carries one.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &FrameRecord> {
        self.video.iter().flat_map(|video| video.frames())
    }

    /// Whether the host takes another packet. A refusal is reported to a controller over UDP.
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

    #[inline]
    fn send_one(&mut self, now: Time, flow: u32, bytes: u64, retransmission: bool) -> Packet {
        let lost = if retransmission { self.sender.sent_mut().next_lost() } else { None };
        // Lost data goes first, as in TCP: the receiver cannot use what lies behind a gap.
        let data = lost.unwrap_or_else(|| self.source.take());
        self.retransmissions += u64::from(lost.is_some());
        let sending = Sending {
            now,
            bytes,
            data,
            retransmission: lost.is_some(),
            // Lost data waits to be sent, too: the application is not what limits the sender.
            app_limited: !self.source.has_more() && !self.sender.sent_mut().has_lost(),
        };
        let ecn = self.sender.ecn();
        let (number, stamp) = self.sender.send(&sending);
        if let Some(transfers) = &mut self.transfers {
            match self.relayed {
                None => transfers.tally.on_sent(now, self.sender.sent().in_flight()),
                // Behind a proxy its own leg counts what is in flight; only the beginning is the
                // server's.
                Some(_) => transfers.tally.begin(now),
            }
        }
        let id = packet_id(self.generation, number);
        Packet { tag: stamp.wire, ecn, ..Packet::new(id, flow, bytes as u32, now) }
    }

    /// A packet of this connection reached its receiver. Returns whether an ack goes out.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Time, packet: &Packet) -> bool {
        let number = packet.id & NUMBER_MASK;
        if self.transfers.is_some() || self.video.is_some() {
            self.note_arrival(now, number);
        }
        self.receiver.on_packet(&Arrival {
            now,
            number,
            bytes: u64::from(packet.size),
            wire: packet.tag,
            ecn: packet.ecn,
        })
    }

    fn note_arrival(&mut self, now: Time, number: u64) {
        let Some(piece) = self.sender.sent().data_of(number) else { return };
        if let Some(transfers) = &mut self.transfers {
            transfers.received.insert(piece);
        }
        if let Some(video) = &mut self.video {
            video.on_arrived(piece, now);
        }
    }

    /// An ack that covers the receiver's log up to `upto` arrived. `on_rtt` gets each sample.
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Time, upto: u64, mut on_rtt: impl FnMut(Span)) {
        self.arrived.clear();
        self.receiver.take_until(upto, &mut self.arrived);
        let (source, mut own) = (&mut self.source, self.transfers.as_mut());
        // Lost pieces of a video stay missing, so that no account of them would ever end.
        let counts_pieces = self.video.is_none();
        own = own.filter(|_| self.relayed.is_none());
        self.sender.on_ack(now, &self.arrived, |piece, rtt| {
            if counts_pieces {
                source.arrived(piece);
            }
            if let Some(transfers) = &mut own {
                transfers.tally.on_rtt(rtt);
            }
            on_rtt(rtt);
        });
        if let Some(transfers) = own {
            transfers.tally.on_rto(self.sender.rto());
        }
    }

    /// The ids of the packets of the ack that came last.
    pub(crate) fn acked(&self) -> impl Iterator<Item = u64> {
        self.arrived.iter().map(|arrived| packet_id(self.generation, arrived.number))
    }

    /// Another transfer of `bytes` is sent. Returns the number behind its last piece.
    pub(crate) fn append_transfer(&mut self, bytes: u64, handshake_rtt: Option<Span>) -> u64 {
        let counts = self.counts();
        // The RTTs of a proxy's leg are compared with the smallest of them.
        let handshake_rtt = handshake_rtt.filter(|_| self.relayed.is_none());
        let (received, handshake_rtt) = match self.transfers.take() {
            Some(before) => (before.received, before.handshake_rtt),
            None => (PieceSet::default(), handshake_rtt),
        };
        let tally = TransferTally::new(handshake_rtt, counts);
        self.transfers = Some(Box::new(CarriedTransfers { received, handshake_rtt, tally }));
        self.source.append_transfer(bytes)
    }

    /// What was noted of the present transfer, which ends.
    pub(crate) fn take_tally(&mut self) -> Option<TransferTally> {
        let transfers = self.transfers.as_mut()?;
        let next = TransferTally::new(transfers.handshake_rtt, SenderCounts::default());
        Some(std::mem::replace(&mut transfers.tally, next))
    }

    /// All pieces of transfers below this number are at the receiver.
    pub(crate) fn received_below(&self) -> u64 {
        self.transfers.as_ref().map_or(0, |transfers| transfers.received.below())
    }

    /// Notes from now on what is at the receiver, for pieces that a proxy hands on one by one.
    pub(crate) fn note_received(&mut self) {
        let tally = TransferTally::new(None, SenderCounts::default());
        let received = PieceSet::default();
        self.transfers = Some(Box::new(CarriedTransfers { received, handshake_rtt: None, tally }));
    }

    /// Another piece with so many bytes, without headers, is to be sent.
    pub(crate) fn append_piece(&mut self, payload: u64) {
        self.source.append_transfer(payload);
    }

    /// The piece that a packet of this connection brings, while that is known.
    pub(crate) fn piece_of(&self, packet: &Packet) -> Option<u64> {
        self.sender.sent().data_of(packet.id & NUMBER_MASK)
    }

    /// The receiver has acknowledged all pieces below this number.
    pub(crate) fn acked_below(&self) -> u64 {
        self.source.acked_below()
    }

    /// The other end has room for all pieces below this number.
    pub(crate) fn offer(&mut self, below: u64) {
        self.source.offer(below);
    }

    /// Whether only the window of the other end keeps it from sending, and no ack is to come.
    pub(crate) fn waits_for_window(&self) -> bool {
        self.source.open && self.source.is_beyond_offer() && self.in_flight() == 0
    }

    /// The proxy has handed on all that it will.
    pub(crate) fn release(&mut self) {
        self.source.release();
    }

    /// Whether all that it has to send is at the proxy, which still has some of it.
    pub(crate) fn is_at_proxy(&self) -> bool {
        self.source.is_at_proxy()
    }

    /// The sender of the proxy, which is nearer to the receiver, has done so much by now.
    pub(crate) fn note_relayed(&mut self, counts: SenderCounts) {
        self.relayed = Some(counts);
    }

    /// What is noted of the present transfer, where there is one.
    pub(crate) fn tally_mut(&mut self) -> Option<&mut TransferTally> {
        self.transfers.as_mut().map(|transfers| &mut transfers.tally)
    }

    /// What was done so far by the sender that is nearest to the receiver.
    pub(crate) fn counts(&self) -> SenderCounts {
        self.relayed.unwrap_or_else(|| self.own_counts())
    }

    /// What the sender has done so far.
    pub(crate) fn own_counts(&self) -> SenderCounts {
        let sent = self.sender.sent();
        let PacketCounts { late, timeouts, spurious_timeouts, .. } = sent.counts();
        SenderCounts {
            sent: sent.next_number(),
            retransmitted: self.retransmissions,
            timeouts,
            spurious_timeouts,
            spurious_losses: late,
        }
    }

    /// The retransmission timeout at present.
    pub(crate) fn rto(&self) -> Span {
        self.sender.rto()
    }

    /// When something is due.
    #[inline]
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
        self.source.is_done()
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
        // Acks still count, so that the last losses and RTTs are in the figures.
        self.source.open = false;
        self.sender.rest();
    }
}

/// Packet numbers stay below 2^48, the generation of the connection lies above.
const NUMBER_MASK: u64 = (1 << 48) - 1;

pub(crate) fn packet_id(generation: u16, number: u64) -> u64 {
    u64::from(generation) << 48 | (number & NUMBER_MASK)
}

/// Which connection of its flow a packet belongs to.
pub(crate) fn generation_of(packet: &Packet) -> u16 {
    (packet.id >> 48) as u16
}
