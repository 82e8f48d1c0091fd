//! One direction of a path: delay, then random loss, then queue and link.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use cellpace_base::{Random, Span, Time};

use crate::error::PathError;
use crate::handover::interrupted;
use crate::{
    Delay, DelaySpec, DropReason, Fate, Handover, Link, LossModel, LossSpec, Packet, PacketRecord,
    QueueSpec, TraceSpec,
};

/// Everything that makes one direction of a path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathSpec {
    /// When the link may deliver; `None`: there is no bottleneck, packets leave as they arrive.
    pub trace: Option<TraceSpec>,
    /// What waits in front of it.
    pub queue: QueueSpec,
    /// Delay in front of the queue, beside what the trace itself brings
    /// ([`TraceSpec::base_delay`]).
    pub delay: DelaySpec,
    /// Random loss in front of the queue.
    pub loss: LossSpec,
    /// Changes of the path, in the order of time and without overlap
    /// ([`Handover::check_order`]). A new RTT replaces `delay`, not what the trace brings.
    pub handovers: Vec<Handover>,
}

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
        self.build_seeded(Random::seeded(seed, REVERSE_STREAM).bits(), seed)
    }

    fn build_seeded(&self, seed: u64, delay_seed: u64) -> Result<Path, PathError> {
        let link = match &self.trace {
            Some(trace) => {
                let queue = self.queue.build(Random::seeded(seed, QUEUE_STREAM));
                Some(Link::new(queue, interrupted(trace.build(seed)?, &self.handovers)))
            }
            None => None,
        };
        let base_delay = self.trace.as_ref().and_then(TraceSpec::base_delay);
        let delay = |spec: &DelaySpec, stream| spec.build(&mut Random::seeded(delay_seed, stream));
        Ok(Path {
            delay: delay(&self.delay, DELAY_STREAM),
            base_delay: base_delay.map(|spec| delay(spec, BASE_DELAY_STREAM)),
            in_order: VecDeque::new(),
            out_of_order: BinaryHeap::new(),
            arrivals: 0,
            loss: self.loss.build(Random::seeded(seed, LOSS_STREAM)),
            link,
            handovers: self.handovers.iter().copied().collect(),
            held: Vec::new(),
        })
    }
}

/// The streams of draws of a path's parts, the same in every path, so that two paths of the same
/// seed (the directions of one RTT) draw the same delays. The trace's is in `schedule`.
const QUEUE_STREAM: u64 = 1;
const LOSS_STREAM: u64 = 2;
const DELAY_STREAM: u64 = 3;
const BASE_DELAY_STREAM: u64 = 5;
const REVERSE_STREAM: u64 = 6;

/// One direction of a path, advanced by the owner of the clock.
pub struct Path {
    delay: Delay,
    base_delay: Option<Delay>,
    /// Packets on their way to the queue that arrive in the order of entry: nearly all.
    in_order: VecDeque<WaitingPacket>,
    /// Those that arrive before one that entered earlier (of a flow with a longer way), by
    /// arrival, then by order of entry.
    out_of_order: BinaryHeap<Reverse<WaitingPacket>>,
    arrivals: u64,
    loss: LossModel,
    link: Option<Link>,
    /// Handovers that are not over, in the order of time.
    handovers: VecDeque<Handover>,
    /// Packets that an interruption keeps from leaving a path without a link.
    held: Vec<Packet>,
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
        if let Some(base) = &mut self.base_delay {
            at = base.arrival(at);
        }
        at += extra;
        self.arrivals += 1;
        let waiting = WaitingPacket { at, order: self.arrivals, packet };
        if self.in_order.back().is_none_or(|last| last.at <= at) {
            self.in_order.push_back(waiting);
        } else {
            self.out_of_order.push(Reverse(waiting));
        }
    }

    /// A packet enters at `packet.sent_at`.
    pub fn push(&mut self, packet: Packet) {
        self.push_after(packet, Span::ZERO);
    }

    /// When the model next wants to be advanced.
    pub fn next_deadline(&self) -> Option<Time> {
        let departure = self.link.as_ref().and_then(Link::next_deadline);
        let change = self.handovers.front().map(Handover::end);
        let or_never = |time: Option<Time>| time.unwrap_or(Time::MAX);
        let next = or_never(self.next_arrival()).min(or_never(departure)).min(or_never(change));
        (next != Time::MAX).then_some(next)
    }

    /// Lets happen everything up to `now`; what became of packets is added to `fates` in the
    /// order of time. Opportunities go before arrivals of the same instant.
    pub fn advance(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        loop {
            let arrival = self.next_arrival().unwrap_or(Time::MAX);
            let change = self.handovers.front().map_or(Time::MAX, Handover::end);
            if change <= now && change <= arrival {
                self.change_path(change, fates);
            } else if arrival <= now {
                self.arrive(arrival, fates);
            } else {
                break;
            }
        }
        self.advance_link(now, fates);
    }

    /// The next packet reaches the queue.
    fn arrive(&mut self, at: Time, fates: &mut Vec<PacketRecord>) {
        self.advance_link(at, fates);
        let Some(mut packet) = self.pop_arrival() else { return };
        packet.enqueued_at = at;
        packet.dequeued_at = at;
        packet.departed_at = at;
        if self.loss.loses(at) {
            fates.push(PacketRecord { packet, fate: Fate::Dropped(DropReason::Random) });
            return;
        }
        let interrupted = self.handovers.front().is_some_and(|handover| handover.at <= at);
        match &mut self.link {
            Some(link) => link.push(packet, fates),
            None if interrupted => self.held.push(packet),
            None => fates.push(PacketRecord { packet, fate: Fate::Delivered }),
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
        if let Some(link) = self.link.as_mut().filter(|_| handover.queue_lost) {
            link.drop_all(now, fates);
        }
        if let Some(rtt) = handover.rtt {
            let latest = self.in_order.back().map_or(Time::ZERO, |waiting| waiting.at);
            self.delay.become_constant(rtt / 2, latest);
        }
    }

    fn advance_link(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        if let Some(link) = &mut self.link {
            link.advance(now, fates);
        }
    }

    fn next_arrival(&self) -> Option<Time> {
        let in_order = self.in_order.front().map(|waiting| waiting.at);
        match self.out_of_order.peek() {
            None => in_order,
            Some(Reverse(other)) => Some(in_order.map_or(other.at, |at| at.min(other.at))),
        }
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
        self.link.as_ref().map_or(0, Link::backlog)
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
                handovers: Vec::new(),
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
