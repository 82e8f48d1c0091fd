//! Records on their way back to the prober: each is sent until it is known to have arrived.

use std::collections::VecDeque;

use cellpace_base::{Span, Time};

use crate::wire::ArrivalRecord;

/// Maximum number of records that wait. Further ones are only counted.
const MAX_RECORDS: usize = 500_000;

/// A report is sent early when this many records wait.
const WORTH_A_REPORT: u64 = 300;

/// Records are sent again when they are not confirmed within a round trip and this time.
const PATIENCE: Span = Span::from_millis(300);

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Number of the first record held.
    base: u64,
    records: VecDeque<ArrivalRecord>,
    /// Number of the next record to send.
    next: u64,
    /// When records were taken last, or began to wait.
    progress_at: Time,
    unrecorded: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, now: Time, record: ArrivalRecord) {
        if self.records.len() >= MAX_RECORDS {
            self.unrecorded += 1;
            return;
        }
        if self.records.is_empty() {
            self.progress_at = now;
        }
        self.records.push_back(record);
    }

    /// Number of records so far.
    pub(crate) fn total(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    pub(crate) fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// The other side has the first `taken`.
    pub(crate) fn on_taken(&mut self, now: Time, taken: u64) {
        let taken = taken.min(self.total());
        if taken <= self.base {
            return;
        }
        self.records.drain(..(taken - self.base) as usize);
        (self.base, self.next) = (taken, self.next.max(taken));
        self.progress_at = now;
    }

    /// Where the next report begins. After a time without an answer, again at the first.
    pub(crate) fn position(&mut self, now: Time, rtt: Span) -> u64 {
        let waits = self.next > self.base && now - self.progress_at > PATIENCE + rtt + rtt;
        if waits {
            (self.next, self.progress_at) = (self.base, now);
        }
        self.next
    }

    /// The records from the next to send on.
    pub(crate) fn unsent(&self) -> impl Iterator<Item = ArrivalRecord> + '_ {
        self.records.range((self.next - self.base) as usize..).copied()
    }

    pub(crate) fn on_sent(&mut self, count: u64) {
        self.next += count;
    }

    /// Whether there is enough for a report before it is due.
    pub(crate) fn is_pressing(&self) -> bool {
        self.total() - self.next >= WORTH_A_REPORT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> ArrivalRecord {
        ArrivalRecord { stream: 0, number, received_at: Time::from_micros(number) }
    }

    #[test]
    fn records_are_sent_once_and_again_when_no_answer_comes() {
        let (mut outbox, rtt) = (Outbox::default(), Span::from_millis(100));
        let ms = Time::from_millis;
        (0..5).for_each(|number| outbox.push(ms(0), record(number)));
        assert_eq!(outbox.position(ms(1), rtt), 0);
        assert_eq!(outbox.unsent().count(), 5);
        outbox.on_sent(3);
        assert_eq!(outbox.unsent().next(), Some(record(3)));
        outbox.on_sent(2);
        assert_eq!(outbox.position(ms(500), rtt), 5, "still within patience");
        assert_eq!(outbox.position(ms(501), rtt), 0);
        outbox.on_taken(ms(502), 2);
        assert_eq!(outbox.position(ms(503), rtt), 2);
        outbox.on_taken(ms(504), 99);
        assert_eq!((outbox.total(), outbox.unsent().count()), (5, 0), "nobody takes what is not");
        outbox.on_taken(ms(505), 1);
        assert_eq!(outbox.position(ms(9000), rtt), 5, "nothing waits");
    }

    #[test]
    fn a_silent_peer_does_not_fill_the_memory() {
        let mut outbox = Outbox::default();
        (0..MAX_RECORDS as u64 + 7).for_each(|number| outbox.push(Time::ZERO, record(number)));
        assert_eq!((outbox.total(), outbox.unrecorded()), (MAX_RECORDS as u64, 7));
    }
}
