//! The receiving half of a connection.

use std::collections::VecDeque;

use cellpace_base::{Span, Time};
use cellpace_cc::{Arrival, Ecn};
use cellpace_recovery::{AckGenerator, AckPolicy};

use crate::assembly::Assembly;
use crate::hash::StreamHash;
use crate::numbers::split_matters;
use crate::ranges::RangeSet;
use crate::wire::{self, AckEntry, AckHead, EcnCounts, Ids, Numbered};

/// Packet numbers from here on are not valid.
const MAX_NUMBER: u64 = 1 << 62;

/// Ranges of packet numbers that are remembered at most. Packets missing below them count as
/// arrived: the sender has to detect their loss.
const MAX_NUMBER_RANGES: usize = 1024;

/// Ranges in an acknowledgment at most.
const MAX_ACK_RANGES: usize = 64;

/// Arrivals that were acknowledged already and are reported again: this many acknowledgments in a
/// row may be lost before the sender misses the time of an arrival.
const REPEATED: u64 = 24;

/// Delayed acks that wait to be sent at most, each with the arrivals that it reports. Beyond that,
/// while the system takes nothing, the last of them reports everything else.
const MAX_DUE: usize = 1024;

/// How long a receiver pauses after an ack before it looks again: several packets then share a
/// wake-up and an ack. The ack still reports when each of them arrived.
const REST: Span = Span::from_micros(250);

/// The largest gap between packets at which a pause saves anything.
const FAST: Span = Span::from_micros(200);

/// A pause is at most this fraction of the RTT: a longer one would slow down senders that wait for
/// acks.
const RTT_RESTS: u64 = 64;

/// The gap between packets is the mean over about this many. Each gap counts at most
/// [`MAX_GAP`].
const GAP_MEMORY: u64 = 32;
const MAX_GAP: Span = Span::from_millis(10);

/// Figures of what has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IncomingStats {
    /// Packets, each counted once.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub ip_bytes: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets dropped because there was no room for them.
    pub refused: u64,
    /// Packets that the sender has sent, as far as is known: one more than the highest packet
    /// number, less the numbers that the sender left out.
    pub next_number: u64,
    /// Payload bytes: those read in order, or in an unreliable flow all that arrived.
    pub bytes: u64,
    /// Acknowledgments sent.
    pub acks: u64,
    /// Packets that came marked (ECN), each counted once.
    pub marked: u64,
}

/// An acknowledgment that is due.
#[derive(Debug, Clone, Copy)]
struct DueAck {
    /// Log position up to which it reports arrivals.
    upto: u64,
    /// When the packet arrived, or the delay ended, that made it due.
    since: Time,
}

/// Receives packets, acknowledges them and puts the stream together.
pub(crate) struct Incoming {
    log: AckGenerator,
    /// Packet numbers that arrived, from `floor` on; all below count as arrived.
    numbers: RangeSet,
    floor: u64,
    /// `None` in an unreliable flow.
    assembly: Option<Assembly>,
    /// Of the pages of the assembly that were read.
    hasher: StreamHash,
    /// Length and hash of the stream, as reported by the sender.
    end: Option<(u64, [u8; 32])>,
    /// How long a packet waits for a second one to be acknowledged with; `None`: not at all.
    delay: Option<Span>,
    /// With a delay: the acks that have been due, one for each time, even if packets were found
    /// waiting together. TCP's would have left by now, and each is an event at the sender.
    due: VecDeque<DueAck>,
    /// Everything that has arrived is to be acknowledged now.
    ack_due: bool,
    ack_sequence: u64,
    /// Log position up to which arrivals have been acknowledged at least once.
    acked_until: u64,
    /// The window that was last reported to the sender.
    reported_window: u64,
    report: Vec<u8>,
    /// When the newest packet arrived.
    arrived_at: Option<Time>,
    /// Smoothed time between arrivals.
    gap: Span,
    /// Packets that the sender had in flight behind the newest one.
    flight: u64,
    rest_until: Time,
    /// Packet numbers that the sender has left out.
    skipped: u64,
    /// Packets by codepoint.
    ecn: EcnCounts,
    /// Whether acks report codepoints.
    reports_ecn: bool,
    stats: IncomingStats,
}

impl Incoming {
    /// Receives into `assembly`; without one the flow is unreliable.
    pub(crate) fn new(
        half: Option<Box<dyn cellpace_cc::Receiver>>,
        policy: AckPolicy,
        assembly: Option<Assembly>,
    ) -> Self {
        let delay = match policy {
            AckPolicy::EveryPacket => None,
            AckPolicy::Delayed(delay) => Some(delay),
        };
        Self {
            log: AckGenerator::new(policy, half),
            numbers: RangeSet::default(),
            floor: 0,
            reported_window: assembly.as_ref().map_or(u64::MAX, Assembly::window),
            assembly,
            hasher: StreamHash::new(),
            end: None,
            delay,
            due: VecDeque::new(),
            ack_due: false,
            ack_sequence: 0,
            acked_until: 0,
            report: Vec::new(),
            arrived_at: None,
            gap: MAX_GAP,
            flight: 0,
            rest_until: Time::ZERO,
            skipped: 0,
            ecn: EcnCounts::default(),
            reports_ecn: false,
            stats: IncomingStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> IncomingStats {
        let bytes = self.assembly.as_ref().map_or(self.stats.bytes, Assembly::consumed);
        let next_number = self.stats.next_number.saturating_sub(self.skipped);
        IncomingStats { bytes, next_number, marked: self.ecn.ce, ..self.stats }
    }

    /// Acks report codepoints from now on.
    pub(crate) fn report_ecn(&mut self) {
        self.reports_ecn = true;
    }

    /// Handles a piece of the stream that arrived in a packet of `ip_bytes`.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        numbered: Numbered,
        (ip_bytes, ecn): (u64, Ecn),
        offset: u64,
        payload: &[u8],
    ) {
        if !self.is_new(numbered) {
            return;
        }
        let fits = match (&mut self.assembly, self.end) {
            (Some(_), Some((total, _))) if offset.saturating_add(payload.len() as u64) > total => {
                false
            }
            (Some(assembly), _) => assembly.insert(offset, payload),
            (None, _) => {
                self.stats.bytes += payload.len() as u64;
                true
            }
        };
        if fits {
            self.log_arrival(now, numbered, ip_bytes, ecn);
        } else {
            self.stats.refused += 1;
        }
    }

    /// Handles the end of the stream.
    pub(crate) fn on_fin(
        &mut self,
        now: Time,
        numbered: Numbered,
        (ip_bytes, ecn): (u64, Ecn),
        total: u64,
        hash: [u8; 32],
    ) {
        if !self.is_new(numbered) {
            return;
        }
        self.end.get_or_insert((total, hash));
        // The end does not wait for a second packet: none follows.
        self.ack_due = true;
        self.log_arrival(now, numbered, ip_bytes, ecn);
    }

    /// Returns whether the packet is new. A repeated one shows that the sender missed its ack.
    fn is_new(&mut self, numbered: Numbered) -> bool {
        let number = numbered.number;
        if number >= MAX_NUMBER {
            return false;
        }
        let known = number < self.floor || self.numbers.contains(number);
        self.stats.duplicates += u64::from(known);
        self.ack_due |= known;
        !known
    }

    fn log_arrival(&mut self, now: Time, numbered: Numbered, ip_bytes: u64, ecn: Ecn) {
        let number = numbered.number;
        let (matters, skipped) = split_matters(numbered.matters);
        if skipped {
            self.skipped += 1;
            self.log.on_skipped(number.saturating_sub(1));
        }
        self.numbers.insert(number..number + 1);
        self.raise_floor(number.saturating_sub(u64::from(matters)));
        while self.numbers.len() > MAX_NUMBER_RANGES {
            let Some(first) = self.numbers.pop_first() else { break };
            self.raise_floor(first.end);
        }
        self.note_gap(now);
        self.flight = u64::from(matters);
        self.arrived_at = Some(now);
        self.stats.packets += 1;
        self.stats.ip_bytes += ip_bytes;
        self.ecn.count(ecn);
        self.stats.next_number = self.stats.next_number.max(number + 1);
        let wire = numbered.stamp.unwrap_or(0);
        if self.log.on_packet(&Arrival { now, number, bytes: ip_bytes, wire, ecn }) {
            self.owe_ack(now);
        }
    }

    /// Notes that an ack is due for what happened at `since`.
    fn owe_ack(&mut self, since: Time) {
        if self.delay.is_none() {
            self.ack_due = true;
            return;
        }
        let due = DueAck { upto: self.log.ack(), since };
        if self.due.len() >= MAX_DUE {
            self.due.pop_back();
        }
        self.due.push_back(due);
    }

    fn note_gap(&mut self, now: Time) {
        let gap = self.arrived_at.map_or(MAX_GAP, |last| now - last).min(MAX_GAP);
        self.gap = (self.gap * (GAP_MEMORY - 1) + gap) / GAP_MEMORY;
    }

    /// Returns until when arrivals need no attention.
    pub(crate) fn rest_until(&self) -> Time {
        self.rest_until
    }

    /// Whether packets arrive so fast that a pause is worth it, over a path so long that it does no
    /// harm. By Little's law the RTT is the packets in flight times the time between packets.
    fn may_rest(&self) -> bool {
        self.gap <= FAST && self.gap * self.flight >= REST * RTT_RESTS
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor > self.floor {
            self.floor = floor;
            self.numbers.remove_below(floor);
        }
    }

    /// Handles a ping.
    pub(crate) fn on_ping(&mut self) {
        self.ack_due = true;
    }

    /// The bytes that come next, or a part of them, in two parts.
    pub(crate) fn readable(&self) -> (&[u8], &[u8]) {
        self.assembly.as_ref().map_or((&[], &[]), Assembly::readable)
    }

    /// `count` of the readable bytes were read.
    pub(crate) fn consume(&mut self, count: usize) {
        let Some(assembly) = &mut self.assembly else { return };
        assembly.consume(count, |page| self.hasher.update(page));
        // A window that was small, or has grown by a quarter, is reported at once.
        let news = assembly.window() - self.reported_window;
        let left = self.reported_window - assembly.consumed().min(self.reported_window);
        if news > 0 && (news >= left || news * 4 >= assembly.window() - assembly.consumed()) {
            self.ack_due = true;
        }
    }

    /// Drops what is held: the flow is over, and nobody will read it.
    pub(crate) fn drop_unread(&mut self) {
        if let Some(assembly) = &mut self.assembly {
            self.hasher.update(assembly.read_of_page());
            assembly.clear();
        }
    }

    /// Whether everything that will ever be readable was read.
    pub(crate) fn is_read(&self) -> bool {
        match (&self.assembly, self.end) {
            (Some(assembly), Some((total, _))) => assembly.consumed() == total,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    /// Whether what was read is what was sent, according to the hash.
    pub(crate) fn is_intact(&self) -> bool {
        match (&self.assembly, self.end) {
            (Some(_), Some((_, hash))) => self.hash() == hash,
            (_, end) => end.is_some(),
        }
    }

    /// The hash of what was read.
    pub(crate) fn hash(&self) -> [u8; 32] {
        self.hasher.value(self.assembly.as_ref().map_or(&[], Assembly::read_of_page))
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.log.next_deadline()
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.log.on_deadline(now) {
            let ended = self.arrived_at.zip(self.delay).map(|(arrived, delay)| arrived + delay);
            self.owe_ack(ended.unwrap_or(now));
        }
    }

    /// Writes the acknowledgment that is due into at most `room` bytes.
    pub(crate) fn poll_ack(
        &mut self,
        now: Time,
        ids: Ids,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        if let Some(report) = self.log.poll_report(now) {
            self.report = report;
            self.ack_due |= self.delay.is_none();
        }
        let DueAck { upto, since } = self.next_ack(now)?;
        let start = self.acked_until.saturating_sub(REPEATED).max(self.log.first());
        self.reported_window = self.assembly.as_ref().map_or(u64::MAX, Assembly::window);
        let report = std::mem::take(&mut self.report);
        let held = (now - since).as_nanos() / 1_000;
        let head = AckHead {
            sequence: self.ack_sequence,
            window: self.reported_window,
            position: start,
            held_us: u32::try_from(held).unwrap_or(u32::MAX),
            report: &report,
            ecn: self.reports_ecn.then_some(self.ecn),
        };
        let count = usize::try_from(upto.saturating_sub(start)).unwrap_or(usize::MAX);
        let entries = self.log.log_from(start).take(count).map(|arrived| AckEntry {
            number: arrived.number,
            received_at: arrived.received_at.unwrap_or(now),
            ecn: arrived.ecn,
        });
        let ranges = self.numbers.iter().rev().take(MAX_ACK_RANGES);
        let (length, count) = wire::write_ack(out, ids, room, &head, entries, ranges);
        self.ack_sequence += 1;
        self.acked_until = self.acked_until.max(start + count);
        self.log.forget_until(self.acked_until.saturating_sub(REPEATED));
        // What did not fit follows at once.
        if self.due.front().is_some_and(|due| due.upto <= self.acked_until) {
            self.due.pop_front();
        }
        self.stats.acks += 1;
        if self.acked_until >= self.log.end() {
            self.ack_due = false;
            self.log.ack();
            if self.may_rest() {
                self.rest_until = now + REST;
            }
        }
        Some(length)
    }

    /// Returns the ack that is sent next, if one is due.
    fn next_ack(&self, now: Time) -> Option<DueAck> {
        if let Some(due) = self.due.front() {
            return Some(*due);
        }
        let since = self.arrived_at.unwrap_or(now);
        if self.ack_due {
            return Some(DueAck { upto: self.log.end(), since });
        }
        // A report does not end the wait for a second packet.
        (!self.report.is_empty()).then_some(DueAck { upto: self.acked_until, since })
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.assembly.as_ref().map_or(0, Assembly::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::WirePacket;

    const IDS: Ids = Ids { to: 1, from: 2 };
    const PACKET: (u64, Ecn) = (1500, Ecn::NotEct);

    /// Returns what is left of the pause after each ack, with this many packets `gap_us` apart,
    /// each acknowledged at once and with `flight` others in flight.
    fn rests(packets: u64, gap_us: u64, flight: u32) -> Vec<Span> {
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, None);
        (0..packets)
            .map(|number| {
                let now = Time::from_micros(1_000_000 + number * gap_us);
                let numbered = Numbered { number, matters: flight, stamp: None };
                incoming.on_data(now, numbered, PACKET, number, &[]);
                assert!(incoming.poll_ack(now, IDS, 1000, &mut Vec::new()).is_some());
                incoming.rest_until() - now
            })
            .collect()
    }

    #[test]
    fn a_receiver_rests_where_packets_come_fast_over_a_long_path() {
        let rests = rests(1_000, 120, 333);
        let first = rests.iter().position(|rest| !rest.is_zero()).unwrap();
        assert!((64..256).contains(&first), "some packets show that it is fast: {first}");
        assert!(rests[first..].iter().all(|rest| *rest == REST));
    }

    #[test]
    fn a_receiver_does_not_rest_on_slow_or_short_paths() {
        assert!(rests(1_000, 1_000, 40).iter().all(|rest| rest.is_zero()), "12 Mbit/s, 40 ms");
        // The first packets, until the gap is known, do not count.
        assert!(rests(1_000, 12, 100)[300..].iter().all(|rest| rest.is_zero()), "1 Gbit/s, 1.2 ms");
        assert!(rests(1_000, 12, 2_000).iter().any(|rest| !rest.is_zero()), "1 Gbit/s, 24 ms");
    }

    #[test]
    fn bursts_are_no_reason_to_rest() {
        let mut incoming = Incoming::new(None, AckPolicy::EveryPacket, None);
        for number in 0..1_000_u64 {
            // Ten packets in one moment of each 5 ms: 24 Mbit/s.
            let now = Time::from_micros(1_000_000 + number / 10 * 5_000);
            let numbered = Numbered { number, matters: 80, stamp: None };
            incoming.on_data(now, numbered, PACKET, number, &[]);
            assert!(incoming.poll_ack(now, IDS, 1000, &mut Vec::new()).is_some());
            assert!(incoming.rest_until() <= now, "{number}");
        }
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn delayed(delay_ms: u64) -> Incoming {
        Incoming::new(None, AckPolicy::Delayed(Span::from_millis(delay_ms)), None)
    }

    fn arrive(incoming: &mut Incoming, now: Time, number: u64) {
        let numbered = Numbered { number, matters: 10, stamp: None };
        incoming.on_data(now, numbered, PACKET, number, &[]);
    }

    /// Returns the acks that are sent now: the arrivals that each is the first to report, and how
    /// late it is.
    fn acks(incoming: &mut Incoming, now: Time) -> Vec<(Vec<u64>, u32)> {
        std::iter::from_fn(|| {
            let before = incoming.acked_until;
            let mut out = Vec::new();
            incoming.poll_ack(now, IDS, 1000, &mut out)?;
            let Some((_, WirePacket::Ack(ack))) = wire::decode_bare(&out) else { panic!("no ack") };
            let news = (before - ack.position) as usize;
            let numbers = ack.entries().skip(news).map(|entry| entry.number).collect();
            Some((numbers, ack.held_us))
        })
        .collect()
    }

    #[test]
    fn pairs_are_acknowledged_once() {
        let mut incoming = delayed(40);
        let mut acked = Vec::new();
        for number in 0..100 {
            arrive(&mut incoming, ms(number), number);
            acked.extend(acks(&mut incoming, ms(number)));
        }
        let expected: Vec<_> = (0..50).map(|pair| (vec![2 * pair, 2 * pair + 1], 0)).collect();
        assert_eq!(acked, expected);
        assert_eq!(incoming.stats().acks, 50);
        assert_eq!(incoming.next_deadline(), None, "the timer of a pair has ended");
    }

    #[test]
    fn packets_found_waiting_together_are_acknowledged_in_pairs_nevertheless() {
        let mut incoming = delayed(40);
        (0..5).for_each(|number| arrive(&mut incoming, ms(100 + number), number));
        let acked = acks(&mut incoming, ms(106));
        assert_eq!(acked, [(vec![0, 1], 5_000), (vec![2, 3], 3_000)], "each with its lateness");
        assert_eq!(incoming.next_deadline(), Some(ms(144)), "the fifth waits");
    }

    #[test]
    fn a_lone_packet_is_acknowledged_after_the_delay_and_the_delay_is_no_lateness() {
        let mut incoming = delayed(200);
        arrive(&mut incoming, ms(10), 0);
        assert_eq!(acks(&mut incoming, ms(10)), []);
        assert_eq!(incoming.next_deadline(), Some(ms(210)));
        incoming.on_timer(ms(209));
        assert_eq!(acks(&mut incoming, ms(209)), []);
        incoming.on_timer(ms(211));
        assert_eq!(acks(&mut incoming, ms(211)), [(vec![0], 1_000)]);
        assert_eq!(incoming.next_deadline(), None);
        incoming.on_timer(ms(500));
        assert_eq!(acks(&mut incoming, ms(500)), [], "once");
    }

    #[test]
    fn a_gap_is_acknowledged_at_once_and_so_is_what_fills_it() {
        let mut incoming = delayed(40);
        arrive(&mut incoming, ms(1), 0);
        arrive(&mut incoming, ms(2), 1);
        assert_eq!(acks(&mut incoming, ms(2)).len(), 1);
        arrive(&mut incoming, ms(3), 3);
        assert_eq!(acks(&mut incoming, ms(3)), [(vec![3], 0)], "2 is missing");
        arrive(&mut incoming, ms(4), 2);
        assert_eq!(acks(&mut incoming, ms(4)), [(vec![2], 0)]);
        arrive(&mut incoming, ms(5), 4);
        assert_eq!(acks(&mut incoming, ms(5)), [], "in order again");
        assert_eq!(incoming.next_deadline(), Some(ms(45)));
    }

    #[test]
    fn a_number_that_the_sender_left_out_is_no_gap_and_not_lost() {
        let mut incoming = delayed(40);
        let mut acked = Vec::new();
        for number in (0..10).filter(|number| *number != 5) {
            let matters = crate::numbers::join_matters(10, number == 6);
            let numbered = Numbered { number, matters, stamp: None };
            incoming.on_data(ms(number), numbered, PACKET, number, &[]);
            acked.extend(acks(&mut incoming, ms(number)).into_iter().map(|(numbers, _)| numbers));
        }
        assert_eq!(acked, [vec![0, 1], vec![2, 3], vec![4, 6], vec![7, 8]], "in pairs");
        let stats = incoming.stats();
        assert_eq!((stats.packets, stats.next_number), (9, 9), "nothing is lost");
    }

    #[test]
    fn questions_duplicates_and_the_end_do_not_wait_for_a_second_packet() {
        let mut incoming = delayed(40);
        arrive(&mut incoming, ms(1), 0);
        incoming.on_ping();
        assert_eq!(acks(&mut incoming, ms(1)), [(vec![0], 0)]);
        assert_eq!(incoming.next_deadline(), None, "nothing waits any more");
        arrive(&mut incoming, ms(2), 1);
        arrive(&mut incoming, ms(3), 1);
        assert_eq!(acks(&mut incoming, ms(3)), [(vec![1], 1_000)]);
        let numbered = Numbered { number: 2, matters: 0, stamp: None };
        incoming.on_fin(ms(4), numbered, PACKET, 0, [0; 32]);
        assert_eq!(acks(&mut incoming, ms(4)), [(vec![2], 0)]);
        assert_eq!(incoming.next_deadline(), None);
    }

    /// Reports with every packet.
    struct Chatty(bool);

    impl cellpace_cc::Receiver for Chatty {
        fn on_arrival(&mut self, _: &Arrival) {
            self.0 = true;
        }
        fn poll_report(&mut self, _: Time, report: &mut Vec<u8>) -> bool {
            report.push(1);
            std::mem::take(&mut self.0)
        }
    }

    #[test]
    fn a_report_goes_out_without_ending_the_wait_for_a_second_packet() {
        let policy = AckPolicy::Delayed(Span::from_millis(40));
        let mut incoming = Incoming::new(Some(Box::new(Chatty(false))), policy, None);
        arrive(&mut incoming, ms(1), 0);
        assert_eq!(acks(&mut incoming, ms(1)), [(vec![], 0)], "a mere report");
        assert_eq!(incoming.next_deadline(), Some(ms(41)));
        arrive(&mut incoming, ms(2), 1);
        assert_eq!(acks(&mut incoming, ms(2)), [(vec![0, 1], 0)]);
    }

    #[test]
    fn acks_that_cannot_leave_do_not_pile_up() {
        let mut incoming = delayed(40);
        (0..10_000).for_each(|number| arrive(&mut incoming, ms(1), number));
        assert_eq!(incoming.due.len(), MAX_DUE);
        let acked: Vec<u64> =
            acks(&mut incoming, ms(2)).into_iter().flat_map(|(numbers, _)| numbers).collect();
        assert!(acked.into_iter().eq(0..10_000), "each in its order");
        assert_eq!(incoming.next_deadline(), None);
    }
}
