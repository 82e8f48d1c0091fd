//! Packets that were sent and what is known of them.

use std::collections::VecDeque;
use std::ops::Range;

use cellpace_cc::{
    Ack, AckedPacket, Controller, Ecn, Loss, LostPacket, Mark, RttEstimator, SentPacket, Span,
    Spurious, Stamp, Time, Timeout,
};

/// RFC 9002 section 6.2.2, kInitialRtt: stands for the RTT while there is no sample.
const INITIAL_RTT: Span = Span::from_millis(333);

/// RFC 9002 section 6.1.1: packets that arrived after a missing one before it counts as lost.
const PACKET_THRESHOLD: u64 = 3;

/// This many timeouts in a row later, what timed out is forgotten if its data was sent
/// again. Controllers with a timeout of their own do not back off, and a path can be down for
/// hours: without an end the memory of that would have none either.
const TIMEOUTS_REMEMBERED: usize = 64;

/// A packet about to leave.
#[derive(Debug, Clone, Copy)]
pub struct Sending<D> {
    /// Now.
    pub now: Time,
    /// Its size.
    pub bytes: u64,
    /// What it carries, for the owner to send again if it is lost.
    pub data: D,
    /// Whether the data was sent before.
    pub retransmission: bool,
    /// Whether nothing more is there to send although more would be allowed.
    pub app_limited: bool,
}

/// A packet that the receiver says it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Packet number.
    pub number: u64,
    /// When, on the receiver's clock.
    pub received_at: Option<Time>,
    /// Its RTT, where that is known better than from when it was sent and this ack came: the
    /// receiver kept the ack back, or it was sent more than once.
    pub rtt: Option<Span>,
    /// Its codepoint as it arrived; [`Ecn::NotEct`] where the receiver does not report it.
    pub ecn: Ecn,
}

impl Arrived {
    /// Packet `number` arrived at `received_at`, and the ack left at once.
    pub const fn new(number: u64, received_at: Option<Time>) -> Self {
        Self { number, received_at, rtt: None, ecn: Ecn::NotEct }
    }
}

/// The packets of one flow, from the oldest that still matters to the newest.
///
/// `D` is what a packet carries (a range of a stream, a piece of a file): it is handed back by
/// [`next_lost`](Self::next_lost) for retransmission.
#[derive(Debug)]
pub struct Sent<D> {
    /// Packets `first..next`.
    ring: VecDeque<SentEntry<D>>,
    first: u64,
    in_flight: u64,
    /// The first number sent on the present path. What was sent before is kept from the
    /// controller, its acks and its losses (RFC 9000 section 9.4).
    path_start: u64,
    /// Bytes in flight that were sent on an earlier path. They do not count as in flight.
    old_in_flight: u64,
    largest_acked: Option<u64>,
    /// No packet below this number is in flight.
    scan_from: u64,
    /// Numbers of lost packets whose data has not been sent again, oldest first. An entry may be
    /// out of date (the packet arrived after all).
    to_retransmit: VecDeque<u64>,
    rtt: RttEstimator,
    /// From when the retransmission timer runs.
    timer_base: Time,
    timeouts_in_a_row: u32,
    /// The next packet number at each of the last timeouts in a row, oldest first.
    timeouts: VecDeque<u64>,
    /// The first packet number sent after the last timeout, while it is open whether that
    /// timeout was right.
    first_after_timeout: Option<u64>,
    /// When the time threshold will declare the next packet lost.
    loss_time: Option<Time>,
    counts: PacketCounts,
    acked: Vec<AckedPacket>,
    late: Vec<AckedPacket>,
    /// Numbers of those newly acked that came with a mark.
    marked: Vec<u64>,
    lost: Vec<LostPacket>,
}

/// What has happened so far, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounts {
    /// Declared lost, by a threshold or by the retransmission timer.
    pub lost: u64,
    /// Acked although declared lost, or in flight again because a timeout was spurious.
    pub late: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Timeouts that the first ack after them showed to be wrong.
    pub spurious_timeouts: u64,
}

#[derive(Debug, Clone, Copy)]
struct SentEntry<D> {
    sent_at: Time,
    bytes: u32,
    state: PacketState,
    /// Lost, and its data has not been sent again.
    waiting: bool,
    app_limited: bool,
    stamp: Stamp,
    data: D,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketState {
    InFlight,
    Acked,
    /// Declared lost by a threshold while the packet with this number was the next to be sent.
    Lost(u64),
    /// Declared lost by the retransmission timer.
    TimedOut,
}

impl<D: Copy> Sent<D> {
    /// No packet sent so far.
    pub fn new(rtt: RttEstimator) -> Self {
        Self {
            ring: VecDeque::new(),
            first: 0,
            in_flight: 0,
            path_start: 0,
            old_in_flight: 0,
            largest_acked: None,
            scan_from: 0,
            to_retransmit: VecDeque::new(),
            rtt,
            timer_base: Time::ZERO,
            timeouts_in_a_row: 0,
            timeouts: VecDeque::new(),
            first_after_timeout: None,
            loss_time: None,
            counts: PacketCounts::default(),
            acked: Vec::new(),
            late: Vec::new(),
            marked: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Bytes in flight on the present path.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The number that the next packet will get.
    pub fn next_number(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// The number of the oldest packet that still matters: acks of older ones are ignored.
    pub fn oldest(&self) -> u64 {
        self.first
    }

    /// What has happened so far.
    pub fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// How many packets are kept in memory: from the oldest that still matters to the newest.
    pub fn remembered(&self) -> u64 {
        self.ring.len() as u64
    }

    /// When packet `number` was sent, unless it is settled and forgotten, or never was.
    pub fn sent_at(&self, number: u64) -> Option<Time> {
        let index = number.checked_sub(self.first)?;
        Some(self.ring.get(usize::try_from(index).ok()?)?.sent_at)
    }

    /// What packet `number` carries, unless it is settled and forgotten, or never was.
    pub fn data_of(&self, number: u64) -> Option<D> {
        let index = number.checked_sub(self.first)?;
        Some(self.ring.get(usize::try_from(index).ok()?)?.data)
    }

    /// RTT statistics.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// A packet leaves. Returns its number and the controller's stamp, whose wire half travels
    /// with it.
    #[inline]
    pub fn send(&mut self, sending: &Sending<D>, controller: &mut dyn Controller) -> (u64, Stamp) {
        let number = self.next_number();
        if !self.awaits_acks() {
            // RFC 6298 (5.1): the timer starts when something is sent and it is not running.
            self.timer_base = sending.now;
        }
        self.in_flight += sending.bytes;
        let stamp = controller.on_sent(&SentPacket {
            now: sending.now,
            number,
            bytes: sending.bytes,
            in_flight: self.in_flight,
            app_limited: sending.app_limited,
            retransmission: sending.retransmission,
        });
        self.ring.push_back(SentEntry {
            sent_at: sending.now,
            bytes: sending.bytes as u32,
            state: PacketState::InFlight,
            waiting: false,
            app_limited: sending.app_limited,
            stamp,
            data: sending.data,
        });
        (number, stamp)
    }

    /// Takes the oldest lost data that has not been sent again.
    pub fn next_lost(&mut self) -> Option<D> {
        self.drop_stale_retransmissions();
        let number = self.to_retransmit.pop_front()?;
        let entry = self.entry(number)?;
        entry.waiting = false;
        Some(entry.data)
    }

    /// Whether lost data waits to be sent again.
    #[inline]
    pub fn has_lost(&mut self) -> bool {
        self.drop_stale_retransmissions();
        !self.to_retransmit.is_empty()
    }

    /// Packets arrived, in the order of `arrived`. Numbers that were never sent or were already
    /// acked are ignored: acks come from the network. The controller gets newly acked packets, then
    /// marks, then late packets, then losses. `on_acked` gets the data of each packet that
    /// was not acked before, with its RTT.
    #[inline]
    pub fn on_ack(
        &mut self,
        now: Time,
        arrived: &[Arrived],
        controller: &mut dyn Controller,
        mut on_acked: impl FnMut(D, Span),
    ) {
        if self.first_after_timeout.is_some() {
            self.judge_timeout(now, arrived, controller);
        }
        let prior_in_flight = self.in_flight;
        self.acked.clear();
        self.late.clear();
        self.marked.clear();
        let mut is_news = false;
        for arrival in arrived {
            is_news |= self.take_arrival(now, *arrival, &mut on_acked);
        }
        if !is_news {
            return;
        }
        self.timeouts_in_a_row = 0;
        self.timeouts.clear();
        // RFC 6298 (5.3): an ack of new data restarts the timer.
        self.timer_base = now;
        self.report_acked(now, prior_in_flight, controller);
        self.report_marks(now, prior_in_flight, controller);
        for packet in &self.late {
            controller.on_spurious(&Spurious::Loss { now, packet });
        }
        self.detect_losses(now, controller);
        self.forget_settled();
    }

    /// What is sent from now on takes another path. Packets in flight on the old one still arrive,
    /// or are lost and sent again, but say nothing about the new one: neither controller nor RTT
    /// estimator learn of them.
    pub fn on_path_change(&mut self) {
        self.path_start = self.next_number();
        self.old_in_flight += std::mem::take(&mut self.in_flight);
        self.rtt = self.rtt.without_samples();
        self.timeouts_in_a_row = 0;
        self.first_after_timeout = None;
    }

    /// Something came from the receiver without an ack of anything new: the path works again, and what
    /// was given up need not wait until the backed-off timer fires.
    pub fn on_sign_of_life(&mut self) {
        self.timeouts_in_a_row = 0;
    }

    /// The ack to come reports arrivals of long ago, as the acks of then were lost. It does not
    /// show that the last timeout was wrong: what was sent since may well be lost.
    pub fn confirm_timeout(&mut self) {
        self.first_after_timeout = None;
    }

    /// When [`on_timer`](Self::on_timer) wants to be called. `controller` may override the
    /// retransmission timeout.
    #[inline]
    pub fn next_deadline(&self, controller: &dyn Controller) -> Option<Time> {
        let rto = self.awaits_acks().then(|| self.timer_base + self.rto(controller));
        match (self.loss_time, rto) {
            (Some(loss), Some(rto)) => Some(loss.min(rto)),
            (loss, rto) => loss.or(rto),
        }
    }

    /// A deadline may have passed: declares what is due.
    pub fn on_timer(&mut self, now: Time, controller: &mut dyn Controller) {
        if self.loss_time.is_some_and(|time| time <= now) {
            self.detect_losses(now, controller);
        }
        if self.awaits_acks() && self.timer_base + self.rto(controller) <= now {
            self.time_out(now, controller);
        }
    }

    fn awaits_acks(&self) -> bool {
        self.in_flight + self.old_in_flight > 0
    }

    /// What counts the bytes of packet `number` that are in flight.
    fn flight_of(&mut self, number: u64) -> &mut u64 {
        if number < self.path_start { &mut self.old_in_flight } else { &mut self.in_flight }
    }

    /// The retransmission timeout at present: that of `controller` if it has its own.
    #[inline]
    pub fn rto(&self, controller: &dyn Controller) -> Span {
        controller.rto().unwrap_or_else(|| self.rtt.backed_off_rto(self.timeouts_in_a_row))
    }

    fn entry(&mut self, number: u64) -> Option<&mut SentEntry<D>> {
        let index = number.checked_sub(self.first)?;
        self.ring.get_mut(usize::try_from(index).ok()?)
    }

    /// Eifel's question (RFC 4015), answered by packet numbers: is the first ack after a timeout
    /// for a packet sent before it? Then the path was only slow and everything is still in
    /// flight.
    fn judge_timeout(&mut self, now: Time, arrived: &[Arrived], controller: &mut dyn Controller) {
        let Some(first_after) = self.first_after_timeout else { return };
        let timed_out = |entry: Option<&mut SentEntry<D>>| {
            entry.is_some_and(|entry| entry.state == PacketState::TimedOut)
        };
        let path_start = self.path_start;
        let mut arrived = arrived.iter().filter(|arrival| arrival.number >= path_start);
        let known = arrived
            .find(|arrival| arrival.number >= first_after || timed_out(self.entry(arrival.number)));
        let Some(known) = known.copied() else { return };
        self.first_after_timeout = None;
        if known.number >= first_after {
            return;
        }
        for (number, entry) in (self.first..).zip(&mut self.ring) {
            if entry.state == PacketState::TimedOut {
                entry.state = PacketState::InFlight;
                entry.waiting = false;
                let is_old = number < self.path_start;
                let flight = if is_old { &mut self.old_in_flight } else { &mut self.in_flight };
                *flight += u64::from(entry.bytes);
                self.counts.late += 1;
            }
        }
        self.scan_from = self.first;
        // What is in flight again does not wait. Should it be lost after all, it comes in the
        // order of its loss, and once.
        let (ring, first) = (&self.ring, self.first);
        self.to_retransmit.retain(|number| {
            let entry = number.checked_sub(first).and_then(|index| ring.get(index as usize));
            entry.is_some_and(|entry| entry.waiting)
        });
        self.counts.spurious_timeouts += 1;
        controller.on_spurious(&Spurious::Timeout { now });
    }

    /// Returns whether that was not known.
    #[inline]
    fn take_arrival(
        &mut self,
        now: Time,
        arrival: Arrived,
        on_acked: &mut impl FnMut(D, Span),
    ) -> bool {
        let Some(entry) = self.entry(arrival.number) else { return false };
        let was = entry.state;
        if was == PacketState::Acked {
            return false;
        }
        entry.state = PacketState::Acked;
        entry.waiting = false;
        let rtt = arrival.rtt.unwrap_or(now - entry.sent_at);
        let packet = AckedPacket {
            number: arrival.number,
            bytes: u64::from(entry.bytes),
            sent_at: entry.sent_at,
            rtt,
            received_at: arrival.received_at,
            app_limited: entry.app_limited,
            ecn: arrival.ecn,
            stamp: entry.stamp,
        };
        on_acked(entry.data, rtt);
        self.largest_acked = self.largest_acked.max(Some(arrival.number));
        let was_in_flight = was == PacketState::InFlight;
        if was_in_flight {
            *self.flight_of(arrival.number) -= packet.bytes;
        } else {
            self.counts.late += 1;
        }
        if arrival.number < self.path_start {
            return true;
        }
        if arrival.ecn.is_marked() {
            self.marked.push(arrival.number);
        }
        if was_in_flight { &mut self.acked } else { &mut self.late }.push(packet);
        true
    }

    #[inline]
    fn report_acked(&mut self, now: Time, prior_in_flight: u64, controller: &mut dyn Controller) {
        let Some(newest) = self.acked.iter().max_by_key(|packet| packet.number) else { return };
        self.rtt.sample(newest.rtt);
        controller.on_ack(&Ack {
            now,
            packets: &self.acked,
            prior_in_flight,
            in_flight: self.in_flight,
            next_number: self.first + self.ring.len() as u64,
            rtt: &self.rtt,
        });
    }

    #[inline]
    fn report_marks(&self, now: Time, prior_in_flight: u64, controller: &mut dyn Controller) {
        let Some(newest) = self.marked.iter().copied().max() else { return };
        controller.on_mark(&Mark {
            now,
            packets: self.marked.len() as u64,
            newest,
            prior_in_flight,
            in_flight: self.in_flight,
            next_number: self.next_number(),
            rtt: &self.rtt,
        });
    }

    /// RFC 9002 section 6.1: lost when three later packets arrived, or when a later one arrived
    /// and 9/8 of an RTT has passed.
    #[inline]
    fn detect_losses(&mut self, now: Time, controller: &mut dyn Controller) {
        self.loss_time = None;
        let from = self.scan_from.max(self.first);
        // In order, there is nothing below the newest.
        if let Some(largest) = self.largest_acked.filter(|largest| from < *largest) {
            self.find_losses(now, from..largest, controller);
        }
    }

    fn find_losses(&mut self, now: Time, range: Range<u64>, controller: &mut dyn Controller) {
        let largest = range.end;
        let patience = self.rtt.smoothed().unwrap_or(INITIAL_RTT).max(self.rtt.latest());
        // RFC 9002 section 6.1.2, kTimeThreshold and kGranularity
        let patience = (patience * 9 / 8).max(Span::from_millis(1));
        let next = self.next_number();
        let prior_in_flight = self.in_flight;
        self.lost.clear();
        let mut all_settled = true;
        for number in range {
            let entry = &mut self.ring[(number - self.first) as usize];
            if entry.state != PacketState::InFlight {
                if all_settled {
                    self.scan_from = number + 1;
                }
                continue;
            }
            let due = entry.sent_at + patience;
            if number + PACKET_THRESHOLD > largest && due > now {
                all_settled = false;
                self.loss_time = Some(self.loss_time.map_or(due, |time| time.min(due)));
                continue;
            }
            entry.state = PacketState::Lost(next);
            entry.waiting = true;
            let packet = LostPacket {
                number,
                bytes: u64::from(entry.bytes),
                sent_at: entry.sent_at,
                stamp: entry.stamp,
            };
            *self.flight_of(number) -= packet.bytes;
            self.to_retransmit.push_back(number);
            self.counts.lost += 1;
            if number >= self.path_start {
                self.lost.push(packet);
            }
        }
        if self.lost.is_empty() {
            return;
        }
        controller.on_loss(&Loss {
            now,
            packets: &self.lost,
            prior_in_flight,
            in_flight: self.in_flight,
            next_number: next,
            rtt: &self.rtt,
        });
    }

    fn time_out(&mut self, now: Time, controller: &mut dyn Controller) {
        let prior_in_flight = self.in_flight;
        self.timeouts_in_a_row += 1;
        self.timer_base = now;
        self.loss_time = None;
        // Without a timeout that the controller knows of, there is none to take back.
        self.first_after_timeout = (prior_in_flight > 0).then(|| self.next_number());
        for (number, entry) in (self.first..).zip(&mut self.ring) {
            if entry.state == PacketState::InFlight {
                entry.state = PacketState::TimedOut;
                entry.waiting = true;
                self.to_retransmit.push_back(number);
                self.counts.lost += 1;
            }
        }
        self.counts.timeouts += 1;
        self.in_flight = 0;
        self.old_in_flight = 0;
        self.scan_from = self.next_number();
        self.forget_old_timeouts();
        if prior_in_flight == 0 {
            return;
        }
        controller.on_timeout(&Timeout {
            now,
            prior_in_flight,
            in_a_row: self.timeouts_in_a_row,
            next_number: self.next_number(),
        });
    }

    fn forget_old_timeouts(&mut self) {
        self.timeouts.push_back(self.next_number());
        if self.timeouts.len() <= TIMEOUTS_REMEMBERED {
            return;
        }
        let Some(below) = self.timeouts.pop_front() else { return };
        while self.first < below && self.ring.front().is_some_and(|entry| !entry.waiting) {
            self.ring.pop_front();
            self.first += 1;
        }
    }

    #[inline]
    fn drop_stale_retransmissions(&mut self) {
        while let Some(number) = self.to_retransmit.front().copied() {
            if self.entry(number).is_some_and(|entry| entry.waiting) {
                return;
            }
            self.to_retransmit.pop_front();
        }
    }

    /// Drops packets from the old end: acked ones, and lost ones that were sent again and whose
    /// late arrival can no longer happen because a packet sent after the verdict has arrived.
    #[inline]
    fn forget_settled(&mut self) {
        let largest = self.largest_acked.unwrap_or(0);
        while let Some(entry) = self.ring.front() {
            let settled = match entry.state {
                PacketState::Acked => true,
                PacketState::InFlight => false,
                PacketState::Lost(next) => next < largest,
                PacketState::TimedOut => self.first_after_timeout.is_none(),
            };
            if !settled || entry.waiting {
                return;
            }
            self.ring.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::Permit;

    /// Counts what is reported to it.
    #[derive(Default)]
    struct Witness {
        acked: Vec<u64>,
        lost: Vec<u64>,
        timeouts: u32,
        spurious_timeouts: u32,
        late: Vec<u64>,
        /// How many packets of an ack were marked, and the newest of them.
        marks: Vec<(u64, u64)>,
        in_flight: u64,
    }

    impl Controller for Witness {
        fn permit(&self) -> Permit {
            Permit::Window(u64::MAX)
        }
        fn on_mark(&mut self, mark: &Mark<'_>) {
            assert_eq!(mark.in_flight, self.in_flight, "after the ack");
            self.marks.push((mark.packets, mark.newest));
        }
        fn on_ack(&mut self, ack: &Ack<'_>) {
            assert_eq!(ack.in_flight + ack.bytes(), ack.prior_in_flight);
            self.in_flight = ack.in_flight;
            self.acked.extend(ack.packets.iter().map(|packet| packet.number));
        }
        fn on_loss(&mut self, loss: &Loss<'_>) {
            assert_eq!(loss.in_flight + loss.bytes(), loss.prior_in_flight);
            self.in_flight = loss.in_flight;
            self.lost.extend(loss.packets.iter().map(|packet| packet.number));
        }
        fn on_timeout(&mut self, _: &Timeout) {
            self.timeouts += 1;
        }
        fn on_spurious(&mut self, spurious: &Spurious<'_>) {
            match spurious {
                Spurious::Timeout { .. } => self.spurious_timeouts += 1,
                Spurious::Loss { packet, .. } => self.late.push(packet.number),
            }
        }
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn setup(packets: u64) -> (Sent<u64>, Witness) {
        let mut sent = Sent::new(RttEstimator::default());
        let mut witness = Witness::default();
        for data in 0..packets {
            send(&mut sent, &mut witness, ms(data), data);
        }
        (sent, witness)
    }

    fn send(sent: &mut Sent<u64>, witness: &mut Witness, now: Time, data: u64) -> u64 {
        let sending = Sending { now, bytes: 1000, data, retransmission: false, app_limited: false };
        sent.send(&sending, witness).0
    }

    fn ack(sent: &mut Sent<u64>, witness: &mut Witness, now: Time, numbers: &[u64]) {
        let arrived: Vec<_> = numbers.iter().map(|n| Arrived::new(*n, None)).collect();
        sent.on_ack(now, &arrived, witness, |_, _| {});
    }

    #[test]
    fn an_rtt_that_is_known_better_counts() {
        let (mut sent, mut witness) = setup(2);
        assert_eq!(sent.sent_at(1), Some(ms(1)));
        let late = Arrived { rtt: Some(Span::from_millis(26)), ..Arrived::new(0, None) };
        let mut rtts = Vec::new();
        let arrived = [late, Arrived::new(1, None)];
        sent.on_ack(ms(41), &arrived, &mut witness, |data, rtt| rtts.push((data, rtt)));
        assert_eq!(rtts, [(0, Span::from_millis(26)), (1, Span::from_millis(40))]);
        assert_eq!(sent.sent_at(7), None);
    }

    #[test]
    fn marks_of_newly_acked_packets_are_reported_once_after_the_ack() {
        let (mut sent, mut witness) = setup(4);
        let marked = |number| Arrived { ecn: Ecn::Ce, ..Arrived::new(number, None) };
        sent.on_ack(
            ms(40),
            &[marked(0), Arrived::new(1, None), marked(2)],
            &mut witness,
            |_, _| {},
        );
        assert_eq!((&witness.acked[..], &witness.marks[..]), (&[0, 1, 2][..], &[(2, 2)][..]));
        sent.on_ack(ms(41), &[marked(2), Arrived::new(3, None)], &mut witness, |_, _| {});
        assert_eq!(witness.marks.len(), 1, "that packet was acked before");
    }

    #[test]
    fn the_controller_learns_nothing_of_packets_on_the_old_path() {
        let (mut sent, mut witness) = setup(5);
        ack(&mut sent, &mut witness, ms(40), &[0]);
        sent.on_path_change();
        assert_eq!((sent.in_flight(), sent.rtt().smoothed()), (0, None));
        assert_eq!(send(&mut sent, &mut witness, ms(50), 5), 5);
        // An ack and a late packet of the old path, and its losses.
        ack(&mut sent, &mut witness, ms(60), &[1, 4]);
        assert_eq!((sent.in_flight(), sent.rtt().smoothed()), (1000, None));
        ack(&mut sent, &mut witness, ms(100), &[5]);
        assert_eq!(sent.next_lost(), Some(2), "sent again all the same");
        ack(&mut sent, &mut witness, ms(101), &[2]);
        assert_eq!((&witness.acked[..], witness.late.len()), (&[0, 5][..], 0));
        assert_eq!((witness.lost.len(), sent.counts().lost, sent.counts().late), (0, 2, 1));
        assert_eq!(sent.rtt().smoothed(), Some(Span::from_millis(50)), "of packet 5 alone");
    }

    #[test]
    fn what_is_in_flight_on_the_old_path_alone_times_out_in_silence() {
        let (mut sent, mut witness) = setup(3);
        ack(&mut sent, &mut witness, ms(40), &[0]);
        sent.on_path_change();
        let deadline = sent.next_deadline(&witness).unwrap();
        assert_eq!(deadline, ms(1040), "no RTT is known");
        sent.on_timer(deadline, &mut witness);
        assert_eq!(
            (sent.next_lost(), sent.next_lost(), sent.next_lost()),
            (Some(1), Some(2), None)
        );
        assert_eq!((witness.timeouts, sent.counts().timeouts), (0, 1));
        ack(&mut sent, &mut witness, ms(1050), &[1]);
        assert_eq!(witness.spurious_timeouts, 0);
        assert_eq!(sent.next_deadline(&witness), None);
    }

    #[test]
    fn three_later_packets_make_a_loss_and_two_do_not() {
        let (mut sent, mut witness) = setup(10);
        ack(&mut sent, &mut witness, ms(50), &[1, 2]);
        assert!(witness.lost.is_empty());
        ack(&mut sent, &mut witness, ms(51), &[3]);
        assert_eq!(witness.lost, [0]);
        assert_eq!(sent.next_lost(), Some(0));
        assert_eq!(sent.next_lost(), None);
        assert_eq!(sent.in_flight(), 6000);
    }

    #[test]
    fn the_time_threshold_is_nine_eighths_of_an_rtt() {
        let (mut sent, mut witness) = setup(2);
        ack(&mut sent, &mut witness, ms(81), &[1]);
        // RTT 80 ms: packet 0, sent at 0, is lost at 90 ms.
        assert_eq!(sent.next_deadline(&witness), Some(ms(90)));
        sent.on_timer(ms(89), &mut witness);
        assert!(witness.lost.is_empty());
        sent.on_timer(ms(90), &mut witness);
        assert_eq!(witness.lost, [0]);
        assert_eq!(sent.in_flight(), 0);
    }

    #[test]
    fn a_late_packet_is_spurious_and_is_not_sent_again() {
        let (mut sent, mut witness) = setup(6);
        ack(&mut sent, &mut witness, ms(50), &[1, 2, 3]);
        ack(&mut sent, &mut witness, ms(51), &[0]);
        assert_eq!(witness.late, [0]);
        assert_eq!(witness.acked, [1, 2, 3]);
        assert!(!sent.has_lost());
    }

    #[test]
    fn a_timeout_takes_everything_and_doubles() {
        let (mut sent, mut witness) = setup(3);
        assert_eq!(sent.next_deadline(&witness), Some(ms(1000)));
        sent.on_timer(ms(1000), &mut witness);
        assert_eq!((witness.timeouts, sent.in_flight()), (1, 0));
        assert_eq!(sent.next_deadline(&witness), None, "nothing in flight, nothing to wait for");
        assert_eq!(sent.next_lost(), Some(0));
        send(&mut sent, &mut witness, ms(1000), 0);
        assert_eq!(sent.next_deadline(&witness), Some(ms(3000)), "backed off");
    }

    #[test]
    fn rfc_4015_an_ack_of_an_old_packet_takes_the_timeout_back() {
        let (mut sent, mut witness) = setup(3);
        sent.on_timer(ms(1000), &mut witness);
        let data = sent.next_lost().unwrap();
        send(&mut sent, &mut witness, ms(1000), data);
        ack(&mut sent, &mut witness, ms(1100), &[0]);
        assert_eq!(witness.spurious_timeouts, 1);
        assert_eq!(sent.in_flight(), 3000, "two originals and the repeated one");
        assert!(!sent.has_lost());
        ack(&mut sent, &mut witness, ms(1101), &[1, 2]);
        ack(&mut sent, &mut witness, ms(1200), &[3]);
        assert_eq!(sent.in_flight(), 0);
        assert_eq!(witness.spurious_timeouts, 1);
    }

    #[test]
    fn an_ack_of_the_repeated_packet_confirms_the_timeout() {
        let (mut sent, mut witness) = setup(3);
        sent.on_timer(ms(1000), &mut witness);
        let data = sent.next_lost().unwrap();
        let number = send(&mut sent, &mut witness, ms(1000), data);
        ack(&mut sent, &mut witness, ms(1100), &[number]);
        assert_eq!(witness.spurious_timeouts, 0);
        assert_eq!(
            (sent.next_lost(), sent.next_lost(), sent.next_lost()),
            (Some(1), Some(2), None)
        );
    }

    #[test]
    fn what_is_lost_after_a_spurious_timeout_is_sent_again_once() {
        let (mut sent, mut witness) = setup(30);
        sent.on_timer(ms(1100), &mut witness);
        for _ in 0..10 {
            let data = sent.next_lost().unwrap();
            send(&mut sent, &mut witness, ms(1100), data);
        }
        ack(&mut sent, &mut witness, ms(1150), &[20]);
        assert_eq!(witness.spurious_timeouts, 1);
        // The packets in front of number 20 are lost by its arrival, whether they waited to be
        // sent again or were sent again; numbers 18 and 19 are too near to tell.
        let again: Vec<u64> = std::iter::from_fn(|| sent.next_lost()).collect();
        assert_eq!(again, (0..18).collect::<Vec<_>>());
        assert_eq!(again, witness.lost);
    }

    #[test]
    fn an_ack_of_old_news_leaves_the_timeout_as_it_is() {
        let (mut sent, mut witness) = setup(3);
        sent.on_timer(ms(1000), &mut witness);
        let data = sent.next_lost().unwrap();
        send(&mut sent, &mut witness, ms(1000), data);
        sent.confirm_timeout();
        ack(&mut sent, &mut witness, ms(20_000), &[0]);
        assert_eq!((witness.spurious_timeouts, witness.late.as_slice()), (0, &[0][..]));
        assert_eq!(sent.rtt().smoothed(), None, "19 s are no RTT");
        assert_eq!((sent.next_lost(), sent.in_flight()), (Some(1), 1000));
    }

    #[test]
    fn a_sign_of_life_ends_the_back_off() {
        let (mut sent, mut witness) = setup(1);
        for _ in 0..5 {
            let now = sent.next_deadline(&witness).unwrap();
            sent.on_timer(now, &mut witness);
            let data = sent.next_lost().unwrap();
            send(&mut sent, &mut witness, now, data);
        }
        // 1 + 2 + 4 + 8 + 16 s, then 32.
        assert_eq!(sent.next_deadline(&witness), Some(ms(63_000)));
        sent.on_sign_of_life();
        assert_eq!(sent.next_deadline(&witness), Some(ms(32_000)));
        assert_eq!(sent.counts(), PacketCounts { lost: 5, timeouts: 5, ..PacketCounts::default() });
    }

    #[test]
    fn hours_of_timeouts_are_not_remembered() {
        let (mut sent, mut witness) = setup(10);
        let mut now = ms(0);
        for _ in 0..10_000 {
            now = sent.next_deadline(&witness).unwrap();
            sent.on_timer(now, &mut witness);
            while let Some(data) = sent.next_lost() {
                send(&mut sent, &mut witness, now, data);
            }
        }
        assert_eq!(witness.timeouts, 10_000);
        assert_eq!(sent.remembered(), 10 * (TIMEOUTS_REMEMBERED as u64 + 1));
        // An ack of the first packets comes too late to mean anything, one of the last does not.
        ack(&mut sent, &mut witness, now, &[0, 1, 2]);
        assert_eq!((witness.spurious_timeouts, witness.acked.len()), (0, 0));
        let last = sent.next_number() - 1;
        ack(&mut sent, &mut witness, now, &[3, last - 10, last]);
        assert_eq!(witness.spurious_timeouts, 1);
        assert_eq!(witness.acked, [last - 10, last]);
    }

    #[test]
    fn what_waits_to_be_sent_again_is_not_forgotten() {
        let (mut sent, mut witness) = setup(10);
        for _ in 0..1_000 {
            let now = sent.next_deadline(&witness).unwrap();
            sent.on_timer(now, &mut witness);
            let data = sent.next_lost().unwrap();
            send(&mut sent, &mut witness, now, data);
        }
        let mut held: Vec<u64> = std::iter::from_fn(|| sent.next_lost()).collect();
        held.push(sent.ring.back().unwrap().data);
        held.sort_unstable();
        assert_eq!(held, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn nonsense_from_the_network_is_ignored() {
        let (mut sent, mut witness) = setup(3);
        ack(&mut sent, &mut witness, ms(10), &[u64::MAX, 77, 3]);
        assert!(witness.acked.is_empty());
        ack(&mut sent, &mut witness, ms(10), &[1, 1, 1]);
        assert_eq!(witness.acked, [1]);
        assert_eq!(sent.in_flight(), 2000);
    }

    mod histories {
        use super::*;
        use proptest::prelude::*;

        #[derive(Debug, Clone)]
        enum Step {
            Send,
            Resend,
            Ack(Vec<u8>),
            Wait(u64),
        }

        fn step() -> impl Strategy<Value = Step> {
            prop_oneof![
                4 => Just(Step::Send),
                1 => Just(Step::Resend),
                3 => prop::collection::vec(any::<u8>(), 1..5).prop_map(Step::Ack),
                1 => (0u64..3_000_000_000).prop_map(Step::Wait),
            ]
        }

        proptest! {
            /// Whatever happens: bytes in flight are those of the packets in flight, every piece
            /// of data is acked, in flight or waiting to be sent again, and the ring is bounded.
            #[test]
            fn nothing_is_lost_from_the_books(steps in prop::collection::vec(step(), 1..300)) {
                let (mut sent, mut witness) = setup(0);
                let mut now = ms(1);
                let mut acked = std::collections::BTreeSet::new();
                let mut next_data = 0;
                for step in steps {
                    match step {
                        Step::Send => {
                            send(&mut sent, &mut witness, now, next_data);
                            next_data += 1;
                        }
                        Step::Resend => {
                            if let Some(data) = sent.next_lost() {
                                send(&mut sent, &mut witness, now, data);
                            }
                        }
                        Step::Ack(backs) => {
                            let next = sent.next_number();
                            let arrived: Vec<_> = backs
                                .iter()
                                .filter_map(|back| next.checked_sub(1 + u64::from(*back) % 40))
                                .map(|number| Arrived::new(number, None))
                                .collect();
                            sent.on_ack(now, &arrived, &mut witness, |data, _| {
                                acked.insert(data);
                            });
                        }
                        Step::Wait(nanos) => {
                            now += Span::from_nanos(nanos);
                            sent.on_timer(now, &mut witness);
                        }
                    }
                    let flying = sent.ring.iter().filter(|e| e.state == PacketState::InFlight);
                    prop_assert_eq!(sent.in_flight, flying.clone().count() as u64 * 1000);
                    let held: std::collections::BTreeSet<u64> = flying
                        .map(|e| e.data)
                        .chain(sent.ring.iter().filter(|e| e.waiting).map(|e| e.data))
                        .collect();
                    let waits = |n: &u64| {
                        n.checked_sub(sent.first).is_some_and(|i| sent.ring[i as usize].waiting)
                    };
                    let line: std::collections::BTreeSet<u64> =
                        sent.to_retransmit.iter().copied().filter(waits).collect();
                    let waiting = sent.ring.iter().filter(|e| e.waiting).count();
                    prop_assert_eq!(line.len(), waiting, "who waits stands in the line");
                    for data in 0..next_data {
                        prop_assert!(acked.contains(&data) || held.contains(&data), "{}", data);
                    }
                }
            }
        }
    }
}
