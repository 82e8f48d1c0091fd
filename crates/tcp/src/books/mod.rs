//! What TCP was given and has acknowledged, and what that means to a controller: packets' numbers,
//! losses, RTTs. No I/O. The gate and the kernel driver keep the same books; how much the gate gives
//! to TCP in one call is the business of the [`CallRule`].

mod call_rule;
mod packets;
mod sequence;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use cellpace_base::{Span, Time};
use cellpace_cc::{Block, Controller, Permit, Stamp};
use cellpace_recovery::{Arrived, PacedSender, Sending};

pub(crate) use call_rule::{CallRule, MAX_PER_CALL};
pub(crate) use sequence::SequenceUnwrap;

use packets::PacketMap;

/// A controller whose window no ack has opened for so long sends at its own times only, as those
/// with epochs do.
const OPENED_BY_ACKS: Span = Span::from_millis(100);

/// What a TCP that has the application's data itself reports of an ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckReport {
    /// Offset in the stream before which everything has arrived.
    pub(crate) acked: u64,
    /// Packets selectively acknowledged above `acked`.
    pub(crate) sacked: usize,
    /// End offset of the highest of them.
    pub(crate) highest: u64,
    /// RTT of the newest packet of those newly known to have arrived that were sent once.
    pub(crate) rtt: Option<Span>,
    /// The receiver acknowledges what it has as soon as it reads it: what it acknowledges together
    /// it also got together, as far as is known.
    pub(crate) prompt: bool,
}

/// Packets above a TCP connection under a controller.
pub(crate) struct Books {
    sender: PacedSender<u64>,
    packets: PacketMap,
    /// Payload of a full packet in bytes.
    segment: u64,
    /// Bytes of headers that the controller counts with every packet.
    overhead: u64,
    /// Bytes that TCP took.
    taken: u64,
    /// End of the last packet of which TCP took a byte.
    cut: u64,
    acked: u64,
    /// The latest time reported to the controller: acks are found a little after they came.
    latest: Time,
    last_stamp: Stamp,
    last_block: Option<Time>,
    blocks: u64,
    /// When the last packet left.
    sent_at: Time,
    /// When the last ack came that reported something new.
    acked_at: Time,
    /// When an ack last opened the window.
    opened_at: Time,
    /// A timeout was reported to the controller, and no ack has come since.
    timed_out: bool,
    /// When the last timeout was reported to it.
    timed_out_at: Option<Time>,
    numbers: Vec<Arrived>,
    /// Ends of packets that are taken for lost and that TCP has not sent again.
    lost: VecDeque<u64>,
    /// Packets that TCP sent again, ever.
    retransmitted: u64,
    /// Why the first controller did not go on.
    failed: Option<String>,
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
            packets: PacketMap::default(),
            segment,
            overhead,
            taken: 0,
            cut: 0,
            acked: 0,
            latest: now,
            last_stamp: Stamp::default(),
            last_block: None,
            blocks: 0,
            sent_at: Time::ZERO,
            acked_at: now,
            opened_at: now,
            timed_out: false,
            timed_out_at: None,
            numbers: Vec::new(),
            lost: VecDeque::new(),
            retransmitted: 0,
            failed: None,
        }
    }

    /// Puts another controller in the place of one that cannot go on.
    pub(crate) fn replace_failed(&mut self, instead: impl FnOnce() -> Box<dyn Controller>) {
        if self.failed.is_some() {
            return;
        }
        self.failed = self.controller().failure();
        if self.failed.is_some() {
            self.sender.replace_controller(instead());
        }
    }

    /// Why the first controller did not go on, where it did not.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
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

    /// TCP cuts segments of another size now.
    pub(crate) fn resegment(&mut self, segment: u64) {
        self.segment = segment.max(1);
    }

    /// Payload of a full packet in bytes.
    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    /// Bytes that are missing of a packet of which TCP took a part.
    fn owed(&self) -> u64 {
        self.cut - self.taken
    }

    /// TCP took `count` bytes of the `queued` ones, in a call that was to end at offset `call_end`.
    fn on_taken(&mut self, now: Time, count: u64, queued: u64, call_end: u64) {
        self.latest = self.latest.max(now);
        let when = self.latest;
        self.take(count, queued, call_end, |_| when);
    }

    /// Cuts what left into packets, none of which reaches beyond `call_end`. `when` returns when a packet
    /// left, given when the one before did.
    fn take(&mut self, count: u64, queued: u64, call_end: u64, when: impl Fn(Time) -> Time) {
        let there = self.taken + queued;
        self.taken += count;
        while self.cut < self.taken {
            let end = (self.cut + self.segment).min(call_end);
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

    /// TCP, which has the application's data itself, has sent `count` bytes since its last report,
    /// from `when` on, which may be before the last report to the controller, until `now`;
    /// `unsent` more wait. The packets of a paced controller have left one after the other.
    pub(crate) fn on_sent(&mut self, when: Time, now: Time, count: u64, unsent: u64) {
        let call_end = self.taken + count;
        let pacing = self.controller().pacing();
        let gap = pacing.map_or(Span::ZERO, |pacing| pacing.rate.time_for(self.packet_bytes()));
        self.take(count, count + unsent, call_end, |before| when.max(before + gap).min(now));
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
            self.packets.renumber(end, number);
            return;
        }
        self.last_stamp = stamp;
        self.packets.push(end, number);
    }

    /// TCP refused what the controller allowed: its own window is smaller, or its buffer full.
    /// The controller learns of it once an RTT at most.
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
        self.packets.arrived_until(offset, |number, _| numbers.push(arrived(number)));
        self.report_arrived(when);
        true
    }

    /// TCP, which has the application's data itself, has worked in an ack at `when`. Of the packets
    /// that it reports the newest caused it, and has TCP's measure of its RTT; the others waited
    /// for that.
    pub(crate) fn on_ack_report(&mut self, when: Time, report: &AckReport) {
        let when = self.latest.max(when);
        let acked = report.acked.min(self.taken);
        self.acked = self.acked.max(acked);
        let (numbers, sent) = (&mut self.numbers, self.sender.sent());
        let mut take = |number, repeated: bool| {
            let sent_at = if repeated { None } else { sent.sent_at(number) };
            numbers.push(Arrived { rtt: sent_at.map(|at| when - at), ..arrived(number) });
        };
        self.packets.arrived_until(acked, &mut take);
        self.packets.arrived_up_to(report.highest, report.sacked, &mut take);
        if self.numbers.is_empty() {
            return;
        }
        let wait = if report.prompt { Span::ZERO } else { when - self.acked_at };
        self.estimate_rtts(report.rtt, wait);
        self.acked_at = when;
        if report.prompt {
            self.report_one_by_one(when);
        } else {
            self.report_arrived(when);
        }
    }

    /// As if each had been acknowledged by itself.
    fn report_one_by_one(&mut self, when: Time) {
        let mut all = std::mem::take(&mut self.numbers);
        for arrived in all.drain(..) {
            self.numbers.push(arrived);
            self.report_arrived(when);
        }
        // With its memory.
        self.numbers = all;
    }

    /// Estimates the RTTs of packets that one ack reports, given how long before it each was sent. They are
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

    /// The peer reports `count` segments behind `holes` missing ones.
    pub(crate) fn on_sacked(&mut self, when: Time, holes: usize, count: usize) {
        let numbers = &mut self.numbers;
        self.packets.arrived_beyond(holes, count, |number, _| numbers.push(arrived(number)));
        self.report_arrived(when);
    }

    fn report_arrived(&mut self, when: Time) {
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
    /// to do at this time. Their stamps show later when they came. None if they should be worked
    /// in at once.
    pub(crate) fn acks_may_wait(&self) -> Option<Time> {
        if self.acks_open() || self.timed_out || self.is_idle() {
            return None;
        }
        let deadline = self.sender.controller_deadline()?;
        (self.latest.since(self.opened_at) >= OPENED_BY_ACKS).then_some(deadline)
    }

    /// When [`on_timer`](Self::on_timer) wants to be called. Never while nothing is in flight and
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

    /// Does what is due. The controller learns of a timeout where it would above UDP, although
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
        self.packets.rest();
    }
}

fn arrived(number: u64) -> Arrived {
    Arrived::new(number, None)
}
