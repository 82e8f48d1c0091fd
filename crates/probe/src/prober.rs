//! The side that asks, and keeps what is measured.

use std::net::SocketAddr;

use cellpace_base::{Ecn, Span, Time};
use cellpace_udp::wire::{Cookie, Ids};
use cellpace_udp::{DatagramGuard, Engine, LocalPath, OutgoingDatagram, Protection, SenderSide};
use thiserror::Error;

use crate::plan::Plan;
use crate::plausible::Plausible;
use crate::recording::{DirectionRecording, ProbeArrival, Recording, raw_delay};
use crate::session::{DirectionProgress, ProbeSession, belongs};
use crate::wire::{self, ArrivalReport, ProbePacket, REPORTS};

/// Timeout of a silent session: outages of the path may last this long.
const PATIENCE: Span = Span::from_secs(30);

/// Timeout of the first answer.
const PATIENCE_AT_FIRST: Span = Span::from_secs(10);

/// Interval of hellos.
const ASK_EVERY: Span = Span::from_millis(250);

/// The session ends when nothing arrives for this long after the last probe.
const QUIET_AT_THE_END: Span = Span::from_secs(1);

/// Maximum time to wait for the last records.
const MAX_DRAIN_TIME: Span = Span::from_secs(20);

/// Maximum number of records in flight when the session ends: those of the last reports.
const MAX_MISSING_RECORDS: u64 = 20;

/// How often the end is sent: it is not acknowledged.
const CLOSES: u8 = 3;

/// Maximum number of clock samples stored for each direction.
const MAX_CLOCK_SAMPLES: usize = 1 << 20;

/// Why there is no recording.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// Nobody answered.
    #[error(
        "no answer from {0} within {PATIENCE_AT_FIRST}: is `cellpace probe --listen` running there, does a \
         firewall let UDP pass, and is the key the same on both sides, or --plain on both? A side \
         that differs in that does not answer; see `cellpace key`"
    )]
    NoAnswer(SocketAddr),
    /// The responder refused the session.
    #[error("refused: {0}")]
    Refused(String),
    /// Nothing arrived for 30 s.
    #[error("nothing received from {0} for {PATIENCE}")]
    Silent(SocketAddr),
    /// The responder is broken or lies.
    #[error("{0} reports something impossible: {1}")]
    Impossible(SocketAddr, &'static str),
}

/// Asks for a session and records it.
#[derive(Debug)]
pub struct Prober {
    plan: Plan,
    peer: SocketAddr,
    way: LocalPath,
    overhead: usize,
    gap: Span,
    id: u64,
    now: Time,
    state: ProberState,
    recording: Recording,
    /// Times at which this side sent, by stream and number.
    sent_at: [Vec<Time>; 2],
    /// Datagrams that this side sent.
    datagrams: u64,
    plausible: Plausible,
    guard: DatagramGuard,
    /// What the last datagram was decrypted into.
    clear: Vec<u8>,
}

#[derive(Debug)]
enum ProberState {
    Asking { cookie: Cookie, since: Time, next: Time },
    Running { session: Box<ProbeSession>, changed_at: Time, seen: (u64, u64) },
    Closing { ids: Ids, left: u8 },
    Over(Result<(), ProbeError>),
}

impl Prober {
    /// A session by `plan` with the responder at `peer`, reached by the socket with this
    /// number. `id` is random and not zero. A saturating sender leaves `gap` between two probes.
    pub fn new(now: Time, plan: Plan, peer: SocketAddr, way: usize, id: u64, gap: Span) -> Self {
        let empty = Recording {
            plan,
            up: DirectionRecording::default(),
            down: DirectionRecording::default(),
            least_rtt: None,
            complete: false,
        };
        Self {
            plan,
            peer,
            way: way.into(),
            overhead: overhead(peer),
            gap,
            id,
            now,
            state: ProberState::Asking { cookie: Cookie::default(), since: now, next: now },
            recording: empty,
            sent_at: [Vec::new(), Vec::new()],
            datagrams: 0,
            plausible: Plausible::new(&plan),
            guard: DatagramGuard::default(),
            clear: Vec::new(),
        }
    }

    /// Protects the datagrams, as the responder does.
    pub fn protected(mut self, protection: &Protection) -> Self {
        // The keys are those of our id, which no other prober has.
        self.guard = protection.guard(0);
        self.overhead = overhead(self.peer) + self.guard.extra_bytes();
        self
    }

    /// Whether the session is over, and how; `None` while it runs.
    pub fn outcome(&self) -> Option<&Result<(), ProbeError>> {
        match &self.state {
            ProberState::Over(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Arrivals recorded so far, up and down.
    pub fn arrivals(&self) -> (usize, usize) {
        (self.recording.up.arrivals.len(), self.recording.down.arrivals.len())
    }

    /// How far the session is, up and down; `None` before it runs and after it has ended.
    pub fn progress(&self) -> Option<[DirectionProgress; 2]> {
        let ProberState::Running { session, .. } = &self.state else { return None };
        Some(session.progress())
    }

    /// Whether probes are sent or about to be.
    pub fn is_running(&self) -> bool {
        matches!(self.state, ProberState::Running { .. })
    }

    /// Ends the session now. What has been recorded is kept.
    pub fn stop(&mut self) {
        if let ProberState::Running { session, .. } = &self.state {
            let ids = session.ids;
            self.finish(false);
            self.state = ProberState::Closing { ids, left: CLOSES };
        } else if !matches!(self.state, ProberState::Closing { .. }) {
            self.state = ProberState::Over(Ok(()));
        }
    }

    /// What was recorded.
    pub fn into_recording(self) -> Recording {
        self.recording
    }

    /// Handles a packet of `bytes` without headers and what encryption adds, which came with the
    /// codepoint `ecn`.
    fn on_packet(
        &mut self,
        at: Time,
        ids: Ids,
        packet: &ProbePacket<'_>,
        (bytes, ecn): (usize, Ecn),
    ) {
        if ids.to != self.id {
            return;
        }
        let now = self.now;
        let ProberState::Asking { cookie, next, .. } = &mut self.state else {
            return self.on_running(at, ids, packet, (bytes, ecn));
        };
        match *packet {
            ProbePacket::Retry(fresh) => (*cookie, *next) = (fresh, now),
            ProbePacket::Refuse(why) => {
                self.state = ProberState::Over(Err(ProbeError::Refused(why.to_owned())));
            }
            ProbePacket::Accept if ids.from != 0 => {
                let ids = Ids { to: ids.from, from: self.id };
                let (up, gap, overhead) = (self.plan.up, self.gap, self.overhead);
                let session = Box::new(ProbeSession::new(ids, &self.plan, up, gap, overhead, now));
                self.state = ProberState::Running { session, changed_at: now, seen: (0, 0) };
            }
            _ => {}
        }
    }

    fn on_running(
        &mut self,
        at: Time,
        ids: Ids,
        packet: &ProbePacket<'_>,
        (bytes, ecn): (usize, Ecn),
    ) {
        let ProberState::Running { session, .. } = &mut self.state else { return };
        if !belongs(session, ids, packet) {
            return;
        }
        if let Err(what) = self.check(at, packet) {
            self.finish(false);
            self.state = ProberState::Over(Err(ProbeError::Impossible(self.peer, what)));
            return;
        }
        let ProberState::Running { session, .. } = &mut self.state else { return };
        match packet {
            ProbePacket::Probe(probe) => {
                session.on_probe(at, probe, ecn);
                let arrivals = &mut self.recording.down.arrivals;
                if arrivals.len() as u64 >= Plan::MAX_PROBES {
                    self.recording.down.unrecorded += 1;
                    return;
                }
                let (stream, number, sent_at) = (probe.stream, probe.number, probe.sent_at);
                arrivals.push(ProbeArrival { stream, number, sent_at, received_at: at });
            }
            ProbePacket::Report(report) => {
                session.on_report(at, report);
                let reports = &mut self.recording.down.reports;
                if session.saturates && self.plan.down && reports.len() < MAX_CLOCK_SAMPLES {
                    reports.push((at, (bytes + self.overhead) as u32));
                }
                self.take(report);
                self.compare_clocks(at, report);
            }
            _ => {
                self.finish(false);
                self.state =
                    ProberState::Over(Err(ProbeError::Refused("it ended the session".into())));
            }
        }
    }

    /// Checks a packet. The error names what is impossible about it.
    fn check(&mut self, at: Time, packet: &ProbePacket<'_>) -> Result<(), &'static str> {
        match packet {
            ProbePacket::Probe(probe) => self.plausible.check_probe(at, probe),
            ProbePacket::Report(report) => {
                self.plausible.check_report(at, report, &self.sent_at, self.datagrams)
            }
            _ => Ok(()),
        }
    }

    /// Takes the records that are next.
    fn take(&mut self, report: &ArrivalReport<'_>) {
        let ProberState::Running { session, .. } = &mut self.state else { return };
        let mut position = report.head.position;
        for record in report.records() {
            if position == session.taken {
                session.taken += 1;
                let up = &mut self.recording.up;
                if record.stream == REPORTS && up.reports.len() < MAX_CLOCK_SAMPLES {
                    up.reports.push((record.received_at, record.number.min(1 << 16) as u32));
                    position += 1;
                    continue;
                }
                let sent_at = self
                    .sent_at
                    .get(usize::from(record.stream))
                    .and_then(|times| times.get(usize::try_from(record.number).ok()?));
                match sent_at {
                    Some(sent_at) if (up.arrivals.len() as u64) < Plan::MAX_PROBES => {
                        up.arrivals.push(ProbeArrival {
                            stream: record.stream,
                            number: record.number,
                            sent_at: *sent_at,
                            received_at: record.received_at,
                        });
                    }
                    // The maximum number of records is stored already.
                    _ => up.unrecorded += 1,
                }
            }
            position += 1;
        }
    }

    fn compare_clocks(&mut self, at: Time, report: &ArrivalReport<'_>) {
        let head = &report.head;
        let down = &mut self.recording.down.clock;
        if down.len() < MAX_CLOCK_SAMPLES {
            down.push((at, raw_delay(head.sent_at, at)));
        }
        let up = &mut self.recording.up.clock;
        if head.echo_sent > Time::ZERO && up.len() < MAX_CLOCK_SAMPLES {
            up.push((head.echo_sent, raw_delay(head.echo_sent, head.echo_received)));
        }
    }

    /// Ends the session when everything that can still arrive has arrived.
    fn check_end(&mut self, now: Time) {
        let ProberState::Running { session, changed_at, seen } = &mut self.state else { return };
        if now - session.last_arrival > PATIENCE {
            let silent = Err(ProbeError::Silent(self.peer));
            self.finish(false);
            self.state = ProberState::Over(silent);
            return;
        }
        let (down, up) = (&self.recording.down.arrivals, &self.recording.up.arrivals);
        let arrived = (down.len() as u64, up.len() as u64);
        if arrived != *seen {
            (*seen, *changed_at) = (arrived, now);
        }
        let is_done = session.is_sending_done(now) && (session.peer.done || !self.plan.down);
        if !is_done {
            // Draining begins with the end of sending.
            return;
        }
        let last = session
            .sender
            .as_ref()
            .map_or(*changed_at, |sender| (sender.began() + self.plan.duration).max(*changed_at));
        let is_quiet = now - last > QUIET_AT_THE_END && !session.is_peer_silent(now);
        let missing = if session.saturates { MAX_MISSING_RECORDS } else { 0 };
        // Records of reports keep coming, so only older missing records delay the end.
        let has_all = session.taken + missing >= session.peer.total;
        let ends = session.sender.as_ref().map(|sender| sender.began() + self.plan.duration);
        let has_waited = ends.is_some_and(|ends| now - ends > MAX_DRAIN_TIME);
        if (is_quiet && has_all) || has_waited {
            let ids = session.ids;
            self.finish(is_quiet && has_all);
            self.state = ProberState::Closing { ids, left: CLOSES };
        }
    }

    fn finish(&mut self, complete: bool) {
        let ProberState::Running { session, .. } = &self.state else { return };
        let recording = &mut self.recording;
        if let Some(sender) = &session.sender {
            recording.up.began = sender.began();
            (recording.up.sent, recording.up.skipped) = (sender.sent(), sender.skipped());
        }
        let missing = session.peer.total.saturating_sub(session.taken);
        recording.up.unrecorded += if complete { 0 } else { missing };
        (recording.down.sent, recording.down.skipped) = (session.peer.sent, session.peer.skipped);
        (recording.up.counted, recording.up.ecn) = (session.peer.arrived, session.peer.ecn);
        (recording.down.counted, recording.down.ecn) = (session.arrived, session.ecn);
        // A head that arrived before the last probes is older than they are.
        for arrival in recording.down.arrivals.iter().rev().take(1000) {
            let sent = &mut recording.down.sent[usize::from(arrival.stream)];
            *sent = (*sent).max(arrival.number + 1);
        }
        let first = recording.down.arrivals.iter().find(|arrival| arrival.stream == 0);
        recording.down.began = first.map_or(Time::ZERO, |arrival| arrival.sent_at);
        recording.least_rtt = session.least_rtt;
        recording.complete = complete;
    }

    fn ask(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        let ProberState::Asking { cookie, since, next } = &mut self.state else { return None };
        if now - *since > PATIENCE_AT_FIRST {
            self.state = ProberState::Over(Err(ProbeError::NoAnswer(self.peer)));
            return None;
        }
        if now < *next {
            return None;
        }
        *next = now + ASK_EVERY;
        Some(wire::write_hello(out, Ids { to: 0, from: self.id }, cookie, &self.plan))
    }

    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }
}

impl Engine for Prober {
    fn handle_datagram(
        &mut self,
        at: Time,
        from: SocketAddr,
        way: LocalPath,
        ecn: Ecn,
        datagram: &[u8],
    ) {
        self.advance(at);
        if from != self.peer || way.socket != self.way.socket {
            return;
        }
        let mut clear = std::mem::take(&mut self.clear);
        let opened = self.guard.open(SenderSide::Responder, datagram, &mut clear);
        if let Some((ids, packet)) = opened.and_then(wire::read) {
            let bytes = datagram.len() - self.guard.extra_bytes();
            self.on_packet(at, ids, &packet, (bytes, ecn));
        }
        self.clear = clear;
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<OutgoingDatagram> {
        let now = self.advance(now);
        let mut ecn = Ecn::NotEct;
        let bytes = match &mut self.state {
            ProberState::Asking { .. } => self.ask(now, out),
            ProberState::Running { session, .. } => {
                let (bytes, probe) = session.poll(now, out)?;
                if let Some(probe) = probe {
                    ecn = self.plan.ecn;
                    // Numbers count up by one from zero.
                    self.sent_at[usize::from(probe.stream)].push(probe.sent_at);
                }
                Some(bytes)
            }
            ProberState::Closing { ids, left } => {
                let ids = *ids;
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.state = ProberState::Over(Ok(()));
                }
                Some(wire::write_close(out, ids))
            }
            ProberState::Over(_) => None,
        }?;
        self.datagrams += 1;
        let bytes = self.guard.seal(SenderSide::Initiator, out, bytes);
        Some(OutgoingDatagram { to: self.peer, way: self.way, bytes, ecn })
    }

    fn next_deadline(&self) -> Option<Time> {
        match &self.state {
            ProberState::Asking { next, .. } => Some(*next),
            ProberState::Running { session, .. } => Some(session.next_deadline()),
            ProberState::Closing { .. } => Some(Time::ZERO),
            ProberState::Over(_) => None,
        }
    }

    fn on_timer(&mut self, now: Time) {
        let now = self.advance(now);
        if let ProberState::Running { session, .. } = &mut self.state {
            let is_silent = session.is_peer_silent(now);
            if let Some(sender) = &mut session.sender {
                sender.pause(is_silent);
            }
        }
        self.check_end(now);
    }

    fn has_events(&self) -> bool {
        matches!(self.state, ProberState::Over(_))
    }
}

/// Bytes of the IP and UDP headers of a packet to `peer`.
pub(crate) fn overhead(peer: SocketAddr) -> usize {
    if peer.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 }
}
