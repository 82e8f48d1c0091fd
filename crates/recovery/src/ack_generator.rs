//! The receiving end of a connection: what has arrived, and when it is acknowledged.

use std::collections::VecDeque;
use std::str::FromStr;

use cellpace_base::{QuantityError, Span, Time, parse_span};
use cellpace_cc::Arrival;

use crate::Arrived;

/// How receivers acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AckPolicy {
    /// Each packet at once.
    #[default]
    EveryPacket,
    /// Every second packet, or after a delay, or at once when a packet is missing (RFC 5681
    /// section 4.2).
    Delayed(Span),
}

impl FromStr for AckPolicy {
    type Err = QuantityError;

    /// Reads `every` or `delayed:40ms`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        match text.trim().strip_prefix("delayed:") {
            Some(delay) => parse_span(delay).map(Self::Delayed),
            None if text.trim() == "every" => Ok(Self::EveryPacket),
            None => Err(QuantityError::NotANumber {
                text: text.to_owned(),
                example: "every or delayed:40ms",
            }),
        }
    }
}

/// Arrivals that wait to be acknowledged at most. Receivers have a limit (RFC 9000 section 13.2.3),
/// and the way of the acks may be closed for hours.
const MAX_UNACKED: usize = 1 << 18;

/// What one connection has received: the log of arrivals, when it is acknowledged, and the algorithm's
/// own half. An ack says how much of the log it covers, so that a later ack makes up for a lost
/// one.
pub struct AckGenerator {
    policy: AckPolicy,
    /// Arrivals that were not reported to the sender yet, from log position `first` on.
    log: VecDeque<Arrived>,
    first: u64,
    unacked: u32,
    ack_at: Option<Time>,
    next_expected: u64,
    /// The receiver's half of the algorithm, if it has one.
    half: Option<Box<dyn cellpace_cc::Receiver>>,
}

impl AckGenerator {
    /// A receiver of a flow whose algorithm has `half` at this end.
    pub fn new(policy: AckPolicy, half: Option<Box<dyn cellpace_cc::Receiver>>) -> Self {
        Self {
            policy,
            log: VecDeque::new(),
            first: 0,
            unacked: 0,
            ack_at: None,
            next_expected: 0,
            half,
        }
    }

    /// A packet arrives. Returns whether an ack goes out now.
    #[inline]
    pub fn on_packet(&mut self, arrival: &Arrival) -> bool {
        if let Some(half) = &mut self.half {
            half.on_arrival(arrival);
        }
        let in_order = arrival.number == self.next_expected;
        self.next_expected = self.next_expected.max(arrival.number.saturating_add(1));
        if self.log.len() == MAX_UNACKED {
            self.log.pop_front();
            self.first += 1;
        }
        let arrived = Arrived::new(arrival.number, Some(arrival.now));
        self.log.push_back(Arrived { ecn: arrival.ecn, ..arrived });
        self.unacked += 1;
        let AckPolicy::Delayed(delay) = self.policy else { return true };
        if self.unacked >= 2 || !in_order {
            return true;
        }
        self.ack_at = Some(arrival.now + delay);
        false
    }

    /// The sender never used this packet number, so it is not missing. To be called before the
    /// packet behind it arrives.
    pub fn on_skipped(&mut self, number: u64) {
        if number == self.next_expected {
            self.next_expected = number.saturating_add(1);
        }
    }

    /// When something is due here.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        let half = self.half.as_ref().and_then(|half| half.next_deadline());
        match (self.ack_at, half) {
            (Some(ack), Some(half)) => Some(ack.min(half)),
            (ack, half) => ack.or(half),
        }
    }

    /// A deadline may have passed. Returns whether an ack goes out now.
    pub fn on_deadline(&mut self, now: Time) -> bool {
        if let Some(half) = &mut self.half
            && half.next_deadline().is_some_and(|time| time <= now)
        {
            half.on_deadline(now);
        }
        self.ack_at.is_some_and(|time| time <= now)
    }

    /// The report of the receiver's half that is due.
    #[inline]
    pub fn poll_report(&mut self, now: Time) -> Option<Vec<u8>> {
        let half = self.half.as_mut()?;
        let mut report = Vec::new();
        half.poll_report(now, &mut report).then_some(report)
    }

    /// The position up to which an ack that leaves now covers the log.
    #[inline]
    pub fn ack(&mut self) -> u64 {
        self.unacked = 0;
        self.ack_at = None;
        self.end()
    }

    /// The log position behind the newest arrival.
    pub fn end(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// The log position of the oldest arrival that is still held.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The arrivals from log position `from` on, as far as they are held.
    pub fn log_from(&self, from: u64) -> impl Iterator<Item = &Arrived> {
        let skipped = from.saturating_sub(self.first).min(self.log.len() as u64);
        self.log.range(skipped as usize..)
    }

    /// Forgets what lies in front of log position `upto`.
    pub fn forget_until(&mut self, upto: u64) {
        let count = upto.saturating_sub(self.first).min(self.log.len() as u64);
        self.log.drain(..count as usize);
        self.first += count;
    }

    /// What an ack that covers the log up to `upto` reports to the sender and no ack has reported before.
    #[inline]
    pub fn take_until(&mut self, upto: u64, arrived: &mut Vec<Arrived>) {
        let count = upto.saturating_sub(self.first) as usize;
        // Mostly it is one.
        for _ in 0..count.min(self.log.len()) {
            arrived.extend(self.log.pop_front());
        }
        self.first = self.first.max(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::Ecn;

    fn arrive(receiver: &mut AckGenerator, ms: u64, number: u64) -> bool {
        let now = Time::from_millis(ms);
        receiver.on_packet(&Arrival { now, number, bytes: 1500, wire: 0, ecn: Ecn::NotEct })
    }

    fn take_acked(receiver: &mut AckGenerator, upto: u64) -> Vec<u64> {
        let mut arrived = Vec::new();
        receiver.take_until(upto, &mut arrived);
        arrived.iter().map(|arrived| arrived.number).collect()
    }

    #[test]
    fn delayed_acks_are_for_every_second_packet_a_gap_or_the_delay() {
        let mut receiver = AckGenerator::new("delayed:40ms".parse().unwrap(), None);
        assert!(!arrive(&mut receiver, 1, 0));
        assert_eq!(receiver.next_deadline(), Some(Time::from_millis(41)));
        assert!(arrive(&mut receiver, 2, 1), "the second");
        assert_eq!(receiver.ack(), 2);
        assert_eq!(receiver.next_deadline(), None);
        assert!(arrive(&mut receiver, 3, 3), "2 is missing");
        assert_eq!(receiver.ack(), 3);
        assert!(!arrive(&mut receiver, 10, 4));
        assert!(!receiver.on_deadline(Time::from_millis(49)));
        assert!(receiver.on_deadline(Time::from_millis(50)));
        assert_eq!(receiver.ack(), 4);
        assert_eq!(take_acked(&mut receiver, 4), [0, 1, 3, 4]);
    }

    #[test]
    fn a_number_that_was_left_out_is_not_missing() {
        let mut receiver = AckGenerator::new("delayed:40ms".parse().unwrap(), None);
        assert!(!arrive(&mut receiver, 1, 0));
        receiver.on_skipped(1);
        assert!(arrive(&mut receiver, 2, 2), "the second");
        receiver.ack();
        receiver.on_skipped(3);
        assert!(!arrive(&mut receiver, 3, 4), "in order");
        receiver.ack();
        receiver.on_skipped(6);
        assert!(arrive(&mut receiver, 4, 7), "5 is missing");
    }

    #[test]
    fn a_later_ack_makes_up_for_a_lost_one_and_an_earlier_one_says_nothing_new() {
        let mut receiver = AckGenerator::new(AckPolicy::EveryPacket, None);
        let acks: Vec<u64> = (0..4)
            .map(|number| {
                assert!(arrive(&mut receiver, number, number));
                receiver.ack()
            })
            .collect();
        assert_eq!(take_acked(&mut receiver, acks[2]), [0, 1, 2]);
        assert_eq!(take_acked(&mut receiver, acks[0]), Vec::<u64>::new());
        assert_eq!(take_acked(&mut receiver, acks[3]), [3]);
    }

    #[test]
    fn the_log_is_held_until_it_is_forgotten() {
        let mut receiver = AckGenerator::new(AckPolicy::EveryPacket, None);
        (0..5).for_each(|number| assert!(arrive(&mut receiver, number, 10 + number)));
        let held = |receiver: &AckGenerator, from| {
            receiver.log_from(from).map(|arrived| arrived.number).collect::<Vec<_>>()
        };
        assert_eq!(held(&receiver, 3), [13, 14]);
        receiver.forget_until(2);
        assert_eq!((receiver.first(), receiver.end()), (2, 5));
        assert_eq!(held(&receiver, 0), [12, 13, 14]);
        assert_eq!(held(&receiver, 9), Vec::<u64>::new());
        receiver.forget_until(99);
        assert_eq!((receiver.first(), receiver.end()), (5, 5));
    }

    #[test]
    fn the_oldest_arrivals_make_room_for_the_newest() {
        let mut receiver = AckGenerator::new(AckPolicy::EveryPacket, None);
        let most = MAX_UNACKED as u64;
        (0..most + 10).for_each(|number| assert!(arrive(&mut receiver, 1, number)));
        let upto = receiver.ack();
        assert_eq!(take_acked(&mut receiver, 10), Vec::<u64>::new(), "forgotten");
        let acked = take_acked(&mut receiver, upto);
        assert_eq!((acked.first(), acked.len()), (Some(&10), MAX_UNACKED));
    }
}
