//! Several flows to one peer under one controller.
//!
//! To its gate, a flow's [`Member`] is a controller like any other. It passes what the gate says on
//! to the group's controller, with numbers and bytes in flight of the whole group, and answers with
//! the flow's part of that controller's window.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cellpace_base::Time;
use cellpace_cc::{
    Ack, AckedPacket, Block, Controller, ControllerSpec, Event, Loss, LostPacket, Pacing, Rate,
    RttEstimator, SentPacket, Setup, Spurious, Stamp, Timeout,
};

use crate::Share;

/// In place of windows that have no end.
const MOST: u64 = 1 << 50;

/// The groups of an engine.
#[derive(Default)]
pub(crate) struct Groups {
    known: Mutex<HashMap<Key, Weak<Mutex<Group>>>>,
}

/// Who shares: flows of the same process (a child of `fork` begins anew) to the same address under
/// the same controller string.
type Key = (u32, IpAddr, String);

impl Groups {
    /// Makes a flow a member of the group it belongs to.
    pub(crate) fn join(
        &self,
        peer: IpAddr,
        cc: &ControllerSpec,
        share: Share,
        setup: Setup,
    ) -> Member {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == known.capacity() {
            // Before it grows: groups that nobody is in any more.
            known.retain(|_, group| group.strong_count() > 0);
        }
        let slot = known.entry((std::process::id(), peer, cc.to_string())).or_default();
        let group = slot.upgrade().unwrap_or_else(|| {
            let mss = setup.mss;
            let group = Arc::new(Mutex::new(Group::new(cc.build(setup), mss)));
            *slot = Arc::downgrade(&group);
            group
        });
        Member::new(group, share.weight.max(1))
    }
}

/// One flow's claim to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    weight: u32,
    /// Bytes that it could use.
    demand: u64,
    /// Bytes that it gets.
    share: u64,
}

/// Divides `window` by weighted max-min fairness: nobody gets more than it can use, and what that
/// leaves over goes to the others in the proportion of their weights. The shares never sum up to
/// more than the window.
fn divide(window: u64, claims: &mut [Claim]) {
    let mut left = u128::from(window);
    let mut weights: u128 = claims.iter().map(|claim| u128::from(claim.weight)).sum();
    for claim in &mut *claims {
        claim.share = u64::MAX;
    }
    loop {
        let (level, of) = (left, weights.max(1));
        let mut contented = false;
        for claim in claims.iter_mut().filter(|claim| claim.share == u64::MAX) {
            let fair = level * u128::from(claim.weight) / of;
            if u128::from(claim.demand) <= fair {
                claim.share = claim.demand;
                left -= u128::from(claim.demand);
                weights -= u128::from(claim.weight);
                contented = true;
            }
        }
        if !contented {
            break;
        }
    }
    for claim in claims.iter_mut().filter(|claim| claim.share == u64::MAX) {
        claim.share = (left * u128::from(claim.weight) / weights.max(1)) as u64;
    }
}

/// What the flows of a group have in common.
struct Group {
    controller: Box<dyn Controller>,
    rtt: RttEstimator,
    mss: u64,
    next_number: u64,
    in_flight: u64,
    latest: Time,
    /// By member; the places of those that left are reused.
    seats: Vec<Option<Seat>>,
    claims: Vec<Claim>,
    /// The window that `claims` divides; `None` when they are out of date.
    divided: Option<u64>,
    /// Members that the window keeps waiting, the one first that waits longest.
    line: VecDeque<usize>,
    /// Whether there may be room for them now.
    freed: bool,
    acked: Vec<AckedPacket>,
    lost: Vec<LostPacket>,
}

#[derive(Debug, Clone, Copy)]
struct Seat {
    weight: u32,
    in_flight: u64,
    waiting: u64,
    /// Where the engine has the flow.
    place: Option<usize>,
}

impl Group {
    fn new(controller: Box<dyn Controller>, mss: u64) -> Self {
        Self {
            controller,
            rtt: RttEstimator::default(),
            mss,
            next_number: 0,
            in_flight: 0,
            latest: Time::ZERO,
            seats: Vec::new(),
            claims: Vec::new(),
            divided: None,
            line: VecDeque::new(),
            freed: false,
            acked: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn seat(&mut self, id: usize) -> Option<&mut Seat> {
        self.seats.get_mut(id)?.as_mut()
    }

    fn now(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Bytes of a member in flight changed.
    fn settle(&mut self, id: usize, before: u64, after: u64) {
        self.in_flight = (self.in_flight + after).saturating_sub(before);
        if let Some(seat) = self.seat(id) {
            seat.in_flight = after;
        }
        self.divided = None;
        self.freed |= after < before;
    }

    fn divide(&mut self) {
        let window = self.controller.cwnd().min(MOST);
        if self.divided == Some(window) {
            return;
        }
        self.claims.clear();
        self.claims.extend(self.seats.iter().map(|seat| {
            let Some(seat) = seat else { return Claim { weight: 0, demand: 0, share: 0 } };
            // With room for headers, and never so little that a packet does not fit.
            let more = if seat.waiting > 0 { seat.waiting * 9 / 8 + self.mss } else { 0 };
            Claim { weight: seat.weight, demand: seat.in_flight + more, share: 0 }
        }));
        divide(window, &mut self.claims);
        self.divided = Some(window);
    }

    fn share(&mut self, id: usize) -> u64 {
        self.divide();
        self.claims.get(id).map_or(0, |claim| claim.share)
    }

    fn allowance(&mut self, id: usize, in_flight: u64) -> u64 {
        let total = self.controller.allowance(self.in_flight);
        let own = match self.share(id).saturating_sub(in_flight) {
            // Parts smaller than a packet take turns.
            small if small < self.mss && in_flight == 0 => {
                if self.is_next(id) {
                    self.mss
                } else {
                    0
                }
            }
            own => own,
        };
        let allowed = own.min(total);
        if allowed < self.mss && !self.line.contains(&id) {
            self.line.push_back(id);
        }
        allowed
    }

    /// Whether nobody without a packet in flight has waited longer.
    fn is_next(&self, id: usize) -> bool {
        let empty_handed = |id: &&usize| self.seats[**id].is_some_and(|seat| seat.in_flight == 0);
        self.line.iter().find(empty_handed).is_none_or(|next| *next == id)
    }

    fn leave_line(&mut self, id: usize) {
        if let Some(at) = self.line.iter().position(|waiting| *waiting == id) {
            self.line.remove(at);
        }
    }

    /// Whether a member other than this one has data that waits.
    fn others_wait(&self, id: usize) -> bool {
        let mut others = self.seats.iter().enumerate().filter(|(other, _)| *other != id);
        others.any(|(_, seat)| seat.is_some_and(|seat| seat.waiting > 0))
    }
}

/// A flow's seat in a group. The flow leaves it when all clones are gone.
#[derive(Clone)]
pub(crate) struct Member {
    seat: Arc<Occupied>,
}

struct Occupied {
    group: Arc<Mutex<Group>>,
    id: usize,
}

impl Drop for Occupied {
    fn drop(&mut self) {
        let (mut group, id) = (lock(&self.group), self.id);
        let in_flight = group.seat(id).map_or(0, |seat| seat.in_flight);
        group.settle(id, in_flight, 0);
        group.leave_line(id);
        group.seats[id] = None;
        group.freed = true;
    }
}

fn lock(group: &Mutex<Group>) -> MutexGuard<'_, Group> {
    // A panic elsewhere leaves figures, at worst old ones.
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    fn new(group: Arc<Mutex<Group>>, weight: u32) -> Self {
        let mut locked = lock(&group);
        let free = locked.seats.iter().position(Option::is_none);
        let id = free.unwrap_or(locked.seats.len());
        if free.is_none() {
            locked.seats.push(None);
        }
        locked.seats[id] = Some(Seat { weight, in_flight: 0, waiting: 0, place: None });
        locked.divided = None;
        drop(locked);
        Self { seat: Arc::new(Occupied { group, id }) }
    }

    fn group(&self) -> (MutexGuard<'_, Group>, usize) {
        (lock(&self.seat.group), self.seat.id)
    }

    /// Where the engine has the flow.
    pub(crate) fn set_place(&self, place: usize) {
        let (mut group, id) = self.group();
        if let Some(seat) = group.seat(id) {
            seat.place = Some(place);
        }
    }

    /// The flow has so many bytes that could be sent.
    pub(crate) fn set_waiting(&self, bytes: u64) {
        let (mut group, id) = self.group();
        let Some(seat) = group.seat(id) else { return };
        let before = std::mem::replace(&mut seat.waiting, bytes);
        if before == bytes {
            return;
        }
        group.divided = None;
        if bytes == 0 {
            group.freed = true;
            group.leave_line(id);
        }
    }

    /// A view of the group that outlives the flow's membership.
    pub(crate) fn watch(&self) -> Watch {
        Watch(self.seat.group.clone())
    }
}

/// Tells who may go on after something happened to a member.
pub(crate) struct Watch(Arc<Mutex<Group>>);

impl Watch {
    /// The places of the flows for which there may be room now, the one first that waits longest.
    pub(crate) fn woken(&self, mut wake: impl FnMut(usize)) {
        let mut group = lock(&self.0);
        if !std::mem::take(&mut group.freed) {
            return;
        }
        for id in &group.line {
            if let Some(place) = group.seats[*id].and_then(|seat| seat.place) {
                wake(place);
            }
        }
    }
}

/// The gate has no use for the half of a stamp that travels: it holds the packet's number in the
/// group.
fn outer(number: u64, stamp: Stamp) -> Stamp {
    Stamp { wire: number, ..stamp }
}

fn inner(stamp: Stamp) -> Stamp {
    Stamp { wire: 0, ..stamp }
}

fn inner_acked(packet: &AckedPacket) -> AckedPacket {
    AckedPacket { number: packet.stamp.wire, stamp: inner(packet.stamp), ..*packet }
}

impl Controller for Member {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let (mut group, id) = self.group();
        let now = group.now(packet.now);
        group.settle(id, packet.in_flight - packet.bytes, packet.in_flight);
        group.leave_line(id);
        let number = group.next_number;
        group.next_number += 1;
        let app_limited = packet.app_limited && !group.others_wait(id);
        let in_flight = group.in_flight;
        let packet = SentPacket { now, number, in_flight, app_limited, ..*packet };
        outer(number, group.controller.on_sent(&packet))
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let (mut group, id) = self.group();
        let now = group.now(ack.now);
        let prior_in_flight = group.in_flight;
        group.settle(id, ack.prior_in_flight, ack.in_flight);
        group.rtt.sample(ack.newest().rtt);
        let Group { controller, rtt, next_number, in_flight, acked, .. } = &mut *group;
        acked.clear();
        acked.extend(ack.packets.iter().map(inner_acked));
        controller.on_ack(&Ack {
            now,
            packets: acked,
            prior_in_flight,
            in_flight: *in_flight,
            next_number: *next_number,
            rtt,
        });
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let (mut group, id) = self.group();
        let now = group.now(loss.now);
        let prior_in_flight = group.in_flight;
        group.settle(id, loss.prior_in_flight, loss.in_flight);
        let Group { controller, rtt, next_number, in_flight, lost, .. } = &mut *group;
        lost.clear();
        lost.extend(loss.packets.iter().map(|packet| LostPacket {
            number: packet.stamp.wire,
            stamp: inner(packet.stamp),
            ..*packet
        }));
        controller.on_loss(&Loss {
            now,
            packets: lost,
            prior_in_flight,
            in_flight: *in_flight,
            next_number: *next_number,
            rtt,
        });
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let (mut group, id) = self.group();
        let now = group.now(timeout.now);
        let prior_in_flight = group.in_flight;
        group.settle(id, timeout.prior_in_flight, 0);
        let next_number = group.next_number;
        group.controller.on_timeout(&Timeout { now, prior_in_flight, next_number, ..*timeout });
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        let (mut group, _) = self.group();
        match *spurious {
            Spurious::Loss { now, packet } => {
                let now = group.now(now);
                let packet = &inner_acked(packet);
                group.controller.on_spurious(&Spurious::Loss { now, packet });
            }
            // A gate has no timeouts.
            Spurious::Timeout { .. } => {}
        }
    }

    /// That TCP refuses one flow's data limits the group only if no other has any.
    fn on_block(&mut self, block: &Block) {
        let (mut group, id) = self.group();
        if group.others_wait(id) {
            return;
        }
        let now = group.now(block.now);
        group.controller.on_block(&Block { now, stamp: inner(block.stamp), ..*block });
    }

    fn on_path_change(&mut self, now: Time) {
        let (mut group, _) = self.group();
        let now = group.now(now);
        group.controller.on_path_change(now);
    }

    fn cwnd(&self) -> u64 {
        let (mut group, id) = self.group();
        match group.controller.cwnd() {
            u64::MAX => u64::MAX,
            _ => group.share(id),
        }
    }

    fn allowance(&self, in_flight: u64) -> u64 {
        let (mut group, id) = self.group();
        group.allowance(id, in_flight)
    }

    fn pacing(&self) -> Option<Pacing> {
        let (mut group, id) = self.group();
        let pacing = group.controller.pacing()?;
        let share = group.share(id).max(1) as f64;
        let all = group.claims.iter().map(|claim| claim.share).sum::<u64>().max(1) as f64;
        let rate = pacing.rate.as_bytes_per_sec() * (share / all).min(1.0);
        Some(Pacing { rate: Rate::from_bytes_per_sec(rate), ..pacing })
    }

    fn next_deadline(&self) -> Option<Time> {
        self.group().0.controller.next_deadline()
    }

    fn on_deadline(&mut self, now: Time) {
        let (mut group, _) = self.group();
        let now = group.now(now);
        group.controller.on_deadline(now);
        group.freed = true;
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.group().0.controller.poll_event()
    }

    fn snapshot(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.group().0.controller.snapshot(show);
    }
}
