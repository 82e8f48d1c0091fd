//! The sending half of a connection.

use std::collections::VecDeque;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Block, Controller, Ecn, Stamp};
use cellpace_recovery::{
    Arrived, EcnFailure, EcnState, FrameRecord, PacedSender, Sending, VideoSpec,
};

use crate::hash::{PIECE, StreamHash};
use crate::numbers::{Meaning, Numbers, join_matters};
use crate::ranges::RangeSet;
use crate::video::VideoStream;
use crate::wire::{
    self, AckEntry, AckPacket, DATA_HEADER_BYTES, EcnCounts, HEADER_BYTES, Ids, Numbered,
    STAMP_BYTES,
};

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Data { offset: u64, length: u16 },
    Fin,
}

/// Figures of what was sent and what arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutgoingStats {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub ip_bytes: u64,
    /// Packets that carried data that had been sent before.
    pub retransmissions: u64,
    /// Packets lost, without those that arrived late.
    pub lost: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Packets that arrived.
    pub acked_packets: u64,
    /// Their bytes, IP headers included.
    pub acked_ip_bytes: u64,
    /// Bytes of the stream that arrived.
    pub acked_bytes: u64,
    /// Bytes in flight, IP headers included.
    pub in_flight: u64,
    /// The congestion window in bytes; `u64::MAX` where the controller has none.
    pub cwnd: u64,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// Smallest RTT.
    pub min_rtt: Option<Span>,
    /// Packets that arrived marked (ECN).
    pub marked: u64,
    /// Whether marks are asked for, and whether the path carries them.
    pub ecn: EcnState,
}

/// Sends a stream under a controller until all of it has arrived.
pub(crate) struct Outgoing {
    sender: PacedSender<Piece>,
    numbers: Numbers,
    /// Whether the controller has a half at the receiver, to which its stamps go.
    stamped: bool,
    unreliable: bool,
    /// Largest datagram in bytes.
    datagram: usize,
    /// IP and UDP headers.
    overhead: usize,
    /// The stream from `base` on: everything before has arrived.
    buffer: VecDeque<u8>,
    base: u64,
    /// Bytes that the buffer holds at most.
    limit: usize,
    /// Everything from here on has never been sent.
    next: u64,
    acked: RangeSet,
    /// Of everything up to `hashed`, which is not below `base` and not above `next`.
    hasher: StreamHash,
    hashed: u64,
    /// Length of the stream, once known; of an unreliable one from the beginning if it has one.
    total: Option<u64>,
    /// A packet that is not full may leave: the application has no more data at present.
    flushed: bool,
    fin: Fin,
    /// What the stream is made of, where it is a video.
    video: Option<Box<VideoStream>>,
    peer_window: u64,
    /// Log position of the receiver up to which every arrival is known here.
    known: u64,
    next_report: u64,
    /// Arrivals that acks have reported and the sender has not processed yet, ...
    reported: VecDeque<ReportedArrival>,
    /// ... and the acks that reported them: when each ack arrived, and how many arrivals it
    /// reported.
    acks: VecDeque<(Time, usize)>,
    /// The receiver delays its acks: each counts as one for all that it reports, as with TCP.
    delayed_acks: bool,
    /// The latest time passed to the controller.
    controller_time: Time,
    arrived: Vec<Arrived>,
    /// Packets that an ack lists one by one.
    listed: Vec<u64>,
    /// When the controller may next be informed that the system takes nothing.
    blocked_until: Time,
    stats: OutgoingStats,
    /// RTT samples that nobody has taken.
    rtts: Vec<Span>,
    /// Acks report codepoints.
    reads_ecn: bool,
    /// The counts of the newest ack so far, and its number.
    ecn_counts: Option<(u64, EcnCounts)>,
    /// Packets that acks have shown to be marked, one by one or by their counts.
    marked: u64,
}

/// A receiver acknowledges at once. An arrival that it reports later than this, in answer to a
/// ping, is no sample of the present RTT.
const OLD_NEWS_US: u32 = 100_000;

/// An arrival, and how long the receiver had it before it acknowledged.
struct ReportedArrival {
    arrived: Arrived,
    held: Span,
}

/// Most of an ack's delay that is attributed to the receiver. A receiver that pauses between acks,
/// or whose machine is busy, reports how long it held each packet. It reports a long time also when
/// acks were lost, and that is delay of the path.
const MAX_HELD: Span = Span::from_millis(1);

/// Stands in for the RTT before the first sample (RFC 9002 section 6.2.2, kInitialRtt).
const RTT_UNKNOWN: Span = Span::from_millis(333);

/// Arrivals that wait for the sender at most: beyond that it processes them before it sends, so
/// that acks cannot pile up while the system sends nothing.
const MAX_REPORTED: usize = 1 << 14;

/// An ack of packets that were never sent, or of a number that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FalseAck;

/// Bytes that are taken ahead of what is sent at least. It is a window if that is more, so that as much
/// as may ever leave at once is there, and no more: what is written long before it is sent has left the
/// processor's cache by then.
const LEAD: usize = 1 << 20;

/// RTT samples that wait to be taken at most; those beyond are not kept.
const MAX_RTTS: usize = 1 << 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fin {
    Unsent,
    Sent,
    Arrived,
}

static NOTHING: [u8; 1 << 16] = [0; 1 << 16];

impl Outgoing {
    pub(crate) fn new(
        controller: Box<dyn Controller>,
        stamped: bool,
        unreliable: bool,
        sizes: Sizes,
        peer_window: u64,
        numbers: Numbers,
        now: Time,
    ) -> Self {
        Self {
            sender: PacedSender::new(controller, now),
            numbers,
            stamped,
            unreliable,
            datagram: sizes.datagram,
            overhead: sizes.overhead,
            buffer: VecDeque::new(),
            base: 0,
            limit: sizes.buffer,
            next: 0,
            acked: RangeSet::default(),
            hasher: StreamHash::new(),
            hashed: 0,
            total: None,
            flushed: false,
            fin: Fin::Unsent,
            video: None,
            peer_window: if unreliable { u64::MAX } else { peer_window },
            known: 0,
            next_report: 0,
            reported: VecDeque::new(),
            acks: VecDeque::new(),
            delayed_acks: false,
            controller_time: now,
            arrived: Vec::new(),
            listed: Vec::new(),
            blocked_until: Time::ZERO,
            stats: OutgoingStats::default(),
            rtts: Vec::new(),
            reads_ecn: false,
            ecn_counts: None,
            marked: 0,
        }
    }

    /// Packets leave with the codepoint that the controller wants, if the peer reports codepoints.
    pub(crate) fn use_ecn(&mut self, now: Time, peer_reports: bool) {
        self.reads_ecn = peer_reports;
        self.sender.use_ecn();
        if !peer_reports {
            self.sender.fail_ecn(now, EcnFailure::Peer);
        }
    }

    /// Notes that the receiver delays its acks.
    pub(crate) fn set_delayed_acks(&mut self) {
        self.delayed_acks = true;
    }

    pub(crate) fn stats(&self) -> OutgoingStats {
        let (sent, controller) = (self.sender.sent(), self.sender.controller());
        let counts = sent.counts();
        OutgoingStats {
            lost: counts.lost.saturating_sub(counts.late),
            timeouts: counts.timeouts,
            acked_bytes: if self.unreliable { self.stats.acked_bytes } else { self.base },
            in_flight: sent.in_flight(),
            cwnd: controller.cwnd(),
            srtt: sent.rtt().smoothed(),
            min_rtt: sent.rtt().minimum(),
            marked: self.marked,
            ecn: self.sender.ecn_state(),
            ..self.stats
        }
    }

    /// Why the controller cannot go on.
    pub(crate) fn failure(&self) -> Option<String> {
        self.sender.controller().failure()
    }

    pub(crate) fn controller_mut(&mut self) -> &mut dyn Controller {
        self.sender.controller_mut()
    }

    /// Gives each RTT sample since the last call to `take`.
    pub(crate) fn take_rtts(&mut self, take: impl FnMut(Span)) {
        self.rtts.drain(..).for_each(take);
    }

    /// Takes as much of `bytes` as there is room for, and returns how much.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        if self.total.is_some() {
            return 0;
        }
        let taken = bytes.len().min(self.room());
        self.buffer.extend(&bytes[..taken]);
        self.flushed &= taken == 0;
        taken
    }

    /// Bytes that [`write`](Self::write) takes now.
    pub(crate) fn room(&self) -> usize {
        if self.total.is_some() || self.unreliable {
            return 0;
        }
        let held = self.buffer.len();
        let unsent = (self.base + held as u64 - self.next) as usize;
        let lead = usize::try_from(self.sender.controller().cwnd()).unwrap_or(usize::MAX).max(LEAD);
        self.limit.saturating_sub(held).min(lead.saturating_sub(unsent))
    }

    /// Lets what has been written leave, even if it does not fill a packet.
    pub(crate) fn flush(&mut self) {
        self.flushed = true;
    }

    /// Ends the stream with what has been written, or at once if it is unreliable.
    pub(crate) fn finish(&mut self) {
        let end = if self.unreliable { self.next } else { self.base + self.buffer.len() as u64 };
        self.total = Some(self.total.map_or(end, |total| total.min(end)));
    }

    /// Ends the stream with what has been sent: what was written beyond that is dropped.
    pub(crate) fn cut(&mut self) {
        if self.fin != Fin::Unsent {
            return;
        }
        if !self.unreliable {
            self.buffer.truncate((self.next - self.base) as usize);
        }
        self.total = Some(self.next);
    }

    /// Sets the length of an unreliable stream.
    pub(crate) fn limit_to(&mut self, total: u64) {
        if self.unreliable && self.total.is_none() {
            self.total = Some(total);
        }
    }

    /// Sends a video from now on, in place of an unreliable stream that always has more.
    pub(crate) fn begin_video(&mut self, spec: &VideoSpec, now: Time, random: Random) {
        if self.unreliable {
            let payload = self.datagram - self.data_header();
            self.video = Some(Box::new(VideoStream::new(spec, now, payload, random)));
        }
    }

    /// The frames of the video, and what it is made of.
    pub(crate) fn video(&self) -> Option<(&VideoSpec, Vec<FrameRecord>)> {
        let video = self.video.as_ref()?;
        Some((video.spec(), video.frames(self.sender.sent().rtt())))
    }

    /// When the next frame is captured, until the stream ends.
    fn next_capture(&self) -> Option<Time> {
        self.video.as_ref().filter(|_| self.total.is_none()).map(|video| video.next_capture())
    }

    fn capture(&mut self, now: Time) {
        if self.next_capture().is_none_or(|due| due > now) {
            return;
        }
        let rtt = self.sender.sent().rtt().clone();
        if let Some(video) = &mut self.video {
            video.skip_missed(now);
            self.next = video.capture(self.next, self.sender.controller_mut(), &rtt);
        }
    }

    /// Passes arrivals that are to be processed on to the video.
    fn note_frames(&mut self, now: Time) {
        let Some(video) = &mut self.video else { return };
        let sent = self.sender.sent();
        for arrived in &self.arrived {
            let piece = sent.data_of(arrived.number).zip(sent.sent_at(arrived.number));
            if let Some((Piece::Data { offset, .. }, sent_at)) = piece {
                video.on_acked(offset, sent_at, arrived.received_at, now, sent.rtt());
            }
        }
    }

    /// Whether everything arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.fin == Fin::Arrived && (self.unreliable || Some(self.base) == self.total)
    }

    /// Handles the receiver's report that it has everything. Returns whether that is possible.
    pub(crate) fn on_done(&mut self) -> bool {
        self.settle();
        let Some(total) = self.total.filter(|_| self.fin != Fin::Unsent) else { return false };
        self.fin = Fin::Arrived;
        if !self.unreliable {
            // Acks of the last packets may have been lost; the close acknowledges them.
            self.base = total;
            self.buffer.clear();
        }
        true
    }

    /// Whether the other side owes an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.sender.sent().in_flight() > 0
            || self.fin == Fin::Arrived
            || self.next >= self.peer_window
            || self.has_new()
    }

    /// Handles that the system's buffer is full. For the controller that is a congested link like
    /// any other, reported once per RTT. The packets that wait have no stamp to give back, since
    /// they leave once there is room.
    pub(crate) fn on_blocked(&mut self, now: Time) {
        if now < self.blocked_until {
            return;
        }
        let rtt = self.sender.sent().rtt().smoothed().unwrap_or(RTT_UNKNOWN);
        self.blocked_until = now + rtt;
        self.sender.controller_mut().on_block(&Block {
            now,
            stamp: Stamp::default(),
            waits: false,
        });
    }

    /// Handles a packet of the receiver that is no ack: the path works again.
    pub(crate) fn on_sign_of_life(&mut self) {
        self.sender.sent_mut().on_sign_of_life();
    }

    /// Handles an ack. An error means that it acknowledges what was not sent: the flow has to end.
    pub(crate) fn on_ack(&mut self, now: Time, ack: &AckPacket<'_>) -> Result<(), FalseAck> {
        self.peer_window = self.peer_window.max(ack.window);
        if ack.held_us > OLD_NEWS_US {
            self.sender.sent_mut().confirm_timeout();
        }
        let made_up_for = ack.position > self.known;
        if made_up_for {
            self.settle();
        }
        self.check_counts(now, ack);
        let before = self.reported.len();
        self.collect_arrivals(ack)?;
        let count = self.reported.len() - before;
        // Where acks were lost, the next one covers more.
        let whole = made_up_for || self.delayed_acks;
        let (at_once, acks) = if whole { (count, count.min(1)) } else { (1, count) };
        self.acks.extend(std::iter::repeat_n((now, at_once), acks));
        let has_report = ack.sequence >= self.next_report && !ack.report.is_empty();
        let has_data = self.sender.sent_mut().has_lost() || self.has_new();
        if has_report || !has_data || self.reported.len() > MAX_REPORTED {
            self.settle();
        }
        if has_report {
            self.next_report = ack.sequence.saturating_add(1);
            self.sender.controller_mut().on_report(now, ack.report);
        }
        Ok(())
    }

    /// Processes every arrival that acks have reported.
    fn settle(&mut self) {
        while self.take_ack() {}
    }

    /// Processes the oldest ack that waits. Returns whether there was one.
    ///
    /// The receiver acknowledges every packet, but those that it finds waiting together in one
    /// datagram, and here several datagrams may wait too. To the controller each packet is an ack of
    /// its own, and it may send before the next: some have rules for an ack that covers more, which
    /// are meant for receivers that delay acks (RFC 3465 section 2.2), and some take a flight that
    /// is below the window for want of data (RFC 6817, max_allowed_cwnd). A receiver that delays acks
    /// does it so that these rules can be seen.
    fn take_ack(&mut self) -> bool {
        let Some((now, count)) = self.acks.pop_front() else { return false };
        let now = self.time_of_ack(now, count);
        self.arrived.clear();
        self.arrived.extend(self.reported.drain(..count).map(|reported| reported.arrived));
        self.note_frames(now);
        let headers = (self.overhead + self.data_header()) as u64;
        let (acked, fin, stats) = (&mut self.acked, &mut self.fin, &mut self.stats);
        let (rtts, base) = (&mut self.rtts, self.base);
        self.sender.on_ack(now, &self.arrived, |piece, rtt| {
            if rtts.len() < MAX_RTTS {
                rtts.push(rtt);
            }
            stats.acked_packets += 1;
            match piece {
                Piece::Fin => *fin = Fin::Arrived,
                Piece::Data { offset, length } => {
                    stats.acked_bytes += u64::from(length);
                    stats.acked_ip_bytes += headers + u64::from(length);
                    // It may have arrived before, in another packet.
                    if offset >= base {
                        acked.insert(offset..offset + u64::from(length));
                    }
                }
            }
        });
        self.drop_arrived();
        true
    }

    /// Returns when the ack of `count` packets that arrived at `now` would have arrived if the
    /// receiver had not paused. So the controller sees acks as the path spaced them, and the RTT is
    /// that of the path. A receiver cannot make more than half of an RTT vanish.
    fn time_of_ack(&mut self, now: Time, count: usize) -> Time {
        let half = self.sender.sent().rtt().smoothed().map_or(Span::ZERO, |rtt| rtt / 2);
        // The wait for a second packet, of a delayed ack, is no pause.
        let held = match self.reported.get(count - 1) {
            Some(reported) if count == 1 || self.delayed_acks => reported.held.min(half),
            _ => Span::ZERO,
        };
        self.controller_time = self.controller_time.max(now - held);
        self.controller_time
    }

    /// RFC 9000 section 13.4.2.1: counts never decrease. Acks may overtake each other.
    fn check_counts(&mut self, now: Time, ack: &AckPacket<'_>) {
        let Some((counts, _)) = ack.ecn_entries().filter(|_| self.reads_ecn) else { return };
        match self.ecn_counts {
            Some((sequence, _)) if ack.sequence <= sequence => {}
            Some((_, earlier)) if !counts.follows(&earlier) => {
                self.sender.fail_ecn(now, EcnFailure::Counters);
            }
            _ => self.ecn_counts = Some((ack.sequence, counts)),
        }
    }

    /// The arrivals that an ack lists one by one.
    fn entries<'a>(&self, ack: &AckPacket<'a>) -> impl Iterator<Item = AckEntry> + use<'a> {
        let with_ecn = if self.reads_ecn { ack.ecn_entries() } else { None };
        let plain = if self.reads_ecn { None } else { Some(ack.entries()) };
        with_ecn.into_iter().flat_map(|(_, entries)| entries).chain(plain.into_iter().flatten())
    }

    /// Collects the arrivals that `ack` is the first to report, in their order.
    fn collect_arrivals(&mut self, ack: &AckPacket<'_>) -> Result<(), FalseAck> {
        let mut position = ack.position;
        if position > self.known {
            // Acks were lost, and with them times of arrival.
            self.collect_ranges(ack)?;
        }
        let start = self.reported.len();
        let mut newest = Time::ZERO;
        for entry in self.entries(ack) {
            newest = entry.received_at;
            if position >= self.known {
                let arrived = Arrived::new(self.packet(entry.number)?, Some(entry.received_at));
                let arrived = Arrived { ecn: entry.ecn, ..arrived };
                self.marked += u64::from(entry.ecn.is_marked());
                self.reported.push_back(ReportedArrival { arrived, held: Span::ZERO });
            }
            position = position.saturating_add(1);
        }
        // Each packet arrives once.
        if position > self.sender.sent().next_number() {
            return Err(FalseAck);
        }
        self.known = self.known.max(position);
        let since_newest = Span::from_micros(u64::from(ack.held_us));
        for reported in self.reported.range_mut(start..) {
            let held = newest - reported.arrived.received_at.unwrap_or(newest) + since_newest;
            reported.held = held.min(MAX_HELD);
        }
        Ok(())
    }

    /// Returns the packet that has this number on the wire.
    fn packet(&self, number: u64) -> Result<u64, FalseAck> {
        match self.numbers.meaning(number) {
            Meaning::Packet(packet) if packet < self.sender.sent().next_number() => Ok(packet),
            _ => Err(FalseAck),
        }
    }

    fn collect_ranges(&mut self, ack: &AckPacket<'_>) -> Result<(), FalseAck> {
        let mut listed = std::mem::take(&mut self.listed);
        listed.clear();
        let mut listed_marks = 0;
        for entry in self.entries(ack) {
            listed_marks += u64::from(entry.ecn.is_marked());
            listed.push(self.packet(entry.number)?);
        }
        listed.sort_unstable();
        let oldest = self.numbers.number(self.sender.sent().oldest());
        let start = self.reported.len();
        for (first, last) in ack.ranges() {
            let first = first.max(oldest);
            if first > last {
                break;
            }
            if self.numbers.skipped_in(first, last).is_some() {
                return Err(FalseAck);
            }
            for packet in (self.packet(first)?..=self.packet(last)?).rev() {
                if listed.binary_search(&packet).is_err() {
                    let arrived = Arrived::new(packet, None);
                    self.reported.push_back(ReportedArrival { arrived, held: Span::ZERO });
                }
            }
        }
        self.reported.make_contiguous()[start..].reverse();
        self.listed = listed;
        self.attribute_marks(ack, start, listed_marks);
        Ok(())
    }

    /// Of packets whose entries were lost only the count of marks is known: the oldest of them
    /// come as marked, the rest as they left.
    fn attribute_marks(&mut self, ack: &AckPacket<'_>, start: usize, listed: u64) {
        let Some((counts, _)) = ack.ecn_entries().filter(|_| self.reads_ecn) else { return };
        let mut missing = counts.ce.saturating_sub(self.marked + listed);
        let sent = self.sender.ecn();
        for reported in self.reported.range_mut(start..) {
            let is_marked = missing > 0;
            reported.arrived.ecn = if is_marked { Ecn::Ce } else { sent };
            missing -= u64::from(is_marked);
            self.marked += u64::from(is_marked);
        }
    }

    fn drop_arrived(&mut self) {
        let Some(first) = self.acked.first() else { return };
        if self.unreliable {
            // Nothing is kept, and so nothing waits for what is missing.
            self.acked = RangeSet::default();
            return;
        }
        if first.start > self.base {
            return;
        }
        let (end, arrived) = (first.end, first.end - self.base);
        self.hash_until(end);
        self.buffer.drain(..(arrived as usize).min(self.buffer.len()));
        self.base = end;
        self.acked.remove_below(end);
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let controller = if self.is_complete() { None } else { self.sender.controller_deadline() };
        let deadlines = [controller, self.sender.packet_deadline(), self.next_capture()];
        deadlines.into_iter().flatten().min()
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        self.settle();
        self.controller_time = self.controller_time.max(now);
        self.capture(now);
        self.sender.on_timer(now);
    }

    /// Writes the packet that may leave now, if there is one. Returns its length, and the codepoint
    /// that it leaves with.
    pub(crate) fn poll(&mut self, now: Time, ids: Ids, out: &mut Vec<u8>) -> Option<(usize, Ecn)> {
        loop {
            let written = self.poll_packet(now, ids, out);
            if written.is_some() || !self.take_ack() {
                return written;
            }
        }
    }

    fn poll_packet(&mut self, now: Time, ids: Ids, out: &mut Vec<u8>) -> Option<(usize, Ecn)> {
        loop {
            if self.sender.sent_mut().has_lost() {
                // The permit is asked for a full packet, whatever the packet will carry.
                if !self.sender.ready(now, (self.datagram + self.overhead) as u64) {
                    return None;
                }
                if let Some(piece) = self.take_lost() {
                    return Some(self.send(now, ids, piece, true, out));
                }
                continue;
            }
            let Some(piece) = self.new_piece() else {
                self.sender.rest();
                return None;
            };
            if !self.sender.ready(now, self.size(piece)) {
                return None;
            }
            self.advance(piece);
            return Some(self.send(now, ids, piece, false, out));
        }
    }

    /// The oldest lost piece that has not arrived in another packet.
    fn take_lost(&mut self) -> Option<Piece> {
        loop {
            let piece = self.sender.sent_mut().next_lost()?;
            let needless = match piece {
                Piece::Fin => self.fin == Fin::Arrived,
                Piece::Data { .. } if self.unreliable => true,
                Piece::Data { offset, .. } => offset < self.base || self.acked.contains(offset),
            };
            if let (Piece::Data { .. }, Some(video)) = (piece, &mut self.video) {
                video.on_lost();
            }
            if !needless {
                return Some(piece);
            }
        }
    }

    fn has_new(&self) -> bool {
        self.new_piece().is_some()
    }

    /// What comes next that was never sent.
    fn new_piece(&self) -> Option<Piece> {
        let full = self.datagram - self.data_header();
        let written = if self.unreliable {
            self.total.unwrap_or(u64::MAX)
        } else {
            self.base + self.buffer.len() as u64
        };
        if self.total.is_some_and(|total| self.next >= total) {
            return (self.fin == Fin::Unsent).then_some(Piece::Fin);
        }
        let available = match &self.video {
            Some(video) => video.packet_bytes(self.next),
            None => written.min(self.peer_window).saturating_sub(self.next),
        };
        let length = available.min(full as u64) as u16;
        let whole = usize::from(length) == full
            || self.video.is_some()
            || self.total.is_some()
            || self.flushed
            || self.next + u64::from(length) == self.peer_window;
        (length > 0 && whole).then_some(Piece::Data { offset: self.next, length })
    }

    fn advance(&mut self, piece: Piece) {
        match piece {
            Piece::Data { length, .. } => {
                self.next += u64::from(length);
                if !self.unreliable {
                    self.hash_until(self.next - self.next % PIECE as u64);
                }
            }
            Piece::Fin => self.fin = Fin::Sent,
        }
    }

    /// Hashes what was sent up to `end`, if it is not yet. Whole pieces need not be copied for it.
    fn hash_until(&mut self, end: u64) {
        if end <= self.hashed {
            return;
        }
        let (start, length) = (self.hashed - self.base, end - self.hashed);
        let (first, second) = part(self.buffer.as_slices(), start as usize, length as usize);
        self.hasher.update(first);
        self.hasher.update(second);
        self.hashed = end;
    }

    fn send(
        &mut self,
        now: Time,
        ids: Ids,
        piece: Piece,
        retransmission: bool,
        out: &mut Vec<u8>,
    ) -> (usize, Ecn) {
        let bytes = self.size(piece);
        let more = self.sender.sent_mut().has_lost() || self.has_new();
        let app_limited = !more;
        let sending = Sending { now, bytes, data: piece, retransmission, app_limited };
        let ecn = self.sender.ecn();
        let (packet, stamp) = self.sender.send(&sending);
        let oldest = self.sender.sent().oldest();
        self.numbers.forget_before(oldest);
        let (number, skipped) = self.numbers.assign(packet);
        self.stats.packets += 1;
        self.stats.ip_bytes += bytes;
        self.stats.retransmissions += u64::from(retransmission);
        let matters = number - self.numbers.number(oldest).min(number);
        let numbered = Numbered {
            number,
            matters: join_matters(matters, skipped),
            stamp: self.stamped.then_some(stamp.wire),
        };
        let bytes = match piece {
            Piece::Data { offset, length } => {
                let payload = self.payload(offset, usize::from(length));
                wire::write_data(out, ids, numbered, offset, payload)
            }
            Piece::Fin => {
                if !self.unreliable {
                    self.hash_until(self.next);
                }
                let hash = self.hasher.value(&[]);
                wire::write_fin(out, ids, numbered, self.total.unwrap_or(self.next), &hash)
            }
        };
        (bytes, ecn)
    }

    fn payload(&self, offset: u64, length: usize) -> (&[u8], &[u8]) {
        if self.unreliable {
            return (&NOTHING[..length], &[]);
        }
        part(self.buffer.as_slices(), (offset - self.base) as usize, length)
    }

    /// The size of the IP packet that carries a piece.
    fn size(&self, piece: Piece) -> u64 {
        let bytes = match piece {
            Piece::Data { length, .. } => self.data_header() + usize::from(length),
            Piece::Fin => HEADER_BYTES + 8 + 4 + self.stamp_bytes() + 8 + 32,
        };
        (self.overhead + bytes) as u64
    }

    fn data_header(&self) -> usize {
        DATA_HEADER_BYTES + self.stamp_bytes()
    }

    fn stamp_bytes(&self) -> usize {
        if self.stamped { STAMP_BYTES } else { 0 }
    }
}

/// `length` bytes from `start` on of a buffer in two parts, in two parts.
fn part<'a>(buffer: (&'a [u8], &'a [u8]), start: usize, length: usize) -> (&'a [u8], &'a [u8]) {
    let (first, second) = buffer;
    if start >= first.len() {
        let start = start - first.len();
        return (&second[start..start + length], &[]);
    }
    let cut = length.min(first.len() - start);
    (&first[start..start + cut], &second[..length - cut])
}

/// Sizes in bytes that a sending half works with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Largest datagram.
    pub(crate) datagram: usize,
    /// IP and UDP headers.
    pub(crate) overhead: usize,
    /// Bytes of the stream that are held at most.
    pub(crate) buffer: usize,
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::{Arc, Mutex};

    use cellpace_cc as cc;
    use cellpace_cc::Permit;
    use cellpace_recovery::AckPolicy;

    use super::*;
    use crate::assembly::Assembly;
    use crate::incoming::Incoming;
    use crate::wire::WirePacket;
    use cellpace_base::quota::MemoryBudget;

    const IDS: Ids = Ids { to: 1, from: 2 };

    /// Number and time of arrival of a packet.
    type Reported = (u64, Option<Time>);

    /// Records each packet that is reported to it.
    #[derive(Default, Clone)]
    struct Witness(Arc<Mutex<Vec<Reported>>>);

    impl Controller for Witness {
        fn permit(&self) -> Permit {
            Permit::Window(1 << 30)
        }
        fn on_sent(&mut self, packet: &cc::SentPacket) -> Stamp {
            Stamp { wire: packet.number * 10, ..Stamp::default() }
        }
        fn on_ack(&mut self, ack: &cc::Ack<'_>) {
            let reported = ack.packets.iter().map(|packet| (packet.number, packet.received_at));
            self.0.lock().unwrap().extend(reported);
        }
        fn on_report(&mut self, _: Time, report: &[u8]) {
            self.0.lock().unwrap().push((u64::from(report[0]), None));
        }
    }

    fn numbers() -> Numbers {
        Numbers::new([1; 32])
    }

    fn assembly() -> Option<Assembly> {
        Some(Assembly::new(1 << 20, MemoryBudget::new(u64::MAX)))
    }

    fn outgoing(stamped: bool, packets: usize) -> (Outgoing, Witness, Vec<Vec<u8>>) {
        let witness = Witness::default();
        let sizes = Sizes { datagram: 141, overhead: 28, buffer: 1 << 20 };
        let controller = Box::new(witness.clone());
        let mut outgoing =
            Outgoing::new(controller, stamped, false, sizes, 1 << 30, numbers(), Time::ZERO);
        outgoing.write(&vec![7; packets * 100]);
        outgoing.flush();
        let mut datagrams = Vec::new();
        let mut out = Vec::new();
        while outgoing.poll(Time::ZERO, IDS, &mut out).is_some() {
            datagrams.push(std::mem::take(&mut out));
        }
        (outgoing, witness, datagrams)
    }

    fn arrive(incoming: &mut Incoming, now: Time, datagram: &[u8]) {
        match wire::decode_bare(datagram).unwrap().1 {
            WirePacket::Data(numbered, offset, payload) => {
                let size = (datagram.len() as u64 + 28, Ecn::NotEct);
                incoming.on_data(now, numbered, size, offset, payload);
            }
            other => panic!("{other:?}"),
        }
    }

    fn ack(incoming: &mut Incoming, now: Time) -> Vec<u8> {
        let mut out = Vec::new();
        incoming.poll_ack(now, IDS, 1000, &mut out).expect("an ack is due");
        out
    }

    fn deliver_ack(outgoing: &mut Outgoing, now: Time, datagram: &[u8]) {
        let Some((_, WirePacket::Ack(ack))) = wire::decode_bare(datagram) else { panic!("no ack") };
        outgoing.on_ack(now, &ack).unwrap();
    }

    fn us(us: u64) -> Time {
        Time::from_micros(us)
    }

    /// Has a window of four packets, and remembers of each ack how many it covers and what was in
    /// flight.
    #[derive(Default, Clone)]
    struct Four(Arc<Mutex<Vec<(usize, u64)>>>);

    impl Controller for Four {
        fn permit(&self) -> Permit {
            Permit::Window(4 * 169)
        }
        fn on_ack(&mut self, ack: &cc::Ack<'_>) {
            self.0.lock().unwrap().push((ack.packets.len(), ack.prior_in_flight / 169));
        }
    }

    fn poll_all(outgoing: &mut Outgoing, now: Time) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| {
            let mut out = Vec::new();
            outgoing.poll(now, IDS, &mut out).map(|_| out)
        })
        .collect()
    }

    #[test]
    fn packets_acked_together_are_an_ack_each_and_data_leaves_in_between() {
        let controller = Four::default();
        let sizes = Sizes { datagram: 141, overhead: 28, buffer: 1 << 20 };
        let boxed = Box::new(controller.clone());
        let mut outgoing =
            Outgoing::new(boxed, false, false, sizes, 1 << 30, numbers(), Time::ZERO);
        outgoing.write(&[7; 10_000]);
        let datagrams = poll_all(&mut outgoing, Time::ZERO);
        assert_eq!(datagrams.len(), 4);
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        datagrams.iter().for_each(|datagram| arrive(&mut incoming, us(100), datagram));
        deliver_ack(&mut outgoing, us(200), &ack(&mut incoming, us(100)));
        let next = poll_all(&mut outgoing, us(200));
        assert_eq!(next.len(), 4);
        assert_eq!(*controller.0.lock().unwrap(), [(1, 4); 4], "as if each had come alone");
    }

    fn poll_new(outgoing: &mut Outgoing, now: Time, packets: usize) -> Vec<Vec<u8>> {
        outgoing.write(&vec![7; packets * 100]);
        outgoing.flush();
        poll_all(outgoing, now)
    }

    #[test]
    fn the_rtt_is_that_of_the_path_however_long_the_receiver_rested() {
        let (mut outgoing, _, datagrams) = outgoing(false, 4);
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        for (index, datagram) in datagrams.iter().enumerate() {
            arrive(&mut incoming, us(20_000 + 60 * index as u64), datagram);
        }
        // The newest came 70 us before the ack, and that takes 20 ms.
        deliver_ack(&mut outgoing, us(40_250), &ack(&mut incoming, us(20_250)));
        let mut rtts = Vec::new();
        outgoing.settle();
        outgoing.take_rtts(|rtt| rtts.push(rtt.as_nanos() / 1_000));
        // Before there is an RTT, the reported time does not count.
        assert_eq!(rtts, [40_250, 40_250, 40_250, 40_250]);
        let datagrams = poll_new(&mut outgoing, us(50_000), 4);
        for (index, datagram) in datagrams.iter().enumerate() {
            arrive(&mut incoming, us(70_000 + 60 * index as u64), datagram);
        }
        deliver_ack(&mut outgoing, us(90_250), &ack(&mut incoming, us(70_250)));
        rtts.clear();
        outgoing.settle();
        outgoing.take_rtts(|rtt| rtts.push(rtt.as_nanos() / 1_000));
        assert_eq!(rtts, [40_000, 40_060, 40_120, 40_180]);
    }

    /// Two acks of two packets each that came `gap_us` apart, over 40 ms, the second ack late by 100 us:
    /// packets and flight of each ack, and the RTTs of the second.
    fn pairs(policy: AckPolicy, gap_us: u64) -> (Vec<(usize, u64)>, Vec<u64>) {
        let controller = Four::default();
        let sizes = Sizes { datagram: 141, overhead: 28, buffer: 1 << 20 };
        let boxed = Box::new(controller.clone());
        let mut outgoing =
            Outgoing::new(boxed, false, false, sizes, 1 << 30, numbers(), Time::ZERO);
        if policy != AckPolicy::EveryPacket {
            outgoing.set_delayed_acks();
        }
        let mut incoming = Incoming::new(None, policy, assembly());
        let mut rtts = Vec::new();
        for (sent, late) in [(0, 0), (50_000, 100)] {
            let datagrams = poll_new(&mut outgoing, us(sent), 2);
            arrive(&mut incoming, us(sent + 20_000), &datagrams[0]);
            arrive(&mut incoming, us(sent + 20_000 + gap_us), &datagrams[1]);
            let at = sent + 20_000 + gap_us + late;
            deliver_ack(&mut outgoing, us(at + 20_000), &ack(&mut incoming, us(at)));
            outgoing.settle();
            rtts.clear();
            outgoing.take_rtts(|rtt| rtts.push(rtt.as_nanos() / 1_000));
        }
        let reported = controller.0.lock().unwrap().clone();
        (reported, rtts)
    }

    #[test]
    fn a_delayed_ack_is_one_ack_and_the_wait_for_the_second_packet_is_in_the_rtt_of_the_first() {
        let policy = AckPolicy::Delayed(Span::from_millis(40));
        for gap_us in [500, 5_000] {
            let (acks, rtts) = pairs(policy, gap_us);
            assert_eq!(acks, [(2, 2), (2, 2)], "as in the simulator");
            assert_eq!(rtts, [40_000 + gap_us; 2], "without the 100 us that nobody meant");
        }
        let (acks, rtts) = pairs(AckPolicy::EveryPacket, 500);
        assert_eq!((acks.len(), rtts), (4, vec![40_000, 40_500]));
    }

    #[test]
    fn what_lost_acks_took_is_the_paths() {
        let (mut outgoing, _, datagrams) = outgoing(false, 3);
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        arrive(&mut incoming, us(20_000), &datagrams[0]);
        deliver_ack(&mut outgoing, us(40_000), &ack(&mut incoming, us(20_000)));
        arrive(&mut incoming, us(21_000), &datagrams[1]);
        let _lost = ack(&mut incoming, us(21_000));
        arrive(&mut incoming, us(30_000), &datagrams[2]);
        deliver_ack(&mut outgoing, us(50_000), &ack(&mut incoming, us(30_000)));
        let mut rtts = Vec::new();
        outgoing.settle();
        outgoing.take_rtts(|rtt| rtts.push(rtt.as_nanos() / 1_000));
        assert_eq!(rtts, [40_000, 49_000, 50_000], "1 ms of it might have been the receiver's");
    }

    /// Counts how often the system took nothing.
    #[derive(Default, Clone)]
    struct Blocked(Arc<Mutex<usize>>);

    impl Controller for Blocked {
        fn permit(&self) -> Permit {
            Permit::Window(1 << 30)
        }
        fn on_block(&mut self, block: &Block) {
            assert_eq!(block.stamp, Stamp::default(), "nothing is taken back");
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn a_controller_learns_once_per_rtt_that_the_system_takes_nothing() {
        let blocked = Blocked::default();
        let sizes = Sizes { datagram: 141, overhead: 28, buffer: 1 << 20 };
        let boxed = Box::new(blocked.clone());
        let mut outgoing =
            Outgoing::new(boxed, false, false, sizes, 1 << 30, numbers(), Time::ZERO);
        let count_at = |at: &[u64], outgoing: &mut Outgoing| {
            at.iter().for_each(|at| outgoing.on_blocked(us(*at)));
            std::mem::take(&mut *blocked.0.lock().unwrap())
        };
        assert_eq!(count_at(&[0, 1_000, 332_999], &mut outgoing), 1, "no RTT is known");
        outgoing.write(&[7; 100]);
        let datagrams = poll_all(&mut outgoing, us(400_000));
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        arrive(&mut incoming, us(420_000), &datagrams[0]);
        deliver_ack(&mut outgoing, us(440_000), &ack(&mut incoming, us(420_000)));
        outgoing.settle();
        assert_eq!(count_at(&[450_000, 489_999, 490_000, 500_000], &mut outgoing), 2);
    }

    #[test]
    fn a_timer_comes_after_the_acks_that_came_before_it() {
        let (mut outgoing, witness, datagrams) = outgoing(false, 3);
        outgoing.write(&[7; 1000]);
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        datagrams.iter().for_each(|datagram| arrive(&mut incoming, us(100), datagram));
        deliver_ack(&mut outgoing, us(200), &ack(&mut incoming, us(100)));
        assert_eq!(witness.0.lock().unwrap().len(), 0, "data could leave first");
        outgoing.on_timer(Time::from_secs(5));
        assert_eq!(witness.0.lock().unwrap().len(), 3);
        assert_eq!((outgoing.stats().timeouts, outgoing.stats().in_flight), (0, 0));
    }

    #[test]
    fn times_and_order_of_arrival_survive_the_loss_of_acks() {
        let (mut outgoing, witness, datagrams) = outgoing(false, 20);
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        let order = [0, 1, 3, 2, 4, 6, 5, 7, 8, 9, 10, 11, 12, 13, 14, 16, 15, 17, 18, 19];
        for (index, number) in order.into_iter().enumerate() {
            let now = us(100 * (1 + index as u64));
            arrive(&mut incoming, now, &datagrams[number]);
            let ack = ack(&mut incoming, now);
            // Two acks of three are lost, but not the last.
            if index % 3 == 0 || index == 19 {
                deliver_ack(&mut outgoing, now, &ack);
            }
        }
        let reported = witness.0.lock().unwrap().clone();
        let expected: Vec<_> = order
            .into_iter()
            .enumerate()
            .map(|(index, number)| (number as u64, Some(us(100 * (1 + index as u64)))))
            .collect();
        assert_eq!(reported, expected);
        assert_eq!(outgoing.stats().acked_bytes, 2000);
    }

    #[test]
    fn after_the_loss_of_many_acks_ranges_report_what_arrived_but_not_when() {
        let (mut outgoing, witness, datagrams) = outgoing(false, 100);
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        let mut last = Vec::new();
        for (number, datagram) in datagrams.iter().enumerate() {
            if number == 50 {
                continue;
            }
            let now = us(1 + number as u64);
            arrive(&mut incoming, now, datagram);
            last = ack(&mut incoming, now);
        }
        deliver_ack(&mut outgoing, us(200), &last);
        let reported = witness.0.lock().unwrap().clone();
        let numbers: Vec<u64> = reported.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..100).filter(|number| *number != 50).collect::<Vec<_>>());
        let timed = reported.iter().filter(|(_, at)| at.is_some()).count();
        assert_eq!(timed, 25, "the last one and those repeated");
        assert_eq!(outgoing.stats().lost, 1);
    }

    #[test]
    fn an_ack_that_comes_twice_or_late_reports_nothing_new() {
        let (mut outgoing, witness, datagrams) = outgoing(false, 3);
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, assembly());
        let acks: Vec<_> = (0..3)
            .map(|number| {
                arrive(&mut incoming, us(number as u64), &datagrams[number]);
                ack(&mut incoming, us(number as u64))
            })
            .collect();
        for index in [2, 0, 1, 2, 2] {
            deliver_ack(&mut outgoing, us(10), &acks[index]);
        }
        assert_eq!(witness.0.lock().unwrap().len(), 3);
    }

    /// An ack with these ranges, and these arrivals from `position` on.
    fn made(position: u64, entries: &[u64], ranges: &[Range<u64>]) -> Vec<u8> {
        let (window, report) = (1 << 30, &[]);
        let head = wire::AckHead { sequence: 0, window, position, held_us: 0, report, ecn: None };
        let entries = entries.iter().map(|number| AckEntry {
            number: *number,
            received_at: us(1),
            ecn: Ecn::NotEct,
        });
        let mut out = Vec::new();
        wire::write_ack(&mut out, IDS, 60_000, &head, entries, ranges.iter());
        out
    }

    fn judge(outgoing: &mut Outgoing, ack: &[u8]) -> Result<(), FalseAck> {
        let Some((_, WirePacket::Ack(ack))) = wire::decode_bare(ack) else { panic!("no ack") };
        outgoing.on_ack(us(100), &ack)
    }

    fn number(datagram: &[u8]) -> u64 {
        match wire::decode_bare(datagram).unwrap().1 {
            WirePacket::Data(numbered, ..) => numbered.number,
            other => panic!("{other:?}"),
        }
    }

    /// The first number that was left out among so many packets.
    fn left_out(datagrams: &[Vec<u8>]) -> u64 {
        let numbers = datagrams.iter().map(|datagram| number(datagram));
        numbers.zip(0..).find(|(number, packet)| number != packet).unwrap().1
    }

    #[test]
    fn acks_of_what_was_never_sent_or_left_out_are_false() {
        let (_, _, datagrams) = outgoing(false, 100);
        let (skipped, next) = (left_out(&datagrams), 101);
        for (position, entries, ranges) in [
            (0, vec![next], None),
            (0, vec![u64::MAX], None),
            (0, vec![0, skipped], None),
            (3, vec![5], Some(0..next + 1)),
            (3, vec![5], Some(0..1 << 40)),
            (3, vec![5], Some(0..next)),
            (3, vec![5], Some(skipped..skipped + 1)),
            (101, vec![], None),
            (u64::MAX, vec![1, 2], None),
            (0, vec![3; 101], None),
        ] {
            let (mut outgoing, ..) = outgoing(false, 100);
            let ack = made(position, &entries, ranges.as_slice());
            assert_eq!(
                judge(&mut outgoing, &ack),
                Err(FalseAck),
                "{position} {entries:?} {ranges:?}"
            );
        }
    }

    #[test]
    fn acks_of_all_that_was_sent_are_true() {
        let (mut outgoing, witness, datagrams) = outgoing(false, 100);
        let skipped = left_out(&datagrams);
        let ack = made(10, &[3, 4], &[skipped + 1..101, 0..skipped]);
        assert_eq!(judge(&mut outgoing, &ack), Ok(()));
        outgoing.settle();
        let reported = witness.0.lock().unwrap().len();
        assert_eq!(
            (reported, outgoing.stats().acked_bytes, outgoing.stats().lost),
            (100, 10_000, 0)
        );
        // An ack that was in flight for long is ignored, whatever it contains.
        assert_eq!(judge(&mut outgoing, &made(0, &[skipped, 4], Some(0..101).as_slice())), Ok(()));
    }

    #[test]
    fn acks_do_not_pile_up_while_nothing_can_be_sent() {
        let (mut outgoing, _, datagrams) = outgoing(false, 3000);
        let last = number(datagrams.last().unwrap());
        outgoing.write(&[7; 100]);
        for position in 0..2_900 {
            // Duplicates of the newest packet, which an honest receiver reports once.
            judge(&mut outgoing, &made(position, &[last; 100], &[])).unwrap();
            assert!(outgoing.reported.len() <= MAX_REPORTED, "{}", outgoing.reported.len());
            assert!(outgoing.acks.len() <= MAX_REPORTED);
        }
    }

    /// Reports the stamps that it sees.
    #[derive(Default)]
    struct FlowHalf(Vec<u8>);

    impl cc::Receiver for FlowHalf {
        fn on_arrival(&mut self, arrival: &cc::Arrival) {
            assert_eq!((arrival.wire, arrival.bytes), (arrival.number * 10, 28 + 141));
            self.0.push(arrival.wire as u8);
        }
        fn poll_report(&mut self, _: Time, report: &mut Vec<u8>) -> bool {
            report.append(&mut self.0);
            !report.is_empty()
        }
    }

    #[test]
    fn stamps_reach_the_other_half_and_reports_come_back_in_their_order() {
        let (mut outgoing, witness, datagrams) = outgoing(true, 3);
        assert_eq!(datagrams[0].len(), 141);
        let mut incoming =
            Incoming::new(Some(Box::new(FlowHalf::default())), AckPolicy::EveryPacket, assembly());
        let acks: Vec<_> = (0..3)
            .map(|number| {
                arrive(&mut incoming, us(1), &datagrams[number]);
                ack(&mut incoming, us(1))
            })
            .collect();
        deliver_ack(&mut outgoing, us(9), &acks[0]);
        deliver_ack(&mut outgoing, us(9), &acks[2]);
        deliver_ack(&mut outgoing, us(9), &acks[1]);
        let reported = witness.0.lock().unwrap().clone();
        let reports: Vec<u64> =
            reported.iter().filter(|(_, at)| at.is_none()).map(|(report, _)| *report).collect();
        assert_eq!(reports, [0, 20], "the second report is older than the third");
    }
}
