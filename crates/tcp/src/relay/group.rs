//! Several flows to one peer under one controller.
//!
//! To its gate, a flow's [`Member`] is a controller like any other. It passes what the gate says on
//! to the group's controller, with numbers and bytes in flight of the whole group, and answers with
//! the flow's part of that controller's window.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cellpace_base::{Span, Time};
use cellpace_cc::{
    Ack, AckedPacket, Block, Controller, ControllerSpec, Event, Loss, LostPacket, Mark, Pacing,
    Permit, Rate, RttEstimator, SentPacket, Setup, Spurious, Stamp, Timeout,
};

use crate::FlowShare;

/// In place of windows that have no end.
const MOST: u64 = 1 << 50;

/// So long, and a retransmission timeout, a flow may go without an ack until what it has in flight
/// counts no more: a peer that does not read one connection must not stop the others.
const PATIENCE: Span = Span::from_secs(1);

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
        share: FlowShare,
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
    /// When it was heard of last, or began to wait to be heard of.
    heard_at: Time,
    /// It was not heard of for long: its bytes in flight do not count.
    stuck: bool,
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
        let heard = after < before || before == 0;
        let latest = self.latest;
        let Some(seat) = self.seat(id) else { return };
        seat.in_flight = after;
        if heard {
            seat.heard_at = latest;
        }
        let was_stuck = heard && std::mem::replace(&mut seat.stuck, false);
        let counted = if seat.stuck || was_stuck { 0 } else { before };
        let counts = if seat.stuck { 0 } else { after };
        self.in_flight = (self.in_flight + counts).saturating_sub(counted);
        self.divided = None;
        self.freed |= after < before;
    }

    /// When a member that is not heard of stops to count, in its present state.
    fn stuck_at(&self, seat: &Seat) -> Option<Time> {
        let counts = seat.in_flight > 0 && !seat.stuck;
        counts.then(|| seat.heard_at + PATIENCE + self.rtt.rto())
    }

    fn pass_over_stuck(&mut self) {
        for id in 0..self.seats.len() {
            let at = self.seats[id].as_ref().and_then(|seat| self.stuck_at(seat));
            if at.is_none_or(|at| at > self.latest) {
                continue;
            }
            let Some(seat) = self.seat(id) else { continue };
            seat.stuck = true;
            let in_flight = seat.in_flight;
            self.in_flight = self.in_flight.saturating_sub(in_flight);
            self.divided = None;
            self.freed = true;
        }
    }

    fn divide(&mut self) {
        let window = self.controller.cwnd().min(MOST);
        if self.divided == Some(window) {
            return;
        }
        self.claims.clear();
        self.claims.extend(self.seats.iter().map(|seat| {
            let Some(seat) = seat.filter(|seat| !seat.stuck) else {
                return Claim { weight: 0, demand: 0, share: 0 };
            };
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

    /// What a member may have leave: of the kind that the controller grants to the group.
    fn permit(&mut self, id: usize) -> Permit {
        let permit = self.controller.permit();
        let total = permit.remaining(self.in_flight);
        let in_flight = self.seat(id).map_or(0, |seat| seat.in_flight);
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
        match permit {
            Permit::Window(_) => Permit::Window(in_flight.saturating_add(allowed)),
            Permit::Budget(_) => Permit::Budget(allowed),
        }
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
        locked.seats[id] = Some(Seat {
            weight,
            in_flight: 0,
            waiting: 0,
            heard_at: Time::ZERO,
            stuck: false,
            place: None,
        });
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
    pub(crate) fn set_waiting(&self, now: Time, bytes: u64) {
        let (mut group, id) = self.group();
        group.now(now);
        if bytes > 0 && group.line.contains(&id) {
            group.pass_over_stuck();
        }
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

    fn on_mark(&mut self, mark: &Mark<'_>) {
        let (mut group, _) = self.group();
        let now = group.now(mark.now);
        let Group { controller, rtt, next_number, in_flight, acked, .. } = &mut *group;
        // The member's number means nothing to the group: that of the same ack's newest packet does.
        let newest = acked.iter().map(|packet| packet.number).max().unwrap_or(0);
        let mark =
            Mark { now, newest, in_flight: *in_flight, next_number: *next_number, rtt, ..*mark };
        controller.on_mark(&mark);
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

    fn permit(&self) -> Permit {
        let (mut group, id) = self.group();
        group.permit(id)
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
        let (group, id) = self.group();
        let own = group.controller.next_deadline();
        if !group.line.contains(&id) {
            return own;
        }
        let stuck = group.seats.iter().flatten().filter_map(|seat| group.stuck_at(seat)).min();
        [own, stuck.filter(|at| *at > group.latest)].into_iter().flatten().min()
    }

    fn on_deadline(&mut self, now: Time) {
        let (mut group, _) = self.group();
        let now = group.now(now);
        // The gate asks whenever something is due, be it only that a member is stuck.
        if group.controller.next_deadline().is_some_and(|time| time <= now) {
            group.controller.on_deadline(now);
            group.freed = true;
        }
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.group().0.controller.poll_event()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.group().0.controller.inspect(show);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Random;
    use proptest::prelude::*;

    use crate::books::Books;

    const MSS: u64 = 1448;
    const WIRE: u64 = 1500;

    fn shares(window: u64, claims: &[(u32, u64)]) -> Vec<u64> {
        let claim = |&(weight, demand)| Claim { weight, demand, share: 0 };
        let mut claims: Vec<Claim> = claims.iter().map(claim).collect();
        divide(window, &mut claims);
        claims.iter().map(|claim| claim.share).collect()
    }

    #[test]
    fn the_window_is_divided_by_weight() {
        assert_eq!(shares(400, &[(1, 1000), (1, 1000), (2, 1000)]), [100, 100, 200]);
    }

    #[test]
    fn an_idle_flows_share_goes_to_the_others() {
        assert_eq!(shares(400, &[(1, 1000), (1, 1000), (2, 0)]), [200, 200, 0]);
        assert_eq!(shares(400, &[(1, 1000), (1, 1000), (2, 40)]), [180, 180, 40]);
    }

    #[test]
    fn what_is_left_over_twice_is_divided_twice() {
        // 10 is content at once; 95 only when that has raised the level from 75 to 97.
        assert_eq!(shares(300, &[(1, 10), (1, 95), (1, 1000), (1, 1000)]), [10, 95, 97, 97]);
    }

    proptest! {
        #[test]
        fn max_min_fairness_holds(
            window in 0..MOST,
            claims in prop::collection::vec((1u32..100, 0u64..1 << 40), 1..20),
        ) {
            let shares = shares(window, &claims);
            prop_assert!(shares.iter().map(|share| u128::from(*share)).sum::<u128>() <= window.into());
            // Who does not get all it could use gets, for its weight, no less than anybody.
            for (at, (weight, demand)) in claims.iter().enumerate() {
                prop_assert!(shares[at] <= *demand);
                if shares[at] == *demand {
                    continue;
                }
                for (other, (other_weight, _)) in claims.iter().enumerate() {
                    let own = u128::from(shares[at] + 1) * u128::from(*other_weight);
                    prop_assert!(own + u128::from(*other_weight) >= u128::from(shares[other]) * u128::from(*weight));
                }
            }
        }
    }

    struct Flow {
        gate: Books,
        member: Member,
        queued: usize,
    }

    impl Flow {
        /// Sends what it may.
        fn release(&mut self, now: Time) {
            loop {
                self.member.set_waiting(now, self.queued as u64);
                let bytes = self.gate.next_call(now, self.queued);
                if bytes == 0 {
                    return;
                }
                self.gate.on_taken(now, bytes, self.queued);
                self.queued -= bytes;
            }
        }
    }

    fn flows(cc: &str, weights: &[u32]) -> Vec<Flow> {
        let groups = Groups::default();
        let cc: ControllerSpec = cc.parse().unwrap();
        let flow = |weight: &u32| {
            let random = Random::seeded(1, 0);
            let setup = Setup { mss: WIRE, start: Time::ZERO, random };
            let share = FlowShare { weight: *weight };
            let member = groups.join(IpAddr::from([192, 0, 2, 1]), &cc, share, setup);
            let gate = Books::new(Box::new(member.clone()), Time::ZERO, MSS, WIRE - MSS);
            Flow { gate, member, queued: 0 }
        };
        weights.iter().map(flow).collect()
    }

    fn in_flight(flows: &[Flow]) -> Vec<u64> {
        flows.iter().map(|flow| flow.gate.in_flight() / WIRE).collect()
    }

    #[test]
    fn three_flows_share_one_window_by_weight() {
        let mut flows = flows("fixed:cwnd=40pkts", &[1, 1, 2]);
        flows[0].queued = 1 << 20;
        flows[0].release(Time::ZERO);
        assert_eq!(in_flight(&flows), [40, 0, 0], "alone it has all");
        for at in [1, 2] {
            flows[at].queued = 1 << 20;
            flows[at].release(Time::from_millis(1));
        }
        assert_eq!(in_flight(&flows), [40, 0, 0], "never more than the window");
        for round in 1..20 {
            let now = Time::from_millis(40 * round);
            for flow in &mut flows {
                let taken = flow.gate.taken();
                flow.gate.on_acked(now, taken);
            }
            for at in [1, 2, 0] {
                flows[at].queued = 1 << 20;
                let member = flows[at].member.clone();
                member.set_waiting(now, 1 << 20);
            }
            for flow in &mut flows {
                flow.release(now);
            }
        }
        assert_eq!(in_flight(&flows), [10, 10, 20]);
    }

    #[test]
    fn a_flow_that_leaves_gives_its_share_back() {
        let mut flows = flows("fixed:cwnd=40pkts", &[1, 1]);
        for flow in &mut flows {
            flow.queued = 1 << 20;
            flow.member.set_waiting(Time::ZERO, 1 << 20);
        }
        for flow in &mut flows {
            flow.release(Time::ZERO);
        }
        assert_eq!(in_flight(&flows), [20, 20]);
        let watch = flows[0].member.watch();
        flows[1].member.set_place(7);
        drop(flows.remove(0));
        let mut woken = Vec::new();
        watch.woken(|place| woken.push(place));
        assert_eq!(woken, [7]);
        flows[0].release(Time::ZERO);
        assert_eq!(in_flight(&flows), [40]);
    }

    #[test]
    fn flows_take_turns_when_the_window_is_smaller_than_their_number() {
        let mut flows = flows("fixed:cwnd=2pkts", &[1; 5]);
        for flow in &mut flows {
            flow.queued = 100 * MSS as usize;
            flow.member.set_waiting(Time::ZERO, flow.queued as u64);
        }
        let mut most = 0;
        for round in 0..50 {
            let now = Time::from_millis(round);
            // Whoever has something in flight is acked and served first; that must not help it.
            for flow in &mut flows {
                let taken = flow.gate.taken();
                flow.gate.on_acked(now, taken);
                flow.release(now);
            }
            let all: u64 = in_flight(&flows).iter().sum();
            assert!(all <= 2, "{all}");
            most = most.max(all);
        }
        assert_eq!(most, 2);
        let taken: Vec<u64> = flows.iter().map(|flow| flow.gate.taken() / MSS).collect();
        let (least, most) = (taken.iter().min().unwrap(), taken.iter().max().unwrap());
        assert!(*least > 10 && most - least <= 2, "{taken:?}");
    }

    #[test]
    fn a_flow_that_is_not_heard_of_holds_nobody_up() {
        let mut flows = flows("fixed:cwnd=10pkts", &[1, 1]);
        flows[0].queued = 1 << 20;
        flows[0].release(Time::ZERO);
        flows[1].queued = 1 << 20;
        flows[1].release(Time::from_millis(1));
        assert_eq!(in_flight(&flows), [10, 0]);
        let deadline = flows[1].gate.next_deadline(true).unwrap();
        assert_eq!(deadline, Time::from_secs(2), "a second, and the first timeout");
        flows[1].gate.on_timer(deadline);
        flows[1].release(deadline);
        assert_eq!(in_flight(&flows), [10, 10]);
        // It is heard of again, and counts.
        flows[0].gate.on_acked(deadline, 4 * MSS);
        assert_eq!(flows[0].gate.in_flight(), 6 * WIRE);
        flows[1].gate.on_acked(deadline, 2 * MSS);
        flows[1].release(deadline);
        assert_eq!(in_flight(&flows), [6, 8], "16 are more than the window");
        drop(flows.remove(1));
        flows[0].release(deadline);
        assert_eq!(in_flight(&flows), [10]);
    }

    #[test]
    fn the_controller_sees_one_flow() {
        // Numbers that are used twice, or bytes in flight that do not add up, end in a panic of
        // the overflow checks, or in a window that does not open.
        for info in cellpace_cc::registry() {
            if info.name.parse::<ControllerSpec>().unwrap().has_receiver() {
                continue;
            }
            let mut flows = flows(info.name, &[1, 3, 2]);
            for round in 1..200u64 {
                for (at, flow) in flows.iter_mut().enumerate() {
                    let now = Time::from_millis(40 * round + at as u64);
                    flow.queued = 1 << 20;
                    let taken = flow.gate.taken();
                    if round % 17 == 0 {
                        flow.gate.on_sacked(now, 1, 4);
                    } else {
                        flow.gate.on_acked(now, taken);
                    }
                    flow.gate.on_timer(now);
                    flow.release(now);
                }
            }
            for flow in &mut flows {
                let taken = flow.gate.taken();
                flow.gate.on_acked(Time::from_secs(100), taken);
                assert!(taken > 50 * MSS, "{}: {taken}", info.name);
            }
            let (group, _) = flows[0].member.group();
            assert_eq!(group.in_flight, 0, "{}", info.name);
        }
    }
}
