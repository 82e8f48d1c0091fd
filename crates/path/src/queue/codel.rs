//! CoDel, RFC 8289: drops or marks at the head when packets have waited too long for too long.

use cellpace_base::{ByteCount, Span, Time, params};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, Packet};

params! {
    /// What CoDel and FQ-CoDel share.
    #[derive(Copy, PartialEq)]
    pub(super) struct CodelParams {
        /// Delay that may stand in the queue
        target: Span = "5ms" in Span::from_micros(1)..=Span::from_secs(60),
            from "RFC 8289 section 4.4", logarithmic;
        /// How long the delay may stand above target before the first drop; about a worst-case RTT
        interval: Span = "100ms" in Span::from_micros(1)..=Span::from_secs(60),
            from "RFC 8289 section 4.3", logarithmic;
        /// A backlog up to this is never too long
        mtu: ByteCount = "1500B" in 0..=1_000_000, from "RFC 8289 section 4.2";
        /// Mark packets in place of dropping them, where their senders understand that
        ecn: bool = "false", from "RFC 3168 section 5; RFC 8290 section 5.2.7";
        /// Also mark every packet that has waited longer than this, whatever the law says
        ce_threshold: Option<Span> = "" in Span::from_micros(1)..=Span::from_secs(60),
            from "Linux sch_codel, for DCTCP", logarithmic;
    }
}

params! {
    /// The parameters of one queue under CoDel.
    #[derive(Copy, PartialEq)]
    pub(super) struct CodelQueueParams {
        /// Hard limit, bytes or packets
        limit: Limit = "1000pkts", from "own choice, as in Linux tc", logarithmic;
    }
    with { codel: CodelParams }
}

/// A FIFO under CoDel.
#[derive(Debug)]
pub(super) struct Codel {
    params: CodelQueueParams,
    control: CodelState,
    fifo: Fifo,
}

impl Codel {
    /// An empty queue.
    pub(super) const fn new(params: CodelQueueParams) -> Self {
        Self { params, control: CodelState::new(), fifo: Fifo::new() }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        // CoDel has no limit of its own; a full buffer still drops at the tail.
        if !self.params.limit.has_room(&self.fifo, packet.size) {
            drops.push((packet, DropReason::Overflow));
            return;
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.control.dequeue(&self.params.codel, &mut self.fifo, now, drops)
    }

    fn into_packets(self: Box<Self>) -> Vec<Packet> {
        self.fifo.into_packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }
}

/// The state of CoDel for one line of packets (RFC 8289 section 5.2), separate from the line
/// because FQ-CoDel has a thousand of them.
#[derive(Debug, Clone)]
pub(super) struct CodelState {
    /// When the delay will have been above target for an interval; `None` while it is below.
    first_above: Option<Time>,
    /// When to drop next, in drop state.
    drop_next: Time,
    /// Drops in this drop state, which set the pace.
    count: u32,
    /// `count` at the last entry into drop state.
    last_count: u32,
    dropping: bool,
}

/// What left the line, and whether it has waited too long for too long.
struct HeadPacket {
    packet: Option<Packet>,
    ok_to_drop: bool,
}

impl HeadPacket {
    /// Marks the packet, if that may stand for its drop.
    fn mark(&mut self, config: &CodelParams) -> bool {
        config.ecn && self.packet.as_mut().is_some_and(Packet::mark)
    }
}

impl CodelState {
    pub(super) const fn new() -> Self {
        Self { first_above: None, drop_next: Time::ZERO, count: 0, last_count: 0, dropping: false }
    }

    /// Takes the next packet that may live, dropping those in front of it that may not, and marks
    /// it if it has waited longer than the threshold of marks.
    pub(super) fn dequeue(
        &mut self,
        config: &CodelParams,
        fifo: &mut Fifo,
        now: Time,
        drops: &mut Drops,
    ) -> Option<Packet> {
        let mut packet = self.dequeue_by_law(config, fifo, now, drops)?;
        if config.ce_threshold.is_some_and(|most| now - packet.enqueued_at > most) {
            packet.mark();
        }
        Some(packet)
    }

    /// RFC 8289 section 5.5. A mark counts as a drop, but ends the call: one is enough for a
    /// packet that leaves. Every other round of the loop drops a packet, so that the work is
    /// bounded by the backlog however long ago the last call was.
    fn dequeue_by_law(
        &mut self,
        config: &CodelParams,
        fifo: &mut Fifo,
        now: Time,
        drops: &mut Drops,
    ) -> Option<Packet> {
        let mut head = self.take(config, fifo, now);
        // Leaving the state keeps `count`: the next one begins with it if it comes soon.
        if !head.ok_to_drop {
            self.dropping = false;
            return head.packet;
        }
        if !self.dropping {
            // With a mark in place of the drop the marked packet itself leaves.
            if !head.mark(config) {
                drop_packet(head.packet, drops);
                head = self.take(config, fifo, now);
            }
            self.start_dropping(config, now);
            return head.packet;
        }
        while self.dropping && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if head.mark(config) {
                self.drop_next = control_law(config, self.drop_next, self.count);
                return head.packet;
            }
            drop_packet(head.packet, drops);
            head = self.take(config, fifo, now);
            self.dropping = head.ok_to_drop;
            if self.dropping {
                self.drop_next = control_law(config, self.drop_next, self.count);
            }
        }
        head.packet
    }

    /// Takes the head of the line and judges its sojourn time (RFC 8289 section 5.6).
    fn take(&mut self, config: &CodelParams, fifo: &mut Fifo, now: Time) -> HeadPacket {
        let Some(packet) = fifo.pop() else {
            self.first_above = None;
            return HeadPacket { packet: None, ok_to_drop: false };
        };
        let sojourn = now - packet.enqueued_at;
        // With less than one packet behind it a drop would only let the link run dry.
        if sojourn < config.target || fifo.bytes() <= config.mtu.0 {
            self.first_above = None;
            return HeadPacket { packet: Some(packet), ok_to_drop: false };
        }
        let ok_to_drop = match self.first_above {
            // Above target for a whole interval: not a burst that drains by itself.
            Some(time) => now >= time,
            None => {
                self.first_above = Some(now + config.interval);
                false
            }
        };
        HeadPacket { packet: Some(packet), ok_to_drop }
    }

    /// RFC 8289 section 5.5: the pace of the last drop state was about right if it ended not
    /// long ago, so that the new one begins with it.
    fn start_dropping(&mut self, config: &CodelParams, now: Time) {
        const RECENT_INTERVALS: u64 = 16;
        let delta = self.count.saturating_sub(self.last_count);
        // `drop_next` is when the last state would have dropped next: the time since it ended.
        let recent = now - self.drop_next < config.interval * RECENT_INTERVALS;
        self.dropping = true;
        // Not the whole count, which also holds what earlier drop states added up.
        self.count = if delta > 1 && recent { delta } else { 1 };
        // From now: the state may begin long after the last drop of the one before.
        self.drop_next = control_law(config, now, self.count);
        self.last_count = self.count;
    }
}

/// RFC 8289 section 3.3: the time of the next drop comes nearer with the root of the count.
fn control_law(config: &CodelParams, from: Time, count: u32) -> Time {
    from + config.interval.mul_f64(f64::from(count).sqrt().recip())
}

fn drop_packet(packet: Option<Packet>, drops: &mut Drops) {
    drops.extend(packet.map(|packet| (packet, DropReason::Aqm)));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, packet};
    use super::*;
    use cellpace_base::{Ecn, ParamSet};

    /// Times at which a queue of packets with this codepoint has one dropped, and marked: two
    /// arrive for each that leaves, one each millisecond.
    fn signals(rest: &str, ecn: Ecn) -> (Vec<u64>, Vec<u64>) {
        let rest = format!("limit=1000000pkts,{rest}");
        let mut queue = Codel::new(CodelQueueParams::parse("codel", &rest).unwrap());
        let (mut drops, mut dropped, mut marked) = (Drops::new(), Vec::new(), Vec::new());
        for ms in 0..2_000 {
            let now = Time::from_millis(ms);
            for id in 0..2 {
                let packet = Packet { ecn, ..packet(2 * ms + id, 1500, now) };
                queue.enqueue(now, packet, &mut drops);
            }
            let left = queue.dequeue(now, &mut drops);
            marked.extend(left.filter(|packet| packet.marked).map(|_| ms));
            dropped.extend(drops.drain(..).map(|_| ms));
        }
        (dropped, marked)
    }

    #[test]
    fn rfc8290_a_mark_stands_for_a_drop_of_the_law() {
        let (dropped, none) = signals("ecn=false", Ecn::Ect0);
        assert!(dropped.len() > 40 && none.is_empty());
        for ecn in [Ecn::Ect0, Ecn::Ect1] {
            let (lost, marked) = signals("ecn=true", ecn);
            assert!(lost.is_empty());
            assert_eq!(marked[..10], dropped[..10], "at the same times, until drops shorten it");
        }
        assert_eq!(signals("ecn=true", Ecn::NotEct), (dropped, vec![]));
        let (lost, marked) = signals("ecn=true", Ecn::Ce);
        assert_eq!((lost, marked), (vec![], vec![]), "another queue's marks are not its own");
    }

    #[test]
    fn a_threshold_marks_whatever_the_law_says() {
        let (lost, marked) = signals("target=60s,ce_threshold=100ms", Ecn::Ect1);
        assert!(lost.is_empty());
        // Of each two that arrive one leaves: at 201 ms the head has waited for 101.
        assert_eq!((marked[0], marked.len()), (201, 2_000 - 201));
        assert_eq!(signals("target=60s,ce_threshold=100ms", Ecn::NotEct).1, [0_u64; 0]);
    }

    /// A queue on a link that takes one packet each millisecond.
    struct Bench {
        queue: Codel,
        now: Time,
        drops: Drops,
        drop_times: Vec<f64>,
    }

    const TICK: Span = Span::from_millis(1);

    impl Bench {
        fn new() -> Self {
            let params = CodelQueueParams::parse("codel", "limit=1000000pkts").unwrap();
            Self {
                queue: Codel::new(params),
                now: Time::ZERO,
                drops: Drops::new(),
                drop_times: Vec::new(),
            }
        }

        fn tick(&mut self, arrivals: usize) {
            for id in 0..arrivals {
                self.queue.enqueue(self.now, packet(id as u64, 1500, self.now), &mut self.drops);
            }
            self.now += TICK;
            self.queue.dequeue(self.now, &mut self.drops);
            for (_, reason) in self.drops.drain(..) {
                assert_eq!(reason, DropReason::Aqm);
                self.drop_times.push(self.now.as_millis_f64());
            }
        }

        fn ticks(&mut self, count: usize, arrivals: usize) {
            for _ in 0..count {
                self.tick(arrivals);
            }
        }

        /// Lets the link take everything.
        fn drain(&mut self) {
            while self.queue.packets() > 0 {
                self.tick(0);
            }
        }

        /// Overload until there were `count` more drops; their times.
        fn overload(&mut self, count: usize) -> Vec<f64> {
            let seen = self.drop_times.len();
            while self.drop_times.len() < seen + count {
                self.tick(2);
            }
            self.drop_times[seen..seen + count].to_vec()
        }
    }

    #[test]
    fn rfc8289_constants() {
        let config = CodelParams::defaults();
        assert_eq!(config.target, Span::from_millis(5));
        assert_eq!(config.interval, Span::from_millis(100));
        assert_eq!(config.mtu.0, 1500);
    }

    #[test]
    fn rfc8289_first_drop_comes_an_interval_after_the_delay_passed_target() {
        let mut bench = Bench::new();
        // Two packets in and one out each millisecond: packet number k (from 1) leaves at k and
        // came at floor((k - 1) / 2), so that the eighth is the first that waited 5 ms.
        let first = bench.overload(1)[0];
        assert_eq!(first, 108.0);
    }

    #[test]
    fn rfc8289_drops_follow_the_control_law() {
        let mut bench = Bench::new();
        let times = bench.overload(20);
        let mut due = times[0];
        for (index, time) in times.iter().enumerate().skip(1) {
            due += 100.0 / (index as f64).sqrt();
            assert!((due..due + 1.0).contains(time), "drop {index} at {time}, due at {due}");
        }
    }

    #[test]
    fn rfc8289_drop_state_ends_when_the_delay_is_below_target() {
        let mut bench = Bench::new();
        bench.overload(5);
        bench.drain();
        let drops = bench.drop_times.len();
        // Three packets stand all the time: 3 ms.
        bench.tick(3);
        bench.ticks(10_000, 1);
        assert_eq!(bench.drop_times.len(), drops);
        assert!(!bench.queue.control.dropping);
    }

    #[test]
    fn rfc8289_one_packet_below_target_starts_the_interval_anew() {
        let mut bench = Bench::new();
        // Bursts of 60 packets stand above target for 55 ms, again and again.
        for _ in 0..100 {
            bench.tick(60);
            bench.drain();
        }
        assert!(bench.drop_times.is_empty());
    }

    #[test]
    fn rfc8289_a_standing_queue_of_target_is_dropped_from() {
        let mut bench = Bench::new();
        bench.tick(6);
        bench.ticks(2_000, 1);
        // Six packets are 6 ms. The first drop leaves 5 ms, which is not below target.
        assert_eq!(bench.drop_times.len(), 2);
        assert_eq!(bench.queue.packets(), 3);
    }

    #[test]
    fn rfc8289_count_goes_on_from_the_last_drop_state_if_that_is_recent() {
        let mut bench = Bench::new();
        bench.overload(10);
        let before = bench.queue.control.count;
        bench.drain();
        let delta = bench.queue.control.count - bench.queue.control.last_count;
        assert!(delta >= before - 1, "{delta} {before}");
        let again = bench.overload(2);
        let due = again[0] + 100.0 / f64::from(delta).sqrt();
        assert!((due..due + 1.0).contains(&again[1]), "{again:?} {delta}");
    }

    #[test]
    fn rfc8289_count_starts_at_one_when_the_last_drop_state_is_long_ago() {
        let mut bench = Bench::new();
        bench.overload(10);
        bench.drain();
        bench.ticks(1600, 0);
        let again = bench.overload(2);
        assert_eq!(again[1] - again[0], 100.0);
    }

    #[test]
    fn rfc8289_the_last_packet_is_never_dropped() {
        let mut queue = Codel::new(CodelQueueParams::defaults());
        let mut drops = Drops::new();
        let mut now = Time::ZERO;
        for id in 0..100 {
            queue.enqueue(now, packet(id, 1500, now), &mut drops);
            now += Span::from_secs(3600);
            assert!(queue.dequeue(now, &mut drops).is_some());
        }
        assert!(drops.is_empty());
    }

    #[test]
    fn an_outage_of_an_hour_in_drop_state_costs_at_most_the_backlog() {
        let mut bench = Bench::new();
        bench.overload(3);
        let waiting = bench.queue.packets();
        bench.now += Span::from_secs(3600);
        assert!(bench.queue.dequeue(bench.now, &mut bench.drops).is_some());
        // The law has 36 000 drops to make up for; what is left is spared by its size.
        assert_eq!(bench.drops.len() + 1 + bench.queue.packets(), waiting);
        assert!(bench.queue.bytes() <= 1500);
    }

    #[test]
    fn a_full_queue_overflows() {
        let params = CodelQueueParams { limit: Limit::Packets(2), ..CodelQueueParams::defaults() };
        let mut queue = Codel::new(params);
        assert_eq!(arrive(&mut queue, Time::ZERO, &[(1, 1500), (2, 1500), (3, 1500)]), [3]);
    }
}
