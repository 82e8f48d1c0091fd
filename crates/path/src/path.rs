//! One direction of a path: delay, then random loss, then queue and link.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use cellpace_base::{Random, Rate, Span, Time};

use crate::error::PathError;
use crate::handover::interrupted;
use crate::impair::Impairments;
use crate::jitter::Jitter;
use crate::link::{PathEnd, SharedLink};
use crate::queue::Bottleneck;
use crate::rrc::Rrc;
use crate::send_jitter::SendJitter;
use crate::{
    Delay, DelaySpec, DropReason, Fate, Handover, Link, LossModel, Packet, PacketRecord, PathSpec,
    Queue, Schedule, TraceSpec,
};

impl PathSpec {
    /// The path at time zero; all its randomness comes from `seed`.
    ///
    /// # Errors
    /// When the trace cannot be built.
    pub fn build(&self, seed: u64) -> Result<Path, PathError> {
        self.build_seeded(seed, seed)
    }

    /// The reverse direction of a path built with the same seed: the same delays at the same
    /// times, everything else drawn on its own.
    ///
    /// # Errors
    /// When the trace cannot be built.
    pub fn build_reverse(&self, seed: u64) -> Result<Path, PathError> {
        // Only the delays are shared: acks must not be lost whenever data is.
        self.build_seeded(reverse_seed(seed), seed)
    }

    fn build_seeded(&self, seed: u64, delay_seed: u64) -> Result<Path, PathError> {
        let schedule = self.schedule(seed)?;
        let next_change = self.handovers.first().map_or(Time::MAX, next_step);
        Ok(Path {
            delay: self.build_delay(delay_seed),
            base_delays: self.build_base_delay(delay_seed).into_iter().collect(),
            in_order: VecDeque::new(),
            out_of_order: BinaryHeap::new(),
            arrivals: 0,
            loss: self.build_loss(seed),
            link: schedule.map(|of| PathEnd::Own(Link::new(self.build_queue(seed), of))),
            handovers: self.handovers.iter().copied().collect(),
            next_change,
            next: next_change,
            forwarded: VecDeque::new(),
            held: Vec::new(),
            impair: self.build_impairments(seed),
            jitter: self.jitter.build(Random::seeded(seed, JITTER_STREAM)),
            rrc: self.rrc.build(),
            send_jitter: SendJitter::new(&self.send_jitter, seed),
        })
    }

    /// What turns the running path of `before` into that of this description, as if this had been
    /// so from time zero: steps and draws count from there. Both must have the same handovers, the
    /// same RRC and the same jitter of both kinds.
    ///
    /// # Errors
    /// When the trace cannot be built, or this has none and `before` has one.
    pub fn change_from(&self, before: &Self, seed: u64) -> Result<PathChange, PathError> {
        self.change_seeded(before, seed, seed)
    }

    /// The same for a path from [`build_reverse`](Self::build_reverse).
    ///
    /// # Errors
    /// As for [`change_from`](Self::change_from).
    pub fn change_reverse_from(&self, before: &Self, seed: u64) -> Result<PathChange, PathError> {
        self.change_seeded(before, reverse_seed(seed), seed)
    }

    /// The opportunities of the path that [`build`](Self::build) makes from the same seed, handovers
    /// included: what its capacity is counted from. `None`: it has no limit.
    ///
    /// # Errors
    /// When the trace cannot be built.
    pub fn schedule(&self, seed: u64) -> Result<Option<Box<dyn Schedule>>, PathError> {
        let schedule = self.trace.as_ref().map(|trace| trace.build(seed)).transpose()?;
        Ok(schedule.map(|schedule| interrupted(schedule, &self.handovers)))
    }

    /// The same of the path that [`build_reverse`](Self::build_reverse) makes from that seed.
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule).
    pub fn schedule_reverse(&self, seed: u64) -> Result<Option<Box<dyn Schedule>>, PathError> {
        self.schedule(reverse_seed(seed))
    }

    fn change_seeded(
        &self,
        before: &Self,
        seed: u64,
        delay_seed: u64,
    ) -> Result<PathChange, PathError> {
        // What waits at the link would have nowhere to go.
        if self.trace.is_none() && before.trace.is_some() {
            return Err(PathError::Form {
                text: "unlimited".to_owned(),
                form: "a trace: a link with a limit keeps one",
            });
        }
        let new_trace = self.trace != before.trace;
        // A queue of 2bdp or 500ms has another size as soon as the rate or the RTT is another one.
        let new_size = self.queue.is_relative() && (new_trace || self.rtt != before.rtt);
        // A path without a trace has no link, so a queue comes with the first trace.
        let new_queue = self.queue != before.queue || before.trace.is_none() || new_size;
        let impair = (self.impair != before.impair).then(|| self.build_impairments(seed));
        Ok(PathChange {
            schedule: if new_trace { self.schedule(seed)? } else { None },
            base_delay: new_trace.then(|| self.build_base_delay(delay_seed)),
            queue: new_queue.then(|| self.build_queue(seed)),
            delay: (self.delay != before.delay).then(|| self.build_delay(delay_seed)),
            loss: (self.loss != before.loss).then(|| self.build_loss(seed)),
            impair,
        })
    }

    fn build_queue(&self, seed: u64) -> Box<dyn Queue> {
        self.queue.build(Random::seeded(seed, QUEUE_STREAM), || self.bottleneck(seed))
    }

    fn bottleneck(&self, seed: u64) -> Bottleneck {
        // A trace's own delay is part of the RTT that a sender sees, and so of a BDP.
        let brought = self.trace.as_ref().and_then(TraceSpec::base_delay).map(DelaySpec::mean);
        let rate = self.trace.as_ref().map_or(Rate::from_bps(0), |trace| trace.mean_rate(seed));
        Bottleneck { rate, rtt: self.rtt.mean() + brought.unwrap_or(Span::ZERO) }
    }

    fn build_delay(&self, seed: u64) -> Delay {
        self.delay.build(&mut Random::seeded(seed, DELAY_STREAM))
    }

    fn build_base_delay(&self, seed: u64) -> Option<Delay> {
        self.trace.as_ref()?.build_base_delay(&mut Random::seeded(seed, BASE_DELAY_STREAM))
    }

    fn build_loss(&self, seed: u64) -> LossModel {
        self.loss.build(Random::seeded(seed, LOSS_STREAM))
    }

    fn build_impairments(&self, seed: u64) -> Option<Impairments> {
        self.impair.build(Random::seeded(seed, IMPAIR_STREAM))
    }
}

/// The streams of draws of a path's parts, the same in every path, so that two paths of the same
/// seed (the directions of one RTT) draw the same delays. The trace's is in `schedule`.
const QUEUE_STREAM: u64 = 1;
const LOSS_STREAM: u64 = 2;
const DELAY_STREAM: u64 = 3;
const BASE_DELAY_STREAM: u64 = 5;
const REVERSE_STREAM: u64 = 6;
const IMPAIR_STREAM: u64 = 7;
const JITTER_STREAM: u64 = 8;

/// Packets at the end of those in order that one which arrives earlier may pass without going to
/// the heap: jitter of senders moves them by a few places.
const NEAR_END: usize = 4;

/// The seed of all of a reverse direction but its delays.
fn reverse_seed(seed: u64) -> u64 {
    Random::seeded(seed, REVERSE_STREAM).bits()
}

/// When a handover next does something: at its begin only where that forwards packets.
fn next_step(handover: &Handover) -> Time {
    if handover.reorder.is_some() { handover.at } else { handover.end() }
}

/// The parts of a running path that a change replaces; `None`: stays as it is.
pub struct PathChange {
    schedule: Option<Box<dyn Schedule>>,
    base_delay: Option<Option<Delay>>,
    queue: Option<Box<dyn Queue>>,
    delay: Option<Delay>,
    loss: Option<LossModel>,
    impair: Option<Option<Impairments>>,
}

/// One direction of a path, advanced by the owner of the clock.
pub struct Path {
    delay: Delay,
    /// Those of the trace, and where all of the delay lies behind a link also of that link's.
    base_delays: Vec<Delay>,
    /// Packets on their way to the queue that arrive in the order of entry: nearly all.
    in_order: VecDeque<WaitingPacket>,
    /// Those that arrive before one that entered earlier (of a flow with a longer way), by
    /// arrival, then by order of entry.
    out_of_order: BinaryHeap<Reverse<WaitingPacket>>,
    arrivals: u64,
    loss: LossModel,
    link: Option<PathEnd>,
    /// Handovers that are not over, in the order of time.
    handovers: VecDeque<Handover>,
    /// When the next of these begins or ends, as far as that does anything, or forwarded packets
    /// arrive.
    next_change: Time,
    /// When anything happens next, or `Time::MAX`: asked for far more often than it changes.
    next: Time,
    /// What handovers forward to the new path's queue or a promotion holds up, and when it is there.
    forwarded: VecDeque<(Time, Packet)>,
    /// Packets that an interruption keeps from leaving a path without a link.
    held: Vec<Packet>,
    impair: Option<Impairments>,
    jitter: Option<Jitter>,
    rrc: Option<Rrc>,
    send_jitter: Option<SendJitter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WaitingPacket {
    at: Time,
    order: u64,
    packet: Packet,
}

impl Ord for WaitingPacket {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for WaitingPacket {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Path {
    /// A packet enters at `packet.sent_at`, which should not lie before that of an earlier one.
    /// Its flow's own delay, if any, comes on top of the path's and is given as `extra`; as long
    /// as that is the same for all packets of a flow, they arrive in the order of entry.
    pub fn push_after(&mut self, packet: Packet, extra: Span) {
        let mut at = self.delay.arrival(packet.sent_at);
        for base in &mut self.base_delays {
            at = base.arrival(at);
        }
        at += extra;
        if let Some(jitter) = &mut self.send_jitter {
            at = jitter.arrival(packet.flow, at);
        }
        let in_order = match &mut self.impair {
            Some(impair) => {
                let hold = impair.hold();
                at += hold;
                hold.is_zero()
            }
            None => true,
        };
        // Ties at one instant go by the order of entry, as in a queue.
        self.arrivals += 1;
        // An entry can only bring the next deadline nearer, so nothing else is looked at.
        self.next = self.next.min(at);
        let waiting = WaitingPacket { at, order: self.arrivals, packet };
        // The usual case, which costs no heap: a constant delay keeps packets in order.
        if in_order && self.in_order.back().is_none_or(|last| last.at <= at) {
            self.in_order.push_back(waiting);
            return;
        }
        // Not a packet that `reorder` holds back: at the end of the list it would send all those
        // that overtake it to the heap.
        match self.place_in_order(at).filter(|_| in_order) {
            Some(place) => self.in_order.insert(place, waiting),
            None => self.out_of_order.push(Reverse(waiting)),
        }
    }

    /// Where a packet belongs among those in order, if that is at their end or close to it.
    fn place_in_order(&self, at: Time) -> Option<usize> {
        let len = self.in_order.len();
        let after = (len.saturating_sub(NEAR_END)..len).rev().find(|i| self.in_order[*i].at <= at);
        after.map(|index| index + 1).or((len <= NEAR_END).then_some(0))
    }

    /// A packet enters at `packet.sent_at`.
    pub fn push(&mut self, packet: Packet) {
        self.push_after(packet, Span::ZERO);
    }

    /// Takes over the delay that the trace of another path brings, for a link behind which all of the
    /// delay lies.
    pub fn take_base_delay(&mut self, from: &mut Self) {
        self.base_delays.append(&mut from.base_delays);
    }

    /// The other direction of the same radio link: it is idle or awake as a whole.
    pub fn share_radio(&mut self, other: &Self) {
        self.rrc.clone_from(&other.rrc);
    }

    /// Ends at a link that several users share, in place of one of its own. Handovers, jitter and
    /// impairments are those of this path.
    pub fn end_at(&mut self, link: Box<dyn SharedLink>) {
        self.link = Some(PathEnd::Shared(link));
    }

    /// When the model next wants to be advanced.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        (self.next != Time::MAX).then_some(self.next)
    }

    /// To be called after each change but that of a packet that enters.
    fn look_ahead(&mut self) {
        let departure = self.link.as_ref().and_then(PathEnd::next_deadline);
        let late = self.jitter.as_ref().and_then(Jitter::next_deadline);
        let or_never = |time: Option<Time>| time.unwrap_or(Time::MAX);
        let behind = or_never(departure).min(or_never(late));
        self.next = self.next_arrival().min(self.next_change).min(behind);
    }

    /// Lets happen everything up to `now`; what became of packets is added to `fates` in the
    /// order of time. Opportunities go before arrivals of the same instant.
    pub fn advance(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        let from = fates.len();
        loop {
            let arrival = self.next_arrival();
            let change = self.next_change;
            // A change of the path goes before the arrivals of its instant, which already meet it.
            if change <= now && change <= arrival {
                self.meet_change(change, fates);
            } else if arrival <= now {
                self.arrive(arrival, fates);
            } else {
                break;
            }
        }
        self.advance_link(now, fates);
        // Jitter before impairments: a copy made earlier would leave without its packet's delay.
        if let Some(jitter) = &mut self.jitter {
            jitter.apply(now, fates, from);
        }
        if let Some(impair) = &mut self.impair {
            impair.apply(fates, from);
        }
        self.look_ahead();
    }

    /// The next packet reaches the queue.
    #[inline]
    fn arrive(&mut self, at: Time, fates: &mut Vec<PacketRecord>) {
        // An opportunity of this very instant is gone before the packet arrives: it cannot use it.
        self.advance_link(at, fates);
        let Some(mut packet) = self.pop_arrival() else { return };
        packet.enqueued_at = at;
        packet.dequeued_at = at;
        packet.departed_at = at;
        // In front of the queue: what is lost at random takes no room in it.
        if self.loss.loses(at) {
            fates.push(PacketRecord { packet, fate: Fate::Dropped(DropReason::Random) });
            return;
        }
        let ready = self.wake(at);
        if ready > at {
            self.hold_until(ready, packet);
            self.next_change = self.next_change.min(ready);
            return;
        }
        self.enter_link(at, packet, fates);
    }

    /// Behind all that is there by then.
    fn hold_until(&mut self, ready: Time, packet: Packet) {
        let place = self.forwarded.partition_point(|(at, _)| *at <= ready);
        self.forwarded.insert(place, (ready, packet));
    }

    /// When a packet that is in front of the link at `now` can enter it.
    fn wake(&self, now: Time) -> Time {
        let Some(rrc) = &self.rrc else { return now };
        if self.link.as_ref().is_some_and(|link| link.packets() > 0) {
            rrc.keep_awake(now);
        }
        rrc.ready_at(now)
    }

    fn enter_link(&mut self, now: Time, mut packet: Packet, fates: &mut Vec<PacketRecord>) {
        let interrupted = self.handovers.front().is_some_and(|handover| handover.at <= now);
        match &mut self.link {
            Some(link) => link.push_at(now, packet, fates),
            // Without a link there is no queue that could wait, so the path itself keeps packets.
            None if interrupted => self.held.push(packet),
            None => {
                (packet.dequeued_at, packet.departed_at) = (now, now);
                fates.push(PacketRecord { packet, fate: Fate::Delivered });
            }
        }
    }

    /// A handover begins or ends at `now`, or forwarded packets or those of a promotion arrive.
    fn meet_change(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        match self.handovers.front() {
            Some(handover) if next_step(handover) > now => self.receive_forwarded(now, fates),
            Some(Handover { reorder: Some(_), .. }) => self.forward(now, fates),
            Some(_) => self.change_path(now, fates),
            None => self.receive_forwarded(now, fates),
        }
        let forwarded = self.forwarded.front().map_or(Time::MAX, |(at, _)| *at);
        self.next_change = self.handovers.front().map_or(Time::MAX, next_step).min(forwarded);
    }

    /// An interruption begins at `now`: what waits goes the longer way to the new queue.
    fn forward(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        // What the old path delivered before the interruption; its opportunity of this instant is
        // gone.
        self.advance_link(now, fates);
        let Some(handover) = self.handovers.front_mut() else { return };
        // Taken, so that the end of this handover is next.
        let Some(delay) = handover.reorder.take() else { return };
        let at = handover.end() + delay;
        let Some(link) = &mut self.link else { return };
        for packet in link.take_all(now, fates) {
            self.hold_until(at, packet);
        }
    }

    /// Packets that were forwarded or held up are in front of the link at `now`.
    fn receive_forwarded(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        self.advance_link(now, fates);
        while let Some(&(_, packet)) = self.forwarded.front().filter(|(at, _)| *at <= now) {
            self.forwarded.pop_front();
            self.enter_link(now, packet, fates);
        }
    }

    /// An interruption is over at `now`, and the path is the new one.
    fn change_path(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        let Some(handover) = self.handovers.pop_front() else { return };
        // What the old path delivered before the interruption, and nothing of this instant.
        self.advance_link(now - Span::from_nanos(1), fates);
        let dropped = Fate::Dropped(DropReason::Handover);
        let fate = if handover.queue_lost { dropped } else { Fate::Delivered };
        for mut packet in self.held.drain(..) {
            packet.dequeued_at = now;
            packet.departed_at = now;
            fates.push(PacketRecord { packet, fate });
        }
        // After the last opportunities of the old path: what they served is delivered, not lost.
        if let Some(link) = self.link.as_mut().filter(|_| handover.queue_lost) {
            link.drop_all(now, fates);
        }
        if let Some(rtt) = handover.rtt {
            let latest = self.in_order.back().map_or(Time::ZERO, |waiting| waiting.at);
            self.delay.become_constant(rtt / 2, latest);
        }
    }

    /// Changes the path at `now`, up to which it must have been [advanced](Self::advance). What is
    /// in flight stays so: packets in front of the queue keep their delay and are not overtaken,
    /// those in the queue stay in it, and are dropped only where a new queue has no room.
    pub fn change(&mut self, now: Time, change: PathChange, fates: &mut Vec<PacketRecord>) {
        match (&mut self.link, change.schedule, change.queue) {
            (Some(PathEnd::Own(link)), schedule, queue) => {
                if let Some(queue) = queue {
                    link.change_queue(now, queue, fates);
                }
                if let Some(schedule) = schedule {
                    link.change_schedule(now, schedule);
                }
            }
            (link @ None, Some(schedule), Some(queue)) => {
                *link = Some(PathEnd::Own(Link::new(queue, schedule)));
            }
            // A cell keeps its users' channels and queues; a path without a link has neither.
            (None | Some(PathEnd::Shared(_)), _, _) => {}
        }
        let latest = self.in_order.back().map_or(Time::ZERO, |waiting| waiting.at);
        if let Some(delay) = change.delay {
            self.delay.become_other(delay, latest);
        }
        if let Some(base) = change.base_delay {
            match (self.base_delays.first_mut(), base) {
                (Some(old), Some(new)) => old.become_other(new, latest),
                (_, new) => self.base_delays = new.into_iter().collect(),
            }
        }
        // Random loss has no packets of its own, so it is simply replaced.
        if let Some(loss) = change.loss {
            self.loss = loss;
        }
        if let Some(impair) = change.impair {
            self.impair = impair;
        }
        self.look_ahead();
    }

    #[inline]
    fn advance_link(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        let Some(link) = &mut self.link else { return };
        let from = fates.len();
        link.advance(now, fates);
        if let (Some(rrc), Some(last)) = (&self.rrc, fates[from..].last()) {
            rrc.keep_awake(last.packet.departed_at);
        }
    }

    /// When the next packet reaches the queue, or `Time::MAX`.
    #[inline]
    fn next_arrival(&self) -> Time {
        let in_order = self.in_order.front().map_or(Time::MAX, |waiting| waiting.at);
        let other = self.out_of_order.peek().map_or(Time::MAX, |Reverse(other)| other.at);
        in_order.min(other)
    }

    fn pop_arrival(&mut self) -> Option<Packet> {
        let before =
            |other: &WaitingPacket| self.in_order.front().is_none_or(|first| other < first);
        if self.out_of_order.peek().is_some_and(|Reverse(other)| before(other)) {
            return self.out_of_order.pop().map(|Reverse(waiting)| waiting.packet);
        }
        self.in_order.pop_front().map(|waiting| waiting.packet)
    }

    /// Bytes at the bottleneck.
    pub fn backlog(&self) -> u64 {
        self.link.as_ref().map_or(0, PathEnd::backlog)
    }

    /// Packets in flight: in front of the queue, in it, and on the link.
    pub fn packets(&self) -> usize {
        let at_link = self.link.as_ref().map_or(0, PathEnd::packets);
        let late = self.jitter.as_ref().map_or(0, Jitter::packets);
        let waiting = self.in_order.len() + self.out_of_order.len() + self.held.len();
        waiting + self.forwarded.len() + at_link + late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(delay: &str) -> Path {
        let spec = PathSpec {
            trace: Some("constant:1gbit".parse().unwrap()),
            queue: "infinite".parse().unwrap(),
            delay: delay.parse().unwrap(),
            ..PathSpec::default()
        };
        spec.build(1).unwrap()
    }

    /// Ids in the order of reaching the queue, with the times of it.
    fn arrivals(path: &mut Path) -> Vec<(u64, f64)> {
        let mut fates = Vec::new();
        path.advance(Time::from_secs(1_000), &mut fates);
        let arrival = |r: &PacketRecord| (r.packet.id, r.packet.enqueued_at.as_millis_f64());
        fates.iter().map(arrival).collect()
    }

    #[test]
    fn flows_with_shorter_ways_arrive_first() {
        let mut path = path("10ms");
        for (id, extra) in [(0, 30), (1, 0), (2, 30), (3, 5), (4, 0)] {
            let packet = Packet::new(id, 0, 1500, Time::from_millis(id));
            path.push_after(packet, Span::from_millis(extra));
        }
        assert_eq!(path.next_deadline(), Some(Time::from_millis(11)));
        let arrived = arrivals(&mut path);
        assert_eq!(arrived, [(1, 11.0), (4, 14.0), (3, 18.0), (0, 40.0), (2, 42.0)]);
    }

    #[test]
    fn arrivals_of_one_instant_keep_their_order_of_entry() {
        let mut path = path("0ms");
        for (id, sent, extra) in [(0, 0, 20), (1, 1, 9), (2, 5, 5), (3, 10, 10), (4, 10, 0)] {
            let packet = Packet::new(id, 0, 1500, Time::from_millis(sent));
            path.push_after(packet, Span::from_millis(extra));
        }
        let ids: Vec<_> = arrivals(&mut path).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [1, 2, 4, 0, 3]);
    }

    #[test]
    fn the_base_delay_of_a_trace_comes_on_top() {
        let mut files = crate::schedule::TraceFiles::new(|name| {
            Ok(Box::new(if name == "d" { "0 7\n500 9\n" } else { "1\n2\n" }.as_bytes()))
        });
        let trace = TraceSpec::parse("cellreplay:heavy=h,delay=d", &mut files).unwrap();
        let delay = Span::from_millis(20).into();
        let mut path =
            PathSpec { trace: Some(trace), delay, ..PathSpec::default() }.build(1).unwrap();
        path.push(Packet::new(0, 0, 1500, Time::from_millis(1)));
        // Enters the radio part at 481 + 20 ms, when its delay is 9 ms.
        path.push(Packet::new(1, 0, 1500, Time::from_millis(481)));
        assert_eq!(arrivals(&mut path), [(0, 28.0), (1, 510.0)]);
    }

    /// What is counted as offered is what drives the path, in either direction and over handovers.
    #[test]
    fn a_full_path_delivers_what_its_schedule_offers() {
        let spec = PathSpec {
            trace: Some("lte-driving".parse().unwrap()),
            queue: "infinite".parse().unwrap(),
            handovers: vec!["3s/1s".parse().unwrap()],
            ..PathSpec::default()
        };
        let end = Time::from_secs(8);
        let delivered = |mut path: Path| {
            (0..20_000).for_each(|id| path.push(Packet::new(id, 0, 1500, Time::ZERO)));
            let mut fates = Vec::new();
            path.advance(end, &mut fates);
            fates.len() as u64 * 1500
        };
        let offered = |schedule: Result<Option<Box<dyn Schedule>>, PathError>| {
            let mut schedule = schedule.unwrap().unwrap();
            crate::schedule::capacity_between(schedule.as_mut(), Time::ZERO, end)
        };
        let down = (delivered(spec.build(7).unwrap()), offered(spec.schedule(7)));
        let up = (delivered(spec.build_reverse(7).unwrap()), offered(spec.schedule_reverse(7)));
        for (delivered, offered) in [down, up] {
            // The last packet may have begun, and no more.
            assert!(
                delivered > 1_000_000 && offered.abs_diff(delivered) <= 1500,
                "{delivered} of {offered}"
            );
        }
        assert_ne!(down.1, up.1, "each direction has a realisation of its own");
    }

    #[test]
    fn rate_delay_and_loss_change_together_every_five_seconds() {
        // Section 7 of the Verus paper, with distinct values.
        let spec = PathSpec {
            trace: Some("step:12mbit/5s,120mbit/5s".parse().unwrap()),
            delay: "step:10ms/5s,100ms/5s".parse().unwrap(),
            loss: "step:0%/5s,100%/5s".parse().unwrap(),
            ..PathSpec::default()
        };
        let mut path = spec.build(1).unwrap();
        for second in 0..20 {
            path.push(Packet::new(second, 0, 1500, Time::from_secs(second)));
        }
        let mut fates = Vec::new();
        path.advance(Time::from_secs(30), &mut fates);
        for record in fates {
            let second = record.packet.id;
            let first_half = second % 10 < 5;
            let delay = Span::from_millis(if first_half { 10 } else { 100 });
            assert_eq!(record.base_delay(), delay, "{second}");
            assert_eq!(record.fate == Fate::Delivered, first_half, "{second}");
        }
    }

    /// Fates of packets of 1500 bytes, sixteen at 0 ms and one every ms, in a path that becomes
    /// `after` at 10 ms.
    fn changed(before: &PathSpec, after: &PathSpec) -> Vec<PacketRecord> {
        let (mut path, mut fates) = (before.build(1).unwrap(), Vec::new());
        (0..16).for_each(|id| path.push(Packet::new(id, 0, 1500, Time::ZERO)));
        for ms in 1..40 {
            let now = Time::from_millis(ms);
            path.advance(now, &mut fates);
            if ms == 10 {
                path.change(now, after.change_from(before, 1).unwrap(), &mut fates);
            }
            path.push(Packet::new(15 + ms, 0, 1500, now));
        }
        while let Some(next) = path.next_deadline() {
            path.advance(next, &mut fates);
        }
        assert_eq!(fates.len(), 55, "each packet has one fate");
        fates
    }

    fn with_trace(trace: &str) -> PathSpec {
        PathSpec { trace: Some(trace.parse().unwrap()), ..PathSpec::default() }
    }

    #[test]
    fn a_running_link_takes_another_rate_and_keeps_its_queue() {
        let fates = changed(&with_trace("constant:12mbit"), &with_trace("constant:6mbit"));
        assert!(fates.iter().map(|record| record.packet.id).eq(0..55), "in their order");
        let departures: Vec<f64> =
            fates.iter().map(|record| record.packet.departed_at.as_millis_f64()).collect();
        assert_eq!(departures[..12], [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 12., 14.]);
        // As if nothing had changed, where nothing does.
        let same = changed(&with_trace("constant:12mbit"), &with_trace("constant:12mbit"));
        assert_eq!(same[54].packet.departed_at, Time::from_millis(55));
    }

    #[test]
    fn a_running_link_takes_another_queue_and_keeps_what_has_room() {
        let short = |queue: &str| PathSpec {
            queue: queue.parse().unwrap(),
            ..with_trace("constant:12mbit")
        };
        let overflow = |records: &[PacketRecord]| {
            records.iter().filter(|r| r.fate == Fate::Dropped(DropReason::Overflow)).count()
        };
        for queue in ["codel", "fq_codel", "fq", "pie", "red", "drophead:1MB", "infinite"] {
            let fates = changed(&short("infinite"), &short(queue));
            assert_eq!(overflow(&fates), 0, "{queue}");
            let back = changed(&short(queue), &short("droptail:1MB"));
            assert!(back.iter().all(|record| record.fate == Fate::Delivered), "{queue}");
        }
        // Fifteen wait at 10 ms; five have room, and the next packet has not.
        assert_eq!(overflow(&changed(&short("infinite"), &short("droptail:5pkts"))), 11);
    }

    #[test]
    fn a_queue_sized_in_time_changes_with_the_rate() {
        let sized =
            |trace| PathSpec { queue: "droptail:12ms".parse().unwrap(), ..with_trace(trace) };
        let (fast, slow) = (sized("constant:12mbit"), sized("constant:1mbit"));
        // Room for twelve packets, then for one.
        assert!(slow.change_from(&fast, 1).unwrap().queue.is_some());
        assert!(fast.change_from(&fast, 1).unwrap().queue.is_none());
        let in_bdp = |ms| PathSpec {
            queue: "droptail:1bdp".parse().unwrap(),
            rtt: Span::from_millis(ms).into(),
            ..with_trace("constant:12mbit")
        };
        assert!(in_bdp(80).change_from(&in_bdp(40), 1).unwrap().queue.is_some());
    }

    #[test]
    fn a_running_path_takes_another_delay_loss_and_impairment() {
        let before = PathSpec { delay: Span::from_millis(20).into(), ..PathSpec::default() };
        let after = PathSpec {
            delay: Span::from_millis(5).into(),
            impair: "duplicate=100%".parse().unwrap(),
            ..before.clone()
        };
        let (mut path, mut fates) = (before.build(1).unwrap(), Vec::new());
        for (id, ms) in [(0, 0), (1, 10), (2, 20), (3, 40)] {
            path.advance(Time::from_millis(ms), &mut fates);
            path.push(Packet::new(id, 0, 1500, Time::from_millis(ms)));
            if id == 1 {
                let change = after.change_from(&before, 1).unwrap();
                path.change(Time::from_millis(ms), change, &mut fates);
            }
        }
        path.advance(Time::from_secs(1), &mut fates);
        let arrived = |fate: Fate| {
            let of = fates.iter().filter(move |record| record.fate == fate);
            of.map(|r| (r.packet.id, r.packet.departed_at.as_millis_f64())).collect::<Vec<_>>()
        };
        // No packet overtakes: what is sent at 20 ms waits for what was sent at 10 ms.
        let all = [(0, 20.0), (1, 30.0), (2, 30.0), (3, 45.0)];
        assert_eq!((arrived(Fate::Delivered), arrived(Fate::Duplicate)), (all.into(), all.into()));
        let lossy = PathSpec { loss: "99.9%".parse().unwrap(), ..PathSpec::default() };
        let lost = changed(&PathSpec::default(), &lossy);
        let is_lost = |r: &&PacketRecord| r.fate == Fate::Dropped(DropReason::Random);
        assert!((28..=30).contains(&lost.iter().filter(is_lost).count()));
    }

    #[test]
    fn a_path_without_a_limit_gets_one_and_keeps_it() {
        let (free, slow) = (PathSpec::default(), with_trace("constant:1mbit"));
        let fates = changed(&free, &slow);
        assert_eq!(fates[24].packet.departed_at, Time::from_millis(9));
        assert_eq!(
            fates[54].packet.departed_at - fates[53].packet.departed_at,
            Span::from_millis(12)
        );
        assert!(free.change_from(&slow, 1).is_err());
    }

    proptest! {
        #[test]
        fn packets_of_a_flow_never_reorder(
            seed: u64,
            sends in prop::collection::vec((0_u64..30_000, 0_usize..4), 1..300),
        ) {
            let spec = PathSpec {
                trace: Some("random:1mbit..90mbit/50ms".parse().unwrap()),
                queue: "infinite".parse().unwrap(),
                delay: "random:0ms..200ms/30ms".parse().unwrap(),
                loss: "random:0%..20%/30ms".parse().unwrap(),
                ..PathSpec::default()
            };
            let run = || {
                let mut path = spec.build(seed).unwrap();
                let (mut now, mut fates) = (Time::ZERO, Vec::new());
                for (id, (gap, flow)) in sends.iter().enumerate() {
                    now += Span::from_micros(*gap);
                    path.advance(now, &mut fates);
                    let packet = Packet::new(id as u64, *flow as u32, 1500, now);
                    path.push_after(packet, Span::from_millis([0, 1, 40, 200][*flow]));
                }
                path.advance(Time::from_secs(1_000), &mut fates);
                fates
            };
            let fates = run();
            prop_assert_eq!(fates.len(), sends.len(), "each packet has one fate");
            prop_assert!(fates.windows(2).all(|w| w[0].packet.departed_at <= w[1].packet.departed_at));
            let delivered = |r: &&PacketRecord| r.fate == Fate::Delivered;
            for flow in 0..4 {
                let of_flow = fates.iter().filter(delivered).filter(|r| r.packet.flow == flow);
                prop_assert!(of_flow.map(|r| r.packet.id).is_sorted());
            }
            prop_assert_eq!(run(), fates, "the same seed gives the same run");
        }
    }
}
