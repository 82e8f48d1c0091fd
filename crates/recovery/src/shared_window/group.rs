//! What the flows of a group have in common.

use std::collections::VecDeque;
use std::fmt;

use cellpace_base::{Span, Time};
use cellpace_cc::{
    Ack, AckedPacket, Block, Controller, Loss, LostPacket, Mark, Permit, RttEstimator, SentPacket,
    Spurious, Stamp, Timeout,
};

use super::division::{WindowClaim, divide};
use super::packets::PacketNumbers;

/// In place of windows that have no end.
const MAX_WINDOW: u64 = 1 << 50;

/// A flow that gets no ack for this long, and a retransmission timeout, has nothing in flight that
/// counts: a peer that does not read one connection must not stop the others.
const PATIENCE: Span = Span::from_secs(1);

/// A flow that may send and has data, but sends nothing for this long, is passed over: TCP below it
/// takes nothing, say.
const OFFER_PATIENCE: Span = Span::from_millis(100);

/// A flow whose packets time out while the others' arrive tries again after as many times
/// [`PATIENCE`] as it had timeouts in a row, up to this.
const MAX_RETRY_WAITS: u32 = 8;

/// One controller and the flows that share it.
pub(super) struct WindowGroup {
    pub(super) controller: Box<dyn Controller>,
    rtt: RttEstimator,
    mss: u64,
    next_number: u64,
    pub(super) in_flight: u64,
    latest: Time,
    /// When members were last looked at for stuck ones.
    passed_over_at: Time,
    /// By member; the seats of those that left are reused.
    seats: Vec<Option<WindowSeat>>,
    claims: Vec<WindowClaim>,
    /// The window that `claims` divides; `None` when they are out of date.
    divided: Option<u64>,
    /// Members that the window keeps waiting, the one first that waits longest.
    line: VecDeque<usize>,
    /// Whether there may be room for them now.
    pub(super) has_freed: bool,
    /// The member whose timeout was the last.
    timed_out: Option<usize>,
    acked: Vec<AckedPacket>,
    lost: Vec<LostPacket>,
}

/// What is known of a member.
#[derive(Debug)]
struct WindowSeat {
    weight: u32,
    /// Bytes of its packets: peers differ, and the group's are those of its first member.
    mss: u64,
    in_flight: u64,
    waiting: u64,
    /// When it last got an ack, or began to wait for one.
    acked_at: Time,
    /// When an ack last reported one of its packets.
    delivered_at: Option<Time>,
    /// It had a timeout, and no ack since: it tries with one packet at a time, after the others, and
    /// not before this time.
    retry_at: Option<Time>,
    /// Since when it could send and did not, with nothing in flight and data that wait.
    offered_at: Option<Time>,
    /// It got no ack for long, or used no offer: it claims nothing, and its bytes in flight do not
    /// count.
    is_stuck: bool,
    /// How its datapath finds the flow.
    token: Option<usize>,
    numbers: PacketNumbers,
}

impl fmt::Debug for WindowGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowGroup").field("seats", &self.seats).finish_non_exhaustive()
    }
}

impl WindowGroup {
    pub(super) fn new(controller: Box<dyn Controller>, mss: u64) -> Self {
        Self {
            controller,
            rtt: RttEstimator::default(),
            mss,
            next_number: 0,
            in_flight: 0,
            latest: Time::ZERO,
            passed_over_at: Time::ZERO,
            seats: Vec::new(),
            claims: Vec::new(),
            divided: None,
            line: VecDeque::new(),
            has_freed: false,
            timed_out: None,
            acked: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Gives a new member a seat.
    pub(super) fn enter(&mut self, weight: u32, mss: u64) -> usize {
        let id = self.seats.iter().position(Option::is_none).unwrap_or(self.seats.len());
        if id == self.seats.len() {
            self.seats.push(None);
        }
        self.seats[id] = Some(WindowSeat {
            weight,
            mss,
            in_flight: 0,
            waiting: 0,
            acked_at: Time::ZERO,
            delivered_at: None,
            retry_at: None,
            offered_at: None,
            is_stuck: false,
            token: None,
            numbers: PacketNumbers::default(),
        });
        self.divided = None;
        id
    }

    /// A member leaves; what it has in flight counts for no member any more.
    pub(super) fn leave(&mut self, id: usize) {
        let prior_in_flight = self.in_flight;
        self.settle(id, 0, false);
        self.leave_line(id);
        self.seats[id] = None;
        self.end_count(prior_in_flight);
        self.has_freed = true;
    }

    pub(super) fn set_token(&mut self, id: usize, token: usize) {
        if let Some(seat) = self.seat(id) {
            seat.token = Some(token);
        }
    }

    /// Tokens of members that the window keeps waiting, the one first that waits longest.
    pub(super) fn waiting_tokens(&self) -> impl Iterator<Item = usize> {
        self.line.iter().filter_map(|id| self.seats[*id].as_ref()?.token)
    }

    /// A member has this many bytes that could be sent.
    pub(super) fn set_waiting(&mut self, id: usize, now: Time, bytes: u64) {
        self.advance(now);
        // A member that the pacer alone keeps waiting is in no line, and yet has a part of the rate only.
        let is_due = self.latest.since(self.passed_over_at) >= OFFER_PATIENCE;
        if bytes > 0 && (is_due || self.line.contains(&id)) {
            self.pass_over_stuck();
        }
        let Some(seat) = self.seat(id) else { return };
        let before = std::mem::replace(&mut seat.waiting, bytes);
        if before == bytes {
            return;
        }
        if bytes == 0 {
            seat.offered_at = None;
        }
        self.divided = None;
        if bytes == 0 {
            self.has_freed = true;
            self.leave_line(id);
        }
    }

    fn seat(&mut self, id: usize) -> Option<&mut WindowSeat> {
        self.seats.get_mut(id)?.as_mut()
    }

    /// Time as the controller sees it: members' reports come a little out of order.
    pub(super) fn advance(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// A member has `after` bytes in flight now; `is_acked` says that an ack of its own reports it,
    /// after which it counts again.
    fn settle(&mut self, id: usize, after: u64, is_acked: bool) {
        let latest = self.latest;
        let Some(seat) = self.seat(id) else { return };
        let before = std::mem::replace(&mut seat.in_flight, after);
        if after < before || before == 0 {
            seat.acked_at = latest;
        }
        if after > 0 {
            seat.offered_at = None;
        }
        let counted = if seat.is_stuck { 0 } else { before };
        seat.is_stuck &= !is_acked;
        seat.retry_at = seat.retry_at.filter(|_| !is_acked);
        let counts = if seat.is_stuck { 0 } else { after };
        self.in_flight = (self.in_flight + counts).saturating_sub(counted);
        self.divided = None;
        self.has_freed |= after < before;
    }

    /// Packets of members stopped to count that no report to the controller names. The next ack sets
    /// its own count right. Where none is to come, a controller that grants budgets would wait for
    /// one for ever.
    fn end_count(&mut self, prior_in_flight: u64) {
        let is_over = self.in_flight == 0 && prior_in_flight > 0;
        if is_over && !self.controller.permit().is_window() {
            let (now, next_number) = (self.latest, self.next_number);
            let timeout = Timeout { now, prior_in_flight, in_a_row: 1, next_number };
            self.controller.on_timeout(&timeout);
        }
    }

    /// When a member that gets no ack, or does not send although it may, stops to count in its
    /// present state.
    fn stuck_at(&self, seat: &WindowSeat) -> Option<Time> {
        match seat.in_flight {
            _ if seat.is_stuck => None,
            0 => Some(seat.offered_at? + OFFER_PATIENCE),
            _ => Some(seat.acked_at + PATIENCE + self.rtt.rto()),
        }
    }

    fn pass_over_stuck(&mut self) {
        self.passed_over_at = self.latest;
        let prior_in_flight = self.in_flight;
        for id in 0..self.seats.len() {
            let at = self.seats[id].as_ref().and_then(|seat| self.stuck_at(seat));
            if at.is_none_or(|at| at > self.latest) {
                continue;
            }
            let Some(seat) = self.seat(id) else { continue };
            seat.is_stuck = true;
            seat.offered_at = None;
            let in_flight = seat.in_flight;
            self.in_flight = self.in_flight.saturating_sub(in_flight);
            self.divided = None;
            self.has_freed = true;
        }
        self.end_count(prior_in_flight);
    }

    fn divide(&mut self) {
        let window = self.controller.cwnd().min(MAX_WINDOW);
        if self.divided == Some(window) {
            return;
        }
        let is_contended = self.seats.iter().flatten().filter(|seat| seat.waiting > 0).count() > 1;
        self.claims.clear();
        self.claims.extend(self.seats.iter().map(|seat| {
            let Some(seat) = seat.as_ref().filter(|seat| !seat.is_stuck) else {
                return WindowClaim::default();
            };
            let more = match seat.waiting {
                0 => 0,
                _ if seat.retry_at.is_some() && is_contended => {
                    seat.mss.saturating_sub(seat.in_flight)
                }
                // With room for headers, and never so little that a packet does not fit.
                waiting => waiting * 9 / 8 + seat.mss,
            };
            WindowClaim { weight: seat.weight, demand: seat.in_flight + more, share: 0 }
        }));
        divide(window, &mut self.claims);
        self.divided = Some(window);
    }

    /// A member's part of the window in bytes.
    pub(super) fn share(&mut self, id: usize) -> u64 {
        self.divide();
        self.claims.get(id).map_or(0, |claim| claim.share)
    }

    /// A member's part of the window as a fraction of what is divided; at least a packet, so that
    /// the pacer holds none back for ever.
    pub(super) fn fraction(&mut self, id: usize) -> f64 {
        let share = self.share(id).max(self.packet(id)) as f64;
        let all = self.claims.iter().map(|claim| claim.share).sum::<u64>().max(1) as f64;
        (share / all).min(1.0)
    }

    /// What a member may have leave: of the kind that the controller grants to the group.
    pub(super) fn permit(&mut self, id: usize) -> Permit {
        let permit = self.controller.permit();
        let total = permit.remaining(self.in_flight);
        let in_flight = self.seat(id).map_or(0, |seat| seat.in_flight);
        let packet = self.packet(id);
        let allowed = match self.share(id).saturating_sub(in_flight) {
            _ if self.must_wait(id) => 0,
            // Parts smaller than a packet take turns. A packet that is larger than those that the
            // controller counts in is let through where one of those is.
            small if small < packet && in_flight == 0 => {
                if self.has_turn(id) && total >= self.mss.min(packet) { packet } else { 0 }
            }
            own => own.min(total),
        };
        self.note_offer(id, allowed >= packet);
        match permit {
            Permit::Window(_) => Permit::Window(in_flight.saturating_add(allowed)),
            Permit::Budget(_) => Permit::Budget(allowed),
        }
    }

    /// Bytes of a member's packet.
    fn packet(&self, id: usize) -> u64 {
        self.seats[id].as_ref().map_or(self.mss, |seat| seat.mss)
    }

    /// A member with data was told whether it may send: it waits in line, or its offer begins.
    fn note_offer(&mut self, id: usize, may_send: bool) {
        let latest = self.latest;
        let Some(seat) = self.seat(id).filter(|seat| seat.waiting > 0) else { return };
        if may_send && seat.in_flight == 0 && !seat.is_stuck {
            seat.offered_at.get_or_insert(latest);
        }
        if !may_send && !self.line.contains(&id) {
            self.line.push_back(id);
        }
    }

    /// Whether a member had a timeout so shortly ago that it does not try again.
    fn must_wait(&self, id: usize) -> bool {
        let retry_at = self.seats[id].as_ref().and_then(|seat| seat.retry_at);
        retry_at.is_some_and(|at| at > self.latest)
    }

    /// Whether no member that could use the turn has waited longer. Those that are in doubt come
    /// last. One that is stuck holds no other up, and may try whenever there is room.
    fn has_turn(&self, id: usize) -> bool {
        let Some(seat) = &self.seats[id] else { return false };
        let could_use = |other: &&usize| {
            self.seats[**other].as_ref().is_some_and(|other| {
                let is_before = seat.retry_at.is_some() || other.retry_at.is_none();
                other.in_flight == 0 && !other.is_stuck && is_before
            })
        };
        let is_sure = |other: &&usize| {
            could_use(other)
                && self.seats[**other].as_ref().is_some_and(|other| other.retry_at.is_none())
        };
        let may_try = |other: &&usize| could_use(other) && !self.must_wait(**other);
        let next = self.line.iter().find(is_sure).or_else(|| self.line.iter().find(may_try));
        seat.is_stuck || next.is_none_or(|next| *next == id)
    }

    #[cfg(test)]
    pub(super) fn counted_in_flight(&self) -> u64 {
        let counted = self.seats.iter().flatten().filter(|seat| !seat.is_stuck);
        counted.map(|seat| seat.in_flight).sum()
    }

    fn leave_line(&mut self, id: usize) {
        if let Some(at) = self.line.iter().position(|waiting| *waiting == id) {
            self.line.remove(at);
        }
    }

    fn is_stuck(&self, id: usize) -> bool {
        self.seats[id].as_ref().is_some_and(|seat| seat.is_stuck)
    }

    /// Whether a member other than this one has data that waits.
    fn others_wait(&self, id: usize) -> bool {
        let others = self.seats.iter().enumerate().filter(|(other, _)| *other != id);
        others.filter_map(|(_, seat)| seat.as_ref()).any(|seat| seat.waiting > 0 && !seat.is_stuck)
    }

    /// When a member wants to be called: for the controller, or as another one may be stuck.
    pub(super) fn next_deadline(&self, id: usize) -> Option<Time> {
        let own = self.controller.next_deadline();
        if !self.line.contains(&id) {
            return own;
        }
        let stuck = self.seats.iter().flatten().filter_map(|seat| self.stuck_at(seat)).min();
        let retry = self.seats[id].as_ref().and_then(|seat| seat.retry_at);
        let later = [stuck, retry].into_iter().flatten().filter(|at| *at > self.latest);
        later.chain(own).min()
    }

    pub(super) fn on_deadline(&mut self, now: Time) {
        let now = self.advance(now);
        // Members ask whenever something is due, be it only that one is stuck.
        if self.controller.next_deadline().is_some_and(|time| time <= now) {
            self.controller.on_deadline(now);
            self.has_freed = true;
        }
    }

    pub(super) fn on_sent(&mut self, id: usize, packet: &SentPacket) -> Stamp {
        let now = self.advance(packet.now);
        self.settle(id, packet.in_flight, false);
        self.leave_line(id);
        let number = self.next_number;
        self.next_number += 1;
        let is_aside = self.is_stuck(id) && self.others_wait(id);
        if let Some(seat) = self.seat(id) {
            seat.numbers.push(packet.number, number);
            if is_aside {
                // A controller that counts for itself would wait for it, and keep the others waiting.
                seat.numbers.on_acked(packet.number);
                return Stamp::default();
            }
        }
        let app_limited = packet.app_limited && !self.others_wait(id);
        // At least this packet, be it of a member that does not count.
        let in_flight = self.in_flight.max(packet.in_flight);
        self.controller.on_sent(&SentPacket { now, number, in_flight, app_limited, ..*packet })
    }

    pub(super) fn on_ack(&mut self, id: usize, ack: &Ack<'_>) {
        let now = self.advance(ack.now);
        let prior_in_flight = self.in_flight;
        self.settle(id, ack.in_flight, true);
        if let Some(seat) = self.seat(id) {
            seat.delivered_at = Some(now);
        }
        self.rtt.sample(ack.newest().rtt);
        let Self { controller, rtt, next_number, in_flight, acked, seats, .. } = self;
        let Some(seat) = seats.get_mut(id).and_then(Option::as_mut) else { return };
        acked.clear();
        acked.extend(ack.packets.iter().filter_map(|packet| {
            Some(AckedPacket { number: seat.numbers.on_acked(packet.number)?, ..*packet })
        }));
        if acked.is_empty() {
            return;
        }
        controller.on_ack(&Ack {
            now,
            packets: acked,
            prior_in_flight,
            in_flight: *in_flight,
            next_number: *next_number,
            rtt,
        });
    }

    pub(super) fn on_loss(&mut self, id: usize, loss: &Loss<'_>) {
        let now = self.advance(loss.now);
        let prior_in_flight = self.in_flight;
        self.settle(id, loss.in_flight, false);
        let Self { controller, rtt, next_number, in_flight, lost, seats, .. } = self;
        let Some(seat) = seats.get_mut(id).and_then(Option::as_mut) else { return };
        lost.clear();
        lost.extend(loss.packets.iter().filter_map(|packet| {
            Some(LostPacket { number: seat.numbers.on_lost(packet.number)?, ..*packet })
        }));
        if lost.is_empty() {
            return;
        }
        controller.on_loss(&Loss {
            now,
            packets: lost,
            prior_in_flight,
            in_flight: *in_flight,
            next_number: *next_number,
            rtt,
        });
    }

    pub(super) fn on_timeout(&mut self, id: usize, timeout: &Timeout) {
        let now = self.advance(timeout.now);
        let prior_in_flight = self.in_flight;
        let others_deliver = self.others_deliver(id);
        self.settle(id, 0, false);
        if let Some(seat) = self.seat(id) {
            seat.numbers.give_up();
            let wait = PATIENCE * u64::from(timeout.in_a_row.min(MAX_RETRY_WAITS));
            seat.retry_at = Some(if others_deliver { now + wait } else { now });
            seat.is_stuck |= others_deliver;
        }
        if others_deliver && self.in_flight > 0 {
            // Should it prove spurious, there is nothing to undo.
            self.timed_out = self.timed_out.filter(|before| *before != id);
            return;
        }
        self.timed_out = Some(id);
        let next_number = self.next_number;
        self.controller.on_timeout(&Timeout { now, prior_in_flight, next_number, ..*timeout });
    }

    /// Whether acks of other members came while this one waited for its own, and not only of what had
    /// left before: then the path delivers, and a timeout that one peer causes by reading nothing must
    /// not close the window of all.
    fn others_deliver(&self, id: usize) -> bool {
        let Some(since) = self.seats[id].as_ref().map(|seat| seat.acked_at) else { return false };
        let recent = since + (self.latest - since) / 2;
        let others = self.seats.iter().enumerate().filter(|(other, _)| *other != id);
        let mut others = others.filter_map(|(_, seat)| seat.as_ref()?.delivered_at);
        others.any(|at| at > recent)
    }

    pub(super) fn on_spurious(&mut self, id: usize, spurious: &Spurious<'_>) {
        match *spurious {
            Spurious::Loss { now, packet } => {
                let now = self.advance(now);
                let number = self.seat(id).and_then(|seat| seat.numbers.on_acked(packet.number));
                let Some(number) = number else { return };
                let packet = &AckedPacket { number, ..*packet };
                self.controller.on_spurious(&Spurious::Loss { now, packet });
            }
            // A later timeout, of another member, is not undone by this.
            Spurious::Timeout { now } if self.timed_out == Some(id) => {
                let now = self.advance(now);
                self.controller.on_spurious(&Spurious::Timeout { now });
            }
            Spurious::Timeout { .. } => {}
        }
    }

    pub(super) fn on_path_change(&mut self, id: usize, now: Time) {
        let now = self.advance(now);
        if let Some(seat) = self.seat(id) {
            // Datapaths report nothing more of what was sent on the old path.
            seat.numbers.give_up();
        }
        self.controller.on_path_change(now);
    }

    /// That the layer below refuses one flow's data limits the group only if no other has any.
    pub(super) fn on_block(&mut self, id: usize, block: &Block) {
        if self.others_wait(id) {
            return;
        }
        let now = self.advance(block.now);
        self.controller.on_block(&Block { now, ..*block });
    }

    pub(super) fn on_mark(&mut self, mark: &Mark<'_>) {
        let now = self.advance(mark.now);
        let Self { controller, rtt, next_number, in_flight, acked, .. } = self;
        // The member's number means nothing to the group: that of the same ack's newest packet does.
        let newest = acked.iter().map(|packet| packet.number).max().unwrap_or(0);
        // The ack has settled what the group has in flight already.
        let freed = mark.prior_in_flight.saturating_sub(mark.in_flight);
        controller.on_mark(&Mark {
            now,
            packets: mark.packets,
            newest,
            prior_in_flight: *in_flight + freed,
            in_flight: *in_flight,
            next_number: *next_number,
            rtt,
        });
    }
}
