//! The gate: how much TCP is given, and what its answers mean to the controller. No I/O.

mod packets;
mod sequence;

use std::collections::VecDeque;

use cellpace_base::{Span, Time};
use cellpace_cc::{Block, Controller, Permit, Stamp};
use cellpace_recovery::{Arrived, PacedSender, Sending};

pub(crate) use sequence::SequenceUnwrap;

use packets::PacketMap;

/// Packets that go to TCP in one call at most: fewer calls, and fewer time stamps to read, than
/// one by one.
const MOST_PER_CALL: u64 = 10;

/// What goes to TCP in one call takes the path no longer than this: the gate learns of a call's
/// arrival as a whole.
const CALL_SPAN: Span = Span::from_millis(1);

/// Where that is fewer packets, on links of up to 36 Mbit/s, they go one by one. A full segment
/// that ends a call carries PSH, and Linux as a receiver (others too) acknowledges it at once when
/// the application has read it, instead of every second segment: controllers hear of each arrival
/// then, as above UDP. On faster links there are acks enough, and a call costs as much as several
/// packets in it.
const FEWEST_TOGETHER: u64 = 3;

/// A controller whose window no ack has opened for so long sends at its own times only, as those
/// with epochs do.
const OPENED_BY_ACKS: Span = Span::from_millis(100);

/// What an ack told a TCP that has the application's data itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckReport {
    /// Offset in the stream before which everything has arrived.
    pub(crate) acked: u64,
    /// Packets behind it that have arrived, too,
    pub(crate) sacked: usize,
    /// and the offset at which the last of these ends.
    pub(crate) highest: u64,
    /// RTT of the newest packet of those newly known to have arrived that were sent once.
    pub(crate) rtt: Option<Span>,
    /// The receiver acknowledges what it has as soon as it reads it: what it acknowledges together
    /// it also got together, as far as anybody can tell.
    pub(crate) prompt: bool,
}

/// Packets above a TCP connection under a controller.
pub(crate) struct Books {
    sender: PacedSender<u64>,
    pieces: PacketMap,
    /// Payload of a full packet in bytes.
    segment: u64,
    /// Bytes of headers that the controller counts with every packet.
    overhead: u64,
    /// Bytes that TCP took.
    taken: u64,
    /// End of the last packet of which TCP took a byte.
    cut: u64,
    /// Where the call in progress ends: a packet is not longer than what was let through.
    call_end: u64,
    acked: u64,
    /// The latest time that the controller heard of: acks are found a little after they came.
    latest: Time,
    last_stamp: Stamp,
    last_block: Option<Time>,
    blocks: u64,
    /// When the last packet left.
    sent_at: Time,
    /// When the last ack came that told of something.
    heard_at: Time,
    /// When an ack last opened the window.
    opened_at: Time,
    /// The controller was told of a timeout, and nothing was heard since.
    timed_out: bool,
    /// When it was last told of one.
    timed_out_at: Option<Time>,
    numbers: Vec<Arrived>,
    /// Ends of packets that are taken for lost and that TCP has not sent again.
    lost: VecDeque<u64>,
    /// Packets that TCP sent again, ever.
    retransmitted: u64,
}

impl Books {
    /// A gate through which nothing went yet. `segment` is TCP's MSS, `overhead` the headers that
    /// go with a segment, both in bytes.
    pub(crate) fn new(
        controller: Box<dyn Controller>,
        now: Time,
        segment: u64,
        overhead: u64,
    ) -> Self {
        Self {
            sender: PacedSender::new(controller, now),
            pieces: PacketMap::default(),
            segment,
            overhead,
            taken: 0,
            cut: 0,
            call_end: 0,
            acked: 0,
            latest: now,
            last_stamp: Stamp::default(),
            last_block: None,
            blocks: 0,
            sent_at: Time::ZERO,
            heard_at: now,
            opened_at: now,
            timed_out: false,
            timed_out_at: None,
            numbers: Vec::new(),
            lost: VecDeque::new(),
            retransmitted: 0,
        }
    }

    /// The controller.
    pub(crate) fn controller(&self) -> &dyn Controller {
        self.sender.controller()
    }

    /// The controller, for its events.
    pub(crate) fn controller_mut(&mut self) -> &mut dyn Controller {
        self.sender.controller_mut()
    }

    /// RTT statistics.
    pub(crate) fn rtt(&self) -> &cellpace_cc::RttEstimator {
        self.sender.sent().rtt()
    }

    /// Bytes in flight, headers included.
    pub(crate) fn in_flight(&self) -> u64 {
        self.sender.sent().in_flight()
    }

    /// Whether TCP has acknowledged all it took.
    pub(crate) fn is_idle(&self) -> bool {
        self.acked == self.taken
    }

    /// Bytes that TCP took.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes that the peer acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// How often TCP refused what the controller allowed.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of a full packet, headers included.
    pub(crate) fn packet_bytes(&self) -> u64 {
        self.segment + self.overhead
    }

    /// The most bytes that go to TCP in one call.
    pub(crate) fn longest_call(&self) -> u64 {
        MOST_PER_CALL * self.segment
    }

    /// TCP cuts segments of another size now.
    pub(crate) fn resegment(&mut self, segment: u64) {
        self.segment = segment.max(1);
    }

    /// Bytes that TCP may hold unsent (`TCP_NOTSENT_LOWAT`) before it refuses more. What waits
    /// there is delay that the controller would take for the path's, so it is a small part of its
    /// own window; a constant would be too much for short paths and too little for long ones.
    pub(crate) fn unsent_allowed(&self) -> u64 {
        let part = self.controller().cwnd() / 8;
        part.clamp(2 * self.segment, (64 * self.segment).max(1 << 20))
    }

    /// How many of `queued` waiting bytes shall be given to TCP now, in one call. None if the
    /// controller has them wait.
    pub(crate) fn next_call(&mut self, now: Time, queued: usize) -> usize {
        if queued == 0 {
            self.sender.rest();
            return 0;
        }
        // A packet stays the current one until its last byte is taken.
        let owed = self.cut - self.taken;
        let bytes = if owed > 0 { owed } else { self.allowed(now, queued as u64) };
        self.call_end = self.taken + bytes;
        bytes as usize
    }

    fn allowed(&mut self, now: Time, queued: u64) -> u64 {
        let window = self.sender.remaining() / self.packet_bytes();
        let most = self.packets_per_call().min(queued.div_ceil(self.segment));
        let packets = most.min(window);
        if packets == 0 {
            return self.below_a_packet(now, queued);
        }
        // Each call's ack lets the next call through, and a short one a short one, for ever.
        if 2 * packets < most && self.acks_open() {
            return 0;
        }
        // A paced call waits until all of it may leave: packet by packet would cost a timer each.
        let bytes = queued.min(packets * self.segment);
        if self.sender.ready(now, bytes + packets * self.overhead) { bytes } else { 0 }
    }

    /// Windows below one segment (loopback's segments are huge) still let something through.
    fn below_a_packet(&mut self, now: Time, queued: u64) -> u64 {
        let allowed = self.sender.remaining();
        if self.in_flight() > 0 || allowed <= self.overhead {
            return 0;
        }
        let bytes = queued.min(self.segment).min(allowed - self.overhead);
        if self.sender.ready(now, bytes + self.overhead) { bytes } else { 0 }
    }

    /// One while nothing is known of the path.
    fn packets_per_call(&self) -> u64 {
        let Some(srtt) = self.rtt().smoothed() else { return 1 };
        let packet = self.packet_bytes();
        let cwnd = self.controller().cwnd();
        let in_span = u128::from(cwnd) * u128::from(CALL_SPAN.as_nanos())
            / u128::from(srtt.as_nanos().max(1));
        let in_span = u64::try_from(in_span).unwrap_or(u64::MAX);
        let paced = self.controller().pacing().map_or(u64::MAX, |pacing| {
            (pacing.rate.as_bytes_per_sec() * CALL_SPAN.as_secs_f64()) as u64
        });
        let packets = in_span.min(paced).min(cwnd / 8) / packet;
        if packets < FEWEST_TOGETHER { 1 } else { packets.min(MOST_PER_CALL) }
    }

    /// TCP took `count` bytes of the `queued` ones.
    pub(crate) fn on_taken(&mut self, now: Time, count: usize, queued: usize) {
        self.latest = self.latest.max(now);
        let when = self.latest;
        self.take(count as u64, queued as u64, |_| when);
    }

    /// `when` tells when a packet left, given when the one before did.
    fn take(&mut self, count: u64, queued: u64, when: impl Fn(Time) -> Time) {
        let there = self.taken + queued;
        self.taken += count;
        while self.cut < self.taken {
            let end = (self.cut + self.segment).min(self.call_end);
            let bytes = end - self.cut + self.overhead;
            self.cut = end;
            self.sent_at = when(self.sent_at);
            // What left before a timeout, and is learnt of after it, had waited for no window of the
            // controller's: TCP sent it to find out whether anybody still listens (RFC 8985 section
            // 7), and its delay says nothing about the window that there is now.
            let is_probe =
                self.timed_out_at.is_some_and(|timed_out_at| self.sent_at < timed_out_at);
            self.send(self.sent_at, bytes, end, false, is_probe || end == there);
        }
    }

    /// TCP, which has the application's data itself, has sent `count` bytes since it last told,
    /// from `when` on, which may be before the controller last heard of anything, until `now`;
    /// `unsent` more wait. The packets of a paced controller have left one after the other.
    pub(crate) fn on_sent(&mut self, when: Time, now: Time, count: u64, unsent: u64) {
        self.call_end = self.taken + count;
        let pacing = self.controller().pacing();
        let gap = pacing.map_or(Span::ZERO, |pacing| pacing.rate.time_for(self.packet_bytes()));
        self.take(count, count + unsent, |before| when.max(before + gap).min(now));
    }

    /// The window that the controller wants TCP to have, in bytes of payload: whole packets.
    pub(crate) fn window(&self) -> u64 {
        let in_flight = self.in_flight();
        let wanted = in_flight.saturating_add(self.sender.remaining());
        (wanted / self.packet_bytes()).saturating_mul(self.segment)
    }

    /// How many bytes of payload it lets have left in all, where it grants budgets (Verus, Markov
    /// tables); none where it has a window.
    pub(crate) fn limit(&self) -> Option<u64> {
        let Permit::Budget(budget) = self.controller().permit() else { return None };
        let packets = budget / self.packet_bytes();
        Some(self.taken.saturating_add(packets.saturating_mul(self.segment)))
    }

    /// The rate at which it wants TCP to send, in bytes of payload a second.
    pub(crate) fn pacing(&self) -> Option<u64> {
        let pacing = self.controller().pacing()?;
        let payload = self.segment as f64 / self.packet_bytes() as f64;
        Some((pacing.rate.as_bytes_per_sec() * payload) as u64)
    }

    fn send(&mut self, now: Time, bytes: u64, end: u64, retransmission: bool, app_limited: bool) {
        let sending = Sending { now, bytes, data: end, retransmission, app_limited };
        let (number, stamp) = self.sender.send(&sending);
        if retransmission {
            self.pieces.renumber(end, number);
            return;
        }
        self.last_stamp = stamp;
        self.pieces.push(end, number);
    }

    /// TCP refused what the controller allowed: its own window is smaller, or its buffer full.
    /// The controller hears of it once an RTT at most.
    pub(crate) fn on_block(&mut self, now: Time) {
        self.blocks += 1;
        self.latest = self.latest.max(now);
        let srtt = self.rtt().smoothed().unwrap_or(Span::ZERO);
        if self.last_block.is_some_and(|last| self.latest < last + srtt) {
            return;
        }
        self.last_block = Some(self.latest);
        let block = Block { now: self.latest, stamp: self.last_stamp, waits: true };
        self.controller_mut().on_block(&block);
    }

    /// The peer has everything before `offset`, and the ack came at `when`. Returns whether that
    /// was news.
    pub(crate) fn on_acked(&mut self, when: Time, offset: u64) -> bool {
        // The kernel does not acknowledge what it was not given.
        let offset = offset.min(self.taken);
        if offset <= self.acked {
            return false;
        }
        self.acked = offset;
        let numbers = &mut self.numbers;
        self.pieces.arrived_until(offset, |number, _| numbers.push(arrived(number)));
        self.tell_arrived(when);
        true
    }

    /// TCP, which has the application's data itself, has worked in an ack at `when`. Of the packets
    /// that it tells of the newest caused it, and has TCP's measure of its RTT; the others waited
    /// for that.
    pub(crate) fn on_heard(&mut self, when: Time, heard: &AckReport) {
        let when = self.latest.max(when);
        let acked = heard.acked.min(self.taken);
        self.acked = self.acked.max(acked);
        let (numbers, sent) = (&mut self.numbers, self.sender.sent());
        let mut take = |number, repeated: bool| {
            let sent_at = if repeated { None } else { sent.sent_at(number) };
            numbers.push(Arrived { rtt: sent_at.map(|at| when - at), ..arrived(number) });
        };
        self.pieces.arrived_until(acked, &mut take);
        self.pieces.arrived_up_to(heard.highest, heard.sacked, &mut take);
        if self.numbers.is_empty() {
            return;
        }
        let wait = if heard.prompt { Span::ZERO } else { when - self.heard_at };
        self.estimate_rtts(heard.rtt, wait);
        self.heard_at = when;
        if heard.prompt {
            self.tell_one_by_one(when);
        } else {
            self.tell_arrived(when);
        }
    }

    /// As if each had been acknowledged by itself.
    fn tell_one_by_one(&mut self, when: Time) {
        let mut all = std::mem::take(&mut self.numbers);
        for arrived in all.drain(..) {
            self.numbers.push(arrived);
            self.tell_arrived(when);
        }
        // With its memory.
        self.numbers = all;
    }

    /// The RTTs of packets that one ack tells of, given how long before it each was sent. They are
    /// taken to have come to the receiver at equal distances in the `wait` since the ack before, and
    /// to have waited there for the last of them, whose RTT is `newest`. None has a shorter one than
    /// that: to controllers that go by the shortest RTT only what was measured is one. What was sent
    /// twice has the newest's, as which of the two arrived is not known (Karn).
    fn estimate_rtts(&mut self, newest: Option<Span>, wait: Span) {
        let since_newest = self.numbers.iter().filter_map(|arrived| arrived.rtt).min();
        let Some(newest) = newest.or(since_newest).or(self.rtt().smoothed()) else { return };
        let count = self.numbers.len() as u64;
        let gap = wait / count.max(1);
        let mut waited = gap * count;
        for arrived in &mut self.numbers {
            waited -= gap;
            let earlier = arrived.rtt.zip(since_newest).map(|(since, least)| since - least);
            arrived.rtt = Some(newest + (earlier.unwrap_or_default() - waited));
        }
    }

    /// The peer told of `count` segments behind `holes` missing ones.
    pub(crate) fn on_sacked(&mut self, when: Time, holes: usize, count: usize) {
        let numbers = &mut self.numbers;
        self.pieces.arrived_beyond(holes, count, |number, _| numbers.push(arrived(number)));
        self.tell_arrived(when);
    }

    fn tell_arrived(&mut self, when: Time) {
        if self.numbers.is_empty() {
            return;
        }
        self.latest = self.latest.max(when);
        let allowed = self.sender.remaining();
        self.sender.on_ack(self.latest, &self.numbers, |_, _| {});
        self.numbers.clear();
        if self.sender.remaining() > allowed {
            self.opened_at = self.latest;
        }
        if std::mem::take(&mut self.timed_out) {
            self.leave_to_tcp();
        }
        self.note_losses();
    }

    /// What the timer gave up stays with the numbers it has, whatever TCP did meanwhile: when TCP
    /// sent it again is not known, and an RTT that is too short would mislead a controller for
    /// longer than one that is missing (Karn).
    fn leave_to_tcp(&mut self) {
        while self.sender.sent_mut().next_lost().is_some() {}
    }

    fn note_losses(&mut self) {
        while let Some(end) = self.sender.sent_mut().next_lost() {
            self.lost.push_back(end);
        }
    }

    /// TCP has sent `total` packets again so far, and the last of them after `when`; the books
    /// follow. Not earlier: a packet that is taken for lost here may not be for TCP, or TCP may
    /// send it again only later, and a retransmission that is dated too early would look lost
    /// itself, and then have the RTT of a moment.
    pub(crate) fn on_retransmitted(&mut self, when: Time, total: u64) {
        let count = total.saturating_sub(self.retransmitted);
        self.retransmitted = total;
        for _ in 0..count {
            // Of what has arrived after all, it was the one before that arrived.
            while self.lost.front().is_some_and(|end| *end <= self.acked) {
                self.lost.pop_front();
            }
            let Some(end) = self.lost.pop_front() else { return };
            self.send(when, self.segment + self.overhead, end, true, false);
        }
    }

    /// Whether acks of what is in flight let more through by that alone.
    fn acks_open(&self) -> bool {
        self.in_flight() > 0 && self.controller().permit().is_window()
    }

    /// Until when acks may wait, as they would not let anything through: that is the controller's
    /// to do at this time. Their stamps tell later when they came. None if they should be heard
    /// of at once.
    pub(crate) fn acks_may_wait(&self) -> Option<Time> {
        if self.acks_open() || self.timed_out || self.is_idle() {
            return None;
        }
        let deadline = self.sender.controller_deadline()?;
        (self.latest.since(self.opened_at) >= OPENED_BY_ACKS).then_some(deadline)
    }

    /// When [`on_timer`](Self::on_timer) wants to be called. Never while nothing is under way and
    /// nothing waits: ten thousand idle flows must not cost ten thousand timers.
    pub(crate) fn next_deadline(&self, waiting: bool) -> Option<Time> {
        if self.is_idle() && !waiting {
            return None;
        }
        match (self.sender.controller_deadline(), self.sender.packet_deadline()) {
            (Some(controller), Some(packet)) => Some(controller.min(packet)),
            (controller, packet) => controller.or(packet),
        }
    }

    /// When the controller does what it does at times of its own.
    pub(crate) fn controller_deadline(&self) -> Option<Time> {
        self.sender.controller_deadline()
    }

    /// When packets are given up, if no ack comes.
    pub(crate) fn packet_deadline(&self) -> Option<Time> {
        self.sender.packet_deadline()
    }

    /// Does what is due. The controller hears of a timeout where it would above UDP, although
    /// TCP's own timer, which is slower, sends again: outages are what some controllers start
    /// anew after. Should the path have been slow only, the first ack shows it.
    pub(crate) fn on_timer(&mut self, now: Time) {
        self.latest = self.latest.max(now);
        let before = self.sender.sent().counts().timeouts;
        self.sender.on_timer(self.latest);
        if self.sender.sent().counts().timeouts > before {
            self.timed_out = true;
            self.timed_out_at = Some(self.latest);
        }
        if !self.timed_out {
            self.note_losses();
        }
    }

    /// Nothing is to be done for a while.
    pub(crate) fn rest(&mut self) {
        self.pieces.rest();
    }
}

fn arrived(number: u64) -> Arrived {
    Arrived::new(number, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    use cellpace_cc::{Ack, Loss, Pacing, Rate, SentPacket, Spurious, Timeout};
    use proptest::prelude::*;

    const MSS: u64 = 1448;
    const WIRE: u64 = 1500;

    #[derive(Default)]
    struct Log {
        acks: Vec<Vec<(u64, Span, u64)>>,
        lost: Vec<u64>,
        blocks: Vec<Time>,
        timeouts: Vec<Time>,
        undone: u32,
        sent: u64,
        app_limited: Vec<bool>,
    }

    struct Probe {
        cwnd: u64,
        pacing: Option<Pacing>,
        log: Arc<Mutex<Log>>,
    }

    impl Controller for Probe {
        fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
            let mut log = self.log.lock().unwrap();
            log.sent += packet.bytes;
            log.app_limited.push(packet.app_limited);
            Stamp { local: [packet.number + 100, 0, 0, 0], wire: 0 }
        }
        fn on_ack(&mut self, ack: &Ack<'_>) {
            let packets = ack.packets.iter().map(|p| (p.number, p.rtt, p.stamp.local[0]));
            self.log.lock().unwrap().acks.push(packets.collect());
        }
        fn on_loss(&mut self, loss: &Loss<'_>) {
            self.log.lock().unwrap().lost.extend(loss.packets.iter().map(|p| p.number));
        }
        fn on_timeout(&mut self, timeout: &Timeout) {
            self.log.lock().unwrap().timeouts.push(timeout.now);
        }
        fn on_spurious(&mut self, spurious: &Spurious<'_>) {
            if matches!(spurious, Spurious::Timeout { .. }) {
                self.log.lock().unwrap().undone += 1;
            }
        }
        fn on_block(&mut self, block: &Block) {
            self.log.lock().unwrap().blocks.push(block.now);
        }
        fn permit(&self) -> Permit {
            Permit::Window(self.cwnd)
        }
        fn pacing(&self) -> Option<Pacing> {
            self.pacing
        }
    }

    fn gate(cwnd: u64) -> (Books, Arc<Mutex<Log>>) {
        let log = Arc::new(Mutex::new(Log::default()));
        let probe = Probe { cwnd, pacing: None, log: log.clone() };
        (Books::new(Box::new(probe), Time::ZERO, MSS, WIRE - MSS), log)
    }

    /// Gives TCP all that the gate lets through, and returns how many bytes that were.
    fn release(gate: &mut Books, now: Time, queued: &mut usize) -> usize {
        let before = *queued;
        loop {
            let bytes = gate.next_call(now, *queued);
            if bytes == 0 {
                return before - *queued;
            }
            gate.on_taken(now, bytes, *queued);
            *queued -= bytes;
        }
    }

    #[test]
    fn alcc_t6_no_more_leaves_than_the_window_has_room_for() {
        let (mut gate, _) = gate(20 * WIRE);
        let mut queued = 9 * MSS as usize;
        assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 9 * MSS as usize);
        queued = 3 * MSS as usize;
        release(&mut gate, Time::ZERO, &mut queued);
        assert_eq!(gate.in_flight(), 12 * WIRE);
        queued = 100 * MSS as usize;
        assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 8 * MSS as usize, "20 - 12");
        assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 0);
    }

    #[test]
    fn alcc_t6_a_second_without_data_saves_nothing_up() {
        let (mut gate, _) = gate(20 * WIRE);
        assert_eq!(gate.next_call(Time::from_secs(1), 0), 0);
        let mut queued = 1000 * MSS as usize;
        let released = release(&mut gate, Time::from_secs(2), &mut queued);
        assert_eq!(released, 20 * MSS as usize);
    }

    fn heard(acked: u64, sacked: usize, highest: u64) -> AckReport {
        AckReport { acked: acked * MSS, sacked, highest: highest * MSS, rtt: None, prompt: false }
    }

    /// A gate through which a TCP that has the data itself has sent a packet each millisecond.
    fn sent_by_itself(packets: u64) -> (Books, Arc<Mutex<Log>>) {
        let (mut gate, log) = gate(100 * WIRE);
        for at in 0..packets {
            let at = Time::from_millis(at);
            gate.on_sent(at, at, MSS, 100 * MSS);
        }
        (gate, log)
    }

    /// RTTs in µs that the controller heard of.
    fn rtts(log: &Arc<Mutex<Log>>) -> Vec<u64> {
        let acks = &log.lock().unwrap().acks;
        acks.iter().flatten().map(|(_, rtt, _)| rtt.as_nanos() / 1000).collect()
    }

    #[test]
    fn who_waited_for_the_ack_of_a_later_packet_came_halfway_between_the_acks() {
        let (mut gate, log) = sent_by_itself(8);
        gate.on_heard(Time::from_millis(41), &heard(2, 0, 0));
        let rtt = Some(Span::from_micros(39_500));
        gate.on_heard(Time::from_millis(43), &AckReport { rtt, ..heard(4, 0, 0) });
        assert_eq!(rtts(&log), [40_000, 40_000, 39_500, 39_500], "TCP's own measure counts");
        // At the same time as the ones before: they were in one burst. And 8 ms later.
        gate.on_heard(Time::from_millis(43), &heard(6, 0, 0));
        gate.on_heard(Time::from_millis(51), &heard(8, 0, 0));
        assert_eq!(rtts(&log)[4..], [39_000, 38_000, 44_000, 44_000]);
    }

    #[test]
    fn who_is_asked_to_acknowledge_at_once_got_together_what_it_acknowledges_together() {
        let (mut gate, log) = sent_by_itself(4);
        let rtt = Some(Span::from_micros(39_500));
        gate.on_heard(Time::from_millis(43), &AckReport { rtt, prompt: true, ..heard(4, 0, 0) });
        assert_eq!(rtts(&log), [42_500, 41_500, 40_500, 39_500]);
        assert_eq!(log.lock().unwrap().acks.len(), 4, "one after the other");
    }

    #[test]
    fn what_left_before_a_timeout_and_is_told_after_it_was_limited_by_no_window() {
        let (mut gate, log) = sent_by_itself(4);
        let gives_up = gate.packet_deadline().unwrap();
        gate.on_timer(gives_up);
        assert_eq!(log.lock().unwrap().timeouts.len(), 1);
        let before = gives_up - Span::from_millis(100);
        gate.on_sent(before, gives_up, MSS, 100 * MSS);
        gate.on_sent(gives_up, gives_up, MSS, 100 * MSS);
        assert_eq!(log.lock().unwrap().app_limited, [false, false, false, false, true, false]);
    }

    #[test]
    fn what_tcp_sent_twice_has_no_rtt_of_its_own() {
        let (mut gate, log) = sent_by_itself(6);
        gate.on_heard(Time::from_millis(40), &heard(1, 0, 0));
        // The second is missing; the third to the sixth arrive.
        for highest in 3..=6 {
            gate.on_heard(
                Time::from_millis(39 + highest),
                &heard(1, highest as usize - 2, highest),
            );
        }
        gate.on_retransmitted(Time::from_millis(80), 1);
        gate.on_heard(Time::from_millis(85), &heard(6, 0, 0));
        let log = log.lock().unwrap();
        let last = log.acks.last().unwrap();
        assert_eq!(last.len(), 1);
        assert_eq!(last[0].1, gate.rtt().smoothed().unwrap(), "not the 5 ms since it was repeated");
        assert_eq!(gate.rtt().minimum(), Some(Span::from_millis(40)));
        assert_eq!(gate.in_flight(), 0);
    }

    #[test]
    fn a_budget_is_told_from_a_window() {
        let (mut gate, _) = gate(20 * WIRE);
        gate.on_sent(Time::ZERO, Time::ZERO, 5 * MSS, MSS);
        assert_eq!(gate.limit(), None);
        let budget = Epochs { credit: 3, next: Time::ZERO, opens: false };
        let mut gate = Books::new(Box::new(budget), Time::ZERO, MSS, WIRE - MSS);
        assert_eq!(gate.limit(), Some(3 * MSS));
        gate.on_sent(Time::ZERO, Time::ZERO, 2 * MSS, MSS);
        assert_eq!(gate.limit(), Some(3 * MSS), "two of the three have left");
    }

    #[test]
    fn alcc_t7_a_packet_taken_in_part_counts_once_and_is_finished_first() {
        let (mut gate, log) = gate(WIRE);
        let start = Time::from_millis(5);
        assert_eq!(gate.next_call(start, 5000), 1448);
        gate.on_taken(start, 700, 5000);
        gate.on_block(start);
        assert_eq!(gate.in_flight(), WIRE);
        assert_eq!(log.lock().unwrap().sent, WIRE);
        let later = Time::from_millis(9);
        assert_eq!(gate.next_call(later, 4300), 748, "the window is full, but the packet is owed");
        gate.on_taken(later, 748, 4300);
        assert_eq!(log.lock().unwrap().sent, WIRE, "counted once");
        assert_eq!(gate.next_call(later, 3552), 0);
        gate.on_acked(Time::from_millis(45), MSS);
        let log = log.lock().unwrap();
        assert_eq!(log.acks, [[(0, Span::from_millis(40), 100)]], "from its first byte on");
    }

    #[test]
    fn alcc_t7_a_block_is_told_once_an_rtt() {
        let (mut gate, log) = gate(100 * WIRE);
        release(&mut gate, Time::ZERO, &mut 1448);
        gate.on_acked(Time::from_millis(40), MSS);
        for ms in 50..150 {
            gate.on_block(Time::from_millis(ms));
        }
        assert_eq!(log.lock().unwrap().blocks, [50, 90, 130].map(Time::from_millis));
        assert_eq!(gate.blocks(), 100);
    }

    #[test]
    fn alcc_t11_two_gates_keep_their_own_numbers() {
        let ((mut one, log_one), (mut two, log_two)) = (gate(5 * WIRE), gate(9 * WIRE));
        let (mut queued_one, mut queued_two) = (1 << 20, 1 << 20);
        release(&mut one, Time::ZERO, &mut queued_one);
        release(&mut two, Time::from_millis(1), &mut queued_two);
        one.on_acked(Time::from_millis(30), 5 * MSS);
        two.on_acked(Time::from_millis(61), 9 * MSS);
        assert_eq!(log_one.lock().unwrap().acks[0].len(), 5);
        assert_eq!(log_two.lock().unwrap().acks[0].len(), 9);
        assert_eq!(one.rtt().smoothed(), Some(Span::from_millis(30)));
        assert_eq!(two.rtt().smoothed(), Some(Span::from_millis(60)));
    }

    #[test]
    fn alcc_t12_a_cumulative_ack_is_one_event_with_every_packets_rtt_and_stamp() {
        let (mut gate, log) = gate(100 * WIRE);
        for ms in 0..5 {
            release(&mut gate, Time::from_millis(ms), &mut 1448);
        }
        gate.on_acked(Time::from_millis(50), 5 * MSS);
        let expected: Vec<_> = (0..5).map(|n| (n, Span::from_millis(50 - n), 100 + n)).collect();
        assert_eq!(log.lock().unwrap().acks, [expected]);
    }

    #[test]
    fn a_hole_that_tcp_fills_is_a_loss_and_a_retransmission() {
        let (mut gate, log) = gate(100 * WIRE);
        let mut queued = 8 * MSS as usize;
        release(&mut gate, Time::ZERO, &mut queued);
        gate.on_sacked(Time::from_millis(40), 1, 2);
        assert_eq!(gate.in_flight(), 6 * WIRE);
        gate.on_sacked(Time::from_millis(41), 1, 3);
        assert_eq!(log.lock().unwrap().lost, [0], "three packets overtook it");
        assert_eq!(gate.in_flight(), 4 * WIRE);
        gate.on_retransmitted(Time::from_millis(41), 1);
        assert_eq!(gate.in_flight(), 5 * WIRE, "sent again");
        gate.on_acked(Time::from_millis(82), 8 * MSS);
        let log = log.lock().unwrap();
        let last = &log.acks[2];
        assert_eq!(last[0], (8, Span::from_millis(41), 108), "RTT of the retransmission");
        assert_eq!(gate.in_flight(), 0);
    }

    #[test]
    fn what_tcp_did_not_send_again_was_not_lost() {
        let (mut gate, log) = gate(100 * WIRE);
        release(&mut gate, Time::ZERO, &mut (8 * MSS as usize));
        gate.on_sacked(Time::from_millis(41), 1, 3);
        assert_eq!(log.lock().unwrap().lost, [0]);
        gate.on_acked(Time::from_millis(44), 8 * MSS);
        gate.on_retransmitted(Time::from_millis(44), 1);
        let log = log.lock().unwrap();
        let rtts: Vec<Span> = log.acks.iter().flatten().map(|packet| packet.1).collect();
        assert_eq!(rtts.iter().min(), Some(&Span::from_millis(41)));
        assert_eq!(gate.in_flight(), 0, "it was another packet, or one of before");
    }

    #[test]
    fn a_call_waits_for_acks_until_half_of_it_may_leave() {
        let (mut gate, _) = gate(400 * WIRE);
        let mut queued = 1000 * MSS as usize;
        release(&mut gate, Time::ZERO, &mut queued);
        gate.on_acked(Time::from_millis(40), MSS);
        assert_eq!(gate.next_call(Time::from_millis(40), queued), 0, "1 of 10");
        gate.on_acked(Time::from_millis(40), 4 * MSS);
        assert_eq!(gate.next_call(Time::from_millis(40), queued), 0, "4 of 10");
        assert_eq!(
            gate.next_call(Time::from_millis(40), 2 * MSS as usize),
            2 * MSS as usize,
            "all there is"
        );
        gate.on_acked(Time::from_millis(40), 5 * MSS);
        assert_eq!(gate.next_call(Time::from_millis(40), queued), 5 * MSS as usize);
    }

    /// Lets two packets through every 5 ms, whatever was acknowledged; acks add one while `opens`.
    struct Epochs {
        credit: u64,
        next: Time,
        opens: bool,
    }

    impl Controller for Epochs {
        fn on_sent(&mut self, _: &SentPacket) -> Stamp {
            self.credit -= 1;
            Stamp::default()
        }
        fn on_ack(&mut self, _: &Ack<'_>) {
            self.credit += u64::from(self.opens);
        }
        fn cwnd(&self) -> u64 {
            20 * WIRE
        }
        fn permit(&self) -> Permit {
            Permit::Budget(self.credit * WIRE)
        }
        fn next_deadline(&self) -> Option<Time> {
            Some(self.next)
        }
        fn on_deadline(&mut self, now: Time) {
            self.credit = 2;
            self.next = now + Span::from_millis(5);
        }
    }

    /// Whether acks may wait after so many epochs of such a controller.
    fn acks_may_wait_after(epochs: u64, opens: bool) -> Option<Time> {
        let controller = Epochs { credit: 1, next: Time::ZERO, opens };
        let mut gate = Books::new(Box::new(controller), Time::ZERO, MSS, WIRE - MSS);
        for epoch in 0..epochs {
            let now = Time::from_millis(5 * epoch);
            let taken = gate.taken();
            gate.on_acked(now, taken.saturating_sub(2 * MSS));
            gate.on_timer(now);
            release(&mut gate, now, &mut (100 * MSS as usize));
        }
        gate.acks_may_wait()
    }

    #[test]
    fn acks_may_wait_for_a_controller_that_sends_at_its_own_times() {
        assert_eq!(acks_may_wait_after(10, false), None, "that is not known yet");
        assert_eq!(acks_may_wait_after(30, false), Some(Time::from_millis(150)));
        assert_eq!(acks_may_wait_after(30, true), None);
    }

    #[test]
    fn acks_do_not_wait_where_they_make_room_in_a_window() {
        let (mut gate, _) = gate(10 * WIRE);
        for round in 0..10 {
            let now = Time::from_millis(40 * round);
            let taken = gate.taken();
            gate.on_acked(now, taken);
            release(&mut gate, now, &mut (100 * MSS as usize));
        }
        assert_eq!(gate.acks_may_wait(), None);
    }

    /// Ten packets in flight on a path of 40 ms on which nothing comes any more.
    fn silent() -> (Books, Arc<Mutex<Log>>) {
        let (mut gate, log) = gate(10 * WIRE);
        release(&mut gate, Time::ZERO, &mut 1448);
        gate.on_acked(Time::from_millis(40), MSS);
        release(&mut gate, Time::from_millis(40), &mut (10 * MSS as usize));
        (gate, log)
    }

    #[test]
    fn an_outage_is_a_timeout_until_the_first_ack() {
        let (mut gate, log) = silent();
        let due = gate.next_deadline(false).unwrap();
        gate.on_timer(due);
        assert_eq!(log.lock().unwrap().timeouts, [due]);
        assert_eq!(gate.in_flight(), 0, "as the controller sees it");
        gate.on_acked(Time::from_millis(900), 3 * MSS);
        let log = log.lock().unwrap();
        assert_eq!(log.undone, 1, "the path was only slow");
        assert_eq!(log.acks[1][0], (1, Span::from_millis(860), 101));
        assert_eq!(gate.in_flight(), 8 * WIRE);
    }

    #[test]
    fn what_timed_out_has_no_rtt_when_newer_packets_come_first() {
        let (mut gate, log) = silent();
        gate.on_timer(gate.next_deadline(false).unwrap());
        release(&mut gate, Time::from_millis(500), &mut (4 * MSS as usize));
        gate.on_sacked(Time::from_millis(541), 10, 1);
        gate.on_acked(Time::from_millis(590), 15 * MSS);
        let log = log.lock().unwrap();
        assert_eq!(log.undone, 0);
        let newer: Vec<u64> = log.acks[1..].iter().flatten().map(|packet| packet.0).collect();
        assert_eq!(newer, [11, 12, 13, 14], "of those that TCP sent again the time is unknown");
        assert_eq!(gate.in_flight(), 0);
    }

    #[test]
    fn a_window_below_a_segment_lets_a_small_packet_through() {
        let log = Arc::new(Mutex::new(Log::default()));
        let probe = Probe { cwnd: 30_000, pacing: None, log };
        let mut gate = Books::new(Box::new(probe), Time::ZERO, 32_741, 52);
        assert_eq!(gate.next_call(Time::ZERO, 1 << 20), 29_948);
        gate.on_taken(Time::ZERO, 29_948, 1 << 20);
        assert_eq!(gate.next_call(Time::ZERO, 1 << 20), 0);
    }

    /// A packet a millisecond.
    fn paced_gate() -> (Books, Arc<Mutex<Log>>) {
        let log = Arc::new(Mutex::new(Log::default()));
        let pacing = Some(Pacing { rate: Rate::from_bps(12_000_000), burst: WIRE });
        let probe = Probe { cwnd: 100 * WIRE, pacing, log: log.clone() };
        (Books::new(Box::new(probe), Time::ZERO, MSS, WIRE - MSS), log)
    }

    #[test]
    fn a_paced_controller_is_obeyed() {
        let (mut gate, _) = paced_gate();
        let mut queued = 1 << 20;
        assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 1448);
        assert_eq!(gate.next_deadline(true), Some(Time::from_millis(1)));
        assert_eq!(release(&mut gate, Time::from_millis(1), &mut queued), 1448);
    }

    #[test]
    fn what_tcp_sent_by_itself_for_a_paced_controller_left_one_after_the_other() {
        let (mut gate, log) = paced_gate();
        let at = Time::from_millis;
        gate.on_sent(at(10), at(20), 3 * MSS, MSS);
        gate.on_sent(at(12), at(20), 2 * MSS, MSS);
        // It told of these at 14.5 ms: they had left by then.
        gate.on_sent(at(12), Time::from_micros(14_500), 2 * MSS, MSS);
        let prompt = AckReport { prompt: true, ..heard(7, 0, 0) };
        gate.on_heard(at(50), &prompt);
        assert_eq!(rtts(&log), [40_000, 39_000, 38_000, 37_000, 36_000, 35_500, 35_500]);
    }

    #[test]
    fn an_idle_flow_has_no_deadline() {
        let verus: cellpace_cc::ControllerSpec = "verus".parse().unwrap();
        let setup = cellpace_cc::Setup {
            mss: WIRE,
            start: Time::ZERO,
            random: cellpace_base::Random::seeded(1, 0),
        };
        let mut gate = Books::new(verus.build(setup), Time::ZERO, MSS, WIRE - MSS);
        assert_eq!(gate.next_deadline(false), None);
        release(&mut gate, Time::ZERO, &mut 1448);
        assert!(gate.next_deadline(false).is_some());
        gate.on_acked(Time::from_millis(40), MSS);
        assert_eq!(gate.next_deadline(false), None);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Write(usize),
        Take { share: u8 },
        Ack { share: u8 },
        Sack { holes: usize, count: usize },
        Wait(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (1usize..60_000).prop_map(Op::Write),
            any::<u8>().prop_map(|share| Op::Take { share }),
            any::<u8>().prop_map(|share| Op::Ack { share }),
            (0usize..4, 1usize..20).prop_map(|(holes, count)| Op::Sack { holes, count }),
            (0u64..30).prop_map(Op::Wait),
        ]
    }

    proptest! {
        /// Whatever TCP takes and acknowledges: the window is never exceeded by what the gate
        /// itself lets go, every packet is acked exactly once, and when all is acked nothing is
        /// in flight and nothing is remembered.
        #[test]
        fn the_books_balance(ops in prop::collection::vec(op(), 1..300), cwnd in 1u64..60) {
            let cwnd = cwnd * WIRE;
            let (mut gate, log) = gate(cwnd);
            let mut now = Time::ZERO;
            let mut queued = 0usize;
            for op in ops {
                match op {
                    Op::Write(bytes) => queued += bytes,
                    Op::Take { share } => {
                        let before = gate.in_flight();
                        let bytes = gate.next_call(now, queued);
                        let taken = bytes * usize::from(share) / 255;
                        gate.on_taken(now, taken, queued);
                        queued -= taken;
                        prop_assert!(gate.in_flight() <= cwnd.max(before));
                    }
                    Op::Ack { share } => {
                        let open = gate.taken() - gate.acked();
                        gate.on_acked(now, gate.acked() + open * u64::from(share) / 255);
                    }
                    Op::Sack { holes, count } => {
                        // The kernel counts only what it sent, and never the last hole's end.
                        let whole = gate.pieces.len().saturating_sub(1);
                        gate.on_sacked(now, holes, count.min(whole.saturating_sub(holes)));
                    }
                    Op::Wait(ms) => {
                        now += Span::from_millis(ms);
                        gate.on_timer(now);
                    }
                }
            }
            while gate.cut > gate.taken() {
                let owed = gate.next_call(now, queued);
                gate.on_taken(now, owed, queued);
                queued -= owed;
            }
            gate.on_acked(now, gate.taken());
            prop_assert!(gate.is_idle());
            prop_assert_eq!(gate.in_flight(), 0);
            prop_assert_eq!(gate.pieces.len(), 0);
            let log = log.lock().unwrap();
            let mut numbers: Vec<u64> = log.acks.iter().flatten().map(|packet| packet.0).collect();
            let told = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), told, "a packet was acked twice");
        }
    }
}
