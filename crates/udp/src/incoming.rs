//! The receiving half of a connection.

use cellpace_base::{Span, Time};
use cellpace_cc::Arrival;
use cellpace_recovery::{AckPolicy, Receiver};

use crate::assembly::Assembly;
use crate::hash::StreamHash;
use crate::ranges::RangeSet;
use crate::wire::{self, AckHead, Entry, Ids, Numbered};

/// Packet numbers from here on are nobody's.
const MOST_NUMBER: u64 = 1 << 62;

/// Ranges of packet numbers that are remembered. Older holes are for the sender to fill.
const MOST_NUMBER_RANGES: usize = 1024;

/// Ranges in an acknowledgment at most.
const MOST_ACK_RANGES: usize = 64;

/// Arrivals that were acknowledged already and are told again: so many acknowledgments in a row
/// may be lost before the sender misses the time of an arrival.
const REPEATED: u64 = 24;

/// How long a receiver rests after an ack before it looks again: several packets then share a
/// wake-up and an ack. Each still tells when it arrived.
const REST: Span = Span::from_micros(250);

/// Packets must come at least this fast, or resting saves nothing.
const FAST: Span = Span::from_micros(200);

/// A rest must be short beside the RTT, or it slows down whoever waits for acks.
const RTT_RESTS: u64 = 64;

/// The gap between packets is the mean over about so many, none counted for more than
/// `LONGEST_GAP`.
const GAP_MEMORY: u64 = 32;
const LONGEST_GAP: Span = Span::from_millis(10);

/// What has arrived, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IncomingStats {
    /// Packets, each counted once.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub ip_bytes: u64,
    /// Packets that had come before.
    pub duplicates: u64,
    /// Packets that came although there was no room for them.
    pub refused: u64,
    /// One more than the highest packet number.
    pub next_number: u64,
    /// Payload bytes: those read in order, or in an unreliable flow all that came.
    pub bytes: u64,
}

/// Receives packets, acknowledges them and puts the stream together.
pub(crate) struct Incoming {
    log: Receiver,
    /// Packet numbers that arrived, from `floor` on; all below count as arrived.
    numbers: RangeSet,
    floor: u64,
    /// `None` in an unreliable flow.
    assembly: Option<Assembly>,
    hasher: StreamHash,
    /// Length and hash of the stream, as the sender says.
    end: Option<(u64, [u8; 32])>,
    ack_due: bool,
    ack_sequence: u64,
    /// Log position up to which arrivals have been acknowledged at least once.
    acked_until: u64,
    /// The window that the sender was told last.
    told_window: u64,
    report: Vec<u8>,
    /// When the newest packet arrived.
    arrived_at: Option<Time>,
    /// Smoothed time between arrivals.
    gap: Span,
    /// Packets that the sender had in flight behind the newest one.
    flight: u64,
    rest_until: Time,
    stats: IncomingStats,
}

impl Incoming {
    pub(crate) fn new(
        half: Option<Box<dyn cellpace_cc::Receiver>>,
        unreliable: bool,
        buffer: u64,
    ) -> Self {
        Self {
            log: Receiver::new(AckPolicy::EveryPacket, half),
            numbers: RangeSet::default(),
            floor: 0,
            assembly: (!unreliable).then(|| Assembly::new(buffer)),
            hasher: StreamHash::new(),
            end: None,
            ack_due: false,
            ack_sequence: 0,
            acked_until: 0,
            told_window: if unreliable { u64::MAX } else { buffer },
            report: Vec::new(),
            arrived_at: None,
            gap: LONGEST_GAP,
            flight: 0,
            rest_until: Time::ZERO,
            stats: IncomingStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> IncomingStats {
        let bytes = self.assembly.as_ref().map_or(self.stats.bytes, Assembly::consumed);
        IncomingStats { bytes, ..self.stats }
    }

    /// A piece of the stream arrived in a packet of `ip_bytes`.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        numbered: Numbered,
        ip_bytes: u64,
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
            self.log_arrival(now, numbered, ip_bytes);
        } else {
            self.stats.refused += 1;
        }
    }

    /// The end of the stream arrived.
    pub(crate) fn on_fin(
        &mut self,
        now: Time,
        numbered: Numbered,
        ip_bytes: u64,
        total: u64,
        hash: [u8; 32],
    ) {
        if !self.is_new(numbered) {
            return;
        }
        self.end.get_or_insert((total, hash));
        self.log_arrival(now, numbered, ip_bytes);
    }

    /// A packet that came before says that the sender missed its ack.
    fn is_new(&mut self, numbered: Numbered) -> bool {
        let number = numbered.number;
        if number >= MOST_NUMBER {
            return false;
        }
        let known = number < self.floor || self.numbers.contains(number);
        self.stats.duplicates += u64::from(known);
        self.ack_due |= known;
        !known
    }

    fn log_arrival(&mut self, now: Time, numbered: Numbered, ip_bytes: u64) {
        let number = numbered.number;
        self.numbers.insert(number..number + 1);
        self.raise_floor(number.saturating_sub(u64::from(numbered.matters)));
        while self.numbers.len() > MOST_NUMBER_RANGES {
            let Some(first) = self.numbers.pop_first() else { break };
            self.raise_floor(first.end);
        }
        self.note_gap(now);
        self.flight = u64::from(numbered.matters);
        self.arrived_at = Some(now);
        self.stats.packets += 1;
        self.stats.ip_bytes += ip_bytes;
        self.stats.next_number = self.stats.next_number.max(number + 1);
        let wire = numbered.stamp.unwrap_or(0);
        self.ack_due |= self.log.on_packet(&Arrival { now, number, bytes: ip_bytes, wire });
    }

    fn note_gap(&mut self, now: Time) {
        let gap = self.arrived_at.map_or(LONGEST_GAP, |last| now - last).min(LONGEST_GAP);
        self.gap = (self.gap * (GAP_MEMORY - 1) + gap) / GAP_MEMORY;
    }

    /// Until when nobody needs to look at what arrives.
    pub(crate) fn rest_until(&self) -> Time {
        self.rest_until
    }

    /// Whether packets come so fast that resting is worth it, over a path so long that it does no
    /// harm. Little's law: the RTT is what is in flight times the time between packets.
    fn may_rest(&self) -> bool {
        self.gap <= FAST && self.gap * self.flight >= REST * RTT_RESTS
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor > self.floor {
            self.floor = floor;
            self.numbers.remove_below(floor);
        }
    }

    /// The sender asks for a sign of life.
    pub(crate) fn on_ping(&mut self) {
        self.ack_due = true;
    }

    /// The bytes that come next, in two parts.
    pub(crate) fn readable(&self) -> (&[u8], &[u8]) {
        self.assembly.as_ref().map_or((&[], &[]), Assembly::readable)
    }

    /// `count` of the readable bytes were read.
    pub(crate) fn consume(&mut self, count: usize) {
        let Some(assembly) = &mut self.assembly else { return };
        let (first, second) = assembly.readable();
        let cut = count.min(first.len());
        self.hasher.update(&first[..cut]);
        self.hasher.update(&second[..(count - cut).min(second.len())]);
        assembly.consume(count);
        // A window that was small, or has grown by a quarter, is news to the sender.
        let news = assembly.window() - self.told_window;
        let left = self.told_window - assembly.consumed().min(self.told_window);
        if news > 0 && (news >= left || news * 4 >= assembly.window() - assembly.consumed()) {
            self.ack_due = true;
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

    /// Whether what was read is what was sent, by its hash.
    pub(crate) fn is_intact(&self) -> bool {
        match (&self.assembly, self.end) {
            (Some(_), Some((_, hash))) => self.hasher.value() == hash,
            (_, end) => end.is_some(),
        }
    }

    /// The hash of what was read.
    pub(crate) fn hash(&self) -> [u8; 32] {
        self.hasher.value()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.log.next_deadline()
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        self.ack_due |= self.log.on_deadline(now);
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
            self.ack_due = true;
        }
        if !self.ack_due {
            return None;
        }
        let end = self.log.end();
        let start = self.acked_until.saturating_sub(REPEATED).max(self.log.first());
        self.told_window = self.assembly.as_ref().map_or(u64::MAX, Assembly::window);
        let report = std::mem::take(&mut self.report);
        let held = self.arrived_at.map_or(0, |at| (now - at).as_nanos() / 1_000);
        let head = AckHead {
            sequence: self.ack_sequence,
            window: self.told_window,
            position: start,
            held_us: u32::try_from(held).unwrap_or(u32::MAX),
            report: &report,
        };
        let entries = self.log.log_from(start).map(|arrived| Entry {
            number: arrived.number,
            received_at: arrived.received_at.unwrap_or(now),
        });
        let ranges = self.numbers.iter().rev().take(MOST_ACK_RANGES);
        let (length, count) = wire::write_ack(out, ids, room, &head, entries, ranges);
        self.ack_sequence += 1;
        self.acked_until = self.acked_until.max(start + count);
        self.log.forget_until(self.acked_until.saturating_sub(REPEATED));
        // What did not fit follows at once.
        self.ack_due = self.acked_until < end;
        if !self.ack_due {
            self.log.ack();
            if self.may_rest() {
                self.rest_until = now + REST;
            }
        }
        Some(length)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.assembly.as_ref().map_or(0, Assembly::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Ids = Ids { to: 1, from: 2 };

    /// What is left of the rest after each ack, with so many packets `gap_us` apart, each
    /// acknowledged at once and with `flight` others in flight.
    fn rests(packets: u64, gap_us: u64, flight: u32) -> Vec<Span> {
        let mut incoming = Incoming::new(None, true, 0);
        (0..packets)
            .map(|number| {
                let now = Time::from_micros(1_000_000 + number * gap_us);
                let numbered = Numbered { number, matters: flight, stamp: None };
                incoming.on_data(now, numbered, 1500, number, &[]);
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
        let mut incoming = Incoming::new(None, true, 0);
        for number in 0..1_000_u64 {
            // Ten packets in one moment of each 5 ms: 24 Mbit/s.
            let now = Time::from_micros(1_000_000 + number / 10 * 5_000);
            let numbered = Numbered { number, matters: 80, stamp: None };
            incoming.on_data(now, numbered, 1500, number, &[]);
            assert!(incoming.poll_ack(now, IDS, 1000, &mut Vec::new()).is_some());
            assert!(incoming.rest_until() <= now, "{number}");
        }
    }
}
