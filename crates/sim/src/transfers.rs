//! The transfers of a flow: when they begin, what comes before their data, when they are complete.

use cellpace_base::{Random, Span, Time};
use cellpace_measure::{PlayerFigures, Transfer, TransferOutcome};

use crate::player::Player;
use crate::transfer_spec::{CONTROL_BYTES, MAX_TRANSFERS};
use crate::transfer_tally::{SenderCounts, TransferTally, round_ms};
use crate::{SizeSpec, TransferPace, TransferSpec};

/// Until the first retry of a packet of the handshake or a request; doubled each time (RFC 6298
/// section 2.1: there is no RTT sample yet).
const FIRST_RETRY: Span = Span::from_secs(1);
/// Doublings of that at most.
const MAX_DOUBLINGS: u32 = 6;

/// The transfers of a flow.
pub(crate) struct Transfers {
    spec: TransferSpec,
    flow: usize,
    cc: String,
    random: Random,
    /// Decides where they are chunks of a video.
    player: Option<Player>,
    /// When the next one begins.
    next_start: Option<Time>,
    begun: u64,
    active: Vec<ActiveTransfer>,
    finished: Vec<Transfer>,
    /// Packets that are to leave for the other end.
    legs: Vec<Leg>,
}

/// A packet that opens a connection or asks for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leg {
    /// The number of its transfer.
    pub(crate) transfer: u64,
    /// Its place among those of the transfer: even ones go up, from the client to the server, odd
    /// ones down.
    pub(crate) place: u8,
    /// Its size.
    pub(crate) bytes: u32,
}

impl Leg {
    /// Set in the number of packets that carry no data. Those of data are far smaller.
    const MARK: u64 = 1 << 47;

    /// The leg that the packet with this id is, unless it carries data.
    pub(crate) const fn of_packet(id: u64) -> Option<Self> {
        if id & Self::MARK == 0 {
            return None;
        }
        let transfer = (id & (Self::MARK - 1)) >> 8;
        Some(Self { transfer, place: id as u8, bytes: CONTROL_BYTES })
    }

    /// The id of its packet.
    pub(crate) fn packet_id(self) -> u64 {
        Self::MARK | self.transfer << 8 | u64::from(self.place)
    }

    /// Whether it goes from the client to the server, the way that acks go.
    pub(crate) fn is_up(self) -> bool {
        self.place.is_multiple_of(2)
    }
}

/// What the flow is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Demand {
    /// Send so many bytes for the transfer with this number.
    Send { transfer: u64, bytes: u64, handshake_rtt: Option<Span> },
    /// The connection with this generation is given up.
    Close(u16),
}

struct ActiveTransfer {
    phase: TransferPhase,
    began: Time,
    /// Sizes of the packets in front of the data.
    legs: Vec<u32>,
    generation: u16,
    /// The number behind its last piece.
    end_piece: u64,
    complete_at: Option<Time>,
    record: Transfer,
}

#[derive(Clone, Copy, PartialEq)]
enum TransferPhase {
    /// The leg with this number has not arrived.
    Opening { awaited: u8, sent_at: Time, retry_at: Time, tries: u32 },
    /// The server answers at this time.
    Answering(Time),
    /// Data is sent.
    Sending,
    /// All data is at the receiver; the sender may not know it yet.
    Received,
}

impl Transfers {
    pub(crate) fn new(spec: TransferSpec, flow: usize, cc: String, random: Random) -> Self {
        let player = match &spec.sizes {
            SizeSpec::Chunks(video) => Some(Player::new(video.clone())),
            _ => None,
        };
        Self {
            spec,
            player,
            flow,
            cc,
            random,
            next_start: None,
            begun: 0,
            active: Vec::new(),
            finished: Vec::new(),
            legs: Vec::new(),
        }
    }

    /// The first one begins.
    pub(crate) fn start(&mut self, now: Time) {
        self.next_start = Some(now);
    }

    /// Nothing begins any more.
    pub(crate) fn stop(&mut self) {
        self.next_start = None;
        self.active.retain(|transfer| {
            // Transfers that have data go on until it has arrived or the run ends.
            let is_before_data = matches!(
                transfer.phase,
                TransferPhase::Opening { .. } | TransferPhase::Answering(_)
            );
            if is_before_data {
                self.finished.push(transfer.record.clone());
            }
            !is_before_data
        });
    }

    /// Whether connections outlive their transfers.
    pub(crate) fn keeps(&self) -> bool {
        self.spec.keep
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let due = |transfer: &ActiveTransfer| transfer.deadline(self.spec.timeout);
        self.active.iter().filter_map(due).chain(self.waiting_start()).min()
    }

    /// When the next one begins, unless it waits for the one before.
    fn waiting_start(&self) -> Option<Time> {
        let is_busy = |transfer: &ActiveTransfer| transfer.phase != TransferPhase::Received;
        // One connection carries one transfer at a time, as HTTP/1.1 does.
        let waits = self.spec.keep && self.active.iter().any(is_busy);
        self.next_start.filter(|_| !waits)
    }

    /// Does what is due at `now`, as far as the flow has nothing to do with it. `is_connected`:
    /// whether there is a connection to use again.
    pub(crate) fn poll(&mut self, now: Time, is_connected: bool) -> Option<Demand> {
        if self.waiting_start().is_some_and(|start| start <= now) {
            self.begin(now, is_connected);
        }
        let (spec, legs) = (&self.spec, &mut self.legs);
        let mut given_up = None;
        for (place, transfer) in self.active.iter_mut().enumerate() {
            if transfer.times_out(spec.timeout).is_some_and(|time| time <= now) {
                given_up = Some(place);
                break;
            }
            match transfer.phase {
                TransferPhase::Opening { awaited, retry_at, tries, .. } if retry_at <= now => {
                    // Whatever of the two was lost, the client's packet brings the next one.
                    let tries = tries + 1;
                    let wait = FIRST_RETRY * (1 << tries.min(MAX_DOUBLINGS));
                    let retry_at = now + wait;
                    transfer.phase =
                        TransferPhase::Opening { awaited, sent_at: now, retry_at, tries };
                    legs.push(transfer.leg(awaited & !1));
                }
                TransferPhase::Answering(at) if at <= now => {
                    transfer.phase = TransferPhase::Sending;
                    let handshake_rtt = transfer.record.handshake_rtt_ms.map(Span::from_millis_f64);
                    let bytes = transfer.record.size_bytes;
                    return Some(Demand::Send {
                        transfer: transfer.record.index,
                        bytes,
                        handshake_rtt,
                    });
                }
                _ => {}
            }
        }
        self.give_up(given_up?, now)
    }

    fn begin(&mut self, now: Time, is_connected: bool) {
        let index = self.begun;
        self.begun += 1;
        let is_last = self.begun == self.spec.count.unwrap_or(MAX_TRANSFERS);
        self.next_start = match &self.spec.pace {
            TransferPace::Every(interval) if !is_last => {
                Some(self.next_start.unwrap_or(now) + *interval)
            }
            _ => None,
        };
        let size = match &mut self.player {
            Some(player) => player.ask(now),
            None => self.spec.sizes.draw(index, &mut self.random),
        };
        // A connection that is kept was opened by an earlier transfer.
        let legs = self.opening_legs(self.spec.handshake && !(self.spec.keep && is_connected));
        let phase = if legs.is_empty() {
            TransferPhase::Answering(now)
        } else {
            TransferPhase::Opening {
                awaited: 0,
                sent_at: now,
                retry_at: now + FIRST_RETRY,
                tries: 0,
            }
        };
        let transfer = ActiveTransfer {
            phase,
            began: now,
            legs,
            generation: 0,
            end_piece: u64::MAX,
            complete_at: None,
            record: self.record(index, size, now),
        };
        if !transfer.legs.is_empty() {
            self.legs.push(transfer.leg(0));
        }
        self.active.push(transfer);
    }

    /// Sizes of what comes before the data: SYN, SYN-ACK, two packets for each round trip of TLS,
    /// the request.
    fn opening_legs(&self, handshake: bool) -> Vec<u32> {
        let round_trips = if handshake { 1 + self.spec.tls } else { 0 };
        let before = (0..2 * round_trips).map(|_| CONTROL_BYTES);
        before.chain(self.spec.request_bytes()).collect()
    }

    fn record(&self, index: u64, size_bytes: u64, now: Time) -> Transfer {
        Transfer::begun(self.flow, &self.cc, index, size_bytes, now.as_secs_f64())
    }

    fn give_up(&mut self, place: usize, now: Time) -> Option<Demand> {
        let transfer = &mut self.active[place];
        transfer.record.outcome = TransferOutcome::Timeout;
        transfer.record.end_s = Some(now.as_secs_f64());
        let generation = transfer.generation;
        let has_data = transfer.phase == TransferPhase::Sending;
        if has_data {
            // Its connection is closed, which ends its record.
            transfer.phase = TransferPhase::Received;
        } else {
            self.finished.push(self.active.remove(place).record);
        }
        self.schedule_next(now, None);
        has_data.then_some(Demand::Close(generation))
    }

    /// With a gap, the next one begins after the end of this one.
    fn schedule_next(&mut self, now: Time, wait: Option<Span>) {
        let TransferPace::Gap(gap) = &self.spec.pace else { return };
        if self.begun < self.spec.count.unwrap_or(MAX_TRANSFERS) {
            let wait = wait.unwrap_or_else(|| gap.draw(&mut self.random));
            self.next_start = Some(now + wait);
        }
    }

    /// The data of a transfer goes over the connection with this generation, up to `end_piece`.
    pub(crate) fn on_open(&mut self, transfer: u64, generation: u16, end_piece: u64) {
        let Some(active) = self.active.iter_mut().find(|active| active.record.index == transfer)
        else {
            return;
        };
        (active.generation, active.end_piece) = (generation, end_piece);
    }

    /// A packet of the handshake or a request arrived.
    pub(crate) fn on_leg(&mut self, now: Time, leg: Leg) {
        let Some(active) = self.active.iter_mut().find(|a| a.record.index == leg.transfer) else {
            return;
        };
        let TransferPhase::Opening { awaited, sent_at, .. } = active.phase else { return };
        if leg.place + 1 == awaited && leg.is_up() {
            // The server's answer to it may have been lost.
            self.legs.push(active.leg(awaited));
            return;
        }
        // A copy, or one that was given up for lost and came late.
        if leg.place != awaited {
            return;
        }
        // SYN to SYN-ACK: the one round trip that both ends measure before any data.
        if leg.place == 1 && active.legs.len() > 1 {
            active.record.handshake_rtt_ms = Some(round_ms((now - sent_at).as_millis_f64()));
        }
        let next = leg.place + 1;
        if usize::from(next) == active.legs.len() {
            active.phase = TransferPhase::Answering(now + self.spec.answer_after);
            return;
        }
        let (sent_at, retry_at) =
            if leg.is_up() { (sent_at, active.retry_at()) } else { (now, now + FIRST_RETRY) };
        active.phase = TransferPhase::Opening { awaited: next, sent_at, retry_at, tries: 0 };
        self.legs.push(active.leg(next));
    }

    /// All pieces below `below` of the connection with this generation are at the receiver.
    pub(crate) fn on_data(&mut self, now: Time, generation: u16, below: u64) {
        let is_sending = |active: &&mut ActiveTransfer| {
            active.phase == TransferPhase::Sending && active.generation == generation
        };
        let Some(active) = self.active.iter_mut().find(is_sending) else { return };
        active.record.first_byte_s.get_or_insert(now.as_secs_f64());
        if below < active.end_piece {
            return;
        }
        active.phase = TransferPhase::Received;
        active.complete_at = Some(now);
        active.record.outcome = TransferOutcome::Complete;
        let wait = self.player.as_mut().map(|player| player.on_chunk(now));
        self.schedule_next(now, wait);
    }

    /// The connection with this generation has sent the transfer's data, is given up, or turns to
    /// the next transfer: its record ends.
    pub(crate) fn on_close(
        &mut self,
        generation: u16,
        tally: Option<TransferTally>,
        counts: SenderCounts,
    ) {
        let has_data = |active: &ActiveTransfer| {
            matches!(active.phase, TransferPhase::Sending | TransferPhase::Received)
                && active.generation == generation
        };
        let Some(place) = self.active.iter().position(has_data) else { return };
        let mut active = self.active.remove(place);
        let Some(tally) = tally else { return };
        let begin = match tally.first_sent() {
            // Nothing goes before the data: time counts from its first packet.
            Some(first) if active.legs.is_empty() => first,
            _ => active.began,
        };
        active.record.start_s = begin.as_secs_f64();
        tally.fill(&mut active.record, counts);
        if let Some(end) = active.complete_at {
            let took = (end - begin).as_secs_f64();
            active.record.end_s = Some(end.as_secs_f64());
            active.record.completion_ms = Some(round_ms(took * 1e3));
            let mbits = active.record.size_bytes as f64 * 8.0 / 1e6;
            active.record.goodput_mbps = (took > 0.0).then(|| round_ms(mbits / took));
        }
        self.finished.push(active.record);
    }

    /// What a viewer saw up to `end`, where they are chunks of a video.
    pub(crate) fn player(&mut self, end: Time) -> Option<PlayerFigures> {
        self.player.as_mut().map(|player| player.figures(end))
    }

    /// Packets that are to leave.
    pub(crate) fn take_legs(&mut self) -> Vec<Leg> {
        std::mem::take(&mut self.legs)
    }

    /// The records, in the order in which the transfers began.
    pub(crate) fn finish(mut self) -> Vec<Transfer> {
        // What has not begun to send is reported as it is, without an end.
        self.stop();
        self.finished.sort_by_key(|record| record.index);
        self.finished
    }
}

impl ActiveTransfer {
    fn leg(&self, place: u8) -> Leg {
        let bytes = self.legs[usize::from(place)];
        Leg { transfer: self.record.index, place, bytes }
    }

    fn retry_at(&self) -> Time {
        match self.phase {
            TransferPhase::Opening { retry_at, .. } => retry_at,
            _ => Time::MAX,
        }
    }

    fn times_out(&self, timeout: Option<Span>) -> Option<Time> {
        timeout
            .filter(|_| self.phase != TransferPhase::Received)
            .map(|timeout| self.began + timeout)
    }

    fn deadline(&self, timeout: Option<Span>) -> Option<Time> {
        let own = match self.phase {
            TransferPhase::Opening { retry_at, .. } => Some(retry_at),
            TransferPhase::Answering(at) => Some(at),
            TransferPhase::Sending | TransferPhase::Received => None,
        };
        own.into_iter().chain(self.times_out(timeout)).min()
    }
}
