//! The sending half: cuts a stream into packets as the controller allows, and works in their acks.

use cellpace_base::{Span, Time};
use cellpace_cc::{Block, Controller, RttEstimator, Stamp};
use cellpace_recovery::{Arrived, Pacer, Sending, Sent, Unbounded};

use crate::error::AlccError;
use crate::frame::{self, AckFrame, DataHead, HEADER_BYTES, STAMP_BYTES};
use crate::queue::BoundedQueue;

/// Packets in flight at most, whatever the controller allows: what is known of each takes about a
/// hundred bytes, and a peer that reads without ever acknowledging must not take all memory.
const MAX_IN_FLIGHT: u64 = 1 << 16;

/// An RTT for the time in which none has been measured.
const FIRST_RTT: Span = Span::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    Open,
    Wanted,
    Sent,
    Acked,
}

/// What was sent, in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SentCounts {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) acked_bytes: u64,
    pub(super) acks: u64,
    pub(super) reports: u64,
    pub(super) blocks: u64,
}

/// Sends a stream under a controller.
///
/// TCP delivers everything in order, so nothing here is ever lost or sent again: there is no
/// retransmission timer, and what TCP has to send again is seen as a longer RTT.
pub(super) struct SendingHalf {
    controller: Box<dyn Controller>,
    /// Data of the packets in flight, in bytes.
    sent: Sent<u32>,
    pacer: Pacer,
    /// When the pacer lets the next packet go.
    release_at: Option<Time>,
    /// Data of a full packet.
    full: usize,
    /// What a packet counts for beside its data.
    headers: u64,
    stamped: bool,
    end: StreamEnd,
    acked: u64,
    /// The other end takes the stream up to this offset.
    window: u64,
    /// Its clock at its last ack.
    clock: Time,
    /// When the oldest packet in flight began to be the oldest.
    waiting_since: Time,
    blocked_at: Option<Time>,
    last_stamp: Stamp,
    arrived: Vec<Arrived>,
    counts: SentCounts,
    failed: Option<String>,
}

impl SendingHalf {
    pub(super) fn new(
        now: Time,
        controller: Box<dyn Controller>,
        sizes: SegmentSizes,
        stamped: bool,
        window: u64,
    ) -> Self {
        let header = HEADER_BYTES + if stamped { STAMP_BYTES } else { 0 };
        Self {
            controller,
            sent: Sent::new(RttEstimator::default()),
            pacer: Pacer::new(now),
            release_at: None,
            full: sizes.segment - header,
            headers: header as u64 + sizes.overhead,
            stamped,
            end: StreamEnd::Open,
            acked: 0,
            window,
            clock: Time::ZERO,
            waiting_since: now,
            blocked_at: None,
            last_stamp: Stamp::default(),
            arrived: Vec::new(),
            counts: SentCounts::default(),
            failed: None,
        }
    }

    pub(super) fn controller(&self) -> &dyn Controller {
        self.controller.as_ref()
    }

    pub(super) fn controller_mut(&mut self) -> &mut dyn Controller {
        self.controller.as_mut()
    }

    pub(super) fn sent(&self) -> &Sent<u32> {
        &self.sent
    }

    pub(super) fn counts(&self) -> SentCounts {
        self.counts
    }

    /// The stream ends with what is in the queue.
    pub(super) fn finish(&mut self) {
        if self.end == StreamEnd::Open {
            self.end = StreamEnd::Wanted;
        }
    }

    /// Whether everything has left, the end included.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self.end, StreamEnd::Sent | StreamEnd::Acked)
    }

    /// Whether everything has arrived, the end included.
    pub(super) fn is_acked(&self) -> bool {
        self.end == StreamEnd::Acked
    }

    /// Appends the packet that may leave now, if there is one.
    pub(super) fn poll(&mut self, now: Time, queue: &mut BoundedQueue, out: &mut Vec<u8>) -> bool {
        self.release_at = None;
        // An idle flow asks for no deadlines, so that one may have passed unnoticed.
        self.run_controller(now);
        let Some(length) = self.next_length(queue) else { return false };
        let bytes = self.headers + length as u64;
        if !self.is_ready(now, bytes) {
            return false;
        }
        self.counts.packets += 1;
        self.counts.bytes += length as u64;
        let more = queue.len() > length && self.counts.bytes < self.window;
        let stamp = self.send(now, bytes, length as u32, !more);
        let number = self.sent.next_number();
        let stamp = self.stamped.then_some(stamp.wire);
        frame::write_data(out, &DataHead { number, length: length as u32, stamp });
        queue.move_to(out, length);
        if length == 0 {
            self.end = StreamEnd::Sent;
        }
        true
    }

    /// Data of the packet that comes next; 0 for the end of the stream.
    fn next_length(&self, queue: &BoundedQueue) -> Option<usize> {
        if self.sent.remembered() >= MAX_IN_FLIGHT || self.is_sent() {
            return None;
        }
        if queue.is_empty() {
            return (self.end == StreamEnd::Wanted).then_some(0);
        }
        let allowed = (self.window - self.counts.bytes).min(self.within_small_window());
        let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
        Some(queue.len().min(self.full).min(allowed)).filter(|length| *length > 0)
    }

    /// Data for which a window below one packet has room: something must leave, or no ack would
    /// ever open it. No limit while packets are in flight.
    fn within_small_window(&self) -> u64 {
        if self.sent.in_flight() > 0 {
            return u64::MAX;
        }
        match self.controller.permit().remaining(0).saturating_sub(self.headers) {
            0 => u64::MAX,
            room => room,
        }
    }

    fn is_ready(&mut self, now: Time, bytes: u64) -> bool {
        if self.controller.permit().remaining(self.sent.in_flight()) < bytes {
            return false;
        }
        match self.pacer.release_at(now, bytes, self.controller.pacing()) {
            Some(time) if time <= now => true,
            waits => {
                self.release_at = waits;
                false
            }
        }
    }

    fn send(&mut self, now: Time, bytes: u64, length: u32, app_limited: bool) -> Stamp {
        if self.sent.in_flight() == 0 {
            self.waiting_since = now;
        }
        self.pacer.on_sent(bytes, self.controller.pacing());
        let sending = Sending { now, bytes, data: length, retransmission: false, app_limited };
        let (_, stamp) = self.sent.send(&sending, self.controller.as_mut());
        self.last_stamp = stamp;
        stamp
    }

    /// One ack of TCP's stream is one event for the controller, however many packets it covers:
    /// docs/spec/alcc.md 5.
    pub(super) fn on_ack(&mut self, now: Time, ack: &AckFrame) -> Result<(), AlccError> {
        let sent = self.sent.next_number();
        if ack.number > sent {
            return Err(AlccError::AckBeyond { acked: ack.number, sent });
        }
        if ack.number < self.acked || ack.written_at < self.clock || ack.window < self.window {
            return Err(AlccError::AckBack);
        }
        (self.clock, self.window) = (ack.written_at, ack.window);
        self.counts.acks += 1;
        if ack.number == self.acked {
            return Ok(());
        }
        // Packets count from 1 on the wire, from 0 in the books.
        let newest = ack.number - 1;
        let held = Span::from_micros(u64::from(ack.held_us));
        self.arrived.clear();
        self.arrived.extend(
            (self.acked..=newest).map(|number| {
                Arrived::new(number, (number == newest).then(|| ack.written_at - held))
            }),
        );
        self.acked = ack.number;
        self.waiting_since = now;
        let counts = &mut self.counts;
        self.sent.on_ack(now, &self.arrived, self.controller.as_mut(), |length, _| {
            counts.acked_bytes += u64::from(length);
        });
        if self.end == StreamEnd::Sent && self.acked == sent {
            self.end = StreamEnd::Acked;
        }
        Ok(())
    }

    pub(super) fn on_report(&mut self, now: Time, report: &[u8]) {
        self.counts.reports += 1;
        self.controller.on_report(now, report);
    }

    /// The layer below refused data. At most once per RTT this is news: ALCC specification,
    /// section 4.4.
    pub(super) fn on_block(&mut self, now: Time) {
        self.counts.blocks += 1;
        let rtt = self.sent.rtt().smoothed().unwrap_or(FIRST_RTT);
        if self.blocked_at.is_some_and(|at| now < at + rtt) {
            return;
        }
        self.blocked_at = Some(now);
        self.controller.on_block(&Block { now, stamp: self.last_stamp, waits: true });
    }

    /// When something is due: of the controller while there is something to control, of the pacer
    /// while a packet waits for it, and when silence has lasted too long.
    pub(super) fn next_deadline(
        &self,
        queue: &BoundedQueue,
        patience: Option<Span>,
    ) -> Option<Time> {
        let waits = !queue.is_empty() || self.end == StreamEnd::Wanted;
        let busy = waits || self.sent.in_flight() > 0;
        let controller = if busy { self.controller.next_deadline() } else { None };
        let patience = patience.filter(|_| self.sent.in_flight() > 0);
        let silent = patience.map(|patience| self.waiting_since + patience);
        [controller, self.release_at, silent].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn on_timer(&mut self, now: Time, patience: Option<Span>) -> Result<(), AlccError> {
        self.run_controller(now);
        // The owner asks for the packet that waited now; if it cannot, nothing is due here.
        self.release_at = self.release_at.filter(|time| *time > now);
        let waited = self.sent.in_flight() > 0;
        if waited && patience.is_some_and(|patience| self.waiting_since + patience <= now) {
            return Err(AlccError::Silent);
        }
        Ok(())
    }

    /// Why the first controller did not go on. TCP bounds what is in flight in its place.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    fn run_controller(&mut self, now: Time) {
        if self.failed.is_none() {
            self.failed = self.controller.failure();
            if self.failed.is_some() {
                self.controller = Box::new(Unbounded);
            }
        }
        if self.controller.next_deadline().is_some_and(|time| time <= now) {
            self.controller.on_deadline(now);
        }
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        const PACKET: usize = 112;
        self.arrived.capacity() * size_of::<Arrived>() + self.sent.remembered() as usize * PACKET
    }
}

/// How large packets are.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentSizes {
    /// TCP payload of a full packet.
    pub(super) segment: usize,
    /// Headers below that.
    pub(super) overhead: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::Permit;
    use std::sync::{Arc, Mutex};

    /// What a controller was given.
    #[derive(Debug, Default)]
    struct Witnessed {
        /// For each ack: RTTs in ms and windows in the stamps.
        acks: Vec<Vec<(u64, u64)>>,
        received: Vec<Option<Time>>,
        blocks: Vec<(Time, u64)>,
        app_limited: Vec<bool>,
    }

    #[derive(Clone, Default)]
    struct Witness(Arc<Mutex<Witnessed>>);

    const WINDOW: u64 = 6 * 1500;

    impl Controller for Witness {
        fn on_sent(&mut self, packet: &cellpace_cc::SentPacket) -> Stamp {
            self.0.lock().unwrap().app_limited.push(packet.app_limited);
            Stamp { local: [100 + packet.number, 0, 0, 0], wire: packet.number }
        }
        fn on_ack(&mut self, ack: &cellpace_cc::Ack<'_>) {
            let mut calls = self.0.lock().unwrap();
            let of = |packet: &cellpace_cc::AckedPacket| {
                (packet.rtt.as_nanos() / 1_000_000, packet.stamp.local[0])
            };
            calls.acks.push(ack.packets.iter().map(of).collect());
            calls.received.extend(ack.packets.iter().map(|packet| packet.received_at));
        }
        fn on_block(&mut self, block: &Block) {
            self.0.lock().unwrap().blocks.push((block.now, block.stamp.local[0]));
        }
        fn on_timeout(&mut self, _: &cellpace_cc::Timeout) {
            panic!("nothing times out above TCP");
        }
        fn on_loss(&mut self, _: &cellpace_cc::Loss<'_>) {
            panic!("nothing is lost above TCP");
        }
        fn permit(&self) -> Permit {
            Permit::Window(WINDOW)
        }
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn ack(number: u64) -> AckFrame {
        AckFrame { number, written_at: ms(1000), held_us: 500, window: 1 << 20 }
    }

    fn setup() -> (SendingHalf, BoundedQueue, Witness) {
        let witness = Witness::default();
        let sizes = SegmentSizes { segment: 1448, overhead: 52 };
        let outgoing = SendingHalf::new(ms(0), Box::new(witness.clone()), sizes, false, 1 << 20);
        (outgoing, BoundedQueue::new(1 << 20), witness)
    }

    fn poll(outgoing: &mut SendingHalf, now: Time, queue: &mut BoundedQueue) -> Option<usize> {
        let mut out = Vec::new();
        outgoing.poll(now, queue, &mut out).then_some(out.len())
    }

    #[test]
    fn alcc_t12_an_ack_of_five_packets_is_one_event_with_an_rtt_and_a_stamp_each() {
        let (mut outgoing, mut queue, witness) = setup();
        queue.push(&[7; 100_000]);
        for at in 0..5 {
            assert_eq!(poll(&mut outgoing, ms(at), &mut queue), Some(1448));
        }
        outgoing.on_ack(ms(50), &ack(5)).unwrap();
        let calls = witness.0.lock().unwrap();
        let group = vec![(50, 100), (49, 101), (48, 102), (47, 103), (46, 104)];
        assert_eq!(calls.acks, [group]);
        let newest = Time::from_micros(999_500);
        assert_eq!(calls.received, [None, None, None, None, Some(newest)]);
        let rtt = outgoing.sent().rtt();
        assert_eq!(rtt.smoothed(), Some(Span::from_millis(46)), "the newest");
        assert_eq!(rtt.minimum(), Some(Span::from_millis(46)));
    }

    #[test]
    fn alcc_t4_an_ack_that_says_nothing_new_is_no_event() {
        let (mut outgoing, mut queue, witness) = setup();
        queue.push(&[7; 5000]);
        while poll(&mut outgoing, ms(0), &mut queue).is_some() {}
        outgoing.on_ack(ms(50), &ack(2)).unwrap();
        outgoing.on_ack(ms(51), &ack(2)).unwrap();
        assert_eq!(witness.0.lock().unwrap().acks.len(), 1);
        assert_eq!(outgoing.counts().acks, 2);
    }

    #[test]
    fn alcc_t2_short_packets_keep_their_size() {
        let (mut outgoing, mut queue, _) = setup();
        for length in [1436, 500, 1436] {
            queue.push(&vec![1; length]);
            assert_eq!(poll(&mut outgoing, ms(0), &mut queue), Some(12 + length));
        }
        assert_eq!(outgoing.sent().in_flight(), 1500 + 564 + 1500);
        outgoing.on_ack(ms(9), &ack(2)).unwrap();
        assert_eq!(outgoing.counts().acked_bytes, 1936);
        assert_eq!(outgoing.sent().in_flight(), 1500);
    }

    #[test]
    fn lying_acks_are_errors() {
        let with = |ack: AckFrame| {
            let (mut outgoing, mut queue, _) = setup();
            queue.push(&[7; 10_000]);
            while poll(&mut outgoing, ms(0), &mut queue).is_some() {}
            let first = AckFrame { number: 3, written_at: ms(10), held_us: 0, window: 1 << 21 };
            outgoing.on_ack(ms(50), &first).unwrap();
            outgoing.on_ack(ms(51), &ack)
        };
        let good = AckFrame { number: 6, written_at: ms(10), held_us: u32::MAX, window: 1 << 21 };
        assert_eq!(with(good), Ok(()));
        let beyond = AckFrame { number: 7, ..good };
        assert_eq!(with(beyond), Err(AlccError::AckBeyond { acked: 7, sent: 6 }));
        assert_eq!(with(AckFrame { number: 2, ..good }), Err(AlccError::AckBack));
        assert_eq!(with(AckFrame { written_at: ms(9), ..good }), Err(AlccError::AckBack));
        assert_eq!(with(AckFrame { window: 1 << 20, ..good }), Err(AlccError::AckBack));
    }

    #[test]
    fn the_controllers_window_and_the_other_ends_both_hold() {
        let (mut outgoing, mut queue, witness) = setup();
        outgoing.window = 4000;
        queue.push(&[7; 100_000]);
        let lengths: Vec<_> =
            std::iter::from_fn(|| poll(&mut outgoing, ms(0), &mut queue)).collect();
        assert_eq!(lengths, [1448, 1448, 1140], "4000 bytes of data");
        assert_eq!(witness.0.lock().unwrap().app_limited, [false, false, true]);
        outgoing.on_ack(ms(50), &ack(1)).unwrap();
        let mut more = 0;
        while poll(&mut outgoing, ms(50), &mut queue).is_some() {
            more += 1;
        }
        assert_eq!(more, 4);
        assert_eq!(outgoing.sent().in_flight(), WINDOW - 1500 + 1192, "no full packet more");
    }

    #[test]
    fn a_block_is_news_once_per_rtt() {
        let (mut outgoing, mut queue, witness) = setup();
        queue.push(&[7; 5000]);
        while poll(&mut outgoing, ms(0), &mut queue).is_some() {}
        outgoing.on_ack(ms(40), &ack(1)).unwrap();
        for at in 50..150 {
            outgoing.on_block(ms(at));
        }
        let blocks = witness.0.lock().unwrap().blocks.clone();
        assert_eq!(blocks, [(ms(50), 103), (ms(90), 103), (ms(130), 103)]);
        assert_eq!(outgoing.counts().blocks, 100);
    }

    #[test]
    fn the_end_is_a_packet_of_its_own_and_its_ack_is_the_end_of_all() {
        let (mut outgoing, mut queue, _) = setup();
        queue.push(&[7; 100]);
        outgoing.finish();
        assert_eq!(poll(&mut outgoing, ms(0), &mut queue), Some(112));
        assert_eq!(poll(&mut outgoing, ms(0), &mut queue), Some(12));
        assert_eq!(poll(&mut outgoing, ms(0), &mut queue), None);
        assert!(outgoing.is_sent());
        outgoing.on_ack(ms(1), &ack(1)).unwrap();
        assert!(!outgoing.is_acked());
        outgoing.on_ack(ms(2), &ack(2)).unwrap();
        assert!(outgoing.is_acked());
        assert_eq!(outgoing.next_deadline(&queue, Some(Span::from_secs(1))), None);
    }

    #[test]
    fn whoever_never_acknowledges_is_given_up_and_an_idle_flow_is_not() {
        let (mut outgoing, mut queue, _) = setup();
        let patience = Some(Span::from_secs(30));
        assert_eq!(outgoing.on_timer(ms(100_000), patience), Ok(()));
        queue.push(&[7; 100_000]);
        while poll(&mut outgoing, ms(100_000), &mut queue).is_some() {}
        assert_eq!(outgoing.next_deadline(&queue, patience), Some(ms(130_000)));
        outgoing.on_ack(ms(120_000), &ack(1)).unwrap();
        assert_eq!(outgoing.next_deadline(&queue, patience), Some(ms(150_000)));
        assert_eq!(outgoing.on_timer(ms(149_999), patience), Ok(()));
        assert_eq!(outgoing.on_timer(ms(150_000), patience), Err(AlccError::Silent));
        assert_eq!(outgoing.on_timer(ms(999_000), None), Ok(()));
    }

    #[test]
    fn a_window_below_a_packet_lets_a_small_one_through() {
        struct Small(u64);
        impl Controller for Small {
            fn permit(&self) -> Permit {
                Permit::Window(self.0)
            }
        }
        for (cwnd, expected) in [(1000, Some(948)), (65, Some(13)), (64, None), (0, None)] {
            let sizes = SegmentSizes { segment: 1448, overhead: 52 };
            let mut outgoing =
                SendingHalf::new(ms(0), Box::new(Small(cwnd)), sizes, false, 1 << 20);
            let mut queue = BoundedQueue::new(1 << 20);
            queue.push(&[7; 10_000]);
            assert_eq!(poll(&mut outgoing, ms(0), &mut queue), expected, "{cwnd}");
            assert_eq!(poll(&mut outgoing, ms(0), &mut queue), None, "{cwnd}");
            assert!(outgoing.sent().in_flight() <= cwnd);
        }
    }

    #[test]
    fn packets_in_flight_have_a_limit_of_their_own() {
        struct Endless;
        impl Controller for Endless {
            fn permit(&self) -> Permit {
                Permit::Window(u64::MAX)
            }
        }
        let sizes = SegmentSizes { segment: 64, overhead: 0 };
        let mut outgoing = SendingHalf::new(ms(0), Box::new(Endless), sizes, false, u64::MAX);
        let mut queue = BoundedQueue::new(1 << 20);
        let (mut out, mut count) = (Vec::new(), 0);
        loop {
            queue.push(&[7; 100]);
            if !outgoing.poll(ms(0), &mut queue, &mut out) {
                break;
            }
            count += 1;
            out.clear();
        }
        assert_eq!(count, MAX_IN_FLIGHT);
    }
}
