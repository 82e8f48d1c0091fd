//! The receiving half: what has arrived, what is acknowledged, and the algorithm's half here.

use cellpace_base::{Span, Time};
use cellpace_cc::{Arrival, Ecn, Receiver};
use cellpace_recovery::AckPolicy;

use crate::error::AlccError;
use crate::frame::{self, AckFrame, DataHead, HEADER_BYTES, STAMP_BYTES};
use crate::queue::BoundedQueue;

/// What was received, in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReceivedCounts {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) acks: u64,
    pub(super) reports: u64,
}

/// Receives a stream and acknowledges it.
///
/// The ack generator of `cellpace_recovery` keeps a log of arrivals that may be reported twice; here one
/// number says everything, and acks are never lost.
pub(super) struct ReceivingHalf {
    policy: AckPolicy,
    half: Option<Box<dyn Receiver>>,
    /// What a packet counts for beside its frame.
    overhead: u64,
    /// The packet that has not come whole.
    partial: Option<DataHead>,
    /// The newest that has.
    number: u64,
    arrived_at: Time,
    ended: bool,
    consumed: u64,
    /// The window that was last announced to the other end.
    reported_window: u64,
    /// Packets that have not been acknowledged.
    unacked: u32,
    acked_at: Option<Time>,
    ack_at: Option<Time>,
    ack_due: bool,
    report: Vec<u8>,
    counts: ReceivedCounts,
}

impl ReceivingHalf {
    pub(super) fn new(
        policy: AckPolicy,
        half: Option<Box<dyn Receiver>>,
        overhead: u64,
        window: u64,
    ) -> Self {
        Self {
            policy,
            half,
            overhead,
            partial: None,
            number: 0,
            arrived_at: Time::ZERO,
            ended: false,
            consumed: 0,
            reported_window: window,
            unacked: 0,
            acked_at: None,
            ack_at: None,
            ack_due: false,
            report: Vec::new(),
            counts: ReceivedCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> ReceivedCounts {
        self.counts
    }

    /// Whether the end of the stream has arrived.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether everything that came is acknowledged.
    pub(super) fn is_acked(&self) -> bool {
        self.unacked == 0
    }

    /// The head of a packet.
    pub(super) fn on_head(&mut self, now: Time, data: DataHead) -> Result<(), AlccError> {
        if u64::from(data.length) > self.reported_window - self.counts.bytes {
            return Err(AlccError::Overrun);
        }
        if data.length == 0 {
            self.ended = true;
            self.on_packet(now, data);
            return Ok(());
        }
        self.partial = Some(data);
        Ok(())
    }

    /// Data of the packet whose head came last.
    pub(super) fn on_bytes(
        &mut self,
        now: Time,
        bytes: &[u8],
        left: u32,
        inbox: &mut BoundedQueue,
    ) -> Result<(), AlccError> {
        if inbox.push(bytes) < bytes.len() {
            // The window says that it fits.
            return Err(AlccError::Overrun);
        }
        self.counts.bytes += bytes.len() as u64;
        if left == 0
            && let Some(data) = self.partial.take()
        {
            self.on_packet(now, data);
        }
        Ok(())
    }

    fn on_packet(&mut self, now: Time, data: DataHead) {
        self.number = data.number;
        self.arrived_at = now;
        self.unacked = self.unacked.saturating_add(1);
        self.counts.packets += 1;
        let Some(half) = &mut self.half else { return };
        let header = HEADER_BYTES + if data.stamp.is_some() { STAMP_BYTES } else { 0 };
        half.on_arrival(&Arrival {
            now,
            number: data.number - 1,
            bytes: self.overhead + header as u64 + u64::from(data.length),
            wire: data.stamp.unwrap_or(0),
            ecn: Ecn::NotEct,
        });
    }

    /// Everything that was there has been read: now is the time for an ack, one for all.
    pub(super) fn after_read(&mut self, now: Time) {
        if self.unacked == 0 || self.ack_due {
            return;
        }
        let pause = match self.policy {
            AckPolicy::EveryPacket => Span::ZERO,
            AckPolicy::Delayed(pause) => pause,
        };
        let next = self.acked_at.map_or(now, |at| at + pause);
        if self.unacked >= 2 || self.ended || next <= now {
            self.ack_due = true;
        } else {
            self.ack_at = Some(next);
        }
    }

    /// `count` bytes were taken out of the inbox.
    pub(super) fn on_consumed(&mut self, count: usize, inbox: &BoundedQueue) {
        self.consumed += count as u64;
        let limit = inbox.limit() as u64;
        let news = self.consumed + limit - self.reported_window;
        let left = self.reported_window - self.counts.bytes;
        // A window that was small, or has grown by a quarter, is news to the sender.
        if news > 0 && !self.ended && (news >= left || news * 4 >= limit) {
            self.ack_due = true;
        }
    }

    /// Appends the ack that is due, if one is.
    pub(super) fn poll_ack(&mut self, now: Time, inbox: &BoundedQueue, out: &mut Vec<u8>) -> bool {
        if !self.ack_due {
            return false;
        }
        self.reported_window = self.consumed + inbox.limit() as u64;
        let held = if self.number == 0 { Span::ZERO } else { now - self.arrived_at };
        let held_us = u32::try_from(held.as_nanos() / 1_000).unwrap_or(u32::MAX);
        let ack = AckFrame {
            number: self.number,
            written_at: now,
            held_us,
            window: self.reported_window,
        };
        frame::write_ack(out, &ack);
        (self.ack_due, self.ack_at, self.acked_at) = (false, None, Some(now));
        self.unacked = 0;
        self.counts.acks += 1;
        true
    }

    /// Appends the report that is due, if one is.
    pub(super) fn poll_report(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Some(half) = &mut self.half else { return false };
        self.report.clear();
        if !half.poll_report(now, &mut self.report) {
            return false;
        }
        self.counts.reports += 1;
        frame::write_report(out, self.counts.reports, &self.report);
        true
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let half = self.half.as_ref().and_then(|half| half.next_deadline());
        [self.ack_at, half].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn on_timer(&mut self, now: Time) {
        if self.ack_at.is_some_and(|time| time <= now) {
            (self.ack_at, self.ack_due) = (None, true);
        }
        if let Some(half) = &mut self.half
            && half.next_deadline().is_some_and(|time| time <= now)
        {
            half.on_deadline(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameDecoder, FramePiece};

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn setup() -> (ReceivingHalf, BoundedQueue) {
        let policy = AckPolicy::Delayed(Span::from_millis(5));
        (ReceivingHalf::new(policy, None, 52, 10_000), BoundedQueue::new(10_000))
    }

    /// A packet of 1000 bytes arrives in a read of its own.
    fn arrive(incoming: &mut ReceivingHalf, inbox: &mut BoundedQueue, at: Time, number: u64) {
        incoming.on_head(at, DataHead { number, length: 1000, stamp: None }).unwrap();
        incoming.on_bytes(at, &[7; 400], 600, inbox).unwrap();
        incoming.on_bytes(at, &[7; 600], 0, inbox).unwrap();
        incoming.after_read(at);
    }

    fn acked(incoming: &mut ReceivingHalf, inbox: &BoundedQueue, now: Time) -> Option<AckFrame> {
        let mut out = Vec::new();
        incoming.poll_ack(now, inbox, &mut out).then(|| {
            match FrameDecoder::new(false).next(&mut out.as_slice()).unwrap() {
                Some(FramePiece::Ack(ack)) => ack,
                other => panic!("{other:?}"),
            }
        })
    }

    #[test]
    fn one_ack_per_read_and_per_two_packets_or_five_milliseconds() {
        let (mut incoming, mut inbox) = setup();
        arrive(&mut incoming, &mut inbox, ms(100), 1);
        let first = acked(&mut incoming, &inbox, ms(100)).unwrap();
        assert_eq!((first.number, first.held_us, first.written_at), (1, 0, ms(100)));
        assert_eq!(acked(&mut incoming, &inbox, ms(100)), None);
        arrive(&mut incoming, &mut inbox, ms(101), 2);
        assert_eq!(acked(&mut incoming, &inbox, ms(101)), None);
        assert_eq!(incoming.next_deadline(), Some(ms(105)));
        incoming.on_timer(ms(105));
        let late = acked(&mut incoming, &inbox, ms(106)).unwrap();
        assert_eq!((late.number, late.held_us), (2, 5000));
        assert_eq!(incoming.next_deadline(), None);
        arrive(&mut incoming, &mut inbox, ms(107), 3);
        arrive(&mut incoming, &mut inbox, ms(108), 4);
        assert_eq!(acked(&mut incoming, &inbox, ms(108)).unwrap().number, 4);
        arrive(&mut incoming, &mut inbox, ms(113), 5);
        assert_eq!(
            acked(&mut incoming, &inbox, ms(113)).unwrap().number,
            5,
            "at a slow pace at once"
        );
    }

    #[test]
    fn one_ack_per_read() {
        let (_, mut inbox) = setup();
        let mut incoming = ReceivingHalf::new(AckPolicy::EveryPacket, None, 52, 10_000);
        for number in 1..=5 {
            arrive(&mut incoming, &mut inbox, ms(1), number);
            assert_eq!(acked(&mut incoming, &inbox, ms(1)).unwrap().number, number);
        }
        for number in 6..=8 {
            arrive(&mut incoming, &mut inbox, ms(2), number);
        }
        assert_eq!(acked(&mut incoming, &inbox, ms(2)).unwrap().number, 8);
        assert_eq!((acked(&mut incoming, &inbox, ms(2)), incoming.next_deadline()), (None, None));
    }

    #[test]
    fn a_window_that_opens_is_reported() {
        let (mut incoming, mut inbox) = setup();
        for number in 1..=10 {
            arrive(&mut incoming, &mut inbox, ms(number), number);
        }
        assert_eq!(acked(&mut incoming, &inbox, ms(10)).unwrap().window, 10_000);
        let beyond = DataHead { number: 11, length: 1, stamp: None };
        assert_eq!(incoming.on_head(ms(11), beyond), Err(AlccError::Overrun));
        inbox.consume(1);
        incoming.on_consumed(1, &inbox);
        let ack = acked(&mut incoming, &inbox, ms(12)).unwrap();
        assert_eq!((ack.number, ack.window), (10, 10_001));
        incoming.on_head(ms(13), beyond).unwrap();
        incoming.on_bytes(ms(13), &[7], 0, &mut inbox).unwrap();
        inbox.consume(9999);
        incoming.on_consumed(9999, &inbox);
        assert_eq!(acked(&mut incoming, &inbox, ms(14)).unwrap().window, 20_000);
    }

    #[test]
    fn a_packet_counts_when_it_is_whole() {
        let (mut incoming, mut inbox) = setup();
        incoming.on_head(ms(1), DataHead { number: 1, length: 1000, stamp: None }).unwrap();
        incoming.on_bytes(ms(1), &[7; 999], 1, &mut inbox).unwrap();
        incoming.after_read(ms(1));
        assert_eq!(acked(&mut incoming, &inbox, ms(1)), None);
        assert_eq!(inbox.len(), 999, "though its bytes can be read");
    }
}
