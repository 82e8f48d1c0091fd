//! One controller between a QUIC library's callbacks and what it asks.
//!
//! The library owns the packets: it decides what is lost, when it probes and what it sends again.
//! The host keeps a book of what is in flight beside it, because a controller wants its stamps
//! back, counts packets in one space and runs timers that no library has.
//!
//! Sizes of the library are *wire* bytes: they grow when the path's MTU is discovered. The
//! controller was built for full packets of one size for ever, so it sees wire bytes scaled by
//! `mss / mtu`: a full packet always counts for `mss`. Otherwise a budget of one packet of 1200
//! bytes would never let a packet of 1452 leave, and the flow would stop for good.

use std::collections::VecDeque;

use cellpace_base::{Span, Time};
use cellpace_cc::{
    Ack, AckedPacket, Controller, Ecn, Event, Loss, LostPacket, Mark, Permit, RttEstimator,
    SentPacket, Spurious, Stamp, Timeout,
};

/// A packet that the library sent and has not settled.
#[derive(Debug, Clone, Copy)]
struct Entry {
    sent_at: Time,
    /// The library's number, which repeats: each packet number space begins at 0.
    library_number: u64,
    /// Ours, which does not.
    number: u64,
    wire: u64,
    stamp: Stamp,
    app_limited: bool,
    /// Acked or lost.
    settled: bool,
    /// A timeout told the controller that it is lost; the library still has it in flight.
    written_off: bool,
}

/// What a host has counted since its path began. Bytes are those of UDP payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Packets sent that count as in flight.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets acked.
    pub acked: u64,
    /// Their bytes.
    pub acked_bytes: u64,
    /// Packets that the library declared lost; their data is sent again.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Reports of ECN marks.
    pub marks: u64,
    /// Retransmission timeouts of the controller's timer.
    pub timeouts: u64,
    /// Those after which packets turned out to be only late.
    pub spurious_timeouts: u64,
    /// Packets declared lost that had arrived, as far as the library says so.
    pub spurious_losses: u64,
}

/// A controller under a QUIC connection's path. Time is an argument of every call and never runs
/// backwards; all sizes are bytes of UDP payload.
pub struct Host {
    controller: Box<dyn Controller>,
    /// Bytes that a full packet counts for at the controller.
    mss: u64,
    /// Bytes of a full packet on the wire.
    mtu: u64,
    rtt: RttEstimator,
    now: Time,
    next_number: u64,
    /// As the library counts.
    in_flight: u64,
    /// Of them, what a timeout took from the controller's view.
    written_off: u64,
    entries: VecDeque<Entry>,
    app_limited: bool,
    acked: Vec<AckedPacket>,
    /// In flight before the first of `acked`, as the library counts, and what was written off then.
    prior: (u64, u64),
    lost: Vec<LostPacket>,
    /// The packets of the last loss event: what turns out to be spurious.
    last_lost: Vec<LostPacket>,
    /// Since when nothing came back although something is in flight.
    silent_since: Option<Time>,
    timeouts_in_a_row: u32,
    /// The first number after the last timeout.
    after_timeout: u64,
    /// The library was told that no full packet fits.
    blocked: bool,
    stats: HostStats,
    /// RTT samples that nobody has taken, if anybody wants them.
    rtts: Option<VecDeque<(Time, Span)>>,
}

/// RTT samples kept for whoever takes them; more than a second of packets at a gigabit.
const MAX_RTTS: usize = 1 << 17;

/// How long a packet that the library never settles (a discarded number space, a lost MTU probe)
/// stays in the book after packets sent later were acked.
const FORGOTTEN_AFTER: Span = Span::from_secs(5);

impl Host {
    /// A host whose connection may send packets of `mtu` bytes at first: for ever the controller's
    /// `mss`.
    pub fn new(controller: Box<dyn Controller>, mtu: u16, now: Time) -> Self {
        Self {
            controller,
            mss: u64::from(mtu),
            mtu: u64::from(mtu),
            rtt: RttEstimator::default(),
            now,
            next_number: 0,
            in_flight: 0,
            written_off: 0,
            entries: VecDeque::new(),
            app_limited: false,
            acked: Vec::new(),
            prior: (0, 0),
            lost: Vec::new(),
            last_lost: Vec::new(),
            silent_since: None,
            timeouts_in_a_row: 0,
            after_timeout: 0,
            blocked: false,
            stats: HostStats::default(),
            rtts: None,
        }
    }

    /// Itself as the series of a simulated run sample it.
    #[cfg(feature = "virtual-time")]
    pub(crate) fn sample(&self) -> cellpace_sim::FlowSample<'_> {
        cellpace_sim::FlowSample {
            controller: self.controller(),
            in_flight: self.in_flight,
            rtt: &self.rtt,
            rto: self.rto(),
        }
    }

    /// What it has counted.
    pub fn stats(&self) -> HostStats {
        self.stats
    }

    /// Keeps RTT samples for [`take_rtts`](Self::take_rtts) from now on: the newest 131 072.
    pub fn watch_rtts(&mut self) {
        self.rtts.get_or_insert_default();
    }

    /// Gives each RTT sample since the last call, with the time of its ack, to `take`.
    pub fn take_rtts(&mut self, mut take: impl FnMut(Time, Span)) {
        let rtts = self.rtts.iter_mut().flat_map(|rtts| rtts.drain(..));
        rtts.for_each(|(at, rtt)| take(at, rtt));
    }

    /// The retransmission timeout: the controller's, or RFC 6298's without backing off.
    pub fn rto(&self) -> Span {
        self.controller.rto().unwrap_or_else(|| self.rtt.backed_off_rto(0))
    }

    /// The controller, to look at.
    pub fn controller(&self) -> &dyn Controller {
        self.controller.as_ref()
    }

    /// The oldest event that nobody has taken.
    pub fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.controller.poll_event()
    }

    /// RTTs as the controller sees them.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Bytes in flight, as the library counts them.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The path's packets are of `mtu` bytes from now on.
    pub fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
    }

    /// The library sent a packet of `wire` bytes that counts as in flight.
    pub fn on_sent(&mut self, now: Time, wire: u64, library_number: u64) {
        self.catch_up(now);
        self.in_flight += wire;
        self.stats.sent += 1;
        self.stats.sent_bytes += wire;
        let number = self.next_number;
        self.next_number += 1;
        let stamp = self.controller.on_sent(&SentPacket {
            now,
            number,
            bytes: self.seam(wire),
            in_flight: self.seen_in_flight(),
            app_limited: self.app_limited,
            retransmission: false,
        });
        self.entries.push_back(Entry {
            sent_at: now,
            library_number,
            number,
            wire,
            stamp,
            app_limited: self.app_limited,
            settled: false,
            written_off: false,
        });
        self.silent_since.get_or_insert(now);
        self.blocked = false;
    }

    /// The library sent `wire` bytes at once, in packets of which only the last number is told: as
    /// many as these bytes need.
    pub fn on_sent_batch(&mut self, now: Time, wire: u64, last_number: u64) {
        let packets = wire.div_ceil(self.mtu);
        let mut left = wire;
        for index in 0..packets {
            let bytes = left.min(self.mtu);
            left -= bytes;
            self.on_sent(now, bytes, (last_number + 1 + index).saturating_sub(packets));
        }
    }

    /// A packet that left at `sent_at` is acked: that of the library's number, or without one the
    /// oldest of that instant. Unknown packets (acks alone, which were never in flight) are ignored.
    /// `app_limited`: the connection has run out of data by now.
    pub fn on_acked(
        &mut self,
        now: Time,
        sent_at: Time,
        library_number: Option<u64>,
        app_limited: bool,
    ) {
        self.catch_up(now);
        self.app_limited = app_limited;
        let first = self.entries.partition_point(|entry| entry.sent_at < sent_at);
        let found =
            self.entries.range_mut(first..).take_while(|entry| entry.sent_at == sent_at).find(
                |entry| {
                    let is_it = library_number.is_none_or(|number| entry.library_number == number);
                    !entry.settled && is_it
                },
            );
        let Some(entry) = found else { return };
        entry.settled = true;
        let entry = *entry;
        if self.acked.is_empty() {
            self.prior = (self.in_flight, self.written_off);
        }
        self.leave(&entry);
        self.stats.acked += 1;
        self.stats.acked_bytes += entry.wire;
        if let Some(rtts) = &mut self.rtts {
            if rtts.len() == MAX_RTTS {
                rtts.pop_front();
            }
            rtts.push_back((now, now - entry.sent_at));
        }
        self.acked.push(self.acked_packet(&entry, now));
    }

    /// The library has passed on all packets of an ack frame and counts `in_flight` bytes now.
    pub fn on_end_acks(&mut self, now: Time, in_flight: u64) {
        self.catch_up(now);
        self.in_flight = in_flight;
        self.written_off = self.written_off.min(in_flight);
        if self.acked.is_empty() {
            return;
        }
        self.acked.sort_unstable_by_key(|packet| packet.number);
        let (prior, written_off) = self.prior;
        let was_late = self.end_silence(now);
        let prior_in_flight = self.seam(if was_late { prior } else { prior - written_off });
        let acked = std::mem::take(&mut self.acked);
        // Not empty, as seen above.
        let newest = acked[acked.len() - 1];
        self.rtt.sample(newest.rtt);
        self.controller.on_ack(&Ack {
            now,
            packets: &acked,
            prior_in_flight,
            in_flight: self.seen_in_flight(),
            next_number: self.next_number,
            rtt: &self.rtt,
        });
        self.acked = acked;
        self.acked.clear();
        self.forget(newest.sent_at);
        self.catch_up(now);
    }

    /// A packet is lost: the oldest of that number which is not settled.
    pub fn on_lost(&mut self, now: Time, library_number: u64) {
        self.catch_up(now);
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| !entry.settled && entry.library_number == library_number);
        if let Some(entry) = entry {
            entry.settled = true;
            let entry = *entry;
            self.lose(&entry);
        }
    }

    /// `bytes` of packets that left until `newest_sent_at` are lost, the oldest ones as far as
    /// anybody can tell.
    pub fn on_lost_bytes(&mut self, now: Time, bytes: u64, newest_sent_at: Time) {
        self.catch_up(now);
        let mut left = bytes;
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            if left == 0 || entry.sent_at > newest_sent_at {
                return;
            }
            if !entry.settled {
                self.entries[index].settled = true;
                left = left.saturating_sub(entry.wire);
                self.lose(&entry);
            }
        }
    }

    /// All packets of a loss event are told. `persistent`: everything sent over a period longer
    /// than three probe timeouts is lost (RFC 9002 section 7.6).
    pub fn on_end_losses(&mut self, now: Time, persistent: bool) {
        let prior_in_flight =
            self.seen_in_flight() + self.lost.iter().map(|packet| packet.bytes).sum::<u64>();
        if !self.lost.is_empty() {
            self.controller.on_loss(&Loss {
                now,
                packets: &self.lost,
                prior_in_flight,
                in_flight: self.seen_in_flight(),
                next_number: self.next_number,
                rtt: &self.rtt,
            });
            std::mem::swap(&mut self.last_lost, &mut self.lost);
            self.lost.clear();
        }
        if persistent {
            self.controller.on_timeout(&Timeout {
                now,
                prior_in_flight,
                in_a_row: 1,
                next_number: self.next_number,
            });
        }
    }

    /// The peer reports marks of congestion; the newest marked packet left at `sent_at`.
    pub fn on_marked(&mut self, now: Time, sent_at: Time) {
        self.catch_up(now);
        self.stats.marks += 1;
        let after = self.entries.partition_point(|entry| entry.sent_at <= sent_at);
        let newest = after.checked_sub(1).map_or(0, |index| self.entries[index].number);
        self.controller.on_mark(&Mark {
            now,
            packets: 1,
            newest,
            prior_in_flight: self.seen_in_flight(),
            in_flight: self.seen_in_flight(),
            next_number: self.next_number,
            rtt: &self.rtt,
        });
    }

    /// All packets of the last loss event have arrived after all.
    pub fn on_spurious(&mut self) {
        let now = self.now;
        for lost in std::mem::take(&mut self.last_lost) {
            let packet = AckedPacket {
                number: lost.number,
                bytes: lost.bytes,
                sent_at: lost.sent_at,
                rtt: now - lost.sent_at,
                received_at: None,
                app_limited: false,
                ecn: Ecn::NotEct,
                stamp: lost.stamp,
            };
            self.stats.spurious_losses += 1;
            self.controller.on_spurious(&Spurious::Loss { now, packet: &packet });
        }
    }

    /// Does what is due by now: the retransmission timer, then the controller's deadline.
    pub fn catch_up(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.timer().is_some_and(|due| due <= now) {
            self.time_out(now);
        }
        if self.controller.next_deadline().is_some_and(|due| due <= now) {
            self.controller.on_deadline(now);
        }
    }

    /// When [`catch_up`](Self::catch_up) has something to do. `None` while the connection rests:
    /// nothing is in flight, and nothing was refused.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.in_flight == 0 && !self.blocked {
            return None;
        }
        let (timer, controller) = (self.timer(), self.controller.next_deadline());
        timer.map_or(controller, |timer| Some(controller.map_or(timer, |due| due.min(timer))))
    }

    /// Bytes that may be in flight. Never below two packets while nothing is: a connection that
    /// rests gets no acks that would let it begin, and its controller's deadline has not come.
    pub fn window(&mut self) -> u64 {
        let allowed = match self.controller.permit() {
            Permit::Window(window) => self.wire(window).saturating_add(self.written_off),
            Permit::Budget(budget) => self.in_flight.saturating_add(self.wire(budget)),
        };
        self.blocked = allowed < self.in_flight.saturating_add(self.mtu);
        let least = if self.in_flight == 0 { 2 * self.mtu } else { 1 };
        allowed.max(least)
    }

    /// Whether the last answer of [`window`](Self::window) had no room and there is some now:
    /// nothing but this host knows, so whoever ran a deadline wakes the connection.
    pub fn take_wake(&mut self) -> bool {
        let was = self.blocked;
        self.window();
        was && !self.blocked
    }

    /// The rate in bytes of wire per second, and the burst in bytes, if the controller paces.
    pub fn pacing(&self) -> Option<(u64, u64)> {
        let pacing = self.controller.pacing()?;
        let rate = pacing.rate.as_bytes_per_sec() * self.mtu as f64 / self.mss as f64;
        Some((rate as u64, self.wire(pacing.burst)))
    }

    /// Wire bytes as the controller counts them, full packets exactly.
    fn seam(&self, wire: u64) -> u64 {
        scaled(wire, self.mss, self.mtu)
    }

    fn wire(&self, seam: u64) -> u64 {
        scaled(seam, self.mtu, self.mss)
    }

    /// What is in flight for the controller.
    fn seen_in_flight(&self) -> u64 {
        self.seam(self.in_flight - self.written_off)
    }

    fn leave(&mut self, entry: &Entry) {
        self.in_flight = self.in_flight.saturating_sub(entry.wire);
        if entry.written_off {
            self.written_off = self.written_off.saturating_sub(entry.wire);
        }
        self.written_off = self.written_off.min(self.in_flight);
    }

    /// What a timeout wrote off was lost then; the controller is not told twice.
    fn lose(&mut self, entry: &Entry) {
        self.leave(entry);
        self.stats.lost += 1;
        self.stats.lost_bytes += entry.wire;
        if entry.written_off {
            return;
        }
        let bytes = self.seam(entry.wire);
        let Entry { number, sent_at, stamp, .. } = *entry;
        self.lost.push(LostPacket { number, bytes, sent_at, stamp });
    }

    fn acked_packet(&self, entry: &Entry, now: Time) -> AckedPacket {
        AckedPacket {
            number: entry.number,
            bytes: self.seam(entry.wire),
            sent_at: entry.sent_at,
            rtt: now - entry.sent_at,
            received_at: None,
            app_limited: entry.app_limited,
            ecn: Ecn::NotEct,
            stamp: entry.stamp,
        }
    }

    /// When the retransmission timer fires: the controller's timeout, or RFC 6298's, backed off
    /// (section 5.5), after the last ack or the first packet into silence.
    fn timer(&self) -> Option<Time> {
        let since = self.silent_since.filter(|_| self.in_flight > self.written_off)?;
        let timeout = self
            .controller
            .rto()
            .unwrap_or_else(|| self.rtt.backed_off_rto(self.timeouts_in_a_row));
        Some(since + timeout)
    }

    /// Everything in flight counts as lost for the controller, and only for it.
    fn time_out(&mut self, now: Time) {
        self.timeouts_in_a_row += 1;
        self.stats.timeouts += 1;
        let prior_in_flight = self.seen_in_flight();
        self.written_off = self.in_flight;
        for entry in self.entries.iter_mut().filter(|entry| !entry.settled) {
            entry.written_off = true;
        }
        self.after_timeout = self.next_number;
        self.silent_since = Some(now);
        self.controller.on_timeout(&Timeout {
            now,
            prior_in_flight,
            in_a_row: self.timeouts_in_a_row,
            next_number: self.next_number,
        });
    }

    /// Something came back. If it left before the last timeout, the packets were only late (RFC
    /// 4015, RFC 5682) and are in flight again: true.
    fn end_silence(&mut self, now: Time) -> bool {
        let first = self.acked.first().map_or(0, |packet| packet.number);
        let was_late = self.timeouts_in_a_row > 0 && first < self.after_timeout;
        if was_late {
            self.written_off = 0;
            for entry in &mut self.entries {
                entry.written_off = false;
            }
            self.stats.spurious_timeouts += 1;
            self.controller.on_spurious(&Spurious::Timeout { now });
        }
        self.timeouts_in_a_row = 0;
        self.silent_since = (self.in_flight > 0).then_some(now);
        was_late
    }

    /// Drops what is settled, and what the library will never settle.
    fn forget(&mut self, newest_acked: Time) {
        while let Some(oldest) = self.entries.front() {
            if !oldest.settled && oldest.sent_at + FORGOTTEN_AFTER > newest_acked {
                return;
            }
            self.entries.pop_front();
        }
    }
}

/// `bytes * to / from`, rounded to the nearest; saturates.
fn scaled(bytes: u64, to: u64, from: u64) -> u64 {
    if to == from || bytes == u64::MAX {
        return bytes;
    }
    // What there is in practice fits, and saves a division of 128 bits.
    if let Some(product) = bytes.checked_mul(to).and_then(|product| product.checked_add(from / 2)) {
        return product / from;
    }
    let scaled = (u128::from(bytes) * u128::from(to) + u128::from(from / 2)) / u128::from(from);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
