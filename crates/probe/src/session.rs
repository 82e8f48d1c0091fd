//! What both sides of an open session do: send probes, report arrivals, and keep the session open.

use cellpace_base::{Ecn, Span, Time};
use cellpace_udp::wire::{EcnCounts, Ids};

use crate::outbox::Outbox;
use crate::plan::{Pattern, Plan};
use crate::recording::raw_delay;
use crate::sender::ProbeSender;
use crate::wire::{
    self, ArrivalRecord, ArrivalReport, PROBE_BYTES, Probe, ProbePacket, REPORTS, ReportHead,
};

/// Only reports are sent for this long at first: the clocks are compared while the path is idle.
pub(crate) const QUIET: Span = Span::from_millis(500);

/// No probes are sent to a peer that has been silent for this long.
pub(crate) const SILENCE: Span = Span::from_millis(900);

/// Time between reports.
const REPORT_EVERY: Span = Span::from_millis(20);

/// Time between reports where the other side's window waits for them.
const REPORT_TO_SATURATOR_EVERY: Span = Span::from_millis(10);

/// Maximum number of reports in a row.
const REPORTS_IN_A_ROW: u8 = 8;

/// How far one direction of a session is: the probes of its first stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionProgress {
    /// Probes that were sent, as far as this side knows.
    pub sent: u64,
    /// Probes that arrived.
    pub arrived: u64,
    /// Probes that were sent before one that arrived, and did not arrive themselves so far.
    pub missing: u64,
    /// Time in queues of the newest probe that arrived: its delay above the smallest one.
    pub queue_delay: Span,
    /// The last round trip.
    pub rtt: Span,
    /// The shortest round trip.
    pub least_rtt: Option<Span>,
}

#[derive(Debug)]
pub(crate) struct ProbeSession {
    pub(crate) ids: Ids,
    pub(crate) sender: Option<ProbeSender>,
    pub(crate) outbox: Outbox,
    /// Records of the other side that were taken.
    pub(crate) taken: u64,
    /// The other side's newest head.
    pub(crate) peer: ReportHead,
    pub(crate) last_arrival: Time,
    pub(crate) least_rtt: Option<Span>,
    pub(crate) saturates: bool,
    overhead: usize,
    size: usize,
    next_number: u64,
    /// Probes of the first stream that arrived, copies too.
    pub(crate) arrived: u64,
    /// With which codepoints they came.
    pub(crate) ecn: EcnCounts,
    queue_delay: Span,
    least_raw: Option<i64>,
    echo: (Time, Time),
    next_report: Time,
    report_every: Span,
    reports_in_a_row: u8,
    rtt: Span,
}

impl ProbeSession {
    /// `sends`: this side does; `gap` is the time between two probes at the highest rate.
    pub(crate) fn new(
        ids: Ids,
        plan: &Plan,
        sends: bool,
        gap: Span,
        overhead: usize,
        now: Time,
    ) -> Self {
        let saturates = matches!(plan.pattern, Pattern::Saturate { .. });
        let report_every = if saturates { REPORT_TO_SATURATOR_EVERY } else { REPORT_EVERY };
        Self {
            ids,
            sender: sends.then(|| ProbeSender::new(plan, now + QUIET, gap)),
            outbox: Outbox::default(),
            taken: 0,
            peer: ReportHead::default(),
            last_arrival: now,
            least_rtt: None,
            saturates,
            overhead,
            size: usize::from(plan.size),
            next_number: 0,
            arrived: 0,
            ecn: EcnCounts::default(),
            queue_delay: Span::ZERO,
            least_raw: None,
            echo: (Time::ZERO, Time::ZERO),
            next_report: now,
            report_every,
            reports_in_a_row: 0,
            rtt: Span::ZERO,
        }
    }

    /// A probe arrived at `at` with the codepoint `ecn`.
    pub(crate) fn on_probe(&mut self, at: Time, probe: &Probe, ecn: Ecn) {
        self.last_arrival = self.last_arrival.max(at);
        let raw = raw_delay(probe.sent_at, at);
        let least = self.note_raw(raw);
        if probe.stream == 0 {
            self.arrived += 1;
            self.ecn.count(ecn);
            if probe.number >= self.next_number {
                self.next_number = probe.number + 1;
                self.queue_delay = Span::from_nanos((raw - least) as u64);
            }
        }
    }

    /// Remembers the arrival of a probe until the other side knows it.
    pub(crate) fn record(&mut self, at: Time, probe: &Probe) {
        let record = ArrivalRecord { stream: probe.stream, number: probe.number, received_at: at };
        self.outbox.push(at, record);
    }

    /// The same for a report, a datagram of so many bytes, where it matters what a link delivers.
    pub(crate) fn record_report(&mut self, at: Time, bytes: usize) {
        if self.saturates {
            let number = (bytes + self.overhead) as u64;
            self.outbox.push(at, ArrivalRecord { stream: REPORTS, number, received_at: at });
        }
    }

    /// Processes a report that arrived at `at`. One that was overtaken only confirms records.
    pub(crate) fn on_report(&mut self, at: Time, report: &ArrivalReport<'_>) {
        self.last_arrival = self.last_arrival.max(at);
        let head = report.head;
        self.note_raw(raw_delay(head.sent_at, at));
        self.outbox.on_taken(at, head.taken);
        if head.sent_at < self.peer.sent_at {
            return;
        }
        self.peer = head;
        self.echo = (head.sent_at, at);
        if head.echo_sent > Time::ZERO && head.echo_sent <= at {
            // The round trip without the time that the other side held the echo back.
            let held = head.sent_at - head.echo_received;
            let rtt = (at - head.echo_sent) - held;
            self.rtt = rtt;
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        if let Some(sender) = &mut self.sender {
            sender.on_report(at, &head);
        }
    }

    fn note_raw(&mut self, raw: i64) -> i64 {
        let least = self.least_raw.map_or(raw, |least| least.min(raw));
        self.least_raw = Some(least);
        least
    }

    /// Up and down.
    pub(crate) fn progress(&self) -> [DirectionProgress; 2] {
        let (rtt, least_rtt) = (self.rtt, self.least_rtt);
        let direction = |sent: u64, arrived: u64, next: u64, queue_delay| DirectionProgress {
            sent: sent.max(next),
            arrived,
            missing: next.saturating_sub(arrived),
            queue_delay,
            rtt,
            least_rtt,
        };
        let sent = self.sender.as_ref().map_or(0, |sender| sender.sent()[0]);
        let ReportHead { arrived, next_number, queue_delay, sent: theirs, .. } = self.peer;
        [
            direction(sent, arrived, next_number, queue_delay),
            direction(theirs[0], self.arrived, self.next_number, self.queue_delay),
        ]
    }

    pub(crate) fn is_peer_silent(&self, now: Time) -> bool {
        now - self.last_arrival >= SILENCE
    }

    pub(crate) fn is_sending_done(&self, now: Time) -> bool {
        self.sender.as_ref().is_none_or(|sender| sender.is_done(now))
    }

    /// Writes the datagram to send now: a report that is due, or a probe. Returns a sent probe.
    pub(crate) fn poll(&mut self, now: Time, out: &mut Vec<u8>) -> Option<(usize, Option<Probe>)> {
        let is_pressing = self.outbox.is_pressing() && self.reports_in_a_row < REPORTS_IN_A_ROW;
        if now >= self.next_report || is_pressing {
            self.reports_in_a_row += 1;
            if now >= self.next_report {
                (self.next_report, self.reports_in_a_row) = (now + self.report_every, 0);
            }
            return Some((self.write_report(now, out), None));
        }
        let sender = self.sender.as_mut()?;
        let probe = sender.poll(now)?;
        let bytes = self.size.saturating_sub(self.overhead).max(PROBE_BYTES);
        Some((wire::write_probe(out, self.ids, probe, bytes), Some(probe)))
    }

    fn write_report(&mut self, now: Time, out: &mut Vec<u8>) -> usize {
        let position = self.outbox.position(now, self.rtt);
        let sender = self.sender.as_ref();
        let head = ReportHead {
            sent_at: now,
            echo_sent: self.echo.0,
            echo_received: self.echo.1,
            next_number: self.next_number,
            arrived: self.arrived,
            ecn: self.ecn,
            queue_delay: self.queue_delay,
            sent: sender.map_or([0; 2], ProbeSender::sent),
            skipped: sender.map_or(0, ProbeSender::skipped),
            done: self.is_sending_done(now),
            taken: self.taken,
            total: self.outbox.total() + self.outbox.unrecorded(),
            position,
        };
        let (length, count) = wire::write_report(out, self.ids, &head, self.outbox.unsent());
        self.outbox.on_sent(count);
        length
    }

    pub(crate) fn next_deadline(&self) -> Time {
        let probe = self.sender.as_ref().and_then(ProbeSender::next).unwrap_or(Time::MAX);
        let is_pressing = self.outbox.is_pressing() && self.reports_in_a_row < REPORTS_IN_A_ROW;
        if is_pressing { Time::ZERO } else { probe.min(self.next_report) }
    }
}

/// Whether a packet belongs to a session: both ids are right.
pub(crate) fn belongs(session: &ProbeSession, ids: Ids, packet: &ProbePacket<'_>) -> bool {
    let ours = Ids { to: session.ids.from, from: session.ids.to };
    ids == ours
        && matches!(packet, ProbePacket::Probe(_) | ProbePacket::Report(_) | ProbePacket::Close)
}
